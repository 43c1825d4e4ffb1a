"""Routing trees: the shortest-path tree of each root, grown and repaired by neighbour messages only.

Two layers. *Distances* say how far each neighbour is from a root. They are a distance vector with series
numbers from the root and the feasibility condition of DUAL and Babel (RFC 8966, section 2.4): within a series
a broker follows only neighbours that are nearer than it has ever been, so no loop can form, and whoever has
lost its way asks the root for a new series instead of counting to infinity.

*Epochs* are what publications travel. The root starts one; a broker is in it once its neighbour on the
shortest way is, as that neighbour's child (`Join`), and offers it to all others (`Grow`). Over each link just
one of the two goes in each direction, so every broker knows its children when all neighbours have answered.
Then who is behind each link (`Roll`, see `rolls`) travels from the leaves inwards and out again; a broker
with all of them is *ready*. Within an epoch the tree and its members never change, and that is what lets a
broker say "everyone behind me has it". When a link of it is lost, or a shorter way is known, the root is
asked for the next (`Regrow`); the old one serves until the new one is ready. What anybody asks for is not
known here.

Ties go to the smaller id. Ids compare as Python strings, which is the order of their UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from tidings.overlay.core import Core
from tidings.overlay.links.links import Link, Links
from tidings.overlay.timers import Timer
from tidings.overlay.trees.messages import Distance, Epoch, Grow, Join, Regrow, Seek


class Member(NamedTuple):
    """A broker in an epoch."""

    boot: int
    incarnation: int

    number: int
    """Of its set of subscriptions, when it said that it is in the epoch."""


NO_EPOCH: Epoch = (0, 0)
"""Older than any."""

ASK_AGAIN_S = 1.0
"""A request towards a root is repeated after so long: the way it took may have broken."""

CALM_AFTER_S = 5.0
"""A root that was not asked for so long answers the next request quickly."""


class Edge:
    """A link of a tree in one epoch, seen from one end."""

    def __init__(self, link: Link) -> None:
        self.peer = link.peer
        self.link = link
        self.generation = link.generation
        self.members: dict[str, Member] | None = None
        """Who is behind it."""
        self.mask = 0
        """The same as bits of the epoch's members, once it is ready."""
        self.declared = UNLIKE
        """See `Roll.declared`."""
        self.roll_sent = False
        # Which sets of subscriptions are known: by home, the boot and number.
        self.confirmed: dict[str, tuple[int, int]] = {}
        """By all behind it."""
        self.said: dict[str, tuple[int, int]] = {}
        """By all on this side, as it was told."""
        self.late: tuple[str, ...] = ()
        """Those behind it that are waited for, as far as it has named them."""
        self.named: tuple[str, ...] = ()
        """Those on this side that are waited for, as it was told."""
        # Publications.
        self.last_out: dict[tuple[str, int, str], int] = {}
        self.last_in: dict[tuple[str, int, str], int] = {}

    @property
    def alive(self) -> bool:
        return self.link.generation == self.generation


class TreeEpoch:
    """A tree in one epoch, as one broker knows it."""

    def __init__(
        self,
        root: str,
        epoch: Epoch,
        share: tuple[str, ...],
        parent: str | None,
        rooted: tuple[str, ...],
    ) -> None:
        self.root = root
        self.epoch = epoch
        self.share = share
        self.parent = parent
        self.rooted = rooted
        """Topic filters of declarations that name this root, as this broker knew them when it joined."""
        self.agreed = False
        """Whether all members knew of the same ones."""
        self.awaited: dict[str, int] = {}
        """Neighbours that have not answered yet, and the generation of their link."""
        self.told: dict[str, int] = {}
        """Neighbours that know that this broker is in it, and the generation of their link."""
        self.edges: dict[str, Edge] = {}
        self.ready = False
        self.members: dict[str, Member] = {}
        """In order of their ids, once it is ready."""
        self.bits: dict[str, int] = {}
        """By member: the bit by which it is named in sets of members. All members give it the same one."""
        self._named: dict[int, tuple[str, ...]] = {}
        """By bits: the members that have them."""
        self.ordered: list[Edge] = []
        """Its links in order of their neighbours, once it is ready."""
        self.unknown: dict[str, int] = {}
        """Members whose set of subscriptions is not here as it was when they joined, with their bits.
        Anything may be for them."""
        self.seen: dict[tuple[str, int, str], int] = {}
        """The highest number forwarded, by origin, incarnation and stream."""

    @property
    def children(self) -> list[str]:
        return sorted(peer for peer in self.edges if peer != self.parent)

    def settle(self, own: str, member: Member) -> None:
        """All members are known: number them."""
        members: dict[str, Member] = {}
        for edge in self.edges.values():
            members |= edge.members or {}
        members[own] = member
        self.members = {name: members[name] for name in sorted(members)}
        self.bits = {name: 1 << at for at, name in enumerate(self.members)}
        for edge in self.edges.values():
            edge.mask = self.mask_of(edge.members or ()) & ~self.bits[own]
        self.ordered = [self.edges[peer] for peer in sorted(self.edges)]
        self.ready = True

    def mask_of(self, names: Iterable[str]) -> int:
        """Members as bits; others have none."""
        bits = self.bits
        mask = 0
        for name in names:
            mask |= bits.get(name, 0)
        return mask

    def names_of(self, mask: int) -> tuple[str, ...]:
        """The members with these bits, in order."""
        if not mask:
            return ()
        if mask not in self._named:
            if len(self._named) >= NAMED_MAX:
                del self._named[next(iter(self._named))]
            self._named[mask] = tuple(name for name, bit in self.bits.items() if mask & bit)
        return self._named[mask]


class Tree:
    """One root, as one broker knows it."""

    def __init__(self, root: str) -> None:
        self.root = root
        # Distances.
        self.series: Epoch = NO_EPOCH
        self.hops = -1
        self.via: str | None = None
        self.best: tuple[Epoch, int] | None = None
        """The feasible distance: the nearest that this broker has said it was in the latest series."""
        self.heard: dict[str, tuple[Epoch, int]] = {}
        self.said: tuple[Epoch, int] | None = None
        self.sought: dict[str, tuple[Epoch, float]] = {}
        # Epochs.
        self.current: TreeEpoch | None = None
        self.past: TreeEpoch | None = None
        """The one that was current before: what is still on its way in it may be for sessions here."""
        self.growing: TreeEpoch | None = None
        self.joined: Epoch = NO_EPOCH
        """The newest epoch that this broker has ever joined: none is joined twice."""
        self.offers: dict[str, tuple[Epoch, tuple[str, ...]]] = {}
        self.asked: tuple[Epoch, str, float] | None = None
        self.count = 0
        """Of epochs, at the root itself."""
        self.wait_s = 0.0
        self.grown_at = -CALM_AFTER_S
        self.beyond: Epoch = NO_EPOCH
        """The newest epoch that others remember, at the root itself."""

    @property
    def newest(self) -> TreeEpoch | None:
        """The epoch that was joined last, ready or not."""
        return self.growing or self.current


class Trees:
    """All trees of a broker."""

    def __init__(
        self,
        core: Core,
        links: Links,
        on_joined: Callable[[Tree, TreeEpoch], None],
        on_dropped: Callable[[Tree], None],
        on_share: Callable[[], None],
    ) -> None:
        self._core = core
        self._links = links
        self._on_joined = on_joined
        self._on_dropped = on_dropped
        self._on_share = on_share
        self.trees: dict[str, Tree] = {}
        self.share: tuple[str, ...] = ()
        """The smallest reachable ids, whose trees undeclared topics use."""
        self.declared: dict[str, tuple[str, ...]] = {}
        """By root: the topic filters of declarations that name it, sorted."""

    def start(self) -> None:
        self._choose_share()
        if self._core.id in self.declared:
            self._be_root()

    def declare(self, root: str, rooted: tuple[str, ...]) -> None:
        """The topic filters of declarations that name a root have changed.

        An epoch knows of those that its members knew when they joined it, so there must be another.
        """
        before = root in self.declared
        if rooted:
            self.declared[root] = rooted
        else:
            self.declared.pop(root, None)
        if not self.share:
            return  # not started
        tree = self.trees.get(root)
        if root == self._core.id:
            if rooted:
                self._be_root()
            elif before and root not in self.share and tree is not None:
                self._drop(tree)
        elif tree is not None:
            self._tell_distance(tree)
            if root not in self.share and not rooted:
                self._drop_epochs(tree)
            elif tree.hops < 0:
                self._seek(tree)
        if tree is not None:
            self._look_after(tree)
        self._on_share()

    # Distances.

    def on_link_up(self, link: Link) -> None:
        """A new link: say how far this broker is from each root it knows."""
        for root in sorted(self.trees):
            tree = self.trees[root]
            if tree.said is not None and tree.said[1] >= 0:
                self._links.send(link, Distance(root, *tree.said))
        self._look_after_all()

    def on_link_down(self, link: Link) -> None:
        for root in sorted(self.trees):
            tree = self.trees[root]
            tree.offers.pop(link.peer, None)
            tree.sought.pop(link.peer, None)
            if tree.heard.pop(link.peer, None) is not None:
                self._choose(tree)
        self._choose_share()
        self._look_after_all()

    def on_distance(self, link: Link, message: Distance) -> None:
        core = self._core
        root = message.root
        if not _plausible(message.series):
            self._links.renounce(link, f"no series of a root is {message.series}")
            return
        tree = self.trees.get(root)
        if root == core.id:
            if tree is not None and message.series > tree.series:
                # Somebody remembers a series from before this broker lost its memory: go beyond it.
                self._new_series(tree, message.series)
            return
        if tree is None:
            if message.hops < 0:
                return
            tree = self._meet(link, root)
            if tree is None:
                return
        if message.hops < 0:
            tree.heard.pop(link.peer, None)
        else:
            tree.heard[link.peer] = (message.series, message.hops)
        self._choose(tree)
        self._choose_share()
        self._look_after(tree)

    def _meet(self, link: Link, root: str) -> Tree | None:
        """A root of which nothing was known here; None if too many are named."""
        if len(self.trees) >= 2 * ROOTS_REMEMBERED_MAX:
            self._links.renounce(link, f"more than {2 * ROOTS_REMEMBERED_MAX} roots are named")
            return None
        tree = self.trees[root] = Tree(root)
        return tree

    def _choose(self, tree: Tree) -> None:
        """Find the neighbour on the shortest way."""
        if tree.root == self._core.id:
            return
        best = tree.best
        found: tuple[Epoch, int, str] | None = None
        for peer, (series, hops) in tree.heard.items():
            if best is not None and not (series > best[0] or (series == best[0] and hops < best[1])):
                continue
            if (
                found is None
                or series > found[0]
                or (series == found[0] and (hops < found[1] or (hops == found[1] and peer < found[2])))
            ):
                found = (series, hops, peer)
        if found is None:
            tree.hops, tree.via = -1, None
        else:
            tree.series, tree.hops, tree.via = found[0], found[1] + 1, found[2]
        self._tell_distance(tree)
        if found is None:
            self._seek(tree)
            if not self._would_need(tree.root):
                self._drop_epochs(tree)
            elif not self._core.timers.is_set(Timer.ROOT, tree.root):
                # Its neighbours may be asking for it; its topics move only after a while.
                due = self._core.now + self._core.settings.resume_within_s
                self._core.timers.set(Timer.ROOT, tree.root, due)
        elif tree.via is not None:
            offer = tree.offers.get(tree.via)
            if offer is not None and offer[0] > tree.joined:
                self._join(tree, offer[0], offer[1], tree.via)

    def _tell_distance(self, tree: Tree) -> None:
        """Tell all neighbours, if it is a root that anybody needs and the distance is new."""
        needed = tree.root in self.share or tree.root in self.declared
        say = (tree.series, tree.hops if needed else -1)
        if say == tree.said or (tree.said is None and say[1] < 0):
            return
        tree.said = say
        if say[1] >= 0 and (
            tree.best is None or say[0] > tree.best[0] or (say[0] == tree.best[0] and say[1] < tree.best[1])
        ):
            tree.best = say
        for link in self._links.up():
            self._links.send(link, Distance(tree.root, *say))

    def _seek(self, tree: Tree) -> None:
        """Ask for a new series, if there are neighbours that know a way which this one must not follow."""
        if tree.best is None or not self._would_need(tree.root):
            return
        for peer in sorted(tree.heard):
            link = self._links.get(peer)
            before = tree.sought.get(peer)
            again = before is None or before[0] < tree.best[0] or self._core.now - before[1] >= ASK_AGAIN_S
            if link is not None and again:
                tree.sought[peer] = (tree.best[0], self._core.now)
                self._links.send(link, Seek(tree.root, tree.best[0]))

    def on_seek(self, link: Link, message: Seek) -> None:
        if not _plausible(message.series):
            self._links.renounce(link, f"no series of a root is {message.series}")
            return
        tree = self.trees.get(message.root)
        if tree is None:
            return
        if tree.root == self._core.id:
            if message.series >= tree.series:
                self._new_series(tree, message.series)
            return
        if tree.said is not None and tree.said[1] >= 0 and tree.series > message.series:
            self._links.send(link, Distance(tree.root, *tree.said))
            return
        via = self._links.get(tree.via) if tree.via is not None else None
        if via is not None and via is not link:
            before = tree.sought.get(via.peer)
            if before is None or before[0] < message.series or self._core.now - before[1] >= ASK_AGAIN_S / 2:
                tree.sought[via.peer] = (message.series, self._core.now)
                self._links.send(via, message)

    def _new_series(self, tree: Tree, beyond: Epoch) -> None:
        core = self._core
        boot, count = max(beyond, tree.series)
        # A series of a later boot than this one's can only be left behind by counting on in it.
        tree.series = (boot, count + 1) if boot > core.boot else max((core.boot, 1), (boot, count + 1))
        self._tell_distance(tree)

    # Which roots.

    def _choose_share(self) -> None:
        """The smallest ids within reach, this broker's own included."""
        core = self._core
        reach = {root for root, tree in self.trees.items() if tree.hops >= 0} | {core.id}
        reach |= {root for root in self.share if core.timers.is_set(Timer.ROOT, root)}
        share = tuple(sorted(reach)[: core.settings.trees])
        if share == self.share:
            return
        before, self.share = self.share, share
        if core.id in share:
            self._be_root()
        elif core.id in before and core.id not in self.declared:
            self._drop(self.trees[core.id])
        for root in sorted({*before, *share}):
            tree = self.trees.get(root)
            if tree is None or root == core.id:
                continue
            self._tell_distance(tree)
            if root not in share and root not in self.declared:
                self._drop_epochs(tree)
        own = self.trees.get(core.id)
        if own is not None:
            self._want_growth(own)
        self._on_share()

    def on_root_late(self, root: str) -> None:
        tree = self.trees.get(root)
        if tree is None or tree.hops >= 0:
            return
        self._choose_share()
        self._drop_epochs(tree)
        self._look_after_all()

    def _would_need(self, root: str) -> bool:
        if root in self.declared or root in self.share:
            return True
        return len(self.share) < self._core.settings.trees or root < self.share[-1]

    def _be_root(self) -> None:
        core = self._core
        tree = self.trees.get(core.id)
        if tree is None:
            tree = self.trees[core.id] = Tree(core.id)
        if tree.hops < 0:
            tree.hops = 0
            self._new_series(tree, tree.series)
            self._want_growth(tree)

    def _drop(self, tree: Tree) -> None:
        """This broker is a root no more."""
        tree.hops = -1
        self._tell_distance(tree)
        self._core.timers.cancel(Timer.REGROW, tree.root)
        self._drop_epochs(tree)

    def _drop_epochs(self, tree: Tree) -> None:
        had = tree.current is not None
        tree.current = tree.growing = None
        tree.asked = None
        if had:
            self._on_dropped(tree)

    # Epochs.

    def _look_after_all(self) -> None:
        for root in sorted(self.trees):
            self._look_after(self.trees[root])

    def _look_after(self, tree: Tree) -> None:
        """Ask for a new epoch, if the newest is not what it should be."""
        core = self._core
        if tree.hops < 0 or not (tree.root in self.share or tree.root in self.declared):
            return
        grown = tree.newest
        if grown is not None and self._sound(tree, grown):
            return
        if tree.root == core.id:
            self._want_growth(tree)
            return
        via = self._links.get(tree.via) if tree.via is not None else None
        if via is None:
            return
        epoch = tree.joined
        if (
            tree.asked is None
            or tree.asked[:2] != (epoch, via.peer)
            or core.now - tree.asked[2] >= ASK_AGAIN_S
        ):
            tree.asked = (epoch, via.peer, core.now)
            self._links.send(via, Regrow(tree.root, epoch))

    def _sound(self, tree: Tree, grown: TreeEpoch) -> bool:
        if grown.parent != tree.via or grown.rooted != self.declared.get(tree.root, ()):
            return False
        if any(not edge.alive for edge in grown.edges.values()):
            return False
        links = self._links.links
        return all(
            peer in links and links[peer].generation == generation
            for peer, generation in grown.awaited.items()
        )

    def ask_regrow(self, tree: Tree) -> None:
        """The current epoch cannot be trusted."""
        if tree.root == self._core.id:
            self._want_growth(tree)
            return
        via = self._links.get(tree.via) if tree.via is not None else None
        if via is not None:
            self._links.send(via, Regrow(tree.root, tree.joined))

    def on_regrow(self, link: Link, message: Regrow) -> None:
        core = self._core
        if not _plausible(message.epoch):
            self._links.renounce(link, f"no epoch of a tree is {message.epoch}")
            return
        tree = self.trees.get(message.root)
        if tree is None or tree.hops < 0:
            return
        grown = tree.newest
        epoch = message.epoch
        if grown is not None and epoch < grown.epoch:
            edge = grown.edges.get(link.peer)
            if link.peer in grown.awaited or (edge is not None and edge.alive):
                return  # the newer epoch is on its way to who asks
            if link.peer == grown.parent:
                return
            epoch = grown.epoch  # who asks is not in it
        if tree.root == core.id:
            if epoch >= tree.joined:
                tree.beyond = max(tree.beyond, epoch)
                self._want_growth(tree)
            return
        via = self._links.get(tree.via) if tree.via is not None else None
        if via is None or via is link:
            return
        if (
            tree.asked is None
            or tree.asked[:2] != (epoch, via.peer)
            or core.now - tree.asked[2] >= ASK_AGAIN_S / 2
        ):
            tree.asked = (epoch, via.peer, core.now)
            self._links.send(via, Regrow(tree.root, epoch))

    def _want_growth(self, tree: Tree) -> None:
        """The root starts a new epoch soon: requests come in groups."""
        core = self._core
        if core.timers.is_set(Timer.REGROW, tree.root):
            return
        settings = core.settings
        if tree.count == 0:
            tree.wait_s = 0.0
        elif core.now - tree.grown_at > CALM_AFTER_S:
            tree.wait_s = settings.regrow_min_s
        else:
            tree.wait_s = min(max(tree.wait_s * 2, settings.regrow_min_s), settings.regrow_max_s)
        core.timers.set(Timer.REGROW, tree.root, core.now + tree.wait_s)

    def on_regrow_due(self, root: str) -> None:
        core = self._core
        tree = self.trees.get(root)
        if tree is None or tree.hops < 0:
            return
        tree.count += 1
        tree.grown_at = core.now
        share = self.share if core.id in self.share else ()
        epoch = max((core.boot, tree.count), (tree.beyond[0], tree.beyond[1] + 1))
        tree.count = max(tree.count, epoch[1])
        self._join(tree, epoch, share, None)

    def _join(self, tree: Tree, epoch: Epoch, share: tuple[str, ...], parent: str | None) -> None:
        """Be in a new epoch, and offer it to all other neighbours."""
        rooted = self.declared.get(tree.root, ())
        grown = TreeEpoch(tree.root, epoch, share, parent, rooted)
        tree.growing = grown
        tree.joined = epoch
        tree.asked = None
        for link in self._links.up():
            grown.told[link.peer] = link.generation
            if link.peer == parent:
                self._links.send(link, Join(tree.root, epoch))
                grown.edges[link.peer] = Edge(link)
                continue
            self._links.send(link, Grow(tree.root, epoch, share))
            offer = tree.offers.get(link.peer)
            if offer is None or offer[0] != epoch:
                grown.awaited[link.peer] = link.generation
        if not grown.awaited:
            self._on_joined(tree, grown)

    def on_grow(self, link: Link, message: Grow) -> None:
        if not _plausible(message.epoch):
            self._links.renounce(link, f"no epoch of a tree is {message.epoch}")
            return
        tree = self.trees.get(message.root)
        if tree is None and message.root != self._core.id:
            # A neighbour that does not need this root yet says nothing of its distance, and may already be in
            # an epoch of it. It offers that once, and waits for the answer.
            tree = self._meet(link, message.root)
        if tree is None:
            return
        tree.offers[link.peer] = (message.epoch, message.share)
        if message.epoch > tree.joined:
            if link.peer == tree.via:
                self._join(tree, message.epoch, message.share, link.peer)
            return
        grown = tree.newest
        if (
            grown is not None
            and grown.epoch == message.epoch
            and grown.told.get(link.peer) != link.generation
        ):
            # The link came up after this broker had joined, and before the neighbour did: it waits for us.
            grown.told[link.peer] = link.generation
            self._links.send(link, Grow(tree.root, grown.epoch, grown.share))
        self._answered(tree, link, message.epoch, child=False)

    def on_join(self, link: Link, message: Join) -> None:
        tree = self.trees.get(message.root)
        if tree is not None:
            self._answered(tree, link, message.epoch, child=True)

    def _answered(self, tree: Tree, link: Link, epoch: Epoch, *, child: bool) -> None:
        grown = tree.growing
        if grown is None or grown.epoch != epoch or link.peer not in grown.awaited:
            return
        if grown.awaited.pop(link.peer) != link.generation:
            return
        if child:
            grown.edges[link.peer] = Edge(link)
        if not grown.awaited:
            self._on_joined(tree, grown)

    def tick(self) -> None:
        """Ask again for what has not come."""
        for root in sorted(self.trees):
            tree = self.trees[root]
            if tree.hops < 0 and root != self._core.id:
                self._seek(tree)
        self._look_after_all()
        self._forget()

    def _forget(self) -> None:
        """Roots that nobody speaks of any more need no memory, except of how near one has been to them."""
        gone = [
            root
            for root, tree in self.trees.items()
            if root != self._core.id
            and not tree.heard
            and tree.current is None
            and tree.growing is None
            and root not in self.share
        ]
        for root in gone[: max(0, len(gone) - ROOTS_REMEMBERED_MAX)]:
            del self.trees[root]

    # Which tree a topic uses.

    def serving(self, root: str) -> Tree | None:
        """The tree of a root, if publications can travel it."""
        tree = self.trees.get(root)
        return tree if tree is not None and tree.current is not None else None

    def agreed(self, root: str, topic_filter: str) -> bool:
        """Whether the topics of a declaration can travel the tree of the root that it names.

        They can where all members know of it: they have then asked on this tree for what they want of them.
        """
        tree = self.trees.get(root)
        grown = tree.current if tree is not None else None
        return (
            grown is not None
            and grown.agreed
            and topic_filter in grown.rooted
            and topic_filter in self.declared.get(root, ())
        )


UNLIKE = -1
"""In place of a digest: those who should know the same do not, or have not said."""


def digest(rooted: tuple[str, ...]) -> int:
    """What tells lists of topic filters apart; 0 for none."""
    if not rooted:
        return 0
    told = hashlib.blake2b("\0".join(rooted).encode(), digest_size=6).digest()
    return 1 + int.from_bytes(told, "big")


NAMED_MAX = 1024
"""Sets of members whose names are remembered in an epoch: what is kept for the same ones has them once."""

ROOTS_REMEMBERED_MAX = 1024
"""Roots out of reach whose feasible distance is remembered."""


def _plausible(epoch: Epoch) -> bool:
    """Whether an epoch can be counted on from: a root that hears of one goes beyond it."""
    return all(0 <= part < 2**53 for part in epoch)


LANES = 32
"""Groups of topics that move between trees together; several times the most trees there can be."""


@lru_cache(maxsize=4096)
def lane_of(first_level: str) -> int:
    """The group that topics with this first level belong to."""
    return crc32(first_level.encode()) % LANES


@lru_cache(maxsize=4096)
def pick(first_level: str, roots: tuple[str, ...]) -> str:
    """The root whose tree the topics with this first level use: rendezvous hashing of their lane.

    >>> pick("traffic", ("a",))
    'a'
    """
    if len(roots) == 1:
        return roots[0]
    lane = lane_of(first_level)
    return max(roots, key=lambda root: hashlib.blake2b(f"{root}\0{lane}".encode(), digest_size=16).digest())
