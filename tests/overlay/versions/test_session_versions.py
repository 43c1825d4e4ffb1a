"""What a subscriber sees of an event that grows: versions, withdrawals, `every`, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.overlay.bench import BEGIN, Bench, Middle, kinds, publication, publish
from tests.overlay.offers import given as given_in
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Deliver,
    Effect,
    Log,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    TimerFired,
    Write,
)
from tidings.overlay.publication import Publication, Told
from tidings.overlay.publishing.publications import VersionConfirmed
from tidings.overlay.settings import DEFAULT
from tidings.overlay.versions.session_versions import SessionVersions
from tidings.records.record import Kind, Record

Seen = tuple[int, str, tuple[str, ...]]
"""Version, state and the subscriptions that it was given to."""


class Watched(Middle):
    """A broker whose neighbour "a" sends it versions of events, and what its sessions are given of them."""

    def __init__(self, **more: Any) -> None:
        super().__init__((), **more)
        self.previous = 0
        self.at = BEGIN

    @property
    def session_versions(self) -> SessionVersions:
        return self.broker._versions

    def subscribe(
        self, session: str, where: str = "", name: str = "s", *, durable: bool = False, **more: Any
    ) -> list[Effect]:
        opened = self.tell(SessionOpened(session, durable), self.at)
        group = more.pop("group", "")
        asked = SubscriptionAsked(session, name, Subscription("t", where, **more), group)
        return opened + self.tell(asked, self.at)

    def told(
        self, version: int, payload: bytes = b"{}", *, event: str = "e", qos: int = 1, **more: Any
    ) -> list[Effect]:
        """A version comes from the seat, as the next publication of its stream."""
        it = version_of(version, payload, event=event, number=self.previous + 1, qos=qos, **more)
        sent = publish(it.number, self.previous, it)
        self.previous = it.number
        return self["a"].say(sent, now=self.at)

    def wait(self, seconds: float) -> list[Effect]:
        self.at += seconds
        return self.tell(TimerFired(), self.at)


def version_of(
    version: int, payload: bytes = b"{}", *, event: str = "e", number: int = 1, qos: int = 1, **more: Any
) -> Publication:
    origin = more.pop("origin", "a")
    told = Told("t", event, version, version, more.pop("complete", False), "a", **more)
    return publication(number, payload, qos=qos, origin=origin, told=told)


def seen(effects: list[Effect], session: str) -> list[Seen]:
    found = []
    for it in given_in(effects):
        told = it.publication.told
        names = tuple(name for who, name in it.subscriptions if who == session)
        if told is not None and names:
            found.append((told.version, told.state, names))
    return found


def records(effects: list[Effect], kind: Kind) -> list[Record]:
    return [effect for effect in effects if isinstance(effect, Record) and effect.kind is kind]


# A filter is evaluated each time an event is told.


def test_an_update_is_sent_while_the_filter_matches() -> None:
    it = Watched()
    it.subscribe("c", "x >= 3")
    assert seen(it.told(1, b'{"x":1}'), "c") == []
    assert seen(it.told(2, b'{"x":3}'), "c") == [(2, "told", ("s",))]
    assert seen(it.told(3, b'{"x":4}'), "c") == [(3, "told", ("s",))]


def test_a_filter_that_no_longer_matches_is_told_once_as_withdrawn_without_fields() -> None:
    it = Watched()
    it.subscribe("c", "x >= 3")
    it.told(1, b'{"x":3}')
    effects = it.told(2, b'{"x":1}')
    assert seen(effects, "c") == [(2, "withdrawn", ("s",))]
    (withdrawal,) = given_in(effects)
    assert withdrawal.publication.payload == b""
    (record,) = records(effects, Kind.DELIVERED)
    assert (record.reason, record.event, record.version, record.receivers) == ("withdrawn", "e", 2, ("c",))
    assert seen(it.told(3, b'{"x":2}'), "c") == []
    assert seen(it.told(4, b'{"x":5}'), "c") == [(4, "told", ("s",))]
    assert it.session_versions.counts.withdrawn == 1


def test_who_has_had_no_version_is_told_of_no_withdrawal() -> None:
    it = Watched()
    it.subscribe("c", "x >= 3")
    it.told(1, b'{"x":1}')
    assert seen(it.told(2, b'{"x":2}'), "c") == []
    assert len(it.session_versions) == 0


@pytest.mark.parametrize(("unknown", "first"), [(Unknown.WAIT, []), (Unknown.ASSUME, [(1, "told", ("s",))])])
def test_a_missing_field_waits_or_is_assumed(unknown: Unknown, first: list[Seen]) -> None:
    it = Watched()
    it.subscribe("c", "x >= 3", unknown=unknown)
    assert seen(it.told(1, b'{"y":1}'), "c") == first
    assert seen(it.told(2, b'{"y":1,"x":3}'), "c") == [(2, "told", ("s",))]
    assert seen(it.told(3, b'{"y":1,"x":1}'), "c") == [(3, "withdrawn", ("s",))]


def test_a_withdrawal_goes_to_the_subscriptions_that_had_matched() -> None:
    it = Watched()
    it.subscribe("c", "x >= 3", "one")
    it.subscribe("c", "x >= 5", "two")
    it.subscribe("c", "y = 1", "three")
    assert seen(it.told(1, b'{"x":6}'), "c") == [(1, "told", ("one", "two"))]
    assert seen(it.told(2, b'{"x":4}'), "c") == [(2, "told", ("one",))]
    assert seen(it.told(3, b'{"x":1}'), "c") == [(3, "withdrawn", ("one",))]


def test_a_session_with_several_subscriptions_goes_on_while_one_of_them_matches() -> None:
    it = Watched()
    it.subscribe("c", "x >= 3", "one")
    it.subscribe("c", "x < 3", "two")
    assert seen(it.told(1, b'{"x":6}'), "c") == [(1, "told", ("one",))]
    assert seen(it.told(2, b'{"x":1}'), "c") == [(2, "told", ("two",))]


# An increasing subsequence of versions.


def test_a_version_that_comes_again_under_another_identity_is_dropped() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(1)
    again = version_of(1, b"{}", origin="z", number=7)
    effects = it["a"].say(publish(2, 0, again))
    assert seen(effects, "c") == []
    (record,) = records(effects, Kind.SUPPRESSED)
    assert (record.reason, record.event, record.version, record.receivers) == ("repeat", "e", 1, ("c",))
    assert seen(it["a"].say(publish(3, 7, version_of(2, origin="z", number=8))), "c") == [(2, "told", ("s",))]


def test_versions_go_up_whoever_tells_them() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(3)
    assert seen(it.told(2), "c") == []
    assert seen(it.told(4), "c") == [(4, "told", ("s",))]


def test_what_one_session_has_had_another_may_still_get() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(1)
    it.subscribe("d")
    effects = it["a"].say(publish(2, 0, version_of(1, origin="z", number=1)))
    assert (seen(effects, "c"), seen(effects, "d")) == ([], [(1, "told", ("s",))])


def test_who_was_judged_by_a_version_gets_no_earlier_one() -> None:
    it = Watched()
    it.subscribe("c")
    it.subscribe("d", "x = 1")
    assert seen(it.told(2, b'{"x":2}'), "d") == []
    effects = it["a"].say(publish(2, 0, version_of(1, b'{"x":1}', origin="z")))
    assert (seen(effects, "c"), seen(effects, "d")) == ([], [])
    (record,) = records(effects, Kind.SUPPRESSED)
    assert record.receivers == ("c", "d")
    assert seen(it.told(3, b'{"x":1}'), "d") == [(3, "told", ("s",))]


def test_what_was_had_stays_had_when_its_subscription_is_dropped() -> None:
    it = Watched()
    it.subscribe("c", "x = 1", "one")
    it.subscribe("c", "x = 2", "two")
    it.told(1, b'{"x":2}')
    it.told(3, b'{"x":1}')
    assert seen(it.tell(SubscriptionDropped("c", "one")), "c") == []
    assert seen(it["a"].say(publish(3, 0, version_of(2, b'{"x":2}', origin="z"))), "c") == []
    assert seen(it.told(4, b'{"x":3}'), "c") == []
    assert seen(it.told(5, b'{"x":2}'), "c") == [(5, "told", ("two",))]


def test_a_version_that_passes_while_a_session_asks_for_nothing_is_given_to_it_when_it_comes_again() -> None:
    it = Watched()
    it.subscribe("c", "", "one")
    it.told(1)
    it.tell(SubscriptionDropped("c", "one"))
    assert seen(it.told(2), "c") == []
    it.subscribe("c", "", "two")
    assert seen(it["a"].say(publish(9, 0, version_of(2, origin="z"))), "c") == [(2, "told", ("two",))]
    assert seen(it["a"].say(publish(9, 0, version_of(1, origin="y"))), "c") == []


def test_deliveries_are_written_down_with_event_and_version() -> None:
    it = Watched()
    it.subscribe("c")
    (record,) = records(it.told(1), Kind.DELIVERED)
    assert (record.event, record.version, record.reason, record.link) == ("e", 1, None, "a")


# The end of an event.


@pytest.mark.parametrize("last", [{"state": "ended"}, {"last": True}])
def test_the_last_version_ends_the_following_and_is_not_delivered_twice(last: dict[str, Any]) -> None:
    it = Watched()
    it.subscribe("c")
    it.told(1)
    effects = it.told(2, **last)
    assert seen(effects, "c") == [(2, last.get("state", "told"), ("s",))]
    assert len(it.session_versions) == 0
    assert seen(it["a"].say(publish(3, 0, version_of(2, origin="z", number=1, **last))), "c") == []


def test_an_event_that_ends_without_matching_is_withdrawn() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    it.told(1, b'{"x":1}')
    assert seen(it.told(2, b'{"x":2}', state="ended", last=True), "c") == [(2, "withdrawn", ("s",))]
    assert len(it.session_versions) == 0


def test_an_event_that_was_merged_into_another_is_told_to_its_followers_and_to_no_others() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    it.subscribe("d", "x = 2")
    it.subscribe("gone", "x = 1 AND y IS NULL")
    it.told(1, b'{"x":1}')
    it.told(2, b'{"x":1,"y":1}')
    effects = it.told(3, b'{"x":2}', state="merged-into", into="f", last=True)
    assert seen(effects, "c") == [(3, "merged-into", ("s",))]
    assert seen(effects, "d") == seen(effects, "gone") == []
    assert len(it.session_versions) == 0


def test_a_version_that_the_last_has_overtaken_is_not_delivered() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    assert seen(it.told(2, b'{"x":1}', state="merged-into", last=True), "c") == []
    assert seen(it["a"].say(publish(2, 0, version_of(1, b'{"x":1}', origin="z"))), "c") == []


def test_an_event_that_is_closed_on_one_side_and_goes_on_on_the_other_is_followed_again() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    it.subscribe("d", "x = 1", durable=True)
    it.told(1, b'{"x":1}', last=True)
    it.tell(SubscriptionDropped("c", "s"))
    effects = it["a"].say(publish(2, 0, version_of(2, b'{"x":2}', origin="z")))
    assert (seen(effects, "c"), seen(effects, "d")) == ([], [(2, "withdrawn", ("s",))])
    assert len(it.session_versions) == 1


def test_a_closing_that_overtakes_the_merging_takes_it_from_nobody() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(3)
    it.session_versions.close("e", 3)
    assert seen(it.told(3, state="merged-into", last=True), "c") == [(4, "merged-into", ("s",))]


def test_a_closing_by_one_side_of_a_partition_ends_nothing_that_another_has_told_beyond_it() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(3)
    it.session_versions.close("e", 2)
    assert it.session_versions.is_followed("e")
    it.session_versions.close("e", 0)
    assert not it.session_versions.is_followed("e")


def test_a_closing_waits_for_no_session_that_wants_the_event_no_more() -> None:
    it = Watched()
    it.subscribe("c", name="one")
    it.subscribe("d")
    it.told(1)
    it.tell(SubscriptionDropped("c", "one"))
    it.told(2)
    it.session_versions.close("e", 3)
    assert len(it.session_versions) == 1
    it.session_versions.close("e", 2)
    assert len(it.session_versions) == 0


def test_nothing_of_an_event_follows_once_it_is_one_with_another() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    it.told(4, b'{"x":1}')
    # The other side did not know how far it had come on this one.
    assert seen(it.told(3, b'{"x":1}', state="merged-into", last=True), "c") == [(5, "merged-into", ("s",))]
    assert seen(it.told(6, b'{"x":1}'), "c") == []
    assert seen(it.told(7, b'{"x":1}', state="merged-into", last=True), "c") == []


def test_a_closed_event_is_remembered_for_a_while() -> None:
    settings = replace(DEFAULT, absent_hold_s=30.0)
    it = Watched(settings=settings)
    it.subscribe("c")
    it.told(1, last=True)
    it.wait(29.0)
    assert "e" in it.session_versions._closed
    it.wait(3.0)
    assert not it.session_versions._closed


# every


def test_every_sends_the_newest_version_when_its_time_has_come() -> None:
    it = Watched()
    it.subscribe("c", every_us=5_000_000)
    assert seen(it.told(1), "c") == [(1, "told", ("s",))]
    it.at += 1
    assert seen(it.told(2), "c") == []
    effects = it.told(3)
    assert seen(effects, "c") == []
    (record,) = records(effects, Kind.SUPPRESSED)
    assert (record.reason, record.version, record.receivers) == ("held for every", 2, ("c",))
    assert seen(it.wait(3.9), "c") == []
    assert seen(it.wait(0.1), "c") == [(3, "told", ("s",))]
    it.at += 1
    assert seen(it.told(4), "c") == []
    assert seen(it.wait(4.0), "c") == [(4, "told", ("s",))]
    it.at += 6
    assert seen(it.told(5), "c") == [(5, "told", ("s",))]


@pytest.mark.parametrize("now", [{"complete": True}, {"state": "ended", "last": True}, {"last": True}])
def test_complete_and_last_versions_are_not_held(now: dict[str, Any]) -> None:
    it = Watched()
    it.subscribe("c", every_us=5_000_000)
    it.told(1)
    it.told(2)
    effects = it.told(3, **now)
    assert seen(effects, "c") == [(3, now.get("state", "told"), ("s",))]
    assert [record.version for record in records(effects, Kind.SUPPRESSED)] == [2]
    assert seen(it.wait(10.0), "c") == []


def test_a_withdrawal_is_not_held_and_takes_the_place_of_what_is() -> None:
    it = Watched()
    it.subscribe("c", "x = 1", every_us=5_000_000)
    it.told(1, b'{"x":1}')
    it.told(2, b'{"x":1}')
    assert seen(it.told(3, b'{"x":2}'), "c") == [(3, "withdrawn", ("s",))]
    it.told(4, b'{"x":1}')
    assert seen(it.told(5, b'{"x":3}'), "c") == []
    assert seen(it.wait(10.0), "c") == []


def test_of_several_subscriptions_of_a_session_the_shortest_cycle_counts() -> None:
    it = Watched()
    it.subscribe("c", "x >= 1", "slow", every_us=60_000_000)
    it.subscribe("c", "x >= 2", "quick", every_us=2_000_000)
    it.told(1, b'{"x":2}')
    it.told(2, b'{"x":2}')
    assert seen(it.wait(2.0), "c") == [(2, "told", ("quick", "slow"))]
    it.told(3, b'{"x":1}')
    assert seen(it.wait(57.9), "c") == []
    assert seen(it.wait(2.1), "c") == [(3, "told", ("slow",))]


def test_what_is_held_is_sent_when_the_event_is_closed() -> None:
    it = Watched()
    it.subscribe("c", every_us=60_000_000)
    it.told(1)
    it.told(2)
    it.session_versions.close("e", 2)
    assert seen(it.broker.collect(), "c") == [(2, "told", ("s",))]
    assert seen(it.wait(60.0), "c") == []


def test_a_closing_that_overtakes_the_last_version_waits_for_it() -> None:
    it = Watched()
    it.subscribe("c", "x = 1")
    it.told(1, b'{"x":1}')
    it.session_versions.close("e", 2)
    assert seen(it.told(2, b'{"x":2}'), "c") == [(2, "withdrawn", ("s",))]
    assert len(it.session_versions) == 0


def test_what_is_held_is_judged_again_when_its_time_has_come() -> None:
    it = Watched()
    it.subscribe("c", "x >= 1", every_us=5_000_000)
    it.subscribe("d", "x >= 1", every_us=5_000_000)
    for version in (1, 2):
        it.told(version, b'{"x":2}')
    it.subscribe("c", "x >= 9", every_us=5_000_000)
    it.subscribe("d", "x >= 2", every_us=5_000_000)
    effects = it.wait(5.0)
    assert seen(effects, "c") == [(2, "withdrawn", ("s",))]
    assert seen(effects, "d") == [(2, "told", ("s",))]


def test_what_is_held_for_one_subscription_is_not_lost_with_another() -> None:
    it = Watched()
    it.subscribe("c", "x = 1", "one", every_us=5_000_000)
    it.subscribe("c", "x = 2", "two", every_us=5_000_000)
    it.told(1, b'{"x":1}')
    it.told(2, b'{"x":2}')
    assert seen(it.tell(SubscriptionDropped("c", "one")), "c") == [(2, "told", ("two",))]
    assert seen(it.wait(5.0), "c") == []


# Share groups.


def test_versions_of_an_event_stay_with_one_member_of_a_share_group() -> None:
    it = Watched()
    for session in ("c", "d"):
        it.subscribe(session, group="g")
    receivers = set()
    for version in range(1, 6):
        effects = it.told(version)
        receivers |= {session for session in ("c", "d") if seen(effects, session)}
        assert not (seen(effects, "c") and seen(effects, "d"))
    assert len(receivers) == 1


# Memory.


def test_what_ends_is_forgotten() -> None:
    it = Watched()
    it.subscribe("c", every_us=60_000_000)
    it.subscribe("d")
    it.subscribe("d", name="two")
    it.subscribe("f")
    for version in (1, 2):
        it.told(version)
    it.tell(SubscriptionDropped("d", "s"))
    assert seen(it.told(3), "d") == [(3, "told", ("two",))]
    it.tell(SubscriptionDropped("d", "two"))
    it.tell(SessionClosed("d"))
    it.tell(SessionClosed("c"))
    it.tell(SessionEnded("f"))
    assert (len(it.session_versions), it.session_versions._by_session) == (0, {})
    assert seen(it.wait(60.0), "c") == []


def test_the_events_followed_are_bounded_and_the_longest_unchanged_goes_first() -> None:
    it = Watched(settings=replace(DEFAULT, following_max=2))
    it.subscribe("c", "x = 1", every_us=60_000_000)
    effects: list[Effect] = []
    for event in ("e", "f"):
        it.told(1, b'{"x":1}', event=event)
    it.told(2, b'{"x":1}', event="e")
    it.told(2, b'{"x":1}', event="f")
    effects = it.told(1, b'{"x":1}', event="g")
    # What waited for its session is not lost with the memory of the event.
    assert seen(effects, "c") == [(1, "told", ("s",)), (2, "told", ("s",))]
    assert list(it.session_versions._events) == ["f", "g"]
    assert it.session_versions.counts.forgotten == 1
    assert [log.text for log in kinds(effects, Log) if isinstance(log, Log)] == [
        "events are followed no further"
    ]


# Durable sessions.


def rows(effects: list[Effect]) -> list[str]:
    return [it.key for it in effects if isinstance(it, Write) and it.key.startswith("follow/")]


def durable_bench() -> Bench:
    bench = Bench("abd", [("a", "b"), ("d", "b")])
    bench.settle()
    return bench


def tell(bench: Bench, version: int, payload: bytes = b"{}", *, at: str = "a", **more: Any) -> None:
    """A broker that has the seat tells a version."""
    it = version_of(version, payload, **more)
    assert it.told is not None
    told = msgspec.structs.replace(it.told, seat=at)
    bench[at]._publications.tell(it.topic, it.payload, it.qos, "", told)
    bench._carry_out(at, bench[at].collect())
    bench.run()


def given(bench: Bench, id_: str, session: str, since: tuple[int, int] = (0, 0)) -> list[Seen]:
    return seen([*bench.of(Deliver, id_, since)], session)


def test_what_a_durable_session_has_had_survives_a_restart() -> None:
    bench = durable_bench()
    bench.subscribe("b", "c", "t", "x = 1", durable=True, qos=1)
    bench.settle()
    tell(bench, 1, b'{"x":1}')
    tell(bench, 2, b'{"x":1}')
    assert bench.keys("b", "follow/") == ["follow/c/e"]
    bench.kill("b")
    bench.start("b")
    bench.settle()
    mark = bench.mark()
    # A successor of the seat tells the version again, which it does not know to be there.
    tell(bench, 2, b'{"x":1}', at="d")
    assert given(bench, "b", "c", mark) == []
    tell(bench, 3, b'{"x":2}', at="d")
    tell(bench, 4, b'{"x":1}', at="d", last=True)
    assert given(bench, "b", "c", mark) == [(3, "withdrawn", ("s",)), (4, "told", ("s",))]
    assert bench.keys("b", "follow/") == []


def test_a_closed_event_that_is_told_again_is_a_repeat_after_a_restart_too() -> None:
    bench = durable_bench()
    bench.subscribe("b", "c", "t", durable=True, qos=1)
    bench.settle()
    tell(bench, 1, last=True)
    tell(bench, 1, event="f", last=True)
    bench.kill("b")
    bench.start("b")
    bench.settle()
    tell(bench, 1, at="d", last=True)
    assert given(bench, "b", "c") == [(1, "told", ("s",))] * 2
    assert bench.keys("b", "closed/") == ["closed/e", "closed/f"]
    bench.advance(DEFAULT.absent_hold_s)
    assert bench.keys("b", "closed/") == []


def test_a_session_that_is_not_durable_writes_nothing() -> None:
    it = Watched()
    it.subscribe("c")
    assert rows(it.told(1)) == []


def test_a_session_that_becomes_durable_takes_what_it_had_with_it() -> None:
    it = Watched()
    it.subscribe("c")
    it.told(1)
    assert rows(it.tell(SessionOpened("c", True))) == ["follow/c/e"]


def test_what_is_held_for_a_durable_session_survives_a_restart() -> None:
    bench = durable_bench()
    bench.subscribe("b", "c", "t", durable=True, qos=1, every_us=20_000_000)
    bench.settle()
    for version in (1, 2, 3):
        tell(bench, version)
    assert given(bench, "b", "c") == [(1, "told", ("s",))]
    bench.kill("b")
    bench.start("b")
    bench.advance(30.0)
    assert given(bench, "b", "c") == [(1, "told", ("s",)), (3, "told", ("s",))]


def test_what_is_held_is_made_durable_when_the_event_is_closed() -> None:
    it = Watched()
    it.subscribe("c", every_us=60_000_000, durable=True)
    it.told(1)
    it.told(2)
    it.session_versions.close("e", 2)
    effects = it.broker.collect()
    assert seen(effects, "c") == [(2, "told", ("s",))]
    assert len(kinds(effects, Sync)) == 1


def test_a_durable_session_that_ends_leaves_nothing_behind() -> None:
    bench = durable_bench()
    bench.subscribe("b", "c", "t", durable=True, qos=1)
    bench.settle()
    tell(bench, 1)
    assert bench.keys("b", "follow/") == ["follow/c/e"]
    bench.tell("b", SessionEnded("c"))
    assert bench.keys("b", "follow/") == []


def test_a_hop_acknowledges_a_version_when_what_a_durable_session_had_is_on_disk() -> None:
    bench = durable_bench()
    bench.subscribe("b", "c", "t", durable=True, qos=1, every_us=20_000_000)
    bench.settle()
    tell(bench, 1)
    confirmed: list[Told] = []
    bench["a"].core.heard_by[VersionConfirmed] = lambda notice: confirmed.append(notice.told)
    bench.slow_disks.add("b")
    tell(bench, 2)
    assert confirmed == []
    bench.sync("b")
    bench.run()
    assert [told.version for told in confirmed] == [2]
