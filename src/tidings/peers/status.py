"""What a peer says about itself: plain values for operators, experiments and checkers."""

from __future__ import annotations

import msgspec

from tidings.peers.outlooks import Violation
from tidings.space.expressions import Set


class Counts(msgspec.Struct):
    """What a peer has counted since it started."""

    requests: int = 0
    """Connection requests sent, the paper's control messages; those that ask for less among them."""

    accepted: int = 0
    """Requests of others that were taken."""

    declined: int = 0
    """Requests of others that were not."""

    evicted: int = 0
    """Children sent away for others, or because a finer subscription does not cover them."""

    coarsened: int = 0
    """Steps to a coarser subscription."""

    refined: int = 0
    """Steps to a finer one."""

    received: int = 0
    """Events that came and that had not come before, within the peer-level subscription."""

    delivered: int = 0
    """Events given to the user."""

    wasted: int = 0
    """Events that came, were new and lie outside the user's subscription, but within the peer-level one."""

    late: int = 0
    """Events given to the user beyond the bound."""

    repeated: int = 0
    """Events that came again, and were not given again."""

    strays: int = 0
    """Events from a peer that is no parent."""

    outside: int = 0
    """Events that came and lie outside the peer-level subscription: it was made finer while they were on the
    way."""

    forwarded: int = 0
    """Events sent to children, each child counted."""

    malformed: int = 0
    """Messages that cannot be what they say; nothing came of them."""

    overtaken: int = 0
    """Requests that came after a later one of the same peer."""


class Up(msgspec.Struct, frozen=True):
    """One parent."""

    peer: str
    root: bool
    """Whether it is a publisher, for what it publishes itself."""

    asked: Set
    """What it is to send."""

    dz: Set
    """What it subscribes to or advertises, as far as is known."""

    bound: float
    feeds: bool
    """Whether it gets all of that itself."""

    delay: float
    """Of the link."""


class Down(msgspec.Struct, frozen=True):
    """One child."""

    peer: str
    root: bool
    asked: Set
    bound: float


class PeerStatus(msgspec.Struct, frozen=True):
    """One peer."""

    peer: str
    cycle: int
    interest: Set
    """The user's subscription."""

    bound: float
    dz: Set
    """The peer-level subscription as it is now."""

    advertised: Set
    fed: Set
    """What it believes that it gets."""

    delay: float
    """How late, in hops or milliseconds."""

    parents: tuple[Up, ...]
    children: tuple[Down, ...]

    covered: bool
    """Whether it has parents for all of `dz`: converged, in the paper's words."""

    satisfied: bool
    """Whether it believes that it gets all that its user wants within the bound: notified."""

    waste_allowed: float
    """As a share of all events of the topic."""

    waste: float | None
    """As it was in the last whole window; none before, or while it is not known how many events there are."""

    bandwidth_allowed: float | None
    """Events a second that may come: B / (m + 1)."""

    bandwidth: float | None
    """Events a second that came in the last whole window, those that came again among them: R(s)."""

    violation: Violation | None
    """What is not kept, and why."""

    known: int
    """Peers in the view."""

    counts: Counts
