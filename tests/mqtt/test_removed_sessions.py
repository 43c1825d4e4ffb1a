"""Sessions that an operator removes: all of them goes, whether or not their client is there."""

from __future__ import annotations

import pytest

from tests.mqtt.talk import BOTH, V5, Client, Talk
from tidings.mqtt.events import SessionRemoved
from tidings.mqtt.packets import Connack, Properties, Publish, Version, Will
from tidings.mqtt.reasons import Reason


def kept(talk: Talk, version: Version = V5, will: Will | None = None) -> Client:
    """A client whose session is kept."""
    expiry = {"session_expiry_s": 1000} if version is V5 else {}
    client = talk.connect("c", version, clean_start=False, will=will, **expiry)
    client.subscribe("t", qos=2)
    return client


def is_there(talk: Talk) -> bool:
    """Whether the client finds its session."""
    client = talk.dial(V5)
    answer = client.connect("c", clean_start=False, session_expiry_s=1000)
    assert isinstance(answer, Connack)
    assert client.payloads() == []
    client.disconnect()
    return answer.session_present


@pytest.mark.parametrize("version", BOTH)
def test_the_session_of_a_client_that_is_away_goes_from_disk_too(version: Version) -> None:
    talk = Talk()
    kept(talk, version).lose()
    talk.connect("p").publish("t", b"waits", qos=1)
    assert any(key.startswith("mqtt/") for key in talk.disk)
    talk.tell(SessionRemoved("c"))
    assert [key for key in talk.disk if key.startswith(("mqtt/", "session/", "subscription/"))] == []
    assert "c" not in talk.front.sessions
    assert not is_there(talk)


@pytest.mark.parametrize("version", BOTH)
def test_a_client_that_is_there_is_told_and_finds_nothing_when_it_comes_back(version: Version) -> None:
    talk = Talk()
    client, publisher = kept(talk, version), talk.connect("p")
    publisher.send(Publish("t", b"in flight", 2, packet_id=1))
    client.take_all()
    talk.tell(SessionRemoved("c"))
    assert client.dismissed() == (Reason.ADMINISTRATIVE_ACTION if version is V5 else None)
    assert not is_there(talk)


@pytest.mark.parametrize("there", [True, False])
def test_the_will_is_published_at_once_and_once(there: bool) -> None:
    talk = Talk()
    watcher = talk.connect("w")
    watcher.subscribe("gone")
    client = kept(talk, will=Will("gone", b"later", 1, properties=Properties(will_delay_s=500)))
    if not there:
        client.lose()
    assert watcher.payloads() == []
    talk.tell(SessionRemoved("c"))
    assert watcher.payloads() == [b"later"]
    talk.advance(2000)
    assert watcher.payloads() == []


def test_a_session_that_ends_with_its_connection_and_one_that_is_not_there() -> None:
    talk = Talk()
    client = talk.connect("c")
    talk.tell(SessionRemoved("c"))
    assert client.dismissed() == Reason.ADMINISTRATIVE_ACTION
    talk.tell(SessionRemoved("c"))
    assert talk.front.sessions == {}
