"""Brokers out of reach: what is held for them, how long, how much, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

from tests.overlay.bench import BEGIN, Bench, Middle, kinds, path
from tests.overlay.offers import offer_of
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Log,
    NeighbourAdded,
    NeighbourRemoved,
    StopAsked,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing.absence import RETURN_S
from tidings.overlay.settings import DEFAULT, Settings
from tidings.records.record import Kind, Record


def network(settings: Settings = DEFAULT, topic_filter: str = "t/#", where: str = "") -> Bench:
    """a-b-c, with a durable session at c that wants something."""
    bench = Bench("abc", path("a", "b", "c"), settings)
    bench.settle()
    bench.subscribe("c", "s", topic_filter, where, durable=True, qos=1)
    bench.settle()
    assert bench.granted() == [("s", "")]
    return bench


def publish(
    bench: Bench, count: int, id_: str = "a", topic: str = "t/1", first: int = 0, qos: int = 1
) -> None:
    for number in range(first, first + count):
        bench.publish(id_, topic, b'{"n": %d}' % number, qos, number)
        bench.run()


def payloads(first: int, count: int) -> list[bytes]:
    return [b'{"n": %d}' % number for number in range(first, first + count)]


def texts(bench: Bench) -> list[str]:
    return [log.text for log in bench.of(Log)]


def test_what_an_absent_broker_wants_is_held_and_sent_when_the_network_heals() -> None:
    bench = network()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 5)
    assert bench.accepted("a") == [0, 1, 2, 3, 4]
    status = bench.status("a")
    assert (status.absent, status.held) == (("c",), 5)
    assert status.absent_bytes > 0
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 5)
    status = bench.status("a")
    assert (status.absent, status.held, status.absent_bytes) == ((), 0, 0)


def test_the_same_for_a_broker_that_was_killed_and_comes_back_with_its_disk() -> None:
    bench = network()
    bench.kill("c")
    bench.settle()
    publish(bench, 5)
    bench.start("c")
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 5)


def test_what_comes_after_the_heal_comes_after_what_was_held() -> None:
    bench = network()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 3)
    bench.heal("b", "c")
    bench.advance(0.2)
    publish(bench, 3, first=3)
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 6)


def test_only_what_the_absent_one_asked_for_is_held() -> None:
    bench = network(topic_filter="t/1", where="n > 2")
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 6)
    publish(bench, 6, topic="t/2", first=6)
    assert bench.status("a").held == 3
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(3, 3)


def test_the_topics_of_a_root_that_is_lost_are_held_too() -> None:
    roads = parse_topic("name='roads/+road'\nkind='plain'\nroot='c'\n[fields]\nn={type='int'}\n")
    bench = Bench("abc", path("a", "b", "c"), topics=[roads])
    bench.settle()
    bench.subscribe("c", "s", "#", durable=True, qos=1)
    bench.settle()
    publish(bench, 1, topic="t/1")
    bench.settle()
    bench.cut("b", "c")
    # The link is down, and the tree of c is still there for a while.
    bench.advance(DEFAULT.resume_within_s + 0.2)
    publish(bench, 1, topic="roads/a1", first=1)
    bench.settle()
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 2)


def test_quality_0_is_not_held() -> None:
    bench = network()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 5, qos=0)
    assert bench.status("a").held == 0
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == []


def test_those_who_are_there_get_it_at_once_and_only_once() -> None:
    bench = network()
    bench.subscribe("b", "near", "t/#", qos=1)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 3)
    assert bench.got("b", "near") == payloads(0, 3)
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("b", "near") == payloads(0, 3)


def test_a_broker_that_is_reached_on_another_way_is_not_absent() -> None:
    bench = Bench("abc", [*path("a", "b", "c"), ("a", "c")])
    bench.settle()
    bench.subscribe("c", "s", "t/#", qos=1)
    bench.settle()
    bench.cut("a", "c")
    bench.settle()
    assert bench.status("a").absent == ()
    publish(bench, 2)
    assert bench.got("c", "s") == payloads(0, 2)


def test_after_the_time_to_hold_nothing_is_held_and_the_operator_is_told() -> None:
    bench = network(replace(DEFAULT, absent_hold_s=60.0))
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 3)
    bench.advance(50.0)
    assert bench.status("a").held == 3
    bench.advance(10.0)
    status = bench.status("a")
    assert (status.held, status.absent, status.absent_bytes) == (0, (), 0)
    assert "nothing more is held for a broker out of reach" in texts(bench)
    assert bench.keys("a", "held/") == []
    publish(bench, 1, first=3)
    assert bench.status("a").held == 0
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == []
    publish(bench, 1, first=4)
    assert bench.got("c", "s") == payloads(4, 1)


def test_beyond_the_bytes_to_hold_the_oldest_are_dropped_counted_logged_and_recorded() -> None:
    bench = network(replace(DEFAULT, absent_hold_bytes=5 * 75))
    bench.cut("b", "c")
    bench.settle()
    since = bench.mark()
    publish(bench, 10)
    status = bench.status("a")
    assert (status.held, status.dropped) == (5, 5)
    assert status.absent_bytes <= 5 * 75
    dropped = [r for r in bench.of(Record, "a", since) if r.kind is Kind.SUPPRESSED]
    assert [r.reason for r in dropped] == ["held too much for absent brokers"] * 5
    logged = [log for log in bench.of(Log, "a", since) if log.text == "publications held are dropped"]
    assert [dict(log.about)["dropped"] for log in logged] == ["1", "2", "4"]
    assert bench.accepted("a", since) == list(range(10))
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(5, 5)


def test_with_block_nothing_more_is_accepted_and_nothing_is_dropped() -> None:
    bench = network(replace(DEFAULT, absent_hold_bytes=5 * 75 + 1, overflow="block"))
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 8)
    publish(bench, 1, topic="u", first=8)  # which the absent one does not want
    assert bench.accepted("a") == [0, 1, 2, 3, 4, 8]
    assert bench.status("a").dropped == 0
    bench.heal("b", "c")
    bench.settle()
    assert sorted(bench.accepted("a")) == list(range(9))
    assert bench.got("c", "s") == payloads(0, 8)


def test_with_block_what_was_withheld_is_accepted_when_the_time_to_hold_is_over() -> None:
    bench = network(replace(DEFAULT, absent_hold_bytes=2 * 75 + 1, absent_hold_s=60.0, overflow="block"))
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 4)
    assert bench.accepted("a") == [0, 1]
    bench.advance(60.0)
    assert bench.accepted("a") == [0, 1, 2, 3]
    assert bench.status("a").held == 0


def test_for_a_broker_that_left_for_good_nothing_is_held() -> None:
    bench = network()
    bench.tell("c", StopAsked(for_good=True))
    bench.settle()
    publish(bench, 3)
    status = bench.status("a")
    assert (status.absent, status.held) == ((), 0)
    assert bench.granted() == [("s", "")]
    bench.subscribe("a", "later", "t/#")
    bench.settle()
    assert bench.granted() == [("s", ""), ("later", "")]


def test_what_was_held_for_a_broker_is_released_when_it_leaves_for_good() -> None:
    bench = Bench("abcd", [("a", "b"), ("b", "c"), ("c", "d")])
    bench.settle()
    bench.subscribe("d", "s", "t/#", durable=True, qos=1)
    bench.settle()
    bench.cut("c", "d")
    bench.settle()
    publish(bench, 2)
    assert bench.status("a").held == 2
    bench.heal("c", "d")
    bench.settle()
    bench.tell("d", StopAsked(for_good=True))
    bench.settle()
    assert (bench.status("a").absent, bench.status("a").held) == ((), 0)


def test_a_broker_that_stops_for_a_while_is_absent() -> None:
    bench = network()
    bench.tell("c", StopAsked())
    bench.settle()
    publish(bench, 2)
    assert (bench.status("a").absent, bench.status("a").held) == (("c",), 2)


def test_an_origin_that_restarts_still_holds_for_those_who_were_absent() -> None:
    bench = network()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 2)
    bench.kill("a")
    bench.settle()
    bench.start("a")
    bench.settle()
    publish(bench, 2, first=2)
    assert bench.status("a").absent == ("c",)
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 4)


def test_a_broker_that_joins_learns_who_is_absent_and_holds_for_them() -> None:
    bench = Bench("abcd", path("a", "b", "c"))
    bench.settle()
    bench.subscribe("c", "s", "t/#", durable=True, qos=1)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    bench.join("d", "a")
    bench.settle()
    assert bench.status("d").absent == ("c",)
    publish(bench, 2, id_="d")
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("c", "s") == payloads(0, 2)


def test_a_broker_that_joins_holds_only_for_the_time_that_remains() -> None:
    bench = Bench("abcd", path("a", "b", "c"), replace(DEFAULT, absent_hold_s=60.0))
    bench.settle()
    bench.subscribe("c", "s", "t/#", durable=True, qos=1)
    bench.settle()
    bench.cut("b", "c")
    bench.advance(50.0)
    bench.join("d", "a")
    bench.advance(5.0)
    publish(bench, 1, id_="d")
    assert bench.status("d").held == 1
    bench.advance(10.0)
    assert (bench.status("d").absent, bench.status("d").held) == ((), 0)


def star(absent_hold_s: float) -> Bench:
    """B in the middle of a, c and d, with a session at d that wants something; d is dead."""
    settings = replace(DEFAULT, absent_hold_s=absent_hold_s)
    bench = Bench("abcd", [("a", "b"), ("c", "b"), ("d", "b")], settings)
    bench.settle()
    bench.subscribe("d", "s", "t/1", durable=True, qos=1)
    bench.settle()
    bench.kill("d")
    return bench


def test_restarts_do_not_begin_the_time_to_hold_anew() -> None:
    bench = star(60.0)
    for id_ in "abcabc":  # whoever restarts tells the others for how long it holds
        bench.advance(9.0)
        bench.kill(id_)
        bench.start(id_)
    bench.settle()
    assert [bench.status(id_).absent for id_ in "abc"] == [("d",)] * 3
    bench.advance(RETURN_S)  # who has just started waits a little longer
    assert [bench.status(id_).absent for id_ in "abc"] == [()] * 3
    assert [one.home for one in bench.status("a").sets] == ["a", "b", "c"]


def test_who_has_given_a_broker_up_holds_nothing_for_it_again_because_others_do() -> None:
    bench = star(60.0)
    bench.kill("c")  # which does not know that d is dead
    bench.advance(70.0)
    bench.start("c")
    for id_ in "ab":
        bench.settle()
        bench.kill(id_)
        bench.start(id_)
    bench.settle()
    assert [bench.status(id_).absent for id_ in "abc"] == [(), (), ("d",)]
    publish(bench, 1, "b")
    assert bench.status("b").held == 0
    bench.start("d")
    bench.settle()
    publish(bench, 1, "a", first=1)
    assert bench.got("d", "s") == payloads(1, 1)
    bench.kill("d")
    bench.settle()
    assert [bench.status(id_).absent for id_ in "abc"] == [("d",)] * 3


def test_one_that_was_given_up_is_held_for_when_others_have_seen_a_later_boot() -> None:
    bench = star(60.0)
    bench.cut("a", "b")
    bench.advance(70.0)
    assert bench.status("a").absent == ()
    bench.start("d")
    bench.settle()
    bench.kill("d")
    bench.settle()
    bench.heal("a", "b")
    bench.advance(30.0)
    assert bench.status("a").absent == ("d",)


def test_a_clock_that_was_set_does_not_make_the_time_to_hold_longer_or_shorter_than_it_may_be() -> None:
    for set_by, left_s in ((-1e6, 60.0), (1e6, RETURN_S)):
        bench = star(60.0)
        bench.settle()
        bench.kill("a")
        bench.cut("a", "b")
        bench.now += set_by
        bench.start("a")
        bench.advance(left_s - 1.0)
        assert "d" in bench.status("a").absent
        bench.advance(2.0)
        assert "d" not in bench.status("a").absent


def test_until_a_neighbour_has_been_reached_all_is_held_for_it() -> None:
    bench = Bench("ab")
    bench.blocked.add(frozenset("ab"))
    bench.settle()
    bench.subscribe("b", "s", "t/#", qos=1)
    bench.tell("a", NeighbourAdded("b"))
    bench.settle()
    publish(bench, 2)
    assert bench.status("a").held == 2
    assert bench.status("a").absent == ()
    bench.heal("a", "b")
    bench.settle()
    assert bench.got("b", "s") == payloads(0, 2)


def test_a_neighbour_that_is_reached_over_a_link_outside_the_tree_is_not_held_for() -> None:
    bench = Bench("abcd", [("b", "a"), ("c", "a"), ("d", "c"), ("b", "c")])
    bench.settle()
    assert bench.tree("b", "a").children == ()
    bench.subscribe("b", "s", "u")
    bench.settle()
    publish(bench, 1, id_="b")
    assert bench.granted() == [("s", "")]
    assert bench.status("b").held == 0


def test_what_a_neighbour_got_on_another_way_is_not_sent_to_it_when_it_is_reached() -> None:
    bench = Bench("abcd", [("b", "a"), ("c", "a")])
    bench.blocked.add(frozenset("bc"))
    bench.settle()
    bench.subscribe("c", "s", "t/#", qos=1)
    bench.tell("b", NeighbourAdded("c"))
    bench.settle()
    publish(bench, 2, id_="b")
    bench.publish("b", "u", b"nobody asks for it", token=9)
    bench.join("d", "a")  # and what was published is of an epoch that has passed
    bench.settle()
    bench.publish("b", "t/1", b"later", token=10)
    bench.run()
    assert bench.got("c", "s") == [*payloads(0, 2), b"later"]
    assert bench.status("b").held == 4
    since, epoch = bench.mark(), bench.tree("b", "a").epoch
    bench.heal("b", "c")
    bench.settle()
    assert bench.tree("b", "a").epoch == epoch
    assert bench.status("b").held == 0
    assert bench.said(Publish, since) == []


def test_what_was_held_for_a_neighbour_comes_before_what_it_gets_on_another_way() -> None:
    bench = Bench("ocxyz", [("o", "c"), ("x", "y")])
    bench.blocked.add(frozenset("ox"))
    bench.settle()
    bench.subscribe("x", "s", "t/#", qos=1)
    bench.subscribe("y", "sy", "t/#", qos=1)
    bench.tell("o", NeighbourAdded("x"))
    bench.settle()
    publish(bench, 2, id_="o")
    assert bench.got("x", "s") == []
    bench.join("y", "c")
    bench.settle()
    publish(bench, 1, id_="o", first=2)
    # Nobody knows which of the two it was, so it is for both.
    assert bench.got("x", "s") == bench.got("y", "sy") == payloads(0, 3)
    since = bench.mark()
    bench.join("z", "c")
    bench.settle()
    sent = [(source, target) for source, target, it in bench.said(Publish, since) for _ in it.numbers]
    assert sorted(sent) == [("c", "z")] * 3 + [("o", "c")] * 3  # nor does it know who z is
    since = bench.mark()
    bench.heal("o", "x")
    bench.settle()
    assert bench.status("o").held == 0
    assert bench.got("x", "s", since) == []


def test_what_is_on_its_way_to_a_neighbour_that_is_reached_meanwhile_is_not_held_for_it() -> None:
    bench = Bench("abc", [("b", "a"), ("c", "a")])
    bench.settle()
    bench.subscribe("c", "s", "t/#", qos=1)
    bench.settle()
    bench.tell("b", NeighbourAdded("c"))
    bench.stopped.add("a")
    publish(bench, 1, id_="b")
    assert (bench.got("c", "s"), bench.status("b").held) == ([], 1)
    epoch = bench.tree("b", "a").epoch
    bench.go_on("a")
    bench.run()
    assert bench.tree("b", "a").epoch == epoch
    assert (bench.got("c", "s"), bench.status("b").held) == (payloads(0, 1), 0)


def test_a_neighbour_that_is_not_to_be_reached_any_more_is_not_held_for() -> None:
    bench = Bench("ab")
    bench.blocked.add(frozenset("ab"))
    bench.settle()
    bench.tell("a", NeighbourAdded("b"))
    bench.settle()
    publish(bench, 2)
    bench.tell("a", NeighbourRemoved("b"))
    assert bench.status("a").held == 0


def test_both_sides_of_a_partition_hold_for_each_other() -> None:
    bench = Bench("abcd", path("a", "b", "c", "d"))
    bench.settle()
    bench.subscribe("a", "left", "t/#", qos=1)
    bench.subscribe("d", "right", "t/#", qos=1)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    publish(bench, 2, id_="a")
    publish(bench, 2, id_="d", first=2)
    assert bench.got("a", "left") == payloads(0, 2)
    assert bench.got("d", "right") == payloads(2, 2)
    bench.heal("b", "c")
    bench.settle()
    assert bench.got("a", "left") == payloads(0, 4)
    assert bench.got("d", "right") == payloads(2, 2) + payloads(0, 2)
    assert [bench.status(id_).held for id_ in "abcd"] == [0, 0, 0, 0]


def test_what_is_held_for_one_is_not_sent_to_those_who_never_left() -> None:
    bench = Bench("abcd", [("a", "b"), ("a", "c"), ("a", "d")])
    bench.settle()
    for id_ in "bcd":
        bench.subscribe(id_, f"s{id_}", "t/#", qos=1, durable=True)
    bench.settle()
    bench.cut("a", "c")
    bench.settle()
    publish(bench, 1)
    bench.settle()
    bench.heal("a", "c")
    bench.settle()
    assert [bench.got(id_, f"s{id_}") for id_ in "bcd"] == [payloads(0, 1)] * 3
    assert len([1 for _, target, _ in bench.said(Publish) if target == "c"]) == 1


def test_a_broker_that_joins_by_one_that_has_restarted_learns_who_is_absent_too() -> None:
    # What the absent one asks for nobody knows any more, only that it was there.
    bench = Bench("abc", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "s", "t/#", durable=True, qos=1)
    bench.settle()
    bench.kill("b")
    bench.settle()
    bench.kill("a")
    bench.start("a")
    bench.settle()
    bench.join("c", "a")
    bench.settle()
    assert bench.status("c").absent == ("b",)
    publish(bench, 2, id_="c")
    bench.start("b")
    bench.settle()
    assert bench.got("b", "s") == payloads(0, 2)


def test_after_a_restart_an_old_set_of_a_third_broker_is_not_taken_for_all_that_was_confirmed() -> None:
    bench = Bench("cxz", [("c", "x"), ("z", "x")])
    bench.settle()
    bench.subscribe("c", "one", "t/one", durable=True, qos=1)
    bench.settle()
    bench.cut("x", "z")
    bench.settle()
    since = bench.mark()
    bench.subscribe("c", "two", "t/two", durable=True, qos=1)
    bench.settle()
    assert bench.granted(since) == [("two", "absent: z")]
    bench.blocked.add(frozenset("cx"))
    bench.publish("x", "t/two", b"before", token=1)
    bench.run()
    bench.kill("x")
    bench.heal("x", "z")
    bench.start("x")
    bench.settle()
    assert [one.number for one in bench.status("x").sets if one.home == "c"] == [1]  # by z
    bench.publish("x", "t/two", b"after", token=2)
    bench.settle()
    assert bench.accepted("x") == [1, 2]
    bench.heal("c", "x")
    bench.settle()
    assert bench.got("c", "two") == [b"before", b"after"]


def test_a_set_that_is_behind_what_its_home_joined_with_is_not_enough_when_that_is_away_again() -> None:
    for joined_with, held in ((1, 0), (5, 1)):
        it = Middle(wants={"x": [Subscription("t", qos=1)]})
        it.sets["x"] = joined_with
        it.grow((2, 1), {})
        it["x"].lose()
        later = BEGIN + DEFAULT.resume_within_s
        it.tell(TimerFired(), later)
        del it.peers["x"]
        it.grow((3, 1), {}, now=later)
        effects = it.tell(offer_of("p", 1, "elsewhere", b"{}", 1), later)
        for sync in kinds(effects, Sync):
            assert isinstance(sync, Sync)
            it.tell(WritesSynced(sync.token), later)
        assert it.broker.status(later).held == held
