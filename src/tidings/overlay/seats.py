"""Seats: which broker gathers what, how all come to know it, and what happens when that one dies or another
would do better.

A *place* is a gathered topic, or one part of it where its keys are divided among several seats. In each epoch
of its tree the brokers search for the best seats (`centre`), and in the same messages tell each other who
has which seat, as far as they know (`Holder`, the latest counts). So when the search is over all members know
the same, and each can say by itself who is to have a seat:

* the holder, if it is a member and has not been started anew;
* else its deputy, which has a copy of all that anybody was told;
* else the holder again, with what is on its disk;
* else the best place that the search has found.

A place without a holder is at the best place as soon as a report comes. A holder that finds that another is
later hands over what it has and gathers no more; that is how two sides of a partition become one. A seat
moves to a better place only where the gain lasts.

How reports travel is in `reports`, what a seat does in `seat`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tidings.gathering.gatherer import Closing, Gatherer, Telling
from tidings.language import payloads
from tidings.language.keys import Key
from tidings.language.payloads import Encoding
from tidings.language.reports import Event, Report
from tidings.language.subscriptions import filters_meet
from tidings.language.topics import BeforeSeat, OnTheWay, Scope, Strategy, Topic
from tidings.overlay.centre import FINDERS, TREE, Finder, ReportFinder, Said
from tidings.overlay.core import Core
from tidings.overlay.events import Erase, PublicationOffered, Write
from tidings.overlay.holding import encode
from tidings.overlay.links import Link, Links, data_bytes
from tidings.overlay.messages import (
    Announce,
    Epoch,
    HandedOver,
    HandOver,
    Holder,
    Known,
    Message,
    Mirror,
    Mirrored,
    Publication,
    Seated,
    Survey,
    Taken,
    Told,
)
from tidings.overlay.publications import Publications
from tidings.overlay.relaying import Relaying
from tidings.overlay.reports import Reports
from tidings.overlay.routing import Routing
from tidings.overlay.seat import VERSION, Copies, Origin, Seat, erase, known_key, marks_of, parted, recovered
from tidings.overlay.status import GatheredStatus
from tidings.overlay.timers import Timer
from tidings.overlay.topics import Topics
from tidings.overlay.trees import Edge, Grown, Tree, Trees
from tidings.records.record import Kind

PART = "\t"
"""Between the name of a declaration and the number of a part; no topic name has it within."""

MEET_WITHIN_S = 3.0
"""How long a broker that has just started waits for others before it has a seat that another may have. Longer
than most take to dial again; reports wait meanwhile, and nobody else can be told of them anyway."""

OUTLIVED_MAX = 2
"""Searches after which a deputy forgets what it has of a seat that another broker has by now."""

KNOWN_MAX = 64
"""Reports of which an origin is told at once that such need not be sent; the latest, if there are more."""

CONTENT_TYPES = {Encoding.JSON: "application/json", Encoding.MSGPACK: "application/msgpack"}


NOBODY = Holder(0, "", 0, "")


class Search:
    """The search for seats of one tree in one epoch."""

    def __init__(self, finder: Finder, epoch: Epoch) -> None:
        self.finder = finder
        self.epoch = epoch
        self.winners: dict[tuple[str, str], Announce] = {}
        """The latest that were found, also while the next search runs."""
        self.judged = 0
        """The counter of the latest search whose holders have been looked at."""
        self.weighed: dict[str, int] = {}
        """By place: the counter of the latest search in which a move was thought of."""


class Image:
    """What a deputy has of a seat."""

    def __init__(self, seat: str, boot: int, term: int, generation: int) -> None:
        self.seat = seat
        self.boot = boot
        self.term = term
        self.generation = generation
        """Of the link to the seat: changes that come over another belong to another copy."""
        self.copies = Copies()
        self.number = 0
        self.outlived = 0
        """How many searches have been made since another was known to have the seat."""


class Gift:
    """What is on its way to another broker, until that one says that it is safe."""

    def __init__(self, copies: Copies, number: int, term: int, to: str) -> None:
        self.copies = copies
        self.number = number
        self.term = term
        """The receiver's."""
        self.to = to


class Counts:
    """What is counted of seats as a whole, since this broker started."""

    __slots__ = ("handed_over", "taken_over")

    def __init__(self) -> None:
        self.taken_over = 0
        """Seats that came here since their holder was gone."""
        self.handed_over = 0
        """Seats that were given to another broker."""


class Seats:
    """All places, and the seats that this broker has."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        routing: Routing,
        publications: Publications,
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._routing = routing
        self._publications = publications
        self._holders: dict[str, Holder] = {}
        self.relaying = Relaying(core, topics, self._holders.get)
        self.reports = Reports(core, links, trees, self, self.relaying)
        self.counts = Counts()
        self._began = 0.0
        self.missing: Callable[[], bool] = lambda: False
        """Whether there are brokers out of reach that were within it once."""
        self.synchronised: Callable[[], bool] = lambda: True
        """Whether this broker has heard what the network knows."""
        self.shortest_every: Callable[[str], int | None] = lambda _place: None
        """The shortest cycle that subscribers of a place ask for."""
        self.on_closed: Callable[[str, str, int], None] = lambda _place, _event, _version: None
        """Whom to tell that an event is closed."""
        self.on_moved: Callable[[str], None] = lambda _place: None
        """Whom to tell that some seat is held by another broker than before, or by this one."""
        self._searches: dict[str, Search] = {}
        self._parked: dict[str, list[tuple[Link, int, Survey]]] = {}
        """By root: what came before its epoch was ready here."""
        self._loads: dict[str, dict[str, tuple[int, bool]]] = {}
        self._wanted: dict[str, dict[str, set[str]]] = {}
        self._counted: dict[str, tuple[int, ...]] = {}
        """By place: what its seat has counted, by its latest word."""
        self._seats: dict[str, Seat] = {}
        self._declared = False
        """Whether a topic was declared in this turn."""
        self._touched: dict[str, Seat] = {}
        """Those at which something has happened in this turn."""
        self._images: dict[str, dict[str, Image]] = {}
        """By place and broker: what this one has for those whose deputy it is. Two brokers may have one seat
        for a while, on two sides of a partition, and the same deputy after it."""
        self._coming: dict[tuple[str, str], Image] = {}
        """By place and broker: those of which only a part has come."""
        self._offered: dict[tuple[str, str, int], Copies] = {}
        """By place, sender and number: what is being handed over and has not come as a whole."""
        self._retiring: dict[str, Seat] = {}
        """Seats of topics that are gathered no more, until what they had to tell is told."""
        self._promised: dict[str, tuple[int, Copies]] = {}
        """By place: what was handed over for a seat that this broker is to have, and the term of that."""
        self._leftovers: dict[str, list[Copies]] = {}
        """By place: what was gathered here, or kept for another, and whoever has the seat must have."""
        self._settled: dict[str, tuple[str, Epoch]] = {}
        """By place: the tree and epoch in which it was last seen to."""
        self._gifts: dict[str, Gift] = {}
        self._gift_number = 0
        publications.confirmed = self._on_confirmed
        publications.gather = self.offer
        publications.reports_bytes = lambda: self.reports.waiting_bytes
        topics.on_changed = self._on_declared

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Seats that this broker had, and reports that entered here."""
        self._began = self._core.now
        holders, copies = recovered(saved)
        self._holders |= holders
        self._leftovers = {place: [found] for place, found in copies.items()}
        self.reports.recover(saved)

    # Places.

    def place_of(self, topic: Topic, key: Key | None = None) -> str:
        """Where the reports of a topic are gathered: one place, or one of several by their key."""
        assert topic.gathering is not None, "only gathered topics have places"
        parts = topic.gathering.seats
        if parts == 1 or key is None:
            return topic.name
        text = repr(key).encode()
        best = max(
            range(parts), key=lambda part: hashlib.blake2b(b"%d\0" % part + text, digest_size=16).digest()
        )
        return f"{topic.name}{PART}{best}"

    def places(self, topic_filter: str) -> list[str]:
        """All places of gathered topics that a topic filter meets."""
        return [
            place
            for topic in self._topics.gathered()
            if filters_meet(topic.pattern.filter, topic_filter)
            for place in places_of(topic)
        ]

    def topic_at(self, place: str) -> Topic | None:
        """The declaration of a place, if it is still a gathered one."""
        topic = self._topics.named(place.partition(PART)[0])
        return topic if topic is not None and topic.gathering is not None else None

    def root_of(self, place: str) -> str | None:
        """The root whose tree a place uses now."""
        topic = self.topic_at(place)
        return self._topics.tree_of(topic) if topic is not None else None

    def grown(self, place: str) -> Grown | None:
        """The epoch that reports to a place travel."""
        root = self.root_of(place)
        tree = self._trees.serving(root) if root is not None else None
        return tree.current if tree is not None else None

    def toward(self, grown: Grown, broker: str) -> Edge | None:
        """The link of a tree behind which a broker is."""
        for edge in grown.edges.values():
            if edge.members is not None and broker in edge.members and edge.link.version >= VERSION:
                return edge
        return None

    def _on_tree(self, root: str) -> Iterator[tuple[str, Topic]]:
        for topic in self._topics.gathered():
            if self._topics.tree_of(topic) == root:
                for place in places_of(topic):
                    yield place, topic

    # Who has a seat.

    def holder(self, place: str) -> Holder | None:
        """Who has a seat, as far as is known here; who is to have it, with term 0, if nobody has had it."""
        known = self._holders.get(place)
        if known is not None:
            return known
        grown = self.grown(place)
        best = self._best(place, grown) if grown is not None else None
        if grown is None or best is None or best not in grown.members:
            return None
        return Holder(0, best, grown.members[best][0], "")

    def mine(self, place: str) -> Gatherer | None:
        """The gatherer of a place, if this broker has the seat."""
        seat = self._seats.get(place)
        return seat.gatherer if seat is not None else None

    def seat_for(self, place: str, holder: Holder) -> Seat | None:
        """The seat, if this broker has it, or is to have it and has not begun."""
        seat = self._seats.get(place)
        if seat is None and holder.term == 0 and place not in self._holders:
            topic, grown = self.topic_at(place), self.grown(place)
            here = holder.boot == self._core.boot
            if here and topic is not None and grown is not None and not self._too_early(grown):
                self._begin(place, topic, Holder(1, self._core.id, self._core.boot, ""), "first")
                seat = self._seats[place]
        return seat

    def _too_early(self, grown: Grown) -> bool:
        """Whether others may have a seat of which this broker has not heard, since it has only just started."""
        if not self.synchronised():
            return True
        if grown.edges:
            return False
        soon = self._began + MEET_WITHIN_S
        if self.missing() and self._core.now < soon:
            # Others were there before, and may be about to dial.
            self._core.timers.set(Timer.SURVEY, grown.root, soon)
            return True
        return bool(self._links.up())

    def go_on(self) -> None:
        """It is not too early any more."""
        for root in sorted(self._searches):
            tree = self._trees.trees.get(root)
            grown = tree.current if tree is not None else None
            if grown is not None and self._searches[root].epoch == grown.epoch:
                self._look(grown, self._searches[root])

    def _best(self, place: str, grown: Grown) -> str | None:
        """The best place that the search has found."""
        topic = self.topic_at(place)
        search = self._searches.get(grown.root)
        if topic is None or topic.gathering is None or search is None or search.epoch != grown.epoch:
            return None
        about, strategy = self._judged_by(topic, search.finder)
        won = search.winners.get((about, strategy))
        if won is None:
            return None
        part = place.partition(PART)[2]
        return won.ring[int(part) % len(won.ring)] if part and won.ring else won.broker

    def _judged_by(self, topic: Topic, finder: Finder) -> tuple[str, str]:
        """What is surveyed for a topic, and the strategy by which the best place is found."""
        gathering = topic.gathering
        assert gathering is not None, "only gathered topics have seats"
        if finder.protocol == "paper":
            return TREE, Strategy.CENTRE.value
        about = topic.name if gathering.seat_scope is Scope.TOPIC else TREE
        if gathering.seat is not Strategy.TRAFFIC or gathering.seats > 1:
            strategy = Strategy.MEDIAN if gathering.seat is Strategy.TRAFFIC else gathering.seat
            return about, strategy.value
        if isinstance(finder, ReportFinder) and finder.weight(topic.name):
            return topic.name, Strategy.TRAFFIC.value
        return about, Strategy.MEDIAN.value

    def _learn(self, place: str, holder: Holder) -> bool:
        """Somebody has a seat; whether that is news."""
        known = self._holders.get(place)
        if known is not None and holder <= known:
            return False
        self._know(place, holder)
        core = self._core
        here = holder.seat == core.id and holder.boot == core.boot
        seat = self._seats.get(place)
        if seat is not None:
            if here:
                seat.holder = holder
            else:
                self._give_up(place, seat, holder)
        self._sort_out_images(place, holder)
        promised = self._promised.get(place)
        if promised is not None and holder.term >= promised[0]:
            del self._promised[place]
            topic = self.topic_at(place)
            if here and seat is None and holder.term == promised[0] and topic is not None:
                self._begin(place, topic, holder, "handed over", promised[1])
        if known is None or (known.seat, known.boot) != (holder.seat, holder.boot):
            self.reports.on_holder(place)
            self._hand_on(place)
            self.on_moved(place)
        return True

    def _know(self, place: str, holder: Holder) -> None:
        """Keep who has a seat, on disk too: a broker that starts must not take one that others have."""
        self._holders[place] = holder
        self._core.out.append(Write(known_key(place), encode((place, holder))))

    def _sort_out_images(self, place: str, holder: Holder) -> None:
        """Keep the image of a seat whose deputy this broker is; what a dead one has left goes to its heir."""
        images = self._images.get(place, {})
        grown = self.grown(place)
        for image in list(images.values()):
            if (image.seat, image.boot) == (holder.seat, holder.boot):
                if holder.deputy == self._core.id or holder.term <= image.term:
                    continue
            elif grown is None or grown.members.get(image.seat, (0, 0))[0] != image.boot:
                self._leftovers.setdefault(place, []).append(image.copies)
            elif image.outlived < OUTLIVED_MAX:
                continue  # it hands over what it has, if it lives so long
            del images[image.seat]
        if not images:
            self._images.pop(place, None)

    def _give_up(self, place: str, seat: Seat, holder: Holder) -> None:
        """Another has the seat: gather no more, and let that one have what was gathered here."""
        copies = seat.copies()
        del self._seats[place]
        self._core.timers.cancel(Timer.GATHER, place)
        if seat.leaving is not None and seat.leaving[0] == holder.seat:
            # It has everything; this broker is its deputy until it has found another.
            image = Image(holder.seat, holder.boot, holder.term, 0)
            image.copies = copies
            self._images.setdefault(place, {})[image.seat] = image
            erase(self._core, place, copies)
        else:
            self._leftovers.setdefault(place, []).append(copies)
            self._publications.drop_told(copies.entries)
        self.counts.handed_over += 1
        self._record(place, holder, "handed over")

    def _record(self, place: str, holder: Holder, reason: str) -> None:
        self._core.record(
            Kind.SEATED,
            place.partition(PART)[0],
            None,
            0,
            link=holder.seat,
            reason=reason,
            receivers=(holder.deputy,) if holder.deputy else (),
        )
        self._core.log(
            "info", "a seat has changed", place=place, seat=holder.seat, term=holder.term, why=reason
        )

    def _begin(
        self,
        place: str,
        topic: Topic,
        holder: Holder,
        reason: str,
        copies: Copies | None = None,
    ) -> None:
        """Have a seat from now on, with what is known of it."""
        core = self._core
        seat = Seat(core, self._links, self._topics, self, place, topic, holder)
        self._seats[place] = seat
        self._know(place, holder)
        images = self._images.pop(place, {}).values()
        # Of several the latest is the surest.
        known = [image.copies for image in sorted(images, key=lambda image: -image.term)]
        known += self._leftovers.pop(place, [])
        seat.begin([copies, *known] if copies is not None else known)
        seat.write_all()
        if reason == "taken over":
            self.counts.taken_over += 1
        self._record(place, holder, reason)
        self._flood(place)
        grown = self.grown(place)
        if grown is not None:
            seat.look_for_deputy(grown)
        self.reports.on_holder(place)
        self._hand_on(place)
        self.on_moved(place)

    def _flood(self, place: str, but: Link | None = None) -> None:
        """Let all of a tree know who has a seat."""
        grown = self.grown(place)
        if grown is None:
            return
        message = Seated(grown.root, grown.epoch, place, self._holders[place], self._counted.get(place, ()))
        self._to_all(grown, message, but)

    def _to_all(self, grown: Grown, message: Message, but: Link | None) -> None:
        for _, edge in sorted(grown.edges.items()):
            if edge.alive and edge.link is not but and edge.link.version >= VERSION:
                self._links.send(edge.link, message)

    def on_seated(self, link: Link, message: Seated) -> None:
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        known = self._holders.get(message.place)
        news = message.counts != self._counted.get(message.place, ()) and message.counts
        if known is not None and message.holder < known:
            if grown is not None and grown.epoch == message.epoch:
                # Whoever says so does not know better.
                told = Seated(grown.root, grown.epoch, message.place, known, ())
                self._links.send(link, told)
            return
        if message.counts and message.place not in self._seats:
            self._counted[message.place] = message.counts
        if (self._learn(message.place, message.holder) or news) and grown is not None:
            if grown.epoch == message.epoch:
                self._to_all(grown, message, link)

    # The search.

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: search anew, and see to the seats here."""
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        root = tree.root
        self._searches.pop(root, None)
        # What has come in part will come again as a whole.
        self._offered = {key: copies for key, copies in self._offered.items() if self.root_of(key[0]) != root}
        self._coming = {key: image for key, image in self._coming.items() if key[1] in grown.members}
        waiting = self._parked.pop(root, [])
        for seat in self._retiring.values():
            seat.let_go()  # its deputy may be gone, and there will be no other
        if root == self._core.id:
            self._start(root)
        for link, generation, message in waiting:
            if link.generation == generation:
                self.on_survey(link, message)
        self.reports.on_ready(root)
        for place in self._known_places():
            if self.root_of(place) == root:
                self._settle(place, grown)
        self.rearrange()

    def rearrange(self) -> None:
        """Topics may use other trees than before: see to the places that do."""
        self._start(self._core.id)
        for place in self._known_places():
            grown = self.grown(place)
            if grown is not None and self._settled.get(place) != (grown.root, grown.epoch):
                self._settle(place, grown)
                search = self._searches.get(grown.root)
                if search is not None and search.epoch == grown.epoch:
                    self._look(grown, search)

    def _known_places(self) -> list[str]:
        """Those with something here that depends on their tree."""
        return list(dict.fromkeys([*self._seats, *self._leftovers, *self.reports.places]))

    def _settle(self, place: str, grown: Grown) -> None:
        """Go on with a place in another epoch, or on another tree."""
        self._settled[place] = (grown.root, grown.epoch)
        seat = self._seats.get(place)
        if seat is not None:
            seat.leaving = None
            self._gifts.pop(place, None)
            seat.look_for_deputy(grown)
            if self._core.settings.seat_protocol == "paper":
                self._flood(place)  # the published messages do not say who has a seat
        self.reports.again(place)
        self._hand_on(place)

    def _start(self, root: str, *, again: bool = False) -> None:
        """Begin a search, as the root of a tree with gathered topics; another one only if it is to be."""
        tree = self._trees.trees.get(root)
        grown = tree.current if tree is not None else None
        if grown is None or root != self._core.id or next(self._on_tree(root), None) is None:
            return
        if not again and root in self._searches and self._searches[root].epoch == grown.epoch:
            return
        search = self._search(grown)
        self._prepare(grown)
        self._say(grown, search.finder.start())
        self._core.timers.set(Timer.SURVEY, root, self._core.now + self._core.settings.seat_window_s)
        self._look(grown, search)

    def on_survey_due(self, root: str) -> None:
        """Count the traffic of the last window, and see whether seats are where they should be."""
        self._start(root, again=True)

    def _search(self, grown: Grown) -> Search:
        search = self._searches.get(grown.root)
        if search is None or search.epoch != grown.epoch:
            root = grown.root
            finder = FINDERS[self._core.settings.seat_protocol](
                self._core.id,
                sorted(peer for peer, edge in grown.edges.items() if edge.link.version >= VERSION),
                loads=self._loads.setdefault(root, {}),
                holders=self._holders,
                wanted=self._wanted.setdefault(root, {}),
                ring=max(
                    (topic.gathering.seats for topic in self._topics.gathered() if topic.gathering), default=1
                ),
            )
            search = self._searches[root] = Search(finder, grown.epoch)
        return search

    def _prepare(self, grown: Grown) -> None:
        """What this broker has to say in the search that begins."""
        root = grown.root
        loads, wanted = self._loads.setdefault(root, {}), self._wanted.setdefault(root, {})
        loads.clear()
        wanted.clear()
        for topic in self._topics.gathered():
            gathering = topic.gathering
            if gathering is None or self._topics.tree_of(topic) != root:
                continue
            whole = Strategy.MEDIAN if gathering.seat is Strategy.TRAFFIC else gathering.seat
            if gathering.seat_scope is Scope.TOPIC:
                wanted.setdefault(topic.name, set()).add(whole.value)
            else:
                wanted.setdefault(TREE, set()).add(whole.value)
            if gathering.seat is Strategy.TRAFFIC and gathering.seats == 1:
                wanted.setdefault(topic.name, set()).add(Strategy.TRAFFIC.value)
            entered = sum(self.reports.entered.pop(place, 0) for place in places_of(topic))
            left = self._publications.left.pop(topic.name, 0)
            used = entered > 0 or self._routing.asked_here(topic.pattern.filter)
            # A version crosses each link once, however many get it, so those share what a report weighs.
            weight = entered * len(grown.members) + left
            if gathering.seat_scope is Scope.TOPIC or (gathering.seat is Strategy.TRAFFIC and weight):
                loads[topic.name] = (weight, used)

    def on_survey(self, link: Link, message: Survey) -> None:
        tree = self._trees.trees.get(message.root)
        grown = tree.current if tree is not None else None
        if tree is None or grown is None or grown.epoch != message.epoch:
            if tree is not None and tree.growing is not None and tree.growing.epoch == message.epoch:
                self._parked.setdefault(message.root, []).append((link, link.generation, message))
            return
        search = self._search(grown)
        if message.body.counter > search.finder.counter:
            self._prepare(grown)
        self._say(grown, search.finder.on(link.peer, message.body))
        if isinstance(message.body, Announce):
            self._look(grown, search, message.body.about)
        elif search.judged != search.finder.counter:
            self._look(grown, search)

    def _say(self, grown: Grown, said: list[Said]) -> None:
        for peer, body in said:
            edge = grown.edges.get(peer)
            if edge is not None and edge.alive and edge.link.version >= VERSION:
                self._links.send(edge.link, Survey(grown.root, grown.epoch, body))

    def _look(self, grown: Grown, search: Search, about: str = TREE) -> None:
        """See what the search has found by now; of one thing only, if the rest has been looked at."""
        finder = search.finder
        if finder.eccentricity is None:
            return  # not everyone has been heard
        first = search.judged != finder.counter
        if first:
            about = TREE
            search.judged = finder.counter
            self._hear_of_holders(finder)
        topic = self._topics.named(about) if about != TREE else None
        if about == TREE:
            search.winners |= finder.winners
            places = list(self._on_tree(grown.root))
        else:
            pairs = [(about, strategy.value) for strategy in Strategy]
            search.winners |= {pair: finder.winners[pair] for pair in pairs if pair in finder.winners}
            places = [(place, topic) for place in places_of(topic)] if topic is not None else []
        for place, topic in places:
            seat = self._seats.get(place)
            if seat is not None:
                self._consider(seat, search)
                continue
            self._judge(place, topic, grown)
            if place not in self._holders:
                self.reports.pump(place)
        if first:
            for place in sorted(self._seats):
                if self.root_of(place) == grown.root:
                    self._tell_counts(place)

    def _hear_of_holders(self, finder: Finder) -> None:
        """Take in who has which seat, by all who were heard in a search."""
        for place, holder in sorted(finder.holders.items()):
            self._learn(place, holder)
        for place, images in list(self._images.items()):
            holder = self._holders.get(place, NOBODY)
            for image in images.values():
                image.outlived += (image.seat, image.boot) != (holder.seat, holder.boot)
            self._sort_out_images(place, holder)
            self._hand_on(place)

    def _judge(self, place: str, topic: Topic, grown: Grown) -> None:
        """Take a seat whose holder is gone, if this broker is the one to do so."""
        holder = self._holders.get(place)
        if holder is None:
            return
        core, members = self._core, grown.members
        if holder.seat in members and members[holder.seat][0] == holder.boot:
            return
        if holder.deputy in members:
            chosen: str | None = holder.deputy
        elif holder.seat in members:
            chosen = holder.seat
        else:
            chosen = self._best(place, grown)
        if chosen == core.id and not self._too_early(grown):
            self._begin(place, topic, Holder(holder.term + 1, core.id, core.boot, ""), "taken over")

    # Moving.

    def _consider(self, seat: Seat, search: Search) -> None:
        """Move a seat, if another broker has been better for long enough."""
        finder, core = search.finder, self._core
        settings = core.settings
        gathering = seat.topic.gathering
        if search.weighed.get(seat.place) == finder.counter or gathering is None or gathering.seats > 1:
            return
        about, strategy = self._judged_by(seat.topic, finder)
        won, here = finder.winners.get((about, strategy)), finder.cost(about, strategy)
        if won is None or here is None:
            return
        search.weighed[seat.place] = finder.counter
        gain = here - won.cost
        if won.broker == core.id or gain <= 0 or gain < settings.seat_gain * here:
            seat.better = ("", 0)
            return
        windows = seat.better[1] if seat.better[0] == won.broker else 0
        seat.better = (won.broker, windows + 1)
        if windows + 1 >= settings.seat_windows and core.now - seat.since >= settings.seat_stay_s:
            self.move(seat.place, won.broker)

    def move(self, place: str, to: str) -> None:
        """Hand a seat to another broker of its tree."""
        seat = self._seats.get(place)
        grown = self.grown(place)
        if seat is None or grown is None or to not in grown.members or to == self._core.id or seat.leaving:
            return
        seat.leaving = (to, grown.members[to][0])
        self.touched(seat)

    def _leave(self, seat: Seat) -> None:
        """Hand over all there is, now that nothing is under way."""
        if seat.place in self._gifts or seat.leaving is None:
            return
        gift = self._gift(seat.place, seat.copies(), seat.holder.term + 1, seat.leaving[0])
        self._send_gift(seat.place, gift)

    def _gift(self, place: str, copies: Copies, term: int, to: str) -> Gift:
        self._gift_number += 1
        gift = self._gifts[place] = Gift(copies, self._gift_number, term, to)
        return gift

    def _hand_on(self, place: str) -> None:
        """Let whoever has a seat have what this broker gathered there once."""
        leftovers = self._leftovers.get(place)
        holder = self._holders.get(place)
        if not leftovers or holder is None:
            return
        if place in self._seats:
            del self._leftovers[place]
            for copies in leftovers:
                self._seats[place].adopt(copies, self._core.id, 0)
            return
        if (holder.seat, holder.boot) == (self._core.id, self._core.boot) or holder.seat == self._core.id:
            return  # it is to be begun here
        self._send_gift(place, self._gift(place, leftovers[0], holder.term, holder.seat))

    def _send_gift(self, place: str, gift: Gift) -> None:
        grown = self.grown(place)
        edge = self.toward(grown, gift.to) if grown is not None else None
        if grown is None or edge is None or not edge.alive:
            return  # sent in the next epoch
        now_us = self._core.at_us
        made = {event: at_us for event, (_, at_us) in gift.copies.entries.items()}
        parts = list(parted((event, copy) for event, (copy, _) in gift.copies.entries.items())) or [()]
        for at, part in enumerate(parts):
            message = HandOver(
                grown.root,
                grown.epoch,
                place,
                gift.term,
                gift.to,
                self._core.id,
                gift.number,
                tuple((event, copy, max(0, now_us - made[event])) for event, copy in part),
                () if at else marks_of(gift.copies.marks),
                at + 1 < len(parts),
            )
            self._links.send_data(edge.link, message, data_bytes(message))

    def on_hand_over(self, link: Link, message: HandOver) -> None:
        grown = self._current(message.root, message.epoch)
        if grown is None:
            return
        if message.to != self._core.id:
            edge = self.toward(grown, message.to)
            if edge is not None and edge.alive and edge.link is not link:
                self._links.send_data(edge.link, message, data_bytes(message))
            return
        key = message.place, message.sender, message.number
        copies = self._offered.setdefault(key, Copies())
        now_us = self._core.at_us
        copies.entries |= {event: (copy, now_us - elapsed) for event, copy, elapsed in message.entries}
        copies.mark(message.marks)
        if message.more:
            return
        del self._offered[key]
        seat = self._seats.get(message.place)
        if seat is not None:
            seat.adopt(copies, message.sender, message.number)
            return
        known = self._holders.get(message.place)
        if known is None or message.term > known.term:
            self._promised[message.place] = (message.term, copies)
            self._answer_gift(grown, message.place, message.term, message.sender, message.number)

    def _answer_gift(self, grown: Grown, place: str, term: int, sender: str, number: int) -> None:
        edge = self.toward(grown, sender)
        if edge is not None and edge.alive:
            self._links.send(edge.link, HandedOver(grown.root, grown.epoch, place, term, sender, number))

    def on_handed_over(self, link: Link, message: HandedOver) -> None:
        grown = self._current(message.root, message.epoch)
        if grown is None:
            return
        if message.to != self._core.id:
            edge = self.toward(grown, message.to)
            if edge is not None and edge.alive and edge.link is not link:
                self._links.send(edge.link, message)
            return
        gift = self._gifts.get(message.place)
        if gift is None or gift.number != message.number:
            return
        del self._gifts[message.place]
        seat = self._seats.get(message.place)
        if seat is not None and seat.leaving is not None and seat.leaving[0] == gift.to:
            holder = Holder(gift.term, gift.to, seat.leaving[1], self._core.id)
            self._learn(message.place, holder)
            self._flood(message.place)
        elif seat is None:
            leftovers = self._leftovers.get(message.place, [])
            if gift.copies in leftovers:
                leftovers.remove(gift.copies)
                erase(self._core, message.place, gift.copies)
            if leftovers:
                self._hand_on(message.place)
            else:
                self._leftovers.pop(message.place, None)

    def _current(self, root: str, epoch: Epoch) -> Grown | None:
        tree = self._trees.trees.get(root)
        grown = tree.current if tree is not None else None
        return grown if grown is not None and grown.epoch == epoch else None

    # A deputy's part.

    def on_mirror(self, link: Link, message: Mirror) -> None:
        place = message.place
        image: Image | None
        if message.whole:
            key = place, link.peer
            image = self._coming.get(key)
            if image is None or image.number != message.number or image.generation != link.generation:
                image = self._coming[key] = Image(link.peer, link.boot, message.term, link.generation)
                image.number = message.number
        else:
            image = self._images.get(place, {}).get(link.peer)
            if (
                image is None
                or image.generation != link.generation
                or message.number not in (image.number, image.number + 1)
            ):
                # What it is a change of is not known here.
                answer = Mirrored(message.root, message.epoch, place, message.term, 0)
                self._links.send(link, answer)
                return
        now_us = self._core.at_us
        copies = image.copies
        copies.entries |= {event: (copy, now_us) for event, copy in message.entries}
        for ended in message.closed:
            copies.close(ended)
        copies.confirmed |= {
            event: version for event, version in message.confirmed if event in copies.entries
        }
        copies.mark(message.marks)
        if message.more:
            return
        image.number = message.number
        image.term = message.term
        if message.whole:
            del self._coming[place, link.peer]
            images = self._images.setdefault(place, {})
            before = images.get(link.peer)
            if before is not None and before.boot != image.boot:
                # It was started anew, perhaps without its disk: it is given back what it had.
                self._leftovers.setdefault(place, []).append(before.copies)
            images[link.peer] = image
        self._links.send(link, Mirrored(message.root, message.epoch, place, message.term, message.number))

    def on_mirrored(self, link: Link, message: Mirrored) -> None:
        seat = self._seats.get(message.place)
        if seat is not None:
            seat.on_mirrored(link, message)
            if seat.leaving is not None:
                self.touched(seat)
        elif message.place in self._retiring:
            # Its deputy may know as well that nobody gathers there any more.
            self._retiring[message.place].let_go()

    # What seats here want done.

    def touched(self, seat: Seat) -> None:
        """Something has happened at a seat."""
        self._touched[seat.place] = seat

    def answer(
        self,
        seat: Seat,
        origin: Origin,
        number: int,
        *,
        again: bool,
        absorbed: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Tell an origin how far its reports are safe, and which need not be sent again."""
        if origin == (self._core.id, self._core.incarnation):
            self.reports.taken(seat.place, number, again=again)
            return
        grown = self.grown(seat.place)
        if grown is not None:
            known = None
            if absorbed:
                core = self._core
                promised = tuple((one, event, seat.promise_us(event)) for one, event in absorbed[-KNOWN_MAX:])
                known = Known(core.id, core.boot, core.at_us, promised)
            self.reports.answer(Taken(grown.root, grown.epoch, seat.place, *origin, number, again, known))

    def told(self, seat: Seat, telling: Telling) -> None:
        """Tell a version of an event to all who want it."""
        event = telling.event
        told = self.as_told(seat.place, event, telling.state.value, last=telling.last, into=telling.into)
        if until_us := seat.promise_us(event.opened_by):
            told = msgspec.structs.replace(told, until_us=until_us, declared=seat.topic.version)
        payload, content_type = self.written(seat.topic, event)
        self._core.record(
            Kind.TOLD,
            telling.name,
            None,
            len(payload),
            reason=telling.state.value,
            event=event.opened_by,
            version=event.version,
        )
        self._publications.tell(telling.name, payload, telling.qos, content_type, told)

    def as_told(self, place: str, event: Event, state: str, *, last: bool = False, into: str = "") -> Told:
        """What a publication of an event is."""
        return Told(
            event.topic,
            event.opened_by,
            event.version,
            event.reports,
            event.complete,
            self._core.id,
            state,
            last,
            into,
            place,
        )

    def written(self, topic: Topic, event: Event) -> tuple[bytes, str]:
        """An event as a payload, and its content type."""
        assert topic.gathering is not None, "only gathered topics have events"
        encoding = topic.gathering.encoding
        return payloads.encode(event.fields, encoding), CONTENT_TYPES[encoding]

    def shown(self, place: str, wanted: Callable[[Event], bool]) -> list[Publication]:
        """The latest versions told of open events at a seat here, as publications in no stream.

        Without events of which a version is not safe yet: a successor would give its number to something
        else. It will be told to all.
        """
        seat = self._seats.get(place)
        if seat is None:
            return []
        core, untold = self._core, seat.untold()
        found: list[Publication] = []
        for entry in seat.gatherer.entries():
            event = entry.told
            if entry.closed or entry.hashes is not None or event is None:
                continue
            if event.opened_by in untold or not wanted(event):
                continue
            payload, content_type = self.written(seat.topic, event)
            found.append(
                Publication(
                    core.id,
                    core.incarnation,
                    self._topics.stream_of(entry.name),
                    0,
                    entry.name,
                    payload,
                    entry.qos,
                    core.at_us,
                    content_type=content_type,
                    told=self.as_told(place, event, "told"),
                )
            )
        return found

    def closed(self, seat: Seat, closing: Closing) -> None:
        """Let those who follow an event know that it is closed."""
        self._core.record(Kind.CLOSED, seat.topic.name, None, 0, reason=closing.reason, event=closing.event)
        self.on_closed(seat.place, closing.event, closing.version)

    def handed(self, seat: Seat, sender: str, number: int) -> None:
        """Let a broker know that what it handed over is safe."""
        grown = self.grown(seat.place)
        if grown is not None and sender != self._core.id:
            self._answer_gift(grown, seat.place, seat.holder.term, sender, number)

    def deputised(self, seat: Seat, deputy: str) -> None:
        """Let all know that another broker has a copy of everything."""
        seat.holder = Holder(seat.holder.term + 1, self._core.id, self._core.boot, deputy)
        self._know(seat.place, seat.holder)
        seat.write_holder()
        self._record(seat.place, seat.holder, "deputy")
        self._flood(seat.place)

    def _on_confirmed(self, told: Told) -> None:
        seat = self._seats.get(told.place or told.topic)
        if seat is not None:
            seat.confirm(told.event, told.version)

    # From clients here.

    def offer(self, offered: PublicationOffered, topic: Topic, report: Report) -> bool:
        """A report of a client; False if it is to go its way as it is."""
        assert topic.gathering is not None, "only gathered topics take reports"
        place = self.place_of(topic, report.key)
        self.reports.far += self._topics.far(report, self._core.at_us)
        if topic.gathering.before_seat is BeforeSeat.PASS and self.holder(place) is None:
            return False
        dropping = topic.gathering.on_the_way is not OnTheWay.NOTHING
        if dropping:
            event = self.relaying.redundant(place, topic, report, offered.qos)
            if event is not None:
                self.reports.drop(offered, place, event)
                return True
        holder = self.holder(place)
        holding = topic.gathering.on_the_way is OnTheWay.MERGE
        holding = holding and (holder is None or holder.seat != self._core.id)
        if not holding or not self.reports.merge(offered, place, report):
            self.reports.offer(offered, place, report, dropping=dropping, holding=holding)
        return True

    # Declarations.

    def _on_declared(self, name: str) -> None:
        """A topic is declared, or declared otherwise, or no more."""
        topic = self._topics.named(name)
        gathered = topic is not None and topic.gathering is not None
        for place in [place for place in self._holders if place.partition(PART)[0] == name]:
            self.reports.on_declared(place)
        for place in [place for place in self._seats if place.partition(PART)[0] == name]:
            seat = self._seats[place]
            if topic is not None and gathered and place in places_of(topic):
                seat.topic = topic
                seat.gatherer.redeclare(topic)
                self.touched(seat)
            else:
                copies = seat.copies()
                seat.gatherer.close_all()
                seat.flush()
                del self._seats[place]
                self._core.timers.cancel(Timer.GATHER, place)
                erase(self._core, place, copies)
                self._retiring[place] = seat
        if topic is None or not gathered:
            for place in [place for place in self._holders if place.partition(PART)[0] == name]:
                self._holders.pop(place)
                self._core.out.append(Erase(known_key(place)))
                self._counted.pop(place, None)
                self._settled.pop(place, None)
                self._images.pop(place, None)
                self._leftovers.pop(place, None)
                self.reports.give_up(place, "the topic is gathered no more")
            return
        # At the end of the turn: all must hear of the declaration before they hear of the search.
        self._declared = True

    # Turns.

    def tick(self) -> None:
        """What need not be done at once."""
        for seat in self._seats.values():
            seat.tick()

    def on_clock(self, place: str) -> None:
        seat = self._seats.get(place)
        if seat is not None:
            seat.on_clock()

    def flush(self) -> None:
        """Close the batches of this turn."""
        if self._declared:
            self._declared = False
            self._start(self._core.id, again=True)
        touched, self._touched = self._touched, {}
        for place, seat in touched.items():
            if self._seats.get(place) is not seat:
                continue
            every_us = self.shortest_every(place)
            if every_us != seat.every_us:
                seat.every_us = every_us
                seat.gatherer.cycle(every_us)
            seat.flush()
            if seat.leaving is not None and seat.settled:
                self._leave(seat)
        if self._retiring:
            self._retiring = {place: seat for place, seat in self._retiring.items() if not seat.settled}

    # Looking in.

    def _tell_counts(self, place: str) -> None:
        counts = _counts(self._seats[place].gatherer)
        if counts != self._counted.get(place):
            self._counted[place] = counts
            self._flood(place)

    def status(self, name: str) -> tuple[GatheredStatus, ...]:
        """What is known here of the seats of a topic."""
        topic = self._topics.named(name)
        if topic is None or topic.gathering is None:
            return ()
        return tuple(self._status(place, topic) for place in places_of(topic))

    def held_status(self) -> tuple[GatheredStatus, ...]:
        """The same for the seats that this broker has, whatever their topic."""
        return tuple(self._status(place, self._seats[place].topic) for place in self.held)

    def _status(self, place: str, topic: Topic) -> GatheredStatus:
        holder = self.holder(place)
        seat = self._seats.get(place)
        counts = _counts(seat.gatherer) if seat is not None else self._counted.get(place, ())
        is_open, received, opened, merged, redundant, refused, conflicts, told, closed = counts or (0,) * 9
        return GatheredStatus(
            topic.name,
            place,
            self._topics.tree_of(topic) or "",
            holder.term if holder is not None else 0,
            holder.seat if holder is not None else "",
            holder.deputy if holder is not None else "",
            is_open,
            received,
            opened,
            merged,
            redundant,
            refused,
            conflicts,
            told,
            closed,
            self.reports.waiting(place),
            seat is not None,
        )

    @property
    def held(self) -> list[str]:
        """The places whose seats this broker has."""
        return sorted(self._seats)


def places_of(topic: Topic) -> list[str]:
    """All places of a gathered topic."""
    parts = topic.gathering.seats if topic.gathering is not None else 1
    return [topic.name] if parts == 1 else [f"{topic.name}{PART}{part}" for part in range(parts)]


def _counts(gatherer: Gatherer) -> tuple[int, ...]:
    counts = gatherer.counts
    return (
        gatherer.open,
        counts.received,
        counts.opened,
        counts.merged,
        counts.redundant,
        counts.refused,
        counts.conflicts,
        counts.told,
        counts.closed,
    )
