"""What is measured, the same for both engines and for the baseline.

An event is fully received by a subscriber when that holds every field that was ever published about it,
whatever the messages that brought them. Its time is that moment less the moment of its first publication
(§6.1). Every broker subscribes to everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from papers.agele.network import Network
from papers.agele.setting import UNIT_US
from papers.agele.workload import Occurrence

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sent:
    """Something that travels from one broker to all."""

    at_us: int
    broker: int
    fields: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a run. Times are sums over events and subscribers, to be compared exactly."""

    messages: int
    """Originated by publishers."""

    told: int
    """Messages that emerged from the gatherer."""

    redundant: int
    merged: int
    open_max: int
    """Messages in the gatherer's buffer at once."""

    time_us: int
    """Until events are fully received, summed over events and subscribers."""

    receipts: int
    """Events times subscribers."""

    hops_to_seat: int
    """Links crossed by publishers' messages."""

    crossings: int
    """Links crossed by anything about events."""

    seat: int
    """The broker that gathered, or the first of them."""

    busiest: float = 1.0
    """The largest share of publishers' messages that went to one gatherer."""

    control: int = 0
    """Links crossed by all else that brokers say meanwhile: acknowledgements, closings, what relays are told.
    Known of brokers only."""

    def differences(self, other: Measured) -> list[str]:
        """What is not exactly the same in another engine's run, of what both engines know."""
        return [
            field.name
            for field in fields(self)
            if field.name not in ("open_max", "control")
            and getattr(self, field.name) != getattr(other, field.name)
        ]

    @property
    def time(self) -> float:
        """Mean time of an event, in time units."""
        return self.time_us / self.receipts / UNIT_US

    @property
    def suppressed(self) -> float:
        """Share of originated messages that did not emerge, in percent."""
        return 100 * (1 - self.told / self.messages)

    @property
    def duplicates(self) -> float:
        """The part of it that was dropped."""
        return 100 * self.redundant / self.messages

    @property
    def merges(self) -> float:
        """The part of it that was merged into others."""
        return self.suppressed - self.duplicates


def received(network: Network, sent: Sequence[Sent], hop_us: int) -> Times:
    """For each broker the time at which it has all fields that are in any message."""
    sources = np.asarray([one.broker for one in sent])
    times = np.asarray([one.at_us for one in sent], dtype=np.int64)
    arrivals = times[:, None] + hop_us * network.distances[sources].astype(np.int64)
    masks = np.asarray([one.fields for one in sent], dtype=np.int64)
    complete = np.zeros(network.size, dtype=np.int64)
    everything = int(np.bitwise_or.reduce(masks))
    for field in range(everything.bit_length()):
        having = (masks >> field) & 1 == 1
        if having.any():
            np.maximum(complete, arrivals[having].min(axis=0), out=complete)
    return complete


def received_from(network: Network, seat: int, sent: Iterable[Sent], hop_us: int) -> Times:
    """The same where all comes from one broker, in order: what counts is when the last new field left."""
    known, last_us = 0, 0
    for one in sent:
        if one.fields & ~known:
            known |= one.fields
            last_us = one.at_us
    when: Times = last_us + hop_us * network.distances[seat].astype(np.int64)
    return when


def baseline(network: Network, occurrences: Sequence[Occurrence], hop_us: int) -> Measured:
    """Siena: every message goes straight to everybody along the same tree, and nothing is held."""
    time_us = messages = 0
    for one in occurrences:
        sent = [Sent(message.at_us, message.broker, message.fields) for message in one.messages]
        time_us += int(received(network, sent, hop_us).sum()) - one.first_us * network.size
        messages += len(sent)
    return Measured(
        messages=messages,
        told=messages,
        redundant=0,
        merged=0,
        open_max=0,
        time_us=time_us,
        receipts=len(occurrences) * network.size,
        hops_to_seat=0,
        crossings=messages * (network.size - 1),
        seat=-1,
        busiest=0.0,
    )


def overhead(measured: Measured, base: Measured) -> float:
    """Added time, in percent of the baseline's."""
    return 100 * (measured.time_us / base.time_us - 1)
