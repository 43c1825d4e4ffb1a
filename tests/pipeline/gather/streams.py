"""Reports of one topic with everything that gather at scale says, and the same as a DataFrame."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.language.reports import Report, Shape
from tidings.language.topics import Topic
from tidings.pipeline.gather.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEN = datetime(2026, 11, 15, tzinfo=UTC)

MAPPING: dict[str, Any] = {
    "name": "road",
    "kind": "gathered",
    "key": ["lower(trim(place))", "floor(km / 2)", "bucket(seen, '1h')", "cell(at.lat, at.lon, '100km')"],
    "merge_after": "4s",
    "redundant_for": "20s",
    "window": "1m",
    "fields": {
        "place": {"type": "string"},
        "km": {"type": "int", "conflict": "last"},
        "seen": {"type": "timestamp", "conflict": "max", "tolerance": "2s"},
        "at": {
            "lat": {"type": "float", "conflict": "min"},
            "lon": {"type": "float", "tolerance": 0.01},
        },
        "severity": {"type": "int", "conflict": "max", "tolerance": 1},
        "road": {"type": "string", "conflict": "min"},
        "fire": {"type": "bool", "conflict": "last"},
        "note": {"type": "string"},
    },
}

KERNEL = Topic.from_mapping(MAPPING)
MACHINE = Topic.from_mapping(
    MAPPING
    | {
        "tell_now": "severity >= 9",
        "fields": MAPPING["fields"]
        | {
            "lanes": {"type": "int", "conflict": "union"},
            "colour": {"type": "string", "conflict": "majority"},
        },
    }
)


def reports(topic: Topic, count: int, seed: int = 1) -> list[Report]:
    """Reports in the order of their times, several at one time."""
    drawn = random.Random(seed)
    shape = Shape(topic)
    at_us, found = 0, list[Report]()
    for number in range(1, count + 1):
        at_us += drawn.choice([0, 0, 100_000, 500_000, 2_000_000])
        said: dict[str, Any] = {
            "place": drawn.choice(["Omonia", " omonia ", "Syntagma"]),
            "km": drawn.choice([-1, 0, 1, 2]),
            "seen": SEEN + timedelta(seconds=drawn.randrange(4)),
            "at": {"lat": drawn.choice([37.98, 37.981]), "lon": drawn.choice([23.7, 23.705, -0.0])},
        }
        for name, values in {
            "severity": range(12),
            "road": ["A1", "E75", "é"],
            "fire": [True, False],
            "note": ["", "x"],
            "lanes": [[1], [2, 3], [1, 3]],
            "colour": ["red", "blue"],
        }.items():
            if (name,) in topic.fields and drawn.random() < 0.4:
                said[name] = drawn.choice(values)
        found.append(shape.report("road", said, report_id=str(number), at_us=at_us))
    return found


def table(topic: Topic, some: list[Report]) -> pa.Table:
    """Reports as a table with a column of structs, as workloads have them."""
    layout = Layout(topic)
    rows = layout.table(some)
    leaves = [rows.column(name).combine_chunks() for name in layout.names]
    fields = layout.nested(leaves)
    topics = pa.array(["road"] * len(some))
    return pa.table({"report": rows["report"], "at": rows["at"], "topic": topics, "fields": fields})


def frame(spark: SparkSession, topic: Topic, some: list[Report]) -> DataFrame:
    """The same as a DataFrame."""
    return spark.createDataFrame(table(topic, some))
