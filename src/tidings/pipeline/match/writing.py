"""Answers as files, written by the workers that found them.

Spark's own writer takes a row one value at a time, and an event may have hundreds of subscriptions: most of
the time would go by there. Here a worker hands its columns to Arrow's, as they are. A task writes one file,
under a name that no other task has, and says so when it is done; what others wrote, that died or were tried
twice, nobody has said, and it is removed. Which subscriptions get an event is the business of `strategies`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.pipeline.match import strategies
from tidings.pipeline.match.strategies import Form
from tidings.pipeline.tables import COMPRESSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DRAFTS = "_drafts"
"""Where tasks write, within the folder of the table; readers pass over it."""

GROUP_VALUES = 4_000_000
"""Numbers of one row group: 32 MB before they are encoded."""

WRITING: dict[str, Any] = {
    "compression": COMPRESSION,
    "compression_level": 1,
    # Lists are sorted, so that what is between two numbers is short.
    "use_dictionary": False,
    "column_encoding": "DELTA_BINARY_PACKED",
    # Nobody looks for a subscription without reading all of it.
    "write_statistics": ["event"],
    "store_schema": False,
}


def write(events: DataFrame, file: str, form: Form, folder: Path) -> None:
    """Match with the index in a file, as `ways.by_index`, and write the answers into a folder, which is made.

    Events have whole numbers. All workers must see the folder under this path.
    """
    drafts = folder / DRAFTS
    drafts.mkdir(parents=True)
    some = strategies.needed(events)
    told = some.mapInArrow(partial(_written, file=file, form=form, folder=str(drafts)), "file string")
    for row in told.collect():
        (drafts / row["file"]).replace(folder / row["file"])
    shutil.rmtree(drafts)
    if not any(folder.iterdir()):
        # Who reads it finds the columns all the same.
        pq.write_table(schema_of(form).empty_table(), folder / "part-none.parquet")


def schema_of(form: Form) -> pa.Schema:
    """The columns of a form."""
    number = pa.int64()
    found = {
        Form.ROWS: ("subscription", number),
        Form.LISTS: ("subscriptions", pa.list_(number)),
        Form.COUNTS: ("matches", number),
    }
    return pa.schema([("event", number), found[form]])


def _written(
    batches: Iterator[pa.RecordBatch], *, file: str, form: Form, folder: str
) -> Iterator[pa.RecordBatch]:
    """Write what the events of a task match; the name of its file."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "this runs in a task"
    name = f"part-{task.partitionId():05d}-{task.taskAttemptId()}.parquet"
    writer: pq.ParquetWriter | None = None
    for group in _groups(strategies.answers(batches, file=file, form=form), form):
        writer = writer or pq.ParquetWriter(Path(folder) / name, group.schema, **WRITING)
        writer.write_table(group, row_group_size=group.num_rows)
    if writer is not None:
        writer.close()
        yield pa.record_batch([pa.array([name])], ["file"])


def _groups(told: Iterator[pa.RecordBatch], form: Form) -> Iterator[pa.Table]:
    """What is told as row groups of about the same size."""
    held: list[pa.RecordBatch] = []
    values = 0
    for batch in map(_taken_apart, told) if form is Form.ROWS else told:
        held.append(batch)
        values += len(batch.column(1).values) if form is Form.LISTS else batch.num_rows
        if values >= GROUP_VALUES:
            yield pa.Table.from_batches(held)
            held, values = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _taken_apart(lists: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each event and each subscription of its list."""
    event, found = lists.columns
    return pa.record_batch(
        [event.take(pc.list_parent_indices(found)), found.values], ["event", "subscription"]
    )
