"""The judge of filters.

Spark evaluating the same text on the same rows gives the same verdict, all three of them.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.language.samples import FIELDS, OWN, some_event, some_filter
from tidings.errors import FilterError, FilterTooCostly
from tidings.language.fields import Type, find
from tidings.language.filters import Filter, parse
from tidings.language.limits import TOLD

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


@pytest.fixture(params=["ansi", "lenient"])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Both of Spark's modes; a filter means the same in either."""
    spark.conf.set("spark.sql.ansi.enabled", str(request.param == "ansi").lower())
    yield
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
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
    canonical = {filter_.text: parse(filter_.text, FIELDS, TOLD) for filter_ in written.values()}
    assert disagreements(frame, events, canonical) == []


# What a generator would not think of, and our parser might read otherwise than Spark's. Accepted means that
# Spark runs it, and says the same.
ODD = [
    "i>3",
    "  i\n>\t3\r\n",
    "i = 1 or Not i = 1",
    "NOT NOT i > 3",
    "NOT(i > 3)AND b",
    "! b",
    "!b OR ! (i > 3)",
    "((i)) = ((3))",
    "3 <= i",
    "'a' < s",
    "i = +3",
    "i = - -3",
    "i = -(-3)",
    "i BETWEEN 5 AND 1",
    "NOT i BETWEEN -1 AND 1 OR b",
    "i NOT BETWEEN -1 AND 1 AND NOT b",
    "i IN (1, 2.0, 3.5, -0)",
    "i IN ((1), (-(2)))",
    "f IN (1, 2.0, 3e0, -0.0)",
    "i = 3.0000",
    "i < 2.5 OR i > 9223372036854775806.5",
    "i >= 1e2",
    "i < .5",
    "f = 5.",
    "f > 1E-7",
    "f < 1e+22",
    "f = 9007199254740993",
    "f <= 0.1",
    "f > 99999999999999999999",
    's = "a"',
    's = "it\'s"',
    "s = 'it\\'s'",
    "s = '\\\\'",
    "s = 'a\\\\b'",
    "s = 'new\\nline'",
    "s = '50\\%'",
    "s LIKE '50\\%'",
    "s LIKE 'a\\_b'",
    "s LIKE '%\\\\%'",
    "s LIKE '%\\\\\\\\%'",
    "s LIKE 'a#_b' ESCAPE '#'",
    "s LIKE 'a/%' ESCAPE '/'",
    "s NOT LIKE '\\\\\\\\' ESCAPE '#'",
    "s LIKE '_'",
    "s LIKE '__'",
    "s LIKE 'new_line'",
    "s > '\ue000' AND s < '\U0010ffff'",
    "`p`.`city` = 'a' AND p.lane > 0",
    "p . city = 'a'",
    "p.city IS NULL OR p.lane IS NOT NULL",
    "date = 1 AND `date` < 5",
    "`Wind speed` <> 1.5",
    "t > '2026-11-01'",
    "t > '2026-11-01 12:30'",
    "t > '2026-11-01T12:30:00'",
    "t >= '2026-11-01T00:00:00.000001Z'",
    "t < '2026-11-01 01:00:00+01:00'",
    "t = TIMESTAMP '2026-11-01'",
    "t = timestamp'2026-11-01 00:00:00.000001'",
    "t >= DATE '2026-11-01'",
    "t BETWEEN DATE '1970-01-01' AND TIMESTAMP '2026-11-01 12:30:00-18:00'",
    "t IN (TIMESTAMP '2026-11-01', DATE '1970-01-01')",
    "b = TRUE OR TRUE = b",
    "b <> false",
    "b >= FALSE",
    "b IN (true, FALSE)",
    "b > FALSE",
    "TRUE AND i = 1",
    "FALSE OR b",
    "i IS NULL AND i > 3",
    "i IS NOT NULL OR i IS NULL",
    "NOT i IS NULL",
]


@pytest.mark.usefixtures("ansi")
def test_odd_texts_mean_what_they_mean_to_spark(spark: SparkSession) -> None:
    rng = random.Random(7)
    events = [some_event(rng) for _ in range(3 * ROWS)]
    assert disagreements(rows(spark, events), events, {text: parse(text, FIELDS) for text in ODD}) == []


KEYWORDS = 444
"""How many words Spark 4.3 knows; each is tried as the bare name of a column."""


@pytest.mark.slow
def test_every_keyword_is_a_name_here_if_it_is_one_in_spark(spark: SparkSession) -> None:
    words = sorted(row[0].lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect())
    assert len(words) >= KEYWORDS
    texts: dict[str, Filter] = {}
    for word in words:
        # Those that are refused must be written in backticks; the others must mean the column.
        with contextlib.suppress(FilterError):
            texts[f"{word} > 1 OR NOT {word} = 0"] = parse(f"{word} > 1 OR NOT {word} = 0")
    refused = {*words} - {text.split()[0] for text in texts}
    assert refused == {"and", "between", "current_path", "false", "like", "not", "null", "or", "true"}
    names = [text.split()[0] for text in texts]
    numbers: list[object] = [None, 0, 1, 2]
    events = [dict.fromkeys(names, n) for n in numbers]
    frame = spark.createDataFrame(
        [(at, *(event.get(name) for name in names)) for at, event in enumerate(events)],
        schema=", ".join(["`the row` INT", *(f"`{name}` BIGINT" for name in names)]),
    )
    said = frame.selectExpr("`the row`", *texts).collect()
    for row in said:
        assert list(row[1:]) == [filter_.evaluate(events[row[0]]) for filter_ in texts.values()]


@pytest.mark.parametrize(
    "seed", [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 104))]
)
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


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize(
    "user",
    ["STRUCT<lang: STRING, `a b`: STRING>", pytest.param("MAP<STRING, STRING>", marks=pytest.mark.slow)],
)
def test_what_is_asked_of_a_publication_are_columns_of_those_names_in_spark(
    spark: SparkSession, user: str
) -> None:
    """In backticks, which Spark wants around a name with a dollar, and in which the canonical text has it."""
    rng = random.Random(user)
    events = [{**some_event(rng), "$user": None, **some_event(rng, OWN)} for _ in range(ROWS)]
    fields = {path: field for path, field in FIELDS.items() if path in (("s",), ("i",))} | OWN
    columns = "row INT, s STRING, i BIGINT, `$topic` STRING"
    frame = spark.createDataFrame(
        [
            (at, *(event.get(name) for name in ("s", "i", "$topic", "$user")))
            for at, event in enumerate(events)
        ],
        schema=f"{columns}, `$user` {user}",
    ).cache()
    written: dict[str, Filter] = {
        "`$topic` = 'a' OR `$user`.lang LIKE 'a%'": parse("$topic = 'a' OR $user.lang LIKE 'a%'")
    }
    while len(written) < FILTERS_PER_QUERY:
        text = some_filter(rng, fields)
        with contextlib.suppress(FilterTooCostly):
            written[text] = parse(text, FIELDS)
    assert disagreements(frame, events, written) == []
    assert disagreements(frame, events, {one.text: one for one in written.values()}) == []
