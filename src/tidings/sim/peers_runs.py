"""Overlays of peers from one seed: they join, events are published, peers come and go, and all is judged.

A run has cycles, the periods of peers' timers. At the end of each the overlay is photographed, what came of
the cycle's events is counted, and the promises are judged. After the cycles of the run there may be quiet
ones, in which nothing goes wrong any more; at their end nothing is excused.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, log2, sqrt
from statistics import fmean

from tidings.errors import InputError
from tidings.overlay.peers import settings as peer_settings
from tidings.overlay.peers.events import Subscribed
from tidings.overlay.peers.settings import PeerSettings
from tidings.sim import peers_checkers as checkers
from tidings.sim.checkers import Breach
from tidings.sim.peers_ledger import Photo, Tally
from tidings.sim.peers_workload import Draws, Wish, Workload, satisfiable
from tidings.sim.peers_world import LINK_S, Maker, Watch, World

PRINTED, REPAIRED, FED, OURS = "printed", "repaired", "fed", "ours"

ALGORITHMS: Mapping[str, PeerSettings] = {
    PRINTED: peer_settings.PRINTED,
    REPAIRED: replace(peer_settings.REPAIRED, fed_known=False),
    FED: peer_settings.REPAIRED,
    OURS: peer_settings.DEFAULT,
}
"""The published algorithm as printed, to the letter and repaired; with peers that know who is fed; and with
our eviction."""

CONTACTS = 5
"""Peers that a newcomer has heard of."""

PUBLISHED_UNTIL = 0.8
"""Of a cycle; what is published by then has arrived at its end, over up to 200 links."""

AGREED_WITHIN = 8
"""Cycles in which both ends of a link must have come to the same of it: a silent peer is given up after 3."""

LATELY = 3
"""Photographs in which a peer may have held what still comes: its parents hear of a change within a cycle."""

JUDGED = 8
"""Last cycles of the quiet ones, in which nothing may change."""


@dataclass(frozen=True, slots=True)
class Course:
    """What a run is to be."""

    workload: Workload = field(default_factory=Workload)
    algorithm: str = OURS
    peers: int = 1024
    """Subscribers."""

    publishers: int = 1
    """That do not subscribe. Each advertises the whole space."""

    publishing: int = 0
    """Subscribers that publish too: the first to join. They advertise the whole space as well."""

    out_degree: int = 0
    """Of every peer; 0 for log2 of the peers."""

    view: float = 0.05
    """Share of the peers that a peer knows."""

    cycles: int = 40
    coarsen_after: int = 3
    allowed: float = 0.0
    """Waste that everybody accepts, as a share of all events."""

    events: int = 256
    """Published in a cycle."""

    churn: float = 0.0
    """Share of the subscribers that go in each cycle; as many newcomers come."""

    polite: float = 0.5
    """Share of those that take leave; the others crash."""

    loss: float = 0.0
    """Share of the messages that are lost."""

    quiet: int = 0
    """Cycles after the others in which nobody comes or goes, and nothing is lost."""

    link_s: float = LINK_S

    def check(self) -> None:
        """Refuse what cannot be run."""
        self.workload.check()
        rules = {
            "algorithm": (self.algorithm in ALGORITHMS, ", ".join(ALGORITHMS)),
            "peers": (2 <= self.peers <= 1_000_000, "2 to 1,000,000"),
            "publishers": (1 <= self.publishers <= 64, "1 to 64"),
            "publishing": (0 <= self.publishing <= min(64, self.peers), "0 to 64, and no more than peers"),
            "out_degree": (self.out_degree >= 0, "0 (for log2 of the peers) or more"),
            "view": (0 < self.view <= 1, "a share above 0, up to 1"),
            "cycles": (self.cycles >= 1, "1 or more"),
            "coarsen_after": (self.coarsen_after >= 1, "1 or more"),
            "allowed": (0 <= self.allowed <= 1, "a share from 0 to 1"),
            "events": (1 <= self.events <= 100_000, "1 to 100,000"),
            "churn": (0 <= self.churn < 1, "a share from 0, below 1"),
            "polite": (0 <= self.polite <= 1, "a share from 0 to 1"),
            "loss": (0 <= self.loss < 1, "a share from 0, below 1"),
            "quiet": (self.quiet == 0 or self.quiet > JUDGED, f"0, or more than {JUDGED}"),
            "link_s": (0 < self.link_s < 0.1, "seconds, below 0.1"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                value = getattr(self, name)
                raise InputError(f"{name} cannot be {value!r} in a run of peers; give {rule}")

    @property
    def settings(self) -> PeerSettings:
        """Of every peer."""
        return replace(
            ALGORITHMS[self.algorithm],
            out_degree=self.out_degree or max(1, round(log2(self.peers))),
            view=max(CONTACTS, ceil(self.view * self.peers)),
            coarsen_after=self.coarsen_after,
        )


@dataclass(frozen=True, slots=True)
class Cycle:
    """What was measured at the end of one."""

    cycle: int
    peers: int
    converged: float
    """Share of the subscribers that have parents for all that they hold."""

    notified: float
    """Share of those that got every one of their events, within the bound. Whom the events of a cycle did not
    try counts as in the cycles just before, of the latest that had a round of events together; whom several
    tried counts by the share of them in which it got all."""

    waste: float
    """Events that came without having been subscribed to, as a share of all, on average."""


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    cycles: list[Cycle] = field(default_factory=list)
    requests: Counter[int] = field(default_factory=Counter)
    """How many peers sent how many connection requests until they had converged."""

    in_degree: float = 0.0
    """Parents of a peer that has converged, on average, in the end."""

    capacity: float = 0.0
    """Share of the last subscribers that could be notified at best (`peers_workload.satisfiable`)."""

    breaches: list[Breach] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    """How much each checker had to look at."""

    messages: int = 0
    carried: int = 0

    @property
    def last(self) -> Cycle:
        """The last cycle."""
        return self.cycles[-1]

    def built_at(self, share: float) -> int:
        """The first cycle at the end of which so many had converged; one more than there were if never."""
        return next((one.cycle for one in self.cycles if one.converged >= share), len(self.cycles) + 1)


def run(
    course: Course, seed: int | str = 0, *, machine: Maker | None = None, watch: Watch | None = None
) -> Outcome:
    """One run, from the first peer to the last cycle."""
    course.check()
    return Run(course, seed, machine=machine, watch=watch).run()


class Run:
    """A world, what happens in it, and what is made of it."""

    def __init__(
        self, course: Course, seed: int | str, *, machine: Maker | None = None, watch: Watch | None = None
    ) -> None:
        self.course = course
        self.world = World(seed, machine=machine, link_s=course.link_s, loss=course.loss, watch=watch)
        self.outcome = Outcome()
        self._draws = Draws(course.workload, seed)
        self._chance = random.Random(f"peers/course/{seed}")
        self._settings = course.settings
        self._named = 0
        self._publishers = [f"source{number}" for number in range(course.publishers)]
        self._subscribers: dict[str, Wish] = {}
        self._newcomers: dict[str, None] = {}
        """Those that have not converged yet for the first time."""
        self._photos: deque[Photo] = deque(maxlen=AGREED_WITHIN)
        self._round = ceil(course.workload.round_length / course.events)
        self._tallies: deque[dict[str, Tally]] = deque(maxlen=max(self._round, self._settings.window))
        self._windows: list[tuple[int, Mapping[str, Tally]]] = []

    def run(self) -> Outcome:
        """All of it."""
        course, world = self.course, self.world
        for name in self._publishers:
            world.join(name, self._settings, self._publishers[:1], advertised=("",))
        for _ in range(course.peers):
            world.at(self._chance.random() * self._settings.cycle_s, self._join)
        for cycle in range(1, course.cycles + course.quiet + 1):
            self._cycle(cycle)
        bounds = [int(wish.bound) for wish in self._subscribers.values()]
        self.outcome.capacity = satisfiable(bounds, self._settings.out_degree) / len(bounds)
        self.outcome.messages, self.outcome.carried = world.messages, world.carried
        return self.outcome

    def _cycle(self, cycle: int) -> None:
        course, world, period = self.course, self.world, self._settings.cycle_s
        begin, end = (cycle - 1) * period, cycle * period
        quiet = cycle > course.cycles
        if cycle == course.cycles + 1:
            world.loss = 0.0
        for number in range(course.events):
            at = begin + PUBLISHED_UNTIL * period * (number + 0.5) / course.events
            world.at(at, self._publish)
        if not quiet and cycle > 1:
            for _ in range(round(course.churn * course.peers)):
                world.at(begin + self._chance.random() * period, self._replace)
        world.run(end)
        before = self._photos[-1] if self._photos else {}
        photo = world.photograph()
        tallies = world.ledger.settle(end)
        self._photos.append(photo)
        self._tallies.append(tallies)
        self._measure(cycle, photo)
        self._judge(cycle, before, photo, tallies)

    # What happens.

    def _join(self) -> None:
        self._named += 1
        name = f"peer{self._named}"
        wish = self._draws.wish()
        known = list(dict.fromkeys((*self._publishers, *self._subscribers)))
        contacts = self._chance.sample(known, min(CONTACTS, len(known)))
        subscribed = Subscribed(wish.subscription, float(wish.bound), self.course.allowed)
        publishes = self._named <= self.course.publishing
        self._subscribers[name] = wish
        self._newcomers[name] = None
        self.world.join(
            name, self._settings, contacts, wish=subscribed, advertised=("",) if publishes else ()
        )
        if publishes:
            self._publishers.append(name)

    def _replace(self) -> None:
        """Somebody goes, and somebody else comes."""
        name = self._chance.choice(list(self._subscribers))
        del self._subscribers[name]
        self._newcomers.pop(name, None)
        if name in self._publishers:
            self._publishers.remove(name)
        self.world.leave(name, politely=self._chance.random() < self.course.polite)
        self._join()

    def _publish(self) -> None:
        self.world.publish(self._chance.choice(self._publishers), self._draws.event())

    # What is made of it.

    def _measure(self, cycle: int, photo: Photo) -> None:
        hosts, outcome = self.world.hosts, self.outcome
        converged = [name for name in self._subscribers if photo[name].covered]
        for name in [name for name in converged if name in self._newcomers]:
            del self._newcomers[name]
            outcome.requests[hosts[name].requests] += 1
        recent = list(self._tallies)[-self._round :]
        published = self.course.events * len(recent)
        notified = extra = 0.0
        for name in self._subscribers:
            tallies = [one[name] for one in recent if name in one]
            tried = [tally.in_time == tally.due for tally in tallies if tally.due]
            notified += fmean(tried) if tried else 0.0
            extra += sum(tally.extra for tally in tallies)
        count = len(self._subscribers)
        outcome.in_degree = sum(len(photo[name].parents) for name in converged) / max(1, len(converged))
        outcome.cycles.append(
            Cycle(cycle, count, len(converged) / count, notified / count, extra / published / count)
        )

    def _judge(self, cycle: int, before: Photo, photo: Photo, tallies: Mapping[str, Tally]) -> None:
        course, ledger, judged = self.course, self.world.ledger, self.outcome.judged
        still = cycle > course.cycles + course.quiet - JUDGED if course.quiet else False
        found = checkers.links(photo)
        judged["photographs"] += 1
        judged["links"] += sum(len(seen.children) for seen in photo.values())
        if len(self._photos) == AGREED_WITHIN:
            found += checkers.agreement(self._photos)
        if not course.loss or still:
            # What is lost on its way was not the overlay's to keep.
            found += checkers.arrivals(ledger.missed, before, photo, quiet=still)
            judged["events due"] += sum(tally.due for tally in tallies.values())
        found += checkers.once(ledger.delivered_twice)
        found += checkers.boxes(ledger.strays, list(self._photos)[-LATELY:])
        ledger.missed, ledger.strays, ledger.delivered_twice = [], [], []
        if still:
            found += checkers.repeats(tallies)
            found += checkers.stillness([before, photo])
        found += self._budgets(cycle)
        self.outcome.breaches += found

    def _budgets(self, cycle: int) -> list[Breach]:
        """Judged once in each window of measurement."""
        window = self._settings.window
        if cycle % window:
            return []
        whole: dict[str, Tally] = {}
        recent = list(self._tallies)[-window:]
        for name in recent[-1]:
            if all(name in tallies for tallies in recent):
                mine = [tallies[name] for tallies in recent]
                whole[name] = Tally(
                    in_time=sum(tally.in_time for tally in mine),
                    late=sum(tally.late for tally in mine),
                    received=sum(tally.received for tally in mine),
                )
        published = window * self.course.events
        self._windows = [*self._windows[-1:], (published, whole)]
        if len(self._windows) < 2:
            return []
        # A machine sees an excess when it is beyond its slack and beyond chance.
        slack = self._settings.slack * self.course.allowed + 3 * sqrt(self.course.allowed / published)
        self.outcome.judged["budgets"] += len(whole)
        return checkers.budgets(self._windows, dict.fromkeys(sorted(whole), self.course.allowed), slack)
