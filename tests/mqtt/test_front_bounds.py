"""What a client can cost: topics, retained messages, queues, and reasons that must fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.mqtt.talk import V5, V311, Talk
from tidings.language.filters import parse
from tidings.language.limits import DEFAULT as LIMITS
from tidings.mqtt.codec import encode
from tidings.mqtt.costs import RETAINED_PER_TURN, TOPIC_FILTER_STEPS
from tidings.mqtt.events import Access, BytesReceived, Rule
from tidings.mqtt.packets import (
    Asked,
    Connack,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Will,
)
from tidings.mqtt.reasons import Reason
from tidings.mqtt.settings import DEFAULT


def refused(talk: Talk, topic_filter: str, where: str, **connect: Any) -> Suback:
    client = talk.connect("c", **connect)
    client.send(Subscribe(1, (Asked(topic_filter),), Properties(user=(("where", where),))))
    (answer,) = client.take(Suback)
    return answer


def test_a_topic_of_too_many_levels_is_refused_and_ends_nothing() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.send(Publish("a/" * 1000 + "b", b"x", 1, retain=True, packet_id=1))
    (answer,) = client.take(Puback)
    assert answer.reason == Reason.TOPIC_NAME_INVALID
    client.send(Publish("a/" * 1000 + "b", b"x"), Publish("a/" * 199 + "b", b"y", retain=True))
    assert client.subscribe("#").reasons == (0,)
    assert client.payloads() == [b"y"]


def test_what_has_expired_in_a_queue_gives_way_to_what_has_not() -> None:
    talk = Talk(replace(DEFAULT, queue_messages=10))
    talk.connect("away", session_expiry_s=1000).subscribe("t", qos=1)
    talk.clients[1].lose()
    publisher = talk.connect("p")
    for at in range(10):
        publisher.publish("t", b"old %d" % at, qos=1, message_expiry_s=1)
    talk.advance(2.5)
    for at in range(5):
        publisher.publish("t", b"new %d" % at, qos=1)
    back = talk.connect("away", clean_start=False, session_expiry_s=1000)
    assert back.payloads() == [b"new %d" % at for at in range(5)]


def test_expired_retained_messages_give_way_and_do_not_come_back() -> None:
    talk = Talk(replace(DEFAULT, retained_messages=5))
    publisher = talk.connect("p")
    for at in range(5):
        assert publisher.publish(f"r/{at}", b"old", qos=1, retain=True, message_expiry_s=1) in (0, 16)
    assert publisher.publish("r/more", b"new", qos=1, retain=True) == Reason.QUOTA_EXCEEDED
    talk.advance(3.0)
    assert publisher.publish("r/more", b"new", qos=1, retain=True) in (0, 16)
    assert talk.front.retained.messages == 1
    talk.crash()
    reader = talk.connect("s")
    reader.subscribe("r/#")
    assert reader.payloads() == [b"new"]


@pytest.mark.parametrize(
    "topic", ["view/severe/x", "view", "$SYS/broker/version", "$share/g/t", "$share", "$tidings/topic/list"]
)
def test_a_will_goes_nowhere_that_its_client_could_not_publish_to(topic: str) -> None:
    talk = Talk()
    client = talk.dial(V5)
    answer = client.connect("c", will=Will(topic, b"forged"))
    assert isinstance(answer, Connack)
    assert answer.reason >= 0x80


@pytest.mark.parametrize("qos", [0, 1])
def test_many_retained_messages_come_in_turns_and_all_of_them(qos: int) -> None:
    talk = Talk()
    publisher = talk.connect("p")
    count = 3 * RETAINED_PER_TURN
    for at in range(count):
        publisher.send(Publish(f"r/{at}", b"x", qos, retain=True, packet_id=at + 1 if qos else 0))
    reader = talk.connect("s")
    reader.send(Subscribe(1, (Asked("r/#", qos),)))
    first = len(reader.read())
    assert first <= RETAINED_PER_TURN
    got = first
    for _ in range(10):
        talk.advance(0.01)
        got += len(reader.read())
    assert got == count


def test_retained_messages_wait_for_a_client_that_does_not_take_them() -> None:
    talk = Talk()
    publisher = talk.connect("p")
    for at in range(1500):
        publisher.send(Publish(f"r/{at}", b"x", 1, retain=True, packet_id=at + 1))
    reader = talk.connect("s", receive_maximum=10)
    reader.send(Subscribe(1, (Asked("r/#", 1),)))
    talk.advance(5.0)
    waiting = talk.front.status(talk.now)
    assert (waiting.inflight, waiting.queued) == (10, 0)
    assert reader.take(Publish)[0].retain


def test_what_is_in_flight_is_bounded_in_bytes_too() -> None:
    talk = Talk(replace(DEFAULT, inflight_bytes=50_000))
    reader, publisher = talk.connect("s"), talk.connect("p")
    reader.subscribe("t", qos=1)
    for _ in range(20):
        publisher.publish("t", b"x" * 20_000, qos=1)
    assert len(reader.heard) == 3
    assert len(reader.payloads()) == 20


def test_dear_subscriptions_of_many_clients_take_turns() -> None:
    talk = Talk()
    packet = dear_packet("c = 1")
    clients = [talk.connect(f"c{at}") for at in range(10)]
    talk.tell_all([BytesReceived(it.connection, encode(packet, V5)) for it in clients])
    granted = sum(bool(it.take(Suback)) for it in clients)
    assert 0 < granted < 10
    talk.advance(1.0)
    assert granted + sum(bool(it.take(Suback)) for it in clients) == 10


def test_others_are_heard_while_dear_subscriptions_wait() -> None:
    talk = Talk()
    clients = [talk.connect(f"c{at}") for at in range(10)]
    other = talk.connect("other")
    dear = [
        BytesReceived(it.connection, encode(dear_packet(f"a = {at}"), V5)) for at, it in enumerate(clients)
    ]
    talk.tell_all([*dear, BytesReceived(other.connection, encode(Pingreq(), V5))])
    assert other.take(Pingresp) == [Pingresp()]
    assert not all(it.heard for it in clients)


def dear_packet(first: str) -> Subscribe:
    where = " OR ".join([first, *(f"b = {at}" for at in range(150))])
    return Subscribe(1, (Asked("t"),), Properties(user=(("where", where),)))


def test_a_request_that_nobody_would_hear_the_answer_of_is_not_carried_out() -> None:
    talk = Talk()
    client = talk.connect("c")
    about = Properties(response_topic="$tidings/reply/nobody")
    client.send(Publish("$tidings/topic/list", b"{}", properties=about))
    assert talk.front.status(talk.now).counters["refused"] == {"request": 1}


def test_a_reason_is_cut_to_what_the_client_takes_and_keeps_its_end() -> None:
    talk = Talk()
    whole = refused(talk, "t", "severity >= ").properties.reason_string
    cut = refused(talk, "t", "severity >= ", maximum_packet_bytes=60).properties.reason_string
    assert whole is not None
    assert cut is not None
    assert whole.endswith(cut.removeprefix("…"))
    assert "at character 12" in cut
    assert refused(talk, "t", "severity >= ", maximum_packet_bytes=20).reasons == (
        Reason.TOPIC_FILTER_INVALID,
    )


@pytest.mark.parametrize("name", ["Where", "WHERE", "$Where", "Unknown"])
def test_a_property_in_other_letters_is_not_passed_over(name: str) -> None:
    talk = Talk()
    client = talk.connect("c")
    client.send(Subscribe(1, (Asked("t"),), Properties(user=((name, "a > 1"),))))
    (answer,) = client.take(Suback)
    assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert "did you mean" in (answer.properties.reason_string or "")


def test_several_refusals_say_which_topic_filter_each_is_about() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.send(Subscribe(1, (Asked("view/nothing/#"), Asked("fine"), Asked("view/+/x"))))
    (answer,) = client.take(Suback)
    reason = answer.properties.reason_string or ""
    assert [code >= 0x80 for code in answer.reasons] == [True, False, True]
    assert "view/nothing/#: there is no view" in reason
    assert "view/+/x: " in reason


@pytest.mark.parametrize("version", [V5, V311])
def test_topics_that_begin_with_a_dollar_are_ordinary_where_everything_is_allowed(version: Any) -> None:
    talk = Talk()
    client = talk.connect("c", version=version)
    client.subscribe("$mine/#")
    client.send(Publish("$mine/x", b"1"))
    assert client.payloads() == [b"1"]


WIDE = f"place IN ({', '.join(map(str, range(250)))})"


def wheres(*texts: str) -> Properties:
    return Properties(user=tuple(("where", text) for text in texts))


def steps_of(talk: Talk, packet: Subscribe, client: Any) -> tuple[Suback, int]:
    """What a SUBSCRIBE is answered, and the steps that it took."""
    client.send(packet)
    (answer,) = client.take(Suback)
    return answer, talk.front._core.steps


def test_filters_of_a_client_without_rights_are_not_read() -> None:
    talk = Talk(access=Access((Rule(True, "any", "open/#"),), anonymous=True))
    client = talk.connect("c")
    hostile = [WIDE.replace("place", f"place{at}") for at in range(10)]
    answer, steps = steps_of(talk, Subscribe(1, (Asked("closed/#"),), wheres(*hostile)), client)
    assert answer.reasons == (Reason.NOT_AUTHORIZED,)
    assert steps == TOPIC_FILTER_STEPS
    answer, steps = steps_of(talk, Subscribe(2, (Asked("closed"), Asked("open/a")), wheres(WIDE)), client)
    assert answer.reasons == (Reason.NOT_AUTHORIZED, 0)
    assert steps == 2 * TOPIC_FILTER_STEPS + parse(WIDE).steps


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["x = 1"] * 65, "'where' is given 65 times; the limit is 64"),
        (
            [f"x = '{at}{'y' * 2_000}'" for at in range(9)],
            "characters; the limit is 16384; send several SUBSCRIBE",
        ),
    ],
)
def test_filters_that_are_too_many_or_too_long_are_not_read(texts: list[str], reason: str) -> None:
    talk = Talk()
    answer, steps = steps_of(talk, Subscribe(1, (Asked("t"),), wheres(*texts)), talk.connect("c"))
    assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert reason in (answer.properties.reason_string or "")
    assert steps == TOPIC_FILTER_STEPS


def test_all_filters_of_a_subscribe_share_one_budget() -> None:
    talk = Talk()
    client = talk.connect("c")
    texts = [WIDE.replace("place", f"place{at}") for at in range(10)]
    answer, steps = steps_of(talk, Subscribe(1, (Asked("t"),), wheres(*texts)), client)
    assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert f"more than {LIMITS.steps} steps" in (answer.properties.reason_string or "")
    assert LIMITS.steps < steps < 2 * LIMITS.steps
    answer, _ = steps_of(talk, Subscribe(2, (Asked("t"),), wheres(*texts[:2])), client)
    assert answer.reasons == (0,)


def test_a_filter_counts_once_for_each_topic_filter_because_a_declared_topic_reads_it_anew() -> None:
    talk = Talk()
    asked = tuple(Asked(f"t/{at}") for at in range(4))
    answer, steps = steps_of(talk, Subscribe(1, asked, wheres(WIDE)), talk.connect("c"))
    assert set(answer.reasons) == {0}
    assert steps == 4 * (TOPIC_FILTER_STEPS + parse(WIDE).steps)


def test_what_all_subscribes_of_a_turn_take_is_counted() -> None:
    talk = Talk()
    clients = [talk.connect(f"c{at}") for at in range(3)]
    packets = [encode(Subscribe(1, (Asked("t"),), wheres(f"x = {at}")), V5) for at in range(3)]
    talk.front.handle_all(
        [BytesReceived(it.connection, data) for it, data in zip(clients, packets, strict=True)], talk.now
    )
    assert talk.front._core.steps == 3 * TOPIC_FILTER_STEPS + sum(parse(f"x = {at}").steps for at in range(3))
    talk.advance(1.0)
    assert talk.front._core.steps == 0


def test_reasons_for_thousands_of_refusals_fit_into_one_answer() -> None:
    """They are many and long, and what does not fit must not be a bug of ours that stops the broker."""
    talk = Talk(access=Access((Rule(True, "publish", "#"),), anonymous=True))
    client = talk.connect("c")
    count = 9_000
    wide = "\u4e2d" * 40
    client.send(Subscribe(1, tuple(Asked(f"{wide}/{at}/+") for at in range(count))))
    talk.advance(1.0)
    (answer,) = client.take(Suback)
    assert answer.reasons == (Reason.NOT_AUTHORIZED,) * count
    assert (answer.properties.reason_string or "").endswith(f"; and {count - 20} more")


@pytest.mark.parametrize("qos", [0, 1])
def test_a_topic_that_is_too_long_through_a_view_is_dropped_and_counted(qos: int) -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("$tidings/reply/c")
    asked = Properties(response_topic="$tidings/reply/c")
    client.send(Publish("$tidings/view/add", b'{"name": "v", "from": "#"}', properties=asked))
    assert b'"ok":true' in client.payloads()[0]
    assert client.subscribe("view/v/#", qos=1).reasons == (1,)
    client.publish("a" * 65_530, b"x", qos)
    client.publish("a" * 65_000, b"y", qos)
    assert client.payloads() == [b"y"]
    assert talk.front.status(talk.now).counters["dropped"] == {"larger than the client takes": 1}


def test_the_like_patterns_of_a_session_have_a_bound_together() -> None:
    """Each filter is within its limit; a client may have thousands, and one message meets them all."""
    talk = Talk()
    client = talk.connect("c")
    pattern = "x" * 190
    packets = [
        Subscribe(at + 1, (Asked(f"t/{at}"),), wheres(f"a{at} LIKE '%_{pattern}%'")) for at in range(6)
    ]
    answers = [steps_of(talk, packet, client)[0] for packet in packets]
    assert [answer.reasons for answer in answers] == [(0,)] * 5 + [(Reason.QUOTA_EXCEEDED,)]
    assert "look for 1000 characters in texts at most, and these would be 1140" in str(answers[-1].properties)
    client.unsubscribe("t/0")
    assert steps_of(talk, packets[5], client)[0].reasons == (0,)
    # The same again takes its own place.
    assert steps_of(talk, packets[5], client)[0].reasons == (0,)
    assert steps_of(talk, packets[0], client)[0].reasons == (Reason.QUOTA_EXCEEDED,)
    # What looks for nothing in a text is not counted.
    plain = Subscribe(9, (Asked("t/9"),), wheres("a LIKE 'fire%' OR b = 'smoke'"))
    assert steps_of(talk, plain, client)[0].reasons == (0,)


def test_the_bound_on_like_patterns_outlives_a_restart() -> None:
    talk = Talk()
    client = talk.connect("c", session_expiry_s=1000)
    for at in range(5):
        packet = Subscribe(at + 1, (Asked(f"t/{at}"),), wheres(f"a{at} LIKE '%_{'x' * 190}%'"))
        assert steps_of(talk, packet, client)[0].reasons == (0,)
    talk.crash()
    client = talk.connect("c", clean_start=False, session_expiry_s=1000)
    more = Subscribe(9, (Asked("t/9"),), wheres(f"a LIKE '%_{'x' * 190}%'"))
    assert steps_of(talk, more, client)[0].reasons == (Reason.QUOTA_EXCEEDED,)
