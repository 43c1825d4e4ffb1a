"""Clusters of brokers from link delays."""

from __future__ import annotations

from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.planning.communities.clusters import derived
from tidings.planning.graphs import Graph

SIZES = (3, 5, 8, 4)


def sites(near_ms: float, far_ms: float) -> Graph:
    """A star of brokers around a hub at each site, and a chain of gateways, one beside each hub."""
    links = []
    for site, size in enumerate(SIZES):
        links += [(f"s{site}hub", f"s{site}b{member}", near_ms) for member in range(size)]
        links.append((f"s{site}gate", f"s{site}hub", near_ms))
        if site:
            links.append((f"s{site - 1}gate", f"s{site}gate", far_ms))
    return Graph.of(links)


@pytest.mark.parametrize("count", [None, len(SIZES)])
def test_brokers_of_a_site_are_a_cluster_named_for_the_lowest(count: int | None) -> None:
    found = derived(sites(1.0, 20.0), count)
    assert found == {name: f"s{name[1]}b0" for name in found}
    assert len(set(found.values())) == len(SIZES)


def test_gateways_without_clients_are_of_the_backbone() -> None:
    graph = sites(1.0, 20.0)
    seated = [name for name in graph.names if "gate" not in name]
    found = derived(graph, None, seated)
    assert {name for name, cluster in found.items() if not cluster} == {f"s{site}gate" for site in range(4)}


def test_a_broker_that_holds_its_cluster_together_is_not_of_the_backbone() -> None:
    # Two stars whose hubs are linked: without its hub, a star is in pieces.
    links = [(f"{hub}hub", f"{hub}{member}", 1.0) for hub in "ab" for member in range(3)]
    found = derived(
        Graph.of([*links, ("ahub", "bhub", 9.0)]), 2, [f"{hub}{at}" for hub in "ab" for at in range(3)]
    )
    assert set(found.values()) == {"a0", "b0"}


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    brokers = draw(st.integers(1, 14))
    rng = Random(draw(st.integers(0, 10**6)))
    links = [(f"b{at}", f"b{rng.randrange(at)}", float(rng.randint(1, 9))) for at in range(1, brokers)]
    pairs = [rng.sample(range(brokers), 2) for _ in range(rng.randrange(4))] if brokers > 1 else []
    links += [(f"b{a}", f"b{b}", float(rng.randint(1, 9))) for a, b in pairs]
    return Graph.of(links, [f"b{at}" for at in range(brokers)])


def in_one_piece(graph: Graph, members: list[str]) -> bool:
    judge = nx.Graph()
    judge.add_nodes_from(graph.names)
    judge.add_edges_from((graph.names[a], graph.names[b]) for a, b, _ in graph.links)
    return bool(nx.is_connected(judge.subgraph(members)))


@given(networks(), st.data())
def test_there_are_as_many_clusters_as_asked_for_and_each_is_in_one_piece(
    graph: Graph, data: st.DataObject
) -> None:
    count = data.draw(st.none() | st.integers(1, len(graph.names)))
    found = derived(graph, count)
    clusters = sorted(set(found.values()))
    assert list(found) == list(graph.names)
    if count is not None:
        assert len(clusters) == count
    for cluster in clusters:
        members = [name for name in graph.names if found[name] == cluster]
        assert members[0] == cluster
        assert in_one_piece(graph, members)


@given(networks(), st.data())
def test_only_brokers_without_clients_that_join_clusters_are_of_the_backbone(
    graph: Graph, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(graph.names)))
    seated = data.draw(st.sets(st.sampled_from(graph.names)))
    whole, found = derived(graph, count), derived(graph, count, seated)
    for at, name in enumerate(graph.names):
        if found[name]:
            assert found[name] == whole[name]
        else:
            assert name not in seated
            assert {whole[graph.names[other]] for other in graph.neighbours[at]} - {whole[name]}
    assert set(whole.values()) == set(found.values()) - {""}
    for cluster in set(whole.values()):
        assert in_one_piece(graph, [name for name in graph.names if found[name] == cluster])


def joined_slowly(graph: Graph, count: int) -> set[frozenset[int]]:
    """The same said plainly: look at all pairs of linked clusters, join the nearest, look again."""
    clusters = [frozenset([at]) for at in range(len(graph.names))]
    links = {frozenset((a, b)) for a, b, _ in graph.links}
    while len(clusters) > count:
        pairs = [
            (a, b)
            for a in clusters
            for b in clusters
            if min(a) < min(b) and any(frozenset((x, y)) in links for x in a for y in b)
        ]

        def near(pair: tuple[frozenset[int], frozenset[int]]) -> tuple[float, int, int, int]:
            a, b = pair
            mean = sum(float(graph.distances[x, y]) for x in a for y in b) / (len(a) * len(b))
            return round(mean, 9), len(a) + len(b), min(a), min(b)

        a, b = min(pairs, key=near)
        clusters = [one for one in clusters if one not in (a, b)] + [a | b]
    return set(clusters)


@given(networks(), st.data())
def test_clusters_are_those_that_a_plain_version_finds(graph: Graph, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(graph.names)))
    found = derived(graph, count)
    parts = {
        frozenset(graph.place[name] for name in found if found[name] == cluster)
        for cluster in set(found.values())
    }
    assert parts == joined_slowly(graph, count)


@pytest.mark.parametrize("count", [0, -1, 4])
def test_a_number_of_clusters_that_cannot_be_is_refused(count: int) -> None:
    graph = Graph.of([("a", "b", 1.0), ("b", "c", 1.0)])
    with pytest.raises(InputError, match=f"{count} clusters of 3 brokers; give 1 to 3"):
        derived(graph, count)


def test_clients_at_a_broker_that_is_none_are_refused() -> None:
    with pytest.raises(InputError, match="at 'z', which is no broker"):
        derived(Graph.of([("a", "b", 1.0)]), 1, ["z"])
