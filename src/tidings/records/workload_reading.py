"""Reading a workload back: the tables of `records.workload`, from a folder, by whoever wants to use them.

A table is a folder of Parquet files, or a link to one. Nothing is taken on trust: columns are looked at when
a table is opened, rows when they are read, and what is wrong is said with the table, the value and the way
out. Tables may be larger than memory, so rows come in batches, and only as many are kept as are asked for.
The order of files and rows never matters: subscriptions are sorted by number, what is published by time.

A subscription is its rectangle. Its `where` text is looked at only where there is no rectangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.errors import FilterError, InputError
from tidings.language import names
from tidings.language.declarations import read_topic
from tidings.language.fields import Field
from tidings.language.fields import Path as FieldPath
from tidings.language.filters import Filter, parse
from tidings.language.rectangles import rectangle
from tidings.language.regions import Unknown
from tidings.language.topics import Topic
from tidings.records import workload as tables
from tidings.records.workload_files import (
    BATCH_ROWS,
    KEYS_OF,
    Table,
    files_of,
    refuse_columns,
    refuse_mixture,
)

if TYPE_CHECKING:
    import pyarrow as pa

Whole = npt.NDArray[np.int64]

STRETCH_ROWS = 500_000
"""Publications that are held at once, in the order of time: about 100 MB."""

CELLS = 65_536
"""Cells of time by which stretches are cut."""

NEVER = 2**63 - 1
"""The end of a subscription that stays."""

FILTER_TEXTS_MAX = 100_000
"""Different texts among subscriptions without a rectangle: about 20 s of parsing."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One row of the table of brokers."""

    name: str
    point: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """One row of the table of links."""

    one: str
    other: str
    delay_ms: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What one or more subscriptions ask for."""

    topic_filter: str
    filter: Filter
    unknown: Unknown


@dataclass(frozen=True, eq=False)
class Subscriptions:
    """Subscriptions as columns, in the order of their numbers."""

    dimensions: tuple[str, ...]
    number: Whole
    client: Whole
    topics: tuple[str, ...]
    """Different topic filters, sorted."""

    topic: Whole
    """The place of each one's topic filter there."""

    low: Whole
    high: Whole
    """A row each, a column for each dimension; both ends belong to it."""

    texts: tuple[str, ...]
    """Different filters of those without a rectangle, sorted, each once for every topic filter that it is
    under: its fields may be declared otherwise there."""

    text: Whole
    """The place of each one's text there; -1 for those with a rectangle."""

    assume: npt.NDArray[np.bool_]
    from_at: Whole
    until_at: Whole
    """NEVER for those that stay."""

    read: Mapping[int, Filter] = field(default_factory=dict)
    """The texts, parsed."""

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def distinct(self) -> tuple[Whole, Whole]:
        """Of each different thing that is asked for the first row, and for each row its place there."""
        code = self.topic
        columns = [self.text, self.assume.astype(np.int64), *self.low.T, *self.high.T]
        for column in columns:
            different, place = np.unique(column, return_inverse=True)
            # Two codes make one; made dense again each time, so that it never overflows.
            _, code = np.unique(code * len(different) + place, return_inverse=True)
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        return first.astype(np.int64), place.astype(np.int64)

    def some(self, which: npt.NDArray[np.bool_]) -> Subscriptions:
        """Some of the rows alone."""
        return replace(
            self,
            number=self.number[which],
            client=self.client[which],
            topic=self.topic[which],
            low=self.low[which],
            high=self.high[which],
            text=self.text[which],
            assume=self.assume[which],
            from_at=self.from_at[which],
            until_at=self.until_at[which],
        )

    def standing(self, places: Whole, at: int) -> Whole:
        """The rows of those that ask for some of the distinct things, and are there at a time; sorted."""
        begins, rows = self._rows
        runs = [rows[begins[place] : begins[place + 1]] for place in places.tolist()]
        found = np.sort(np.concatenate(runs)) if runs else np.zeros(0, dtype=np.int64)
        return found[(self.from_at[found] <= at) & (at < self.until_at[found])]

    @cached_property
    def _rows(self) -> tuple[Whole, Whole]:
        """For each distinct thing where the rows that ask for it begin, and these rows."""
        first, place = self.distinct
        counts = np.bincount(place, minlength=len(first))
        return np.concatenate([[0], np.cumsum(counts)]), np.argsort(place, kind="stable")

    def asked(self, at: int) -> Asked:
        """What a row asks for; made anew each time, since a million filters would take gigabytes."""
        text = int(self.text[at])
        if text >= 0:
            made = self.read[text]
        else:
            ends = zip(self.dimensions, self.low[at].tolist(), self.high[at].tolist(), strict=True)
            try:
                made = rectangle([((name,), low, high) for name, low, high in ends])
            except FilterError as error:
                raise InputError(f"subscription {self.number[at]}: {error}") from None
        unknown = Unknown.ASSUME if self.assume[at] else Unknown.WAIT
        return Asked(self.topics[self.topic[at]], made, unknown)


@dataclass(frozen=True, eq=False)
class Publications:
    """Events or reports as columns, in the order of their times, those of one time by number."""

    number: Whole
    at: Whole
    client: Whole
    topics: tuple[str, ...]
    """Different topics; in another stretch they may be others."""

    topic: Whole
    """The place of each one's topic there."""

    fields: Mapping[str, Whole]
    known: Mapping[str, npt.NDArray[np.bool_]]
    """Which have the field; for those that do not, the number means nothing."""

    def __len__(self) -> int:
        return len(self.number)

    def rows(self) -> Iterator[dict[str, int]]:
        """The fields of each, without those that it does not have."""
        columns = [
            (name, self.fields[name].tolist(), self.known[name].tolist(), bool(self.known[name].all()))
            for name in self.fields
        ]
        for at in range(len(self)):
            yield {name: values[at] for name, values, known, whole in columns if whole or known[at]}

    def first(self, count: int) -> Publications:
        """The first ones alone."""
        return self._taken(slice(0, count))

    def _taken(self, which: Any) -> Publications:
        return Publications(
            self.number[which],
            self.at[which],
            self.client[which],
            self.topics,
            self.topic[which],
            {name: values[which] for name, values in self.fields.items()},
            {name: known[which] for name, known in self.known.items()},
        )


class Workload:
    """A workload in a folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            what = "is no folder" if self.folder.exists() else "does not exist"
            raise InputError(
                f"workload {str(folder)!r} {what}; make one: tidings workload generate --out {folder}"
            )
        if not any(files_of(self.folder / name) for name in tables.TABLES):
            raise InputError(
                f"{folder} has no table of a workload ({', '.join(tables.TABLES)}); give the folder that "
                "`tidings workload generate --out` named"
            )
        refuse_mixture(self.folder)
        self._tables: dict[str, Table] = {}

    # Tables.

    def has(self, name: str) -> bool:
        """Whether there is a table."""
        return bool(files_of(self.folder / name))

    def table(self, name: str) -> Table:
        """A table, with columns that have the names and types that they should have."""
        if name not in self._tables:
            self._tables[name] = self._opened(name)
        return self._tables[name]

    def _opened(self, name: str) -> Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = files_of(self.folder / name)
        if not files:
            there = [one for one in tables.TABLES if self.has(one)]
            raise InputError(
                f"{self.folder} has no table {name!r}; there are {', '.join(there)}; make the workload anew, "
                "with tidings workload generate"
            )
        rows = 0
        wanted: pa.Schema | None = None
        null: frozenset[str] = frozenset()
        inner: tuple[str, ...] = ()
        present: tuple[str, ...] = ()
        for file in files:
            try:
                metadata = pq.read_metadata(file)
                schema = metadata.schema.to_arrow_schema()
            except (pa.ArrowException, OSError) as error:
                raise InputError(
                    f"{self.folder / name}: {file.name} is not a Parquet file ({error}); make the "
                    "workload anew"
                ) from None
            rows += metadata.num_rows
            if wanted is None:
                wanted, null, inner = self._wanted(name, schema)
                present = tuple(one for one in wanted.names if one in schema.names)
            refuse_columns(self.folder / name, file.name, wanted, schema, null)
        return Table(self.folder, name, files, present, null, inner, rows)

    def _wanted(self, name: str, schema: pa.Schema) -> tuple[pa.Schema, frozenset[str], tuple[str, ...]]:
        """What a table should have, what of it may be missing, and what its fields are called."""
        inner: tuple[str, ...] = ()
        if "fields" in schema.names and hasattr(schema.field("fields").type, "fields"):
            inner = tuple(one.name for one in schema.field("fields").type.fields)
        details = [one for one in inner if one not in (tables.STORY, *self.dimensions, tables.SEVERITY)]
        wanted = tables.schemas(self.dimensions, details)[name]
        null = {one.name for one in wanted if one.nullable}
        if name == tables.SUBSCRIPTIONS:
            # A rectangle may be missing where there is a text.
            null |= {end(one) for one in self.dimensions for end in (tables.low, tables.high)}
        return wanted, frozenset(null), tuple(wanted.field("fields").type.names) if inner else ()

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The fields that subscriptions have intervals of, else the fields of events."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in (tables.SUBSCRIPTIONS, tables.INTERESTS, tables.EVENTS, tables.REPORTS):
            for file in files_of(self.folder / name)[:1]:
                try:
                    schema = pq.read_schema(file)
                except (pa.ArrowException, OSError):
                    continue  # it is refused, with the reason, by whoever opens it
                ends = [one[:-3] for one in schema.names if one.endswith(("_lo", "_hi"))]
                if ends:
                    return tuple(dict.fromkeys(ends))
                if "fields" in schema.names and pa.types.is_struct(schema.field("fields").type):
                    inner = [one.name for one in schema.field("fields").type.fields]
                    behind = inner.index(tables.SEVERITY) if tables.SEVERITY in inner else len(inner)
                    return tuple(one for one in inner[:behind] if one != tables.STORY)
        return ()

    # What is in them.

    @cached_property
    def declarations(self) -> tuple[Topic, ...]:
        """The topics that the workload declares, in the order of their names."""
        folder = self.folder / tables.DECLARATIONS
        found: dict[str, tuple[Topic, Path]] = {}
        for file in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            if file.name.startswith((".", "_")):
                continue
            topic = read_topic(file)
            if topic.name in found:
                raise InputError(
                    f"{file} declares {topic.name!r}, which {found[topic.name][1].name} declares already; "
                    "remove one of them"
                )
            found[topic.name] = topic, file
        return tuple(found[name][0] for name in sorted(found))

    def brokers(self) -> list[Broker]:
        """All brokers, by name."""
        table = self.table(tables.BROKERS)
        found: dict[str, Broker] = {}
        for batch in table.batches():
            points = _points(table, batch, "broker")
            for name, point in zip(batch.column("broker").to_pylist(), points.tolist(), strict=True):
                if name in found:
                    raise table.refuse(f"broker {name!r} is there twice; names must differ")
                found[name] = Broker(name, tuple(point))
        if not found:
            raise table.refuse("there is no broker; a network has at least one")
        return [found[name] for name in sorted(found)]

    def links(self, brokers: Sequence[Broker]) -> list[Link]:
        """All links, by the names of their ends."""
        table = self.table(tables.LINKS)
        known = {broker.name for broker in brokers}
        found = []
        for batch in table.batches():
            for one, other, delay_ms in zip(
                *(batch.column(name).to_pylist() for name in ("a", "b", "delay_ms")), strict=True
            ):
                for name in (one, other):
                    if name not in known:
                        raise table.refuse(
                            f"the link from {one!r} to {other!r} names broker {name!r}, which is not in "
                            f"{tables.BROKERS}; add it there or remove the link"
                        )
                if not 0 <= delay_ms < float("inf"):
                    raise table.refuse(
                        f"the link from {one!r} to {other!r} has delay_ms {delay_ms}; give a number from 0"
                    )
                found.append(Link(one, other, delay_ms))
        return sorted(found, key=lambda link: (link.one, link.other))

    def homes(self, brokers: Sequence[Broker], wanted: Whole) -> dict[int, str]:
        """The brokers of some clients, which must all be there."""
        table = self.table(tables.CLIENTS)
        known = {broker.name for broker in brokers}
        wanted = np.unique(wanted)
        found: dict[int, str] = {}
        for batch in table.batches():
            _points(table, batch, "client")
            clients = batch.column("client").to_numpy()
            at = batch.column("broker").dictionary_encode()
            strange = sorted(set(at.dictionary.to_pylist()) - known)
            if strange:
                client = clients[at.indices.to_numpy() == at.dictionary.to_pylist().index(strange[0])][0]
                raise table.refuse(
                    f"client {client} is at broker {strange[0]!r}, which is not in {tables.BROKERS}; add it "
                    "there, or give the client another"
                )
            here = np.flatnonzero(np.isin(clients, wanted))
            names_ = at.dictionary.to_pylist()
            for client, place in zip(
                clients[here].tolist(), at.indices.to_numpy()[here].tolist(), strict=True
            ):
                if client in found:
                    raise table.refuse(f"client {client} is there twice; numbers must differ")
                found[client] = names_[place]
        lacking = next((int(client) for client in wanted if int(client) not in found), None)
        if lacking is not None:
            raise table.refuse(
                f"client {lacking} subscribes or publishes and is not there; add it, or remove what it does"
            )
        return found

    def subscriptions(self, limit: int | None = None, most: int | None = None) -> Subscriptions:
        """All subscriptions or the first ones by number; refused if those are more than `most`."""
        table = self.table(tables.SUBSCRIPTIONS)
        kept = table.rows if limit is None else min(limit, table.rows)
        if most is not None and kept > most:
            raise table.refuse(
                f"{kept:,} subscriptions are more than fit into memory here, at most {most:,}; take the "
                f"first ones with --subscriptions {most}"
            )
        count = 0
        topics, texts = _Codes(), _Codes()
        parts: list[list[npt.NDArray[Any]]] = []
        for batch in table.batches():
            part = self._columns(table, batch, topics, texts)
            if limit is not None:
                part = [column[np.argsort(part[0], kind="stable")[:limit]] for column in part]
            parts.append(part)
            count += len(part[0])
            if limit is not None and count > 2 * limit + BATCH_ROWS:
                parts, count = [_first_by_number(parts, limit)], limit
        columns = _first_by_number(parts, kept) if parts else self._none()
        number = columns[0]
        again = np.flatnonzero(number[1:] == number[:-1])
        if len(again):
            raise table.refuse(f"subscription {number[again[0]]} is there twice; numbers must differ")
        return self._made(table, columns, topics, texts)

    def _columns(
        self, table: Table, batch: pa.RecordBatch, topics: _Codes, texts: _Codes
    ) -> list[npt.NDArray[Any]]:
        """The columns of a batch: number, client, topic, text, assume, from, until, then the ends."""
        number = _numbers(batch, "subscription")
        topic = topics.of(batch.column("topic"))
        unknown = batch.column("unknown").dictionary_encode()
        for said in unknown.dictionary.to_pylist():
            if said not in list(Unknown):
                at = unknown.dictionary.to_pylist().index(said)
                one = number[unknown.indices.to_numpy() == at][0]
                raise table.refuse(f"subscription {one} has unknown {said!r}; write 'wait' or 'assume'")
        assume = np.array([said == Unknown.ASSUME for said in unknown.dictionary.to_pylist()] + [False])
        from_at = _numbers(batch, "from_at")
        until_at = _numbers(batch, "until_at", NEVER)
        if len(wrong := np.flatnonzero(until_at < from_at)):
            one = wrong[0]
            raise table.refuse(
                f"subscription {number[one]} ends at {until_at[one]}, before it begins at {from_at[one]}; "
                "until_at must not be smaller than from_at"
            )
        lacking = np.zeros(len(number), dtype=bool)
        ends: list[Whole] = []
        for name in self.dimensions:
            both = []
            for end in (tables.low(name), tables.high(name)):
                if end not in batch.schema.names:
                    lacking[:] = True
                    both.append(np.zeros(len(number), dtype=np.int64))
                    continue
                lacking |= batch.column(end).is_null().to_numpy(zero_copy_only=False)
                both.append(_numbers(batch, end, 0))
            wrong = np.flatnonzero((both[0] > both[1]) & ~lacking)
            if len(wrong):
                one = wrong[0]
                raise table.refuse(
                    f"subscription {number[one]} has {tables.low(name)} {both[0][one]} above "
                    f"{tables.high(name)} {both[1][one]}; the lower end must not be above the upper one"
                )
            ends += both
        if not self.dimensions:
            lacking[:] = True
        for column in ends:
            column[lacking] = 0
        text = np.full(len(number), -1, dtype=np.int64)
        if lacking.any():
            text[lacking] = self._texts(table, batch, number, lacking, texts)
        return [number, _numbers(batch, "client"), topic, text, assume[unknown.indices.to_numpy()], from_at,
                until_at, *ends]  # fmt: skip

    def _texts(
        self,
        table: Table,
        batch: pa.RecordBatch,
        number: Whole,
        lacking: npt.NDArray[np.bool_],
        texts: _Codes,
    ) -> Whole:
        import pyarrow as pa

        where = batch.column("where") if "where" in batch.schema.names else pa.nulls(len(batch), pa.string())
        where = where.filter(pa.array(lacking))
        if where.null_count:
            one = number[lacking][where.is_null().index(True).as_py()]
            raise table.refuse(
                f"subscription {one} has neither a rectangle "
                f"({', '.join(tables.low(name) for name in self.dimensions) or 'no fields are known'}) nor a "
                "where; give it one of them"
            )
        found = texts.of(where)
        if len(texts.values) > FILTER_TEXTS_MAX:
            raise table.refuse(
                f"there are more than {FILTER_TEXTS_MAX:,} different filters without a rectangle, which "
                "would take long to parse; give the ends of their intervals as columns"
            )
        return found

    def _none(self) -> list[npt.NDArray[Any]]:
        empty = np.zeros(0, dtype=np.int64)
        return [
            empty,
            empty,
            empty,
            empty,
            np.zeros(0, dtype=bool),
            *[empty] * (2 + 2 * len(self.dimensions)),
        ]

    def _made(
        self, table: Table, columns: list[npt.NDArray[Any]], topics: _Codes, texts: _Codes
    ) -> Subscriptions:
        number, client, topic, text, assume, from_at, until_at, *ends = columns
        topic_names, topic = topics.sorted(topic)
        text_names, text = texts.sorted(text)
        pairs, text = text_pairs(text, topic, len(topic_names))
        for at, name in enumerate(topic_names):
            if fault := names.filter_fault(name):
                one = number[topic == at][0]
                raise table.refuse(f"subscription {one}: {fault}")
        used = {under for _, under in pairs}
        declared = {under: fields_of(self.declarations, topic_names[under]) for under in used}
        read: dict[int, Filter] = {}
        for at, (said, under) in enumerate(pairs):
            try:
                read[at] = parse(text_names[said], declared[under])
            except FilterError as error:
                raise table.refuse(f"subscription {number[text == at][0]}: {error}") from None
        return Subscriptions(
            self.dimensions,
            number,
            client,
            topic_names,
            topic,
            _beside(ends[0::2], len(number)),
            _beside(ends[1::2], len(number)),
            tuple(text_names[said] for said, _ in pairs),
            text,
            assume,
            from_at,
            until_at,
            read,
        )

    def published(self, name: str, limit: int | None = None) -> Iterator[Publications]:
        """What is published, `events` or `reports`, in stretches in the order of time; or the first ones."""
        table = self.table(name)
        left = table.rows if limit is None else min(limit, table.rows)
        for begin, end in _stretches(table):
            if left <= 0:
                return
            stretch = self._stretch(table, begin, end)
            if len(stretch) > left:
                stretch = stretch.first(left)
            left -= len(stretch)
            if len(stretch):
                yield stretch

    def _stretch(self, table: Table, begin: int, end: int) -> Publications:
        key = KEYS_OF[table.name]
        topics = _Codes()
        parts: list[list[npt.NDArray[Any]]] = [[] for _ in range(4 + 2 * len(table.inner))]
        for batch in table.batches(between=(begin, end)):
            at = _numbers(batch, "at")
            here = (at >= begin) & (at < end)
            struct = batch.column("fields")
            inner = [struct.field(name) for name in table.inner]
            columns = [
                _numbers(batch, key),
                at,
                _numbers(batch, "client"),
                topics.of(batch.column("topic")),
                *(one.fill_null(0).to_numpy(zero_copy_only=False) for one in inner),
                *(one.is_valid().to_numpy(zero_copy_only=False) for one in inner),
            ]
            for part, column in zip(parts, columns, strict=True):
                part.append(column[here])
        if not parts[0]:
            none = np.zeros(0, dtype=np.int64)
            return Publications(none, none, none, (), none, {}, {})
        number, at, client, topic, *rest = [np.concatenate(part) for part in parts]
        for place, name in enumerate(topics.values):
            if fault := names.name_fault(name):
                raise table.refuse(f"{key} {number[topic == place][0]}: {fault}")
        values, known = rest[: len(table.inner)], rest[len(table.inner) :]
        made = Publications(
            number,
            at,
            client,
            tuple(topics.values),
            topic,
            dict(zip(table.inner, values, strict=True)),
            dict(zip(table.inner, known, strict=True)),
        )
        return made._taken(np.lexsort((number, at)))


def fields_of(declarations: Sequence[Topic], topic_filter: str) -> Mapping[FieldPath, Field] | None:
    """The declared fields of all topics that a filter matches, if they agree on them."""
    found = [
        topic.fields
        for topic in declarations
        if names.match(topic_filter, topic.name) or names.match(topic.pattern.filter, topic_filter)
    ]
    return found[0] if found and all(one == found[0] for one in found) else None


def text_pairs(text: Whole, topic: Whole, topics: int) -> tuple[list[tuple[int, int]], Whole]:
    """Different pairs of a text and a topic filter, sorted, and for each row its place there; -1 stays."""
    used, place = np.unique(np.where(text >= 0, text * topics + topic, -1), return_inverse=True)
    found = [divmod(at, topics) for at in used.tolist() if at >= 0]
    return found, np.asarray(place - (len(used) - len(found)), dtype=np.int64)


class _Codes:
    """Texts, each with a number of its own, in the order in which they came."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def of(self, column: pa.Array) -> Whole:
        """The numbers of the texts of a column without nulls."""
        encoded = column.dictionary_encode()
        codes = [self.values.setdefault(one, len(self.values)) for one in encoded.dictionary.to_pylist()]
        found: Whole = np.array([*codes, 0], dtype=np.int64)[encoded.indices.to_numpy()]
        return found

    def sorted(self, codes: Whole) -> tuple[tuple[str, ...], Whole]:
        """Those texts that are used, sorted, and the codes as places among them; -1 stays."""
        used = set(np.unique(codes).tolist())
        order = sorted((text, code) for text, code in self.values.items() if code in used)
        places = np.full(len(self.values) + 1, -1, dtype=np.int64)
        for place, (_, code) in enumerate(order):
            places[code] = place
        return tuple(text for text, _ in order), places[codes]


def _points(table: Table, batch: pa.RecordBatch, key: str) -> npt.NDArray[np.float64]:
    """Coordinates, a row each, all of them numbers."""
    points = np.column_stack([batch.column(name).to_numpy() for name in tables.COORDINATES])
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        at = int(wrong[0])
        raise table.refuse(
            f"{key} {batch.column(key)[at]} has coordinates {points[at].tolist()}; all must be finite numbers"
        )
    return points


def _numbers(batch: pa.RecordBatch, name: str, missing: int | None = None) -> Whole:
    column = batch.column(name)
    if missing is not None:
        column = column.fill_null(missing)
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _first_by_number(parts: list[list[npt.NDArray[Any]]], count: int) -> list[npt.NDArray[Any]]:
    whole = [np.concatenate([part[at] for part in parts]) for at in range(len(parts[0]))]
    order = np.argsort(whole[0], kind="stable")[:count]
    return [column[order] for column in whole]


def _beside(columns: list[Whole], rows: int) -> Whole:
    return np.column_stack(columns) if columns else np.zeros((rows, 0), dtype=np.int64)


def _stretches(table: Table) -> list[tuple[int, int]]:
    """Times between which there are no more rows than are held at once, unless one cell has more."""
    whole = [(-(2**63), 2**63 - 1)]
    if table.rows <= STRETCH_ROWS:
        return whole
    least, most = 2**63 - 1, -(2**63)
    for batch in table.batches(("at",)):
        at = _numbers(batch, "at")
        least, most = min(least, int(at.min())), max(most, int(at.max()))
    width = (most - least) // CELLS + 1
    counts = np.zeros(CELLS + 1, dtype=np.int64)
    for batch in table.batches(("at",)):
        counts += np.bincount((_numbers(batch, "at") - least) // width, minlength=CELLS + 1)
    found: list[tuple[int, int]] = []
    begin, held = 0, 0
    for cell, count in enumerate(counts.tolist()):
        if held and held + count > STRETCH_ROWS:
            found.append((least + begin * width, least + cell * width))
            begin, held = cell, 0
        held += count
    return [*found, (least + begin * width, least + (CELLS + 1) * width)]
