"""Gathering in a network: which broker has a seat, its replica, and reports on their way to it."""
