"""Clients of MQTT 3.1: served as those of 3.1.1, but for the few things that 3.1 has otherwise."""

from __future__ import annotations

from tests.mqtt.talk import V311, Talk
from tidings.mqtt.packets import Version, Will

V31 = Version.V31


def test_messages_of_every_qos_go_both_ways() -> None:
    talk = Talk()
    old, new = talk.connect("old", V31), talk.connect("new")
    old.subscribe("down", qos=2)
    new.subscribe("up", qos=2)
    for qos in (0, 1, 2):
        assert old.publish("up", b"%d" % qos, qos) == 0
        new.publish("down", b"%d" % qos, qos)
    assert [(it.payload, it.qos) for it in old.read()] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    assert [(it.payload, it.qos) for it in new.read()] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    old.ping()
    old.disconnect()


def test_its_session_is_kept_and_connack_has_no_flag_for_it() -> None:
    talk = Talk()
    first = talk.connect("old", V31, clean_start=False)
    first.subscribe("t", qos=1)
    first.lose()
    talk.connect("writer").publish("t", b"meanwhile", 1)
    again = talk.dial(V31)
    again.connect("old", clean_start=False)
    assert again.bytes.startswith(bytes.fromhex("20 02 00 00"))
    assert again.payloads() == [b"meanwhile"]


def test_it_needs_a_client_id() -> None:
    client = Talk().dial(V31)
    client.connect("")
    assert client.closed
    assert client.bytes == bytes.fromhex("20 02 00 02")


def test_its_will_is_published() -> None:
    talk = Talk()
    reader = talk.connect("reader", V311)
    reader.subscribe("t")
    talk.connect("old", V31, will=Will("t", b"gone")).lose()
    assert reader.payloads() == [b"gone"]
