"""Following: what each session here has had of each event, and what it gets of the next version.

A filter is asked each time an event is told. While it matches, a session gets the new version; when it no
longer does, the session is told once that the event is withdrawn. Versions go up: what a session has had, or
something later, is a repeat, whoever tells it and under whatever identity. A session that wants an event
less often (`every`) gets the newest version when its time has come; versions that are complete, or the last,
do not wait.

What durable sessions have had is on disk, together with what waits for them, so that it is true after a
restart. How versions come here is not known, and neither is the seat that tells them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tidings.overlay.core import Core
from tidings.overlay.events import Deliver, Erase, Write
from tidings.overlay.links.links import Link
from tidings.overlay.matches import Matches
from tidings.overlay.publication import MERGED, Batch, Publication, Told, is_last
from tidings.overlay.publishing.outbox import encode, quoted
from tidings.overlay.routing.grants import Named
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.topics import Content, Topics
from tidings.overlay.timers import Timer
from tidings.records.record import Kind

PREFIX = "follow/"
"""Of the keys under which is written what durable sessions have had."""

LIVE = "live/"
"""Of those under which is written which durable subscriptions do not begin with the open events."""

CLOSED = "closed/"
"""Of those under which is written which events are closed that durable sessions have had."""

ALL = 2**62
"""Later than any version."""

VERSION_MAX = 2**64 - 1
"""The greatest that can be written; neighbours may say it."""

Names = tuple[str, ...]
"""Of subscriptions of one session, sorted."""


@dataclass
class Counts:
    """What has become of versions of events here."""

    given: int = 0
    """Versions that were handed to sessions, each counted once for all of them."""

    withdrawn: int = 0
    """Messages that took an event back."""

    snapshots: int = 0
    """Open events that new subscriptions began with."""

    held: int = 0
    """Versions that had to wait for a session's `every`."""

    repeats: int = 0
    """Sessions that were not given a version again."""

    forgotten: int = 0
    """Events that were forgotten because there were too many."""


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A version that a session gets when its time has come."""

    publication: Publication
    hops: int
    due_us: int


class Had(msgspec.Struct, array_like=True):
    """What one session has had of one event."""

    version: int
    """The latest that it was given, or that waits for it, or by which the event was withdrawn."""

    names: Names
    """The subscriptions to which it was given last."""

    sent_us: int
    """When that was."""

    withdrawn: bool = False
    """Whether it was told that the event is nothing for it any more."""

    waiting: Waiting | None = None

    withdrawn_us: int = 0
    """When it was told last that the event is nothing for it any more."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What a durable session has had of an event, on disk."""

    session: str
    event: str
    place: str
    topic: str
    had: Had


class Closed(msgspec.Struct, array_like=True):
    """An event that is closed: what is told of it again is a repeat."""

    event: str

    version: int
    """The latest that every session here has had, or was judged by."""

    final: int
    """The last that there was."""

    had: dict[str, Had]
    """By session: what it has had."""

    until: float
    """When it may be forgotten."""

    saved: bool = False
    """Whether durable sessions have had it, so that it is on disk."""

    def is_outlived(self, told: Told) -> bool:
        """Whether the event went on elsewhere, or turns out to be one with another."""
        return told.version > self.final or (told.state == MERGED and self.final < ALL)

    def knows(self, session: str, version: int) -> bool:
        """Whether a version is nothing new to a session."""
        return version <= self.version or (session in self.had and version <= self.had[session].version)


class Followed:
    """An event that sessions here have had."""

    __slots__ = ("closing", "place", "sessions", "topic", "version")

    def __init__(self, place: str, topic: str) -> None:
        self.place = place
        self.topic = topic
        self.version = 0
        """The latest that has come here for all sessions."""
        self.closing: int | None = None
        """The last version, if the event is closed and that one is still on its way."""
        self.sessions: dict[str, Had] = {}


class SessionVersions:
    """What all sessions of this broker have had."""

    def __init__(self, core: Core, topics: Topics, sessions: Sessions) -> None:
        self._core = core
        self._topics = topics
        self._sessions = sessions
        self.counts = Counts()
        self._events: dict[str, Followed] = {}
        """Events that are open, the longest unchanged first."""
        self._by_session: dict[str, dict[str, None]] = {}
        """The events that each session follows."""
        self.live_only: dict[Named, None] = {}
        """Subscriptions that do not want to begin with the open events."""
        self._closed: dict[str, Closed] = {}
        """Events that were followed and are closed, for a while."""
        self._let_go: dict[str, float] = {}
        """Events that nobody here wants any more, of which seats have been told so; and when they may be
        forgotten, the soonest first."""

    def __len__(self) -> int:
        return len(self._events)

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """What durable sessions had before a restart; sessions and subscriptions are known by now."""
        for key in sorted(saved):
            if key.startswith(LIVE):
                self.live_only[msgspec.msgpack.decode(saved[key], type=Named)] = None
            if key.startswith(CLOSED):
                closed = msgspec.msgpack.decode(saved[key], type=Closed)
                self._closed[closed.event] = closed
            if not key.startswith(PREFIX):
                continue
            row = msgspec.msgpack.decode(saved[key], type=Row)
            if row.session not in self._sessions.sessions:
                self._core.out.append(Erase(key))
                continue
            followed = self._events.setdefault(row.event, Followed(row.place, row.topic))
            followed.version = max(followed.version, row.had.version)
            followed.sessions[row.session] = row.had
            self._by_session.setdefault(row.session, {})[row.event] = None
            if row.had.waiting is not None:
                self._set_timer(row.session, row.event, row.had.waiting)
        self._closed = {it.event: it for it in sorted(self._closed.values(), key=lambda it: it.until)}

    # A version has come.

    @property
    def given(self) -> int:
        """Versions that were given to sessions, each counted once for all of them."""
        return self.counts.given

    def deliver(
        self, publication: Publication, fields: Content, link: Link | None, hops: int, *, late: bool = False
    ) -> bool:
        """Give a version to the sessions that it is for; whether one of them is durable.

        If it is `late` it was told before this broker could hear of it: to those who have had none of the
        event it is as if they had only now subscribed.
        """
        told = _told(publication)
        followed = self._events.get(told.event)
        found = self._sessions.local.match(publication.topic, fields)
        closed = self._closed.get(told.event)
        if closed is not None and closed.is_outlived(told):
            self._revive(closed, publication)
            followed, closed = self._events.get(told.event), None
        if not found and followed is None:
            if is_last(told):
                last = ALL if told.state == MERGED else told.version
                self._remember_closed(told.event, last, last, {}, durable=False)
            return False
        if self._sessions.shares.groups:
            found = self._shared(found, followed)
        if late:
            found = {named: qos for named, qos in found.items() if self._begins(named, followed)}
        matching: dict[str, list[str]] = {}
        for session, name in sorted(found):
            matching.setdefault(session, []).append(name)
        if closed is None:
            return self._share_out(publication, matching, link, hops, late)
        known = [session for session in matching if closed.knows(session, told.version)]
        self._repeat(publication, link, hops, known)
        for session in known:
            del matching[session]
        durable = bool(matching) and self._share_out(publication, matching, link, hops, late)
        self._close(told.event, closed.final)
        return durable

    def _revive(self, closed: Closed, publication: Publication) -> None:
        """Who had an event that was closed follows it again."""
        self._forget_closed(closed.event)
        told = _told(publication)
        followed = Followed(told.place or told.topic, publication.topic)
        for session, had in closed.had.items():
            known = self._sessions.sessions.get(session)
            names = tuple(name for name in had.names if known is not None and name in known.subscriptions)
            if names:
                had.names = names
                followed.sessions[session] = had
                self._by_session.setdefault(session, {})[closed.event] = None
        if followed.sessions:
            followed.version = closed.version
            self._keep(closed.event, followed, told)

    def _share_out(
        self,
        publication: Publication,
        matching: Mapping[str, list[str]],
        link: Link | None,
        hops: int,
        late: bool,
    ) -> bool:
        """Decide for each session that matches, or follows, what it gets."""
        told = _told(publication)
        merged = told.state == MERGED
        followed = self._events.get(told.event) or Followed(told.place or told.topic, publication.topic)
        given: dict[str, Names] = {}
        begun: dict[str, Names] = {}
        withdrawn: dict[str, Names] = {}
        farewells: dict[int, dict[str, Names]] = {}
        repeated: list[str] = []
        changed: list[str] = []
        for session in sorted({*matching, *followed.sessions}):
            had = followed.sessions.get(session)
            names = tuple(matching.get(session, ()))
            # A later version has come here that a session without any was not given: this one is out of date.
            known = had.version if had is not None else followed.version - 1
            if told.version <= known and not merged:
                repeated.append(session)
            elif names and not merged:
                due_us = had.sent_us + self._every_us(session, names) if had is not None else 0
                if had is None or told.complete or is_last(told) or due_us <= self._core.at_us:
                    (begun if late and had is None else given)[session] = names
                else:
                    self._hold(session, told.event, had, Waiting(publication, hops, due_us))
                    changed.append(session)
            elif had is not None and (had.names or merged):
                changed.append(session)
                self._supersede(session, told.event, had)
                # Who merges events may not know how far they had come on the other side of a partition.
                had.version = max(told.version, min(had.version + merged, VERSION_MAX))
                if merged and not had.withdrawn:
                    farewells.setdefault(had.version, {})[session] = had.names
                elif not had.withdrawn:
                    withdrawn[session] = had.names
        for session, names in [*given.items(), *begun.items()]:
            self._note(followed, session, told, names)
        for session in withdrawn:
            had = followed.sessions[session]
            had.withdrawn, had.withdrawn_us = True, self._core.at_us
        self._repeat(publication, link, hops, repeated)
        self._give(publication, given, link, hops)
        self.counts.snapshots += len(begun)
        self._give(_snapshot(publication), begun, link, hops)
        for version, receivers in farewells.items():
            numbered = msgspec.structs.replace(told, version=version)
            self._give(msgspec.structs.replace(publication, told=numbered), receivers, link, hops)
        self.counts.withdrawn += len(withdrawn)
        self._give(_withdrawn(publication), withdrawn, link, hops, "withdrawn")
        if not late:
            followed.version = max(followed.version, told.version)
        if followed.sessions:
            self._keep(told.event, followed, told)
        durable = self._write(told.event, followed, dict.fromkeys([*given, *begun, *changed]))
        if merged:
            # Elsewhere it may go on for a while; all of that will be in the other event.
            followed.version = ALL
        if is_last(told) and not followed.sessions:
            self._remember_closed(told.event, followed.version, followed.version, {}, durable=False)
        elif is_last(told) or (followed.closing is not None and told.version >= followed.closing):
            self._close(told.event, followed.version)
        return durable

    def snapshot(
        self, publication: Publication, fields: Content, named: Named, since_us: int, hops: int
    ) -> None:
        """An open event that a new subscription begins with, unless its session has had it.

        A version that was withdrawn since the client subscribed is had: what comes as the same one was told
        by another side of a partition. One that was withdrawn before is not.
        """
        told = _told(publication)
        session, name = named
        closed = self._closed.get(told.event)
        found = self._sessions.local.match(publication.topic, fields)
        if named not in found or (closed is not None and told.version <= closed.final):
            return
        if closed is not None:
            self._revive(closed, publication)
        followed = self._events.get(told.event) or Followed(told.place or told.topic, publication.topic)
        had = followed.sessions.get(session)
        names = tuple(sorted(other for who, other in found if who == session))
        if had is not None and told.version < had.version:
            return
        if had is not None and told.version == had.version and had.waiting is None:
            if not had.withdrawn:
                had.names = names
                self._save(told.event, followed, session)
                return
            if since_us < had.withdrawn_us:
                return
        if had is not None:
            self._supersede(session, told.event, had)
        self._note(followed, session, told, names)
        self._keep(told.event, followed, told)
        self.counts.snapshots += 1
        self._give(_snapshot(publication), {session: (name,)}, None, hops)
        if self._write(told.event, followed, [session]):
            self._core.ask_sync()

    def _shared(self, found: dict[Named, int], followed: Followed | None) -> dict[Named, int]:
        """What was found, with one member left of each share group: the one that follows, if it is there."""
        here = self._sessions
        groups = here.shares.groups
        if followed is not None:
            session_versions: dict[str, Named] = {}
            for named in found:
                had = followed.sessions.get(named[0])
                if named in groups and had is not None and named[1] in had.names:
                    if here.sessions[named[0]].open:
                        session_versions.setdefault(groups[named], named)
            found = {
                named: qos
                for named, qos in found.items()
                if named not in groups or session_versions.get(groups[named], named) == named
            }
        return here.shares.choose(found, lambda session: here.sessions[session].open)

    def _begins(self, named: Named, followed: Followed | None) -> bool:
        """Whether a subscription gets what was told before it could hear of it."""
        if followed is not None and named[0] in followed.sessions:
            return True
        return named not in self._sessions.shares.groups and named not in self.live_only

    def _every_us(self, session: str, names: Names) -> int:
        subscriptions = self._sessions.sessions[session].subscriptions
        return min(subscriptions[name].every_us for name in names)

    def _note(self, followed: Followed, session: str, told: Told, names: Names) -> None:
        """A session is given a version now."""
        had = followed.sessions.get(session)
        if had is not None:
            self._supersede(session, told.event, had)
        followed.sessions[session] = Had(told.version, names, self._core.at_us)
        self._by_session.setdefault(session, {})[told.event] = None

    def _keep(self, event: str, followed: Followed, told: Told) -> None:
        """An event has changed: it is the last to be forgotten, should there be too many."""
        followed.place = told.place or told.topic
        self._events.pop(event, None)
        self._events[event] = followed
        while len(self._events) > self._core.settings.following_max:
            oldest = next(iter(self._events))
            self.counts.forgotten += 1
            if self.counts.forgotten & (self.counts.forgotten - 1) == 0:  # the 1st, 2nd, 4th, …
                self._core.log("warning", "events are followed no further", forgotten=self.counts.forgotten)
            self._forget(oldest)

    # Giving.

    def _give(
        self,
        publication: Publication,
        receivers: Mapping[str, Names],
        link: Link | None,
        hops: int,
        reason: str | None = None,
    ) -> None:
        """Hand a version to sessions."""
        if not receivers:
            return
        told = _told(publication)
        self.counts.given += 1
        subscriptions = tuple((session, name) for session, names in receivers.items() for name in names)
        self._core.out.append(Deliver(Batch.of(publication), Matches(1, tuple(sorted(subscriptions))), hops))
        self._core.spend(len(receivers), len(publication.payload))
        self._core.record(
            Kind.DELIVERED,
            publication.topic,
            publication.id,
            len(publication.payload),
            link=link.peer if link is not None else None,
            hops=hops,
            latency_us=self._core.at_us - publication.at_us,
            reason=reason,
            receivers=tuple(receivers),
            event=told.event,
            version=told.version,
        )

    def _repeat(self, publication: Publication, link: Link | None, hops: int, sessions: list[str]) -> None:
        if sessions:
            self.counts.repeats += len(sessions)
            self._suppress(publication, link.peer if link is not None else None, hops, "repeat", sessions)

    def _suppress(
        self, publication: Publication, peer: str | None, hops: int, reason: str, sessions: list[str]
    ) -> None:
        told = _told(publication)
        self._core.record(
            Kind.SUPPRESSED,
            publication.topic,
            publication.id,
            len(publication.payload),
            link=peer,
            hops=hops,
            reason=reason,
            receivers=tuple(sessions),
            event=told.event,
            version=told.version,
        )

    # Waiting for `every`.

    def _hold(self, session: str, event: str, had: Had, waiting: Waiting) -> None:
        """Keep a version, and no older one, until its session wants another."""
        self._supersede(session, event, had)
        self.counts.held += 1
        had.version = _told(waiting.publication).version
        had.waiting = waiting
        self._set_timer(session, event, waiting)

    def _set_timer(self, session: str, event: str, waiting: Waiting) -> None:
        self._core.timers.set(Timer.EVERY, (session, event), waiting.due_us / 1_000_000)

    def _supersede(self, session: str, event: str, had: Had) -> None:
        """What waits for a session will not be sent: something newer takes its place."""
        waiting, had.waiting = had.waiting, None
        if waiting is not None:
            self._core.timers.cancel(Timer.EVERY, (session, event))
            self._suppress(waiting.publication, None, waiting.hops, "held for every", [session])

    def on_due(self, about: tuple[str, str]) -> None:
        """The time of a version that has waited has come."""
        session, event = about
        followed = self._events.get(event)
        if followed is not None and session in followed.sessions:
            self._send_waiting(event, followed, session)
            self._save(event, followed, session)

    def _send_waiting(self, event: str, followed: Followed, session: str) -> None:
        """Send what waits for a session; its subscriptions may be others than when it came."""
        had = followed.sessions[session]
        waiting, had.waiting = had.waiting, None
        if waiting is None:
            return
        self._core.timers.cancel(Timer.EVERY, (session, event))
        if self._sessions.sessions[session].durable:
            self._core.ask_sync()
        publication, hops = waiting.publication, waiting.hops
        names = self._names(session, publication)
        if names:
            had.names, had.sent_us, had.withdrawn = names, self._core.at_us, False
            self._give(publication, {session: names}, None, hops)
        elif not had.withdrawn:
            had.withdrawn, had.withdrawn_us = True, self._core.at_us
            self.counts.withdrawn += 1
            self._give(_withdrawn(publication), {session: had.names}, None, hops, "withdrawn")

    def _names(self, session: str, publication: Publication) -> Names:
        """The subscriptions of a session that a version matches now."""
        found = self._sessions.local.match(publication.topic, self._topics.fields(publication))
        return tuple(sorted(name for who, name in found if who == session))

    # Forgetting.

    def close(self, event: str, version: int) -> None:
        """An event is closed, after a version that may still be on its way; 0 for whatever there was.

        Who has a later one has it from another side of a partition, which has gone on with the event.
        """
        followed = self._events.get(event)
        if followed is None or (version and any(it.version > version for it in followed.sessions.values())):
            return
        if all(had.version >= version for had in followed.sessions.values() if had.names):
            self._close(event, version)
        else:
            followed.closing = version

    def _close(self, event: str, final: int) -> None:
        followed = self._events.get(event)
        if followed is None:
            return
        had = dict(followed.sessions)
        durable = any(self._sessions.sessions[session].durable for session in had)
        self._forget(event)
        self._remember_closed(event, followed.version, final, had, durable=durable)

    def _remember_closed(
        self, event: str, version: int, final: int, had: dict[str, Had], *, durable: bool
    ) -> None:
        """What is told of an event up to its last version is a repeat, or has been overtaken."""
        until = self._core.now + self._core.settings.absent_hold_s
        before = self._closed.pop(event, None)
        if before is not None:
            version, final = max(version, before.version), max(final, before.final)
            had, durable = before.had | had, durable or before.saved
        elif len(self._closed) >= self._core.settings.following_max:
            self._forget_closed(next(iter(self._closed)))
        closed = self._closed[event] = Closed(event, version, final, had, until, durable)
        if durable:
            self._core.out.append(Write(_closed_key(event), encode(closed)))

    def _forget(self, event: str) -> None:
        """An event is followed no further; who waits for a version gets it now."""
        followed = self._events.pop(event)
        for session in list(followed.sessions):
            self._send_waiting(event, followed, session)
            self._leave(event, followed, session)

    def _leave(self, event: str, followed: Followed, session: str) -> None:
        """A session follows an event no more."""
        del followed.sessions[session]
        self._core.timers.cancel(Timer.EVERY, (session, event))
        events = self._by_session[session]
        del events[event]
        if not events:
            del self._by_session[session]
        known = self._sessions.sessions.get(session)
        if known is not None and known.durable:
            self._core.out.append(Erase(_key(session, event)))

    def let_go(self, event: str) -> None:
        """The seat has been told that nobody here wants an event: it will not say that it is closed.

        What is on its way may still come, so what was had is remembered for a while.
        """
        if event in self._events:
            self._let_go.pop(event, None)
            self._let_go[event] = self._core.now + self._core.settings.absent_hold_s
            if len(self._let_go) > self._core.settings.following_max:
                self._forget_let_go()

    def _forget_let_go(self) -> None:
        event = next(iter(self._let_go))
        del self._let_go[event]
        if event in self._events and not self.is_followed(event):
            self._forget(event)

    def on_asked(self, named: Named, *, snapshot: bool) -> None:
        """A client has subscribed; whether it wants to begin with the open events."""
        if not snapshot and named not in self.live_only:
            self.live_only[named] = None
            if self._sessions.sessions[named[0]].durable:
                self._core.out.append(Write(_live_key(named), encode(named)))
        elif snapshot:
            self._forget_live(named)

    def _forget_live(self, named: Named) -> None:
        if self.live_only.pop(named, "") is None and self._sessions.sessions[named[0]].durable:
            self._core.out.append(Erase(_live_key(named)))

    def on_gone(self, session: str, names: Iterable[str]) -> None:
        """Subscriptions of a session are gone."""
        gone = frozenset(names)
        if self.live_only:
            for name in sorted(gone):
                self._forget_live((session, name))
        for event in list(self._by_session.get(session, ())):
            followed = self._events[event]
            had = followed.sessions[session]
            left = tuple(name for name in had.names if name not in gone)
            if left == had.names:
                continue
            if not left and had.waiting is not None and self._names(session, had.waiting.publication):
                self._send_waiting(event, followed, session)  # others of its subscriptions want it
                left = had.names
            # What it has had stays had. But nobody need be told any more that it is withdrawn.
            had.names, had.withdrawn = left, had.withdrawn or not left
            if not left:
                self._supersede(session, event, had)
            self._save(event, followed, session)

    def on_ended(self, session: str) -> None:
        """A session is no more."""
        for event in list(self._by_session.get(session, ())):
            followed = self._events[event]
            self._leave(event, followed, session)
            if not followed.sessions:
                del self._events[event]

    def on_durable(self, session: str) -> None:
        """A session is durable now that was not before."""
        for event in self._by_session.get(session, ()):
            self._save(event, self._events[event], session)

    def tick(self) -> None:
        """Events that are closed, or that nobody wants, need not be remembered for ever."""
        while self._let_go and next(iter(self._let_go.values())) <= self._core.now:
            self._forget_let_go()
        while self._closed:
            event = next(iter(self._closed))
            if self._closed[event].until > self._core.now:
                break
            self._forget_closed(event)

    def _forget_closed(self, event: str) -> None:
        if self._closed.pop(event).saved:
            self._core.out.append(Erase(_closed_key(event)))

    # For those who see to it that nothing is missed.

    def is_followed(self, event: str) -> bool:
        """Whether some session here is to hear what becomes of an event."""
        followed = self._events.get(event)
        return followed is not None and any(
            not had.withdrawn or had.waiting is not None for had in followed.sessions.values()
        )

    def followed(
        self, places: Container[str], events: Iterable[str] | None = None
    ) -> list[tuple[str, str, str, int, int]]:
        """Events of some places that are followed here, or those of `events`.

        Each with its place, topic, the version that all have, and the quality of service for them.
        """
        known = self._events
        return [
            (
                event,
                it.place,
                it.topic,
                min(had.version for had in it.sessions.values()),
                max(self._qos(session, had) for session, had in it.sessions.items()),
            )
            for event in (known if events is None else events)
            if (it := known.get(event)) is not None and it.place in places
        ]

    def _qos(self, session: str, had: Had) -> int:
        asked = self._sessions.sessions[session].subscriptions
        return max((asked[name].qos for name in had.names if name in asked), default=0)

    # On disk.

    def _write(self, event: str, followed: Followed, sessions: Iterable[str]) -> bool:
        """Write down what sessions have had; whether one of them is durable."""
        durable = False
        for session in sessions:
            durable |= self._save(event, followed, session)
        return durable

    def _save(self, event: str, followed: Followed, session: str) -> bool:
        if not self._sessions.sessions[session].durable:
            return False
        row = Row(session, event, followed.place, followed.topic, followed.sessions[session])
        self._core.out.append(Write(_key(session, event), encode(row)))
        return True


def _told(publication: Publication) -> Told:
    told = publication.told
    assert told is not None, "only versions of events are followed"
    return told


def _snapshot(publication: Publication) -> Publication:
    """An open event that somebody begins with."""
    told = msgspec.structs.replace(_told(publication), state="snapshot")
    return msgspec.structs.replace(publication, told=told)


def _withdrawn(publication: Publication) -> Publication:
    """That an event is nothing for a session any more: without its fields."""
    told = msgspec.structs.replace(_told(publication), state="withdrawn")
    return msgspec.structs.replace(publication, payload=b"", told=told)


def _closed_key(event: str) -> str:
    return f"{CLOSED}{quoted(event)}"


def _live_key(named: Named) -> str:
    return f"{LIVE}{quoted(named[0])}/{quoted(named[1])}"


def _key(session: str, event: str) -> str:
    return f"{PREFIX}{quoted(session)}/{quoted(event)}"
