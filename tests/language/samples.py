"""Random filters and events for tests, dense around the places where rules change.

Everything is drawn from a `random.Random`, so that Hypothesis can drive it (`st.randoms`) as well as a seed.
Values are drawn from short lists of troublesome ones, so that literals and events meet often.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime

from tidings.language.fields import Field, Path, Type
from tidings.language.wording import name_text, number_text, string_text

INTS = [
    0, 1, -1, 2, 3, 4, 5, 7, 100, -100, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1,
    2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 0.1, 0.30000000000000004, 1.0, 1.5, -2.5, 2.0, 3.0, 1e-7, 1.2345678901234567e-4, 5e-324,
    -5e-324, 1e15, 9007199254740992.0, 9007199254740994.0, 1152921504606846976.0, 1e22, 1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
]  # fmt: skip
STRINGS = [
    "", "a", "A", "ab", "abc", "b", "ba", "a b", " a", "a ", "fire", "fire!", "firf", "50%", "a_b",
    "it's", '"', "\\", "a\\b", "new\nline", "tab\t", "é", "e\u0301", "ß", "€", "\ud7ff", "\ue000", "\uffff",
    "😀", "\U0010ffff", "1", "true", "2026-11-01",
]  # fmt: skip
TIMES = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 12, 30, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 59, 59, 500_000, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
PATTERNS = [
    "%", "a%", "fire%", "%a", "%a%", "a_", "_", "__", "a%b", "%a%b%", "a\\_b", "50\\%", "%\\%", "", "a",
    "_b%", "%_", "é%", "😀", "\\\\", "%\\\\%", "%_b", "new%", "%e_%", "\U0010ffff%",
]  # fmt: skip

VALUES: dict[Type, list[object]] = {
    Type.INT: [*INTS],
    Type.FLOAT: [*FLOATS],
    Type.STRING: [*STRINGS],
    Type.BOOL: [True, False],
    Type.TIMESTAMP: [*TIMES],
}

FIELDS: dict[Path, Field] = {
    path: Field(path, type_)
    for path, type_ in {
        ("i",): Type.INT,
        ("j",): Type.INT,
        ("f",): Type.FLOAT,
        ("s",): Type.STRING,
        ("u",): Type.STRING,
        ("b",): Type.BOOL,
        ("t",): Type.TIMESTAMP,
        ("p", "city"): Type.STRING,
        ("p", "lane"): Type.INT,
        ("date",): Type.INT,
        ("Wind speed",): Type.FLOAT,
    }.items()
}
"""Names that nest, that are keywords, that need quotes."""

OWN: dict[Path, Field] = {
    path: Field(path, Type.STRING) for path in [("$topic",), ("$user", "lang"), ("$user", "a b")]
}
"""What a filter may ask of a publication, beside the fields of its event."""


def some_event(
    rng: random.Random, fields: Mapping[Path, Field] = FIELDS, mixed: bool = False
) -> dict[str, object]:
    """An event with some of the fields; `mixed` gives them values of any kind, as an undeclared topic may."""
    event: dict[str, object] = {}
    for path, field in fields.items():
        if rng.random() < 0.25:
            continue
        type_ = rng.choice(list(Type)) if mixed and rng.random() < 0.3 else field.type
        value = rng.choice(VALUES[type_])
        if mixed and rng.random() < 0.05:
            value = rng.choice([[1], {"x": 1}])
        if rng.random() < 0.05:
            value = None
        place = event
        for name in path[:-1]:
            inner = place.setdefault(name, {})
            assert isinstance(inner, dict)
            place = inner
        place[path[-1]] = value
    return event


def some_filter(
    rng: random.Random, fields: Mapping[Path, Field] = FIELDS, depth: int = 3, patterns: bool = True
) -> str:
    """The text of a filter over some of the fields; `patterns` are LIKEs other than prefixes."""
    roll = rng.random()
    if depth == 0 or roll < 0.35:
        return some_term(rng, fields, patterns)
    if roll < 0.45:
        return f"NOT ({some_filter(rng, fields, depth - 1, patterns)})"
    joiner = rng.choice([" AND ", " OR ", " and ", " or "])
    parts = [some_filter(rng, fields, depth - 1, patterns) for _ in range(rng.randint(2, 3))]
    return joiner.join(part if rng.random() < 0.2 and " " not in part else f"({part})" for part in parts)


def some_term(rng: random.Random, fields: Mapping[Path, Field], patterns: bool) -> str:
    path, field = rng.choice(list(fields.items()))
    name = rng.choice([name_text(path), ".".join(f"`{part}`" for part in path)])
    roll = rng.random()
    if roll < 0.12:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    if field.type is Type.BOOL and roll < 0.5:
        return rng.choice([name, f"NOT {name}"])
    if field.type is Type.STRING and roll < 0.35:
        pattern = rng.choice(PATTERNS if patterns else ["a%", "fire%", "é%", "", "b"])
        return f"{name} {rng.choice(['', 'NOT '])}LIKE {string_text(pattern)}"
    if roll < 0.5:
        low, high = literal(rng, field.type), literal(rng, field.type)
        return f"{name} {rng.choice(['', 'NOT '])}BETWEEN {low} AND {high}"
    if roll < 0.65:
        # More than ten values take another way through Spark's optimiser (InSet).
        count = rng.choice([1, 2, 3, 12])
        listed = ", ".join(literal(rng, field.type, listed=True) for _ in range(count))
        return f"{name} {rng.choice(['', 'NOT '])}IN ({listed})"
    relation = rng.choice(["=", "==", "<>", "!=", "<", "<=", ">", ">="])
    sides = (name, literal(rng, field.type))
    return f" {relation} ".join(sides if rng.random() < 0.8 else sides[::-1])


def literal(rng: random.Random, type_: Type, listed: bool = False) -> str:
    """A literal that a field of a type can be compared with."""
    match type_:
        case Type.INT:
            forms = [str(rng.choice(INTS)), str(rng.choice(INTS)), rng.choice(["1.5", "-0.5", "2.0", "0.1"])]
            return rng.choice(forms if listed else [*forms, rng.choice(["1e2", "5e-1", "3E0", "1e-300"])])
        case Type.FLOAT:
            return rng.choice(
                [
                    number_text(rng.choice(FLOATS)),
                    str(rng.choice(INTS)),
                    rng.choice(["1.5", "-0.0", "-1e-7", ".5", "2."]),
                ]
            )
        case Type.BOOL:
            return rng.choice(["TRUE", "false"])
        case Type.STRING:
            return string_text(rng.choice(STRINGS))
        case Type.TIMESTAMP:
            text = rng.choice(TIMES).replace(tzinfo=None).isoformat(sep=rng.choice([" ", "T"]))
            text += rng.choice(["", "Z", "+00:00"])
            return f"TIMESTAMP '{text}'" if listed or rng.random() < 0.6 else f"'{text}'"
