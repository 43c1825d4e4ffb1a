"""Whom a peer feeds: Algorithm 1 from the side of the parent, lines 7-20.

A request is taken if the link would lead from a tighter to a looser bound and what is asked for is there;
then somebody may have to go. Who asks, and why, is in `seeking`; who is worth what in `downward`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tidings.peers import downward
from tidings.peers.cells import is_set
from tidings.peers.core import Core
from tidings.peers.downward import Child
from tidings.peers.messages import Accept, Alive, Connect, Evict, Feed, Leave, Profile, Refuse, Why
from tidings.space.expressions import covers, overlaps, volume


class Feeding:
    """The links down of one peer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._requests: dict[str, int] = {}
        """By peer: the number of its last request."""

    def part(self, which: Callable[[Child], bool]) -> None:
        """End some of the links down; parents of this peer may take them over."""
        core = self._core
        for child in [child for child in core.children.values() if which(child)]:
            self.send_away(child, Why.LEAVING, (parent.profile for parent in core.parents.values()))

    def lose_peer(self, peer: str) -> None:
        """A peer is gone."""
        for root in (False, True):
            child = self._core.children.get((peer, root))
            if child is not None:
                self.lose(child)

    def wait(self) -> None:
        """Give up on those who say nothing."""
        core = self._core
        silent_before = core.cycle - core.settings.silent_after
        for child in [one for one in core.children.values() if one.heard < silent_before and not one.ghost]:
            self.lose(child)

    def advertise(self) -> None:
        """Other things are published here: those who want nothing of it go."""
        core = self._core
        for child in [child for child in core.children.values() if child.root]:
            if not any(overlaps(core.advertised, (one,)) for one in child.asked):
                self.send_away(child, Why.ROLE)

    def fit(self) -> None:
        """The subscription has become finer: remove whom it does not cover (Algorithm 2, line 6)."""
        core = self._core
        for child in [
            one for one in core.children.values() if not one.root and not covers(core.dz, one.asked)
        ]:
            self.send_away(child, Why.COVER, (parent.profile for parent in core.parents.values()))

    def on_connect(self, sender: str, message: Connect) -> None:
        core = self._core
        profile, asked, root = message.profile, message.asked, message.root
        settings = core.settings
        if (
            profile.peer != sender
            or profile.root
            or not core.view.sound(profile)
            or not asked
            or not is_set(asked, settings.dz_max, settings.dz_depth_max)
            or not covers(profile.dz, asked)
            or not math.isfinite(message.sent)
        ):
            core.counts.malformed += 1
            return
        known = core.children.get((sender, root))
        if message.number <= max(self._requests.get(sender, -1), -1 if known is None else known.number):
            core.counts.overtaken += 1
            return
        self._requests.pop(sender, None)
        self._requests[sender] = message.number
        if len(self._requests) > settings.remembered:
            del self._requests[next(iter(self._requests))]
        mine = core.advertised if root else core.dz
        if not mine:
            self._refuse(sender, message, Why.ROLE)
        elif not self._ordered(0.0 if root else core.bound, profile.bound):
            self._refuse(
                sender,
                message,
                Why.BOUND,
                (parent.profile for parent in core.parents.values()),
            )
        elif settings.cover_checked and not (
            any(overlaps(mine, (one,)) for one in asked) if root else covers(mine, asked)
        ):
            self._refuse(
                sender,
                message,
                Why.COVER,
                (parent.profile for parent in core.parents.values()),
            )
        else:
            self._take(sender, message)
            core.settle()

    def _ordered(self, parent: float, child: float) -> bool:
        """Line 8: whether a link goes from a tighter to a looser bound, by a hop if hops count."""
        core = self._core
        if not core.settings.requester_compared:
            parent, child = child, parent
        return child - parent >= 1.0 if core.settings.metric == "hops" else child > parent

    def _take(self, sender: str, message: Connect) -> None:
        """Lines 9-17: a child more, and if that is one too many, the one least worth having is sent away."""
        core = self._core
        settings, children = core.settings, core.children
        key = (sender, message.root)
        known = children.get(key)
        if known is not None and not known.ghost:
            order = known.order
        else:
            order = core.counts.accepted + core.counts.declined
        child = Child(
            sender,
            message.root,
            message.number,
            message.profile,
            message.asked,
            core.cycle,
            order,
        )
        children.pop(key, None)
        children[key] = child
        core.children_changed()
        if len(children) > settings.out_degree:
            if settings.evicted_removed and settings.disconnect_frees:
                gone, instead = downward.spare(
                    list(children.values()), settings.sibling_first, settings.repeated_next
                )
                surplus = [(gone, instead)]
            else:
                ordered = sorted(children.values(), key=lambda one: one.rank)
                surplus = [
                    (one, None) for one in ordered[: len(children) - settings.out_degree] if not one.ghost
                ]
            for gone, instead in surplus:
                if gone is child:
                    del children[key]
                    core.children_changed()
                    floor = core.floor()
                    hint = (
                        instead.profile if instead is not None else self._hint(child, self._siblings(child))
                    )
                    core.counts.declined += 1
                    core.send(
                        sender,
                        Refuse(message.root, message.number, Why.FULL, hint, floor),
                    )
                    return
                self.send_away(
                    gone,
                    Why.FULL,
                    () if instead is not None else self._siblings(gone),
                    instead,
                )
        core.counts.accepted += 1
        if known is None:
            core.changes += 1
        answer = core.standing(message.root)
        core.send(sender, Accept(message.root, message.number, answer, message.sent))

    def _siblings(self, child: Child) -> list[Profile]:
        return [one.profile for one in self._core.children.values() if one is not child and not one.ghost]

    def _refuse(self, sender: str, message: Connect, why: Why, others: Iterable[Profile] = ()) -> None:
        core = self._core
        child = Child(
            sender,
            message.root,
            message.number,
            message.profile,
            message.asked,
            core.cycle,
            0,
        )
        core.counts.declined += 1
        hint = None if why is Why.ROLE else self._hint(child, others)
        core.send(sender, Refuse(message.root, message.number, why, hint))

    def _hint(self, child: Child, others: Iterable[Profile]) -> Profile | None:
        """findBestParent: for somebody else, among those known here and some others."""
        core = self._core
        asked, bound, size = child.asked, child.bound, child.volume
        checked, fed_known = core.settings.hint_checked, core.settings.fed_known
        best: Profile | None = None
        best_rank: tuple[bool, bool, float, str] | None = None
        for profiles in (core.view.profiles.values(), others):
            for profile in profiles:
                if checked and profile.bound >= bound:
                    continue
                dz = profile.dz
                if not all(one.startswith(dz) for one in asked) or profile.peer == child.peer or profile.root:
                    continue
                rank = (
                    fed_known and covers(profile.fed, asked),
                    fed_known and size > profile.floor,
                    profile.bound,
                    profile.peer,
                )
                if best_rank is None or rank > best_rank:
                    best, best_rank = profile, rank
        return best

    def send_away(
        self,
        child: Child,
        why: Why,
        others: Iterable[Profile] = (),
        instead: Child | None = None,
    ) -> None:
        """DISCONNECT and POTENTIALPARENT, to a child."""
        core = self._core
        hint = instead.profile if instead is not None else self._hint(child, others)
        if core.settings.evicted_removed or why is not Why.FULL:
            del core.children[child.key]
        else:
            self._haunt(child)
        core.children_changed()
        core.changes += 1
        core.counts.evicted += 1
        floor = core.floor() if why is Why.FULL else 0.0
        if not child.ghost or why is Why.FULL:
            core.send(child.peer, Evict(child.root, child.number, why, hint, floor))

    def _haunt(self, child: Child) -> None:
        """As printed: a child that has gone still takes a place. Only the best of those can matter."""
        core = self._core
        child.ghost = True
        ghosts = sorted(
            (one for one in core.children.values() if one.ghost),
            key=lambda one: one.rank,
        )
        for one in ghosts[: max(0, len(ghosts) - core.settings.out_degree)]:
            del core.children[one.key]

    def lose(self, child: Child) -> None:
        """A child has gone."""
        core = self._core
        del core.children[child.key]
        core.children_changed()
        core.changes += 1

    def on_leave(self, sender: str, message: Leave) -> None:
        core = self._core
        child = core.children.get((sender, message.root))
        if child is not None and not child.ghost and child.number <= message.number:
            if core.settings.disconnect_frees:
                self.lose(child)
            else:
                self._haunt(child)
                core.children_changed()

    def on_alive(self, sender: str, message: Alive) -> None:
        core = self._core
        child = core.children.get((sender, message.root))
        if child is not None and not child.ghost and child.number > message.number:
            return
        if (
            child is None
            or child.ghost
            or (child.number < message.number and not self._knows(child, message))
        ):
            core.send(sender, Evict(message.root, message.number, Why.STRANGER))
            return
        profile = message.profile
        if profile is not None and profile.version > child.profile.version:
            if profile.peer != sender or profile.bound != child.bound or not core.view.sound(profile):
                core.counts.malformed += 1
                return
            child.profile = profile
            core.floor_unknown()
        child.heard = core.cycle
        if message.root:
            core.send(
                sender,
                Feed(True, child.number, core.advertised, 0.0, sent=message.sent),
            )
        else:
            core.send(
                sender,
                Feed(False, child.number, core.fed, core.delay, core.hope, message.sent),
            )

    def _knows(self, child: Child, message: Alive) -> bool:
        """A request was lost that asked for less than before: it is as if it had come."""
        core = self._core
        asked = message.asked
        limit = core.settings
        if not asked or not is_set(asked, limit.dz_max, limit.dz_depth_max) or not covers(child.asked, asked):
            return False
        child.number = message.number
        if child.peer in self._requests:
            self._requests[child.peer] = message.number
        child.asked = asked
        child.volume = volume(asked)
        core.children_changed()
        return True
