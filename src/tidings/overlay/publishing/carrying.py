"""Carrying: which links have carried which events, so that later versions go there too.

An event that grows may come to satisfy a filter no longer. Whoever has had a version of it must hear that,
and what follows. So a link that has carried a version carries all later ones, until the event is closed,
although nothing behind it may match. This is known per epoch of a tree, since a link means something else in
the next; how it becomes known there is the business of `catch_up`. Sessions are not known here.
"""

from __future__ import annotations

from tidings.overlay.core import Core
from tidings.overlay.publication import Told
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import TreeEpoch

PAST_MAX = 10_000
"""Closed events of which is remembered where they went, in one epoch."""

FINAL_STATES = ("ended", "merged-into")
"""Nothing follows a version in one of these."""


Known = tuple[int, int]
"""Of an event: the version that all have who follow it somewhere, and the quality of service for them."""


class Trail:
    """An event in one epoch: where it went from here."""

    __slots__ = ("closing", "links", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self.links: dict[str, tuple[int, int]] = {}
        """By neighbour: the quality of service, and the latest version that it has."""
        self.closing: int | None = None
        """The last version, if the event is known to be closed and not every link has it."""

    @property
    def latest(self) -> int:
        """The latest version that some link has."""
        return max((version for _, version in self.links.values()), default=0)

    def has(self, source: str | None, version: int) -> None:
        """What comes over a link need not go back there."""
        if source is not None and source in self.links:
            qos, before = self.links[source]
            self.links[source] = (qos, max(version, before))


class Carrying:
    """What all links of this broker have carried, of events that are open."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._trails: dict[tuple[str, Epoch], dict[str, Trail]] = {}
        """By root and epoch, then by event, the longest unchanged first."""
        self._past: dict[tuple[str, Epoch], dict[str, Trail]] = {}
        """The same of events that are closed; some of them, the longest closed first."""
        self.forgotten = 0
        """Events that were forgotten because there were too many."""

    def __len__(self) -> int:
        return sum(map(len, self._trails.values()))

    def widen(self, grown: TreeEpoch, told: Told, targets: dict[str, int], source: str | None) -> None:
        """Add the links that have carried an event to those where the version at hand matches."""
        trail = self._find(grown, told.event) or self._revived(grown, told)
        if trail is not None:
            trail.has(source, told.version)
            for peer, (qos, _) in trail.links.items():
                if peer != source and targets.get(peer, -1) < qos:
                    targets[peer] = qos

    def forwarded(self, grown: TreeEpoch, told: Told, targets: dict[str, int]) -> None:
        """A version has gone over some links."""
        for peer, qos in targets.items():
            self.remember(grown, told.place or told.topic, told.event, peer, qos, told.version)
        if is_last(told):
            self._forget(grown, told.event)
        else:
            self._settle(grown, told.event)

    def remember(self, grown: TreeEpoch, place: str, event: str, peer: str, qos: int, version: int) -> None:
        """Somebody behind a link has a version of an event."""
        trails = self._trails.setdefault((grown.root, grown.epoch), {})
        trail = trails.pop(event, None)
        if trail is None:
            trail = Trail(place)
            if len(trails) >= self._core.settings.following_max:
                del trails[next(iter(trails))]
                self.forgotten += 1
                if self.forgotten & (self.forgotten - 1) == 0:  # the 1st, 2nd, 4th, …: a log must not flood
                    self._core.log("warning", "events are carried no further", forgotten=self.forgotten)
        trails[event] = trail
        trail.place = place
        before = trail.links.get(peer, (0, 0))
        trail.links[peer] = (max(qos, before[0]), max(version, before[1]))

    def peers(self, grown: TreeEpoch, event: str, source: str | None) -> list[str]:
        """The links that have carried an event, except where a message came from."""
        trail = self._find(grown, event)
        return sorted(peer for peer in trail.links if peer != source) if trail is not None else []

    def followed(self, grown: TreeEpoch) -> dict[str, dict[str, dict[str, Known]]]:
        """All that is followed behind links: by place and neighbour, then by event."""
        found: dict[str, dict[str, dict[str, Known]]] = {}
        for event, trail in self._trails.get((grown.root, grown.epoch), {}).items():
            by_peer = found.setdefault(trail.place, {})
            for peer, (qos, version) in trail.links.items():
                by_peer.setdefault(peer, {})[event] = (version, qos)
        return found

    def close(self, grown: TreeEpoch, event: str, version: int, source: str | None) -> None:
        """An event is closed; it is forgotten once its last version has gone everywhere."""
        trail = self._find(grown, event)
        if trail is not None:
            trail.closing = version
            trail.has(source, version)
            self._settle(grown, event)

    def on_ready(self, grown: TreeEpoch) -> None:
        """What was known of earlier epochs of this tree is of no use any more."""
        for memory in (self._trails, self._past):
            for root, epoch in list(memory):
                if root == grown.root and epoch < grown.epoch:
                    del memory[root, epoch]

    def on_dropped(self, root: str) -> None:
        """A tree is used no more."""
        for memory in (self._trails, self._past):
            for key in [key for key in memory if key[0] == root]:
                del memory[key]

    def _find(self, grown: TreeEpoch, event: str) -> Trail | None:
        trails = self._trails.get((grown.root, grown.epoch))
        return trails.get(event) if trails is not None else None

    def _settle(self, grown: TreeEpoch, event: str) -> None:
        """Forget a closed event if every link has had its last version."""
        trail = self._find(grown, event)
        if trail is None or trail.closing is None:
            return
        if all(version >= trail.closing for _, version in trail.links.values()):
            self._forget(grown, event)

    def _forget(self, grown: TreeEpoch, event: str) -> None:
        """An event is closed; but another side of a partition may have gone on with it."""
        trails = self._trails.get((grown.root, grown.epoch))
        trail = trails.pop(event, None) if trails is not None else None
        if trail is not None:
            past = self._past.setdefault((grown.root, grown.epoch), {})
            past[event] = trail
            if len(past) > PAST_MAX:
                del past[next(iter(past))]

    def _revived(self, grown: TreeEpoch, told: Told) -> Trail | None:
        """The links that have carried an event which was closed and goes on."""
        past = self._past.get((grown.root, grown.epoch))
        trail = past.get(told.event) if past else None
        if past is None or trail is None or trail.latest >= told.version:
            return None
        del past[told.event]
        trail.closing = None
        self._trails.setdefault((grown.root, grown.epoch), {})[told.event] = trail
        return trail


def is_last(told: Told) -> bool:
    """Whether no other version of the event follows."""
    return told.last or told.state in FINAL_STATES
