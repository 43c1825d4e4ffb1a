"""The search for the best place in a tree: all end with the right answer, in whatever order messages come."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.gather.trees_of_finders import (
    Forest,
    broker,
    centres_of,
    cost_of,
    distances,
    joined,
    trees,
)
from tidings.overlay.gather.centre import FINDERS, USED, Finder, PaperFinder, ReportFinder
from tidings.overlay.gather.messages import (
    Announce,
    AnySurveyed,
    Ecc,
    Holder,
    Init,
    Load,
    Report,
    Stable,
    Update,
)

WANTED = {"": ("centre", "median")}

SHAPES: dict[str, Callable[[int], nx.Graph]] = {
    "path": nx.path_graph,
    "star": lambda count: nx.star_graph(count - 1),
    "binary": lambda count: nx.full_rary_tree(2, count),
    "caterpillar": lambda count: nx.Graph(
        (at - count // 2 if at > count // 2 else at - 1, at) for at in range(1, count)
    ),
}


def found(graph: nx.Graph, protocol: type[Finder], **given: Any) -> Forest:
    """All that one broker's search finds out, messages arriving in the order in which they were sent."""
    forest = Forest(graph, protocol, **given)
    forest.start(sorted(graph)[0])
    forest.deliver_all()
    return forest


def chance_of(data: st.DataObject) -> random.Random:
    """An order of messages: from one number, since drawing each step takes Hypothesis long."""
    return random.Random(data.draw(st.integers(0, 2**32)))


# By value.


def test_one_broker_is_its_own_centre_and_says_nothing() -> None:
    for protocol in FINDERS.values():
        finder = protocol("a", wanted=WANTED)
        assert finder.start() == []
        assert finder.done
        assert finder.eccentricity == 0
        assert finder.winners["", "centre"] == Announce(1, "a", "", "centre", "a", 0, ("a",))


def test_two_brokers_are_both_centres_and_the_smaller_has_the_seat() -> None:
    """The paper's second condition, that some neighbour is farther from the middle, would find none."""
    for protocol in FINDERS.values():
        forest = found(nx.Graph([("a", "b")]), protocol, wanted={"": ("centre",)})
        for finder in forest.finders.values():
            assert (finder.done, finder.is_centre, finder.eccentricity) == (True, True, 1)
            assert finder.winners["", "centre"].broker == "a"


def test_the_published_conversation_of_three_brokers() -> None:
    finder = PaperFinder("b", ["a", "c"])
    age = 1, "a"
    assert finder.on("a", Init(*age)) == [("c", Init(*age))]
    assert finder.on("a", Update(*age, 1)) == [("c", Update(*age, 2))]
    assert finder.on("a", Stable(*age, 1)) == [("c", Stable(*age, 2))]
    assert finder.on("c", Update(*age, 1)) == [("a", Update(*age, 2))]
    assert (finder.eccentricity, finder.is_centre) == (None, None)
    assert finder.on("c", Stable(*age, 1)) == [
        ("a", Stable(*age, 2)),
        ("a", Ecc(*age, 1)),
        ("c", Ecc(*age, 1)),
    ]
    assert finder.eccentricity == 1
    assert finder.on("a", Ecc(*age, 2)) == []
    assert (finder.eccentricity, finder.is_centre) == (1, None)
    announce = Announce(*age, "", "centre", "b", 1, ("b",))
    assert finder.on("c", Ecc(*age, 2)) == [("a", announce), ("c", announce)]
    assert finder.done
    assert (finder.is_centre, finder.centres) == (True, ("b",))


def test_the_conversation_of_reports_of_three_brokers() -> None:
    finder = ReportFinder("b", ["a", "c"], wanted=WANTED)
    age = 1, "a"
    leaf = Report(*age, {"": Load(1, 1, 1)}, {})
    assert finder.on("a", Init(*age)) == [("c", Init(*age))]
    assert finder.on("a", leaf) == [("c", Report(*age, {"": Load(2, 2, 3)}, {}))]
    centre = Announce(*age, "", "centre", "b", 1, ("b",))
    median = Announce(*age, "", "median", "b", 2, ("b",))
    assert finder.on("c", leaf) == [
        ("a", Report(*age, {"": Load(2, 2, 3)}, {})),
        ("a", centre),
        ("c", centre),
        ("a", median),
        ("c", median),
    ]
    assert finder.done
    assert (finder.eccentricity, finder.cost("", "centre"), finder.cost("", "median")) == (1, 1, 2)


def test_a_leaf_that_begins_starts_by_itself() -> None:
    age = 7, "a"
    assert PaperFinder("a", ["b"]).start(7) == [
        ("b", Init(*age)),
        ("b", Update(*age, 1)),
        ("b", Stable(*age, 1)),
    ]
    assert ReportFinder("a", ["b"]).start(7) == [
        ("b", Init(*age)),
        ("b", Report(*age, {"": Load(1, 1, 1)}, {})),
    ]


def test_an_eccentricity_that_arrives_early_is_kept() -> None:
    finder = PaperFinder("b", ["a", "c"])
    age = 1, "a"
    assert finder.on("a", Ecc(*age, 2)) == [("c", Init(*age))]
    finder.on("c", Ecc(*age, 2))
    finder.on("a", Stable(*age, 1))
    assert (finder.eccentricity, finder.is_centre) == (None, None)
    finder.on("c", Stable(*age, 1))
    assert (finder.eccentricity, finder.is_centre) == (1, True)


def test_a_last_word_that_overtakes_an_update_brings_its_value() -> None:
    finder = PaperFinder("b", ["a", "c"])
    age = 1, "a"
    assert finder.on("a", Stable(*age, 5)) == [
        ("c", Init(*age)),
        ("c", Update(*age, 6)),
        ("c", Stable(*age, 6)),
    ]
    assert finder.on("a", Update(*age, 4)) == []
    assert finder.on("a", Update(*age, 5)) == []
    finder.on("c", Stable(*age, 1))
    assert finder.eccentricity == 5


def test_any_message_begins_a_search_where_it_is_the_first_to_arrive() -> None:
    finder = ReportFinder("b", ["a", "c"], wanted=WANTED)
    leaf = Report(4, "a", {"": Load(1, 1, 1)}, {})
    assert finder.on("a", leaf) == [
        ("c", Init(4, "a")),
        ("c", Report(4, "a", {"": Load(2, 2, 3)}, {})),
    ]
    assert finder.on("a", Init(4, "a")) == []


def test_a_repeated_message_changes_nothing() -> None:
    for finder, last in (
        (PaperFinder("b", ["a", "c"]), Stable(1, "a", 1)),
        (ReportFinder("b", ["a", "c"]), Report(1, "a", {"": Load(1, 1, 1)}, {})),
    ):
        finder.on("a", last)
        assert finder.on("a", last) == []
        finder.on("c", last)
        assert finder.on("c", last) == []
        assert finder.eccentricity == 1


# The order of searches.


def test_a_higher_counter_begins_anew_and_a_lower_one_is_not_heard() -> None:
    for protocol in FINDERS.values():
        finder = protocol("b", ["a", "c"])
        finder.start(5)
        assert finder.on("a", Init(4, "a")) == []
        assert finder.age == (5, "b")
        assert finder.on("a", Init(6, "z")) == [("c", Init(6, "z"))]
        assert finder.age == (6, "z")


def test_of_one_counter_the_smallest_initiator_names_the_search_and_nothing_is_said_again() -> None:
    for protocol in FINDERS.values():
        finder = protocol("b", ["a", "c"])
        finder.start(5)
        assert finder.on("c", Init(5, "c")) == []
        assert finder.age == (5, "b")
        assert finder.on("a", Init(5, "a")) == []
        assert finder.age == (5, "a")
        assert finder.start(5) == []


def test_what_was_found_is_forgotten_when_a_search_begins() -> None:
    for protocol in FINDERS.values():
        forest = found(nx.path_graph(["a", "b", "c"]), protocol, wanted={"": ("centre",)})
        finder = forest.finders["b"]
        assert (finder.done, finder.eccentricity) == (True, 1)
        finder.start()
        assert (finder.done, finder.eccentricity) == (False, None)
        assert (finder.is_centre, finder.winners) == (None, {})
        assert finder.cost("", "centre") is None


def test_what_is_given_is_read_anew_when_a_search_begins() -> None:
    loads: dict[str, tuple[int, bool]] = {}
    finder = ReportFinder("a", ["b"], loads=loads)
    finder.start()
    loads["t"] = (9, True)
    said = finder.start()
    assert said[1] == ("b", Report(2, "a", {"": Load(1, 1, 1), "t": Load(1, 9, 9)}, {}))


def test_a_broker_whose_neighbours_change_begins_a_higher_counter() -> None:
    for protocol in FINDERS.values():
        finder = protocol("b", ["a"])
        finder.on("a", Init(8, "a"))
        said = finder.changed(["a", "c"])
        assert said == [("a", Init(9, "b")), ("c", Init(9, "b"))]
        assert finder.changed(["c"], 30)[0] == ("c", Init(30, "b"))


def test_what_comes_from_a_broker_that_is_not_a_neighbour_yet_is_kept() -> None:
    finder = ReportFinder("b", ["a"], wanted=WANTED)
    finder.start(3)
    assert finder.on("c", Init(2, "c")) == []
    assert finder.on("c", Init(9, "c")) == []
    assert finder.on("c", Report(9, "c", {"": Load(1, 1, 1)}, {})) == []
    assert finder.on("c", Init(8, "c")) == []
    assert finder.age == (3, "b")
    said = finder.changed(["a", "c"])
    # It is ahead: its search is joined, not begun once more.
    assert finder.age == (9, "b")
    assert ("a", Report(9, "b", {"": Load(2, 2, 3)}, {})) in said


# Against the definition.


@pytest.mark.parametrize("protocol", FINDERS.values(), ids=FINDERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 30])
def test_every_broker_of_a_known_shape_knows_the_centre(
    shape: str, count: int, protocol: type[Finder]
) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(broker(at) for at in range(count))
    graph.add_edges_from((broker(one), broker(other)) for one, other in SHAPES[shape](count).edges)
    assert nx.is_tree(graph)
    forest = found(graph, protocol, wanted={"": ("centre",)})
    expected = centres_of(graph)
    assert forest.seats() == {("", "centre"): expected[0]}
    assert [name for name, finder in sorted(forest.finders.items()) if finder.is_centre] == expected


@given(trees(200), st.sampled_from(list(FINDERS.values())), st.booleans(), st.data())
def test_centre_and_eccentricities_are_those_of_networkx_whatever_the_delays(
    graph: nx.Graph, protocol: type[Finder], fifo: bool, data: st.DataObject
) -> None:
    forest = Forest(graph, protocol, fifo=fifo, wanted={"": ("centre",)})
    initiators = data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, max_size=5, unique=True))
    forest.start(*initiators)
    forest.deliver_all(chance_of(data))
    assert {name: finder.eccentricity for name, finder in forest.finders.items()} == nx.eccentricity(graph)
    expected = centres_of(graph)
    assert forest.seats() == {("", "centre"): expected[0]}
    assert {name for name, finder in forest.finders.items() if finder.is_centre} == set(expected)
    assert {finder.age for finder in forest.finders.values()} == {(1, min(initiators))}
    for finder in forest.finders.values():
        if isinstance(finder, PaperFinder):
            assert list(finder.centres) == expected


@given(trees(60), st.booleans(), st.data())
def test_medians_are_those_of_the_definition_with_ties_to_the_middle_and_then_the_smaller(
    graph: nx.Graph, fifo: bool, data: st.DataObject
) -> None:
    names = sorted(graph)
    weights = data.draw(st.fixed_dictionaries({name: st.integers(0, 2) for name in names}))
    forest = Forest(
        graph,
        ReportFinder,
        fifo=fifo,
        loads={name: {"t": (weight, weight > 0), "idle": (0, False)} for name, weight in weights.items()},
        wanted={"": ("median", "traffic"), "t": ("traffic",), "idle": ("traffic",)},
    )
    forest.start(*data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
    forest.deliver_all(chance_of(data))
    far = distances(graph)
    plain = {name: sum(far[name].values()) for name in names}
    weighed = {name: cost_of(far, weights, name) for name in names}
    median = min(names, key=lambda name: (plain[name], name))
    traffic = min(names, key=lambda name: (weighed[name], plain[name], name))
    assert forest.seats() == {
        ("", "median"): median,
        ("", "traffic"): median,
        ("t", "traffic"): traffic,
        # Until something is counted the traffic's place is the median.
        ("idle", "traffic"): median,
    }
    for name, finder in forest.finders.items():
        assert finder.cost("", "median") == plain[name]
        assert finder.cost("t", "traffic") == weighed[name]
        assert finder.winners["t", "traffic"].cost == weighed[traffic]
        assert isinstance(finder, ReportFinder)
        assert finder.weight("t") == sum(weights.values())


@given(trees(60), st.data())
def test_the_centre_of_a_topic_is_that_of_the_brokers_that_use_it(
    graph: nx.Graph, data: st.DataObject
) -> None:
    names = sorted(graph)
    users = data.draw(st.sets(st.sampled_from(names)))
    forest = Forest(
        graph,
        ReportFinder,
        fifo=False,
        loads={name: {"t": (0, name in users)} for name in names},
        wanted={"t": ("centre",)},
    )
    forest.start(data.draw(st.sampled_from(names)))
    forest.deliver_all(chance_of(data))
    far = distances(graph)
    # Where nobody uses it, everybody counts.
    counting = users or set(names)
    reach = {name: max(far[name][user] for user in counting) for name in names}
    assert forest.seats() == {("t", "centre"): min(names, key=lambda name: (reach[name], name))}
    for name, finder in forest.finders.items():
        assert finder.cost("t", "centre") == reach[name]


@given(trees(60), st.booleans(), st.data())
def test_the_median_of_a_topic_is_that_of_the_part_of_the_tree_that_it_uses(
    graph: nx.Graph, fifo: bool, data: st.DataObject
) -> None:
    names = sorted(graph)
    users = data.draw(st.sets(st.sampled_from(names)))
    about = f"t{USED}"
    forest = Forest(
        graph,
        ReportFinder,
        fifo=fifo,
        # Traffic is surveyed beside it, and makes no difference.
        loads={name: {about: (0, name in users), "t": (len(name), True)} for name in names},
        wanted={about: ("centre", "median")},
    )
    forest.start(data.draw(st.sampled_from(names)))
    forest.deliver_all(chance_of(data))
    far = distances(graph)
    # Where nobody uses it, everybody counts.
    part = {
        name
        for name in names
        if any(far[a][name] + far[name][b] == far[a][b] for a in users for b in users) or not users
    }
    plain = {name: sum(far[name].values()) for name in names}
    cost = {name: sum(far[name][other] for other in part) for name in names}
    reach = {name: max(far[name][user] for user in users or names) for name in names}
    assert forest.seats() == {
        (about, "centre"): min(names, key=lambda name: (reach[name], name)),
        (about, "median"): min(names, key=lambda name: (cost[name], plain[name], name)),
    }
    for name in part if users else ():
        assert forest.finders[name].cost(about, "median") == cost[name]
    won = forest.finders[names[0]].winners[about, "median"]
    assert won.broker in part


@given(trees(40), st.integers(1, 8), st.data())
def test_a_ring_has_the_nearest_brokers_around_a_winner(
    graph: nx.Graph, ring: int, data: st.DataObject
) -> None:
    forest = Forest(graph, ReportFinder, fifo=False, wanted=WANTED, ring=ring)
    forest.start(data.draw(st.sampled_from(sorted(graph))))
    forest.deliver_all(chance_of(data))
    far = distances(graph)
    for finder in forest.finders.values():
        assert finder.done
        for won in finder.winners.values():
            nearest = sorted(graph, key=lambda name: (far[won.broker][name], name))
            assert list(won.ring) == nearest[:ring]


@given(trees(12), st.data())
def test_everyone_learns_the_latest_holder_of_each_place(graph: nx.Graph, data: st.DataObject) -> None:
    names = sorted(graph)
    holder = st.builds(Holder, st.integers(1, 3), st.sampled_from(names), st.just(1), st.just(""))
    known = data.draw(
        st.fixed_dictionaries({name: st.dictionaries(st.sampled_from(["p", "q"]), holder) for name in names})
    )
    forest = Forest(graph, ReportFinder, fifo=False, holders=known)
    forest.start(data.draw(st.sampled_from(names)))
    forest.deliver_all(chance_of(data))
    expected = {
        place: max(each[place] for each in known.values() if place in each)
        for place in sorted({place for each in known.values() for place in each})
    }
    for finder in forest.finders.values():
        assert finder.holders == expected


# What it costs.


@given(trees(60), st.booleans(), st.data())
def test_the_published_messages_stay_within_the_corrected_bound(
    graph: nx.Graph, fifo: bool, data: st.DataObject
) -> None:
    forest = Forest(graph, PaperFinder, fifo=fifo)
    initiators = data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, unique=True))
    forest.start(*initiators)
    forest.deliver_all(chance_of(data))
    links, sent = len(graph) - 1, forest.sent
    leaves = sum(degree == 1 for _, degree in graph.degree)
    centres = len(centres_of(graph))
    assert links <= sent["Init"] <= (links if len(initiators) == 1 else 2 * links)
    assert sent["Update"] <= leaves * links
    assert (sent["Stable"], sent["Ecc"], sent["Announce"]) == (2 * links, 2 * links, centres * links)
    assert sent.total() <= (leaves + (5 if len(initiators) == 1 else 6) + centres) * links


@given(trees(60), st.booleans(), st.data())
def test_reports_take_four_to_five_messages_for_each_link(
    graph: nx.Graph, fifo: bool, data: st.DataObject
) -> None:
    forest = Forest(graph, ReportFinder, fifo=fifo, wanted={"": ("traffic",)})
    initiators = data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, unique=True))
    forest.start(*initiators)
    forest.deliver_all(chance_of(data))
    links, sent = len(graph) - 1, forest.sent
    assert (sent["Report"], sent["Announce"]) == (2 * links, links)
    assert links <= sent["Init"] <= (links if len(initiators) == 1 else 2 * links)


@pytest.mark.parametrize(("count", "sent"), [(2, 9), (3, 16), (4, 27), (9, 64), (10, 81)])
def test_the_bound_of_the_paper_fails_on_paths(count: int, sent: int) -> None:
    """A link of a path carries INIT once, UPDATE, STABLE and ECC both ways, and an ANNOUNCE per centre."""
    graph = nx.path_graph([broker(at) for at in range(count)])
    forest = found(graph, PaperFinder)
    published = (2 + 4) * (count - 1)
    assert forest.sent.total() == sent > published
    assert sent == (2 + 5 + len(centres_of(graph))) * (count - 1)


def test_a_hub_does_not_look_at_all_its_neighbours_for_each_of_them() -> None:
    """3,000 leaves: work that grows with their square would be seen as millions of comparisons."""
    graph = nx.star_graph([broker(at) for at in range(3_000)])
    hub = broker(0)
    for protocol in FINDERS.values():
        forest = Forest(graph, protocol, wanted={"": ("centre",)})
        counted = forest.finders[hub].neighbours = Counted(forest.finders[hub].neighbours)
        forest.start(broker(1))
        forest.deliver_all()
        assert forest.seats() == {("", "centre"): hub}
        assert counted.looked <= 10


class Counted(tuple[str, ...]):  # noqa: SLOT001  a tuple's subclass cannot have slots with values
    """A tuple that counts how often somebody walks through it."""

    looked = 0

    def __iter__(self) -> Any:
        self.looked += 1
        return super().__iter__()


# As published, without the repairs.


class WithoutValue(PaperFinder):
    """STABLE says only that nothing will change, as published."""

    def on(self, peer: str, body: Any) -> Any:
        if isinstance(body, Stable):
            body = Stable(body.counter, body.initiator, 0)
        return super().on(peer, body)


def test_a_last_word_without_its_value_is_wrong_where_messages_overtake_each_other() -> None:
    graph = nx.path_graph(["a", "b", "c", "d"])
    forest = Forest(graph, WithoutValue, fifo=False)
    forest.start("a")
    forest.deliver_all(last=Update)
    assert forest.finders["b"].eccentricity != 2
    repaired = Forest(graph, PaperFinder, fifo=False)
    repaired.start("a")
    repaired.deliver_all(last=Update)
    assert {name: finder.eccentricity for name, finder in repaired.finders.items()} == nx.eccentricity(graph)


# While the tree changes.


@settings(max_examples=examples(300))
@given(trees(12), st.sampled_from(list(FINDERS.values())), st.booleans(), st.data())
def test_brokers_join_and_leave_in_the_middle_and_all_that_are_joined_agree(
    graph: nx.Graph, protocol: type[Finder], fifo: bool, data: st.DataObject
) -> None:
    """Links are made and lost, brokers come and go, and each end hears of it at its own time."""
    forest = Forest(graph, protocol, fifo=fifo, wanted={"": ("centre",)})
    forest.start(*data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, max_size=3, unique=True)))
    chance = chance_of(data)
    for _ in range(data.draw(st.integers(1, 8))):
        forest.deliver_some(chance, data.draw(st.integers(0, 30)))
        match data.draw(st.sampled_from(["cut", "link", "leave", "join", "begin", "notice"])):
            case "cut" if forest.graph.edges:
                forest.cut(*data.draw(st.sampled_from(sorted(forest.graph.edges))))
            case "link" if pairs := forest.pairs_apart():
                forest.link(*data.draw(st.sampled_from(pairs)))
            case "leave" if len(forest.graph) > 1:
                forest.leave(data.draw(st.sampled_from(sorted(forest.graph))))
            case "join":
                forest.join(data.draw(st.sampled_from(sorted(forest.graph))))
            case "begin":
                forest.start(data.draw(st.sampled_from(sorted(forest.graph))), counter=0)
            case "notice":
                forest.notice(chance)
    forest.deliver_all(chance)
    for part in joined(forest.graph):
        if any(forest.finders[name].counter for name in part):
            expected = centres_of(part)
            assert {forest.finders[name].winners["", "centre"].broker for name in part} == {expected[0]}
            assert all(forest.finders[name].done for name in part)
            assert {name: forest.finders[name].eccentricity for name in part} == nx.eccentricity(part)
            assert len({forest.finders[name].age for name in part}) == 1


@given(trees(8), st.data())
def test_every_sum_is_that_of_the_tree_at_last_although_it_changed_under_way(
    graph: nx.Graph, data: st.DataObject
) -> None:
    forest = Forest(graph, ReportFinder, fifo=False, wanted={"": ("median",)})
    forest.start(*sorted(graph))
    chance = chance_of(data)
    for _ in range(3):
        forest.deliver_some(chance, data.draw(st.integers(0, 20)))
        if edges := sorted(forest.graph.edges):
            forest.cut(*data.draw(st.sampled_from(edges)))
        forest.deliver_some(chance, data.draw(st.integers(0, 20)))
        if pairs := forest.pairs_apart():
            forest.link(*data.draw(st.sampled_from(pairs)))
    forest.deliver_all(chance)
    for part in joined(forest.graph):
        far = distances(part)
        for name in part:
            assert forest.finders[name].cost("", "median") == sum(far[name].values())


def test_two_finders_say_the_same_when_told_the_same() -> None:
    """No order comes from a hash: what is said is a function of what is heard."""

    def said(order: Mapping[str, None]) -> list[Any]:
        finder = ReportFinder("m", list(order), wanted=WANTED)
        out: list[Any] = [finder.start()]
        out += [finder.on(peer, Report(1, peer, {"": Load(1, 1, 1)}, {})) for peer in sorted(order)]
        return out

    names = ["a", "b", "c", "d"]
    for one, other in combinations(names, 2):
        assert said(dict.fromkeys([one, other, *names])) == said(dict.fromkeys(reversed(names)))


# The page.


def test_the_protocol_page_has_every_message_of_the_search(root: Path) -> None:
    page = (root / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = page.split("## The search for seats")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*?) \|", section, re.MULTILINE)
    written = [(int(tag), name, re.findall(r"`(\w+)`", fields)) for name, tag, fields in rows]
    assert written == [
        (kind.__struct_config__.tag, kind.__name__, list(kind.__struct_fields__))
        for kind in AnySurveyed.__args__
    ]
