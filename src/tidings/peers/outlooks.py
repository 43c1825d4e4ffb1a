"""What a peer may expect, and why it does not get it.

From what somebody knows of others, whether a subscription can be fed within a bound now, and if not, how much
waste would buy a place: a full parent takes one that asks for more than the child it would miss least, and
its profile says how much that is (`floor`). This is a forecast; only who is asked can say yes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

import msgspec

from tidings.peers.messages import Profile
from tidings.space.expressions import Set, canonical, overlaps, volume


class Cause(Enum):
    """Why something that was asked for is not kept."""

    PUBLISHER = "publisher"
    """No publisher is known."""

    PARENT = "parent"
    """Nobody is known who is tight enough and gets what is wanted."""

    ASKING = "asking"
    """Somebody is known who is tight enough, gets it and has room; it has not said yes so far."""

    ROOM = "room"
    """Those who are have no room."""

    WAITING = "waiting"
    """There is a parent, and it gets nothing itself."""

    LATE = "late"
    """Links are slower than the bound."""

    WASTE = "waste"
    """More comes that was not asked for than is allowed, and the subscription cannot be made finer."""

    BANDWIDTH = "bandwidth"
    """What was asked for is by itself more than the access link takes."""


UNKNOWN = "no publisher is known"
"""Where nothing else can be said."""


class Violation(msgspec.Struct, frozen=True, gc=False):
    """What is not kept, and why."""

    cause: Cause

    dz: Set
    """The part of the subscription it is about."""

    text: str

    waste: float | None = None
    """The share of all events that would have to be accepted; none if that would not help."""


class Outlook(msgspec.Struct, frozen=True, gc=False):
    """What a newcomer may expect."""

    met: bool
    """Whether there is room now, within the bound and the waste that is allowed."""

    waste: float | None
    """The share of all events that it takes; none if no waste helps."""

    parent: str
    """Who would feed it; empty if nobody would."""

    text: str = ""
    """Why not, if it is not met, or only with waste."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """The best that can be had for one expression."""

    coarser: str | None
    """How it must be asked for: itself, or one that covers it; none if nobody takes that either."""

    parent: Profile | None
    """Who takes that."""

    could: int
    """How many are tight enough and get it, with room or without."""


class Wanted:
    """Some expressions that are wanted, and how much of them others would be asked for."""

    def __init__(self, dz: Set) -> None:
        self._dz = dz
        self._sizes: dict[tuple[str, bool], float] = {}

    def size(self, profile: Profile) -> float:
        """The volume of those that somebody has."""
        key = (profile.peer, profile.root)
        if key not in self._sizes:
            theirs = profile.dz if profile.root else profile.fed
            self._sizes[key] = volume(
                one
                for one in self._dz
                if one.startswith(theirs) or (profile.root and overlaps(theirs, (one,)))
            )
        return self._sizes[key]


def best(
    one: str, wanted: Wanted, limit: float, profiles: Iterable[Profile], roots: Mapping[str, Profile]
) -> Found:
    """The least coarsening with which somebody no looser than a limit would take one of some expressions.

    It would be asked for all of them that it has, and takes whom it would miss less for all of these.
    """
    depth, found, could = -1, None, 0
    for profile in profiles:
        if profile.bound > limit or not one.startswith(profile.fed):
            continue
        could += 1
        reached = _depth(one, profile.fed, profile.floor, wanted.size(profile))
        if reached > depth:
            depth, found = reached, profile
            if depth == len(one):
                break
    relevant = [root for root in roots.values() if overlaps(root.dz, (one,))] if depth < len(one) else []
    if relevant and limit >= 0.0:
        # All of them are needed.
        could += 1
        fullest = max(relevant, key=lambda root: (root.floor, root.peer))
        reached = _depth(one, ("",), fullest.floor, wanted.size(fullest))
        if reached > depth:
            depth, found = reached, fullest
    return Found(one[:depth] if found is not None else None, found, could)


def _depth(one: str, fed: Set, floor: float, size: float) -> int:
    """How many bits of an expression one may keep that asks somebody with this floor for so much.

    A step coarser in all of it doubles it. -1 if none will do.
    """
    if size > floor:
        return len(one)
    bits = len(one) - math.floor(math.log2(floor / size)) - 1
    return bits if bits >= 0 and one[:bits].startswith(fed) else -1


def foresee(
    dz: Set,
    limit: float,
    bound_text: str,
    allowed: float,
    profiles: Iterable[Profile],
    roots: Mapping[str, Profile],
    waste: Callable[[Set], float],
) -> Outlook:
    """Whether a subscription can be fed now, by parents no looser than a limit, and at what waste.

    `waste` says which share of all events a set brings beyond the subscription.
    """
    if not roots:
        return Outlook(False, None, "", UNKNOWN)
    known, wanted = list(profiles), Wanted(dz)
    coarse: list[str] = []
    parents: list[Profile] = []
    for one in dz:
        found = best(one, wanted, limit, known, roots)
        if found.coarser is None:
            return Outlook(False, None, "", sentence(one, bound_text, found, None))
        assert found.parent is not None, "who takes it is known"
        coarse.append(found.coarser)
        parents.append(found.parent)
    needed = waste(canonical(coarse))
    parent = parents[0].peer if parents else ""
    if needed == 0.0:
        return Outlook(True, 0.0, parent)
    worst = next(one for one, kept in zip(dz, coarse, strict=True) if one != kept)
    text = sentence(worst, bound_text, best(worst, wanted, limit, known, roots), needed)
    return Outlook(needed <= allowed, needed, parent, text)


def sentence(one: str, bound_text: str, found: Found, waste: float | None, more: int = 0) -> str:
    """Why an expression is not covered, with so many others, and what would help."""
    name = one or "the whole space"
    if more:
        name += f" and {more} other parts" if more > 1 else " and another part"
    why = f"no parent within {bound_text} covers {name}"
    if found.coarser == one:
        assert found.parent is not None, "who takes it is known"
        return f"{why} yet: {found.parent.peer} has room"
    if found.could > 1:
        why += f": the {found.could} known that could are full"
    elif found.could:
        why += ": the one known that could is full"
    else:
        why += ": none is known that is tight enough and gets it"
    return why if waste is None else f"{why}; accepting {percent(waste)} waste would"


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.0625), percent(0.125), percent(0.004)
    ('6.2%', '12.5%', '0.4%')
    """
    return f"{round(100 * share, 1):g}%"
