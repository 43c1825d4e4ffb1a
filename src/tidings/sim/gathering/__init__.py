"""Runs of gathered topics: noisy reports in, events out, and the promises that judge them."""
