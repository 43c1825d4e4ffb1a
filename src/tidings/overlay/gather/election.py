"""Searching: the search for the best seats, in each epoch of each tree.

The root of a tree begins it when an epoch is ready, and again with the traffic of each window. `centre` has
the protocol; here it is known what each broker has to say in it, and what was found. What follows from that
for seats is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.language.topics import Scope, Strategy, Topic
from tidings.overlay.core import Core
from tidings.overlay.gather.centre import FINDERS, TREE, USED, Finder, ReportFinder, Said
from tidings.overlay.gather.messages import Announce, Holder, Survey
from tidings.overlay.gather.partitions import PART, Partitions
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing.topics import Topics
from tidings.overlay.timers import Timer
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import TreeEpoch, Trees

Weigh = Callable[[Topic, TreeEpoch], tuple[int, bool]]
"""What a topic weighs at this broker since it was last asked, and whether anybody here uses it."""


class Search:
    """The search for seats of one tree in one epoch."""

    def __init__(self, finder: Finder, epoch: Epoch) -> None:
        self.finder = finder
        self.epoch = epoch
        self.winners: dict[tuple[str, str], Announce] = {}
        """The latest that were found, also while the next search runs."""
        self.judged = 0
        """The counter of the latest search whose holders have been looked at."""
        self.weighed: dict[str, int] = {}
        """By place: the counter of the latest search in which a move was thought of."""


class Election:
    """All searches that this broker takes part in."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        places: Partitions,
        holders: Mapping[str, Holder],
        weigh: Weigh,
        look: Callable[[TreeEpoch, Search, str], None],
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._places = places
        self._holders = holders
        self._weigh = weigh
        self._look = look
        """Whom to tell that something was found about the tree, or about one topic."""
        self._searches: dict[str, Search] = {}
        self._parked: dict[str, list[tuple[Link, int, Survey]]] = {}
        """By root: what came before its epoch was ready here."""
        self._loads: dict[str, dict[str, tuple[int, bool]]] = {}
        self._wanted: dict[str, dict[str, set[str]]] = {}

    def current(self, grown: TreeEpoch) -> Search | None:
        """The search in an epoch, if there is one."""
        search = self._searches.get(grown.root)
        return search if search is not None and search.epoch == grown.epoch else None

    def on_ready(self, grown: TreeEpoch) -> None:
        """A new epoch: search anew."""
        self._searches.pop(grown.root, None)
        waiting = self._parked.pop(grown.root, [])
        self.start(grown.root)
        for link, generation, message in waiting:
            if link.generation == generation:
                self.on_survey(link, message)

    def look_again(self) -> None:
        """Say once more what was found."""
        for root in sorted(self._searches):
            tree = self._trees.serving(root)
            if tree is not None and tree.current is not None and self.current(tree.current) is not None:
                self._look(tree.current, self._searches[root], TREE)

    def start(self, root: str, *, again: bool = False) -> None:
        """Begin a search, as the root of a tree with gathered topics; another one only if it is to be."""
        tree = self._trees.trees.get(root)
        grown = tree.current if tree is not None else None
        if grown is None or root != self._core.id or next(self._places.on_tree(root), None) is None:
            return
        if not again and self.current(grown) is not None:
            return
        search = self._search(grown)
        self._prepare(grown)
        self._say(grown, search.finder.start())
        self._core.timers.set(Timer.SURVEY, root, self._core.now + self._core.settings.seat_window_s)
        self._look(grown, search, TREE)

    def on_survey_due(self, root: str) -> None:
        """Count the traffic of the last window, and see whether seats are where they should be."""
        self.start(root, again=True)

    def _search(self, grown: TreeEpoch) -> Search:
        search = self._searches.get(grown.root)
        if search is None or search.epoch != grown.epoch:
            root = grown.root
            finder = FINDERS[self._core.settings.seat_protocol](
                self._core.id,
                sorted(grown.edges),
                loads=self._loads.setdefault(root, {}),
                holders=self._holders,
                wanted=self._wanted.setdefault(root, {}),
            )
            search = self._searches[root] = Search(finder, grown.epoch)
        return search

    def _prepare(self, grown: TreeEpoch) -> None:
        """What this broker has to say in the search that begins."""
        root = grown.root
        seats = [topic.gathering.seats for topic in self._topics.gathered() if topic.gathering is not None]
        self._search(grown).finder.ring = max(seats, default=1)
        loads, wanted = self._loads.setdefault(root, {}), self._wanted.setdefault(root, {})
        loads.clear()
        wanted.clear()
        for topic in self._topics.gathered():
            gathering = topic.gathering
            if gathering is None or self._topics.tree_of(topic) != root:
                continue
            whole = Strategy.MEDIAN if gathering.seat is Strategy.TRAFFIC else gathering.seat
            wanted.setdefault(_scope(topic.name, gathering.seat_scope), set()).add(whole.value)
            if gathering.seat is Strategy.TRAFFIC and gathering.seats == 1:
                wanted.setdefault(topic.name, set()).add(Strategy.TRAFFIC.value)
            weight, used = self._weigh(topic, grown)
            if gathering.seat_scope is Scope.TOPIC:
                loads[topic.name + USED] = (0, used)
            if gathering.seat is Strategy.TRAFFIC and weight:
                loads[topic.name] = (weight, used)

    def on_survey(self, link: Link, message: Survey) -> None:
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or grown.epoch != message.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                self._parked.setdefault(message.root, []).append((link, link.generation, message))
            return
        search = self._search(grown)
        if message.body.counter > search.finder.counter:
            self._prepare(grown)
        self._say(grown, search.finder.on(link.peer, message.body))
        if isinstance(message.body, Announce):
            self._look(grown, search, message.body.about)
        elif search.judged != search.finder.counter:
            self._look(grown, search, TREE)

    def _say(self, grown: TreeEpoch, said: list[Said]) -> None:
        for peer, body in said:
            edge = grown.edges.get(peer)
            if edge is not None and edge.alive:
                self._links.send(edge.link, Survey(grown.root, grown.epoch, body))

    def best(self, place: str, grown: TreeEpoch) -> str | None:
        """The best place that the search has found."""
        topic, search = self._places.topic_at(place), self.current(grown)
        if topic is None or search is None:
            return None
        about, strategy = judged_by(topic, search.finder)
        won = search.winners.get((about, strategy))
        if won is None:
            return None
        part = place.partition(PART)[2]
        if not part or topic.gathering is None:
            return won.broker
        if len(won.ring) < min(topic.gathering.seats, len(grown.members)):
            return None  # found before the topic was declared; the next search finds more
        return won.ring[int(part) % len(won.ring)]


def _scope(name: str, scope: Scope) -> str:
    """What is surveyed for the seat of a topic, whatever its traffic."""
    return name + USED if scope is Scope.TOPIC else TREE


def judged_by(topic: Topic, finder: Finder) -> tuple[str, str]:
    """What is surveyed for a topic, and the strategy by which the best place is found."""
    gathering = topic.gathering
    assert gathering is not None, "only gathered topics have seats"
    if finder.protocol == "paper":
        return TREE, Strategy.CENTRE.value
    about = _scope(topic.name, gathering.seat_scope)
    if gathering.seat is not Strategy.TRAFFIC or gathering.seats > 1:
        strategy = Strategy.MEDIAN if gathering.seat is Strategy.TRAFFIC else gathering.seat
        return about, strategy.value
    if isinstance(finder, ReportFinder) and finder.weight(topic.name):
        return topic.name, Strategy.TRAFFIC.value
    return about, Strategy.MEDIAN.value
