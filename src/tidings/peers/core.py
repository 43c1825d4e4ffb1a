"""What all parts of one peer share: who it is, its links, what it says of itself, what it wants done.

It also knows the one thing that everything else changes: what the peer is really fed. Who is asked, and who
is sent away, is not decided here.
"""

from __future__ import annotations

import math
import random

from tidings.peers import downward, rates, upward
from tidings.peers.downward import Child
from tidings.peers.events import Effect, Send
from tidings.peers.messages import LIFE_SHIFT, AnyMessage, Feed, Profile, Shuffle
from tidings.peers.rates import Rates
from tidings.peers.settings import PeerSettings
from tidings.peers.status import Counts
from tidings.peers.upward import Parents
from tidings.peers.views import View
from tidings.space.expressions import Set, canonical

DELAY_STEP = 0.05
"""By which share a measured delay must change before children are told: every measurement differs a little,
and what is told goes down the whole tree."""

TOLD_MAX = 16
"""Partners of gossip that may owe an answer: one a cycle, and some more when there is news."""


class Core:
    """One per peer; `now` and `out` belong to the event that is being handled."""

    def __init__(self, name: str, life: int, random: random.Random, settings: PeerSettings) -> None:
        self.name = name
        self.settings = settings
        self.random = random
        self.now = 0.0
        self.out: list[Effect] = []
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
        self.relays: list[tuple[str, Set]] = []
        """To whom events go on that come from parents."""
        self.left: dict[str, int] = {}
        """By peer that was a parent: when it was left. What it has sent before is still taken."""
        self.links: dict[str, float] = {}
        """By peer: how long a link to it takes, if milliseconds count and that was measured."""
        self.probes: dict[str, float] = {}
        """By peer: when gossip went to it that it has not answered, if milliseconds count."""
        self.doubled = False
        """Whether an event has come again in this cycle."""
        self.told: dict[str, list[str]] = {}
        """By peer to whom gossip went that it has not answered: the relays that it was told of."""
        self.cycle = 0
        """How often the timer has fired."""
        self.changes = 0
        """How often a link has come or gone, or `dz` has changed: it stands still when the overlay does."""
        self.seeking = 0
        """Cycles in which a parent was looked for, since there was last one for all."""
        self.counts = Counts()
        self.counted = Rates(settings.points)
        """What comes of the subscription, and what of that is wanted: since the same is fed."""
        self.incoming = Rates(0)
        """All that comes over the access link, since the same is asked for."""
        self.published = Rates(settings.points)
        """What the user publishes."""
        self.window = self.incoming_window = 0
        """Cycles since the windows of these began."""
        self.view = View(name, settings, random)
        self.profile: Profile | None = None
        """What it says of itself as a relay; none if that must be put together anew."""
        self.own_root: Profile | None = None
        """The same as a publisher."""
        self._life = life << LIFE_SHIFT
        self._number = 0
        self._version = 0
        self._floor: float | None = None
        self._step = 0.0 if settings.metric == "hops" else DELAY_STEP
        self._hoped = True
        """Whether children were told that there is hope."""

    def next_number(self) -> int:
        """For a request; larger than all before it."""
        self._number += 1
        return self._life + self._number

    def floor_unknown(self) -> None:
        """A child says something else of itself."""
        self._floor = None

    @property
    def covered(self) -> bool:
        """Whether it has parents for all of its peer-level subscription: converged, in the paper's words."""
        parts = tuple(upward.served(self.parents.values()))
        parts += tuple(self.rooted(parts))
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
        return self.seeking <= self.settings.patience

    @property
    def waste(self) -> float | None:
        """Unwanted events as a share of all of the topic, in the last whole window."""
        total = self.total()
        if self.counted.wasted_rate is None or total <= 0.0:
            return None
        return self.counted.wasted_rate / total

    def is_parent(self, peer: str) -> bool:
        """Whether a peer is a parent, in one of its standings."""
        return (peer, False) in self.parents or (peer, True) in self.parents

    def settle(self) -> None:
        """Find out what really comes now, and tell the children if that is something else."""
        parents = self.parents
        fed: Set
        if not self.dz:
            fed, delay = (), 0.0
        elif len(parents) == 1 and not (only := next(iter(parents.values()))).root and only.feeds:
            # Nearly always, and so without asking about publishers.
            fed, delay = only.asked, only.delay + only.link
        else:
            fed, delay = upward.fed(parents.values(), self.rooted(tuple(upward.served(parents.values()))))
        if fed == self.dz:
            fed = self.dz
        hope = self.hope
        if fed != self.fed:
            # What was counted is of another part of the space.
            self.counted.forget(self.now)
            self.window = 0
        elif hope is self._hoped and abs(delay - self.delay) <= self._step * self.delay:
            return
        self.fed, self.delay, self._hoped = fed, delay, hope
        self.profile = None
        for child in self.children.values():
            if not child.root and not child.ghost:
                self.send(child.peer, Feed(False, child.number, fed, delay, hope))

    def rooted(self, served: Set) -> list[str]:
        """What comes from all relevant publishers directly, beside what subscribers serve."""
        dz = tuple(one for one in self.dz if not one.startswith(served)) if served else self.dz
        return upward.rooted(
            dz,
            self.parents,
            self.view,
            self.settings.publishers_all,
            bool(self.advertised),
        )

    def children_changed(self) -> None:
        self._floor = None
        self.relays = [
            (child.peer, child.asked)
            for child in self.children.values()
            if not child.root and not child.ghost
        ]

    def floor(self) -> float:
        """What must be exceeded in volume to become a child."""
        if self._floor is None:
            children = list(self.children.values())
            if len(children) < self.settings.out_degree:
                self._floor = 0.0
            elif not children:
                self._floor = 1.0
            else:
                gone, instead = downward.spare(
                    children, self.settings.sibling_first, self.settings.repeated_next
                )
                self._floor = 0.0 if instead is not None else min(1.0, gone.volume)
        return self._floor

    def standing(self, root: bool) -> Profile:
        return self.root_profile() if root else self.relay_profile()

    def relay_profile(self) -> Profile:
        if self.profile is None:
            self._version += 1
            measured = self.counted.by_member(self.dz, lately=True) if self.fed is self.dz else ()
            if measured and self.advertised:
                # Nobody sends it what it publishes itself; others that subscribe to the same get that too.
                measured = tuple(
                    rate + self.published.inside((one,)) for rate, one in zip(measured, self.dz, strict=True)
                )
            self.profile = Profile(
                self.name,
                self._life + self._version,
                False,
                self.bound,
                self.dz,
                self.fed,
                self.delay,
                self.floor(),
                measured,
                self.hope,
            )
        return self.profile

    def root_profile(self) -> Profile:
        if self.own_root is None:
            self._version += 1
            self.own_root = Profile(
                self.name,
                self._life + self._version,
                True,
                0.0,
                self.advertised,
                self.advertised,
                0.0,
                self.floor(),
                self.published.by_member(self.advertised),
            )
        return self.own_root

    def limit(self) -> float:
        """The loosest bound that a parent may have."""
        if self.settings.metric == "hops":
            return self.bound - 1.0
        return math.nextafter(self.bound, 0.0)

    def total(self) -> float:
        return rates.total(self.view.roots.values(), sum(self.published.by_member(self.advertised)))

    def received_max(self) -> float | None:
        """B / (m + 1): what may come if all of it may have to be sent on m times."""
        return None if self.bandwidth is None else self.bandwidth / (self.settings.out_degree + 1)

    def measured(self, sent: float) -> float:
        """How long a link takes, from when something was sent that is answered now."""
        return 1.0 if self.settings.metric == "hops" else (self.now - sent) * 1000.0 / 2.0

    def near(self, peer: str, link: float) -> None:
        """Remember how long a link takes."""
        self.links.pop(peer, None)
        self.links[peer] = link
        if len(self.links) > self.settings.remembered:
            del self.links[next(iter(self.links))]

    def gossip(self, partner: str, answer: bool = False, seeker: Profile | None = None) -> list[str]:
        """Tell somebody of some that are known, and say of which relays. The answer also says how far away it
        is, and is to help one that says that it has looked for a parent for long.
        """
        mine = []
        if self.dz:
            mine.append(self.relay_profile())
        if self.advertised:
            mine.append(self.root_profile())
        if self.settings.metric == "ms" and not answer:
            self.probes.pop(partner, None)
            self.probes[partner] = self.now
            if len(self.probes) > self.settings.remembered:
                del self.probes[next(iter(self.probes))]
        profiles, ages = self.view.sample(mine, self.cycle, seeker)
        told = [profile.peer for profile in profiles[len(mine) :] if not profile.root]
        if not answer:
            self.told.pop(partner, None)
            self.told[partner] = told
            if len(self.told) > TOLD_MAX:
                del self.told[next(iter(self.told))]
        self.send(partner, Shuffle(profiles, ages, answer))
        return told

    def send(self, to: str, message: AnyMessage) -> None:
        self.out.append(Send(to, message))
