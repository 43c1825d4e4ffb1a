"""Covering, overlap and merging, against brute force over all the events of a small world."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError
from tidings.language.covering import covers, merge, overlaps
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Filter, Unknown, parse

WAIT, ASSUME = Unknown.WAIT, Unknown.ASSUME
BOTH = list(Unknown)

WORLD: dict[Path, Field] = {
    ("i",): Field(("i",), Type.INT),
    ("s",): Field(("s",), Type.STRING),
    ("b",): Field(("b",), Type.BOOL),
}

# For every literal below, the values at it and to both sides of it, so that two sets differ over all values
# iff they differ over these.
INTS = [None, -(2**63), -1, 0, 1, 2, 3, 4, 5, 2**63 - 1]
STRINGS = [None, "", "\0", "`", "a", "a\0", "aa", "ab", "ab\0", "abc", "ac", "ad", "b", "b\0", "ba", "c", "z"]
BOOLS = [None, False, True]
EVENTS: list[dict[str, object]] = [
    {"i": i, "s": s, "b": b} for i, s, b in itertools.product(INTS, STRINGS, BOOLS)
]


LITERALS = {"i": ["1", "2", "3", "4"], "s": ["'a'", "'ab'", "'b'", "''"], "b": ["TRUE", "FALSE"]}


def some_conjunction(rng: random.Random) -> str:
    """Of the sort for which covering is complete."""
    parts: list[str] = []
    liked = False
    for _ in range(rng.randint(1, 4)):
        field = rng.choice("isb")
        literals = LITERALS[field]
        shape = rng.randint(0, 6)
        if shape == 0:
            parts.append(f"{field} IS {rng.choice(['', 'NOT '])}NULL")
        elif shape == 1:
            parts.append(f"{field} {rng.choice(['', 'NOT '])}IN ({', '.join(rng.sample(literals, 2))})")
        elif shape == 2:
            low, high = sorted(rng.sample(literals, 2)) if field != "b" else ("FALSE", "TRUE")
            parts.append(f"{field} BETWEEN {low} AND {high}")
        elif shape == 3 and field == "s" and not liked:
            liked = True
            parts.append(f"s LIKE '{rng.choice(['a', 'ab', 'b', ''])}%'")
        else:
            parts.append(f"{field} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {rng.choice(literals)}")
    return " AND ".join(parts)


def taken(filter_: Filter, unknown: Unknown, events: list[dict[str, object]] = EVENTS) -> list[bool]:
    return [filter_.matches(event, unknown) for event in events]


# Without a declaration a field may hold anything; each value stands for all on its side of the literals.
NUMBERS = [-(2**63), 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 2**63 - 1]
ANYTHING = [None, *NUMBERS, *STRINGS[1:], False, True, datetime(2026, 11, 1, tzinfo=UTC), [1], {"x": 1}]
MIXED: list[dict[str, object]] = [{"x": x, "y": y} for x, y in itertools.product(ANYTHING, ANYTHING)]


def some_mixed_conjunction(rng: random.Random) -> str:
    return " AND ".join(
        re.sub(r"\b[isb]\b(?![^']*'(?:[^']*'[^']*')*[^']*$)", rng.choice("xy"), some_conjunction(rng))
        for _ in range(rng.randint(1, 2))
    )


@settings(max_examples=examples(300))
@given(st.randoms(use_true_random=False), st.sampled_from(BOTH), st.sampled_from(BOTH))
def test_covers_is_complete_for_conjunctions(
    rng: random.Random, unknown_a: Unknown, unknown_b: Unknown
) -> None:
    a, b = parse(some_conjunction(rng), WORLD), parse(some_conjunction(rng), WORLD)
    events = zip(taken(a, unknown_a), taken(b, unknown_b), strict=True)
    truth = all(not there or here for here, there in events)
    assert covers((a, unknown_a), (b, unknown_b)) is truth, (a.source, unknown_a, b.source, unknown_b)


@settings(max_examples=examples(300))
@given(st.randoms(use_true_random=False), st.sampled_from(BOTH), st.sampled_from(BOTH))
def test_overlaps_is_exact_for_conjunctions(
    rng: random.Random, unknown_a: Unknown, unknown_b: Unknown
) -> None:
    a, b = parse(some_conjunction(rng), WORLD), parse(some_conjunction(rng), WORLD)
    events = zip(taken(a, unknown_a), taken(b, unknown_b), strict=True)
    truth = any(here and there for here, there in events)
    assert overlaps((a, unknown_a), (b, unknown_b)) is truth, (a.source, unknown_a, b.source, unknown_b)


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=False), st.sampled_from(BOTH), st.sampled_from(BOTH))
def test_covers_and_overlaps_are_complete_for_conjunctions_of_undeclared_fields(
    rng: random.Random, unknown_a: Unknown, unknown_b: Unknown
) -> None:
    a, b = parse(some_mixed_conjunction(rng)), parse(some_mixed_conjunction(rng))
    events = list(zip(taken(a, unknown_a, MIXED), taken(b, unknown_b, MIXED), strict=True))
    why = (a.source, unknown_a, b.source, unknown_b)
    assert covers((a, unknown_a), (b, unknown_b)) is all(here for here, there in events if there), why
    assert overlaps((a, unknown_a), (b, unknown_b)) is any(here and there for here, there in events), why


@pytest.mark.parametrize("fields", [FIELDS, None], ids=["declared", "undeclared"])
@given(
    rng=st.randoms(use_true_random=False), unknown_a=st.sampled_from(BOTH), unknown_b=st.sampled_from(BOTH)
)
def test_covers_and_overlaps_never_err_to_the_wrong_side(
    fields: Mapping[Path, Field] | None, rng: random.Random, unknown_a: Unknown, unknown_b: Unknown
) -> None:
    # Few fields, so that filters meet.
    few = {path: FIELDS[path] for path in rng.sample(sorted(FIELDS), 2)}
    try:
        a = parse(some_filter(rng, few, depth=2), fields)
        b = parse(some_filter(rng, few, depth=2), fields)
    except FilterError:
        assume(False)
    covered = covers((a, unknown_a), (b, unknown_b))
    apart = not overlaps((a, unknown_a), (b, unknown_b))
    merged = merge(a, b)
    for _ in range(20):
        event = some_event(rng, few, mixed=fields is None)
        in_a, in_b = a.matches(event, unknown_a), b.matches(event, unknown_b)
        assert not (covered and in_b and not in_a)
        assert not (apart and in_a and in_b)
        if merged is not None:
            verdicts = [a.evaluate(event), b.evaluate(event)]
            either = True if True in verdicts else None if None in verdicts else False
            assert merged.evaluate(event) is either
    assert covers((a, unknown_a), (a, unknown_a))
    if merged is not None:
        assert covers((merged, unknown_a), (a, unknown_a))
        assert covers((merged, unknown_b), (b, unknown_b))
        assert parse(merged.text, fields) == merged


@pytest.mark.parametrize(
    ("a", "unknown_a", "b", "unknown_b", "covered"),
    [
        ("i >= 3", WAIT, "i = 4 AND b", WAIT, True),
        ("i >= 3", WAIT, "i = 4 AND b", ASSUME, False),
        ("i >= 3", ASSUME, "i = 4 AND b", WAIT, True),
        ("i >= 3", ASSUME, "i = 4", ASSUME, True),
        ("i > 5 AND i < 3", ASSUME, "i IS NULL", WAIT, True),
        ("i IS NOT NULL", WAIT, "i > 1", WAIT, True),
        ("i IS NOT NULL", WAIT, "i > 1", ASSUME, False),
        ("b IN (TRUE, FALSE)", WAIT, "b IS NOT NULL", WAIT, True),
        ("i >= -9223372036854775808", WAIT, "i IS NOT NULL", WAIT, True),
        ("s LIKE 'a%'", WAIT, "s LIKE 'ab%'", WAIT, True),
        ("s LIKE 'a%'", WAIT, "s = 'abc'", WAIT, True),
        ("s LIKE 'a%'", WAIT, "s >= 'a' AND s < 'b'", WAIT, True),
        ("s LIKE '%a%'", WAIT, "s = 'bab'", WAIT, False),
        ("TRUE", WAIT, "i > 1", ASSUME, True),
        ("i > 1", WAIT, "FALSE", ASSUME, True),
        ("i < 3 OR i > 3", WAIT, "i = 4", WAIT, True),
    ],
)
def test_covers_by_value(a: str, unknown_a: Unknown, b: str, unknown_b: Unknown, covered: bool) -> None:
    assert covers((parse(a, WORLD), unknown_a), (parse(b, WORLD), unknown_b)) is covered


def test_filters_of_other_types_are_compared_with_care() -> None:
    whole, any_number = parse("i <= 3", WORLD), parse("i < 4")
    fraction = parse("i < 4", {("i",): Field(("i",), Type.FLOAT)})
    assert whole != fraction
    assert not covers((whole, WAIT), (any_number, WAIT)), "3.5 is below 4"
    assert not covers((whole, WAIT), (fraction, WAIT))
    assert covers((any_number, WAIT), (whole, WAIT))
    assert merge(whole, any_number) is None


def test_merge_joins_what_touches() -> None:
    merged = merge(parse("i BETWEEN 1 AND 3 AND b", WORLD), parse("i BETWEEN 4 AND 7 AND b", WORLD))
    assert merged is not None
    assert merged.text == "b = TRUE AND i BETWEEN 1 AND 7"


def test_merge_refuses_beyond_the_limits() -> None:
    many = [" OR ".join(f"a{i} = 1" for i in range(start, start + 40)) for start in (0, 40)]
    assert merge(parse(many[0]), parse(many[1])) is None
