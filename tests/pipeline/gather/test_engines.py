"""Gather at scale says what the machine says: the same versions, times, closings and numbers."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gathering.samples import SECOND, Run, road
from tests.pipeline.gather.samples import any_runs, kernel_runs, lines_of, of_machine, of_table
from tidings.gathering import Gatherer
from tidings.gathering.replay import run_out, summary
from tidings.language.payloads import INT_MAX, INT_MIN
from tidings.language.reports import Report, Shape
from tidings.language.topics import Topic
from tidings.pipeline.gather import columnar, counting, engines
from tidings.pipeline.gather.engines import Bucket, Engine
from tidings.pipeline.gather.layout import Layout


def agree(run: Run, seed: int, *, text_ids: bool = False) -> None:
    layout = Layout(run.topic, text_ids=text_ids)
    rows = layout.table(random.Random(seed).sample(run.reports, len(run.reports)))
    told = engines.gather(layout, rows)
    lines, counts = of_machine(run.topic, run.reports)
    assert of_table(told) == lines
    assert counting.summary(told) == counts | {"late": 0}


@settings(max_examples=examples(250))
@given(kernel_runs(), st.integers(0, 99), st.booleans())
def test_the_kernel_says_what_the_machine_says(run: Run, seed: int, text_ids: bool) -> None:
    assert columnar.unsaid(run.topic) is None
    agree(run, seed, text_ids=text_ids)


@settings(max_examples=examples(30))
@given(any_runs(), st.integers(0, 99), st.booleans())
def test_any_topic_is_gathered_as_the_machine_does(run: Run, seed: int, text_ids: bool) -> None:
    agree(run, seed, text_ids=text_ids)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(kernel_runs(reports_max=40), st.integers(0, 99), st.booleans())
def test_the_kernel_says_what_the_machine_says_at_length(run: Run, seed: int, text_ids: bool) -> None:
    agree(run, seed, text_ids=text_ids)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(any_runs(reports_max=40), st.integers(0, 99), st.booleans())
def test_any_topic_is_gathered_as_the_machine_does_at_length(run: Run, seed: int, text_ids: bool) -> None:
    agree(run, seed, text_ids=text_ids)


def streamed(run: Run, cuts: list[int], delay_us: int) -> None:
    """In pieces, with all that is kept going through bytes, and nothing late."""
    layout = Layout(run.topic)
    kept, tables = None, []
    edges = sorted({0, len(run.reports), *(cut % (len(run.reports) + 1) for cut in cuts)})
    for begin, end in pairwise(edges):
        bucket = Bucket(layout, delay_us, kept=kept)
        piece = run.reports[begin:end]
        tables.append(bucket.feed(layout.table(reversed(piece)), piece[-1].at_us))
        kept = bucket.kept()
    bucket = Bucket(layout, delay_us, kept=kept)
    tables.append(bucket.finish())
    told = pa.concat_tables(tables)
    lines, counts = of_machine(run.topic, run.reports)
    assert of_table(told) == lines
    assert counting.summary(told) == counts | {"late": 0}


@settings(max_examples=examples(60))
@given(kernel_runs(), st.lists(st.integers(0, 40), max_size=5), st.sampled_from([0, SECOND, 4 * SECOND]))
def test_a_stream_in_pieces_says_what_the_whole_says(run: Run, cuts: list[int], delay_us: int) -> None:
    streamed(run, cuts, delay_us)


@settings(max_examples=examples(20))
@given(any_runs(), st.lists(st.integers(0, 40), max_size=5), st.sampled_from([0, SECOND, 4 * SECOND]))
def test_a_stream_of_any_topic_says_what_the_whole_says(run: Run, cuts: list[int], delay_us: int) -> None:
    streamed(run, cuts, delay_us)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(
    kernel_runs(reports_max=40) | any_runs(reports_max=40),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([0, SECOND, 4 * SECOND]),
)
def test_a_stream_in_pieces_says_what_the_whole_says_at_length(
    run: Run, cuts: list[int], delay_us: int
) -> None:
    streamed(run, cuts, delay_us)


def with_late_ones(run: Run, seed: int, delay_us: int) -> None:
    """Reports that come in any order; the judge feeds the machine by the rule for late ones."""
    layout = Layout(run.topic)
    arrived = random.Random(seed).sample(run.reports, len(run.reports))
    bucket, tables = Bucket(layout, delay_us), []
    gatherer = Gatherer(run.topic, now_us=INT_MIN)
    horizon_us, latest_us, late, waiting = INT_MIN, INT_MIN, 0, list[Report]()
    for begin in range(0, len(arrived), 4):
        piece = arrived[begin : begin + 4]
        tables.append(bucket.feed(layout.table(piece), max(one.at_us for one in piece)))
        bucket = Bucket(layout, delay_us, kept=bucket.kept())
        for one in piece:
            late += one.at_us < horizon_us
            at_us = max(one.at_us, horizon_us)
            waiting.append(Report(one.topic, one.key, one.fields, one.id, at_us))
        before_us, latest_us = horizon_us, max(latest_us, *(one.at_us for one in piece))
        horizon_us = max(horizon_us, latest_us - delay_us)
        came_late = {one.id for one in piece if one.at_us < before_us}
        passed = [one for one in waiting if one.at_us < horizon_us or one.id in came_late]
        waiting = [one for one in waiting if one not in passed]
        for one in sorted(passed, key=lambda one: (one.at_us, int(one.id))):
            gatherer.feed(one)
        gatherer.advance(horizon_us)
    tables.append(bucket.finish())
    for one in sorted(waiting, key=lambda one: (one.at_us, int(one.id))):
        gatherer.feed(one)
    run_out(gatherer)
    told = pa.concat_tables(tables)
    assert of_table(told) == lines_of(gatherer)
    counts = counting.summary(told)
    assert counts["late"] == late
    # A late report comes after others of the horizon's time, whatever its number.
    assert {name: counts[name] for name in summary(gatherer.counts) if name != "max_open"} == {
        name: count for name, count in summary(gatherer.counts).items() if name != "max_open"
    }


@settings(max_examples=examples(40))
@given(kernel_runs() | any_runs(), st.integers(0, 999), st.sampled_from([0, SECOND, 4 * SECOND]))
def test_late_reports_are_fed_at_the_time_of_the_horizon(run: Run, seed: int, delay_us: int) -> None:
    with_late_ones(run, seed, delay_us)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(
    kernel_runs(reports_max=40) | any_runs(reports_max=40),
    st.integers(0, 999),
    st.sampled_from([0, SECOND, 4 * SECOND]),
)
def test_late_reports_are_fed_at_the_time_of_the_horizon_at_length(
    run: Run, seed: int, delay_us: int
) -> None:
    with_late_ones(run, seed, delay_us)


def reported(topic: Topic, *said: tuple[float, dict[str, Any]]) -> pa.Table:
    shape = Shape(topic)
    return Layout(topic).table(
        shape.report(topic.name, fields, report_id=str(number), at_us=round(at_s * SECOND))
        for number, (at_s, fields) in enumerate(said, 1)
    )


MAJORITY = road(fields={"lane": {"type": "int", "conflict": "majority"}})


@pytest.mark.parametrize("topic", [road(), MAJORITY], ids=["kernel", "machine"])
def test_a_quiet_stream_moves_on_with_the_clock(topic: Topic) -> None:
    bucket = Bucket(Layout(topic), delay_us=2 * SECOND)
    bucket.feed(reported(topic, (10, {"place": "A1"})), 10 * SECOND, now_ms=1_000)
    assert of_table(bucket.idle(now_ms=2_500)) == []
    told = of_table(bucket.idle(now_ms=8_000))  # seven seconds later, of which two are the allowed delay
    assert [line[:3] for line in told] == [("told", 14 * SECOND, "1")]
    told = of_table(bucket.idle(now_ms=1_000_000))
    assert [line[:3] for line in told] == [("closed", 70 * SECOND, "1")]


def test_before_anything_has_come_a_quiet_stream_stays_where_it_is() -> None:
    bucket = Bucket(Layout(road()), delay_us=0)
    assert bucket.idle(now_ms=5_000).num_rows == 0
    assert bucket.horizon_us == INT_MIN


@pytest.mark.parametrize("topic", [road(), MAJORITY], ids=["kernel", "machine"])
def test_what_cannot_be_taken_is_refused_and_counted(topic: Topic) -> None:
    rows = reported(topic, *[(second, {"place": "A1", "lanes": 1.0, "severity": 1}) for second in range(5)])
    lacking = {"f0": (1, None), "at": (2, None), "f2": (3, float("inf"))}
    for name, (row, value) in lacking.items():
        values = rows.column(name).to_pylist()
        values[row] = value
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), pa.array(values, rows.schema.field(name).type))
    counts = counting.summary(engines.gather(Layout(topic), rows))
    assert (counts["received"], counts["refused"], counts["opened"], counts["redundant"]) == (5, 3, 1, 1)


@pytest.mark.parametrize("topic", [road(), MAJORITY], ids=["kernel", "machine"])
def test_a_stream_refuses_at_once_what_no_horizon_will_ever_pass(topic: Topic) -> None:
    rows = reported(topic, (10, {"place": "A1"}), (20, {"place": "A1"}))
    never = pa.array([10 * SECOND, INT_MAX], pa.int64())
    rows = rows.set_column(1, rows.schema.field("at"), never)
    bucket = Bucket(Layout(topic), delay_us=0)
    assert bucket.feed(rows, 10 * SECOND).select(["state", "event"]).to_pylist() == [
        {"state": "refused", "event": 2}
    ]
    assert counting.summary(bucket.finish())["received"] == 1


def test_topics_declared_alike_are_gathered_together_and_kept_apart() -> None:
    for topic in (road(), MAJORITY):
        layout = Layout(topic, by_topic=True)
        rows = reported(topic, *[(second, {"place": "A1"}) for second in range(4)])
        rows = rows.add_column(2, layout.rows.field("topic"), pa.array(["a", "b", "a", "b"]))
        told = engines.gather(layout, rows)
        assert sorted(told.column("topic").to_pylist()) == ["a", "a", "b", "b"]
        assert counting.summary(told)["opened"] == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"ends_when": "severity = 0"}, "ends_when asks for all fields of each version"),
        ({"tell_now": "severity > 3"}, "tell_now asks for all fields of each version"),
        ({"fields": {"seen": {"type": "int", "conflict": "union"}}}, "seen is kept by union"),
        ({"fields": {"seen": {"type": "int", "conflict": "majority"}}}, "seen is kept by majority"),
    ],
)
def test_what_the_kernel_does_not_say_goes_to_the_machine(
    changes: dict[str, Any], reason: str | None
) -> None:
    topic = road(**changes)
    said = columnar.unsaid(topic)
    assert said is None if reason is None else said is not None and said.startswith(reason)
    assert engines.engine_of(Layout(topic)) is (Engine.KERNEL if reason is None else Engine.MACHINE)


def test_numbers_of_64_bits_that_are_far_apart_are_not_the_same() -> None:
    topic = road(fields={"severity": {"type": "int", "conflict": "max", "tolerance": 1}})
    low, high = -(2**63), 2**63 - 1
    told = engines.gather(
        Layout(topic), reported(topic, *[(0, {"place": "A1", "severity": one}) for one in (low, high)])
    )
    assert [line[-1]["severity"] for line in of_table(told) if line[0] == "told"] == [high]
