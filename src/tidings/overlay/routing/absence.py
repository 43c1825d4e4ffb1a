"""Brokers out of reach: who they are, and for how long something is held for them.

Every broker that was in an epoch with this one, or for which others hold something, is known here, on disk
too. One that is in no epoch now is *absent*, and so is a neighbour that is to be dialled and has not been
reached yet. What an absent broker may want is held for it: what its set says, if it is known to be the latest
that this broker has confirmed, else everything. How long is bounded. What is held is not known here
(`publishing`).

For a broker that is gone for good (`gone`) nothing is held.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import islice

import msgspec

from tidings.overlay.core import Core, Notice
from tidings.overlay.events import ForgetAsked, Write
from tidings.overlay.links.links import Links
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
        self._saved: dict[str, None] = {}
        """Those of them that are on disk."""
        self._unsaved = False
        """Whether those on disk are others."""
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
        self._blind: dict[str, tuple[TreeEpoch, list[str]]] = {}
        """By root and epoch: what `blind` answers."""

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Those known before a restart: all absent until seen again."""
        core = self._core
        if MET in saved:
            self._met = msgspec.msgpack.decode(saved[MET], type=dict[str, int])
            self._saved = dict.fromkeys(self._met)
            self._needed = dict.fromkeys(self._met, LATEST)
            self._expected = dict.fromkeys(self._met, core.now + core.settings.settle_s)
            for name in self._met:
                self._homes.meet(name)  # so that others hear of it
                self._miss(name, core.settings.absent_hold_s)

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
            self._core.out.append(Write(MET, msgspec.msgpack.encode(self._met)))

    def learn(self, name: str, boot: int, absent_s: float) -> None:
        """Others hold something for a broker that this one may not have met: what is published here may be
        for it too, for as long as it is for them.
        """
        known = name in self._met or name == self._core.id
        self._meet({name: boot})
        if not known and not self._is_member(name):
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

    def on_ready(self, tree: Tree) -> list[tuple[str, str]]:
        """A new epoch: see who is back and who is missing; the answer is that of `found`."""
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        self._meet({name: member.boot for name, member in grown.members.items()})
        for name, member in grown.members.items():
            self._core.timers.cancel(Timer.ABSENT, name)
            self._expected.pop(name, None)
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
        self.on_words(doubtful.values())
        return reached

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
        self._give_up(name)

    def _give_up(self, name: str) -> None:
        self._drop(name)
        self._homes.forget(name)
        self._core.tell(BrokerForgotten(name))

    def _drop(self, name: str) -> None:
        self._unreached.pop(name, None)
        self._expected.pop(name, None)
        self._saved.pop(name, None)
        self._needed.pop(name, None)
        self._core.timers.cancel(Timer.ABSENT, name)
        self._blind.clear()
        if name in self._met:
            del self._met[name]
            self._save()

    def is_gone(self, name: str, boot: int) -> bool:
        """Whether a broker is gone for good, and this is what it said in a boot before that."""
        return self._gone.since(name, boot) and not self._is_member(name)

    def on_forget_asked(self, event: ForgetAsked) -> None:
        """The operator says that a broker is gone for good."""
        if event.broker in self._met and not self._is_member(event.broker):
            self._forget(self._gone.leave(event.broker, self._boot(event.broker)))

    def on_left(self, name: str, boot: int) -> None:
        """A neighbour has said that it leaves for good."""
        self._leaving[name] = boot

    def on_words(self, words: Iterable[Word]) -> None:
        """Neighbours say that brokers are gone for good, or have come back."""
        for word in islice(words, GONE_MAX):
            name, boot, count = word
            if not self._gone.is_news(word) or (boot < self._boot(name) and name != self._core.id):
                continue  # it has come back meanwhile, which the neighbour does not know
            is_gone = count % 2 == 1
            if not is_gone:
                self._tell_all(word)
            elif name == self._core.id:
                self._gone.hear(word)
                self._core.log(
                    "warning",
                    "the network was told that this broker is gone for good, and has held nothing for it "
                    "since; it joins as a new one",
                )
            elif not self._is_member(name):
                self._forget(word)
            elif any(tree.growing is not None for tree in self._trees.trees.values()):
                # The neighbour may be in an epoch without it, and this broker will soon be.
                self._doubtful[name] = word
            else:
                self._tell_all((name, boot, count + 1))

    def _boot(self, name: str) -> int:
        """The latest boot of a broker that is known here."""
        return max(self._met.get(name, 0), self._homes.version(name)[0])

    def _forget(self, word: Word) -> None:
        """A broker is gone for good."""
        if self._gone.is_news(word):
            name = word[0]
            if name in self._met:
                self._core.log("info", "a broker is gone for good; nothing is held for it", broker=name)
            self._give_up(name)
            self._tell_all(word)

    def _tell_all(self, word: Word | None) -> None:
        """Keep a word, and tell the neighbours."""
        if word is not None:
            self._gone.hear(word)
            for link in self._links.up():
                self._links.send(link, Sets((), (word,)))


def unreached(address: str) -> str:
    """How a neighbour is called here before its id is known; no id has a control character."""
    return f"\t{address}"
