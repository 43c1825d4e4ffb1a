"""The broker: events in, effects out.

It puts the parts together and knows nothing that they do not: `links` make messages reliable, `trees` say
where they go, `routing` who wants what, `publications` carry, `catalogue` has what all brokers know. Each
event, message, timer, and notice of a part to those above it has one handler, found in a table. There is no
socket, clock, file or randomness of its own here: a driver brings events in and carries effects out
(`events`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidings.language.ids import fault
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.language.views import View
from tidings.overlay.core import Core
from tidings.overlay.events import (
    ConnectionLost,
    ConnectionMade,
    DialFailed,
    Effect,
    EntryOffered,
    Event,
    ForgetAsked,
    FrameReceived,
    LogRead,
    NeighbourAdded,
    NeighbourRemoved,
    PublicationsOffered,
    SessionClosed,
    SessionEnded,
    SessionOpened,
    SetTimer,
    Stop,
    StopAsked,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Message
from tidings.overlay.gather.messages import (
    Carry,
    HandedOver,
    HandOver,
    Mirror,
    Mirrored,
    Seated,
    Survey,
    Taken,
)
from tidings.overlay.gather.seat_directory import EventClosed, SeatFound, SeatMoved, Seats
from tidings.overlay.links.links import Link, Links, State
from tidings.overlay.links.messages import PROTOCOL_VERSION
from tidings.overlay.publication import Publication, Told
from tidings.overlay.publishing.log_writer import LogWriter, Numbers
from tidings.overlay.publishing.messages import Done, Forget, Keep, Kept, Publish
from tidings.overlay.publishing.outbox import VersionsReleased
from tidings.overlay.publishing.publications import (
    Publications,
    VersionAddressed,
    VersionArrived,
    VersionConfirmed,
    VersionPassed,
    VersionTold,
)
from tidings.overlay.routing.absence import Absences, BrokerForgotten, HomeSaved
from tidings.overlay.routing.catalogue import Catalogue, CatalogueSynchronised
from tidings.overlay.routing.confirmations import Confirmations
from tidings.overlay.routing.gone import Gone
from tidings.overlay.routing.grants import Grants, SubscriptionGranted
from tidings.overlay.routing.homes import HomeLearned, Homes, SetChanged
from tidings.overlay.routing.interest import Interest
from tidings.overlay.routing.messages import Catalogue as CatalogueMessage
from tidings.overlay.routing.messages import Change, Confirm, Enter, Fetch, Sets
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.routing.sessions import SessionGone, Sessions, SubscriptionsGone
from tidings.overlay.routing.topics import DeclarationChanged, Topics
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.status import GatheringStatus, LinkStatus, SetStatus, Status, TreeStatus
from tidings.overlay.timers import Timer
from tidings.overlay.trees.messages import Distance, Epoch, Grow, Join, Regrow, Roll, Seek
from tidings.overlay.trees.rolls import Rolls
from tidings.overlay.trees.trees import NO_EPOCH, Tree, TreeEpoch, Trees
from tidings.overlay.versions.catch_up import CatchUp
from tidings.overlay.versions.messages import Ask, Close, Follow, Snapshot, Unfollow
from tidings.overlay.versions.session_versions import SessionVersions
from tidings.records.record import Kind


class Broker:
    """One broker of a network.

    >>> broker = Broker("a", boot=1, incarnation=1, random=random.Random(0))
    >>> _ = broker.start(0.0)
    >>> effects = broker.handle(NeighbourAdded("127.0.0.1:1883"), 0.0)
    >>> effects[0]
    Dial(address='127.0.0.1:1883')
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        *,
        boot: int,
        incarnation: int,
        random: random.Random,
        settings: Settings = DEFAULT,
        topics: Sequence[Topic] = (),
        views: Sequence[View] = (),
        saved: Mapping[str, bytes] | None = None,
        logged: Numbers | None = None,
    ) -> None:
        """`saved` is what was written before, `logged` where the numbers of its logs go on."""
        assert boot >= incarnation, "an incarnation begins with a boot"
        self.id = id
        core = self.core = Core(id, boot, incarnation, settings, random)
        self._announced: float | None = None
        self._saved = dict(saved or {})
        self._stopping: StopAsked | None = None
        self._drained = False
        """Whether a stopping broker waits no longer."""
        self._stopped = False
        """Whether it has said goodbye: it does nothing any more."""
        self._own_first = False
        """Whether publications that entered here go before those of links; in turns."""
        links = self._links = Links(core, self._on_link_up, self._on_link_down, self._on_message)
        trees = self._trees = Trees(core, links, self._on_joined, self._on_dropped, self._on_share)
        own = self._own = OwnSet(core, lambda: self._homes.share)
        self._rolls = rolls = Rolls(core, links, trees, lambda: own.pending, self._on_ready)
        homes = self._homes = Homes(
            core,
            links,
            own,
            trees,
            lambda name: self._absences.absent_s(name),  # noqa: PLW0108 -- made below
            lambda name, boot: self._absences.is_gone(name, boot),  # noqa: PLW0108
        )
        gone = self._gone = Gone(core)
        absences = self._absences = Absences(core, links, trees, homes, gone)
        known = self._topics = Topics(core, trees)
        log_writer = LogWriter(core, known, logged or {})
        catalogue = self.catalogue = Catalogue(core, links, known, topics, views)
        confirmations = self._confirmations = Confirmations(
            core,
            links,
            trees,
            homes,
            lambda: own.number,
            absences.is_saved,
            lambda: self._grants.go_on(),  # noqa: PLW0108
        )
        grants = self._grants = Grants(core, confirmations.confirmed, self._absent, confirmations.late)
        sessions = self._sessions = Sessions(core, known, own, grants)
        versions = self._versions = SessionVersions(core, known, sessions)
        publications = self._publications = Publications(
            core, links, trees, known, sessions, homes, absences, log_writer, versions
        )
        seats = self._seats = Seats(
            core,
            links,
            trees,
            known,
            sessions,
            publications,
            log_writer,
            absences,
            catalogue,
            lambda place: self._catch_up.shortest_every(place),  # noqa: PLW0108 -- made below
        )
        self.gathered = seats.status
        catch_up = self._catch_up = CatchUp(
            core,
            links,
            trees,
            known,
            sessions,
            homes,
            lambda: (core.boot, own.pending),
            versions,
            seats,
        )
        publications.receivers = catch_up.receivers.of
        core.heard_by |= {
            DeclarationChanged: lambda n: seats.on_declared(n.name),
            CatalogueSynchronised: lambda _: seats.go_on(),
            SubscriptionGranted: lambda n: catch_up.on_granted(n.named, n.subscription),
            SubscriptionsGone: lambda n: self._on_subscriptions_gone(n.session, n.names),
            SessionGone: lambda n: versions.on_ended(n.session),
            VersionsReleased: lambda n: publications.on_released(n.told),
            VersionTold: lambda n: catch_up.on_told(n.publication),
            VersionAddressed: lambda n: catch_up.on_addressed(n.told, n.homes),
            VersionPassed: lambda n: seats.edge_filter.on_told(n.publication),
            VersionArrived: lambda n: catch_up.on_arrived(n.told),
            SetChanged: lambda n: self._on_set(n.home),
            HomeLearned: lambda n: absences.learn(n.home, n.boot, n.absent_s),
            HomeSaved: lambda n: confirmations.on_set(n.name),
            BrokerForgotten: lambda n: self._on_forgotten(n.name),
            VersionConfirmed: lambda n: self._on_version_confirmed(n.told),
            EventClosed: lambda n: catch_up.close(n.place, n.event, n.version),
            SeatMoved: lambda n: catch_up.on_moved(n.place),
            SeatFound: lambda n: catch_up.on_found(n.place),
        }
        self._events: dict[type, Callable[[Any], None]] = {
            FrameReceived: lambda e: links.on_frame(e.connection, e.frame),
            PublicationsOffered: publications.offer,
            TimerFired: self._on_timer,
            WritesSynced: lambda e: core.on_synced(e.token),
            ConnectionMade: links.on_connection,
            ConnectionLost: lambda e: links.on_connection_lost(e.connection, e.reason),
            DialFailed: lambda e: links.on_dial_failed(e.address, e.reason),
            NeighbourAdded: self._on_neighbour_added,
            NeighbourRemoved: self._on_neighbour_removed,
            StopAsked: self._on_stop_asked,
            ForgetAsked: self._on_forget_asked,
            SessionOpened: self._on_session_opened,
            SessionClosed: lambda e: sessions.close_session(e.session),
            SessionEnded: lambda e: sessions.end_session(e.session),
            SubscriptionAsked: self._on_subscription_asked,
            SubscriptionDropped: lambda e: sessions.drop_subscription(e.session, e.name),
            EntryOffered: catalogue.offer,
            LogRead: self._on_log_read,
        }
        self._messages: dict[type, Callable[[Link, Any], None]] = {
            Publish: publications.on_publish,
            Done: publications.on_done,
            Distance: trees.on_distance,
            Seek: trees.on_seek,
            Grow: trees.on_grow,
            Join: trees.on_join,
            Regrow: trees.on_regrow,
            Roll: rolls.on_roll,
            Sets: self._on_sets,
            Fetch: homes.on_fetch,
            Change: self._on_change,
            Confirm: confirmations.on_confirm,
            Keep: publications.outbox.on_keep,
            Kept: publications.outbox.on_kept,
            Forget: publications.outbox.on_forget,
            Survey: seats.election.on_survey,
            Carry: seats.reports.on_carry,
            Taken: seats.reports.on_taken,
            Seated: seats.on_seated,
            Mirror: seats.on_mirror,
            Mirrored: seats.on_mirrored,
            HandOver: seats.handover.on_hand_over,
            HandedOver: seats.handover.on_handed_over,
            Close: self._on_close,
            Follow: catch_up.on_follow,
            Unfollow: catch_up.on_unfollow,
            Ask: catch_up.on_ask,
            Snapshot: catch_up.on_snapshot,
            CatalogueMessage: catalogue.on_catalogue,
            Enter: catalogue.on_enter,
        }
        self._due: dict[Timer, Callable[[Any], None]] = {
            Timer.TICK: self._on_tick,
            Timer.TURN: self._on_turn,
            Timer.REDIAL: links.on_redial,
            Timer.GREETING: links.on_greeting_late,
            Timer.RESUME: links.on_resume_late,
            Timer.ROOT: trees.on_root_late,
            Timer.REGROW: trees.on_regrow_due,
            Timer.CONFIRM: confirmations.on_late,
            Timer.SETTLE: grants.on_late,
            Timer.ABSENT: absences.on_late,
            Timer.EVERY: versions.on_due,
            Timer.SYNCHRONISE: catalogue.on_synchronise_late,
            Timer.GATHER: seats.on_clock,
            Timer.SURVEY: seats.election.on_survey_due,
            Timer.HOLD: seats.reports.pump,
            Timer.TALLY: seats.reports.on_tally_due,
            Timer.DRAIN: self._on_drain_late,
        }

    # What drivers call.

    def start(self, now: float) -> list[Effect]:
        """The first effects; what was saved is taken up again."""
        core = self.core
        core.now = now
        self.catalogue.recover(self._saved)
        self._sessions.recover(self._saved)
        self._own.take()
        self._gone.recover(self._saved)
        self._absences.recover(self._saved)
        self._publications.recover(self._saved)
        self._seats.recover(self._saved)
        self._saved = {}
        self._trees.start()
        core.timers.set(Timer.TICK, None, now + core.settings.heartbeat_s / 2)
        return self.collect()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Something has happened: what is to be done, in order."""
        core = self.core
        if now > core.now:  # a clock that goes back is taken to stand still
            core.now = now
        self.tell(event)
        return self.collect()

    def handle_all(self, events: Iterable[Event], now: float) -> list[Effect]:
        """The same for many events that came at once: what they lead to goes out together."""
        core = self.core
        if now > core.now:
            core.now = now
        for event in events:
            self.tell(event)
        return self.collect()

    def tell(self, event: Event) -> None:
        """Something has happened, as of the last `handle`; `collect` then says what is to be done."""
        if not self._stopped:
            self._events[type(event)](event)

    def subscription(self, session: str, name: str) -> Subscription | None:
        """What a client here has asked for under a name, as it is understood."""
        known = self._sessions.sessions.get(session)
        return known.subscriptions.get(name) if known is not None else None

    def wants(self, subscription: Subscription, publication: Publication) -> bool:
        """Whether the content of a publication is what a subscription asks for; of topics it is not asked."""
        read = subscription.filter
        if read is None:
            return True
        content = self._topics.content(publication)
        return content is not None and read.matches(content, subscription.unknown)

    def named(self, root: str, epoch: Epoch, members: int) -> tuple[str, ...]:
        """The members with these bits in an epoch that is, or was lately, the current one of a tree."""
        tree = self._trees.trees.get(root)
        for grown in (tree.current, tree.past) if tree is not None else ():
            if grown is not None and grown.epoch == epoch:
                return grown.names_of(members)
        return ()

    def has_heard_of(self, name: str) -> bool:
        """Whether there is, or was, a broker of this name, as far as is known here."""
        return self._absences.has_heard_of(name) or name in self.catalogue.pages()

    def wanted_by(self, publication: Publication) -> Mapping[str, int]:
        """Which other brokers want a publication, by all that is known here, and with which QoS."""
        return self._publications.wanted_by(publication)

    @property
    def indexed(self) -> bool:
        """Whether filters are found by an index, so that it pays to compile the kernels."""
        return self._sessions.local.indexes > 0 or self._homes.table.indexes > 0

    def nobody(self, topic: str) -> bool:
        """Whether no subscription, here or behind a link, is about a topic, and nobody gathers there."""
        return not self.gathers(topic) and self._publications.nobody(topic)

    def kept(self) -> dict[tuple[str, str], float]:
        """By name of a topic and what ("events" or "reports"): how long its log keeps it, in microseconds."""
        return self._topics.kept()

    def gathers(self, topic: str) -> bool:
        """Whether what is published to a topic is a report, from which events are made."""
        declared = self._topics.declaration(topic)
        return declared is not None and declared.gathering is not None

    @property
    def unreadable(self) -> int:
        """Payloads that met a content filter and are nothing that it could be asked about."""
        return self._topics.unreadable

    def next_deadline(self) -> float | None:
        """When to tell `TimerFired`; the same as in the latest `SetTimer`."""
        return self.core.timers.next()

    def collect(self) -> list[Effect]:
        """All that is to be done by now."""
        core = self.core
        if self._stopped:
            return []
        if self._own_first:
            self._publications.flush()
        self._links.act()
        self._seats.flush()
        self._catch_up.flush()
        self._publications.flush()
        self._homes.flush()
        self._confirmations.flush()
        self._grants.go_on()
        self._absences.flush()
        self._links.flush()
        if core.turn_is_over() and (self._links.waiting or self._publications.waiting):
            core.timers.set(Timer.TURN, None, core.now)
        if core.sync_wanted:
            core.sync_wanted = False
            core.out.append(Sync(core.sync_token))
        if self._rolls.duplicated:
            core.out.append(Stop(f"another broker of this network has the id {core.id!r}"))
            self._rolls.duplicated = False
        if self._stopping is not None and (
            self._drained or (self._publications.at_rest and self._seats.reports.at_rest)
        ):
            self._part(self._stopping.for_good)
        deadline = core.timers.next()
        if deadline != self._announced and deadline is not None and not self._stopped:
            core.out.append(SetTimer(deadline))
        self._announced = deadline
        out, core.out = core.out, []
        return out

    # Wiring.

    def _on_neighbour_added(self, event: NeighbourAdded) -> None:
        self._links.add_address(event.address)
        self._absences.on_neighbour_added(event.address)
        self.catalogue.on_neighbour_added()

    def _on_neighbour_removed(self, event: NeighbourRemoved) -> None:
        self._links.remove_address(event.address)
        self._absences.on_neighbour_removed(event.address)

    def _on_forget_asked(self, event: ForgetAsked) -> None:
        if self.has_heard_of(event.broker):
            self._absences.forget(event.broker)

    def _on_log_read(self, event: LogRead) -> None:
        self.core.record(
            Kind.REQUESTED,
            event.topic,
            f"{event.holder}/{event.start}-{event.stop}",
            event.bytes,
            client=event.client,
            link=event.asked_at if event.asked_at != self.id else None,
            reason=f"{event.what}, {event.rows} rows",
        )

    def _on_session_opened(self, event: SessionOpened) -> None:
        known = self._sessions.sessions.get(event.session)
        durable = known is not None and known.durable
        self._sessions.open_session(event.session, event.durable)
        if event.durable and not durable:
            self._versions.on_durable(event.session)

    def _on_subscription_asked(self, event: SubscriptionAsked) -> None:
        named = (event.session, event.name)
        if event.snapshot and not event.group:
            self._catch_up.expect(named)
        if self._sessions.ask(event.session, event.name, event.subscription, event.group):
            self._versions.on_asked(named, snapshot=event.snapshot)
            if not self._links.up():
                self._homes.flush()  # nobody is told of it, so it need not wait for others of this turn
            self._grants.go_on()
        else:
            self._catch_up.expect_no_more(named)

    def _on_version_confirmed(self, told: Told) -> None:
        self._seats.on_confirmed(told)
        self._catch_up.on_confirmed(told)

    def _on_subscriptions_gone(self, session: str, names: list[str]) -> None:
        self._versions.on_gone(session, names)
        self._catch_up.on_gone(session, names)

    def _absent(self) -> list[str] | None:
        """Brokers that are out of reach of those who confirm subscriptions."""
        grown = self._confirmations.grown
        return self._absences.absent_from(grown) if grown is not None else None

    def _on_sets(self, link: Link, message: Sets) -> None:
        if reason := fault([has.home for has in message.homes] + [word[0] for word in message.gone]):
            self._links.renounce(link, reason)
            return
        self._absences.on_words(link, message.gone)
        self._homes.on_sets(link, message)

    def _on_change(self, link: Link, message: Change) -> None:
        if reason := fault((message.home,)):
            self._links.renounce(link, reason)
            return
        self._homes.on_change(link, message)

    def _on_set(self, home: str) -> None:
        self._absences.on_set(home)
        self._confirmations.on_set(home)
        self._catch_up.on_set(home)

    def _on_forgotten(self, name: str) -> None:
        self._publications.outbox.given_up(name)
        self._catch_up.receivers.forget_home(name)

    def _on_message(self, link: Link, message: Message) -> None:
        handler = self._messages.get(type(message))
        if handler is None:
            self._links.renounce(link, f"{type(message).__name__} in the midst of a session")
            return
        handler(link, message)

    def _on_link_up(self, link: Link, new: bool) -> None:
        if new:
            # First of all, so that what follows on the link is understood in its light.
            self.catalogue.on_link_up(link)
            self._homes.on_link_up(link, self._gone.words())
            self._publications.on_link_up(link)
            self._trees.on_link_up(link)

    def _on_link_down(self, link: Link) -> None:
        if link.left_for_good:
            self._absences.on_left(link.peer, link.boot)
        self._homes.on_link_down(link)
        self._publications.on_link_down(link)
        self._trees.on_link_down(link)

    def _on_close(self, link: Link, message: Close) -> None:
        self._catch_up.on_close(link, message)
        for event, _ in message.events:
            self._seats.edge_filter.close(message.place, event)

    def _on_joined(self, tree: Tree, grown: TreeEpoch) -> None:
        self._rolls.on_joined(tree, grown)

    def _on_dropped(self, tree: Tree) -> None:
        self.core.changed()
        self._publications.on_dropped()
        self._seats.rearrange()
        self._catch_up.on_dropped(tree.root)
        self._confirmations.on_share()

    def _on_share(self) -> None:
        self.core.changed()
        self._confirmations.on_share()
        self._publications.rearrange()
        self._seats.rearrange()
        self._catch_up.on_share()

    def _on_ready(self, tree: Tree) -> None:
        grown = tree.current
        assert grown is not None, "a ready epoch is the current one"
        self.core.changed()
        self._homes.on_ready(grown)
        self._publications.on_ready(tree)
        self._confirmations.on_ready(tree)
        self._seats.on_ready(tree)
        self._catch_up.on_ready(tree)

    def _on_timer(self, _event: TimerFired) -> None:
        core = self.core
        if self._announced is not None and self._announced <= core.now:
            # What was asked for has been given: another wake-up for the same time is asked for anew.
            self._announced = None
        due = core.timers.next()
        core.late = due is not None and core.now - due > core.settings.heartbeat_s
        for timer, about in core.timers.fired(core.now):
            self._due[timer](about)

    def _on_turn(self, _about: object) -> None:
        self.core.spent = 0
        self._own_first = not self._own_first

    def _on_tick(self, _about: object) -> None:
        core = self.core
        core.timers.set(Timer.TICK, None, core.now + core.settings.heartbeat_s / 2)
        self._publications.flow.tick()
        self._homes.tick()
        self._own.tick()
        self._versions.tick()
        self._seats.tick()
        self._catch_up.tick()
        self._seats.reports.tick()
        self._trees.tick()
        self.catalogue.tick()
        self._links.tick()

    # Stopping.

    def _on_stop_asked(self, event: StopAsked) -> None:
        if self._stopping is None:
            self._stopping = event
            self._publications.stopping = True
            self.core.timers.set(Timer.DRAIN, None, self.core.now + self.core.settings.drain_within_s)

    def _on_drain_late(self, _about: object) -> None:
        self.core.log("warning", "stopping although not all is acknowledged; it is on disk")
        self._drained = True

    def _part(self, for_good: bool) -> None:
        """Say goodbye. Nothing comes behind `Stop`: who carries it out would not keep it."""
        self._links.part_all(for_good)
        self.core.out.append(Stop())
        self._stopped = True

    # Looking in.

    def status(self, now: float, *, filters: bool = False) -> Status:
        """What can be seen of this broker; all filters of all sets only if `filters` are asked for."""
        core, publications, sessions = self.core, self._publications, self._sessions.sessions
        trees = tuple(self._tree_status(self._trees.trees[root]) for root in sorted(self._trees.trees))
        waiting = [
            root
            for root in self._trees.share
            if (tree := self._trees.trees.get(root)) is None or tree.current is None or tree.growing
        ]
        return Status(
            core.id,
            core.boot,
            core.incarnation,
            core.settings.network,
            tuple(
                LinkStatus(
                    link.peer,
                    link.state.name.lower(),
                    link.boot,
                    PROTOCOL_VERSION,
                    link.queued,
                    max(0.0, now - link.heard_at) if link.state is State.UP else 0.0,
                )
                for peer, link in sorted(self._links.links.items())
                if link.state is not State.DOWN or peer not in self._gone
            ),
            trees,
            self._trees.share,
            len(sessions),
            sum(len(session.subscriptions) for session in sessions.values()),
            len(publications.outbox.held),
            publications.backlog_bytes,
            self._absences.names(),
            publications.outbox.absent_bytes,
            publications.outbox.dropped,
            publications.paused,
            self._topics_remembered(),
            (self._own_status(filters), *self._set_statuses(filters)),
            publications.false_positives,
            not waiting and not self._stopping,
            "stopping" if self._stopping else f"the tree of {waiting[0]!r} is growing" if waiting else "",
            tuple(
                (dialler.address, dialler.reason)
                for dialler in self._links.diallers.values()
                if dialler.peer is None or self._links.get(dialler.peer) is None
            ),
            self.catalogue.lost,
            self._seats.held_status(),
            self._gathering_status(),
        )

    def _own_status(self, filters: bool) -> SetStatus:
        own = self._own
        confirmed = self._confirmations.confirmed()
        return SetStatus(
            self.id,
            self.core.boot,
            own.number,
            len(own.items),
            own.widened,
            confirmed,
            tuple(self._confirmations.late(own.number)) if confirmed < own.number else (),
            asks=tuple(sorted(Interest(it.value).text for it in own.items.values())) if filters else (),
        )

    def _set_statuses(self, filters: bool) -> Iterator[SetStatus]:
        """What others ask for, as far as it is known."""
        for name, home in sorted(self._homes.homes.items()):
            yield SetStatus(
                name,
                *home.version,
                home.filters,
                home.widened,
                self._confirmations.said(name),
                absent_s=self._absences.absent_s(name),
                asks=tuple(sorted(it.text for it in home.interests.values())) if filters else (),
            )

    def _gathering_status(self) -> GatheringStatus:
        reports, seats = self._seats.reports, self._seats.counts
        followed = self._versions.counts
        return GatheringStatus(
            waiting=reports.all_waiting,
            entered=reports.all_entered,
            far=reports.far,
            dropped=self._seats.edge_filter.dropped,
            taken_over=seats.taken_over,
            handed_over=seats.handed_over,
            withdrawn=followed.withdrawn,
            snapshots=followed.snapshots,
            held=followed.held,
            repeats=followed.repeats,
            forgotten=followed.forgotten,
        )

    def _tree_status(self, tree: Tree) -> TreeStatus:
        grown = tree.current
        return TreeStatus(
            tree.root,
            grown.epoch if grown is not None else NO_EPOCH,
            tree.growing is not None,
            tree.hops,
            grown.parent if grown is not None else None,
            tuple(grown.children) if grown is not None else (),
            tuple(grown.members) if grown is not None else (),
            grown.share if grown is not None else (),
        )

    def _topics_remembered(self) -> int:
        return self._sessions.local.topics_remembered + self._homes.table.topics_remembered

    def audit(self) -> None:
        """What must hold between two events, for tests."""
        self._links.audit()
