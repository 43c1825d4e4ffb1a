"""Tidings: content-based publish/subscribe for events that are reported imperfectly."""

__version__ = "0.1.0"
