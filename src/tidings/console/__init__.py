"""Pages of a network: what happened on it, and what a plan would change, for people to look at.

It draws values and measures none.
"""
