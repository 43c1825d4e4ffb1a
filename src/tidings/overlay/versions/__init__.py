"""Versions: what a subscriber sees of an event that grows, and what those get who come later."""
