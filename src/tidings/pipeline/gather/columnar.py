"""The kernel over Arrow tables: open entries and reports in, what is told and what stays open out.

Texts become codes for the kernel to compare; what comes out is taken from the columns that came in. The rows
are brought into their order here, by key, time and report, so that nobody before needs to sort. Which topics
the kernel can gather is said by `unsaid`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings import installation
from tidings.errors import SetupError
from tidings.language.fields import Conflict, Field, Type, path_text
from tidings.language.topics import Complete, StaysOpen, TellFirst, Topic
from tidings.pipeline.gather.layout import CLOSED, NUMBERS, REFUSED, TOLD, Layout

Numbers = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""A clock that does not run."""

BLOCK_ROWS = 4096
"""Columns are turned into rows by blocks that stay in the processor's cache."""

PACKED_BITS = 62
"""Key and time together are sorted as one number if they fit."""

POLICIES = {Conflict.FIRST: 0, Conflict.LAST: 1, Conflict.MAX: 2, Conflict.MIN: 3}
COMPLETES = {Complete.EVENT: 0, Complete.REPORT: 1, Complete.ONCE: 2}
REASONS = pa.array(["redundant_for", "window"])


def unsaid(topic: Topic) -> str | None:
    """What of a declaration the kernel does not say; None if it says it all."""
    gathering = topic.gathering
    assert gathering is not None, f"{topic.name!r} is gathered"
    for name, given in (("ends_when", gathering.ends_when), ("tell_now", gathering.tell_now)):
        if given is not None:
            return f"{name} asks for all fields of each version"
    for field in topic.fields.values():
        if field.conflict not in POLICIES:
            name, policy = path_text(field.path), field.conflict.value
            return f"{name} is kept by {policy}, for which an event holds many values"
    return None


def run(
    layout: Layout, entries: pa.Table | None, rows: pa.Table, late: NDArray[np.bool_] | None, until_us: int
) -> tuple[pa.Table, pa.Table]:
    """Feed all rows, let the clocks run out that are due by `until_us`; the result, and what is open then.

    No row may be before a clock that has run out already; `late` marks those that were moved for that.
    """
    rows, refused = _taken(layout, rows.select(layout.rows.names).combine_chunks())
    if late is not None:
        late = late[~refused.mask]
    held = entries.num_rows if entries is not None else 0
    every = rows
    if entries is not None and held:
        every = pa.concat_tables([entries.select(layout.rows.names), rows]).combine_chunks()
    count = every.num_rows
    if not count:
        return refused.table, layout.entries.empty_table()
    columns = {name: _one(every.column(name)) for name in every.schema.names}
    total = len(layout.fields)
    values, present = _matrix(layout, columns, count)
    at = _int64(columns["at"])
    numbers = np.zeros((max(held, 1), len(NUMBERS)), np.int64)
    for place, name in enumerate(NUMBERS if entries is not None and held else ()):
        assert entries is not None, "there are entries"
        numbers[:, place] = _int64(_one(entries.column(name)))
    lates = np.zeros(count, np.int64)
    if late is not None:
        lates[held:] = late
    group = _codes([columns[name] for name in layout.group_names])
    order = _order(group, at, columns["report"], held)
    told = np.empty((count, 5), np.int64)
    told_from = np.empty((count, total), np.int64)
    closed = np.empty((count, 10), np.int64)
    kept = np.empty((count, 1 + len(NUMBERS)), np.int64)
    kept_from = np.empty((count, total), np.int64)
    found = _compiled()(
        *(order, group, held, at, lates, values, values.view(np.float64), present, numbers),
        *_rules(layout.fields),
        _options(layout, until_us),
        *(told, told_from, closed, kept, kept_from),
    )
    told_count, closed_count, kept_count = found
    result = pa.concat_tables(
        [
            _versions(layout, columns, told[:told_count], told_from[:told_count]),
            _closings(layout, columns, closed[:closed_count]),
            refused.table,
        ]
    )
    return result, _entries(layout, columns, kept[:kept_count], kept_from[:kept_count])


# What comes in.


class Refused:
    """The reports that cannot be taken."""

    def __init__(self, mask: NDArray[np.bool_], table: pa.Table) -> None:
        self.mask = mask
        self.table = table


def _taken(layout: Layout, rows: pa.Table) -> tuple[pa.Table, Refused]:
    """The reports that have a key, a time and finite numbers; and the others."""
    refused = np.zeros(rows.num_rows, bool)
    reason = np.zeros(rows.num_rows, np.int8)
    for place, name in enumerate(rows.schema.names):
        if pa.types.is_floating(rows.schema.field(name).type):
            # As a report's floats everywhere: -0.0 is the 0.0 that it equals.
            column = pc.add(rows.column(name), 0.0)
            rows = rows.set_column(place, rows.schema.field(name), column)
            bad = ~np.asarray(pc.fill_null(pc.is_finite(column), True))
            reason[bad], refused = 2, refused | bad
    for name in layout.group_names:
        if rows.column(name).null_count:
            bad = np.asarray(pc.is_null(rows.column(name)))
            reason[bad & ~refused] = 1
            refused |= bad
    at = rows.column("at")
    fine = pc.and_(pc.greater_equal(at, layout.at_us_min), pc.less_equal(at, layout.at_us_max))
    bad = ~np.asarray(pc.fill_null(fine, False))
    refused |= bad
    if not refused.any():
        return rows, Refused(refused, layout.told.empty_table())
    mask = pa.array(refused)
    out = rows.filter(mask)
    said = pa.array(["at", "key", "number"]).take(pa.array(reason[refused]))
    table = filled(
        layout, out.num_rows, state=REFUSED, at=out.column("at"), event=out.column("report"), reason=said
    )
    return rows.filter(pc.invert(mask)).combine_chunks(), Refused(refused, table)


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def _int64(column: pa.Array) -> Numbers:
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64)


def _matrix(layout: Layout, columns: dict[str, pa.Array], count: int) -> tuple[Numbers, NDArray[np.uint8]]:
    """All fields as rows of 64 bits each, and which of them are there."""
    total = len(layout.fields)
    flat = [
        _comparable(columns[name], field) for name, field in zip(layout.names, layout.fields, strict=True)
    ]
    there = [
        np.asarray(pc.is_valid(columns[name])) if columns[name].null_count else None for name in layout.names
    ]
    values = np.empty((count, total), np.int64)
    present = np.ones((count, total), np.uint8)
    for begin in range(0, count, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, count)
        for place in range(total):
            values[begin:end, place] = flat[place][begin:end]
            mask = there[place]
            if mask is not None:
                present[begin:end, place] = mask[begin:end]
    return values, present


def _comparable(column: pa.Array, field: Field) -> Numbers:
    """A column as whole numbers that are equal as its values are; in their order if the policy needs it."""
    if field.type is Type.FLOAT:
        return np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)).view(np.int64)
    if field.type is Type.STRING:
        coded = column.dictionary_encode()
        codes = np.asarray(pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False), np.int64)
        if field.conflict in (Conflict.MAX, Conflict.MIN) and len(coded.dictionary):
            rank = np.empty(len(coded.dictionary), np.int64)
            # Arrow compares bytes of UTF-8, which come in the order of their code points.
            rank[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(rank))
            codes = rank[codes]
        return codes
    return _int64(column.cast(pa.int64()) if pa.types.is_boolean(column.type) else column)


def _codes(columns: Sequence[pa.Array]) -> Numbers:
    """One number for each key."""
    codes: Numbers | None = None
    for column in columns:
        coded = column.dictionary_encode()
        more = np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)
        if codes is None:
            codes = more
        else:
            # Made dense again, so that the next product stays within 64 bits.
            both = pa.array(codes * max(1, len(coded.dictionary)) + more).dictionary_encode()
            codes = np.asarray(both.indices.to_numpy(zero_copy_only=False), np.int64)
    assert codes is not None, "a key has items"
    return codes


def _order(group: Numbers, at: Numbers, ids: pa.Array, held: int) -> Numbers:
    """The rows by key; of one key an open entry first, then reports by time and id."""
    times = at.copy()
    earliest = int(times[held:].min()) if len(times) > held else 0
    span = (int(times[held:].max()) - earliest if len(times) > held else 0) + 2
    if (int(group.max()) + 1) * span >= 2**PACKED_BITS:
        times[:held] = np.iinfo(np.int64).min
        return np.lexsort((id_order(ids), times, group))
    times -= earliest - 1
    times[:held] = 0
    packed = group * span + times
    order = np.argsort(packed)
    packed = packed[order]
    ties = np.flatnonzero(packed[1:] == packed[:-1])
    if len(ties):
        # Reports of one key at one time are few: only they are sorted by their ids.
        places = np.union1d(ties, ties + 1)
        rows = order[places]
        order[places] = rows[np.lexsort((id_order(ids.take(pa.array(rows))), packed[places]))]
    return order


def id_order(ids: pa.Array) -> Numbers:
    """Numbers in the order of report ids: of texts the shorter first."""
    if not pa.types.is_string(ids.type):
        return _int64(ids)
    coded = ids.dictionary_encode()
    texts = coded.dictionary
    table = pa.table({"length": pc.utf8_length(texts), "id": texts})
    rank = np.empty(len(texts), np.int64)
    rank[np.asarray(pc.sort_indices(table, [("length", "ascending"), ("id", "ascending")]))] = np.arange(
        len(texts)
    )
    return np.asarray(rank[np.asarray(coded.indices)])


def _rules(fields: Sequence[Field]) -> tuple[NDArray[Any], ...]:
    """Of each field: its policy, whether it is a float, and its tolerance as either sort of number."""
    given = [0 if field.tolerance is None else field.tolerance for field in fields]
    return (
        np.array([POLICIES[field.conflict] for field in fields], np.int64),
        np.array([field.type is Type.FLOAT for field in fields], bool),
        # Whole numbers are a whole number apart.
        np.array([min(int(tolerance), 2**64 - 1) for tolerance in given], np.uint64),
        np.array([float(tolerance) for tolerance in given], np.float64),
    )


def _options(layout: Layout, until_us: int) -> Numbers:
    gathering = layout.gathering
    return np.array(
        [
            gathering.merge_after_us,
            gathering.redundant_for_us,
            NEVER if gathering.window_us is None else gathering.window_us,
            gathering.stays_open is StaysOpen.REPORTED,
            gathering.tell_first is TellFirst.NOW,
            COMPLETES[gathering.complete],
            until_us,
        ],
        np.int64,
    )


# What goes out.


def filled(layout: Layout, count: int, **given: Any) -> pa.Table:
    """Rows of the result with these columns: arrays, or one value for all; the others are null."""
    columns = []
    for field in layout.told:
        value = given.get(field.name)
        if isinstance(value, (pa.Array, pa.ChunkedArray)):
            columns.append(value.cast(field.type) if value.type != field.type else value)
        elif value is None:
            columns.append(pa.nulls(count, field.type))
        else:
            columns.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.table(columns, schema=layout.told)


def _versions(layout: Layout, columns: dict[str, pa.Array], told: Numbers, told_from: Numbers) -> pa.Table:
    if not len(told):
        return layout.told.empty_table()
    leaves = [_at(columns[name], told_from[:, place]) for place, name in enumerate(layout.names)]
    return filled(
        layout,
        len(told),
        state=TOLD,
        at=pa.array(told[:, 0]),
        version=pa.array(told[:, 2]),
        reports=pa.array(told[:, 3]),
        complete=pa.array(told[:, 4] != 0),
        fields=layout.nested(leaves),
        **_named(layout, columns, told[:, 1]),
    )


def _closings(layout: Layout, columns: dict[str, pa.Array], closed: Numbers) -> pa.Table:
    if not len(closed):
        return layout.told.empty_table()
    return filled(
        layout,
        len(closed),
        state=CLOSED,
        at=pa.array(closed[:, 0]),
        version=pa.array(closed[:, 2]),
        reports=pa.array(closed[:, 3]),
        complete=pa.array(closed[:, 4] != 0),
        closed_by=_at(columns["report"], closed[:, 5]),
        reason=REASONS.take(pa.array(closed[:, 6])),
        redundant=pa.array(closed[:, 7]),
        conflicts=pa.array(closed[:, 8]),
        late=pa.array(closed[:, 9]),
        **_named(layout, columns, closed[:, 1]),
    )


def _named(layout: Layout, columns: dict[str, pa.Array], rows: Numbers) -> dict[str, pa.Array]:
    """What says which event a version is of, from the rows that opened them."""
    taken = pa.array(rows)
    items = [columns[name].take(taken) for name in layout.key_names]
    key = pa.StructArray.from_arrays(items, fields=list(layout.told.field("key").type))
    named = {"event": columns["report"].take(taken), "opened_at": columns["at"].take(taken), "key": key}
    return named | ({"topic": columns["topic"].take(taken)} if layout.by_topic else {})


def _entries(layout: Layout, columns: dict[str, pa.Array], kept: Numbers, kept_from: Numbers) -> pa.Table:
    rows = pa.array(kept[:, 0])
    given = {name: columns[name].take(rows) for name in layout.rows.names if name not in layout.names}
    given |= {name: _at(columns[name], kept_from[:, place]) for place, name in enumerate(layout.names)}
    given |= {name: pa.array(kept[:, 1 + place]) for place, name in enumerate(NUMBERS)}
    return pa.table([given[field.name] for field in layout.entries], schema=layout.entries)


def _at(column: pa.Array, rows: Numbers) -> pa.Array:
    """The values of some rows; null for no row."""
    return column.take(pa.array(rows, mask=rows < 0))


# The kernel.


@cache
def _compiled() -> Any:
    """The kernel, compiled once for each process, and kept in the user's cache folder where that can be."""
    import numba

    folder = _writable_folder()
    config: Any = numba.config
    before = config.CACHE_DIR
    # A cache is given its folder when a function is decorated.
    config.CACHE_DIR = str(folder or "")
    try:
        from tidings.pipeline.gather import kernel

        return kernel.make(cache=folder is not None)
    finally:
        config.CACHE_DIR = before


def _writable_folder() -> Path | None:
    source = Path(__file__).with_name("kernel.py")
    try:
        version = sha256(source.read_bytes()).hexdigest()[:16]
        folder = installation.cache_folder() / "numba" / version
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, SetupError):
        # Workers may have the package as an archive, and no home.
        return None
