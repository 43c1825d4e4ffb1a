"""What a broker says about itself: plain values for operators, metrics and checkers."""

from __future__ import annotations

import msgspec


class LinkStatus(msgspec.Struct, frozen=True):
    """One neighbour."""

    peer: str
    state: str
    """"up", "held" (lost, may be resumed) or "down"."""

    boot: int
    version: int
    """Protocol version in use."""

    queued: int
    """Messages that wait to be sent or to be received."""

    silent_s: float
    """Since it was last heard."""


class TreeStatus(msgspec.Struct, frozen=True):
    """One tree, in its current epoch."""

    root: str
    epoch: tuple[int, int]
    """(0, 0) while there is none."""

    growing: bool
    """Whether a newer epoch is on its way."""

    hops: int
    """Distance to the root; -1 if it is out of reach."""

    parent: str | None
    children: tuple[str, ...]
    members: tuple[str, ...]
    share: tuple[str, ...]


class SetStatus(msgspec.Struct, frozen=True):
    """What one home broker asks for on behalf of its sessions, as a broker knows it."""

    home: str
    boot: int
    number: int
    """The version that is here: of which start of the home, and how many changes. (0, 0) if none is."""

    filters: int
    """Subscriptions in it; those that are covered by others, or merged with them, are not told."""

    widened: int
    """Of this broker's own set: subscriptions that are told wider than they are. Of another's: those that are
    not understood or not kept here, so that everything is sent instead."""

    confirmed: int
    """Of this broker's own set: the number that all members have confirmed, -1 if none is known. Of another's
    set: the number that this broker has confirmed together with all behind it."""

    waits_for: tuple[str, ...] = ()
    """Brokers that have not confirmed the latest number, as far as is known."""

    absent_s: float = -1.0
    """For how many seconds more something is held for it; -1 if it is in reach."""

    asks: tuple[str, ...] = ()
    """Its filters, if they are asked for."""


class GatheredStatus(msgspec.Struct, frozen=True):
    """One seat of a gathered topic, as a broker knows it."""

    topic: str
    place: str
    """The topic, and which part of its keys if they are divided among several seats."""

    root: str
    """Whose tree reports travel; empty while there is none."""

    term: int
    """Counts the changes of seat and deputy; 0 if no report has come yet."""

    seat: str
    """Empty while none is known."""

    deputy: str
    """Who has a copy; empty for none."""

    open: int
    """Events. This and what follows is by the seat's latest word, at the seat itself as it is."""

    received: int
    opened: int
    merged: int
    redundant: int
    refused: int
    conflicts: int
    told: int
    closed: int
    waiting: int
    """Reports that entered at this broker and are not known to be safe at the seat."""

    mine: bool
    """Whether this broker has the seat."""

    age_s: float = 0.0
    """How long ago the seat said what it has counted; it says it when that changes."""


class GatheringStatus(msgspec.Struct, frozen=True):
    """What a broker has counted of reports and events since it started, whoever gathers them."""

    waiting: int = 0
    """Reports that entered here and are not known to be safe at a seat."""

    entered: int = 0
    """Reports that clients here have published."""

    far: int = 0
    """Reports of a time more than a day from their arrival here."""

    dropped: int = 0
    """Redundant reports that were dropped here on their way."""

    taken_over: int = 0
    """Seats that came here since their holder was gone."""

    handed_over: int = 0
    """Seats that were given to another broker."""

    withdrawn: int = 0
    """Events taken back from sessions here."""

    snapshots: int = 0
    """Open events with which subscriptions here began."""

    held: int = 0
    """Versions that had to wait for the `every` of a session here."""

    repeats: int = 0
    """Versions that came again, and that sessions here were not given again."""

    forgotten: int = 0
    """Events of which it was forgotten who had what, because there were too many."""


class Status(msgspec.Struct, frozen=True):
    """One broker."""

    broker: str
    boot: int
    incarnation: int
    network: str
    links: tuple[LinkStatus, ...]
    trees: tuple[TreeStatus, ...]
    share: tuple[str, ...]
    """Roots of the trees that undeclared topics use."""

    sessions: int
    subscriptions: int
    held: int
    """Publications of QoS 1 and 2 that entered here and that not everyone has."""

    backlog_bytes: int
    """Publications that wait for room on a link."""

    absent: tuple[str, ...]
    """Brokers out of reach for which publications are held."""

    absent_bytes: int
    dropped: int
    """Publications given up because too much was held."""

    paused: bool
    topics_remembered: int
    """Over all caches; bounded."""

    sets: tuple[SetStatus, ...]
    """This broker's own first, then those of others by their ids."""

    false_positives: int
    """Publications that came here although no session here wanted them."""

    ready: bool
    """Whether every tree in use is settled here."""

    reason: str
    """Why not."""

    unreached: tuple[tuple[str, str], ...] = ()
    """Addresses to be dialled at which there is no link, and why the last attempt failed."""

    declarations_lost: int = 0
    """Declarations and views that lost against one that did not know of them, as far as was seen here."""

    seats: tuple[GatheredStatus, ...] = ()
    """Those that this broker has."""

    gathering: GatheringStatus = GatheringStatus()
