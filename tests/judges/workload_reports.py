"""The twin of the stage `reports`: numpy and Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.workload import reports
from tidings.records import workload as tables
from tidings.workload import hashing, quantiles
from tidings.workload.fields import ranges
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table, from that of events."""
    import pyarrow as pa

    asked = model.spec.reports
    events = made[tables.EVENTS].combine_chunks()
    looked_up = reports.lookups(model)
    numbers = events["event"].to_numpy()
    slots = hashing.below(hashing.draw(reports.key(model, "count"), numbers), quantiles.SLOTS)
    counts = looked_up[reports.COUNTS]["further"].to_numpy()[slots] + 1
    # From here on by report: which event it is of, and the how manieth it is there.
    event = np.repeat(np.arange(len(numbers)), counts)
    places = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
    report = (numbers[event] << reports.shift(model)) + places

    def drawn(column: str, count: NDArray[np.int64] | int) -> NDArray[np.int64]:
        return hashing.below(hashing.draw(reports.key(model, column), report), count)

    def chance(column: str, share: float) -> NDArray[np.bool_]:
        return hashing.fraction(hashing.draw(reports.key(model, column), report)) < share

    late = drawn("late", quantiles.SLOTS)
    delays = looked_up[reports.DELAYS]
    delay = delays["delay"].to_numpy()[late] + drawn("delay", delays["delay_width"].to_numpy()[late])
    homes = looked_up[reports.PUBLISHERS]
    first, count = homes["home_first"].to_numpy(), homes["home_count"].to_numpy()
    home = np.searchsorted(first, events["client"].to_numpy()[event], side="right") - 1
    near = first[home] + drawn("client", count[home])
    anyone = drawn("anyone", max(1, int(model.clients_count.sum())))
    told = [pa.array(numbers[event])]
    fields = ranges(model)
    known = np.array([chance(f"known {one.name}", asked.known) for one in fields])
    known |= ~known.any(axis=0) & (drawn("only", len(fields)) == np.arange(len(fields))[:, None])
    truths = events["fields"].combine_chunks()
    for at, one in enumerate(fields):
        truth = truths.field(one.name).to_numpy()[event]
        other = one.low + (truth - one.low + 1 + drawn(f"value {one.name}", one.count - 1)) % one.count
        value = np.where(chance(f"wrong {one.name}", asked.wrong), other, truth)
        told.append(pa.array(value, mask=~known[at]))
    schema = reports.schema(model)
    columns = {
        "report": pa.array(report),
        "event": pa.array(numbers[event]),
        "topic": events["topic"].take(pa.array(event)).combine_chunks(),
        "at": pa.array(events["at"].to_numpy()[event] + delay),
        "client": pa.array(np.where(chance("local", asked.local), near, anyone)),
        "fields": pa.StructArray.from_arrays(told, fields=list(schema.field("fields").type)),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)
