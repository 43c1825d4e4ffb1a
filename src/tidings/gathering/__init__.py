"""Gathering: how reports about one thing become one event that grows.

`Gatherer` is the machine: it is fed reports and the time, and gives out what is told. `policies` say what an
event keeps of two values, `entries` what is held of one event, `copies` how it travels, `digests` what stays
of it when there is no room. `replay` runs a file of reports through the machine. Nothing here knows a
network, a clock or a file.
"""

from __future__ import annotations

from tidings.gathering.entries import Entry
from tidings.gathering.gatherer import Closing, Counts, Decision, Fate, Gatherer, State, Telling

__all__ = ["Closing", "Counts", "Decision", "Entry", "Fate", "Gatherer", "State", "Telling"]
