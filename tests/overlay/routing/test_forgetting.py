"""Brokers that are gone for good: one broker is told, and nothing is held for them anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

import pytest

from tests.overlay.bench import BEGIN, Bench, Mailbox, Middle, heard, item, kinds, path, ring
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import EntryOffered, ForgetAsked, Log, StopAsked, TimerFired, Write
from tidings.overlay.routing import gone
from tidings.overlay.routing.absence import WORDS_EACH_MAX
from tidings.overlay.routing.catalogue import pages_text
from tidings.overlay.routing.messages import Change, Has, Sets
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.messages import Grow, Join, Roll

GONE = "a broker is gone for good; nothing is held for it"
TOLD = (
    "the network was told that this broker is gone for good, and has held nothing for it since; it joins as "
    "a new one"
)


SEEN = "a broker that was to be forgotten has been seen since; if it is gone, forget it again"


def network(ids: str = "abc", links: Iterable[tuple[str, str]] = (), trees: int = 1) -> Bench:
    """a-b-c, or other links, with a durable session at the last one that wants something."""
    bench = Bench(ids, list(links) or path(*ids), replace(DEFAULT, trees=trees))
    bench.settle()
    bench.subscribe(ids[-1], "s", "t", durable=True, qos=1)
    bench.settle()
    assert bench.granted() == [("s", "")]
    return bench


def publish(bench: Bench, id_: str, number: int) -> None:
    bench.publish(id_, "t", b"%d" % number, 1, number)
    bench.settle()


def forget(bench: Bench, name: str, at: str) -> None:
    bench.tell(at, ForgetAsked(name))
    bench.settle()


def held(bench: Bench, ids: str) -> list[tuple[tuple[str, ...], int, int]]:
    """What is held by some brokers: for whom, publications, bytes."""
    statuses = [bench.status(id_) for id_ in ids]
    return [(status.absent, status.held, status.absent_bytes) for status in statuses]


def said(bench: Bench, id_: str, text: str, since: tuple[int, int] = (0, 0)) -> int:
    """How often a broker has logged a line."""
    return [log.text for log in bench.of(Log, id_, since)].count(text)


NOTHING = ((), 0, 0)


def test_what_is_held_is_released_at_every_broker_whichever_is_told() -> None:
    for at in "abc":
        bench = network("abcd")
        bench.kill("d")
        bench.settle()
        for number, id_ in enumerate("abc"):
            publish(bench, id_, number)
        assert [count for _, count, _ in held(bench, "abc")] == [1, 1, 1]
        forget(bench, "d", at)
        assert held(bench, "abc") == [NOTHING] * 3
        assert [bench.keys(id_, "held/") for id_ in "abc"] == [[]] * 3
        assert [said(bench, id_, GONE) for id_ in "abc"] == [1, 1, 1]
        publish(bench, at, 3)
        assert held(bench, "abc") == [NOTHING] * 3
        assert sorted(bench.accepted()) == [0, 1, 2, 3]


def test_grants_name_it_no_more() -> None:
    bench = network()
    bench.kill("c")
    bench.settle()
    since = bench.mark()
    bench.subscribe("a", "before", "t")
    bench.settle()
    forget(bench, "c", "b")
    bench.subscribe("a", "after", "t")
    bench.settle()
    assert bench.granted(since) == [("before", "absent: c"), ("after", "")]


def test_word_of_it_goes_round_once_in_a_network_with_cycles() -> None:
    bench = network("abcd", [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    bench.kill("d")
    bench.settle()
    since = bench.mark()
    forget(bench, "d", "a")
    told = [message.gone for _, _, message in bench.said(Sets, since) if message.gone]
    assert told == [(("d", 1, 1),)] * 6  # over every link, from either end


def test_a_broker_that_is_in_reach_or_not_known_is_not_forgotten() -> None:
    bench = network()
    publish(bench, "a", 0)
    since = bench.mark()
    for name in ("b", "c", "a", "nobody"):
        forget(bench, name, "a")
    publish(bench, "a", 1)
    assert bench.got("c", "s") == [b"0", b"1"]
    assert [said(bench, id_, GONE, since) for id_ in "abc"] == [0, 0, 0]
    assert bench.keys("a", gone.PREFIX) == []


def test_a_broker_that_was_away_hears_of_it_when_it_is_back() -> None:
    bench = network("abcd", [("a", "b"), ("b", "c"), ("b", "d")])
    bench.kill("d")
    bench.settle()
    publish(bench, "c", 0)
    bench.kill("c")
    bench.settle()
    forget(bench, "d", "a")
    bench.start("c")
    bench.settle()
    assert held(bench, "abc") == [NOTHING] * 3


def test_a_broker_that_was_cut_off_hears_of_it_and_its_side_with_it() -> None:
    bench = network("abcde", [*path("a", "b", "c", "d"), ("b", "e")])
    bench.kill("e")
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, "d", 0)
    forget(bench, "e", "a")
    assert bench.status("d").absent == ("a", "b", "e")
    bench.heal("b", "c")
    bench.settle()
    assert held(bench, "abcd") == [NOTHING] * 4


def test_it_is_remembered_over_a_restart_of_those_who_were_told() -> None:
    bench = network("abcd", [("a", "b"), ("b", "c"), ("b", "d")])
    bench.kill("d")
    bench.settle()
    publish(bench, "c", 0)
    bench.kill("c")
    bench.settle()
    forget(bench, "d", "a")
    for id_ in "ab":
        bench.kill(id_)
    for id_ in "abc":
        bench.start(id_)
    bench.settle()
    assert held(bench, "abc") == [NOTHING] * 3


def test_a_broker_that_joins_later_holds_nothing_for_it() -> None:
    bench = Bench("abcd", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t", durable=True, qos=1)
    bench.settle()
    bench.kill("c")
    bench.settle()
    forget(bench, "c", "a")
    bench.join("d", "b")
    bench.settle()
    publish(bench, "d", 0)
    assert held(bench, "abd") == [NOTHING] * 3
    assert said(bench, "d", GONE) == 0  # which it never knew


def test_it_comes_back_as_a_new_one_and_says_so_once() -> None:
    bench = network()
    bench.kill("c")
    bench.settle()
    publish(bench, "a", 0)
    forget(bench, "c", "b")
    publish(bench, "a", 1)
    bench.start("c")
    bench.settle()
    publish(bench, "a", 2)
    # What its sessions ask for holds, what was published meanwhile was not held for it.
    assert bench.got("c", "s") == [b"2"]
    assert said(bench, "c", TOLD) == 1
    assert held(bench, "abc") == [NOTHING] * 3
    bench.kill("c")
    bench.settle()
    publish(bench, "a", 3)
    bench.start("c")
    bench.settle()
    # From then on it is a broker like the others.
    assert bench.got("c", "s") == [b"2", b"3"]
    assert said(bench, "c", TOLD) == 1


def test_it_may_be_forgotten_again() -> None:
    bench = network()
    for number in range(2):
        bench.kill("c")
        bench.settle()
        publish(bench, "a", number)
        assert bench.status("a").absent == ("c",)
        forget(bench, "c", "a")
        assert held(bench, "ab") == [NOTHING] * 2
        bench.start("c")
        bench.settle()
        assert said(bench, "c", TOLD) == number + 1
    assert bench.got("c", "s") == []


def test_who_restarted_since_knows_what_to_forget() -> None:
    # Its boot is on disk beside its name: a broker that has restarted has no set of it.
    bench = network()
    bench.kill("c")
    bench.settle()
    publish(bench, "b", 0)
    bench.cut("a", "b")
    bench.kill("a")
    bench.start("a")
    bench.settle()
    assert bench.status("a").absent == ("b", "c")
    forget(bench, "c", "a")
    bench.heal("a", "b")
    bench.settle()
    assert held(bench, "ab") == [NOTHING] * 2


def test_who_was_away_does_not_have_a_broker_forgotten_that_has_come_back_since() -> None:
    bench = network("abdc", [("a", "b"), ("b", "c"), ("a", "d"), ("d", "c")])
    bench.kill("c")
    bench.settle()
    forget(bench, "c", "a")
    assert bench.keys("d", gone.PREFIX) == ["gone/c"]
    bench.kill("d")
    bench.settle()
    bench.start("c")
    bench.settle()
    bench.kill("c")
    bench.settle()
    publish(bench, "a", 0)
    bench.start("d")  # which remembers that c is forgotten
    bench.settle()
    assert bench.status("a").absent == ("c",)
    assert bench.status("d").absent == ("c",)
    publish(bench, "d", 1)
    bench.start("c")
    bench.settle()
    assert sorted(bench.got("c", "s")) == [b"0", b"1"]
    assert said(bench, "c", TOLD) == 1


def test_all_are_told_although_nothing_is_held_where_the_operator_asks() -> None:
    brief, long = replace(DEFAULT, absent_hold_s=5.0), replace(DEFAULT, absent_hold_s=600.0)
    bench = Bench("abcd", path(*"abcd"), {"a": brief, "b": long, "c": long, "d": long})
    bench.settle()
    bench.subscribe("d", "s", "t", durable=True, qos=1)
    bench.settle()
    bench.kill("d")
    bench.advance(20.0)
    publish(bench, "b", 0)
    assert held(bench, "ab")[0] == NOTHING
    assert bench.status("b").held == 1
    forget(bench, "d", "a")
    assert held(bench, "abc") == [NOTHING] * 3
    # Asked again, it does no harm.
    forget(bench, "d", "a")
    assert held(bench, "abc") == [NOTHING] * 3
    assert bench["a"].has_heard_of("d")
    assert not bench["a"].has_heard_of("e")


def test_one_of_which_only_pages_are_known_is_forgotten() -> None:
    brief, long = replace(DEFAULT, absent_hold_s=5.0), replace(DEFAULT, absent_hold_s=600.0)
    bench = Bench("abcd", path(*"abc"), {"a": brief, "b": long, "c": long, "d": long})
    bench.tell("c", EntryOffered("", 0, "pages", "c", pages_text("c", "http://127.0.0.1:1")))
    bench.settle()
    bench.kill("c")
    bench.advance(20.0)
    bench.join("d", "a")
    bench.settle()
    assert [bench.status(id_).absent for id_ in "abd"] == [(), ("c",), ()]
    forget(bench, "c", "d")
    assert held(bench, "abd") == [NOTHING] * 3
    assert said(bench, "d", SEEN) == 0


def test_one_of_which_only_the_name_was_learned_is_forgotten_everywhere() -> None:
    bench = Bench("abc", path("a", "b"))
    bench.settle()
    bench.kill("b")
    bench.settle()
    bench.kill("a")
    bench.start("a")  # which has no set of b to tell, and so no boot
    bench.join("c", "a")
    bench.settle()
    assert [bench.status(id_).absent for id_ in "ac"] == [("b",)] * 2
    forget(bench, "b", "c")
    assert held(bench, "ac") == [NOTHING] * 2


def test_one_that_others_have_seen_in_a_later_boot_is_to_be_forgotten_again() -> None:
    bench = network("abc", [("a", "b"), ("c", "b")])
    bench.kill("c")
    bench.settle()
    bench.cut("a", "b")
    bench.start("c")
    bench.settle()
    bench.kill("c")
    bench.settle()
    publish(bench, "b", 0)
    bench.heal("a", "b")
    bench.stopped.add("b")
    bench.tell("a", ForgetAsked("c"))  # of which a has not heard since its first boot
    bench.go_on("b")
    bench.settle()
    assert said(bench, "a", SEEN) == 1
    assert bench.status("b").held == 1
    forget(bench, "c", "a")
    assert held(bench, "ab") == [NOTHING] * 2
    assert said(bench, "a", SEEN) == 1


def test_a_word_without_a_boot_that_a_broker_has_come_back_has_it_not_forgotten() -> None:
    it = Middle()
    it["x"].say(Sets((Has("z", 3, 1, 60.0),)))
    effects = it["x"].say(Sets((), (("z", 0, 2),)))
    assert it.broker.status(BEGIN).absent == ("z",)
    assert it.heard(effects, Sets) == [("x", Sets((), (("z", 3, 0),)))]


def test_a_broker_logs_and_writes_once_that_it_was_forgotten() -> None:
    it = Middle()
    effects = [effect for count in range(100) for effect in it["x"].say(Sets((), (("m", 1, count),)))]
    assert len([log for log in kinds(effects, Log) if isinstance(log, Log) and log.text == TOLD]) == 1
    assert len(kinds(effects, Write)) == 1
    assert heard(effects) == []


def test_a_neighbour_may_speak_of_few_brokers_that_nobody_has_met() -> None:
    it = Middle()
    names = [f"n{number:04}" for number in range(1_000)]
    effects = [effect for name in names for effect in it["x"].say(Sets((), ((name, 1, 1),)))]
    assert len({message.gone for _, message in it.heard(effects, Sets)}) == WORDS_EACH_MAX
    assert len(kinds(effects, Write)) == WORDS_EACH_MAX
    # Of those that were heard of it may still speak, and another neighbour of any.
    for peer, name in (("x", "n0000"), ("a", "n0999")):
        effects = it[peer].say(Sets((), ((name, 1, 2),)))
        assert [who for who, _ in it.heard(effects, Sets)] == ["a", "x"]


def test_one_that_is_a_member_is_not_gone_whatever_boot_was_said() -> None:
    latest = 2**53 - 1
    it = Middle()
    it["x"].say(Sets((), (("z", latest, 1),)))
    it["x"].say(Change("z", 7, 1, (item(1, Subscription("t", qos=1)),)))
    assert [one.home for one in it.broker.status(BEGIN).sets] == ["m", "a", "x"]
    it["a"].say(Grow("a", (1, 2), ("a",)))
    it["x"].say(Join("a", (1, 2)))
    it["x"].say(Roll("a", (1, 2), (("x", 1, 1, 0), ("z", 7, 7, 1))))
    effects = it["a"].say(Roll("a", (1, 2), (("a", 1, 1, 0),)))
    assert ("a", Sets((), (("z", latest, 2),))) in it.heard(effects, Sets)
    it["x"].say(Change("z", 7, 1, (item(1, Subscription("t", qos=1)),)))
    assert [one.number for one in it.broker.status(BEGIN).sets if one.home == "z"] == [1]


def test_one_that_was_only_cut_off_is_found_again_with_what_it_asks_for() -> None:
    bench = network()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, "a", 0)
    forget(bench, "c", "a")
    bench.heal("b", "c")
    bench.settle()
    publish(bench, "a", 1)
    assert bench.got("c", "s") == [b"1"]
    assert said(bench, "c", TOLD) == 1
    # Its set is here, so nothing is sent to it that it does not want.
    assert [(one.home, one.filters) for one in bench.status("a").sets] == [("a", 0), ("b", 0), ("c", 1)]
    since = bench.mark()
    bench.subscribe("c", "later", "u", qos=1)
    bench.settle()
    assert bench.granted(since) == [("later", "")]
    bench.cut("b", "c")
    bench.settle()
    publish(bench, "a", 2)
    bench.kill("b")
    bench.settle()
    bench.start("b")  # which says whom it remembers to be forgotten
    bench.settle()
    assert bench.status("a").absent == ("c",)
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == [b"1", b"2"]


def test_word_of_before_it_came_back_does_no_harm_although_it_never_died() -> None:
    bench = network("acw", [("c", "a"), ("w", "a")])
    bench.cut("a", "c")
    bench.settle()
    forget(bench, "c", "a")
    assert bench.keys("w", gone.PREFIX) == ["gone/c"]
    bench.kill("w")
    bench.settle()
    bench.heal("a", "c")
    bench.settle()
    since = bench.mark()
    bench.subscribe("c", "later", "u", qos=1)
    bench.settle()
    assert bench.granted(since) == [("later", "absent: w")]
    bench.cut("a", "c")
    bench.settle()
    bench.publish("a", "u", b"1")
    bench.settle()
    assert bench.status("a").held == 1
    bench.start("w")  # which says that c is gone
    bench.settle()
    assert bench.status("a").held == 1
    assert bench.status("a").absent == ("c",)
    bench.heal("a", "c")
    bench.settle()
    assert bench.got("c", "later") == [b"1"]


def test_who_has_a_broker_in_its_epoch_says_that_it_is_not_gone() -> None:
    """It was said to be on the other side of a partition; it dies when the sides meet."""
    bench = network("abcd", path(*"abcd"))
    bench.cut("b", "c")
    bench.settle()
    forget(bench, "d", "a")
    bench.heal("b", "c")
    while not bench.said(Roll):
        bench.step(bench.waiting()[0])
    while not any(message.gone for _, target, message in bench.said(Sets) if target == "c"):
        bench.advance(0.05)
    bench.settle()
    bench.kill("d")
    bench.settle()
    publish(bench, "a", 0)
    publish(bench, "c", 1)
    assert bench.status("a").absent == bench.status("c").absent == ("d",)


def test_one_that_was_only_cut_off_may_be_forgotten_again() -> None:
    bench = network()
    for number in range(2):
        bench.cut("b", "c")
        bench.settle()
        publish(bench, "a", number)
        assert bench.status("a").held == 1
        forget(bench, "c", "a")
        assert held(bench, "ab") == [NOTHING] * 2
        bench.heal("b", "c")
        bench.settle()
    assert bench.got("c", "s") == []


def in_any_order(bench: Bench, chance: random.Random, until: Callable[[], bool]) -> None:
    """Let one thing after the other arrive, some connections being much faster than others, or time pass."""
    speeds: dict[Mailbox, float] = {}
    while not until():
        boxes = bench.waiting()
        if boxes and chance.random() < 0.98:
            bench.step(max(boxes, key=lambda box: speeds.setdefault(box, chance.random())))
        else:
            due, id_ = min((bench[id_].next_deadline() or inf, id_) for id_ in bench.running())
            bench.now = max(bench.now, due)
            bench.tell(id_, TimerFired())


# In the first two a broker hears of it by a link that is not of the tree whose next epoch it still waits for.
SEEDS = [(2, 1), (3, 29), *(pytest.param(2 + seed % 2, seed, marks=pytest.mark.slow) for seed in range(100))]


@pytest.mark.parametrize(("trees", "seed"), SEEDS)
def test_whoever_still_has_it_in_an_epoch_forgets_it_with_the_next(trees: int, seed: int) -> None:
    links = [*ring("a", "b", "c", "d"), ("a", "c"), ("b", "d"), *((id_, "e") for id_ in "abcd")]
    bench = network("abcde", links, trees)
    bench.kill("e")

    def somebody_knows() -> bool:
        return any(bench.status(id_).absent == ("e",) for id_ in "abcd")

    in_any_order(bench, random.Random(seed), somebody_knows)
    assert any("e" in tree.members for id_ in "abcd" for tree in bench.status(id_).trees)
    bench.tell(next(id_ for id_ in "abcd" if bench.status(id_).absent), ForgetAsked("e"))
    in_any_order(bench, random.Random(seed + 1), lambda: not bench.waiting())
    bench.settle()
    publish(bench, "c", 0)
    assert held(bench, "abcd") == [NOTHING] * 4


@pytest.mark.parametrize("trees", [1, 3])
def test_one_that_leaves_for_good_is_forgotten_when_it_is_in_no_tree(trees: int) -> None:
    bench = Bench("abc", path("a", "b", "c"), replace(DEFAULT, trees=trees))
    bench.settle()
    bench.subscribe("c", "s", "t", durable=True, qos=1)
    bench.settle()
    bench.tell("c", StopAsked(for_good=True))
    bench.settle()
    assert held(bench, "ab") == [NOTHING] * 2
    assert bench.keys("a", gone.PREFIX) == ["gone/c"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone, "GONE_MAX", 2)
    bench = Bench("abcde", [("a", id_) for id_ in "bcde"])
    bench.settle()
    for id_ in "bcde":
        bench.kill(id_)
    bench.settle()
    for id_ in "bcde":
        forget(bench, id_, "a")
    assert bench.keys("a", gone.PREFIX) == ["gone/d", "gone/e"]
    assert held(bench, "a") == [NOTHING]
