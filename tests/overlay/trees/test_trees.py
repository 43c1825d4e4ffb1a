"""Trees: shortest paths from their roots, made and repaired by neighbours, one epoch at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import (
    BEGIN,
    BELOW,
    EPOCH,
    Bench,
    Middle,
    Peer,
    carried,
    kinds,
    path,
    publication,
    publish,
    ring,
    started,
)
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Deliver, Grant, SessionOpened, SubscriptionAsked, TimerFired
from tidings.overlay.publishing.batches import packed
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.routing.messages import Change, Confirm
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Distance, Epoch, Grow, Join, Regrow, Roll, Seek
from tidings.overlay.trees.trees import ASK_AGAIN_S, LANES, NO_EPOCH, lane_of, pick

IDS = ["Z", "a", "a1", "a10", "a2", "é", "ﬀ", "\uffee", "😀"]
"""Ids whose order is not that of people, nor that of UTF-16."""


def some_graph(rng: random.Random, most: int = 8) -> networkx.Graph:
    """A connected graph with cycles."""
    ids = rng.sample(IDS, rng.randint(2, most))
    graph = networkx.Graph()
    graph.add_node(ids[0])
    for at, id_ in enumerate(ids[1:], 1):
        graph.add_edge(id_, rng.choice(ids[:at]))
    for _ in range(rng.randint(0, len(ids))):
        one, other = rng.sample(ids, 2)
        graph.add_edge(one, other)
    return graph


def bench_of(graph: networkx.Graph, seed: int = 0, trees: int = 1) -> Bench:
    return Bench(list(graph), list(graph.edges), replace(DEFAULT, trees=trees), seed=seed)


def parents(graph: networkx.Graph, root: str) -> dict[str, str | None]:
    """The tree that everybody should know: shortest paths, ties to the smaller neighbour, as UTF-8 bytes."""
    hops = networkx.single_source_shortest_path_length(graph, root)
    return {
        id_: min(
            (other for other in graph[id_] if hops[other] == hops[id_] - 1),
            key=lambda other: other.encode(),
            default=None,
        )
        for id_ in hops
    }


def check_tree(bench: Bench, graph: networkx.Graph, root: str) -> None:
    """All that is in reach of a root agrees on its tree."""
    wanted = parents(graph, root)
    hops = networkx.single_source_shortest_path_length(graph, root)
    epochs = set()
    for id_ in wanted:
        tree = bench.tree(id_, root)
        assert tree.parent == wanted[id_]
        assert tree.hops == hops[id_]
        assert tree.children == tuple(sorted(other for other in wanted if wanted[other] == id_))
        assert tree.members == tuple(sorted(wanted))
        assert not tree.growing
        epochs.add(tree.epoch)
    assert len(epochs) == 1
    assert NO_EPOCH not in epochs


def check_no_loop(bench: Bench) -> None:
    """Whoever follows parents in one epoch, or distances at any time, never comes back."""
    trees = {id_: bench[id_]._trees.trees for id_ in bench.running()}
    for id_, own in trees.items():
        for root, tree in own.items():
            for grown in (tree.current, tree.growing):
                if grown is None:
                    continue
                seen, at = {id_}, grown.parent
                while at is not None and at in trees and root in trees[at]:
                    assert at not in seen, "a loop of parents"
                    seen.add(at)
                    there = trees[at][root]
                    same = [it for it in (there.current, there.growing) if it and it.epoch == grown.epoch]
                    at = same[0].parent if same else None
            seen, at = {id_}, tree.via
            while at is not None and at in trees and root in trees[at]:
                assert at not in seen, "a loop of distances"
                seen.add(at)
                at = trees[at][root].via


def check_answers(bench: Bench) -> None:
    """Over each link, each way, one word per epoch: Grow or Join."""
    words: Counter[tuple[str, str, str, tuple[int, int]]] = Counter()
    for kind in (Grow, Join):
        for source, target, message in bench.said(kind):
            assert isinstance(message, Grow | Join)
            words[source, target, message.root, message.epoch] += 1
    assert set(words.values()) == {1}


graphs = st.integers(0, 2**32 - 1).map(lambda seed: some_graph(random.Random(seed)))


@given(graphs)
@settings(max_examples=examples(100))
def test_the_tree_is_that_of_shortest_paths_from_the_smallest_id(graph: networkx.Graph) -> None:
    bench = bench_of(graph)
    bench.settle()
    root = min(graph, key=str.encode)
    assert {bench.status(id_).share for id_ in graph} == {(root,)}
    check_tree(bench, graph, root)
    check_answers(bench)


@given(graphs, st.integers(2, 4))
@settings(max_examples=examples(40))
def test_the_roots_of_several_trees_are_the_smallest_ids(graph: networkx.Graph, trees: int) -> None:
    bench = bench_of(graph, trees=trees)
    bench.settle()
    roots = tuple(sorted(graph, key=str.encode)[:trees])
    assert {bench.status(id_).share for id_ in graph} == {roots}
    for root in roots:
        check_tree(bench, graph, root)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60))
def test_no_loop_forms_whatever_comes_first_and_whatever_breaks(seed: int) -> None:
    rng = random.Random(seed)
    graph = some_graph(rng, 7)
    bench = bench_of(graph, seed)
    cuts: list[tuple[str, str]] = []
    for _ in range(400):
        roll = rng.random()
        boxes = bench.waiting()
        if roll < 0.02 and len(cuts) < 2:
            one, other = rng.choice(sorted(graph.edges))
            cuts.append((one, other))
            bench.cut(one, other)
        elif roll < 0.03 and cuts:
            bench.heal(*cuts.pop())
        elif boxes and roll < 0.9:
            bench.step(rng.choice(boxes))
        else:
            bench.now += rng.choice([0.0, 0.02, 0.3, 1.1])
            for id_ in bench.running():
                due = bench[id_].next_deadline()
                if due is not None and due <= bench.now:
                    bench.tell(id_, TimerFired())
        check_no_loop(bench)
    for one, other in cuts:
        bench.heal(one, other)
    bench.advance(20.0)
    check_no_loop(bench)
    check_tree(bench, graph, min(graph, key=str.encode))


def without(graph: networkx.Graph, *gone: str) -> networkx.Graph:
    graph = graph.copy()
    graph.remove_nodes_from(gone)
    return graph


def graph_of(links: Iterable[tuple[str, str]]) -> networkx.Graph:
    return networkx.Graph(list(links))


# Repair.


def test_a_tree_is_repaired_when_a_link_dies() -> None:
    links = ring("a", "b", "c", "d", "e")
    bench = Bench("abcde", links)
    bench.settle()
    bench.cut("a", "b")
    bench.settle()
    graph = graph_of(links)
    graph.remove_edge("a", "b")
    check_tree(bench, graph, "a")


def test_a_tree_is_repaired_when_a_broker_dies_and_when_it_returns() -> None:
    links = ring("a", "b", "c", "d", "e")
    bench = Bench("abcde", links)
    bench.settle()
    bench.kill("b")
    bench.settle()
    check_tree(bench, without(graph_of(links), "b"), "a")
    bench.start("b")
    bench.settle()
    check_tree(bench, graph_of(links), "a")


def test_a_tree_takes_in_a_broker_and_a_shorter_way() -> None:
    links = path("a", "b", "c", "d")
    bench = Bench("abcde", links)
    bench.settle()
    check_tree(bench, graph_of(links), "a")
    bench.join("e", "d")
    bench.join("e", "a")
    bench.settle()
    check_tree(bench, graph_of([*links, ("e", "d"), ("e", "a")]), "a")


def test_a_partition_has_a_root_on_each_side_and_heals() -> None:
    links = path("a", "b", "c", "d")
    bench = Bench("abcd", links)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    check_tree(bench, graph_of(path("a", "b")), "a")
    check_tree(bench, graph_of(path("c", "d")), "c")
    assert [bench.status(id_).share for id_ in "abcd"] == [("a",), ("a",), ("c",), ("c",)]
    bench.heal("b", "c")
    bench.settle()
    check_tree(bench, graph_of(links), "a")
    assert {bench.tree(id_, "c").epoch for id_ in "cd"} == {NO_EPOCH}


def test_a_smaller_id_that_joins_becomes_the_root() -> None:
    bench = Bench("abc", [("b", "c")])
    bench.settle()
    assert bench.status("c").share == ("b",)
    bench.join("c", "a")
    bench.settle()
    check_tree(bench, graph_of(path("b", "c", "a")), "a")
    assert bench.tree("c", "b").epoch == NO_EPOCH


def test_the_root_dies_and_the_next_smallest_takes_its_topics() -> None:
    links = ring("a", "b", "c", "d")
    bench = Bench("abcd", links)
    bench.settle()
    bench.kill("a")
    bench.settle()
    check_tree(bench, without(graph_of(links), "a"), "b")
    assert bench.tree("d", "a").epoch == NO_EPOCH


def test_an_epoch_after_the_restart_of_its_root_is_newer() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    before = bench.tree("c", "a").epoch
    bench.kill("a")
    bench.settle()
    bench.start("a")
    bench.settle()
    assert bench.tree("c", "a").epoch > before
    assert bench.tree("c", "a").epoch[0] == 2


# A tree exists while it is used.


def test_only_the_trees_of_the_share_exist() -> None:
    bench = Bench("abcd", ring("a", "b", "c", "d"), replace(DEFAULT, trees=2))
    bench.settle()
    for id_ in "abcd":
        used = [tree.root for tree in bench.status(id_).trees if tree.epoch != NO_EPOCH]
        assert used == ["a", "b"]


def test_topics_do_not_make_trees() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    since = bench.mark()
    before = [tree.epoch for tree in bench.status("b").trees]
    for number in range(500):
        bench.publish("b", f"topic{number}/x", qos=0)
    bench.run()
    assert [tree.epoch for tree in bench.status("b").trees] == before
    assert bench.sent[since[1] :] == []


ROADS = parse_topic("name='roads/+road'\nkind='plain'\nroot='c'\n[fields]\nseverity={type='int'}\n")


def test_a_declared_root_has_a_tree_while_it_is_there() -> None:
    links = ring("a", "b", "c", "d")
    bench = Bench("abcd", links, topics=[ROADS])
    bench.settle()
    check_tree(bench, graph_of(links), "a")
    check_tree(bench, graph_of(links), "c")
    bench.kill("c")
    bench.settle()
    assert {bench.tree(id_, "c").epoch for id_ in "abd"} == {NO_EPOCH}
    bench.start("c")
    bench.settle()
    check_tree(bench, graph_of(links), "c")


def test_a_declared_topic_uses_the_tree_of_its_root_and_others_do_not() -> None:
    bench = Bench("abc", path("a", "b", "c"), topics=[ROADS])
    bench.settle()
    bench.subscribe("a", "watcher", "roads/a1", qos=1)
    bench.subscribe("a", "reader", "news/#", qos=1)
    bench.settle()
    bench.publish("b", "roads/a1", b'{"severity": 3}', token=1)
    bench.publish("b", "news/x", token=2)
    bench.run()
    roots = {carried(message).topic: message.root for _, _, message in bench.said(Publish)}
    assert roots == {"roads/a1": "c", "news/x": "a"}
    assert bench.got("a", "watcher") == [b'{"severity": 3}']


def test_a_declared_topic_goes_the_common_way_while_its_root_is_away() -> None:
    bench = Bench("abc", path("a", "b", "c"), topics=[ROADS])
    bench.settle()
    bench.subscribe("a", "watcher", "roads/+", qos=1)
    bench.settle()
    bench.kill("c")
    bench.settle()
    since = bench.mark()
    bench.publish("b", "roads/a1", b'{"severity": 3}')
    bench.settle()
    assert {message.root for _, _, message in bench.said(Publish, since)} == {"a"}
    assert bench.got("a", "watcher", since) == [b'{"severity": 3}']


# Which tree a topic uses.

ROOTS = tuple(f"broker{number}" for number in range(8))
LEVELS = [f"level{number}" for number in range(2000)]


def test_the_pick_of_a_tree_never_changes() -> None:
    # Pinned: brokers of different releases must agree.
    assert [pick(level, ("a", "b", "c")) for level in ("traffic", "weather", "fleet", "", "é")] == PICKED
    assert pick("traffic", ("a",)) == "a"


PICKED = ["b", "a", "c", "c", "a"]


def test_topics_are_spread_over_all_trees() -> None:
    counts = Counter(pick(level, ROOTS) for level in LEVELS)
    assert set(counts) == set(ROOTS)
    assert max(counts.values()) < len(LEVELS) / 2
    assert len({lane_of(level) for level in LEVELS}) == LANES


def test_only_the_topics_of_a_root_that_goes_move() -> None:
    for gone in ROOTS:
        rest = tuple(root for root in ROOTS if root != gone)
        for level in LEVELS[:300]:
            before = pick(level, ROOTS)
            after = pick(level, rest)
            assert after == before if before != gone else after in rest


def test_all_topics_with_one_first_level_use_one_tree() -> None:
    bench = Bench("abc", path("a", "b", "c"), replace(DEFAULT, trees=3))
    bench.settle()
    bench.subscribe("c", "reader", "#", qos=1)
    bench.settle()
    for number in range(20):
        bench.publish("b", f"traffic/{number}", token=number)
    bench.run()
    assert len({message.root for _, _, message in bench.said(Publish)}) == 1


@pytest.mark.parametrize("topic_filter", ["traffic/#", "traffic/x", "+/x", "#"])
@pytest.mark.parametrize("trees", [1, 3])
def test_a_subscription_is_told_and_confirmed_once_whatever_the_number_of_trees(
    topic_filter: str, trees: int
) -> None:
    bench = Bench("abc", path("a", "b", "c"), replace(DEFAULT, trees=trees))
    bench.settle()
    since = bench.mark()
    bench.subscribe("b", "reader", topic_filter)
    bench.run()
    assert [(source, target) for source, target, _ in bench.said(Change, since)] == [("b", "a"), ("b", "c")]
    assert sorted(
        (source, target, message.root, message.homes)
        for source, target, message in bench.said(Confirm, since)
    ) == [("a", "b", "a", (("b", 1, 1),)), ("c", "b", "a", (("b", 1, 1),))]
    assert bench.granted(since) == [("reader", "")]


def test_a_filter_that_begins_with_a_wildcard_gets_what_travels_any_tree() -> None:
    bench = Bench("abc", path("a", "b", "c"), replace(DEFAULT, trees=3))
    bench.settle()
    levels = {pick(level, ("a", "b", "c")): level for level in LEVELS[:100]}
    bench.subscribe("b", "of all", "+/x", qos=1)
    bench.subscribe("b", "of one", f"{levels['c']}/#", qos=1)
    bench.settle()
    for level in levels.values():
        bench.publish("a", f"{level}/x", level.encode())
    bench.run()
    travelled = {(carried(message).topic, message.root) for _, _, message in bench.said(Publish)}
    assert travelled == {(f"{levels[root]}/x", root) for root in "abc"}
    assert sorted(bench.got("b", "of all")) == sorted(level.encode() for level in levels.values())
    assert bench.got("b", "of one") == [levels["c"].encode()]


# Distances, by value.


def neighbours(*ids: str, settings_trees: int = 1) -> tuple[Peer, ...]:
    broker = started("m", replace(DEFAULT, trees=settings_trees))
    peers = tuple(Peer(broker, id_, number) for number, id_ in enumerate(ids, 1))
    for peer in peers:
        peer.link()
    return peers


def via(peer: Peer, root: str = "a") -> tuple[str | None, int]:
    tree = peer.broker._trees.trees[root]
    return tree.via, tree.hops


def test_of_two_ways_the_shorter_is_taken_and_of_two_equal_ones_the_smaller_neighbour() -> None:
    b, c, d = neighbours("b", "c", "d")
    d.say(Distance("a", (1, 1), 2))
    assert via(b) == ("d", 3)
    c.say(Distance("a", (1, 1), 1))
    assert via(b) == ("c", 2)
    b.say(Distance("a", (1, 1), 1))
    assert via(b) == ("b", 2)


def test_a_way_that_may_lead_back_is_not_taken_and_the_root_is_asked() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    c.say(Distance("a", (1, 1), 2))  # perhaps by way of this broker
    effects = b.say(Distance("a", (1, 1), -1))
    assert via(b) == (None, -1)
    assert c.heard(effects, Distance) == [Distance("a", (1, 1), -1)]
    assert c.heard(effects, Seek) == [Seek("a", (1, 1))]
    c.say(Distance("a", (1, 2), 2))
    assert via(b) == ("c", 3)


def test_a_way_that_cannot_lead_back_is_taken_at_once() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    c.say(Distance("a", (1, 1), 1))
    effects = b.say(Distance("a", (1, 1), -1))
    assert via(b) == ("c", 2)
    assert [message for message in c.heard(effects) if type(message) in (Distance, Seek)] == []


def test_the_topics_of_a_root_that_is_lost_for_a_moment_do_not_move() -> None:
    (b,) = neighbours("b")
    b.say(Distance("a", (1, 1), 1))
    b.say(Distance("a", (1, 1), -1))
    assert b.broker.status(BEGIN).share == ("a",)
    b.handle(TimerFired(), BEGIN + DEFAULT.resume_within_s - 0.01)
    assert b.broker.status(BEGIN).share == ("a",)
    b.handle(TimerFired(), BEGIN + DEFAULT.resume_within_s)
    assert b.broker.status(BEGIN).share == ("m",)


def test_the_root_is_asked_again_after_a_while() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    c.say(Distance("a", (1, 1), 2))
    b.say(Distance("a", (1, 1), -1))
    later = c.handle(TimerFired(), BEGIN + ASK_AGAIN_S)
    assert c.heard(later, Seek) == [Seek("a", (1, 1))]


def test_who_knows_a_newer_series_answers_and_who_does_not_passes_the_question_on() -> None:
    middle = Middle(("x",))
    newer = middle["x"].say(Seek("a", (1, 0)))
    assert middle["x"].heard(newer, Distance) == [Distance("a", (1, 1), 1)]
    same = middle["x"].say(Seek("a", (1, 1)))
    assert middle["a"].heard(same, Seek) == [Seek("a", (1, 1))]


def test_the_root_answers_with_a_newer_series() -> None:
    (z,) = neighbours("z")
    assert z.heard(z.say(Seek("m", (1, 1))), Distance) == [Distance("m", (1, 2), 0)]
    assert z.heard(z.say(Seek("m", (1, 1)))) == []


def test_a_root_that_has_lost_its_memory_goes_beyond_what_others_remember() -> None:
    (z,) = neighbours("z")
    z.handle(TimerFired(), BEGIN)
    effects = z.say(Distance("m", (9, 4), 1))
    assert z.heard(effects, Distance) == [Distance("m", (9, 5), 0)]
    z.say(Regrow("m", (9, 7)))
    grown = z.handle(TimerFired(), BEGIN + 1)
    assert [message.epoch for message in z.heard(grown, Grow)] == [(9, 8)]


# Epochs, by value.


def test_an_epoch_is_joined_below_the_neighbour_on_the_shortest_way_and_offered_to_the_others() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    assert c.heard(c.say(Grow("a", (1, 1), ("a",)))) == []
    effects = b.say(Grow("a", (1, 1), ("a",)))
    assert b.heard(effects, Join) == [Join("a", (1, 1))]
    assert b.heard(effects, Grow) == []
    assert c.heard(effects, Grow) == [Grow("a", (1, 1), ("a",))]
    assert c.heard(effects, Join) == []


def test_an_offer_is_kept_until_the_distance_of_its_root_is_known() -> None:
    b, c = neighbours("b", "c")
    assert b.heard(b.say(Grow("a", (1, 1), ("a",)))) == []
    effects = b.say(Distance("a", (1, 1), 1))
    assert b.heard(effects, Join) == [Join("a", (1, 1))]
    assert c.heard(effects, Grow) == [Grow("a", (1, 1), ("a",))]


def test_an_offer_is_answered_once() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    b.say(Grow("a", (1, 1), ("a",)))
    for peer in (b, c, b):
        effects = peer.say(Grow("a", (1, 1), ("a",)))
        assert [
            message for message in b.heard(effects) + c.heard(effects) if type(message) in (Grow, Join)
        ] == []


def test_a_broker_is_ready_when_all_neighbours_have_answered_and_said_who_is_behind_them() -> None:
    b, c = neighbours("b", "c")
    b.say(Distance("a", (1, 1), 1))
    b.say(Grow("a", (1, 1), ("a",)))
    c.say(Join("a", (1, 1)))
    effects = c.say(Roll("a", (1, 1), (("c", 1, 1, 5),), 0))
    assert b.heard(effects, Roll) == [Roll("a", (1, 1), (("c", 1, 1, 5), ("m", 1, 1, 0)), 0)]
    assert c.heard(effects, Roll) == []
    assert b.broker.status(BEGIN).trees[0].epoch == NO_EPOCH
    effects = b.say(Roll("a", (1, 1), (("a", 1, 1, 7), ("b", 1, 1, 0)), 0))
    assert c.heard(effects, Roll) == [Roll("a", (1, 1), (("a", 1, 1, 7), ("b", 1, 1, 0), ("m", 1, 1, 0)), 0)]
    tree = b.broker.status(BEGIN).trees[0]
    assert (tree.epoch, tree.members, tree.children) == ((1, 1), ("a", "b", "c", "m"), ("c",))


def test_the_old_epoch_serves_until_the_new_one_is_ready() -> None:
    middle = Middle(("x",))
    middle["a"].say(Grow("a", (1, 2), ("a",)))
    middle["x"].say(Join("a", (1, 2)))
    assert middle.broker.status(BEGIN).trees[0].epoch == EPOCH
    effects = middle["a"].say(publish(1, 0, publication(1)))
    assert [message.epoch for message in middle["x"].heard(effects, Publish)] == [EPOCH]


def test_what_is_said_in_another_epoch_is_not_mixed_into_this_one() -> None:
    middle = Middle(("x",))
    middle.tell(SessionOpened("client"))
    middle.tell(SubscriptionAsked("client", "s", Subscription("t")))
    for epoch in ((1, 0), (1, 2), (2, 1)):
        for peer in middle.peers.values():
            for message in (Roll("a", epoch, ((peer.id, 1, 1, 0), ("z", 1, 1, 0))), middle.confirm(epoch)):
                effects = peer.say(message)
                assert middle.heard(effects, Roll) == []
                assert kinds(effects, Grant) == []
    assert middle.broker.status(BEGIN).trees[0].members == ("a", "m", "x")
    middle["a"].say(middle.confirm())
    assert kinds(middle["x"].say(middle.confirm()), Grant) == [Grant("client", "s")]


def test_a_publication_of_an_epoch_that_has_passed_goes_no_further_but_is_delivered_here() -> None:
    middle = Middle(("x",))
    middle.tell(SessionOpened("client"))
    middle.tell(SubscriptionAsked("client", "s", Subscription("#", qos=1)))
    middle.grow((1, 2), {})
    effects = middle["a"].say(publish(1, 0, publication(1), epoch=EPOCH))
    assert middle["x"].heard(effects, Publish) == []
    assert middle["a"].heard(effects, Done) == [Done("a", (), ((1, packed(BELOW)),))]
    assert len(kinds(effects, Deliver)) == 1


def test_a_publication_that_is_ahead_waits_for_its_epoch() -> None:
    middle = Middle(("x",))
    middle["a"].say(Grow("a", (1, 2), ("a",)))
    effects = middle["a"].say(publish(1, 0, publication(1), epoch=(1, 2)))
    assert middle["a"].heard(effects, Done) == []
    middle["x"].say(Join("a", (1, 2)))
    middle["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    effects = middle["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0),)))
    assert [message.epoch for message in middle["x"].heard(effects, Publish)] == [(1, 2)]


def test_a_root_answers_many_requests_with_one_epoch_and_waits_longer_if_they_go_on() -> None:
    (z,) = neighbours("z")
    z.handle(TimerFired(), BEGIN)
    now, waits = BEGIN + 0.001, []
    epochs: list[Epoch] = []
    for _ in range(10):
        asked = now
        newest = z.broker._trees.trees["m"].joined
        z.say(Regrow("m", newest), Regrow("m", newest), Regrow("m", newest), now=now)
        while True:
            due = z.broker.next_deadline()
            assert due is not None
            now = due
            grown = z.heard(z.handle(TimerFired(), now), Grow)
            if grown:
                break
        epochs += [message.epoch for message in grown]
        waits.append(now - asked)
    assert epochs == [(1, count) for count in range(2, 12)]
    assert waits[0] == pytest.approx(DEFAULT.regrow_min_s)
    assert waits[1] == pytest.approx(DEFAULT.regrow_min_s * 2)
    assert waits[-1] == pytest.approx(DEFAULT.regrow_max_s)
