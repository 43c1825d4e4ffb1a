"""Reports: the same rows from Spark and from numpy; as noisy as asked for, and gathered back into events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tests.judges import workload_events as plain_events
from tests.judges import workload_reports as plain
from tests.pipeline.workload.engines import assert_same
from tests.workload import models
from tidings.gathering import Gatherer, Telling
from tidings.gathering.replay import Reader, run_out
from tidings.pipeline.workload import reports
from tidings.records import workload as tables
from tidings.workload import declarations, quantiles
from tidings.workload.fields import ranges
from tidings.workload.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def both(model: Model) -> tuple[pa.Table, pa.Table]:
    events = plain_events.rows(model, {})
    return events, plain.rows(model, {tables.EVENTS: events})


def noisy(events: int = 4_000, dimensions: int = 2, **changes: Any) -> Model:
    return models.tiny(dimensions, sizes={"events": events}, reports=changes)


def told(table: pa.Table, name: str) -> NDArray[np.float64]:
    """The values of a field; NaN where it is not known."""
    values: NDArray[np.float64] = (
        table["fields"].combine_chunks().field(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
    )
    return values


def own(events: pa.Table, found: pa.Table) -> NDArray[np.int64]:
    """For each report the row of its event."""
    row: NDArray[np.int64] = np.searchsorted(events["event"].to_numpy(), found["event"].to_numpy())
    return row


@pytest.mark.spark
@pytest.mark.parametrize(
    "changes",
    [
        {"known": 0.2, "wrong": 0.3},
        pytest.param({"wrong": 0.0, "details": 0, "each": 1.0, "delay_us": 0}, marks=pytest.mark.slow),
        pytest.param({"each": 12.5, "local": 0.0, "known": 0.0}, marks=pytest.mark.slow),
    ],
)
def test_spark_makes_the_rows_of_the_twin(
    spark: SparkSession, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = noisy(300, **changes)
    events, expected = both(model)
    assert_same(spark, reports.STAGE, model, {tables.EVENTS: events}, expected, monkeypatch)


@pytest.mark.parametrize("each", [1.0, 1.5, 5.0, 40.0])
def test_an_event_has_one_report_or_more_and_as_many_as_asked_on_average(each: float) -> None:
    events, found = both(noisy(each=each))
    counts = np.bincount(found["event"].to_numpy(), minlength=events.num_rows)
    assert counts.min() == 1
    # Five standard deviations of a geometric law.
    most = 5 * np.sqrt(each * (each - 1) / events.num_rows)
    assert counts.mean() == pytest.approx(each, abs=most + 1 / quantiles.SLOTS)


def test_numbers_are_unique_and_say_the_event() -> None:
    model = noisy()
    _, found = both(model)
    report = found["report"].to_numpy()
    assert len(np.unique(report)) == len(report)
    np.testing.assert_array_equal(report >> reports.shift(model), found["event"].to_numpy())


def test_numbers_of_the_greatest_workload_fit_into_64_bits() -> None:
    model = noisy(each=100_000.0)
    assert reports.shift(model) == 20
    assert 11_000_000_000 << reports.shift(model) < 2**63


def test_a_report_is_of_an_event_that_is_there_and_comes_after_it() -> None:
    model = noisy()
    events, found = both(model)
    row = own(events, found)
    assert (events["event"].to_numpy()[row] == found["event"].to_numpy()).all()
    assert events["topic"].take(pa.array(row)).equals(found["topic"])
    delay = found["at"].to_numpy() - events["at"].to_numpy()[row]
    assert delay.min() >= 0
    # Skewed: the mean as asked, the median below it, and some very late.
    assert delay.mean() == pytest.approx(10_000_000, rel=0.05)
    assert np.median(delay) == pytest.approx(10_000_000 * np.log(2), rel=0.05)
    assert delay.max() > 60_000_000


def test_the_first_report_may_be_late_too() -> None:
    events, found = both(noisy())
    first = np.full(events.num_rows, 2**62)
    np.minimum.at(first, own(events, found), found["at"].to_numpy())
    assert (first - events["at"].to_numpy() > 10_000_000).any()


def test_each_field_is_known_as_often_as_asked() -> None:
    model = noisy(known=0.3)
    _, found = both(model)
    names = [one.name for one in ranges(model)]
    assert names == ["subject", "language", "severity", "detail_1", "detail_2", "detail_3", "detail_4"]
    # A report that would know nothing knows one field.
    expected = 0.3 + 0.7**7 / 7
    for name in names:
        known = ~np.isnan(told(found, name))
        assert known.mean() == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(len(known)))


def test_every_report_knows_the_story_and_something_more() -> None:
    model = noisy(known=0.0)
    _, found = both(model)
    assert told(found, tables.STORY).tolist() == found["event"].to_pylist()
    known = np.array([~np.isnan(told(found, one.name)) for one in ranges(model)])
    assert (known.sum(axis=0) == 1).all()
    np.testing.assert_allclose(known.mean(axis=1), 1 / 7, atol=0.02)


def test_a_known_field_is_wrong_as_often_as_asked_and_then_any_other_value() -> None:
    model = noisy(wrong=0.2)
    events, found = both(model)
    row = own(events, found)
    for one in ranges(model):
        value = told(found, one.name)
        known = ~np.isnan(value)
        truth = told(events, one.name)[row]
        wrong = known & (value != truth)
        assert wrong.sum() / known.sum() == pytest.approx(0.2, abs=5 * 0.4 / np.sqrt(known.sum()))
        assert value[known].min() >= one.low
        assert value[known].max() < one.low + one.count
    # Each of the other four severities, whatever is true.
    severity, truth = told(found, tables.SEVERITY), told(events, tables.SEVERITY)[row]
    for true in range(1, 6):
        others = severity[(truth == true) & (severity != true) & ~np.isnan(severity)]
        assert set(others) == set(range(1, 6)) - {true}


def test_reports_come_from_many_clients_most_of_them_near() -> None:
    model = noisy(local=0.8)
    events, found = both(model)
    row = own(events, found)

    def region(clients: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(model.clients_first, clients, side="right") - 1

    at_home = region(found["client"].to_numpy()) == region(events["client"].to_numpy()[row])
    share = model.clients_count / model.clients_count.sum()
    by_chance = share[region(events["client"].to_numpy()[row])].mean()
    assert at_home.mean() == pytest.approx(0.8 + 0.2 * by_chance, abs=0.02)
    assert len(np.unique(found["client"].to_numpy())) == model.clients_count.sum()


def gathered(model: Model, found: pa.Table) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What gatherers make of reports, one for each topic: counts, and the last version of every event."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    totals = {"opened": 0, "merged": 0, "redundant": 0, "refused": 0, "conflicts": 0}
    rows = sorted(found.to_pylist(), key=lambda row: (row["at"], row["report"]))
    for name in sorted(set(found["topic"].to_pylist())):
        topic = declarations.declared(model, name)
        gatherer, reader = Gatherer(topic, now_us=0), Reader(topic)
        for row in rows:
            if row["topic"] == name:
                line = {"at": row["at"] / 1_000_000, "topic": name, "fields": row["fields"]}
                gatherer.feed(reader.read(row["report"], line))
        run_out(gatherer)
        for one in gatherer.take():
            if isinstance(one, Telling):
                last[name, one.event.opened_by] = dict(one.event.fields)
        for count in totals:
            totals[count] += getattr(gatherer.counts, count)
    return totals, list(last.values())


def test_without_wrong_ones_gathered_reports_give_the_truth_back() -> None:
    model = noisy(500, wrong=0.0, each=8.0)
    events, found = both(model)
    truth = {row["event"]: row["fields"] for row in events.to_pylist()}
    counts, made = gathered(model, found)
    assert counts["conflicts"] == counts["refused"] == 0
    assert counts["opened"] == events.num_rows == len(made)
    assert counts["redundant"] > 0.2 * found.num_rows
    assert counts["merged"] > 0.2 * found.num_rows
    assert sorted(fields[tables.STORY] for fields in made) == sorted(truth)
    for fields in made:
        assert fields.items() <= truth[fields[tables.STORY]].items()
    assert np.mean([len(fields) == 8 for fields in made]) > 0.5


def test_wrong_ones_are_conflicts() -> None:
    model = noisy(200, wrong=0.3)
    counts, made = gathered(model, both(model)[1])
    assert counts["conflicts"] > 100
    assert counts["opened"] == len(made)
