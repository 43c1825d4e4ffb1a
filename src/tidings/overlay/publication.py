"""A publication: a message of a client on its way, or a version of an event; and batches of them.

A batch is the unit in which publications travel through a broker. It has what they do not share side by side,
and their payloads as parts of one bytes object, so that nothing need be made for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import sub

import msgspec

OVERHEAD_BYTES = 64
"""What a publication takes beyond what its client gave, and each user property beyond its text; roughly."""


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a publication is that a seat has told: a version of a gathered event."""

    topic: str
    """The name of the topic's declaration."""

    event: str
    """The event's identity: the id of the report that opened it."""

    version: int
    """Counted from 1 within the event."""

    reports: int
    """How many reports it is made of."""

    complete: bool
    """Whether every declared field is filled."""

    seat: str
    """The broker that told it."""

    state: str = "told"
    """"told", "snapshot", "withdrawn", "ended" or "merged-into"."""

    last: bool = False
    """Whether the event is closed with it: no other version follows."""

    into: str = ""
    """The event that it was merged into, for "merged-into"."""

    place: str = ""
    """The seat's, see `Carry`; empty for the name of the declaration."""

    until_us: int = 0
    """A time on the seat's clock: a report that says nothing beyond this version, and would come before that,
    is redundant. 0 if nothing is promised."""

    declared: int = 0
    """The version of the declaration under which that holds."""

    late: bool = False
    """Whether all had it who were within reach of its seat before: to others it is an open event."""


MERGED = "merged-into"
"""The state of a version that says that its event is part of another one."""

FINAL_STATES = ("ended", MERGED)
"""Nothing follows a version in one of these."""


def is_last(told: Told) -> bool:
    """Whether no other version of the event follows."""
    return told.last or told.state in FINAL_STATES


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message of a client on its way, or a version of an event; the same on every hop."""

    origin: str
    """The broker where it entered."""

    incarnation: int
    """Which life of that broker: a new one begins where its disk was lost."""

    stream: str
    """The group of topics, all on one tree, within which it was numbered."""

    number: int
    """Counts up within origin, incarnation and stream."""

    topic: str
    payload: bytes

    qos: int = 0

    at_us: int = 0
    """When it entered, by the clock of its origin, microseconds since 1970."""

    publisher: str = ""
    """The session that published it."""

    content_type: str = ""
    """MQTT's content type; empty means JSON."""

    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""

    retain: bool = False

    payload_format: int = -1
    """MQTT's payload format indicator; -1 if it was not given."""

    expiry_s: int = -1
    """MQTT's message expiry interval, counted from `at_us`; -1 for never."""

    response_topic: str | None = None
    correlation: bytes | None = None

    told: Told | None = None
    """What it is, if a seat told it."""

    @property
    def size(self) -> int:
        """What it counts for against limits, windows and queues, in bytes."""
        size = OVERHEAD_BYTES + len(self.payload) + len(self.topic) + len(self.content_type)
        if self.properties:
            size += sum(len(name) + len(value) + OVERHEAD_BYTES for name, value in self.properties)
        if self.response_topic is not None or self.correlation is not None:
            size += len(self.response_topic or "") + len(self.correlation or b"")
        return size

    @property
    def id(self) -> str:
        """Its identity as text, as in records."""
        return f"{self.origin}:{self.incarnation}:{self.stream}:{self.number}"


class Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What publications of one client to one topic mostly have in common."""

    topic: str
    qos: int = 0
    publisher: str = ""
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    retain: bool = False
    payload_format: int = -1
    expiry_s: int = -1
    response_topic: str | None = None
    correlation: bytes | None = None

    @property
    def size(self) -> int:
        """What a publication counts for beyond its payload."""
        size = OVERHEAD_BYTES + len(self.topic) + len(self.content_type)
        if self.properties:
            size += sum(len(name) + len(value) + OVERHEAD_BYTES for name, value in self.properties)
        if self.response_topic is not None or self.correlation is not None:
            size += len(self.response_topic or "") + len(self.correlation or b"")
        return size


def head_of(publication: Publication) -> Head:
    """What a publication may have in common with others."""
    return Head(
        publication.topic,
        publication.qos,
        publication.publisher,
        publication.content_type,
        publication.properties,
        publication.retain,
        publication.payload_format,
        publication.expiry_s,
        publication.response_topic,
        publication.correlation,
    )


class Offered(msgspec.Struct, frozen=True, gc=False):
    """A publication of a client that has no number yet, by itself."""

    session: str
    token: int
    topic: str
    payload: bytes
    qos: int
    content_type: str


class Packets(msgspec.Struct, frozen=True, gc=False):
    """How publications came from a client: as packets that may be handed on as they are."""

    version: int
    """Of the protocol: packets of one version are none of another."""

    begins: Sequence[int]
    """Where each begins in the data of its batch; it ends with its payload."""

    bare: bool
    """Whether all are of QoS 0 and say nothing before their payloads but their topic."""

    def at(self, begins: Sequence[int]) -> Packets:
        """Some of them."""
        return Packets(self.version, begins, self.bare)


class Batch:
    """Publications of one origin and stream, side by side, in the order of their numbers.

    Until they are numbered, `origin` and `stream` are empty and there are no numbers.
    """

    __slots__ = (
        "_lengths",
        "_sizes",
        "at_us",
        "data",
        "ends",
        "heads",
        "incarnation",
        "numbers",
        "origin",
        "packets",
        "starts",
        "stream",
        "told",
        "which",
    )

    def __init__(
        self,
        origin: str,
        incarnation: int,
        stream: str,
        numbers: Sequence[int],
        heads: tuple[Head, ...],
        which: Sequence[int],
        at_us: Sequence[int],
        data: bytes,
        starts: Sequence[int],
        ends: Sequence[int],
        told: Sequence[Told] = (),
        packets: Packets | None = None,
    ) -> None:
        self.origin = origin
        self.incarnation = incarnation
        self.stream = stream
        self.numbers = numbers
        self.heads = heads
        """Those that occur, and perhaps others, …"""
        self.which = which
        """… and the place of each one's there; empty if all have the first."""
        self.at_us = at_us
        """When they entered: one for each, or one for all."""
        self.data = data
        self.starts = starts
        self.ends = ends
        """Where payloads begin and end in the data."""
        self.told = told
        """What they are, if a seat told them; else empty."""
        self.packets = packets
        self._lengths: list[int] | None = None
        self._sizes: list[int] | None = None

    @classmethod
    def of(cls, *publications: Publication) -> Batch:
        """Some publications of one origin and stream, which a seat has told all or none."""
        first = publications[0]
        heads: dict[Head, int] = {}
        which = [heads.setdefault(head_of(one), len(heads)) for one in publications]
        ends: list[int] = []
        end = 0
        for one in publications:
            end += len(one.payload)
            ends.append(end)
        return cls(
            first.origin,
            first.incarnation,
            first.stream,
            tuple([one.number for one in publications]),
            tuple(heads),
            which if len(heads) > 1 else (),
            tuple([one.at_us for one in publications]),
            first.payload if len(publications) == 1 else b"".join([one.payload for one in publications]),
            (0, *ends[:-1]),
            ends,
            () if first.told is None else tuple([one.told for one in publications if one.told is not None]),
        )

    @classmethod
    def offered(cls, head: Head, *payloads: bytes) -> Batch:
        """Publications of a client that are not numbered yet."""
        ends = list(accumulate(map(len, payloads)))
        return cls("", 0, "", (), (head,), (), (), b"".join(payloads), (0, *ends[:-1]), ends)

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Publication]:
        return map(self.one, range(len(self.starts)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batch) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Batch.of{tuple(self)!r}"

    def head(self, at: int) -> Head:
        return self.heads[self.which[at] if self.which else 0]

    def payload(self, at: int) -> bytes:
        return self.data[self.starts[at] : self.ends[at]]

    def one(self, at: int) -> Publication:
        """One of them as a value of its own."""
        head = self.heads[self.which[at] if self.which else 0]
        return Publication(
            self.origin,
            self.incarnation,
            self.stream,
            self.numbers[at] if self.numbers else 0,
            head.topic,
            self.data[self.starts[at] : self.ends[at]],
            head.qos,
            self.at_us[at if len(self.at_us) > 1 else 0] if self.at_us else 0,
            head.publisher,
            head.content_type,
            head.properties,
            head.retain,
            head.payload_format,
            head.expiry_s,
            head.response_topic,
            head.correlation,
            self.told[at] if self.told else None,
        )

    def numbered(
        self, origin: str, incarnation: int, stream: str, numbers: Sequence[int], at_us: int
    ) -> Batch:
        """The same publications with their identities."""
        batch = Batch(
            origin,
            incarnation,
            stream,
            numbers,
            self.heads,
            self.which,
            (at_us,),
            self.data,
            self.starts,
            self.ends,
            self.told,
            self.packets,
        )
        batch._lengths, batch._sizes = self._lengths, self._sizes
        return batch

    def part(self, first: int, end: int) -> Batch:
        """Those from one up to another."""
        if not first and end == len(self.starts):
            return self
        packets = self.packets
        return Batch(
            self.origin,
            self.incarnation,
            self.stream,
            self.numbers[first:end],
            self.heads,
            self.which[first:end],
            self.at_us[first:end] if len(self.at_us) > 1 else self.at_us,
            self.data,
            self.starts[first:end],
            self.ends[first:end],
            self.told[first:end],
            Packets(packets.version, packets.begins[first:end], packets.bare)
            if packets is not None
            else None,
        )

    def some(self, places: Sequence[int]) -> Batch:
        """Those at some places, which ascend."""
        if places[-1] - places[0] == len(places) - 1:
            return self.part(places[0], places[-1] + 1)
        packets = self.packets
        return Batch(
            self.origin,
            self.incarnation,
            self.stream,
            _at(self.numbers, places) if self.numbers else (),
            self.heads,
            _at(self.which, places) if self.which else (),
            _at(self.at_us, places) if len(self.at_us) > 1 else self.at_us,
            self.data,
            _at(self.starts, places),
            _at(self.ends, places),
            [self.told[at] for at in places] if self.told else (),
            Packets(packets.version, _at(packets.begins, places), packets.bare)
            if packets is not None
            else None,
        )

    def runs(self) -> Iterator[tuple[Head, int, int]]:
        """Those in a row that have the same head: that head, the first of them, and behind the last."""
        if not self.which:
            yield self.heads[0], 0, len(self.starts)
            return
        first = 0
        for head, same in groupby(self.which):
            end = first + sum(1 for _ in same)
            yield self.heads[head], first, end
            first = end

    @property
    def sizes(self) -> list[int]:
        """What each counts for against limits, windows and queues, in bytes."""
        if self._sizes is None:
            if len(self.heads) == 1 or not self.which:
                more = self.heads[0].size
                self._sizes = [more + length for length in self.lengths]
            else:
                each = [head.size for head in self.heads]
                self._sizes = [each[at] + length for at, length in zip(self.which, self.lengths, strict=True)]
        return self._sizes

    @property
    def lengths(self) -> list[int]:
        """Of the payloads."""
        if self._lengths is None:
            self._lengths = list(map(sub, self.ends, self.starts))
        return self._lengths

    @property
    def payloads(self) -> bytes:
        """All payloads, one behind the other."""
        starts, ends, data = self.starts, self.ends, self.data
        if len(starts) == 1:
            return data[starts[0] : ends[0]]
        if starts[0] == 0 and ends[-1] == len(data) and list(starts[1:]) == list(ends[:-1]):
            return data
        return b"".join([data[start:end] for start, end in zip(starts, ends, strict=True)])

    def apart(self) -> Batch:
        """The same, without what else was in the data."""
        if len(self.data) <= 2 * sum(self.lengths):
            return self
        ends: list[int] = []
        end = 0
        for length in self.lengths:
            end += length
            ends.append(end)
        return Batch(
            self.origin,
            self.incarnation,
            self.stream,
            self.numbers,
            self.heads,
            self.which,
            self.at_us,
            self.payloads,
            (0, *ends[:-1]),
            ends,
            self.told,
        )

    @property
    def prefix(self) -> str:
        """With which the identities of all begin; their numbers follow."""
        return f"{self.origin}:{self.incarnation}:{self.stream}:"


def _at(values: Sequence[int], places: Sequence[int]) -> list[int]:
    return [values[at] for at in places]
