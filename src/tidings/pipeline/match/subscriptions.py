"""Subscriptions as an index in arrays: what is asked for, by whom, and when.

Subscriptions are those of `records`: rectangles of whole numbers, or texts. Those that ask for the same are
one filter in the index, which leads to all of them. Each topic filter has an index of its own.

A rectangle over whole numbers is made of whole numbers: as the filter of fields that are not declared its
ends would lie between floats, and the index would have twice as many cuts to search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.errors import FilterError, InputError
from tidings.language import names
from tidings.language.cuts import EXACT_INT_MAX, Cuts
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Filter, parse
from tidings.language.regions import Constraint, Kind, Unknown, Values
from tidings.matching import Index
from tidings.matching.images import image_of
from tidings.pipeline.match.rows import rows_of
from tidings.records import workload as tables
from tidings.records.workload_reading import NEVER, Subscriptions, text_pairs

if TYPE_CHECKING:
    import pyarrow as pa

ALWAYS = -(2**63)
"""The beginning of a subscription that was always there."""

Fields = Mapping[Path, Field] | Callable[[str], Mapping[Path, Field] | None] | None
"""Fields as they are declared, for all topics or for those of a topic filter."""

Array = npt.NDArray[Any]


def subscriptions_of(table: pa.Table, dimensions: Sequence[str], fields: Fields = None) -> Subscriptions:
    """Subscriptions from Arrow columns as in the table of a workload, which are looked at.

    `subscription` must be there, and rectangles or `where`; `topic` (all topics), `unknown` (wait), `from_at`
    (always) and `until_at` (never) may be left out. Texts are parsed with the declared fields, which may
    depend on the topic filter. Raises `InputError` for what no subscription has.
    """
    rows = _Rows(table)
    number = rows.whole("subscription")
    lacking = np.zeros(len(number), dtype=bool) if dimensions else np.ones(len(number), dtype=bool)
    for name in dimensions:
        for end in (tables.low(name), tables.high(name)):
            lacking |= rows.lacks(end)

    def ends(end: Callable[[str], str]) -> npt.NDArray[np.int64]:
        found = np.zeros((len(number), len(dimensions)), dtype=np.int64)
        for at, name in enumerate(dimensions):
            found[:, at] = np.where(lacking, 0, rows.whole(end(name), 0, null=True))
        return found

    low, high = ends(tables.low), ends(tables.high)
    for at, name in enumerate(dimensions):
        for row in _first(low[:, at] > high[:, at]):
            above = f"{tables.low(name)} {low[row, at]} above {tables.high(name)} {high[row, at]}"
            raise rows.wrong(row, f" has {above}; the lower end must not be above the upper one")
    for row in _first(lacking & rows.lacks("where")):
        ended = ", ".join(tables.low(name) for name in dimensions) or "no fields are known"
        raise rows.wrong(row, f" has neither a rectangle ({ended}) nor a where; give it one of them")
    from_at, until_at = rows.whole("from_at", ALWAYS), rows.whole("until_at", NEVER, null=True)
    for row in _first(until_at < from_at):
        when = f"ends at {until_at[row]}, before it begins at {from_at[row]}"
        raise rows.wrong(row, f" {when}; until_at must not be smaller than from_at")
    unknowns, unknown = rows.texts("unknown", Unknown.WAIT.value)
    for at, word in enumerate(unknowns):
        for row in _first((unknown == at) & (word not in list(Unknown))):
            raise rows.wrong(row, f" has unknown {word!r}; write 'wait' or 'assume'")
    topics, topic = rows.texts("topic", "#")
    for at, name in enumerate(topics):
        if fault := names.filter_fault(name):
            raise rows.wrong(_first(topic == at)[0], f": {fault}")
    order = np.argsort(number, kind="stable")
    for row in _first(number[order[1:]] == number[order[:-1]]):
        raise rows.wrong(int(order[row]), " is there twice; numbers must differ")
    # A text under another topic filter is another: its fields may be declared otherwise.
    wheres, where = rows.texts("where", "TRUE", null=True)
    pairs, text = text_pairs(np.where(lacking, where, -1), topic, len(topics))
    used = {under for _, under in pairs}
    declared = {under: fields(topics[under]) if callable(fields) else fields for under in used}
    read: dict[int, Filter] = {}
    for at, (said, under) in enumerate(pairs):
        try:
            read[at] = parse(wheres[said], declared[under])
        except FilterError as error:
            raise rows.wrong(_first(text == at)[0], f": {error}") from None
    return Subscriptions(
        tuple(dimensions),
        number[order],
        np.zeros(len(number), dtype=np.int64),
        topics,
        topic[order],
        low[order],
        high[order],
        tuple(wheres[said] for said, _ in pairs),
        text[order],
        (np.array([*unknowns, ""]) == Unknown.ASSUME.value)[unknown][order],
        from_at[order],
        until_at[order],
        read,
    )


class _Rows:
    """The columns of a table of subscriptions, and what is wrong with them, said with the subscription."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        if "subscription" not in table.column_names:
            raise InputError(
                f"subscriptions have no column 'subscription'; there are {', '.join(table.column_names)}"
            )

    def wrong(self, row: int, problem: str) -> InputError:
        """An error that names the subscription of a row; the problem goes on behind it."""
        return InputError(f"subscription {self._table.column('subscription')[row]}{problem}")

    def lacks(self, name: str) -> npt.NDArray[np.bool_]:
        """Which rows have no value in a column."""
        if name not in self._table.column_names:
            return np.ones(self._table.num_rows, dtype=bool)
        return np.asarray(self._table.column(name).is_null().to_numpy(), dtype=bool)

    def whole(self, name: str, missing: int | None = None, *, null: bool = False) -> npt.NDArray[np.int64]:
        """A column of whole numbers; `missing` where there is none, or, if there may be nulls, for these."""
        import pyarrow as pa

        found = self._column(name, missing, null, pa.types.is_integer, pa.int64())
        return np.asarray(found.to_numpy(), dtype=np.int64)

    def texts(
        self, name: str, missing: str, *, null: bool = False
    ) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
        """The different texts of a column, sorted, and for each row its place among them."""
        import pyarrow as pa

        def is_text(kind: pa.DataType) -> bool:
            return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

        return _coded(self._column(name, missing, null, is_text, pa.string()))

    def _column(
        self, name: str, missing: Any, null: bool, is_right: Callable[[pa.DataType], bool], kind: pa.DataType
    ) -> pa.ChunkedArray:
        import pyarrow as pa

        if name not in self._table.column_names:
            return pa.chunked_array([pa.array([missing] * self._table.num_rows, kind)])
        column = self._table.column(name)
        if pa.types.is_null(column.type):
            column = column.cast(kind)
        if not is_right(column.type):
            raise InputError(f"column {name!r} of subscriptions is {column.type}; it should be {kind}")
        for row in _first(self.lacks(name)) if not null else ():
            raise self.wrong(row, f" has no {name}; every row needs one")
        return column.cast(kind).fill_null(missing) if null else column.cast(kind)


def _first(which: npt.NDArray[np.bool_]) -> list[int]:
    """The first row of some; none where there is none."""
    found: list[int] = np.flatnonzero(which)[:1].tolist()
    return found


def _coded(column: pa.ChunkedArray) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Different texts, sorted, and for each row its place among them."""
    encoded = column.combine_chunks().dictionary_encode()
    found = encoded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=found.__getitem__)
    places = np.zeros(max(1, len(found)), dtype=np.int64)
    places[order] = np.arange(len(found))
    return tuple(found[at] for at in order), places[encoded.indices.to_numpy()]


def image(known: Subscriptions) -> tuple[dict[str, Any], dict[str, Array]]:
    """Subscriptions as a description and arrays, which `answering.Matcher` takes."""
    first, place = known.distinct
    counts = np.bincount(place, minlength=len(first)).astype(np.int64)
    asking = np.argsort(place, kind="stable").astype(np.int64)
    begins = np.concatenate(([0], np.cumsum(counts)))
    arrays: dict[str, Array] = {"number": known.number}
    timeless = bool((known.from_at == ALWAYS).all() and (known.until_at == NEVER).all())
    if not timeless:
        arrays |= {"from_at": known.from_at, "until_at": known.until_at}
    topics = []
    for at, name in enumerate(known.topics):
        here = np.flatnonzero(known.topic[first] == at)
        # By the first who asks: then what is found comes in the order of numbers wherever each asks alone.
        here = here[np.argsort(first[here], kind="stable")]
        index = Index()
        for owner, row in enumerate(first[here].tolist()):
            index.add(owner, filter_of(known, row), Unknown.ASSUME if known.assume[row] else Unknown.WAIT)
        held = image_of(index)
        rows = rows_of(held.arrays, asked=bool(held.about["asked"]))
        arrays |= {f"{at}.{key}": array for key, array in (rows or held.arrays).items()}
        arrays[f"{at}.begin"] = np.concatenate(([0], np.cumsum(counts[here])))
        arrays[f"{at}.position"] = _runs(begins, asking, here)
        alone = bool((counts[here] == 1).all())
        topics.append({"filter": name, "index": held.about, "rows": rows is not None, "alone": alone})
    return {"topics": topics, "timeless": timeless, "subscriptions": len(known)}, arrays


def _runs(begins: Array, rows: Array, chosen: Array) -> Array:
    """The rows of some runs, one run after the other."""
    counts = begins[chosen + 1] - begins[chosen]
    before = np.cumsum(counts) - counts
    return rows[np.repeat(begins[chosen] - before, counts) + np.arange(int(counts.sum()))]


def filter_of(known: Subscriptions, row: int) -> Filter:
    """What a subscription asks for, over whole numbers if it is a rectangle."""
    asked = known.asked(row).filter
    low, high = known.low[row].tolist(), known.high[row].tolist()
    if known.text[row] >= 0 or any(abs(end) >= EXACT_INT_MAX - 1 for end in (*low, *high)):
        return asked
    held = tuple(
        ((name,), Constraint(None, ((Kind.NUMBER, Values(Cuts(False, (one, other + 1)))),), Type.INT))
        for name, one, other in sorted(zip(known.dimensions, low, high, strict=True))
    )
    return Filter(asked.source, asked.tree, (held,))
