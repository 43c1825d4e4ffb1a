"""`$topic` and `$user.name`: what a filter asks of the publication itself, on every topic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.language.samples import FIELDS, OWN, some_event, some_filter
from tidings.errors import DeclarationError, FilterError, FilterTooCostly
from tidings.language.covering import covers, merge
from tidings.language.declarations import parse_topic
from tidings.language.fields import Field, Path, Type, find
from tidings.language.filters import Filter, Unknown, parse
from tidings.matching import Index, Scan

DECLARED = pytest.mark.parametrize("fields", [FIELDS, None], ids=["declared", "undeclared"])
RANDOM = st.randoms(use_true_random=False)
SOME = {path: field for path, field in FIELDS.items() if path in (("s",), ("p", "city"))} | OWN

EVENT: dict[str, object] = {"i": 4, "$topic": "traffic/athens", "$user": {"lang": "el", "a b": "1"}}


@DECLARED
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("$topic = 'traffic/athens'", True),
        ("`$topic` = 'traffic/athens'", True),
        ("$topic LIKE 'traffic/%' AND i >= 3", True),
        ("NOT $topic IN ('a', 'b')", True),
        ("'u' < $topic", False),
        ("$user.lang = 'el'", True),
        ("`$user`.`lang` BETWEEN 'ek' AND 'em'", True),
        ("$user.`a b` = '1'", True),
        ("$user.region = 'x'", None),
        ("$user.region IS NULL", True),
        ("$user.order IS NOT NULL", False),
    ],
)
def test_topic_and_user_properties_are_strings(
    fields: Mapping[Path, Field] | None, text: str, verdict: bool | None
) -> None:
    read = parse(text, fields)
    assert read.evaluate(EVENT) is verdict
    assert all(read.types[path] is Type.STRING for path in read.paths if path[0].startswith("$"))


def test_the_canonical_text_is_one_that_spark_reads() -> None:
    assert parse("$topic = 'a' and $user.lang='b'").text == "`$topic` = 'a' AND `$user`.lang = 'b'"


@DECLARED
@pytest.mark.parametrize(
    ("text", "reason", "marked"),
    [
        ("$topic > 3", "`$topic` is a string", "3"),
        ("$topic", "not a condition", "$topic"),
        ("$topic.city = 'a'", "it has no fields", "$topic.city"),
        ("`$topic`.city = 'a'", "it has no fields", "`$topic`.city"),
        ("$user = 'a'", "is written $user.name", "$user"),
        ("$user.a.b = 'a'", "is written $user.name", "$user.a.b"),
        ("p.$topic = 'a'", "there are $topic and $user.name", "$topic"),
        ("$Topic = 'a'", "there are $topic and $user.name", "$Topic"),
        ("$qos = 1", "there are $topic and $user.name", "$qos"),
        ("$ topic = 'a'", "there are $topic and $user.name", "$ topic"),
        ("i = $1", "there are $topic and $user.name", "$1"),
        ("$", "parameters are not part", "$"),
        ("i $topic", "a name cannot stand here", "$topic"),
        ("$topic('a')", "functions are not part", "$topic"),
    ],
)
def test_what_else_begins_with_a_dollar_is_refused(
    fields: Mapping[Path, Field] | None, text: str, reason: str, marked: str
) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, fields)
    assert reason in caught.value.reason
    assert text[caught.value.start : caught.value.end] == marked


def test_a_field_of_an_event_may_begin_with_a_dollar_in_backticks() -> None:
    assert parse("`$id` > 3").evaluate({"$id": 4}) is True


@pytest.mark.parametrize("name", ["$topic", "$user"])
def test_no_field_can_be_declared_by_these_names(name: str) -> None:
    with pytest.raises(DeclarationError, match="something else of a publication"):
        parse_topic(f'name = "t"\n[fields]\n"{name}" = {{ type = "int" }}\n')


def own_event(rng: random.Random, mixed: bool = False) -> dict[str, Any]:
    """An event as a broker gives it to filters: of any payload, with what is said of its publication."""
    return {**some_event(rng, mixed=mixed), "$user": None, **some_event(rng, OWN)}


def own_filter(rng: random.Random, fields: Mapping[Path, Field] | None) -> Filter:
    while True:
        try:
            return parse(some_filter(rng, SOME), fields)
        except FilterTooCostly:
            continue


@DECLARED
@settings(max_examples=examples(50))
@given(rng=RANDOM)
def test_normal_form_canonical_text_and_terms_agree(
    fields: Mapping[Path, Field] | None, rng: random.Random
) -> None:
    read = own_filter(rng, fields)
    again = parse(read.text, fields)
    assert (again, again.text) == (read, read.text)
    for _ in range(10):
        event = own_event(rng, mixed=fields is None)
        for unknown in Unknown:
            inside = any(
                all(find(event, path) in region for path, region in box) for box in read.boxes(unknown)
            )
            assert inside == read.matches(event, unknown), (read.source, event, unknown)


@DECLARED
@settings(max_examples=examples(50))
@given(rng=RANDOM)
def test_covering_and_merging_keep_their_promises(
    fields: Mapping[Path, Field] | None, rng: random.Random
) -> None:
    a, b = own_filter(rng, fields), own_filter(rng, fields)
    merged = merge(a, b)
    for unknown in Unknown:
        wide = covers((a, unknown), (b, unknown))
        for _ in range(10):
            event = own_event(rng, mixed=fields is None)
            assert not wide or not b.matches(event, unknown) or a.matches(event, unknown)
            if merged is not None:
                assert merged.matches(event, unknown) == (
                    a.matches(event, unknown) or b.matches(event, unknown)
                )


def test_covering_knows_them() -> None:
    wide, narrow = parse("$topic LIKE 'a/%'"), parse("$topic = 'a/b' AND $user.x = '1' AND i > 3")
    assert covers((wide, Unknown.WAIT), (narrow, Unknown.WAIT))
    assert not covers((narrow, Unknown.WAIT), (wide, Unknown.WAIT))


@DECLARED
@pytest.mark.parametrize("seed", range(5))
def test_the_index_agrees_with_the_scan(fields: Mapping[Path, Field] | None, seed: int) -> None:
    rng = random.Random(seed)
    index, scan = Index(compiled_too=False), Scan()
    for at in range(30):
        one, unknown = own_filter(rng, fields), rng.choice(list(Unknown))
        index.add(at, one, unknown)
        scan.add(at, one, unknown)
    events = [own_event(rng, mixed=fields is None) for _ in range(10)]
    wanted = [sorted(scan.match(event)) for event in events]
    assert [sorted(map(int, index.match(event))) for event in events] == wanted
    assert [sorted(map(int, found)) for found in index.match_batch(events)] == wanted
