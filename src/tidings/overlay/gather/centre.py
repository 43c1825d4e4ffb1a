"""The search for the best place in a tree, by messages between neighbours alone.

Nobody knows the tree; each broker knows its neighbours in it. There are two protocols. `PaperFinder` has
the messages of the Agele paper (section 4.1) and finds its centres. `ReportFinder` says all that is behind
a broker in one message per link and direction; from those every broker knows by itself whether it is the
centre, the median or the best place for the traffic of a topic. In both the best ones make themselves
known, so that all know them.

Both stand on one fact about trees: a broker may speak to a neighbour for all that lies behind it as soon as
every *other* neighbour has spoken to it. That begins at the leaves, meets in the middle and runs out again,
and each link carries one last word in each direction.

A search has an age: a counter, and who began it. The higher counter, then the smaller initiator, is the
newer one. A higher counter makes everyone begin anew. Where several begin with one counter, the smallest
gives the search its name, and nothing begins anew: what has been said is true whoever asked first, and the
last words bring the name to all. A broker whose neighbours change begins a higher counter, so that in one
counter each has one set of neighbours; in the highest everyone has the tree as it is. Only finitely many
changes are needed for it to end.

Messages may overtake each other: whatever is heard first of a search begins it, last words carry their
value, and what comes from a broker that is not a neighbour yet is kept until it is one.

How messages travel, when a search should be made and what is done with its result is not known here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from tidings.language.topics import Strategy
from tidings.overlay.gather.messages import (
    Announce,
    AnySurveyed,
    Ecc,
    Holder,
    Init,
    Load,
    Report,
    Stable,
    Update,
)

Said = tuple[str, AnySurveyed]
"""A message and the neighbour it is for."""

Age = tuple[int, str]
"""Of a search: its counter and its initiator."""

TREE = ""
"""What is surveyed in any case: the tree, each of its brokers with weight 1."""

USED = "\tused"
"""Behind the name of a topic: the part of the tree that it uses, which are the brokers that count for its
heights and those between them. Each of these has weight 1, whatever weight it is given."""

NOTHING = Load(-1, 0, 0)
"""Behind a link with nobody who counts."""

CENTRE = Strategy.CENTRE.value


class Finder(ABC):
    """One broker's part in the search; the base of both protocols.

    What it is given (loads, holders, what is wanted) is read anew whenever a search begins, so whoever owns
    these may change them in between.
    """

    protocol: ClassVar[str]
    """Its name, as in the settings."""

    def __init__(
        self,
        me: str,
        neighbours: Sequence[str] = (),
        *,
        loads: Mapping[str, tuple[int, bool]] | None = None,
        holders: Mapping[str, Holder] | None = None,
        wanted: Mapping[str, Collection[str]] | None = None,
        ring: int = 1,
    ) -> None:
        """A broker and its neighbours in the tree.

        `loads` has, by what is surveyed beside the tree, this broker's weight and whether it counts for
        heights; `wanted` the strategies whose winner shall be made known; `ring` how many brokers around a
        winner.
        """
        self.me = me
        self.neighbours: tuple[str, ...] = ()
        self.counter = 0
        """Of the newest search that is known here; 0 before the first."""
        self.initiator = ""
        """The smallest broker that is known to have begun it."""
        self.eccentricity: int | None = None
        """Links to the farthest broker, once it is known."""
        self.is_centre: bool | None = None
        """Whether no neighbour has a smaller one, once that is known."""
        self.winners: dict[tuple[str, str], Announce] = {}
        """Of this search, by what was surveyed and strategy."""
        self.holders: dict[str, Holder] = {}
        """The latest that are known of each place: the given ones, and those that were heard of."""
        self._given_loads = loads if loads is not None else {}
        self._given_holders = holders if holders is not None else {}
        self._given_wanted = wanted if wanted is not None else {}
        self.ring = ring
        """How many brokers around a winner are made known."""
        self._awaited: dict[str, None] = {}
        """Neighbours whose last word has not come."""
        self._early: dict[str, list[AnySurveyed]] = {}
        """What was heard from brokers that are not neighbours yet: of each the newest search's."""
        self._set_neighbours(neighbours)
        self._reset()

    @property
    def age(self) -> Age:
        """Of the newest search that is known here."""
        return self.counter, self.initiator

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether this broker knows all that the search was for."""

    @abstractmethod
    def cost(self, about: str, strategy: str) -> int | None:
        """What a seat here would cost, to compare with a winner's; None while it is not known.

        That is its distance from the farthest for a centre, and the sum of weight times distance for others.
        """

    def start(self, counter: int = 0) -> list[Said]:
        """Begin a search: of this counter, or the next; nothing if that one has begun already."""
        counter = counter or self.counter + 1
        return self._begin(counter, self.me, None) if counter > self.counter else []

    def changed(self, neighbours: Sequence[str], counter: int = 0) -> list[Said]:
        """Begin anew, since the neighbours are others now; with this counter, or a higher one if need be."""
        self._set_neighbours(neighbours)
        early = [(peer, body) for peer in self.neighbours for body in self._early.pop(peer, ())]
        # One who knew of this broker first may be ahead: joining is enough, and going beyond is not needed.
        counter = max(counter, self.counter + 1, *(body.counter for _, body in early), 1)
        said = self._begin(counter, self.me, None)
        for peer, body in early:
            said += self.on(peer, body)
        return said

    def on(self, peer: str, body: AnySurveyed) -> list[Said]:
        """Hear a message, and answer what is to be said to whom."""
        if peer not in self._peers:
            self._keep(peer, body)
            return []
        if body.counter < self.counter:
            return []
        said: list[Said] = []
        if body.counter > self.counter:
            said = self._begin(body.counter, body.initiator, peer)
        elif body.initiator < self.initiator:
            self.initiator = body.initiator
        if not isinstance(body, Init):
            self._hear(peer, body, said)
        return said

    # For the protocols.

    @abstractmethod
    def _hear(self, peer: str, body: AnySurveyed, said: list[Said]) -> None:
        """Take in a message of this search."""

    @abstractmethod
    def _reset(self) -> None:
        """Forget what was heard in the last search."""

    @abstractmethod
    def _last_word(self, peer: str, said: list[Said]) -> None:
        """Say the last word to a neighbour: every other one has."""

    @abstractmethod
    def _all_heard(self, said: list[Said]) -> None:
        """Go on, now that every neighbour has said its last word."""

    def _tell(self, body: AnySurveyed, said: list[Said], but: str | None = None) -> None:
        """Say something to all neighbours, or all but one."""
        said += [(peer, body) for peer in self.neighbours if peer != but]

    def _finished(self, peer: str, said: list[Said]) -> None:
        """Note that a neighbour has said its last word, and say what can be said by that."""
        del self._awaited[peer]
        if len(self._awaited) == 1:
            self._last_word(next(iter(self._awaited)), said)
        elif not self._awaited:
            # It was the last, so it has had ours before; the others have not.
            for other in self.neighbours:
                if other != peer:
                    self._last_word(other, said)
            self._all_heard(said)

    # Beginning.

    def _set_neighbours(self, neighbours: Sequence[str]) -> None:
        self.neighbours = tuple(sorted(set(neighbours) - {self.me}))
        self._peers = frozenset(self.neighbours)

    def _begin(self, counter: int, initiator: str, told_by: str | None) -> list[Said]:
        self.counter, self.initiator = counter, initiator
        self.eccentricity = self.is_centre = None
        self.winners = {}
        self.holders = dict(self._given_holders)
        self._awaited = dict.fromkeys(self.neighbours)
        said: list[Said] = []
        self._tell(Init(counter, initiator), said, told_by)
        self._reset()
        if len(self._awaited) == 1:
            # A leaf has nobody to wait for, also where it was the one to begin.
            self._last_word(self.neighbours[0], said)
        elif not self._awaited:
            self._all_heard(said)
        return said

    def _keep(self, peer: str, body: AnySurveyed) -> None:
        kept = self._early.setdefault(peer, [])
        if kept and kept[0].counter < body.counter:
            kept.clear()
        if not kept or kept[0].counter == body.counter:
            kept.append(body)


class Heights:
    """The greatest of some values and the greatest but for one neighbour's, without looking at all again."""

    __slots__ = ("behind", "first", "second")

    def __init__(self, own: int) -> None:
        self.first = own
        """The greatest."""
        self.behind: str | None = None
        """Behind which neighbour that is; None for the broker itself."""
        self.second = -1
        """The greatest that is not behind that neighbour."""

    def add(self, peer: str, height: int) -> None:
        """Take in a neighbour's value, which may have been smaller before."""
        if peer == self.behind:
            self.first = max(self.first, height)
        elif height > self.first:
            self.first, self.behind, self.second = height, peer, self.first
        elif height > self.second:
            self.second = height

    def without(self, peer: str) -> int:
        """The greatest that is not behind a neighbour."""
        return self.second if peer == self.behind else self.first

    @property
    def between(self) -> bool:
        """Whether the broker itself counts, or is between some that do."""
        return self.first >= 0 and (self.behind is None or self.second >= 0)


class PaperFinder(Finder):
    """The published messages, with what they need to be right whatever the delays.

    INIT floods the tree. UPDATE raises the receiver's eccentricity in the sender's direction as soon as
    more is known; STABLE, the last word, says that it will not change, and what it is, for it may overtake
    an UPDATE. ECC says a broker's own. A broker is a centre if no neighbour has a smaller one; the paper's
    further condition, that some neighbour has a greater one, leaves one and two brokers without a centre.
    ANNOUNCE floods from each centre and names the other one as well, if there is one, so that all know when
    they have heard of both.

    It finds the centres of the tree and nothing else; loads, holders and rings are not part of the
    published messages.
    """

    protocol = "paper"

    @property
    def done(self) -> bool:
        """Whether this broker knows its eccentricity and has heard all centres announce themselves."""
        return (
            self.eccentricity is not None
            and bool(self._announced)
            and all(centre in self._announced for centre in self.centres)
        )

    def cost(self, about: str, strategy: str) -> int | None:
        """The eccentricity for a centre of the tree; nothing else is found here."""
        return self.eccentricity if (about, strategy) == (TREE, CENTRE) else None

    def _reset(self) -> None:
        self._heights = Heights(0)
        self._eccentricities: dict[str, int] = {}
        self._announced: set[str] = set()
        self.centres: tuple[str, ...] = ()
        """All that are known to be one, sorted."""

    def _hear(self, peer: str, body: AnySurveyed, said: list[Said]) -> None:
        match body:
            case Update():
                self._raise(peer, body.eccentricity, said)
            case Stable():
                if peer in self._awaited:
                    self._raise(peer, body.eccentricity, said)
                    self._finished(peer, said)
            case Ecc():
                self._eccentricities[peer] = body.eccentricity
                self._judge(said)
            case Announce():
                self._heard_of(body, peer, said)

    def _raise(self, peer: str, height: int, said: list[Said]) -> None:
        """The farthest broker behind a neighbour is at least so far away."""
        heights = self._heights
        beyond = [other for other in self._affected(peer, height) if heights.without(other) < height]
        heights.add(peer, height)
        said += [(other, Update(*self.age, height + 1)) for other in beyond]

    def _affected(self, peer: str, height: int) -> Sequence[str]:
        """Neighbours for whom that may be news: a hub of thousands must not look at all of them each time."""
        heights = self._heights
        if height > heights.first:
            return [other for other in self.neighbours if other != peer]
        if heights.behind is not None and heights.behind != peer:
            return [heights.behind]
        return []

    def _last_word(self, peer: str, said: list[Said]) -> None:
        if len(self.neighbours) == 1:
            said.append((peer, Update(*self.age, 1)))
        said.append((peer, Stable(*self.age, self._heights.without(peer) + 1)))

    def _all_heard(self, said: list[Said]) -> None:
        self.eccentricity = self._heights.first
        self._tell(Ecc(*self.age, self.eccentricity), said)
        self._judge(said)

    def _judge(self, said: list[Said]) -> None:
        own = self.eccentricity
        if own is None or self.is_centre is not None or len(self._eccentricities) < len(self.neighbours):
            return
        self.is_centre = all(own <= other for other in self._eccentricities.values())
        if self.is_centre:
            equals = tuple(peer for peer in self.neighbours if self._eccentricities[peer] == own)
            self._heard_of(Announce(*self.age, TREE, CENTRE, self.me, own, (self.me, *equals)), None, said)

    def _heard_of(self, announce: Announce, peer: str | None, said: list[Said]) -> None:
        if announce.broker in self._announced:
            return
        self._announced.add(announce.broker)
        self.centres = tuple(sorted({*self.centres, *announce.ring, announce.broker}))
        seat = self.centres[0]
        self.winners = {(TREE, CENTRE): Announce(*self.age, TREE, CENTRE, seat, announce.cost, (seat,))}
        self._tell(announce, said, peer)


class ReportFinder(Finder):
    """One message with all that is behind a broker, per link and direction; the default.

    INIT floods the tree. REPORT is the last word: for each thing surveyed the height, the sum of weights
    and the sum of weight times links of all behind the sender. A broker that has all reports knows these
    for itself and for each neighbour, and so whether it is the best place. Only winners announce
    themselves.

    Whether a broker belongs to the part of the tree that a topic uses depends on what is behind all its
    neighbours, one of whom has not spoken when it says its last word to that one. It counts itself if anybody
    on its side uses the topic. Where that is wrong nobody on the other side does, so that all the weight
    is behind one neighbour, and those on the other side know that they are not the best place (to them it
    seems to cost more than it does, by those brokers).

    What is best is decided between neighbours, which is enough: along any way through a tree each of the
    costs first falls and then rises.
    """

    protocol = "report"

    @property
    def done(self) -> bool:
        """Whether this broker has all reports and knows every winner that it wants to know."""
        return self._complete and all(pair in self.winners for pair in self._wanted)

    def cost(self, about: str, strategy: str) -> int | None:
        """What a seat here would cost by all that the reports say."""
        if not self._complete:
            return None
        if strategy == CENTRE:
            heights = self._heights.get(about)
            return heights.first if heights is not None and heights.first >= 0 else self._heights[TREE].first
        return self._moments.get(about, 0)

    def weight(self, about: str) -> int | None:
        """The sum of all weights; None while it is not known."""
        return self._weights.get(about, 0) if self._complete else None

    def _reset(self) -> None:
        own = {**self._given_loads, TREE: (1, True)}
        self._complete = False
        self._reports: dict[str, Report] = {}
        self._weights = {about: weight for about, (weight, _) in own.items()}
        self._moments = dict.fromkeys(own, 0)
        self._heights = {about: Heights(0 if counts else -1) for about, (_, counts) in own.items()}
        self._around: list[tuple[int, str, str]] = []
        """The nearest others: links, id, behind which neighbour."""
        self._wanted = [
            (about, str(strategy))
            for about, chosen in self._given_wanted.items()
            for strategy in sorted(chosen)
        ]

    def _hear(self, peer: str, body: AnySurveyed, said: list[Said]) -> None:
        match body:
            case Report():
                if peer in self._awaited:
                    self._add(peer, body)
                    self._finished(peer, said)
            case Announce():
                self._heard_of(body, peer, said)

    def _add(self, peer: str, report: Report) -> None:
        self._reports[peer] = report
        for about, load in report.loads.items():
            self._weights[about] = self._weights.get(about, 0) + load.weight
            self._moments[about] = self._moments.get(about, 0) + load.moment
            self._heights.setdefault(about, Heights(-1)).add(peer, load.height)
        for place, holder in report.holders.items():
            self.holders[place] = max(holder, self.holders.get(place, holder))
        if report.around:
            self._around += [(links, broker, peer) for broker, links in report.around[: self.ring]]
            self._around.sort()
            # Of these at most one part in two is behind any one neighbour.
            del self._around[2 * self.ring :]

    def _last_word(self, peer: str, said: list[Said]) -> None:
        back = self._reports.get(peer)
        loads: dict[str, Load] = {}
        for about, heights in self._heights.items():
            behind = back.loads.get(about, NOTHING) if back else NOTHING
            height = heights.without(peer)
            weight = self._weights[about] - behind.weight
            if height >= 0 and about.endswith(USED):
                weight += 1
            moment = self._moments[about] - behind.moment + weight
            if height >= 0 or weight:
                loads[about] = Load(height + 1 if height >= 0 else -1, weight, moment)
        said.append((peer, Report(*self.age, loads, dict(self.holders), self._nearest(peer))))

    def _nearest(self, peer: str) -> tuple[tuple[str, int], ...]:
        """The brokers nearest to a neighbour on this side, with their distance from it."""
        wanted = self.ring - 1
        if not wanted:
            return ()
        others = [(broker, links + 1) for links, broker, behind in self._around if behind != peer]
        return ((self.me, 1), *others[: wanted - 1])

    def _all_heard(self, said: list[Said]) -> None:
        self._complete = True
        for about, heights in self._heights.items():
            if about.endswith(USED) and heights.between:
                self._weights[about] += 1
        self.eccentricity = self._heights[TREE].first
        self.is_centre = all(self._farther(TREE, peer) >= 0 for peer in self.neighbours)
        for about, strategy in self._wanted:
            best = self._is_centre_of(about) if strategy == CENTRE else self._is_median_of(about)
            if best:
                ring = (self.me, *(broker for _, broker, _ in self._around[: self.ring - 1]))
                won = Announce(*self.age, about, strategy, self.me, self.cost(about, strategy) or 0, ring)
                self._heard_of(won, None, said)

    def _heard_of(self, announce: Announce, peer: str | None, said: list[Said]) -> None:
        pair = announce.about, announce.strategy
        if pair not in self.winners:
            self.winners[pair] = announce
            self._tell(announce, said, peer)

    def _is_centre_of(self, about: str) -> bool:
        heights = self._heights.get(about)
        # Where nobody counts, everybody does.
        about = about if heights is not None and heights.first >= 0 else TREE
        return all((self._farther(about, peer), peer) > (0, self.me) for peer in self.neighbours)

    def _is_median_of(self, about: str) -> bool:
        return all(
            (self._dearer(about, peer), self._dearer(TREE, peer), peer) > (0, 0, self.me)
            for peer in self.neighbours
        )

    def _farther(self, about: str, peer: str) -> int:
        """By how much a neighbour's eccentricity is greater than that of this broker."""
        heights = self._heights[about]
        here, there = heights.without(peer), self._reports[peer].loads.get(about, NOTHING).height
        return max(here + 1 if here >= 0 else -1, there - 1) - heights.first

    def _dearer(self, about: str, peer: str) -> int:
        """By how much a neighbour's cost is greater: all this side is farther, the rest nearer."""
        return self._weights.get(about, 0) - 2 * self._reports[peer].loads.get(about, NOTHING).weight


FINDERS: Mapping[str, type[Finder]] = {finder.protocol: finder for finder in (ReportFinder, PaperFinder)}
"""By the name of their protocol."""
