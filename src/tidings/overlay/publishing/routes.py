"""Routes: who gets what is published to a topic, as long as nothing changes about that.

A route is found once and holds for a generation (`Core.generation`), which counts whatever may change it:
subscriptions here and elsewhere, declarations, trees. Topics for which the answer is the same have one route,
so publications to several of them can be dealt with together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.matching import Answers, Payloads
from tidings.matching.dealing import Dealer, Dealt, Links
from tidings.overlay.core import Core
from tidings.overlay.matches import Dealing, Matches, Named
from tidings.overlay.publication import Batch
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.interest import Interest
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.table import REMEMBERED_CHARACTERS_MAX, Asked, Entry, Node, Table, effort
from tidings.overlay.routing.topics import Contents, Topics

TOGETHER_FROM = 16
"""Publications that are matched together, without a Python value of each, where there are that many."""

A = TypeVar("A", bound=Asked)
T = TypeVar("T")
Taker = TypeVar("Taker", bound=Hashable)


class Audience(Generic[Taker]):
    """For whom the content filters at some nodes stand, learnt when they are first found."""

    __slots__ = ("_links", "_nodes", "_places", "mixed", "plain", "takers")

    def __init__(self, nodes: Sequence[Node[Any, Any]], plain: Sequence[Taker]) -> None:
        """`plain` get everything, without a content filter."""
        self._nodes = nodes
        self._links = [Links() for _ in nodes]
        self.takers: list[Taker] = list(plain)
        self.plain = len(plain)
        self.mixed: dict[Taker, None] = {}
        """Those that get everything, and have content filters besides."""
        self._places = {taker: at for at, taker in enumerate(plain)}

    def deal(
        self,
        dealer: Dealer,
        count: int,
        answers: Sequence[Answers],
        others: Sequence[tuple[int, Entry[Any, Any]]],
        takers_of: Callable[[Entry[Any, Any]], Sequence[Taker]],
    ) -> Dealt | None:
        """Who takes which of so many publications; `others` were matched one by one."""
        for node, links, found in zip(self._nodes, self._links, answers, strict=True):
            for owner in links.unknown(found):
                links.link(owner, self._places_of(takers_of(node.at(owner))))
        marked = [(at, self._places_of(takers_of(entry))) for at, entry in others]
        deal = dealer.deal(count, len(self.takers))
        if deal is None:
            return None
        deal.mark_all(self.plain)
        for at, places in marked:
            for place in places:
                deal.mark_one(at, place)
        for links, found in zip(self._links, answers, strict=True):
            known = deal.mark(links, found)
            assert known, "all that were found are linked"
        return deal.count()

    def _places_of(self, takers: Sequence[Taker]) -> list[int]:
        places = self._places
        for taker in takers:
            if taker not in places:
                places[taker] = len(self.takers)
                self.takers.append(taker)
            elif places[taker] < self.plain:
                self.mixed[taker] = None
        return sorted({places[taker] for taker in takers})


class Route:
    """Who gets what is published to some topics at this broker."""

    __slots__ = (
        "audience",
        "beyond",
        "declared",
        "durable",
        "durable_here",
        "everyone",
        "grouped",
        "here",
        "homes",
        "sessions",
        "stream",
        "there",
        "topical",
    )

    def __init__(
        self,
        stream: str,
        declared: Topic | None,
        everyone: tuple[Named, ...],
        here: tuple[Node[Subscription, Named], ...],
        homes: dict[str, int],
        there: tuple[Node[Interest, str], ...],
        grouped: bool,
        durable: bool,
        durable_here: bool,
        topical: bool,
    ) -> None:
        self.stream = stream
        """The group of topics within which publications are numbered."""
        self.declared = declared
        self.everyone = everyone
        """Subscriptions of sessions here without a content filter."""
        self.sessions = tuple(dict.fromkeys([session for session, _ in everyone]))
        """The sessions that have them."""
        self.here = here
        """Where there are subscriptions with one."""
        self.homes = homes
        """Other brokers where there are some without, and the highest quality of service that they want."""
        self.there = there
        """Where there are some with one."""
        self.grouped = grouped
        """Whether some subscription here may be shared, so that each publication goes to one of a group."""
        self.durable = durable
        """Whether one of the sessions without a content filter is durable: it must have on disk what others
        would send again, …"""
        self.topical = topical
        """Whether some content filters ask for the topic itself."""
        self.audience: Audience[str] | None = None
        """The sessions that have them, once many publications were matched at once; …"""
        self.beyond: Audience[Asking] | None = None
        """… and the other brokers."""
        self.durable_here = durable_here
        """… and of what enters here, what it wants with QoS 1 or 2."""


class Routes:
    """The routes of all topics that were asked for lately."""

    def __init__(self, core: Core, topics: Topics, sessions: Sessions, homes: Homes) -> None:
        self._core = core
        self._topics = topics
        self._sessions = sessions
        self._homes = homes
        self._dealer = Dealer()
        self._cache_max = core.settings.topic_cache
        self._generation = -1
        self._by_topic: dict[str, Route] = {}
        self._routes: dict[tuple[object, ...], Route] = {}

    def of(self, topic: str) -> Route:
        """The route of a topic."""
        if self._generation != self._core.generation:
            self._generation = self._core.generation
            self._by_topic.clear()
            self._routes.clear()
        route = self._by_topic.get(topic)
        if route is None:
            route = self._find(topic)
            if len(topic) <= REMEMBERED_CHARACTERS_MAX:
                if len(self._by_topic) >= self._cache_max:
                    del self._by_topic[next(iter(self._by_topic))]
                self._by_topic[topic] = route
        return route

    def _find(self, topic: str) -> Route:
        stream = self._topics.stream_of(topic)
        declared = self._topics.declaration(topic)
        nodes = self._sessions.local.nodes(topic)
        plain = sorted(named for node in nodes for entry in node.plain for named in entry.targets)
        here = tuple([node for node in nodes if node.filtered])
        beyond = self._homes.table.nodes(topic)
        homes: dict[str, int] = {}
        for node in beyond:
            for entry in node.plain:
                for home in entry.targets:
                    homes[home] = max(homes.get(home, 0), entry.subscription.qos)
        there = tuple([node for node in beyond if node.filtered])
        about_topic = any(node.topical for node in here) or any(node.topical for node in there)
        topical = topic if about_topic else None
        name = declared.name if declared is not None else None
        key = stream, name, tuple(plain), here, tuple(sorted(homes.items())), there, topical
        route = self._routes.get(key)
        if route is None:
            groups = self._sessions.shares.groups
            known = self._sessions.sessions
            route = Route(
                stream,
                declared,
                tuple(plain),
                here,
                homes,
                there,
                bool(groups) and (bool(here) or not groups.keys().isdisjoint(plain)),
                any(known[session].durable for session, _ in plain),
                any(
                    known[session].durable and known[session].subscriptions[name].qos
                    for session, name in plain
                ),
                about_topic,
            )
            if len(self._routes) >= self._cache_max:
                self._routes.clear()
            self._routes[key] = route
        return route

    def stretches(self, batch: Batch) -> Iterator[tuple[Route, int, int]]:
        """Publications in a row that have the same route."""
        if not batch.which:
            yield self.of(batch.heads[0].topic), 0, len(batch)
            return
        routes = [self.of(head.topic) for head in batch.heads]
        if all(route is routes[0] for route in routes):
            yield routes[0], 0, len(batch)
            return
        first, before = 0, routes[batch.which[0]]
        for at, head in enumerate(batch.which):
            route = routes[head]
            if route is not before:
                yield before, first, at
                first, before = at, route
        yield before, first, len(batch)

    # Matching.

    def match(self, route: Route, batch: Batch, contents: Contents) -> Matches | None:
        """Which subscriptions here get which publications; None if nobody gets any."""
        count = len(batch)
        if not route.here and not route.grouped:
            return Matches(count, route.everyone) if route.everyone else None
        here = self._sessions
        if route.grouped:
            return self._match_singly(route, batch, contents)
        if count >= TOGETHER_FROM:
            dealing = self._deal(route, batch, contents)
            if dealing is not None:
                return Matches(count, route.everyone, (), dealing) if len(dealing.dealt.takers) else None
        fields = contents.all()
        listed: list[tuple[Named, ...]] = []
        found = here.local.match_each(route.here, fields)
        anybody = bool(route.everyone)
        for entries in found:
            some = tuple(sorted([named for entry in entries for named in entry.targets])) if entries else ()
            anybody = anybody or bool(some)
            listed.append(some)
        return Matches(count, route.everyone, listed) if anybody else None

    def _match_singly(self, route: Route, batch: Batch, contents: Contents) -> Matches | None:
        """The same where some are shared: of each group one member is chosen, for each publication."""
        here = self._sessions
        listed: list[tuple[Named, ...]] = []
        fields = contents.all() if route.here else []
        filtered = (
            here.local.match_each(route.here, fields) if route.here else [[] for _ in range(len(batch))]
        )
        for entries in filtered:
            found = dict.fromkeys(
                (*route.everyone, *(named for entry in entries for named in entry.targets)), 0
            )
            chosen = here.shares.choose(found, lambda session: here.sessions[session].open)
            listed.append(tuple(sorted(chosen)))
        return Matches(len(batch), (), listed) if any(listed) else None

    def _deal(self, route: Route, batch: Batch, contents: Contents) -> Dealing | None:
        """The same for many at once, without a Python value of any of them; None where that cannot be."""
        audience = route.audience
        if audience is None:
            audience = route.audience = Audience(route.here, route.sessions)
        found = self._match_payloads(self._sessions.local, route, route.here, batch, contents)
        if found is None:
            return None
        answers, others = found
        dealt = audience.deal(self._dealer, len(batch), answers, others, _sessions_of)
        if dealt is None:
            return None

        # By the time that somebody asks, other subscriptions may have their numbers.
        targets = [
            {owner: tuple(node.at(owner).targets) for owner in np.unique(one.owners).tolist()}
            for node, one in zip(route.here, answers, strict=True)
        ]

        def listed() -> list[tuple[Named, ...]]:
            some: list[set[Named]] = [set() for _ in range(len(batch))]
            for known, one in zip(targets, answers, strict=True):
                first = 0
                for at, end in enumerate(one.ends.tolist()):
                    for owner in one.owners[first:end].tolist():
                        some[at].update(known[owner])
                    first = end
            for at, entry in others:
                some[at].update(entry.targets)
            return [tuple(sorted(it)) for it in some]

        return Dealing(dealt, audience.takers, audience.plain, audience.mixed, listed)

    def _match_payloads(
        self,
        table: Table[A, T],
        route: Route,
        nodes: tuple[Node[A, T], ...],
        batch: Batch,
        contents: Contents,
    ) -> tuple[list[Answers], list[tuple[int, Entry[A, T]]]] | None:
        """Which content filters match, for each of many publications: by number for each node, and those that
        had to be decoded.
        """
        if route.declared is not None or any(head.content_type or head.properties for head in batch.heads):
            return None
        topic = batch.head(0).topic
        if route.topical and len(batch.heads) > 1:
            return None
        begins, ends = np.array(batch.starts, dtype=np.int64), np.array(batch.ends, dtype=np.int64)
        found = table.match_payloads(nodes, Payloads(batch.data, begins, ends), self._topics.about(topic))
        if found is None:
            return None
        # They hold until the index is asked again.
        answers = [Answers(one.owners.copy(), one.ends.copy(), tuple(one.unread)) for one in found]
        others: list[tuple[int, Entry[A, T]]] = []
        for node, one in zip(nodes, answers, strict=True):
            fields = [contents.at(at) for at in one.unread]
            matched = table.match_each((node,), fields) if fields else []
            others += [
                (at, entry) for at, entries in zip(one.unread, matched, strict=True) for entry in entries
            ]
        return answers, others

    def wanted(self, route: Route, batch: Batch, contents: Contents) -> list[dict[str, int]]:
        """Which other brokers want publications, with the highest quality of service that they ask for; one
        item for each, or one for all. Equal ones are the same object.
        """
        if not route.there:
            return [route.homes]
        if len(batch) >= TOGETHER_FROM:
            each = self._wanted_together(route, batch, contents)
            if each is not None:
                return each
        found = self._homes.table.match_each(route.there, contents.all())
        known: dict[frozenset[Asking], dict[str, int]] = {frozenset(): route.homes}
        return [
            _homes_of(route, known, [asking for entry in entries for asking in _homes_asking(entry)])
            for entries in found
        ]

    def _wanted_together(self, route: Route, batch: Batch, contents: Contents) -> list[dict[str, int]] | None:
        """The same for many at once."""
        audience = route.beyond
        if audience is None:
            audience = route.beyond = Audience(route.there, ())
        found = self._match_payloads(self._homes.table, route, route.there, batch, contents)
        dealt = audience.deal(self._dealer, len(batch), *found, _homes_asking) if found is not None else None
        if dealt is None:
            return None
        known: dict[frozenset[Asking], dict[str, int]] = {frozenset(): route.homes}
        takers = [audience.takers[taker] for taker in dealt.takers.tolist()]
        each = [route.homes] * len(batch)
        first = 0
        for at, end in zip(dealt.served.tolist(), dealt.upto.tolist(), strict=True):
            each[at] = _homes_of(route, known, takers[first:end])
            first = end
        return each

    def effort(self, route: Route, size: int, *, here: bool) -> int:
        """What it takes to match a publication with a payload of this size, in deliveries of about 20 us."""
        return effort(route.here if here else route.there, size)


Asking = tuple[str, int]
"""A broker, and with which quality of service it wants something."""


def _homes_of(
    route: Route, known: dict[frozenset[Asking], dict[str, int]], asking: Sequence[Asking]
) -> dict[str, int]:
    """Who wants a publication, if these do beside those that want all."""
    key = frozenset(asking)
    homes = known.get(key)
    if homes is None:
        homes = dict(route.homes)
        for home, qos in key:
            homes[home] = max(homes.get(home, 0), qos)
        known[key] = homes = {home: homes[home] for home in sorted(homes)}
    return homes


def _homes_asking(entry: Entry[Interest, str]) -> list[Asking]:
    return [(home, entry.subscription.qos) for home in entry.targets]


def _sessions_of(entry: Entry[Subscription, Named]) -> list[str]:
    return [session for session, _ in entry.targets]
