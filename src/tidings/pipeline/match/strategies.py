"""Both ways to match on Spark: the index everywhere, or events and subscriptions brought together by cell.

*By index.* All subscriptions are one file, which every worker maps; events never move. It is the way as long
as the file fits into memory.

*By cells.* The event space is halved to a depth. An event lies in one cell, a subscription meets some; both
are sent to where their cell is, and there an index of the cell's subscriptions alone answers. A cell with
more events than one task should have is divided, and its subscriptions are there as often. Cells decide only
what meets: the answer is that of the filters themselves, so both ways give the same rows.

Events have the columns `event` (of any type), `fields` (a struct), and where they matter `topic` and `at`
(microseconds). These are functions from DataFrames to a DataFrame and neither read nor write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tidings.pipeline.match import cells as meeting
from tidings.pipeline.match import files
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.matcher import Matched, Matcher
from tidings.space import Space

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Array = npt.NDArray[Any]

STEP = 1024
"""Events that are matched at once if lists are wanted: what is found stays in the cache."""

OPTIONAL = ("topic", "at")

PLACE = (StructField("_cell", LongType()), StructField("_part", LongType()))
COUNTS = StructField("matches", LongType())
LISTS = StructField("subscriptions", ArrayType(LongType()))


class Form(StrEnum):
    """What comes out."""

    COUNTS = "counts"
    """For each event how many subscriptions get it."""

    LISTS = "lists"
    """For each event the numbers of the subscriptions that get it, sorted; none where nobody does."""

    ROWS = "rows"
    """One row for each event and each subscription that gets it: the notifications."""


@dataclass(frozen=True)
class Cells:
    """How a space is divided among tasks."""

    space: Space
    depth: int
    """How often it is halved."""

    dimensions: tuple[str, ...] = ()
    """The fields of rectangles."""

    fields: asking.Fields = None
    """With which texts are parsed."""

    parts: Mapping[int, int] = field(default_factory=dict)
    """Cells with many events, and into how many parts each is divided."""


def by_index(events: DataFrame, file: str, form: Form) -> DataFrame:
    """Match with the index in a file, which must be on every worker: at this path, or sent there by name."""
    some = needed(events)
    made = some.mapInArrow(partial(answers, file=file, form=form), _schema(some, form))
    return _shaped(made, form)


def by_cells(events: DataFrame, subscriptions: DataFrame, cells: Cells, form: Form) -> DataFrame:
    """Match within cells; subscriptions have the columns of `asking.subscriptions_of`."""
    some = needed(events)
    met = some.withColumn("_mark", F.xxhash64("event")).mapInArrow(
        partial(meeting.events, cells=cells), StructType([*some.schema, *PLACE])
    )
    asked = subscriptions.mapInArrow(
        partial(meeting.subscriptions, cells=cells), StructType([*subscriptions.schema, *PLACE])
    )
    together = met.groupBy("_cell", "_part").cogroup(asked.groupBy("_cell", "_part"))
    made = together.applyInArrow(partial(_answer, cells=cells, form=form), _schema(some, form))
    return _shaped(made, form)


def refused(subscriptions: DataFrame, cells: Cells) -> DataFrame:
    """What is wrong with subscriptions, a line each: nothing just if all of them can be matched by cells."""
    found = subscriptions.mapInArrow(partial(meeting.refused, cells=cells), "problem string")
    again = F.format_string("subscription %d is there twice; numbers must differ", "subscription")
    twice = subscriptions.groupBy("subscription").agg(F.count("*").alias("rows")).where("rows > 1")
    return found.unionByName(twice.where("subscription IS NOT NULL").select(again.alias("problem")))


def needed(events: DataFrame) -> DataFrame:
    """Events without what no answer depends on."""
    return events.select("event", *(name for name in OPTIONAL if name in events.columns), "fields")


def _schema(events: DataFrame, form: Form) -> StructType:
    found = COUNTS if form is Form.COUNTS else LISTS
    return StructType([events.schema["event"], found])


def _shaped(made: DataFrame, form: Form) -> DataFrame:
    if form is not Form.ROWS:
        return made
    return made.select("event", F.explode("subscriptions").alias("subscription"))


# On workers.


def answers(batches: Iterator[pa.RecordBatch], *, file: str, form: Form) -> Iterator[pa.RecordBatch]:
    """What events match by the index in a file: counts, or lists for whichever form."""
    matcher = _opened(file)
    for batch in batches:
        for part in _parts(batch, form):
            yield _told(matcher, part, form)


def _parts(batch: pa.RecordBatch, form: Form) -> list[pa.RecordBatch]:
    """The events of a batch that are matched at once."""
    step = batch.num_rows if form is Form.COUNTS else STEP
    return [batch.slice(begin, step) for begin in range(0, batch.num_rows, max(1, step))]


@lru_cache(maxsize=2)
def _opened(file: str) -> Matcher:
    """The subscriptions of a file, mapped once by each process."""
    path = Path(file)
    if not path.exists():
        from pyspark import SparkFiles

        path = Path(SparkFiles.get(path.name))
    return Matcher(*files.read(path))


def _answer(events: pa.Table, subscriptions: pa.Table, *, cells: Cells, form: Form) -> pa.Table:
    """What the events of one cell match among its subscriptions."""
    import pyarrow as pa

    known = asking.subscriptions_of(subscriptions, cells.dimensions, cells.fields)
    matcher = Matcher(*asking.image(known))
    told = [
        _told(matcher, part, form)
        for batch in events.combine_chunks().to_batches()
        for part in _parts(batch, form)
    ]
    if told:
        return pa.Table.from_batches(told)
    empty = events.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], events.schema)]
    return pa.Table.from_batches([_told(matcher, empty[0], form)])


def _told(matcher: Matcher, events: pa.RecordBatch, form: Form) -> pa.RecordBatch:
    import pyarrow as pa

    given = {name: events.column(name) if name in events.schema.names else None for name in OPTIONAL}
    asked = events.column("fields"), given["topic"], given["at"]
    if form is Form.COUNTS:
        return pa.record_batch(
            [events.column("event"), pa.array(matcher.count(*asked))], ["event", "matches"]
        )
    return pa.record_batch(
        [events.column("event"), _lists(matcher.match(*asked))], ["event", "subscriptions"]
    )


def _lists(found: Matched) -> pa.Array:
    import pyarrow as pa

    offsets = np.zeros(len(found.ends) + 1, dtype=np.int32)
    offsets[1:] = found.ends
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.numbers))
