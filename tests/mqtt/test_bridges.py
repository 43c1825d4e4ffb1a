"""Bridges of other brokers, as mosquitto makes them: the mark in CONNECT, the will, and what is sent back."""

from __future__ import annotations

import pytest

from tests.mqtt.talk import V5, V311, Client, Talk
from tidings.mqtt.packets import Version, Will

V31 = Version.V31

STATE = "$SYS/broker/connection/house.to-tidings/state"
"""Where a bridge publishes to both of its ends whether it is connected."""

WILL = Will(STATE, b"0", 1, True)

versions = pytest.mark.parametrize("version", [V31, V311, V5])


def bridge(talk: Talk, version: Version, **options: object) -> Client:
    return talk.connect("house.to-tidings", version, clean_start=False, bridge=True, will=WILL, **options)


@versions
def test_a_bridge_is_connected_at_once_although_its_will_is_below_sys(version: Version) -> None:
    talk = Talk()
    assert not bridge(talk, version).closed
    assert not talk.front.status(talk.now).refusals


@versions
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_bridge_says_of_itself_is_acknowledged_and_dropped(version: Version, qos: int) -> None:
    talk = Talk()
    reader = talk.connect("reader")
    reader.subscribe("$SYS/broker/connection/#", "#")
    assert bridge(talk, version).publish(STATE, b"1", qos, retain=True) == 0
    assert not reader.read()
    late = talk.connect("late")
    late.subscribe("$SYS/broker/connection/#")
    assert not late.read()
    assert not talk.front.status(talk.now).refusals


@versions
def test_the_will_of_a_bridge_is_dropped(version: Version) -> None:
    talk = Talk()
    reader = talk.connect("reader")
    reader.subscribe("$SYS/broker/connection/#", "#")
    bridge(talk, version).lose()
    talk.advance(60)
    assert not reader.read()
    talk.crash()
    late = talk.connect("late")
    late.subscribe("$SYS/broker/connection/#", "#")
    talk.advance(60)
    assert not late.read()


@versions
def test_other_topics_below_sys_are_refused_to_wills_as_before(version: Version) -> None:
    client = Talk().dial(version)
    connack = client.connect("c", will=Will("$SYS/broker/connections", b"0"), bridge=True)
    assert connack is not None
    assert connack.reason == 0x87
    assert client.closed


@pytest.mark.parametrize("version", [V31, V311])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_bridge_does_not_get_its_own_messages_back(version: Version, qos: int) -> None:
    talk = Talk()
    over = bridge(talk, version)
    over.subscribe("#", qos=qos)
    other = talk.connect("other")
    other.subscribe("#", qos=qos)
    for n in range(5):
        over.publish("t", b"%d" % n, qos)
    other.publish("t", b"back", qos)
    assert over.payloads() == [b"back"]
    assert other.payloads() == [b"0", b"1", b"2", b"3", b"4", b"back"]


@pytest.mark.parametrize("version", [V31, V311])
def test_a_bridge_sees_which_messages_are_retained(version: Version) -> None:
    talk = Talk()
    over = bridge(talk, version)
    over.subscribe("#")
    plain = talk.connect("plain", version)
    plain.subscribe("#")
    writer = talk.connect("writer")
    writer.publish("t", b"kept", retain=True)
    writer.publish("t", b"passing")
    assert [(it.payload, it.retain) for it in over.read()] == [(b"kept", True), (b"passing", False)]
    assert [(it.payload, it.retain) for it in plain.read()] == [(b"kept", False), (b"passing", False)]


def test_a_bridge_of_5_is_served_by_the_options_of_its_subscriptions() -> None:
    talk = Talk()
    over = bridge(talk, V5)
    over.subscribe("all")
    over.subscribe("others", no_local=True)
    over.publish("all", b"1")
    over.publish("others", b"2")
    assert over.payloads() == [b"1"]


def test_a_bridge_may_be_in_a_share_group() -> None:
    """[MQTT-3.8.3-4]: No Local is not for share groups."""
    talk = Talk()
    over = bridge(talk, V311)
    over.subscribe("$share/g/t")
    over.publish("t", b"1")
    assert over.payloads() == [b"1"]
