"""Reading closed segments back, while the network runs: whole files, and only those.

A segment that its writer removes for want of room while we read is passed over; one of another format is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import InputError
from tidings.records.record import Record
from tidings.records.schema import arrow_schema, check_format, records_of
from tidings.records.segments import closed_segments

if TYPE_CHECKING:
    import pyarrow as pa


def read_tables(folder: Path | str) -> Iterator[pa.Table]:
    """One table for each closed segment, in the order of broker, boot and number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for segment in closed_segments(Path(folder)):
        try:
            data = segment.path.read_bytes()
        except FileNotFoundError:
            continue
        try:
            # On this thread: a process that ends just after threads of Arrow were started is aborted.
            file = pq.ParquetFile(pa.BufferReader(data))
            check_format(file.metadata.metadata, segment.path)
            yield _whole(file.read(use_threads=False))
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{segment.path} is not a Parquet file of ours ({error}); move it out of the folder"
            ) from None


def read_table(folder: Path | str) -> pa.Table:
    """All closed segments as one table."""
    import pyarrow as pa

    tables = list(read_tables(folder))
    return pa.concat_tables(tables) if tables else arrow_schema().empty_table()


def read_records(folder: Path | str) -> Iterator[Record]:
    """All closed segments as records."""
    for table in read_tables(folder):
        yield from records_of(table)


def _whole(table: pa.Table) -> pa.Table:
    """With exactly the columns of today."""
    import pyarrow as pa

    columns = []
    for field in arrow_schema():
        if field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        elif field.nullable:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(pa.array([[]] * table.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=arrow_schema())
