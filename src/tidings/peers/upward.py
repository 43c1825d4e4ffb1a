"""Who feeds a peer: its parents, and what it gets through them.

A part of the space is *covered* if one subscriber that is a parent serves it, or all publishers do that may
publish in it. It is *fed* if that parent gets it itself. Bounds only grow along links, so this is
well-founded: whoever is fed is so by a chain of parents that ends at the publishers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidings.peers.messages import Profile
from tidings.peers.views import View
from tidings.space.expressions import Set, canonical, intersection

ECHOES_MAX = 16
"""Signs of life of which is remembered when they were sent: one a cycle, so links of up to eight seconds are
measured with cycles of one."""


class Parent:
    """One link up."""

    __slots__ = (
        "asked",
        "confirmed",
        "delay",
        "fed",
        "heard",
        "hope",
        "link",
        "number",
        "peer",
        "profile",
        "root",
        "sent",
    )

    def __init__(self, number: int, profile: Profile, asked: Set, link: float, cycle: int) -> None:
        self.peer = profile.peer
        self.root = profile.root
        self.number = number
        """Of the request that made the link."""
        self.profile = profile
        """As it was when it accepted, or later."""
        self.asked = asked
        """What it is to send; no two parents are to send the same."""
        self.fed = profile.fed
        """What it gets itself."""
        self.delay = profile.delay
        """How late it gets that."""
        self.link = link
        """How long the link takes; 1 if hops are counted."""
        self.heard = cycle
        self.hope = profile.hope
        """Whether it gets what was asked for, or is likely to."""
        self.confirmed = True
        """Whether it is known to know what was asked for."""
        self.sent: deque[float] = deque(maxlen=ECHOES_MAX)
        """When signs of life went to it that it has not answered, if milliseconds count."""

    @property
    def key(self) -> tuple[str, bool]:
        return self.peer, self.root

    @property
    def feeds(self) -> bool:
        """Whether all that was asked for comes."""
        fed = self.fed
        return self.root or all(one.startswith(fed) for one in self.asked)


Parents = dict[tuple[str, bool], Parent]


def served(parents: Iterable[Parent]) -> list[str]:
    """What subscribers among some parents are to send, whether or not they get it."""
    return [one for parent in parents if not parent.root for one in parent.asked]


def rooted(dz: Set, parents: Parents, view: View, all_needed: bool, publishes: bool) -> list[str]:
    """What comes from publishers directly: parts for which all that are relevant are parents.

    Where nobody publishes, nothing is missing; but somebody must be known who publishes at all.
    """
    links = [parent for parent in parents.values() if parent.root]
    if not view.roots and not publishes:
        return []
    found = []
    for one in dict.fromkeys((*dz, *(part for link in links for part in link.asked))):
        relevant = list(view.relevant(one))
        has = [
            (root.peer, True) in parents and one.startswith(parents[root.peer, True].asked)
            for root in relevant
        ]
        if all(has) or (not all_needed and any(has)):
            found.append(one)
    return found


def fed(parents: Iterable[Parent], from_roots: list[str]) -> tuple[Set, float]:
    """What really comes, and how late the latest of it is."""
    parts = list(from_roots)
    delay = 0.0
    for parent in parents:
        if parent.root:
            late = parent.link
        else:
            got = intersection(parent.asked, parent.fed)
            if not got:
                continue
            parts += got
            late = parent.delay + parent.link
        if late > delay:
            delay = late
    return canonical(parts) if len(parts) > 1 else tuple(parts), delay
