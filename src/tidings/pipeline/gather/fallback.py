"""The `gathering` machine itself over tables, for topics that the kernel does not say.

All reports of a table go through one `Gatherer` in Python, in the order of their times. It is the machine of
brokers, at its own speed. What is open travels between calls as copies.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import PayloadError
from tidings.gathering import Closing, Fate, Gatherer
from tidings.gathering.policies import stamp_order
from tidings.gathering.replay import run_out
from tidings.language import keys
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.language.reports import Report, Shape
from tidings.pipeline.gather.layout import CLOSED, REFUSED, Layout, unbounded


class Counted(msgspec.Struct, array_like=True):
    """What is counted of an open event."""

    opened_at: int
    reports: int = 1
    redundant: int = 0
    conflicts: int = 0
    late: int = 0
    complete: bool = False
    """As in the version told last."""


class Held(msgspec.Struct, array_like=True):
    """What stays between two calls."""

    now_us: int = INT_MIN
    copies: list[bytes] = []
    counted: dict[str, Counted] = {}


def run(
    layout: Layout, held: bytes | None, rows: pa.Table, late: NDArray[np.bool_] | None, until_us: int
) -> tuple[pa.Table, bytes]:
    """Feed all rows, let the clocks run out that are due by `until_us`; the result, and what is open then."""
    machine = _Machine(layout, _DECODER.decode(held) if held else Held())
    machine.feed(rows, late)
    machine.end(until_us)
    return pa.Table.from_pylist(machine.rows, schema=layout.told), machine.held()


def open_count(held: bytes) -> int:
    """How many entries stay open."""
    return len(_DECODER.decode(held).copies)


class _Machine:
    def __init__(self, layout: Layout, before: Held) -> None:
        self.layout = layout
        topic = unbounded(layout.topic)
        self.shape = Shape(topic)
        self.gatherer = Gatherer(topic, now_us=before.now_us)
        for copy in before.copies:
            self.gatherer.adopt(copy, heal=False)
        self.counted = dict(before.counted)
        for entry in self.gatherer.entries():
            # A field may have been declared since.
            self.counted[entry.event].complete &= entry.complete
        self.rows: list[dict[str, Any]] = []

    def feed(self, rows: pa.Table, late: NDArray[np.bool_] | None) -> None:
        columns = {name: rows.column(name).to_pylist() for name in rows.schema.names}
        stamps = [
            (INT_MIN if at is None else at, str(name))
            for at, name in zip(columns["at"], columns["report"], strict=True)
        ]
        for place in sorted(range(rows.num_rows), key=lambda one: stamp_order(stamps[one])):
            try:
                report = self._report(columns, place)
            except PayloadError as error:
                self._refuse(columns["report"][place], columns["at"][place], str(error))
                continue
            # What is closed by a clock is told apart from what is closed by a report of the same time.
            self.gatherer.advance(report.at_us)
            self._take(None)
            decision = self.gatherer.feed(report)
            if decision.fate is Fate.REFUSED:
                self._refuse(columns["report"][place], report.at_us, decision.reason)
                continue
            if decision.fate is Fate.OPENED:
                self.counted[report.id] = Counted(report.at_us)
            counted = self.counted[decision.event]
            counted.reports += decision.fate is Fate.MERGED
            counted.redundant += decision.fate is Fate.REDUNDANT
            counted.conflicts += decision.conflicts
            counted.late += late is not None and bool(late[place])
            self._take(report.id)

    def end(self, until_us: int) -> None:
        if until_us == INT_MAX:
            run_out(self.gatherer)
        else:
            self.gatherer.advance(until_us)
        self._take(None)

    def held(self) -> bytes:
        gatherer = self.gatherer
        return _ENCODER.encode(Held(gatherer.now_us, gatherer.copies(), self.counted))

    def _report(self, columns: dict[str, list[Any]], place: int) -> Report:
        layout, at_us = self.layout, columns["at"][place]
        if at_us is None or not layout.at_us_min <= at_us <= layout.at_us_max:
            raise PayloadError("at")
        fields: dict[str, Any] = {}
        for name, field in zip(layout.names, layout.fields, strict=True):
            if (value := columns[name][place]) is not None:
                group = fields
                for around in field.path[:-1]:
                    group = group.setdefault(around, {})
                group[field.path[-1]] = value
        taken = self.shape.typed(fields)
        key = keys.evaluate(layout.key, taken)
        name = columns["topic"][place] if layout.by_topic else layout.topic.name
        if key is None or name is None:
            raise PayloadError("key")
        # Events of several topics do not know each other: the name is part of the key, in here alone.
        key = (name, *key) if layout.by_topic else key
        return Report(name, key, taken, str(columns["report"][place]), at_us)

    def _take(self, report: str | None) -> None:
        """Write down what has been told and closed, by a report or by a clock."""
        for one in self.gatherer.take():
            if isinstance(one, Closing):
                row = self._row(CLOSED, one.at_us, one.event, one.key)
                counted = self.counted.pop(one.event)
                row |= {
                    "version": one.version,
                    "reports": counted.reports,
                    "complete": counted.complete,
                    "opened_at": counted.opened_at,
                    "closed_by": None if report is None else self._id(report),
                    "reason": one.reason,
                    "redundant": counted.redundant,
                    "conflicts": counted.conflicts,
                    "late": counted.late,
                }
            else:
                event = one.event
                row = self._row(one.state.value, one.at_us, event.opened_by, event.key)
                counted = self.counted[event.opened_by]
                counted.complete = event.complete
                row |= {
                    "version": event.version,
                    "reports": event.reports,
                    "complete": event.complete,
                    "fields": event.fields,
                    "opened_at": counted.opened_at,
                }
            self.rows.append(row)

    def _row(self, state: str, at_us: int, event: str, key: keys.Key) -> dict[str, Any]:
        row: dict[str, Any] = {"state": state, "at": at_us, "event": self._id(event)}
        if self.layout.by_topic:
            row["topic"], *items = key
            key = tuple(items)
        return row | {"key": {f"k{place}": value for place, value in enumerate(key, 1)}}

    def _refuse(self, report: object, at_us: int | None, reason: str) -> None:
        self.rows.append({"state": REFUSED, "at": at_us, "event": report, "reason": reason})

    def _id(self, report: str) -> object:
        return report if self.layout.text_ids else int(report)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Held)
