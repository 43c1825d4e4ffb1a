"""The judges of gathered topics bite: each promise, broken by hand or by a broker, is reported.

A good run is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.overlay.offers import deliver, given
from tidings.gathering.gatherer import Decision, Gatherer
from tidings.language.regions import Unknown
from tidings.language.reports import Report
from tidings.language.subscriptions import Subscription
from tidings.overlay.broker import Broker
from tidings.overlay.events import Deliver, Effect
from tidings.overlay.events import Event as BrokerEvent
from tidings.overlay.publication import Publication, Told
from tidings.planning import topologies
from tidings.records.record import Kind, Record
from tidings.sim.brokers.run import Plan
from tidings.sim.brokers.trace import Delivery, Trace
from tidings.sim.brokers.workload import Workload
from tidings.sim.gathering.promises import GatheredPromises
from tidings.sim.gathering.run import GatheredRun
from tidings.sim.gathering.seats import best_seat, check_seats, tree_of
from tidings.sim.gathering.trace import Notes
from tidings.sim.gathering.workload import PLAIN, Reporting, gathered
from tidings.sim.node import MachineMaker

SHORT = Reporting(redundant_for_s=1.0, window_s=2.0)
ROADS = "roads0/reports"


class Story:
    """What happened, told in the order in which it did."""

    def __init__(self, reporting: Reporting = PLAIN) -> None:
        self.ledger = Trace()
        self.notes = Notes(lambda: self.ledger.turn)
        self.reporting = reporting
        self.divided = False
        self._numbers = count(1)
        self.subscribes("w0")

    def subscribes(
        self,
        session: str,
        where: str = "",
        name: str = "1",
        topic_filter: str = "#",
        qos: int = 1,
        unknown: Unknown = Unknown.WAIT,
    ) -> None:
        self.ledger.opened(session, "b000", durable=True)
        self.ledger.asked(session, name, Subscription(topic_filter, where, unknown, qos))
        self.ledger.granted(session, name, "")

    def reports(self, key: str = "k0", qos: int = 1, host: str = "b001", **fields: object) -> None:
        body = json.dumps({"place": key, **fields}).encode()
        offer = self.ledger.offered(f"p-{host}", host, 1, ROADS, body, qos, 0.0)
        if qos:
            self.ledger.accepted(f"p-{host}", offer.number)

    def tells(
        self,
        *sessions: str,
        event: str = "e1",
        version: int = 1,
        key: str = "k0",
        state: str = "told",
        into: str = "",
        reports: int = 1,
        qos: int = 1,
        last: bool = False,
        **fields: object,
    ) -> None:
        record = Record("b000", 1, 1, 0, Kind.TOLD, ROADS, event=event, version=version, reason=state)
        if state != "snapshot":
            self.notes(record)
        complete = all(name in fields for name in self.reporting.fields)
        told = Told(ROADS, event, version, reports, complete, "b000", state, last, into)
        body = b"" if state == "withdrawn" else json.dumps({"place": key, **fields}).encode()
        number = next(self._numbers)
        publication = Publication("b000", 1, ROADS, number, ROADS, body, qos, told=told)
        self.ledger.turn += 1
        names = tuple((session, "1") for session in sessions)
        self.ledger.deliveries.append(Delivery(self.ledger.turn, 0.0, "b000", publication, names, 0))

    def broken(self, *, safe_from: int = 0) -> set[str]:
        self.ledger.turn += 1
        found = GatheredPromises(
            self.ledger,
            gathered(Workload(topics=2)),
            self.reporting,
            [self.ledger.turn],
            self.notes,
            divided=self.divided,
            safe_from=safe_from,
        ).check()
        return {breach.promise for breach in found}


def test_a_good_run_breaks_nothing() -> None:
    story = Story()
    story.subscribes("s1", "severity >= 5")
    story.subscribes("s2", "note IS NULL")
    story.reports(severity=3)
    story.tells("w0", "s2", severity=3)
    story.reports(severity=7, witness="ann")
    story.reports(note="bridge", witness="bob")
    story.tells("w0", "s1", version=2, reports=3, severity=7, witness=["ann", "bob"], note="bridge")
    story.tells("s2", version=2, reports=3, state="withdrawn")
    story.subscribes("s3")
    story.tells(
        "s3", version=2, reports=3, state="snapshot", severity=7, witness=["ann", "bob"], note="bridge"
    )
    assert story.broken() == set()


def test_a_report_that_is_delivered_as_it_is() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    raw = Publication("b001", 1, "0", 1, ROADS, b'{"place":"k0","severity":3}', 1)
    story.ledger.deliveries.append(Delivery(story.ledger.turn + 1, 0.0, "b000", raw, (("w0", "1"),), 0))
    assert story.broken() == {"nothing raw"}


def test_a_report_that_is_in_no_event() -> None:
    story = Story()
    story.reports(severity=3)
    assert story.broken() == {"nothing lost"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"severity": 7}, {"severity": 3}),
        ({"speed": 10}, {"speed": 30}),
        ({"witness": "ann"}, {"witness": ["bob"]}),
        ({"kind": "fire"}, {}),
    ],
)
def test_a_report_of_which_a_part_is_in_no_event(said: dict[str, Any], told: dict[str, Any]) -> None:
    story = Story()
    story.reports(lanes=2, **told)
    story.reports(lanes=2, **said)
    story.tells("w0", lanes=2, reports=2, **told)
    assert story.broken() == {"nothing lost"}
    assert story.broken(safe_from=story.ledger.turn) == set()


def test_a_report_of_qos_0_or_of_a_lost_disk_may_be_lost() -> None:
    story = Story()
    story.reports(qos=0, severity=3)
    story.reports(severity=3)
    story.ledger.crashed("b001", wiped=True)
    assert story.broken() == set()


def test_parts_of_a_report_must_be_in_one_event_together() -> None:
    story = Story(SHORT)
    story.reports(kind="fire", lanes=2)
    story.reports(kind="fire")
    story.reports(lanes=2)
    story.tells("w0", kind="fire")
    story.tells("w0", event="e2", lanes=2)
    assert story.broken() == {"nothing lost"}
    story.tells("w0", event="e3", kind="fire", lanes=2)
    assert story.broken() == set()


def test_what_nobody_reported() -> None:
    story = Story()
    story.reports(severity=3, witness="ann")
    story.tells("w0", severity=4, witness=["ann"])
    assert story.broken() == {"nothing made up"}


def test_another_things_fields() -> None:
    story = Story()
    story.reports(severity=3)
    story.reports("k1", severity=4)
    story.tells("w0", severity=4)
    story.tells("w0", event="e2", key="k1", severity=4)
    assert story.broken() == {"nothing made up"}


def test_a_version_twice() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.tells("w0", severity=3)
    assert story.broken() == {"nothing twice"}


def test_a_snapshot_may_repeat_a_version_for_a_new_subscription_only() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.subscribes("w0", "severity > 1", name="2")
    story.tells("w0", state="snapshot", severity=3)
    assert story.broken() == set()
    story.tells("w0", state="snapshot", severity=3)
    assert story.broken() == {"nothing twice"}


def test_an_older_version_after_a_newer() -> None:
    story = Story()
    story.subscribes("s1")
    story.reports(severity=3)
    story.reports(severity=5)
    story.tells("s1", version=2, severity=5, reports=2)
    story.tells("w0", "s1", severity=3)
    story.tells("w0", version=2, severity=5, reports=2)
    assert "in order" in story.broken()


def test_a_version_that_says_less() -> None:
    story = Story()
    story.reports(severity=3, kind="fire")
    story.tells("w0", severity=3, kind="fire")
    story.tells("w0", version=2, severity=3)
    assert "in order" in story.broken()


def test_something_after_the_end() -> None:
    story = Story(SHORT)
    story.reports(severity=3)
    story.tells("w0", severity=3, state="ended")
    story.tells("w0", version=2, severity=3)
    assert story.broken() == {"in order"}


def test_content_that_does_not_satisfy_the_filter() -> None:
    story = Story()
    story.subscribes("s1", "severity >= 5")
    story.reports(severity=3)
    story.tells("w0", "s1", severity=3)
    assert "nothing to the wrong one" in story.broken()


def test_a_missing_field_is_waited_for_or_assumed() -> None:
    story = Story()
    story.subscribes("s1", "severity >= 5", unknown=Unknown.ASSUME)
    story.subscribes("s2", "severity >= 5")
    story.reports(kind="fire")
    story.tells("w0", "s1", kind="fire")
    assert story.broken() == set()
    story.tells("s2", version=1, kind="fire")
    assert "nothing to the wrong one" in story.broken()


def test_a_withdrawal_of_what_was_never_there_or_with_fields() -> None:
    story = Story()
    story.subscribes("s1", "severity >= 5")
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.tells("s1", state="withdrawn")
    assert story.broken() == {"nothing to the wrong one"}


def test_an_event_that_does_not_match_any_more_and_is_not_withdrawn() -> None:
    story = Story()
    story.subscribes("s1", "severity < 5")
    story.reports(severity=3)
    story.tells("w0", "s1", severity=3)
    story.reports(severity=7)
    story.tells("w0", version=2, reports=2, severity=7)
    assert story.broken() == {"always the last"}
    story.tells("s1", version=2, reports=2, state="withdrawn")
    assert story.broken() == set()


def test_whoever_asks_for_the_last_version_and_does_not_get_it() -> None:
    story = Story()
    story.subscribes("s1", "severity >= 2")
    story.reports(severity=3)
    story.tells("w0", "s1", severity=3)
    story.reports(severity=7)
    story.tells("w0", version=2, reports=2, severity=7)
    assert story.broken() == {"always the last"}
    story.tells("s1", version=2, reports=2, severity=7)
    assert story.broken() == set()


def test_whoever_asks_for_an_open_event_and_never_gets_it() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.subscribes("s1", "severity >= 2")
    assert story.broken() == {"always the last"}


def test_a_snapshot_of_what_was_closed_long_ago() -> None:
    story = Story(SHORT)
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.notes(Record("b000", 1, 2, 0, Kind.CLOSED, ROADS, event="e1", reason="window"))
    story.ledger.turn += 2
    settled = story.ledger.turn
    story.subscribes("s1")
    story.tells("s1", state="snapshot", severity=3)
    judge = GatheredPromises(story.ledger, gathered(Workload(topics=1)), SHORT, [settled], story.notes)
    assert {breach.promise for breach in judge.check()} == {"no ghosts"}


def test_two_contents_of_one_version() -> None:
    story = Story()
    story.subscribes("s1")
    story.reports(severity=3)
    story.reports(severity=5)
    story.tells("w0", severity=5, reports=2)
    story.tells("s1", severity=3, reports=2)
    assert story.broken() >= {"one content"}
    # Two sides may tell two things under one number, but not in the last.
    story.divided = True
    assert story.broken() >= {"one content"}
    story.tells("w0", "s1", version=2, severity=5, reports=2)
    assert story.broken() == set()


def test_two_events_of_one_thing_that_stay_open() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.tells("w0", event="e2", severity=3)
    assert story.broken() == {"one event"}
    story.tells("w0", event="e2", version=2, state="merged-into", into="e1", severity=3)
    assert story.broken() == set()


def test_an_event_that_was_merged_into_nothing() -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.tells("w0", event="e2", severity=3)
    story.tells("w0", event="e2", version=2, state="merged-into", into="e9", severity=3)
    assert story.broken() == {"one event"}


def test_whoever_had_an_event_is_told_that_it_was_merged_into_another() -> None:
    story = Story()
    story.subscribes("s1")
    story.reports(severity=3)
    story.tells("w0", "s1", severity=3)
    story.tells("w0", "s1", event="e2", severity=3)
    story.tells("w0", event="e2", version=2, state="merged-into", into="e1", severity=3)
    assert story.broken() == {"always the last"}


@pytest.mark.parametrize("reporting", [PLAIN, SHORT])
@pytest.mark.parametrize(("merged", "broken"), [(3, False), (1, True), (None, True)])
def test_nobody_is_owed_an_event_that_was_merged_when_all_who_had_it_had_it_withdrawn(
    reporting: Reporting, merged: int | None, broken: bool
) -> None:
    story = Story(reporting)
    story.divided = True
    story.subscribes("s1", "severity < 5")
    story.reports(severity=3)
    story.reports(severity=7)
    story.tells("w0", severity=7)
    # One side tells it to one session alone, and it is merged when both meet.
    story.tells("s1", event="e2", severity=3)
    story.tells("s1", event="e2", version=2, state="withdrawn")
    if merged is not None:
        story.tells(event="e2", version=merged, state="merged-into", into="e1", severity=7)
    also = {"one event"} if reporting.lasting else set()
    assert story.broken() == ({"always the last"} | also if broken else set())


def test_whoever_is_shown_an_earlier_version_is_owed_more_of_an_event_whose_merging_nobody_heard() -> None:
    story = Story()
    for session in ("s1", "s2"):
        story.subscribes(session)
    story.reports(severity=3)
    story.tells("w0", severity=3)
    story.tells("s1", "s2", event="e2", severity=3)
    story.tells("s1", event="e2", version=2, severity=3)
    story.tells(event="e2", version=3, state="merged-into", into="e1", severity=3)
    assert story.broken() == {"always the last"}


def test_an_event_may_be_merged_into_one_whose_merging_nobody_heard() -> None:
    story = Story()
    story.divided = True
    story.subscribes("s1", "severity < 5")
    story.reports(severity=3)
    story.reports(severity=7)
    story.tells("w0", severity=7)
    for event in ("e2", "e3"):
        story.tells("s1", event=event, severity=3)
    story.tells("s1", event="e3", version=2, state="merged-into", into="e2", severity=3)
    story.tells("s1", event="e2", version=2, state="withdrawn")
    story.tells(event="e2", version=3, state="merged-into", into="e1", severity=7)
    assert story.broken() == set()


@pytest.mark.parametrize(("heard", "over"), [((2, False), True), ((3, False), False), ((3, True), True)])
def test_to_whom_a_side_had_closed_an_event_it_was_over_before_it_was_merged(
    heard: tuple[int, bool], over: bool
) -> None:
    story = Story()
    story.divided = True
    story.subscribes("s1")
    story.reports(severity=3)
    story.tells("w0", "s1", severity=3)
    for version in (1, 2):
        story.tells("w0", event="e2", version=version, severity=3)
    story.notes(Record("b000", 1, 2, 0, Kind.CLOSED, ROADS, event="e2", reason="window"))
    # It was held, or told by another side.
    version, last = heard
    story.tells("s1", event="e2", version=version, severity=3, last=last)
    story.tells("w0", event="e2", version=4, state="merged-into", into="e1", severity=3)
    assert story.broken() == (set() if over else {"always the last"})


@pytest.mark.parametrize("wrong", [{"reports": 2}, {"reports": 0}])
def test_an_event_that_counts_its_reports_wrongly(wrong: dict[str, Any]) -> None:
    story = Story()
    story.reports(severity=3)
    story.tells("w0", severity=3, **wrong)
    assert story.broken() == {"explained"}


# Seats.


@dataclass
class Seat:
    place: str = ROADS
    root: str = "b000"
    term: int = 1
    seat: str = "b002"
    deputy: str = "b001"
    mine: bool = False
    waiting: int = 0
    received: int = 4
    opened: int = 1
    merged: int = 1
    redundant: int = 1
    refused: int = 1


PATH = topologies.path(5)


def told(**changes: Seat) -> dict[str, Sequence[Seat]]:
    said = {name: Seat(mine=name == "b002") for name in PATH.ids}
    return {name: [changes.get(name, seat)] for name, seat in said.items()}


def test_seats_on_which_all_agree() -> None:
    assert check_seats(told(), PATH, strategy="centre") == []


@pytest.mark.parametrize(
    ("name", "seat"),
    [
        ("b001", Seat(mine=True)),
        ("b001", Seat(seat="b003")),
        ("b001", Seat(term=2)),
        ("b001", Seat(deputy="b003")),
        ("b001", Seat(waiting=1)),
        ("b002", Seat(mine=False)),
        ("b002", Seat(mine=True, received=5)),
    ],
)
def test_seats_on_which_they_do_not(name: str, seat: Seat) -> None:
    assert [breach.promise for breach in check_seats(told(**{name: seat}), PATH)][:1] == ["seats"]


def test_a_seat_that_was_never_needed_is_nobodys() -> None:
    seats = {name: [Seat(term=0, deputy="", received=0, opened=0, merged=0, redundant=0, refused=0)]
             for name in PATH.ids}  # fmt: skip
    assert check_seats(seats, PATH, strategy="centre") == []


def test_a_seat_in_the_wrong_place_or_with_a_deputy_far_away() -> None:
    def everyone(seat: str, deputy: str) -> dict[str, Sequence[Seat]]:
        return {name: [Seat(seat=seat, deputy=deputy, mine=name == seat)] for name in PATH.ids}

    assert check_seats(everyone("b001", "b002"), PATH) == []
    assert check_seats(everyone("b001", "b002"), PATH, strategy="median") != []
    assert check_seats(everyone("b002", "b004"), PATH, strategy="median") != []
    assert check_seats(everyone("b002", ""), PATH, strategy="median") != []
    assert check_seats(everyone("b002", ""), PATH, strategy="median", deputies=False) == []


def test_centre_and_median_differ() -> None:
    # A star with a long tail.
    links = [("a", "h"), ("b", "h"), ("c", "h"), ("h", "t"), ("t", "u"), ("u", "v"), ("v", "w")]
    tree = tree_of(topologies.from_links(links, []), "a")
    assert best_seat(tree, "centre") == "t"
    assert best_seat(tree, "median") == "h"


# Brokers that break promises.

PLAN = Plan(
    seed=1,
    topology=topologies.ring(4),
    workload=Workload(topics=2, subscriptions=10, publications=80, rate_per_s=10.0, durable=0.3),
    reporting=Reporting(keys=3, merge_after_s=0.5, seat="centre"),
    command="tidings simulate --gathered",
)


def broken_by(machine: MachineMaker) -> set[str]:
    """The promises that a broker of this make breaks, in a network where nothing goes wrong."""
    return {breach.promise for breach in GatheredRun(PLAN, machine=machine).run().breaches}


class Meddler(Broker):
    """Does what it is told but for one thing."""

    def start(self, now: float) -> list[Effect]:
        self.count = 0
        return super().start(now)

    def handle(self, event: BrokerEvent, now: float) -> list[Effect]:
        return [changed for effect in super().handle(event, now) for changed in self.meddle(effect)]

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver):
            return [effect]
        self.count += 1
        return self.deliver(effect) if self.count % 4 == 0 else [effect]

    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        """Now and then it is something else."""
        return [effect]


class Forgetful(Meddler):
    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        return []


class Stutterer(Meddler):
    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        return [effect, effect]


class Exaggerator(Meddler):
    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        (it,) = given([effect])
        fields = json.loads(it.publication.payload or b"{}") | {"severity": 100_000}
        return [changed(effect, payload=json.dumps(fields).encode())]


class Blurter(Meddler):
    """Says what it has heard without saying what it is."""

    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        return [changed(effect, told=None)]


class Pedant(Meddler):
    def deliver(self, effect: Deliver) -> Sequence[Effect]:
        (it,) = given([effect])
        assert it.publication.told is not None
        wrong = msgspec.structs.replace(it.publication.told, reports=it.publication.told.reports + 1_000)
        return [changed(effect, told=wrong)]


class Shuffler(Meddler):
    """Holds a delivery back until the next one."""

    held: Deliver | None = None

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver):
            return [effect]
        held, self.held = self.held, effect
        return [] if held is None else [effect, held]


class Gossip(Meddler):
    """Tells also those who had the one before."""

    last: tuple[tuple[str, str], ...] = ()

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver):
            return [effect]
        (it,) = given([effect])
        before, self.last = self.last, it.subscriptions
        return [deliver(it.publication, tuple(sorted({*before, *it.subscriptions})), it.hops)]


class Pretender(Meddler):
    """Says that it has every seat."""

    def start(self, now: float) -> list[Effect]:
        status = self.gathered
        self.gathered = lambda name: tuple(
            msgspec.structs.replace(seat, seat=self.id, mine=True) for seat in status(name)
        )
        return super().start(now)


def changed(effect: Deliver, **how: Any) -> Deliver:
    (it,) = given([effect])
    return deliver(msgspec.structs.replace(it.publication, **how), it.subscriptions, it.hops)


@pytest.mark.parametrize(
    ("machine", "promise"),
    [
        (Forgetful, "always the last"),
        (Stutterer, "nothing twice"),
        (Exaggerator, "nothing made up"),
        (Exaggerator, "one content"),
        (Blurter, "nothing raw"),
        (Pedant, "explained"),
        (Shuffler, "in order"),
        (Gossip, "nothing to the wrong one"),
        (Pretender, "seats"),
    ],
)
def test_a_broker_that_breaks_a_promise_is_caught(machine: MachineMaker, promise: str) -> None:
    assert promise in broken_by(machine)


def test_a_broker_that_keeps_them_is_not() -> None:
    assert broken_by(Broker) == set()
    assert broken_by(Meddler) == set()


def test_a_seat_that_takes_reports_for_redundant_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(gatherer: Gatherer, report: Report, qos: int = 0) -> Decision:
        lanes = {name: value for name, value in report.fields.items() if name != "lanes"}
        return feed(gatherer, replace(report, fields=lanes), qos)

    feed = Gatherer.feed
    monkeypatch.setattr(Gatherer, "feed", deaf)
    assert broken_by(Broker) == {"nothing lost"}


def test_a_seat_that_forgets_its_events_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(gatherer: Gatherer, report: Report, qos: int = 0) -> Decision:
        if gatherer.counts.received == 20:
            for entry in gatherer.entries():
                gatherer.forget(entry.event)
        return feed(gatherer, report, qos)

    feed = Gatherer.feed
    monkeypatch.setattr(Gatherer, "feed", forgetful)
    assert "one event" in broken_by(Broker)
