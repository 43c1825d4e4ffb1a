"""Simulations, and the experiments of papers."""
