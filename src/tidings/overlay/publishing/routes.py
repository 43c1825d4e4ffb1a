"""Routes: who gets what is published to a topic, as long as nothing changes about that.

A route is found once and holds for a generation (`Core.generation`), which counts whatever may change it:
subscriptions here and elsewhere, declarations, trees. Topics for which the answer is the same have one route,
so publications to several of them can be dealt with together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.matches import Matches, Named
from tidings.overlay.publication import Batch
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.interest import Interest
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.table import Node, effort
from tidings.overlay.routing.topics import Content, Topics


class Route:
    """Who gets what is published to some topics at this broker."""

    __slots__ = (
        "declared",
        "durable",
        "durable_here",
        "everyone",
        "grouped",
        "here",
        "homes",
        "root",
        "sessions",
        "stream",
        "there",
    )

    def __init__(
        self,
        stream: str,
        root: str | None,
        declared: Topic | None,
        everyone: tuple[Named, ...],
        here: tuple[Node[Subscription, Named], ...],
        homes: dict[str, int],
        there: tuple[Node[Interest, str], ...],
        grouped: bool,
        durable: bool,
        durable_here: bool,
    ) -> None:
        self.stream = stream
        """The group of topics within which publications are numbered, …"""
        self.root = root
        """… and the root of the tree that they travel; None while there is none."""
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
        self.durable_here = durable_here
        """… and of what enters here, what it wants with QoS 1 or 2."""


class Routes:
    """The routes of all topics that were asked for lately."""

    def __init__(self, core: Core, topics: Topics, sessions: Sessions, homes: Homes) -> None:
        self._core = core
        self._topics = topics
        self._sessions = sessions
        self._homes = homes
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
            if len(self._by_topic) >= self._cache_max:
                del self._by_topic[next(iter(self._by_topic))]
            self._by_topic[topic] = route
        return route

    def _find(self, topic: str) -> Route:
        stream = self._topics.stream_of(topic)
        root = self._topics.root_of(topic, stream)
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
        key = stream, root, name, tuple(plain), here, tuple(sorted(homes.items())), there, topical
        route = self._routes.get(key)
        if route is None:
            groups = self._sessions.shares.groups
            known = self._sessions.sessions
            route = Route(
                stream,
                root,
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

    def match(self, route: Route, batch: Batch, contents: Sequence[Content] | None) -> Matches | None:
        """Which subscriptions here get which publications; None if nobody gets any."""
        count = len(batch)
        if not route.here and not route.grouped:
            return Matches(count, route.everyone) if route.everyone else None
        here = self._sessions
        if route.grouped:
            return self._match_singly(route, batch, contents)
        assert contents is not None, "where there are content filters, fields are read"
        fields = [content() for content in contents]
        listed: list[tuple[Named, ...]] = []
        found = here.local.match_each(route.here, fields)
        anybody = bool(route.everyone)
        for entries in found:
            some = tuple(sorted([named for entry in entries for named in entry.targets])) if entries else ()
            anybody = anybody or bool(some)
            listed.append(some)
        return Matches(count, route.everyone, listed) if anybody else None

    def _match_singly(self, route: Route, batch: Batch, contents: Sequence[Content] | None) -> Matches | None:
        """The same where some are shared: of each group one member is chosen, for each publication."""
        here = self._sessions
        listed: list[tuple[Named, ...]] = []
        fields = [content() for content in contents] if contents is not None else []
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

    def wanted(self, route: Route, batch: Batch, contents: Sequence[Content] | None) -> list[dict[str, int]]:
        """Which other brokers want publications, with the highest quality of service that they ask for; one
        item for each, or one for all.
        """
        if not route.there:
            return [route.homes]
        assert contents is not None, "where there are content filters, fields are read"
        found = self._homes.table.match_each(route.there, [content() for content in contents])
        each: list[dict[str, int]] = []
        for entries in found:
            if not entries:
                each.append(route.homes)
                continue
            homes = dict(route.homes)
            for entry in entries:
                qos = entry.subscription.qos
                for home in entry.targets:
                    if homes.get(home, -1) < qos:
                        homes[home] = qos
            each.append(homes)
        return each

    def effort(self, route: Route, size: int, *, here: bool) -> int:
        """What it takes to match a publication with a payload of this size, in deliveries of about 20 us."""
        return effort(route.here if here else route.there, size)
