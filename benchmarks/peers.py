"""What others offer for the same question, behind one small interface: SQLite's R*Tree and libspatialindex.

Both hold boxes and find those that contain a point. What does not fit into them (SQLite takes five
dimensions; neither takes strings or bools) is checked by the filter itself, as a program that used them
would.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator

import rtree
from benchmarks.workloads import Event, Workload


class Peer(ABC):
    """Finds the filters of a workload that an event satisfies."""

    name: str

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.numbers = {topic: at for at, topic in enumerate(workload.topics)}

    @abstractmethod
    def candidates(self, point: list[float]) -> list[int]:
        """The filters whose box holds the point."""

    @property
    @abstractmethod
    def dimensions(self) -> tuple[str, ...]:
        """The attributes that it indexes."""

    def match(self, event: Event) -> list[int]:
        found = self.candidates(self.point(event))
        filters = self.workload.filters
        return sorted(at for at in found if filters[at].matches(event))

    def point(self, event: Event) -> list[float]:
        return [
            float(self.numbers[str(event[name])]) if name == "topic" else float(str(event[name]))
            for name in self.dimensions
        ]

    def rows(self) -> Iterator[tuple[int, list[float]]]:
        """Each filter as the two corners of its box, low and high of each dimension in turn."""
        low, high = self.workload.domain
        order = {name: at for at, name in enumerate(self.dimensions)}
        for at, intervals in enumerate(self.workload.intervals):
            corners = [low, high] * len(order)
            for interval in intervals:
                if interval.name in order:
                    corners[2 * order[interval.name]] = interval.low
                    corners[2 * order[interval.name] + 1] = interval.high
            yield at, corners


class SQLite(Peer):
    """SQLite's R*Tree, of at most five dimensions."""

    name = "SQLite R*Tree"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._connection = sqlite3.connect(":memory:")
        names = self.dimensions
        columns = ", ".join(f"{name}_low, {name}_high" for name in names)
        self._connection.execute(f"CREATE VIRTUAL TABLE boxes USING rtree_i32(id, {columns})")
        marks = ", ".join("?" for _ in range(1 + 2 * len(names)))
        self._connection.executemany(
            f"INSERT INTO boxes VALUES ({marks})", ((at, *map(int, corners)) for at, corners in self.rows())
        )
        self._connection.commit()
        self._query = "SELECT id FROM boxes WHERE " + " AND ".join(
            f"{name}_low <= ? AND {name}_high >= ?" for name in names
        )

    @property
    def dimensions(self) -> tuple[str, ...]:
        return self.workload.numeric[:5]

    def candidates(self, point: list[float]) -> list[int]:
        values = [int(value) for value in point for _ in range(2)]
        return [at for (at,) in self._connection.execute(self._query, values)]


class SpatialIndex(Peer):
    """The library libspatialindex, through the package `rtree`."""

    name = "libspatialindex"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        count = len(self.dimensions)
        properties = rtree.index.Property(dimension=count)
        stream = ((at, [*corners[0::2], *corners[1::2]], None) for at, corners in self.rows())
        self._index = rtree.index.Index(stream, properties=properties)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return self.workload.numeric

    def candidates(self, point: list[float]) -> list[int]:
        return list(self._index.intersection([*point, *point]))


PEERS: tuple[type[Peer], ...] = (SQLite, SpatialIndex)
