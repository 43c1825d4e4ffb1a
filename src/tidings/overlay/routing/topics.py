"""Topics, as a broker sees them: their declaration, their stream, their tree, the fields of a payload.

Declarations come and go while the broker runs; where they come from is not known here (`catalogue`). What is
remembered per topic is bounded: a million undeclared topics cost what a hundred cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidings.errors import PayloadError
from tidings.language import names, payloads
from tidings.language.fields import TOPIC, USER
from tidings.language.payloads import Encoding, encoding_of
from tidings.language.reports import Report, Shape
from tidings.language.subscriptions import filters_meet
from tidings.language.topics import Topic
from tidings.overlay.core import Core, Notice
from tidings.overlay.publication import Batch, Publication
from tidings.overlay.trees.trees import Trees, lane_of, pick


class DeclarationChanged(Notice, frozen=True):
    """A topic is declared, or declared otherwise, or no more."""

    name: str


class Content:
    """The fields of a publication, read when they are first asked for."""

    __slots__ = ("_fields", "_publication", "_read", "_topics")

    def __init__(self, topics: Topics, publication: Publication) -> None:
        self._topics = topics
        self._publication = publication
        self._fields: Mapping[str, object] | None = None
        self._read = False

    def __call__(self) -> Mapping[str, object] | None:
        if not self._read:
            self._read = True
            self._fields = self._topics.content(self._publication)
        return self._fields


class Contents:
    """The fields of publications of a batch, each read when it is first asked for."""

    __slots__ = ("_batch", "_read", "_topics")

    def __init__(
        self, topics: Topics, batch: Batch, read: dict[int, Mapping[str, object] | None] | None = None
    ) -> None:
        self._topics = topics
        self._batch = batch
        self._read: dict[int, Mapping[str, object] | None] = {} if read is None else read

    def at(self, place: int) -> Mapping[str, object] | None:
        """Those of one of them; None where there are none to read."""
        read = self._read
        if place not in read:
            read[place] = self._topics.content(self._batch.one(place))
        return read[place]

    def all(self) -> list[Mapping[str, object] | None]:
        return [self.at(place) for place in range(len(self._batch))]

    def some(self, places: Sequence[int]) -> Contents:
        """Those at some places, which ascend."""
        read = {new: self._read[old] for new, old in enumerate(places) if old in self._read}
        return Contents(self._topics, self._batch.some(places), read)


class Topics:
    """All topics, declared or not."""

    def __init__(self, core: Core, trees: Trees) -> None:
        self._core = core
        self._trees = trees
        self._shapes: dict[str, Shape] = {}
        self._patterns = Patterns()
        self._declared: dict[str, Topic | None] = {}
        self._rooted: dict[str, tuple[str, str]] = {}
        """By how their streams are called: roots that declarations name, with the topic filter."""
        self._gathered: list[Topic] | None = None
        self.unreadable = 0
        """Payloads that met a content filter and are nothing that it could be asked about."""

    # What is declared.

    def declare(self, topic: Topic) -> None:
        """From now on a declaration holds, in the place of an older one of its name."""
        old = self._shapes.get(topic.name)
        if old is not None:
            self._patterns.remove(old.topic)
        self._shapes[topic.name] = Shape(topic)
        self._patterns.add(topic)
        self._changed(old.topic if old is not None else None, topic)
        self._core.tell(DeclarationChanged(topic.name))

    def remove(self, name: str) -> None:
        """A name is declared no more."""
        old = self._shapes.pop(name, None)
        if old is not None:
            self._patterns.remove(old.topic)
            self._changed(old.topic, None)
            self._core.tell(DeclarationChanged(name))

    def _changed(self, old: Topic | None, new: Topic | None) -> None:
        self._core.changed()
        self._declared.clear()
        self._gathered = None
        before, after = (topic.root if topic is not None else None for topic in (old, new))
        if before == after:
            return
        rooted = [shape.topic for shape in self._shapes.values() if shape.topic.root is not None]
        self._rooted = {_rooted_stream(topic): (str(topic.root), topic.pattern.filter) for topic in rooted}
        for root in dict.fromkeys(root for root in (before, after) if root is not None):
            # Two that differ only in the names of their levels have one topic filter.
            named = {topic.pattern.filter for topic in rooted if topic.root == root}
            self._trees.declare(root, tuple(sorted(named)))

    def declaration(self, name: str) -> Topic | None:
        """The most specific declaration of a topic."""
        if not self._shapes:
            return None
        if name not in self._declared:
            if len(self._declared) >= self._core.settings.topic_cache:
                del self._declared[next(iter(self._declared))]
            self._declared[name] = self._patterns.find(name)
        return self._declared[name]

    def named(self, name: str) -> Topic | None:
        """The declaration with a name."""
        shape = self._shapes.get(name)
        return shape.topic if shape is not None else None

    def of_filter(self, topic_filter: str) -> Topic | None:
        """The declaration with a topic filter; of several the one that governs, which has the first name."""
        same = (shape.topic for shape in self._shapes.values() if shape.topic.pattern.filter == topic_filter)
        return min(same, key=lambda topic: topic.name, default=None)

    def gathered(self) -> list[Topic]:
        """All declarations of gathered topics, in order of their names."""
        if self._gathered is None:
            topics = [self._shapes[name].topic for name in sorted(self._shapes)]
            self._gathered = [topic for topic in topics if topic.gathering is not None]
        return self._gathered

    def kept(self) -> dict[tuple[str, str], float]:
        """By name and what: how long its log keeps it, in microseconds."""
        kept: dict[tuple[str, str], float] = {}
        for name, shape in sorted(self._shapes.items()):
            topic = shape.topic
            if topic.keep_us is not None:
                kept[name, "events"] = topic.keep_us
            if topic.gathering is not None and topic.gathering.keep_reports_us is not None:
                kept[name, "reports"] = topic.gathering.keep_reports_us
        return kept

    def tree_of(self, topic: Topic) -> str | None:
        """The root whose tree the reports of a declaration travel now; None while there is none.

        All of a gathered topic is at one place, so it is the declaration that picks the tree, not the names
        of the topics that it matches.
        """
        topic_filter = topic.pattern.filter
        if topic.root is not None and self._trees.agreed(topic.root, topic_filter):
            return topic.root
        return self._shared(topic_filter.partition("/")[0])

    def declaration_of_all(self, topic_filter: str) -> Topic | None:
        """The declaration that governs every topic that a filter matches, if there is one.

        It is the most specific of those that match any of them, and matches all of them.
        """
        meeting = [
            shape.topic
            for shape in self._shapes.values()
            if filters_meet(shape.topic.pattern.filter, topic_filter)
        ]
        first = min(meeting, key=lambda topic: topic.pattern.rank, default=None)
        if first is not None and names.filter_covers(first.pattern.filter, topic_filter):
            return first
        return None

    # Reading.

    def report(self, topic: Topic, name: str, payload: bytes, content_type: str) -> Report | None:
        """What a payload on a declared topic says, None where there is nothing to be at odds with; else
        PayloadError says what is wrong with it.
        """
        if topic.gathering is not None:
            return self._shapes[topic.name].read(name, payload, encoding_of(content_type or None))
        if topic.fields:
            encoding = encoding_of(content_type or None)
            self._shapes[topic.name].take(name, payloads.decode(payload, encoding))
        return None

    def far(self, report: Report, at_us: int) -> bool:
        """Whether some time in a report is far from when it came."""
        topic = self.declaration(report.topic)
        return topic is not None and self._shapes[topic.name].far(report.fields, at_us)

    def read(self, name: str, payload: bytes, content_type: str) -> Report:
        """The report in a payload; PayloadError says why there is none."""
        topic = self.declaration(name)
        report = self.report(topic, name, payload, content_type) if topic is not None else None
        if report is None:
            raise PayloadError(f"topic {name[:80]!r} is gathered no more")
        return report

    def stream_of(self, topic: str) -> str:
        """The group of topics within which publications are numbered.

        Topics of one group always use the same tree. Which one that is changes with the roots in reach and
        with what is declared; the numbers of a stream must go on all the same, or what is sent again could
        not be told from what is new.
        """
        lane = str(lane_of(topic.partition("/")[0])) if self._core.settings.trees > 1 else "0"
        declared = self.declaration(topic)
        if declared is not None and declared.root is not None:
            return f"{lane}@{_rooted_stream(declared)}"
        return lane

    def root_of(self, topic: str, stream: str) -> str | None:
        """The root whose tree a topic uses now in a stream; None while there is no tree.

        It is the stream that counts, not what is declared by now: publications of one stream that went by
        different trees would overtake each other.
        """
        rooted = self._rooted.get(stream.partition("@")[2])
        if rooted is not None and self._trees.agreed(*rooted):
            return rooted[0]
        return self._shared(topic.partition("/")[0])

    def _shared(self, first: str) -> str | None:
        """The root of the shared tree for topics with a first level."""
        for root in self._trees.share:
            tree = self._trees.serving(root)
            if tree is not None:
                share = tree.current.share if tree.current is not None else ()
                if root in share and pick(first, share) == root:
                    return root
        return None

    def fields(self, publication: Publication) -> Content:
        """The fields of a publication, to be read if they are needed."""
        return Content(self, publication)

    def content(self, publication: Publication) -> Mapping[str, object] | None:
        """The fields of a payload, typed if the topic is declared; None where it cannot be read.

        With them, what filters may ask of the publication itself; a payload cannot say that of itself.
        """
        try:
            encoding = encoding_of(publication.content_type) if publication.content_type else Encoding.JSON
            fields = payloads.decode(publication.payload, encoding)
            topic = self.declaration(publication.topic)
            if topic is not None:
                # What cannot be taken was let in by another declaration of it, before a change or beyond a
                # partition: it is as if the topic were not declared.
                with suppress(PayloadError):
                    fields = self._shapes[topic.name].take(publication.topic, fields)
            fields[TOPIC] = publication.topic
            # Of a name that is there twice, the first.
            fields[USER] = dict(reversed(publication.properties)) if publication.properties else None
            return fields
        except PayloadError:
            self.unreadable += 1
            return None

    def about(self, name: str) -> Mapping[str, object]:
        """What filters may ask of such publications themselves."""
        return {TOPIC: name, USER: None}


class Patterns:
    """Declarations by the levels of their names, to find the most specific one of a topic.

    A literal level is tried before a wildcard, and that before "#", which is the order of `Pattern.rank`: the
    first that is found is the one.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, topic: Topic) -> None:
        node = self._root
        for level in _levels(topic):
            node = node.below.setdefault(level, _Node())
        node.topics[topic.name] = topic

    def remove(self, topic: Topic) -> None:
        path = [self._root]
        levels = _levels(topic)
        for level in levels:
            path.append(path[-1].below[level])
        del path[-1].topics[topic.name]
        for node, level, below in zip(path[-2::-1], levels[::-1], path[:0:-1], strict=True):
            if not below.topics and not below.below:
                del node.below[level]

    def find(self, name: str) -> Topic | None:
        levels = name.split("/")
        ways: list[tuple[_Node | None, int]] = [(self._root, 0)]
        while ways:
            node, at = ways.pop()
            if node is None:
                continue
            if at > len(levels) or (at == len(levels) and node.topics):
                return node.topics[min(node.topics)]
            if at > 0 or not levels[0].startswith("$"):  # [MQTT-4.7.2-1]
                ways.append((node.below.get("#"), len(levels) + 1))
                if at < len(levels):
                    ways.append((node.below.get("+"), at + 1))
            if at < len(levels):
                ways.append((node.below.get(levels[at]), at + 1))
        return None


class _Node:
    __slots__ = ("below", "topics")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.topics: dict[str, Topic] = {}


def _levels(topic: Topic) -> list[str]:
    return topic.pattern.filter.split("/")


def _rooted_stream(topic: Topic) -> str:
    """What tells the streams of one declaration that names a root from those of others."""
    return f"{topic.root}/{topic.pattern.filter}"
