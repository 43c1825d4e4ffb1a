"""The engine of real brokers in the simulator: every message crosses every link of its way.

The seat is found by the brokers themselves. What is measured is read from what subscribers got and from what
the brokers say of themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from papers.agele import topics
from papers.agele.measures import Measured
from papers.agele.network import Network
from papers.agele.setting import Setting
from papers.agele.workload import Occurrence
from tidings import Topic
from tidings.planning import topologies
from tidings.sim.carried import CARRIER_KINDS, PUBLICATIONS, REPORTS
from tidings.sim.gathering import topic as gatherings


def gather(setting: Setting, network: Network, occurrences: Sequence[Occurrence]) -> Measured:
    """One run with gatherers."""
    outcome = _run(setting, network, occurrences, topics.gathered(setting, network.ids[network.root]))
    messages = sum(len(one.messages) for one in occurrences)
    seats = outcome.seats
    told = sum(seat.told for seat in seats)
    return Measured(
        messages=messages,
        told=told,
        redundant=sum(seat.redundant for seat in seats),
        merged=sum(seat.merged for seat in seats),
        open_max=0,
        time_us=_time_us(setting, network, occurrences, outcome),
        receipts=len(occurrences) * network.size,
        hops_to_seat=outcome.carried[REPORTS],
        crossings=outcome.carried.total(),
        seat=network.ids.index(seats[0].seat),
        busiest=max(seat.received for seat in seats) / messages,
        control=sum(count for kind, count in outcome.messages.items() if kind not in CARRIER_KINDS),
    )


def baseline(setting: Setting, network: Network, occurrences: Sequence[Occurrence]) -> Measured:
    """Siena: a plain topic on the same tree."""
    outcome = _run(setting, network, occurrences, topics.plain(setting, network.ids[network.root]))
    messages = sum(len(one.messages) for one in occurrences)
    return Measured(
        messages=messages,
        told=messages,
        redundant=0,
        merged=0,
        open_max=0,
        time_us=_time_us(setting, network, occurrences, outcome),
        receipts=len(occurrences) * network.size,
        hops_to_seat=0,
        crossings=outcome.carried[PUBLICATIONS],
        seat=-1,
        busiest=0.0,
    )


def _run(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], topic: Topic
) -> gatherings.Outcome:
    names = tuple(topics.field_names(setting))
    said = [
        gatherings.Said(
            message.at_us,
            network.ids[message.broker],
            json.dumps(topics.values(one.number, message.fields, names)).encode(),
        )
        for one in occurrences
        for message in one.messages
    ]
    topology = network.topology.with_delays(topologies.constant_delay(setting.hop))
    across = setting.hop * int(network.distances.max())
    return gatherings.run(topology, topic, said, after_s=2 * across + setting.tm + setting.tr + 10)


def _time_us(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], outcome: gatherings.Outcome
) -> int:
    """Until everybody has all fields of every event, summed."""
    bits = topics.bits(tuple(topics.field_names(setting)))
    wanted = {one.number: one.fields for one in occurrences}
    missing: dict[tuple[int, str], int] = {
        (one.number, broker): one.fields for one in occurrences for broker in network.ids
    }
    read: dict[bytes, tuple[int, int]] = {}
    total_us = 0
    for got in outcome.got:
        payload = got.publication.payload
        if payload not in read:
            fields = json.loads(payload)
            read[payload] = fields["event"], topics.mask(fields, bits)
        number, mask = read[payload]
        left = missing.get((number, got.broker))
        if left is None:
            continue
        assert mask & ~wanted[number] == 0, "nobody said more than was published"
        left &= ~mask
        if left:
            missing[number, got.broker] = left
        else:
            del missing[number, got.broker]
            total_us += got.at_us
    assert not missing, f"{len(missing)} events were not fully received"
    return total_us - sum(one.first_us for one in occurrences) * network.size
