"""The tables of a workload as files: which they are, whether their columns are right, their rows in batches.

A table is a folder of Parquet files, or a link to one; names that begin with `_` or `.` are not part of it.
What rows mean is known to `workload_reading`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError
from tidings.records import workload as tables

if TYPE_CHECKING:
    import pyarrow as pa

MADE = "_made.json"
"""What made a table, with its `spec`; see `pipeline.tables`."""

BATCH_ROWS = 65_536
"""Rows that are looked at at once."""


@dataclass(frozen=True, eq=False)
class Table:
    """One table: its files, and what is in them."""

    folder: Path
    name: str
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    """Those that the schema has and the files have too."""

    null: frozenset[str]
    """Columns that may have no value."""

    inner: tuple[str, ...]
    """The names in `fields`."""

    rows: int

    def refuse(self, problem: str) -> InputError:
        """An error that names the table."""
        return InputError(f"{self.folder / self.name}: {problem}")

    def batches(
        self, columns: Sequence[str] = (), between: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Some columns, or all; of row groups that hold no `at` between two times, none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        wanted = [name for name in self.columns if not columns or name in columns]
        for file in self.files:
            try:
                with pq.ParquetFile(file) as opened:
                    groups = _groups(opened, between)
                    for batch in opened.iter_batches(BATCH_ROWS, groups, wanted):
                        self._refuse_nulls(batch)
                        yield batch
            except (pa.ArrowException, OSError) as error:
                raise self.refuse(f"{file.name} cannot be read ({error}); make the workload anew") from None

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for name in batch.schema.names:
            column = batch.column(name)
            if column.null_count and name not in self.null:
                at = column.is_null().index(True).as_py()
                row = next((f"{one} {batch.column(one)[at]}" for one in KEYS if one in batch.schema.names
                            and one != name), f"row {at + 1} of a batch")  # fmt: skip
                raise self.refuse(f"{row} has no {name}; every row needs one")
            if name == "fields":
                self._refuse_fields(batch, column)

    def _refuse_fields(self, batch: pa.RecordBatch, column: pa.StructArray) -> None:
        for name in self.inner:
            lacking = column.field(name).null_count
            if lacking and (self.name == tables.EVENTS or name == tables.STORY):
                at = column.field(name).is_null().index(True).as_py()
                key = KEYS_OF[self.name]
                row = f"{key} {batch.column(key)[at]}" if key in batch.schema.names else "a row"
                raise self.refuse(
                    f"{row} has no {name}; events know all of their fields, reports their story"
                )


KEYS = ("subscription", "report", "event", "client", "broker", "a")
"""What rows are called by, the first that there is."""

KEYS_OF = {tables.EVENTS: "event", tables.REPORTS: "report"}


def _groups(opened: Any, between: tuple[int, int] | None) -> list[int]:
    """The row groups that may hold a time."""
    metadata = opened.metadata
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        here = True
        for at in range(group.num_columns) if between is not None else ():
            column = group.column(at)
            said = column.statistics if column.path_in_schema == "at" else None
            if said is not None and said.has_min_max and between is not None:
                here = said.max >= between[0] and said.min < between[1]
        if here:
            found.append(number)
    return found


def files_of(folder: Path) -> tuple[Path, ...]:
    """The Parquet files of a table, in the order of their names; the link is followed once."""
    if not folder.is_dir():
        return ()
    return tuple(
        sorted(
            file
            for file in folder.resolve().iterdir()
            if file.suffix == ".parquet" and not file.name.startswith(("_", ".")) and file.is_file()
        )
    )


def refuse_mixture(folder: Path) -> None:
    """Refuse tables that were made by different specs: a run that died may have replaced some of them.

    What made a table is written beside its rows, and beside the declarations; the spec's own file has a
    digest of it. Files of other makers need not have it.
    """
    specs: dict[str, str] = {}
    for name in (*tables.TABLES, tables.DECLARATIONS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            made = json.loads((folder / name / MADE).read_text(encoding="utf-8"))
            specs[name] = digest(made["spec"])
    with suppress(OSError, ValueError):
        line = (folder / tables.SPEC_FILE).read_text(encoding="utf-8").partition("\n")[0]
        if line.startswith(DIGEST):
            specs[tables.SPEC_FILE] = line.removeprefix(DIGEST)
    first = next((name for name in specs if name in tables.TABLES), "")
    for name, spec in specs.items() if first else ():
        if spec == specs[first]:
            continue
        what = "has tables of two workloads" if name in tables.TABLES else "is not finished"
        was = "belongs to another spec" if name == tables.SPEC_FILE else "was made by another spec"
        raise InputError(
            f"{folder} {what}: {name} {was} than {first}; make them anew: tidings workload generate "
            f"--overwrite --out {folder}"
        )


DIGEST = "# of tables with the spec "
"""How the first line of the spec's file begins, before the digest of what tables carry."""


def digest(spec: Any) -> str:
    """What two specs have in common just if they are the same."""
    return sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def refuse_columns(where: Path, file: str, wanted: pa.Schema, found: pa.Schema, null: frozenset[str]) -> None:
    """Refuse columns that are missing or of another type; all of them are named at once."""
    problems = []
    for one in wanted:
        if one.name not in found.names:
            if one.name not in null:
                problems.append(f"{file} has no column {one.name!r}; it should be {one.type}")
        elif not _same(one.type, found.field(one.name).type):
            problems.append(
                f"column {one.name!r} of {file} is {found.field(one.name).type}; it should be {one.type}"
            )
    if problems:
        raise InputError("\n".join(f"{where}: {problem}" for problem in problems))


def _same(wanted: pa.DataType, found: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and all(
            found.get_field_index(one.name) >= 0 and _same(one.type, found.field(one.name).type)
            for one in wanted.fields
        )
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    return bool(wanted == found)
