"""Spark's filters as `where`: what goes to a broker means there what it means in Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource as d

from tidings.errors import InputError
from tidings.language.filters import parse
from tidings.pipeline.connector.filter_pushdown import check, narrowed, split, text_of
from tidings.pipeline.connector.options import read_options

FIELDS = {
    "road": "string",
    "severity": "int",
    "depth": "float",
    "fire": "bool",
    "seen": "timestamp",
    "place": {"city": "string"},
    "lanes": ["int"],
}


@pytest.mark.parametrize(
    ("pushed", "text"),
    [
        (d.EqualTo(("road",), "O'Hara\\"), "road = 'O\\'Hara\\\\'"),
        (d.GreaterThan(("severity",), 3), "severity > 3"),
        (d.LessThanOrEqual(("depth",), 1.5), "depth <= 1.5"),
        (d.EqualTo(("fire",), True), "fire = TRUE"),
        (d.In(("place", "city"), ("Athens", "Bonn")), "place.city IN ('Athens', 'Bonn')"),
        (d.IsNotNull(("lanes",)), None),
        (d.IsNull(("road",)), "road IS NULL"),
        (d.Not(d.EqualTo(("severity",), 3)), "NOT (severity = 3)"),
        (d.StringStartsWith(("road",), "A"), "road LIKE 'A%'"),
        (d.StringStartsWith(("road",), "A_"), None),
        (d.EqualTo(("_seq",), 1), None),
        (d.EqualTo(("place",), {"city": "Athens"}), None),
        (d.EqualTo(("severity",), None), None),
        (d.EqualTo(("depth",), float("nan")), None),
        (d.EqualNullSafe(("severity",), 3), None),
        (d.StringEndsWith(("road",), "A"), None),
    ],
)
def test_a_filter_goes_down_as_a_term_or_stays(pushed: d.Filter, text: str | None) -> None:
    assert text_of(pushed, FIELDS) == text


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("severity >= 3 AND place.city = 'Athens' AND lanes IS NULL AND $topic LIKE 'a/%'", None),
        ("severty >= 3", "where: .*'?severty"),
        ("severity >= 'high'", "where: .*severity"),
        ("lanes = 2", "where: .*lanes"),
        ("severity >", "where: .*expected"),
        (f"road = '{'x' * 7000}'", "where has 70.. bytes in a request, and may have 6144"),
    ],
)
def test_a_where_that_brokers_would_refuse_is_refused_at_once(where: str, reason: str | None) -> None:
    if reason is None:
        check(where, FIELDS)
    else:
        with pytest.raises(InputError, match=reason):
            check(where, FIELDS)


def test_a_topic_without_fields_takes_any_where_that_can_be_read() -> None:
    check("anything = 3", {})


def test_a_time_is_the_same_point_in_time() -> None:
    at = datetime(2026, 11, 15, 11, 5, 0, 250_000, tzinfo=UTC)
    text = text_of(d.EqualTo(("seen",), at), FIELDS)
    assert text is not None
    assert parse(text).evaluate({"seen": at}) is True


def test_what_stays_is_given_back_by_itself() -> None:
    kept = d.EqualTo(("_seq",), 1)
    taken, left = split([d.EqualTo(("road",), "A1"), kept], FIELDS)
    assert taken == ["road = 'A1'"]
    assert left == [kept]
    assert left[0] is kept


def test_what_would_make_a_request_too_long_stays() -> None:
    long = d.In(("road",), tuple(f"road number {number}" for number in range(400)))
    taken, left = split([long, d.EqualTo(("severity",), 3)], FIELDS, "fire")
    assert (taken, left) == (["severity = 3"], [long])


def test_both_filters_hold_together() -> None:
    options = read_options({"topic": "t", "where": "a = 1 OR b = 2"}, streaming=False)
    assert narrowed(options, ["c = 3", "d = 4"]).where == "(a = 1 OR b = 2) AND c = 3 AND d = 4"
    assert narrowed(options, []).where == "a = 1 OR b = 2"
