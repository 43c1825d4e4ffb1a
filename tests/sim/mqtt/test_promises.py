"""The judges bite: each promise to MQTT clients, broken on purpose, is reported, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.sim.porter import Caller, Porter, Session
from tidings.mqtt.packets import Asked, Connect, Properties, Publish, Subscribe, Unsubscribe
from tidings.planning import topologies
from tidings.sim.brokers.run import Plan
from tidings.sim.brokers.workload import Workload
from tidings.sim.mqtt.promises import Promises
from tidings.sim.mqtt.run import MqttRun
from tidings.sim.mqtt.trace import Connection, Life, Offer, Outage, Receipt, Settled, Trace, Wish
from tidings.sim.node import DoorMaker

PLAN = Plan(
    seed=4,
    topology=topologies.generate("path", 1, 0),
    workload=Workload(topics=3, subscriptions=14, publications=90, rate_per_s=10.0, durable=0.6, qos=-1),
    churn=50,
    mqtt=True,
    command="tidings simulate --clients mqtt",
)


def broken(door: DoorMaker, seed: int) -> set[str]:
    """The promises that a front door of this make breaks."""
    outcome = MqttRun(replace(PLAN, seed=seed), door=door).run()
    return {breach.promise for breach in outcome.breaches} - {
        "trees",
        "sets",
    }  # a porter does not drive its broker


class Forgetful(Porter):
    """Now and then does not give a session what it asks for."""

    count = 0

    def queue(self, session: Session, packet: Publish, asked: Any, *, retain: bool) -> None:
        self.count += 1
        if self.count % 9:
            super().queue(session, packet, asked, retain=retain)


class Stutterer(Porter):
    def queue(self, session: Session, packet: Publish, asked: Any, *, retain: bool) -> None:
        super().queue(session, packet, asked, retain=retain)
        super().queue(session, packet, asked, retain=retain)


class Gossip(Porter):
    """Does not look at what is published."""

    def wants(self, asked: Asked, properties: Properties, packet: Publish) -> bool:
        return super().wants(asked, msgspec.structs.replace(properties, user=()), packet)


class Inventor(Porter):
    def queue(self, session: Session, packet: Publish, asked: Any, *, retain: bool) -> None:
        invented = msgspec.structs.replace(packet, payload=packet.payload + b" ")
        super().queue(session, invented if packet.payload else packet, asked, retain=retain)


class Shuffler(Porter):
    """The last come first."""

    def queue(self, session: Session, packet: Publish, asked: Any, *, retain: bool) -> None:
        super().queue(session, packet, asked, retain=retain)
        if len(session.queue) > 1:
            session.queue.rotate(1)


class Crowding(Porter):
    """Gives a share group's publications to all of it."""

    def publish(self, publisher: str, packet: Publish) -> None:
        super().publish(publisher, packet)
        for session in self.state.sessions.values():
            for text, asked in session.asked.items():
                if text.startswith("$share/") and self.wants(asked[0], asked[1], packet):
                    self.queue(session, packet, [asked], retain=False)


class Haunted(Porter):
    """Never lets go of a session."""

    def leave(self, session: Session, now: float, with_will: bool) -> None:
        super().leave(session, now, with_will)
        session.ends_at = now + 1_000_000


class Impatient(Porter):
    """Ends sessions with their connections."""

    def leave(self, session: Session, now: float, with_will: bool) -> None:
        super().leave(session, now, with_will)
        session.ends_at = now


class Greedy(Porter):
    """Knows of no receive maximum."""

    def on_connect(self, caller: Caller, packet: Connect) -> None:
        super().on_connect(caller, packet)
        caller.room = 65_535


class Mourner(Porter):
    """Publishes every will."""

    def leave(self, session: Session, now: float, with_will: bool) -> None:
        super().leave(session, now, True)


class Heartless(Porter):
    """Publishes none."""

    def leave(self, session: Session, now: float, with_will: bool) -> None:
        super().leave(session, now, False)


class Hoarder(Porter):
    """Keeps the first that was retained."""

    def publish(self, publisher: str, packet: Publish) -> None:
        before = self.state.retained.get(packet.topic)
        super().publish(publisher, packet)
        if before is not None:
            self.state.retained[packet.topic] = before


class Wasteful(Porter):
    """Retains nothing."""

    def publish(self, publisher: str, packet: Publish) -> None:
        super().publish(publisher, packet)
        self.state.retained.clear()


class Deaf(Porter):
    """Takes nothing back."""

    def on_packet(self, caller: Caller, packet: Any) -> None:
        kept = dict(caller.session.asked) if caller.session is not None else {}
        super().on_packet(caller, packet)
        if isinstance(packet, Unsubscribe) and caller.session is not None:
            caller.session.asked = kept


class Nameless(Porter):
    """Says the wrong subscription identifiers."""

    def on_subscribe(self, caller: Caller, session: Session, packet: Subscribe) -> None:
        if packet.properties.subscription_identifiers:
            wrong = msgspec.structs.replace(packet.properties, subscription_identifiers=(99_999,))
            packet = msgspec.structs.replace(packet, properties=wrong)
        super().on_subscribe(caller, session, packet)


class Careless(Porter):
    """Gives what it sends again to a client that has come back a new packet identifier."""

    def on_connect(self, caller: Caller, packet: Connect) -> None:
        session = self.state.sessions.get(packet.client_id)
        if session is not None:
            session.flying = {packet_id + 1_000: sent for packet_id, sent in session.flying.items()}
        super().on_connect(caller, packet)


@pytest.mark.parametrize(
    ("door", "promise"),
    [
        (Forgetful, "nothing lost"),
        (Stutterer, "nothing twice"),
        (Gossip, "nothing to the wrong one"),
        (Inventor, "nothing made up"),
        (Shuffler, "order"),
        (Crowding, "one of a share group"),
        (Haunted, "sessions expire"),
        (Impatient, "sessions last"),
        (Greedy, "receive maximum"),
        (Mourner, "wills"),
        (Heartless, "nothing lost"),
        (Hoarder, "retained"),
        (Wasteful, "retained"),
        (Deaf, "nothing to the wrong one"),
        (Nameless, "subscription identifiers"),
    ],
)
def test_a_front_door_that_breaks_a_promise_is_caught(door: DoorMaker, promise: str) -> None:
    assert any(promise in broken(door, seed) for seed in range(4, 10))


def test_a_front_door_that_forgets_what_a_client_has_is_caught() -> None:
    plan = replace(PLAN, workload=replace(PLAN.workload, qos=2, rate_per_s=40.0, publications=200))
    found = (MqttRun(replace(plan, seed=seed), door=Careless).run().breaches for seed in range(20))
    assert any(breach.promise == "nothing twice" for breaches in found for breach in breaches)


@pytest.mark.parametrize("seed", range(4, 10))
def test_one_that_keeps_them_is_not(seed: int) -> None:
    assert broken(Porter, seed) == set()


# By hand: who is owed what, and what is a repeat.


class Story:
    """A diary in which a client of b asks for everything, and what a test adds to it."""

    def __init__(self, *, granted: bool = True, qos: int = 1) -> None:
        self.diary = Trace(starts={"a": [0.0], "b": [0.0]})
        self.connection = self.connect()
        assert self.connection.life is not None
        self.life = self.connection.life
        self.wish = self.ask(self.life, qos=qos, granted=granted)

    def connect(self, client: str = "s", life: Life | None = None) -> Connection:
        diary = self.diary
        own = diary.connections.setdefault(client, [])
        turn = diary.next_turn()
        made = Connection(client, "b", len(own), life is None, 60.0, None, 0.0, turn, 0.0)
        made.life = life or diary.begin(client, "b")
        made.opened = diary.next_turn()
        own.append(made)
        return made

    def ask(self, life: Life, *, qos: int = 1, granted: bool = True, group: str = "") -> Wish:
        wish = Wish(life, "#", group, qos=qos)
        wish.asked = wish.asked_last = self.diary.next_turn()
        wish.granted = self.diary.next_turn() if granted else None
        self.diary.wishes.append(wish)
        return wish

    def publish(self, payload: bytes = b"1", *, qos: int = 1, accepted: bool = True, sends: int = 1) -> Offer:
        offer = self.diary.offer("p", "a", "t", payload, qos)
        offer.sends = [self.diary.next_turn() for _ in range(sends)]
        if accepted:
            offer.accepted = self.diary.next_turn()
        return offer

    def receive(
        self, offer: Offer, connection: Connection | None = None, *, qos: int = 1, dup: bool = False
    ) -> None:
        over = connection or self.connection
        assert over.life is not None
        self.diary.receipts.append(
            Receipt(
                self.diary.next_turn(), 0.0, over.life, over, "t", offer.payload, qos, False, dup, False, ()
            )
        )

    def settle(self, *there: str) -> None:
        self.diary.settled.append(Settled(self.diary.next_turn(), 1.0, frozenset(there or ("s",))))

    def wipe(self, host: str) -> None:
        self.diary.outages.append(Outage(host, self.diary.next_turn(), 0.5, True))

    def broken(self, **options: bool) -> list[str]:
        return [breach.promise for breach in Promises(self.diary, **options).check()]


def test_what_is_acknowledged_is_owed_to_a_session_that_was_granted_it_before_and_is_there() -> None:
    story = Story()
    offer = story.publish()
    story.settle()
    assert story.broken() == ["nothing lost"]
    story.receive(offer)
    assert story.broken() == ["nothing lost"]  # too late
    story.settle()
    told = Story()
    told.receive(told.publish())
    told.settle()
    assert told.broken() == []


def test_nothing_is_owed_without_a_grant_an_acknowledgement_or_quality_of_service() -> None:
    for story, accepted in ((Story(granted=False), True), (Story(), False), (Story(qos=0), True)):
        story.publish(accepted=accepted)
        story.settle()
        assert story.broken() == []


def test_nothing_is_owed_to_a_session_that_is_away_or_leaving() -> None:
    away, leaving = Story(), Story()
    away.publish()
    away.settle("somebody else")
    leaving.publish()
    leaving.wish.leaving = leaving.diary.next_turn()
    leaving.settle()
    assert away.broken() == leaving.broken() == []


def test_a_lost_disk_excuses_what_was_acknowledged_there_unless_a_neighbour_keeps_it() -> None:
    story = Story()
    story.publish()
    story.wipe("a")
    story.settle()
    assert story.broken() == []
    assert story.broken(neighbours_keep=True) == ["nothing lost"]
    story.wipe("c")
    assert story.broken(neighbours_keep=True) == []


def test_qos_1_may_come_again_over_another_connection_and_not_over_the_same() -> None:
    story = Story()
    offer = story.publish()
    story.receive(offer)
    again = story.connect(life=story.life)
    story.receive(offer, again, dup=True)
    assert story.broken() == []
    story.receive(offer, again, dup=True)
    assert story.broken() == ["nothing twice"]


def test_qos_1_may_come_as_often_as_its_publisher_sent_it() -> None:
    story = Story()
    offer = story.publish(sends=2)
    story.receive(offer)
    story.receive(offer)
    assert story.broken() == []


def test_qos_2_comes_once_whatever_happens() -> None:
    story = Story(qos=2)
    offer = story.publish(qos=2, sends=2)
    story.receive(offer, qos=2)
    story.receive(offer, story.connect(life=story.life), qos=2)
    assert story.broken() == ["nothing twice"]


def test_nothing_is_sent_with_dup_over_the_first_connection() -> None:
    story = Story()
    story.receive(story.publish(), dup=True)
    assert story.broken() == ["DUP"]


def test_what_was_over_before_a_subscription_was_asked_for_is_a_ghost() -> None:
    story = Story()
    old = story.publish()
    story.receive(old)
    story.settle()
    other = story.connect("late")
    assert other.life is not None
    story.ask(other.life)
    story.receive(old, other)
    assert story.broken() == ["no ghosts"]


def test_what_is_published_after_an_unsubscription_was_confirmed_is_wrong() -> None:
    story = Story()
    before = story.publish(b"before")
    story.wish.leaving = story.diary.next_turn()
    story.wish.ended = story.diary.next_turn()
    story.receive(before)
    assert story.broken() == []
    story.receive(story.publish(b"after"))
    assert story.broken() == ["nothing to the wrong one"]


def test_a_share_group_may_hand_on_what_a_broken_connection_had_and_nothing_else() -> None:
    story = Story(granted=False)
    story.wish.leaving = story.wish.ended = story.diary.next_turn()
    members = [story.connect(name) for name in ("m", "n")]
    for member in members:
        assert member.life is not None
        story.ask(member.life, group="g")
    offer = story.publish()
    story.receive(offer, members[0])
    left = story.diary.next_turn()
    story.receive(offer, members[1])
    assert story.broken() == ["one of a share group"]
    members[0].left = left
    assert story.broken() == []
