"""Sections 3.1.2.5 and 3.1.3.2: wills."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves, refused
from tests.mqtt.talk import V5, V311, Client, Talk
from tidings.mqtt.packets import Properties, Version, Will

WILL = Will("will", b"gone", 1)


def delayed(seconds: int) -> Will:
    return Will("will", b"gone", 1, properties=Properties(will_delay_s=seconds))


def watched(talk: Talk, version: Version = V5) -> Client:
    watcher = talk.connect("watcher", version)
    watcher.subscribe("will", qos=2)
    return watcher


@proves("3.1.2-7", "3.1.2-8", "3.1.2-10", v311=("3.1.2-8", "3.1.2-10"))
@both
def test_a_will_is_published_once_when_its_client_is_lost(version: Version) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    client = talk.connect("c", version, will=WILL)
    assert watcher.read() == []
    client.lose()
    (it,) = watcher.read()
    assert (it.topic, it.payload, it.qos, it.retain) == ("will", b"gone", 1, False)
    talk.connect("c", version).lose()
    talk.advance(100)
    assert watcher.read() == []


@proves("3.1.2-10", "3.14.4-3", v311=("3.1.2-10", "3.14.4-3"))
@both
def test_a_will_is_taken_back_by_a_normal_farewell(version: Version) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    talk.connect("c", version, will=WILL).disconnect()
    talk.advance(100)
    assert watcher.read() == []


@proves(v311=("3.1.2-12",))
@both
def test_without_a_will_nothing_is_published(version: Version) -> None:
    talk = Talk()
    watcher = talk.connect("watcher", version)
    watcher.subscribe("#", qos=2)
    talk.connect("c", version).lose()
    talk.advance(100)
    assert watcher.read() == []


@proves("3.1.2-8")
@pytest.mark.parametrize("reason", [0x04, 0x80, 0x93])
def test_a_will_is_published_when_its_client_leaves_for_another_reason(reason: int) -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", will=WILL).disconnect(reason)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.2-8", v311=("3.1.2-8",))
@both
def test_a_will_is_published_when_the_broker_closes_for_an_error(version: Version) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    client = talk.connect("c", version, will=WILL)
    client.send_bytes("36 00")
    refused(client, 0x81)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.2-8", "3.1.2-22", v311=("3.1.2-8", "3.1.2-24"))
@both
def test_a_will_is_published_when_its_client_falls_silent(version: Version) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    talk.connect("c", version, keep_alive_s=10, will=WILL)
    talk.advance(14.9)
    assert watcher.read() == []
    talk.advance(5)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.2-14", "3.1.2-15", v311=("3.1.2-9", "3.1.2-16", "3.1.2-17", "3.1.2-7"))
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
@both
def test_a_will_is_published_as_it_was_left(version: Version, qos: int, retain: bool) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    talk.connect("c", version, will=Will("will", b"gone", qos, retain)).lose()
    (it,) = watcher.read()
    assert (it.qos, it.retain) == (qos, False)
    late = talk.connect("late", version)
    late.subscribe("will", qos=2)
    assert [(it.payload, it.qos, it.retain) for it in late.read()] == (
        [(b"gone", qos, True)] if retain else []
    )


@proves("3.1.2-8")
def test_a_will_waits_for_its_delay() -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", session_expiry_s=60, will=delayed(10)).lose()
    talk.advance(9.5)
    assert watcher.read() == []
    talk.advance(1)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.2-8")
@pytest.mark.parametrize("expiry_s", [0, 4])
def test_a_will_is_published_when_its_session_ends_before_its_delay(expiry_s: int) -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", session_expiry_s=expiry_s, will=delayed(10)).lose()
    if expiry_s:
        talk.advance(expiry_s - 0.5)
        assert watcher.read() == []
        talk.advance(1)
    assert watcher.payloads() == [b"gone"]
    talk.advance(100)
    assert watcher.read() == [], "once is enough"


@proves("3.1.3-9")
def test_a_will_is_not_published_if_its_client_is_back_in_time() -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", session_expiry_s=60, will=delayed(10)).lose()
    talk.advance(5)
    client = talk.connect("c", clean_start=False, session_expiry_s=60)
    talk.advance(100)
    assert watcher.read() == []
    client.disconnect()


@proves("3.1.2-8")
def test_a_will_is_published_when_its_session_is_thrown_away() -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", session_expiry_s=60, will=delayed(10)).lose()
    talk.connect("c", clean_start=True)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.2-8", v311=("3.1.2-8",))
@both
def test_a_will_without_delay_is_published_when_another_takes_over(version: Version) -> None:
    talk = Talk()
    watcher = watched(talk, version)
    options = {"session_expiry_s": 60} if version is V5 else {}
    talk.connect("c", version, clean_start=False, will=WILL, **options)
    talk.connect("c", version, clean_start=False, **options)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.3-9")
def test_a_will_with_delay_is_not_published_when_its_client_takes_over() -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", session_expiry_s=60, will=delayed(10))
    talk.connect("c", clean_start=False, session_expiry_s=60)
    talk.advance(100)
    assert watcher.read() == []


@proves("3.1.2-7", "3.1.2-8")
def test_a_will_that_waits_outlives_the_broker() -> None:
    talk = Talk()
    talk.connect("c", session_expiry_s=3600, will=delayed(100)).lose()
    talk.crash()
    watcher = watched(talk)
    talk.advance(200)
    assert watcher.payloads() == [b"gone"]


@proves("3.1.3-10", "3.3.2-4", "3.3.2-15", "3.3.2-16", "3.3.2-17", "3.3.2-18", "3.3.2-20")
def test_a_will_keeps_its_properties_and_their_order() -> None:
    talk = Talk()
    watcher = watched(talk)
    properties = Properties(
        payload_format=1,
        content_type="text/plain",
        response_topic="answers",
        correlation_data=b"\0\1",
        user=(("b", "1"), ("a", "2"), ("b", "0")),
    )
    talk.connect("c", will=Will("will", b"gone", 0, properties=properties)).lose()
    (it,) = watcher.read()
    assert it.properties == properties


@proves("3.3.2-5", "3.3.2-6")
def test_a_will_expires_as_any_message() -> None:
    talk = Talk()
    sleeper = talk.connect("s", session_expiry_s=3600)
    sleeper.subscribe("will", qos=1)
    sleeper.disconnect()
    will = Will("will", b"gone", 1, properties=Properties(message_expiry_s=20))
    talk.connect("c", will=will).lose()
    talk.advance(5)
    sleeper = talk.connect("s", clean_start=False, session_expiry_s=3600)
    (it,) = sleeper.read()
    assert it.properties.message_expiry_s in (14, 15)
    sleeper.disconnect()
    talk.connect("c", will=will).lose()
    talk.advance(21)
    assert talk.connect("s", clean_start=False).read() == []


@proves("3.3.2-2", v311=("3.3.2-2",))
@both
def test_a_will_topic_with_a_wildcard_is_turned_away(version: Version) -> None:
    client = Talk().dial(version)
    client.connect("c", will=Will("will/#", b"gone"))
    assert client.closed
    assert client.connack is None or client.connack.reason >= 0x80


@proves("3.1.2-10", v311=("3.1.2-10",))
def test_a_client_that_comes_back_without_a_will_has_none() -> None:
    talk = Talk()
    watcher = watched(talk)
    talk.connect("c", V311, clean_start=False, will=WILL).disconnect()
    talk.connect("c", V311, clean_start=False).lose()
    assert watcher.read() == []
