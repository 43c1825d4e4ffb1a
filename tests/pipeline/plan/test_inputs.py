"""What planners are given from a folder, beside what plain Python makes of the same rows; and its limits."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.judges import plan_counts
from tests.judges.traffic_counts import JUDGES, unique
from tests.pipeline.plan.partitions import partitions
from tests.pipeline.traffic import drawn
from tests.records import workloads as made
from tidings.cli import app
from tidings.errors import InputError
from tidings.pipeline.plan import inputs, sources
from tidings.planning.communities.base import Flows
from tidings.records.record import Kind, Record
from tidings.records.traffic import hour_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def as_pairs(flows: Flows) -> dict[tuple[str, str], float]:
    return {
        (flows.clients[sender], flows.clients[receiver]): count
        for sender, receiver, count in zip(
            flows.senders.tolist(), flows.receivers.tolist(), flows.messages.tolist(), strict=True
        )
    }


@pytest.fixture(scope="module")
def rows() -> list[Record]:
    return drawn.records(11, 1500)


@pytest.fixture(scope="module")
def folder(rows: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments in which some records come twice."""
    found = tmp_path_factory.mktemp("records")
    for number, part in enumerate((rows[:700], rows[700:], rows[600:800])):
        drawn.segment(found, f"x{number}", part)
    return found


def judged(rows: list[Record], hours: range) -> tuple[dict[tuple[str, str], int], dict[str, str]]:
    """Pairs, and homes when the hours are over."""
    pairs = plan_counts.pairs_of_messages(JUDGES["messages"](unique(rows)), hours)  # type: ignore[arg-type]
    return pairs, plan_counts.homes_of_records(row for row in unique(rows) if hour_of(row.at) < hours.stop)


@pytest.mark.slow
def test_records_become_what_plain_python_makes_of_them_from_segments_and_from_tables(
    spark: SparkSession, rows: list[Record], folder: Path, tmp_path: Path
) -> None:
    from tidings.pipeline.tables import Store
    from tidings.pipeline.traffic import running

    running.run(spark, folder, Store(tmp_path))
    hours = range(1, 4)
    pairs, homes = judged(rows, hours)
    asked = plan_counts.requests_of_traffic(JUDGES["requests"](unique(rows)), hours)  # type: ignore[arg-type]
    times = [row.at for row in rows if hour_of(row.at) in hours]
    seconds = (max(times) - min(times)) / 1e6
    known = {pair: count for pair, count in pairs.items() if homes.keys() >= set(pair)}
    for where in (folder, tmp_path, tmp_path / "traffic"):
        source = sources.recorded(where, first=1, until=4)
        assert (source.made is None) == (where is folder)
        talk = inputs.flows(spark, source)
        assert as_pairs(talk.flows) == known
        assert talk.homes == {client: homes[client] for client in {one for pair in known for one in pair}}
        assert talk.about["pairs"] == len(pairs) == len(known)
        assert (talk.about["messages"], talk.about["hours"]) == (sum(pairs.values()), [1, 3])
        rates = inputs.rates(spark, source)
        assert rates.rates == tuple(
            sorted((topic, broker, count / seconds) for (topic, broker), count in asked.items())
        )
        brokers, links = inputs.network(spark, source)
        before = [row for row in rows if hour_of(row.at) < 4]
        assert (brokers, set(links)) == (sorted(drawn.BROKERS), plan_counts.links_of_records(before))
        assert inputs.homes(spark, source, ["c1", "nobody"]) == {"c1": homes["c1"]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 3, 16])
def test_any_number_of_partitions_gives_the_same_inputs(
    spark: SparkSession, tmp_path: Path, seed: int, count: int
) -> None:
    rows = drawn.records(seed, 600)
    drawn.segment(tmp_path, "x", rows)
    source = sources.recorded(tmp_path)
    with partitions(spark, count):
        talk, asked = inputs.flows(spark, source), inputs.rates(spark, source)
    pairs, homes = judged(rows, source.hours)
    assert as_pairs(talk.flows) == {pair: n for pair, n in pairs.items() if homes.keys() >= set(pair)}
    assert sum(rate for _, _, rate in asked.rates) * asked.about["seconds"] == pytest.approx(
        asked.about["requests"]
    )


@pytest.mark.slow
def test_clients_without_a_home_are_left_out_and_told(
    spark: SparkSession, rows: list[Record], tmp_path: Path
) -> None:
    # What is published is lost, so that of those who only send nobody knows where they are.
    kept = [row for row in rows if row.kind not in ("published", "subscribed")]
    drawn.segment(tmp_path, "x", kept)
    source = sources.recorded(tmp_path)
    pairs, homes = judged(kept, source.hours)
    lost = {one for pair in pairs for one in pair if one not in homes}
    assert lost
    talk = inputs.flows(spark, source)
    assert as_pairs(talk.flows) == {pair: count for pair, count in pairs.items() if not lost & set(pair)}
    (warning,) = talk.warnings
    assert warning.startswith(f"{len(lost)} clients such as 'p")


@pytest.mark.slow
def test_more_pairs_than_can_be_planned_are_refused_with_what_would_be_few_enough(
    spark: SparkSession, rows: list[Record], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sources.recorded(folder)
    pairs, _ = judged(rows, source.hours)
    counts = sorted(pairs.values(), reverse=True)
    monkeypatch.setattr(inputs, "PAIRS_MAX", len(counts) // 2)
    with pytest.raises(InputError, match=f"{len(counts)} pairs of clients talk to each other") as refused:
        inputs.flows(spark, source)
    least = int(str(refused.value).partition("--least-messages ")[2].partition(" ")[0])
    assert sum(count >= least for count in counts) <= len(counts) // 2 < sum(n >= least - 1 for n in counts)
    talk = inputs.flows(spark, source, least_messages=least)
    assert as_pairs(talk.flows) == {pair: count for pair, count in pairs.items() if count >= least}
    assert talk.about["kept_pairs"] < talk.about["pairs"] == len(counts)
    monkeypatch.setattr(inputs, "CLIENTS_MAX", 2)
    with pytest.raises(InputError, match="clients talk to each other; plans are made for up to 2"):
        inputs.flows(spark, source, least_messages=least)
    with pytest.raises(InputError, match="no pair of clients has 1,000,000 messages; give less"):
        inputs.flows(spark, source, least_messages=1_000_000)


@pytest.mark.slow
def test_more_requests_than_can_be_planned_are_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sources.recorded(folder)
    monkeypatch.setattr(inputs, "RATES_MAX", 1)
    with pytest.raises(InputError, match=r"plans are made for up to 1\. Leave out topics"):
        inputs.rates(spark, source)
    with pytest.raises(InputError, match="no topic is asked for 1,000,000 times"):
        inputs.rates(spark, source, least_requests=1_000_000)


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    found = made.drawn(12, subscriptions=60, events=40)
    source = random.Random(4)
    found["requests"] = [
        {
            "client": source.randrange(made.CLIENTS),
            "topic": source.choice(made.TOPICS),
            "at": made.START_US + source.randrange(90) * made.SECOND_US,
            "where": "TRUE",
            "since": made.START_US,
            "until": made.START_US,
        }
        for _ in range(50)
    ]
    return made.write(tmp_path_factory.mktemp("workload"), parts=3, **found), found


@pytest.mark.parametrize(
    "memory", [pytest.param(20_000, id="cells", marks=pytest.mark.slow), pytest.param(2**20, id="index")]
)
def test_a_workload_becomes_what_plain_python_makes_of_it(
    spark: SparkSession, workload: tuple[Path, dict[str, Any]], memory: int
) -> None:
    folder, tables = workload
    said = CliRunner().invoke(app, ["match", "--workload", str(folder)])
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    matches = {line["event"]: line["matches"] for line in lines}
    client_of = {row["subscription"]: row["client"] for row in tables["subscriptions"]}
    spoken = [(row["event"], row["client"]) for row in tables["reports"]]
    home_of = {row["client"]: row["broker"] for row in tables["clients"]}
    expected = plan_counts.pairs_of_matches(matches, client_of, spoken)
    assert len(expected) > 20
    talk = inputs.flows(spark, sources.generated(folder, memory_bytes=memory))
    assert as_pairs(talk.flows) == expected
    assert talk.homes == {client: home_of[int(client)] for client in talk.flows.clients}
    assert talk.warnings == ()


@pytest.mark.slow
def test_requests_of_a_workload_become_what_plain_python_makes_of_them(
    spark: SparkSession, workload: tuple[Path, dict[str, Any]]
) -> None:
    folder, tables = workload
    home_of = {row["client"]: row["broker"] for row in tables["clients"]}
    asked = inputs.rates(spark, sources.generated(folder))
    counted = plan_counts.requests_of_workload(
        [(row["client"], row["topic"]) for row in tables["requests"]], home_of
    )
    times = [row["at"] for name in ("events", "reports", "requests") for row in tables[name]]
    seconds = (max(times) - min(times)) / 1e6
    assert asked.rates == tuple(sorted((*pair, count / seconds) for pair, count in counted.items()))
    assert asked.about["requests"] == 50


@pytest.mark.slow
def test_without_reports_an_event_is_told_by_its_client(
    spark: SparkSession, workload: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    tables = {name: rows for name, rows in workload[1].items() if name not in ("reports", "requests")}
    made.write(tmp_path, **tables)
    talk = inputs.flows(spark, sources.generated(tmp_path))
    senders = {sender for sender, _ in as_pairs(talk.flows)}
    assert senders <= {str(row["client"]) for row in tables["events"]}
    with pytest.raises(InputError, match=r"has no requests\. Make one that has"):
        inputs.rates(spark, sources.generated(tmp_path))


@pytest.mark.slow
def test_where_nobody_talks_there_is_nothing_to_plan(spark: SparkSession, tmp_path: Path) -> None:
    drawn.segment(tmp_path, "x", [Record("a", 1, 1, 5, Kind.PUBLISHED, publisher="p")])
    source = sources.recorded(tmp_path)
    with pytest.raises(InputError, match="nobody sent anything that somebody received"):
        inputs.flows(spark, source)
    with pytest.raises(InputError, match="have no requests from hour 0 to the end of hour 0"):
        inputs.rates(spark, source)
