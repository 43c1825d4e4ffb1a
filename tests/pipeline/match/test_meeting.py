"""Whoever gets an event meets it in its cell."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.pipeline.match import samples
from tests.records import workloads as made
from tidings.language.fields import Field, Path, Type
from tidings.pipeline.match import cells as meeting
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.strategies import Cells
from tidings.space import Space

SPACE = Space.of(samples.SPACED)


def bits(space: Space, depth: int) -> int:
    return len(space.turns(depth))


@pytest.mark.parametrize("depth", [0, 3, 9])
def test_the_cell_of_an_event_is_that_of_its_point(depth: int) -> None:
    events = samples.some_events(random.Random(depth), 300)
    fields = events.column("fields").combine_chunks()
    found = meeting.cells_of_events(SPACE, fields, depth)
    wanted = [SPACE.point(samples.known(one), depth) for one in fields.to_pylist()]
    assert [format(cell, f"0{depth}b") if depth else "" for cell in found.tolist()] == wanted


def test_a_float_that_no_event_has_lies_in_the_lowest_cell_wherever_its_domain_is() -> None:
    space = Space.of({("f",): Field(("f",), Type.FLOAT, (-9.0, -1.0)), ("b",): Field(("b",), Type.BOOL)})
    fields = pa.array([{"b": True}, {"b": False}])
    assert meeting.cells_of_events(space, fields, 3).tolist() == [0b010, 0b000]
    known = pa.array([{"b": True, "f": None}, {"b": True, "f": -1.0}])
    assert meeting.cells_of_events(space, known, 3).tolist() == [0b010, 0b111]


@pytest.mark.parametrize("depth", [0, 3, 9])
def test_a_subscription_meets_every_event_that_it_gets(depth: int) -> None:
    rng = random.Random(depth)
    subscriptions, events = samples.some_subscriptions(rng, 120), samples.some_events(rng, 120)
    known = asking.subscriptions_of(subscriptions, (), samples.SPACED)
    row, cell = meeting.cells_of_subscriptions(SPACE, known, depth)
    assert len(set(zip(row.tolist(), cell.tolist(), strict=True))) == len(row)
    meets = set(zip(known.number[row].tolist(), cell.tolist(), strict=True))
    cells = meeting.cells_of_events(SPACE, events.column("fields").combine_chunks(), depth).tolist()
    for event, ids in samples.scanned(events, subscriptions):
        assert {(one, cells[event]) for one in ids} <= meets


@pytest.mark.parametrize("counted", [True, False])
def test_rectangles_meet_the_events_within(counted: bool) -> None:
    fields: dict[Path, Field] = {
        ("subject",): Field(("subject",), Type.INT, (100, 900)),
        ("severity",): Field(("severity",), Type.INT, (0, 4)),
        ("language",): Field(("language",), Type.INT if counted else Type.FLOAT, (0, made.SPAN)),
    }
    space = Space.of(fields)
    rows = made.drawn(3, subscriptions=200, events=80)
    known = asking.subscriptions_of(made.table("subscriptions", rows["subscriptions"]), made.DIMENSIONS)
    row, cell = meeting.cells_of_subscriptions(space, known, 7)
    meets = set(zip(row.tolist(), cell.tolist(), strict=True))
    events = made.table("events", rows["events"]).column("fields").combine_chunks()
    cells = meeting.cells_of_events(space, events, 7)
    assert len(np.unique(cells)) > 8
    for at, event in enumerate(events.to_pylist()):
        value = np.array([event[name] for name in made.DIMENSIONS])
        for inside in np.flatnonzero(((known.low <= value) & (value <= known.high)).all(axis=1)).tolist():
            assert (inside, int(cells[at])) in meets


def test_of_every_batch_what_is_wrong_with_it_comes_back_as_a_line() -> None:
    right = {"subscription": [1, 2], "where": ["i > 3", "TRUE"], "unknown": ["wait", "assume"]}
    batches = [
        pa.record_batch(right),
        pa.record_batch({**right, "unknown": ["wait", "hope"]}),
        pa.record_batch({**right, "where": ["j > 3", None]}),
    ]
    cells = Cells(SPACE, 2, fields=samples.SPACED)
    found = [row["problem"] for one in meeting.refused(iter(batches), cells=cells) for row in one.to_pylist()]
    assert [line.partition(";")[0] for line in found] == [
        "subscription 2 has unknown 'hope'",
        "subscription 2 has neither a rectangle (no fields are known) nor a where",
    ]
