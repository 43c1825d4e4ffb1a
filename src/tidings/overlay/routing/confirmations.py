"""Confirmations: which changes of a home's set all members know.

Changes go round on all links, confirmations travel one tree, the first that undeclared topics share. Towards
each home a broker says the lowest version of its set that it and all behind it have (`Confirm`); so the home
hears what all have, in as many messages as the tree has links. In a new epoch all of it is said again, with
its members.

A broker confirms a version only when it is on its disk that it knows the home: after a restart it must know
for whom to hold what is published at it.

If a confirmation is late, the message names the brokers that are waited for, hop by hop. Names are said again
when they change, so that the home soon knows the broker that does not confirm, however far away, and no
longer those that have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence

from tidings.language.ids import fault
from tidings.overlay.core import Core
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing.changes import NONE, Version
from tidings.overlay.routing.homes import HOMES_MAX, Homes
from tidings.overlay.routing.messages import Confirm
from tidings.overlay.timers import Timer
from tidings.overlay.trees.trees import Edge, Tree, TreeEpoch, Trees

NAMED_MAX = 16
"""Brokers that are named as late; more are counted."""

LATE_SHARE = 2
"""What takes longer than the time to settle divided by this is named."""


class Confirmations:
    """What is confirmed by whom, on the tree that confirmations travel."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        homes: Homes,
        own_number: Callable[[], int],
        is_met: Callable[[str], bool],
        on_confirmed: Callable[[], None],
    ) -> None:
        """`own_number`: of the latest change of this broker's set. `is_met`: whether a home is known on disk.
        `on_confirmed`: others may know more of this broker's set by now.
        """
        self._core = core
        self._links = links
        self._trees = trees
        self._homes = homes
        self._own_number = own_number
        self._is_met = is_met
        self._on_confirmed = on_confirmed
        self._changed: dict[str, None] = {}
        """Homes of which more may be confirmed by now."""
        self._watched: deque[tuple[float, str, Version]] = deque(maxlen=2 * HOMES_MAX)
        """Until when it is waited for versions of sets before anybody is named, the soonest first."""
        self._overdue: dict[str, Version] = {}
        """By home: the latest version that takes too long."""
        self._late_changed = False
        """Whether others are named than before, or more is overdue."""

    @property
    def _travelled(self) -> TreeEpoch | None:
        """The epoch that confirmations travel."""
        share = self._trees.share
        tree = self._trees.serving(share[0]) if share else None
        return tree.current if tree is not None else None

    @property
    def grown(self) -> TreeEpoch | None:
        """The same; None while no tree can be relied on, since one is changing."""
        if any(it.growing is not None for it in self._trees.trees.values()):
            return None
        return self._travelled

    def confirmed(self) -> int:
        """The latest change of this broker's set that all members of all trees have; -1 if none is sure."""
        grown, core = self.grown, self._core
        if grown is None:
            return -1
        for tree in self._trees.trees.values():
            if tree.current is not None and not tree.current.members.keys() <= grown.members.keys():
                return -1
        known = [edge.confirmed.get(core.id, NONE) if edge.alive else NONE for edge in grown.edges.values()]
        boot, number = _least([(core.boot, self._own_number()), *known])
        return number if boot else -1

    def said(self, home: str) -> int:
        """The number of a home's set that this broker has confirmed with all behind it; -1 for none."""
        grown = self.grown
        toward = _toward(grown, home) if grown is not None else None
        boot, number = toward.said.get(home, NONE) if toward is not None else NONE
        return number if boot else -1

    def late(self, number: int) -> list[str]:
        """Who has not confirmed a change of this broker's set, as far as is known."""
        tree = self._trees.trees.get(self._trees.share[0]) if self._trees.share else None
        grown = tree.current if tree is not None else None
        found: dict[str, None] = {}
        for other in self._trees.trees.values():
            if other.growing is not None:
                # Nothing is sure before the new epoch is ready.
                found |= dict.fromkeys(other.growing.awaited)
                found |= {edge.peer: None for edge in other.growing.edges.values() if edge.members is None}
        for edge in grown.edges.values() if grown is not None else ():
            boot, known = edge.confirmed.get(self._core.id, NONE)
            if boot != self._core.boot or known < number:
                found |= dict.fromkeys(edge.late or (edge.peer,))
        return sorted(found)

    # What others have.

    def on_confirm(self, link: Link, message: Confirm) -> None:
        tree = self._trees.trees.get(message.root)
        for grown in (tree.current, tree.growing) if tree is not None else ():
            if grown is None or grown.epoch != message.epoch:
                continue
            edge = grown.edges.get(link.peer)
            if edge is None or not edge.alive:
                return
            late = message.late[:NAMED_MAX]
            if reason := fault((*late, *(home for home, _, _ in message.homes))):
                self._links.renounce(link, reason)
                return
            self._late_changed |= late != edge.late
            edge.late = late
            for home, boot, number in message.homes:
                if home not in edge.confirmed and len(edge.confirmed) >= HOMES_MAX:
                    continue  # no network has so many brokers
                if (boot, number) > edge.confirmed.get(home, NONE):
                    edge.confirmed[home] = (boot, number)
                    self._changed[home] = None

    def on_set(self, home: str) -> None:
        """A home's set here is another, or it is on disk that it is known."""
        self._changed[home] = None
        self._watch(home)

    def on_ready(self, tree: Tree) -> None:
        """A new epoch of a tree."""
        if self._trees.share and tree.root == self._trees.share[0] and tree.current is not None:
            self._changed |= dict.fromkeys(tree.current.members)
            self._watched.clear()
            self._overdue = {}
            for home in tree.current.members:
                self._watch(home)
        else:
            self._changed[self._core.id] = None

    def on_share(self) -> None:
        """Confirmations may travel another tree."""
        tree = self._trees.serving(self._trees.share[0]) if self._trees.share else None
        if tree is not None:
            self.on_ready(tree)

    def flush(self) -> None:
        """Say towards each home what all on this side have of its set by now, and who takes long."""
        if not self._changed and not self._late_changed:
            return
        changed, self._changed = self._changed, {}
        grown = self._travelled
        if grown is not None:
            said: dict[str, list[tuple[str, int, int]]] = {}
            for home in changed:
                self._say(grown, home, said)
            for peer in self._name(grown, changed):
                said.setdefault(peer, [])
            for peer, homes in said.items():
                edge = grown.edges[peer]
                self._links.send(edge.link, Confirm(grown.root, grown.epoch, tuple(homes), edge.named))
        if self._core.id in changed:
            self._on_confirmed()

    def _say(self, grown: TreeEpoch, home: str, said: dict[str, list[tuple[str, int, int]]]) -> None:
        toward = _toward(grown, home)
        if toward is None or not toward.alive:
            return
        known = self._known(grown, home, toward)
        if known > toward.said.get(home, NONE):
            toward.said[home] = known
            said.setdefault(toward.peer, []).append((home, *known))

    def _known(self, grown: TreeEpoch, home: str, toward: Edge) -> Version:
        """The version of a home's set that this broker and all behind it have."""
        here = self._homes.version(home) if self._is_met(home) else NONE
        others = [edge.confirmed.get(home, NONE) for edge in grown.edges.values() if edge is not toward]
        return _least([here, *others])

    # Who takes long.

    def _watch(self, home: str) -> None:
        """See later whether all behind this broker have what is here of a home's set."""
        core, timers = self._core, self._core.timers
        due = core.now + core.settings.settle_s / LATE_SHARE
        if home != core.id:
            self._watched.append((due, home, self._homes.version(home)))
            if not timers.is_set(Timer.CONFIRM, None):
                timers.set(Timer.CONFIRM, None, due)

    def on_late(self, _about: object) -> None:
        """Those who still have not what has been here for a while are to be named."""
        watched = self._watched
        while watched and watched[0][0] <= self._core.now:
            _, home, version = watched.popleft()
            self._overdue[home] = version
            self._late_changed = True
        if watched:
            self._core.timers.set(Timer.CONFIRM, None, watched[0][0])

    def _name(self, grown: TreeEpoch, changed: Container[str]) -> list[str]:
        """Find out who is to be named to each neighbour; those to whom it has not been said."""
        if not self._late_changed and not any(home in changed for home in self._overdue):
            return []
        self._late_changed = False
        late: dict[str, dict[str, None]] = {peer: {} for peer in grown.edges}
        for home, version in list(self._overdue.items()):
            toward = _toward(grown, home)
            if toward is None or toward.said.get(home, NONE) >= version:
                del self._overdue[home]
                continue
            if not self._is_met(home):
                late[toward.peer][self._core.id] = None
            for edge in grown.edges.values():
                if edge is not toward and edge.confirmed.get(home, NONE) < version:
                    late[toward.peer] |= dict.fromkeys(edge.late or (edge.peer,))
        unsaid = []
        for edge in grown.ordered:
            named = tuple(sorted(late[edge.peer])[:NAMED_MAX])
            if edge.alive and named != edge.named:
                edge.named = named
                unsaid.append(edge.peer)
        return unsaid


def _toward(grown: TreeEpoch, home: str) -> Edge | None:
    """The link of a tree behind which a home is."""
    bit = grown.bits.get(home, 0)
    return next((edge for edge in grown.ordered if edge.mask & bit), None)


def _least(versions: Sequence[Version]) -> Version:
    """What all have of a set; nothing while they have sets of different boots."""
    least = min(versions)
    return least if least[0] == max(versions)[0] else NONE
