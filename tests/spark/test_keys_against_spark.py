"""The judge of keys: Spark finds the same key for every report, so that both find the same events."""

from __future__ import annotations

import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tidings.language import timestamps
from tidings.language.fields import Field, Type
from tidings.language.keys import TIME_US_MIN, Bucket, parse_item

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 2_000

TEXTS = [
    "name",
    "lower(name)",
    "trim(name)",
    "lower(trim(name))",
    "floor(`order` / 10)",
    "floor(`order` / 9007199254740992)",
    "floor(`order` / 0.3)",
    "floor(x / 10)",
    "floor(x / 0.1)",
    "floor(x / 1e-10)",
    "bucket(t, '5m')",
    "bucket(t, '7d')",
    "cell(at.lat, at.lon, '1m')",
    "cell(at.lat, at.lon, '333.3m')",
    "cell(at.lat, at.lon, '1km')",
    "cell(at.lat, at.lon, '1000km')",
    "cell(`order`, `order`, '1km')",
]

FIELDS = {
    path: Field(path, kind)
    for path, kind in {
        ("name",): Type.STRING,
        ("order",): Type.INT,
        ("x",): Type.FLOAT,
        ("t",): Type.TIMESTAMP,
        ("at", "lat"): Type.FLOAT,
        ("at", "lon"): Type.FLOAT,
    }.items()
}

LETTERS = [chr(code) for code in (*range(0x20, 0x530), *range(0x1E00, 0x2000))] + [" ", "Σ", "İ"] * 50

TIME_US_LAST = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""


LACKING = 0.05
"""The share of values that a report does not have: then it has no key."""


def some_row(dice: random.Random) -> list[Any]:
    values = (
        "".join(dice.choices(LETTERS, k=dice.randint(0, 8))),
        dice.choice(
            [dice.randint(-100, 100), dice.randint(-(2**63), 2**63 - 1), -(2**63), 2**63 - 1, 2**53 + 1]
        ),
        dice.choice(
            [dice.uniform(-100, 100), dice.randint(-50, 50) * 0.1, -(10 ** dice.uniform(-300, 300)), 1e300]
        ),
        dice.choice([dice.randint(-(10**15), 2 * 10**15), dice.randint(TIME_US_MIN, TIME_US_LAST)]),
        dice.choice([dice.uniform(-91, 91), -90.0, 90.0, 0.0]),
        dice.choice([dice.uniform(-181, 181), -180.0, 180.0, 0.0]),
    )
    return [None if dice.random() < LACKING else value for value in values]


@pytest.mark.parametrize("ansi", [True, False])
def test_spark_finds_the_same_keys(spark: SparkSession, ansi: bool) -> None:
    from pyspark.sql import functions

    dice = random.Random(2026)
    rows = [some_row(dice) for _ in range(ROWS)]
    items = [parse_item(text, FIELDS) for text in TEXTS]
    frame = spark.createDataFrame(
        [(at, *row) for at, row in enumerate(rows)],
        "row INT, name STRING, `order` BIGINT, x DOUBLE, t_us BIGINT, lat DOUBLE, lon DOUBLE",
    ).selectExpr("row", "name", "`order`", "x", "timestamp_micros(t_us) AS t", "struct(lat, lon) AS at")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        # As text, a key of Spark and one of ours can be compared whatever their types are.
        answered = frame.select(
            "row",
            *(
                functions.expr(
                    f"CAST(unix_micros({item.spark_sql()}) AS STRING)"
                    if isinstance(item, Bucket)
                    else f"CAST({item.spark_sql()} AS STRING)"
                ).alias(f"k{at}")
                for at, item in enumerate(items)
            ),
        ).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")
    assert len(answered) == ROWS
    for answer in answered:
        name, order, x, t_us, lat, lon = rows[answer["row"]]
        event: dict[str, object] = {
            "name": name,
            "order": order,
            "x": x,
            "t": None if t_us is None else timestamps.from_micros(t_us),
            "at": {"lat": lat, "lon": lon},
        }
        for at, item in enumerate(items):
            value = item.value(event)
            if isinstance(value, datetime):
                value = timestamps.micros(value)
            assert answer[f"k{at}"] == (None if value is None else str(value)), (item.text, event)
