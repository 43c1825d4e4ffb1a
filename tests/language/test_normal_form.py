"""The normal form of a filter as it travels: it says what the filter says, and nothing else is taken."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.language.samples import FIELDS, OWN, some_event, some_filter
from tidings.errors import FilterError
from tidings.language.cuts import Cuts
from tidings.language.fields import Field, Path
from tidings.language.filters import Cost, Filter, parse
from tidings.language.like import Like
from tidings.language.normal_form import (
    PARTS_MAX,
    Written,
    about_topic,
    check,
    made,
    matches,
    parts_of,
    text,
    written,
)
from tidings.language.regions import Box, Kind, Region, Unknown, Values, holds
from tidings.matching import Index

BOTH = list(Unknown)


class Form:
    """A normal form that was sent."""

    def __init__(self, said: Written) -> None:
        self.cost = check(said)
        self.said = said

    def boxes(self, unknown: Unknown = Unknown.WAIT) -> tuple[Box, ...]:
        return made(self.said)

    def matches(self, event: Mapping[str, object], unknown: Unknown = Unknown.WAIT) -> bool:
        found = matches(self.said, event)
        assert found == holds(self.boxes(), event)
        return found


def travelled(filter: Filter, unknown: Unknown) -> Form | None:  # noqa: A002
    """A normal form after it was written, sent and read; None if it is not sent."""
    said = written(filter, unknown)
    if said is None:
        return None
    return Form(msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=Written))


def drawn(rng: random.Random, fields: Mapping[Path, Field] | None) -> Filter | None:
    """A random filter; None if it is one that nobody may ask for."""
    try:
        return parse(some_filter(rng, FIELDS | OWN), fields)
    except FilterError:
        return None


# What is written is read.


@pytest.mark.parametrize("unknown", BOTH)
@pytest.mark.parametrize("fields", [None, FIELDS | OWN], ids=["undeclared", "declared"])
@given(rng=st.randoms(use_true_random=False))
@settings(max_examples=examples(300))
def test_a_normal_form_comes_as_it_was_sent_and_matches_what_the_filter_matches(
    fields: Mapping[Path, Field] | None, unknown: Unknown, rng: random.Random
) -> None:
    asked = drawn(rng, fields)
    if asked is None:
        return
    form = travelled(asked, unknown)
    assert (form is None) == (parts_of(asked.boxes(unknown)) > PARTS_MAX)
    if form is None:
        return
    assert form.boxes() == asked.boxes(unknown)
    assert about_topic(form.said) == any(path[0] == "$topic" for box in form.boxes() for path, _ in box)
    for _ in range(10):
        event = some_event(rng, FIELDS, mixed=fields is None) | some_event(rng, OWN)
        assert form.matches(event) == asked.matches(event, unknown)


@pytest.mark.parametrize("unknown", BOTH)
@given(rng=st.randoms(use_true_random=False))
def test_any_normal_form_can_be_shown(unknown: Unknown, rng: random.Random) -> None:
    asked = drawn(rng, None)
    form = travelled(asked, unknown) if asked is not None else None
    if form is not None:
        assert text(form.boxes())


@pytest.mark.parametrize(
    ("where", "unknown", "shown"),
    [
        ("x > 10", Unknown.WAIT, "x > 10"),
        ("x > 10", Unknown.ASSUME, "(x > 10 OR x IS NULL OR x IS OF ANOTHER TYPE)"),
        (
            "x BETWEEN 1 AND 3 AND s LIKE '%a%'",
            Unknown.WAIT,
            "s IS NOT NULL AND s LIKE '%a%' AND x >= 1 AND x <= 3",
        ),
        ("x > 1 AND x < 1", Unknown.WAIT, "FALSE"),
        ("b", Unknown.WAIT, "b = TRUE"),
        ("t >= TIMESTAMP '2026-11-01'", Unknown.WAIT, "t >= '2026-11-01 00:00:00+00:00'"),
    ],
)
def test_a_normal_form_reads_like_the_filter_that_it_comes_from(
    where: str, unknown: Unknown, shown: str
) -> None:
    form = travelled(parse(where), unknown)
    assert form is not None
    assert text(form.boxes()) == shown


def test_what_a_missing_field_counts_for_is_decided_where_it_is_written() -> None:
    asked = parse("x > 3 AND y = 1")
    wait, assume = travelled(asked, Unknown.WAIT), travelled(asked, Unknown.ASSUME)
    assert wait is not None
    assert assume is not None
    for event, both in (
        ({"y": 1}, (False, True)),
        ({"x": 4, "y": 1}, (True, True)),
        ({"x": 3}, (False, False)),
    ):
        for asked_as in BOTH:
            assert (wait.matches(event, asked_as), assume.matches(event, asked_as)) == both


# Bounds.


def listed(count: int) -> Filter:
    """One constraint with so many points: a value in a list has two, the first of a kind as well."""
    return parse(f"i IN ({', '.join(str(2 * number) for number in range(count))})", FIELDS)


def test_a_normal_form_has_a_bounded_number_of_parts() -> None:
    """A constraint, and two points for each of 127 values, are 255; with a field more it is 256."""
    most = (PARTS_MAX - 1) // 2
    assert parts_of(listed(most).boxes(Unknown.WAIT)) == PARTS_MAX - 1
    assert travelled(listed(most), Unknown.WAIT) is not None
    assert written(listed(most + 1), Unknown.WAIT) is None


def test_patterns_count_as_parts() -> None:
    some = parse("s NOT LIKE '%a%' AND s NOT LIKE '%b%'").boxes(Unknown.WAIT)
    assert parts_of(some) == 3


def raw(*boxes: Any) -> Written:
    """Boxes as they may come from outside: lists of (path, null, other, sets)."""
    return msgspec.convert(boxes, type=Written)


def side(*sets: Any, path: Any = ("x",), null: bool = False, other: bool = False) -> list[Any]:
    return [path, null, other, sets]


def test_what_it_costs_is_known_without_making_it() -> None:
    asked = parse("x IN (1, 5) AND s LIKE '%ab%' OR s LIKE '%c_%' AND y > 3")
    form = travelled(asked, Unknown.WAIT)
    assert form is not None
    assert form.cost == asked.cost == Cost(terms=4, disjuncts=2, constraints=4, points=5, searched=3)


def test_what_another_says_is_bounded_too() -> None:
    points = list(range(PARTS_MAX - 1))
    assert check(raw([side([1, False, points])])).points == PARTS_MAX - 1
    for boxes in (
        raw([side([1, False, [*points, 1000]])]),
        raw([side([1, False, points])], [side()]),
        raw([side([1, False, points]), side(path=["y"])]),
        raw([side([2, True, [], [["%a", False]] * PARTS_MAX])]),
        raw(*[[]] * (PARTS_MAX + 1)),
    ):
        with pytest.raises(FilterError, match="a normal form of 257 parts; the limit is 256"):
            check(boxes)


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        (raw([side(path=[])]), "a field path of 0 names"),
        (raw([side(path=["x"] * 17)]), "a field path of 17 names"),
        (raw([side([4, False, [1]])]), "no kind of values is 4"),
        (raw([side([-1, False, [1]])]), "no kind of values is -1"),
        (raw([side([1, False, [3, 1]])]), "no points of a set of the kind number"),
        (raw([side([1, False, [3, 3]])]), "no points of a set of the kind number"),
        (raw([side([1, False, [math.nan]])]), "no points of a set of the kind number"),
        (raw([side([1, True, [1, math.nan, 2]])]), "no points of a set of the kind number"),
        (raw([side([0, False, ["a"]])]), "no points of a set of the kind bool"),
        (raw([side([0, False, [2]])]), "no points of a set of the kind bool"),
        (raw([side([0, True, [0]])]), "no points of a set of the kind bool"),
        (raw([side([2, False, [1]])]), "no points of a set of the kind string"),
        (raw([side([2, False, ["b", "a"]])]), "no points of a set of the kind string"),
        (raw([side([2, True, [""]])]), "no points of a set of the kind string"),
        (raw([side([3, False, [1.5]])]), "no points of a set of the kind timestamp"),
        (raw([side([3, False, [2**62]])]), "no points of a set of the kind timestamp"),
        (raw([side([3, False, [-(2**62)]])]), "no points of a set of the kind timestamp"),
        (raw([side([1, False, ["seven"]])]), "no whole number is 'seven'"),
        (raw([side([1, False, ["-"]])]), "no whole number is '-'"),
        (raw([side([1, False, ["9" * 321]])]), "no whole number is"),
        (raw([side([1, False, ["9" * 320]])]), "no event has a number as large as 999"),
        (raw([side([1, True, [], [["a%", False]]])]), "patterns for values of the kind number"),
        (raw([side([2, True, [], [["a" * 257, False]]])]), "a pattern of 257 characters; the limit is 256"),
        (raw([side([2, True, [], [["a\\", False]]])]), "a pattern in which"),
        (
            raw([side([2, True, [], [["%" + "ab_" * 67 + "%", False], ["%" + "c" * 67 + "_%", False]]])]),
            "look for 201 characters; the limit is 200",
        ),
        (raw([side([1, False, [1]], [1, False, [5]])]), "names a kind of values twice"),
        (raw([side([2, True, []], [1, False, [5]])]), "kinds out of order"),
        (raw([side([1, False, [1]]), side([1, False, [5]])]), "names a field twice"),
        (raw([side(path=["y"]), side(path=["x"])]), "fields out of order"),
    ],
)
def test_what_no_filter_has_is_refused(boxes: Written, reason: str) -> None:
    with pytest.raises(FilterError) as refused:
        check(boxes)
    assert reason in refused.value.reason


def test_whole_numbers_of_any_size_travel() -> None:
    for number in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**300):
        box: Box = ((("x",), Region(False, False, ((Kind.NUMBER, Values(Cuts(False, (number,)))),))),)
        point = number if -(2**63) <= number < 2**63 else str(number)
        assert Form(raw([side([1, False, [point]])])).boxes() == (box,)


def test_large_whole_numbers_travel_beside_others() -> None:
    form = Form(raw([side([1, False, [0.5, str(2**63)]])]))
    (((_, region),),) = form.boxes()
    assert region.sets == ((Kind.NUMBER, Values(Cuts(False, (0.5, 2**63)))),)
    assert [form.matches({"x": number}) for number in (0, 0.5, 2**63 - 1, 2**63, 1e300)] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_patterns_travel() -> None:
    form = Form(raw([side([2, True, [], [["%a_", True], ["b%c", False]]])]))
    likes = (Like("%a_", True), Like("b%c", False))
    assert form.boxes() == (((("x",), Region(False, False, ((Kind.STRING, Values(Cuts(True), likes)),))),),)
    assert (form.matches({"x": "bxc"}), form.matches({"x": "bac"}), form.matches({"x": 1})) == (
        True,
        False,
        False,
    )


# Whatever comes.

WEIRD = [
    0,
    1,
    -1,
    0.5,
    math.nan,
    math.inf,
    -math.inf,
    2**63 - 1,
    -(2**63),
    2**62,
    "",
    "a",
    "a\0",
    "7",
    "9" * 320,
]


def weird(rng: random.Random) -> Any:
    """A normal form that is true to its types and to nothing else."""
    return [
        [
            [
                rng.sample(["x", "y", "$topic", ""], rng.choice([1, 1, 1, 2])),
                rng.random() < 0.3,
                rng.random() < 0.3,
                [
                    [
                        rng.choice([0, 1, 1, 1, 2, 3]),
                        rng.random() < 0.3,
                        rng.sample(WEIRD, rng.choice([0, 1, 1, 2])),
                        [[rng.choice(["%a", "a", "\\"]), rng.random() < 0.5]] if rng.random() < 0.1 else [],
                    ]
                    for _ in range(rng.choice([0, 1, 1, 1, 2]))
                ],
            ]
            for _ in range(rng.choice([0, 1, 1, 2]))
        ]
        for _ in range(rng.randint(0, 2))
    ]


@given(rng=st.randoms(use_true_random=False))
@settings(max_examples=examples(400))
def test_whatever_is_read_can_be_shown_and_an_index_takes_it_for_what_it_says(rng: random.Random) -> None:
    index = Index()
    forms: dict[int, Form] = {}
    for number in range(8):
        try:
            forms[number] = Form(raw(*weird(rng)))
        except FilterError:
            continue
        index.add(number, forms[number], Unknown.WAIT)
        assert text(forms[number].boxes())
    for gone in [number for number in forms if rng.random() < 0.2]:
        index.remove(gone)
        del forms[gone]
    for _ in range(10):
        values = [
            0,
            1,
            0.5,
            -1,
            2**62,
            2**63 - 1,
            -(2**63),
            1e300,
            "",
            "a",
            "b",
            "a\0",
            True,
            False,
            None,
            [1],
            {},
        ]
        event = {name: rng.choice(values) for name in rng.sample(["x", "y", "$topic"], rng.randint(0, 3))}
        found = {int(number) for number in index.match(event)}
        assert found == {number for number, form in forms.items() if form.matches(event)}
