"""Homes: what each other broker asks for on behalf of its sessions, and how that becomes known everywhere.

The broker where sessions are is their *home*. It has a set of what they ask for, and numbers its changes
(`Change`), which are passed on to every neighbour but the one that they came from. A broker takes a change
only behind the one before it, so a version (boot and number) says all there is to know of a set. When a link
begins anew, both sides say which versions they have (`Sets`) and ask for what they have not (`Fetch`): the
changes in between, or the whole set. A set of a later boot takes the place of the one before when it has come
as a whole, and not sooner.

What comes from outside is bounded. Of a home that asks for more than its share, or for what cannot be read,
more is taken to be wanted than it asks for, so that nothing is missed. The items of a set that is too large
are *omitted*: they are counted, its home is sent everything, and its changes are passed on and count as
known. Neighbours that have it from nobody else are told so, and do the same. The set is fetched again as soon
as it would fit. Who is in reach is not known here (`absence`), nor who must know of a change
(`confirmations`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidings.errors import FilterError, SubscriptionError
from tidings.overlay.core import Core, Notice
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing.changes import NONE, Latest, Parts, Version, parts_of
from tidings.overlay.routing.gone import Word
from tidings.overlay.routing.interest import EVERYTHING_AT_ALL, Interest
from tidings.overlay.routing.messages import FILTER, Change, Fetch, Has, Item, Sets
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.routing.table import Table
from tidings.overlay.trees.rolls import MEMBERS_MAX
from tidings.overlay.trees.trees import TreeEpoch, Trees

HOMES_MAX = MEMBERS_MAX
"""Brokers of which sets are kept: more than there can be of one network, …"""

HEARD_MAX = 4_096
"""… and brokers of which neighbours say that there is a set, and nothing has come yet."""

OMITTED_MAX = 2**53
"""Items that a neighbour may say a set has besides: beyond any that there can be."""

FETCH_AGAIN_S = 10.0
"""When a neighbour is asked again that has not answered, or not gone on with its answer."""


class SetChanged(Notice, frozen=True):
    """Another version of a home's set is here."""

    home: str


class HomeLearned(Notice, frozen=True):
    """Others hold something for a broker that may not be known here."""

    home: str
    boot: int
    absent_s: float


class Home:
    """What is known of one other broker's set."""

    __slots__ = (
        "asked_at",
        "changes",
        "doubled",
        "fetching",
        "interests",
        "lacking",
        "misread",
        "name",
        "offers",
        "omitted",
        "others",
        "overcounted",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = NONE
        """Up to which all of it is here."""
        self.interests: dict[int, Interest] = {}
        self.others: dict[int, Item] = {}
        """Items of kinds that are not understood here, and those that were misread."""
        self.doubled: dict[Interest, int] = {}
        """Those that it has under more than one key."""
        self.changes = Latest()
        self.offers: dict[str, Version] = {}
        """By neighbour: what that one is known to have."""
        self.lacking: dict[str, None] = {}
        """Neighbours that have omitted it, as far as is known."""
        self.fetching: tuple[str, int] | None = None
        """The neighbour that was asked for it, and the generation of the link."""
        self.asked_at = 0.0
        """When that was, or when the answer last went on."""
        self.misread = 0
        """Items that were not understood, for which everything is taken to be wanted."""
        self.omitted = 0
        """Items that are not kept here, since there are too many: it gets everything."""
        self.overcounted = 0
        """Whether the one that is left of them is gone, too: it counts as one until all have come again."""

    @property
    def filters(self) -> int:
        """Subscriptions in its set, as far as they are kept here."""
        return len(self.interests)

    @property
    def kept(self) -> int:
        """Items in its set, as far as they are kept here."""
        return len(self.interests) + len(self.others) - self.misread

    @property
    def widened(self) -> int:
        """Items for which it gets more than it asks for."""
        return self.misread + self.omitted


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
        self._heard: dict[str, Home] = {}
        """Those of which neighbours say that there is a set, and nothing has come yet."""
        self.table: Table[Interest, str] = Table(core.settings.topic_cache, core.changed)
        """Which homes want what."""
        self.items = 0
        """What is kept of all sets."""
        self._sharing = 0
        """Homes that have something in their set, or are members of an epoch."""
        self._own_changes = Latest()
        self._parts: dict[str, Parts] = {}
        """By neighbour: the change that it is in the midst of."""
        self._answers: dict[tuple[str, str], tuple[int, int, Version]] = {}
        """By neighbour and home: the last message of the latest whole set, and the generation of the link."""

    def version(self, name: str) -> Version:
        """The version of a home's set that is here."""
        home = self.homes.get(name)
        return home.version if home is not None else NONE

    def has(self, name: str, version: Version) -> bool:
        """Whether a home's set is here, at least in this version."""
        return self.version(name) >= version

    @property
    def share(self) -> int:
        """How many items are kept of one home, if not all can be."""
        return max(1, self._core.settings.homes_filters_max // (self._sharing + 1))

    def _divide(self) -> None:
        """See how many have a share."""
        trees = [tree.current for tree in self._trees.trees.values() if tree.current is not None]
        self._sharing = sum(
            bool(home.kept or home.omitted) or any(name in grown.bits for grown in trees)
            for name, home in self.homes.items()
        )

    # What has changed here.

    def flush(self) -> None:
        """Tell all neighbours what has changed in this broker's own set."""
        taken = self._own.take()
        if taken is None:
            return
        core = self._core
        parts = parts_of(core.id, (core.boot, self._own.number), *taken, whole=False)
        self._own_changes.keep(parts)
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
        return Has(home.name, *home.version, self._absent_s(home.name), home.omitted)

    def on_link_down(self, link: Link) -> None:
        """What was asked for there will not come."""
        self._parts.pop(link.peer, None)
        for key in [key for key in self._answers if key[0] == link.peer]:
            del self._answers[key]
        for home in self._all():
            home.offers.pop(link.peer, None)
            home.lacking.pop(link.peer, None)
            if home.fetching is not None and home.fetching[0] == link.peer:
                home.fetching = None
                self._fetch(home)
            if not home.offers:
                self._heard.pop(home.name, None)

    def _all(self) -> list[Home]:
        return [*self.homes.values(), *self._heard.values()]

    def on_sets(self, link: Link, message: Sets) -> None:
        for has in message.homes:
            if has.home == self._core.id or not _plausible(has.boot, has.number):
                continue
            if self._is_gone(has.home, has.boot):
                continue
            home = self.meet(has.home) if has.absent_s >= 0 else self._hear(has.home)
            if home is None:
                continue
            if has.absent_s >= 0:
                self._core.tell(HomeLearned(has.home, has.boot, has.absent_s))
            version = (has.boot, has.number)
            self._offered(home, link, version, has.omitted)
            if _is_asked(home, link) and version <= home.version:
                home.fetching = None  # it has lost what it was asked for
            if version > home.version and has.number == 0:
                if self.meet(home.name) is not None:
                    self._replace(home, version, [])  # a home that has asked for nothing since it started
                    self._announce(home, link)
            else:
                self._fetch(home)

    def _offered(self, home: Home, link: Link, version: Version, omitted: int) -> None:
        """A neighbour has a set in this version, but for omitted items."""
        home.offers[link.peer] = version
        if omitted:
            home.lacking[link.peer] = None
        else:
            home.lacking.pop(link.peer, None)

    def _fetch(self, home: Home) -> None:
        """Ask a neighbour for what is not here, if nobody is being asked already."""
        if home.fetching is not None:
            return
        offers, lacking = home.offers, home.lacking
        again = bool(home.omitted) and home.kept + home.omitted <= self.share
        for peer in sorted(offers, key=lambda peer: (offers[peer], peer not in lacking, peer), reverse=True):
            link = self._links.get(peer)
            whole = again and offers[peer] == home.version and peer not in lacking
            if link is not None and (whole or offers[peer] > home.version):
                home.fetching = (peer, link.generation)
                home.asked_at = self._core.now
                self._links.send(link, Fetch(home.name, *(NONE if again else home.version)))
                return

    def on_fetch(self, link: Link, message: Fetch) -> None:
        core, known, home = self._core, (message.boot, message.number), self.homes.get(message.home)
        if message.home == core.id:
            has, changes = Has(core.id, core.boot, self._own.number), self._own_changes
        elif home is not None:
            has, changes = self._has(home), home.changes
        else:
            self._links.send(link, Sets((Has(message.home, *NONE),)))
            return
        version = (has.boot, has.number)
        if known >= version:
            self._links.send(link, Sets((has,)))
            return
        missed = changes.between(known, version)
        if missed is not None:
            self._send(link, missed)
            return
        key = (link.peer, message.home)
        generation, number, sent = self._answers.get(key, (0, 0, NONE))
        if generation == link.generation and known < sent and not link.has_received(number):
            return  # the answer is on its way
        items = tuple(_items(home) if home is not None else self._own.items.values())
        self._send(link, parts_of(message.home, version, items, (), whole=True, omitted=has.omitted))
        self._answers[key] = (link.generation, link.last_control, version)

    def tick(self) -> None:
        """Ask again where no answer has come, and for sets that may be small enough by now."""
        self._divide()
        for home in self._all():
            if home.fetching is not None and home.asked_at + FETCH_AGAIN_S <= self._core.now:
                link = self._links.get(home.fetching[0])
                if link is not None and _is_asked(home, link):
                    home.fetching = None
                    self._fetch(home)
            elif home.omitted:
                self._fetch(home)

    def _announce(self, home: Home, source: Link, *, again: bool = False) -> None:
        """Let the other neighbours know of a set that has not come change by change; `again`: even those that
        have this version, since more of it is here than was.
        """
        has = self._has(home)
        for link in self._links.up():
            if link is not source and (again or home.offers.get(link.peer, NONE) < home.version):
                self._links.send(link, Sets((has,)))

    # What has changed elsewhere.

    def on_change(self, link: Link, message: Change) -> None:
        if message.home == self._core.id:
            return  # it has gone round
        version = (message.boot, message.number)
        if not _plausible(*version):
            self._links.renounce(link, f"no set has the version {version}")
            return
        if self._is_gone(message.home, message.boot):
            return
        home = self._hear(message.home)
        if message.more and _is_asked(home, link):
            home.asked_at = self._core.now
        parts = self._parts.pop(link.peer, None) if message.part else None
        if parts is None:
            parts = Parts(2 * self._core.settings.homes_filters_max)
        fits = parts.take(message)
        if fits and message.more:
            self._parts[link.peer] = parts
        if message.more:
            return
        before = home.offers.get(link.peer, NONE)
        if message.whole or version[0] > before[0]:
            self._offered(home, link, max(version, before), message.omitted)
        else:
            home.offers[link.peer] = max(version, before)
        if not fits:
            # A part of it was not taken: all of it has to come again.
            if _is_asked(home, link):
                home.fetching = None
            self._fetch(home)
            return
        whole, omitted = message.whole, 0
        if parts.too_large:
            # It cannot be small enough before the home tells its set anew.
            self._log_too_large(home, parts.items)
            whole, omitted = True, parts.items + self._core.settings.homes_filters_max
        elif whole:
            omitted = min(max(0, message.omitted), OMITTED_MAX)
        self._take(home, link, version, parts.added, parts.removed, whole=whole, omitted=omitted)

    def _take(
        self,
        home: Home,
        link: Link,
        version: Version,
        added: list[Item],
        removed: list[int],
        *,
        whole: bool,
        omitted: int,
    ) -> None:
        """A change has come in all its parts."""
        asked, before = _is_asked(home, link), home.version
        if version <= before:
            if asked and home.offers[link.peer] <= before:
                home.fetching = None
            if home.omitted and whole and not omitted:
                self._complete(home, link, version, added)
            elif asked and whole:
                self._fetch(home)
            return
        first = version[1] == 1 and version[0] > before[0]
        follows = version == (before[0], before[1] + 1)
        if (whole or first or follows) and self.meet(home.name) is None:
            return
        if whole:
            again = bool(home.omitted) and not omitted
            self._replace(home, version, added, omitted)
            home.fetching = None
            self._announce(home, link, again=again)
        elif first:
            # Of a later boot: before it there was nothing.
            self._replace(home, version, added)
            self._pass_on(home, link, version, added, removed)
        elif follows:
            self._amend(home, version, added, removed)
            self._pass_on(home, link, version, added, removed)
        elif not asked:
            self._fetch(home)  # the one before it was missed
            return
        if home.fetching is not None and home.version >= home.offers.get(home.fetching[0], NONE):
            home.fetching = None
        self._fetch(home)

    def _complete(self, home: Home, source: Link, version: Version, items: list[Item]) -> None:
        """A set of which items were omitted has come as a whole; there may have been changes since."""
        missed = home.changes.between(version, home.version) if version < home.version else ()
        if missed is None:
            return
        complete = {item.key: item for item in items}
        for change in missed:
            complete |= {item.key: item for item in change.added}
            for key in change.removed:
                complete.pop(key, None)
        self._replace(home, home.version, list(complete.values()))
        self._announce(home, source, again=True)

    def _pass_on(
        self, home: Home, source: Link, version: Version, added: list[Item], removed: list[int]
    ) -> None:
        parts = parts_of(home.name, version, tuple(added), tuple(removed), whole=False)
        home.changes.keep(parts)
        for link in self._links.up():
            if link is not source and home.offers.get(link.peer, NONE) < version:
                self._send(link, parts)

    def meet(self, name: str) -> Home | None:
        """A home, which may not have been known; None if there are too many."""
        home = self.homes.get(name)
        if home is None and len(self.homes) < HOMES_MAX:
            home = self.homes[name] = self._heard.pop(name) if name in self._heard else Home(name)
        return home

    def _hear(self, name: str) -> Home:
        """A home that a neighbour says something of, which may be all that there is."""
        home = self.homes.get(name) or self._heard.get(name)
        if home is None:
            home = self._heard[name] = Home(name)
            if len(self._heard) > HEARD_MAX:
                del self._heard[next(iter(self._heard))]
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
        self._divide()

    # Taking a set over.

    def _replace(self, home: Home, version: Version, items: list[Item], omitted: int = 0) -> None:
        """A set has come as a whole, but for omitted items."""
        self._clear(home)
        home.changes.clear()
        if omitted:
            self._omit(home, omitted)
        self._amend(home, version, items, [])

    def _amend(self, home: Home, version: Version, added: list[Item], removed: list[int]) -> None:
        """A set has changed."""
        if home.omitted:
            self._count(home, added, removed)
        else:
            for item in added:
                self._add(home, item)
            for key in removed:
                self._remove(home, key)
        home.version = version
        if self.items > self._core.settings.homes_filters_max:
            self._divide()
            while self.items > self._core.settings.homes_filters_max:
                largest = max(self.homes.values(), key=lambda home: (home.kept, home.name))
                if largest.kept <= self.share:
                    break
                self._catch(largest)
        for tree in self._trees.trees.values():
            grown = tree.current
            if grown is not None and home.name in grown.unknown:
                if version >= _joined_with(grown, home.name):
                    del grown.unknown[home.name]
        self._core.tell(SetChanged(home.name))

    def _catch(self, home: Home) -> None:
        """A home asks for more than its share: it is sent everything, and its subscriptions are not kept."""
        self._log_too_large(home, home.kept)
        kept = {key: item for key, item in home.others.items() if item.kind != FILTER}
        if len(kept) > self.share:
            kept = {}
        omitted = home.omitted + home.kept - len(kept)
        self._clear(home)
        self._omit(home, omitted)
        home.others = kept
        self.items += len(kept)

    def _log_too_large(self, home: Home, items: int) -> None:
        self._core.log(
            "warning",
            "a broker asks for more than is kept of it; it is sent everything",
            broker=home.name,
            subscriptions=items,
            share=self.share,
        )

    def _omit(self, home: Home, items: int) -> None:
        home.omitted, home.overcounted = items, 0
        self.table.add(EVERYTHING_AT_ALL, home.name)

    def _count(self, home: Home, added: list[Item], removed: list[int]) -> None:
        """A set has changed of which items are omitted: those of unknown kinds are kept all the same."""
        for key in removed:
            if home.others.pop(key, None) is not None:
                self.items -= 1
            elif home.omitted > 1:
                home.omitted -= 1
            else:
                home.overcounted = 1
        for item in added:
            if item.kind != FILTER and len(home.others) < self.share:
                self.items += item.key not in home.others
                home.others[item.key] = item
            else:
                home.omitted += 1 - home.overcounted
                home.overcounted = 0

    def _add(self, home: Home, item: Item) -> None:
        self._remove(home, item.key)
        self.items += 1
        if item.kind != FILTER:
            home.others[item.key] = item
            return
        try:
            interest = Interest(item.value)
        except (FilterError, SubscriptionError) as error:
            # Of another release, perhaps. To send too much loses nothing.
            home.misread += 1
            if home.misread == 1:
                self._core.log(
                    "warning", "a subscription of a broker is not understood", broker=home.name, reason=error
                )
            home.others[item.key] = item
            interest = EVERYTHING_AT_ALL
        home.interests[item.key] = interest
        if not self.table.add(interest, home.name):
            home.doubled[interest] = home.doubled.get(interest, 0) + 1

    def _remove(self, home: Home, key: int) -> None:
        other, interest = home.others.pop(key, None), home.interests.pop(key, None)
        if other is not None or interest is not None:
            self.items -= 1
        if interest is None:
            return
        home.misread -= other is not None
        more = home.doubled.pop(interest, 0)
        if more > 1:
            home.doubled[interest] = more - 1
        elif not more:
            self.table.remove(interest, home.name)

    def _clear(self, home: Home) -> None:
        """Keep nothing of a set."""
        held = dict.fromkeys(home.interests.values())
        for interest in held if not home.omitted else [EVERYTHING_AT_ALL]:
            self.table.remove(interest, home.name)
        self.items -= home.kept
        home.interests, home.others, home.doubled, home.misread, home.omitted = {}, {}, {}, 0, 0

    def forget(self, name: str) -> None:
        """Nothing of a home is known any more."""
        home = self.homes.pop(name, None)
        if home is None:
            return
        self._clear(home)


def _joined_with(grown: TreeEpoch, name: str) -> Version:
    """The version of a member's set when it said that it is in an epoch."""
    member = grown.members[name]
    return member.boot, member.number


def _items(home: Home) -> list[Item]:
    """A set as it came."""
    read = (
        Item(FILTER, key, interest.value)
        for key, interest in home.interests.items()
        if key not in home.others
    )
    return [*read, *home.others.values()]


def _is_asked(home: Home, link: Link) -> bool:
    """Whether a neighbour was asked for a set, and may still answer."""
    return home.fetching == (link.peer, link.generation)


def _plausible(boot: int, number: int) -> bool:
    return 0 <= boot < 2**53 and 0 <= number < 2**53
