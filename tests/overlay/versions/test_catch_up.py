"""Those who come later, and those who have missed something: snapshots, homes that follow, closings.

Seats are played here: `Seats` says who has it and which events are open there. The rest are whole brokers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import example
from hypothesis import given as examples
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.overlay.bench import BEGIN, EPOCH, Bench, Middle, carried, path, ring
from tests.overlay.versions.test_session_versions import Seen, seen
from tidings.language.declarations import parse_topic
from tidings.language.reports import Event
from tidings.language.subscriptions import Subscription
from tidings.overlay.core import Core
from tidings.overlay.events import (
    Deliver,
    Grant,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Message
from tidings.overlay.gather.messages import Holder
from tidings.overlay.publication import Batch, Publication, Told
from tidings.overlay.publishing.batches import message_of, unpacked
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.trees.messages import Grow, Join, Roll
from tidings.overlay.trees.trees import Edge, TreeEpoch
from tidings.overlay.versions import catch_up
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot, Unfollow
from tidings.overlay.versions.receivers import Receivers

TOPIC = parse_topic("""
name = "t"
kind = "gathered"
key = ["k"]
[fields]
k = { type = "string" }
x = { type = "int" }
""")


class Seat:
    """The gatherer at the seat, as far as those who ask it know."""

    def __init__(self, held: dict[str, Publication]) -> None:
        self._held = held

    def holds(self, event: str) -> bool:
        return event in self._held


class Seats:
    """Who has the seat of the one place "t", as one broker sees it."""

    def __init__(self, network: Network, id_: str) -> None:
        self._network = network
        self._id = id_

    def places(self, _topic_filter: str) -> list[str]:
        return ["t"]

    def grown(self, _place: str) -> TreeEpoch | None:
        broker = self._network[self._id]
        root = broker._topics.root_of("t", broker._topics.stream_of("t"))
        tree = broker._trees.serving(root) if root is not None else None
        return tree.current if tree is not None else None

    def holder(self, _place: str) -> Holder | None:
        seat = self._network.known.get(self._id, self._network.seat)
        return Holder(1, seat, self._network.hosts[seat].boot, "") if seat else None

    def mine(self, _place: str) -> Any:
        net = self._network
        has = net.seat == self._id and net.known.get(self._id, self._id) == self._id
        return Seat(net.open) if has or net.had == self._id else None

    def toward(self, grown: TreeEpoch, broker: str) -> Edge | None:
        return next((edge for edge in grown.edges.values() if broker in (edge.members or {})), None)

    def recall(self, _place: str, event: str, version: int) -> int | None:
        return self._network.recall(event, version)

    def shown(self, _place: str, wanted: Callable[[Event], bool]) -> list[Publication]:
        return [
            it
            for it in self._network.open.values()
            if it.told is not None
            and wanted(
                Event("t", (), it.told.event, it.told.version, 1, False, msgspec.json.decode(it.payload))
            )
        ]


class Network(Bench):
    """Brokers, one of which has the seat."""

    def __init__(
        self, ids: str, links: Iterable[tuple[str, str]], seat: str, settings: Settings = DEFAULT
    ) -> None:
        self.seat = seat
        self.known: dict[str, str] = {}
        """What brokers believe of the seat that differs."""
        self.had = ""
        """A broker that still has it, although another has it too."""
        self.open: dict[str, Publication] = {}
        self.past: dict[str, int] = {}
        """Events that another part of the network has closed, with their last versions."""
        super().__init__(ids, links, settings, (TOPIC,))
        self.settle()

    def start(self, id_: str, *, disk: bool = True) -> Any:
        broker = super().start(id_, disk=disk)
        broker._catch_up._seats = Seats(self, id_)
        return broker

    def recall(self, event: str, version: int) -> int | None:
        """The seat is to tell the last version of a closed event, if somebody has an earlier one."""
        last = self.past.get(event)
        if last is None or last <= version:
            return last if last == version else None
        self.told(last, 9, event=event, run=False, last=True)
        return 0

    def told(
        self, version: int, x: int = 1, *, event: str = "e", run: bool = True, topic: str = "t", **more: Any
    ) -> None:
        """The seat tells a version."""
        payload = msgspec.json.encode({"x": x})
        qos = more.pop("qos", 1)
        told = Told("t", event, version, version, more.pop("complete", False), self.seat, **more)
        broker = self[self.seat]
        self.open[event] = Publication(self.seat, 1, "", 0, topic, payload, qos, told=told)
        if told.last:
            del self.open[event]
        broker._publications.tell(topic, payload, qos, "", told)
        if told.last:
            broker._catch_up.close("t", event, version)
        self.collect(run=run)

    def close(self, event: str = "e", *, run: bool = True, say: bool = True) -> None:
        """The seat closes an event without a last version; others hear of it now, or when it says so."""
        publication = self.open.pop(event)
        assert publication.told is not None
        catch_up = self[self.seat]._catch_up
        catch_up.close("t", event, publication.told.version)
        if say:
            catch_up._say_closings()
        self.collect(run=run)

    def collect(self, *, run: bool = True) -> None:
        self._carry_out(self.seat, self[self.seat].collect())
        if run:
            self.run()

    def move(self, seat: str, *, run: bool = True) -> None:
        """Another broker has the seat."""
        self.seat = seat
        for id_ in self.running():
            self[id_]._catch_up.on_moved("t")
            self._carry_out(id_, self[id_].collect())
        if run:
            self.run()

    def client(self, id_: str, name: str, where: str = "", **more: Any) -> None:
        self.subscribe(id_, name, "t", where, qos=more.pop("qos", 1), **more)
        self.advance(2.0)

    def versions_of(self, id_: str, session: str, since: tuple[int, int] = (0, 0)) -> list[Seen]:
        return seen([*self.of(Deliver, id_, since)], session)

    def states(self, id_: str, session: str, since: tuple[int, int] = (0, 0)) -> list[tuple[int, str]]:
        return [(version, state) for version, state, _ in self.versions_of(id_, session, since)]

    def awaited(self, since: tuple[int, int] = (0, 0)) -> list[tuple[str, ...]]:
        """For each copy of a version: who must have it before it is acknowledged."""
        return [
            self[source].named(it.root, it.epoch, unpacked((it.must or it.to)[0]))
            for source, _, it in self.said(Publish, since)
        ]

    def remembered(self) -> int:
        """Open events of which some broker knows who has had them."""
        return sum(len(self[id_]._catch_up.receivers) for id_ in self.running())

    def followed(self) -> int:
        return sum(len(self[id_]._versions) for id_ in self.running())


# Homes that have had a version.


def test_a_home_that_has_had_a_version_gets_later_ones_until_the_event_is_closed() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 2)
    assert net.said(Publish) == []
    for version, x in ((2, 1), (3, 2), (4, 3)):
        net.told(version, x)
    hops = [(source, target, carried(it).number) for source, target, it in net.said(Publish)]
    assert hops == [(*link, number) for number in (2, 3, 4) for link in (("a", "b"), ("b", "c"))]
    assert net.states("c", "s") == [(2, "told"), (3, "withdrawn")]
    net.told(5, 4, last=True)
    assert net.remembered() == net.followed() == 0
    mark = net.mark()
    net.told(1, 2, event="f")
    assert net.said(Publish, mark) == []


def test_a_version_goes_on_with_the_quality_that_earlier_ones_had() -> None:
    for qos in (1, 0):
        net = Network("abc", path("a", "b", "c"), "a")
        net.client("c", "s", "x = 1", qos=qos)
        net.told(1, 1)
        net.told(2, 2)
        assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
        assert net.awaited() == [("c",) * qos] * 4


def test_who_asked_for_quality_0_gets_no_more_in_a_new_epoch_and_after_a_snapshot() -> None:
    net = Network("abc", ring("a", "b", "c"), "a")
    net.client("c", "s", "x = 1", qos=0)
    net.told(1, 1)
    net.cut("a", "c")
    net.settle()
    net.told(2, 2)
    net.told(1, 1, event="f", run=False)
    net.client("b", "s", "x = 1", qos=0)
    mark = net.mark()
    net.told(2, 2, event="f")
    assert net.states("c", "s")[:2] == [(1, "told"), (2, "withdrawn")]
    assert set(net.awaited()) == {()}
    assert net.said(Publish, mark)


def test_publications_of_plain_topics_leave_no_trace() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.subscribe("b", "s", "plain", qos=1)
    net.settle()
    net.publish("a", "plain", b"{}")
    net.run()
    assert net.got("b", "s") == [b"{}"]
    assert net.remembered() == net.followed() == 0


def test_a_closing_goes_to_the_homes_that_had_the_event_and_to_no_others() -> None:
    net = Network("abcd", [("a", "b"), ("b", "c"), ("a", "d")], "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.close()
    closings = [(source, target, it.events) for source, target, it in net.said(Close)]
    assert closings == [("a", "b", (("e", 1),)), ("b", "c", (("e", 1),))]
    assert net.remembered() == net.followed() == 0
    assert net.states("c", "s") == [(1, "told")]


def test_an_event_that_goes_on_after_it_was_closed_goes_where_it_went() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.close()
    assert net.remembered() == 0
    net.told(2, 2)  # another side of a partition knew more
    net.told(1, 1, event="f", last=True)
    net.told(2, 2, event="f")
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn"), (1, "told"), (2, "withdrawn")]


def test_an_event_that_goes_on_is_not_closed_again_by_a_home_that_says_only_now_that_it_follows() -> None:
    net = Network("abcd", [("a", "b"), ("b", "c"), ("b", "d")], "a")
    for id_ in "cd":
        net.client(id_, "s", "x < 3")
    net.told(1, 1)
    net.cut("b", "c")
    net.advance(3.0)
    net.close()
    net.told(2, 2, qos=0)  # another side of a partition knew more
    mark = net.mark()
    net.heal("b", "c")
    net.settle()
    assert [it.home for _, target, it in net.said(Follow, mark) if target == "a"] == ["c"]
    assert net.said(Close, mark) == []
    net.told(3, 3)
    for id_ in "cd":
        assert net.states(id_, "s") == [(1, "told"), (2, "told"), (3, "withdrawn")]


def test_closings_go_together_within_a_tick_each_to_those_who_had_the_event() -> None:
    net = Network("abc", [("a", "b"), ("a", "c")], "a")
    net.client("b", "s")
    net.client("c", "s", "x = 1")
    for event, x in (("e", 1), ("f", 2), ("g", 1), ("h", 2)):
        net.told(1, x, event=event)
    for event in ("e", "f", "g"):
        net.close(event, say=False)
    assert net.said(Close) == []
    net.advance(DEFAULT.heartbeat_s / 2)
    closings = {id_: [it.events for _, target, it in net.said(Close) if target == id_] for id_ in "bc"}
    assert closings == {"b": [(("e", 1), ("g", 1)), (("f", 1),)], "c": [(("e", 1), ("g", 1))]}
    assert (net.followed(), net.remembered()) == (1, 1)


def test_a_closing_that_overtakes_a_version_loses_nothing() -> None:
    net = Network("abc", path("a", "b", "c"), "a", replace(DEFAULT, link_window_messages=1))
    net.client("c", "s", "x = 1")
    net.told(1, 1, run=False)
    net.told(2, 2, run=False)  # no room for it yet
    net.close(run=False)
    net.run()
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    assert net.remembered() == net.followed() == 0


def test_a_closing_that_is_lost_on_the_way_is_said_again_in_the_next_epoch_but_not_for_ever() -> None:
    net = Network("abc", ring("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.close(run=False)
    net.cut("a", "c")
    net.settle()
    assert net.followed() == 0
    assert net.said(Follow) == []
    net.advance(60.0)
    mark = net.mark()
    net.heal("a", "c")
    net.settle()
    assert net.said(Close, mark) == []


def test_what_was_held_for_a_home_of_an_event_that_is_closed_by_now_is_not_followed_for_ever() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.cut("b", "c")
    net.advance(3.0)
    net.told(1, 1)
    net.close()
    net.advance(120.0)
    net.heal("b", "c")
    net.settle()
    assert net.states("c", "s") == [(1, "told")]
    assert net.followed() == net.remembered() == 0


def test_what_a_seat_remembers_of_homes_is_bounded() -> None:
    net = Network("ab", path("a", "b"), "a", replace(DEFAULT, following_max=3))
    net.client("b", "s")
    for number in range(9):
        net.told(1, event=f"e{number}")
    receivers = net["a"]._catch_up.receivers
    assert len(receivers) == len(net["b"]._versions) == 3
    assert receivers.forgotten == 6


def test_what_a_home_had_of_an_event_that_nobody_there_wants_is_forgotten_after_a_while() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    net.client("b", "both", "")
    for event in ("e", "f"):
        net.told(1, 1, event=event)
    net.tell("b", SubscriptionDropped("both", "s"))
    net.told(2, 2, event="e")  # withdrawn, and nobody is to hear more of it
    net.advance(3.0)
    assert [it.events for _, _, it in net.said(Unfollow)] == [(("e", 2),)]
    assert net.followed() == 2
    net.advance(DEFAULT.absent_hold_s)
    assert net.followed() == 1
    net.told(2, 2, event="f")
    assert [state for _, state in net.states("b", "s")] == ["told", "told", "withdrawn", "withdrawn"]


def test_a_home_at_which_nobody_wants_an_event_any_more_says_so_once() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s")
    net.told(1)
    net.tell("c", SubscriptionDropped("s", "s"))
    net.settle()
    assert net.said(Unfollow) == []
    mark = net.mark()
    net.told(2)
    assert [target for _, target, _ in net.said(Publish, mark)] == ["b", "c"]
    net.settle()
    said = [(source, target, it.home, it.events) for source, target, it in net.said(Unfollow)]
    assert said == [("c", "b", "c", (("e", 2),)), ("b", "a", "c", (("e", 2),))]
    mark = net.mark()
    net.told(3)
    net.settle()
    assert not net.said(Publish, mark)
    assert not net.said(Unfollow, mark)
    assert net.remembered() == 0


def test_nothing_is_said_not_to_be_wanted_while_the_answer_may_be_that_it_is() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "before", "x = 1")
    net.told(1, 1)
    net.tell("b", SubscriptionDropped("before", "s"))
    net.settle()
    net.told(2, 1)
    net.tell("b", SessionOpened("s"))
    net.tell("b", SubscriptionAsked("s", "s", Subscription("t", "x = 1", qos=1)))
    mark = net.mark()
    while not net.said(Ask, mark):
        net.step(net.waiting()[0])
    net.now += 1.0
    net.tell("b", TimerFired())
    net.run()
    net.told(3, 2)
    assert net.states("b", "s") == [(2, "snapshot"), (3, "withdrawn")]
    assert net.said(Unfollow) == []


# Homes that were away, and new seats.


def test_from_one_epoch_to_the_next_nothing_is_said_again_and_no_withdrawal_is_lost() -> None:
    net = Network("abc", ring("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    mark = net.mark()
    net.cut("a", "c")
    net.settle()
    assert net.said(Follow, mark) == []
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]


def test_a_home_that_was_away_says_what_it_follows_and_gets_what_it_has_missed() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.client("b", "s", "x = 1")
    net.told(1, 1)
    net.cut("b", "c")
    net.advance(3.0)
    net.told(2, 2, qos=0)  # nothing of that is held
    mark = net.mark()
    net.heal("b", "c")
    net.settle()
    follows = [(source, target, it.home, it.events) for source, target, it in net.said(Follow, mark)]
    assert follows == [("c", "b", "c", (("e", 1, 1),)), ("b", "a", "c", (("e", 1, 1),))]
    (number,) = {it.number for _, _, it in net.said(Follow, mark)}
    answers = [(*hop, it.home) for *hop, it in net.said(Snapshot, mark) if it.number == number]
    assert answers == [("a", "b", "c"), ("b", "c", "c")]
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    assert net.states("b", "s") == [(1, "told"), (2, "withdrawn")]


def test_a_seat_that_was_started_anew_hears_of_all_who_follow() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.client("b", "s", "x = 1", qos=0)
    net.told(1, 1)
    net.tell("a", SessionOpened("d", True))  # now the disk knows that everyone has the version
    net.kill("a")
    net.settle()
    mark = net.mark()
    net.start("a")
    net.settle()
    assert {carried(it).topic for _, _, it in net.said(Publish, mark)} <= {"u"}
    follows = [(it.home, it.events) for _, target, it in net.said(Follow, mark) if target == "a"]
    assert sorted(follows) == [("b", (("e", 1, 0),)), ("c", (("e", 1, 1),))]
    mark = net.mark()
    net.told(2, 2)
    assert net.states("b", "s") == net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    assert net.awaited(mark) == [("c",), ("c",)]


def test_a_home_that_was_started_anew_says_what_its_durable_sessions_follow() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.subscribe("b", "s", "t", "x = 1", durable=True, qos=1)
    net.settle()
    net.told(1, 1)
    net.kill("b")
    net.settle()
    net.told(2, 2, qos=0)
    mark = net.mark()
    net.start("b")
    net.settle()
    assert [it.events for _, _, it in net.said(Follow, mark)] == [(("e", 1, 1),)]
    assert net.states("b", "s") == [(1, "told"), (2, "withdrawn")]


def test_what_is_not_followed_is_not_spoken_of() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 2)
    net.cut("b", "c")
    net.advance(3.0)
    net.heal("b", "c")
    net.settle()
    assert net.said(Follow) == []


def test_when_the_seat_moves_its_new_broker_hears_of_all_who_follow() -> None:
    net = Network("abcd", path("a", "b", "c", "d"), "a")
    net.client("a", "s", "x = 1")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.move("d")
    assert len(net["a"]._catch_up.receivers) == 0
    net.told(2, 2)
    assert net.states("a", "s") == net.states("c", "s") == [(1, "told"), (2, "withdrawn")]


def test_a_version_told_before_it_is_known_who_follows_is_sent_to_those_who_missed_it() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.seat = "b"
    net["b"]._catch_up.on_moved("t")
    net.told(2, 2)  # matches nobody, and nobody is known to follow
    assert net.states("c", "s") == [(1, "told")]
    net.move("b")
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    net.told(3, 1)
    net.told(4, 2)
    assert net.states("c", "s")[2:] == [(3, "told"), (4, "withdrawn")]


def test_who_gets_a_version_of_one_that_has_the_seat_no_more_tells_the_one_that_has_it() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1, run=False)
    net.move("b", run=False)
    net.run()
    assert net.states("c", "s") == [(1, "told")]
    assert [(source, target, it.events) for source, target, it in net.said(Follow)] == [
        ("c", "b", (("e", 1, 1),))
    ]
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]


def test_who_gets_a_version_that_was_held_for_it_gets_later_ones_too() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.cut("b", "c")
    net.advance(3.0)
    net.told(1, 1)  # held for "c", which wanted such things when it was last seen
    net.told(2, 2)  # and this, since it is to have the one before
    net.heal("b", "c")
    net.settle()
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]


def test_who_was_away_hears_that_an_event_was_merged_into_another_although_its_version_is_no_later() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.told(2, 1)
    net.cut("b", "c")
    net.advance(3.0)
    # As where another side of a partition had come to version 1 only.
    net.told(2, 1, qos=0, state="merged-into", into="f", last=True)
    net.heal("b", "c")
    net.settle()
    assert net.states("c", "s") == [(1, "told"), (2, "told"), (3, "merged-into")]
    assert net.followed() == net.remembered() == 0


def test_an_event_that_was_closed_meanwhile_is_forgotten_with_its_last_version_told() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    for event in ("e", "f", "g"):
        net.told(1, 1, event=event)
    net.cut("b", "c")
    net.advance(3.0)
    net.told(2, 2, event="e")
    net.close("e")
    net.close("f")
    net.told(2, 2, event="g", last=True)
    net.heal("b", "c")
    net.settle()
    assert net.states("c", "s") == [(1, "told")] * 3 + [(2, "withdrawn")] * 2
    assert net.remembered() == net.followed() == 0


def test_an_event_that_a_seat_does_not_know_is_not_taken_for_closed_at_once() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    lost = net.open.pop("e")
    net.kill("a")
    net.settle()
    net.start("a")
    net.settle()
    assert net.followed() == 1
    net.open["e"] = lost  # it has come from elsewhere
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    del net.open["e"]
    net.cut("a", "b")
    net.advance(3.0)
    net.heal("a", "b")
    net.settle()
    assert net.followed() == 1
    net.advance(DEFAULT.absent_hold_s + 2)
    assert net.followed() == net.remembered() == 0


def test_what_a_seat_has_closed_before_another_side_went_on_with_it_is_not_taken_for_closed_at_once() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x < 3")
    net.told(1, 1)
    net.close()
    net.known, net.had, net.seat = dict.fromkeys("abc", "a"), "a", "b"
    mark = net.mark()
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "told"), (2, "told")]
    del net.open["e"]
    net.cut("b", "c")
    net.advance(3.0)
    net.heal("b", "c")
    net.settle()
    assert {it.events for _, target, it in net.said(Follow, mark) if target == "a"} == {(("e", 2, 1),)}
    assert net.followed() == 1
    net.advance(DEFAULT.absent_hold_s + 2)
    assert net.followed() == net.remembered() == 0


def test_who_was_cut_off_is_told_the_last_version_of_an_event_that_others_have_closed() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    del net.open["e"]
    net.kill("a")
    net.settle()
    net.start("a")
    net.settle()
    assert net.states("c", "s") == [(1, "told")]
    net.past["e"] = 3  # it has come from elsewhere
    net.advance(3.0)
    assert net.states("c", "s") == [(1, "told"), (3, "withdrawn")]
    assert net.followed() == net.remembered() == 0


def test_a_last_version_that_answers_what_a_home_follows_closes_the_event_and_nothing_overtakes_it() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x < 3")
    net.told(1, 1)
    net.cut("b", "c")
    net.advance(3.0)
    net.told(2, 2, qos=0, last=True, state="merged-into", into="f")
    mark = net.mark()
    net.heal("b", "c")
    net.settle()
    assert [it.home for _, target, it in net.said(Follow, mark) if target == "a"] == ["c"]
    assert net.said(Close, mark) == []
    assert net.states("c", "s") == [(1, "told"), (2, "merged-into")]
    assert net.followed() == net.remembered() == 0


def test_an_answer_to_one_home_takes_a_version_that_waits_from_no_other() -> None:
    receivers = Receivers(Core("a", 1, 1, DEFAULT, random.Random(1)))
    receivers.remember("t", "e", 1, {"b": 0, "c": 1})
    last = Told("t", "e", 2, 2, False, "a", last=True)
    receivers.close("e", 2)  # it waits for room, and the event is closed by now
    receivers.remember("t", "e", 1, {"d": 1})
    receivers.remember("t", "e", 2, {"d": 1})  # the answer to what it follows
    assert receivers.of(last) == {"b": 0, "c": 1}
    assert receivers.least("e") == 1


def test_a_new_seat_sends_its_own_sessions_what_they_have_missed() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    net.told(1, 1)
    net.cut("a", "b")
    net.advance(3.0)
    net.told(2, 2)
    net.heal("a", "b")
    net.move("b")
    net.settle()
    assert net.states("b", "s") == [(1, "told"), (2, "withdrawn")]


def test_what_a_seat_told_counts_no_more_when_another_has_had_it_since() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.cut("b", "c")
    net.advance(3.0)
    net.known = dict.fromkeys("ab", "")
    net.move("a")  # nobody knows who has it
    net.known = {}
    net.move("b")
    net.told(2, 2, qos=0)
    net.move("a")
    net.heal("b", "c")
    net.settle()
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]


def test_what_is_said_to_be_followed_and_not_answered_is_said_again() -> None:
    net = Network("abc", path("a", "b", "c"), "b")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.known["a"] = ""  # it has not begun
    net.move("a")
    net.told(2, 2)
    net.advance(4.5)
    assert [(source, target) for source, target, _ in net.said(Follow)] == [("c", "b"), ("b", "a")] * 3
    assert net.states("c", "s") == [(1, "told")]
    del net.known["a"]
    net.advance(3.0)
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    mark = net.mark()
    net.advance(20.0)
    assert net.said(Follow, mark) == []


def test_who_has_the_seat_no_more_passes_on_what_is_for_the_one_that_has_it() -> None:
    net = Network("abc", path("a", "b", "c"), "b")
    net.client("c", "s", "x = 1")
    net.told(1, 1)
    net.had = net.known["b"] = "b"
    net.move("a")
    assert [(source, target) for source, target, _ in net.said(Follow)] == [("c", "b"), ("b", "a")]
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "told"), (2, "withdrawn")]
    net.told(1, 1, event="f")
    net.client("c", "later", "x = 1")
    assert net.states("c", "later") == [(1, "snapshot")]


def test_long_lists_of_followed_events_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FOLLOW_PART", 2)
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s")
    for number in range(5):
        net.told(1, event=f"e{number}")
    net.kill("a")
    net.settle()
    mark = net.mark()
    net.start("a")
    net.settle()
    parts = [(it.number, len(it.events)) for source, _, it in net.said(Follow, mark)]
    first = parts[0][0]
    assert parts == [(first, 2), (first + 1, 2), (first + 2, 1)]
    answers = [it.number for _, _, it in net.said(Snapshot, mark)]
    assert set(answers) >= {first, first + 1, first + 2}
    mark = net.mark()
    net.advance(10.0)
    assert net.said(Follow, mark) == []  # all of it is answered


# Snapshots.


def test_a_new_subscription_begins_with_the_open_events_that_match() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    for event, x in (("e", 1), ("f", 2), ("g", 1), ("h", 1)):
        net.told(1, x, event=event)
    net.told(2, 1, event="g")
    net.close("h")
    net.client("c", "s", "x = 1")
    assert net.versions_of("c", "s") == [(1, "snapshot", ("s",)), (2, "snapshot", ("s",))]
    assert [it.publication.payload for it in net.given("c")] == [b'{"x":1}'] * 2
    assert [(source, target) for source, target, _ in net.said(Ask)] == [("c", "b"), ("b", "a")]
    assert [it.hops for it in net.given("c")] == [2, 2]


def test_a_snapshot_comes_after_the_grant() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.told(1)
    net.client("c", "s")
    net.client("a", "s")
    for id_ in "ac":
        effects = [it for who, it in net.seen if who == id_ and isinstance(it, Grant | Deliver)]
        assert [type(it) for it in effects] == [Grant, Deliver]


def test_a_home_that_was_sent_a_snapshot_gets_what_follows() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.told(1, 1)
    net.client("c", "s", "x = 1")
    net.told(2, 2)
    assert net.states("c", "s") == [(1, "snapshot"), (2, "withdrawn")]


def test_questions_of_one_home_whose_set_never_comes_leave_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catch_up, "WAITING_MAX", 30)
    net = Network("abc", path("b", "a", "c"), "a")
    net.told(1)
    epoch = net.tree("a", "a").epoch

    def ask(home: str, number: int, version: tuple[int, int]) -> None:
        link = net["a"]._links.get(home)
        assert link is not None
        subscription = Subscription("t", qos=1)
        net["a"]._catch_up.on_ask(link, Ask("a", epoch, "t", "a", home, number, version, subscription))
        net.collect()

    for number in range(1000, 1100):
        ask("b", number, (1, 1_000_000))
    for number in range(1000, 1020):
        ask("c", number, (1, 1))
    mark = net.mark()
    for home in "bc":
        net.subscribe(home, f"of {home}", "t", qos=1)
    net.run()
    # A third of the room is for each of three members.
    answered = [(to, it.number) for _, to, it in net.said(Snapshot, mark) if it.number >= 1000]
    assert answered == [("c", number) for number in range(1000, 1010)]
    assert {home: len(waiting) for home, waiting in net["a"]._catch_up._waiting.items()} == {"b": 10}


def test_a_neighbour_that_says_much_before_its_epoch_is_ready_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catch_up, "EARLY_MAX", 10)
    monkeypatch.setattr(catch_up, "EARLY_BYTES", 2_000)
    for name, kept in (("r", 10), ("r" * 1_000, 1)):
        it = Middle(("x", "y", "z"))
        it["a"].say(Grow("a", (1, 2), ("a",)))
        for child in "xyz":
            it[child].say(Join("a", (1, 2)))
        asks = [Unfollow("a", (1, 2), "t", "z", "x", ((f"{name}{number}", 1),)) for number in range(20)]
        for ask in asks:
            it["x"].say(ask)
        late = Unfollow("a", (1, 2), "t", "z", "y", (("s", 1),))
        it["y"].say(late)
        effects = []
        for peer in it.peers:
            effects += it[peer].say(Roll("a", (1, 2), ((peer, 1, 1, 0),)))
        assert it["z"].heard(effects, Unfollow) == [*asks[:kept], late]


def test_a_snapshot_is_no_repeat_of_what_came_live_and_leaves_no_gap() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.told(1)
    net.tell("c", SessionOpened("s"))
    net.tell("c", SubscriptionAsked("s", "s", Subscription("t", qos=1)))
    while not net.said(Ask):
        net.step(net.waiting()[0])
    net.told(2, run=False)  # the subscription is known at the seat, the question is on its way
    net.run()
    net.told(3)
    assert [version for version, _ in net.states("c", "s")] == [2, 3]


def test_a_snapshot_that_overtakes_a_version_takes_it_from_nobody_although_the_event_is_closed() -> None:
    net = Network("ab", path("a", "b"), "a", replace(DEFAULT, link_window_messages=1))
    net.client("b", "one")
    net.told(1, event="f", run=False)
    net.told(1, run=False)  # no room for it yet
    net.tell("b", SessionOpened("two"))
    net.tell("b", SubscriptionAsked("two", "s", Subscription("t", qos=1)))
    while not net.versions_of("b", "two"):
        net.step(next(box for box in net.waiting() if not isinstance(net._mail[box][0], WritesSynced)))
    net.close(run=False)
    net.run()
    assert sorted(net.states("b", "one")) == [(1, "told"), (1, "told")]
    assert len(net.versions_of("b", "two")) == 2
    assert net.followed() == 1


def test_only_the_one_who_asked_gets_a_snapshot() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "one")
    net.told(1)
    mark = net.mark()
    net.client("b", "two")
    assert (net.versions_of("b", "one", mark), net.states("b", "two", mark)) == ([], [(1, "snapshot")])


def test_a_subscription_that_is_asked_for_again_gets_what_its_session_has_not_had() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    net.told(1, 1)
    net.told(1, 2, event="f")
    mark = net.mark()
    net.tell("b", SubscriptionAsked("s", "s", Subscription("t", qos=1)))
    net.settle()
    assert net.states("b", "s", mark) == [(1, "snapshot")]


def test_having_been_withdrawn_is_not_having() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    for version, x in ((1, 1), (2, 2), (3, 3)):
        net.told(version, x)
    mark = net.mark()
    net.tell("b", SubscriptionAsked("s", "other", Subscription("t", "x = 3", qos=1)))
    net.settle()
    assert net.versions_of("b", "s", mark) == [(3, "snapshot", ("other",))]
    net.told(4, 4)
    assert net.versions_of("b", "s", mark)[1:] == [(4, "withdrawn", ("other",))]


def test_what_was_withdrawn_while_a_question_was_unanswered_does_not_come_back_with_the_answer() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    net.told(1, 1)
    net.known["a"] = ""  # it does not answer
    net.tell("b", SubscriptionAsked("s", "other", Subscription("t", "x = 3", qos=1)))
    net.advance(2.0)
    net.told(2, 2)
    # Another side of a partition told something else as the same version.
    told = Told("t", "e", 2, 2, False, "a")
    net.open["e"] = Publication("a", 1, "", 0, "t", b'{"x":3}', 1, told=told)
    del net.known["a"]
    net.advance(3.0)
    assert [it.publications for _, _, it in net.said(Snapshot)][-1:] == [(net.open["e"],)]
    assert net.states("b", "s") == [(1, "told"), (2, "withdrawn")]
    mark = net.mark()
    net.tell("b", SubscriptionAsked("s", "third", Subscription("t", "x = 3", qos=1)))
    net.settle()
    assert net.versions_of("b", "s", mark) == [(2, "snapshot", ("third",))]


def test_who_begins_with_an_event_that_goes_on_after_it_was_closed_is_told_it_once() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", "x = 1")
    net.told(1, 1)
    net.close()
    # Another side of a partition knew more, and shows that before it tells it to those who followed.
    told = Told("t", "e", 2, 2, False, "a")
    net.open["e"] = Publication("a", 1, "", 0, "t", b'{"x":1}', 1, told=told)
    mark = net.mark()
    net.tell("b", SubscriptionAsked("s", "other", Subscription("t", qos=1)))
    net.settle()
    net.told(2, 1)
    net.told(3, 2)
    assert net.versions_of("b", "s", mark) == [(2, "snapshot", ("other",)), (3, "told", ("other",))]


def test_what_waits_for_one_subscription_is_no_reason_for_another_to_wait() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.client("b", "s", every_us=60_000_000)
    net.told(1)
    net.told(2)
    mark = net.mark()
    net.tell("b", SubscriptionAsked("s", "other", Subscription("t", qos=1)))
    net.advance(70.0)
    assert net.versions_of("b", "s", mark) == [(2, "snapshot", ("other",))]


def test_a_subscriber_that_was_alone_begins_with_the_open_events_when_it_meets_the_seat() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.client("c", "before", "x >= 1")
    net.told(1)
    net.cut("b", "c")
    net.advance(3.0)
    net.known["c"] = "c"
    net.client("c", "alone", "x = 1")
    net.client("c", "other", "x = 2")
    net.tell("c", SessionOpened("live"))
    net.tell("c", SubscriptionAsked("live", "s", Subscription("t", qos=1), snapshot=False))
    net.told(1, event="f", qos=0)
    del net.known["c"]
    net.heal("b", "c")
    net.settle()
    assert sorted(net.states("c", "before")) == [(1, "snapshot"), (1, "told")]
    assert net.states("c", "alone") == [(1, "snapshot"), (1, "snapshot")]
    assert net.states("c", "other") == net.states("c", "live") == []


def test_a_broker_that_had_the_seat_itself_asks_when_it_loses_it_to_one_that_it_did_not_know() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.cut("b", "c")
    net.advance(3.0)
    net.told(1)
    net.known["c"] = "c"
    net.client("c", "s")
    net.heal("b", "c")
    net.advance(3.0)  # it is in one tree with the seat, and does not know it yet
    assert net.versions_of("c", "s") == []
    del net.known["c"]
    net["c"]._catch_up.on_moved("t")
    net.advance(2.0)
    assert net.states("c", "s") == [(1, "snapshot")]


def test_a_broker_with_many_subscriptions_asks_once_for_all_that_is_open() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    for x in range(6):
        net.subscribe("c", f"s{x}", "t", f"x = {x}", durable=True, qos=1)
    net.settle()
    net.cut("b", "c")
    net.advance(3.0)
    net.told(1, 1)
    net.told(1, 2, event="f")
    mark = net.mark()
    net.heal("b", "c")
    net.settle()
    assert len([it for source, _, it in net.said(Ask, mark) if source == "c"]) == 1
    assert (
        len(net.versions_of("c", "s1")),
        len(net.versions_of("c", "s2")),
        len(net.versions_of("c", "s3")),
    ) == (1, 1, 0)


def test_who_wanted_no_open_events_does_not_get_them_after_a_restart_either() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    for session, snapshot in (("live", False), ("all", True)):
        net.tell("b", SessionOpened(session, durable=True))
        net.tell("b", SubscriptionAsked(session, "s", Subscription("t", qos=1), snapshot=snapshot))
    net.settle()
    net.told(1, event="f")
    assert (len(net.versions_of("b", "live")), len(net.versions_of("b", "all"))) == (1, 2)
    net.kill("b")
    net.told(1, event="g", qos=0)
    net.start("b")
    net.settle()
    assert (len(net.versions_of("b", "live")), len(net.versions_of("b", "all"))) == (1, 3)
    net.tell("b", SubscriptionDropped("live", "s"))
    assert net.keys("b", "live/") == []


def test_no_snapshot_where_none_is_wanted_nor_for_share_groups() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    net.tell("b", SessionOpened("s"))
    net.tell("b", SubscriptionAsked("s", "s", Subscription("t"), snapshot=False))
    net.tell("b", SubscriptionAsked("s", "shared", Subscription("t"), group="g"))
    net.settle()
    assert not net.versions_of("b", "s")
    assert not net.said(Ask)


def test_a_seat_that_is_not_known_is_asked_when_it_is() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    net.known["b"] = ""
    net.client("b", "s")
    assert net.said(Ask) == []
    del net.known["b"]
    net.advance(2.0)
    assert net.states("b", "s") == [(1, "snapshot")]


def test_an_unanswered_question_is_asked_again() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    net.told(1)
    net.known["a"] = ""  # it has not begun
    net.client("c", "s")
    assert net.versions_of("c", "s") == []
    del net.known["a"]
    net.advance(3.0)
    assert net.states("c", "s") == [(1, "snapshot")]
    mark = net.mark()
    net.advance(10.0)
    assert net.said(Ask, mark) == []


def test_an_unanswered_question_is_asked_again_in_the_next_epoch() -> None:
    net = Network("abc", ring("a", "b", "c"), "a")
    net.told(1)
    net.subscribe("c", "s", "t")
    while not net.said(Ask):
        net.step(net.waiting()[0])
    net.cut("a", "c")
    net.advance(1.5)
    assert net.states("c", "s") == [(1, "snapshot")]


def test_a_subscription_that_is_dropped_asks_no_more() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    net.known["b"] = ""
    net.client("b", "s")
    net.tell("b", SubscriptionDropped("s", "s"))
    del net.known["b"]
    net.settle()
    assert not net.versions_of("b", "s")
    assert not net.said(Ask)
    assert not net["b"]._catch_up._questions
    assert not net["b"]._catch_up._expected


def test_a_refused_subscription_expects_nothing() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.tell("b", SessionOpened("s"))
    net.tell("b", SubscriptionAsked("s", "s", Subscription("t", "x >")))
    assert net["b"]._catch_up._expected == {}


def test_a_long_snapshot_comes_in_parts() -> None:
    net = Network("abc", path("a", "b", "c"), "a")
    for number in range(250):
        net.told(1, event=f"e{number}", run=False)
    net.run()
    net.client("c", "s")
    assert len(net.versions_of("c", "s")) == 250
    parts = [(len(it.publications), it.more) for source, _, it in net.said(Snapshot) if source == "a"]
    assert parts == [(100, True), (100, True), (50, False)]


def test_a_snapshot_counts_for_every() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    net.client("b", "s", every_us=20_000_000)
    net.told(2)
    assert net.states("b", "s") == [(1, "snapshot")]
    net.advance(20.0)
    assert net.states("b", "s") == [(1, "snapshot"), (2, "told")]


def test_a_filter_may_ask_a_snapshot_for_its_topic() -> None:
    net = Network("ab", path("a", "b"), "a")
    net.told(1)
    net.client("b", "one", "`$topic` = 't'")
    net.client("b", "two", "`$topic` = 'u'")
    assert (net.states("b", "one"), net.states("b", "two")) == ([(1, "snapshot")], [])


# The seat's cycle.


def test_the_cycle_of_a_seat_is_the_shortest_asked_for() -> None:
    net = Network("ab", path("a", "b"), "a")
    catch_up = net["a"]._catch_up
    assert catch_up.shortest_every("t") is None
    net.subscribe("b", "one", "t", every_us=9_000_000)
    net.subscribe("b", "other", "u", every_us=1_000_000)
    net.settle()
    assert catch_up.shortest_every("t") == 9_000_000
    net.subscribe("a", "two", "#", every_us=5_000_000)
    assert catch_up.shortest_every("t") == 5_000_000
    net.subscribe("b", "three", "+")  # content with the declared one, which is shorter
    net.settle()
    declared = TOPIC.gathering.merge_after_us if TOPIC.gathering is not None else 0
    assert catch_up.shortest_every("t") == declared < 5_000_000
    net.subscribe("b", "four", "t", every_us=declared // 2)
    net.settle()
    assert catch_up.shortest_every("t") == declared // 2
    net.tell("b", SubscriptionDropped("four", "s"))
    net.tell("b", SubscriptionDropped("three", "s"))
    net.settle()
    assert catch_up.shortest_every("t") == 5_000_000


# Whatever happens.


@examples(st.integers(0, 2**32))
@hypothesis_settings(max_examples=20, deadline=None)
def test_versions_rise_and_the_last_arrives_whatever_breaks(seed: int) -> None:
    """Links break and heal, the seat moves, subscribers come; then all is calm and a version is told."""
    random_ = random.Random(seed)
    net = Network("abcd", [*ring("a", "b", "c", "d")], "a")
    wheres = {"a": "x >= 2", "b": "x = 1", "c": "", "d": "x < 4"}
    for id_ in "abc":
        net.client(id_, "s", wheres[id_])
    version = 0
    contents: dict[int, int] = {}
    for _ in range(random_.randint(5, 25)):
        choice = random_.random()
        one = random_.choice("abcd")
        other = random_.choice([id_ for pair in ring(*"abcd") if one in pair for id_ in pair if id_ != one])
        if choice < 0.45:
            version += 1
            contents[version] = random_.randint(0, 5)
            net.told(version, contents[version], run=random_.random() < 0.5)
        elif choice < 0.6:
            net.cut(one, other)
        elif choice < 0.8:
            net.heal(one, other)
        elif choice < 0.85:
            net.move(one)
        elif choice < 0.9 and "d" not in {
            who for who, it in net.seen if isinstance(it, Grant) and it.session == "d"
        }:
            net.subscribe("d", "s", "t", wheres["d"], qos=1)
        else:
            net.advance(random_.choice([0.05, 1.1, 3.0]))
    for one, other in ring(*"abcd"):
        net.heal(one, other)
    net.advance(20.0)
    version += 1
    contents[version] = random_.randint(0, 5)
    net.told(version, contents[version])
    net.advance(20.0)
    for id_ in "abcd":
        states = net.states(id_, "s")
        versions = [it for it, _ in states]
        assert versions == sorted(set(versions))
        for it, state in states:
            assert matches(id_, contents[it]) == (state != "withdrawn")
        if id_ in "abc":
            has = bool(states) and states[-1][1] != "withdrawn"
            assert has == matches(id_, contents[version])
            if has:
                assert states[-1][0] == version
    net.close()
    net.advance(20.0)
    assert net.remembered() == 0
    assert not any(net[id_]._versions.is_followed("e") for id_ in "abcd")
    net.advance(DEFAULT.absent_hold_s + 2)
    assert net.followed() == 0


def matches(id_: str, x: int) -> bool:
    return {"a": x >= 2, "b": x == 1, "c": True, "d": x < 4}[id_]


PLACES: list[bytes | tuple[int, ...]] = [b"", b"\x07", b"\xff" * 9, (), (0, 1), (2**40, -1)]

NUMBERS = [0, 1, 2, 5, -1, 2**40, 2**64 - 1]


def anything(rng: random.Random) -> Message:
    """A message about events, true to its types and to nothing else."""
    pick: Any = rng.choice
    root, epoch, place = (
        pick(["m", "x", "zz", ""]),
        pick([(1, 1), (1, 2), (0, 0)]),
        pick(["t", "u", "t\t1", ""]),
    )
    home, seat = pick(["m", "x", "a", ""]), pick(["m", "x", "a", ""])
    events = tuple((pick(["e", "f", ""]), pick(NUMBERS)) for _ in range(rng.randint(0, 3)))
    told = Told(
        "t",
        pick(["e", "f", ""]),
        pick(NUMBERS),
        1,
        pick([True, False]),
        "x",
        pick(STATES),
        pick([True, False]),
    )
    payload = pick([b"", b"{}", b'{"x":1}', b"\xff"])
    topic = pick(["t", "u", "", "\0"])
    it = Publication(
        pick(["x", "m", ""]), 1, "0", pick(NUMBERS), topic, payload, 1, told=pick([told, told, None])
    )
    where = pick(["", "x = 1", "x ="])
    said: Message = pick(
        [
            Follow(
                root, epoch, place, seat, home, pick(NUMBERS), tuple((*one, pick(NUMBERS)) for one in events)
            ),
            Unfollow(root, epoch, place, seat, home, events),
            Close(root, epoch, pick(PLACES), place, events),
            Ask(
                root,
                epoch,
                place,
                seat,
                home,
                pick(NUMBERS),
                (pick(NUMBERS), pick(NUMBERS)),
                Subscription(pick(["t", "#", "a/#/b"]), where),
            ),
            Snapshot(root, epoch, place, home, pick(NUMBERS), (it, it)[: rng.randint(0, 2)]),
            message_of(root, epoch, pick(NUMBERS), 1, Batch.of(it), 0, pick([0, 1, 2, 7]), pick([0, 1, 2])),
        ]
    )
    return said


STATES = ["told", "snapshot", "withdrawn", "ended", "merged-into", ""]


@examples(st.integers(0, 2**32))
@example(557)  # an event of the greatest version is merged into another
@hypothesis_settings(max_examples=30, deadline=None)
def test_whatever_neighbours_say_of_events_a_broker_does_not_break(seed: int) -> None:
    rng = random.Random(seed)
    it = Middle(("x",), wants={"x": [Subscription("t", qos=1)]}, topics=[TOPIC])
    for session in ("c", "d"):
        it.tell(SessionOpened(session, session == "d"))
        it.tell(SubscriptionAsked(session, "s", Subscription("t", "x = 1", qos=1, every_us=5)))
    for at in range(30):
        peer = it[rng.choice("ax")]
        message = anything(rng)
        if hasattr(message, "root") and rng.random() < 0.8:
            message = msgspec.structs.replace(message, root="a", epoch=EPOCH)
        peer.say(message, now=BEGIN + at)
        it.tell(TimerFired(), BEGIN + at)
