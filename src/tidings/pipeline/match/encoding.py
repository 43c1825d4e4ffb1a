"""Events in Arrow columns as the index takes them: for each attribute an ordinal or a float per event.

It is what `matching.axes` does with events as mappings, a column at a time. A field is a column of the struct
of fields, or of a struct within; one that is not there, or null, is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.errors import InputError
from tidings.language.cuts import EXACT_INT_MAX
from tidings.language.fields import Path, path_text
from tidings.language.regions import Kind
from tidings.matching.axes import (
    BOOL,
    EQUAL,
    FOREIGN,
    NUMBER,
    ORDER,
    PREFIX,
    PRESENT,
    TIME,
    Attributes,
    floor_float,
    string_ordinal,
)

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class Column:
    """The values of one field."""

    path: Path
    values: pa.Array
    kind: Kind | None
    """What they can be compared with; None for lists and objects."""

    @cached_property
    def there(self) -> Array:
        return np.asarray(self.values.is_valid().to_numpy(zero_copy_only=False), dtype=np.uint8)

    @property
    def whole(self) -> bool:
        """Whether they are whole numbers."""
        import pyarrow as pa

        return bool(pa.types.is_integer(self.values.type))

    @cached_property
    def floats(self) -> Array:
        """As 64-bit floats; a whole number that no float holds as the next smaller one."""
        found = self.values.fill_null(0).to_numpy(zero_copy_only=False)
        if not self.whole:
            wrong = np.flatnonzero(~np.isfinite(found))
            if len(wrong):
                raise InputError(
                    f"an event has {found[wrong[0]]} in {path_text(self.path)!r}, and filters know finite "
                    "numbers only; make it null, or leave the event out"
                )
            return np.asarray(found, dtype=np.float64)
        floats: Array = found.astype(np.float64)
        for at in np.flatnonzero(np.abs(floats) >= EXACT_INT_MAX).tolist():
            floats[at] = floor_float(int(found[at]))
        return floats

    @cached_property
    def texts(self) -> tuple[list[str], Array]:
        """Different strings, and for each event the place of its own."""
        encoded = self.values.fill_null("").dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def columns_of(fields: pa.StructArray, paths: set[Path]) -> dict[Path, Column]:
    """The columns of some fields, as far as they are there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[Path, Column] = {}
    for path in sorted(paths):
        values: Any = fields
        for name in path:
            if not pa.types.is_struct(values.type) or values.type.get_field_index(name) < 0:
                break
            values = pc.struct_field(values, [values.type.get_field_index(name)])
        else:
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            if not pa.types.is_null(values.type):
                found[path] = Column(path, values, kind_of(path, values.type))
    return found


def kind_of(path: Path, kind: pa.DataType) -> Kind | None:
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return Kind.BOOL
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Kind.NUMBER
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Kind.STRING
    if pa.types.is_timestamp(kind):
        return Kind.TIMESTAMP
    if pa.types.is_nested(kind):
        return None
    raise InputError(
        f"the column {path_text(path)!r} is of type {kind}, which no field has; cast it to a number, string, "
        "boolean or timestamp"
    )


def encode(attributes: Attributes, fields: pa.StructArray) -> tuple[Array, Array, Array]:
    """Events as `Frozen.match` takes them."""
    asked = attributes.numbers
    columns = columns_of(fields, {path for path, _ in asked})
    count = len(fields)
    heads: list[int] = []
    rows: list[Array] = []
    there: list[Array] = []
    for (path, axis), attribute in asked.items():
        column = columns.get(path)
        if column is None:
            continue
        row = _row(column, axis, attributes.symbols, count)
        if row is not None:
            heads.append(attribute * 2 + (axis == NUMBER))
            rows.append(row)
            there.append(column.there)
    raw = np.array(rows, dtype=np.uint64) if rows else np.zeros((0, count), dtype=np.uint64)
    known = np.array(there, dtype=np.uint8) if there else np.zeros((0, count), dtype=np.uint8)
    return np.array(heads, dtype=np.int64), raw, known


def _row(column: Column, axis: int, symbols: Mapping[str, int], count: int) -> Array | None:
    """The ordinals of one attribute; None if no value can be looked at in that way."""
    family, offset = axis & ~0xFFFF, axis & 0xFFFF
    nothing = np.zeros(count, dtype=np.uint64)
    if axis == PRESENT:
        return nothing
    if family == FOREIGN:
        return nothing if column.kind != offset else None
    if axis == NUMBER:
        return column.floats.view(np.uint64) if column.kind is Kind.NUMBER else None
    if axis == BOOL:
        if column.kind is not Kind.BOOL:
            return None
        return np.asarray(column.values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.uint64)
    if axis == TIME:
        if column.kind is not Kind.TIMESTAMP:
            return None
        return micros_of(column.values).view(np.uint64) + _SIGN
    if column.kind is not Kind.STRING:
        return None
    texts, places = column.texts
    if axis == EQUAL:
        ordinals = [symbols.get(text, 0) for text in texts]
    elif family == PREFIX:
        ordinals = [symbols.get(text[:offset], 0) if len(text) >= offset else 0 for text in texts]
    else:
        assert family == ORDER, f"{axis} is an axis of strings"
        ordinals = [string_ordinal(text[offset : offset + 8]) for text in texts]
    return np.array([*ordinals, 0], dtype=np.uint64)[places]


def micros_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """Points in time as microseconds; those without a zone are taken as UTC."""
    import pyarrow as pa

    found = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64()).fill_null(0)
    return np.array(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def event_of(fields: pa.StructArray, at: int) -> dict[str, object]:
    """One event as a mapping, as filters are asked about it."""
    found = fields[at].as_py()
    return {} if found is None else _known(found)


def _known(values: Mapping[str, Any]) -> dict[str, object]:
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return _known(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value
