"""The twin of the stage `events`: numpy and Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import events
from tidings.records import workload as tables
from tidings.workload import hashing, topics
from tidings.workload.fields import SEVERITIES
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def rows(model: Model, _: Mapping[str, pa.Table]) -> pa.Table:
    """The table, in the order of numbers."""
    import pyarrow as pa

    looked_up = events.lookups(model)
    pieces = _columns(looked_up[events.PIECES])
    weights = _columns(looked_up[events.WEIGHTS])
    counts = pieces["end"] - pieces["begin"] + 1
    piece = {name: np.repeat(values, counts) for name, values in pieces.items()}
    numbers = np.arange(counts.sum(), dtype=np.int64)

    def drawn(column: str, count: NDArray[np.int64] | int) -> NDArray[np.int64]:
        return hashing.below(hashing.draw(events.key(model, column), numbers), count)

    slot = piece["weights_first"] + drawn("slot", piece["weights_count"])
    fraction = hashing.fraction(hashing.draw(events.key(model, "turn"), numbers))
    interest = np.where(fraction < weights["cut"][slot], weights["interest"][slot], weights["other"][slot])
    size = model.spec.space.resolution
    fields: dict[str, NDArray[np.int64]] = {tables.STORY: numbers}
    for axis, (hierarchy, stride) in enumerate(zip(model.dimensions, events.strides(model), strict=True)):
        leaf = interest // stride % len(hierarchy.leaves)
        low, width, steps = (
            _columns(looked_up[events.leaves(axis)])[f"{name}_{axis}"][leaf]
            for name in ("low", "width", "steps")
        )
        up, down = drawn(f"up {axis}", steps), drawn(f"down {axis}", steps)
        moved = low + drawn(f"in {axis}", width) + up - down
        # Reflected at the ends, as often as it takes.
        folded = np.mod(moved, 2 * size)
        fields[hierarchy.name] = np.where(folded < size, folded, 2 * size - 1 - folded)
    fields[tables.SEVERITY] = 1 + np.searchsorted(SEVERITIES, drawn(tables.SEVERITY, 100), side="right")
    for name in tables.details(model.spec.reports.details):
        fields[name] = drawn(name, model.spec.reports.detail_max + 1)
    first = model.dimensions[0]
    begins = topics.territories(first, model.lows[0], model.highs[0], size)[0]
    top = np.searchsorted(begins[list(first.children[0])], fields[first.name], side="right") - 1
    made = {
        "event": pa.array(numbers),
        "topic": looked_up[events.TOPICS]["topic"].combine_chunks().take(pa.array(top)),
        "at": pa.array(piece["start_us"] + drawn("at", piece["length_us"])),
        "client": pa.array(piece["clients_first"] + drawn("client", piece["clients_count"])),
    }
    schema = events.schema(model)
    told = schema.field("fields").type
    made["fields"] = pa.StructArray.from_arrays(
        [pa.array(fields[one.name]) for one in told], fields=list(told)
    )
    return pa.table([made[name] for name in schema.names], schema=schema)


def _columns(table: pa.Table) -> dict[str, NDArray[np.int64]]:
    return {name: table[name].to_numpy() for name in table.column_names}
