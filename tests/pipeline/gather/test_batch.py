"""Gather on Spark says what the machine says, for any number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.pipeline.gather.samples import of_machine, of_table
from tests.pipeline.gather.streams import KERNEL, MACHINE, frame, reports
from tidings.errors import InputError
from tidings.language.topics import Topic
from tidings.pipeline.gather import batch
from tidings.pipeline.gather.frames import layout_of, rows_of
from tidings.pipeline.gather.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("topic", "partitions"),
    [
        (KERNEL, 3),
        *(
            pytest.param(*given, marks=pytest.mark.slow)
            for given in ((KERNEL, 1), (KERNEL, 16), (MACHINE, 3))
        ),
    ],
    ids=str,
)
def test_partitions_do_not_change_what_is_told(spark: SparkSession, topic: Topic, partitions: int) -> None:
    said = reports(topic, 400)
    given = frame(spark, topic, said[::-1])
    layout = layout_of(given, [topic])
    made = batch.gather(given, layout, partitions=partitions)
    lines, counts = of_machine(topic, said)
    told = made.toArrow()
    assert of_table(told) == lines
    # From a table that is written, as it is used: a second look would gather a second time.
    again = spark.createDataFrame(told)
    assert batch.summary(again, layout).toArrow().to_pylist() == [counts | {"late": 0}]


def test_what_the_frame_lacks_is_refused_before_anything_runs(spark: SparkSession) -> None:
    given = frame(spark, KERNEL, reports(KERNEL, 3))
    layout = Layout(KERNEL)
    with pytest.raises(InputError, match="the reports have no column 'id'"):
        layout_of(given, [KERNEL], report="id")
    with pytest.raises(InputError, match="colour is not a declared field of 'road'"):
        rows_of(frame(spark, MACHINE, reports(MACHINE, 3)), Layout(_without_lanes()))
    wrong = given.selectExpr("report", "at", "named_struct('severity', 'high') AS fields")
    with pytest.raises(InputError, match="severity is string in the reports, and declared int"):
        rows_of(wrong, layout)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("report, fields", "the reports have no column 'at'; there are: report, fields"),
        ("report, at", "the reports have no column 'fields'"),
        ("report, string(at) AS at, fields", "the column 'at' of the reports is string; it may be timestamp"),
        ("double(report) AS report, at, fields", "the column 'report' of the reports is double"),
        ("report, at, 'x' AS fields", "the column 'fields' of the reports is string; it may be struct"),
    ],
)
def test_columns_that_no_reports_have_are_refused(spark: SparkSession, columns: str, says: str) -> None:
    given = frame(spark, KERNEL, reports(KERNEL, 3)).selectExpr(*columns.split(", "))
    with pytest.raises(InputError, match=says):
        rows_of(given, layout_of(given, [KERNEL]))


def _without_lanes() -> Topic:
    mapping = MACHINE.to_mapping()
    fields = dict(mapping["fields"])  # type: ignore[call-overload]
    del fields["colour"]
    return Topic.from_mapping(mapping | {"fields": fields})


def test_fields_may_have_a_column_each_and_reports_a_text_for_a_name(spark: SparkSession) -> None:
    said = reports(KERNEL, 60)
    given = frame(spark, KERNEL, said).selectExpr(
        "string(report) AS _id", "timestamp_micros(at) AS _at", "fields.*"
    )
    layout = layout_of(given, [KERNEL], report="_id")
    told = batch.gather(given, layout, partitions=2, report="_id", at="_at", fields=None).toArrow()
    assert told.schema.field("event").type == pa.string()
    assert of_table(told) == of_machine(KERNEL, said)[0]
