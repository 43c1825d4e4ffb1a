"""The catalogue: what every broker of the network has, declarations of topics and views, and where each
broker serves its pages.

There is no master. An entry carries a version; of two with one name the higher (version, broker id) holds,
wherever they meet, so all brokers come to the same whatever the order in which they hear. A new or newer
entry goes to all neighbours but the one that it came from; a new link session begins with all entries of
both sides. Removal is an entry, too, without a text: kept for a day, so that no broker that was away for
less brings back what was removed.

Entries that met an older one of which they know (`Entry.after`) are its future. One that loses against an
entry that does not know of it was made by somebody who could not see that one, beyond a partition say: that
is logged with both, where it is seen.

What is in configuration files is an entry as well, made by nobody (the empty broker id), so that brokers with
the same file make the same entry. A file counts when it is new or has changed since this broker last read it,
and not again at each start. It holds here at once, but becomes an entry only when the broker has heard what
the network has: a broker that joins with an old file must not undo what holds there.

What a declaration means is known to `topics`, what a view is for to those in front of the broker. Everything
is bounded; see the constants.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

import msgspec

from tidings.errors import DeclarationError, FilterError, Problem
from tidings.language import changes, filters, names
from tidings.language.declarations import DECLARATION_BYTES_MAX, parse_topic, topic_text
from tidings.language.names import NAME_BYTES_MAX
from tidings.language.topics import Topic, UnknownFields
from tidings.language.views import View, parse_view
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import (
    CatalogueChanged,
    Decline,
    Enlist,
    EntryOffered,
    Erase,
    Synchronised,
    Write,
)
from tidings.overlay.links.links import Link, Links, State
from tidings.overlay.routing.messages import Catalogue as CatalogueMessage
from tidings.overlay.routing.messages import Enter, Entry
from tidings.overlay.routing.topics import Topics
from tidings.overlay.timers import Timer

ENTRIES_MAX = 10_000
"""Entries that hold. Beyond, what clients here offer is declined. Two sides of a partition may each have that
many, so that from neighbours twice as many are taken; beyond that they are not, which is logged."""

CATALOGUE_BYTES_MAX = 64 * 1024 * 1024
"""The same for the characters of their texts."""

TEXT_LENGTH_MAX = DECLARATION_BYTES_MAX
"""Characters of one entry's text."""

TOMBSTONES_MAX = 10_000
"""Removed entries that are remembered. Beyond, the one removed longest ago is forgotten, and a broker that
was away since before may bring it back."""

TOMBSTONE_US = 86_400_000_000
"""How long a removed entry is remembered: a day."""

AFTER_MAX = 16
"""Versions back that an entry knows of. A broker that missed more reports a conflict where there is none."""

PART_LENGTH, PART_ENTRIES = 65_536, 4
"""Characters and entries after which a catalogue goes on in the next message. To read a declaration takes up
to a millisecond, and a driver can do other things between two messages, not within one."""

ALONE_AFTER_S = 0.05
"""A broker that has been told of no neighbour by then is taken to have none."""

REACH_WITHIN_S = 3.0
"""A broker that has reached no neighbour by then lets clients in with what it has on disk."""

SYNCHRONISE_WITHIN_S = 10.0
"""And so does one that has reached a neighbour and has not heard all by then."""

Key = tuple[str, str]
"""Kind and name of an entry."""


class Pages(msgspec.Struct, frozen=True):
    """Where a broker serves its pages, for those who read its log through another."""

    name: str
    """The broker's id."""

    url: str


Declared = Topic | View
"""What a file can say."""

Meaning = Declared | Pages


class CatalogueSynchronised(Notice, frozen=True):
    """This broker has heard what the network knows."""


class Catalogue:
    """All entries that this broker has."""

    def __init__(
        self, core: Core, links: Links, topics: Topics, files: Sequence[Topic], views: Sequence[View]
    ) -> None:
        self._core = core
        self._links = links
        self._topics = topics
        self._files: list[Declared] = [*files, *views]
        self._entries: dict[Key, Entry] = {}
        self._removed: dict[Key, Entry] = {}
        self._forget_at_us = math.inf
        """When the first of them need not be remembered any longer."""
        self._length = 0
        """Characters of all texts."""
        self._meanings: dict[Key, Meaning] = {}
        """Of entries that hold and can be read here."""
        self._new: dict[Key, Declared] = {}
        """What files say that they did not say at the last start."""
        self._tentative: dict[Key, Entry | None] = {}
        """Entries made of these that nobody has been told of, with what was known before."""
        self._overtaken: dict[Key, None] = {}
        """Those whose place an entry of the network has taken."""
        self._pending: dict[Key, Entry] = {}
        """Offered by clients here, and not on disk yet."""
        self._full = False
        self._began = 0.0
        self._neighbours = False
        self.synchronised = False
        """Whether clients may come in."""
        self.lost = 0
        """Entries that lost against one that did not know of them, as far as was seen here."""

    # Looking in.

    def entries(self, kind: str) -> list[Entry]:
        """Entries of a kind that hold, by name."""
        return [self._entries[key] for key in sorted(self._entries) if key[0] == kind]

    def entry(self, kind: str, name: str) -> Entry | None:
        """The entry that holds under a name."""
        return self._entries.get((kind, name))

    def governing(self, topic: str) -> Entry | None:
        """The entry that declares a topic: of the declarations that match it, the most specific one."""
        declared = self._topics.declaration(topic)
        return None if declared is None else self.entry("topic", declared.name)

    def declaring(self, topic_filter: str) -> Entry | None:
        """The entry whose declaration is of just the topics that a filter matches.

        Of several, which differ in the names of their levels, it is the one that governs.
        """
        declared = self._topics.of_filter(topic_filter)
        return None if declared is None else self.entry("topic", declared.name)

    def topic(self, name: str) -> Topic | None:
        """The declaration of this name; what declares a topic is known to `Topics.declaration`."""
        found = self._meanings.get(("topic", name))
        return found if isinstance(found, Topic) else None

    def view(self, name: str) -> View | None:
        found = self._meanings.get(("view", name))
        return found if isinstance(found, View) else None

    def pages(self) -> dict[str, str]:
        """Where each broker that has said so serves its pages."""
        return {one.name: one.url for one in self._meanings.values() if isinstance(one, Pages)}

    # From before, and from files.

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """What was there before a restart, and what files say that they did not say then."""
        self._began = self._core.now
        for row in sorted(saved):
            if row.startswith("catalogue/"):
                self._hold(msgspec.msgpack.decode(saved[row], type=Entry))
        seen = {row: value for row, value in saved.items() if row.startswith("catalogue-file/")}
        for meaning in self._files:
            if seen.pop(_file_row(meaning), None) != _file_mark(meaning):
                key = _key(meaning)
                self._new[key] = meaning
                before = self._known(key)
                if (entry := self._of_file(meaning)) is not None:
                    self._tentative[key] = before
                    self._hold(entry)
        for row in sorted(seen):  # no longer in a file; what it declared stays until it is removed
            self._core.out.append(Erase(row))
            self._core.ask_sync()
        self._core.timers.set(Timer.SYNCHRONISE, None, self._core.now + ALONE_AFTER_S)

    def _of_file(self, meaning: Declared) -> Entry | None:
        """The entry that a file makes; None if it says what holds, or must not be taken."""
        key = _key(meaning)
        held, old = self._entries.get(key), self._meanings.get(key)
        if held is not None and old is not None and (_same(old, meaning) or _breaks(old, meaning)):
            return None
        if self._misfit(meaning):
            return None
        text = _file_text(meaning)
        if len(text) > TEXT_LENGTH_MAX or self._too_much(text, 0 if held is not None else 1):
            return None
        version = meaning.version if isinstance(meaning, Topic) else 1
        return _follow(self._known(key), *key, text, "", least=version)

    def _settle_files(self) -> None:
        """What the network has is known: let files count."""
        core = self._core
        for key, meaning in self._new.items():
            old = self._meanings.get(key)
            if key in self._tentative and self._misfit(meaning):
                # The network declares its topic otherwise than this broker knew.
                self._withdraw(key, self._tentative.pop(key))
                self._refuse_file(key, meaning, None)
                continue
            if key in self._tentative:
                del self._tentative[key]
                self._tell(self._entries[key], None)
                self._store_if_newest(self._entries[key])
            elif old is None or not _same(old, meaning):
                refused = self._refuse_file(key, meaning, old)
                if refused and key not in self._overtaken:
                    continue  # to be said at each start
            core.out.append(Write(_file_row(meaning), _file_mark(meaning)))
            core.ask_sync()
        self._new = {}
        self._overtaken = {}

    def _refuse_file(self, key: Key, meaning: Declared, old: Meaning | None) -> bool:
        """Let a file that says something else than what holds have its way, if it has a higher version."""
        held = self._known(key)
        if held is not None and isinstance(meaning, Topic) and meaning.version > held.version:
            if (entry := self._of_file(meaning)) is not None:
                self._hold(entry)
                self._tell(entry, None)
                self._store_if_newest(entry)
                return False
        if misfit := self._misfit(meaning):
            self._core.log("error", MISFIT_FILE, kind=key[0], name=key[1], reason=misfit)
            return True
        reason = f"{_shown(held)} holds" if held is not None else "the catalogue is full"
        if old is not None and (broken := _breaks(old, meaning)):
            reason += f", and it would break: {'; '.join(broken)}"
        self._core.log("error", REFUSED_FILE, kind=key[0], name=key[1], reason=reason)
        return True

    def _withdraw(self, key: Key, before: Entry | None) -> None:
        """Take back an entry that nobody has been told of."""
        if before is not None:
            self._hold(before)
            return
        self._length -= len(self._entries.pop(key).text)
        self._meanings.pop(key, None)
        self._core.out.append(CatalogueChanged(*key))

    def _misfit(self, meaning: Meaning) -> str:
        """Why a view does not fit the declared topics that it looks at; empty if it does.

        Its fields are checked where one declaration governs all of them. Over topics of several declarations
        a field that one of them lacks is only missing, and so it is where a declaration for many topics lets
        them have fields that it does not name.
        """
        if not isinstance(meaning, View) or not meaning.where:
            return ""
        if names.name_fault(meaning.topic_filter) is None:
            topic = self._topics.declaration(meaning.topic_filter)
        else:
            topic = self._topics.declaration_of_all(meaning.topic_filter)
            if topic is not None and topic.unknown_fields is UnknownFields.KEEP:
                return ""
        if topic is None:
            return ""
        try:
            filters.parse(meaning.where, topic.fields)
        except FilterError as error:
            return error.reason
        return ""

    # From clients here.

    def offer(self, offered: EntryOffered) -> None:
        """A client wants an entry made, changed or removed; answered when it is on disk."""
        core = self._core
        session, token = offered.session, offered.token
        try:
            entry = self._made(offered)
        except DeclarationError as error:
            core.out.append(Decline(session, token, str(error)))
            return
        if isinstance(entry, str):
            core.out.append(Decline(session, token, entry))
            return
        if entry is self._latest((entry.kind, entry.name)):
            core.after_sync(lambda: core.out.append(Enlist(session, token)))
            return
        self._pending[entry.kind, entry.name] = entry
        self._store(entry)
        core.after_sync(lambda: self._settle(entry, session, token))

    def _made(self, offered: EntryOffered) -> Entry | str:
        """The entry that a client asks for, or why there is none."""
        core = self._core
        kind, name, text = offered.kind, offered.name, offered.text
        if kind not in READ:
            return f"there is no kind {kind[:80]!r} of entries; there are {' and '.join(READ)}"
        if not text:
            return self._made_removal(kind, name, offered.force)
        if len(text) > TEXT_LENGTH_MAX:
            return f"the text has {len(text)} characters; the limit is {TEXT_LENGTH_MAX}"
        try:
            text.encode()
        except UnicodeEncodeError:
            return "the text has half of a surrogate pair, which is not Unicode text"
        new = READ[kind](text)
        if name and name != new.name:
            return f"the text declares {new.name[:80]!r}, not {name[:80]!r}; say one name"
        latest = self._latest((kind, new.name))
        if latest is not None and latest.text == text:
            return latest
        if misfit := self._misfit(new):
            return misfit
        holds = latest is not None and latest.text
        if self._too_much(text, 0 if holds else 1):
            return (
                f"the catalogue is full: {len(self._entries)} entries of {ENTRIES_MAX}, {self._length} "
                f"characters of {CATALOGUE_BYTES_MAX}; remove what is not needed"
            )
        if latest is not None and latest.text and not offered.force:
            if broken := _breaks(READ[kind](latest.text), new):
                return _objection(f"{kind} {new.name!r} is in use, and this would break it", broken)
        least = new.version if isinstance(new, Topic) else 1
        return _follow(latest, kind, new.name, text, core.id, least=least)

    def _made_removal(self, kind: str, name: str, force: bool) -> Entry | str:
        latest = self._latest((kind, name))
        if latest is None or not latest.text:
            return f"there is no {kind} {name[:80]!r}; `tidings {kind} list` shows those that there are"
        old = self._meanings.get((kind, name))
        if isinstance(old, Topic) and not force and (broken := changes.removal_breaks(old)):
            return _objection(f"topic {name!r} is in use, and this would break it", broken)
        removed_at_us = max(1, self._core.at_us)
        return _follow(latest, kind, name, "", self._core.id, removed_at_us=removed_at_us)

    def _settle(self, entry: Entry, session: str, token: int) -> None:
        """An offered entry is on disk: now it holds, and all are told."""
        key = entry.kind, entry.name
        if self._pending.get(key) is entry:
            del self._pending[key]
        held = self._known(key)
        if self._take(entry, None):
            self._core.out.append(Enlist(session, token))
        else:
            assert held is not None, "an entry loses only against another"
            reason = f"meanwhile {_shown(held)} has come and holds; look at it, and declare again"
            self._core.out.append(Decline(session, token, reason))

    # From neighbours.

    def on_link_up(self, link: Link) -> None:
        """A new session: tell all that is known here."""
        told = [entry for key, entry in self._entries.items() if key not in self._tentative]
        before = [entry for entry in self._tentative.values() if entry is not None]
        everything = iter([*told, *before, *self._removed.values()])
        part = _part(everything)
        while True:
            following = _part(everything)
            self._links.send(link, CatalogueMessage(tuple(part), bool(following)))
            if not following:
                return
            part = following

    def on_catalogue(self, link: Link, message: CatalogueMessage) -> None:
        for entry in message.entries:
            if not self._hear(link, entry):
                return
        if not message.more:
            self._synchronise()

    def on_enter(self, link: Link, message: Enter) -> None:
        self._hear(link, message.entry)

    def _hear(self, link: Link, entry: Entry) -> bool:
        """A neighbour has told of an entry; False if that has cost it its session."""
        if fault := _fault(entry):
            self._links.renounce(link, f"no entry of a catalogue {fault}")
            return False
        key = entry.kind, entry.name
        held = self._known(key)
        if held is None:
            if entry.removed_at_us and self._core.at_us - entry.removed_at_us >= TOMBSTONE_US:
                return True  # forgotten here, and soon there
            if entry.text and self._too_much(entry.text, 1, times=2):
                if not self._full:
                    self._full = True
                    self._core.log("error", "a neighbour's entry is not taken: the catalogue is full")
                return True
        self._take(entry, link)
        return True

    def _take(self, entry: Entry, source: Link | None) -> bool:
        """Let an entry hold if it is newer than what does, and tell the others; whether it does hold."""
        key = entry.kind, entry.name
        held = self._tentative.get(key) if key in self._tentative else self._known(key)
        if held is not None and _rank(entry) <= _rank(held):
            self._report(held, entry)
            return _rank(entry) == _rank(held)
        if held is not None:
            self._report(entry, held)
        if key in self._tentative:
            del self._tentative[key]
            self._overtaken[key] = None
        self._hold(entry)
        if source is not None:
            self._store_if_newest(entry)
        self._tell(entry, source)
        return True

    def _tell(self, entry: Entry, source: Link | None) -> None:
        for link in self._links.up():
            if link is not source:
                self._links.send(link, Enter(entry))

    def _report(self, holds: Entry, lost: Entry) -> None:
        """Two entries of one name have met: say so if neither knew of the other."""
        if holds.text != lost.text and _digest_of(lost) not in holds.after:
            self.lost += 1
            self._core.log(
                "warning",
                "two have changed one entry without knowing of each other; the newer holds",
                kind=holds.kind,
                name=holds.name,
                holds=_shown(holds),
                lost=_shown(lost),
                lost_text=lost.text[:1000],
            )

    # What holds.

    def _known(self, key: Key) -> Entry | None:
        """What is known under a name, removed or not."""
        return self._entries.get(key) or self._removed.get(key)

    def _latest(self, key: Key) -> Entry | None:
        return self._pending.get(key) or self._known(key)

    def _too_much(self, text: str, more: int, *, times: int = 1) -> bool:
        return (
            len(self._entries) + len(self._pending) + more > times * ENTRIES_MAX
            or self._length + len(text) > times * CATALOGUE_BYTES_MAX
        )

    def _hold(self, entry: Entry) -> None:
        """Put an entry in the place of the one before it."""
        key = entry.kind, entry.name
        before = self._entries.pop(key, None)
        self._length += len(entry.text) - (len(before.text) if before is not None else 0)
        self._removed.pop(key, None)
        if entry.text:
            self._entries[key] = entry
        else:
            self._removed[key] = entry
            self._forget_at_us = min(self._forget_at_us, entry.removed_at_us + TOMBSTONE_US)
            if len(self._removed) > TOMBSTONES_MAX:
                self._forget(min(self._removed, key=lambda it: (self._removed[it].removed_at_us, it)))
        self._full = False
        self._mean(entry)
        self._core.out.append(CatalogueChanged(*key))

    def _mean(self, entry: Entry) -> None:
        """Let what an entry says be known to those who use it."""
        key = entry.kind, entry.name
        self._meanings.pop(key, None)
        if entry.text and entry.kind in READ:
            try:
                meaning = READ[entry.kind](entry.text)
                if meaning.name == entry.name:
                    self._meanings[key] = meaning
                    if isinstance(meaning, Topic):
                        self._topics.declare(meaning)
                    return
                reason = f"it declares {meaning.name!r}"
            except DeclarationError as error:
                reason = str(error)
            # Of another release, perhaps. Others may understand it, so it is kept and passed on.
            self._core.log(
                "warning", "an entry is not understood", kind=entry.kind, name=entry.name, reason=reason
            )
        if entry.kind == "topic":
            self._topics.remove(entry.name)

    def _store_if_newest(self, entry: Entry) -> None:
        """Write an entry that holds, unless a newer one is on its way to the disk."""
        pending = self._pending.get((entry.kind, entry.name))
        if pending is None or _rank(pending) < _rank(entry):
            self._store(entry)

    def _store(self, entry: Entry) -> None:
        self._core.out.append(Write(_row(entry.kind, entry.name), msgspec.msgpack.encode(entry)))
        self._core.ask_sync()

    def _forget(self, key: Key) -> None:
        """A removed entry need not be remembered any longer."""
        del self._removed[key]
        if key not in self._pending:
            self._core.out.append(Erase(_row(*key)))
            self._core.ask_sync()

    def tick(self) -> None:
        """Forget what was removed long ago."""
        if self._core.at_us < self._forget_at_us:
            return
        for key, entry in list(self._removed.items()):
            if entry.removed_at_us + TOMBSTONE_US <= self._core.at_us:
                self._forget(key)
        oldest_us = min((entry.removed_at_us for entry in self._removed.values()), default=None)
        self._forget_at_us = math.inf if oldest_us is None else oldest_us + TOMBSTONE_US

    # Until clients may come in.

    def on_neighbour_added(self) -> None:
        if not self._neighbours and not self.synchronised:
            self._neighbours = True
            self._core.timers.set(Timer.SYNCHRONISE, None, self._began + REACH_WITHIN_S)

    def on_synchronise_late(self, _about: object) -> None:
        core = self._core
        if any(link.state is State.UP for link in self._links.up()):
            last = self._began + SYNCHRONISE_WITHIN_S
            if core.now < last:
                core.timers.set(Timer.SYNCHRONISE, None, last)
                return
        if self._neighbours:
            core.log("warning", "clients come in although no neighbour has told its catalogue yet")
        self._synchronise()

    def _synchronise(self) -> None:
        if not self.synchronised:
            self.synchronised = True
            self._core.timers.cancel(Timer.SYNCHRONISE, None)
            self._settle_files()
            self._core.out.append(Synchronised())
            self._core.tell(CatalogueSynchronised())


def pages_text(broker: str, url: str) -> str:
    """The text of the entry that says where a broker's pages are."""
    return msgspec.json.encode(Pages(broker, url)).decode()


def _parse_pages(text: str) -> Pages:
    try:
        return msgspec.json.decode(text, type=Pages)
    except msgspec.DecodeError as error:
        raise DeclarationError([Problem(str(error))], "pages") from None


READ: dict[str, Callable[[str], Meaning]] = {
    "topic": parse_topic,
    "view": parse_view,
    "pages": _parse_pages,
}
"""How the text of each kind is read; DeclarationError where it cannot be."""

REFUSED_FILE = (
    "a file is not taken, since something else is declared; put it right, give it a higher version, or "
    "declare it with `tidings topic declare`"
)

MISFIT_FILE = "a view of a file is not taken, since its filter does not fit the declared topic; put it right"


def _key(meaning: Declared) -> Key:
    return ("topic" if isinstance(meaning, Topic) else "view", meaning.name)


def _file_text(meaning: Declared) -> str:
    return topic_text(meaning) if isinstance(meaning, Topic) else meaning.text


def _file_row(meaning: Declared) -> str:
    """Where a broker remembers what a file said."""
    kind, name = _key(meaning)
    return f"catalogue-file/{kind}/{quote(name, safe='')}"


def _file_mark(meaning: Declared) -> bytes:
    return _digest(_file_text(meaning)).to_bytes(8, "big")


def _same(old: Meaning, new: Meaning) -> bool:
    if isinstance(old, Topic) and isinstance(new, Topic):
        return changes.same(old, new)
    return old == new


def _breaks(old: Meaning, new: Meaning) -> list[str]:
    """What a new meaning breaks; a view may be changed at will."""
    return changes.breaks(old, new) if isinstance(old, Topic) and isinstance(new, Topic) else []


def _objection(what: str, broken: list[str]) -> str:
    return "\n".join([f"{what} (--force does it all the same):", *(f"  {one}" for one in broken)])


def _follow(
    before: Entry | None,
    kind: str,
    name: str,
    text: str,
    broker: str,
    *,
    least: int = 1,
    removed_at_us: int = 0,
) -> Entry:
    """The entry that takes the place of another."""
    if before is None:
        return Entry(kind, name, least, broker, text, removed_at_us)
    after = (_digest_of(before), *before.after)[:AFTER_MAX]
    return Entry(kind, name, max(least, before.version + 1), broker, text, removed_at_us, after)


def _rank(entry: Entry) -> tuple[int, str, str, int]:
    """Of two entries of one name the one with the larger rank holds."""
    return entry.version, entry.broker, entry.text, entry.removed_at_us


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def _digest_of(entry: Entry) -> int:
    return _digest(f"{entry.version}\0{entry.broker}\0{entry.text}")


def _fault(entry: Entry) -> str:
    """What no broker would say; empty if all is well."""
    if not 0 < entry.version < 2**53:
        return f"has version {entry.version}"
    if not 0 < len(entry.kind) <= 32 or not entry.kind.isidentifier():
        return f"is of kind {entry.kind[:32]!r}"
    if not 0 < len(entry.name) <= NAME_BYTES_MAX or len(entry.broker) > 255 or len(entry.after) > AFTER_MAX:
        return "has such a name, broker or past"
    if len(entry.text) > TEXT_LENGTH_MAX:
        return f"has {len(entry.text)} characters"
    if bool(entry.text) == bool(entry.removed_at_us) or entry.removed_at_us < 0:
        return "holds and is removed"
    return ""


def _shown(entry: Entry) -> str:
    made = f"of broker {entry.broker!r}" if entry.broker else "of a file"
    return f"version {entry.version} {made}" + ("" if entry.text else " (removed)")


def _row(kind: str, name: str) -> str:
    return f"catalogue/{kind}/{quote(name, safe='')}"


def _part(entries: Iterable[Entry]) -> list[Entry]:
    """The next entries that fit into one message."""
    found: list[Entry] = []
    length = 0
    for entry in entries:
        found.append(entry)
        length += len(entry.text) + len(entry.name)
        if length >= PART_LENGTH or len(found) >= PART_ENTRIES:
            break
    return found
