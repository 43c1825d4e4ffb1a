"""Campaigns: many seeds of whole networks, with faults that strike the protocol itself.

`python -m tests.simulation.campaign --help` says how to run one.
"""
