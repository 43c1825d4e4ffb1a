"""The search on a given tree in virtual time: what comes out, what it costs, and which trees are refused."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from tidings.errors import InputError
from tidings.overlay.gather.centre import FINDERS, PaperFinder, Said
from tidings.overlay.gather.messages import AnySurveyed, Stable
from tidings.sim.gathering import centres
from tidings.sim.gathering.centres import (
    Search,
    Tree,
    bounds,
    find,
    leaves,
    published_bound,
    read_tree,
    read_weights,
)


def random_tree(count: int, seed: int) -> dict[str, list[str]]:
    """Each broker is joined to an earlier one by chance."""
    chance = random.Random(seed)
    tree: dict[str, list[str]] = {"b0000": []}
    for at in range(1, count):
        one, other = f"b{chance.randrange(at):04d}", f"b{at:04d}"
        tree[one].append(other)
        tree[other] = [one]
    return tree


PATH = {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"]}


# What comes out.


@pytest.mark.parametrize("protocol", FINDERS)
@pytest.mark.parametrize("fifo", [True, False])
@pytest.mark.parametrize("initiators", [1, 7])
def test_what_is_found_is_the_centre_whatever_the_delays(protocol: str, fifo: bool, initiators: int) -> None:
    for seed in range(5):
        tree = random_tree(60, seed)
        found = find(tree, protocol=protocol, fifo=fifo, initiators=initiators, jitter=0.3, seed=seed)
        graph = nx.Graph(tree)
        assert list(found.centres) == sorted(nx.center(graph))
        assert found.seat == found.centres[0]
        assert found.eccentricity == nx.eccentricity(graph)


def test_median_and_traffic_are_found_by_reports() -> None:
    tree = read_tree(["hub,w", "hub,x", "hub,y", "hub,z", "hub,1", "1,2", "2,3", "3,4"], "t")
    assert find(tree).centres == ("1", "2")
    assert find(tree, "median").seat == "hub"
    assert find(tree, "traffic").seat == "hub"
    assert find(tree, "traffic", weights={"4": 100}).seat == "4"
    # 3 and 4 weigh as much as the seven others: of 2 and 3 the one that is nearer to all has the seat.
    assert find(tree, "traffic", weights={"4": 6}).seat == "2"


def test_time_is_counted_in_links() -> None:
    """From a INIT takes 3 to d, d's last word 2 to b, and b's announcement 2 to d."""
    assert find(PATH, initiators=["a"]).time == 3 + 2 + 2
    assert find({"a": []}).time == 0


def test_the_same_seed_gives_the_same_search_and_another_another() -> None:
    tree = random_tree(50, 3)
    one, same, other = (find(tree, jitter=0.5, initiators=5, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert (one.time, one.messages) != (other.time, other.messages)
    assert (one.seat, one.eccentricity) == (other.seat, other.eccentricity)


def test_a_tree_of_thousands_is_searched() -> None:
    tree = random_tree(3_200, 1)
    found = find(tree, "median")
    assert found.total == 4 * 3_199
    assert find(tree, protocol="paper").seat == find(tree).seat


# What it costs.


@pytest.mark.parametrize("protocol", FINDERS)
@pytest.mark.parametrize("initiators", [1, 2, 40])
def test_each_phase_stays_within_its_bound(protocol: str, initiators: int) -> None:
    for seed in range(10):
        tree = random_tree(40, seed)
        found = find(tree, protocol=protocol, initiators=initiators, jitter=0.5, fifo=False, seed=seed)
        most = bounds(tree, protocol, initiators=initiators, centres=len(found.centres))
        assert list(found.messages) == list(most) == list(centres.PHASES)
        assert all(found.messages[phase] <= most[phase] for phase in most)


def test_the_bounds_add_up_to_those_that_are_documented() -> None:
    tree = random_tree(30, 1)
    links, ends = 29, leaves(tree)
    for count in (1, 2):
        one, many = (bounds(tree, "paper", initiators=n, centres=count) for n in (1, 5))
        assert sum(one.values()) == (ends + 5 + count) * links
        assert sum(many.values()) == (ends + 6 + count) * links
        assert sum(bounds(tree, "report", initiators=1, centres=count).values()) == 4 * links
        assert sum(bounds(tree, "report", initiators=5, centres=count).values()) == 5 * links
    assert published_bound(tree) == (ends + 4) * links


def test_the_published_bound_fails_on_a_path_and_holds_on_a_bushy_tree() -> None:
    assert find(PATH, protocol="paper").total == 27 > published_bound(PATH) == 18
    bushy = random_tree(200, 1)
    assert find(bushy, protocol="paper").total < published_bound(bushy)


def test_without_order_on_links_a_last_word_without_its_value_is_mostly_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Bare(PaperFinder):
        def on(self, peer: str, body: AnySurveyed) -> list[Said]:
            return super().on(
                peer, Stable(body.counter, body.initiator, 0) if isinstance(body, Stable) else body
            )

    def right(tree: Tree, seed: int, fifo: bool) -> bool:
        search = Search(tree, "centre", "paper", {}, 0.05, fifo, seed)
        search.begin(search.drawn(1))
        search.deliver()
        found = {broker: finder.eccentricity for broker, finder in search.finders.items()}
        return bool(found == nx.eccentricity(nx.Graph(tree)))

    trees = [random_tree(100, seed) for seed in range(20)]
    assert all(right(tree, seed, fifo=False) for seed, tree in enumerate(trees))
    monkeypatch.setattr(centres, "FINDERS", {"paper": Bare})
    assert all(right(tree, seed, fifo=True) for seed, tree in enumerate(trees))
    assert sum(right(tree, seed, fifo=False) for seed, tree in enumerate(trees)) < len(trees) / 2


# Reading.


def test_a_tree_is_read_from_lines() -> None:
    lines = ["\ufeff# a comment", "", " a , b ", '"b,1",a', "  ", "b,c\r"]
    assert read_tree(lines, "t") == {"a": ["b", "b,1"], "b": ["a", "c"], "b,1": ["a"], "c": ["b"]}
    assert read_tree(["alone"], "t") == {"alone": []}
    assert read_tree(["a", "a,b", "b"], "t") == {"a": ["b"], "b": ["a"]}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "t names no broker; write a link in each line, as a,b"),
        (["# nothing", " "], "t names no broker"),
        (["a,b", "b,c,d"], "t:2: 3 fields; write a link as a,b or a lone broker as a"),
        (["a,b", "c,c"], "t:2: 'c' is linked to itself"),
        (["a,b", "# again", "b,a"], "t:3: the link b,a is there already, in line 1; write it once"),
        (["a,b", "b,c", "c,d", "d,b"], "t:4: the link d,b closes a cycle: d - c - b - d; a tree has none"),
        (["a,b", "c,d", "e"], "t has 3 parts that no link joins: a, b; c, d; e; in a tree all are joined"),
        (["a,"], "t:1: id '' is not 1 to 255 printable characters"),
        (["a,b\0"], r"t:1: id 'b\x00' is not"),
        (["a," + "b" * 256], "is not 1 to 255 printable characters"),
        (['a,"b'], "t:1: the line is not CSV: unexpected end of data"),
    ],
)
def test_what_is_not_a_tree_is_refused_with_the_place(lines: list[str], reason: str) -> None:
    with pytest.raises(InputError) as raised:
        read_tree(lines, "t")
    assert reason in str(raised.value)


def test_a_long_cycle_and_many_parts_are_named_in_short() -> None:
    ring = [f"{at},{(at + 1) % 1000}" for at in range(1000)]
    with pytest.raises(InputError) as raised:
        read_tree(ring, "t")
    assert "999 - 998 - 997 - 996 - 995 - 994 - (989 more) - 4" in str(raised.value)
    with pytest.raises(InputError) as raised:
        read_tree([str(at) for at in range(100)], "t")
    assert "t has 100 parts that no link joins: 0; 1; 10; 11; and 96 more;" in str(raised.value)


def test_weights_are_read_and_slips_refused() -> None:
    assert read_weights(["# w", "a,5", "c,0"], "w", PATH) == {"a": 5, "c": 0}
    for line, reason in (
        ("a", "w:1: 1 fields; write a broker and its weight, as a,5"),
        ("x,1", "w:1: 'x' is not in the tree"),
        ("a,-1", "w:1: '-1' is not a weight; write a whole number, 0 to"),
        ("a,1.5", "w:1: '1.5' is not a weight"),
        ("a,²", "w:1: '²' is not a weight"),
        ("a,9999999999999", "is not a weight"),
    ):
        with pytest.raises(InputError) as raised:
            read_weights([line], "w", PATH)
        assert reason in str(raised.value)
    with pytest.raises(InputError, match="w:2: 'a' has a weight already"):
        read_weights(["a,1", "a,1"], "w", PATH)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"protocol": "gossip"}, "protocol 'gossip' is unknown; there are report, paper"),
        ({"strategy": "middle"}, "strategy 'middle' is unknown; there are centre, median, traffic"),
        ({"protocol": "paper", "strategy": "median"}, "use protocol 'report'"),
        ({"jitter": -0.1}, "the delay jitter is -0.1; give a share of the delay"),
        ({"jitter": float("nan")}, "the delay jitter is nan"),
        ({"initiators": 0}, "0 brokers cannot begin; there are 4"),
        ({"initiators": 5}, "5 brokers cannot begin; there are 4"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError) as raised:
        find(PATH, **given)  # type: ignore[arg-type]
    assert reason in str(raised.value)
