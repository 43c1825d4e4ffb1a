"""Views: what is a view, and what a client gets that asks for part of one."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import DeclarationError, FilterError, FilterTooCostly
from tidings.language import names
from tidings.language.filters import parse
from tidings.language.regions import Unknown
from tidings.language.views import VIEW_BYTES_MAX, View, asked, both, intersection, parse_view

SEVERE: dict[str, Any] = {
    "name": "severe",
    "from": "traffic/#",
    "where": "severity >= 3",
    "unknown": "assume",
}


def problems(mapping: object) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        parse_view(json.dumps(mapping))
    return [problem.message for problem in caught.value.problems]


def test_a_view_is_read_from_json_and_written_back() -> None:
    view = parse_view(json.dumps(SEVERE))
    assert view == View("severe", "traffic/#", "severity >= 3", Unknown.ASSUME)
    assert parse_view(view.text) == view


def test_only_name_and_topics_must_be_said() -> None:
    assert View.from_mapping({"name": "all", "from": "#"}) == View("all", "#", "", Unknown.WAIT)
    nothing = {"where": None, "unknown": None, "every": None}
    assert View.from_mapping({"name": "all", "from": "#", **nothing}) == View("all", "#")


def test_a_view_may_say_how_often_a_growing_event_is_wanted() -> None:
    view = View.from_mapping(SEVERE | {"every": "1m30s"})
    assert view.every_us == 90_000_000
    assert view.to_mapping()["every"] == "90s"
    assert parse_view(view.text) == view
    assert "every" not in View.from_mapping(SEVERE).to_mapping()


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = problems(
        {"name": "a/b", "from": "a/#/b", "where": "x >", "unknown": "no", "every": "5", "colour": 1}
    )
    assert [fault.split(" ")[0] for fault in found] == [
        "there",
        "name:",
        "from:",
        "where:",
        "unknown:",
        "every:",
    ]


@pytest.mark.parametrize("name", ["", "a/b", "+", "a#", "$SYS", "a\nb", "x" * 256])
def test_the_name_of_a_view_is_one_level_of_a_topic(name: str) -> None:
    (fault,) = problems(SEVERE | {"name": name})
    assert fault.startswith("name:")


@pytest.mark.parametrize("topics", ["$SYS/#", "$share/g/a", "view/other/#", "a/#/b", "", "a\0"])
def test_a_view_looks_at_topics_that_clients_publish(topics: str) -> None:
    (fault,) = problems(SEVERE | {"from": topics})
    assert fault.startswith("from:")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '"a"', "null", "[" * 100_000, " " * (VIEW_BYTES_MAX + 1)]
)
def test_what_is_not_a_json_object_is_no_view(text: str) -> None:
    with pytest.raises(DeclarationError):
        parse_view(text)


@given(st.text())
def test_whatever_a_text_is_it_is_a_view_or_is_refused(text: str) -> None:
    try:
        view = parse_view(json.dumps(SEVERE | {"where": text}))
    except DeclarationError:
        return
    view.text.encode()
    assert parse_view(view.text) == view


def test_a_text_that_no_message_can_carry_is_refused() -> None:
    for option in ("name", "from", "where"):
        with pytest.raises(DeclarationError):
            parse_view(json.dumps(SEVERE | {option: "x = '\ud800'"}))


# What part of a view a client asks for.

LEVELS = ("a", "b", "$s", "")
NAMES = [
    name
    for count in (1, 2, 3, 4)
    for levels in product(LEVELS, repeat=count)
    if names.name_fault(name := "/".join(levels)) is None
]
FILTERS = [
    text
    for count in (1, 2, 3)
    for levels in product((*LEVELS, "+", "#"), repeat=count)
    if names.filter_fault(text := "/".join(levels)) is None
]
MATCHED = {text: frozenset(name for name in NAMES if names.match(text, name)) for text in FILTERS}


def test_an_intersection_matches_exactly_what_both_match() -> None:
    checked = 0
    for one, other in product(FILTERS, repeat=2):
        common = intersection(one, other)
        wanted = MATCHED[one] & MATCHED[other]
        if common is None:
            assert not wanted, f"{one} and {other} have {sorted(wanted)[:3]} in common"
        else:
            assert names.filter_fault(common) is None
            assert MATCHED[common] == wanted, f"{one} and {other} do not make {common}"
        checked += 1
    assert checked > 10_000


filters = st.lists(st.sampled_from(("a", "b", "$s", "", "+", "#")), min_size=1, max_size=6).map("/".join)
topics = st.lists(st.sampled_from(("a", "b", "$s", "")), min_size=1, max_size=7).map("/".join)


@given(
    filters.filter(lambda it: not names.filter_fault(it)),
    filters.filter(lambda it: not names.filter_fault(it)),
    topics,
)
def test_an_intersection_of_longer_filters_matches_what_both_match(one: str, other: str, name: str) -> None:
    if names.name_fault(name):
        return
    common = intersection(one, other)
    wanted = names.match(one, name) and names.match(other, name)
    assert (common is not None and names.match(common, name)) == wanted


def test_a_client_gets_of_a_view_what_its_own_filter_matches_too() -> None:
    view = View("severe", "traffic/+/road")
    assert asked(view, "#") == "traffic/+/road"
    assert asked(view, "traffic/athens/#") == "traffic/athens/road"
    assert asked(view, "weather/#") is None
    assert asked(view, "") is None


# Two content filters.

EVENTS: list[dict[str, object]] = [
    {name: value for name, value in zip("xyz", values, strict=True) if value is not None}
    for values in product((None, 1, 3), repeat=3)
]
WHERES = ("", "x > 1", "x = 1 OR y = 3", "NOT y = 1", "z IS NULL OR x < 3 AND y > 1")


def test_both_filters_must_take_an_event() -> None:
    for one, other in product(WHERES, repeat=2):
        joined = both(one, other)
        for event in EVENTS:
            for unknown in Unknown:
                takes = [parse(where).matches(event, unknown) for where in (one, other) if where]
                assert (not joined or parse(joined).matches(event, unknown)) == all(takes)


@pytest.mark.parametrize("sly", ["TRUE) OR (TRUE", "x = 1) --", "x = 1 /*", "x = 1) OR (y = 1", "(", "x ="])
def test_no_filter_can_undo_the_other(sly: str) -> None:
    for one, other in (("severity >= 3", sly), (sly, "severity >= 3"), ("", sly)):
        with pytest.raises(FilterError):
            both(one, other)


def test_two_filters_that_are_too_much_together_are_refused() -> None:
    long = " OR ".join(f"(x = {at} AND y = {at})" for at in range(40))
    parse(long)
    with pytest.raises(FilterTooCostly):
        both(long, long.replace("x", "v").replace("y", "w"))
