"""Which machine gathers a topic, and what stays of it between calls: entries, reports that wait, the horizon.

The kernel is taken for what it says, the fallback for the rest; both are given a table and answer a table.
A `Bucket` is one of them with its memory: all that a stream must keep of some of the keys, as bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.errors import InputError
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.pipeline.gather import columnar, fallback
from tidings.pipeline.gather.layout import Layout

FORMAT = 1
"""Of the bytes of a bucket; another is refused."""


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


class Kept(msgspec.Struct, array_like=True):
    """A bucket as bytes."""

    format: int
    engine: str
    buckets: int
    """Of the whole stream: keys are dealt out by it, so that it cannot change."""

    horizon_us: int
    latest_us: int
    moved_ms: int
    open: bytes
    waiting: bytes


class Bucket:
    """Some of the keys of a stream: open entries, and reports that the horizon has not passed."""

    def __init__(self, layout: Layout, delay_us: int, buckets: int = 1, kept: bytes | None = None) -> None:
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
            self._restore(_DECODER.decode(kept))

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

    def kept(self) -> bytes:
        """All of it, for another bucket to go on."""
        return _ENCODER.encode(
            Kept(
                FORMAT,
                self.engine.value,
                self.buckets,
                self.horizon_us,
                self.latest_us,
                self.moved_ms,
                self._open or b"",
                to_bytes(self._waiting) if self._waiting.num_rows else b"",
            )
        )

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
        entries = from_bytes(self._open) if self._open else None
        told, entries = columnar.run(self.layout, entries, fed, fed_late, horizon_us)
        self._open = to_bytes(entries)
        return told

    def _restore(self, kept: Kept) -> None:
        if kept.format != FORMAT:
            raise InputError(
                f"the state of the stream has format {kept.format}; this version of Tidings reads {FORMAT}. "
                "Let the version that wrote it finish the stream, or begin with another checkpoint"
            )
        if kept.buckets != self.buckets:
            raise InputError(
                f"the stream was begun with {kept.buckets} buckets and cannot go on with {self.buckets}; "
                f"give buckets={kept.buckets}, or begin with another checkpoint"
            )
        if kept.engine != self.engine.value:
            raise InputError(
                f"the stream was begun under a declaration that the {kept.engine} gathers, and this one is "
                f"for the {self.engine.value}; finish it, and begin with another checkpoint"
            )
        self.horizon_us, self.latest_us, self.moved_ms = kept.horizon_us, kept.latest_us, kept.moved_ms
        self._open = kept.open or None
        if kept.waiting:
            self._waiting = from_bytes(kept.waiting)


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
_DECODER = msgspec.msgpack.Decoder(Kept)
