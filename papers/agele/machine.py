"""The engine for large networks: the real gatherer at the seat, and tree distances for the ways to and from.

What a broker would do hop by hop is here one addition: a message reaches the seat after its distance, and
what the seat tells reaches everybody after theirs. That the numbers are those of the brokers is tested
(tests/papers), and looked at again wherever a figure is run on brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from papers.agele import topics
from papers.agele.measures import Measured, Sent, received, received_from
from papers.agele.network import Network
from papers.agele.setting import Setting
from papers.agele.workload import Message, Occurrence
from tidings import Report
from tidings.gathering import Gatherer, Telling

SeatOf = Callable[[Occurrence, Message], int]
"""Which broker gathers a message."""


def gather(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], seat_of: int | SeatOf
) -> Measured:
    """One run with a gatherer at one broker, or with one at each that messages are given to."""
    hop_us = setting.hop_us
    names = tuple(topics.field_names(setting))
    bits = topics.bits(names)
    topic = topics.gathered(setting, network.ids[network.root])
    arriving: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    hops = 0
    for one in occurrences:
        for position, message in enumerate(one.messages):
            seat = seat_of(one, message) if callable(seat_of) else seat_of
            far = int(network.distances[message.broker, seat])
            hops += far
            arriving[seat].append((message.at_us + hop_us * far, one.number, position, message.fields))
    sent: dict[int, list[Sent]] = defaultdict(list)
    redundant = merged = open_max = told = 0
    for seat, queue in arriving.items():
        queue.sort()
        gatherer = Gatherer(topic)
        for at_us, number, position, fields in queue:
            said = topics.values(number, fields, names)
            gatherer.feed(Report(topics.NAME, (number,), said, f"{number}:{position}", at_us))
        while (due_us := gatherer.next_us()) is not None:
            gatherer.advance(due_us)
        for telling in gatherer.take():
            if isinstance(telling, Telling):
                told += 1
                content = topics.mask(telling.event.fields, bits)
                (key,) = telling.event.key
                assert isinstance(key, int), "it is declared so"
                sent[key].append(Sent(telling.at_us, seat, content))
        redundant += gatherer.counts.redundant
        merged += gatherer.counts.merged
        open_max = max(open_max, gatherer.counts.max_open)
    messages = sum(map(len, arriving.values()))
    return Measured(
        messages=messages,
        told=told,
        redundant=redundant,
        merged=merged,
        open_max=open_max,
        time_us=sum(_time_us(network, one, sent[one.number], hop_us) for one in occurrences),
        receipts=len(occurrences) * network.size,
        hops_to_seat=hops,
        crossings=hops + told * (network.size - 1),
        seat=next(iter(arriving)),
        busiest=max(map(len, arriving.values())) / messages,
    )


def _time_us(network: Network, one: Occurrence, sent: Sequence[Sent], hop_us: int) -> int:
    """Summed over all subscribers."""
    seats = {telling.broker for telling in sent}
    if len(seats) == 1:
        when = received_from(network, seats.pop(), sent, hop_us)
    else:
        when = received(network, sent, hop_us)
    return int(when.sum()) - one.first_us * network.size


def nearest_of(network: Network, seats: Sequence[int]) -> SeatOf:
    """Each message is gathered where it is nearest, by one of several that know nothing of each other."""
    chosen = np.asarray(seats)
    nearest = chosen[np.argmin(network.distances[:, chosen], axis=1)]
    return lambda _, message: int(nearest[message.broker])
