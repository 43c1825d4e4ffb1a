"""Seats: who gathers, what survives its death, and what becomes of two sides that gathered apart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.overlay.bench import EPOCH, Bench, Middle, path, publication
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.events import EntryOffered, Pause, Reject, SessionOpened, SubscriptionAsked
from tidings.overlay.gather.messages import Carry, HandedOver, HandOver, Mirror, Seated, Survey
from tidings.overlay.gather.reports import Reports
from tidings.overlay.publication import Told
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import DEFAULT
from tidings.overlay.status import GatheredStatus
from tidings.overlay.versions.messages import Ask
from tidings.records.record import Kind, Record

FIELDS = """
[fields]
place = { type = "string" }
lanes = { type = "int" }
note = { type = "string" }
severity = { type = "int", conflict = "max" }
seen = { type = "string", conflict = "union" }
"""


def roads(**options: object) -> Topic:
    given = {"merge_after": "1s", "redundant_for": "60s", "window": "10m", "on_the_way": "nothing", **options}
    lines = ['name = "roads"', 'kind = "gathered"', 'key = ["place"]']
    lines += [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    return parse_topic("\n".join(lines) + FIELDS)


def network(
    ids: str = "abcde",
    *,
    links: list[tuple[str, str]] | None = None,
    topic: Topic | None = None,
    **settings: Any,
) -> Bench:
    bench = Bench(
        ids,
        path(*ids) if links is None else links,
        settings=replace(DEFAULT, **settings),
        topics=(topic or roads(),),
    )
    bench.settle()
    return bench


def report(bench: Bench, broker: str, qos: int = 1, token: int = 0, **fields: object) -> None:
    bench.publish(broker, "roads", json.dumps({"place": "bridge", **fields}).encode(), qos, token)
    bench.run()


def seen_by(bench: Bench, broker: str, session: str = "s") -> list[tuple[str, int, str, dict[str, Any]]]:
    """What a session was given: event, version, state and fields."""
    found = []
    for effect in bench.given(broker):
        told = effect.publication.told
        if session in {who for who, _ in effect.subscriptions}:
            assert told is not None, "no report is delivered as it is"
            fields = json.loads(effect.publication.payload or b"{}")
            found.append((told.event, told.version, told.state, fields))
    return found


def seat(bench: Bench, broker: str) -> GatheredStatus:
    (status,) = bench[broker].gathered("roads")
    return status


def waits(bench: Bench, broker: str) -> bool:
    """Whether a report that entered at a broker is not known there to be safe."""
    return not bench[broker]._seats.reports.at_rest


def records(bench: Bench, *kinds: Kind) -> list[tuple[str, Record]]:
    return [(who, it) for who, it in bench.seen if isinstance(it, Record) and it.kind in kinds]


def test_an_origin_that_was_out_of_reach_is_told_later_that_its_reports_are_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have sent them on a tree that the seat uses only a moment later."""
    bench = network("abc", topic=roads(seat="centre"))
    with monkeypatch.context() as patched:
        patched.setattr(Reports, "answer", lambda *_: False)
        report(bench, "a", token=7)
        bench.run()
    assert seat(bench, "b").received == 1
    assert waits(bench, "a")
    bench.advance(3.0)
    assert not waits(bench, "a")


# Finding a seat, and coming to it.


@pytest.mark.parametrize(
    ("ids", "links", "strategy", "expected"),
    [
        ("a", [], "centre", "a"),
        ("ab", path("a", "b"), "centre", "a"),
        ("abcde", path(*"abcde"), "centre", "c"),
        ("abcde", path(*"abcde"), "median", "c"),
        # A broom: the handle a-b-c-d-e-f with bristles on f.
        (
            "abcdefghijk",
            [*path(*"abcdef"), ("f", "g"), ("f", "h"), ("f", "i"), ("f", "j"), ("f", "k")],
            "centre",
            "d",
        ),
        (
            "abcdefghijk",
            [*path(*"abcdef"), ("f", "g"), ("f", "h"), ("f", "i"), ("f", "j"), ("f", "k")],
            "median",
            "f",
        ),
        (
            "abcdefghijk",
            [*path(*"abcdef"), ("f", "g"), ("f", "h"), ("f", "i"), ("f", "j"), ("f", "k")],
            "traffic",
            "f",
        ),
    ],
)
def test_every_broker_knows_the_seat_that_the_strategy_finds(
    ids: str, links: list[tuple[str, str]], strategy: str, expected: str
) -> None:
    bench = network(ids, links=links, topic=roads(seat=strategy))
    assert {seat(bench, broker).seat for broker in ids} == {expected}


def test_the_published_messages_find_the_centre_as_well() -> None:
    bench = network("abcde", topic=roads(seat="centre"), seat_protocol="paper")
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=1)
    bench.advance(2)
    assert {seat(bench, broker).seat for broker in "abcde"} == {"c"}
    assert seen_by(bench, "e") == [("a:1:1", 1, "told", {"place": "bridge", "lanes": 1})]


@pytest.mark.parametrize("strategy", ["centre", "median", "traffic"])
def test_a_scope_of_the_topic_counts_only_brokers_that_use_it(strategy: str) -> None:
    for scope, expected in (("tree", "d"), ("topic", "b")):
        bench = network("abcdefg", topic=roads(seat=strategy, seat_scope=scope), seat_window_s=5.0)
        bench.subscribe("a", "s", "roads")
        bench.subscribe("c", "t", "roads")
        bench.advance(30)
        assert {seat(bench, broker).seat for broker in "abcdefg"} == {expected}


def test_the_median_of_a_scope_is_that_of_its_brokers_and_not_of_their_traffic() -> None:
    bench = network("abcdefg", topic=roads(seat="median", seat_scope="topic"), seat_window_s=5.0)
    bench.subscribe("a", "s", "roads", qos=1)
    for number in range(30):
        report(bench, "e", lanes=number)
        bench.advance(4)
    assert {seat(bench, broker).seat for broker in "abcdefg"} == {"c"}


def test_a_seat_is_asked_what_is_open_when_the_search_finds_it_and_not_when_it_is_first_used() -> None:
    bench = Bench("abcde", [], topics=(roads(seat="centre"),))
    for broker in "abcde":
        bench.subscribe(broker, "s", "roads")
    bench.settle()
    for one, other in path(*"abcde"):
        bench.join(one, other)
    mark = bench.mark()
    bench.settle()
    assert {message.home for _, _, message in bench.said(Ask, mark)} >= set("abde")
    mark = bench.mark()
    report(bench, "a", lanes=1)
    bench.advance(40)
    assert bench.said(Ask, mark) == []
    assert all(len(seen_by(bench, broker)) == 1 for broker in "abcde")


def test_reports_travel_to_one_broker_and_the_event_travels_from_there() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    mark = bench.mark()
    report(bench, "a", lanes=2)
    report(bench, "d", note="fire")
    report(bench, "d", note="fire")
    bench.advance(2)
    carried = [(source, target) for source, target, _ in bench.said(Carry, mark)]
    assert carried == [("a", "b"), ("b", "c"), ("d", "c"), ("d", "c")]
    assert [(source, target) for source, target, _ in bench.said(Publish, mark)] == [("c", "d"), ("d", "e")]
    told = {"place": "bridge", "lanes": 2, "note": "fire"}
    assert seen_by(bench, "e") == [("a:1:1", 1, "told", told)]
    here = seat(bench, "c")
    assert (here.mine, here.open, here.received, here.opened, here.merged, here.redundant, here.told) == (
        (True, 1, 3, 1, 1, 1, 1)
    )


def test_conflicts_of_a_report_are_written_down() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads")
    bench.settle()
    report(bench, "a", lanes=2, note="fire")
    report(bench, "a", lanes=3, note="smoke")
    report(bench, "a", lanes=1, note="fire", severity=3)
    bench.advance(2)
    found = [(it.kind, it.report, it.reason) for _, it in records(bench, Kind.MERGED, Kind.SUPPRESSED)]
    assert found == [
        (Kind.SUPPRESSED, "a:1:2", "redundant: conflicts: 2"),
        (Kind.MERGED, "a:1:3", "conflicts: 1"),
    ]
    assert seat(bench, "c").conflicts == 3


def test_every_decision_is_written_down_with_event_report_and_version() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads")
    bench.settle()
    report(bench, "a", lanes=2)
    report(bench, "a", note="fire")
    report(bench, "a", lanes=2)
    bench.advance(100)
    kinds = (Kind.OPENED, Kind.MERGED, Kind.SUPPRESSED, Kind.TOLD, Kind.CLOSED, Kind.SEATED)
    found = [(who, it.kind, it.event, it.report, it.version, it.reason) for who, it in records(bench, *kinds)]
    assert found == [
        ("c", Kind.SEATED, None, None, None, "first"),
        ("c", Kind.OPENED, "a:1:1", "a:1:1", 1, None),
        ("c", Kind.SEATED, None, None, None, "deputy"),
        ("c", Kind.MERGED, "a:1:1", "a:1:2", 1, None),
        ("c", Kind.SUPPRESSED, "a:1:1", "a:1:3", None, "redundant"),
        ("c", Kind.TOLD, "a:1:1", None, 1, "told"),
        ("c", Kind.CLOSED, "a:1:1", None, None, "redundant_for"),
    ]


@pytest.mark.parametrize(("tell_first", "versions"), [("merge_after", [1, 1, 2]), ("now", [1, 2, 3])])
def test_a_report_is_written_down_with_the_version_that_tells_it_first(
    tell_first: str, versions: list[int]
) -> None:
    bench = network(topic=roads(tell_first=tell_first))
    report(bench, "a", lanes=2)
    report(bench, "a", note="fire")
    bench.advance(2)
    report(bench, "a", severity=3)
    bench.advance(2)
    assert [it.version for _, it in records(bench, Kind.OPENED, Kind.MERGED)] == versions
    assert [it.version for _, it in records(bench, Kind.TOLD)] == sorted(set(versions))


def test_a_told_event_has_the_highest_qos_of_its_reports_and_no_properties() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads", qos=2)
    bench.settle()
    report(bench, "a", qos=0, lanes=2)
    bench.publish("a", "roads", b'{"place": "bridge", "note": "x"}', 1, properties=(("who", "me"),))
    bench.run()
    bench.advance(2)
    (delivered,) = bench.given("e")
    assert (delivered.publication.qos, delivered.publication.properties) == (1, ())


def test_reports_wait_where_they_entered_until_a_seat_is_known_and_are_never_delivered_raw() -> None:
    bench = Bench("abc", path("a", "b", "c"), topics=(roads(),))
    bench.subscribe("c", "s", "roads", qos=1)
    report_now = b'{"place": "bridge", "lanes": 1}'
    bench.publish("a", "roads", report_now, 1)  # no tree has grown
    assert seat(bench, "a").waiting == 1
    bench.settle()
    bench.advance(2)
    assert seat(bench, "a").waiting == 0
    assert seen_by(bench, "c") == [("a:1:1", 1, "told", {"place": "bridge", "lanes": 1})]


def test_what_waits_for_a_seat_is_bounded_by_pausing_publishers() -> None:
    bench = Bench("ab", path("a", "b"), settings=replace(DEFAULT, backlog_bytes=4000), topics=(roads(),))
    bench.tell("a", SessionOpened("publisher"))
    effects = []
    for _ in range(40):
        effects += bench.publish("a", "roads", b'{"place": "bridge", "note": "%s"}' % (b"x" * 100), 1)
    assert any(isinstance(effect, Pause) for effect in effects)


def test_before_a_seat_is_known_reports_may_pass_as_published() -> None:
    bench = Bench("ab", path("a", "b"), topics=(roads(before_seat="pass"),))
    bench.subscribe("a", "s", "roads")
    bench.publish("a", "roads", b'{"place": "bridge", "lanes": 1}')
    assert [effect.publication.told for effect in bench.given("a")] == [None]


def test_a_report_that_cannot_be_read_is_refused_where_it_enters() -> None:
    bench = network()
    effects = bench.publish("a", "roads", b'{"lanes": 1}', 1, token=7)
    (refusal,) = [effect for effect in effects if isinstance(effect, Reject)]
    assert refusal.token == 7
    assert "needs place" in refusal.reason


# Seat and deputy.


def test_the_deputy_is_a_neighbour_and_has_a_version_before_anybody_is_told() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=2)
    assert seat(bench, "e").deputy == "b"
    mark = bench.mark()
    bench.advance(2)
    order = [type(it.message) for it in bench.sent[mark[1] :] if isinstance(it.message, Mirror | Publish)]
    assert order.index(Mirror) < order.index(Publish)


def test_an_origin_keeps_a_report_until_seat_and_deputy_have_it() -> None:
    bench = network("abc", links=[("a", "b"), ("b", "c")])
    report(bench, "c", lanes=1)
    assert seat(bench, "c").seat == "b"
    assert seat(bench, "c").deputy == "a"
    assert bench.keys("c", "report/") == []
    bench.cut("a", "b")  # the deputy is out of reach, and nobody else has been found yet
    report(bench, "c", note="fire", token=9)
    assert len(bench.keys("c", "report/")) == 1
    assert 9 in bench.accepted("c"), "it is on the disk of the broker where it entered"
    bench.settle()
    assert bench.keys("c", "report/") == []
    assert seat(bench, "c").deputy == "c"


def test_with_one_broker_its_disk_is_the_deputy() -> None:
    bench = network("a", links=[])
    bench.subscribe("a", "s", "roads", qos=1, durable=True)
    bench.slow_disks.add("a")
    report(bench, "a", lanes=1)
    bench.advance(2)
    assert seen_by(bench, "a") == []
    bench.sync("a")
    bench.run()
    assert [version for _, version, _, _ in seen_by(bench, "a")] == [1]


def test_an_event_and_its_identity_survive_the_death_of_its_seat() -> None:
    ring = [*path(*"abcde"), ("e", "a")]
    bench = network("abcde", links=ring)
    for broker in "abcde":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=2)
    bench.advance(2)
    first = seat(bench, "b")
    victim = first.seat
    others = [broker for broker in "abcde" if broker != victim]
    report(bench, others[0], note="fire")  # merged and not told yet
    bench.kill(victim)
    report(bench, others[1], severity=4)
    bench.settle()
    bench.advance(3)
    last = {"place": "bridge", "lanes": 2, "note": "fire", "severity": 4}
    for broker in others:
        had = seen_by(bench, broker, f"s{broker}")
        assert {event for event, _, _, _ in had} == {"a:1:1"}
        assert [version for _, version, _, _ in had] == sorted({version for _, version, _, _ in had})
        assert had[-1][3] == last
        assert seat(bench, broker).seat == first.deputy
        assert seat(bench, broker).term > first.term


def test_a_version_that_not_everyone_has_is_told_again_under_its_number_and_delivered_once() -> None:
    ring = [*path(*"abcde"), ("e", "a")]
    bench = network("abcde", links=ring)
    for broker in "abcde":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=2)
    victim = seat(bench, "a").seat
    bench.advance(1.0)  # told; whether the seat has heard that everyone has it or not, it dies now
    bench.kill(victim)
    bench.settle()
    bench.advance(3)
    for broker in "abcde":
        if broker != victim:
            had = seen_by(bench, broker, f"s{broker}")
            assert had == [("a:1:1", 1, "told", {"place": "bridge", "lanes": 2})]


def test_the_deputy_does_not_take_over_while_the_seat_is_in_the_tree() -> None:
    bench = network("abcd", links=[*path(*"abcd"), ("d", "a")])
    report(bench, "a", lanes=1)
    before = seat(bench, "a")
    bench.cut(before.seat, before.deputy)  # the ring still joins them
    bench.settle()
    bench.advance(3)
    after = seat(bench, "a")
    assert after.seat == before.seat
    assert not [it for _, it in records(bench, Kind.SEATED) if it.reason == "taken over"]
    assert after.deputy not in (before.deputy, "")


def test_a_seat_that_is_started_anew_gives_way_to_its_deputy_and_nothing_is_lost() -> None:
    bench = network("abc", links=[("a", "b"), ("b", "c"), ("a", "c")])
    bench.subscribe("c", "s", "roads", qos=1, durable=True)
    bench.settle()
    report(bench, "a", lanes=1)
    before = seat(bench, "c")
    bench.kill(before.seat)
    bench.start(before.seat)
    bench.settle()
    report(bench, "c", note="fire")
    bench.advance(3)
    assert seat(bench, "c").seat == before.deputy
    had = seen_by(bench, "c")
    assert had[-1][3] == {"place": "bridge", "lanes": 1, "note": "fire"}
    assert {event for event, _, _, _ in had} == {"a:1:1"}


def test_one_broker_goes_on_with_its_open_events_after_a_restart() -> None:
    bench = network("a", links=[])
    bench.subscribe("a", "s", "roads", qos=1, durable=True)
    report(bench, "a", lanes=1)
    bench.advance(2)
    bench.kill("a")
    bench.start("a")
    bench.settle()
    report(bench, "a", note="fire")
    bench.advance(2)
    assert seen_by(bench, "a") == [
        ("a:1:1", 1, "told", {"place": "bridge", "lanes": 1}),
        ("a:1:1", 2, "told", {"place": "bridge", "lanes": 1, "note": "fire"}),
    ]


def test_without_deputies_nothing_is_copied_and_a_seat_is_as_good_as_its_disk() -> None:
    bench = network("abc", links=path("a", "b", "c"), deputies=False)
    bench.subscribe("c", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=1)
    bench.advance(2)
    assert bench.said(Mirror) == []
    assert len(seen_by(bench, "c")) == 1


def test_two_sides_that_gathered_apart_become_one_event_with_all_that_both_knew() -> None:
    bench = network("abcd", links=path(*"abcd"))
    for broker in "abcd":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    bench.cut("b", "c")
    bench.settle()
    report(bench, "a", lanes=2, seen="ann")
    bench.advance(2)
    report(bench, "d", note="fire", severity=3, seen="dan")
    bench.advance(2)
    assert seat(bench, "a").seat != seat(bench, "d").seat
    bench.heal("b", "c")
    bench.settle()
    bench.advance(5)
    last = {"place": "bridge", "lanes": 2, "note": "fire", "severity": 3, "seen": ["ann", "dan"]}
    for broker in "abcd":
        had = seen_by(bench, broker, f"s{broker}")
        assert had[-1][3] == last or had[-2][3] == last
        survivor = [(event, version) for event, version, state, _ in had if state == "told"]
        assert survivor[-1] == ("a:1:1", 2), "the earlier-opened identity survives, with the next version"
        lost = [event for event, _, state, _ in had if state == "merged-into"]
        assert lost == sorted({event for event, _, state, _ in had if event != "a:1:1"}), "told once"
    assert len({seat(bench, broker).seat for broker in "abcd"}) == 1


def test_what_a_broker_told_alone_is_told_to_those_it_meets_whoever_has_the_seat_by_then() -> None:
    """The one that has the seat by then succeeds somebody else, and not the broker that was alone."""
    bench = network("abcdefg")
    for broker in "efg":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    report(bench, "a", token=1, seen="ann")
    bench.advance(2)
    assert seat(bench, "g").seat == "d"
    bench.blocked.add(frozenset("fg"))
    bench.kill("g")
    bench.settle()
    bench.start("g", disk=False)
    bench.settle()
    bench.publish("g", "roads", b'{"place": "tunnel"}', 1, 2)
    bench.advance(2)
    assert seat(bench, "g").seat == "g"
    bench.cut("d", "e")
    bench.heal("f", "g")
    bench.settle()
    bench.advance(5)
    for broker in "ef":
        tunnels = [had for had in seen_by(bench, broker, f"s{broker}") if had[3] == {"place": "tunnel"}]
        assert [version for _, version, _, _ in tunnels] == [1]


def test_an_event_that_is_merged_in_silence_is_closed_to_nobody_who_was_told_of_it_elsewhere() -> None:
    topic = roads(merge_after="30s")
    bench, other = network("a", topic=topic), network("z", topic=topic)
    bench.subscribe("a", "s", "roads", qos=1)
    report(other, "z", lanes=2)
    bench.advance(1)
    report(bench, "a", lanes=1)
    told = Told("roads", "a:1:1", 1, 1, False, "y", place="roads")
    version = publication(1, b'{"place":"bridge"}', topic="roads", origin="y", told=told)
    bench["a"]._versions.deliver(version, bench["a"]._topics.fields(version), None, 1)
    bench["a"]._seats._seats["roads"].adopt(other["z"]._seats._seats["roads"].copies(), "z", 1)
    bench.settle()
    ((_, closed),) = records(bench, Kind.CLOSED)
    assert (closed.event, closed.reason) == ("a:1:1", "merged-into")
    assert bench["a"]._versions.is_followed("a:1:1")


def test_both_sides_go_on_with_one_event_that_was_open_when_they_were_parted() -> None:
    bench = network("abcd", links=path(*"abcd"))
    for broker in "abcd":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=2)
    bench.advance(2)
    bench.cut("b", "c")
    bench.settle()
    report(bench, "a", note="fire")
    report(bench, "d", severity=3)
    bench.advance(2)
    bench.heal("b", "c")
    bench.settle()
    bench.advance(5)
    last = {"place": "bridge", "lanes": 2, "note": "fire", "severity": 3}
    for broker in "abcd":
        told = [had for had in seen_by(bench, broker, f"s{broker}") if had[2] == "told"]
        assert told[-1][3] == last
        assert told[-1][0] == "a:1:1"


# Moving.


def busy(bench: Bench, seconds: int, broker: str, *, every: float = 1.0) -> int:
    """Reports about ever new places from one broker; how many."""
    count = int(seconds / every)
    for at in range(count):
        bench.publish(broker, "roads", json.dumps({"place": f"{bench.now}-{at}", "lanes": 1}).encode(), 1)
        bench.run()
        bench.advance(every)
    return count


def test_a_seat_moves_to_the_traffic_after_three_windows_and_loses_nothing() -> None:
    bench = network("abcdefg", seat_window_s=5.0, seat_stay_s=10.0)
    bench.subscribe("a", "s", "roads", qos=1)
    bench.settle()
    assert seat(bench, "a").seat == "d"
    sent = busy(bench, 40, "a")
    bench.advance(5)
    assert {seat(bench, broker).seat for broker in "abcdefg"} == {"a"}
    had = seen_by(bench, "a")
    assert len(had) == len({event for event, _, _, _ in had}) == sent
    assert bench.keys("a", "report/") == []
    assert bench.said(HandOver) != []


def test_a_seat_stays_where_it_is_for_less_gain_or_less_time() -> None:
    few = network("abcdefg", seat_window_s=5.0, seat_stay_s=1000.0)
    busy(few, 30, "a")
    assert seat(few, "a").seat == "d", "it has not been there for long enough"
    even = network("abcdefg", seat_window_s=5.0, seat_stay_s=0.0)
    for _ in range(15):
        busy(even, 1, "a")
        busy(even, 1, "g")
    assert seat(even, "a").seat == "d", "no other is better"


def test_a_seat_that_dies_while_it_is_handed_over_is_in_one_place_afterwards() -> None:
    bench = network("abcde", links=[*path(*"abcde"), ("e", "a")], seat_window_s=5.0)
    for broker in "abcde":
        bench.subscribe(broker, f"s{broker}", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=1)
    old = seat(bench, "a").seat
    new = next(broker for broker in "edcba" if broker not in (old, seat(bench, "a").deputy))
    bench[old]._seats.move("roads", new)
    bench.tell(old, EntryOffered("nobody", 1, "topic", "roads", "?"))  # any event ends the turn
    bench.kill(old)
    bench.run()
    bench.settle()
    report(bench, new, note="fire")
    bench.advance(5)
    left = [broker for broker in "abcde" if broker != old]
    assert len({seat(bench, broker).seat for broker in left}) == 1
    for broker in left:
        had = seen_by(bench, broker, f"s{broker}")
        assert had[-1][3] == {"place": "bridge", "lanes": 1, "note": "fire"}
        assert {event for event, _, _, _ in had} == {"a:1:1"}


# Declarations and counts.


def test_open_events_finish_under_the_declaration_they_were_opened_under() -> None:
    bench = network("abc", links=path("a", "b", "c"))
    bench.subscribe("c", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=1)
    text = (
        'name = "roads"\nkind = "gathered"\nkey = ["place"]\nmerge_after = "30s"\nredundant_for = "60s"\n'
        + FIELDS
        + 'weather = { type = "string" }\n'
    )
    bench.tell("c", SessionOpened("admin"))
    bench.tell("c", EntryOffered("admin", 1, "topic", "roads", text))
    bench.run()
    report(bench, "a", place="tunnel", weather="fog")
    bench.advance(3)
    assert [fields for _, _, _, fields in seen_by(bench, "c")] == [{"place": "bridge", "lanes": 1}]
    bench.advance(40)
    assert [fields for _, _, _, fields in seen_by(bench, "c")][1:] == [{"place": "tunnel", "weather": "fog"}]


def test_a_topic_that_is_gathered_no_more_tells_what_it_has() -> None:
    bench = network("abc", links=path("a", "b", "c"))
    bench.subscribe("c", "s", "roads", qos=1)
    bench.settle()
    report(bench, "a", lanes=1)
    bench.tell("c", SessionOpened("admin"))
    bench.tell("c", EntryOffered("admin", 1, "topic", "roads", "", force=True))
    bench.run()
    bench.settle()
    assert [fields for _, _, _, fields in seen_by(bench, "c")] == [{"place": "bridge", "lanes": 1}]
    assert bench["b"].gathered("roads") == ()
    assert bench.keys("b", "seat/") == []


def test_all_brokers_know_what_a_seat_has_counted_a_window_later() -> None:
    bench = network(seat_window_s=5.0)
    report(bench, "a", lanes=1)
    report(bench, "a", lanes=1)
    bench.advance(12)
    for broker in "abcde":
        known = seat(bench, broker)
        assert (known.received, known.opened, known.redundant, known.mine) == (2, 1, 1, broker == "c")


def test_a_network_without_gathered_topics_searches_for_nothing() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    bench.advance(60)
    assert bench.said(Survey) == []
    assert bench.said(Seated) == []


def test_what_is_told_says_what_it_is() -> None:
    bench = network()
    bench.subscribe("e", "s", "roads")
    bench.settle()
    report(bench, "a", lanes=1)
    bench.advance(2)
    (delivered,) = bench.given("e")
    assert delivered.publication.told == Told("roads", "a:1:1", 1, 1, False, "c", "told", False, "", "roads")
    assert delivered.publication.content_type == "application/json"


def test_what_was_told_before_a_partition_is_an_open_event_to_those_who_hear_of_it_after() -> None:
    bench = network()
    report(bench, "e", lanes=1)
    bench.advance(2)
    bench.settle()
    for name, snapshot in (("with", True), ("without", False)):
        bench.tell("a", SessionOpened(name))
        asked = Subscription("roads", qos=1)
        bench.cut("a", "b")
        bench.settle()
        bench.tell("a", SubscriptionAsked(name, "s", asked, snapshot=snapshot))
    report(bench, "a", place="tunnel", lanes=3)  # so that there is a seat on this side
    bench.advance(3)
    bench.heal("a", "b")
    bench.settle()
    bench.advance(5)
    bridge = [("e:1:1", 1, "snapshot", {"place": "bridge", "lanes": 1})]
    assert [had for had in seen_by(bench, "a", "with") if had[0] == "e:1:1"] == bridge
    assert [had for had in seen_by(bench, "a", "without") if had[0] == "e:1:1"] == []


def test_what_is_handed_to_an_earlier_life_of_a_broker_is_not_said_to_be_safe() -> None:
    """It had the seat before it lost its disk, and knows nothing of it now."""
    for earlier, answers in ((1, []), (0, ["HandedOver"])):
        it = Middle(topics=[roads()])
        boot = it.broker.core.boot - earlier
        effects = it["a"].say(HandOver("a", EPOCH, "roads", 4, "m", boot, "a", 9, (), ()))
        assert [type(message).__name__ for _, message in it.heard(effects, HandedOver)] == answers
