"""What a run cost: messages by kind and link and what they carried, hops, latencies, and what went over links
in vain.

Records are looked at as they come and forgotten, so that a long run needs no more memory than a short one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidings.records.record import Kind, Record
from tidings.sim.carried import NAMES, PUBLICATIONS, VERSIONS
from tidings.sim.gathering.seats import Seat
from tidings.sim.gathering.trace import ON_THE_WAY, Notes
from tidings.sim.mqtt.trace import Trace
from tidings.sim.world import World


@dataclass(slots=True)
class LinkMeasure:
    """One direction of a link."""

    frames: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    """By kind."""

    carried: dict[str, int] = field(default_factory=dict)
    """What they carried, by the names of `sim.carried`."""

    publications: int = 0
    """Different publications and versions that were forwarded over it."""

    false_positives: int = 0
    """Of these, those that the receiver neither delivered nor forwarded."""


@dataclass(slots=True)
class Distribution:
    """Of a quantity."""

    count: int = 0
    mean: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: list[float]) -> Distribution:
        """Of some values, in any order."""
        if not values:
            return cls()
        values = sorted(values)
        last = len(values) - 1
        return cls(
            len(values),
            sum(values) / len(values),
            values[last // 2],
            values[round(last * 0.99)],
            values[last],
        )


class RecordCounts:
    """Counts records by kind, and publications per link, as they are written."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.links: dict[tuple[str, str], int] = defaultdict(int)
        self._open: dict[tuple[str | None, str], str] = {}
        """Who sent a publication to a broker that has done nothing with it yet."""

    def __call__(self, record: Record) -> None:
        """Take a record."""
        kind = record.kind
        self.kinds[kind.value] += 1
        if kind is Kind.FORWARDED:
            self._open.pop((record.message, record.broker), None)
            for receiver in record.receivers:
                self.links[record.broker, receiver] += 1
                self._open[record.message, receiver] = record.broker
        elif kind is Kind.DELIVERED:
            self._open.pop((record.message, record.broker), None)

    def false_positives(self) -> dict[tuple[str, str], int]:
        """Publications per link that the receiver had no use for."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for (_, receiver), sender in self._open.items():
            found[sender, receiver] += 1
        return dict(found)


@dataclass(slots=True)
class ClientMeasures:
    """What MQTT clients did and saw."""

    clients: int = 0
    connections: int = 0
    lost: int = 0
    """Connections that ended without a farewell."""

    sessions: int = 0
    subscriptions: int = 0
    sent_again: int = 0
    """Publications that a client sent more than once."""

    received: tuple[int, int, int] = (0, 0, 0)
    """By quality of service."""

    received_again: int = 0
    """Of these, with DUP."""

    retained: int = 0
    """Of these, retained messages for new subscriptions."""

    wills: int = 0
    """Wills that somebody received."""


def measure_clients(diary: Trace) -> ClientMeasures:
    """What a diary tells."""
    connections = [one for own in diary.connections.values() for one in own]
    receipts = diary.receipts
    wills = {offer.payload for offer in diary.offers if offer.will}
    return ClientMeasures(
        len(diary.connections),
        len(connections),
        sum(one.left is not None and one.farewell is None for one in connections),
        len(diary.lives),
        len(diary.wishes),
        sum(len(offer.sends) > 1 for offer in diary.offers),
        (
            sum(one.qos == 0 for one in receipts),
            sum(one.qos == 1 for one in receipts),
            sum(one.qos == 2 for one in receipts),
        ),
        sum(one.dup for one in receipts),
        sum(one.retain for one in receipts),
        len({one.payload for one in receipts} & wills),
    )


@dataclass(slots=True)
class GatheredMeasures:
    """What became of reports, and where they were gathered."""

    reported: int = 0
    accepted: int = 0
    received: int = 0
    """At seats; opened, merged, redundant and refused together."""

    opened: int = 0
    merged: int = 0
    redundant: int = 0
    refused: int = 0
    dropped_on_the_way: int = 0
    told: int = 0
    """Versions that left a seat."""

    closed: int = 0
    delivered: int = 0
    """Versions of events to sessions."""

    snapshots: int = 0
    withdrawn: int = 0
    merged_into: int = 0
    moves: int = 0
    """How often another broker took a seat."""

    seats: dict[str, str] = field(default_factory=dict)
    """By place: who has the seat in the end, and the deputy."""


def measure_gathered(world: World, notes: Notes, seats: Mapping[str, Sequence[Seat]]) -> GatheredMeasures:
    """What a world and the notes of it tell."""
    ledger, counts = world.ledger, notes.counts
    states: Counter[str] = Counter()
    for delivery in ledger.deliveries:
        if (told := delivery.publication.told) is not None:
            states[told.state] += len({session for session, _ in delivery.subscriptions})
    decided = {name: counts[name] for name in ("opened", "merged", "redundant", "refused")}
    return GatheredMeasures(
        reported=len(ledger.offers),
        accepted=sum(offer.accepted is not None for offer in ledger.offers),
        received=sum(decided.values()),
        **decided,
        dropped_on_the_way=counts[ON_THE_WAY],
        told=counts[Kind.TOLD.value],
        closed=counts[Kind.CLOSED.value],
        delivered=states.total(),
        snapshots=states["snapshot"],
        withdrawn=states["withdrawn"],
        merged_into=states["merged-into"],
        moves=notes.moves(),
        seats={
            seat.place.replace("\t", " "): f"{seat.seat}, {seat.deputy}" if seat.deputy else seat.seat
            for own in seats.values()
            for seat in own
            if seat.mine
        },
    )


@dataclass(slots=True)
class Measures:
    """What happened in a run."""

    brokers: int = 0
    links: int = 0
    virtual_s: float = 0.0
    """How long it took in the simulation."""

    events: int = 0
    """Things that happened on the agenda: frames that arrived, timers, syncs and others."""

    frames: int = 0
    offered: int = 0
    accepted: int = 0
    rejected: int = 0
    delivered: int = 0
    """To sessions."""

    forwarded: int = 0
    """Publications and versions that went over a link, each link counted."""

    false_positives: int = 0
    missing: int | None = None
    """Deliveries of any QoS that a perfect network would have made; None where it was not counted."""

    messages: dict[str, int] = field(default_factory=dict)
    """By kind."""

    carried: dict[str, int] = field(default_factory=dict)
    """What they carried over all links, by the names of `sim.carried`."""

    records: dict[str, int] = field(default_factory=dict)
    """By kind."""

    hops: Distribution = field(default_factory=Distribution)
    """Of deliveries."""

    latency_s: Distribution = field(default_factory=Distribution)
    """Of deliveries, from the offer, in virtual time."""

    per_link: dict[str, LinkMeasure] = field(default_factory=dict)
    """By `sender>receiver`."""

    mqtt: ClientMeasures | None = None
    """Where there were MQTT clients."""

    gathered: GatheredMeasures | None = None
    """Where topics were gathered."""


def measure(world: World, counts: RecordCounts) -> Measures:
    """What happened in a world so far."""
    ledger = world.ledger
    found = Measures(
        brokers=len(world.hosts),
        links=len(world.topology.links),
        virtual_s=world.now,
        events=world.agenda.done,
        frames=world.frames_sent(),
        offered=len(ledger.offers),
        accepted=sum(offer.accepted is not None for offer in ledger.offers),
        rejected=sum(offer.rejected is not None for offer in ledger.offers),
        records=dict(sorted(counts.kinds.items())),
    )
    offered_at: dict[bytes, list[float]] = defaultdict(list)
    for offer in ledger.offers:
        offered_at[offer.payload].append(offer.at)
    hops: list[float] = []
    latencies: list[float] = []
    for delivery in ledger.deliveries:
        sessions = len({session for session, _ in delivery.subscriptions})
        found.delivered += sessions
        hops += [delivery.hops] * sessions
        # Several may have said what an event says, some of them later than it was told.
        offers = offered_at.get(delivery.publication.payload, [])
        if before := bisect_right(offers, delivery.at):
            latencies += [delivery.at - offers[before - 1]] * sessions
    found.hops = Distribution.of(hops)
    found.latency_s = Distribution.of(latencies)
    totals: Counter[str] = Counter()
    carried = Counter(dict.fromkeys(NAMES, 0))
    vain = counts.false_positives()
    for (one, other), wire in world.wires.items():
        ids = (wire.source.id, wire.target.id)
        messages = {kind.__name__: count for kind, count in wire.counts.items()}
        totals.update(messages)
        carried.update(wire.carried)
        found.per_link[f"{one}>{other}"] = LinkMeasure(
            wire.frames,
            dict(sorted(messages.items())),
            {name: wire.carried.get(name, 0) for name in NAMES},
            counts.links.get(ids, 0),
            vain.get(ids, 0),
        )
    found.messages = dict(sorted(totals.items()))
    found.carried = dict(carried)
    found.forwarded = carried[PUBLICATIONS] + carried[VERSIONS]
    found.false_positives = sum(vain.values())
    return found
