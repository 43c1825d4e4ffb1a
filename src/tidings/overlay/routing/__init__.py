"""Routing: who wants what, and what every broker of the network knows."""
