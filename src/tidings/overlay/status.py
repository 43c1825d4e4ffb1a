"""What a broker says about itself: plain values for operators, metrics and checkers."""

from __future__ import annotations

import msgspec

from tidings.language.subscriptions import Advertisement, Subscription


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

    behind: dict[str, tuple[Subscription, ...]]
    """By link: what is asked for behind it."""

    told: dict[str, tuple[Subscription, ...]]
    """By link: what it has been told."""

    advertised: dict[str, tuple[Advertisement, ...]]
    """By link: what is advertised behind it."""


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

    ready: bool
    """Whether every tree in use is settled here."""

    reason: str
    """Why not."""

    unreached: tuple[tuple[str, str], ...] = ()
    """Addresses to be dialled at which there is no link, and why the last attempt failed."""

    declarations_lost: int = 0
    """Declarations and views that lost against one that did not know of them, as far as was seen here."""
