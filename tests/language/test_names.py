from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language.names import (
    Pattern,
    filter_covers,
    filter_fault,
    match,
    name_fault,
    parse_pattern,
)


@pytest.mark.parametrize(
    "name", ["a", "/", "a/b", "/a", "a//b", "$SYS/x", "ελλάδα/αθήνα", "a b", "x" * 65_535]
)
def test_good_topic_names(name: str) -> None:
    assert name_fault(name) is None
    assert filter_fault(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("a/+", "wildcard"),
        ("a#", "wildcard"),
        ("a\0", "NUL"),
        ("\ud800", "surrogate"),
        ("é" * 32_768, "65536 bytes"),
    ],
)
def test_bad_topic_names_are_told_why(name: str, reason: str) -> None:
    fault = name_fault(name)
    assert fault is not None
    assert reason in fault


@pytest.mark.parametrize("text", ["#", "+", "+/+", "a/#", "a/+/b", "/#", "$SYS/#", "+/a/#"])
def test_good_topic_filters(text: str) -> None:
    assert filter_fault(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("#/a", "must be the whole of the last level"),
        ("a#", "must be the whole of the last level"),
        ("a+", "must be the whole of its level"),
        ("+a/b", "must be the whole of its level"),
        ("a\0/#", "NUL"),
    ],
)
def test_bad_topic_filters_are_told_why(text: str, reason: str) -> None:
    fault = filter_fault(text)
    assert fault is not None
    assert reason in fault


# The examples of MQTT 5, section 4.7.1 and 4.7.2.
@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/x", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/x", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/+", "a/$x", True),
        ("accounts", "Accounts", False),
    ],
)
def test_filters_match_as_the_standard_says(text: str, name: str, expected: bool) -> None:
    assert match(text, name) is expected


def test_covering_of_filters_is_inclusion_of_their_names() -> None:
    parts = ["a", "$a", "", "+"]
    filters = [
        "/".join(levels)
        for length in (1, 2, 3)
        for levels in itertools.product([*parts, "#"], repeat=length)
        if "#" not in levels[:-1] and levels != ("",)
    ]
    names = [
        "/".join(levels) for n in (1, 2, 3, 4) for levels in itertools.product(["a", "$a", "", "b"], repeat=n)
    ]
    matched = {text: {name for name in names if name and match(text, name)} for text in filters}
    for wide, narrow in itertools.product(filters, repeat=2):
        assert filter_covers(wide, narrow) is (matched[narrow] <= matched[wide]), (wide, narrow)


def test_named_levels_become_fields() -> None:
    pattern = parse_pattern("fleet/+vehicle/+/+part/#")
    assert pattern.names == ("vehicle", "part")
    assert pattern.filter == "fleet/+/+/+/#"
    assert pattern.bind("fleet/v7/x/door/left") == {"vehicle": "v7", "part": "door"}
    assert pattern.bind("fleet/v7/x/door") == {"vehicle": "v7", "part": "door"}
    assert pattern.bind("fleet//x/") == {"vehicle": "", "part": ""}
    assert pattern.bind("fleet/v7/x") is None
    assert parse_pattern("traffic/athens").bind("traffic/athens") == {}
    assert parse_pattern("+region").bind("$SYS") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("a/+1x", "not an identifier"),
        ("a/+x y", "not an identifier"),
        ("a/++", "not an identifier"),
        ("+x/+x", "used once"),
        ("a/#/b", "last level"),
        ("a/#rest", "last level"),
        ("a/x+", "whole of its level"),
        ("$SYS/a", "broker's own"),
        ("a\0", "NUL"),
    ],
)
def test_bad_declaration_names_are_told_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_pattern(text)


def test_the_most_specific_declaration_comes_first() -> None:
    texts = [
        "fleet/v7/status",
        "fleet/v7/+",
        "fleet/v7/#",
        "fleet/+a/status",
        "fleet/+b/status",
        "fleet/+a/#",
        "fleet/#",
        "+/v7/status",
        "#",
    ]
    patterns = [parse_pattern(text) for text in texts]
    assert [p.text for p in sorted(patterns, key=lambda p: p.rank)] == texts


def test_a_name_is_more_specific_than_all_below_it() -> None:
    assert parse_pattern("a").rank < parse_pattern("a/#").rank < parse_pattern("#").rank


LEVEL = st.sampled_from(["a", "b", "+", "+x", "+y", ""])


@given(
    st.lists(LEVEL, min_size=1, max_size=4),
    st.booleans(),
    st.lists(st.sampled_from(["a", "b", "$", ""]), min_size=1),
)
def test_a_pattern_binds_exactly_what_its_filter_matches(
    levels: list[str], rest: bool, name: list[str]
) -> None:
    text = "/".join([*levels, "#"] if rest else levels)
    pattern = Pattern(text, tuple(text.split("/")))
    assert (pattern.bind("/".join(name)) is not None) is match(pattern.filter, "/".join(name))
