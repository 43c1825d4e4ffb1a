"""The twin of the stage `subscriptions`, and its peer in the benchmark: numpy and Arrow, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload.subscriptions import LIFE_FACTOR, WHERE, by_region, by_topic, key
from tidings.records import workload as tables
from tidings.workload import hashing
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

BATCH = 1_000_000


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table, from that of interests."""
    import pyarrow as pa

    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.SUBSCRIPTIONS]
    return pa.Table.from_batches(batches(model, made[tables.INTERESTS]), schema)


def batches(model: Model, interests: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table, in the order of numbers."""
    import pyarrow.compute as pc

    interests = interests.filter(pc.greater(interests["subscriptions"], 0)).sort_by("first")
    counts = interests["subscriptions"].to_numpy()
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, BATCH):
        numbers = np.arange(begin, min(begin + BATCH, total), dtype=np.int64)
        yield _batch(model, interests, numbers, np.searchsorted(ends, numbers, side="right"))


def _batch(
    model: Model, interests: pa.Table, numbers: NDArray[np.int64], cells: NDArray[np.int64]
) -> pa.RecordBatch:
    """Rows of some numbers, each with the row of its interest."""
    import pyarrow as pa

    def fraction(column: str) -> NDArray[np.float64]:
        return hashing.fraction(hashing.draw(key(model, column), numbers))

    columns: dict[str, pa.Array] = {
        "subscription": pa.array(numbers),
        "topic": _taken(interests, "topic", cells),
    }
    columns["client"] = pa.array(clients(model, interests, numbers, cells))
    for axis, one in enumerate(model.dimensions):
        ends = _moved(model, axis, interests, numbers, cells)
        columns[tables.low(one.name)], columns[tables.high(one.name)] = map(pa.array, ends)
    asked = model.spec.subscriptions
    length = model.spec.time.duration_us
    from_at = np.full(len(numbers), model.start_us)
    if asked.coming:
        come = model.start_us + hashing.below(hashing.draw(key(model, "from_at"), numbers), length)
        from_at = np.where(fraction("coming") < asked.coming, come, from_at)
    columns["from_at"] = pa.array(from_at)
    columns["until_at"] = pa.nulls(len(numbers), pa.int64())
    if asked.lifetime_us:
        lived = float(LIFE_FACTOR * asked.lifetime_us) * fraction("life 1") * fraction("life 2")
        gone = from_at + np.floor(lived).astype(np.int64)
        columns["until_at"] = pa.array(gone, mask=gone >= model.start_us + length)
    assumed = fraction("unknown") < asked.assume if asked.assume else np.zeros(len(numbers), bool)
    columns["unknown"] = pa.array(["wait", "assume"]).take(pa.array(assumed.astype(np.int64)))
    columns[WHERE] = _where(model, columns) if asked.where else pa.nulls(len(numbers), pa.string())
    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.SUBSCRIPTIONS]
    return pa.record_batch([columns[name] for name in schema.names], schema)


def _taken(interests: pa.Table, name: str, cells: NDArray[np.int64]) -> pa.Array:
    import pyarrow as pa

    return interests[name].combine_chunks().take(pa.array(cells))


def clients(
    model: Model, interests: pa.Table, numbers: NDArray[np.int64], cells: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The client of each subscription."""
    import pyarrow.compute as pc

    dealt = by_region(model)
    region = pc.index_in(interests["region"], dealt["region"].combine_chunks()).to_numpy()[cells]

    def of(name: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = dealt[name].to_numpy()[region]
        return found

    places = of("region_stride") * (numbers - of("region_first")) + of("region_shift")
    return of("region_client") + places % of("region_count") // model.spec.clients.subscriptions_each


def _moved(
    model: Model, axis: int, interests: pa.Table, numbers: NDArray[np.int64], cells: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both ends of one side of each rectangle."""
    low, high = (end(model.dimensions[axis].name) for end in (tables.low, tables.high))
    ends = {name: interests[name].to_numpy()[cells] for name in (low, high)}
    if not model.spec.space.perturbation:
        return ends[low], ends[high]
    length = (ends[high] - ends[low] + 1).astype(np.float64)
    most = np.floor(length * model.spec.space.perturbation).astype(np.int64)
    begin, end = _within(model, axis, interests, cells)
    for name in (low, high):
        drawn = hashing.below(hashing.draw(key(model, name), numbers), 2 * most + 1)
        ends[name] = np.clip(ends[name] + drawn - most, begin, end)
    return np.minimum(ends[low], ends[high]), np.maximum(ends[low], ends[high])


def _within(
    model: Model, axis: int, interests: pa.Table, cells: NDArray[np.int64]
) -> tuple[ArrayLike, ArrayLike]:
    """How far a side may reach."""
    import pyarrow.compute as pc

    if axis:
        return 0, model.spec.space.resolution - 1
    owned = by_topic(model)
    topic = pc.index_in(interests["topic"], owned["topic"].combine_chunks()).to_numpy()[cells]
    return owned["topic_lo"].to_numpy()[topic], owned["topic_hi"].to_numpy()[topic]


def _where(model: Model, columns: Mapping[str, pa.Array]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[pa.Array | str] = []
    for one in model.dimensions:
        parts += [
            f"{' AND ' if parts else ''}{one.name} BETWEEN ",
            columns[tables.low(one.name)].cast(pa.string()),
            " AND ",
            columns[tables.high(one.name)].cast(pa.string()),
        ]
    return pc.binary_join_element_wise(*parts, "")
