"""The judge of filters.

Spark evaluating the same text on the same rows gives the same verdict, all three of them.
"""

from __future__ import annotations

import contextlib
import random
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError, FilterTooCostly
from tidings.language.fields import Type, find
from tidings.language.filters import Filter, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILTERS_PER_QUERY = 60
"""Spark's optimiser is given that many columns at once; with more, planning takes most of the time."""

ROWS = 60

SQL_TYPES = {
    Type.INT: "BIGINT",
    Type.FLOAT: "DOUBLE",
    Type.STRING: "STRING",
    Type.BOOL: "BOOLEAN",
    Type.TIMESTAMP: "TIMESTAMP",
}


def schema() -> str:
    flat = [f"`{path[0]}` {SQL_TYPES[field.type]}" for path, field in FIELDS.items() if len(path) == 1]
    return ", ".join([*flat, "p STRUCT<city: STRING, lane: BIGINT>"])


def rows(spark: SparkSession, events: list[dict[str, object]]) -> DataFrame:
    names = [path[0] for path in FIELDS if len(path) == 1]
    return spark.createDataFrame(
        [
            (
                at,
                *(naive(event.get(name)) for name in names),
                None if "p" not in event else (find(event, ("p", "city")), find(event, ("p", "lane"))),
            )
            for at, event in enumerate(events)
        ],
        schema="row INT, " + schema(),
    ).cache()


def naive(value: object) -> object:
    """Spark takes a naive datetime in the zone of the process, an aware one as it is; both are UTC here."""
    return value.astimezone() if isinstance(value, datetime) and value.year not in (1, 9999) else value


def disagreements(frame: DataFrame, events: list[dict[str, object]], texts: dict[str, Filter]) -> list[str]:
    """Every (filter, row) on which Spark and we differ."""
    from pyspark.sql import functions

    found = []
    answered = frame.select(
        "row", *(functions.expr(text).alias(f"c{at}") for at, text in enumerate(texts))
    ).collect()
    for answer in answered:
        event = events[answer["row"]]
        for at, (text, filter_) in enumerate(texts.items()):
            ours, theirs = filter_.evaluate(event), answer[f"c{at}"]
            if ours is not theirs:
                found.append(f"{text!r} of {event!r}: {ours} here, {theirs} in Spark")
    return found


@pytest.mark.parametrize("seed", range(8))
def test_every_verdict_is_sparks(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    events = [some_event(rng) for _ in range(ROWS)]
    frame = rows(spark, events)
    written: dict[str, Filter] = {}
    while len(written) < FILTERS_PER_QUERY:
        text = some_filter(rng)
        # A filter of our generator can only be beyond a limit; any other refusal would be a mistake.
        with contextlib.suppress(FilterTooCostly):
            written[text] = parse(text, FIELDS)
    assert disagreements(frame, events, written) == []
    # The canonical text is a filter too, and the one that travels between brokers.
    canonical = {filter_.text: parse(filter_.text, FIELDS) for filter_ in written.values()}
    assert disagreements(frame, events, canonical) == []


@pytest.mark.parametrize("seed", range(100, 104))
def test_an_undeclared_topic_whose_values_are_of_one_kind_is_sparks_too(
    spark: SparkSession, seed: int
) -> None:
    """Without a declaration the literal says what is compared, and a column of that kind gives the same
    verdict.

    Timestamps are left out: without a declaration a string literal is a string, where Spark would cast it.
    """
    rng = random.Random(seed)
    events = [some_event(rng) for _ in range(ROWS)]
    fields = {path: field for path, field in FIELDS.items() if field.type is not Type.TIMESTAMP}
    written: dict[str, Filter] = {}
    while len(written) < FILTERS_PER_QUERY:
        text = some_filter(rng, fields)
        # Numbers that a 64-bit float cannot hold are refused here.
        with contextlib.suppress(FilterError):
            written[text] = parse(text)
    assert disagreements(rows(spark, events), events, written) == []
