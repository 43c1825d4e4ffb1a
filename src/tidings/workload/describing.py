"""What is in a workload, from its tables: numbers for people and programs, and what plots are drawn from.

Tables are read in batches and summed up as they come, so that memory does not grow with them: by interest,
region, topic, broker and minute. Positions of clients, and reports per event, are those of a sample where
there are very many: of every client or event whose number is divisible by a step. A table that is not there
leaves out what it would tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.records import workload as tables
from tidings.records.workload_reading import Workload
from tidings.workload import characteristics
from tidings.workload.removal import ranked

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

Row = dict[str, Any]

Progress = Callable[[str, int, int], None]
"""Told of a table how many rows have been read, and of how many."""

MINUTE_US = 60_000_000

BARS_MAX = 96
"""Stretches of time that are told apart: of a day, quarters of an hour."""

MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440)
"""Of a stretch: steps that people count in."""

POPULAR_SHOWN = 24
"""Interests that are named: as many as the paper removes."""

CLIENTS_PLACED = 3_000
"""Clients whose positions are kept."""

EVENTS_COUNTED = 1_000_000
"""Events whose reports are counted."""

HEAT_MAX = 20_000_000
"""Cells of the heat maps of all regions together; they are left out of larger ones."""


@dataclass(eq=False)
class Description:
    """All that there is to say of a workload."""

    folder: Path
    tables: dict[str, list[Row]] = field(default_factory=dict)
    """Rows of plain values, by what they are about."""

    interests: Interests | None = None
    positions: Positions | None = None


@dataclass(frozen=True, eq=False)
class Interests:
    """Counts over the event space; base interests only."""

    dimensions: tuple[str, ...]
    regions: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    """Per dimension the nodes along it that have any, in the order of their intervals; none if not known."""

    members: Whole
    """By interest and region."""

    lines: tuple[Whole, ...]
    """Per dimension the subscriptions by node and region."""

    heat: Whole | None
    """Subscriptions by node of the first dimension, node of the second, and region."""


@dataclass(frozen=True, eq=False)
class Positions:
    """Where everything is."""

    regions: tuple[str, ...]
    brokers: NDArray[np.float64]
    broker_region: Whole
    clients: NDArray[np.float64]
    """Those of a sample."""

    client_region: Whole
    links: Whole
    """Pairs of places among the brokers."""


def describe(folder: Path, progress: Progress = lambda *_: None) -> Description:
    """Everything about the workload in a folder, as far as its tables go."""
    read = _Reader(Workload(folder), progress)
    found = Description(folder)
    found.tables["tables"] = read.sizes()
    regions: dict[str, Row] = {}
    if read.has(tables.INTERESTS):
        found.interests = _interests(read, found.tables, regions)
    ranges = _network(read, found, regions)
    topics: dict[str, Row] = {}
    moments = _Moments()
    _subscriptions(read, found.tables, topics, moments)
    _events(read, found.tables, topics, moments, regions, ranges)
    _requests(read, found.tables, topics)
    found.tables["regions"] = list(_filled(regions))
    found.tables["topics"] = list(_filled(dict(sorted(topics.items()))))
    found.tables["time"] = moments.rows()
    found.tables = {name: rows for name, rows in found.tables.items() if rows}
    return found


class _Reader:
    """A workload that tells how far it has been read."""

    def __init__(self, workload: Workload, progress: Progress) -> None:
        self._workload = workload
        self._progress = progress
        self.table = workload.table
        self.dimensions = workload.dimensions

    def has(self, name: str) -> bool:
        """Whether there is a table, with rows."""
        return self._workload.has(name) and self.table(name).rows > 0

    def sizes(self) -> list[Row]:
        opened = [self.table(name) for name in tables.TABLES if self._workload.has(name)]
        return [
            {"table": one.name, "rows": one.rows, "bytes": sum(file.stat().st_size for file in one.files)}
            for one in opened
        ]

    def batches(self, name: str, *columns: str) -> Iterator[pa.RecordBatch]:
        table = self.table(name)
        done = 0
        for batch in table.batches(columns):
            yield batch
            done += batch.num_rows
            self._progress(name, done, table.rows)

    def whole(self, name: str, *columns: str) -> pa.Table:
        """Some columns of a table that fits into memory."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches(name, *columns)))


# Interests.


def _interests(read: _Reader, told: dict[str, list[Row]], regions: dict[str, Row]) -> Interests:
    ends = [tables.low(name) for name in read.dimensions]
    columns = ("interest", "region", "base", "members", "subscriptions", *read.dimensions, *ends)
    table = read.whole(tables.INTERESTS, *columns)
    members, subscriptions = _numbers(table, "members"), _numbers(table, "subscriptions")
    names, region = _coded(table, "region")
    base = table["base"].to_numpy(zero_copy_only=False).astype(bool)
    for at, name in enumerate(names):
        here = region == at
        regions[name] = {
            "region": name,
            "members": int(members[here].sum()),
            "subscriptions": int(subscriptions[here].sum()),
            "share_percent": _percent(int(subscriptions[here].sum()), int(subscriptions.sum())),
            "interests": int(np.count_nonzero(here & (members > 0))),
            "interests_sampled": int(np.count_nonzero(here & (subscriptions > 0))),
        }
    told["interests"] = [
        {
            "interests": kind,
            "members": int(members[which].sum()),
            "subscriptions": int(subscriptions[which].sum()),
            "with_members": len(np.unique(_numbers(table, "interest")[which & (members > 0)])),
            "with_subscriptions": len(np.unique(_numbers(table, "interest")[which & (subscriptions > 0)])),
        }
        for kind, which in (("base", base), ("general", ~base))
    ]
    table, region = table.filter(base), region[base]
    members, subscriptions = members[base], subscriptions[base]
    numbers, interest = np.unique(_numbers(table, "interest"), return_inverse=True)
    by_region = np.zeros((len(numbers), len(names)), np.int64)
    np.add.at(by_region, (interest, region), members)
    _popular(told, read.dimensions, table, interest, by_region, names)
    nodes, lines, places = [], [], []
    for dimension in read.dimensions:
        starts, place = np.unique(_numbers(table, tables.low(dimension)), return_inverse=True)
        line = np.zeros((len(starts), len(names)), np.int64)
        np.add.at(line, (place, region), subscriptions)
        first = np.unique(place, return_index=True)[1]
        nodes.append(tuple(table[dimension].take(first).to_pylist()))
        lines.append(line)
        places.append(place)
    told["dimensions"] = [
        {
            "dimension": dimension,
            "nodes": len(line),
            "nodes_sampled": int(np.count_nonzero(line.sum(axis=1))),
            "regional_percent": round(100 * characteristics.regionality(line), 1),
        }
        for dimension, line in zip(read.dimensions, lines, strict=True)
    ]
    heat = None
    if len(lines) > 1 and len(lines[0]) * len(lines[1]) * len(names) <= HEAT_MAX:
        heat = np.zeros((len(lines[0]), len(lines[1]), len(names)), np.int64)
        np.add.at(heat, (places[0], places[1], region), subscriptions)
    return Interests(read.dimensions, names, tuple(nodes), by_region, tuple(lines), heat)


def _popular(
    told: dict[str, list[Row]],
    dimensions: Sequence[str],
    table: pa.Table,
    interest: Whole,
    by_region: Whole,
    regions: Sequence[str],
) -> None:
    """The most popular interests by name, and what regions have without them."""
    totals = by_region.sum(axis=1)
    first = np.unique(interest, return_index=True)[1]
    together = 0
    told["popular"] = []
    for rank, at in enumerate(ranked(totals)[:POPULAR_SHOWN], 1):
        together += int(totals[at])
        named = {dimension: table[dimension][int(first[at])].as_py() for dimension in dimensions}
        told["popular"].append(
            {
                "rank": rank,
                **named,
                "members": int(totals[at]),
                "together_percent": _percent(together, int(totals.sum())),
            }
        )
    told["removal"] = []
    steps = [count for count in removals(len(totals)) if count < len(totals)]
    for count, rest in zip(steps, characteristics.left(by_region, steps), strict=True):
        shares = {
            f"{name}_percent": _percent(int(one), int(rest.sum()))
            for name, one in zip(regions, rest, strict=True)
        }
        told["removal"].append({"removed": count, "members": int(rest.sum()), **shares})


def removals(interests: int) -> list[int]:
    """How many of the most popular are taken away, step by step, to see what is left."""
    steps = [0, 1, 2, 3, 6, 12, 24, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000]
    return [count for count in steps if count <= interests]


# Brokers, links and clients.


def _network(read: _Reader, found: Description, regions: dict[str, Row]) -> _Ranges:
    brokers = np.zeros((0, len(tables.COORDINATES)))
    names: list[str] = []
    broker_regions: list[str] = []
    told: list[Row] = []
    if read.has(tables.BROKERS):
        table = read.whole(tables.BROKERS, "broker", "region", *tables.COORDINATES).sort_by("broker")
        brokers, names = _points(table), table["broker"].to_pylist()
        broker_regions = table["region"].to_pylist()
        for region, count in sorted(Counter(broker_regions).items()):
            _region(regions, region)["brokers"] = count
        told.append({"what": "brokers", "number": len(names)})
    links = np.zeros((0, 2), np.int64)
    if read.has(tables.LINKS):
        table = read.whole(tables.LINKS, "a", "b", "delay_ms")
        at = {name: place for place, name in enumerate(names)}
        pairs = zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)
        known = sorted((at[a], at[b]) for a, b in pairs if a in at and b in at)
        links = np.array(known, np.int64).reshape(-1, 2)
        told.append({"what": "links", "number": table.num_rows})
        told += _spread("delay of a link, ms", table["delay_ms"].to_numpy())
    ranges, placed, client_regions = _clients(read, told, regions)
    if told:
        found.tables["network"] = told
    every = tuple(regions)
    numbers = {name: at for at, name in enumerate(every)}
    if len(brokers) or len(placed):
        found.positions = Positions(
            every,
            brokers,
            np.array([numbers[name] for name in broker_regions], np.int64),
            placed,
            np.array([numbers[name] for name in client_regions], np.int64),
            links,
        )
    return ranges


class _Ranges:
    """Which clients are in which region: the numbers of a region's clients are together."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}

    def add(self, region: str, clients: Whole) -> None:
        low, high = self._ends.get(region, (int(clients.min()), int(clients.max())))
        self._ends[region] = min(low, int(clients.min())), max(high, int(clients.max()))

    def counts(self, clients: Whole) -> dict[str, int]:
        """How many rows come from each region; nothing if that cannot be told."""
        spans = sorted(self._ends.values())
        if any(before[1] >= after[0] for before, after in pairwise(spans)):
            return {}
        return {
            region: int(np.count_nonzero((clients >= low) & (clients <= high)))
            for region, (low, high) in self._ends.items()
        }


def _clients(
    read: _Reader, told: list[Row], regions: dict[str, Row]
) -> tuple[_Ranges, NDArray[np.float64], list[str]]:
    ranges = _Ranges()
    if not read.has(tables.CLIENTS):
        return ranges, np.zeros((0, len(tables.COORDINATES))), []
    step = max(1, -(-read.table(tables.CLIENTS).rows // CLIENTS_PLACED))
    at_broker: Counter[str] = Counter()
    in_region: Counter[str] = Counter()
    kept: list[tuple[int, str, NDArray[np.float64]]] = []
    for batch in read.batches(tables.CLIENTS, "client", "region", "broker", *tables.COORDINATES):
        at_broker.update(_counted(batch["broker"]))
        clients = _numbers(batch, "client")
        names, region = _coded(batch, "region")
        for at, name in enumerate(names):
            ranges.add(name, clients[region == at])
            in_region[name] += int(np.count_nonzero(region == at))
        sampled = np.flatnonzero(clients % step == 0)
        points = _points(batch.take(sampled))
        kept += [
            (int(clients[at]), names[region[at]], point) for at, point in zip(sampled, points, strict=True)
        ]
    for name in sorted(in_region):
        _region(regions, name)["clients"] = in_region[name]
    told.append({"what": "clients", "number": in_region.total()})
    told += _spread("clients of a broker", np.array(sorted(at_broker.values())))
    kept.sort(key=lambda one: one[0])
    points = np.array([point for _, _, point in kept]).reshape(-1, len(tables.COORDINATES))
    return ranges, points, [name for _, name, _ in kept]


# What comes and goes.


class _Moments:
    """How many of something happened in each minute."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}

    def add(self, kind: str, times: Whole) -> None:
        minutes, counts = np.unique(times // MINUTE_US, return_counts=True)
        here = self._counts.setdefault(kind, Counter())
        for minute, count in zip(minutes.tolist(), counts.tolist(), strict=True):
            here[minute] += count

    def rows(self) -> list[Row]:
        """By stretches of time; of subscriptions those that are there when one begins."""
        happened = [kind for kind in self._counts if kind not in ("come", "gone")]
        minutes = [minute for kind in happened or self._counts for minute in self._counts[kind]]
        if not minutes:
            return []
        begin, end = min(minutes), max(minutes) + 1
        width = -(-(end - begin) // BARS_MAX)
        width = next((one for one in MINUTES if one >= width), width)
        begin -= begin % width
        found = []
        for start in range(begin, end, width):
            row: Row = {"from": f"{datetime.fromtimestamp(start * 60, UTC):%Y-%m-%d %H:%M}"}
            for kind in happened:
                row[kind] = sum(self._counts[kind][minute] for minute in range(start, start + width))
            if "come" in self._counts:
                row["subscriptions"] = self._before("come", start + 1) - self._before("gone", start)
            found.append(row)
        return found

    def _before(self, kind: str, end: int) -> int:
        return sum(count for minute, count in self._counts.get(kind, {}).items() if minute < end)


def _subscriptions(
    read: _Reader, told: dict[str, list[Row]], topics: dict[str, Row], moments: _Moments
) -> None:
    if not read.has(tables.SUBSCRIPTIONS):
        return
    count = texts = assumed = stays = 0
    by_topic: Counter[str] = Counter()
    for batch in read.batches(tables.SUBSCRIPTIONS, "topic", "where", "unknown", "from_at", "until_at"):
        count += batch.num_rows
        texts += batch.num_rows - batch["where"].null_count if "where" in batch.schema.names else 0
        assumed += _counted(batch["unknown"]).get("assume", 0)
        stays += batch["until_at"].null_count
        by_topic.update(_counted(batch["topic"]))
        moments.add("come", _numbers(batch, "from_at"))
        moments.add("gone", batch["until_at"].drop_null().to_numpy(zero_copy_only=False))
    told["subscriptions"] = [
        {"subscriptions": count, "with_text": texts, "unknown_assumed": assumed, "never_gone": stays}
    ]
    _by_topic(topics, "subscriptions", by_topic)


def _events(
    read: _Reader,
    told: dict[str, list[Row]],
    topics: dict[str, Row],
    moments: _Moments,
    regions: dict[str, Row],
    ranges: _Ranges,
) -> None:
    for table in (tables.EVENTS, tables.REPORTS):
        if not read.has(table):
            continue
        by_topic: Counter[str] = Counter()
        by_region: Counter[str] = Counter()
        for batch in read.batches(table, "topic", "at", "client"):
            by_topic.update(_counted(batch["topic"]))
            by_region.update(ranges.counts(_numbers(batch, "client")))
            moments.add(table, _numbers(batch, "at"))
        _by_topic(topics, table, by_topic)
        for name in by_region:
            _region(regions, name)[table] = by_region[name]
    if read.has(tables.REPORTS):
        told["reports"] = _reports_each(read)


def _reports_each(read: _Reader) -> list[Row]:
    """How many events have how many reports."""
    rows = read.table(tables.EVENTS if read.has(tables.EVENTS) else tables.REPORTS).rows
    step = max(1, -(-rows // EVENTS_COUNTED))
    events, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    waiting: list[Whole] = []
    for batch in read.batches(tables.REPORTS, "event"):
        numbers = _numbers(batch, "event")
        waiting.append(numbers[numbers % step == 0])
        if sum(map(len, waiting)) > EVENTS_COUNTED:
            events, counts = _merged(events, counts, waiting)
            waiting = []
    events, counts = _merged(events, counts, waiting)
    return [
        {"reports_each": int(each), "events": int(many), "of_every": step}
        for each, many in zip(*np.unique(counts, return_counts=True), strict=True)
    ]


def _merged(events: Whole, counts: Whole, more: Sequence[Whole]) -> tuple[Whole, Whole]:
    both = np.concatenate([events, *more])
    weights = np.concatenate([counts, np.ones(len(both) - len(events), np.int64)])
    found, place = np.unique(both, return_inverse=True)
    # Counts are far below 2**53, so that sums of doubles are exact.
    return found, np.bincount(place, weights, len(found)).astype(np.int64)


def _requests(read: _Reader, told: dict[str, list[Row]], topics: dict[str, Row]) -> None:
    if not read.has(tables.REQUESTS):
        return
    by_topic: Counter[str] = Counter()
    spans = 0
    for batch in read.batches(tables.REQUESTS, "topic", "since", "until"):
        by_topic.update(_counted(batch["topic"]))
        spans += int((_numbers(batch, "until") - _numbers(batch, "since")).sum())
    count = by_topic.total()
    told["requests"] = [{"requests": count, "span_minutes_mean": round(spans / max(1, count) / MINUTE_US, 1)}]
    _by_topic(topics, "requests", by_topic)


# Columns.


def _numbers(table: pa.Table | pa.RecordBatch, name: str) -> Whole:
    return np.asarray(table[name], np.int64)


def _coded(table: pa.Table | pa.RecordBatch, name: str) -> tuple[tuple[str, ...], Whole]:
    """Different texts, sorted, and for each row which it has: files may come in any order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[name]
    names = sorted(pc.unique(column).to_pylist())
    return tuple(names), np.asarray(pc.index_in(column, pa.array(names, pa.string())), np.int64)


def _counted(column: pa.Array) -> dict[str, int]:
    return {one["values"]: one["counts"] for one in column.value_counts().to_pylist()}


def _points(table: pa.Table | pa.RecordBatch) -> NDArray[np.float64]:
    return np.stack([np.asarray(table[name]) for name in tables.COORDINATES], axis=1)


def _percent(part: int, whole: int) -> float:
    return round(100.0 * part / whole, 2) if whole else 0.0


def _spread(what: str, values: NDArray[Any]) -> list[Row]:
    if not len(values):
        return []
    middle = {"least": np.min(values), "median": np.median(values), "most": np.max(values)}
    return [{"what": f"{what}, {name}", "number": round(float(value), 3)} for name, value in middle.items()]


def _region(regions: dict[str, Row], name: str) -> Row:
    return regions.setdefault(name, {"region": name})


def _by_topic(topics: dict[str, Row], kind: str, counts: Counter[str]) -> None:
    for name, count in counts.items():
        topics.setdefault(name, {"topic": name})[kind] = count


def _filled(rows: dict[str, Row]) -> Iterator[Row]:
    """Rows with the same columns, with 0 where nothing was counted."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    for row in rows.values():
        yield {name: row.get(name, 0) for name in names}
