"""Filters that are rectangles, `x BETWEEN 5 AND 9 AND y BETWEEN 3 AND 7`, made of numbers instead of text.

Where filters come by the million as numbers, writing a text for each and parsing it again would take longer
than all that is done with them. What is made here equals what `filters.parse` makes of the canonical text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from tidings.language.cuts import EXACT_INT_MAX, Cuts
from tidings.language.fields import Path
from tidings.language.filters import Filter, parse
from tidings.language.regions import Constraint, Kind, Values
from tidings.language.tree import And, Comparison, Node, Operand
from tidings.language.wording import name_text


def rectangle(sides: Iterable[tuple[Path, int, int]]) -> Filter:
    """The filter of whole numbers between two ends, which belong to it, for one or more fields.

    The fields are not declared, so that the ends must be numbers that a 64-bit float holds; raises
    FilterError.

    >>> rectangle([(("subject",), 5, 9), (("language",), 3, 3)]).source
    'language = 3 AND subject BETWEEN 5 AND 9'
    """
    parts: list[Node] = []
    held: list[tuple[Path, Constraint]] = []
    texts: list[str] = []
    ordered = sorted(sides)
    for path, low, high in ordered:
        field, name = _field(path)
        if low == high:
            texts.append(f"{name} = {low}")
            parts.append(Comparison(field, "=", Kind.NUMBER, float(low)))
        else:
            texts.append(f"{name} BETWEEN {low} AND {high}")
            least = Comparison(field, ">=", Kind.NUMBER, float(low))
            parts.append(And((least, Comparison(field, "<=", Kind.NUMBER, float(high)))))
        cuts = Cuts(False, (float(low), math.nextafter(high, math.inf)))
        held.append((path, Constraint(None, ((Kind.NUMBER, Values(cuts)),), None)))
    source = " AND ".join(texts)
    if any(low < -EXACT_INT_MAX or high >= EXACT_INT_MAX or low > high for _, low, high in ordered):
        # Numbers that floats do not hold, and intervals without values, have rules of their own.
        return parse(source)
    return Filter(source, parts[0] if len(parts) == 1 else And(tuple(parts)), (tuple(held),))


@lru_cache(maxsize=1024)
def _field(path: Path) -> tuple[Operand, str]:
    return Operand(path, None), name_text(path)
