"""Delay bounds within bandwidth budgets: the experiments of `qos-delay-bandwidth-overlay`, run again.

README.md is the page: what the paper says, what we found, and why they differ where they do.
"""
