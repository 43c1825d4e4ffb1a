"""Runs of overlays of peers, and the promises that judge them."""
