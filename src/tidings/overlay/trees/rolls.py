"""Rolls: who is in an epoch of a tree.

Each broker tells each tree neighbour, once in an epoch, who is on its own side (`Roll`), as soon as its other
neighbours have said who is behind them. A broker that has heard from all of them knows all members, and the
epoch is ready: publications may travel it. Members are numbered by the order of their ids, so all number them
alike.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.language.ids import fault
from tidings.overlay.core import Core
from tidings.overlay.links.links import Link, Links
from tidings.overlay.trees.messages import Roll
from tidings.overlay.trees.trees import UNLIKE, Edge, Member, Tree, TreeEpoch, Trees, digest

MEMBERS_MAX = 4_096
"""Of an epoch: more than there are brokers in any network. Sets of members have a bit for each."""

MET_MAX = 3
"""Epochs in a row with this broker's id behind a link until it is sure that another broker has it."""


class Rolls:
    """What is said and heard of members."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        number: Callable[[], int],
        on_ready: Callable[[Tree], None],
    ) -> None:
        """`number` is that of this broker's set of subscriptions."""
        self._core = core
        self._links = links
        self._trees = trees
        self._number = number
        self._on_ready = on_ready
        self.duplicated = False
        """Whether another broker of this network has this one's id, and this one must stop."""
        self._met_oneself = 0

    def on_joined(self, tree: Tree, grown: TreeEpoch) -> None:
        """This broker knows its place in a new epoch."""
        self._exchange(tree, grown)

    def on_roll(self, link: Link, message: Roll) -> None:
        tree = self._trees.trees.get(message.root)
        grown = tree.growing if tree is not None else None
        if tree is None or grown is None or grown.epoch != message.epoch:
            return
        edge = grown.edges.get(link.peer)
        if edge is None or not edge.alive:
            return
        named = [row[0] for row in message.members]
        others = sum(len(other.members or ()) for other in grown.edges.values() if other is not edge)
        if 1 + others + len(named) > MEMBERS_MAX:
            self._links.renounce(link, f"more than {MEMBERS_MAX} members of one epoch")
            return
        if reason := fault(named):
            self._links.renounce(link, reason)
            return
        edge.members = {
            member: Member(boot, incarnation, number) for member, boot, incarnation, number in message.members
        }
        edge.declared = message.declared
        self._exchange(tree, grown)

    def _exchange(self, tree: Tree, grown: TreeEpoch) -> None:
        """Tell each neighbour who is on this side, as soon as all of them are known."""
        if grown.awaited or grown is not tree.growing:
            return
        edges = grown.edges
        for peer in sorted(edges):
            edge = edges[peer]
            others = [other for other in edges.values() if other is not edge]
            if edge.alive and not edge.roll_sent and all(other.members is not None for other in others):
                self._send(tree, grown, edge, others)
        if all(edge.members is not None and edge.roll_sent for edge in edges.values()):
            self._ready(tree, grown)

    def _own(self) -> Member:
        return Member(self._core.boot, self._core.incarnation, self._number())

    def _send(self, tree: Tree, grown: TreeEpoch, edge: Edge, others: list[Edge]) -> None:
        members = {self._core.id: self._own()}
        for other in others:
            members |= other.members or {}
        declared = digest(grown.rooted)
        if any(other.declared != declared for other in others):
            declared = UNLIKE
        edge.roll_sent = True
        rows = tuple((member, *members[member]) for member in sorted(members))
        self._links.send(edge.link, Roll(tree.root, grown.epoch, rows, declared))

    def _ready(self, tree: Tree, grown: TreeEpoch) -> None:
        """All members are known: publications may travel this epoch."""
        own = self._core.id
        behind = [(edge.members or {}).get(own) for edge in grown.edges.values()]
        there = [member.boot for member in behind if member is not None]
        grown.settle(own, self._own())
        grown.agreed = all(edge.declared == digest(grown.rooted) for edge in grown.edges.values())
        self._meet_oneself(tree, there)
        tree.past, tree.current, tree.growing = tree.current, grown, None
        self._on_ready(tree)

    def _meet_oneself(self, tree: Tree, boots: list[int]) -> None:
        """This broker's id is behind a link: another has it, or it is this one's own life before a restart.

        The latter can be in an epoch that was growing when this broker died, and in none after it.
        """
        core = self._core
        if not boots:
            self._met_oneself = 0
            return
        self._met_oneself += 1
        if core.boot in boots or (max(boots) < core.boot and self._met_oneself >= MET_MAX):
            self.duplicated = True
        elif max(boots) < core.boot:
            self._trees.ask_regrow(tree)
