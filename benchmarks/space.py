"""How many events and boxes become dz-expressions in a second, compiled and in numpy, beside plain Python.

    python benchmarks/space.py [--points N] [--boxes N] [--json]

The space is the paper's: 10 attributes of 1 to 128, 70 bits. Events are uniform. Boxes limit 3 of the
attributes, or all of them, to ranges between two uniform values, and become at most 16 expressions, the
cheapest coarsening first. Rates are of one core, by the time of the processor and beside it by the clock, the
best of several runs, compiling left out. A part of the same work is done by plain Python in the same run, and
both must say the same.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from tidings.language.cuts import Cuts
from tidings.language.fields import Field, Path, Type
from tidings.space import Space, arrays

RUNS = 5
ATTRIBUTES, LOWEST, HIGHEST = 10, 1, 128
DEPTH = 70
MOST = 16
SEED = 11

Array = npt.NDArray[np.int64]


class Row(NamedTuple):
    """One kind of work."""

    name: str
    items: int
    per_cpu_second: float
    per_second: float
    plain_per_cpu_second: float

    @property
    def times(self) -> float:
        return self.per_cpu_second / self.plain_per_cpu_second


def space() -> Space:
    fields: dict[Path, Field] = {
        (f"a{at}",): Field((f"a{at}",), Type.INT, (LOWEST, HIGHEST)) for at in range(ATTRIBUTES)
    }
    return Space.of(fields)


def rates(items: int, job: Callable[[], object], runs: int = RUNS) -> tuple[float, float]:
    """Items per second of the processor, and by the clock; each the best of the runs."""
    cpu, clock = [], []
    for _ in range(runs):
        began, at = time.process_time(), time.perf_counter()
        job()
        cpu.append(time.process_time() - began)
        clock.append(time.perf_counter() - at)
    return items / min(cpu), items / min(clock)


def points(known: Space, rng: np.random.Generator, count: int) -> list[Row]:
    values = rng.integers(LOWEST, HIGHEST + 1, size=(count, ATTRIBUTES))
    places = [arrays.placed(known, at, values[:, at]) for at in range(ATTRIBUTES)]
    events = [
        {f"a{at}": value for at, value in enumerate(row)} for row in values[: max(1, count // 200)].tolist()
    ]
    found = arrays.texts(arrays.packed(known, places, DEPTH)[: len(events)], DEPTH)
    assert found == [known.point(event, DEPTH) for event in events]
    plain, _ = rates(len(events), lambda: [known.point(event, DEPTH) for event in events], 2)
    return [
        Row(
            "events to 70 bits, compiled",
            count,
            *rates(count, lambda: arrays.packed(known, places, DEPTH)),
            plain,
        ),
        Row(
            f"events to {arrays.DEPTH_MAX} bits, numpy",
            count,
            *rates(count, lambda: arrays.points(known, places, arrays.DEPTH_MAX), 2),
            plain,
        ),
    ]


def boxes(known: Space, rng: np.random.Generator, count: int, limited: int) -> Row:
    ends = np.sort(rng.integers(0, HIGHEST - LOWEST + 1, size=(count, ATTRIBUTES, 2)), axis=2)
    if limited < ATTRIBUTES:
        left = np.argsort(rng.random((count, ATTRIBUTES)), axis=1)[:, limited:]
        rows = np.arange(count)[:, None]
        ends[rows, left] = (0, HIGHEST - LOWEST)
    low, high = np.ascontiguousarray(ends[:, :, 0]), np.ascontiguousarray(ends[:, :, 1])
    found = arrays.decomposed(known, low, high, DEPTH, MOST)
    some = max(1, count // 500)
    products = [
        tuple(Cuts(False, (a, b + 1)) for a, b in zip(*ends, strict=True))
        for ends in zip(low[:some].tolist(), high[:some].tolist(), strict=True)
    ]
    said = [known.decompose([box], DEPTH, MOST) for box in products]
    assert [one.dz for one in said] == [found.of(row) for row in range(some)]
    assert [one.exact for one in said] == found.exact[:some].tolist()
    plain, _ = rates(some, lambda: [known.decompose([box], DEPTH, MOST) for box in products], 1)
    members = found.starts[-1] / count
    return Row(
        f"boxes over {limited} attributes to {members:.1f} expressions",
        count,
        *rates(count, lambda: arrays.decomposed(known, low, high, DEPTH, MOST)),
        plain,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1_000_000, help="events")
    parser.add_argument("--boxes", type=int, default=100_000, help="boxes of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    given = parser.parse_args()
    known, rng = space(), np.random.default_rng(SEED)
    rows = points(known, rng, given.points)
    rows += [boxes(known, rng, given.boxes, limited) for limited in (3, ATTRIBUTES)]
    if given.json:
        for row in rows:
            print(json.dumps({**row._asdict(), "times": row.times}))
        return
    table = Table(title="per second of one core", title_justify="left")
    table.add_column("job")
    for column in ("items", "by CPU", "by the clock", "plain Python, by CPU", "times"):
        table.add_column(column, justify="right")
    for row in rows:
        rounded = (row.items, row.per_cpu_second, row.per_second, row.plain_per_cpu_second, row.times)
        table.add_row(row.name, *(f"{number:,.0f}" for number in rounded))
    Console().print(table)


if __name__ == "__main__":
    main()
