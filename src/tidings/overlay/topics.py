"""Topics, as a broker sees them: their declaration, their stream, their tree, the fields of a payload.

What is remembered per topic is bounded: a million undeclared topics cost what a hundred cost.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.errors import PayloadError
from tidings.language import names, payloads
from tidings.language.fields import TOPIC, USER
from tidings.language.payloads import Encoding, encoding_of
from tidings.language.reports import Shape
from tidings.language.subscriptions import filters_meet
from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.messages import Publication
from tidings.overlay.trees import Trees, lane_of, pick


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


class Topics:
    """All topics, declared or not."""

    def __init__(self, core: Core, trees: Trees, declared: list[Topic]) -> None:
        self._core = core
        self._trees = trees
        self._topics = declared
        self._shapes = {topic.name: Shape(topic) for topic in declared}
        self._declared: dict[str, Topic | None] = {}
        self.version = 0
        """Counts the changes of what is declared."""
        self.unreadable = 0
        """Payloads that met a content filter and are nothing that it could be asked about."""
        self.rooted = [(topic.pattern.filter, topic.root) for topic in declared if topic.root is not None]
        """Topic filters of declarations that name a root, with that root."""

    def declaration(self, name: str) -> Topic | None:
        """The most specific declaration of a topic."""
        if not self._topics:
            return None
        if name not in self._declared:
            if len(self._declared) >= self._core.settings.topic_cache:
                del self._declared[next(iter(self._declared))]
            found = [topic for topic in self._topics if names.match(topic.pattern.filter, name)]
            self._declared[name] = min(found, key=lambda topic: topic.pattern.rank) if found else None
        return self._declared[name]

    def declaration_of_all(self, topic_filter: str) -> Topic | None:
        """The declaration to which every topic that a filter matches belongs, if there is one."""
        meeting = [topic for topic in self._topics if filters_meet(topic.pattern.filter, topic_filter)]
        if len(meeting) == 1 and names.filter_covers(meeting[0].pattern.filter, topic_filter):
            return meeting[0]
        return None

    def fault(self, name: str, payload: bytes, content_type: str) -> str:
        """Why a payload is not one of a declared topic; empty if it is, or if the topic is not declared."""
        topic = self.declaration(name)
        if topic is None:
            return ""
        try:
            encoding = encoding_of(content_type or None)
            self._shapes[topic.name].take(name, payloads.decode(payload, encoding))
        except PayloadError as error:
            return str(error)
        return ""

    def stream_of(self, topic: str) -> str:
        """The group of topics within which publications are numbered.

        Topics of one group always use the same tree. Which one that is changes with the roots in reach; the
        numbers of a stream must go on all the same, or what is sent again could not be told from what is new.
        """
        lane = str(lane_of(topic.partition("/")[0])) if self._core.settings.trees > 1 else "0"
        declared = self.declaration(topic)
        if declared is not None and declared.root is not None:
            return f"{lane}@{declared.root}"
        return lane

    def root_of(self, topic: str) -> str | None:
        """The root whose tree a topic uses now; None while there is no tree."""
        declared = self.declaration(topic)
        if declared is not None and declared.root is not None and self._trees.serving(declared.root):
            return declared.root
        first = topic.partition("/")[0]
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
                fields = self._shapes[topic.name].take(publication.topic, fields)
            fields[TOPIC] = publication.topic
            # Of a name that is there twice, the first.
            fields[USER] = dict(reversed(publication.properties)) if publication.properties else None
            return fields
        except PayloadError:
            self.unreadable += 1
            return None
