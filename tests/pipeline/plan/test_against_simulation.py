"""From a simulated network to a plan: simulate, records, traffic, planners; the same plan each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.plan.partitions import partitions
from tests.pipeline.traffic import drawn
from tidings.pipeline.plan import inputs, sources
from tidings.pipeline.tables import Store
from tidings.planning import plans, topologies
from tidings.planning.communities import published
from tidings.planning.communities.base import Flows, Limits, Network
from tidings.planning.communities.clusters import derived
from tidings.planning.graphs import Graph
from tidings.planning.topologies import Topology
from tidings.records.record import Record
from tidings.sim.brokers.run import Plan, Run
from tidings.sim.brokers.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass
class Simulated:
    """A run, where its records and its traffic are, and what the simulator itself has seen."""

    records: Path
    topology: Topology
    messages: Counter[tuple[str, str]]
    homes: dict[str, str]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    rows: list[Record] = []
    topology = topologies.generate("tree", 7, 3)
    work = Workload(topics=3, subscriptions=30, publications=150, matching=4.0)
    run = Run(Plan(3, topology, work), record=rows.append)
    assert run.run().breaches == []
    messages: Counter[tuple[str, str]] = Counter()
    for delivery in run.world.ledger.deliveries:
        for session in {session for session, _ in delivery.subscriptions}:
            messages[delivery.publication.publisher or "", session] += 1
    homes = {client.session: host.id for host in run.world.hosts.values() for client in host.clients}
    folder = tmp_path_factory.mktemp("simulated")
    for at, broker in enumerate(topology.ids):
        drawn.segment(folder, broker, [row for row in rows if row.broker == broker], at)
    return Simulated(folder, topology, messages, homes)


@pytest.fixture(scope="module")
def traffic(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of its traffic."""
    from tidings.pipeline.traffic import running

    folder = tmp_path_factory.mktemp("data")
    running.run(spark, simulated.records, Store(folder))
    return folder


def planned(spark: SparkSession, folder: Path) -> plans.MovesPlan:
    """As the command does it, with what records say of the network."""
    source = sources.recorded(folder)
    talk = inputs.flows(spark, source)
    brokers, links = inputs.network(spark, source)
    return moved(Graph.of(((a, b, 1.0) for a, b in links), brokers), talk.flows, dict(talk.homes))


def moved(graph: Graph, flows: Flows, homes: dict[str, str]) -> plans.MovesPlan:
    clusters = derived(graph, 2, set(homes.values()))
    network = Network.of(graph, clusters, homes, flows.clients)
    seating = published.planned(network, flows, Limits(overload=2.0))
    return plans.of_moves(network, flows, seating, "published", {})


@pytest.mark.slow
def test_a_simulated_network_is_planned_as_the_simulator_has_seen_it(
    spark: SparkSession, simulated: Simulated
) -> None:
    made = planned(spark, simulated.records)
    links = ((link.one, link.other, 1.0) for link in simulated.topology.links)
    flows = Flows.of((*pair, float(count)) for pair, count in simulated.messages.items())
    homes = {name: simulated.homes[name] for name in flows.clients}
    assert plans.write(made) == plans.write(moved(Graph.of(links), flows, homes))
    assert made.moves
    assert made.hops.after < made.hops.before


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 16])
def test_segments_and_tables_give_the_same_plan_with_any_number_of_partitions(
    spark: SparkSession, simulated: Simulated, traffic: Path, count: int
) -> None:
    expected = plans.write(planned(spark, simulated.records))
    with partitions(spark, count):
        assert plans.write(planned(spark, traffic)) == expected
        assert plans.write(planned(spark, simulated.records)) == expected
