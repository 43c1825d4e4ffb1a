"""What a client can make expensive, in steps, and how many steps one turn spends on it.

A step is about a microsecond of one core. SUBSCRIBE, UNSUBSCRIBE and requests to the broker are counted: a
turn that has spent `TURN_STEPS` begins no more of them, and the clients that sent them wait for another turn.
What reading a content filter takes is counted while it is done (`language.limits.Steps`), the rest is known
beforehand. Retained messages are counted apart.
"""

from __future__ import annotations

TURN_STEPS = 5_000
"""What SUBSCRIBE, UNSUBSCRIBE and requests of all clients may cost in one turn."""

REQUEST_STEPS = 4_000
"""A request to the broker itself, which may ask for all that is declared."""

TOPIC_FILTER_STEPS = 100
"""To subscribe to one topic filter, or to unsubscribe: 40 on a broker alone, 100 on one with links."""

CHECKED_TOGETHER = 256
CHECKED_STEPS = 128
"""Topic filters whose form is looked at before others may have their turn, and what that takes."""

PROPERTY_STEPS = 2
"""To see whether a user property that is not ours is a misspelt one."""

RETAINED_PER_TURN = 200
"""Retained messages that one turn looks at, for all sessions: 2 to 4 ms. A large one counts for several."""

RETAINED_SLICE = 50
"""And for one session before the next has its turn."""

RETAINED_UNIT_BYTES = 1024


def retained_looks(size: int) -> int:
    """How many more small ones a retained message of a size counts for: its content must be read."""
    return size // RETAINED_UNIT_BYTES
