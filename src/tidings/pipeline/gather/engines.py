"""Which machine gathers a topic, and what stays of it between calls: entries, reports that wait, the horizon.

The kernel is taken for what it says, the fallback for the rest; both are given a table and answer a table.
A `Bucket` is one of them with its memory: all that a stream must keep of some of the keys, as bytes. They say
under which declaration they were written, and have fields by their names, so that a stream can go on under a
declaration with the same fields in another order, or with more of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.errors import InputError
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.language.topics import Topic
from tidings.pipeline.gather import columnar, continuation, fallback
from tidings.pipeline.gather.layout import Layout

FORMAT = 2
"""Of the state of a bucket, and of what a stream was begun with; another is refused."""


class Engine(StrEnum):
    """What gathers."""

    KERNEL = "kernel"
    """The machine in numba, over columns."""

    MACHINE = "machine"
    """The broker's own, over one report after another."""


def engine_of(layout: Layout) -> Engine:
    """What gathers a topic; `columnar.unsaid` has the reason if it is not the kernel."""
    return Engine.KERNEL if columnar.unsaid(layout.topic) is None else Engine.MACHINE


def gather(layout: Layout, rows: pa.Table, engine: Engine | None = None) -> pa.Table:
    """Gather a whole table of reports, in any order, until every event is closed."""
    run: Any = columnar.run if (engine or engine_of(layout)) is Engine.KERNEL else fallback.run
    return run(layout, None, rows, None, INT_MAX)[0]


class State(NamedTuple):
    """A bucket, for another to go on."""

    header: str
    """A `Header` as JSON, apart from the rest: a driver reads it before any task runs."""

    body: bytes


class Header(msgspec.Struct, frozen=True):
    """What a bucket was written under."""

    format: int
    engine: str
    buckets: int
    """Of the whole stream: keys are dealt out by it, so that it cannot change."""

    text_ids: bool
    by_topic: bool
    topic: dict[str, Any]
    """The declaration."""


class Body(msgspec.Struct, array_like=True):
    """What a bucket holds."""

    horizon_us: int
    latest_us: int
    moved_ms: int
    open: bytes
    waiting: bytes


def header_of(layout: Layout, buckets: int) -> str:
    """What buckets of this layout are written under."""
    topic = layout.topic.to_mapping()
    engine = engine_of(layout).value
    header = Header(FORMAT, engine, buckets, layout.text_ids, layout.by_topic, topic)
    return msgspec.json.encode(header).decode()


def check(header: str, layout: Layout, buckets: int) -> None:
    """InputError if a bucket with this header cannot go on in so many buckets of this layout."""
    if header == header_of(layout, buckets):
        return
    check_format(msgspec.json.decode(header)["format"])
    had = msgspec.json.decode(header, type=Header)
    if had.buckets != buckets:
        raise InputError(
            f"the stream was begun with {had.buckets} buckets and cannot go on with {buckets}; "
            f"give buckets={had.buckets}, or begin with another checkpoint"
        )
    old, new = Topic.from_mapping(had.topic, "the declaration in the state of the stream"), layout.topic
    found = list[str]()
    if had.by_topic != layout.by_topic:
        found.append(f"it was of {_TOPICS[had.by_topic]} and is of {_TOPICS[layout.by_topic]}")
    elif old.name != new.name and not had.by_topic:
        found.append(f"the topic was {old.name!r} and is {new.name!r}")
    if had.text_ids != layout.text_ids:
        found.append(f"ids of reports were {_IDS[had.text_ids]} and are {_IDS[layout.text_ids]}")
    found += continuation.breaks(old, new)
    if not found and had.engine != engine_of(layout).value:
        found.append(f"the engine was {had.engine} and is {engine_of(layout).value}")
    if found:
        raise InputError(
            f"the stream of {old.name!r} cannot go on: {'; '.join(found)}; {continuation.WAY_OUT}"
        )


def check_format(found: int) -> None:
    """InputError if a state has another format than ours."""
    if found != FORMAT:
        raise InputError(
            f"the state of the stream has format {found}; this version of Tidings reads {FORMAT}. "
            "Let the version that wrote it finish the stream, or begin with another checkpoint"
        )


_TOPICS = {False: "one topic", True: "several topics"}
_IDS = {False: "whole numbers", True: "texts"}


class Bucket:
    """Some of the keys of a stream: open entries, and reports that the horizon has not passed."""

    def __init__(self, layout: Layout, delay_us: int, buckets: int = 1, kept: State | None = None) -> None:
        self.layout = layout
        self.delay_us = delay_us
        self.buckets = buckets
        self.engine = engine_of(layout)
        self.horizon_us = INT_MIN
        self.latest_us = INT_MIN
        self.moved_ms = 0
        """When the latest report came, on the clock of whoever calls."""
        self._open: bytes | None = None
        self._waiting = layout.rows.empty_table()
        if kept is not None:
            check(kept.header, layout, buckets)
            self._restore(_DECODER.decode(kept.body))

    def feed(self, rows: pa.Table, latest_us: int, now_ms: int = 0) -> pa.Table:
        """Take reports, where `latest_us` is the latest in all buckets; what is told and closed by them.

        A report before the horizon is late: it is fed at the horizon's time, as if it arrived there now.
        """
        rows = rows.select(self.layout.rows.names)
        late = np.asarray(pc.fill_null(pc.less(rows.column("at"), self.horizon_us), False))
        if late.any():
            at = pc.if_else(pa.array(late), self.horizon_us, rows.column("at"))
            rows = rows.set_column(1, rows.schema.field("at"), at)
        if latest_us > self.latest_us:
            self.latest_us, self.moved_ms = latest_us, now_ms
        return self._advance(self._horizon_us(self.latest_us - self.delay_us), rows, late)

    def idle(self, now_ms: int) -> pa.Table:
        """Nothing has come for a while: the horizon moves on, by as much time as has passed since."""
        if self.latest_us == INT_MIN:
            return self.layout.told.empty_table()
        quiet_us = max(0, now_ms - self.moved_ms) * 1000
        return self._advance(self._horizon_us(self.latest_us - self.delay_us + quiet_us), None, None)

    def finish(self) -> pa.Table:
        """Nothing will come any more: all that waits is fed, and all clocks run out."""
        return self._advance(INT_MAX, None, None)

    def kept(self) -> State:
        """All of it, for another bucket to go on."""
        body = Body(
            self.horizon_us,
            self.latest_us,
            self.moved_ms,
            self._open or b"",
            self._written(self._waiting) if self._waiting.num_rows else b"",
        )
        return State(header_of(self.layout, self.buckets), _ENCODER.encode(body))

    def _horizon_us(self, wanted_us: int) -> int:
        return max(self.horizon_us, min(max(wanted_us, INT_MIN), INT_MAX - 1))

    def _advance(self, horizon_us: int, rows: pa.Table | None, late: Any) -> pa.Table:
        """Feed what lies before the new horizon; late reports too, which are at the old one."""
        waiting = self._waiting
        every, lates = waiting, np.zeros(waiting.num_rows, bool)
        if rows is not None:
            every = pa.concat_tables([waiting, rows])
            lates = np.concatenate([lates, late])
        # One without a time, or with one that never comes, is fed too, to be refused.
        at = every.column("at")
        taken = pc.or_(pc.less(at, horizon_us), pc.greater(at, self.layout.at_us_max))
        passed = np.asarray(pc.fill_null(taken, True)) | lates
        if horizon_us == INT_MAX:
            passed[:] = True
        self._waiting = every.filter(pa.array(~passed))
        fed, fed_late = every.filter(pa.array(passed)), lates[passed]
        self.horizon_us = horizon_us
        if self.engine is Engine.MACHINE:
            told, self._open = fallback.run(self.layout, self._open, fed, fed_late, horizon_us)
            return told
        entries = self._read(self._open, self.layout.entries) if self._open else None
        told, entries = columnar.run(self.layout, entries, fed, fed_late, horizon_us)
        self._open = self._written(entries)
        return told

    def _restore(self, kept: Body) -> None:
        self.horizon_us, self.latest_us, self.moved_ms = kept.horizon_us, kept.latest_us, kept.moved_ms
        self._open = kept.open or None
        if kept.waiting:
            self._waiting = self._read(kept.waiting, self.layout.rows)

    def _written(self, table: pa.Table) -> bytes:
        """Reports or entries, with fields by their names."""
        stored = self.layout.stored
        return to_bytes(table.rename_columns([stored.get(name, name) for name in table.schema.names]))

    def _read(self, data: bytes, schema: pa.Schema) -> pa.Table:
        """The same; a field that was not declared when they were written is empty."""
        table, stored = from_bytes(data), self.layout.stored
        there = set(table.schema.names)
        columns = [(stored.get(column.name, column.name), column.type) for column in schema]
        return pa.table(
            [table.column(name) if name in there else pa.nulls(len(table), kind) for name, kind in columns],
            schema=schema,
        )


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream.

    Compressed, since most fields of most reports are empty: a quarter of the bytes go through Spark, which
    copies each several times, and lz4 takes no more time than the copies it saves here alone.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Body)
