"""Spark's filters as `where`: what goes to a broker means there what it means in Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource as d

from tidings.language.filters import parse
from tidings.pipeline.connecting import read_options
from tidings.pipeline.pushing import narrowed, split, text_of

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


def test_both_filters_hold_together() -> None:
    options = read_options({"topic": "t", "where": "a = 1 OR b = 2"}, streaming=False)
    assert narrowed(options, ["c = 3", "d = 4"]).where == "(a = 1 OR b = 2) AND c = 3 AND d = 4"
    assert narrowed(options, []).where == "a = 1 OR b = 2"
