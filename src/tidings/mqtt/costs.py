"""What a client can make expensive, in steps, and how many steps one turn spends on it.

A step is about a tenth of a millisecond of one core. SUBSCRIBE, UNSUBSCRIBE and requests to the broker are
counted: a turn that has spent `TURN_STEPS` begins no more of them, and the clients that sent them wait for
another turn. Retained messages are counted apart. The figures were measured on a broker with two links.
"""

from __future__ import annotations

from collections.abc import Iterable

TURN_STEPS = 100
"""What SUBSCRIBE, UNSUBSCRIBE and requests of all clients may cost in one turn: about 10 ms."""

REQUEST_STEPS = 40
"""A request to the broker itself, which may ask for all that is declared."""

TOPIC_FILTER_STEPS = 1
"""To subscribe to one topic filter, or to unsubscribe: 40 us alone, 100 us with links."""

FILTER_CHARACTERS = 5
"""Of a content filter, for a step."""

FILTER_STEPS_MAX = 50
"""Of a content filter: 5 ms. One that would take longer is refused on the way."""

CHECKS_PER_STEP = 256
"""Topic filters whose form is looked at for a step."""

RETAINED_PER_TURN = 200
"""Retained messages that one turn looks at, for all sessions: 2 to 4 ms. A large one counts for several."""

RETAINED_SLICE = 50
"""And for one session before the next has its turn."""

RETAINED_UNIT_BYTES = 1024


def filter_steps(texts: Iterable[str]) -> int:
    """What it takes to read content filters."""
    return sum(min(FILTER_STEPS_MAX, len(text) // FILTER_CHARACTERS) for text in texts)


def retained_looks(size: int) -> int:
    """How many more small ones a retained message of a size counts for: its content must be read."""
    return size // RETAINED_UNIT_BYTES
