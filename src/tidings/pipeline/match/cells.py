"""Where events and subscriptions meet: the cells of an event space, as numbers, a batch at a time.

An event lies in one cell. A subscription meets every cell that holds an event which it might get: what a
cell holds beyond that costs a look, and never an answer. A missing value lies in the lowest place, so that a
filter that takes it meets the lowest place too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.errors import InputError
from tidings.language.regions import TYPES, Kind, Unknown
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.encoding import Column, columns_of, micros_of
from tidings.records.workload_reading import Subscriptions
from tidings.space import Space, arrays
from tidings.space.attributes import Real, Whole

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.pipeline.match.strategies import Cells

Array = npt.NDArray[Any]


def events(batches: Iterator[pa.RecordBatch], *, cells: Cells) -> Iterator[pa.RecordBatch]:
    """Events with the cell of each, and the part of the cell, by the mark that it has."""
    for batch in batches:
        cell = cells_of_events(cells.space, batch.column("fields"), cells.depth)
        mark = batch.column("_mark").to_numpy(zero_copy_only=False)
        yield _placed(batch.drop_columns(["_mark"]), cell, np.mod(mark, _parts(cells, cell)))


def subscriptions(batches: Iterator[pa.RecordBatch], *, cells: Cells) -> Iterator[pa.RecordBatch]:
    """Subscriptions, once for each cell that they meet and each part of it."""
    import pyarrow as pa

    for batch in batches:
        table = pa.Table.from_batches([batch])
        # In the order of the rows, which is not that of their numbers.
        numbered = table.set_column(
            table.column_names.index("subscription"),
            "subscription",
            pa.array(np.arange(table.num_rows, dtype=np.int64)),
        )
        known = asking.subscriptions_of(numbered, cells.dimensions, cells.fields)
        row, cell = cells_of_subscriptions(cells.space, known, cells.depth)
        parts = _parts(cells, cell)
        before = np.cumsum(parts) - parts
        part = np.arange(int(parts.sum())) - np.repeat(before, parts)
        yield _placed(batch.take(pa.array(np.repeat(row, parts))), np.repeat(cell, parts), part)


def refused(batches: Iterator[pa.RecordBatch], *, cells: Cells) -> Iterator[pa.RecordBatch]:
    """Of each batch of subscriptions the first thing that is wrong with it, if something is."""
    import pyarrow as pa

    for batch in batches:
        try:
            asking.subscriptions_of(pa.Table.from_batches([batch]), cells.dimensions, cells.fields)
        except InputError as error:
            yield pa.record_batch([pa.array([str(error)])], ["problem"])


def _parts(cells: Cells, cell: Array) -> Array:
    """Into how many parts the cell of each row is divided."""
    if not cells.parts:
        return np.ones(len(cell), dtype=np.int64)
    divided = np.array(sorted(cells.parts), dtype=np.int64)
    many = np.array([cells.parts[one] for one in divided.tolist()], dtype=np.int64)
    at = np.minimum(np.searchsorted(divided, cell), len(divided) - 1)
    return np.where(divided[at] == cell, many[at], 1)


def _placed(batch: pa.RecordBatch, cell: Array, part: Array) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [*batch.columns, pa.array(cell, pa.int64()), pa.array(part, pa.int64())]
    return pa.record_batch(columns, [*batch.schema.names, "_cell", "_part"])


# Events.


def cells_of_events(space: Space, fields: pa.StructArray, depth: int) -> Array:
    """The cell of each event."""
    if not space.attributes:
        return np.zeros(len(fields), dtype=np.int64)
    columns = columns_of(fields, {attribute.path for attribute in space.attributes})
    places = []
    for at, attribute in enumerate(space.attributes):
        column = columns.get(attribute.path)
        missing = np.full(len(fields), attribute.place(None))
        places.append(missing if column is None else _places(space, at, column))
    return arrays.points(space, places, depth)


def _places(space: Space, at: int, column: Column) -> Array:
    """Where the values of a column lie on an axis; missing ones, and those of another kind, in the lowest."""
    attribute = space.attributes[at]
    if isinstance(attribute, Real):
        if column.kind is not Kind.NUMBER:
            return np.full(len(column.values), attribute.place(None))
        clamped: Array = np.clip(column.floats, attribute.low, attribute.high)
        return np.where(column.there == 1, clamped, attribute.place(None))
    if column.kind is not TYPES[attribute.type]:
        return np.zeros(len(column.values), dtype=np.int64)
    if attribute.listed:
        texts, places = column.texts
        found: Array = np.array([*(attribute.place(text) for text in texts), 0])[places]
        return np.where(column.there == 1, found, 0)
    if column.kind is Kind.TIMESTAMP:
        values: Array = micros_of(column.values)
    elif column.kind is Kind.BOOL:
        values = np.array(column.values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.int64)
    elif column.whole:
        values = np.array(column.values.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    else:
        values = np.floor(column.floats)
    return np.where(column.there == 1, arrays.placed(space, at, values), 0)


# Subscriptions.


def cells_of_subscriptions(space: Space, known: Subscriptions, depth: int) -> tuple[Array, Array]:
    """The cells that subscriptions meet: which row, and which cell; sorted."""
    counted = all(isinstance(attribute, Whole) for attribute in space.attributes)
    quick = (known.text < 0) if counted else np.zeros(len(known), dtype=bool)
    rows, cells = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    if quick.any():
        row, cell = arrays.rectangles(space, *_rectangles(space, known.some(quick)), depth)
        rows.append(np.flatnonzero(quick)[row])
        cells.append(cell)
    for one in np.flatnonzero(~quick).tolist():
        met = _met(space, known, one, depth)
        rows.append(np.full(len(met), one, dtype=np.int64))
        cells.append(met)
    every_row, every_cell = np.concatenate(rows), np.concatenate(cells)
    order = np.lexsort((every_cell, every_row))
    return every_row[order], every_cell[order]


def _rectangles(space: Space, known: Subscriptions) -> tuple[Array, Array]:
    """The ends of rectangles as places, an attribute that they do not limit from end to end."""
    count = len(known)
    low = np.zeros((count, len(space.attributes)), dtype=np.int64)
    high = np.zeros((count, len(space.attributes)), dtype=np.int64)
    for at, attribute in enumerate(space.attributes):
        assert isinstance(attribute, Whole), f"{attribute.path} is not counted"
        high[:, at] = attribute.count - 1
        if len(attribute.path) == 1 and attribute.path[0] in known.dimensions and not attribute.listed:
            column = known.dimensions.index(attribute.path[0])
            # One that assumes takes a missing value, which lies in the lowest place.
            low[:, at] = np.where(known.assume, 0, arrays.placed(space, at, known.low[:, column]))
            high[:, at] = arrays.placed(space, at, known.high[:, column])
    return low, arrays.widened(space, high)


def _met(space: Space, known: Subscriptions, row: int, depth: int) -> Array:
    asked = asking.filter_of(known, row)
    boxes = space.boxes(asked.boxes(Unknown.ASSUME if known.assume[row] else Unknown.WAIT), missing=True)
    bits = len(space.turns(depth))
    found = [_below(one, bits) for one in space.decompose(boxes, bits).dz]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _below(expression: str, bits: int) -> Array:
    """The cells of a depth within an expression."""
    left = bits - len(expression)
    first = (int(expression, 2) << left) if expression else 0
    return np.arange(first, first + (1 << left), dtype=np.int64)
