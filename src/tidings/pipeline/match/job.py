"""Matching as a job: the events and subscriptions of a workload's folder, to a table.

This is the edge, where tables are read and written and the index's file is made and removed. The file lies
beside the versions of tables, which all workers see under the same path.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidings.language.fields import Field, Type
from tidings.language.fields import Path as FieldPath
from tidings.pipeline import running
from tidings.pipeline.match import asking, choosing, files, ways
from tidings.pipeline.match.choosing import Choice, Sizes, Way
from tidings.pipeline.match.ways import Cells, Form
from tidings.pipeline.tables import VERSIONS, Made, Store, Table, Written
from tidings.records import workload as tables
from tidings.records.workload_reading import Workload
from tidings.space import Space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = {Form.ROWS: "notifications", Form.LISTS: "matches", Form.COUNTS: "match_counts"}
"""The table of each form."""

SCHEMAS = {
    Form.ROWS: [("event", pa.int64()), ("subscription", pa.int64())],
    Form.LISTS: [("event", pa.int64()), ("subscriptions", pa.list_(pa.int64()))],
    Form.COUNTS: [("event", pa.int64()), ("matches", pa.int64())],
}

SAMPLE_SUBSCRIPTIONS, SAMPLE_EVENTS = 2_000, 20_000
FILES_MAX = 16
"""Files of a table that a sample is taken from: 16 million rows of ours."""


class Job:
    """What is matched, looked at without Spark."""

    def __init__(self, folder: Path, memory_bytes: int, cores: int, way: Way | None = None) -> None:
        self.workload = Workload(folder)
        asked, happened = self.workload.table(tables.SUBSCRIPTIONS), self.workload.table(tables.EVENTS)
        self.fields = self._declared()
        fields = pa.concat_arrays(
            [batch.column("fields") for batch in _some(self.workload, tables.EVENTS, SAMPLE_EVENTS)]
            or [pa.array([], pa.struct([]))]
        )
        sample = asking.subscriptions_of(
            pa.Table.from_batches(_some(self.workload, tables.SUBSCRIPTIONS, SAMPLE_SUBSCRIPTIONS))
            if asked.rows
            else pa.table({"subscription": pa.array([], pa.int64())}),
            self.workload.dimensions,
            self.fields,
        )
        self.space = self._space(fields)
        sizes = Sizes(asked.rows, happened.rows, memory_bytes, cores)
        self.choice: Choice = choosing.choose(sizes, self.space, sample, fields, way)

    def _declared(self) -> Mapping[FieldPath, Field] | None:
        """The fields that all topics declare alike."""
        found = [topic.fields for topic in self.workload.declarations]
        return found[0] if found and all(one == found[0] for one in found) else None

    def _space(self, events: pa.StructArray) -> Space:
        """The space of what subscriptions have intervals of, as declared, else as wide as events are."""
        declared = self.fields or {}
        found: dict[FieldPath, Field] = {}
        for name in self.workload.dimensions:
            field = declared.get((name,))
            if field is None or field.domain is None:
                values = events.field(name).to_numpy(zero_copy_only=False) if len(events) else np.zeros(1)
                field = Field((name,), Type.INT, (int(values.min()), int(values.max())))
            found[(name,)] = field
        # In the order declared; what is not declared comes after that.
        order = {path: at for at, path in enumerate(declared)}
        paths = sorted(found, key=lambda path: order.get(path, len(order)))
        return Space.of({path: found[path] for path in paths})

    def run(
        self,
        spark: SparkSession,
        store: Store,
        form: Form,
        *,
        master: str,
        settings: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> Made:
        """Match, and write the table of a form."""
        name = NAMES[form]
        schema = pa.schema(SCHEMAS[form])
        start = time.monotonic()

        def made(written: Written) -> Made:
            return Made(
                table=name,
                version=written.version,
                stage=name,
                spec={"workload": str(self.workload.folder), "choice": asdict(self.choice)},
                seed=0,
                reads={one: store.version(one) or 0 for one in (tables.SUBSCRIPTIONS, tables.EVENTS)
                       if store.version(one)},
                settings=dict(settings or {}),
                master=master,
                versions=running.versions(spark),
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                rows=written.rows,
                bytes=written.bytes,
                files=written.files,
                seconds=round(time.monotonic() - start, 3),
            )  # fmt: skip

        with (
            store.writing([name], overwrite),
            tempfile.TemporaryDirectory(dir=store.folder / VERSIONS, prefix="match-") as folder,
        ):
            frame = self.frame(spark, Path(folder) / "index.arrays", form)
            return store.write(frame, Table(name, lambda _: schema, __name__), schema, made)

    def frame(self, spark: SparkSession, file: Path, form: Form) -> DataFrame:
        """The answers; of an index the file is written first, and must stay as long as they are wanted."""
        events = self._read(spark, tables.EVENTS)
        if self.choice.way is Way.INDEX:
            files.write(file, *asking.image(self.workload.subscriptions()))
            return ways.by_index(events, str(file), form)
        cells = Cells(self.space, self.choice.depth, self.workload.dimensions, self.fields, self.choice.parts)
        return ways.by_cells(events, self._read(spark, tables.SUBSCRIPTIONS), cells, form)

    def _read(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.parquet(*(f"file://{file.absolute()}" for file in self.workload.table(name).files))


def _some(workload: Workload, name: str, count: int) -> list[pa.RecordBatch]:
    """Rows of a table, evenly spread over its files, and over some of these where there are many."""
    table = workload.table(name)
    chosen = table.files[:: max(1, len(table.files) // FILES_MAX)]
    step = max(1, table.rows * len(chosen) // len(table.files) // count)
    found, before = [], 0
    for batch in replace(table, files=chosen).batches():
        found.append(batch.take(pa.array(np.arange(-before % step, batch.num_rows, step))))
        before += batch.num_rows
    return found
