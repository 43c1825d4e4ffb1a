"""The schema of a record for Arrow and Parquet, made from the struct `Record`, so that there is only one.

A field that may be None is nullable, an enum of words is a string, a tuple of strings a list of strings.
Other types are refused here, at the first call, rather than guessed. pyarrow is loaded when first needed.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from tidings.records.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
"""Written into every segment. It grows when a field changes its meaning, not when one is added."""


@lru_cache(maxsize=1)
def arrow_schema() -> pa.Schema:
    """The Arrow schema of `Record`: its fields, in order."""
    import pyarrow as pa

    fields = [pa.field(field.name, *_arrow(field.type)) for field in msgspec.structs.fields(Record)]
    return pa.schema(fields, metadata={"tidings.records": str(SCHEMA_VERSION)})


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
