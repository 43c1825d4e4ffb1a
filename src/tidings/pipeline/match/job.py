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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tidings.errors import InputError
from tidings.language.fields import Field, Type
from tidings.language.fields import Path as FieldPath
from tidings.pipeline import running
from tidings.pipeline.match import cost_model, files, strategies, writing
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.cost_model import Choice, Sizes, Way
from tidings.pipeline.match.strategies import Cells, Form
from tidings.pipeline.tables import VERSIONS, Made, Store, Table, Written, inspect
from tidings.records import workload as tables
from tidings.records.workload_reading import Workload, fields_of
from tidings.space import Space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = {Form.ROWS: "notifications", Form.LISTS: "matches", Form.COUNTS: "match_counts"}
"""The table of each form."""

SAMPLE_SUBSCRIPTIONS, SAMPLE_EVENTS = 2_000, 20_000
FILES_MAX = 16
"""Files of a table that a sample is taken from: 16 million rows of ours."""


class Job:
    """What is matched, looked at without Spark."""

    def __init__(self, folder: Path, memory_bytes: int, cores: int, way: Way | None = None) -> None:
        self.workload = Workload(folder)
        asked, happened = self.workload.table(tables.SUBSCRIPTIONS), self.workload.table(tables.EVENTS)
        self.fields = partial(fields_of, self.workload.declarations)
        fields = pa.concat_arrays(
            [batch.column("fields") for batch in _some(self.workload, tables.EVENTS, SAMPLE_EVENTS)]
            or [pa.array([], pa.struct([]))]
        )
        some = (
            pa.Table.from_batches(_some(self.workload, tables.SUBSCRIPTIONS, SAMPLE_SUBSCRIPTIONS))
            if asked.rows
            else pa.table({"subscription": pa.array([], pa.int64())})
        )
        try:
            sample = asking.subscriptions_of(some, self.workload.dimensions, self.fields)
        except InputError as error:
            raise asked.refuse(str(error)) from None
        self.space = self._space(fields)
        sizes = Sizes(asked.rows, happened.rows, memory_bytes, cores)
        self.choice: Choice = cost_model.choose(sizes, self.space, sample, fields, way)

    def _space(self, events: pa.StructArray) -> Space:
        """The space of what subscriptions have intervals of, as declared, else as wide as events are."""
        declared = self.fields("#") or {}
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
        schema = writing.schema_of(form)
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

        table = Table(name, lambda _: schema, __name__)
        with store.writing([name], overwrite):
            if self.choice.way is Way.CELLS:
                return store.write(self._by_cells(spark, form), table, schema, made)

            def fill(folder: Path, number: int) -> Made:
                self._by_index(spark, store, form, folder)
                return made(inspect(folder, table, schema, number))

            return store.publish(name, fill)

    def frame(self, spark: SparkSession, form: Form, beside: Path, *, sent: bool = False) -> DataFrame:
        """Match, for whoever goes on with the answers; nothing is written but an index.

        That is a file in a folder, and must be there as long as the DataFrame is used. Where workers do not
        see the folder the file is to be sent to them.
        """
        if self.choice.way is Way.CELLS:
            return self._by_cells(spark, form)
        file = beside / f"{beside.name}.arrays"
        files.write(file, *asking.image(self.workload.subscriptions()))
        if sent:
            spark.addArtifacts(str(file), file=True)
        return strategies.by_index(self._read(spark, tables.EVENTS), str(file), form)

    def _by_index(self, spark: SparkSession, store: Store, form: Form, folder: Path) -> None:
        """Write the answers of an index, which is a file meanwhile."""
        with tempfile.TemporaryDirectory(dir=store.folder / VERSIONS, prefix="match-") as beside:
            file = Path(beside) / "index.arrays"
            files.write(file, *asking.image(self.workload.subscriptions()))
            writing.write(self._read(spark, tables.EVENTS), str(file), form, folder)

    def _by_cells(self, spark: SparkSession, form: Form) -> DataFrame:
        """The answers by cells, for subscriptions that are right."""
        cells = Cells(self.space, self.choice.depth, self.workload.dimensions, self.fields, self.choice.parts)
        subscriptions = self._read(spark, tables.SUBSCRIPTIONS)
        # What the index would refuse is refused here too, before anything is matched.
        wrong = (
            strategies.refused(subscriptions, cells)
            .agg(F.min("problem").alias("first"))
            .collect()[0]["first"]
        )
        if wrong is not None:
            raise self.workload.table(tables.SUBSCRIPTIONS).refuse(wrong)
        return strategies.by_cells(self._read(spark, tables.EVENTS), subscriptions, cells, form)

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
