"""The simulated MQTT client: it does what a client must, and notes where a server does not."""

from __future__ import annotations

import pytest

from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import (
    AnyPacket,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
)
from tidings.sim.mqtt.client import MqttClient, Temper
from tidings.sim.mqtt.trace import UNBORN, Offer, Trace, Wish

LASTING = Temper(expiry_s=60)


class Talk:
    """A device and what it says, packet by packet."""

    def __init__(self, temper: Temper = LASTING) -> None:
        self.diary = Trace()
        self.device = MqttClient(self.diary, "d", "a", temper)
        self.reader = Decoder(packet_bytes_max=100_000)

    def heard(self, data: bytes) -> list[AnyPacket]:
        self.reader.feed(data)
        found = []
        while (packet := self.reader.next()) is not None:
            found.append(packet)
        return found

    def hear(self, *packets: AnyPacket) -> list[AnyPacket]:
        data = b"".join(encode(packet, self.device.temper.version) for packet in packets)
        return self.heard(self.device.receive(data, 1.0))

    def connect(self, *, present: bool = False, **said: int) -> list[AnyPacket]:
        self.reader = Decoder(packet_bytes_max=100_000)
        (connect,) = self.heard(self.device.connect(0.0))
        assert isinstance(connect, Connect)
        assert connect.client_id == "d"
        return self.hear(Connack(0, present, Properties(**said)))  # type: ignore[arg-type]

    def offer(self, payload: bytes, qos: int) -> Offer:
        return self.diary.offer("d", "a", "t", payload, qos)

    def publish(self, payload: bytes, qos: int = 1) -> list[AnyPacket]:
        return self.heard(self.device.publish(self.offer(payload, qos), 1.0))

    @property
    def rules(self) -> list[str]:
        return [rule for rule, _ in self.diary.complaints]


def sent(packets: list[AnyPacket]) -> list[tuple[bytes, int, bool]]:
    return [(one.payload, one.packet_id, one.dup) for one in packets if isinstance(one, Publish)]


def test_what_is_not_acknowledged_is_sent_again_with_dup_under_the_same_identifier_and_in_order() -> None:
    talk = Talk()
    talk.connect()
    assert sent(talk.publish(b"one")) == [(b"one", 1, False)]
    talk.publish(b"two", 2)
    talk.publish(b"three", 2)
    assert talk.hear(Pubrec(3)) == [Pubrel(3)]
    talk.device.lost(2.0)
    again = talk.connect(present=True)
    assert sent(again) == [(b"one", 1, True), (b"two", 2, True)]
    assert again[-1] == Pubrel(3)
    talk.hear(Puback(1), Pubcomp(3))
    assert [offer.accepted is not None for offer in talk.diary.offers] == [True, False, True]


def test_a_server_without_the_session_gets_nothing_of_it() -> None:
    talk = Talk()
    talk.connect()
    talk.device.subscribe([Wish(UNBORN, "t", qos=1)], 1.0)
    talk.publish(b"one")
    talk.device.lost(2.0)
    asked = talk.connect(present=False)
    assert [type(packet) for packet in asked] == [Subscribe]
    first, second = talk.diary.lives
    assert first.ended is not None
    assert second.ended is None


def test_no_more_is_under_way_than_the_server_takes() -> None:
    talk = Talk()
    talk.connect(receive_maximum=2)
    assert [len(talk.publish(b"%d" % number)) for number in range(4)] == [1, 1, 0, 0]
    assert sent(talk.hear(Puback(1))) == [(b"2", 3, False)]


def test_a_publication_at_qos_2_that_comes_again_is_known() -> None:
    talk = Talk()
    talk.connect()
    assert talk.hear(Publish("t", b"x", 2, packet_id=7)) == [Pubrec(7)]
    talk.device.lost(1.0)
    talk.connect(present=True)
    assert talk.hear(Publish("t", b"x", 2, dup=True, packet_id=7), Pubrel(7)) == [Pubrec(7), Pubcomp(7)]
    assert [receipt.again for receipt in talk.diary.receipts] == [False, True]
    assert talk.hear(Publish("t", b"y", 2, packet_id=7)) == [Pubrec(7)]
    assert talk.diary.receipts[-1].again is False
    assert talk.rules == []


def test_acknowledgements_can_be_held_back_and_keep_their_order() -> None:
    talk = Talk()
    talk.connect()
    talk.device.prompt = False
    assert talk.hear(Publish("t", b"x", 1, packet_id=1), Publish("t", b"y", 2, packet_id=2)) == []
    assert talk.heard(talk.device.release(2.0)) == [Puback(1), Pubrec(2)]


def test_a_client_that_forgets_connects_clean_until_it_is_answered() -> None:
    talk = Talk()
    talk.connect()
    talk.device.lost(1.0)
    talk.device.forget()
    for _ in range(2):
        talk.reader = Decoder(packet_bytes_max=1000)
        (connect,) = talk.heard(talk.device.connect(2.0))
        assert isinstance(connect, Connect)
        assert connect.clean_start
        talk.device.lost(3.0)
    talk.connect()
    talk.device.lost(4.0)
    talk.reader = Decoder(packet_bytes_max=1000)
    (connect,) = talk.heard(talk.device.connect(5.0))
    assert isinstance(connect, Connect)
    assert not connect.clean_start


def test_a_session_of_3_1_1_that_begins_clean_ends_with_its_connection() -> None:
    talk = Talk(Temper(Version.V311, expiry_s=1000))
    talk.heard(talk.device.connect(0.0, clean=True))
    talk.hear(Connack())
    talk.device.lost(1.0)
    (life,) = talk.diary.lives
    assert life.ended is not None


@pytest.mark.parametrize("reason", ["settling", "absent: c", "settling; absent: c"])
def test_a_grant_counts_from_its_suback_unless_that_makes_a_reservation(reason: str) -> None:
    talk = Talk()
    talk.connect()
    wishes = [Wish(UNBORN, "a", qos=1, where=("x > 1",)), Wish(UNBORN, "b", qos=2)]
    (asked,) = talk.heard(talk.device.subscribe(wishes[:1], 1.0))
    assert isinstance(asked, Subscribe)
    assert asked.properties.user == (("where", "x > 1"),)
    talk.heard(talk.device.subscribe(wishes[1:], 1.0))
    talk.hear(Suback(1, (1,)), Suback(2, (2,), Properties(reason_string=reason)))
    assert wishes[0].granted is not None
    assert (wishes[1].granted, wishes[1].settling is not None) == (None, True)


def test_to_a_client_of_3_1_1_no_reservation_can_be_made_so_its_suback_is_not_yet_a_promise() -> None:
    talk = Talk(Temper(Version.V311))
    talk.connect()
    wish = Wish(UNBORN, "a", qos=1)
    talk.heard(talk.device.subscribe([wish], 1.0))
    talk.hear(Suback(1, (1,)))
    assert (wish.granted, wish.settling is not None) == (None, True)


def test_an_unsubscription_is_said_again_if_it_was_not_confirmed() -> None:
    talk = Talk()
    talk.connect()
    wish = Wish(UNBORN, "a", qos=1)
    talk.heard(talk.device.subscribe([wish], 1.0))
    talk.hear(Suback(1, (1,)))
    talk.heard(talk.device.unsubscribe("a", 1.0))
    talk.device.lost(2.0)
    (again,) = talk.connect(present=True)
    assert isinstance(again, Unsubscribe)
    assert wish.ended is None
    talk.hear(Unsuback(again.packet_id, (0,)))
    assert wish.ended is not None


def test_topic_aliases_are_used_within_what_the_server_takes() -> None:
    talk = Talk(Temper(expiry_s=60, aliases_used=2))
    talk.connect(topic_alias_maximum=1)
    said = []
    for topic in ("a", "a", "b", "a"):
        offer = talk.diary.offer("d", "a", topic, topic.encode() * len(talk.diary.offers), 0)
        said += talk.heard(talk.device.publish(offer, 1.0))
    topics = [(one.topic, one.properties.topic_alias) for one in said if isinstance(one, Publish)]
    assert topics == [("a", 1), ("", 1), ("b", 1), ("a", 1)]


def test_it_pings_and_gives_up_on_a_server_that_does_not_answer() -> None:
    talk = Talk(Temper(keep_alive_s=10))
    talk.connect()
    due = talk.device.next_deadline()
    assert due is not None
    said = talk.device.on_time(due)
    assert said is not None
    assert talk.heard(said) == [Pingreq()]
    talk.hear(Pingresp())
    assert talk.device.on_time(due + 1.0) == b""
    due = talk.device.next_deadline()
    assert due is not None
    assert talk.device.on_time(due)
    late = talk.device.next_deadline()
    assert late is not None
    assert talk.device.on_time(late) is None


@pytest.mark.parametrize(
    ("packets", "rule"),
    [
        ([Publish("t", b"x", 1, packet_id=1), Publish("t", b"y", 1, packet_id=2)], "receive maximum"),
        ([Publish("t", b"x", 1, packet_id=1), Publish("t", b"y", 1, packet_id=1)], "packet identifiers"),
        ([Publish("", b"x", properties=Properties(topic_alias=1))], "topic aliases"),
        ([Puback(9)], "acknowledgements"),
        ([Pubcomp(9)], "acknowledgements"),
        ([Suback(9, (0,))], "acknowledgements"),
        ([Disconnect(0x82)], "no connection is ended without need"),
        ([Connack()], "no such packet here"),
    ],
)
def test_what_a_server_does_wrong_is_noted(packets: list[AnyPacket], rule: str) -> None:
    talk = Talk(Temper(expiry_s=60, receive_maximum=1))
    talk.connect()
    talk.device.prompt = False
    talk.hear(*packets)
    assert talk.rules == [rule]
    assert talk.device.broken


def test_a_session_that_cannot_be_there_is_noted() -> None:
    talk = Talk()
    talk.connect(present=True)
    assert talk.rules == ["no session from nowhere"]
