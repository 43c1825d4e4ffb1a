"""What PUBACK and PUBREC wait for: the disk of the broker that was published to, and a second broker.

Brokers "a" and "b" with their fronts, in virtual time, and disks that a test holds up: an acknowledgement
that comes all the same did not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tidings.language.declarations import parse_topic
from tidings.mqtt.front import Front
from tidings.overlay.events import Sync
from tidings.overlay.settings import Settings
from tidings.planning import topologies
from tidings.sim.mqtt.client import MqttClient, Temper
from tidings.sim.mqtt.connections import Party
from tidings.sim.mqtt.trace import UNBORN, Offer, Wish
from tidings.sim.node import Node
from tidings.sim.world import World

KEPT = parse_topic("""
name = "kept"
kind = "plain"
keep = "1h"
[fields]
x = { type = "int" }
""")

GATHERED = parse_topic("""
name = "gathered"
kind = "gathered"
key = ["x"]
[fields]
x = { type = "int" }
""")

LONG_S = 3.0
"""By then everything has happened that does not wait for a disk."""


class Network(World):
    """Two brokers, publishers at "a", and disks that finish nothing while they are held up."""

    def __init__(self, acks: str = "origin") -> None:
        self.held_up: dict[str, list[Sync]] = {}
        super().__init__(
            topologies.from_links([("a", "b")]),
            door=Front,
            settings=Settings(acks=acks),
            topics=[KEPT, GATHERED],
        )
        self.start()
        self.settle()
        self.publisher = self.party("publisher", "a")

    def _sync(self, host: Node, effect: Sync) -> None:
        if host.address in self.held_up:
            self.held_up[host.address].append(effect)
        else:
            super()._sync(host, effect)

    def hold_up(self, broker: str) -> None:
        self.held_up[broker] = []

    def let_go(self, broker: str) -> None:
        for effect in self.held_up.pop(broker):
            super()._sync(self.hosts[broker], effect)
        self.run(LONG_S)

    def party(self, name: str, broker: str, expiry_s: int = 0) -> Party:
        """A client that is connected."""
        party = self.lines.party(MqttClient(self.lines.diary, name, broker, Temper(expiry_s=expiry_s)))
        self.lines.come(party)
        self.settle()
        return party

    def subscriber(
        self, name: str, broker: str = "a", expiry_s: int = 0, qos: int = 1, where: str = ""
    ) -> Party:
        party = self.party(name, broker, expiry_s)
        wish = Wish(UNBORN, "#", qos=qos, where=(where,) if where else ())
        self.lines.say(party, party.device.subscribe([wish], self.now))
        self.settle()
        return party

    def publish(self, topic: str, count: int = 1, qos: int = 1, **more: Any) -> list[Offer]:
        """Publish at "a", all in one read."""
        device, diary = self.publisher.device, self.lines.diary
        offers = [
            diary.offer("publisher", "a", topic, b'{"x":%d}' % number, qos, **more) for number in range(count)
        ]
        self.lines.say(self.publisher, b"".join([device.publish(offer, self.now) for offer in offers]))
        self.run(LONG_S)
        return offers

    def acknowledged(self, offers: list[Offer]) -> bool:
        """Whether PUBACK, or PUBREC, has come for them: for all or for none."""
        waiting = [it for it in self.publisher.device.sending.values() if not it.released]
        assert len(waiting) in (0, len(offers))
        return not waiting


class Case(NamedTuple):
    """Who receives what is published to a topic."""

    receivers: Callable[[Network], object]
    topic: str = "t"
    retain: bool = False


def nobody(_net: Network) -> None: ...


def away(net: Network) -> None:
    net.lines.leave(net.subscriber("reader", expiry_s=600))
    net.settle()


def behind_a_link(net: Network) -> None:
    net.subscriber("reader", "b")


def absent(net: Network) -> None:
    net.subscriber("reader", "b", expiry_s=600)
    net.crash("b")
    net.settle()


def clean_and_durable(net: Network) -> None:
    net.subscriber("one")
    net.subscriber("two", expiry_s=600)


MUST = {
    "durable": Case(lambda net: net.subscriber("reader", expiry_s=600)),
    "durable, with a filter": Case(lambda net: net.subscriber("reader", expiry_s=600, where="x >= 0")),
    "durable and away": Case(away),
    "one clean, one durable": Case(clean_and_durable),
    "behind a link": Case(behind_a_link),
    "at an absent broker": Case(absent),
    "retained": Case(nobody, retain=True),
    "retained, for a clean session": Case(lambda net: net.subscriber("reader"), retain=True),
    "kept": Case(nobody, topic="kept"),
    "gathered": Case(nobody, topic="gathered"),
}
"""Receivers and topics that an acknowledgement waits for the disk for."""

NEED_NOT = {
    "clean": Case(lambda net: net.subscriber("reader")),
    "clean, at QoS 0": Case(lambda net: net.subscriber("reader", qos=0)),
    "durable, at QoS 0": Case(lambda net: net.subscriber("reader", expiry_s=600, qos=0)),
    "nobody": Case(nobody),
}
"""Those for which PUBACK does not: nothing would be there after a crash that anybody could be sent."""

WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "a burst": {"count": 40},
    "with a property": {"expiry_s": 3600},
    "QoS 2": {"qos": 2},
}
"""How it is published."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MUST)
def test_an_acknowledgement_waits_for_the_disk(name: str, way: str) -> None:
    case = MUST[name]
    net = Network()
    case.receivers(net)
    net.hold_up("a")
    offers = net.publish(case.topic, retain=case.retain, **WAYS[way])
    assert not net.acknowledged(offers)
    net.let_go("a")
    assert net.acknowledged(offers)


@pytest.mark.parametrize("way", ["alone", "a burst", "with a property"])
@pytest.mark.parametrize("name", NEED_NOT)
def test_puback_does_not_wait_where_all_receivers_are_clean_sessions_here(name: str, way: str) -> None:
    net = Network()
    NEED_NOT[name].receivers(net)
    net.hold_up("a")
    offers = net.publish("t", **WAYS[way])
    assert net.acknowledged(offers)
    assert not net.held_up["a"]  # and nothing was written that anybody could wait for


@pytest.mark.parametrize("name", NEED_NOT)
def test_pubrec_waits_all_the_same(name: str) -> None:
    net = Network()
    NEED_NOT[name].receivers(net)
    net.hold_up("a")
    offers = net.publish("t", qos=2)
    assert not net.acknowledged(offers)
    net.let_go("a")
    assert net.acknowledged(offers)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MUST)
def test_with_acks_neighbour_it_waits_for_a_second_broker_too(name: str, way: str) -> None:
    case = MUST[name]
    net = Network(acks="neighbour")
    case.receivers(net)
    net.crash("b")
    net.settle()
    offers = net.publish(case.topic, retain=case.retain, **WAYS[way])
    assert not net.acknowledged(offers)
    net.start(["b"])
    net.settle()
    assert net.acknowledged(offers)


@pytest.mark.parametrize("name", ["durable", "behind a link", "retained", "kept"])
def test_a_second_broker_has_it_when_it_is_on_the_disk_there(name: str) -> None:
    case = MUST[name]
    net = Network(acks="neighbour")
    case.receivers(net)
    net.hold_up("b")
    offers = net.publish(case.topic, retain=case.retain)
    assert not net.acknowledged(offers)
    net.let_go("b")
    assert net.acknowledged(offers)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_kept_session_gets_what_others_may_send_again_when_it_is_on_disk_that_it_came(qos: int) -> None:
    """A client that asks for QoS 0 too: it would get it twice if its broker died before that."""
    net = Network()
    net.subscriber("reader", "b", expiry_s=600, qos=qos)
    net.hold_up("b")
    net.publish("t")
    assert net.lines.diary.receipts == []
    net.publish("t", qos=0)  # nobody sends this again; it comes behind the other
    assert net.lines.diary.receipts == []
    net.let_go("b")
    assert len(net.lines.diary.receipts) == 2
    net.hold_up("b")
    net.publish("t", qos=0)
    assert len(net.lines.diary.receipts) == 3
