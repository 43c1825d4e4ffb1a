"""Lengths of time as people write them: `4s`, `250ms`, `1h30m`.

Inside, a duration is a whole number of microseconds, rounded once, here. A bare number is refused, because
nobody can tell whether it means seconds or milliseconds; only zero needs no unit.

>>> parse("1h30m"), text(5_400_000_000)
(5400000000, '90m')
"""

from __future__ import annotations

import re
from fractions import Fraction

UNITS_US = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in each unit, the widest first."""

DURATION_US_MAX = 36_525 * UNITS_US["d"]
"""A hundred years. Longer is a slip of the pen, and sums of clocks stay far inside 64 bits."""

_LENGTH_MAX = 64
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|µs|ms|s|m|h|d)")
_WAY_OUT = "write a number and a unit (us, ms, s, m, h, d), such as '4s', '250ms' or '1h30m'"


def parse(value: object) -> int:
    """Microseconds in a duration as written; ValueError says what is wrong with it."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == 0:
            return 0
        raise ValueError(f"{value!r} has no unit; {_WAY_OUT}")
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; {_WAY_OUT}")
    if value == "0":
        return 0
    if len(value) > _LENGTH_MAX:
        raise ValueError(f"a duration of {len(value)} characters is too long to be one; {_WAY_OUT}")
    total = Fraction(0)
    smallest = DURATION_US_MAX
    whole = True
    at = 0
    while part := _PART.match(value, at):
        unit_us = UNITS_US[part[2].replace("µ", "u")]
        if unit_us >= smallest:
            raise ValueError(f"{value!r} does not go from wide units to narrow ones; {_WAY_OUT}")
        if not whole:
            raise ValueError(f"{value!r} has a fraction before its last unit; {_WAY_OUT}")
        total += Fraction(part[1]) * unit_us
        smallest, whole, at = unit_us, "." not in part[1], part.end()
    if at == 0 or at < len(value):
        raise ValueError(f"{value!r} is not a duration; {_WAY_OUT}")
    if total > DURATION_US_MAX:
        raise ValueError(f"{value!r} is longer than a hundred years, the longest duration allowed")
    return round(total)


def text(duration_us: int) -> str:
    """A duration as `parse` reads it, in the widest unit that needs no fraction."""
    if duration_us == 0:
        return "0s"
    unit = next(unit for unit, unit_us in UNITS_US.items() if duration_us % unit_us == 0)
    return f"{duration_us // UNITS_US[unit]}{unit}"
