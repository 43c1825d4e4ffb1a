"""A broker that knows nothing of trees: it floods. Enough to try the simulator without the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tests.overlay.offers import deliver
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.overlay.events import (
    Accept,
    ConnectionLost,
    ConnectionMade,
    Dial,
    DialFailed,
    Effect,
    Event,
    FrameReceived,
    Grant,
    NeighbourAdded,
    PublicationsOffered,
    Send,
    SessionOpened,
    SetTimer,
    SubscriptionAsked,
    SubscriptionDropped,
    Sync,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.frames import Frame
from tidings.overlay.publication import Batch, Publication
from tidings.overlay.publishing.batches import batch_of, message_of
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import Settings
from tidings.overlay.status import Status
from tidings.records.record import Kind, Record
from tidings.sim.brokers.promises import fields_of, wants

REDIAL_S = 1.0


class Flooder:
    """Sends each publication to all neighbours once."""

    def __init__(
        self,
        id: str,  # noqa: A002  it is the broker's parameter
        *,
        boot: int,
        incarnation: int,
        random: Random,
        settings: Settings,
        topics: Sequence[Topic],
        saved: Mapping[str, bytes],
        logged: Mapping[tuple[str, str], int],
    ) -> None:
        del logged
        self.id, self.boot, self.incarnation, self.saved = id, boot, incarnation, dict(saved)
        self.random = random
        self.connections: dict[int, int] = {}
        self.dialled: dict[int, str] = {}
        self.redial: dict[str, float] = {}
        self.subscriptions: dict[tuple[str, str], Subscription] = {}
        self.seen: set[str] = set()
        self.numbers = 0
        self.records = 0
        self.syncs: list[Effect] = []
        self.times: list[float] = []

    def start(self, now: float) -> list[Effect]:
        self.times.append(now)
        return []

    def status(self, now: float, *, filters: bool = False) -> Status:
        raise NotImplementedError("it has nothing to say of itself")

    def handle(self, event: Event, now: float) -> list[Effect]:
        self.times.append(now)
        effects: list[Effect] = []
        if isinstance(event, NeighbourAdded):
            effects.append(Dial(event.address))
        elif isinstance(event, ConnectionMade):
            self.connections[event.connection] = 0
            if event.address is not None:
                self.dialled[event.connection] = event.address
        elif isinstance(event, ConnectionLost):
            del self.connections[event.connection]
            if (address := self.dialled.pop(event.connection, None)) is not None:
                self._redial(address, now, effects)
        elif isinstance(event, DialFailed):
            self._redial(event.address, now, effects)
        elif isinstance(event, TimerFired):
            for address, at in sorted(self.redial.items()):
                if at <= now:
                    del self.redial[address]
                    effects.append(Dial(address))
            if self.redial:
                effects.append(SetTimer(min(self.redial.values())))
        elif isinstance(event, SubscriptionAsked):
            self.subscriptions[event.session, event.name] = event.subscription
            effects.append(Grant(event.session, event.name))
        elif isinstance(event, SubscriptionDropped):
            self.subscriptions.pop((event.session, event.name), None)
        elif isinstance(event, PublicationsOffered):
            self._offered(event, now, effects)
        elif isinstance(event, FrameReceived):
            for message in event.frame.messages:
                assert isinstance(message, Publish)
                self._pass_on(batch_of(message).one(0), message.hops, event.connection, now, effects)
        elif isinstance(event, WritesSynced):
            effects.append(self.syncs.pop(0))
        else:
            assert isinstance(event, SessionOpened) or event is not None
        return effects

    def _redial(self, address: str, now: float, effects: list[Effect]) -> None:
        self.redial[address] = now + REDIAL_S
        effects.append(SetTimer(min(self.redial.values())))

    def _offered(self, event: PublicationsOffered, now: float, effects: list[Effect]) -> None:
        self.numbers += 1
        publication = Publication(
            self.id,
            self.incarnation,
            "",
            self.boot * 1000 + self.numbers,
            event.batch.heads[0].topic,
            event.batch.payload(0),
            event.batch.heads[0].qos,
            round(now * 1e6),
            event.session,
        )
        if publication.qos:
            effects += [Write(f"publication/{publication.number}", publication.payload), Sync(self.numbers)]
            self.syncs.append(Accept(event.session, event.tokens))
        self._pass_on(publication, 0, None, now, effects)

    def _pass_on(
        self, publication: Publication, hops: int, source: int | None, now: float, effects: list[Effect]
    ) -> None:
        if publication.id in self.seen:
            return
        self.seen.add(publication.id)
        fields = fields_of(publication.payload)
        found = tuple(
            key
            for key, subscription in sorted(self.subscriptions.items())
            if wants(subscription, publication.topic, fields)
        )
        if found:
            effects.append(deliver(publication, found, hops))
            self._record(Kind.DELIVERED, publication, now, effects, tuple(session for session, _ in found))
        sent = []
        for connection in self.connections:
            if connection != source:
                self.connections[connection] += 1
                message = message_of("", (1, 1), 0, hops + 1, Batch.of(publication), 0, 0, 0)
                effects.append(Send(connection, Frame(self.connections[connection], 0, (message,))))
                sent.append(str(connection))

    def _record(
        self,
        kind: Kind,
        publication: Publication,
        now: float,
        effects: list[Effect],
        receivers: tuple[str, ...],
    ) -> None:
        self.records += 1
        effects.append(
            Record(
                self.id,
                self.boot,
                self.records,
                round(now * 1e6),
                kind,
                publication.topic,
                publication.id,
                receivers=receivers,
            )
        )
