"""The schema of a record for Arrow and Parquet, made from the struct `Record`, so that there is only one.

A field that may be None is nullable, an enum of words is a string, a tuple of strings a list of strings.
Other types are refused here, at the first call, rather than guessed. pyarrow is loaded when first needed.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from tidings.errors import InputError
from tidings.records.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
"""Of a segment, written into each; no other is read. It grows with every change of what records say. In
format 1 a record of a read named a broker where it now names a holder."""

FORMAT_KEY = "tidings.records"
"""Where a segment says its format, in the metadata of the file."""


@lru_cache(maxsize=1)
def arrow_schema() -> pa.Schema:
    """The Arrow schema of `Record`: its fields, in order."""
    import pyarrow as pa

    fields = [pa.field(field.name, *_arrow(field.type)) for field in msgspec.structs.fields(Record)]
    return pa.schema(fields, metadata={FORMAT_KEY: str(FORMAT)})


def check_format(metadata: Mapping[bytes, bytes] | None, path: Path) -> None:
    """Refuse a segment of another format, given the metadata of its file."""
    said = (metadata or {}).get(FORMAT_KEY.encode(), b"").decode(errors="replace")
    if said != str(FORMAT):
        found = f"format {said[:20]}" if said else "no format"
        raise InputError(
            f"the records in {path} have {found}, and this release reads format {FORMAT}; read them with the "
            "release that wrote them, or move the file out of the folder"
        )


def _arrow(hint: Any) -> tuple[pa.DataType, bool]:
    """The Arrow type for a type of Python, and whether it is nullable."""
    import pyarrow as pa

    if get_origin(hint) in (Union, types.UnionType):
        inner = [one for one in get_args(hint) if one is not types.NoneType]
        assert len(inner) == 1, f"{hint} is not one type or None"
        return _arrow(inner[0])[0], True
    if hint is int:
        return pa.int64(), False
    if hint is str or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        return pa.string(), False
    assert hint == tuple[str, ...], f"{hint} has no Arrow type here; give it one"
    return pa.list_(pa.field("element", pa.string(), nullable=False)), False


def records_of(table: pa.Table) -> Iterable[Record]:
    """The records of a table, in its order; columns that it lacks are at their defaults."""
    names = [name for name in arrow_schema().names if name in table.column_names]
    for batch in table.select(names).to_batches(max_chunksize=8192):
        yield from msgspec.convert(batch.to_pylist(), list[Record])
