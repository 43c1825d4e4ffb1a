"""The peer: events in, effects out.

It puts the parts together: `views` says whom it knows, `upward` what its parents give it, `downward` whom it
feeds, `rates` what comes, `outlooks` what could be had. Algorithms 1 and 2 of the paper are here, line by
line where that can be said; docs/design/0032-peers.md has each repair and why. There is no socket, clock or
randomness of its own here, and nothing knows whether it runs in a simulation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.overlay.peers import downward, outlooks, rates, upward
from tidings.overlay.peers.cells import covers, halves, is_set, meets, volume, within
from tidings.overlay.peers.downward import Child
from tidings.overlay.peers.events import (
    Admit,
    Advertised,
    AnyHappened,
    Deliver,
    Effect,
    Joined,
    Left,
    PeerLost,
    Published,
    Received,
    Report,
    Send,
    Subscribed,
    TimerFired,
)
from tidings.overlay.peers.messages import (
    Accept,
    Alive,
    AnyMessage,
    Connect,
    Enquire,
    Event,
    Evict,
    Feed,
    Foresee,
    Leave,
    Profile,
    Refuse,
    Shuffle,
    Why,
)
from tidings.overlay.peers.outlooks import Cause, Outlook, Violation
from tidings.overlay.peers.rates import Rates
from tidings.overlay.peers.settings import DEFAULT, PeerSettings
from tidings.overlay.peers.status import Counts, Down, PeerStatus, Up
from tidings.overlay.peers.upward import Parent, Parents
from tidings.overlay.peers.views import View
from tidings.space.expressions import Set, canonical

REQUESTS_MAX = 1024
"""Peers of which the number of the last request is remembered."""

RESTS_MAX = 1024
"""Peers of which is remembered that they said no."""

HINTS_MAX = 4
"""Hints that wait to be followed."""

CONTACTS_MAX = 16
"""Contacts that are remembered."""

CONTACT_EVERY = 8
"""Cycles after which gossip goes to a contact again."""

LINK_WEIGHT = 0.25
"""How much a new measurement of a link counts against the old ones, twice TCP's 1/8: there is one a cycle
only."""


class Asking:
    """A request that is not answered yet."""

    __slots__ = ("asked", "cycle", "number", "peer", "root", "sent")

    def __init__(self, peer: str, root: bool, number: int, asked: Set, cycle: int, sent: float) -> None:
        self.peer = peer
        self.root = root
        self.number = number
        self.asked = asked
        self.cycle = cycle
        self.sent = sent


class Peer:
    """One peer of an overlay.

    >>> peer = Peer("a", life=1, random=random.Random(0))
    >>> _ = peer.handle(Subscribed(("011",), bound=3.0), 0.0)
    >>> peer.handle(Joined(("b",)), 0.0)[1]
    Send(to='b', message=Enquire(number=4294967297, dz=('011',), bound=3.0, allowed=0.0))
    """

    def __init__(
        self,
        name: str,
        *,
        life: int,
        random: random.Random,
        settings: PeerSettings = DEFAULT,
    ) -> None:
        """`life` counts the starts of this peer; a larger one is later."""
        self.name = name
        self.settings = settings
        self.interest: Set = ()
        """The user's subscription."""
        self.bound = 0.0
        self.allowed = 0.0
        self.bandwidth: float | None = None
        self.dz: Set = ()
        """The peer-level subscription."""
        self.advertised: Set = ()
        self.fed: Set = ()
        """What really comes, as far as is known."""
        self.delay = 0.0
        """How late the latest of it comes."""
        self.parents: Parents = {}
        self.children: dict[tuple[str, bool], Child] = {}
        self.cycle = 0
        """How often the timer has fired."""
        self.changes = 0
        """How often a link has come or gone, or `dz` has changed: it stands still when the overlay does."""
        self.counts = Counts()
        self.view = View(name, settings, random)
        self._random = random
        self._life = life << 32
        self._number = 0
        self._version = 0
        self._now = 0.0
        self._out: list[Effect] = []
        self._due: float | None = None
        self._contacts: tuple[str, ...] = ()
        self._asking: Asking | None = None
        self._enquiry = -1
        self._hints: list[Profile] = []
        self._rests: dict[tuple[str, bool], tuple[int, int]] = {}
        """By standing: until when it is not asked again, and how often it has said no."""
        self._requests: dict[str, int] = {}
        """By peer: the number of its last request."""
        self._left: dict[str, int] = {}
        """By peer that was a parent: when it was left. What it has sent before is still taken."""
        self._seen: dict[tuple[str, int], None] = {}
        self._rates = Rates(settings.points)
        self._published = Rates(settings.points)
        self._window = 0
        """Cycles since the window began."""
        self._lacking = 0
        """Cycles without cover, since the subscription was made coarser."""
        self._seeking = 0
        """Cycles in which it looked for a parent."""
        self._hungry = 0
        """Cycles in which the user's subscription was not fed."""
        self._coarse_rests: dict[str, tuple[int, int]] = {}
        """By expression that was too coarse: until when it is not taken again, and how often it was given
        up."""
        self._over: Cause | None = None
        """The budget that was exceeded in the last window although nothing can be refined."""
        self._reported: Cause | None = None
        self._profile: Profile | None = None
        self._root_profile: Profile | None = None
        self._floor: float | None = None
        self._relays: list[tuple[str, Set]] = []
        """To whom events go on that come from parents."""
        self._hoped = True
        """Whether children were told that there is hope."""
        self._told: tuple[object, ...] = ()
        """What parents were last told of this peer."""

    # What a driver calls.

    def handle(self, event: AnyHappened, now: float) -> list[Effect]:
        """Something has happened; what is to be done."""
        if now > self._now:
            self._now = now
        if type(event) is Received:
            if self._due is not None:
                if event.sender == self.name:
                    self.counts.malformed += 1
                else:
                    _ON_MESSAGE[type(event.message)](self, event.sender, event.message)
        else:
            _ON_HAPPENED[type(event)](self, event)
        out = self._out
        if out:
            self._out = []
        return out

    def next_deadline(self) -> float | None:
        """When it wants to be told `TimerFired`."""
        return self._due

    @property
    def covered(self) -> bool:
        """Whether it has parents for all of its peer-level subscription: converged, in the paper's words."""
        parts = tuple(upward.served(self.parents.values()))
        parts += tuple(self._rooted(parts))
        have = canonical(parts)
        return all(one.startswith(have) for one in self.dz)

    @property
    def satisfied(self) -> bool:
        """Whether it believes that it gets all that its user wants within the bound: notified."""
        fed = self.fed
        return self.delay <= self.bound and all(one.startswith(fed) for one in self.interest)

    @property
    def hope(self) -> bool:
        """Whether it has who feeds it, or has not looked for long.

        Its children wait for it as long; so a group that has lost its parent stays together behind the one
        that looks for another, and only if that fails those next to it look for themselves.
        """
        return self._seeking <= self.settings.patience

    @property
    def waste(self) -> float | None:
        """Unwanted events as a share of all of the topic, in the last whole window."""
        total = self._total()
        if self._rates.wasted_rate is None or total <= 0.0:
            return None
        return self._rates.wasted_rate / total

    def status(self) -> PeerStatus:
        """All that may be known of it."""
        return PeerStatus(
            peer=self.name,
            cycle=self.cycle,
            interest=self.interest,
            bound=self.bound,
            dz=self.dz,
            advertised=self.advertised,
            fed=self.fed,
            delay=self.delay,
            parents=tuple(
                Up(one.peer, one.root, one.asked, one.profile.dz, one.profile.bound, one.feeds, one.link)
                for one in self.parents.values()
            ),
            children=tuple(
                Down(one.peer, one.root, one.asked, one.bound)
                for one in self.children.values()
                if not one.ghost
            ),
            covered=self.covered,
            satisfied=self.satisfied,
            waste_allowed=self.allowed,
            waste=self.waste,
            bandwidth_allowed=self._received_max(),
            bandwidth=self._rates.received_rate,
            violation=self.violation(),
            known=len(self.view.profiles),
            counts=msgspec.structs.replace(self.counts, malformed=self.counts.malformed + self.view.refused),
        )

    # What the user wants.

    def _on_subscribed(self, event: Subscribed) -> None:
        dz = event.dz
        if not is_set(dz, self.settings.dz_max, self.settings.dz_depth_max):
            raise InputError(
                f"subscription {dz!r} of peer {self.name!r} is not a canonical set of at most "
                f"{self.settings.dz_max} expressions of 0 and 1; see tidings.space.expressions.canonical"
            )
        if dz and not 0.0 < event.bound < math.inf:
            raise InputError(f"bound {event.bound!r} of peer {self.name!r} is not a number above 0")
        if not 0.0 <= event.allowed <= 1.0:
            raise InputError(
                f"allowed waste {event.allowed!r} of peer {self.name!r} is not a share of 0 to 1"
            )
        if event.bandwidth is not None and not 0.0 < event.bandwidth < math.inf:
            raise InputError(f"bandwidth {event.bandwidth!r} of peer {self.name!r} is not a number above 0")
        # Bounds are part of what keeps links in order: with another one all of them are made anew.
        self._part(lambda child: not child.root)
        self.interest = self.dz = dz
        self.bound = event.bound if dz else 0.0
        self.allowed = event.allowed
        self.bandwidth = event.bandwidth
        self._hints.clear()
        self._rests.clear()
        self._coarse_rests.clear()
        self._lacking = self._seeking = self._hungry = 0
        self._over = self._reported = None
        self._rates.forget(self._now)
        self.view.prefer(dz, self.bound)
        self._settle()
        if self._due is not None:
            self._enquire(self.view.partner())

    def _on_advertised(self, event: Advertised) -> None:
        if not is_set(event.dz, self.settings.dz_max, self.settings.dz_depth_max):
            raise InputError(
                f"advertisement {event.dz!r} of peer {self.name!r} is not a canonical set of at most "
                f"{self.settings.dz_max} expressions of 0 and 1; see tidings.space.expressions.canonical"
            )
        self.advertised = event.dz
        self._root_profile = None
        self._published.forget(self._now)
        for child in [child for child in self.children.values() if child.root]:
            if not any(meets(event.dz, one) for one in child.asked):
                self._send_away(child, Why.ROLE)
        self._settle()

    def _on_joined(self, event: Joined) -> None:
        self._contacts = tuple(one for one in event.contacts if one != self.name)[:CONTACTS_MAX]
        # The first cycle comes at a time of its own, so that those who start together do not act together.
        self._due = self._now + self._random.random() * self.settings.cycle_s
        self._rates.begin(self._now)
        self._published.begin(self._now)
        if self._contacts:
            self._gossip(self._contacts[0])
            self._enquire(self._contacts[0])

    def _on_left(self, event: Left) -> None:  # noqa: ARG002
        self._part(lambda _: True)
        self._due = None

    def _on_peer_lost(self, event: PeerLost) -> None:
        peer = event.peer
        for root in (False, True):
            self.view.forget(peer, root)
            if (peer, root) in self.parents:
                self._drop(self.parents[peer, root])
            child = self.children.get((peer, root))
            if child is not None:
                self._lose(child)
        if self._asking is not None and self._asking.peer == peer:
            self._asking = None
        self._settle()

    def _part(self, which: Callable[[Child], bool]) -> None:
        """End all links up, and some of those down."""
        for child in [child for child in self.children.values() if which(child)]:
            self._send_away(child, Why.LEAVING, (parent.profile for parent in self.parents.values()))
        for parent in list(self.parents.values()):
            self._leave(parent)
        self._asking = None

    # The timer: connectionManagement (Algorithm 1, lines 1-6) and the triggers of Algorithm 2.

    def _on_timer(self, event: TimerFired) -> None:  # noqa: ARG002
        if self._due is None or self._now < self._due:
            return
        self._due += self.settings.cycle_s
        if self._due <= self._now:
            # It was not told for a long time: what was missed is not made up for.
            self._due = self._now + self.settings.cycle_s
        self.cycle += 1
        self._profile = self._root_profile = None
        self._wait()
        self.view.age(self.cycle)
        self._settle()
        if self.dz:
            self._seek()
            self._speak()
        self._measure()
        self._settle()
        partner = self._partner()
        if partner is not None:
            self._gossip(partner)

    def _wait(self) -> None:
        """Give up on those who say nothing."""
        settings, cycle = self.settings, self.cycle
        asking = self._asking
        if asking is not None and cycle - asking.cycle >= settings.answer_within:
            self._asking = None
            self.view.forget(asking.peer, asking.root)
        silent_before = cycle - settings.silent_after
        for parent in [one for one in self.parents.values() if one.heard < silent_before]:
            self.view.forget(parent.peer, parent.root)
            self._drop(parent)
        for child in [one for one in self.children.values() if one.heard < silent_before and not one.ghost]:
            self._lose(child)
        for peer in [peer for peer, since in self._left.items() if since < silent_before]:
            del self._left[peer]

    def _speak(self) -> None:
        """Tell parents that this peer is there, and what has changed in what they look at."""
        profile = self._relay_profile()
        told: tuple[object, ...] = (profile.dz, profile.fed, profile.floor)
        news = profile if told != self._told else None
        self._told = told
        for parent in self.parents.values():
            asked = None if parent.confirmed else parent.asked
            self._send(parent.peer, Alive(parent.root, parent.number, self._now, news, asked))

    def _seek(self) -> None:
        """Look for parents for what is not covered; if there are none, ask for more (Algorithm 2, 1-3)."""
        settings = self.settings
        trusted = [one for one in self.parents.values() if not one.root and self._trusts(one)]
        missing = self._missing(trusted)
        if not missing:
            self._lacking = self._seeking = 0
        else:
            self._seeking += 1
            self._lacking += 1
            if self._lacking > settings.coarsen_after and self._coarsen(missing):
                self._lacking = 0
                missing = self._missing(trusted)
        if missing and self._asking is None:
            self._ask(missing)
        self._complain()

    def _trusts(self, parent: Parent) -> bool:
        """Whether a parent feeds, or is worth waiting for."""
        return not self.settings.fed_known or parent.hope or parent.feeds

    def _missing(self, subscribers: list[Parent]) -> list[str]:
        """What of the subscription neither these parents serve nor all relevant publishers."""
        parts = tuple(upward.served(subscribers))
        if len(parts) > 1:
            parts = canonical(parts)
        missing = [one for one in self.dz if not one.startswith(parts)]
        if not missing:
            return missing
        rooted = tuple(self._rooted(parts))
        if not rooted:
            return missing
        have = canonical((*parts, *rooted))
        return [one for one in missing if not one.startswith(have)]

    def _rooted(self, served: Set) -> list[str]:
        """What comes from all relevant publishers directly, beside what subscribers serve."""
        dz = tuple(one for one in self.dz if not one.startswith(served)) if served else self.dz
        return upward.rooted(dz, self.parents, self.view, self.settings.publishers_all, bool(self.advertised))

    # Requests sent.

    def _ask(self, missing: list[str]) -> None:
        """Ask the best parent known for one of the missing expressions, and for all others that it has."""
        wanted = missing[self.cycle % len(missing)]
        found = self._best(wanted)
        if found is None:
            return
        if found.root:
            asked = [one for one in missing if meets(found.dz, one)]
        else:
            asked = [one for one in missing if one.startswith(found.dz)]
        parent = self.parents.get((found.peer, found.root))
        if parent is not None:
            asked += [one for one in parent.asked if one.startswith(self.dz)]
        self._connect(found.peer, found.root, canonical(asked))

    def _connect(self, peer: str, root: bool, asked: Set) -> int:
        self._number += 1
        number = self._life + self._number
        self._asking = Asking(peer, root, number, asked, self.cycle, self._now)
        self.counts.requests += 1
        self._send(peer, Connect(root, number, self._relay_profile(), asked, self._now))
        return number

    def _best(self, one: str) -> Profile | None:
        """findBestParent: for this peer itself.

        Hints come first. Then, by what is known: who gets it and has room; who does not get it yet, unless
        such a parent is there already; publishers with room; and only then those that were full. Among equals
        the loosest: tight parents are needed by the tight.
        """
        cycle, limit, fed_known = self.cycle, self._limit(), self.settings.fed_known
        rests, size = self._rests, 0.5 ** len(one)
        waiting = any(not parent.root and one.startswith(parent.asked) for parent in self.parents.values())
        while self._hints:
            hint = self._hints.pop(0)
            likely = not fed_known or one.startswith(hint.fed) or (hint.hope and not waiting)
            fits = hint.bound <= limit and one.startswith(hint.dz)
            if likely and fits and self._rested((hint.peer, hint.root)):
                return hint
        best: Profile | None = None
        best_rank: tuple[int, float, float, str] | None = None
        for profile in self.view.profiles.values():
            if profile.bound > limit or not one.startswith(profile.dz):
                continue
            peer = profile.peer
            if (peer, False) in rests and rests[peer, False][0] > cycle:
                continue
            if not fed_known:
                tier = 0
            elif one.startswith(profile.fed):
                tier = 0 if size > profile.floor else 3
            elif waiting or not profile.hope:
                continue
            else:
                tier = 1 if size > profile.floor else 5
            parent = self.parents.get((peer, False))
            if parent is not None and one.startswith(parent.asked):
                continue
            rank = (tier, -profile.bound, profile.delay, peer)
            if best_rank is None or rank < best_rank:
                best, best_rank = profile, rank
        if best_rank is not None and best_rank[0] < 2:
            return best
        for profile in self.view.relevant(one):
            key = (profile.peer, True)
            if limit < 0.0 or not self._rested(key):
                continue
            parent = self.parents.get(key)
            if parent is not None and one.startswith(parent.asked):
                continue
            tier = 2 if not fed_known or size > profile.floor else 4
            rank = (tier, 0.0, 0.0, profile.peer)
            if best_rank is None or rank < best_rank:
                best, best_rank = profile, rank
        return best

    def _limit(self) -> float:
        """The loosest bound that a parent may have."""
        if self.settings.metric == "hops":
            return self.bound - 1.0
        return math.nextafter(self.bound, 0.0)

    def _rested(self, key: tuple[str, bool]) -> bool:
        return key not in self._rests or self._rests[key][0] <= self.cycle

    def _rest(self, key: tuple[str, bool]) -> None:
        """Somebody has said no: ask others for a while."""
        times = self._rests.pop(key, (0, 0))[1]
        pause = min(self.settings.retry_after << min(times, 16), self.settings.retry_max)
        self._rests[key] = (self.cycle + pause, times + 1)
        if len(self._rests) > RESTS_MAX:
            del self._rests[next(iter(self._rests))]

    # Requests received: Algorithm 1, lines 7-20.

    def _on_connect(self, sender: str, message: Connect) -> None:
        profile, asked, root = message.profile, message.asked, message.root
        settings = self.settings
        if (
            profile.peer != sender
            or profile.root
            or not self.view.sound(profile)
            or not asked
            or not is_set(asked, settings.dz_max, settings.dz_depth_max)
            or not covers(profile.dz, asked)
            or not math.isfinite(message.sent)
        ):
            self.counts.malformed += 1
            return
        if message.number <= self._requests.get(sender, -1):
            self.counts.overtaken += 1
            return
        self._requests.pop(sender, None)
        self._requests[sender] = message.number
        if len(self._requests) > REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        mine = self.advertised if root else self.dz
        if not mine:
            self._refuse(sender, message, Why.ROLE)
        elif not self._ordered(0.0 if root else self.bound, profile.bound):
            self._refuse(sender, message, Why.BOUND, (parent.profile for parent in self.parents.values()))
        elif settings.cover_checked and not (
            any(meets(mine, one) for one in asked) if root else covers(mine, asked)
        ):
            self._refuse(sender, message, Why.COVER, (parent.profile for parent in self.parents.values()))
        else:
            self._take(sender, message)
            self._settle()

    def _ordered(self, parent: float, child: float) -> bool:
        """Line 8: whether a link goes from a tighter to a looser bound, by a hop if hops count."""
        if not self.settings.requester_compared:
            parent, child = child, parent
        return child - parent >= 1.0 if self.settings.metric == "hops" else child > parent

    def _take(self, sender: str, message: Connect) -> None:
        """Lines 9-17: a child more, and if that is one too many, the one least worth having is sent away."""
        settings, children = self.settings, self.children
        key = (sender, message.root)
        known = children.get(key)
        if known is not None and not known.ghost:
            order = known.order
        else:
            order = self.counts.accepted + self.counts.declined
        child = Child(sender, message.root, message.number, message.profile, message.asked, self.cycle, order)
        children.pop(key, None)
        children[key] = child
        self._children_changed()
        if len(children) > settings.out_degree:
            if settings.evicted_removed and settings.disconnect_frees:
                gone, instead = downward.spare(list(children.values()), settings.sibling_first)
                surplus = [(gone, instead)]
            else:
                ordered = sorted(children.values(), key=lambda one: one.rank)
                surplus = [
                    (one, None) for one in ordered[: len(children) - settings.out_degree] if not one.ghost
                ]
            for gone, instead in surplus:
                if gone is child:
                    del children[key]
                    self._children_changed()
                    floor = self._floor_now()
                    hint = (
                        instead.profile if instead is not None else self._hint(child, self._siblings(child))
                    )
                    self.counts.declined += 1
                    self._send(sender, Refuse(message.root, message.number, Why.FULL, hint, floor))
                    return
                self._send_away(gone, Why.FULL, () if instead is not None else self._siblings(gone), instead)
        self.counts.accepted += 1
        if known is None:
            self.changes += 1
        answer = self._standing(message.root)
        self._send(sender, Accept(message.root, message.number, answer, message.sent))

    def _siblings(self, child: Child) -> list[Profile]:
        return [one.profile for one in self.children.values() if one is not child and not one.ghost]

    def _send_away(
        self, child: Child, why: Why, others: Iterable[Profile] = (), instead: Child | None = None
    ) -> None:
        """DISCONNECT and POTENTIALPARENT, to a child."""
        hint = instead.profile if instead is not None else self._hint(child, others)
        if self.settings.evicted_removed or why is not Why.FULL:
            del self.children[child.key]
        else:
            self._haunt(child)
        self._children_changed()
        self.changes += 1
        self.counts.evicted += 1
        floor = self._floor_now() if why is Why.FULL else 0.0
        if not child.ghost or why is Why.FULL:
            self._send(child.peer, Evict(child.root, child.number, why, hint, floor))

    def _haunt(self, child: Child) -> None:
        """As printed: a child that has gone still takes a place. Only the best of those can matter."""
        child.ghost = True
        ghosts = sorted((one for one in self.children.values() if one.ghost), key=lambda one: one.rank)
        for one in ghosts[: max(0, len(ghosts) - self.settings.out_degree)]:
            del self.children[one.key]

    def _lose(self, child: Child) -> None:
        """A child has gone."""
        del self.children[child.key]
        self._children_changed()
        self.changes += 1

    def _refuse(self, sender: str, message: Connect, why: Why, others: Iterable[Profile] = ()) -> None:
        child = Child(sender, message.root, message.number, message.profile, message.asked, self.cycle, 0)
        self.counts.declined += 1
        hint = None if why is Why.ROLE else self._hint(child, others)
        self._send(sender, Refuse(message.root, message.number, why, hint))

    def _hint(self, child: Child, others: Iterable[Profile]) -> Profile | None:
        """findBestParent: for somebody else, among those known here and some others."""
        asked, bound, size = child.asked, child.bound, child.volume
        checked, fed_known = self.settings.hint_checked, self.settings.fed_known
        best: Profile | None = None
        best_rank: tuple[bool, bool, float, str] | None = None
        for profiles in (self.view.profiles.values(), others):
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

    def _on_leave(self, sender: str, message: Leave) -> None:
        child = self.children.get((sender, message.root))
        if child is not None and not child.ghost and child.number <= message.number:
            if self.settings.disconnect_frees:
                self._lose(child)
            else:
                self._haunt(child)
                self._children_changed()

    def _on_alive(self, sender: str, message: Alive) -> None:
        child = self.children.get((sender, message.root))
        if child is not None and not child.ghost and child.number > message.number:
            return
        if (
            child is None
            or child.ghost
            or (child.number < message.number and not self._knows(child, message))
        ):
            self._send(sender, Evict(message.root, message.number, Why.STRANGER))
            return
        profile = message.profile
        if profile is not None and profile.version > child.profile.version:
            if profile.peer != sender or profile.bound != child.bound or not self.view.sound(profile):
                self.counts.malformed += 1
                return
            child.profile = profile
            self._floor = None
        child.heard = self.cycle
        if message.root:
            self._send(sender, Feed(True, child.number, self.advertised, 0.0, sent=message.sent))
        else:
            self._send(sender, Feed(False, child.number, self.fed, self.delay, self.hope, message.sent))

    def _knows(self, child: Child, message: Alive) -> bool:
        """A request was lost that asked for less than before: it is as if it had come."""
        asked = message.asked
        limit = self.settings
        if not asked or not is_set(asked, limit.dz_max, limit.dz_depth_max) or not covers(child.asked, asked):
            return False
        child.number = self._requests[child.peer] = message.number
        child.asked = asked
        child.volume = volume(asked)
        self._children_changed()
        return True

    # Answers: Algorithm 1, lines 21-30, and hints.

    def _on_accept(self, sender: str, message: Accept) -> None:
        profile = message.profile
        if profile.peer != sender or profile.root is not message.root or not self.view.sound(profile):
            self.counts.malformed += 1
            return
        key = (sender, message.root)
        known = self.parents.get(key)
        asking = self._asking
        if asking is not None and (asking.peer, asking.root) != key:
            asking = None
        if asking is None or asking.number != message.number:
            if known is not None and known.number == message.number:
                known.heard = self.cycle
                known.confirmed = True
            else:
                # It comes too late; the place is not needed.
                self._send(sender, Leave(message.root, message.number))
            return
        self._asking = None
        self._rests.pop(key, None)
        link = self._measured(asking.sent, message.sent)
        parent = Parent(message.number, profile, asking.asked, link, self.cycle)
        covered = message.root or not self.settings.cover_checked or covers(profile.dz, asking.asked)
        if not covered or not self._bears(parent):
            self._send(sender, Leave(message.root, message.number))
            self._rest(key)
            if known is not None:
                self._drop(known)
                self._settle()
            return
        if known is None:
            self.changes += 1
        self.parents[key] = parent
        # The subscription may have become finer since it asked.
        self._narrow(parent, [part for one in parent.asked for part in within(self.dz, one)])
        self._once()
        self._settle()

    def _measured(self, sent: float, echoed: float) -> float:
        """How long a link takes, from a message that was answered."""
        if self.settings.metric == "hops":
            return 1.0
        # What an answer brings back is believed only if it is what was sent.
        since = sent if echoed == sent else self._now
        return max(0.0, self._now - since) * 1000.0 / 2.0

    def _bears(self, parent: Parent) -> bool:
        """Whether events come through a parent within the bound, if they come to it within its own."""
        if not self.settings.requester_compared:
            return True
        theirs = 0.0 if parent.root else parent.profile.bound
        return theirs < self.bound and theirs + parent.link <= self.bound

    def _once(self) -> None:
        """Lines 23-30: nothing is to come twice, so what one parent sends no other has to.

        The coarser part goes before the finer one, a subscriber before publishers. What does not come yet
        replaces nothing, where that is known.
        """
        if len(self.parents) < 2:
            return
        complete = frozenset(self._rooted(()))
        parts = []
        for parent in self.parents.values():
            for one in parent.asked:
                if parent.root:
                    comes = one in complete
                else:
                    comes = not self.settings.fed_known or one.startswith(parent.fed)
                parts.append((len(one), parent.root, not comes, parent.number, parent.peer, one))
        subscribers: Set = ()
        publishers: Set = ()
        kept: dict[tuple[str, bool], list[str]] = {key: [] for key in self.parents}
        for _, root, missing, _, peer, one in sorted(parts):
            if one.startswith(subscribers) or (not root and one.startswith(publishers)):
                continue
            kept[peer, root].append(one)
            if not missing and root:
                publishers += (one,)
            elif not missing:
                subscribers += (one,)
        for key, left in kept.items():
            self._narrow(self.parents[key], left)

    def _narrow(self, parent: Parent, kept: list[str]) -> None:
        """A parent has to send less, or nothing."""
        asked = canonical(kept)
        if asked == parent.asked or parent.key not in self.parents:
            return
        if not asked:
            self._leave(parent)
            return
        asking = self._asking
        parent.asked = asked
        parent.confirmed = False
        parent.number = self._connect(parent.peer, parent.root, asked)
        self._asking = asking

    def _on_refuse(self, sender: str, message: Refuse) -> None:
        key = (sender, message.root)
        asking = self._asking
        known = self.parents.get(key)
        if asking is not None and asking.number == message.number and asking.peer == sender:
            self._asking = None
        elif known is not None and known.number == message.number:
            self._drop(known)
        else:
            return
        self._rest(key)
        self._heed(sender, message)
        self._settle()

    def _on_evict(self, sender: str, message: Evict) -> None:
        key = (sender, message.root)
        asking = self._asking
        known = self.parents.get(key)
        if known is not None and known.number == message.number:
            self._drop(known)
        elif asking is not None and asking.number == message.number and asking.peer == sender:
            # It was taken and sent away at once, and this came first.
            self._asking = None
        else:
            return
        if message.why is not Why.STRANGER:
            self._rest(key)
        self._heed(sender, message)
        self._settle()

    def _heed(self, sender: str, message: Refuse | Evict) -> None:
        """A no says why, and perhaps who would say yes."""
        view = self.view
        if message.why is Why.FULL and 0.0 <= message.floor <= 1.0:
            known = view.roots if message.root else view.profiles
            if sender in known:
                known[sender] = msgspec.structs.replace(known[sender], floor=message.floor)
        hint = message.hint
        if hint is None:
            return
        if not view.sound(hint) or hint.root:
            self.counts.malformed += 1
        elif hint.peer != self.name:
            view.learn((hint,), (1,), self.cycle)
            if len(self._hints) < HINTS_MAX:
                self._hints.append(hint)

    def _on_feed(self, sender: str, message: Feed) -> None:
        parent = self.parents.get((sender, message.root))
        if parent is None or parent.number != message.number:
            return
        limit = self.settings
        fed = message.fed
        if (
            not (fed is parent.fed or fed == parent.fed or is_set(fed, 2 * limit.dz_max, limit.dz_depth_max))
            or not 0.0 <= message.delay < math.inf
        ):
            self.counts.malformed += 1
            return
        parent.heard = self.cycle
        parent.confirmed = True
        if limit.metric == "ms" and message.sent is not None and 0.0 <= message.sent <= self._now:
            measured = (self._now - message.sent) * 1000.0 / 2.0
            parent.link += LINK_WEIGHT * (measured - parent.link)
            if not self._bears(parent):
                self._rest(parent.key)
                self._leave(parent)
                self._settle()
                return
        elif fed is parent.fed and message.delay == parent.delay and message.hope is parent.hope:
            return
        parent.fed, parent.delay, parent.hope = fed, message.delay, message.hope
        self._once()
        self._settle()

    def _leave(self, parent: Parent) -> None:
        """DISCONNECT, to a parent."""
        self._send(parent.peer, Leave(parent.root, parent.number))
        self._left[parent.peer] = self.cycle
        if len(self._left) > RESTS_MAX:
            del self._left[next(iter(self._left))]
        self._drop(parent)

    def _drop(self, parent: Parent) -> None:
        del self.parents[parent.key]
        self.changes += 1

    # What comes of changes.

    def _settle(self) -> None:
        """Find out what really comes now, and tell the children if that is something else."""
        parents = self.parents
        fed: Set
        if not self.dz:
            fed, delay = (), 0.0
        elif len(parents) == 1 and not (only := next(iter(parents.values()))).root and only.feeds:
            # Nearly always, and so without asking about publishers.
            fed, delay = only.asked, only.delay + only.link
        else:
            fed, delay = upward.fed(parents.values(), self._rooted(tuple(upward.served(parents.values()))))
        if fed == self.dz:
            fed = self.dz
        hope = self.hope
        if fed != self.fed:
            # What was counted is of another part of the space.
            self._rates.forget(self._now)
            self._window = 0
        elif delay == self.delay and hope is self._hoped:
            return
        self.fed, self.delay, self._hoped = fed, delay, hope
        self._profile = None
        for child in self.children.values():
            if not child.root and not child.ghost:
                self._send(child.peer, Feed(False, child.number, fed, delay, hope))

    def _children_changed(self) -> None:
        self._floor = None
        self._relays = [
            (child.peer, child.asked)
            for child in self.children.values()
            if not child.root and not child.ghost
        ]

    def _floor_now(self) -> float:
        """What must be exceeded in volume to become a child."""
        if self._floor is None:
            children = list(self.children.values())
            if len(children) < self.settings.out_degree:
                self._floor = 0.0
            elif not children:
                self._floor = 1.0
            else:
                gone, instead = downward.spare(children, self.settings.sibling_first)
                self._floor = 0.0 if instead is not None else min(1.0, gone.volume)
        return self._floor

    def _standing(self, root: bool) -> Profile:
        return self._own_root_profile() if root else self._relay_profile()

    def _relay_profile(self) -> Profile:
        if self._profile is None:
            self._version += 1
            measured = self._rates.by_member(self.dz) if self.fed is self.dz else ()
            self._profile = Profile(
                self.name,
                self._life + self._version,
                False,
                self.bound,
                self.dz,
                self.fed,
                self.delay,
                self._floor_now(),
                measured,
                self.hope,
            )
        return self._profile

    def _own_root_profile(self) -> Profile:
        if self._root_profile is None:
            self._version += 1
            self._root_profile = Profile(
                self.name,
                self._life + self._version,
                True,
                0.0,
                self.advertised,
                self.advertised,
                0.0,
                self._floor_now(),
                self._published.by_member(self.advertised),
            )
        return self._root_profile

    def _send(self, to: str, message: AnyMessage) -> None:
        self._out.append(Send(to, message))

    # Gossip.

    def _partner(self) -> str | None:
        """Somebody known; first each contact, and now and then one again: else groups might stay apart."""
        contacts, cycle = self._contacts, self.cycle
        if contacts and (cycle < len(contacts) or cycle % CONTACT_EVERY == 0):
            return contacts[cycle % len(contacts)]
        return self.view.partner() or (contacts[cycle % len(contacts)] if contacts else None)

    def _gossip(self, partner: str, answer: bool = False) -> None:
        mine = []
        if self.dz:
            mine.append(self._relay_profile())
        if self.advertised:
            mine.append(self._own_root_profile())
        profiles, ages = self.view.sample(mine, self.cycle)
        self._send(partner, Shuffle(profiles, ages, answer))

    def _on_shuffle(self, sender: str, message: Shuffle) -> None:
        profiles = message.profiles
        limit = 4 * self.settings.view + self.settings.publishers_max + 64
        if len(profiles) != len(message.ages) or len(profiles) > limit:
            self.counts.malformed += 1
            return
        self.view.learn(profiles, message.ages, self.cycle)
        if not message.answer:
            self._gossip(sender, answer=True)

    # Accuracy: Algorithm 2.

    def _coarsen(self, lacking: list[str]) -> bool:
        """Lines 1-3: ask for more, by one step, if the budgets allow it."""
        if not self.settings.accuracy or self.allowed <= 0.0:
            return False
        steps = []
        for one in lacking:
            if not one:
                continue
            coarser = one[:-1]
            if self._coarse_rests.get(coarser, (0, 0))[0] > self.cycle:
                continue
            dz = canonical((*self.dz, coarser))
            steps.append((self._waste_of(dz), dz))
        for waste, dz in sorted(steps):
            if waste > self.allowed * (1.0 + self.settings.slack):
                return False
            limit = self._received_max()
            if limit is None or self._rate_of(dz) <= limit * (1.0 + self.settings.slack):
                self.counts.coarsened += 1
                self._change(dz)
                return True
        return False

    def _change(self, dz: Set) -> None:
        self.dz = dz
        self.changes += 1
        self._profile = None
        self.view.prefer(dz, self.bound)
        self._rates.forget(self._now)
        self._window = 0

    def _measure(self) -> None:
        """At the end of a window: what came, and whether that is within the budgets (lines 4-6)."""
        self._window += 1
        if self._window < self.settings.window or self._now <= self._rates.since:
            return
        self._window = 0
        self._rates.close(self._now)
        self._published.close(self._now)
        self._profile = self._root_profile = None
        if not self.dz:
            return
        self._over = self._exceeded()
        if self._over is not None and self.settings.accuracy and self._refine():
            self._over = None

    def _exceeded(self) -> Cause | None:
        """The budget that was exceeded in the last window."""
        counted, slack = self._rates, self.settings.slack
        assert counted.received_rate is not None, "a window is over"
        assert counted.wasted_rate is not None, "a window is over"
        limit = self._received_max()
        if limit is not None and rates.exceeds(counted.received_rate, limit, slack, counted.seconds):
            return Cause.BANDWIDTH
        total = self._total()
        if total > 0.0 and rates.exceeds(counted.wasted_rate, self.allowed * total, slack, counted.seconds):
            return Cause.WASTE
        return None

    def _refine(self) -> bool:
        """Take the expressions with the most waste one step finer, until the budgets are kept."""
        counted = self._rates
        assert counted.received_rate is not None, "a window is over"
        rate, limit, total = counted.received_rate, self._received_max(), self._total()
        dz = self.dz
        wanted = counted.part(self.interest)
        while True:
            spread = [(counted.part((one,)) - counted.part(self._wanted_in(one)), one) for one in dz]
            open_ = [(share, one) for share, one in spread if not one.startswith(self.interest)]
            if not open_:
                break
            _, worst = max(open_)
            finer = canonical((*(one for one in dz if one != worst), *halves(self.interest, worst)))
            times = self._coarse_rests.pop(worst, (0, 0))[1]
            pause = self.settings.window << min(times + 1, 8)
            self._coarse_rests[worst] = (self.cycle + pause, times + 1)
            if len(self._coarse_rests) > RESTS_MAX:
                del self._coarse_rests[next(iter(self._coarse_rests))]
            self.counts.refined += 1
            dz = finer
            left = counted.part(dz)
            within_bandwidth = limit is None or rate * left <= limit
            if within_bandwidth and rate * (left - wanted) <= self.allowed * total:
                break
        if dz == self.dz:
            return False
        self._change(dz)
        for parent in list(self.parents.values()):
            self._narrow(parent, [part for one in parent.asked for part in within(dz, one)])
        for child in [one for one in self.children.values() if not one.root and not covers(dz, one.asked)]:
            self._send_away(child, Why.COVER, (parent.profile for parent in self.parents.values()))
        return True

    def _wanted_in(self, one: str) -> Set:
        return tuple(within(self.interest, one))

    def _received_max(self) -> float | None:
        """B / (m + 1): what may come if all of it may have to be sent on m times."""
        return None if self.bandwidth is None else self.bandwidth / (self.settings.out_degree + 1)

    def _total(self) -> float:
        return rates.total(self.view.roots.values(), sum(self._published.by_member(self.advertised)))

    def _rate_of(self, dz: Set) -> float:
        """Events a second that a subscription would bring."""
        total = self._total()
        profiles = list(self.view.profiles.values())
        if self.dz:
            profiles.append(self._relay_profile())
        return sum(rates.estimate(one, rates.measurements(profiles, one), total) for one in dz)

    def _waste_of(self, dz: Set, interest: Set | None = None) -> float:
        """The share of all events that a subscription would bring beyond what is wanted."""
        interest = self.interest if interest is None else interest
        total = self._total()
        if self.settings.rates == "volume" or total <= 0.0:
            return volume(dz) - volume(interest)
        return max(0.0, self._rate_of(dz) - self._rate_of(interest)) / total

    # Expectations and explanations.

    def _enquire(self, contact: str | None) -> None:
        if contact is None or not self.interest:
            return
        self._number += 1
        self._enquiry = self._life + self._number
        self._send(contact, Enquire(self._enquiry, self.interest, self.bound, self.allowed))

    def _on_enquire(self, sender: str, message: Enquire) -> None:
        limit = self.settings
        if (
            not is_set(message.dz, limit.dz_max, limit.dz_depth_max)
            or not 0.0 < message.bound < math.inf
            or not 0.0 <= message.allowed <= 1.0
        ):
            self.counts.malformed += 1
            return
        profiles = [one for one in self.view.profiles.values() if one.peer != sender]
        roots = dict(self.view.roots)
        if self.dz:
            profiles.append(self._relay_profile())
        if self.advertised:
            roots[self.name] = self._own_root_profile()
        outlook = outlooks.foresee(
            message.dz,
            message.bound - 1.0 if limit.metric == "hops" else math.nextafter(message.bound, 0.0),
            self._bound_text(message.bound),
            message.allowed,
            profiles,
            roots,
            lambda dz: self._waste_of(dz, message.dz),
        )
        self._send(
            sender,
            Foresee(
                message.number,
                outlook.met,
                1.0 if outlook.waste is None else outlook.waste,
                next((one for one in (*profiles, *roots.values()) if one.peer == outlook.parent), None),
                outlook.text,
            ),
        )

    def _on_foresee(self, sender: str, message: Foresee) -> None:  # noqa: ARG002
        parent = message.parent
        if (
            message.number != self._enquiry
            or not 0.0 <= message.waste <= 1.0
            or (parent is not None and not self.view.sound(parent))
        ):
            self.counts.malformed += 1
            return
        self._enquiry = -1
        waste = message.waste if parent is not None else None
        if parent is not None and parent.peer != self.name:
            self.view.learn((parent,), (1,), self.cycle)
        self._out.append(
            Admit(Outlook(message.met, waste, "" if parent is None else parent.peer, message.text[:1000]))
        )

    def _bound_text(self, bound: float) -> str:
        if self.settings.metric == "ms":
            return f"{bound:g} ms"
        return f"{bound:g} hop" if bound == 1.0 else f"{bound:g} hops"

    def violation(self) -> Violation | None:
        """What is asked for and not kept, and why."""
        cause = self._cause()
        if cause is None:
            return None
        fed, dz = self.fed, self.interest
        unfed = tuple(one for one in dz if not one.startswith(fed))
        bound = self._bound_text(self.bound)
        waste: float | None = None
        if cause is Cause.PUBLISHER:
            text = "no publisher is known"
        elif cause is Cause.LATE:
            text = f"events come after {self._bound_text(self.delay)}, the bound is {bound}"
        elif cause is Cause.WASTE:
            share = outlooks.percent(self.waste or 0.0)
            text = f"{share} of all events come unwanted, {outlooks.percent(self.allowed)} are allowed"
        elif cause is Cause.BANDWIDTH:
            text = (
                f"{self._rates.received_rate or 0.0:g} events a second come, "
                f"{self._received_max() or 0.0:g} may with {self.settings.out_degree} children"
            )
        elif cause is Cause.WAITING:
            names = ", ".join(sorted({one.peer for one in self.parents.values() if not one.feeds})[:3])
            text = f"{names}, which should feed {unfed[0] or 'the whole space'}, gets nothing itself"
        else:
            found = outlooks.best(unfed[0], self._limit(), self.view.profiles.values(), self.view.roots)
            if found.coarser is not None and found.coarser != unfed[0]:
                waste = self._waste_of(canonical((*dz, found.coarser)))
            text = outlooks.sentence(unfed[0], bound, found, waste)
        return Violation(cause, unfed or dz, text, waste)

    def _cause(self) -> Cause | None:
        fed = self.fed
        if all(one.startswith(fed) for one in self.interest):
            return Cause.LATE if self.delay > self.bound else self._over
        if not self.view.roots and not self.advertised:
            return Cause.PUBLISHER
        unfed = next(one for one in self.interest if not one.startswith(fed))
        if any(unfed.startswith(one.asked) for one in self.parents.values() if not one.root):
            return Cause.WAITING
        limit = self._limit()
        could = any(
            one.bound <= limit and unfed.startswith(one.fed) for one in self.view.profiles.values()
        ) or (limit >= 0.0 and next(self.view.relevant(unfed), None) is not None)
        return Cause.ROOM if could else Cause.PARENT

    def _complain(self) -> None:
        """Report what is not kept once that has lasted, and when it is kept again."""
        fed = self.fed
        if (
            self._over is None
            and self.delay <= self.bound
            and all(one.startswith(fed) for one in self.interest)
        ):
            self._hungry = 0
            if self._reported is not None:
                self._reported = None
                self._out.append(Report(None))
            return
        self._hungry += 1
        patience = self.settings.coarsen_after
        if self._hungry < patience or self._hungry % patience:
            return
        cause = self._cause()
        if cause is not None and cause is not self._reported:
            self._reported = cause
            self._out.append(Report(self.violation()))

    # Events.

    def _on_published(self, event: Published) -> None:
        if not self.advertised or not event.point.startswith(self.advertised):
            raise InputError(
                f"event {event.number} of peer {self.name!r} lies at {event.point!r}, outside its "
                f"advertisement {', '.join(self.advertised) or 'of nothing'}; advertise that part first"
            )
        point, number = event.point, event.number
        self._published.received += 1
        self._published.points.append(point)
        if point.startswith(self.interest):
            self.counts.delivered += 1
            self._out.append(Deliver(self.name, number, point, 0.0, False, event.payload))
        message = Event(self.name, number, point, 0.0, event.payload)
        for child in self.children.values():
            if not child.ghost and point.startswith(child.asked):
                self.counts.forwarded += 1
                self._out.append(Send(child.peer, message))

    def _on_event(self, sender: str, message: Event) -> None:
        publisher, point, counts = message.publisher, message.point, self.counts
        key = (publisher, message.number)
        if key in self._seen or publisher == self.name:
            counts.repeated += 1
            return
        parent = self.parents.get((sender, False)) or self.parents.get((sender, True))
        if parent is not None:
            delay = message.delay + parent.link
        elif sender in self._left:
            delay = message.delay + 1.0 if self.settings.metric == "hops" else message.delay
        else:
            counts.strays += 1
            return
        if (
            point.strip("01")
            or len(point) > self.settings.dz_depth_max
            or not 0.0 <= delay < math.inf
            or (
                parent is not None
                and parent.root
                and sender != publisher
                and (sender, False) not in self.parents
            )
        ):
            counts.malformed += 1
            return
        if not point.startswith(self.dz):
            counts.outside += 1
            return
        seen = self._seen
        seen[key] = None
        if len(seen) > self.settings.seen:
            del seen[next(iter(seen))]
        counts.received += 1
        measured = self._rates
        measured.received += 1
        measured.points.append(point)
        out = self._out
        if point.startswith(self.interest):
            counts.delivered += 1
            late = delay > self.bound
            if late:
                counts.late += 1
            out.append(Deliver(publisher, message.number, point, delay, late, message.payload))
        else:
            counts.wasted += 1
            measured.wasted += 1
        if self._relays:
            onward = Event(publisher, message.number, point, delay, message.payload)
            for peer, asked in self._relays:
                if point.startswith(asked) and peer != publisher and peer != sender:
                    counts.forwarded += 1
                    out.append(Send(peer, onward))


_ON_MESSAGE: dict[type, Callable[[Peer, str, Any], None]] = {
    Accept: Peer._on_accept,
    Alive: Peer._on_alive,
    Connect: Peer._on_connect,
    Enquire: Peer._on_enquire,
    Event: Peer._on_event,
    Evict: Peer._on_evict,
    Feed: Peer._on_feed,
    Foresee: Peer._on_foresee,
    Leave: Peer._on_leave,
    Refuse: Peer._on_refuse,
    Shuffle: Peer._on_shuffle,
}

_ON_HAPPENED: dict[type, Callable[[Peer, Any], None]] = {
    Advertised: Peer._on_advertised,
    Joined: Peer._on_joined,
    Left: Peer._on_left,
    PeerLost: Peer._on_peer_lost,
    Published: Peer._on_published,
    Subscribed: Peer._on_subscribed,
    TimerFired: Peer._on_timer,
}
