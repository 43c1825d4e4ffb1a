"""Places: where the reports of a gathered topic are gathered, and the way there.

A *place* is a gathered topic, or one part of it where its keys are divided among several seats. All of a
place travels one tree. Who has its seat is not known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tidings.language.keys import Key
from tidings.language.subscriptions import filters_meet
from tidings.language.topics import Topic
from tidings.overlay.routing.topics import Topics
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Edge, TreeEpoch, Trees

PART = "\t"
"""Between the name of a declaration and the number of a part; no topic name has it within."""


class Partitions:
    """All places, as one broker sees them."""

    def __init__(self, trees: Trees, topics: Topics) -> None:
        self._trees = trees
        self._topics = topics

    def place_of(self, topic: Topic, key: Key | None = None) -> str:
        """Where the reports of a topic are gathered: one place, or one of several by their key."""
        assert topic.gathering is not None, "only gathered topics have places"
        parts = topic.gathering.seats
        if parts == 1 or key is None:
            return topic.name
        text = repr(key).encode()
        best = max(
            range(parts), key=lambda part: hashlib.blake2b(b"%d\0" % part + text, digest_size=16).digest()
        )
        return f"{topic.name}{PART}{best}"

    def places(self, topic_filter: str) -> list[str]:
        """All places of gathered topics that a topic filter meets."""
        return [
            place
            for topic in self._topics.gathered()
            if filters_meet(topic.pattern.filter, topic_filter)
            for place in places_of(topic)
        ]

    def topic_at(self, place: str) -> Topic | None:
        """The declaration of a place, if it is still a gathered one."""
        topic = self._topics.named(place.partition(PART)[0])
        return topic if topic is not None and topic.gathering is not None else None

    def root_of(self, place: str) -> str | None:
        """The root whose tree a place uses now."""
        topic = self.topic_at(place)
        return self._topics.tree_of(topic) if topic is not None else None

    def grown(self, place: str) -> TreeEpoch | None:
        """The epoch that reports to a place travel."""
        root = self.root_of(place)
        tree = self._trees.serving(root) if root is not None else None
        return tree.current if tree is not None else None

    def current(self, root: str, epoch: Epoch) -> TreeEpoch | None:
        """A tree in an epoch, if that is the one in use."""
        tree = self._trees.trees.get(root)
        grown = tree.current if tree is not None else None
        return grown if grown is not None and grown.epoch == epoch else None

    def toward(self, grown: TreeEpoch, broker: str) -> Edge | None:
        """The link of a tree behind which a broker is."""
        for edge in grown.edges.values():
            if edge.members is not None and broker in edge.members:
                return edge
        return None

    def on_tree(self, root: str) -> Iterator[tuple[str, Topic]]:
        """The places that use the tree of a root."""
        for topic in self._topics.gathered():
            if self._topics.tree_of(topic) == root:
                for place in places_of(topic):
                    yield place, topic


def places_of(topic: Topic) -> list[str]:
    """All places of a gathered topic."""
    parts = topic.gathering.seats if topic.gathering is not None else 1
    return [topic.name] if parts == 1 else [f"{topic.name}{PART}{part}" for part in range(parts)]
