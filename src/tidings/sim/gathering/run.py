"""A whole run with gathered topics: the same network and faults as `runs`, noisy reports in, events out.

Clients at all brokers report about a few things while something goes wrong, and others follow what comes of
it, each with a filter and a cycle of its own. When all has healed, and every clock that should have run out
has, everybody reports once more, some subscribe anew, and what they got is judged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tidings.language.topics import Topic
from tidings.records.record import Kind as RecordKind
from tidings.records.record import Record
from tidings.sim.brokers import run
from tidings.sim.brokers.promises import Breach
from tidings.sim.brokers.run import PROBES_MAX, Plan, Progress, Run
from tidings.sim.brokers.workload import Planned
from tidings.sim.faults import Fault, Kind
from tidings.sim.gathering import workload
from tidings.sim.gathering.promises import GatheredPromises, Rules
from tidings.sim.gathering.seats import Seat, check_seats
from tidings.sim.gathering.trace import Notes
from tidings.sim.gathering.workload import EVERY_S, PLAIN, Reporting
from tidings.sim.measures import Measures, measure_gathered
from tidings.sim.node import DoorMaker, MachineMaker

if TYPE_CHECKING:
    from tidings.overlay.broker import Broker

OUTAGES = (Kind.CRASHES, Kind.WIPES, Kind.STOPS)
"""Faults that take what a broker has in memory."""

APART_S = 20.0
"""Between the return of a broker and the next outage, where only one may be gone at a time: the failure
detector has noticed, another broker has the seat, and its new deputy has all of it."""

NEWCOMERS = 4
"""Who subscribe when all is over: they get what is open."""


class GatheredRun(Run):
    """One run, step by step."""

    def __init__(
        self,
        plan: Plan,
        *,
        machine: MachineMaker | None = None,
        door: DoorMaker | None = None,
        record: Callable[[Record], object] | None = None,
        trace: Callable[[str], object] | None = None,
        progress: Progress = lambda _text, _share: None,
    ) -> None:
        self._reporting = plan.reporting or PLAIN
        self._rules: Rules = self._reporting
        super().__init__(plan, machine=machine, door=door, record=record, trace=trace, progress=progress)
        self.notes = Notes(lambda: self.world.ledger.turn)
        self.topics = workload.gathered(plan.workload)
        self._whims = random.Random(f"whims/{plan.seed}")
        self._happened: list[Fault] = []
        self._calm = 0
        """The turn from which nothing went wrong any more."""

    def _topics(self) -> list[Topic]:
        return workload.declarations(self._reporting, self.plan.workload, self.plan.roots)

    @property
    def _ripe_s(self) -> float:
        """How long until all that was reported is told, held back no more, and closed if it ever will be."""
        reporting = self._reporting
        closed_s = 0.0 if reporting.lasting else reporting.window_s or 10 * reporting.redundant_for_s
        return reporting.merge_after_s + max(EVERY_S) + closed_s + 1.0

    # What happens.

    def _subscribe(self) -> None:
        plan, world = self.plan, self.world
        for broker in plan.topology.ids:
            self._publishers[broker] = world.client(broker, f"p-{broker}")
        for one in workload.subscribers(self._reporting, plan.workload, plan.topology, plan.seed):
            client = world.client(one.broker, one.name, durable=one.durable)
            client.subscribe("1", one.subscription)
            if one.name.startswith("s"):  # those who watch everything never change their minds
                self._subscribers.append(client)

    def _plans(self) -> Iterator[Planned]:
        plan = self.plan
        return workload.reports(self._reporting, plan.workload, plan.topology, plan.seed)

    def _faults(self, ends: float) -> list[Fault]:
        self._happened = super()._faults(ends)
        if self.plan.apart:
            self._happened = apart(self._happened)
        for _ in range(self.plan.blackouts):
            self._happened += self._blackout(ends)
        self._happened.sort(key=lambda fault: fault.at)
        return self._happened

    def _blackout(self, ends: float) -> list[Fault]:
        """All brokers die at once, and come back one after the other, with their disks."""
        source = self._source
        at = source.uniform(self._began, ends)
        return [
            Fault(Kind.CRASHES, at, at + source.choice((0.05, 1.0, 4.0)) * source.random(), (name,))
            for name in self.plan.topology.ids
        ]

    def _change_mind(self, _one: object, _two: object) -> None:
        """Some client wants something else, leaves or comes back."""
        if not self._subscribers:
            return
        whims = self._whims
        client = whims.choice(self._subscribers)
        what = whims.choice(("subscribe", "subscribe", "unsubscribe", "detach", "attach", "leave"))
        if what == "subscribe":
            wish = workload.wish(self._reporting, self.plan.workload, whims.randint(0, 2), whims)
            client.subscribe(whims.choice(("1", "2", "3")), wish)
        elif what == "unsubscribe":
            client.unsubscribe(whims.choice(("1", "2", "3")))
        elif what == "detach" and client.durable:
            client.detach()
        elif what == "attach" and not client.attached:
            client.attach()
        elif what == "leave" and client.attached and whims.random() < 0.3:
            client.leave()

    def _settle(self, what: str) -> None:
        if what in ("healing", "probing"):
            self.world.run(self._ripe_s)
        super()._settle(what)

    def _probe(self) -> None:
        """Report once more about old and new things, now that the network is whole and quiet."""
        plan, world, whims = self.plan, self.world, self._whims
        self._calm = world.ledger.turn
        ids = plan.topology.ids
        for probe in range(min(PROBES_MAX, 2 * len(ids))):
            topic = self.topics[probe % len(self.topics)]
            key = workload.thing(whims.randrange(self._reporting.keys + 5))
            name, body = workload.report(self._reporting, topic, key, f"probe{probe}", plan.seed, whims)
            publisher = self._publishers[ids[probe % len(ids)]]
            if publisher.publish(name, body, 1) is None:
                self._breaches.append(
                    Breach("all come back", f"{publisher.host.address} does not run in the end")
                )
            world.run(0.01)
        self._settle("probing")
        for number in range(NEWCOMERS):
            client = world.client(whims.choice(ids), f"n{number}")
            client.subscribe("1", workload.wish(self._reporting, plan.workload, 1, whims))

    # What came of it.

    def _record(self, record: Record) -> None:
        if record.kind is not RecordKind.FORWARDED or record.report is None:
            super()._record(record)
        elif self._record_too is not None:
            # A report on its way to a seat goes where nobody wants it, and again if it was not taken.
            self._record_too(record)
        self.notes(record)

    def _judge(self) -> list[Breach]:
        plan = self.plan
        # Disks that come back have all that was acknowledged. A deputy makes up for one that does not, unless
        # that one is gone as well.
        wiped = any(fault.kind is Kind.WIPES for fault in self._happened)
        copied = plan.settings.deputies and len(plan.topology.ids) > 1 and not plan.blackouts
        safe = not wiped or (plan.apart and copied)
        return GatheredPromises(
            self.world.ledger,
            self.topics,
            self._rules,
            self._settled,
            self.notes,
            neighbours_keep=plan.settings.acks == "neighbour",
            divided=bool(self._happened or plan.late),
            safe_from=0 if safe else self._calm,
        ).check() + check_seats(
            self.seats(),
            plan.topology,
            strategy=self._strategy(),
            deputies=plan.settings.deputies,
        )

    def _strategy(self) -> str:
        """The strategy of seats; empty if one may be somewhere else than that puts it."""
        reporting, plan = self._reporting, self.plan
        moved = (
            self._happened
            or plan.late
            or reporting.seat == "traffic"
            or reporting.seat_scope == "topic"
            or reporting.seats > 1
        )
        return "" if moved else reporting.seat

    def seats(self) -> dict[str, list[Seat]]:
        """By broker, what it says of all seats."""
        return {
            address: [
                seat for topic in self.topics for seat in cast("Broker", host.broker).gathered(topic.name)
            ]
            for address, host in self.world.hosts.items()
            if host.broker is not None
        }

    def _measure(self) -> Measures:
        found = super()._measure()
        found.gathered = measure_gathered(self.world, self.notes, self.seats())
        return found


def apart(faults: list[Fault]) -> list[Fault]:
    """The same without outages that come too soon after another."""
    found: list[Fault] = []
    free_at = 0.0
    for fault in faults:
        if fault.kind in OUTAGES:
            if fault.at < free_at:
                continue
            free_at = fault.until + APART_S
        found.append(fault)
    return found


def chaos(seed: int, brokers_max: int = 8, reports: int = 120) -> Plan:
    """A plan with gathered topics in which everything is drawn from the seed."""
    source = random.Random(f"gathered/{seed}")
    plan = run.chaos(seed, brokers_max, reports)
    lasting = source.random() < 0.6
    drops = source.random() < 0.25
    merge_after_s = source.choice((0.0, 0.2, 1.0, 4.0))
    redundant_for_s = 7_200.0 if lasting else merge_after_s + source.choice((0.0, 0.5, 3.0))
    reporting = Reporting(
        keys=source.choice((1, 4, 12)),
        merge_after_s=merge_after_s,
        redundant_for_s=redundant_for_s,
        window_s=36_000.0 if lasting else redundant_for_s + source.choice((0.0, 1.0, 6.0)),
        # Nothing is dropped on the way where every report counts.
        stays_open=source.choice(("merged", "merged" if drops else "reported")),
        tell_first=source.choice(("merge_after", "now")),
        complete=source.choice(("event", "event", "report", "once")),
        seat=source.choice(("centre", "median", "traffic")),
        seat_scope=source.choice(("tree", "tree", "topic")),
        seats=source.choice((1, 1, 1, 3)),
        on_the_way="drop" if drops else "nothing",
        ends=not lasting and source.random() < 0.3 and not drops,
        disputed=not drops and source.random() < 0.4,
        witnessed=0.0 if drops else source.choice((0.0, 0.3)),
        kept=True,
    )
    topics = source.choice((1, 1, 2, 3))
    return replace(
        plan,
        reporting=reporting,
        roots=plan.roots[:topics],
        workload=replace(
            plan.workload,
            topics=topics,
            subscriptions=source.randint(0, 12),
            rate_per_s=source.choice((2.0, 5.0, 20.0)),
        ),
        settings=replace(
            plan.settings,
            seat_window_s=source.choice((20.0, 2.0)),
            seat_stay_s=source.choice((60.0, 1.0)),
            report_window=source.choice((4096, 4096, 3)),
            deputies=source.random() < 0.9,
        ),
        apart=source.random() < 0.75,
        blackouts=source.choice((0, 0, 0, 0, 0, 1, 2)),
        command=f"tidings simulate --gathered --chaos --seed {seed}",
    )
