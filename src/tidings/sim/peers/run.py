"""Overlays of peers from one seed: they join, events are published, peers come and go, and all is judged.

A run has cycles, the periods of peers' timers. At the end of each the overlay is photographed, what came of
the cycle's events is counted, and the promises are judged. After the cycles of the run there may be quiet
ones, in which nothing goes wrong any more; at their end, or once the overlay rests, nothing is excused.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, log, log2, sqrt
from statistics import fmean
from typing import Literal

from tidings.errors import InputError
from tidings.peers import settings as peer_settings
from tidings.peers.events import Subscribed
from tidings.peers.settings import PeerSettings
from tidings.sim.brokers.promises import Breach
from tidings.sim.peers import promises as checkers
from tidings.sim.peers.trace import PUBLISHER, Photo, Tally
from tidings.sim.peers.workload import Draws, Wish, Workload, satisfiable
from tidings.sim.peers.world import LINK_S, Maker, Watch, World
from tidings.space.expressions import Set, canonical, volume

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

UNLIKELY = 1e-4
"""So many messages about one link may be lost one after the other that this is less likely: both ends must
agree on it by the time that it takes to find out about each of them."""

LATELY = 3
"""Photographs in which a peer may have held what still comes: its parents hear of a change within a cycle."""

JUDGED = 8
"""Last cycles of the quiet ones, in which nothing is excused; if they are the last that there may be, nothing
may change in them either."""

TOLD_WITHIN = 8
"""Cycles after which a peer that is not fed must have told its user: causes are looked for every 3."""

FORESEEN_WITHIN = 8
"""Cycles within which a newcomer must be fed that was told that it can be, and must not be that was told that
it cannot. A first hint is followed after one, a place that was lost on the way is free again after four."""

DOWN_CYCLES = 2.0
"""Cycles at most after which a peer that crashed begins anew under its name."""

HALVES: tuple[Set, ...] = (("0",), ("1",))
"""What publishers advertise in turn that do not advertise everything."""


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

    halves: bool = False
    """Whether publishers advertise one half of the space or the other instead, in turn."""

    out_degree: int = 0
    """Of every peer; 0 for log2 of the peers."""

    view: float = 0.05
    """Share of the peers that a peer knows."""

    cycles: int = 40
    coarsen_after: int = 3
    allowed: float = 0.0
    """Waste that everybody accepts, as a share of all events."""

    bandwidth: float = 0.0
    """Events a second that everybody's access link takes, received and sent; 0 for no limit."""

    events: int = 256
    """Published in a cycle."""

    surge: float = 1.0
    """From half of the cycles on, so many times as many are published."""

    churn: float = 0.0
    """Share of the subscribers that go in each cycle; as many newcomers come."""

    polite: float = 0.5
    """Share of those that take leave; the others crash."""

    changing: float = 0.0
    """Share of the subscribers that want something else in each cycle."""

    restarting: float = 0.0
    """Share of those that crash in each cycle and begin anew under the same name."""

    loss: float = 0.0
    """Share of the messages that are lost."""

    quiet: int = 0
    """Cycles after the others in which nobody comes or goes, and nothing is lost: at most, if `rest` is
    given."""

    rest: int = 0
    """So many quiet cycles without any change are enough; 0 for all of them in any case."""

    metric: Literal["hops", "ms"] = "hops"
    """What bounds are: links, or milliseconds. Then an event is judged by the time it took."""

    link_s: float = LINK_S
    far_s: float = 0.0
    """What a link takes more for each side of a square, in which peers have places."""

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
            "halves": (
                # Subscribers that publish may all be gone at a time, and nobody would publish in one half.
                not self.halves or self.publishers > 1,
                "it only where there is more than one publisher that does not subscribe",
            ),
            "bandwidth": (self.bandwidth >= 0, "0 (for no limit) or events a second"),
            "events": (1 <= self.events <= 100_000, "1 to 100,000"),
            "surge": (0 < self.surge <= 100, "a number above 0, up to 100"),
            "changing": (0 <= self.changing < 1, "a share from 0, below 1"),
            "restarting": (0 <= self.restarting < 1, "a share from 0, below 1"),
            "churn": (0 <= self.churn < 1, "a share from 0, below 1"),
            "polite": (0 <= self.polite <= 1, "a share from 0 to 1"),
            "loss": (0 <= self.loss < 1, "a share from 0, below 1"),
            "quiet": (self.quiet == 0 or self.quiet > JUDGED, f"0, or more than {JUDGED}"),
            "rest": (
                not self.rest or not self.quiet or JUDGED < self.rest <= self.quiet,
                f"0, or more than {JUDGED} and no more than quiet, which is {self.quiet}",
            ),
            "metric": (self.metric in ("hops", "ms"), "hops or ms"),
            "link_s": (0 < self.link_s < 0.1, "seconds, below 0.1"),
            "far_s": (0 <= self.far_s < 0.1, "seconds, below 0.1"),
        }
        longest = round((1.0 - PUBLISHED_UNTIL) * ALGORITHMS[OURS].cycle_s * 1000.0)
        if self.metric == "ms" and self.workload.delay_most > longest:
            raise InputError(
                f"delay_most cannot be {self.workload.delay_most} in a run of peers that counts "
                f"milliseconds: events must have come by the end of their cycle; give {longest} at most"
            )
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
            metric=self.metric,
        )

    def agreed_within(self) -> int:
        """Photographs in one of which both ends of a link must know of it, or neither.

        An end that hears nothing gives up after `silent_after` cycles. If a message is lost that would have
        told it, it waits once more as long for the next.
        """
        wait = self.settings.silent_after + 1
        return 1 + wait * max(1, ceil(log(UNLIKELY) / log(self.loss)) if self.loss else 1)

    def published(self, cycle: int) -> int:
        """Events of a cycle."""
        return round(self.events * self.surge) if cycle > self.cycles // 2 else self.events


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
    rested: list[Cycle] = field(default_factory=list)
    """The quiet cycles after them."""

    moved: int = 0
    """The last of those in which a parent or a subscription of anybody changed, counted from 1; 0 if it was
    none."""

    requests: Counter[int] = field(default_factory=Counter)
    """How many peers sent how many connection requests until they had converged."""

    in_degree: float = 0.0
    """Parents of a peer, on average over all, in the end."""

    in_degree_converged: float = 0.0
    """The same over those that have converged."""

    reached: float = 0.0
    """Share of the space that the children of publishers hold, in the end: what lies outside reaches
    nobody."""

    forecasts: Counter[str] = field(default_factory=Counter)
    """What newcomers were told to expect and what came of it, of those that joined an overlay that was there:
    `yes, fed`, `yes, not fed`, `no, fed`, `no, not fed` or `nothing`."""

    forecasts_first: Counter[str] = field(default_factory=Counter)
    """The same of those that joined in the first cycle, all at once."""

    causes: Counter[str] = field(default_factory=Counter)
    """Why peers are not fed that say in the end that they are not, as they reported it."""

    capacity: float = 0.0
    """Share of the last subscribers that could be notified at best (`peers_workload.satisfiable`)."""

    breaches: list[Breach] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    """How much each checker had to look at."""

    messages: int = 0
    carried: int = 0

    @property
    def last(self) -> Cycle:
        """The last cycle before the quiet ones."""
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


@dataclass(slots=True)
class Expected:
    """What a newcomer may expect."""

    since: float
    """When it subscribed."""

    cycle: int
    """In which cycle that was."""

    met: bool | None = None
    """Whether it was told that its bound can be met; none if nothing was."""

    fed: bool = False
    """Whether it was fed since."""

    done: bool = False

    @property
    def text(self) -> str:
        """As it is counted."""
        if self.met is None:
            return "nothing"
        return f"{'yes' if self.met else 'no'}, {'fed' if self.fed else 'not fed'}"


Window = tuple[int, Mapping[str, Tally]]
"""Events published in some cycles, and what came of them."""


class Run:
    """A world, what happens in it, and what is made of it."""

    def __init__(
        self, course: Course, seed: int | str, *, machine: Maker | None = None, watch: Watch | None = None
    ) -> None:
        self.course = course
        self.world = World(
            seed,
            machine=machine,
            link_s=course.link_s,
            far_s=course.far_s,
            timed=course.metric == "ms",
            loss=course.loss,
            watch=watch,
        )
        self.outcome = Outcome()
        self._draws = Draws(course.workload, seed)
        self._chance = random.Random(f"peers/course/{seed}")
        self._settings = course.settings
        self._named = 0
        self._advertised: dict[str, Set] = {}
        """Who publishes, and where."""
        self._subscribers: dict[str, Wish] = {}
        self._newcomers: dict[str, None] = {}
        """Those that have not converged yet for the first time."""
        self._expecting: dict[str, Expected] = {}
        self._agreed = course.agreed_within()
        self._photos: deque[Photo] = deque(maxlen=max(self._agreed, TOLD_WITHIN, 2 * self._settings.window))
        self._round = ceil(course.workload.round_length / course.events)
        self._tallies: deque[dict[str, Tally]] = deque(maxlen=max(self._round, self._settings.window))
        self._windows: deque[Window] = deque(maxlen=2)
        self._parted: deque[tuple[float, Photo]] = deque()
        """Those that went or wanted something else of late, as they were last: who fed them may not know."""
        self._unchanged = 0
        """Quiet cycles since something changed."""

    def run(self) -> Outcome:
        """All of it."""
        course, world, outcome = self.course, self.world, self.outcome
        for number in range(course.publishers):
            name = f"source{number}"
            self._advertised[name] = self._part(number)
            world.join(name, self._settings, ["source0"], advertised=self._advertised[name])
        for _ in range(course.peers):
            world.at(self._chance.random() * self._settings.cycle_s, self._join)
        for cycle in range(1, course.cycles + course.quiet + 1):
            self._cycle(cycle)
            if cycle == course.cycles:
                self._sum_up()
            if course.rest and self._unchanged >= course.rest:
                break
        outcome.messages, outcome.carried = world.messages, world.carried
        return outcome

    def _cycle(self, cycle: int) -> None:
        course, world, period = self.course, self.world, self._settings.cycle_s
        begin, end = (cycle - 1) * period, cycle * period
        if cycle == course.cycles + 1:
            world.loss = 0.0
        count = course.published(cycle)
        for number in range(count):
            world.at(begin + PUBLISHED_UNTIL * period * (number + 0.5) / count, self._publish)
        if 1 < cycle <= course.cycles:
            for share, action in (
                (course.churn, self._replace),
                (course.changing, self._change),
                (course.restarting, self._restart),
            ):
                for _ in range(round(share * course.peers)):
                    world.at(begin + self._chance.random() * period, action)
        world.run(end)
        before = self._photos[-1] if self._photos else {}
        photo = world.photograph()
        tallies = world.ledger.settle(end)
        self._photos.append(photo)
        self._tallies.append(tallies)
        self._measure(cycle, photo)
        self._compare(cycle, photo)
        self._judge(cycle, before, photo, tallies)

    # What happens.

    def _part(self, number: int) -> Set:
        """What a publisher advertises."""
        return HALVES[number % 2] if self.course.halves else ("",)

    def _join(self) -> None:
        self._named += 1
        if self._named <= self.course.publishing:
            self._advertised[f"peer{self._named}"] = self._part(self._named)
        self._enter(f"peer{self._named}", self._draws.wish())

    def _enter(self, name: str, wish: Wish) -> None:
        known = list(dict.fromkeys((*self._advertised, *self._subscribers)))
        if name in known:
            known.remove(name)
        contacts = self._chance.sample(known, min(CONTACTS, len(known)))
        self._subscribers[name] = wish
        self._newcomers[name] = None
        advertised = self._advertised.get(name, ())
        self.world.join(name, self._settings, contacts, wish=self._subscribed(wish), advertised=advertised)

    def _subscribed(self, wish: Wish) -> Subscribed:
        course = self.course
        return Subscribed(wish.subscription, float(wish.bound), course.allowed, course.bandwidth or None)

    def _some(self) -> str | None:
        """A subscriber that is there."""
        return self._chance.choice(list(self._subscribers)) if self._subscribers else None

    def _replace(self) -> None:
        """Somebody goes, and somebody else comes."""
        name = self._some()
        if name is not None:
            self._forget(name, politely=self._chance.random() < self.course.polite)
            self._advertised.pop(name, None)
            self._join()

    def _change(self) -> None:
        """Somebody wants something else."""
        name = self._some()
        if name is not None:
            wish = self._subscribers[name] = self._draws.wish()
            self._expecting.pop(name, None)
            self._parted.append((self.world.now, self.world.portray(name)))
            self.world.resubscribe(name, self._subscribed(wish))

    def _restart(self) -> None:
        """Somebody crashes, and begins anew with the same wishes."""
        name = self._some()
        if name is not None:
            wish, part = self._subscribers[name], self._advertised.pop(name, None)
            self._forget(name, politely=False)
            down = self._chance.random() * DOWN_CYCLES * self._settings.cycle_s

            def again() -> None:
                if part is not None:
                    self._advertised[name] = part
                self._enter(name, wish)

            self.world.at(self.world.now + down, again)

    def _forget(self, name: str, *, politely: bool) -> None:
        del self._subscribers[name]
        self._newcomers.pop(name, None)
        self._expecting.pop(name, None)
        self._parted.append((self.world.now, self.world.portray(name)))
        self.world.leave(name, politely=politely)

    def _publish(self) -> None:
        point = self._draws.event()
        able = [name for name, part in self._advertised.items() if point.startswith(part)]
        self.world.publish(self._chance.choice(able), point)

    # What is made of it.

    def _measure(self, cycle: int, photo: Photo) -> None:
        hosts, outcome, course = self.world.hosts, self.outcome, self.course
        converged = [name for name in self._subscribers if photo[name].covered]
        for name in [name for name in converged if name in self._newcomers]:
            del self._newcomers[name]
            outcome.requests[hosts[name].requests] += 1
        recent = list(self._tallies)[-self._round :]
        published = sum(course.published(cycle - ago) for ago in range(len(recent)))
        notified = extra = 0.0
        for name in self._subscribers:
            tallies = [one[name] for one in recent if name in one]
            tried = [tally.in_time == tally.due for tally in tallies if tally.due]
            notified += fmean(tried) if tried else 0.0
            extra += sum(tally.extra for tally in tallies)
        count = len(self._subscribers)
        kept = outcome.cycles if cycle <= course.cycles else outcome.rested
        kept.append(Cycle(cycle, count, len(converged) / count, notified / count, extra / published / count))

    def _compare(self, cycle: int, photo: Photo) -> None:
        """What newcomers were told, and what came of it."""
        for name in self._subscribers:
            expected = self._expecting.get(name)
            if expected is None or expected.since != photo[name].since:
                expected = self._expecting[name] = Expected(photo[name].since, cycle)
            if expected.done:
                continue
            outlook = self.world.hosts[name].outlook
            if expected.met is None and outlook is not None:
                expected.met = outlook.met
            expected.fed |= photo[name].fed
            if cycle - expected.cycle >= FORESEEN_WITHIN:
                expected.done = True
                counted = self.outcome.forecasts if expected.cycle > 1 else self.outcome.forecasts_first
                counted[expected.text] += 1

    def _sum_up(self) -> None:
        """What is to be known of the end, before quiet."""
        photo, outcome, hosts = self._photos[-1], self.outcome, self.world.hosts
        seen = [photo[name] for name in self._subscribers]
        outcome.in_degree = fmean(len(one.parents) for one in seen)
        converged = [len(one.parents) for one in seen if one.covered]
        outcome.in_degree_converged = fmean(converged) if converged else 0.0
        tops = {child for name in self._advertised for child in photo[name + PUBLISHER].children}
        outcome.reached = volume(canonical(one for top in tops if top in photo for one in photo[top].held))
        outcome.causes.update(
            hosts[name].reported or "nothing reported" for name in self._subscribers if not photo[name].fed
        )
        bounds = [wish.bound for wish in self._subscribers.values()]
        if self.course.metric == "hops" and not self.course.halves:
            outcome.capacity = satisfiable(bounds, self._settings.out_degree) / len(bounds)

    def _judge(self, cycle: int, before: Photo, photo: Photo, tallies: Mapping[str, Tally]) -> None:
        course, ledger, judged = self.course, self.world.ledger, self.outcome.judged
        changed = checkers.stillness([before, photo]) if cycle > course.cycles else []
        if changed:
            self._unchanged = 0
            self.outcome.moved = cycle - course.cycles
        elif cycle > course.cycles:
            self._unchanged += 1
        ending = cycle > max(course.cycles, course.cycles + course.quiet - JUDGED)
        still = ending or (course.rest > 0 and self._unchanged > course.rest - JUDGED)
        photos = list(self._photos)
        found = checkers.links(photo, self.world.now - self._agreed * self._settings.cycle_s)
        judged["photographs"] += 1
        judged["links"] += sum(len(seen.children) for seen in photo.values())
        if len(photos) >= self._agreed:
            found += checkers.agreement(photos[-self._agreed :])
        if not course.loss or still:
            # What is lost on its way was not the overlay's to keep.
            found += checkers.arrivals(ledger.missed, before, photo, quiet=still)
            judged["events due"] += sum(tally.due for tally in tallies.values())
        found += checkers.once(ledger.delivered_twice)
        # Where a word of the end may be lost, or never said, a link is as long one-sided as links may be.
        lately = self._agreed if course.loss or course.restarting else LATELY
        while self._parted and self._parted[0][0] < self.world.now - lately * self._settings.cycle_s:
            self._parted.popleft()
        parted = [one for _, one in self._parted]
        found += checkers.boxes(ledger.strays, [*photos[-lately:], *parted])
        if still:
            found += checkers.repeats(tallies)
            found += changed
            found += checkers.told(ledger.missed, photos[-TOLD_WITHIN:])
            judged["photographs in quiet"] += 1
        ledger.missed, ledger.strays, ledger.delivered_twice = [], [], []
        found += self._budgets(cycle)
        self.outcome.breaches += found

    def _budgets(self, cycle: int) -> list[Breach]:
        """Judged once in each window of measurement."""
        course, window = self.course, self._settings.window
        if cycle % window:
            return []
        whole: dict[str, Tally] = {}
        recent = list(self._tallies)[-window:]
        # Of an earlier subscription something may come for as long as links may be one-sided.
        settled = self.world.now - (window + self._agreed) * self._settings.cycle_s
        for name, since in self.world.ledger.joined.items():
            if since <= settled and all(name in tallies for tallies in recent):
                mine = [tallies[name] for tallies in recent]
                whole[name] = Tally(
                    in_time=sum(tally.in_time for tally in mine),
                    late=sum(tally.late for tally in mine),
                    received=sum(tally.received for tally in mine),
                    repeats=sum(tally.repeats for tally in mine),
                )
        published = sum(course.published(cycle - ago) for ago in range(window))
        self._windows.append((published, whole))
        if len(self._windows) < 2:
            return []
        # A machine sees an excess when it is beyond its slack and beyond chance.
        slack = self._settings.slack * course.allowed + 3 * sqrt(course.allowed / published)
        self.outcome.judged["budgets"] += len(whole)
        found = checkers.budgets(self._windows, dict.fromkeys(sorted(whole), course.allowed), slack)
        if course.bandwidth:
            seconds = window * self._settings.cycle_s
            limit = course.bandwidth / (self._settings.out_degree + 1)
            slack = self._settings.slack * limit + 3 * sqrt(limit / seconds)
            timed = [(seconds, tallies) for _, tallies in self._windows]
            self.outcome.judged["bandwidths"] += len(whole)
            found += checkers.bandwidths(timed, limit, slack, list(self._photos)[-2 * window :])
        return found
