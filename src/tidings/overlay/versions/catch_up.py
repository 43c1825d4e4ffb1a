"""Catching up: versions of events for those who come later, or have missed one.

A new subscription *asks* (`Ask`) the seat of each place that it meets for the open events that match, and
begins with the answer (`Snapshot`). The seat answers once it knows the subscription itself, so that what it
tells later goes there too.

A seat knows who has had what (`receivers`). One that has just begun does not, and one from which a broker was
cut off may have told what did not get there. So a home says what its sessions *follow* (`Follow`), and which
version everyone there has: to a new seat, to one that was started anew, and when it may have been away. The
answer is what it has missed. Whatever is lost on the way is asked again.

When an event is *closed* without a last version, those who have had it are told (`Close`). That may overtake
a version, so it names the last one. It is said again in new epochs for a while. A seat that does not know an
event may yet come to know it, from a part of the network that was cut off; only after a while it is taken for
closed. A home at which nobody wants an event says so (`Unfollow`).

What sessions have had is known to `session_versions`; how seats are found and what they gather is not known
here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.errors import FilterError
from tidings.gathering.gatherer import Gatherer
from tidings.language import names
from tidings.language.fields import TOPIC, USER
from tidings.language.reports import Event
from tidings.language.subscriptions import EVERYTHING, Subscription
from tidings.overlay.core import Core
from tidings.overlay.gather.messages import Holder
from tidings.overlay.gather.partitions import PART
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import MERGED, Publication, Told, is_last
from tidings.overlay.publishing.batches import packed, unpacked
from tidings.overlay.routing.changes import Version
from tidings.overlay.routing.grants import Named
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.topics import Topics
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Edge, Tree, TreeEpoch, Trees
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot, Unfollow
from tidings.overlay.versions.receivers import Receivers
from tidings.overlay.versions.session_versions import SessionVersions

FOLLOW_PART = 1000
"""Events in one message."""

SNAPSHOT_PART, SNAPSHOT_BYTES = 100, 256 * 1024
"""Publications in one message, and about how long it may be."""

ASK_AGAIN_S = 2.0
"""An unanswered question is asked again after so long: a broker on its way may not have known the seat."""

ASK_EACH_MAX = 4
"""Different subscriptions for which a broker asks one by one when it meets a seat; with more it asks for all
that is open there."""

LOOK_S = 30.0
"""How often all ways to seats are looked at although nothing is known to have changed."""

CALM_S = 60.0
"""After so long without a change a seat has told all that others had gathered when the tree changed, and what
it said of closed events has come where it should."""

EARLY_MAX, EARLY_BYTES = 10_000, 8 * 1024 * 1024
"""Messages of a link that wait for their epochs to be ready here, and their length; beyond, they are lost and
said again."""

WAITING_MAX = 10_000
"""Questions that wait for sets, of which each member has an equal share; beyond, they are asked again."""

_ENCODER = msgspec.msgpack.Encoder()


class Places(Protocol):
    """What is needed of `seats`."""

    def places(self, topic_filter: str) -> list[str]:
        """All places of gathered topics that a topic filter meets."""

    def grown(self, place: str) -> TreeEpoch | None:
        """The epoch that a place uses."""

    def holder(self, place: str) -> Holder | None:
        """Who has a seat, as far as is known here."""

    def mine(self, place: str) -> Gatherer | None:
        """The gatherer of a place, if this broker has the seat."""

    def toward(self, grown: TreeEpoch, broker: str) -> Edge | None:
        """The link of a tree behind which a broker is."""

    def shown(self, place: str, wanted: Callable[[Event], bool]) -> list[Publication]:
        """The latest versions told of open events here."""

    def recall(self, place: str, event: str, version: int) -> int | None:
        """Tell the last version of an event again that was closed here, for somebody who has an earlier one.

        The last version if there is nothing to tell, 0 if it is told; None if it is not known that the event
        was closed.
        """


AnyMessage = Follow | Unfollow | Close | Ask | Snapshot

Known = tuple[int, int]
"""Of an event: the version that all have who follow it here, and the quality of service for them."""


class Question:
    """An unanswered one: which open events of a place match a subscription?"""

    __slots__ = ("asked_at", "named", "number", "place", "since_us", "subscription")

    def __init__(
        self, number: int, named: Named | None, since_us: int, subscription: Subscription, place: str
    ) -> None:
        self.number = number
        self.named = named
        """The new subscription that begins with the answer; None if it is for all that match."""
        self.since_us = since_us
        """When its client subscribed."""
        self.subscription = subscription
        self.place = place
        self.asked_at = -ASK_AGAIN_S


class Way:
    """To a seat."""

    __slots__ = ("boot", "epoch", "mine", "root", "said_at", "seat", "unanswered")

    def __init__(self, grown: TreeEpoch, holder: Holder, *, mine: bool) -> None:
        self.root = grown.root
        self.epoch: Epoch = grown.epoch
        self.seat = holder.seat
        self.boot = holder.boot
        self.mine = mine
        """Whether this broker has it, and has begun."""
        self.unanswered: dict[int, None] = {}
        """Numbers of what was said to be followed here, until the seat has answered."""
        self.said_at = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        return self.root, self.epoch, self.seat, self.boot, self.mine

    def goes_on(self, before: Way | None) -> bool:
        """Whether the seat knows what is followed here: it is the same, and there was no epoch in between."""
        return (
            before is not None
            and not before.unanswered
            and (self.seat, self.boot, self.mine, self.root)
            == (before.seat, before.boot, before.mine, before.root)
            and self.epoch in (before.epoch, (before.epoch[0], before.epoch[1] + 1))
        )


class Early:
    """What has come over a link before its epoch was ready here."""

    __slots__ = ("generation", "link", "messages", "size")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.generation = link.generation
        self.messages: list[AnyMessage] = []
        self.size = 0


class Over:
    """An event that was closed here lately."""

    __slots__ = ("at", "homes", "place", "version")

    def __init__(self, place: str, version: int, at: float, homes: list[str]) -> None:
        self.place = place
        self.version = version
        """The last."""
        self.at = at
        self.homes = homes
        """Who had it."""

    def ends(self, version: int) -> bool:
        """Whether it was closed after a version; else that is of another side, which has gone on with it."""
        return not 0 < self.version < version


class CatchUp:
    """What this broker asks, and answers, and passes on."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        sessions: Sessions,
        homes: Homes,
        own_version: Callable[[], Version],
        session_versions: SessionVersions,
        seats: Places,
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._sessions = sessions
        self._homes = homes
        self._own_version = own_version
        self._session_versions = session_versions
        self._seats = seats
        self.receivers = Receivers(core)
        self._expected: dict[Named, int] = {}
        """Subscriptions that are to begin with the open events, once they are granted; and since when."""
        self._unasked: dict[tuple[Named | None, str, Subscription], int] = {}
        """What is to be asked, and the place, which waits for a tree; and since when."""
        self._members: dict[str, Mapping[str, object]] = {}
        """By place: who was on its tree when its seat was last looked for."""
        self._strangers: dict[str, dict[str, None]] = {}
        """Members new to the tree. If one of them has the seat, ask it for all open events."""
        self._changed_at: dict[str, float] = {}
        """By place: when the way to its seat last changed."""
        self._questions: dict[int, Question] = {}
        self._asked = 0
        self._ways: dict[str, Way] = {}
        """By place."""
        self._told: dict[str, tuple[Publication, float]] = {}
        """What was told from here lately, by event: the latest version, and until when it is remembered."""
        self._over: dict[str, Over] = {}
        """Events that were closed here lately, the longest closed first."""
        self._unsaid: dict[str, None] = {}
        """Those of them that are to be said at the next tick."""
        self._outdated: dict[str, dict[str, None]] = {}
        """By place: events of which a version came that another broker told than the one with the seat."""
        self._unwanted: dict[str, tuple[str, int]] = {}
        """Events of which versions came here although nobody follows them: the place, and the latest."""
        self._doubts: dict[tuple[str, str], float] = {}
        """Events that are followed, and not known to the seat here; and when they are taken for closed."""
        self._early: dict[tuple[str, str], Early] = {}
        """By neighbour and root."""
        self._waiting: dict[str, dict[int, tuple[Link, int, Ask]]] = {}
        """By home and number: questions that came before the set of the home."""
        self._moved: dict[str, None] = {}
        """Places whose seats are elsewhere than before."""
        self._all_moved = False
        """Whether all may be."""
        self._looked_at = core.now

    # Snapshots: the side that asks.

    def expect(self, named: Named) -> None:
        """A subscription, not yet granted, is to begin with the open events."""
        self._expected[named] = self._core.at_us

    def expect_no_more(self, named: Named) -> None:
        """A subscription is refused."""
        self._expected.pop(named, None)

    def on_granted(self, named: Named, subscription: Subscription) -> None:
        """A subscription is installed: what is told from now on comes here."""
        since_us = self._expected.pop(named, None)
        if since_us is None:
            return
        self._drop_questions({named})
        for place in self._seats.places(subscription.topic_filter):
            self._unasked[named, place, subscription] = since_us
        self._ask_new()

    def _ask_new(self) -> None:
        """Ask what has not been asked, where there is a tree by now."""
        for key in list(self._unasked):
            named, place, subscription = key
            if self._seats.grown(place) is not None:
                since_us = self._unasked.pop(key)
                self._asked += 1
                question = Question(self._asked, named, since_us, subscription, place)
                self._questions[question.number] = question
                self._ask(question)

    def on_gone(self, session: str, gone: Sequence[str]) -> None:
        """Subscriptions are no more."""
        left = {(session, name) for name in gone}
        for named in left:
            self._expected.pop(named, None)
        self._drop_questions(left)

    def _drop_questions(self, gone: set[Named]) -> None:
        for key in [key for key in self._unasked if key[0] in gone]:
            del self._unasked[key]
        for number in [number for number, question in self._questions.items() if question.named in gone]:
            del self._questions[number]

    def _meets_stranger(self, place: str, grown: TreeEpoch, seat: str) -> bool:
        """Whether a seat is at a broker from which nothing could be heard before."""
        before = self._members.get(place, {})
        strangers = self._strangers.setdefault(place, {})
        strangers |= dict.fromkeys(it for it in grown.members if it not in before and it != self._core.id)
        self._members[place] = grown.members
        if seat not in strangers:
            return False
        strangers.clear()
        return True

    def _ask_for_all(self, place: str) -> None:
        """This broker meets a seat that was out of reach: its sessions know nothing of what is open there."""
        topic = self._topics.named(place.partition(PART)[0])
        if topic is None:
            return
        asked = sorted(set(self._sessions.local.meeting(topic.pattern.filter)))
        if len(asked) > ASK_EACH_MAX:
            asked = [Subscription(topic.pattern.filter)]
        self._unasked |= {(None, place, subscription): self._core.at_us for subscription in asked}

    def _ask(self, question: Question) -> None:
        """Ask, if the seat is known; else it is asked when it is."""
        place = question.place
        question.asked_at = self._core.now
        if self._here(place):
            del self._questions[question.number]
            self._begin_with(question, self._matching(place, question.subscription), 0)
            return
        way = self._toward_seat(place)
        if way is not None:
            grown, edge, seat = way
            home, version = self._core.id, self._own_version()
            number, subscription = question.number, question.subscription
            ask = Ask(grown.root, grown.epoch, place, seat, home, number, version, subscription)
            self._links.send(edge.link, ask)

    def _begin_with(self, question: Question, publications: Iterable[Publication], hops: int) -> None:
        for publication in publications:
            if publication.told is None:
                continue  # a neighbour gone wrong
            fields = self._topics.fields(publication)
            if question.named is not None:
                self._session_versions.snapshot(publication, fields, question.named, question.since_us, hops)
            elif self._session_versions.deliver(publication, fields, None, hops, late=True):
                self._core.ask_sync()

    # Snapshots: at the seat, and on the way back.

    def on_ask(self, link: Link, message: Ask) -> None:
        grown = self._current(link, message)
        if grown is None or self._passes_on(grown, link, message) or message.home not in grown.bits:
            return
        if not self._homes.has(message.home, message.version):
            waiting = self._waiting.setdefault(message.home, {})
            if len(waiting) < max(1, WAITING_MAX // len(grown.members)):
                waiting[message.number] = (link, link.generation, message)
            return
        found = self._matching(message.place, message.subscription)
        for publication in found:
            if publication.told is not None:
                told, asked = publication.told, {message.home: message.subscription.qos}
                self.receivers.remember(message.place, told.event, told.version, asked)
        self._answer(grown, message.place, message.home, message.number, found)

    def on_set(self, home: str) -> None:
        """A home's set has come here: what it has asked may be answered by now."""
        for link, generation, message in self._waiting.pop(home, {}).values():
            if link.generation == generation:
                self.on_ask(link, message)

    def _passes_on(self, grown: TreeEpoch, source: Link, message: Follow | Unfollow | Ask) -> bool:
        """Send a message of a home on towards the broker that it is for; whether there is no more to do.

        What comes to a broker that has the seat no more, or not yet, is said again.
        """
        if message.seat == self._core.id:
            return not self._here(message.place)
        edge = self._seats.toward(grown, message.seat)
        if edge is not None and edge.link is not source and edge.alive:
            self._links.send(edge.link, message)
        return True

    def _answer(
        self, grown: TreeEpoch, place: str, home: str, number: int, publications: Sequence[Publication]
    ) -> None:
        """Send a home the answer to what it has asked, in parts, one at least."""
        edge = self._seats.toward(grown, home)
        if edge is None or not edge.alive:
            return
        parts = list(_parts(publications)) or [()]
        for at, part in enumerate(parts, 1):
            message = Snapshot(grown.root, grown.epoch, place, home, number, part, at < len(parts))
            self._links.send_data(edge.link, message, message.size)

    def _matching(self, place: str, subscription: Subscription) -> list[Publication]:
        """The open events of a seat here that a subscription asks for."""
        try:
            read = subscription.filter
        except FilterError:
            return []  # of another release, perhaps; what is told from now on it gets all the same
        unknown = subscription.unknown
        about_itself = read is not None and any(path[0] in (TOPIC, USER) for path in read.paths)
        if read is None or about_itself:
            shown = self._seats.shown(place, lambda _event: True)
        else:
            shown = self._seats.shown(place, lambda event: read.matches(event.fields, unknown))
        found = [it for it in shown if names.match(subscription.topic_filter, it.topic)]
        if read is not None and about_itself:
            contents = [(it, self._topics.content(it)) for it in found]
            found = [it for it, fields in contents if fields is not None and read.matches(fields, unknown)]
        return found

    def on_snapshot(self, link: Link, message: Snapshot) -> None:
        grown = self._current(link, message)
        if grown is None:
            return
        if message.home != self._core.id:
            edge = self._seats.toward(grown, message.home)
            if edge is not None and edge.link is not link and edge.alive:
                onward = Snapshot(
                    message.root,
                    message.epoch,
                    message.place,
                    message.home,
                    message.number,
                    message.publications,
                    message.more,
                    message.hops + 1,
                )
                self._links.send_data(edge.link, onward, onward.size)
            return
        question, way = self._questions.get(message.number), self._ways.get(message.place)
        if question is not None:
            if not message.more:
                del self._questions[message.number]
            self._begin_with(question, message.publications, message.hops)
        elif way is not None and message.number in way.unanswered:
            if not message.more:
                del way.unanswered[message.number]
            for publication in message.publications:
                if publication.told is not None:
                    self._retell_here(publication, link, message.hops)

    # What is followed: the side that follows.

    def refresh(self, places: Iterable[str] | None = None) -> None:
        """See whether seats of some places, or of all, are to be found in another way than before.

        On a new way it is said what is followed, unless the seat knows, and asked what has not been answered.
        """
        every = places is None
        if places is None:
            places = self._seats.places(EVERYTHING)
        places = dict.fromkeys(places)
        changed: dict[str, Way] = {}
        follows: dict[str, None] = {}
        for place in places:
            grown, holder = self._seats.grown(place), self._seats.holder(place)
            before = self._ways.get(place)
            if grown is None or holder is None:
                self._ways.pop(place, None)
                continue
            way = Way(grown, holder, mine=self._seats.mine(place) is not None)
            if before is not None and before.key == way.key:
                continue
            self._ways[place] = changed[place] = way
            self._changed_at[place] = self._core.now
            if self._meets_stranger(place, grown, holder.seat) and not way.mine:
                self._ask_for_all(place)
            if not way.mine and (before is None or before.mine):
                self._forget_told(place)
                self.receivers.forget_place(place)
            if not way.goes_on(before):
                follows[place] = None
        if every:
            self._forget_places(places)
        if follows:
            own = self._followed(follows)
            for place in follows:
                self._follow(place, own.get(place, {}))
        for question in [it for it in self._questions.values() if it.place in changed]:
            self._ask(question)
        self._ask_new()

    def _forget_places(self, places: Mapping[str, None]) -> None:
        """There are no places but these."""
        for memory in (self._members, self._strangers, self._changed_at, self._ways):
            for place in [place for place in memory if place not in places]:
                del memory[place]

    def _followed(
        self, places: Container[str], events: Iterable[str] | None = None
    ) -> dict[str, dict[str, Known]]:
        """What sessions here follow, or which of some events, by place and event."""
        found: dict[str, dict[str, Known]] = {}
        for event, place, _, version, qos in self._session_versions.followed(places, events):
            found.setdefault(place, {})[event] = (version, qos)
        return found

    def _follow(self, place: str, events: Mapping[str, Known]) -> None:
        """Let the seat know all that is followed here."""
        way = self._ways[place]
        way.unanswered = {}
        self._ask_what_was_missed(place, way, events)

    def _ask_what_was_missed(self, place: str, way: Way, events: Mapping[str, Known]) -> None:
        if way.mine:
            newer, closed = self._judge(place, events)
            for publication in newer:
                self._retell_here(publication, None, 0)
            for event, version in closed:
                self._session_versions.close(event, version)
            return
        if not way.unanswered:
            way.said_at = self._core.now
        toward = self._toward_seat(place)
        rows = [(event, version, qos) for event, (version, qos) in events.items()]
        for first in range(0, len(rows), FOLLOW_PART):
            self._asked += 1
            way.unanswered[self._asked] = None
            if toward is not None:
                grown, edge, seat = toward
                part = tuple(rows[first : first + FOLLOW_PART])
                follow = Follow(grown.root, grown.epoch, place, seat, self._core.id, self._asked, part)
                self._links.send(edge.link, follow)

    def on_arrived(self, told: Told) -> None:
        """A version has come here; the seat need not send others if nobody wants them.

        If another broker has the seat by now, that one does not know that it came, and may have told more.
        """
        place = told.place or told.topic
        way = self._ways.get(place)
        if is_last(told) or self._session_versions.is_followed(told.event):
            self._unwanted.pop(told.event, None)
            if way is not None and way.seat != told.seat:
                self._outdated.setdefault(place, {})[told.event] = None
        elif len(self._unwanted) < self._core.settings.following_max:
            self._unwanted[told.event] = (place, told.version)

    def _say_unwanted(self) -> None:
        """Let seats know which events nobody here wants.

        Not while something is asked there: the answer may be that somebody wants it after all.
        """
        asked = {question.place for question in self._questions.values()}
        asked |= {place for _, place, _ in self._unasked}
        by_place: dict[str, list[tuple[str, int]]] = {}
        unwanted, self._unwanted = self._unwanted, {}
        for event, (place, version) in unwanted.items():
            if place not in asked and not self._session_versions.is_followed(event):
                by_place.setdefault(place, []).append((event, version))
        for place, events in by_place.items():
            toward = self._toward_seat(place)
            if toward is not None and not self._here(place):
                grown, edge, seat = toward
                for first in range(0, len(events), FOLLOW_PART):
                    part = tuple(events[first : first + FOLLOW_PART])
                    unfollow = Unfollow(grown.root, grown.epoch, place, seat, self._core.id, part)
                    self._links.send(edge.link, unfollow)
                for event, _ in events:
                    self._session_versions.let_go(event)

    # What is followed: at the seat.

    def on_follow(self, link: Link, message: Follow) -> None:
        grown = self._current(link, message)
        if grown is None or self._passes_on(grown, link, message) or message.home not in grown.bits:
            return
        place, home = message.place, message.home
        events = {event: (version, qos) for event, version, qos in message.events}
        for event, (version, qos) in events.items():
            self.receivers.remember(place, event, version, {home: qos})
        newer, closed = self._judge(place, events)
        for event, version in closed:
            self.receivers.close(event, version)
        # A last version closes an event by itself. Until it has come, the home must go on to ask for it.
        last = {it.told.event: None for it in newer if it.told is not None and is_last(it.told)}
        self._send_close(grown, place, [it for it in closed if it[0] not in last], grown.bits[home], None)
        for publication in newer:
            if publication.told is not None:
                told = publication.told
                self.receivers.remember(place, told.event, told.version, {home: events[told.event][1]})
        self._answer(grown, place, home, message.number, newer)

    def on_unfollow(self, link: Link, message: Unfollow) -> None:
        grown = self._current(link, message)
        if grown is not None and not self._passes_on(grown, link, message):
            for event, version in message.events:
                self.receivers.leave(message.home, event, version)

    def _judge(
        self, place: str, events: Mapping[str, Known]
    ) -> tuple[list[Publication], list[tuple[str, int]]]:
        """Of events with the version that somebody has: later versions, and those that are closed."""
        gatherer = self._seats.mine(place)
        known: dict[str, Publication] = {}
        closed: list[tuple[str, int]] = []
        sought: dict[str, None] = {}
        for event in events:
            held = gatherer is not None and gatherer.holds(event)
            if event in self._told:
                known[event] = self._told[event][0]
            elif held:
                sought[event] = None
            if event in self._over and self._over[event].ends(events[event][0]):
                closed.append((event, self._over[event].version))
            elif held:
                continue
            elif (last := self._seats.recall(place, event, events[event][0])) is not None:
                if last:
                    closed.append((event, last))
            elif len(self._doubts) < self._core.settings.following_max:
                until = self._core.now + self._core.settings.absent_hold_s
                self._doubts.setdefault((place, event), until)
        if sought:
            for publication in self._seats.shown(place, lambda event: event.opened_by in sought):
                assert publication.told is not None, "a seat shows versions"
                known[publication.told.event] = publication
        newer = [
            it
            for event, it in known.items()
            # Who merged two events may not know how far one had come on the other side of a partition.
            if it.told is not None and (it.told.version > events[event][0] or it.told.state == MERGED)
        ]
        return newer, closed

    def _retell_here(self, publication: Publication, link: Link | None, hops: int) -> None:
        if self._session_versions.deliver(publication, self._topics.fields(publication), link, hops):
            self._core.ask_sync()

    # What a seat here has told and closed.

    def on_told(self, publication: Publication) -> None:
        """A version goes out from here."""
        told = publication.told
        assert told is not None, "a seat tells versions"
        self._told.pop(told.event, None)
        if len(self._told) >= self._core.settings.following_max:
            del self._told[next(iter(self._told))]
        self._told[told.event] = (publication, self._core.now + self._core.settings.absent_hold_s)
        over = self._over.get(told.event)
        if over is not None and told.version > over.version:
            del self._over[told.event]  # another side of a partition has gone on with it

    def on_addressed(self, told: Told, homes: Mapping[str, int]) -> None:
        """A version that was told here goes to some homes.

        If another broker has the seat by now, they say to that one that they follow the event.
        """
        way = self._ways.get(told.place or told.topic)
        if way is None or way.seat == self._core.id:
            self.receivers.sent(told, homes)

    def on_confirmed(self, told: Told) -> None:
        """Everyone has a version. Those for whom it was held may not know that its event is closed by now."""
        over = self._over.get(told.event)
        if over is not None and not is_last(told):
            over.homes = self.receivers.homes(told.event) or over.homes
            self._unsaid[told.event] = None

    def _forget_told(self, place: str) -> None:
        """Another broker has the seat by now, and what it tells counts."""
        for event, (publication, _) in list(self._told.items()):
            if publication.told is not None and (publication.told.place or publication.told.topic) == place:
                del self._told[event]

    def close(self, place: str, event: str, version: int) -> None:
        """An event is closed at a seat here; those who follow it may forget it."""
        self._over.pop(event, None)
        if len(self._over) >= self._core.settings.following_max:
            del self._over[next(iter(self._over))]
        homes = self.receivers.homes(event)
        self._over[event] = Over(place, version, self._core.now, homes)
        self.receivers.close(event, version)
        self._session_versions.close(event, version)
        if homes and not self._was_merged(event):
            self._unsaid[event] = None

    def _was_merged(self, event: str) -> bool:
        """Whether homes are told that an event is merged. They may have later versions of another side, so a
        closing that overtook it would end the event for them.
        """
        publication, _ = self._told.get(event, (None, 0.0))
        return publication is not None and (told := publication.told) is not None and told.state == MERGED

    def _say_closings(self) -> None:
        """Let others know what has been closed since this was last done: nobody is in a hurry to forget."""
        unsaid, self._unsaid = self._unsaid, {}
        groups: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for event in unsaid:
            over = self._over.get(event)
            grown = self._seats.grown(over.place) if over is not None else None
            if over is not None and grown is not None:
                groups.setdefault((over.place, grown.mask_of(over.homes)), []).append((event, over.version))
        for (place, to), events in groups.items():
            grown = self._seats.grown(place)
            if grown is not None:
                self._send_close(grown, place, events, to, None)

    def on_close(self, link: Link, message: Close) -> None:
        grown = self._current(link, message)
        if grown is None:
            return
        to = unpacked(message.to)
        if to & grown.bits[self._core.id]:
            for event, version in message.events:
                self._session_versions.close(event, version)
        self._send_close(grown, message.place, message.events, to, link)

    def _send_close(
        self, grown: TreeEpoch, place: str, events: Sequence[tuple[str, int]], to: int, source: Link | None
    ) -> None:
        """Tell some members that events are closed."""
        for edge in grown.ordered if events else ():
            behind = to & edge.mask
            if not behind or edge.link is source or not edge.alive:
                continue
            for first in range(0, len(events), FOLLOW_PART):
                part = tuple(events[first : first + FOLLOW_PART])
                self._links.send(edge.link, Close(grown.root, grown.epoch, packed(behind), place, part))

    def shortest_every(self, place: str) -> int | None:
        """The shortest cycle that subscribers of a place ask for; None if nobody asks for one of its own.

        Who does not say how often is content with the declared one.
        """
        topic = self._topics.named(place.partition(PART)[0])
        if topic is None or topic.gathering is None:
            return None
        topics, declared = topic.pattern.filter, topic.gathering.merge_after_us
        cycles = self._sessions.local.cycles(topics) | self._homes.table.cycles(topics)
        return min(every_us or declared for every_us in cycles) if cycles - {0} else None

    # Epochs and time.

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: what was said in the one before may not have come."""
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        self._forget_waiting(tree.root)
        for early in self._pop_early(tree.root):
            for message in early.messages:
                if early.link.generation == early.generation and message.epoch >= grown.epoch:
                    self._take(early.link, message)
        for event, over in self._over.items():
            if over.homes and self._core.now - over.at < CALM_S and not self._was_merged(event):
                self._unsaid[event] = None
        self.refresh()

    def _take(self, link: Link, message: AnyMessage) -> None:
        if isinstance(message, Follow):
            self.on_follow(link, message)
        elif isinstance(message, Unfollow):
            self.on_unfollow(link, message)
        elif isinstance(message, Close):
            self.on_close(link, message)
        elif isinstance(message, Ask):
            self.on_ask(link, message)
        else:
            self.on_snapshot(link, message)

    def on_dropped(self, root: str) -> None:
        """A tree is used no more."""
        self._pop_early(root)
        self._forget_waiting(root)

    def _forget_waiting(self, root: str) -> None:
        """Questions of an epoch that has passed are asked again."""
        left = {
            home: {number: it for number, it in waiting.items() if it[2].root != root}
            for home, waiting in self._waiting.items()
        }
        self._waiting = {home: waiting for home, waiting in left.items() if waiting}

    def on_moved(self, place: str) -> None:
        """A seat is elsewhere than before."""
        self._moved[place] = None

    def on_found(self, place: str) -> None:
        """A search has said who is to have a seat that nobody has had, which may be what was known before.

        It is asked at once, while nothing is open there. Were it asked only when the first event is told, all
        brokers would ask for the same open events together, and versions would wait behind the answers.
        """
        holder, grown, known = self._seats.holder(place), self._seats.grown(place), self._ways.get(place)
        if holder is not None and grown is not None:
            if known is None or (known.epoch, known.seat) != (grown.epoch, holder.seat):
                self._moved[place] = None

    def on_share(self) -> None:
        """Topics have moved to other trees."""
        self._all_moved = True

    def flush(self) -> None:
        """Say where seats have come to what they must know."""
        if self._all_moved:
            self._all_moved = False
            self._moved = {}
            self.refresh()
        elif self._moved:
            moved, self._moved = self._moved, {}
            self.refresh(moved)
        for place, events in self._outdated.items():
            if (way := self._ways.get(place)) is not None:
                self._ask_what_was_missed(place, way, self._followed({place}, events).get(place, {}))
        self._outdated.clear()

    def tick(self) -> None:
        """Ask again, look for seats now and then, forget what is old."""
        now = self._core.now
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self.refresh()
        elif self._unasked:
            self._ask_new()
        for question in list(self._questions.values()):
            if self._topics.named(question.place.partition(PART)[0]) is None:
                del self._questions[question.number]
            elif now - question.asked_at >= ASK_AGAIN_S:
                self._ask(question)
        again = [p for p, way in self._ways.items() if way.unanswered and now - way.said_at >= ASK_AGAIN_S]
        if again:
            own = self._followed(dict.fromkeys(again))
            for place in again:
                self._follow(place, own.get(place, {}))
        for place in [place for place, at in self._changed_at.items() if now - at >= CALM_S]:
            del self._changed_at[place]
            self._strangers.pop(place, None)
        self._expire()
        for (place, event), until in list(self._doubts.items()):
            if self._seats.recall(place, event, self.receivers.least(event)) is not None:
                # Another part of the network had closed it, which is known here by now.
                del self._doubts[place, event]
                continue
            if until > now:
                continue
            del self._doubts[place, event]
            gatherer = self._seats.mine(place)
            if self._here(place) and (gatherer is None or not gatherer.holds(event)):
                self.close(place, event, 0)
        self._say_closings()
        self._say_unwanted()

    def _expire(self) -> None:
        """Forget what need not be remembered any longer; the oldest is first."""
        now, hold_s = self._core.now, self._core.settings.absent_hold_s
        while self._told and next(iter(self._told.values()))[1] <= now:
            del self._told[next(iter(self._told))]
        while self._over and next(iter(self._over.values())).at + hold_s <= now:
            del self._over[next(iter(self._over))]

    def _here(self, place: str) -> bool:
        """Whether this broker has a seat, or is to have it as soon as there is a report."""
        holder = self._seats.holder(place)
        unused = holder is not None and holder.term == 0 and holder.seat == self._core.id
        return unused or self._seats.mine(place) is not None

    def _toward_seat(self, place: str) -> tuple[TreeEpoch, Edge, str] | None:
        """The epoch that a place uses, the link of it behind which its seat is, and who has that."""
        holder, grown = self._seats.holder(place), self._seats.grown(place)
        if holder is None or grown is None:
            return None
        edge = self._seats.toward(grown, holder.seat)
        return (grown, edge, holder.seat) if edge is not None and edge.alive else None

    def _current(self, link: Link, message: AnyMessage) -> TreeEpoch | None:
        """The epoch of a message, if it is the current one; what is ahead is kept until it is."""
        tree = self._trees.trees.get(message.root)
        if tree is None:
            return None
        if tree.current is not None and tree.current.epoch == message.epoch:
            edge = tree.current.edges.get(link.peer)
            return tree.current if edge is not None and edge.alive else None
        if tree.growing is not None and tree.growing.epoch == message.epoch:
            self._keep_early(link, message)
        return None

    def _pop_early(self, root: str) -> list[Early]:
        return [self._early.pop(key) for key in list(self._early) if key[1] == root]

    def _keep_early(self, link: Link, message: AnyMessage) -> None:
        key = link.peer, message.root
        early = self._early.get(key)
        if early is None or early.generation != link.generation:
            early = self._early[key] = Early(link)
        size = len(_ENCODER.encode(message))
        of_link = [it for (peer, _), it in self._early.items() if peer == link.peer]
        if (
            sum(len(it.messages) for it in of_link) < EARLY_MAX
            and sum(it.size for it in of_link) + size <= EARLY_BYTES
        ):
            early.messages.append(message)
            early.size += size


def _parts(publications: Sequence[Publication]) -> Iterator[tuple[Publication, ...]]:
    """Publications in groups that are short enough for one message."""
    part: list[Publication] = []
    size = 0
    for publication in publications:
        if part and (len(part) >= SNAPSHOT_PART or size + publication.size > SNAPSHOT_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append(publication)
        size += publication.size
    if part:
        yield tuple(part)
