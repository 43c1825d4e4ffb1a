"""Topologies: what generators promise, and what files may say."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from tidings.errors import InputError
from tidings.planning import topologies
from tidings.planning.topologies import Link, Place, Topology


def graph_of(topology: Topology) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(topology.ids)
    graph.add_edges_from((link.one, link.other) for link in topology.links)
    return graph


@pytest.mark.parametrize("name", list(topologies.GENERATORS))
@pytest.mark.parametrize("count", [1, 2, 3, 17, 60])
def test_every_generated_network_is_connected_without_loops_or_double_links(name: str, count: int) -> None:
    topology = topologies.generate(name, count, seed=3)
    assert topologies.checked(topology, name) is topology
    graph = graph_of(topology)
    assert nx.is_connected(graph)
    assert len(graph) == count
    assert graph.number_of_edges() == len(topology.links)


@pytest.mark.parametrize("name", ["random", "power-law"])
def test_a_seed_decides_what_chance_decides(name: str) -> None:
    assert topologies.generate(name, 30, 1) == topologies.generate(name, 30, 1)
    assert topologies.generate(name, 30, 1) != topologies.generate(name, 30, 2)


def test_shapes_are_what_they_are_called() -> None:
    degrees = {name: sorted(dict(graph_of(topologies.generate(name, 9, 0)).degree).values())
               for name in ("path", "ring", "star", "tree", "grid")}  # fmt: skip
    assert degrees["path"] == [1, 1, *[2] * 7]
    assert degrees["ring"] == [2] * 9
    assert degrees["star"] == [*[1] * 8, 8]
    assert degrees["grid"] == [2, 2, 2, 2, 3, 3, 3, 3, 4]
    assert nx.is_tree(graph_of(topologies.generate("tree", 9, 0)))


def test_a_power_law_network_has_few_with_many_links() -> None:
    degrees = sorted(dict(graph_of(topologies.generate("power-law", 300, 0)).degree).values())
    assert degrees[-1] > 10 * degrees[len(degrees) // 2]


def test_ids_sort_as_they_count() -> None:
    assert topologies.ids(3) == ["b000", "b001", "b002"]
    assert topologies.ids(1001)[-1] == "b1000"
    assert topologies.ids(1001) == sorted(topologies.ids(1001))


def test_delays_come_from_a_constant_from_distance_or_from_a_matrix(tmp_path: Path) -> None:
    topology = Topology((Place("a", 0, 0), Place("b", 0.3, 0.4)), (Link("a", "b"),))
    file = tmp_path / "latencies.csv"
    file.write_text("ms,a,b\na,0,12.5\nb,12.5,0\n", encoding="utf-8")
    models = [
        topologies.constant_delay(0.002),
        topologies.distance_delay(across_s=0.1),
        topologies.matrix_delay(topologies.read_latencies(file)),
    ]
    delays = [topology.with_delays(model).links[0].delay_s for model in models]
    assert delays == pytest.approx([0.002, 0.05, 0.0125])


def test_a_missing_latency_is_named() -> None:
    topology = topologies.path(2)
    with pytest.raises(InputError, match="none between b000 and b001"):
        topology.with_delays(topologies.matrix_delay({}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("ms,a,b\na,0\n", ":2: 1 values for 2 ids"),
        ("ms,a\na,slow\n", "'slow' is not a latency"),
        ("ms,a\na,-1\n", "'-1' is not a latency"),
    ],
)
def test_a_bad_latency_matrix_is_refused_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "latencies.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        topologies.read_latencies(file)


def test_a_graph_of_networkx_is_taken_with_its_delays() -> None:
    graph = nx.Graph()
    graph.add_node("x", x=1.0, y=2.0)
    graph.add_edge("x", "y", delay_s=0.25)
    topology = topologies.from_graph(graph)
    assert topology.places[0] == Place("x", 1.0, 2.0)
    assert topology.links == (Link("x", "y", 0.25),)


def test_graphml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "net.graphml"
    nx.write_graphml(nx.cycle_graph(5), file)
    topology = topologies.read(file)
    assert topology.ids == ("0", "1", "2", "3", "4")
    assert len(topology.links) == 5


TOML = """
[[broker]]
id = "athens"
position = [23.7, 37.9]

[[broker]]
id = "patras"

[[link]]
between = ["athens", "patras"]
delay = "5ms"
bytes_per_s = 1000
both_dial = true
"""


def test_a_broker_may_name_its_cluster_in_either_form(tmp_path: Path) -> None:
    by_hand = tmp_path / "net.toml"
    by_hand.write_text(TOML.replace('id = "patras"', 'id = "patras"\ncluster = "south"'), encoding="utf-8")
    assert [place.cluster for place in topologies.read(by_hand).places] == [None, "south"]
    graph = nx.path_graph(2)
    graph.nodes[1]["cluster"] = "south"
    nx.write_graphml(graph, tmp_path / "net.graphml")
    assert [place.cluster for place in topologies.read(tmp_path / "net.graphml").places] == [None, "south"]


def test_toml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(TOML, encoding="utf-8")
    topology = topologies.read(file)
    assert topology.places == (Place("athens", 23.7, 37.9), Place("patras"))
    assert topology.links == (Link("athens", "patras", 0.005, 1000.0, both_dial=True),)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("[[broker]]\nid = 3\n[[link]]\nbetween = 'a'\ndelay = 5\n",
         ["broker 1 has no id", "link 1 does not say between whom", "delay 5 has no unit"]),
        ("[[broker]]\nid = 'a'\nplace = 1\nposition = [1]\n", ["'place' is not known", "not two numbers"]),
        ("[[broker]]\nid = 'a'\ncluster = 3\n", ["broker a: cluster 3 is not a name"]),
        ("[[broker]]\nid = 'a'\n[[broker]]\nid = 'a'\n", ["'a' is there twice"]),
        ("[[broker]]\nid = 'a'\n[[broker]]\nid = 'b'\n", ["not connected: no way leads from 'a' to 'b'"]),
        ("[[broker]]\nid = 'a'\n[[link]]\nbetween = ['a', 'x']\n", ["broker 'x', which is not there"]),
        ("[[broker]]\nid = 'a'\n[[link]]\nbetween = ['a', 'a']\n", ["linked to itself"]),
        ("[[link]]\nbetween = ['a', 'b']\nbytes_per_s = 0\nboth_dial = 3\n",
         ["bytes_per_s 0 is not", "both_dial 3 is neither"]),
        ("brokers = 3\n", ["'brokers' is not known here"]),
        ("broker = 3\n", ["'broker' is not a list of tables"]),
        ("", ["there is no broker"]),
        ("[[", ["is not TOML"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path, text: str, reasons: list[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        topologies.read(file)
    for reason in reasons:
        assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["none.toml", "none.graphml"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"none\.\w+ cannot be read: No such file"):
        topologies.read(tmp_path / name)


def test_what_is_not_graphml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.graphml"
    file.write_text("hello", encoding="utf-8")
    with pytest.raises(InputError, match="is not GraphML"):
        topologies.read(file)


@pytest.mark.parametrize(("name", "count"), [("torus", 3), ("path", 0), ("path", 10**9)])
def test_a_topology_that_cannot_be_generated_is_refused(name: str, count: int) -> None:
    with pytest.raises(InputError, match=r"unknown|cannot be simulated"):
        topologies.generate(name, count, 0)
