"""Seats: which broker gathers what, how all come to know it, and what happens when that one dies or another
would do better.

In each epoch of a tree the brokers search for the best seats (`election`), and in the same messages tell
each other who has which seat, as far as they know (`Holder`, the latest counts). So when the search is over
all members know the same, and each can say by itself who is to have the seat of a place:

* the holder, if it is a member and has not been started anew;
* else its deputy, which has a copy of all that anybody was told;
* else the holder again, with what is on its disk;
* else the best place that the search has found.

A place without a holder is at the best place as soon as a report comes. A holder that finds that another is
later hands over what it has and gathers no more; that is how two sides of a partition become one. A seat
moves to a better place only where the gain lasts.

How reports travel is in `reports`, what a seat does in `seat`, what its deputy has in `replica`, how one
gives way to another in `handover`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tidings.gathering.gatherer import Closing, Gatherer, Telling
from tidings.language.reports import Event, Report
from tidings.language.topics import BeforeSeat, OnTheWay, Strategy, Topic
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Erase, Write
from tidings.overlay.frames import Message
from tidings.overlay.gather.centre import TREE, Finder
from tidings.overlay.gather.edge_filter import EdgeFilter
from tidings.overlay.gather.election import Election, Search, judged_by
from tidings.overlay.gather.handover import Handover
from tidings.overlay.gather.messages import Holder, Known, Mirror, Mirrored, Seated, Taken
from tidings.overlay.gather.partitions import PART, Partitions, places_of
from tidings.overlay.gather.replica import NOBODY, Replicas
from tidings.overlay.gather.reports import Reports
from tidings.overlay.gather.seat import Copies, Origin, Seat, erase, known_key, recovered
from tidings.overlay.gather.told_publication import as_told, shown, written
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Offered, Publication, Told
from tidings.overlay.publishing.log_writer import LogWriter
from tidings.overlay.publishing.outbox import encode
from tidings.overlay.publishing.publications import Publications
from tidings.overlay.routing.absence import Absences
from tidings.overlay.routing.catalogue import Catalogue
from tidings.overlay.routing.sessions import Sessions
from tidings.overlay.routing.topics import Topics
from tidings.overlay.status import GatheredStatus
from tidings.overlay.timers import Timer
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Tree, TreeEpoch, Trees
from tidings.records.record import Kind

MEET_WITHIN_S = 3.0
"""How long a broker that has just started waits for others before it has a seat that another may have. Longer
than most take to dial again; reports wait meanwhile, and nobody else can be told of them anyway."""

LEAVE_WITHIN_S = 5.0
"""How long a seat that is to move waits for its heir; then it gathers again where it is."""

COUNTS_SOON_MAX = 16
"""Brokers of a tree up to which they are told what a seat has counted with every tick, and not with every
window: there a person is likely to look."""

KNOWN_MAX = 64
"""Reports of which an origin is told at once that such need not be sent; the latest, if there are more."""


class Counts:
    """What is counted of seats as a whole, since this broker started."""

    __slots__ = ("handed_over", "taken_over")

    def __init__(self) -> None:
        self.taken_over = 0
        """Seats that came here since their holder was gone."""
        self.handed_over = 0
        """Seats that were given to another broker."""


class EventClosed(Notice, frozen=True):
    place: str
    event: str
    version: int


class SeatMoved(Notice, frozen=True):
    """A seat is held by another broker than before, or by this one."""

    place: str


class SeatFound(Notice, frozen=True):
    """An election has said who is to have a seat that nobody has had."""

    place: str


class Seats(Partitions):
    """All places, and the seats that this broker has."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        sessions: Sessions,
        publications: Publications,
        log_writer: LogWriter,
        absences: Absences,
        catalogue: Catalogue,
        shortest_every: Callable[[str], int | None],
    ) -> None:
        """`shortest_every`: the shortest cycle that subscribers of a partition ask for."""
        self._core = core
        super().__init__(trees, topics)
        self._links = links
        self._sessions = sessions
        self._publications = publications
        self._log_writer = log_writer
        self._absences = absences
        self._catalogue = catalogue
        self._shortest_every = shortest_every
        self._holders: dict[str, Holder] = {}
        self.edge_filter = EdgeFilter(core, topics, self._holders.get)
        self.reports = Reports(core, links, trees, self, self.edge_filter, log_writer)
        self.counts = Counts()
        self._began = 0.0
        self._counted_at: dict[str, float] = {}
        self._counted: dict[str, tuple[int, ...]] = {}
        """By place: what its seat has counted, by its latest word."""
        self._seats: dict[str, Seat] = {}
        self._declared = False
        """Whether a topic was declared in this turn."""
        self._touched: dict[str, Seat] = {}
        """Those at which something has happened in this turn."""
        self._retiring: dict[str, Seat] = {}
        """Seats of topics that are gathered no more, until what they had to tell is told."""
        self._settled: dict[str, tuple[str, Epoch]] = {}
        """By place: the tree and epoch in which it was last seen to."""
        self.election = Election(core, links, trees, topics, self, self._holders, self._weigh, self._look)
        self.replicas = Replicas(core, links)
        self.handover = Handover(core, links, self, self._holders, self._seats, self._on_left)
        publications.gather = self.offer
        publications.reports_bytes = lambda: self.reports.waiting_bytes

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Seats that this broker had, and reports that entered here."""
        self._began = self._core.now
        holders, copies = recovered(saved)
        self._holders |= holders
        for place, found in copies.items():
            self.handover.keep(place, found)
        self.reports.recover(saved)

    # Who has a seat.

    def holder(self, place: str) -> Holder | None:
        """Who has a seat, as far as is known here; who is to have it, with term 0, if nobody has had it."""
        known = self._holders.get(place)
        if known is not None:
            return known
        grown = self.grown(place)
        best = self.election.best(place, grown) if grown is not None else None
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

    def _too_early(self, grown: TreeEpoch) -> bool:
        """Whether others may have a seat of which this broker has not heard, for it has only just started."""
        if not self._catalogue.synchronised:
            return True
        if grown.edges:
            return False
        soon = self._began + MEET_WITHIN_S
        if bool(self._absences) and self._core.now < soon:
            # Others were there before, and may be about to dial.
            self._core.timers.set(Timer.SURVEY, grown.root, soon)
            return True
        return bool(self._links.up())

    def go_on(self) -> None:
        """It is not too early any more."""
        self.election.look_again()

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
        self._sort_out(place, holder)
        promised = self.handover.promised(place, holder)
        topic = self.topic_at(place)
        if promised is not None and seat is None and topic is not None:
            self._begin(place, topic, holder, "handed over", promised)
        if known is None or (known.seat, known.boot) != (holder.seat, holder.boot):
            self.reports.on_holder(place)
            self.handover.hand_on(place)
            self._core.tell(SeatMoved(place))
        return True

    def _know(self, place: str, holder: Holder) -> None:
        """Keep who has a seat, on disk too: a broker that starts must not take one that others have."""
        self._holders[place] = holder
        self._core.out.append(Write(known_key(place), encode((place, holder))))

    def _sort_out(self, place: str, holder: Holder) -> None:
        """See what this broker has of a seat for others, now that its holder is known."""
        for copies in self.replicas.sort_out(place, holder, self.grown(place)):
            self.handover.keep(place, copies)

    def _on_left(self, place: str, holder: Holder) -> None:
        """A seat that was here is another broker's."""
        self._learn(place, holder)
        self._flood(place)

    def _give_up(self, place: str, seat: Seat, holder: Holder) -> None:
        """Another has the seat: gather no more, and let that one have what was gathered here."""
        copies = seat.copies(past=True)
        del self._seats[place]
        self._core.timers.cancel(Timer.GATHER, place)
        if seat.leaving is not None and seat.leaving[0] == holder.seat:
            # It has everything; this broker is its deputy until it has found another.
            self.replicas.add(place, holder, copies)
            erase(self._core, place, copies)
        else:
            self.handover.keep(place, copies)
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
        inherited: Copies | None = None,
    ) -> None:
        """Have a seat from now on, with what the broker has left that had it, and what others have."""
        core = self._core
        seat = Seat(core, self._links, self._topics, self, place, topic, holder)
        self._seats[place] = seat
        self._know(place, holder)
        self.handover.forget(place)
        seat.begin(inherited, [*self.replicas.take(place), *self.handover.take(place)])
        seat.write_all()
        if reason == "taken over":
            self.counts.taken_over += 1
        self._record(place, holder, reason)
        self._flood(place)
        grown = self.grown(place)
        if grown is not None:
            seat.look_for_deputy(grown)
        self.reports.on_holder(place)
        self.handover.hand_on(place)
        self._core.tell(SeatMoved(place))

    def _flood(self, place: str, but: Link | None = None) -> None:
        """Let all of a tree know who has a seat."""
        grown = self.grown(place)
        if grown is None:
            return
        message = Seated(grown.root, grown.epoch, place, self._holders[place], self._counted.get(place, ()))
        self._to_all(grown, message, but)

    def _to_all(self, grown: TreeEpoch, message: Message, but: Link | None) -> None:
        for _, edge in sorted(grown.edges.items()):
            if edge.alive and edge.link is not but:
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
            self._counted_at[message.place] = self._core.now
        if (self._learn(message.place, message.holder) or news) and grown is not None:
            if grown.epoch == message.epoch:
                self._to_all(grown, message, link)

    # The search.

    def on_ready(self, tree: Tree) -> None:
        """A new epoch: search anew, and see to the seats here."""
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        root = tree.root
        self.handover.on_ready(root)
        self.replicas.on_ready(grown)
        for seat in self._retiring.values():
            seat.let_go()  # its deputy may be gone, and there will be no other
        self.election.on_ready(grown)
        self.reports.on_ready(root)
        for place in self._known_places():
            if self.root_of(place) == root:
                self._settle(place, grown)
        self.rearrange()

    def rearrange(self) -> None:
        """Topics may use other trees than before: see to the places that do."""
        self.election.start(self._core.id)
        for place in self._known_places():
            grown = self.grown(place)
            if grown is not None and self._settled.get(place) != (grown.root, grown.epoch):
                self._settle(place, grown)
                search = self.election.current(grown)
                if search is not None:
                    self._look(grown, search, TREE)

    def _known_places(self) -> list[str]:
        """Those with something here that depends on their tree."""
        return list(dict.fromkeys([*self._seats, *self.handover.places, *self.reports.places]))

    def _settle(self, place: str, grown: TreeEpoch) -> None:
        """Go on with a place in another epoch, or on another tree."""
        self._settled[place] = (grown.root, grown.epoch)
        seat = self._seats.get(place)
        if seat is not None:
            seat.leaving = None
            self.handover.forget(place)
            seat.look_for_deputy(grown)
            if self._core.settings.seat_protocol == "paper":
                self._flood(place)  # the published messages do not say who has a seat
        self.reports.again(place)
        self.handover.hand_on(place)

    def _look(self, grown: TreeEpoch, search: Search, about: str) -> None:
        """See what the search has found by now; of one thing only, if the rest has been looked at."""
        finder = search.finder
        if finder.eccentricity is None:
            return  # not everyone has been heard
        first = search.judged != finder.counter
        if first:
            about = TREE
            search.judged = finder.counter
            self._hear_of_holders(finder)
        topic = self.topic_at(about) if about != TREE else None
        if about == TREE:
            search.winners |= finder.winners
            places = list(self.on_tree(grown.root))
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
                self._core.tell(SeatFound(place))
        if first:
            for place in sorted(self._seats):
                if self.root_of(place) == grown.root:
                    self._tell_counts(place)

    def _hear_of_holders(self, finder: Finder) -> None:
        """Take in who has which seat, by all who were heard in a search."""
        for place, holder in sorted(finder.holders.items()):
            self._learn(place, holder)
        for place in self.replicas.outlive(self._holders):
            self._sort_out(place, self._holders.get(place, NOBODY))
            self.handover.hand_on(place)

    def _judge(self, place: str, topic: Topic, grown: TreeEpoch) -> None:
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
            chosen = self.election.best(place, grown)
        if chosen == core.id and not self._too_early(grown):
            before = self.replicas.take_of(place, holder)
            if before is None and holder.seat == core.id:
                before = self.handover.take_first(place)
            self._begin(place, topic, Holder(holder.term + 1, core.id, core.boot, ""), "taken over", before)

    def _weigh(self, topic: Topic, grown: TreeEpoch) -> tuple[int, bool]:
        """What a topic weighs here since it was last asked, and whether anybody here uses it."""
        entered = sum(self.reports.entered.pop(place, 0) for place in places_of(topic))
        left = self._publications.left.pop(topic.name, 0)
        used = entered > 0 or self._sessions.asked_here(topic.pattern.filter)
        # A version crosses each link once, however many get it, so those share what a report weighs.
        return entered * len(grown.members) + left, used

    # Moving.

    def _consider(self, seat: Seat, search: Search) -> None:
        """Move a seat, if another broker has been better for long enough."""
        finder, core = search.finder, self._core
        settings = core.settings
        gathering = seat.topic.gathering
        if search.weighed.get(seat.place) == finder.counter or gathering is None or gathering.seats > 1:
            return
        about, strategy = judged_by(seat.topic, finder)
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
        seat.leaving_at = self._core.now
        self.touched(seat)

    def on_mirror(self, link: Link, message: Mirror) -> None:
        for logged in message.log:
            self._log_writer.copy(link.peer, message.incarnation, logged)
        given_back = self.replicas.on_mirror(link, message)
        if given_back is not None:
            self.handover.keep(message.place, given_back)

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
    ) -> bool:
        """Tell an origin how far its reports are safe, and which need not be sent again.

        False if it is out of reach on the tree that the place uses.
        """
        if origin == (self._core.id, self._core.incarnation):
            if self._must_wait(seat):
                return True  # they are sent again when that is over
            self.reports.taken(seat.place, number, again=again)
            return True
        grown = self.grown(seat.place)
        if grown is None:
            return False
        known = None
        if absorbed:
            core = self._core
            promised = tuple((one, event, seat.promise_us(event)) for one, event in absorbed[-KNOWN_MAX:])
            known = Known(core.id, core.boot, core.at_us, promised)
        return self.reports.answer(Taken(grown.root, grown.epoch, seat.place, *origin, number, again, known))

    def _must_wait(self, seat: Seat) -> bool:
        """Whether a second broker must have a report that entered here, and there is none within reach."""
        settings = self._core.settings
        wanted = settings.acks == "neighbour" and settings.deputies
        return wanted and not seat.has_deputy and bool(self._absences)

    def told(self, seat: Seat, telling: Telling) -> None:
        """Tell a version of an event to all who want it."""
        event = telling.event
        told = as_told(
            self._core.id, seat.place, event, telling.state.value, last=telling.last, into=telling.into
        )
        if telling.late:
            told = msgspec.structs.replace(told, late=True)
        if until_us := seat.promise_us(event.opened_by):
            told = msgspec.structs.replace(told, until_us=until_us, declared=seat.topic.version)
        payload, content_type = written(seat.topic, event)
        self._core.record(
            Kind.TOLD,
            telling.name,
            None,
            len(payload),
            reason=telling.state.value,
            event=event.opened_by,
            version=event.version,
        )
        logged = self._log_writer.told(seat.topic, telling.name, payload, content_type, told)
        if logged is not None:
            seat.copy_log(logged, lasting=telling.qos > 0)
        self._publications.tell(telling.name, payload, telling.qos, content_type, told)

    def shown(self, place: str, wanted: Callable[[Event], bool]) -> list[Publication]:
        """The latest versions told of open events at a seat here."""
        seat = self._seats.get(place)
        return shown(self._core, self._topics, seat, wanted) if seat is not None else []

    def recall(self, place: str, event: str, version: int) -> int | None:
        """Tell the last version of an event again that was closed at a place here, for somebody who has an
        earlier one; see `Gatherer.recall`.
        """
        seat = self._seats.get(place)
        return seat.recall(event, version) if seat is not None else None

    def closed(self, seat: Seat, closing: Closing) -> None:
        """Let those who follow an event know that it is closed."""
        self._core.record(Kind.CLOSED, seat.topic.name, None, 0, reason=closing.reason, event=closing.event)
        # One that was never told here is merged; who was told of it elsewhere hears that when its copy comes.
        if closing.version:
            self._core.tell(EventClosed(seat.place, closing.event, closing.version))

    def handed(self, seat: Seat, sender: str, number: int) -> None:
        """Let a broker know that what it handed over is safe."""
        grown = self.grown(seat.place)
        if grown is not None and sender != self._core.id:
            self.handover.answer(grown, seat.place, seat.holder.term, sender, number)

    def deputised(self, seat: Seat, deputy: str) -> None:
        """Let all know that another broker has a copy of everything."""
        seat.holder = Holder(seat.holder.term + 1, self._core.id, self._core.boot, deputy)
        self._know(seat.place, seat.holder)
        seat.write_holder()
        self._record(seat.place, seat.holder, "deputy")
        self._flood(seat.place)
        if self._core.settings.acks == "neighbour":
            self.reports.again(seat.place)

    def on_confirmed(self, told: Told) -> None:
        seat = self._seats.get(told.place or told.topic)
        if seat is not None:
            seat.confirm(told.event, told.version)

    # From clients here.

    def offer(self, offered: Offered, topic: Topic, report: Report) -> bool:
        """A report of a client; False if it is to go its way as it is."""
        assert topic.gathering is not None, "only gathered topics take reports"
        place = self.place_of(topic, report.key)
        self.reports.far += self._topics.far(report, self._core.at_us)
        if topic.gathering.before_seat is BeforeSeat.PASS and self.holder(place) is None:
            return False
        dropping = topic.gathering.on_the_way is not OnTheWay.NOTHING
        if dropping:
            event = self.edge_filter.redundant(place, topic, report, offered.qos)
            if event is not None:
                self.reports.drop(offered, place, event)
                return True
        holder = self.holder(place)
        merging = topic.gathering.on_the_way is OnTheWay.MERGE
        merging = merging and (holder is None or holder.seat != self._core.id)
        if not merging or not self.reports.merge(offered, place, report):
            self.reports.offer(offered, place, report, dropping=dropping, merging=merging)
        return True

    # Declarations.

    def on_declared(self, name: str) -> None:
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
                self._counted_at.pop(place, None)
                self._settled.pop(place, None)
                self.replicas.take(place)
                self.handover.take(place)
                self.reports.give_up(place, "the topic is gathered no more")
            return
        # At the end of the turn: all must hear of the declaration before they hear of the search.
        self._declared = True

    # Turns.

    def tick(self) -> None:
        """What need not be done at once."""
        for place, seat in self._seats.items():
            seat.tick()
            if self._core.settings.acks == "neighbour" and not self._must_wait(seat):
                self.reports.again(place)
            grown = self.grown(place)
            if grown is not None and len(grown.members) <= COUNTS_SOON_MAX:
                self._tell_counts(place)
            if seat.leaving is not None and self._core.now - seat.leaving_at > LEAVE_WITHIN_S:
                seat.leaving = None
                self.handover.forget(place)

    def on_clock(self, place: str) -> None:
        seat = self._seats.get(place)
        if seat is not None:
            seat.on_clock()

    def flush(self) -> None:
        """Close the batches of this turn."""
        if self._declared:
            self._declared = False
            self.election.start(self._core.id, again=True)
        touched, self._touched = self._touched, {}
        for place, seat in touched.items():
            if self._seats.get(place) is not seat:
                continue
            every_us = self._shortest_every(place)
            if every_us != seat.every_us:
                seat.every_us = every_us
                seat.gatherer.cycle(every_us)
            seat.flush()
            if seat.leaving is not None and seat.settled:
                self.handover.leave(seat)
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
            0.0 if seat is not None else self._core.now - self._counted_at.get(place, self._core.now),
        )

    @property
    def held(self) -> list[str]:
        """The places whose seats this broker has."""
        return sorted(self._seats)


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
