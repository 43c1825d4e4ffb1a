"""How large a filter may be.

Every limit bounds the cost of something a stranger can send: the time to parse, to normalise, to match, and
the bytes that a broker keeps and forwards. They are far above what people write (the longest filter in our
examples has 180 characters) and low enough that the worst filter is read or refused within 5 ms;
benchmarks/hostile_filters.py shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.errors import FilterTooCostly


@dataclass(frozen=True, slots=True)
class Limits:
    """What a filter may cost."""

    text: int = 16_384
    """Characters, as written and in normal form."""

    tokens: int = 4_096
    """Words, names, literals and signs."""

    depth: int = 16
    """Parentheses and NOTs within each other. The parser recurses about twenty frames for each."""

    listed: int = 1_024
    """Values in one IN list."""

    disjuncts: int = 64
    """Conjunctions in the normal form, at any step on the way to it."""

    patterns: int = 64
    """LIKE patterns."""

    pattern: int = 256
    """Characters of one LIKE pattern."""

    searched: int = 200
    """Characters that LIKE looks for in a text, see `like.searched`, over all patterns.

    A filter takes some 10 ms at most for a text of a million characters, the longest in a payload.
    """

    path: int = 16
    """Names in one field path."""

    steps: int = 3_300
    """See `Steps`: to read one filter, or all of one SUBSCRIBE, and to read it again in its normal form.

    A list of a thousand values takes as many. Together with what else a grant takes it is 5 ms.
    """


DEFAULT = Limits()

TOLD = Limits(steps=4 * DEFAULT.steps)
"""For what another broker has granted: there it was within the limits, and is known in another form here."""


class Steps:
    """What has been done to read filters, counted while it is done, and refused beyond a limit.

    A step is about a microsecond of one core of 2026. The weights in `grammar` and `normal` were measured
    with benchmarks/hostile_filters.py; they are the same on every machine, so that all brokers refuse the
    same filters.
    """

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0

    def take(self, count: int) -> None:
        """Count some steps that are about to be done; raises FilterTooCostly."""
        self.spent += count
        if self.spent > self.limit:
            raise FilterTooCostly(
                f"reading the filter takes more than {self.limit} steps, which is the limit; "
                "split it into several subscriptions"
            )


WHOLE_DIGITS, FRACTION_DIGITS = 20, 18
"""Digits of a decimal literal, before and behind the point.

Beyond, Spark's DECIMAL(38) cannot hold a BIGINT beside the literal, and drops digits.
"""
