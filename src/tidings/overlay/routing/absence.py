"""Brokers out of reach: who they are, and for how long something is held for them.

Every broker that was in an epoch with this one, or for which others hold something, is known here, on disk
too. One that is in no epoch now is *absent*, and so is a neighbour that is to be dialled and has not been
reached yet. What an absent broker may want is held for it: what its set says, if it is known to be the latest
that this broker has confirmed, else everything. How long is bounded, and a restart does not begin it anew.
When that is over the broker is given up, until it is a member again, or is known to have started since. What
is held is not known here (`publishing`).

For a broker that is gone for good (`gone`) nothing is held.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import islice
from math import inf

import msgspec

from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing.changes import NONE, Version
from tidings.overlay.routing.gone import GONE_MAX, Gone, Word
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.messages import Sets
from tidings.overlay.timers import Timer
from tidings.overlay.trees.trees import Tree, TreeEpoch, Trees

MET = "homes"
"""The key under which known brokers are written."""

LATEST: Version = (2**53, 0)
"""Later than any version of a set."""

RETURN_S = 30.0
"""For so long at least something is held again after a restart: where all have stopped, others start too."""

WORDS_EACH_MAX = 64
"""Brokers never heard of that a neighbour may say to be gone for good. There is seldom one: what is held for
somebody is said before."""


class Met(msgspec.Struct, frozen=True, array_like=True):
    """What is on disk."""

    known: dict[str, tuple[int, int]]
    """By broker: its latest boot, and until when something is held for it, in microseconds; 0 if it was in
    reach."""

    given_up: dict[str, int]
    """Of `Absences`."""


class HomeSaved(Notice, frozen=True):
    """It is on disk by now that a broker is known."""

    name: str


class BrokerForgotten(Notice, frozen=True):
    """Nothing more is held for a broker, or for a neighbour that was never reached."""

    name: str


class Absences:
    """All brokers that this one has known, and which of them are out of reach."""

    def __init__(self, core: Core, links: Links, trees: Trees, homes: Homes, gone: Gone) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._homes = homes
        self._gone = gone
        self._met: dict[str, int] = {}
        """Brokers that were in reach at some time and are not gone for good, with the latest boot that is
        known."""
        self._given_up: dict[str, int] = {}
        """Brokers that were away for too long, with the latest boot that is known, the longest first: others
        may still hold something for them."""
        self._saved: dict[str, None] = {}
        """Those of `_met` that are on disk."""
        self._unsaved = False
        """Whether those on disk are others."""
        self._learned: dict[str, None] = {}
        """Those of them that were not in reach since others spoke of them."""
        self._needed: dict[str, Version] = {}
        """The set of a broker that must be here for it to be known what it wants: the one that it had when it
        was last in reach. Before a restart more may have been confirmed than anybody says now."""
        self._unreached: dict[str, None] = {}
        """Neighbours to be dialled that have not been met, by `unreached`."""
        self._expected: dict[str, float] = {}
        """Those to be dialled, or known from before a restart, that have not been met yet: until when they
        may just be on their way."""
        self._leaving: dict[str, int] = {}
        """Neighbours that leave for good, and their boots: once they are in no epoch, they are gone."""
        self._doubtful: dict[str, Word] = {}
        """What was said of members while an epoch grows, which shows whether they are still there."""
        self._asked: dict[str, None] = {}
        """Brokers that were to be forgotten, as the operator has said here."""
        self._strangers: dict[str, int] = {}
        """By neighbour: how many brokers it has said to be gone of which nothing else was ever heard."""
        self._warned = False
        """Whether this broker has logged that the network takes it for gone."""
        self._blind: dict[str, tuple[TreeEpoch, list[str]]] = {}
        """By root and epoch: what `blind` answers."""

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Those known before a restart: all absent until seen again."""
        core = self._core
        if MET in saved:
            found = msgspec.msgpack.decode(saved[MET], type=Met)
            self._met = {name: boot for name, (boot, _) in found.known.items()}
            self._given_up = found.given_up
            self._saved = dict.fromkeys(self._met)
            self._needed = dict.fromkeys(self._met, LATEST)
            self._expected = dict.fromkeys(self._met, core.now + core.settings.settle_s)
            for name, (_, until_us) in found.known.items():
                self._homes.meet(name)  # so that others hear of it
                # Clocks may have been set meanwhile.
                left_s = max(RETURN_S, (until_us - core.at_us) / 1e6) if until_us else inf
                self._miss(name, min(left_s, core.settings.absent_hold_s))

    # Who is known.

    def is_saved(self, name: str) -> bool:
        """Whether it is on disk that a broker is known."""
        return name in self._saved

    def _meet(self, boots: Mapping[str, int]) -> None:
        """Brokers are known from now on, in these boots."""
        met, own = self._met, self._core.id
        later = {name: boot for name, boot in boots.items() if boot > met.get(name, -1) and name != own}
        if not later:
            return
        new = [name for name in later if name not in met]
        met |= later
        for name in new:
            self._given_up.pop(name, None)
        self._save()

        def synced() -> None:
            for name in new:
                if name in self._met:
                    self._saved[name] = None
                    self._core.tell(HomeSaved(name))

        self._core.after_sync(synced)

    def _save(self) -> None:
        self._unsaved = True
        self._core.ask_sync()

    def flush(self) -> None:
        """Write down who is known, once for all that an event has changed."""
        if self._unsaved:
            self._unsaved = False
            due = self._core.timers.due
            known = {
                name: (boot, round((due(Timer.ABSENT, name) or 0) * 1e6)) for name, boot in self._met.items()
            }
            self._core.out.append(Write(MET, msgspec.msgpack.encode(Met(known, self._given_up))))

    def learn(self, name: str, boot: int, absent_s: float) -> None:
        """Others hold publications for a broker that this one may not have met: it holds them too.

        `absent_s`: how long other brokers will still hold publications for this broker. One that was given up
        here is learned again only in a later boot (see `is_gone`).
        """
        known = name in self._met or name == self._core.id
        self._meet({name: boot})
        if not known and not self._is_member(name):
            self._learned[name] = None
            self._miss(name, min(absent_s, self._core.settings.absent_hold_s))
            self._blind.clear()

    # Who is out of reach.

    def __bool__(self) -> bool:
        """Whether something may have to be held for somebody."""
        return any(self._counts(name) for name in self._away())

    def _away(self) -> list[str]:
        """All that are in no epoch."""
        timers = self._core.timers
        return [name for name in (*self._met, *self._unreached) if timers.is_set(Timer.ABSENT, name)]

    def names(self) -> tuple[str, ...]:
        """Absent brokers, for people to read."""
        return tuple(sorted(name for name in self._away() if name not in self._unreached))

    def absent_s(self, name: str) -> float:
        """For how long something is still held for a broker; -1 for one in reach."""
        due = self._core.timers.due(Timer.ABSENT, name)
        return max(0.0, due - self._core.now) if due is not None else -1.0

    def absent_from(self, grown: TreeEpoch) -> list[str] | None:
        """Those that are not in an epoch; a neighbour never reached is named by its address.

        None if it is too early to say so of one of them.
        """
        absent = [
            name for name in (*self._met, *self._unreached) if name not in grown.bits and self._counts(name)
        ]
        if any(self._core.now < self._expected.get(name, 0.0) for name in absent):
            return None
        return [name.strip() for name in absent]

    def holds_for(self, name: str) -> bool:
        """Whether something is held for a broker that is out of reach."""
        return name in self._met or (name in self._unreached and self._counts(name))

    def blind(self, grown: TreeEpoch) -> list[str]:
        """Those that are not in an epoch and may want anything, since their latest set is not here."""
        known, found = self._blind.get(grown.root, (None, []))
        if known is not grown:
            found = [name for name in self._met if name not in grown.bits and not self._is_known(name)]
            found += [name for name in self._unreached if name not in grown.bits]
            self._blind[grown.root] = (grown, found)
        return [name for name in found if self._counts(name)] if found else found

    def _is_known(self, name: str) -> bool:
        """Whether it is known what a broker out of reach wants."""
        version = self._homes.version(name)
        return version != NONE and version >= self._needed.get(name, NONE)

    def on_set(self, home: str) -> None:
        """A home's set has come here: what it wants is held for it while it is not in reach."""
        self._blind.clear()
        self.learn(home, self._homes.version(home)[0], self._core.settings.absent_hold_s)

    def _counts(self, name: str) -> bool:
        """All but neighbours to be reached that turned out to be of another network."""
        if name not in self._unreached:
            return True
        dialler = self._links.diallers.get(name[1:])
        return dialler is not None and not dialler.refused

    def _is_member(self, name: str) -> bool:
        return any(
            name in tree.current.bits for tree in self._trees.trees.values() if tree.current is not None
        )

    def _miss(self, name: str, within_s: float) -> None:
        """Something is held for a broker from now on, but not for ever."""
        timers = self._core.timers
        if not timers.is_set(Timer.ABSENT, name):
            timers.set(Timer.ABSENT, name, self._core.now + within_s)
            if name in self._met:
                self._save()

    def on_ready(self, tree: Tree) -> tuple[list[tuple[str, str]], list[str]]:
        """A new epoch: see who is back and who is missing.

        The answer is that of `found`, and who else may be a neighbour that was not reached yet, if there is
        one: members that were not in reach before.
        """
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        strangers = [
            it for it in grown.members if (it not in self._met or it in self._learned) and it != self._core.id
        ]
        self._meet({name: member.boot for name, member in grown.members.items()})
        for name, member in grown.members.items():
            if self._core.timers.is_set(Timer.ABSENT, name):
                self._core.timers.cancel(Timer.ABSENT, name)
                self._save()
            self._expected.pop(name, None)
            self._asked.pop(name, None)
            self._learned.pop(name, None)
            self._needed[name] = member.boot, member.number
            self._tell_all(self._gone.come_back(name, member.boot))
        reached = self.found(grown.bits)
        self._miss_all()
        for name, boot in list(self._leaving.items()):
            if boot < self._boot(name):
                del self._leaving[name]  # it has come back meanwhile
            elif not self._is_member(name):
                del self._leaving[name]
                self._forget(self._gone.leave(name, boot))
        doubtful, self._doubtful = self._doubtful, {}
        for word in doubtful.values():
            if self._gone.is_news(word) and word[1] >= self._boot(word[0]):
                self._take(word)
        known = [peer for _, peer in reached]
        return reached, [it for it in strangers if it not in known] if self._unreached else []

    def _miss_all(self) -> None:
        self._blind.clear()
        for name in (*self._met, *self._unreached):
            if not self._is_member(name):
                self._miss(name, self._core.settings.absent_hold_s)

    def on_dropped(self) -> None:
        """A tree is used no more."""
        self._miss_all()

    # Neighbours that are to be dialled.

    def found(self, members: Container[str]) -> list[tuple[str, str]]:
        """Neighbours that were not reached yet and are members: how they were called, and their id."""
        reached = [
            (unreached(address), dialler.peer)
            for address, dialler in self._links.diallers.items()
            if dialler.peer is not None and dialler.peer in members and unreached(address) in self._unreached
        ]
        for name, _ in reached:
            self._drop(name)
        return reached

    def on_neighbour_added(self, address: str) -> None:
        """Until a neighbour has been reached, nobody knows what those behind it want."""
        name = unreached(address)
        if self._links.diallers[address].peer is None and name not in self._unreached:
            core = self._core
            self._unreached[name] = None
            self._miss(name, core.settings.absent_hold_s)
            self._expected[name] = core.now + core.settings.settle_s
            self._blind.clear()

    def on_neighbour_removed(self, address: str) -> None:
        self._give_up(unreached(address))

    # Whom nothing is held for any more.

    def on_late(self, name: str) -> None:
        """It has been away for too long."""
        self._core.log("warning", "nothing more is held for a broker out of reach", broker=name.strip())
        if name in self._met:
            self._given_up[name] = self._boot(name)
            if len(self._given_up) > GONE_MAX:
                del self._given_up[next(iter(self._given_up))]
        self._give_up(name)

    def _give_up(self, name: str) -> None:
        self._drop(name)
        self._homes.forget(name)
        self._core.tell(BrokerForgotten(name))

    def _drop(self, name: str) -> None:
        self._unreached.pop(name, None)
        self._expected.pop(name, None)
        self._learned.pop(name, None)
        self._saved.pop(name, None)
        self._needed.pop(name, None)
        self._core.timers.cancel(Timer.ABSENT, name)
        self._blind.clear()
        if name in self._met:
            del self._met[name]
            self._save()

    def is_gone(self, name: str, boot: int) -> bool:
        """Whether nothing is held for a broker any more, and this is what it said in a boot before that."""
        gone = self._gone.since(name, boot) or boot <= self._given_up.get(name, -1)
        return gone and not self._is_member(name)

    def has_heard_of(self, name: str) -> bool:
        """Whether a broker was in reach at some time, or others have spoken of it."""
        known = (self._met, self._given_up, self._homes.homes, self._links.links)
        return any(name in names for names in known) or self._gone.has_heard_of(name)

    def forget(self, name: str) -> None:
        """The operator says that a broker is gone for good.

        Others are told even if nothing is held for it here: one of them may still hold something.
        """
        if name != self._core.id and not self._is_member(name):
            self._asked[name] = None
            word = self._gone.leave(name, self._boot(name))
            if self._gone.is_news(word):
                self._forget(word)
            else:
                self._say(word)

    def on_left(self, name: str, boot: int) -> None:
        """A neighbour has said that it leaves for good."""
        self._leaving[name] = boot

    def on_words(self, link: Link, words: Iterable[Word]) -> None:
        """A neighbour says that brokers are gone for good, or have come back."""
        for word in islice(words, GONE_MAX):
            name, boot, count = word
            if not self._gone.is_news(word):
                continue
            if name == self._core.id:
                self._on_own_word(word)
            elif boot == 0 < self._boot(name) and count % 2 == 1:
                # The neighbour was asked to forget a broker of which it knows only the name.
                self._take(self._gone.leave(name, self._boot(name)))
            elif boot < self._boot(name):
                # It has come back meanwhile, which the neighbour does not know.
                self._links.send(link, Sets((), ((name, self._boot(name), 0),)))
            elif self._is_welcome(link, name):
                self._take(word)

    def _on_own_word(self, word: Word) -> None:
        """It is about this broker. Those who have it in an epoch say that it is there."""
        if not self._warned and word[2] % 2 == 1:
            self._warned = True
            self._gone.hear(word)
            self._core.log(
                "warning",
                "the network was told that this broker is gone for good, and has held nothing for it "
                "since; it joins as a new one",
            )

    def _is_welcome(self, link: Link, name: str) -> bool:
        """Whether a neighbour may speak of a broker: of those never heard of there is a bound for each."""
        if self.has_heard_of(name):
            return True
        strangers = self._strangers.get(link.peer, 0)
        self._strangers[link.peer] = min(strangers + 1, WORDS_EACH_MAX)
        return strangers < WORDS_EACH_MAX

    def _take(self, word: Word) -> None:
        """Another broker is gone for good, or has come back."""
        name, boot, count = word
        is_gone = count % 2 == 1
        if not is_gone:
            if self._asked.pop(name, "") is None:
                self._core.log(
                    "warning",
                    "a broker that was to be forgotten has been seen since; if it is gone, forget it again",
                    broker=name,
                )
            self._tell_all(word)
        elif not self._is_member(name):
            self._forget(word)
        elif any(tree.growing is not None for tree in self._trees.trees.values()):
            # The neighbour may be in an epoch without it, and this broker will soon be.
            self._doubtful[name] = word
        else:
            self._tell_all((name, boot, count + 1))

    def _boot(self, name: str) -> int:
        """The latest boot of a broker that is known here."""
        link = self._links.links.get(name)
        return max(
            self._met.get(name, 0),
            self._given_up.get(name, 0),
            self._homes.version(name)[0],
            link.boot if link is not None else 0,
        )

    def _forget(self, word: Word) -> None:
        """A broker is gone for good."""
        if self._gone.is_news(word):
            name = word[0]
            if name in self._met:
                self._core.log("info", "a broker is gone for good; nothing is held for it", broker=name)
            self._give_up(name)
            if self._given_up.pop(name, None) is not None:
                self._save()
            self._tell_all(word)

    def _tell_all(self, word: Word | None) -> None:
        """Keep a word, and tell the neighbours."""
        if word is not None:
            self._gone.hear(word)
            self._say(word)

    def _say(self, word: Word) -> None:
        for link in self._links.up():
            self._links.send(link, Sets((), (word,)))


def unreached(address: str) -> str:
    """How a neighbour is called here before its id is known; no id has a control character."""
    return f"\t{address}"


def is_unreached(name: str) -> bool:
    """Whether a name is that of an address."""
    return name.startswith("\t")
