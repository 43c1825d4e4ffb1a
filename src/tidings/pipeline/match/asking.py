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
from tidings.language.cuts import EXACT_INT_MAX, Cuts
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Filter, parse
from tidings.language.regions import Constraint, Kind, Unknown, Values
from tidings.matching import Index
from tidings.matching.images import image_of
from tidings.pipeline.match.rows import rows_of
from tidings.records import workload as tables
from tidings.records.workload_reading import NEVER, Subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

ALWAYS = -(2**63)
"""The beginning of a subscription that was always there."""

Array = npt.NDArray[Any]


def subscriptions_of(
    table: pa.Table, dimensions: Sequence[str], fields: Mapping[Path, Field] | None = None
) -> Subscriptions:
    """Subscriptions from Arrow columns as in the table of a workload.

    `subscription` must be there, and rectangles or `where`; `topic` (all topics), `unknown` (wait), `from_at`
    (always) and `until_at` (never) may be left out. Texts are parsed with the declared fields.
    """
    import pyarrow as pa

    count = table.num_rows

    def column(name: str, missing: Any, kind: pa.DataType) -> pa.ChunkedArray:
        if name not in table.column_names:
            return pa.chunked_array([pa.array([missing] * count, kind)])
        return table.column(name).cast(kind).fill_null(missing)

    def whole(name: str, missing: int) -> npt.NDArray[np.int64]:
        return np.asarray(column(name, missing, pa.int64()).to_numpy(), dtype=np.int64)

    order = np.argsort(whole("subscription", 0), kind="stable")
    lacking = np.zeros(count, dtype=bool) if dimensions else np.ones(count, dtype=bool)
    for name in dimensions:
        for end in (tables.low(name), tables.high(name)):
            if end in table.column_names:
                lacking |= table.column(end).is_null().to_numpy()
            else:
                lacking[:] = True

    def ends(end: Callable[[str], str]) -> npt.NDArray[np.int64]:
        found = np.zeros((count, len(dimensions)), dtype=np.int64)
        for at, name in enumerate(dimensions):
            found[:, at] = np.where(lacking, 0, whole(end(name), 0))
        return found[order]

    topics, topic = _coded(column("topic", "#", pa.string()))
    wheres, where = _coded(column("where", "TRUE", pa.string()))
    # Only texts that somebody without a rectangle has.
    used, text = np.unique(np.where(lacking, where, -1), return_inverse=True)
    texts = tuple(wheres[at] for at in used.tolist() if at >= 0)
    assume = column("unknown", Unknown.WAIT.value, pa.string()).to_numpy() == Unknown.ASSUME.value
    return Subscriptions(
        tuple(dimensions),
        whole("subscription", 0)[order],
        np.zeros(count, dtype=np.int64),
        topics,
        topic[order],
        ends(tables.low),
        ends(tables.high),
        texts,
        np.asarray(text - (len(used) - len(texts)), dtype=np.int64)[order],
        np.asarray(assume, dtype=bool)[order],
        whole("from_at", ALWAYS)[order],
        whole("until_at", NEVER)[order],
        {at: parsed(said, fields) for at, said in enumerate(texts)},
    )


def parsed(text: str, fields: Mapping[Path, Field] | None) -> Filter:
    try:
        return parse(text, fields)
    except FilterError as error:
        raise InputError(f"the filter of a subscription cannot be used: {error}") from None


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
