"""Retelling: versions of events for those who come later, or have missed one.

A new subscription *asks* (`Ask`) the seat of each place that it meets for the open events that match, and
begins with the answer (`Snapshot`). The answer goes back along the tree; links on its way have then carried
those events.

When a tree changes, or a seat moves, every broker says again towards the seat what is *followed* at it and
behind it (`Follow`), and which version everyone there has. So links know anew what they carry, and the seat
sends again (`Snapshot`, to all who follow) what was told in between and went elsewhere. It is said in every
epoch, so nothing is missed for good, withdrawals included.

When an event is *closed* without a last version, all who follow it are told (`Close`). That may overtake a
version, so it names the last one. A seat that does not know an event may yet come to know it, from a part of
the network that was cut off; only after a while it is taken for closed.

What sessions have had is known to `session_versions`, what links have carried to `carrying`; how seats
are found and what they gather is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

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
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.carrying import Carrying, Known
from tidings.overlay.routing.subscriptions import Named, Routing
from tidings.overlay.routing.topics import Topics
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Edge, Life, Tree, TreeEpoch, Trees
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot
from tidings.overlay.versions.session_versions import SessionVersions

FOLLOW_PART = 1000
"""Events in one message."""

SNAPSHOT_PART, SNAPSHOT_BYTES = 100, 256 * 1024
"""Publications in one message, and about how long it may be."""

TO_FOLLOWERS = ("", 0, 0)
"""In the place of a question: for all who follow the events, over links of which the quality is known."""

ASK_AGAIN_S = 2.0
"""An unanswered question is asked again after so long: a broker on its way may not have known the seat."""

ASK_EACH_MAX = 4
"""Different subscriptions for which a broker asks one by one when it meets a seat; with more it asks for all
that is open there."""

LOOK_S = 30.0
"""How often all ways to seats are looked at although nothing is known to have changed."""

CALM_S = 60.0
"""After so long without a change a seat has told all that others had gathered when the tree changed."""

EARLY_MAX = 10_000
"""Messages that wait for their epoch to be ready here; beyond, they are lost until the next one."""


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


Branch = tuple[str, str]
"""A place, and the root of a tree on which its events travel. Mostly a place has one; where topics of one
declaration have different first levels they may be spread over all trees."""


class Question:
    """An unanswered one: which open events of a place match a subscription?"""

    __slots__ = ("asked_at", "branch", "named", "number", "subscription")

    def __init__(self, number: int, named: Named | None, subscription: Subscription, branch: Branch) -> None:
        self.number = number
        self.named = named
        """The new subscription that begins with the answer; None if it is for all that match."""
        self.subscription = subscription
        self.branch = branch
        self.asked_at = -ASK_AGAIN_S


Way = tuple[Epoch, str, bool]
"""To a seat: the epoch of the tree, the broker that has it, whether that is this one and has begun."""


class CatchUp:
    """What this broker asks, and answers, and passes on."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        routing: Routing,
        carrying: Carrying,
        session_versions: SessionVersions,
        seats: Places,
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._routing = routing
        self._carrying = carrying
        self._session_versions = session_versions
        self._seats = seats
        self._expected: dict[Named, None] = {}
        """Subscriptions that are to begin with the open events, once they are granted."""
        self._unasked: dict[tuple[Named | None, str, Subscription], None] = {}
        """What is to be asked, and the place, which waits for a tree."""
        self._members: dict[str, Mapping[str, Life]] = {}
        """By place: who was on its tree when its seat was last looked for, …"""
        self._strangers: dict[str, dict[str, None]] = {}
        """… and who has come to it lately: should one of them have the seat, nothing of it is known here."""
        self._changed_at: dict[str, float] = {}
        """By place: when the way to its seat last changed."""
        self._closings: dict[str, dict[str, int]] = {}
        """By place: events that have been closed here since the last tick, with their last versions."""
        self._questions: dict[int, Question] = {}
        self._asked = 0
        self._ways: dict[Branch, Way] = {}
        """The ways on which all that is followed has been said."""
        self._said: dict[Branch, dict[str, Known]] = {}
        """Events that were said on them to be followed, until an answer or a version comes by."""
        self._told: dict[str, tuple[Publication, float]] = {}
        """What was told from here lately, by event: the latest version, and until when it is remembered."""
        self._over: dict[str, tuple[int, float]] = {}
        """Events that were closed here lately: the last version, and until when that is remembered."""
        self._doubts: dict[tuple[str, str], float] = {}
        """Events that are followed, and not known to the seat here; and when they are taken for closed."""
        self._early: dict[str, list[tuple[Link, int, Follow | Close | Ask | Snapshot]]] = {}
        """By root: what came before its epoch was ready here."""
        self._cycles: dict[str, tuple[tuple[object, ...], int | None]] = {}
        self._moved: dict[str, None] = {}
        """Places whose seats are elsewhere than before."""
        self._all_moved = False
        """Whether all may be."""
        self._looked_at = core.now

    # Snapshots: the side that asks.

    def expect(self, named: Named) -> None:
        """A subscription, not yet granted, is to begin with the open events."""
        self._expected[named] = None

    def expect_no_more(self, named: Named) -> None:
        """A subscription is refused."""
        self._expected.pop(named, None)

    def on_granted(self, named: Named, subscription: Subscription) -> None:
        """A subscription is installed: what is told from now on comes here."""
        if self._expected.pop(named, "") is not None:
            return
        self._drop_questions({named})
        for place in self._seats.places(subscription.topic_filter):
            self._unasked[named, place, subscription] = None
        self._ask_new()

    def _ask_new(self) -> None:
        """Ask what has not been asked, where there is a tree by now."""
        for key in list(self._unasked):
            named, place, subscription = key
            for branch in self._branches_of(place):
                self._unasked.pop(key, None)
                self._asked += 1
                question = self._questions[self._asked] = Question(self._asked, named, subscription, branch)
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
        asked = sorted(set(self._routing.local.meeting(topic.pattern.filter)))
        if len(asked) > ASK_EACH_MAX:
            asked = [Subscription(topic.pattern.filter)]
        self._unasked |= {(None, place, subscription): None for subscription in asked}

    def _ask(self, question: Question) -> None:
        """Ask, if the seat is known; else it is asked when it is."""
        place, root = question.branch
        question.asked_at = self._core.now
        if self._here(place):
            del self._questions[question.number]
            self._begin_with(question, self._matching(question.branch, question.subscription), 0)
            return
        grown = self._grown(root)
        edge = self._toward_seat(grown, place) if grown is not None else None
        if grown is not None and edge is not None:
            ask = Ask(grown.root, grown.epoch, place, self._core.id, question.number, question.subscription)
            self._links.send(edge.link, ask)

    def _begin_with(self, question: Question, publications: Iterable[Publication], hops: int) -> None:
        for publication in publications:
            if publication.told is None:
                continue  # a neighbour gone wrong
            fields = self._topics.fields(publication)
            if question.named is not None:
                self._session_versions.snapshot(publication, fields, question.named, hops)
            elif self._session_versions.deliver(publication, fields, None, hops, late=True):
                self._core.ask_sync()

    # Snapshots: on the way, and at the seat.

    def on_ask(self, link: Link, message: Ask) -> None:
        grown = self._current(link, message)
        if grown is None:
            return
        place = message.place
        if self._here(place):
            if (place, grown.root) in self._branches_of(place):  # else who asks has yet to hear of its tree
                publications = self._matching((place, grown.root), message.subscription)
                answer = (message.broker, message.number, message.subscription.qos)
                self._pass_on(grown, link.peer, place, answer, publications, 1)
            return
        edge = self._toward_seat(grown, place)
        if edge is not None and edge.peer != link.peer:
            self._links.send(edge.link, message)

    def _matching(self, branch: Branch, subscription: Subscription) -> list[Publication]:
        """The open events of a seat here that a subscription asks for, of those that travel one tree."""
        place, root = branch
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
        found = [
            it
            for it in shown
            if names.match(subscription.topic_filter, it.topic) and self._root_of(it.topic) == root
        ]
        if read is not None and about_itself:
            contents = [(it, self._topics.content(it)) for it in found]
            found = [it for it, fields in contents if fields is not None and read.matches(fields, unknown)]
        return found

    def on_snapshot(self, link: Link, message: Snapshot) -> None:
        grown = self._current(link, message)
        if grown is None:
            return
        if not message.broker:
            self._catch_up(grown, link, message)
        elif message.broker == self._core.id:
            question = self._questions.get(message.number)
            if question is not None:
                if not message.more:
                    del self._questions[message.number]
                self._begin_with(question, message.publications, message.hops)
        else:
            edge = self._seats.toward(grown, message.broker)
            if edge is not None and edge.peer != link.peer and edge.alive:
                self._remember(grown, edge.peer, message.publications, message.qos)
                passed = Snapshot(
                    message.root,
                    message.epoch,
                    message.place,
                    message.broker,
                    message.number,
                    message.publications,
                    message.more,
                    message.hops + 1,
                    message.qos,
                )
                self._links.send_data(edge.link, passed, passed.size)

    def _pass_on(
        self,
        grown: TreeEpoch,
        peer: str,
        place: str,
        answer: tuple[str, int, int],
        publications: Sequence[Publication],
        hops: int,
    ) -> None:
        """Send publications over a link, in parts; an answer to a question has one at least.

        `answer` is who asked, the number of the question and the quality of service asked for.
        """
        broker, number, qos = answer
        edge = grown.edges.get(peer)
        if edge is None or not edge.alive:
            return
        self._remember(grown, peer, publications, qos)
        parts = list(_parts(publications)) or ([()] if broker else [])
        for at, part in enumerate(parts, 1):
            more = at < len(parts)
            message = Snapshot(grown.root, grown.epoch, place, broker, number, part, more, hops, qos)
            self._links.send_data(edge.link, message, message.size)

    def _remember(self, grown: TreeEpoch, peer: str, publications: Iterable[Publication], qos: int) -> None:
        """A link carries these events from now on."""
        for publication in publications:
            if publication.told is not None:
                self._carrying.forwarded(grown, publication.told, {peer: qos})

    # What is followed.

    def refresh(self, places: Mapping[str, None] | None = None) -> None:
        """See whether seats of some places, or of all, are to be found in another way than before.

        On a new way it is said what is followed, and asked what has not been answered.
        """
        every = places is None
        if places is None:
            places = dict.fromkeys(self._seats.places(EVERYTHING))
        changed: dict[Branch, bool] = {}
        ways: dict[Branch, Way] = {}
        for branch in [branch for place in places for branch in self._branches_of(place)]:
            place, root = branch
            grown, holder = self._grown(root), self._seats.holder(place)
            if grown is None or holder is None:
                continue
            mine = self._seats.mine(place) is not None
            way = ways[branch] = (grown.epoch, holder.seat, mine)
            before = self._ways.get(branch)
            if before == way:
                continue
            changed[branch] = mine
            self._changed_at[place] = self._core.now
            if self._meets_stranger(place, grown, holder.seat) and not mine:
                self._ask_for_all(place)
            if before is not None and before[2] and not mine:
                self._forget_told(place)
        if every:
            self._forget_places(places)
        self._ways = {branch: way for branch, way in self._ways.items() if branch[0] not in places} | ways
        if changed:
            self._say_all(changed)
        self._ask_new()

    def _forget_places(self, places: Mapping[str, None]) -> None:
        """There are no places but these."""
        for memory in (self._members, self._strangers, self._changed_at, self._cycles):
            for place in [place for place in memory if place not in places]:
                del memory[place]
        for branches in (self._ways, self._said):
            for branch in [branch for branch in branches if branch[0] not in places]:
                del branches[branch]

    def _say_all(self, changed: Mapping[Branch, bool]) -> None:
        """Say and ask everything on ways that are new; whether the seat is here."""
        own = self._followed({place: None for place, _ in changed})
        behind = {
            root: self._carrying.followed(grown)
            for root in dict.fromkeys(root for _, root in changed)
            if (grown := self._grown(root)) is not None
        }
        for branch, mine in changed.items():
            place, root = branch
            grown = self._grown(root)
            if grown is not None:
                self._said[branch] = {}
                self._follow(grown, place, own.get(branch, {}), behind[root].get(place, {}), mine=mine)
        for question in [it for it in self._questions.values() if it.branch in changed]:
            self._ask(question)

    def _followed(self, places: Mapping[str, None]) -> dict[Branch, dict[str, Known]]:
        """What sessions here follow."""
        found: dict[Branch, dict[str, Known]] = {}
        for event, place, topic, version, qos in self._session_versions.followed(places):
            found.setdefault((place, self._root_of(topic) or ""), {})[event] = (version, qos)
        return found

    def _follow(
        self,
        grown: TreeEpoch,
        place: str,
        own: Mapping[str, Known],
        behind: Mapping[str, Mapping[str, Known]],
        *,
        mine: bool,
    ) -> None:
        """Let the seat know all that is followed here and behind this broker."""
        if mine:
            newer, closed = self._judge(place, own)
            for publication in newer:
                self._retell_here(publication, None, 0)
            for event, version in closed:
                self._session_versions.close(event, version)
            for peer in sorted(behind):
                self._answer(grown, peer, place, behind[peer])
            return
        edge = self._toward_seat(grown, place)
        if edge is not None:
            self._say(grown, edge, place, own)
            for peer in sorted(behind):
                if peer != edge.peer:
                    self._say(grown, edge, place, behind[peer])

    def _say(self, grown: TreeEpoch, edge: Edge, place: str, events: Mapping[str, Known]) -> None:
        """Say over the link towards a seat what is followed, unless it has been said and not answered yet."""
        said = self._said.setdefault((place, grown.root), {})
        fresh: list[tuple[str, int, int]] = []
        for event, (version, qos) in events.items():
            before = said.get(event)
            if before is None or version < before[0] or qos > before[1]:
                fresh.append((event, version, qos))
                said[event] = (
                    (version, qos) if before is None else (min(version, before[0]), max(qos, before[1]))
                )
        for first in range(0, len(fresh), FOLLOW_PART):
            part = tuple(fresh[first : first + FOLLOW_PART])
            self._links.send(edge.link, Follow(grown.root, grown.epoch, place, part))

    def on_passing(self, publication: Publication) -> None:
        """A version comes by: who says only now that it follows the event has missed it, and must ask."""
        told = publication.told
        assert told is not None, "only versions come by here"
        branch = (told.place or told.topic, self._root_of(publication.topic) or "")
        self._said.get(branch, {}).pop(told.event, None)

    def on_follow(self, link: Link, message: Follow) -> None:
        grown = self._current(link, message)
        if grown is None:
            return
        place = message.place
        events = {event: (version, qos) for event, version, qos in message.events}
        for event, (version, qos) in events.items():
            self._carrying.remember(grown, place, event, link.peer, qos, version)
        if self._seats.mine(place) is not None:
            self._answer(grown, link.peer, place, events)
            return
        edge = self._toward_seat(grown, place)
        if edge is not None and edge.peer != link.peer:
            self._say(grown, edge, place, events)

    def _answer(self, grown: TreeEpoch, peer: str, place: str, events: Mapping[str, Known]) -> None:
        """Send over a link what those behind it have missed, at the seat."""
        newer, closed = self._judge(place, events)
        self._pass_on(grown, peer, place, TO_FOLLOWERS, newer, 1)
        self._send_close(grown, place, {peer: closed})
        for event, version in closed:
            self._carrying.close(grown, event, version, None)

    def _judge(
        self, place: str, events: Mapping[str, Known]
    ) -> tuple[list[Publication], list[tuple[str, int]]]:
        """Of events with the version that somebody has: later versions, and those that are closed."""
        gatherer = self._seats.mine(place)
        assert gatherer is not None, "only a seat can tell"
        known: dict[str, Publication] = {}
        closed: list[tuple[str, int]] = []
        sought: dict[str, None] = {}
        for event in events:
            if event in self._told:
                known[event] = self._told[event][0]
            elif gatherer.holds(event):
                sought[event] = None
            if event in self._over:
                closed.append((event, self._over[event][0]))
            elif not gatherer.holds(event):
                until = self._core.now + self._core.settings.absent_hold_s
                self._doubts.setdefault((place, event), until)
        if sought:
            for publication in self._seats.shown(place, lambda event: event.opened_by in sought):
                assert publication.told is not None, "a seat shows versions"
                known[publication.told.event] = publication
        newer = [
            it for event, it in known.items() if it.told is not None and it.told.version > events[event][0]
        ]
        return newer, closed

    def _catch_up(self, grown: TreeEpoch, link: Link, message: Snapshot) -> None:
        """Versions for all who follow their events: some have missed them."""
        onward: dict[str, list[Publication]] = {}
        for publication in message.publications:
            told = publication.told
            if told is None:
                continue
            self.on_passing(publication)
            for peer in self._carrying.peers(grown, told.event, link.peer):
                onward.setdefault(peer, []).append(publication)
            self._retell_here(publication, link, message.hops)
        for peer, publications in onward.items():
            self._pass_on(grown, peer, message.place, TO_FOLLOWERS, publications, message.hops + 1)

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

    def on_resent(self, grown: TreeEpoch, publication: Publication, peers: Iterable[str]) -> None:
        """A version goes out again, perhaps to brokers for which no later one was held: say the latest."""
        told = publication.told
        assert told is not None, "a seat tells versions"
        latest, _ = self._told.get(told.event, (publication, 0.0))
        if latest.told is not None and latest.told.version > told.version:
            for peer in sorted(peers):
                self._pass_on(grown, peer, told.place or told.topic, TO_FOLLOWERS, [latest], 1)

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
        self._over[event] = (version, self._core.now + self._core.settings.absent_hold_s)
        self._session_versions.close(event, version)
        self._closings.setdefault(place, {})[event] = version

    def _say_closings(self) -> None:
        """Let others know what has been closed since this was last done: nobody is in a hurry to forget."""
        closings, self._closings = self._closings, {}
        for place, events in closings.items():
            for _, root in self._branches_of(place):
                grown = self._grown(root)
                if grown is not None:
                    self._spread_close(grown, place, events.items(), None)

    def on_close(self, link: Link, message: Close) -> None:
        grown = self._current(link, message)
        if grown is not None:
            said = self._said.get((message.place, message.root), {})
            for event, version in message.events:
                said.pop(event, None)
                self._session_versions.close(event, version)
            self._spread_close(grown, message.place, message.events, link.peer)

    def _spread_close(
        self, grown: TreeEpoch, place: str, events: Iterable[tuple[str, int]], source: str | None
    ) -> None:
        """Tell those behind links that have carried events that they are closed."""
        onward: dict[str, list[tuple[str, int]]] = {}
        for event, version in events:
            for peer in self._carrying.peers(grown, event, source):
                onward.setdefault(peer, []).append((event, version))
            self._carrying.close(grown, event, version, source)
        self._send_close(grown, place, onward)

    def _send_close(
        self, grown: TreeEpoch, place: str, onward: Mapping[str, Sequence[tuple[str, int]]]
    ) -> None:
        for peer, events in onward.items():
            edge = grown.edges.get(peer)
            if edge is None or not edge.alive:
                continue
            for first in range(0, len(events), FOLLOW_PART):
                part = tuple(events[first : first + FOLLOW_PART])
                self._links.send(edge.link, Close(grown.root, grown.epoch, place, part))

    def shortest_every(self, place: str) -> int | None:
        """The shortest cycle that subscribers of a place ask for; None if one wants all, or nobody any."""
        grown = self._seats.grown(place)
        local = self._routing.local
        state = (grown, grown.routes.version if grown is not None else 0, local.version, self._topics.version)
        known = self._cycles.get(place)
        if known is not None and known[0] == state:
            return known[1]
        topic = self._topics.named(place.partition(PART)[0])
        cycles: set[int] = set()
        if topic is not None:
            cycles |= {asked.every_us for asked in local.meeting(topic.pattern.filter)}
            if grown is not None:
                cycles |= {asked.every_us for asked in grown.routes.meeting(topic.pattern.filter)}
        shortest = min(cycles, default=0) or None
        self._cycles[place] = (state, shortest)
        return shortest

    # Epochs and time.

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: links know nothing of what they carry before it has been said again."""
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        self._carrying.on_ready(grown)
        early = self._early.pop(tree.root, [])
        for link, generation, message in early:
            if link.generation == generation and message.epoch >= grown.epoch:
                self._take(link, message)
        self.refresh()

    def _take(self, link: Link, message: Follow | Close | Ask | Snapshot) -> None:
        if isinstance(message, Follow):
            self.on_follow(link, message)
        elif isinstance(message, Close):
            self.on_close(link, message)
        elif isinstance(message, Ask):
            self.on_ask(link, message)
        else:
            self.on_snapshot(link, message)

    def on_dropped(self, root: str) -> None:
        """A tree is used no more."""
        self._carrying.on_dropped(root)
        self._early.pop(root, None)

    def on_moved(self, place: str) -> None:
        """A seat is elsewhere than before."""
        self._moved[place] = None

    def on_found(self, place: str) -> None:
        """A search has said who is to have a seat that nobody has had, which may be what was known before.

        It is asked at once, while nothing is open there. Were it asked only when the first event is told, all
        brokers would ask for the same open events together, and versions would wait behind the answers.
        """
        holder = self._seats.holder(place)
        for branch in self._branches_of(place):
            grown, known = self._grown(branch[1]), self._ways.get(branch)
            if holder is not None and grown is not None:
                if known is None or known[:2] != (grown.epoch, holder.seat):
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

    def tick(self) -> None:
        """Ask again, look for seats now and then, forget what is old."""
        now = self._core.now
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self.refresh()
        elif self._unasked:
            self._ask_new()
        for question in list(self._questions.values()):
            if question.branch not in self._branches_of(question.branch[0]):
                # Its events travel another tree by now, if there are any.
                del self._questions[question.number]
                place = question.branch[0]
                if self._topics.named(place.partition(PART)[0]) is not None:
                    self._unasked[question.named, place, question.subscription] = None
            elif now - question.asked_at >= ASK_AGAIN_S:
                self._ask(question)
        for place in [place for place, at in self._changed_at.items() if now - at >= CALM_S]:
            del self._changed_at[place]
            self._strangers.pop(place, None)
        _expire(self._told, now)
        _expire(self._over, now)
        for place, event in [doubt for doubt, until in self._doubts.items() if until <= now]:
            del self._doubts[place, event]
            gatherer = self._seats.mine(place)
            if gatherer is not None and not gatherer.holds(event):
                self.close(place, event, 0)
        self._say_closings()

    def _branches_of(self, place: str) -> list[Branch]:
        """A place with each of the trees that its events travel now."""
        grown = self._seats.grown(place)
        if grown is None:
            return []
        topic = self._topics.named(place.partition(PART)[0])
        wild = place.startswith(("+", "#"))
        if self._core.settings.trees == 1 or not wild or topic is None or topic.root == grown.root:
            return [(place, grown.root)]
        return [(place, root) for root in self._trees.share if self._grown(root) is not None]

    def _grown(self, root: str) -> TreeEpoch | None:
        tree = self._trees.serving(root)
        return tree.current if tree is not None else None

    def _root_of(self, topic: str) -> str | None:
        return self._topics.root_of(topic, self._topics.stream_of(topic))

    def _here(self, place: str) -> bool:
        """Whether this broker has a seat, or is to have it as soon as there is a report."""
        holder = self._seats.holder(place)
        unused = holder is not None and holder.term == 0 and holder.seat == self._core.id
        return unused or self._seats.mine(place) is not None

    def _toward_seat(self, grown: TreeEpoch, place: str) -> Edge | None:
        holder = self._seats.holder(place)
        edge = self._seats.toward(grown, holder.seat) if holder is not None else None
        return edge if edge is not None and edge.alive else None

    def _current(self, link: Link, message: Follow | Close | Ask | Snapshot) -> TreeEpoch | None:
        """The epoch of a message, if it is the current one; what is ahead is kept until it is."""
        tree = self._trees.trees.get(message.root)
        if tree is None:
            return None
        if tree.current is not None and tree.current.epoch == message.epoch:
            edge = tree.current.edges.get(link.peer)
            return tree.current if edge is not None and edge.alive else None
        if tree.growing is not None and tree.growing.epoch == message.epoch:
            early = self._early.setdefault(message.root, [])
            if len(early) < EARLY_MAX:
                early.append((link, link.generation, message))
        return None


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


def _expire(memory: dict[str, tuple[Publication, float]] | dict[str, tuple[int, float]], now: float) -> None:
    """Forget what need not be remembered any longer; the oldest is first."""
    while memory:
        event = next(iter(memory))
        if memory[event][1] > now:
            return
        del memory[event]
