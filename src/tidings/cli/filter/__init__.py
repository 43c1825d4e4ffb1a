"""Filters: looked at and compared."""
