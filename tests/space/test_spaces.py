"""Boxes and points to expressions, judged by trying every event of small spaces."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language.fields import Conflict, Field, Path, Type
from tidings.language.filters import Filter, parse
from tidings.language.regions import Unknown
from tidings.space import Space, expressions, spaces, wildcards

START = datetime(2026, 11, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

FIELDS: dict[Path, Field] = {
    ("x",): Field(("x",), Type.INT, (-2, 3)),
    ("fire",): Field(("fire",), Type.BOOL),
    ("sea", "state"): Field(("sea", "state"), Type.STRING, ("rough", "calm", "storm")),
    ("note",): Field(("note",), Type.STRING),
    ("f",): Field(("f",), Type.FLOAT, (0.0, 8.0)),
    ("t",): Field(("t",), Type.TIMESTAMP, (START, START + 3 * MICROSECOND)),
    ("all",): Field(("all",), Type.INT, (0, 1), Conflict.UNION),
}
SPACE = Space.of(FIELDS)
DEPTH = 12

VALUES: dict[str, list[Any]] = {
    "x": [-2, -1, 0, 1, 2, 3],
    "fire": [False, True],
    "state": ["rough", "calm", "storm"],
    "f": [0.0, 0.5, 1.0, 2.0, 3.75, 4.0, 7.9, 8.0],
    "t": [START + at * MICROSECOND for at in range(4)],
}
OUTSIDE: dict[str, list[Any]] = {
    "x": [-(2**63), -3, 4, 2**63 - 1],
    "fire": [],
    "state": ["", "calmer", "zephyr"],
    "f": [-1.0, -5e-324, 8.000001, 1e300],
    "t": [START - MICROSECOND, START + 9 * MICROSECOND],
}


def event(x: Any, fire: Any, state: Any, f: Any, t: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"x": x, "fire": fire, "sea": {"state": state}, "f": f, "t": t}
    return {name: value for name, value in found.items() if value is not None}


def inside() -> Iterator[dict[str, Any]]:
    """Every event with values of the domains, as far as floats can be all."""
    for values in product(*VALUES.values()):
        yield event(*values)


def anything(rng: random.Random) -> dict[str, Any]:
    """An event with values outside, and without some."""
    return event(
        *(
            rng.choice(
                [*VALUES[name], *VALUES[name], *OUTSIDE[name], *([None] if rng.random() < 0.5 else [])]
            )
            for name in VALUES
        )
    )


def some_text(rng: random.Random) -> str:
    def literal(name: str) -> str:
        value = rng.choice([*VALUES[name], *OUTSIDE[name]])
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.isoformat()}'"
        return f"'{value}'" if isinstance(value, str) else str(value).lower()

    def term() -> str:
        name = rng.choice(list(VALUES))
        field = "sea.state" if name == "state" else name
        roll = rng.random()
        if roll < 0.08:
            return f"{field} IS {rng.choice(['', 'NOT '])}NULL"
        if roll < 0.12:
            return "note = 'x'"
        if name == "fire":
            return rng.choice(["fire", "NOT fire", "fire = true"])
        if name == "state" and roll < 0.3:
            return f"{field} LIKE '{rng.choice(['c%', '%o%', 'zeph%'])}'"
        if roll < 0.5:
            return f"{field} IN ({literal(name)}, {literal(name)})"
        return f"{field} {rng.choice(['<', '<=', '>', '>=', '=', '<>'])} {literal(name)}"

    conjunctions = [" AND ".join(term() for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 2))]
    return " OR ".join(f"({one})" for one in conjunctions)


def drawn(rng: random.Random, unknown: Unknown = Unknown.WAIT) -> tuple[Filter, list[dict[str, Any]]]:
    """A filter, and those of 300 events that satisfy it: at least one, or another filter is drawn."""
    while True:
        asked = parse(some_text(rng), FIELDS)
        if found := [one for one in (anything(rng) for _ in range(300)) if asked.matches(one, unknown)]:
            return asked, found


def holds(dz: expressions.Set, cell: str) -> bool:
    return any(cell.startswith(one) for one in dz)


@pytest.mark.parametrize("seed", range(24))
def test_no_event_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    asked, matching = drawn(rng)
    depth, most = rng.choice([3, DEPTH]), rng.choice([None, None, 1, 4])
    found = SPACE.dz(asked, depth=depth, most=most)
    assert most is None or len(found.dz) <= most
    for one in [*matching, *filter(asked.matches, rng.sample(list(inside()), 100))]:
        assert holds(found.dz, SPACE.point(one, DEPTH)), one


@pytest.mark.parametrize("seed", range(24))
def test_a_subscription_that_assumes_meets_what_an_event_may_become(seed: int) -> None:
    rng = random.Random(seed)
    asked, matching = drawn(rng, Unknown.ASSUME)
    found = SPACE.dz(asked, Unknown.ASSUME, depth=DEPTH, most=rng.choice([None, 8]))
    for one in matching[:24]:
        assert expressions.overlaps(found.dz, SPACE.reach(one, DEPTH, 64)), one


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("unknown", list(Unknown))
def test_with_the_place_of_missing_values_every_event_is_met_at_its_point(
    seed: int, unknown: Unknown
) -> None:
    rng = random.Random(seed)
    asked, matching = drawn(rng, unknown)
    boxes = SPACE.boxes(asked.boxes(unknown), missing=True)
    found = SPACE.decompose(boxes, 9)
    for one in matching:
        assert holds(found.dz, SPACE.point(one, 9)), one


@pytest.mark.parametrize("seed", range(12))
def test_an_event_with_all_fields_reaches_its_point_alone(seed: int) -> None:
    rng = random.Random(seed)
    one = event(*(rng.choice([*VALUES[name], *OUTSIDE[name]]) for name in VALUES))
    assert SPACE.reach(one, DEPTH) == (SPACE.point(one, DEPTH),)


@pytest.mark.parametrize("seed", range(12))
def test_what_an_event_may_become_is_one_expression_with_wild_cards(seed: int) -> None:
    rng = random.Random(seed)
    one = anything(rng)
    found = SPACE.wild_reach(one, DEPTH)
    assert len(found) == 1
    assert wildcards.plain(found) == SPACE.reach(one, DEPTH)


def dz(
    text: str, fields: Mapping[Path, Field], depth: int = 40, **given: Any
) -> tuple[list[str], bool, float]:
    found = Space.of(fields).dz(parse(text, fields), depth=depth, **given)
    return list(found.dz), found.exact, found.volume


def field(name: str, kind: Type, *domain: Any) -> dict[Path, Field]:
    return {(name,): Field((name,), kind, domain or None)}


def test_attributes_take_turns_in_the_order_declared_and_pass_when_used_up() -> None:
    fields = field("x", Type.INT, 0, 7) | field("fire", Type.BOOL) | field("one", Type.INT, 4, 4)
    assert Space.of(fields).turns(99) == [0, 1, 0, 0]
    assert Space.of(fields).point({"x": 5, "fire": True}, 99) == "1101"


def test_whole_numbers_are_widened_to_a_power_of_two_and_the_end_reaches_the_widened_end() -> None:
    fields = field("x", Type.INT, 1, 5)
    assert dz("x >= 5", fields) == (["1"], True, 0.5)
    assert dz("x BETWEEN 2 AND 3", fields) == (["001", "010"], True, 0.25)
    assert dz("x <= 4", fields) == (["0"], True, 0.5)


def test_what_lies_outside_a_domain_lies_at_its_edge() -> None:
    fields = field("x", Type.INT, 0, 5)
    assert dz("x > 100", fields) == (["101", "11"], True, 0.375)
    assert dz("x = 6", fields) == (["101", "11"], True, 0.375)
    assert dz("x < -100", fields) == (["000"], True, 0.125)
    assert dz("x BETWEEN -7 AND 1", fields) == (["00"], True, 0.25)
    assert dz("x > 100", fields, depth=2) == (["1"], False, 0.5)
    space = Space.of(fields)
    assert [space.point({"x": value}, 9) for value in (-9, 0, 5, 9)] == ["000", "000", "101", "101"]


def test_a_missing_value_lies_in_the_lowest_cell_and_so_does_is_null() -> None:
    fields = field("x", Type.INT, 0, 3)
    assert Space.of(fields).point({}, 9) == "00"
    assert dz("x IS NULL", fields) == (["00"], True, 0.25)
    assert dz("x IS NULL", fields, depth=1) == (["0"], False, 0.5)
    assert dz("x IS NULL OR x = 3", fields) == (["00", "11"], True, 0.5)
    assert dz("NOT (x IS NULL)", fields) == ([""], True, 1.0)
    assert Space.of(fields).reach({}, 9) == ("",)


def test_a_missing_float_lies_in_the_lowest_cell_of_any_depth() -> None:
    fields = field("f", Type.FLOAT, 1.0, 2.0)
    assert dz("f IS NULL", fields, depth=3) == (["000"], False, 0.125)
    assert dz("f = 1", fields, depth=3) == (["000"], False, 0.125)
    assert Space.of(fields).point({}, 80) == "0" * 80
    # Between the two lowest floats there is none, so that the lower half of them has no value.
    assert Space.of(fields).point({"f": 1.0}, 80).rstrip("1") == "0" * 52


def test_the_one_value_of_a_domain_of_floats_lies_above_every_middle_and_a_missing_one_below() -> None:
    fields = field("f", Type.FLOAT, 2.0, 2.0)
    space = Space.of(fields)
    assert [space.point(one, 4) for one in ({"f": 2.0}, {"f": 1.0}, {"f": 9.0}, {})] == [
        "1111", "1111", "1111", "0000",
    ]  # fmt: skip
    assert dz("f = 2", fields, depth=4) == ([""], True, 1.0)
    assert dz("f IS NULL", fields, depth=4) == (["0"], True, 0.5)
    assert dz("f < 1", fields, depth=4) == ([""], True, 1.0)


def test_the_upper_half_of_floats_has_the_middle_and_the_end() -> None:
    fields = field("f", Type.FLOAT, 0.0, 8.0)
    space = Space.of(fields)
    assert [space.point({"f": value}, 2) for value in (0.0, 1.9, 2.0, 4.0, 8.0, 99.0)] == [
        "00", "00", "01", "10", "11", "11",
    ]  # fmt: skip
    assert dz("f >= 4", fields) == (["1"], True, 0.5)
    assert dz("f < 2", fields) == (["00"], True, 0.25)
    assert dz("f <= 2", fields, depth=3) == (["00", "010"], False, 0.375)
    assert dz("f > 9", fields, depth=3) == (["111"], False, 0.125)
    assert dz("f < -9", fields, depth=3) == (["000"], False, 0.125)
    assert dz("f BETWEEN 2 AND 8", fields) == (["01", "1"], True, 0.75)


def test_listed_strings_are_in_the_order_of_the_list_and_others_in_the_last_place() -> None:
    fields = field("s", Type.STRING, "storm", "calm", "rough")
    assert dz("s = 'calm'", fields) == (["01"], True, 0.25)
    assert dz("s IN ('storm', 'calm')", fields) == (["0"], True, 0.5)
    assert dz("s = 'rough'", fields) == (["1"], True, 0.5)
    assert dz("s = 'wild'", fields) == (["1"], True, 0.5)
    assert Space.of(fields).point({"s": "wild"}, 9) == "10"


def test_ranges_and_patterns_take_in_the_strings_that_are_not_listed() -> None:
    # Of the strings before b, 'a' lies in the first place and others, 'aa' for one, in the last.
    fields = field("s", Type.STRING, "a", "b", "c")
    assert dz("s < 'b'", fields) == (["00", "1"], True, 0.75)
    assert dz("s BETWEEN 'a' AND 'b'", fields) == ([""], True, 1.0)
    assert dz("s LIKE 'a%'", fields) == (["00", "1"], True, 0.75)
    assert dz("s IN ('a', 'b')", fields) == (["0"], True, 0.5)


def test_points_in_time_are_whole_microseconds() -> None:
    fields = field("t", Type.TIMESTAMP, START, START + 7 * MICROSECOND)
    assert dz("t >= TIMESTAMP '2026-11-01T00:00:00.000004Z'", fields) == (["1"], True, 0.5)


def test_fields_without_a_domain_are_left_out() -> None:
    fields = field("x", Type.INT) | field("y", Type.INT, 0, 1)
    assert dz("x = 1 AND y = 1", fields) == (["1"], True, 0.5)
    assert dz("x = 1", fields) == ([""], True, 1.0)
    assert dz("x > 3 AND x < 2", fields) == ([], True, 0.0)
    assert [one.path for one in Space.of(FIELDS).attributes] == [
        ("x",), ("fire",), ("sea", "state"), ("f",), ("t",),
    ]  # fmt: skip


def test_parts_that_cover_a_cell_together_are_exact() -> None:
    fields = field("f", Type.FLOAT, 0.0, 8.0)
    assert dz("f < 1.1 OR f >= 1.1", fields, depth=3) == ([""], True, 1.0)
    assert dz("f < 1.1 OR f > 1.1", fields, depth=3) == ([""], False, 1.0)
    both = field("x", Type.INT, 0, 7) | field("y", Type.INT, 0, 7)
    text = "(x < 3 AND y < 4) OR (x BETWEEN 3 AND 7 AND y < 4)"
    assert dz(text, both, depth=2) == (["00", "10"], True, 0.5)


def test_beyond_the_depth_a_box_is_enclosed() -> None:
    fields = field("x", Type.INT, 0, 7)
    assert dz("x = 5", fields, depth=2) == (["10"], False, 0.25)
    assert dz("x = 5", fields, depth=0) == ([""], False, 1.0)


def test_a_filter_that_nothing_satisfies_has_no_expressions() -> None:
    assert dz("x > 3 AND x < 2", field("x", Type.INT, 0, 7)) == ([], True, 0.0)


def test_a_box_that_needs_too_many_cells_is_enclosed() -> None:
    fields: dict[Path, Field] = {(f"a{at}",): Field((f"a{at}",), Type.INT, (1, 128)) for at in range(10)}
    text = "a0 BETWEEN 3 AND 99 AND a4 BETWEEN 5 AND 77 AND a9 BETWEEN 7 AND 90"
    found = Space.of(fields).dz(parse(text, fields), depth=70, most=16)
    assert 0 < len(found.dz) <= 16
    assert not found.exact
    inside_it = {f"a{at}": 60 for at in range(10)}
    assert holds(found.dz, Space.of(fields).point(inside_it, 70))


# Judged by enumerating points, with lists of values and nothing else.

SMALL: dict[Path, Field] = {
    ("x",): Field(("x",), Type.INT, (-2, 3)),
    ("s",): Field(("s",), Type.STRING, ("rough", "calm", "storm")),
    ("fire",): Field(("fire",), Type.BOOL),
    ("n",): Field(("n",), Type.INT),
}
PLACES = {"x": 8, "s": 4, "fire": 2}
OF_DOMAIN: dict[str, list[Any]] = {
    "x": [-2, -1, 0, 1, 2, 3],
    "s": ["rough", "calm", "storm"],
    "fire": [False, True],
}

literals = {"x": st.integers(-4, 5).map(str), "s": st.sampled_from(["'calm'", "'storm'", "'tempest'"])}
terms = st.one_of(
    st.builds("x {} {}".format, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), literals["x"]),
    st.builds("x BETWEEN {} AND {}".format, literals["x"], literals["x"]),
    st.builds("x NOT IN ({}, {})".format, literals["x"], literals["x"]),
    st.builds("s = {}".format, literals["s"]),
    st.builds("s LIKE '{}%'".format, st.sampled_from(["", "c", "st", "te", "z"])),
    st.builds("n {} 1".format, st.sampled_from(["<", ">=", "<>"])),
    st.builds("{} IS {}NULL".format, st.sampled_from(["x", "s", "fire", "n"]), st.sampled_from(["", "NOT "])),
    st.just("fire"),
)
filters = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=4,
)
depths = st.sampled_from([0, 1, 2, 3, 4, 5, 99])
mosts = st.sampled_from([None, 1, 2, 3, 6])
unknowns = st.sampled_from(list(Unknown))


def known(*values: Any) -> dict[str, Any]:
    """An event of x, s, fire and n."""
    found = zip(("x", "s", "fire", "n"), values, strict=True)
    return {name: value for name, value in found if value is not None}


ANYTHING: dict[str, list[Any]] = {
    "x": [None, -9, *range(-4, 6), 9],
    "s": [None, *OF_DOMAIN["s"], "a", "cz", "stz", "tempest", "tez", "zz"],
    "fire": [None, False, True],
    "n": [None, 0, 1, 2],
}
"""Missing values, and some of every kind that the literals of the filters tell apart."""


def places_of(name: str, value: Any) -> set[int]:
    """By the rules: outside at the edge, not listed in the last, missing in the lowest place.

    The last value has all that is widened.
    """
    if value is None:
        return {0}
    if name == "x":
        at = min(max(value, -2), 3) + 2
    elif name == "s":
        at = OF_DOMAIN["s"].index(value) if value in OF_DOMAIN["s"] else 2
    else:
        at = int(value)
    return set(range(at, PLACES[name])) if at == len(OF_DOMAIN[name]) - 1 else {at}


def cell_of(x: int, s: int, fire: int) -> str:
    """In turn: x, s, fire, x, s, x."""
    a, b, c = format(x, "03b"), format(s, "02b"), format(fire, "b")
    return a[0] + b[0] + c + a[1] + b[1] + a[2]


def cells_taken(asked: Filter, unknown: Unknown) -> set[str]:
    """The finest cells that a filter asks for, by trying values of every kind."""
    found: set[str] = set()
    for box in asked.boxes(unknown):
        regions = {path[0]: region for path, region in box}
        sides = []
        for name, values in ANYTHING.items():
            taken = [value for value in values if name not in regions or value in regions[name]]
            # For one who assumes, a missing value may be any: it is met wherever the others are.
            there = [value for value in taken if value is not None] or taken
            sides.append((name, there))
        if all(there for _, there in sides):
            sets = [set().union(*(places_of(name, one) for one in there)) for name, there in sides[:3]]
            found |= {cell_of(*places) for places in product(*sets)}
    return found


def all_below(dz: expressions.Set) -> set[str]:
    return {cell_of(*places) for places in product(*map(range, PLACES.values()))} & {
        one + "".join(rest) for one in dz for rest in product("01", repeat=6 - len(one))
    }


@given(filters, unknowns, depths, mosts)
def test_a_set_is_that_of_the_rules_and_exact_if_and_only_if_nothing_was_added(
    text: str, unknown: Unknown, depth: int, most: int | None
) -> None:
    asked, space = parse(text, SMALL), Space.of(SMALL)
    taken = cells_taken(asked, unknown)
    found = space.dz(asked, unknown, depth=depth, most=most)
    wanted = expressions.canonical(cell[:depth] for cell in taken)
    assert found.dz == (wanted if most is None else expressions.coarsened(wanted, most))
    assert found.exact == (all_below(found.dz) == taken)
    wild = space.wild(asked, unknown, depth=depth, most=most)
    assert wild.exact == (all_below(wildcards.plain(wild.dz)) == taken)


@cache
def cells_of_events() -> list[tuple[dict[str, Any], set[str]]]:
    """Events of every kind, and the finest cells that each stands for."""
    found = []
    for values in product(*ANYTHING.values()):
        sets = (places_of(name, value) for name, value in zip(PLACES, values, strict=False))
        found.append((known(*values), {cell_of(*places) for places in product(*sets)}))
    return found


@given(filters)
def test_a_set_has_the_cells_of_the_events_that_a_filter_takes(text: str) -> None:
    asked, space = parse(text, SMALL), Space.of(SMALL)
    met: set[str] = set()
    for one, cells in cells_of_events():
        if not cells <= met and asked.matches(one):
            met |= cells
    assert space.dz(asked, depth=99).dz == expressions.canonical(met)


# The same for floats and points in time: every quarter of a float, since cells and literals end with halves.

LINES: dict[Path, Field] = {
    ("f",): Field(("f",), Type.FLOAT, (0.0, 8.0)),
    ("t",): Field(("t",), Type.TIMESTAMP, (START, START + 2 * MICROSECOND)),
}
comparisons = st.sampled_from(["<", "<=", "=", "<>", ">", ">="])
halves = st.integers(-2, 18).map(lambda twice: str(twice / 2))
moments = st.integers(-1, 3).map(lambda at: f"TIMESTAMP '{(START + at * MICROSECOND).isoformat()}'")
lines = st.recursive(
    st.one_of(
        st.builds("f {} {}".format, comparisons, halves),
        st.builds("f NOT IN ({}, {})".format, halves, halves),
        st.builds("t {} {}".format, comparisons, moments),
        st.builds("{} IS {}NULL".format, st.sampled_from("ft"), st.sampled_from(["", "NOT "])),
    ),
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    ),
    max_leaves=4,
)


@cache
def cells_of_lines() -> list[tuple[dict[str, Any], set[tuple[float, str]]]]:
    """Events, and the places of f and the cells of six bits that each stands for."""
    found = []
    for f, t in product([None, *(quarter / 4 for quarter in range(-5, 38))], [None, *range(-2, 5)]):
        place = 0.0 if f is None else min(max(f, 0.0), 8.0)
        # Four halvings of f, of which the upper half has the middle, and the end too.
        bits = format(min(int(place * 2), 15), "04b")
        at = 0 if t is None else min(max(t, 0), 2)
        cells = set()
        for other in {at, 3} if at == 2 else {at}:
            later = format(other, "02b")
            cells.add((place, bits[0] + later[0] + bits[1] + later[1] + bits[2:]))
        event = {"f": f, "t": None if t is None else START + t * MICROSECOND}
        found.append(({name: value for name, value in event.items() if value is not None}, cells))
    return found


@given(lines, st.integers(0, 6))
def test_floats_and_points_in_time_have_the_cells_of_the_events_that_a_filter_takes(
    text: str, depth: int
) -> None:
    asked = parse(text, LINES)
    found = Space.of(LINES).dz(asked, depth=depth)
    every: set[tuple[float, str]] = set()
    taken: set[tuple[float, str]] = set()
    for event, cells in cells_of_lines():
        every |= cells
        if not cells <= taken and asked.matches(event):
            taken |= cells
    assert found.dz == expressions.canonical(cell[:depth] for _, cell in taken)
    same = taken == {one for one in every if holds(found.dz, one[1])}
    # Several boxes may fill the cells together, though none does so alone: that need not be seen.
    assert found.exact == same or (same and len(asked.disjuncts) > 1)


@cache
def reaches() -> list[tuple[dict[str, Any], str, expressions.Set]]:
    """Events, some outside the domains and some without fields, with their points and all they may become."""
    space = Space.of(SMALL)
    events = [
        known(*values)
        for values in product(
            [*OF_DOMAIN["x"], -9, 9, None], [*OF_DOMAIN["s"], "te", "", None], [False, True, None], [0, None]
        )
    ]
    return [(one, space.point(one, 99), space.reach(one, 99)) for one in events]


@given(filters, unknowns, depths, mosts)
def test_every_event_that_a_filter_takes_lies_in_its_set(
    text: str, unknown: Unknown, depth: int, most: int | None
) -> None:
    asked, space = parse(text, SMALL), Space.of(SMALL)
    sets = [space.dz(asked, unknown, depth=depth, most=most).dz]
    sets.append(wildcards.plain(space.wild(asked, unknown, depth=depth, most=most).dz))
    for one, point, reach in reaches():
        if asked.matches(one, unknown):
            met = reach if unknown is Unknown.ASSUME else (point,)
            assert all(expressions.overlaps(dz, met) for dz in sets), one


@given(filters, unknowns, depths)
def test_the_form_with_wild_cards_matches_the_same_points(text: str, unknown: Unknown, depth: int) -> None:
    asked, space = parse(text, SMALL), Space.of(SMALL)
    found, wild = space.dz(asked, unknown, depth=depth), space.wild(asked, unknown, depth=depth)
    assert wild.dz == wildcards.form(found.dz)
    assert (wild.exact, wild.volume) == (found.exact, found.volume)
    assert len(wild.dz) <= len(found.dz)


@given(filters, unknowns, depths, st.integers(1, 6))
def test_at_most_so_many_expressions_are_those_of_the_depth_coarsened(
    text: str, unknown: Unknown, depth: int, most: int
) -> None:
    asked, space = parse(text, SMALL), Space.of(SMALL)
    found = space.dz(asked, unknown, depth=depth)
    assert space.dz(asked, unknown, depth=depth, most=most).dz == expressions.coarsened(found.dz, most)


def test_all_of_a_range_of_floats_is_exact_however_it_is_said() -> None:
    fields = field("f", Type.FLOAT, 0.0, 8.0)
    assert dz("f <> -1", fields, depth=3) == ([""], True, 1.0)
    assert dz("f BETWEEN 0 AND 8", fields, depth=3) == ([""], True, 1.0)
    assert dz("f BETWEEN 0 AND 7.9", fields, depth=3) == ([""], False, 1.0)


def test_an_attribute_of_one_value_takes_no_bit() -> None:
    fields = field("one", Type.INT, 7, 7) | field("y", Type.BOOL)
    assert dz("one = 7 AND y", fields) == (["1"], True, 0.5)
    assert dz("one > 7 AND y", fields) == (["1"], True, 0.5)
    assert dz("one < 7", fields) == ([""], True, 1.0)


TEN: dict[Path, Field] = {(f"a{at}",): Field((f"a{at}",), Type.INT, (1, 128)) for at in range(10)}


def test_with_wild_cards_a_box_over_some_of_many_attributes_is_exact() -> None:
    asked = parse("a3 BETWEEN 17 AND 96 AND a7 <= 64", TEN)
    found = Space.of(TEN).wild(asked, depth=70, most=16)
    assert found.exact
    assert found.volume == 80 / 128 / 2
    # Of a3 17 to 32, 33 to 64 and 65 to 96, each with the lower half of a7.
    assert found.dz == ("***0***0*****0*********1", "***0***0*****1", "***1***0*****0")


def test_of_millions_of_cells_those_are_kept_that_coarsening_would_keep() -> None:
    # The second bit of x comes after twelve others were halved in vain, the third after twelve more: 8
    # million cells. Of the 4,096 holes that the second bit leaves, the last two stay open: the first of them
    # takes no expression, since what it leaves of the one around it is one again.
    fields = field("x", Type.INT, 0, 7)
    for at in range(12):
        fields |= field(f"f{at}", Type.FLOAT, 0.0, 1.0)
    wanted = [*("0" + "1" * at + "0" for at in range(11)), "0" + "1" * 11 + "01", "0" + "1" * 12 + "1"]
    assert dz("x = 3", fields, depth=27, most=13) == (wanted, False, 0.5 - 2.0**-13)
    assert dz("x = 3", fields, depth=27, most=12) == (["0"], False, 0.5)


def test_no_decomposition_has_more_members_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "CELLS_MAX", 100)
    asked = parse("a0 <= 64 AND a4 BETWEEN 5 AND 77", TEN)
    # The first bit of a0 leaves a half; the second of a4, at depth 15, leaves thousands of cells.
    found = Space.of(TEN).dz(asked, depth=70)
    assert (found.dz, found.exact, found.bounded) == (("0",), False, True)
    assert not Space.of(TEN).dz(asked, depth=70, most=9).bounded
    assert not Space.of(TEN).dz(asked, depth=14).bounded


def test_a_form_with_wild_cards_that_would_take_too_long_is_enclosed_at_a_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spaces, "VISITS_MAX", 100)
    asked = parse("a0 BETWEEN 3 AND 99 AND a4 BETWEEN 5 AND 77", TEN)
    space = Space.of(TEN)
    found = space.wild(asked, depth=70)
    assert (found.exact, found.bounded) == (False, True)
    assert found.volume < 1
    for a0, a4 in ((3, 5), (99, 77), (50, 50)):
        point = space.point(dict.fromkeys((f"a{at}" for at in range(10)), 1) | {"a0": a0, "a4": a4}, 70)
        assert wildcards.holds(found.dz, point)
