"""Those who ask later: who they are, and whether what they find is what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from tests.demo.test_playing import day as city
from tidings.client.log import About
from tidings.console.day import Check
from tidings.demo import asking, checking
from tidings.demo.completeness import SLOW_S
from tidings.records.holders import Held
from tidings.records.log_rows import EVENTS, Form

Rows = list[dict[str, Any]]


class Log:
    """A log of one broker, as a reader finds it."""

    rows: ClassVar[Rows] = []

    def __init__(self, url: str, **patience_s: float) -> None:
        assert url == "http://here:9883"
        assert patience_s == {"timeout_s": SLOW_S, "patience_s": SLOW_S}

    def whole(self, topic: str) -> About:
        return About(topic, Form({}), (Held("kypseli.1", 0, len(self.rows)),), ())

    def read(
        self, topic: str, what: str, holder: str, start: int, stop: int, where: str
    ) -> Iterator[pa.RecordBatch]:
        assert (what, holder, start, stop) == (EVENTS, "kypseli.1", 0, len(self.rows))
        assert topic
        assert where
        columns = {name: pa.int64() for row in self.rows for name in row}
        yield pa.RecordBatch.from_pylist(self.rows, pa.schema(columns))


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What the log holds: all truths, told once."""
    told: Rows = [{**truth.fields, "_version": 1} for truth in city().truths.values()]
    monkeypatch.setattr(Log, "rows", told)
    monkeypatch.setattr(asking, "LogReader", Log)
    return told


def ask() -> Check:
    made = city()
    return asking.ask(made, checking.due(made), asking.drawn(made, 99, 1), lambda _: "here:9883")


def test_whoever_wants_something_particular_may_be_drawn_and_the_same_by_the_same_seed() -> None:
    made = city()
    everybody = {one.client for one in made.subscribers if one.filter is not None}
    assert {one.client for one in asking.drawn(made, 99, 1)} == everybody
    assert len(asking.drawn(made, 1, 1)) == 1
    assert asking.drawn(made, 1, 7) == asking.drawn(made, 1, 7)


def test_all_that_happened_is_found(rows: Rows) -> None:
    found = ask()
    assert rows
    assert found.holds
    due = sum(len(stories) for client, stories in checking.due(city()).items() if client >= 0)
    assert found.seen.startswith(f"{due} of {due} events that ")


def test_the_last_version_counts_in_whatever_order_rows_come(rows: Rows) -> None:
    rows += [{**row, "severity": 1, "_version": 0} for row in list(rows)]
    assert ask().holds


def test_what_is_not_found_is_named(rows: Rows) -> None:
    rows[:] = [{"story": -1, "_version": 1}]
    found = ask()
    assert not found.holds
    assert "does not find story" in found.seen


def test_topics_that_nobody_asked_for_are_not_read(rows: Rows) -> None:
    made = city()
    nowhere = replace(made.subscribers[0], topic_filter="elsewhere/#")
    assert rows
    found = asking.ask(made, {1: {7: {}}}, [nowhere], lambda _: "here:9883")
    assert found.seen.startswith("0 of 1 events")
