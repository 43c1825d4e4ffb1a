"""How many examples Hypothesis draws for a test that needs more or fewer than others."""

from __future__ import annotations

from hypothesis import settings

ALL = 100
"""Examples of a test that names no number, behind `make test-all`."""


def examples(count: int) -> int:
    """So many behind `make test-all`, and in the gate the share that all tests get there."""
    return max(1, count * settings().max_examples // ALL)
