"""From a publication to those who want it: topic filters in a trie, content filters at its nodes.

Topic filters of many levels are not in the trie but in `deep_filters`, which gives them nodes of their own.

One table holds what local sessions ask for, and one what other brokers ask for on behalf of theirs. Equal
subscriptions are held once with all who ask. What is remembered per topic is bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Generic, Protocol, TypeVar

from tidings.language.fields import find
from tidings.language.filters import Cost
from tidings.language.regions import Unknown
from tidings.language.subscriptions import EVERYTHING, filters_meet
from tidings.matching import Answers, Index, Payloads
from tidings.matching.base import Boxed
from tidings.overlay.routing.deep_filters import DeepFilters

Fields = Mapping[str, object]

INDEX_FROM = 96
"""Content filters on one topic filter from which an index pays; below, each is asked in turn. An empty index
takes 320 kB and 9 us to ask, a filter 1 to 2 us."""

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

    __slots__ = ("filter", "matches", "number", "subscription", "targets", "topical")

    def __init__(self, subscription: A, number: int) -> None:
        self.subscription = subscription
        self.filter: Readable | None = subscription.filter
        self.matches: Callable[[Fields], bool] | None = (
            _matcher(self.filter, subscription.unknown) if self.filter is not None else None
        )
        self.topical = self.filter is not None and self.filter.about_topic
        """Whether it asks for the topic itself."""
        self.number = number
        self.targets: dict[T, None] = {}


FILTERS_PER_DELIVERY = 8
"""Content filters that are asked one by one in the time that one delivery takes."""

SEARCHES_PER_DELIVERY = 400_000
"""Characters that LIKE looks for, times the bytes that it looks at, in that time. A filter at its limit of
200 takes 10 ms for a payload of 1 MB: benchmarks/hostile_filters.py."""


class Node(Generic[A, T]):
    """One level of topic filters."""

    __slots__ = (
        "asked",
        "below",
        "entries",
        "filtered",
        "free",
        "hot",
        "index",
        "making",
        "next",
        "plain",
        "searched",
        "topical",
        "waiting",
    )

    def __init__(self) -> None:
        self.asked = 0
        """How many filters were asked in turn."""
        self.hot = False
        self.next = 0
        self.free: list[int] = []
        """Numbers of subscriptions that are gone."""
        self.below: dict[str, Node[A, T]] = {}
        self.entries: dict[A, Entry[A, T]] = {}
        self.plain: dict[int, Entry[A, T]] = {}
        self.filtered: dict[int, Entry[A, T]] = {}
        self.topical = 0
        """How many of these ask for the topic itself."""
        self.searched = 0
        """Characters for which their LIKE patterns look in a text."""
        self.index: Index | None = None
        self.making: Index | None = None
        """An index that does not have all of them yet."""
        self.waiting: deque[Entry[A, T]] = deque()
        """Those that are to be added to it."""


class Table(Generic[A, T]):
    """Who wants what is published."""

    def __init__(self, cache: int) -> None:
        self._root: Node[A, T] = Node()
        self.deep: DeepFilters[Node[A, T]] = DeepFilters()
        self._cache_max = cache
        self._nodes: dict[str, tuple[Node[A, T], ...]] = {}
        self._cycles: dict[str, Counter[int]] = {}
        """By topic filter: how many that may match some topic of it ask for each cycle."""
        self._hot = 0
        self.indexes = 0
        """How many have been made."""
        self._size = 0
        self.version = 0
        """Counts the changes."""

    def __len__(self) -> int:
        """Different subscriptions."""
        return self._size

    @property
    def topics_remembered(self) -> int:
        return len(self._nodes)

    def add(self, subscription: A, target: T) -> bool:
        """From now on somebody asks for this; False if that was known."""
        self.version += 1
        node = self._node(subscription.topic_filter)
        entry = node.entries.get(subscription)
        if entry is None:
            if node.free:
                number = node.free.pop()
            else:
                number = node.next
                node.next += 1
            entry = Entry(subscription, number)
            self._size += 1
            self._count_cycle(subscription, 1)
            if not node.entries:
                self._nodes.clear()
            node.entries[subscription] = entry
            if entry.filter is None:
                node.plain[entry.number] = entry
            else:
                node.filtered[entry.number] = entry
                node.topical += entry.topical
                node.searched += entry.filter.cost.searched
                if node.index is not None:
                    node.index.add(entry.number, entry.filter, subscription.unknown)
                elif node.making is not None:
                    node.waiting.append(entry)
                    self._index_more(node)
                elif len(node.filtered) >= INDEX_FROM:
                    self._index(node)
        if target in entry.targets:
            return False
        entry.targets[target] = None
        return True

    def _node(self, topic_filter: str) -> Node[A, T]:
        """The node of a topic filter, made if there is none."""
        if _is_deep(topic_filter):
            found = self.deep.get(topic_filter)
            if found is None:
                found = Node()
                self.deep.set(topic_filter, found)
                self._nodes.clear()
            return found
        node = self._root
        for level in _levels(topic_filter):
            below = node.below.get(level)
            if below is None:
                below = node.below[level] = Node()
                self._nodes.clear()
            node = below
        return node

    def remove(self, subscription: A, target: T) -> None:
        self.version += 1
        topic_filter = subscription.topic_filter
        deep = _is_deep(topic_filter)
        levels = [] if deep else _levels(topic_filter)
        path = [self._node(topic_filter)] if deep else [self._root]
        for level in levels:
            path.append(path[-1].below[level])
        node = path[-1]
        entry = node.entries[subscription]
        del entry.targets[target]
        if entry.targets:
            return
        del node.entries[subscription]
        node.free.append(entry.number)
        self._size -= 1
        self._count_cycle(subscription, -1)
        if entry.filter is None:
            del node.plain[entry.number]
        else:
            del node.filtered[entry.number]
            node.topical -= entry.topical
            node.searched -= entry.filter.cost.searched
            if node.index is not None:
                node.index.remove(entry.number)
            elif node.making is not None and entry.number in node.making:
                node.making.remove(entry.number)
        if not node.entries:
            self._nodes.clear()
            if node.hot:
                self._hot -= 1
                node.hot, node.index, node.making, node.asked = False, None, None, 0
                node.waiting.clear()
            if deep:
                self.deep.remove(topic_filter)
            for above, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
                below = above.below[level]
                if below.entries or below.below:
                    break
                del above.below[level]

    def nodes(self, topic: str) -> tuple[Node[A, T], ...]:
        """All that match a topic, each with its subscriptions."""
        nodes = self._nodes.get(topic)
        return self._find(topic) if nodes is None else nodes

    def meeting(self, topic_filter: str) -> Iterator[A]:
        """All subscriptions that may match some topic of a filter."""
        levels = _levels(topic_filter) or ["#"]
        for deep in self.deep.all():
            yield from (it for it in deep.entries if filters_meet(it.topic_filter, topic_filter))
        ways = [(self._root, 0)]
        while ways:
            node, at = ways.pop()
            yield from (it for it in node.entries if filters_meet(it.topic_filter, topic_filter))
            wanted = levels[at] if at < len(levels) else None
            for level, below in node.below.items():
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

    def effort(self, topic: str, size: int) -> int:
        """What it takes to match a publication with a payload of this size, in deliveries of about 20 us."""
        total = 0
        for node in self.nodes(topic):
            if node.filtered:
                total += 1 if node.index is not None else len(node.filtered) // FILTERS_PER_DELIVERY
                total += node.searched * size // SEARCHES_PER_DELIVERY
        return total

    def match(self, topic: str, fields: Callable[[], Fields | None]) -> dict[T, int]:
        """Who wants it, with the highest quality of service asked for.

        `fields` is called if they are needed; where there are none to read, no content filter matches.
        """
        nodes = self._nodes.get(topic)
        if nodes is None:
            nodes = self._find(topic)
        found: dict[T, int] = {}
        for node in nodes:
            for entry in node.plain.values():
                _take(found, entry)
            if node.filtered:
                content = fields()
                if content is None:
                    continue
                if node.index is not None:
                    for number in node.index.match(content):
                        _take(found, node.filtered[int(number)])
                else:
                    for entry in node.filtered.values():
                        assert entry.matches is not None, "filtered entries have filters"
                        if entry.matches(content):
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
            filtered = node.filtered
            if node.index is not None:
                for at, numbers in zip(readable, node.index.match_batch(some), strict=True):
                    found[at] += [filtered[number] for number in numbers.tolist()]  # type: ignore[union-attr]
                continue
            for entry in filtered.values():
                matches = entry.matches
                assert matches is not None, "filtered entries have filters"
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
        node.asked += times * len(node.filtered)
        if node.asked < HOT or self._hot >= HOT_MAX:
            return
        node.asked = 0
        if sum(entry.filter.cost.terms for entry in node.filtered.values() if entry.filter) >= HOT_TERMS:
            self._hot += 1
            node.hot = True
            self._index(node)

    def _index(self, node: Node[A, T]) -> None:
        """From now on the content filters of a topic filter are found by an index."""
        self.indexes += 1
        node.making = Index()
        node.waiting.extend(node.filtered.values())
        self._index_more(node)

    def _index_more(self, node: Node[A, T]) -> None:
        """Add some of the filters that wait for it to an index that is being made."""
        index, left = node.making, INDEX_STEPS
        assert index is not None, "one is being made"
        while node.waiting and left > 0:
            entry = node.waiting.popleft()
            if node.filtered.get(entry.number) is entry and entry.filter is not None:
                index.add(entry.number, entry.filter, entry.subscription.unknown)
                left -= entry.filter.cost.constraints + entry.filter.cost.points
        if not node.waiting:
            node.index, node.making = index, None

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
                if wild and "#" in below:
                    found.append(below["#"])
                if level in below and level not in ("+", "#"):
                    following.append(below[level])
                if wild and "+" in below:
                    following.append(below["+"])
            nodes = following
            wild = True
        for node in nodes:
            found.append(node)
            if "#" in node.below:
                found.append(node.below["#"])
        found += self.deep.find(topic)
        answer = tuple(node for node in found if node.entries)
        if len(topic) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._nodes) >= self._cache_max:
                del self._nodes[next(iter(self._nodes))]
            self._nodes[topic] = answer
        return answer


def _is_deep(topic_filter: str) -> bool:
    return topic_filter.count("/") >= TRIE_LEVELS_MAX


def _levels(topic_filter: str) -> list[str]:
    return [] if topic_filter == EVERYTHING else topic_filter.split("/")


def _matcher(filter: Readable, unknown: Unknown) -> Callable[[Fields], bool]:  # noqa: A002
    """The quicker way to ask a filter: term by term, or in its normal form.

    Merged subscriptions have many terms, `x >= 1 AND x < 3 OR x >= 7 AND x < 9 OR …`, that are one set of
    values of one field; there the normal form is ten times as quick.
    """
    boxes = filter.boxes(unknown)
    if len(boxes) == 1 and len(boxes[0]) == 1:
        ((path, region),) = boxes[0]
        if len(path) == 1:
            name = path[0]
            return lambda fields: fields.get(name) in region
    if sum(len(box) for box in boxes) < filter.cost.terms:
        return lambda fields: any(all(find(fields, path) in region for path, region in box) for box in boxes)
    return lambda fields: filter.matches(fields, unknown)


def _take(found: dict[T, int], entry: Entry[A, T]) -> None:
    qos = entry.subscription.qos
    for target in entry.targets:
        if found.get(target, -1) < qos:
            found[target] = qos
