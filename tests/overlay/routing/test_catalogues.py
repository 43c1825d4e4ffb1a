"""Catalogues of several brokers: they come to be the same, whatever happens on the way."""

from __future__ import annotations

import random

import pytest

from tests.overlay.bench import Bench, path, ring
from tidings.language.declarations import parse_topic
from tidings.language.views import View
from tidings.overlay.events import (
    CatalogueChanged,
    Decline,
    Effect,
    Enlist,
    EntryOffered,
    Log,
    Synchronised,
    TimerFired,
)
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing.messages import Enter, Entry
from tidings.overlay.settings import Settings

TYPED = 'name = "t"\nkind = "plain"\n[fields]\nx = { type = "int" }'
LEFT = TYPED + '\nleft = { type = "string" }'
RIGHT = TYPED + '\nright = { type = "string" }'


def offer(
    bench: Bench, id_: str, text: str, name: str = "", *, kind: str = "topic", force: bool = False
) -> list[Effect]:
    mark = bench.mark()
    bench.tell(id_, EntryOffered("c", 0, kind, name, text, force))
    bench.run()
    return [*bench.of(Enlist, id_, mark), *bench.of(Decline, id_, mark)]


def declare_root(name: str, root: str) -> str:
    return f'name = "{name}"\nkind = "plain"\nroot = "{root}"'


def everywhere(bench: Bench, kind: str = "topic") -> list[Entry]:
    """The entries of all brokers, which must be the same."""
    told = {id_: bench[id_].catalogue.entries(kind) for id_ in bench.running()}
    assert len({tuple(entries) for entries in told.values()}) == 1, told
    return next(iter(told.values()))


def conflicts(bench: Bench, since: tuple[int, int] = (0, 0)) -> dict[str, list[dict[str, str]]]:
    """What brokers have logged about entries that lost."""
    found: dict[str, list[dict[str, str]]] = {}
    for who, effect in bench.seen[since[0] :]:
        if isinstance(effect, Log) and effect.text.startswith("two have changed one entry"):
            found.setdefault(who, []).append(dict(effect.about))
    return found


def test_a_declaration_reaches_every_broker_and_each_link_carries_it_once_each_way_at_most() -> None:
    bench = Bench("abcde", ring(*"abcde"))
    bench.settle()
    mark = bench.mark()
    assert offer(bench, "c", TYPED) == [Enlist("c", 0)]
    assert [(it.name, it.version, it.broker) for it in everywhere(bench)] == [("t", 1, "c")]
    carried = [(source, target) for source, target, _ in bench.said(Enter, mark)]
    assert len(carried) == len(set(carried)) <= 10
    assert all(bench.of(CatalogueChanged, id_, mark) == [CatalogueChanged("topic", "t")] for id_ in "abcde")


def test_a_declaration_is_told_to_a_broker_that_was_cut_off() -> None:
    bench = Bench("abc", path(*"abc"))
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    offer(bench, "a", TYPED)
    bench.heal("b", "c")
    bench.settle()
    assert [it.version for it in everywhere(bench)] == [1]


def test_declarations_of_both_sides_of_a_partition_come_to_one_and_the_other_is_reported() -> None:
    bench = Bench("abcdef", ring(*"abcdef"))
    bench.settle()
    offer(bench, "a", TYPED)
    for pair in (("c", "d"), ("f", "a")):
        bench.cut(*pair)
    bench.settle()
    offer(bench, "b", LEFT)
    offer(bench, "e", RIGHT)
    assert bench["a"].catalogue.topic("t") != bench["d"].catalogue.topic("t")
    mark = bench.mark()
    for pair in (("c", "d"), ("f", "a")):
        bench.heal(*pair)
    bench.settle()
    (held,) = everywhere(bench)
    assert (held.version, held.broker, held.text) == (2, "e", RIGHT)
    said = conflicts(bench, mark)
    assert set("abc") <= set(said), "all on the side that lost say so"
    for id_ in "abcdef":
        assert bench[id_].catalogue.lost == len(said.get(id_, [])), "and it is counted"
    for about in said["b"]:
        assert about["holds"] == "version 2 of broker 'e'"
        assert about["lost"] == "version 2 of broker 'b'"
        assert about["lost_text"] == LEFT


def test_a_loser_with_a_lower_version_is_reported_too() -> None:
    bench = Bench("ab", path(*"ab"))
    bench.settle()
    offer(bench, "a", TYPED)
    bench.cut("a", "b")
    bench.settle()
    offer(bench, "b", LEFT)
    offer(bench, "a", RIGHT)
    offer(bench, "a", RIGHT + "\n")
    bench.heal("a", "b")
    bench.settle()
    assert [(it.version, it.broker) for it in everywhere(bench)] == [(3, "a")]
    assert [about["lost"] for about in conflicts(bench)["b"]] == ["version 2 of broker 'b'"]


def test_a_broker_that_was_away_learns_of_many_changes_without_a_report() -> None:
    bench = Bench("abc", path(*"abc"))
    bench.settle()
    offer(bench, "a", TYPED)
    bench.kill("c")
    bench.settle()
    for count in range(5):
        offer(bench, "ab"[count % 2], LEFT + "\n" * count)
    bench.start("c")
    bench.settle()
    assert [it.version for it in everywhere(bench)] == [6]
    assert conflicts(bench) == {}


def test_what_was_removed_while_a_broker_was_away_is_removed_there_too() -> None:
    bench = Bench("abc", path(*"abc"))
    bench.settle()
    offer(bench, "a", TYPED)
    bench.kill("c")
    bench.settle()
    offer(bench, "b", "", "t", force=True)
    bench.start("c")
    assert len(bench["c"].catalogue.entries("topic")) == 1
    bench.settle()
    assert everywhere(bench) == []


def test_a_broker_that_restarts_has_its_catalogue_before_it_reaches_anybody() -> None:
    bench = Bench("ab", path(*"ab"))
    bench.settle()
    offer(bench, "a", TYPED)
    offer(bench, "a", View("v", "t/#").text, kind="view")
    bench.kill("a")
    bench.kill("b")
    bench.start("b")
    assert [it.name for it in bench["b"].catalogue.entries("topic")] == ["t"]
    assert bench["b"].catalogue.view("v") == View("v", "t/#")
    bench.start("a", disk=False)
    bench.settle()
    assert [it.name for it in everywhere(bench)] == ["t"]
    assert [it.name for it in everywhere(bench, "view")] == ["v"]


def test_a_broker_that_joins_late_has_all_before_clients_come_in() -> None:
    bench = Bench("abc", [("a", "b"), ("c", "b")])
    bench.kill("c")
    bench.settle()
    for number in range(400):
        offer(bench, "a", f'name = "t{number}"\nkind = "plain"\n#{"x" * 500}')
    mark = bench.mark()
    bench.start("c")
    bench.settle()
    seen = [effect for who, effect in bench.seen[mark[0] :] if who == "c"]
    before = seen[: seen.index(Synchronised())]
    assert sum(isinstance(effect, CatalogueChanged) for effect in before) == 400
    assert bench.of(Synchronised, "c", mark) == [Synchronised()]


def test_what_was_let_in_before_a_change_is_still_matched_after_it() -> None:
    bench = Bench("ab", path(*"ab"))
    bench.settle()
    offer(bench, "a", LEFT)
    bench.subscribe("b", "s", "t", "x > 1", qos=1)
    bench.settle()
    bench.cut("a", "b")
    bench.settle()
    bench.publish("a", "t", b'{"x": 2, "left": "l"}')
    offer(bench, "b", RIGHT, force=True)
    bench.heal("a", "b")
    bench.settle()
    assert [it.text for it in everywhere(bench)] == [RIGHT]
    assert bench.got("b", "s") == [b'{"x": 2, "left": "l"}']


def test_a_topic_that_is_declared_without_fields_takes_any_payload() -> None:
    bench = Bench("a")
    bench.settle()
    offer(bench, "a", 'name = "t"\nkind = "plain"\nkeep = "7d"')
    bench.subscribe("a", "s", "t", qos=1)
    bench.publish("a", "t", b"\xff not JSON")
    assert bench.got("a", "s") == [b"\xff not JSON"]


# Roots that are named while the network runs.


def test_a_root_that_is_declared_has_a_tree_and_one_that_is_not_any_more_has_none() -> None:
    bench = Bench("abcd", ring(*"abcd"))
    bench.settle()
    bench.subscribe("b", "s", "t/#", qos=1)
    bench.settle()
    assert offer(bench, "a", declare_root("t/+", "d")) == [Enlist("c", 0)]
    bench.settle()
    for id_ in "abcd":
        assert bench.tree(id_, "d").members == ("a", "b", "c", "d")
    mark = bench.mark()
    bench.publish("c", "t/1")
    bench.settle()
    assert bench.got("b", "s", mark) == [b"{}"]
    assert {publish.root for _, _, publish in bench.said(Publish, mark)} == {"d"}
    offer(bench, "b", "", "t/+")
    bench.settle()
    for id_ in "abcd":
        assert [tree.root for tree in bench.status(id_).trees if tree.members] == ["a"]
    mark = bench.mark()
    bench.publish("c", "t/1")
    bench.settle()
    assert bench.got("b", "s", mark) == [b"{}"]


def test_a_root_is_not_used_before_all_know_that_it_is_declared() -> None:
    bench = Bench("abcd", path(*"abcd"), settings=Settings(trees=2))
    bench.settle()
    bench.subscribe("d", "s", "news/#", qos=1)
    bench.settle()
    other = "a" if bench_root(bench, "news/1") == "b" else "b"
    bench.tell("a", EntryOffered("c", 0, "topic", "", declare_root("news/+", other)))
    for box in [box for box in bench.waiting() if box[0] == "a"]:
        bench.step(box)  # on disk at a; the others have not heard of it
    assert bench["a"].catalogue.topic("news/+") is not None
    assert bench["d"].catalogue.topic("news/+") is None
    mark = bench.mark()
    bench.publish("a", "news/1")
    bench.settle()
    assert bench.got("d", "s", mark) == [b"{}"]
    mark = bench.mark()
    bench.publish("a", "news/1")
    bench.settle()
    assert {publish.root for _, _, publish in bench.said(Publish, mark)} == {other}


def bench_root(bench: Bench, topic: str) -> str:
    """The root of the tree that a topic uses."""
    mark = bench.mark()
    bench.publish("a", topic, qos=0)
    bench.settle()
    return {publish.root for _, _, publish in bench.said(Publish, mark)}.pop()


def test_a_declaration_may_move_to_another_root() -> None:
    bench = Bench("abc", path(*"abc"))
    bench.settle()
    bench.subscribe("c", "s", "t", qos=1)
    offer(bench, "a", declare_root("t", "b"))
    bench.settle()
    bench.publish("a", "t", b"1")
    (declined,) = offer(bench, "b", declare_root("t", "c"))
    assert isinstance(declined, Decline)
    assert "root: 'b' becomes 'c'" in declined.reason
    offer(bench, "b", declare_root("t", "c"), force=True)
    bench.publish("a", "t", b"2")
    bench.settle()
    bench.publish("a", "t", b"3")
    bench.settle()
    assert bench.got("c", "s") == [b"1", b"2", b"3"]
    assert [tree.root for tree in bench.status("a").trees if tree.members] == ["a", "c"]


# Any order.


def converge(seed: int, steps: int = 150) -> tuple[Bench, int]:
    """Brokers that change entries, lose links and die in a random order, until all is calm."""
    source = random.Random(seed)
    ids = [f"n{number}" for number in range(source.randint(2, 5))]
    links = [(ids[at], ids[source.randrange(at)]) for at in range(1, len(ids))]
    if len(ids) > 2:
        links.append((ids[0], ids[-1]))
    files = [parse_topic('name = "t"\nkind = "plain"\nkeep = "1d"')] if seed % 2 else []
    bench = Bench(ids, dict.fromkeys(links), seed=seed, topics=files)
    enlisted = 0
    for step in range(steps):
        draw = source.random()
        if draw < 0.5:
            for _ in range(source.randint(1, 8)):
                if boxes := bench.waiting():
                    bench.step(source.choice(boxes))
        elif draw < 0.75 and bench.running():
            name = source.choice("tuv")
            text = f'name = "{name}"\nkind = "plain"\n# {step}' if source.random() < 0.7 else ""
            bench.tell(source.choice(bench.running()), EntryOffered("c", step, "topic", name, text, True))
        elif draw < 0.83 and bench.running():
            bench.now += source.choice([0.1, 1.0])
            for id_ in bench.running():
                bench.tell(id_, TimerFired())
        elif draw < 0.90:
            bench.cut(*source.choice(links), block=source.random() < 0.7)
        elif draw < 0.94:
            bench.blocked = set()
        elif draw < 0.97:
            id_ = source.choice(ids)
            if id_ in bench.running():
                bench.kill(id_)
            else:
                bench.start(id_, disk=source.random() < 0.8)
        enlisted = len(bench.of(Enlist))
    bench.blocked = set()
    for id_ in ids:
        if id_ not in bench.running():
            bench.start(id_)
    for _ in range(3):
        bench.settle()
    return bench, enlisted


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_all_brokers_come_to_the_same_whatever_the_order_of_steps(first: int) -> None:
    enlisted = 0
    for seed in range(first, first + 25):
        bench, count = converge(seed)
        everywhere(bench)
        enlisted += count
        for id_ in bench.running():
            assert len(bench.of(Synchronised, id_)) <= bench.hosts[id_].boot
            restarted = bench[id_].catalogue.entries("topic")
            bench.kill(id_)
            bench.start(id_)
            assert bench[id_].catalogue.entries("topic") == restarted, f"what holds is on disk: {seed}"
    assert enlisted > 100


def test_what_was_enlisted_last_without_a_partition_is_what_holds() -> None:
    bench = Bench("abcd", ring(*"abcd"))
    bench.settle()
    source = random.Random(7)
    for count in range(30):
        text = TYPED + "\n" * count
        assert offer(bench, source.choice("abcd"), text) == [Enlist("c", 0)]
        assert everywhere(bench)[0].text == text
    assert everywhere(bench)[0].version == 30
    assert conflicts(bench) == {}


def test_a_file_does_not_overwrite_a_newer_entry_that_is_on_its_way_to_the_disk() -> None:
    bench = Bench("ab", path(*"ab"), topics=[parse_topic('name = "t"\nkind = "plain"\nkeep = "1d"')])
    bench.slow_disks.add("a")
    bench.tell("a", EntryOffered("c", 0, "topic", "t", "", True))
    bench.advance(1.0)
    assert bench.of(Synchronised, "a") == [Synchronised()]
    assert [it.name for it in bench["a"].catalogue.entries("topic")] == ["t"]
    bench.sync("a")
    bench.run()
    assert bench["a"].catalogue.entries("topic") == []
    bench.kill("a")
    bench.start("a")
    assert bench["a"].catalogue.entries("topic") == []
