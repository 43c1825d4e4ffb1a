"""Brokers out of reach: who they are, and what they asked for when they were last seen.

A broker that was a member of a tree and is not in its current epoch is *absent* from that tree. So is a
neighbour that is to be dialled and has not been reached yet. What absent brokers may want is held for them by
`publications`; how long is bounded. Which publications those are is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from tidings.overlay.core import Core
from tidings.overlay.events import Write
from tidings.overlay.links.links import Links
from tidings.overlay.routing.table import Fields, Table
from tidings.overlay.timers import Timer
from tidings.overlay.trees.trees import Tree, TreeEpoch

Place = tuple[Table[str], str]
"""What links asked for in the last epoch that had a broker as a member, and the link that it was behind."""


class Absences:
    """All brokers that this one has known, and from which trees they are absent."""

    def __init__(self, core: Core, links: Links) -> None:
        self._core = core
        self._links = links
        self._members: dict[str, None] = {}
        """Brokers that were in reach at some time and have not left for good."""
        self._unreached: dict[str, None] = {}
        self._missing: dict[str, dict[str, list[Place]]] = {}
        """By root; without a place anything may be for them."""
        self._past: dict[str, TreeEpoch] = {}
        """By root, the last epoch that was ready."""
        self._dropped: dict[str, None] = {}
        """Roots whose trees are no longer used; their past is needed once more, to know who is missing."""
        self._last_seen: dict[str, list[Place]] = {}
        """Of absent brokers: where they were."""
        self._expected: dict[str, float] = {}
        """Those to be dialled, or known from before a restart, that have not been met yet: until when they
        may just be on their way."""

    def recover(self, saved: bytes) -> None:
        """Those known before a restart: all absent until seen again."""
        self._members = dict.fromkeys(msgspec.msgpack.decode(saved, type=list[str]))
        self._expected = dict.fromkeys(self._members, self._core.now + self._core.settings.settle_s)

    def __bool__(self) -> bool:
        return any(self._counts(member) for missing in self._missing.values() for member in missing)

    def names(self) -> tuple[str, ...]:
        """Absent brokers, for people to read."""
        found = {member for missing in self._missing.values() for member in missing}
        return tuple(sorted(member for member in found if member not in self._unreached))

    def absent_from(self, root: str) -> list[str] | None:
        """Those out of reach on a tree, a neighbour never reached by its address; None if it is too early to
        say so of one of them.
        """
        absent = [member for member in self._missing.get(root, {}) if self._counts(member)]
        if any(self._core.now < self._expected.get(member, 0.0) for member in absent):
            return None
        return [member.strip() for member in absent]

    def wanting(self, root: str, topic: str, fields: Callable[[], Fields | None]) -> list[str]:
        """Those absent from a tree that may want a publication on it, with QoS 1 or 2."""
        return [
            member
            for member, places in self._missing.get(root, {}).items()
            if self._counts(member)
            if not places or any(routes.match(topic, fields).get(peer, 0) > 0 for routes, peer in places)
        ]

    def _counts(self, member: str) -> bool:
        """All but neighbours to be reached that turned out to be of another network."""
        if member not in self._unreached:
            return True
        dialler = self._links.diallers.get(member[1:])
        return dialler is not None and not dialler.refused

    def deadlines(self) -> dict[str, float]:
        """Absent brokers that others should know of, and until when something is held for them."""
        found: dict[str, float] = {}
        for member in self._members:
            due = self._core.timers.due(Timer.ABSENT, member)
            if due is not None:
                found[member] = due
        return found

    def on_ready(
        self, tree: Tree, left: dict[str, None]
    ) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """A new epoch: who is back on this tree, who will never be, and who was reached (see `found`)."""
        core = self._core
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        known = len(self._members)
        self._members |= dict.fromkeys(grown.members)
        for edge in grown.edges.values():
            # Those that others miss may want what is published here, too.
            for member, until in edge.absent.items():
                if member not in grown.members and member not in self._members and member not in left:
                    self._members[member] = None
                    core.timers.set(Timer.ABSENT, member, until)
        changed = len(self._members) != known
        gone = [member for member in left if member in self._members and member not in grown.members]
        for member in gone:
            changed = True
            self.forget(member)
        before = dict(self._missing.get(tree.root, {}))
        reached = self.found(grown.members)
        missing: dict[str, list[Place]] = {}
        for member in [*self._members, *self._unreached]:
            if member not in grown.members:
                if member not in self._last_seen:
                    self._last_seen[member] = self._places(member)
                missing[member] = before.get(member, self._last_seen[member])
                if self._on_another_tree(member, tree.root):
                    missing[member] = []
                if not core.timers.is_set(Timer.ABSENT, member):
                    core.timers.set(Timer.ABSENT, member, core.now + core.settings.absent_hold_s)
        for root, others in self._missing.items():
            # Those on this tree may have asked for more since they were last seen on another.
            if root != tree.root:
                others |= {member: [] for member in grown.members if member in others}
        self._missing[tree.root] = missing
        self._dropped.pop(tree.root, None)
        for root in self._dropped:
            self._past.pop(root, None)
        self._dropped = {}
        self._past[tree.root] = grown
        for member in grown.members:
            self._last_seen.pop(member, None)
            self._expected.pop(member, None)
        back = [member for member in before if member not in missing and member not in gone]
        for member in back:
            self._calm(member)
        if changed:
            self._save()
        return back, gone, reached

    def _on_another_tree(self, member: str, root: str) -> bool:
        return any(
            member in grown.members
            for other, grown in self._past.items()
            if other != root and other not in self._dropped
        )

    def found(self, members: Container[str]) -> list[tuple[str, str]]:
        """Neighbours that were not reached yet and are members: how they were called, and their id."""
        reached = [
            (unreached(address), dialler.peer)
            for address, dialler in self._links.diallers.items()
            if dialler.peer is not None and dialler.peer in members and unreached(address) in self._unreached
        ]
        for name, _ in reached:
            del self._unreached[name]
            self._expected.pop(name, None)
            for missing in self._missing.values():
                missing.pop(name, None)
            self._core.timers.cancel(Timer.ABSENT, name)
        return reached

    def is_missing(self, root: str, member: str) -> bool:
        return member in self._missing.get(root, {})

    def on_dropped(self, root: str) -> None:
        """A tree is used no more."""
        self._dropped[root] = None
        for member in self._missing.pop(root, {}):
            self._calm(member)

    def on_neighbour_added(self, address: str) -> None:
        """Until a neighbour has been reached, nobody knows what those behind it want."""
        member = unreached(address)
        if self._links.diallers[address].peer is None and member not in self._unreached:
            self._unreached[member] = None
            for missing in self._missing.values():
                missing[member] = []
            core = self._core
            core.timers.set(Timer.ABSENT, member, core.now + core.settings.absent_hold_s)
            self._expected[member] = core.now + core.settings.settle_s

    def forget(self, member: str) -> None:
        """Nothing more is held for it."""
        was_member = self._members.pop(member, "") is None
        self._unreached.pop(member, None)
        self._last_seen.pop(member, None)
        self._expected.pop(member, None)
        for missing in self._missing.values():
            missing.pop(member, None)
        self._core.timers.cancel(Timer.ABSENT, member)
        if was_member:
            self._save()

    def _calm(self, member: str) -> None:
        if not any(member in missing for missing in self._missing.values()):
            self._core.timers.cancel(Timer.ABSENT, member)

    def _places(self, member: str) -> list[Place]:
        """Where a broker was when it was last in reach; none unless that tells all that it asked for."""
        found = {
            root: (grown.routes, edge.peer)
            for root, grown in self._past.items()
            for edge in grown.edges.values()
            if member in (edge.members or {})
        }
        # Each tree knows only what was asked for on it. All those that shared the topics then are needed.
        shares = {self._past[root].share for root in found} - {()}
        complete = any(all(root in found for root in share) for share in shares)
        return list(found.values()) if complete else []

    def _save(self) -> None:
        self._core.out.append(Write("members", msgspec.msgpack.encode(list(self._members))))
        self._core.ask_sync()


def unreached(address: str) -> str:
    """How a neighbour is called here before its id is known; no id has a control character."""
    return f"\t{address}"
