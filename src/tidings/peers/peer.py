"""The peer: events in, effects out.

It puts the parts together and knows little that they do not: `seeking` finds who feeds it, `feeding` decides
whom it feeds, `accuracy` how much it subscribes to, `carrying` passes events on, `expecting` explains;
`views` is whom it knows. Each message and each event has one handler, found in a table.
docs/design/0034-peers.md has each repair of the paper's algorithms and why. There is no socket, clock or
randomness of its own here, and nothing knows whether it runs in a simulation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.peers.accuracy import Accuracy
from tidings.peers.carrying import Carrying
from tidings.peers.cells import is_set
from tidings.peers.core import Core
from tidings.peers.downward import Child
from tidings.peers.events import (
    Advertised,
    AnyHappened,
    Effect,
    Joined,
    Left,
    PeerLost,
    Published,
    Received,
    Subscribed,
    TimerFired,
)
from tidings.peers.expecting import Expecting
from tidings.peers.feeding import Feeding
from tidings.peers.messages import (
    Accept,
    Alive,
    Connect,
    Enquire,
    Event,
    Evict,
    Feed,
    Foresee,
    Leave,
    Refuse,
    Shuffle,
)
from tidings.peers.outlooks import Violation
from tidings.peers.seeking import Seeking
from tidings.peers.settings import DEFAULT, PeerSettings
from tidings.peers.status import Counts, Down, PeerStatus, Up
from tidings.peers.upward import Parents
from tidings.peers.views import View
from tidings.space.expressions import Set

CONTACTS_MAX = 16
"""Contacts that are remembered."""

CONTACT_EVERY = 8
"""Cycles after which gossip goes to a contact again."""

SPREAD = 3
"""Those who are told at once of a new publisher, by each that hears of it."""

SPREAD_EVERY = 8
"""Cycles in which that is done once at most, whatever is said of publishers."""


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
        _check_name(name, settings)
        core = self._core = Core(name, life, random, settings)
        self._accuracy = Accuracy(core)
        self._seeking = Seeking(core, self._accuracy)
        self._feeding = Feeding(core)
        self._carrying = Carrying(core)
        self._expecting = Expecting(core, self._accuracy)
        self._due: float | None = None
        self._contacts: tuple[str, ...] = ()
        self._news = False
        """Whether somebody publishes anew, and nobody was told yet."""
        self._spread_from = 0
        """The cycle from which on others may be told of such at once."""
        self._on_message: dict[type, Callable[[str, Any], None]] = {
            Accept: self._seeking.on_accept,
            Alive: self._feeding.on_alive,
            Connect: self._feeding.on_connect,
            Enquire: self._expecting.on_enquire,
            Event: self._carrying.on_event,
            Evict: self._seeking.on_evict,
            Feed: self._seeking.on_feed,
            Foresee: self._expecting.on_foresee,
            Leave: self._feeding.on_leave,
            Refuse: self._seeking.on_refuse,
            Shuffle: self._on_shuffle,
        }
        self._on_happened: dict[type, Callable[[Any], None]] = {
            Advertised: self._on_advertised,
            Joined: self._on_joined,
            Left: self._on_left,
            PeerLost: self._on_peer_lost,
            Published: self._carrying.on_published,
            Subscribed: self._on_subscribed,
            TimerFired: self._on_timer,
        }

    # What a driver calls.

    def handle(self, event: AnyHappened, now: float) -> list[Effect]:
        """Something has happened; what is to be done."""
        core = self._core
        if now > core.now:
            core.now = now
        if type(event) is Received:
            if self._due is not None:
                if event.sender == core.name or not 0 < len(event.sender) <= core.settings.name_max:
                    core.counts.malformed += 1
                else:
                    self._on_message[type(event.message)](event.sender, event.message)
        else:
            self._on_happened[type(event)](event)
        out = core.out
        if out:
            core.out = []
        return out

    def next_deadline(self) -> float | None:
        """When it wants to be told `TimerFired`."""
        return self._due

    # What may be read of it.

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def settings(self) -> PeerSettings:
        return self._core.settings

    @property
    def interest(self) -> Set:
        """The user's subscription."""
        return self._core.interest

    @property
    def bound(self) -> float:
        return self._core.bound

    @property
    def allowed(self) -> float:
        """The waste that the user accepts."""
        return self._core.allowed

    @property
    def dz(self) -> Set:
        """The peer-level subscription as it is now."""
        return self._core.dz

    @property
    def advertised(self) -> Set:
        return self._core.advertised

    @property
    def fed(self) -> Set:
        """What really comes, as far as it knows."""
        return self._core.fed

    @property
    def delay(self) -> float:
        """How late the latest of that comes."""
        return self._core.delay

    @property
    def parents(self) -> Parents:
        return self._core.parents

    @property
    def children(self) -> dict[tuple[str, bool], Child]:
        return self._core.children

    @property
    def view(self) -> View:
        return self._core.view

    @property
    def cycle(self) -> int:
        """How often its timer has fired."""
        return self._core.cycle

    @property
    def changes(self) -> int:
        """How often a link has come or gone, or `dz` has changed: it stands still when the overlay does."""
        return self._core.changes

    @property
    def counts(self) -> Counts:
        return self._core.counts

    @property
    def covered(self) -> bool:
        """Whether it has parents for all of its peer-level subscription: converged, in the paper's words."""
        return self._core.covered

    @property
    def satisfied(self) -> bool:
        """Whether it believes that it gets all that its user wants within the bound: notified."""
        return self._core.satisfied

    @property
    def waste(self) -> float | None:
        """Unwanted events as a share of all of the topic, in the last whole window."""
        return self._core.waste

    def violation(self) -> Violation | None:
        """What is asked for and not kept, and why."""
        return self._expecting.violation()

    def status(self) -> PeerStatus:
        """All that may be known of it."""
        core = self._core
        return PeerStatus(
            peer=core.name,
            cycle=core.cycle,
            interest=core.interest,
            bound=core.bound,
            dz=core.dz,
            advertised=core.advertised,
            fed=core.fed,
            delay=core.delay,
            parents=tuple(
                Up(one.peer, one.root, one.asked, one.profile.dz, one.profile.bound, one.feeds, one.link)
                for one in core.parents.values()
            ),
            children=tuple(
                Down(one.peer, one.root, one.asked, one.bound)
                for one in core.children.values()
                if not one.ghost
            ),
            covered=core.covered,
            satisfied=core.satisfied,
            waste_allowed=core.allowed,
            waste=core.waste,
            bandwidth_allowed=core.received_max(),
            bandwidth=core.incoming.received_rate,
            violation=self.violation(),
            known=len(core.view.profiles),
            counts=msgspec.structs.replace(core.counts, malformed=core.counts.malformed + core.view.refused),
        )

    # What the user wants.

    def _on_subscribed(self, event: Subscribed) -> None:
        core = self._core
        dz = event.dz
        self._check("subscription", dz)
        if dz and not 0.0 < event.bound < math.inf:
            raise InputError(f"bound {event.bound!r} of peer {core.name!r} is not a number above 0")
        if not 0.0 <= event.allowed <= 1.0:
            raise InputError(
                f"allowed waste {event.allowed!r} of peer {core.name!r} is not a share of 0 to 1"
            )
        if event.bandwidth is not None and not 0.0 < event.bandwidth < math.inf:
            raise InputError(f"bandwidth {event.bandwidth!r} of peer {core.name!r} is not a number above 0")
        # Bounds are part of what keeps links in order: with another one all of them are made anew.
        self._feeding.part(lambda child: not child.root)
        self._seeking.part()
        core.interest = core.dz = dz
        core.bound = event.bound if dz else 0.0
        core.allowed = event.allowed
        core.bandwidth = event.bandwidth
        core.counted.forget(core.now)
        core.incoming.forget(core.now)
        core.view.prefer(dz, core.bound)
        self._seeking.begin()
        self._accuracy.begin()
        self._expecting.begin()
        core.settle()
        if self._due is not None:
            partner = core.view.partner()
            others = self._contacts if partner is None else (partner, *self._contacts)
            self._expecting.enquire(tuple(dict.fromkeys(others)))

    def _check(self, what: str, dz: Set) -> None:
        limit = self._core.settings
        if not is_set(dz, limit.dz_max, limit.dz_depth_max):
            raise InputError(
                f"{what} {dz!r} of peer {self._core.name!r} is not a canonical set of at most "
                f"{limit.dz_max} expressions of 0 and 1; see tidings.space.expressions.canonical"
            )

    def _on_advertised(self, event: Advertised) -> None:
        self._check("advertisement", event.dz)
        core = self._core
        core.advertised = event.dz
        core.own_root = None
        core.published.forget(core.now)
        self._feeding.advertise()
        core.settle()
        if event.dz and self._due is not None:
            for partner in core.view.some(SPREAD, ()):
                core.gossip(partner)

    def _on_joined(self, event: Joined) -> None:
        core = self._core
        for contact in event.contacts:
            _check_name(contact, core.settings)
        self._contacts = tuple(one for one in event.contacts if one != core.name)[:CONTACTS_MAX]
        # The first cycle comes at a time of its own, so that those who start together do not act together.
        self._due = core.now + core.random.random() * core.settings.cycle_s
        core.counted.begin(core.now)
        core.incoming.begin(core.now)
        core.published.begin(core.now)
        for contact in self._contacts[: SPREAD if core.advertised else 1]:
            core.gossip(contact)
        self._expecting.enquire(self._contacts)

    def _on_left(self, event: Left) -> None:  # noqa: ARG002
        self._feeding.part(lambda _: True)
        self._seeking.part()
        self._due = None

    def _on_peer_lost(self, event: PeerLost) -> None:
        for root in (False, True):
            self._core.view.forget(event.peer, root)
        self._seeking.lose(event.peer)
        self._feeding.lose_peer(event.peer)
        self._core.settle()

    # The timer.

    def _on_timer(self, event: TimerFired) -> None:  # noqa: ARG002
        core = self._core
        if self._due is None or core.now < self._due:
            return
        self._due += core.settings.cycle_s
        if self._due <= core.now:
            # It was not told for a long time: what was missed is not made up for.
            self._due = core.now + core.settings.cycle_s
        core.cycle += 1
        core.profile = core.own_root = None
        self._seeking.wait()
        self._feeding.wait()
        core.view.age(core.cycle)
        core.settle()
        self._expecting.wait()
        if core.dz:
            self._seeking.seek()
            self._expecting.complain()
            self._seeking.speak()
        if self._accuracy.measure():
            self._seeking.fit()
            self._feeding.fit()
        core.settle()
        partner = self._partner()
        if partner is not None:
            core.gossip(partner)
        self._spread()

    # Gossip.

    def _partner(self) -> str | None:
        """Somebody known; first each contact, and now and then one again: else groups might stay apart."""
        contacts, cycle = self._contacts, self._core.cycle
        if contacts and (cycle < len(contacts) or cycle % CONTACT_EVERY == 0):
            return contacts[cycle % len(contacts)]
        return self._core.view.partner() or (contacts[cycle % len(contacts)] if contacts else None)

    def _on_shuffle(self, sender: str, message: Shuffle) -> None:
        core = self._core
        profiles = message.profiles
        limit = 4 * core.settings.view + core.settings.publishers_max + 64
        if len(profiles) != len(message.ages) or len(profiles) > limit:
            core.counts.malformed += 1
            return
        if not message.answer:
            seeker = core.view.sought(profiles, sender) if core.settings.fed_known else None
            told = core.gossip(sender, answer=True, seeker=seeker)
        else:
            told = core.told.pop(sender, [])
        known = len(core.view.roots)
        arrived = core.view.learn(profiles, message.ages, core.cycle, told)
        if len(core.view.roots) != known:
            # Who publishes anew is needed at once by all that are fed by publishers.
            core.settle()
        if arrived:
            self._news = True
            self._spread(sender)
        if message.answer and sender in core.probes:
            core.near(sender, core.measured(core.probes.pop(sender)))

    def _spread(self, *heard_from: str) -> None:
        """Somebody publishes of whom nobody here knew: tell some others without waiting for the next cycle.

        Not again for a while: who makes up publishers is not to make everybody talk.
        """
        core = self._core
        if self._news and core.cycle >= self._spread_from:
            self._news = False
            self._spread_from = core.cycle + SPREAD_EVERY
            for partner in core.view.some(SPREAD, (*heard_from, *core.view.roots)):
                core.gossip(partner)


def _check_name(name: str, settings: PeerSettings) -> None:
    if not 0 < len(name) <= settings.name_max:
        raise InputError(
            f"peer {name[:40]!r} has a name of {len(name)} characters; "
            f"give it one of 1 to {settings.name_max}"
        )
