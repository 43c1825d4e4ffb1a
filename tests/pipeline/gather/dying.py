"""A program that runs a stream and dies in the middle of a micro-batch, for a test: python dying.py FOLDER N.

It kills itself, as `kill -9` would, when the sink is given micro-batch N: the state may be written by then,
or not, and nobody knows what was told.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.gather.streams import KERNEL
from tidings.pipeline import session
from tidings.pipeline.gather import streaming
from tidings.pipeline.gather.layout import Layout


def main(folder: Path, last: int) -> None:
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", **streaming.STATE_STORE}
    with session.start("dying", master="local[2]", settings=settings, quick_start=True) as spark:
        schema = spark.read.parquet(f"file://{folder}/in").schema
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        layout = Layout(KERNEL)
        told = streaming.gather(source.parquet(f"file://{folder}/in"), layout, delay_us=1_000_000, buckets=4)

        def sink(frame: Any, number: int) -> None:
            frame.write.mode("overwrite").parquet(f"file://{folder}/out/batch={number}")
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)

        writer = told.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = streaming.start(spark, f"file://{folder}/checkpoint", writer, layout, buckets=4)
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
