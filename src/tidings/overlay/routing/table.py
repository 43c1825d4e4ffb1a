"""From a publication to those who want it: topic filters in a trie, content filters at its nodes.

Topic filters of many levels are not in the trie but in `deep_filters`, which gives them nodes of their own.

One table holds what local sessions ask for, and one what other brokers ask for on behalf of theirs. Equal
subscriptions are held once with all who ask. What is remembered per topic is bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Generic, Protocol, TypeVar

from tidings.language import names
from tidings.language.filters import Cost
from tidings.language.regions import Unknown
from tidings.language.subscriptions import EVERYTHING, filters_meet
from tidings.matching import Answers, Index, Payloads
from tidings.matching.base import Boxed
from tidings.overlay.routing.deep_filters import DeepFilters

Fields = Mapping[str, object]

INDEX_FROM = 96
"""Content filters on one topic filter from which an index pays; below, each is asked in turn. An index takes
200 kB when it is asked, and 9 us; a filter takes 1 us."""

INDEX_ASKED = 1_000
"""Times that filters of one topic filter were asked in turn before such an index is made: most brokers know
filters of topics that nobody publishes there."""

INDEX_AT_ONCE = 1_000
"""Content filters for which one is made before anything is published: to ask them all once takes 5 ms."""

HOT = 20_000
"""Times that filters of one topic filter were asked in turn from which an index pays for fewer of them."""

HOT_TERMS = 24
"""And how many terms they have in all, at least: an index takes as long as some twenty."""

HOT_MAX = 256
"""Indexes that are made for this reason, so that their memory stays within 80 MB."""

INDEX_STEPS = 2_000
"""Terms, bounds and values that are added to a new index at a time: two milliseconds, where 96 filters with
lists of a thousand values would take 200. Until it has all, filters are asked in turn."""

TRIE_LEVELS_MAX = 10
"""Levels of topic filters in the trie. A topic passes at most 2^10 nodes there, a millisecond's work."""

CYCLES_MAX = 1_000
"""Topic filters for which it is known how often versions are wanted there; each costs 0.2 us with every
subscription that comes or goes."""

REMEMBERED_CHARACTERS_MAX = 256
"""Of a topic whose answer is remembered. Longer ones are rare, and a few thousand of 64 kB would be much."""


class Readable(Boxed, Protocol):
    """A content filter, by its text or by its normal form."""

    @property
    def cost(self) -> Cost: ...
    @property
    def about_topic(self) -> bool: ...
    def asking(self, unknown: Unknown) -> Callable[[Fields], bool] | None: ...


class Asked(Protocol):
    """What can be asked for."""

    @property
    def topic_filter(self) -> str: ...
    @property
    def qos(self) -> int: ...
    @property
    def every_us(self) -> int: ...
    @property
    def unknown(self) -> Unknown: ...
    @property
    def filter(self) -> Readable | None: ...


A = TypeVar("A", bound=Asked)
T = TypeVar("T")


class Entry(Generic[A, T]):
    """A subscription and all who ask for it."""

    __slots__ = ("filter", "matches", "number", "subscription", "targets")

    def __init__(self, subscription: A, target: T) -> None:
        self.subscription = subscription
        self.filter: Readable | None = subscription.filter
        self.matches = self.filter.asking(subscription.unknown) if self.filter is not None else None
        """A quicker way than its own to ask its content filter, if there is one."""
        self.number = -1
        """Of those with a content filter at one node."""
        self.targets: tuple[T] | dict[T, None] = (target,)
        """Most have one alone, and a tuple takes less room."""


FILTERS_PER_DELIVERY = 8
"""Content filters that are asked one by one in the time that one delivery takes."""

SEARCHES_PER_DELIVERY = 400_000
"""Characters that LIKE looks for, times the bytes that it looks at, in that time. A filter at its limit of
200 takes 10 ms for a payload of 1 MB: benchmarks/hostile_filters.py."""


class Node(Generic[A, T]):
    """A topic filter, or a level at which some of them go different ways.

    There may be as many as subscriptions, so each has little before it needs more.
    """

    __slots__ = (
        "asked",
        "below",
        "filtered",
        "free",
        "index",
        "making",
        "numbered",
        "plain",
        "rest",
        "searched",
        "topical",
    )

    def __init__(self, rest: str | None = None) -> None:
        self.rest = rest
        """What is left of the topic filter here, as long as no other one goes a part of that way."""
        self.below: dict[str, Node[A, T]] | None = None
        self.plain: tuple[Entry[A, T], ...] = ()
        """Subscriptions without a content filter."""
        self.filtered = 0
        """How many there are with one, …"""
        self.numbered: list[Entry[A, T] | None] = []
        """… by their numbers, …"""
        self.free: list[int] | None = None
        """… and the numbers of those that are gone."""
        self.topical = 0
        """How many of them ask for the topic itself."""
        self.searched = 0
        """Characters for which their LIKE patterns look in a text."""
        self.asked = 0
        """How many filters were asked in turn."""
        self.index: Index | None = None
        self.making: Making[A, T] | None = None

    @property
    def empty(self) -> bool:
        """Whether nobody asks for anything here."""
        return not self.plain and not self.filtered

    def forget(self) -> None:
        """Keep nothing of filters that were here."""
        self.numbered, self.free, self.asked = [], None, 0
        self.index, self.making = None, None

    def entries(self) -> Iterator[Entry[A, T]]:
        """All subscriptions."""
        yield from self.plain
        yield from self.with_filters()

    def with_filters(self) -> Iterator[Entry[A, T]]:
        """Those with a content filter."""
        return (entry for entry in self.numbered if entry is not None)

    def at(self, number: int) -> Entry[A, T]:
        """One of those."""
        entry = self.numbered[number]
        assert entry is not None, "it is there"
        return entry


class Making(Generic[A, T]):
    """An index that does not have all filters yet, and those that wait."""

    __slots__ = ("index", "waiting")

    def __init__(self, index: Index, waiting: deque[Entry[A, T]]) -> None:
        self.index = index
        self.waiting = waiting


class Table(Generic[A, T]):
    """Who wants what is published."""

    def __init__(self, cache: int, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when somebody wants something else."""
        self._root: Node[A, T] = Node()
        self.deep: DeepFilters[Node[A, T]] = DeepFilters()
        self._entries: dict[A, Entry[A, T]] = {}
        self._cache_max = cache
        self._nodes: dict[str, tuple[Node[A, T], ...]] = {}
        self._cycles: dict[str, Counter[int]] = {}
        """By topic filter: how many that may match some topic of it ask for each cycle."""
        self._hot: dict[Node[A, T], None] = {}
        """Those that have an index because they are asked so often."""
        self.indexes = 0
        """How many have been made."""
        self._changed = changed

    def __len__(self) -> int:
        """Different subscriptions."""
        return len(self._entries)

    @property
    def topics_remembered(self) -> int:
        return len(self._nodes)

    def add(self, subscription: A, target: T) -> bool:
        """From now on somebody asks for this; False if that was known."""
        self._changed()
        entry = self._entries.get(subscription)
        if entry is None:
            self._place(Entry(subscription, target))
            self._count_cycle(subscription, 1)
            return True
        if target in entry.targets:
            return False
        if isinstance(entry.targets, tuple):
            entry.targets = dict.fromkeys(entry.targets)
        entry.targets[target] = None
        return True

    def _place(self, entry: Entry[A, T]) -> None:
        """Nobody has asked for this before."""
        subscription = entry.subscription
        self._entries[subscription] = entry
        node = self._node(subscription.topic_filter)
        if node.empty:
            self._nodes.clear()
        if entry.filter is None:
            node.plain += (entry,)
            return
        node.filtered += 1
        node.topical += entry.filter.about_topic
        node.searched += entry.filter.cost.searched
        if node.free:
            entry.number = node.free.pop()
            node.numbered[entry.number] = entry
        elif node.numbered:
            entry.number = len(node.numbered)
            node.numbered.append(entry)
        else:
            entry.number = 0
            node.numbered = [entry]  # which takes less room than if it were appended
        if node.index is not None:
            node.index.add(entry.number, entry.filter, subscription.unknown)
        elif node.making is not None:
            node.making.waiting.append(entry)
            self._index_more(node)
        elif node.filtered >= INDEX_AT_ONCE:
            self._index(node)

    def _node(self, topic_filter: str) -> Node[A, T]:
        """The node of a topic filter, made if there is none."""
        if _is_deep(topic_filter):
            found = self.deep.get(topic_filter)
            if found is None:
                found = Node()
                self.deep.set(topic_filter, found)
            return found
        node = self._root
        levels = _levels(topic_filter)
        for at, level in enumerate(levels, 1):
            if node.below is None:
                node.below = {}
            rest = "/".join(levels[at:]) if at < len(levels) else None
            below = node.below.get(level)
            if below is None:
                below = node.below[level] = Node(rest)
            if below.rest == rest:
                return below
            if below.rest is not None:
                # They part here, or further on.
                first, more, left = below.rest.partition("/")
                below.rest = left if more else None
                apart: Node[A, T] = Node()
                apart.below = {first: below}
                below = node.below[level] = apart
            node = below
        return node

    def remove(self, subscription: A, target: T) -> None:
        self._changed()
        entry = self._entries[subscription]
        if isinstance(entry.targets, dict):
            del entry.targets[target]
            if entry.targets:
                return
        else:
            assert entry.targets == (target,), "only who asks for something can stop doing so"
        del self._entries[subscription]
        self._count_cycle(subscription, -1)
        node = self._node(subscription.topic_filter)
        if entry.filter is None:
            node.plain = tuple([other for other in node.plain if other is not entry])
        else:
            self._remove_filtered(node, entry, entry.filter)
        if node.empty:
            self._remove_node(node, subscription.topic_filter)

    def _remove_filtered(self, node: Node[A, T], entry: Entry[A, T], filter: Readable) -> None:  # noqa: A002
        node.filtered -= 1
        node.topical -= filter.about_topic
        node.searched -= filter.cost.searched
        node.numbered[entry.number] = None
        if node.free is None:
            node.free = []
        node.free.append(entry.number)
        if node.index is not None:
            node.index.remove(entry.number)
        elif node.making is not None and entry.number in node.making.index:
            node.making.index.remove(entry.number)

    def _remove_node(self, node: Node[A, T], topic_filter: str) -> None:
        """Nobody asks for anything at a topic filter any more."""
        self._nodes.clear()
        self._hot.pop(node, None)
        node.forget()
        if _is_deep(topic_filter):
            self.deep.remove(topic_filter)
            return
        levels = _levels(topic_filter)
        path = [self._root]
        for level in levels:
            path.append(_below(path[-1])[level])
            if path[-1] is node:
                break
        for above, level in zip(path[-2::-1], levels[len(path) - 2 :: -1], strict=False):
            below = _below(above)
            if not below[level].empty or below[level].below:
                break
            del below[level]

    def nodes(self, topic: str) -> tuple[Node[A, T], ...]:
        """All that match a topic, each with its subscriptions."""
        nodes = self._nodes.get(topic)
        return self._find(topic) if nodes is None else nodes

    def meeting(self, topic_filter: str) -> Iterator[A]:
        """All subscriptions that may match some topic of a filter."""
        levels = _levels(topic_filter) or ["#"]
        for deep in self.deep.all():
            yield from _meeting(deep, topic_filter)
        ways = [(self._root, 0)]
        while ways:
            node, at = ways.pop()
            yield from _meeting(node, topic_filter)
            wanted = levels[at] if at < len(levels) else None
            for level, below in _below(node).items():
                if wanted == "#":
                    ways.append((below, at))
                elif level == "#" or wanted in (level, "+") or (level == "+" and wanted is not None):
                    ways.append((below, at + 1))

    def cycles(self, topic_filter: str) -> Set[int]:
        """How often those that may match some topic of a filter want versions, in microseconds.

        They are counted once, and from then on when one comes or goes: a seat asks for it all the time.
        """
        counted = self._cycles.pop(topic_filter, None)
        if counted is None:
            counted = Counter(it.every_us for it in self.meeting(topic_filter))
            if len(self._cycles) >= CYCLES_MAX:
                del self._cycles[next(iter(self._cycles))]
        self._cycles[topic_filter] = counted
        return counted.keys()

    def _count_cycle(self, subscription: A, change: int) -> None:
        for topic_filter, counted in self._cycles.items():
            if filters_meet(topic_filter, subscription.topic_filter):
                counted[subscription.every_us] += change
                if not counted[subscription.every_us]:
                    del counted[subscription.every_us]

    def match(self, topic: str, fields: Callable[[], Fields | None]) -> dict[T, int]:
        """Who wants it, with the highest quality of service asked for.

        `fields` is called if they are needed; where there are none to read, no content filter matches.
        """
        nodes = self._nodes.get(topic)
        if nodes is None:
            nodes = self._find(topic)
        found: dict[T, int] = {}
        for node in nodes:
            for entry in node.plain:
                _take(found, entry)
            if node.filtered:
                content = fields()
                if content is None:
                    continue
                if node.index is not None:
                    for number in node.index.match(content):
                        _take(found, node.at(int(number)))
                else:
                    for entry in node.with_filters():
                        if (entry.matches or _filter(entry).matches)(content):
                            _take(found, entry)
                    self._count(node, 1)
        return found

    def match_each(
        self, nodes: Sequence[Node[A, T]], contents: Sequence[Fields | None]
    ) -> list[list[Entry[A, T]]]:
        """For each of many: the subscriptions at these nodes whose content filters match, in order."""
        found: list[list[Entry[A, T]]] = [[] for _ in contents]
        readable = [at for at, content in enumerate(contents) if content is not None]
        some = [content for content in contents if content is not None]
        for node in nodes:
            if node.index is not None:
                for at, numbers in zip(readable, node.index.match_batch(some), strict=True):
                    found[at] += [node.at(number) for number in numbers.tolist()]  # type: ignore[union-attr]
                continue
            for entry in node.with_filters():
                matches = entry.matches or _filter(entry).matches
                for at, content in zip(readable, some, strict=True):
                    if matches(content):
                        found[at].append(entry)
            self._count(node, len(some))
        return found

    def match_payloads(
        self, nodes: Sequence[Node[A, T]], payloads: Payloads, about: Fields
    ) -> list[Answers] | None:
        """For each node, and each of many JSON payloads: the numbers of the subscriptions that match.

        None if they must be decoded and asked about by `match_each`. Those that are unread must be, too;
        `about` has the fields that no payload says.
        """
        indexes = [node.index for node in nodes if node.index is not None]
        if len(indexes) < len(nodes):
            return None
        found: list[Answers] = []
        for index in indexes:
            answers = index.match_payloads(payloads, about)
            if answers is None:
                return None
            found.append(answers)
        return found

    def _count(self, node: Node[A, T], times: int) -> None:
        """Filters were asked in turn; where that happens often, an index is better."""
        if node.making is not None:
            self._index_more(node)
            return
        node.asked += times * node.filtered
        if node.filtered >= INDEX_FROM:
            if node.asked >= INDEX_ASKED:
                self._index(node)
            return
        if node.asked < HOT or len(self._hot) >= HOT_MAX:
            return
        node.asked = 0
        if sum(entry.filter.cost.terms for entry in node.with_filters() if entry.filter) >= HOT_TERMS:
            self._hot[node] = None
            self._index(node)

    def _index(self, node: Node[A, T]) -> None:
        """From now on the content filters of a topic filter are found by an index."""
        self.indexes += 1
        node.making = Making(Index(), deque(node.with_filters()))
        self._index_more(node)

    def _index_more(self, node: Node[A, T]) -> None:
        """Add some of the filters that wait for it to an index that is being made."""
        making, left = node.making, INDEX_STEPS
        assert making is not None, "one is being made"
        while making.waiting and left > 0:
            entry = making.waiting.popleft()
            if node.numbered[entry.number] is entry and entry.filter is not None:
                making.index.add(entry.number, entry.filter, entry.subscription.unknown)
                left -= entry.filter.cost.constraints + entry.filter.cost.points
        if not making.waiting:
            node.index, node.making = making.index, None

    def _find(self, topic: str) -> tuple[Node[A, T], ...]:
        """The nodes whose topic filters match, remembered."""
        levels = topic.split("/")
        found: list[Node[A, T]] = [self._root]
        wild = not topic.startswith("$")  # [MQTT-4.7.2-1]
        nodes = [self._root]
        for level in levels:
            if not nodes:
                break
            following: list[Node[A, T]] = []
            for node in nodes:
                below = node.below
                if below is None:
                    continue
                if wild and "#" in below:
                    found.append(below["#"])
                if level in below and level not in ("+", "#"):
                    following.append(below[level])
                if wild and "+" in below:
                    following.append(below["+"])
            nodes = []
            for node in following:
                if node.rest is None:
                    nodes.append(node)
                elif names.match(next(node.entries()).subscription.topic_filter, topic):
                    found.append(node)
            wild = True
        for node in nodes:
            found.append(node)
            if node.below is not None and "#" in node.below:
                found.append(node.below["#"])
        found += self.deep.find(topic)
        answer = tuple(node for node in found if not node.empty)
        if len(topic) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._nodes) >= self._cache_max:
                del self._nodes[next(iter(self._nodes))]
            self._nodes[topic] = answer
        return answer


def effort(nodes: Iterable[Node[Any, Any]], size: int) -> int:
    """What it takes to match a publication with a payload of this size with the content filters at some
    nodes, in deliveries of about 20 us.
    """
    total = 0
    for node in nodes:
        total += 1 if node.index is not None else node.filtered // FILTERS_PER_DELIVERY
        total += node.searched * size // SEARCHES_PER_DELIVERY
    return total


def _is_deep(topic_filter: str) -> bool:
    return topic_filter.count("/") >= TRIE_LEVELS_MAX


def _levels(topic_filter: str) -> list[str]:
    return [] if topic_filter == EVERYTHING else topic_filter.split("/")


def _filter(entry: Entry[A, T]) -> Readable:
    assert entry.filter is not None, "only those with a content filter are asked"
    return entry.filter


def _below(node: Node[A, T]) -> dict[str, Node[A, T]]:
    return {} if node.below is None else node.below


def _meeting(node: Node[A, T], topic_filter: str) -> Iterator[A]:
    asked = (entry.subscription for entry in node.entries())
    return (it for it in asked if filters_meet(it.topic_filter, topic_filter))


def _take(found: dict[T, int], entry: Entry[A, T]) -> None:
    qos = entry.subscription.qos
    for target in entry.targets:
        if found.get(target, -1) < qos:
            found[target] = qos
