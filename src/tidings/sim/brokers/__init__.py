"""Runs of brokers with simulated clients: their trace, and the promises that judge it."""
