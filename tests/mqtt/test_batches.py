"""Publications of one read go through the broker together: nobody can tell from what arrives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.mqtt.talk import V5, V311, Talk
from tidings.matching import compile_kernels
from tidings.mqtt.codec import encode
from tidings.mqtt.events import BytesReceived, ClientCongested
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Connect,
    Disconnect,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    Will,
)
from tidings.overlay.events import Accept
from tidings.records.record import Kind, Record, Run

WHERES = ("", "n >= 3", "n < 2 OR n = 7", "kind = 'x'", "n IS NULL")
FILTERS = ("t/#", "t/1", "+/1", "t/+")


class Recorded(Talk):
    """A bench that keeps the records."""

    def _carry_out(self, effects: Iterable[Any]) -> None:
        if not hasattr(self, "records"):
            self.records: list[Record] = []
        effects = list(effects)
        for effect in effects:
            if isinstance(effect, Record):
                self.records.append(effect)
            elif isinstance(effect, Run):
                self.records += effect.records()
        super()._carry_out(effects)


Message = tuple[str, int, bytes]
"""Topic, QoS and payload."""

Subscriber = tuple[bool, bool, list[tuple[str, int, str, int]]]
"""Version 5, kept session, and (filter, QoS, where, identifier) of each subscription."""

subscribers = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from((False, False, True)),
        st.lists(
            st.tuples(
                st.sampled_from(FILTERS),
                st.integers(0, 2),
                st.sampled_from(WHERES),
                st.sampled_from((0, 0, 5)),
            ),
            min_size=1,
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=4,
)
published = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(("t/1", "t/1", "t/2", "u")),
            st.sampled_from((0, 0, 0, 1, 2)),
            st.sampled_from((b'{"n":3}', b'{"n":1}', b'{"n":7,"kind":"x"}', b"{}", b"text", b'{"n":12}')),
        ),
        min_size=1,
        max_size=8,
    ),
    max_size=4,
)


def run(
    cuts: list[int] | None, who: list[Subscriber], what: list[list[Message]], from_v5: bool, slow: set[int]
) -> tuple[list[list[object]], list[object], list[str]]:
    """What each subscriber got, what the publisher got, and what was written down, if the bytes of each turn
    come in pieces that end at these places; without any, packet by packet.
    """
    talk = Recorded()
    receivers = []
    for at, (v5, kept, asked) in enumerate(who):
        version = V5 if v5 else V311
        expiry = {"session_expiry_s": 100} if v5 and kept else {}
        client = talk.connect(f"s{at}", version=version, clean_start=v5 or not kept, **expiry)
        for number, (topic_filter, qos, where, identifier) in enumerate(asked, 1):
            about = Properties(
                user=(("where", where),) if where else (),
                subscription_identifiers=(identifier,) if identifier else (),
            )
            client.send(Subscribe(number, (Asked(topic_filter, qos),), about if v5 else Properties()))
        receivers.append(client)
    publisher = talk.connect("p", version=V5 if from_v5 else V311)
    talk.advance(2.0)
    for client in (*receivers, publisher):
        client.take_all()
    got: list[list[object]] = [[] for _ in receivers]
    answered: list[object] = []
    packet_id = 0
    for turn, some in enumerate(what):
        for at in slow:
            if at < len(receivers):
                talk.tell(ClientCongested(receivers[at].connection, turn % 2 == 0))
        packets = []
        for topic, qos, payload in some:
            packet_id += 1
            packets.append(Publish(topic, payload, qos, packet_id=packet_id if qos else 0))
        version = V5 if from_v5 else V311
        encoded = [encode(packet, version) for packet in packets]
        for data in encoded if cuts is None else pieces(b"".join(encoded), cuts):
            talk.tell(BytesReceived(publisher.connection, data))
        answered += publisher.take_all()
        for at, client in enumerate(receivers):
            for packet in client.take_all():
                got[at].append(packet)
                answer(client, packet)
            client.take_all()
    for at in slow:
        if at < len(receivers):
            talk.tell(ClientCongested(receivers[at].connection, False))
            got[at] += receivers[at].take_all()
    talk.advance(3.0)
    lines = sorted(
        json.dumps([it.kind, it.topic, it.message, it.bytes, it.publisher, it.client, sorted(it.receivers)])
        for it in talk.records
        if it.kind in (Kind.PUBLISHED, Kind.DELIVERED)
    )
    return got, answered, lines


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Bytes cut at some places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[first:end] for first, end in pairwise(places)]


def answer(client: Any, packet: AnyPacket) -> None:
    if isinstance(packet, Publish) and packet.qos:
        client.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))


@settings(max_examples=examples(100), deadline=None)
@given(
    subscribers,
    published,
    st.booleans(),
    st.sets(st.integers(0, 3), max_size=1),
    st.lists(st.integers(0, 400), max_size=3),
)
def test_however_bytes_are_cut_the_same_packets_come_in_the_same_order_and_the_same_is_written_down(
    who: list[Subscriber],
    what: list[list[Message]],
    from_v5: bool,
    slow: set[int],
    cuts: list[int],
) -> None:
    assert run(cuts, who, what, from_v5, slow) == run(None, who, what, from_v5, slow)


def test_a_batch_cut_at_every_byte_brings_the_same() -> None:
    who: list[Subscriber] = [
        (True, False, [("t/#", 1, "", 5)]),
        (False, False, [("t/1", 0, "", 0)]),
        (True, True, [("t/+", 2, "n >= 3", 0)]),
    ]
    what: list[list[Message]] = [
        [("t/1", 0, b'{"n":3}'), ("t/1", 1, b'{"n":1}'), ("t/2", 2, b'{"n":7}'), ("t/1", 0, b"text")]
    ]
    whole = run([], who, what, True, set())
    assert len(whole[0][0]) == len(whole[1]) + 2
    for cut in range(1, 100):
        assert run([cut], who, what, True, set()) == whole


def test_a_new_connection_does_not_overtake_what_its_client_has_said_before() -> None:
    """A will, and what went the long way, come before what the next connection says in the same turn."""
    talk = Talk()
    subscriber = talk.connect("s")
    subscriber.subscribe("t")
    talk.connect("p", will=Will("t", b"offline"))
    again = talk.dial()
    again.send(Connect(V5, "p"), Publish("t", b"online"))
    assert [packet.payload for packet in subscriber.take(Publish)] == [b"offline", b"online"]
    once_more = talk.dial()
    talk.tell_all(
        [
            BytesReceived(again.connection, encode(Publish("t", b"first", retain=True), V5)),
            BytesReceived(
                once_more.connection, encode(Connect(V5, "p"), V5) + encode(Publish("t", b"second"), V5)
            ),
        ]
    )
    assert [packet.payload for packet in subscriber.take(Publish)] == [b"first", b"second"]


@pytest.mark.parametrize("where", ["", "n >= 3"])
def test_what_is_published_in_the_turn_of_a_subscription_comes_behind_its_answer(where: str) -> None:
    talk = Talk()
    publisher, subscriber = talk.connect("p"), talk.connect("s")
    publisher.publish("t", b'{"n":3}', retain=True)
    about = Properties(user=(("where", where),) if where else ())
    asked = encode(Subscribe(1, (Asked("t"),), about), V5)
    new = encode(Publish("t", b'{"n":4}'), V5)
    talk.tell_all([BytesReceived(subscriber.connection, asked), BytesReceived(publisher.connection, new)])
    got = subscriber.take_all()
    assert [type(packet) for packet in got] == [Suback, Publish, Publish]
    assert [it.payload for it in got if isinstance(it, Publish)] == [b'{"n":3}', b'{"n":4}']
    talk.tell(BytesReceived(publisher.connection, new))
    assert len(subscriber.take(Publish)) == 1


def test_an_answer_that_waits_for_the_disk_counts_once_and_is_not_sent_to_nobody() -> None:
    talk = Talk()
    subscriber = talk.connect("s", session_expiry_s=100)
    subscriber.subscribe("t", qos=1)
    publisher = talk.connect("p")
    before = talk.front.status(talk.now).counters["packets_out"]
    publisher.publish("t", b"x", 1)
    assert talk.front.status(talk.now).counters["packets_out"] == before + 2
    # The bench sees to it that nothing is sent to a connection that was shut.
    publisher.send(Publish("t", b"y", 1, packet_id=2), Disconnect())
    assert [packet.payload for packet in subscriber.take(Publish)] == [b"x", b"y"]


@pytest.mark.parametrize("topic", ["t", "$share/group/t"])
def test_a_client_that_publishes_all_the_time_is_not_taken_for_silent(topic: str) -> None:
    talk = Talk()
    talk.connect("subscriber").subscribe(topic)
    publisher = talk.connect("publisher", keep_alive_s=10)
    before = talk.front.status(talk.now).counters["packets_in"]
    for _ in range(40):
        publisher.send(Publish("t", b"x"))
        talk.advance(1.0)
    assert not publisher.closed
    assert talk.front.status(talk.now).counters["packets_in"] - before == 40


def test_a_subscriber_that_leaves_in_the_turn_of_a_batch_does_no_harm() -> None:
    compile_kernels()
    talk = Talk()
    readers = [talk.connect(f"s{at}") for at in range(120)]
    for at, reader in enumerate(readers):
        about = Properties(user=(("where", f"n >= {at}"),))
        reader.send(Subscribe(1, (Asked("t"),), about))
    talk.advance(1.0)
    publisher = talk.connect("p")
    some = b"".join(encode(Publish("t", b'{"n":%d}' % at), V5) for at in range(100))
    for _ in range(12):  # an index is made when filters were asked often
        talk.tell(BytesReceived(publisher.connection, some))
    for reader in readers:
        reader.take_all()
    talk.tell_all(
        [
            BytesReceived(publisher.connection, some),
            BytesReceived(readers[3].connection, encode(Disconnect(), V5)),
        ]
    )
    assert [len(reader.take(Publish)) for reader in readers[:3]] == [100, 99, 98]
    assert len(readers[119].take(Publish)) == 0


def test_what_was_read_is_not_kept() -> None:
    talk = Talk()
    publisher = talk.connect("p")
    publisher.send(Publish("t", b"x" * 100_000))
    (client,) = talk.front.clients.values()
    assert client.decoder.data == b""


def test_requests_that_come_together_wait_for_their_turns() -> None:
    talk = Talk()
    asking = talk.connect("a")
    before = talk.front._core.counters.packets_in
    one = encode(Publish("$tidings/topic/list", b"{}"), V5)
    talk._turn((BytesReceived(asking.connection, one * 50),))
    assert talk.front._core.counters.packets_in - before < 5
    talk.advance(1.0)
    assert talk.front._core.counters.packets_in - before == 50


def test_an_answer_to_a_session_that_has_ended_is_none_to_the_one_that_follows() -> None:
    talk = Talk()
    first = talk.connect("p")
    old = talk.front.sessions["p"].begun
    first.send(Disconnect())
    talk.connect("p")
    session = talk.front.sessions["p"]
    assert session.begun > old
    session.received[7] = False
    token = old << 20 | 2 << 16 | 7
    talk.front._publishing.on_accepted(Accept("p", (token,)))
    assert session.received[7] is False
