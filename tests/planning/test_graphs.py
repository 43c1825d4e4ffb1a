"""Networks as planners see them."""

from __future__ import annotations

import itertools
import math
from random import Random

import networkx as nx
import pytest

from tests.planning.networks import random_graph
from tidings.errors import InputError
from tidings.planning.graphs import Graph, in_order


def test_whole_numbers_are_in_the_order_of_their_size_and_texts_in_that_of_their_bytes() -> None:
    assert in_order(["10", "2", "1"]) == ["1", "2", "10"]
    assert in_order(["10", "2", "-1", "-10"]) == ["-10", "-1", "2", "10"]
    assert in_order(["10", "2", "-"]) == ["-", "10", "2"]
    assert in_order(["10", "2", "x"]) == ["10", "2", "x"]


@pytest.mark.parametrize("seed", range(5))
def test_distances_are_those_of_another_library(seed: int) -> None:
    graph = random_graph(Random(seed), 15, extra=6, lengths=True)
    judge = nx.Graph()
    judge.add_weighted_edges_from(graph.links)
    for one, lengths in nx.all_pairs_dijkstra_path_length(judge):
        for other, length in lengths.items():
            assert graph.distances[one, other] == length


@pytest.mark.parametrize("seed", range(5))
def test_the_way_to_a_target_is_a_shortest_one_through_the_lowest_neighbours(seed: int) -> None:
    graph = random_graph(Random(seed), 12, extra=8)
    for target in range(12):
        for at, via in enumerate(graph.towards(target)):
            far = graph.distances[target]
            if at == target:
                assert via == target
                continue
            good = [other for other, length in graph.neighbours[at].items() if far[other] + length == far[at]]
            assert via == min(good)


def test_a_link_that_is_named_twice_counts_once_at_its_shorter_length() -> None:
    graph = Graph.of([("a", "b", 3.0), ("b", "a", 2.0)])
    assert graph.links == ((0, 1, 2.0),)


def test_a_single_broker_is_a_network() -> None:
    assert Graph.of([], ["alone"]).distances.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ([], "has no brokers"),
        ([("a", "a", 1.0)], "linked to itself"),
        ([("a", "b", 1.0), ("c", "d", 1.0)], "in pieces: 'c' is not reached from 'a'"),
        *(([("a", "b", bad)], "lengths are numbers above 0") for bad in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_what_is_no_network_is_refused_with_the_reason(
    links: list[tuple[str, str, float]], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        Graph.of(links)


def test_the_order_in_which_links_are_named_does_not_matter() -> None:
    links = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "a", 3.0)]
    made = {Graph.of(one).links for one in itertools.permutations(links)}
    assert len(made) == 1


def test_a_graph_that_need_not_be_whole_says_who_is_apart() -> None:
    graph = Graph.of([("a", "b", 1.0), ("c", "d", 1.0)], "e", whole=False)
    assert graph.apart == ("c", "d", "e")
    assert graph.distances[0].tolist() == [0.0, 1.0, math.inf, math.inf, math.inf]
    alone = Graph.of([], "ab", whole=False)
    assert alone.distances.tolist() == [[0.0, math.inf], [math.inf, 0.0]]
    assert Graph.of([], "a").apart == ()
