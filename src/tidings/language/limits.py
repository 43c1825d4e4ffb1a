"""How large a filter may be.

Every limit bounds the cost of something a stranger can send: the time to parse, to normalise, to match, and
the bytes that a broker keeps and forwards. They are far above what people write (the longest filter in our
examples has 180 characters) and low enough that the worst filter is refused within some tens of milliseconds;
benchmarks/filters.py shows it.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    points: int = 4_096
    """Bounds and listed values in the normal form."""

    terms: int = 1_024
    """Constraints on fields in the normal form, over all its conjunctions."""

    patterns: int = 64
    """LIKE patterns."""

    pattern: int = 256
    """Characters of one LIKE pattern."""

    path: int = 16
    """Names in one field path."""


DEFAULT = Limits()

WHOLE_DIGITS, FRACTION_DIGITS = 20, 18
"""Digits of a decimal literal, before and behind the point.

Beyond, Spark's DECIMAL(38) cannot hold a BIGINT beside the literal, and drops digits.
"""
