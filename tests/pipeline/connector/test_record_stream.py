"""Records as a stream, while brokers write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.records.samples import row, say_format
from tidings.errors import InputError
from tidings.pipeline.connector.record_stream import records_stream
from tidings.records.segments import SegmentWriter, closed_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.spark
def test_each_closed_segment_is_streamed_once_and_open_ones_are_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "records"
    found: dict[int, list[tuple[str, int]]] = {}

    def take(rows: DataFrame, batch: int) -> None:
        found[batch] = [(one["broker"], one["n"]) for one in rows.orderBy("broker", "n").collect()]

    def run() -> None:
        stream = records_stream(spark, folder, segments_max=1)
        writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    def write(broker: str, boot: int, *numbers: int) -> None:
        writer = SegmentWriter(folder, broker, boot)
        for n in numbers:
            writer.add(row(n, broker=broker))
        writer.close()

    write("b1", 1, 1, 2)
    (folder / ".b1+00000000000000000009+0000000001.parquet.open").write_bytes(b"PAR1 half")
    run()
    write("b2", 1, 1)
    write("b1", 2, 3)
    run()
    assert sorted(one for rows in found.values() for one in rows) == [
        ("b1", 1), ("b1", 2), ("b1", 3), ("b2", 1),
    ]  # fmt: skip
    assert len(found) == 3


@pytest.mark.spark
def test_a_segment_of_another_format_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1", 1)
    writer.add(row(1))
    writer.close()
    (segment,) = closed_segments(tmp_path)
    say_format(segment.path, "1")
    with pytest.raises(InputError) as refused:
        records_stream(spark, tmp_path)
    assert str(refused.value) == (
        f"the records in {segment.path} have format 1, and this release reads format 2; read them with the "
        "release that wrote them, or move the file out of the folder"
    )
