"""Numbers and times as they are written in a filter, and as the axis of a field wants them.

The rules are those under which Spark, given the same text, says the same of every row; where Spark's rule
would surprise, the literal is refused (docs/design/0004-filters.md has the list and the reasons).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tidings.language import timestamps
from tidings.language.cuts import DOUBLES, EXACT_INT_MAX, INTS
from tidings.language.fields import Type
from tidings.language.limits import FRACTION_DIGITS, WHOLE_DIGITS

GREATEST_DOUBLE = Decimal(DOUBLES.greatest)

WRITTEN = re.compile(r"-?(([0-9]+)(?:\.([0-9]*))?)(e[+-]?[0-9]{1,4})?", re.ASCII)

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?(Z|[+-]\d\d:\d\d)?)?)?", re.ASCII)
"""The forms of a time that Spark reads as we do.

It drops digits beyond the sixth, where a payload rounds, and knows no offset without seconds.
"""

MANTISSA_MAX = 40
"""Characters before an exponent."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    exact: Decimal
    """Its value."""

    double: bool
    """Whether it has an exponent, which makes it a DOUBLE in Spark, not a DECIMAL."""


def number(text: str) -> Number:
    """The number that a text says; ValueError says what is wrong with it."""
    written = text.lower()
    found = WRITTEN.fullmatch(written)
    if found is None:
        raise ValueError("a number is written 12, 1.5 or 1.5e3")
    mantissa, whole, fraction, exponent = found.groups()
    if exponent:
        exact = Decimal(written)
        size = abs(exact)
        if size > GREATEST_DOUBLE or (float(written) == 0 and size != 0) or len(mantissa) > MANTISSA_MAX:
            raise ValueError("a number with exponent must be one that a 64-bit float holds")
        return Number(exact, True)
    if len(whole.lstrip("0")) > WHOLE_DIGITS or len(fraction or "") > FRACTION_DIGITS:
        raise ValueError(
            f"at most {WHOLE_DIGITS} digits before the point, {FRACTION_DIGITS} behind; else write 1e30"
        )
    return Number(Decimal(written), False)


def time(written: str, date: bool = False) -> int:
    """The microseconds of a time, or of a date; ValueError says what is wrong with it."""
    found = TIMESTAMP.fullmatch(written)
    if not found or (date and found[1] is not None):
        example = "2026-11-01" if date else "2026-11-01 12:30:00, 2026-11-01T12:30:00.5Z or 2026-11-01"
        raise ValueError(f"expected a time such as {example}")
    zone = found[2]
    if zone is not None and zone[1:] > "18:00":
        raise ValueError("an offset is at most 18 hours")
    try:
        return timestamps.micros(timestamps.parse(written))
    except ValueError as error:
        raise ValueError(f"not a time: {error}") from None


def fitting(type_: Type | None, number: Number) -> int | Decimal | float:
    """A number for the axis of a field of a type; ValueError where Spark would compare something else."""
    exact = number.exact
    whole = exact == exact.to_integral_value()
    # `or` makes a negative zero positive; the two are equal.
    double = float(exact) or 0.0
    if type_ is Type.FLOAT:
        return double
    if not number.double and not INTS.least <= exact <= INTS.greatest:
        # Spark then knows the answer for every int, and gives it for a missing one too.
        way_out = "" if type_ is Type.INT else "; write it with an exponent, as 1e19"
        raise ValueError(f"no int of 64 bits reaches this number{way_out}")
    if type_ is Type.INT:
        if number.double and abs(exact) >= EXACT_INT_MAX:
            # Spark compares as DOUBLE then, where neighbouring large ints are equal.
            raise ValueError("on an int field, write a number of this size without exponent")
        return int(exact) if whole else exact
    if number.double:
        if EXACT_INT_MAX <= abs(double) <= 2.0**63:
            raise ValueError("on a field that is not declared, write a number of this size without exponent")
        return double
    if Decimal(double) != exact and (whole or Decimal(repr(double)) != exact):
        raise ValueError(
            f"a 64-bit float holds {double!r} instead, and the field is not declared an int, "
            "so large or long numbers cannot be told apart"
        )
    return double
