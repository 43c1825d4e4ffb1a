"""What brokers say to each other.

A frame carries many messages; every message of a link session has a number, and they count up from the
frame's `first`. Greetings and farewells have none (`first` is 0). How frames become bytes is the business of
`wire`. Greetings and refusals keep their form in all versions, so that brokers of two releases can tell each
other why they do not link.
"""

from __future__ import annotations

import msgspec

from tidings.language.subscriptions import Advertisement, Subscription

PROTOCOL_VERSION = 4
"""The protocol that this release speaks, and no other. Every change of what brokers say to each other raises
it.

Since version 4 a seat says under which incarnation it numbers the entries that its deputy copies."""

Epoch = tuple[int, int]
"""Of a tree: (boot of its root, count). A larger one is newer."""


OVERHEAD_BYTES = 64
"""What a publication takes beyond what its client gave, and each user property beyond its text; roughly."""


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is behind one link of a tree, seen from this end, about one thing that is surveyed."""

    height: int
    """Links to the farthest broker that counts, this link included; -1 if none does."""

    weight: int
    """The sum of the weights behind it."""

    moment: int
    """The sum of weight times links, this link included."""


class Holder(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Who is known to have a seat. The larger one is the later."""

    term: int
    """Counts the changes of who has a seat and who is its deputy. Two sides of a partition may both count one
    further; then the larger seat id is taken for the later."""

    seat: str

    boot: int
    """Of the seat: one that was started anew has lost what was not copied."""

    deputy: str
    """The broker with a copy; empty for none."""


class Surveyed(msgspec.Struct, frozen=True, array_like=True, tag_field="what", gc=False):
    """The base of what is said in the search for seats. All of one search has its age."""

    counter: int
    initiator: str
    """Searches are ordered: the higher counter, then the smaller initiator, is the newer one."""


class Init(Surveyed, frozen=True, tag=1):
    """A search has begun."""


class Update(Surveyed, frozen=True, tag=2):
    """The receiver's eccentricity in the sender's direction is at least this."""

    eccentricity: int


class Stable(Surveyed, frozen=True, tag=3):
    """The receiver's eccentricity in the sender's direction is this, for good."""

    eccentricity: int


class Ecc(Surveyed, frozen=True, tag=4):
    """The eccentricity of the sender."""

    eccentricity: int


class Announce(Surveyed, frozen=True, tag=5):
    """A broker has found that it is the best place for something."""

    about: str
    """What was surveyed, as in `Report.loads`."""

    strategy: str
    broker: str

    cost: int = 0
    """What a seat there costs: links to the farthest for a centre, else the sum of weight times links."""

    ring: tuple[str, ...] = ()
    """The brokers around it, nearest first, itself included."""


class Report(Surveyed, frozen=True, tag=6):
    """All that is behind the sender, in one message."""

    loads: dict[str, Load]
    """By what is surveyed: "" is the tree with weight 1 for each broker, others are topics with what they
    weigh, or with `centre.USED` behind the name the parts of the tree that topics use."""

    holders: dict[str, Holder]
    """By place: the latest holder that is known behind the sender."""

    around: tuple[tuple[str, int], ...] = ()
    """The nearest brokers behind this link and how many links away they are; as many as a ring needs."""


AnySurveyed = Init | Update | Stable | Ecc | Announce | Report


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """The base of all messages."""


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


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is sent at once."""

    first: int
    """Number of the first message, 0 for messages that have none."""

    ack: int
    """Number of the last message received from the other side."""

    messages: tuple[Message, ...] = ()
    """Without any it is a heartbeat."""


# Making and ending a connection.


class Greet(Message, frozen=True, tag=1):
    """The first word of both sides."""

    versions: tuple[int, int]
    """Oldest and newest protocol version spoken; both the same since version 4."""

    broker: str
    network: str

    boot: int
    """Counts the starts of this broker; larger is later."""

    features: tuple[str, ...]
    """Settings that must be the same on both sides, such as "advertisements"."""

    nonce: bytes
    """Fresh and random: a proof of the cluster token is for this greeting only."""

    session: tuple[int, ...]
    """The link session that this side still holds; empty for none."""

    received: int
    """The last message of that session that it has received."""

    proposal: int
    """Its part of the name of a new session, should there be one."""

    life: int = 0
    """Drawn at random at each start: two brokers with one id differ in it."""


class Welcome(Message, frozen=True, tag=2):
    """The second word: the greeting is accepted."""

    version: int
    """The protocol version that is spoken."""

    proof: bytes
    """That this side knows the cluster token, see `proofs`; empty where there is none."""


class Refuse(Message, frozen=True, tag=3):
    """The greeting is not accepted; the connection is closed behind it."""

    reason: str


class Bye(Message, frozen=True, tag=4):
    """This side stops on purpose: nothing will be resumed."""

    for_good: bool
    """Whether it will never come back, so that nothing need be held for it."""


# Trees.


class Distance(Message, frozen=True, tag=10):
    """How far the sender is from a root."""

    root: str

    series: Epoch
    """Given by the root; distances of one series only shrink."""

    hops: int
    """-1: the sender knows no way."""


class Seek(Message, frozen=True, tag=11):
    """Asks, towards the root, for distances of a newer series than this."""

    root: str
    series: Epoch


class Grow(Message, frozen=True, tag=12):
    """The tree of a root in a new epoch; the sender is in it, and is not a child of the receiver."""

    root: str
    epoch: Epoch

    share: tuple[str, ...]
    """The roots between which undeclared topics are divided in this epoch."""


class Join(Message, frozen=True, tag=13):
    """The sender is in the tree in this epoch as a child of the receiver."""

    root: str
    epoch: Epoch


class Regrow(Message, frozen=True, tag=14):
    """Asks, towards the root, for a newer epoch than this: it is broken, or a shorter way is known."""

    root: str
    epoch: Epoch


class Roll(Message, frozen=True, tag=15):
    """Who is behind the sender in the tree, and what they will publish."""

    root: str
    epoch: Epoch

    members: tuple[tuple[str, int, int], ...]
    """Broker, boot and incarnation, sorted."""

    left: tuple[str, ...]
    """Brokers that have left for good."""

    advertisements: tuple[Advertisement, ...]

    absent: tuple[tuple[str, float], ...] = ()
    """Brokers that are out of reach of those behind the sender, and for how many seconds more they count."""

    declared: int = -1
    """A digest of the topic filters whose declarations name this root; -1 if those behind the sender do not
    all know of the same ones."""


# Subscriptions.


class Table(Message, frozen=True, tag=20):
    """All that those behind the sender ask for, in this epoch; replaces what was known."""

    root: str
    epoch: Epoch
    subscriptions: tuple[Subscription, ...]

    more: bool = False
    """Whether it goes on in the next `Table`."""


class Subscribe(Message, frozen=True, tag=21):
    root: str
    epoch: Epoch
    subscription: Subscription


class Unsubscribe(Message, frozen=True, tag=22):
    root: str
    epoch: Epoch
    subscription: Subscription


class Advertise(Message, frozen=True, tag=23):
    root: str
    epoch: Epoch
    advertisement: Advertisement


class Unadvertise(Message, frozen=True, tag=24):
    root: str
    epoch: Epoch
    advertisement: Advertisement


class Installed(Message, frozen=True, tag=25):
    """The first `count` of Table, Subscribe, … in this epoch are known to all behind the sender."""

    root: str
    epoch: Epoch
    count: int


# Publications.


class Publish(Message, frozen=True, tag=30):
    """A publication, one hop further."""

    root: str
    """The tree it travels."""

    epoch: Epoch

    slot: int
    """Counts up per link session and tree; `Done` refers to it."""

    previous: int
    """Number of the one sent before it, of the same origin and stream, down this link in this epoch."""

    hops: int
    """Links travelled, this one included."""

    qos: int
    """At most that of the publication: the highest that is asked for behind this link."""

    publication: Publication


class Done(Message, frozen=True, tag=31):
    """What has become of publications: slots as a flat list of first, last, first, last, …"""

    root: str

    settled: tuple[int, ...]
    """Acknowledged by everyone behind the sender who must have it."""

    stale: tuple[int, ...]
    """Not taken further, since the epoch has passed; to be sent again in the next."""


class Keep(Message, frozen=True, tag=32):
    """Asks a neighbour to keep a copy until `Forget`, and to send it should its origin be gone."""

    publication: Publication


class Kept(Message, frozen=True, tag=33):
    stream: str
    number: int
    incarnation: int


class Forget(Message, frozen=True, tag=34):
    """Copies that need not be kept any longer; without a stream, all of this sender and incarnation."""

    stream: str
    incarnation: int
    numbers: tuple[int, ...]


# Gathering: finding the seat. `centre` has the protocols.


class Survey(Message, frozen=True, tag=50):
    """One message of the search for centre, median and traffic seats of a tree in an epoch."""

    root: str
    epoch: Epoch

    body: AnySurveyed
    """What is said, see `centre`."""


# Gathering: from where reports enter to the seat, and what the seat answers.

Term = int
"""Counts the holders of a seat: a larger one is later."""


class Carry(Message, frozen=True, tag=51):
    """A report, one hop nearer to the seat."""

    root: str
    epoch: Epoch

    place: str
    """The seat's: the name of the declaration, and which of its seats."""

    holder: Holder
    """Who is believed to have the seat; of two beliefs the later one counts."""

    previous: int
    """The number of the report that its origin sent to this place before it, 0 for the first since it
    started: none may be taken before the one before it."""

    hops: int

    report: Publication
    """Its `stream` is the place, its `number` counts up within origin and incarnation. One without payload is
    none, and only has a number."""

    dropped: int = 0
    """How many reports its origin did not send since the one before, as they would have been redundant."""


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a seat lets an origin know of reports that it has taken, so that it need not send such again."""

    seat: str
    boot: int

    at_us: int
    """What the clock of the seat shows, after it has taken them."""

    absorbed: tuple[tuple[int, str, int], ...]
    """Number of a report, the event that now says all it says, and until when one that says the same would
    be redundant, by the clock of the seat."""


class Taken(Message, frozen=True, tag=52):
    """What a seat says to an origin: all its reports up to a number are safe."""

    root: str
    epoch: Epoch
    place: str
    origin: str
    incarnation: int
    number: int

    again: bool = False
    """Whether one is missing behind that, and all later ones must be sent again."""

    known: Known | None = None
    """What need not be sent again, where reports may be dropped on the way."""


class Seated(Message, frozen=True, tag=53):
    """Who has a seat, told to the whole tree."""

    root: str
    epoch: Epoch
    place: str
    holder: Holder

    counts: tuple[int, ...] = ()
    """What the seat has counted: events open, then received, opened, merged, redundant, refused, conflicts,
    told and closed; empty if it says nothing of them."""


# Gathering: copies of a seat's state.


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that was closed: how far it had come."""

    event: str
    version: int
    """The last one."""

    merged: dict[str, int]
    """How many reports had changed it, by branch."""


class Logged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of a seat's log, for its deputy: a version that it told, under the seat's number."""

    name: str
    """Of the topic, as declared."""

    number: int
    at_us: int
    topic: str
    payload: bytes
    content_type: str
    event: str
    version: int
    reports: int
    complete: bool
    state: str


class Mirror(Message, frozen=True, tag=54):
    """What has changed at a seat, for its deputy, or for the broker that the seat is handed to."""

    root: str
    epoch: Epoch
    place: str
    term: Term

    number: int
    """Of the latest change that is in it. Counts up while one broker has the seat."""

    entries: tuple[tuple[str, bytes], ...]
    """Events that have changed, and their copies, see `gathering.copies`."""

    closed: tuple[Ended, ...]
    """Events that are open no more, and that everyone has."""

    confirmed: tuple[tuple[str, int], ...]
    """Versions of events that everyone has who must."""

    marks: tuple[tuple[str, int, int], ...]
    """Origin, incarnation and number of the latest report taken."""

    whole: bool = False
    """Whether it is part of a copy of all there is, and not what has changed since the last."""

    more: bool = False
    """Whether the copy goes on in the next."""

    log: tuple[Logged, ...] = ()
    """What the seat has told of a topic that is kept, once it is on its own disk."""

    incarnation: int = 0
    """Of the seat: the life under which it has numbered these entries."""


class Mirrored(Message, frozen=True, tag=55):
    """The deputy has all of a seat's changes up to a number; 0 if it must be given all there is."""

    root: str
    epoch: Epoch
    place: str
    term: Term
    number: int


class HandOver(Message, frozen=True, tag=56):
    """All that the sender has of a place it may no longer gather at, on its way to who may."""

    root: str
    epoch: Epoch
    place: str

    term: Term
    """Of the receiver: it has the seat from now on, if it did not before."""

    to: str
    sender: str
    number: int
    """Given by the sender, for the answer."""

    entries: tuple[tuple[str, bytes, int], ...]
    """Events, their copies, and how many microseconds ago those were made."""

    marks: tuple[tuple[str, int, int], ...]
    more: bool = False

    closed: tuple[Ended, ...] = ()
    """Events that were closed by the sender lately."""


class HandedOver(Message, frozen=True, tag=57):
    """What was handed over is safe."""

    root: str
    epoch: Epoch
    place: str
    term: Term
    to: str
    """The one who handed it over."""
    number: int


# Gathering: what those who have been told need.


class Close(Message, frozen=True, tag=58):
    """Events that are closed: whoever follows them may forget them."""

    root: str
    epoch: Epoch
    place: str

    events: tuple[tuple[str, int], ...]
    """With the last version told: it may still be on its way. 0 for whatever there was."""


class Follow(Message, frozen=True, tag=59):
    """Events of which somebody behind the sender has had a version: later ones must go there too."""

    root: str
    epoch: Epoch
    place: str

    events: tuple[tuple[str, int, int], ...]
    """With the version that everyone there has, and the highest quality of service that somebody asked for. A
    later version has been missed and is sent again."""


class Ask(Message, frozen=True, tag=60):
    """A new subscription asks a seat for its open events."""

    root: str
    epoch: Epoch
    place: str
    broker: str
    """Who asks, and where the answer goes."""
    number: int
    subscription: Subscription


class Snapshot(Message, frozen=True, tag=61):
    """A seat's answer: the latest versions told of open events that match, or that were missed."""

    root: str
    epoch: Epoch
    place: str

    broker: str
    """Who asked; empty for all who follow the events."""

    number: int
    """Of the question."""

    publications: tuple[Publication, ...]

    more: bool = False
    """Whether it goes on in the next."""

    hops: int = 1
    """Links travelled, this one included."""

    qos: int = 0
    """The highest that is asked for where the answer goes."""


# What the whole network knows.


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of the catalogue that every broker has: a declared topic, a view."""

    kind: str
    """"topic" or "view"."""

    name: str

    version: int
    """Counts up; of two with one version the larger broker id wins."""

    broker: str
    """Where it was made; empty if it is from a configuration file."""

    text: str
    """A declaration as TOML, a view as JSON; empty if it was removed."""

    removed_at_us: int = 0
    """When it was removed; 0 while it holds."""

    after: tuple[int, ...] = ()
    """Digests of the latest that it took the place of, the last one first: those have not lost, they are
    the past."""


class Catalogue(Message, frozen=True, tag=40):
    """All entries that the sender has, at the start of a link session."""

    entries: tuple[Entry, ...]

    more: bool = False
    """Whether it goes on in the next `Catalogue`."""


class Enter(Message, frozen=True, tag=41):
    """A new or newer entry, told to every neighbour but the one it came from."""

    entry: Entry


AnyMessage = (
    Greet
    | Welcome
    | Refuse
    | Bye
    | Distance
    | Seek
    | Grow
    | Join
    | Regrow
    | Roll
    | Table
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Installed
    | Publish
    | Done
    | Keep
    | Kept
    | Forget
    | Survey
    | Carry
    | Taken
    | Seated
    | Mirror
    | Mirrored
    | HandOver
    | HandedOver
    | Close
    | Follow
    | Ask
    | Snapshot
    | Catalogue
    | Enter
)
"""For decoders."""
