"""Homes: what each other broker asks for on behalf of its sessions, and how that becomes known everywhere.

The broker where sessions are is their *home*. It has a set of what they ask for, and numbers its changes
(`Change`), which are passed on to every neighbour but the one that they came from. A broker takes a change
only behind the one before it, so a version (boot and number) says all there is to know of a set. When a link
begins anew, both sides say which versions they have (`Sets`) and ask for what they have not (`Fetch`): the
changes in between, or the whole set. A set of a later boot takes the place of the one before when it has come
as a whole, and not sooner.

What comes from outside is bounded. Of a home that asks for more than its share, or for what cannot be read,
more is taken to be wanted than it asks for, so that nothing is missed. Who is in reach is not known here
(`absence`), nor who must know of a change (`confirmations`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidings.errors import FilterError, SubscriptionError
from tidings.overlay.core import Core, Notice
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing.gone import Word
from tidings.overlay.routing.interest import EVERYTHING_AT_ALL, Interest
from tidings.overlay.routing.messages import FILTER, Change, Fetch, Has, Item, Sets
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.routing.table import Fields, Table
from tidings.overlay.trees.rolls import MEMBERS_MAX
from tidings.overlay.trees.trees import TreeEpoch, Trees

Version = tuple[int, int]
"""Of a set: boot of its home, and number of the last change."""

NONE: Version = (0, 0)
"""Of a home of which no set is here."""

CHANGES_KEPT = 64
"""Changes of a home that are kept for neighbours that have missed them, …"""

CHANGES_ITEMS = 1_000
"""… and items in them. Who has missed more gets the whole set."""

PART_ITEMS = 1_000
"""Items in one message; larger changes and whole sets take several, so that no frame is too long."""

ITEM_BYTES_MAX = 256 * 1024
"""Of one item: four times what the longest topic filter and the largest normal form take."""

HOMES_MAX = MEMBERS_MAX
"""Brokers of which sets are kept: more than there can be of one network."""


class SetChanged(Notice, frozen=True):
    """Another version of a home's set is here."""

    home: str


class HomeLearned(Notice, frozen=True):
    """Others hold something for a broker that may not be known here."""

    home: str
    boot: int
    absent_s: float


class Parts:
    """A change that comes in several messages."""

    def __init__(self, link: Link, first: Change) -> None:
        self.link = link
        self.generation = link.generation
        self.version = (first.boot, first.number)
        self.whole = first.whole
        self.added: list[Item] = []
        self.removed: list[int] = []


class Home:
    """What is known of one other broker's set."""

    __slots__ = (
        "catch_all",
        "changes",
        "doubled",
        "fetching",
        "interests",
        "misread",
        "name",
        "offers",
        "others",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = NONE
        """Up to which all of it is here."""
        self.interests: dict[int, Interest] = {}
        self.others: dict[int, Item] = {}
        """Items of kinds that are not understood here."""
        self.doubled: dict[Interest, int] = {}
        """Those that it has under more than one key."""
        self.changes: deque[tuple[Change, ...]] = deque()
        """The latest, each in its parts."""
        self.offers: dict[str, Version] = {}
        """By neighbour: what that one is known to have."""
        self.fetching: tuple[str, int] | None = None
        """The neighbour that was asked for it, and the generation of the link."""
        self.misread = 0
        """Items that were not understood, or are too many, for which everything is taken to be wanted."""
        self.catch_all = False
        """Whether it asks for more than is kept here: it gets everything."""

    @property
    def filters(self) -> int:
        """Subscriptions in its set, as far as they are kept here."""
        return len(self.interests)


class Homes:
    """The sets of all other brokers."""

    def __init__(
        self,
        core: Core,
        links: Links,
        own: OwnSet,
        trees: Trees,
        absent_s: Callable[[str], float],
        is_gone: Callable[[str, int], bool],
    ) -> None:
        """`absent_s`: how long something is held for a broker out of reach, -1 for one in reach.
        `is_gone`: whether a broker is gone for good since a boot.
        """
        self._core = core
        self._links = links
        self._own = own
        self._trees = trees
        self._absent_s = absent_s
        self._is_gone = is_gone
        self.homes: dict[str, Home] = {}
        self.table: Table[Interest, str] = Table(core.settings.topic_cache)
        """Which homes want what."""
        self.filters = 0
        """Subscriptions in all sets."""
        self.refused = 0
        """Items and sets that were not taken as they came."""
        self._own_changes: deque[tuple[Change, ...]] = deque()
        self._parts: dict[tuple[str, str], Parts] = {}
        """By neighbour and home."""

    def version(self, name: str) -> Version:
        """The version of a home's set that is here."""
        home = self.homes.get(name)
        return home.version if home is not None else NONE

    def has(self, name: str, version: Version) -> bool:
        """Whether a home's set is here, at least in this version."""
        return self.version(name) >= version

    def match(self, topic: str, fields: Callable[[], Fields | None]) -> dict[str, int]:
        """The homes that want a publication, with the highest quality of service that they ask for."""
        return self.table.match(topic, fields)

    @property
    def share(self) -> int:
        """How many subscriptions are kept of one home."""
        return max(1, self._core.settings.homes_filters_max // (len(self.homes) + 1))

    # What has changed here.

    def flush(self) -> None:
        """Tell all neighbours what has changed in this broker's own set."""
        taken = self._own.take()
        if taken is None:
            return
        core = self._core
        parts = tuple(_parts(core.id, (core.boot, self._own.number), *taken, whole=False))
        _keep(self._own_changes, parts)
        for link in self._links.up():
            self._send(link, parts)

    def _send(self, link: Link, parts: Iterable[Change]) -> None:
        for part in parts:
            self._links.send(link, part)

    # What neighbours have.

    def on_link_up(self, link: Link, gone: Iterable[Word]) -> None:
        """A new link session: say what is here, and who is gone for good."""
        own = Has(self._core.id, self._core.boot, self._own.number)
        self._links.send(link, Sets((own, *map(self._has, self.homes.values())), tuple(gone)))

    def _has(self, home: Home) -> Has:
        return Has(home.name, *home.version, self._absent_s(home.name))

    def on_link_down(self, link: Link) -> None:
        """What was asked for there will not come."""
        for key in [key for key in self._parts if key[0] == link.peer]:
            del self._parts[key]
        for home in self.homes.values():
            home.offers.pop(link.peer, None)
            if home.fetching is not None and home.fetching[0] == link.peer:
                home.fetching = None
                self._fetch(home)

    def on_sets(self, link: Link, message: Sets) -> None:
        for has in message.homes:
            if has.home == self._core.id or not _plausible(has.boot, has.number):
                continue
            if self._is_gone(has.home, has.boot):
                continue
            home = self.meet(has.home)
            if home is None:
                continue
            if has.absent_s >= 0:
                self._core.tell(HomeLearned(has.home, has.boot, has.absent_s))
            version = (has.boot, has.number)
            home.offers[link.peer] = version
            if home.fetching == (link.peer, link.generation) and version <= home.version:
                home.fetching = None  # it has lost what it was asked for
            if version > home.version and has.number == 0:
                self._replace(home, version, [])  # a home that has asked for nothing since it started
                self._announce(home, link)
            else:
                self._fetch(home)

    def _fetch(self, home: Home) -> None:
        """Ask a neighbour for what is not here, if nobody is being asked already."""
        if home.fetching is not None:
            return
        for peer in sorted(home.offers, key=lambda peer: (home.offers[peer], peer), reverse=True):
            link = self._links.get(peer)
            if home.offers[peer] <= home.version:
                return
            if link is not None:
                home.fetching = (peer, link.generation)
                self._links.send(link, Fetch(home.name, *home.version))
                return

    def on_fetch(self, link: Link, message: Fetch) -> None:
        core, known = self._core, (message.boot, message.number)
        if message.home == core.id:
            version, changes = (core.boot, self._own.number), self._own_changes
            items: Iterable[Item] = self._own.items.values()
        else:
            home = self.homes.get(message.home)
            if home is None or home.catch_all:
                self._links.send(link, Sets((Has(message.home, *NONE),)))
                return
            version, changes = home.version, home.changes
            items = _items(home)
        if known >= version:
            self._links.send(link, Sets((Has(message.home, *version, self._absent_s(message.home)),)))
            return
        missed = [parts for parts in changes if parts[0].number > known[1]]
        if known[0] == version[0] and len(missed) == version[1] - known[1]:
            for parts in missed:
                self._send(link, parts)
        else:
            self._send(link, _parts(message.home, version, tuple(items), (), whole=True))

    def _announce(self, home: Home, source: Link) -> None:
        """Let the other neighbours know of a set that has not come change by change."""
        has = self._has(home)
        for link in self._links.up():
            if link is not source and home.offers.get(link.peer, NONE) < home.version:
                self._links.send(link, Sets((has,)))

    # What has changed elsewhere.

    def on_change(self, link: Link, message: Change) -> None:
        if message.home == self._core.id:
            return  # it has gone round
        if not _plausible(message.boot, message.number):
            self._links.renounce(link, f"no set has the version {(message.boot, message.number)}")
            return
        if self._is_gone(message.home, message.boot):
            return
        home = self.meet(message.home)
        if home is None:
            return
        key, version = (link.peer, message.home), (message.boot, message.number)
        parts = self._parts.get(key)
        if parts is not None and (parts.version, parts.whole) != (version, message.whole):
            del self._parts[key]
            parts = None
        if message.more or parts is not None:
            if parts is None:
                parts = self._parts[key] = Parts(link, message)
            parts.added += message.added
            parts.removed += message.removed
            if len(parts.added) + len(parts.removed) > 2 * self._core.settings.homes_filters_max:
                self._links.renounce(link, "a change of a set that does not end")
                return
            if message.more:
                return
            del self._parts[key]
            added, removed = parts.added, parts.removed
        else:
            added, removed = list(message.added), list(message.removed)
        home.offers[link.peer] = max(version, home.offers.get(link.peer, NONE))
        self._take(home, link, version, added, removed, whole=message.whole)

    def _take(
        self,
        home: Home,
        link: Link,
        version: Version,
        added: list[Item],
        removed: list[int],
        *,
        whole: bool,
    ) -> None:
        """A change has come in all its parts."""
        asked = home.fetching == (link.peer, link.generation)
        if version <= home.version:
            if asked and home.offers[link.peer] <= home.version:
                home.fetching = None
            return
        if whole:
            home.changes.clear()
            self._replace(home, version, added)
            home.fetching = None
            self._announce(home, link)
        elif version[1] == 1 and version[0] > home.version[0]:
            # The first of a later boot: before it there was nothing.
            self._replace(home, version, added)
            self._pass_on(home, link, version, added, removed)
        elif version == (home.version[0], home.version[1] + 1):
            self._amend(home, version, added, removed)
            self._pass_on(home, link, version, added, removed)
        elif not asked:
            self._fetch(home)  # the one before it was missed
            return
        if home.fetching is not None and home.version >= home.offers.get(home.fetching[0], NONE):
            home.fetching = None
        self._fetch(home)

    def _pass_on(
        self, home: Home, source: Link, version: Version, added: list[Item], removed: list[int]
    ) -> None:
        parts = tuple(_parts(home.name, version, tuple(added), tuple(removed), whole=False))
        if version[1] == 1:
            home.changes.clear()
        _keep(home.changes, parts)
        for link in self._links.up():
            if link is not source and home.offers.get(link.peer, NONE) < version:
                self._send(link, parts)

    def meet(self, name: str) -> Home | None:
        """A home, which may not have been known."""
        home = self.homes.get(name)
        if home is None:
            if len(self.homes) >= HOMES_MAX:
                self.refused += 1
                return None
            home = self.homes[name] = Home(name)
        return home

    def on_ready(self, grown: TreeEpoch) -> None:
        """A new epoch: see whose set is not here as it was when they joined."""
        for name, member in grown.members.items():
            if name == self._core.id:
                continue
            version = (member.boot, member.number)
            home = self.meet(name)
            if home is not None and version > home.version and not member.number:
                self._replace(home, version, [])
            if home is None or home.version < version or home.version[0] > member.boot:
                # What is here of a later boot is not of this life: its folder was put back from a copy, or
                # it has died since it joined.
                grown.unknown[name] = grown.bits[name]
            if home is not None and home.version < version:
                # Who is on the way to it has its set or will have; it may have said so when nobody listened.
                toward = next(edge for edge in grown.ordered if edge.mask & grown.bits[name])
                home.offers.setdefault(toward.peer, version)
                self._fetch(home)

    # Taking a set over.

    def _replace(self, home: Home, version: Version, items: list[Item]) -> None:
        """A set has come as a whole."""
        self._clear(home)
        home.misread = 0
        for item in items:
            self._add(home, item)
        self._arrived(home, version)

    def _amend(self, home: Home, version: Version, added: list[Item], removed: list[int]) -> None:
        """A set has changed."""
        if not home.catch_all:
            for item in added:
                self._add(home, item)
            for key in removed:
                self._remove(home, key)
        self._arrived(home, version)

    def _arrived(self, home: Home, version: Version) -> None:
        home.version = version
        if not home.catch_all and self.filters > self._core.settings.homes_filters_max:
            if home.filters > self.share:
                self._catch_all(home)
        for tree in self._trees.trees.values():
            grown = tree.current
            if grown is not None and home.name in grown.unknown:
                if version >= _joined_with(grown, home.name):
                    del grown.unknown[home.name]
        self._core.tell(SetChanged(home.name))

    def _catch_all(self, home: Home) -> None:
        """A home asks for more than its share: it is sent everything, and its subscriptions are not kept."""
        self.refused += 1
        self._core.log(
            "warning",
            "a broker asks for more than is kept of it; it is sent everything",
            broker=home.name,
            subscriptions=home.filters,
            share=self.share,
        )
        home.misread = home.filters
        self._clear(home)
        home.changes.clear()
        home.catch_all = True
        self.table.add(EVERYTHING_AT_ALL, home.name)

    def _add(self, home: Home, item: Item) -> None:
        self._remove(home, item.key)
        if len(item.value) > ITEM_BYTES_MAX:
            item = Item(item.kind, item.key, b"")  # a filter without a value is not understood
            self.refused += item.kind != FILTER
        if item.kind != FILTER:
            home.others[item.key] = item
            return
        try:
            interest = Interest(item.value)
        except (FilterError, SubscriptionError) as error:
            # Of another release, perhaps. To send too much loses nothing.
            self.refused += 1
            home.misread += 1
            if home.misread == 1:
                self._core.log(
                    "warning", "a subscription of a broker is not understood", broker=home.name, reason=error
                )
            home.others[item.key] = item
            interest = EVERYTHING_AT_ALL
        home.interests[item.key] = interest
        self.filters += 1
        if not self.table.add(interest, home.name):
            home.doubled[interest] = home.doubled.get(interest, 0) + 1

    def _remove(self, home: Home, key: int) -> None:
        home.others.pop(key, None)
        interest = home.interests.pop(key, None)
        if interest is None:
            return
        self.filters -= 1
        more = home.doubled.pop(interest, 0)
        if more > 1:
            home.doubled[interest] = more - 1
        elif not more:
            self.table.remove(interest, home.name)

    def _clear(self, home: Home) -> None:
        """Keep nothing of a set."""
        held = dict.fromkeys(home.interests.values())
        for interest in held if not home.catch_all else [EVERYTHING_AT_ALL]:
            self.table.remove(interest, home.name)
        self.filters -= len(home.interests)
        home.interests, home.others, home.doubled, home.catch_all = {}, {}, {}, False

    def forget(self, name: str) -> None:
        """Nothing of a home is known any more."""
        home = self.homes.pop(name, None)
        if home is None:
            return
        self._clear(home)
        for key in [key for key in self._parts if key[1] == name]:
            del self._parts[key]


def _joined_with(grown: TreeEpoch, name: str) -> Version:
    """The version of a member's set when it said that it is in an epoch."""
    member = grown.members[name]
    return member.boot, member.number


def _parts(
    home: str, version: Version, added: tuple[Item, ...], removed: tuple[int, ...], *, whole: bool
) -> Iterable[Change]:
    """A change in messages that are not too long."""
    count = max(1, -(-len(added) // PART_ITEMS), -(-len(removed) // PART_ITEMS))
    for at in range(count):
        part = slice(at * PART_ITEMS, (at + 1) * PART_ITEMS)
        yield Change(home, *version, added[part], removed[part], whole, at + 1 < count)


def _items(home: Home) -> list[Item]:
    """A set as it came."""
    read = (
        Item(FILTER, key, interest.value)
        for key, interest in home.interests.items()
        if key not in home.others
    )
    return [*read, *home.others.values()]


def _keep(changes: deque[tuple[Change, ...]], parts: tuple[Change, ...]) -> None:
    """Remember a change for neighbours that may have missed it."""
    changes.append(parts)
    while len(changes) > CHANGES_KEPT or sum(len(p.added) for some in changes for p in some) > CHANGES_ITEMS:
        changes.popleft()


def _plausible(boot: int, number: int) -> bool:
    return 0 <= boot < 2**53 and 0 <= number < 2**53
