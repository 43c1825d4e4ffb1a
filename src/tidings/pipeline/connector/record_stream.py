"""What brokers write down about themselves, as a stream: closed segments of records, as they appear.

A segment is renamed into its folder when it is whole, so Spark's own stream of files takes each once and
whole. What records add up to is the business of `traffic`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from tidings.pipeline.connector.source import spark_schema
from tidings.records.schema import arrow_schema, check_format
from tidings.records.segments import closed_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def records_stream(spark: SparkSession, folder: Path | str, segments_max: int | None = None) -> DataFrame:
    """The records of a folder that brokers write to, from the first on; so many segments in a micro-batch.

    Rows of one broker come in the order of its segments, of several in any; (broker, boot, n) is unique. The
    folder must be there. A broker that removes old segments for want of room (`records_keep_bytes`) takes
    them from a query that is further behind. InputError if a segment that is there has another format:
    Spark itself does not look at that, so brokers of another release must not write to the folder later.
    """
    for segment in closed_segments(Path(folder)):
        with contextlib.suppress(FileNotFoundError):
            check_format(pq.read_metadata(segment.path).metadata, segment.path)
    stream = spark.readStream.schema(spark_schema(arrow_schema())).option("ignoreMissingFiles", "true")
    if segments_max is not None:
        stream = stream.option("maxFilesPerTrigger", str(segments_max))
    return stream.parquet(str(folder))
