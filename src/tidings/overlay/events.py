"""What a driver tells a broker, and what a broker wants done.

Things that happened are past participles, things to be done imperatives. All are plain values: tests compare
them. A driver carries effects out in their order. `Write`, `Erase` and `Deliver` (to durable sessions) before
a `Sync` become durable together, all or none, and then the driver tells `WritesSynced`. What was to `Append`
before it is durable by then as well, on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.language.subscriptions import Subscription
from tidings.overlay.frames import Frame
from tidings.overlay.matches import Matches
from tidings.overlay.publication import Batch
from tidings.records.holders import Holder
from tidings.records.record import Record, Run


class Happened(msgspec.Struct, frozen=True, gc=False):
    """The base of what a driver tells."""


class ConnectionMade(Happened, frozen=True):
    connection: int
    """Chosen by the driver; never used twice in one boot."""

    address: str | None
    """What was dialled; None if the other side dialled."""

    nonce: bytes
    """Fresh random bytes for the greeting."""

    certified: str | None = None
    """The broker id that the other side's certificate names, if there is one."""

    host: str = ""
    """The address of the other side without the port, for logs: where it dialled, each connection has a port
    of its own."""


class DialFailed(Happened, frozen=True):
    address: str
    reason: str


class FrameReceived(Happened, frozen=True):
    connection: int
    frame: Frame


class ConnectionLost(Happened, frozen=True):
    connection: int
    reason: str


class TimerFired(Happened, frozen=True):
    """The time of `next_deadline` has come. Telling it early is harmless."""


class WritesSynced(Happened, frozen=True):
    token: int
    """All syncs up to this one are on disk."""


class NeighbourAdded(Happened, frozen=True):
    address: str


class NeighbourRemoved(Happened, frozen=True):
    address: str


class StopAsked(Happened, frozen=True):
    """Take nothing new, pass on what is here, say goodbye."""

    for_good: bool = False
    """Whether this broker leaves the network for ever."""


class ForgetAsked(Happened, frozen=True):
    """A broker that is out of reach will not come back: the whole network is to hold nothing for it."""

    broker: str


class SessionOpened(Happened, frozen=True):
    session: str

    durable: bool = False
    """Its subscriptions survive a disconnection and a restart."""


class SessionClosed(Happened, frozen=True):
    """The client has gone. A durable session stays."""

    session: str


class SessionEnded(Happened, frozen=True):
    """Nothing of this session is wanted any more."""

    session: str


class SubscriptionAsked(Happened, frozen=True):
    session: str

    name: str
    """Unique within its session; asking again replaces it."""

    subscription: Subscription

    group: str = ""
    """A share group: of all who ask under it, each publication goes to one."""

    snapshot: bool = True
    """Whether it begins with the open events of gathered topics that match."""


class SubscriptionDropped(Happened, frozen=True):
    session: str
    name: str


class PublicationsOffered(Happened, frozen=True):
    """A client has published, once or several times."""

    session: str

    tokens: Sequence[int]
    """The client's own numbers for them, given back by `Accept` and `Reject`."""

    batch: Batch
    """Without numbers."""


class EntryOffered(Happened, frozen=True):
    """A client wants the network's catalogue changed; answered by `Enlist` or `Decline`."""

    session: str
    token: int

    kind: str
    """"topic" or "view"."""

    name: str

    text: str
    """Empty to remove it."""

    force: bool = False
    """Whether also what breaks those who use it."""


class LogRead(Happened, frozen=True):
    """Some of a log was read here."""

    topic: str
    """The name of its declaration."""

    what: str
    """Events or reports."""

    holder: Holder
    """Under whose name the entries are numbered."""

    start: int

    stop: int
    """The number behind the last entry that was looked at."""

    rows: int
    """Entries that were sent; a filter may have left out others."""

    bytes: int
    client: str
    """The user who asked, empty for one without a name."""

    asked_at: str
    """The broker that the client asked."""


Event = (
    ConnectionMade
    | DialFailed
    | FrameReceived
    | ConnectionLost
    | TimerFired
    | WritesSynced
    | NeighbourAdded
    | NeighbourRemoved
    | StopAsked
    | ForgetAsked
    | SessionOpened
    | SessionClosed
    | SessionEnded
    | SubscriptionAsked
    | SubscriptionDropped
    | PublicationsOffered
    | EntryOffered
    | LogRead
)


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """The base of what a broker wants done."""


class Send(Wanted, frozen=True):
    connection: int
    frame: Frame


class Dial(Wanted, frozen=True):
    address: str


class HangUp(Wanted, frozen=True):
    """Close a connection; no `ConnectionLost` need follow."""

    connection: int
    reason: str


class Deliver(Wanted, frozen=True):
    """Hand publications to sessions here."""

    batch: Batch
    matches: Matches
    hops: int


class Grant(Wanted, frozen=True):
    """The subscription is installed (SUBACK)."""

    session: str
    name: str

    reason: str = ""
    """"settling" if a broker has not confirmed in time, "absent: c" if all have that are in reach."""


class Deny(Wanted, frozen=True):
    """The subscription is refused; it is as if it had not been asked for."""

    session: str
    name: str
    reason: str


class Accept(Wanted, frozen=True):
    """Publications are safe (PUBACK). Not given for QoS 0."""

    session: str
    tokens: Sequence[int]


class Reject(Wanted, frozen=True):
    """The publication is not taken."""

    session: str
    token: int
    reason: str

    topic: str = ""
    """Where it was published to, for the operator."""


class Enlist(Wanted, frozen=True):
    """The entry is in the catalogue, on disk, and on its way to all."""

    session: str
    token: int


class Decline(Wanted, frozen=True):
    """The entry is not taken."""

    session: str
    token: int
    reason: str


class CatalogueChanged(Wanted, frozen=True):
    """An entry is new, or has changed, or is gone; `Broker.catalogue` has what holds."""

    kind: str
    name: str


class Synchronised(Wanted, frozen=True):
    """The catalogue is that of the network, as far as it can be reached: clients may come in. Said once."""


class Pause(Wanted, frozen=True):
    """Read nothing more from publishers until `Resume`."""


class Resume(Wanted, frozen=True):
    pass


class Write(Wanted, frozen=True):
    key: str
    value: bytes


class Erase(Wanted, frozen=True):
    key: str


class Append(Wanted, frozen=True):
    """Put an entry at the end of a log. Nobody may read it before it is durable."""

    name: str
    """Of the topic, as declared."""

    what: str
    """"events" (on a plain topic: what was published) or "reports"."""

    holder: Holder
    """Who has given the number: this broker, or the seat whose deputy it is."""

    number: int
    """Counts up by one, for each name, what and holder; of a copy the first ones may be missing."""

    at_us: int
    topic: str
    payload: bytes
    content_type: str = ""

    event: str | None = None
    """Of a version that a seat told, like all that follow."""

    version: int | None = None
    reports: int | None = None
    complete: bool | None = None
    state: str | None = None

    report: str | None = None
    """Of a report: its id."""


class Sync(Wanted, frozen=True):
    token: int


class SetTimer(Wanted, frozen=True):
    """Tell `TimerFired` at this time; takes the place of the one before."""

    at: float


class Log(Wanted, frozen=True):
    """For the operator."""

    level: str
    """"debug", "info", "warning" or "error"."""

    text: str
    about: tuple[tuple[str, str], ...] = ()


class Stop(Wanted, frozen=True):
    """The broker is done, or must not run: `reason` is empty after `StopAsked`."""

    reason: str = ""


Effect = (
    Send
    | Dial
    | HangUp
    | Deliver
    | Grant
    | Deny
    | Accept
    | Reject
    | Enlist
    | Decline
    | CatalogueChanged
    | Synchronised
    | Pause
    | Resume
    | Write
    | Erase
    | Append
    | Sync
    | SetTimer
    | Log
    | Stop
    | Record
    | Run
)
