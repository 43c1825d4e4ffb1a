"""Links: overlays of five kinds, all of them connected, with the time over each link."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.judges import workload_links as twin
from tests.workload.models import tiny
from tidings.errors import InputError
from tidings.pipeline.workload import brokers, links
from tidings.workload import topologies
from tidings.workload.embedding import distances
from tidings.workload.model import Model


def made(overlay: str, count: int, **asked: Any) -> Model:
    # Brokers all over the place: nodes that lie on a line have few neighbours worth a test.
    return tiny(
        sizes={"brokers": count},
        links={"overlay": overlay, **asked},
        clients={"vicinity_ms": 80.0},
    )


def graph(model: Model) -> nx.Graph:
    table = links.table(model)
    found = nx.Graph()
    found.add_nodes_from(brokers.table(model)["broker"].to_pylist())
    found.add_weighted_edges_from(
        zip(*(table[name].to_pylist() for name in ("a", "b", "delay_ms")), strict=True), weight="delay_ms"
    )
    assert found.number_of_edges() == len(table), "no link is there twice"
    return found


@pytest.mark.parametrize("overlay", list(links.OVERLAYS))
@pytest.mark.parametrize("count", [1, 2, 3, 11])
def test_overlays_are_connected(overlay: str, count: int) -> None:
    model = made(overlay, count, topology="topozoo/Abilene")
    found = graph(model)
    assert nx.is_connected(found)
    assert found.number_of_nodes() == count
    assert nx.number_of_selfloops(found) == 0


@settings(max_examples=examples(30))
@given(
    st.sampled_from(["nearest", "tree", "random", "power-law"]),
    st.integers(1, 60),
    st.integers(1, 12),
)
def test_overlays_of_any_size_and_degree_are_connected(overlay: str, count: int, degree: int) -> None:
    assert nx.is_connected(graph(made(overlay, count, degree=degree)))


@pytest.mark.parametrize("overlay", list(links.OVERLAYS))
def test_links_are_those_of_the_twin(overlay: str) -> None:
    model = made(overlay, 20, topology="sndlib/germany50")
    table = links.table(model)
    judged = twin.rows(model, {"brokers": brokers.table(model)})
    ends = [("a", "ascending"), ("b", "ascending")]
    assert table.sort_by(ends).equals(judged.sort_by(ends))


@pytest.mark.parametrize("overlay", list(links.OVERLAYS))
def test_ends_are_in_order_of_number(overlay: str) -> None:
    table = links.table(made(overlay, 12, topology="sndlib/polska"))
    pairs = [(int(a[1:]), int(b[1:])) for a, b in zip(*map(pa_list, (table["a"], table["b"])), strict=True)]
    assert all(a < b for a, b in pairs)
    assert pairs == sorted(pairs)


def pa_list(column: Any) -> list[str]:
    found: list[str] = column.to_pylist()
    return found


def test_the_time_over_a_link_is_half_of_the_round_trip() -> None:
    model = made("random", 15)
    _, points = brokers.points(model)
    for a, b, delay in graph(model).edges(data="delay_ms"):
        expected = float(distances(points[int(a[1:])], points[int(b[1:])])) / 2
        assert delay == max(expected, links.DELAY_MIN_MS)


def test_brokers_in_one_place_have_a_wire_between_them() -> None:
    model = tiny(sizes={"brokers": 60}, clients={"vicinity_ms": 0.0})
    found = graph(model)
    assert nx.is_connected(found)
    assert min(delay for _, _, delay in found.edges(data="delay_ms")) == 0.01


def test_the_tree_is_the_shortest() -> None:
    model = made("tree", 40)
    found = graph(model)
    _, points = brokers.points(model)
    whole = nx.Graph()
    whole.add_weighted_edges_from(
        (a, b, float(distances(points[a], points[b])) / 2) for b in range(40) for a in range(b)
    )
    expected = nx.minimum_spanning_tree(whole).size(weight="weight")
    assert nx.is_tree(found)
    assert found.size(weight="delay_ms") == pytest.approx(expected)


def test_nearest_has_the_nearest_of_each() -> None:
    model = made("nearest", 40, degree=4)
    found = graph(model)
    _, points = brokers.points(model)
    for broker in range(40):
        near = np.argsort(distances(points, points[broker]))[1:3]
        assert all(found.has_edge(f"b{broker}", f"b{other}") for other in near)


def test_clusters_are_joined_by_the_shortest_links() -> None:
    points = np.zeros((6, 5))
    points[:, 0] = [0.0, 1.0, 10.0, 11.5, 30.0, 31.0]
    assert links.connected({(0, 1), (2, 3), (4, 5)}, points) == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)}


@pytest.mark.parametrize("overlay", ["nearest", "random", "power-law"])
@pytest.mark.parametrize("degree", [3, 6])
def test_brokers_have_the_degree_about(overlay: str, degree: int) -> None:
    found = graph(made(overlay, 200, degree=degree))
    mean = 2 * found.number_of_edges() / 200
    assert degree * 0.8 <= mean <= degree * 1.2


def test_power_law_has_hubs() -> None:
    hubs, even = (
        max(degree for _, degree in graph(made(overlay, 300, degree=4)).degree())
        for overlay in ("power-law", "random")
    )
    assert hubs > 2 * even


def test_random_knows_nothing_of_places() -> None:
    longer, shorter = (graph(made(overlay, 100)).size(weight="delay_ms") for overlay in ("random", "nearest"))
    assert longer > 2 * shorter


def test_a_topology_of_as_many_nodes_is_that_topology() -> None:
    import topohub

    read = nx.node_link_graph(topohub.get("topozoo/Abilene"), edges="edges")
    found = graph(made("topohub", read.number_of_nodes(), topology="topozoo/Abilene"))
    assert nx.is_isomorphic(found, read)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"topology": ""}, "links.topology is empty"),
        ({"topology": "topozoo/Abilen"}, "'topozoo/Abilen' is not in topohub; near it are 'topozoo/Abilene'"),
        ({"topology": "?"}, "'?' is not in topohub; it has backbone/africa"),
        ({"topology": "../secrets"}, "is not in topohub"),
        ({"topology": "topozoo/Abilene"}, "has 11 nodes and the workload 12 brokers"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(asked: dict[str, str], says: str) -> None:
    with pytest.raises(InputError) as error:
        topologies.check(made("topohub", 12, **asked).spec)
    assert says in str(error.value)


def test_every_topology_is_found() -> None:
    assert len(topologies.names()) > 500
    assert {"backbone/africa", "gabriel/25/0", "sndlib/polska"} <= set(topologies.names())
