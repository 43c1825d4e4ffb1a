"""Traffic from the records of a simulated network beside what the simulator itself has seen, to the unit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from tests.pipeline.traffic import drawn
from tidings.pipeline.tables import Store
from tidings.planning import topologies
from tidings.records.record import Record
from tidings.sim.brokers.run import Plan, Run
from tidings.sim.brokers.trace import Trace
from tidings.sim.brokers.workload import Workload
from tidings.sim.gathering.run import GatheredRun
from tidings.sim.gathering.workload import Reporting
from tidings.sim.measures import Measures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass
class Seen:
    """A run: what its records became, and what the simulator has seen."""

    folder: Path
    measures: Measures
    ledger: Trace

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            ds.dataset(self.folder / table, partitioning="hive").to_table().to_pylist()
        )
        return found

    def sums(self, table: str) -> Counter[str]:
        """The sum of every column of numbers."""
        found: Counter[str] = Counter()
        for row in self.rows(table):
            found.update({name: value for name, value in row.items() if isinstance(value, int)})
        return found

    def graph(self) -> Counter[tuple[str, str]]:
        return Counter({(row["sender"], row["receiver"]): row["messages"] for row in self.rows("messages")})


def seen(spark: SparkSession, folder: Path, run: Run, rows: list[Record]) -> Seen:
    from tidings.pipeline.traffic import running

    outcome = run.run()
    assert outcome.breaches == []
    drawn.segment(folder / "records", "simulation", rows)
    running.run(spark, folder / "records", Store(folder / "data"))
    return Seen(folder / "data" / "traffic", outcome.measures, run.world.ledger)


def plain_run(record: Callable[[Record], object]) -> Run:
    work = Workload(subscriptions=40, publications=200, wildcards=0.3)
    return Run(Plan(3, topologies.generate("random", 8, 3), work), record=record)


def gathered_run(record: Callable[[Record], object], way: str) -> Run:
    reporting = Reporting(keys=8, redundant_for_s=5.0, window_s=10.0, on_the_way=way, witnessed=0.0)
    work = Workload(topics=2, subscriptions=10, publications=200, rate_per_s=40.0)
    plan = Plan(5, topologies.generate("random", 7, 5), work, reporting=reporting)
    return GatheredRun(plan, record=record)


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    rows: list[Record] = []
    return seen(spark, tmp_path_factory.mktemp("plain"), plain_run(rows.append), rows)


@pytest.fixture(scope="module", params=["merge", "nothing"])
def gathered(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Seen:
    rows: list[Record] = []
    return seen(spark, tmp_path_factory.mktemp("gathered"), gathered_run(rows.append, request.param), rows)


def check_links(run: Seen) -> None:
    found = {
        f"{row['sender']}>{row['receiver']}": (row["forwarded"] - row["reports"], row["false_positives"])
        for row in run.rows("links")
    }
    expected = {
        link: (measured.publications, measured.false_positives)
        for link, measured in run.measures.per_link.items()
    }
    assert {link: counts for link, counts in found.items() if any(counts)} == {
        link: counts for link, counts in expected.items() if any(counts)
    }


def check_hops(run: Seen) -> None:
    found: Counter[int] = Counter()
    for row in run.rows("hops"):
        found[row["hops"]] += row["deliveries"]
    expected: Counter[int] = Counter()
    for delivery in run.ledger.deliveries:
        expected[delivery.hops] += len({session for session, _ in delivery.subscriptions})
    assert found == expected
    assert run.sums("latencies")["deliveries"] == found.total() == run.sums("brokers")["delivered"]


def test_links_have_carried_what_the_simulator_counted(plain: Seen) -> None:
    check_links(plain)


def test_links_have_carried_reports_and_events_as_the_simulator_counted(gathered: Seen) -> None:
    check_links(gathered)


def test_hops_of_deliveries_are_those_of_the_ledger(plain: Seen) -> None:
    check_hops(plain)


def test_hops_of_events_are_those_of_the_ledger(gathered: Seen) -> None:
    check_hops(gathered)


def test_messages_between_clients_are_the_deliveries_of_the_ledger(plain: Seen) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for delivery in plain.ledger.deliveries:
        for session in {session for session, _ in delivery.subscriptions}:
            expected[delivery.publication.publisher or "", session] += 1
    assert expected.total() == plain.measures.delivered > 100
    assert plain.graph() == expected


def test_what_became_of_reports_is_what_the_simulator_counted(gathered: Seen) -> None:
    measured = gathered.measures.gathered
    assert measured is not None
    reasons: Counter[str] = Counter()
    for row in gathered.rows("suppression"):
        reasons[row["reason"]] += row["messages"]
    sums = gathered.sums("topics")
    assert (sums["opened"], sums["merged"], sums["told"]) == (measured.opened, measured.merged, measured.told)
    assert (reasons["redundant"], reasons["refused"]) == (measured.redundant, measured.refused)
    assert reasons["dropped on the way"] == measured.dropped_on_the_way
    assert sums["delivered"] == measured.delivered > 50
    assert measured.merged > 20


def test_a_version_comes_from_those_whose_reports_it_was_the_first_to_tell(gathered: Seen) -> None:
    decided = [row for row in gathered.rows("records") if row["kind"] in ("opened", "merged")]
    # Every broker has one publisher, and a report's name begins with that of its broker.
    assert all(row["publisher"] == f"p-{row['report'].partition(':')[0]}" for row in decided)
    made_of = Counter((row["event"], row["version"]) for row in decided)
    parts: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in gathered.rows("contributions"):
        parts[row["event"], row["version"]].add(row["publisher"])
    assert parts.keys() == made_of.keys()
    expected: Counter[tuple[str, str]] = Counter()
    for delivery in gathered.ledger.deliveries:
        told = delivery.publication.told
        assert told is not None
        # What the event itself says of how many reports are in it.
        assert told.reports == sum(made_of[told.event, version + 1] for version in range(told.version))
        for session in {session for session, _ in delivery.subscriptions}:
            for publisher in parts[told.event, told.version]:
                expected[publisher, session] += 1
    assert gathered.graph() == expected
