"""A normal form as filter text that reads back to the same normal form.

Numbers are written so that Spark reads the very value: plain decimals while they are short, else with an
exponent. Where a bound can be written as `<` or `<=`, the shorter literal is taken.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot.dialects.spark import Spark

from tidings.language.cuts import EXACT_INT_MAX, INTS, Cuts, past_prefix, prefixed
from tidings.language.fields import IDENTIFIER, Path, path_text
from tidings.language.like import pieces, prefix, spelled
from tidings.language.limits import FRACTION_DIGITS
from tidings.language.regions import Constraint, Kind, Values
from tidings.language.timestamps import from_micros
from tidings.language.tree import Comparison, Membership, Missing, Pattern, Term

if TYPE_CHECKING:
    from tidings.language.normal import Conjunction

KEYWORDS = frozenset(word.upper() for word in Spark.Tokenizer.KEYWORDS)

ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"})

MIDDLE: dict[Kind, Any] = {Kind.NUMBER: 0, Kind.TIMESTAMP: 0}
"""A value to say all or nothing by, for kinds without a smallest one."""


def filter_text(disjuncts: tuple[Conjunction, ...]) -> str:
    """The text of a whole filter."""
    return " OR ".join(conjunction_text(one) for one in disjuncts) if disjuncts else "FALSE"


def conjunction_text(conjunction: Conjunction) -> str:
    """The text of one conjunction; where it stands beside others, AND binds tighter than OR."""
    if not conjunction:
        return "TRUE"
    return " AND ".join(constraint_text(path, held) for path, held in conjunction)


def term_text(term: Term) -> str:
    """The text of one term as it was written, but for the form of its literals."""
    name = name_text(term.field.path)
    match term:
        case Missing():
            return f"{name} IS NULL"
        case Pattern():
            return f"{name} LIKE {string_text(spelled(term.parts))}"
        case Membership():
            return f"{name} IN ({', '.join(_literal_text(term.kind, value) for value in term.literals)})"
        case Comparison():
            return f"{name} {term.relation} {_literal_text(term.kind, term.literal)}"


def name_text(path: Path) -> str:
    """A field as Spark and sqlglot both read it, keywords in backticks."""
    return ".".join(
        f"`{part}`" if IDENTIFIER.fullmatch(part) and part.upper() in KEYWORDS else path_text((part,))
        for part in path
    )


def string_text(value: str) -> str:
    """A string literal."""
    return "'" + value.translate(ESCAPED) + "'"


def constraint_text(path: Path, held: Constraint) -> str:
    """All that a conjunction says of one field."""
    name = name_text(path)
    texts = [] if held.null is None else [f"{name} IS NULL" if held.null else f"{name} IS NOT NULL"]
    for kind, values in held.sets:
        texts += _values_texts(name, kind, values)
    return " AND ".join(texts)


def _values_texts(name: str, kind: Kind, values: Values) -> list[str]:
    texts = [
        f"{name} {'NOT LIKE' if like.negated else 'LIKE'} {string_text(like.pattern)}"
        for like in values.likes
    ]
    said = [prefixed(prefix(pieces(like.pattern))) for like in values.likes if not like.negated]
    if values.cuts not in said and not (values.likes and values.cuts.full):
        texts.insert(0, _cuts_text(name, kind, values.cuts))
    return texts


def _cuts_text(name: str, kind: Kind, cuts: Cuts) -> str:
    if cuts.full or cuts.empty:
        return _extreme_text(name, kind, cuts.full)
    if kind is Kind.BOOL:
        return f"{name} = {'FALSE' if cuts.inside else 'TRUE'}"
    gaps = list((~cuts).intervals())
    if cuts.inside and all(_is_point(kind, low, high) for low, high in gaps):
        return " AND ".join(_points_texts(name, kind, [low for low, _ in gaps], "<>", "NOT IN"))
    points: list[Any] = []
    ranges: list[str] = []
    for low, high in cuts.intervals():
        if _is_point(kind, low, high):
            points.append(low or "" if kind is Kind.STRING else low)
        else:
            ranges.append(_range_text(name, kind, low, high))
    texts = [*_points_texts(name, kind, points, "=", "IN"), *ranges]
    return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


def _extreme_text(name: str, kind: Kind, everything: bool) -> str:
    """All values or none, either of which a missing value leaves UNKNOWN."""
    if kind in MIDDLE:
        middle = _literal_text(kind, MIDDLE[kind])
        joined = f"{name} < {middle} {'OR' if everything else 'AND'} {name} >= {middle}"
        return f"({joined})" if everything else joined
    least = "FALSE" if kind is Kind.BOOL else "''"
    return f"{name} {'>=' if everything else '<'} {least}"


def _is_point(kind: Kind, low: Any, high: Any) -> bool:
    """Whether an interval holds one value alone."""
    if kind is Kind.STRING:
        return bool((low or "") + "\0" == high)
    if low is None or high is None:
        return False
    if isinstance(high, int):
        return bool(low == high - 1)
    # Of an undeclared field, a whole number between large floats can be alone; no literal says it.
    return float(low) == low and bool(high == math.nextafter(low, math.inf))


def _points_texts(name: str, kind: Kind, points: list[Any], one: str, many: str) -> list[str]:
    """Some values, as a list; numbers with an exponent in a list of their own, as the grammar wants them."""
    texts = [_literal_text(kind, point) for point in points]
    apart = [text for text in texts if kind is Kind.NUMBER and "e" in text]
    groups = [[text for text in texts if kind is not Kind.NUMBER or "e" not in text], apart]
    return [
        f"{name} {one} {group[0]}" if len(group) == 1 else f"{name} {many} ({', '.join(group)})"
        for group in groups
        if group
    ]


def _range_text(name: str, kind: Kind, low: Any, high: Any) -> str:
    if kind is Kind.STRING and low and high == past_prefix(low):
        pattern = low.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{name} LIKE {string_text(pattern + '%')}"
    below = [] if high is None else [_below_text(kind, high)]
    above = [] if low is None else [_above_text(kind, low)]
    if below and above and below[0].startswith("<= ") and above[0].startswith(">= "):
        return f"{name} BETWEEN {above[0][3:]} AND {below[0][3:]}"
    return " AND ".join(f"{name} {text}" for text in above + below)


def _above_text(kind: Kind, point: Any) -> str:
    """At a point and behind."""
    if kind is Kind.STRING and point.endswith("\0"):
        return f"> {string_text(point[:-1])}"
    at = f">= {_literal_text(kind, point)}"
    if _has_close_neighbours(point):
        return min(at, f"> {_literal_text(kind, math.nextafter(point, -math.inf))}", key=len)
    if kind is Kind.NUMBER and abs(point) > EXACT_INT_MAX and float(point) != point:
        # Of an undeclared field; no float is that number, but the one before it is.
        return f"> {number_text(point - 1)}"
    return at


def _below_text(kind: Kind, point: Any) -> str:
    """Before a point."""
    if kind is Kind.STRING:
        return f"<= {string_text(point[:-1])}" if point.endswith("\0") else f"< {string_text(point)}"
    if _has_close_neighbours(point):
        before = f"<= {_literal_text(kind, math.nextafter(point, -math.inf))}"
        return min(before, f"< {_literal_text(kind, point)}", key=len)
    if isinstance(point, float):
        return f"< {_literal_text(kind, point)}"
    return f"<= {_literal_text(kind, point - 1)}"


def _has_close_neighbours(point: Any) -> bool:
    """Whether the float before it is the number before it; between large floats there are whole numbers."""
    return isinstance(point, float) and abs(point) < EXACT_INT_MAX


def _literal_text(kind: Kind, value: Any) -> str:
    match kind:
        case Kind.BOOL:
            return "TRUE" if value else "FALSE"
        case Kind.STRING:
            return string_text(value)
        case Kind.TIMESTAMP:
            return f"TIMESTAMP '{from_micros(value).replace(tzinfo=None).isoformat(sep=' ')}'"
    return number_text(value)


def number_text(value: int | float | Decimal) -> str:
    """A number that reads back as itself.

    >>> number_text(5.0), number_text(0.1), number_text(1e300)
    ('5', '0.1', '1e+300')
    """
    if INTS.least <= value <= INTS.greatest and value == int(value):
        return str(int(value))
    text = str(value) if isinstance(value, Decimal) else repr(float(value))
    if "e" not in text and len(text.partition(".")[2]) > FRACTION_DIGITS:
        return f"{Decimal(text):e}"
    return text
