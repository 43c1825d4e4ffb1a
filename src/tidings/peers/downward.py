"""Whom a peer feeds: its children, never more than its out-degree.

Who is sent away when there are too many: as published, the one with the most selective subscription, among
equals the loosest. Ours: first of all one whom another child can serve, then one of two that get the same.
Which messages that takes is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.peers.messages import Profile
from tidings.space.expressions import Set, covers, volume


class Child:
    """One link down."""

    __slots__ = ("asked", "bound", "ghost", "heard", "number", "order", "peer", "profile", "root", "volume")

    def __init__(
        self, peer: str, root: bool, number: int, profile: Profile, asked: Set, cycle: int, order: int
    ) -> None:
        self.peer = peer
        self.root = root
        """Whether it wants only what is published here."""
        self.number = number
        """Of the request that made the link."""
        self.profile = profile
        self.bound = profile.bound
        self.asked = asked
        self.volume = volume(asked)
        self.heard = cycle
        self.order = order
        """Who came earlier has the smaller one."""
        self.ghost = False
        """Whether it has gone, and as printed still takes a place."""

    @property
    def key(self) -> tuple[str, bool]:
        return self.peer, self.root

    @property
    def rank(self) -> tuple[float, float, int]:
        """Who is worth most; among equals who was there first, so that equals do not take turns."""
        return self.volume, -self.bound, -self.order


def server(child: Child, children: Iterable[Child]) -> Child | None:
    """The one among some children that could serve another: all that it wants, tighter, with room for it.

    Of several the one that is loosest: tight ones are needed by the tight.
    """
    asked, bound, size = child.asked, child.bound, child.volume
    found: Child | None = None
    for other in children:
        if (
            other.bound < bound
            and other is not child
            and not other.ghost
            and other.profile.floor < size
            and covers(other.asked, asked)
            and (found is None or (other.bound, other.peer) > (found.bound, found.peer))
        ):
            found = other
    return found


def spare(children: list[Child], sibling_first: bool, repeated_next: bool) -> tuple[Child, Child | None]:
    """Whom to send away, and who can serve it instead if one of them can."""
    ordered = sorted(children, key=lambda child: child.rank)
    if sibling_first:
        for child in ordered:
            instead = server(child, ordered)
            if instead is not None:
                return child, instead
    if repeated_next:
        for child in ordered:
            if repeats(child, ordered):
                return child, None
    return ordered[0], None


def repeats(child: Child, children: Iterable[Child]) -> bool:
    """Whether all that a child gets goes to another one as well: most of those below it could go there."""
    return any(
        other is not child and not other.ghost and covers(other.asked, child.asked) for other in children
    )
