"""What MQTT clients asked for, were promised, did and got: all that the judges of promises to them may know.

The twin of `brokers.trace`, at the client's end of the connection. Every line has a turn, which counts up:
of two lines the one with the smaller turn came first, also within one moment. What the network knows of a
connection stands here too, where a promise speaks of it: when a broker learnt that a client had gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.language.regions import Unknown


@dataclass(slots=True, eq=False)
class Life:
    """A session, from the CONNACK that began it to the one that tells that it is gone."""

    client: str
    host: str
    number: int
    """Of its client's lives."""

    began: int
    """The turn of that CONNACK."""

    leaving: int | None = None
    """The turn from which it may be gone: a clean start was asked for, or its broker's disk was lost."""

    ended: int | None = None
    """The turn from which it surely is."""

    @property
    def name(self) -> str:
        return f"{self.client}~{self.number}"


UNBORN = Life("", "", 0, 0)
"""Of what is not asked for yet."""


@dataclass(slots=True, eq=False)
class Wish:
    """A subscription."""

    life: Life
    topic_filter: str
    """As asked for, without the share group."""

    group: str = ""
    """Of a shared subscription."""

    where: tuple[str, ...] = ()
    """Content filters of which one must match; empty for none."""

    unknown: Unknown = Unknown.WAIT
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0
    """MQTT's subscription identifier; 0 for none."""

    new: bool = True
    """Whether there was none with this topic filter in its session when it was asked for."""

    asked: int = 0
    """The turn of the first SUBSCRIBE; 0 if none was sent."""

    asked_last: int = 0
    """The turn of the last one, where it was said again after a loss."""

    granted: int | None = None
    """The turn of a SUBACK without reservation."""

    settling: int | None = None
    """The turn of a SUBACK that is not yet a promise: it says "settling" or "absent: c", or cannot."""

    denied: int | None = None
    """The reason code of a SUBACK that refused it."""

    leaving: int | None = None
    """The turn from which it may be gone: UNSUBSCRIBE, or another in its place, was sent."""

    ended: int | None = None
    """The turn from which it surely is."""

    @property
    def text(self) -> str:
        """The topic filter as it is sent."""
        return f"$share/{self.group}/{self.topic_filter}" if self.group else self.topic_filter

    def __str__(self) -> str:
        where = f" where {' or '.join(self.where)}" if self.where else ""
        return f"{self.life.name} with {self.text}{where} at QoS {self.qos}"


@dataclass(slots=True, eq=False)
class Offer:
    """A publication. Its payload is its identity: no two are alike."""

    number: int
    client: str
    host: str
    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    expiry_s: int | None = None
    sends: list[int] = field(default_factory=list)
    """The turns in which it was sent, the first time and again."""

    at: float = 0.0
    """When it was first sent."""

    accepted: int | None = None
    """The turn of PUBACK or PUBCOMP."""

    accepted_at: float = 0.0
    rejected: int | None = None
    """The reason code of an acknowledgement that refuses it."""

    will: bool = False

    def __str__(self) -> str:
        return (
            f"{'will' if self.will else 'publication'} {self.number} of {self.client} at {self.host} "
            f"({self.topic}, QoS {self.qos}, at {self.at:.3f} s)"
        )


@dataclass(slots=True, eq=False)
class Connection:
    """One connection of a client, from its CONNECT on."""

    client: str
    host: str
    number: int
    """Of its client's connections."""

    clean: bool
    """Whether it asked for a clean start."""

    expiry_s: float
    """How long its session is to outlive it."""

    will: Offer | None
    will_delay_s: float
    asked: int
    asked_at: float
    life: Life | None = None
    """Since its CONNACK."""

    opened: int | None = None
    opened_at: float = 0.0
    farewell: int | None = None
    """The reason code of the client's own DISCONNECT."""

    left: int | None = None
    """The turn in which the client knew it to be at an end."""

    parted: int | None = None
    """The turn in which its broker did."""

    parted_at: float = 0.0
    parted_why: str = ""
    """"farewell", "lost", "shut" (by the broker itself) or "died" (the broker)."""


class Receipt(NamedTuple):
    """A PUBLISH that a client took in."""

    turn: int
    at: float
    life: Life
    connection: Connection
    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    again: bool
    """Whether the client knew it for one that it has (QoS 2), and did not take it for a new one."""

    identifiers: tuple[int, ...]


class Settled(NamedTuple):
    """A moment in which the network was whole and quiet."""

    turn: int
    at: float
    there: frozenset[str]
    """Clients that were connected, and had said and read all that there was."""


class Outage(NamedTuple):
    """A broker that was away."""

    host: str
    turn: int
    at: float
    wiped: bool


@dataclass(slots=True)
class Trace:
    """All of it, in the order in which it happened."""

    turn: int = 0
    lives: list[Life] = field(default_factory=list)
    wishes: list[Wish] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    connections: dict[str, list[Connection]] = field(default_factory=dict)
    """By client, in order."""

    receipts: list[Receipt] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    starts: dict[str, list[float]] = field(default_factory=dict)
    """When each broker started, by host."""

    joined: list[tuple[int, str]] = field(default_factory=list)
    """Hosts that came into a network that was there already, with the turn."""

    complaints: list[tuple[str, str]] = field(default_factory=list)
    """What a client found to be against the standard: which rule, and what happened."""

    limited: bool = False
    """Whether queues are so short that what does not fit may be dropped."""

    views: dict[str, Wish] = field(default_factory=dict)
    """What each view takes, as if somebody had asked for it."""

    def next_turn(self) -> int:
        """The turn of something that happens now."""
        self.turn += 1
        return self.turn

    def offer(
        self,
        client: str,
        host: str,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool = False,
        expiry_s: int | None = None,
        will: bool = False,
    ) -> Offer:
        """A publication that a client will send."""
        made = Offer(len(self.offers), client, host, topic, payload, qos, retain, expiry_s, will=will)
        self.offers.append(made)
        return made

    def begin(self, client: str, host: str) -> Life:
        """A session begins."""
        number = sum(life.client == client for life in self.lives)
        life = Life(client, host, number, self.next_turn())
        self.lives.append(life)
        return life

    def end(self, life: Life) -> None:
        """It is gone, with all that was asked for in it."""
        life.ended = self.next_turn()
        life.leaving = life.leaving or life.ended
        for wish in self.wishes:
            if wish.life is life:
                wish.ended = wish.ended or life.ended
                wish.leaving = min(wish.leaving or life.leaving, life.leaving)

    def complain(self, rule: str, text: str) -> None:
        """Something was against the standard."""
        self.complaints.append((rule, text))
