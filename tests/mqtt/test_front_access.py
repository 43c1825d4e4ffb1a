"""Rights at the front: what is taken away ends at once, whichever way publications go."""

from __future__ import annotations

from tests.mqtt.talk import V5, Talk
from tidings.mqtt.events import Access, AccessChanged, Rule
from tidings.mqtt.packets import Publish

OPEN = Access((Rule(True, "any", "#"),), anonymous=True)
NO_PUBLISHING = Access((Rule(True, "subscribe", "#"),), anonymous=True)
NO_SUBSCRIBING = Access((Rule(True, "publish", "#"),), anonymous=True)


def test_the_right_to_publish_ends_for_topics_that_were_published_to_before() -> None:
    talk = Talk(access=OPEN)
    subscriber, publisher = talk.connect("s"), talk.connect("p")
    subscriber.subscribe("t")
    for payload in (b"1", b"2", b"3"):
        publisher.send(Publish("t", payload))
    assert subscriber.payloads() == [b"1", b"2", b"3"]
    talk.tell(AccessChanged(NO_PUBLISHING))
    publisher.send(Publish("t", b"4"))
    assert subscriber.payloads() == []
    assert talk.front.status(talk.now).counters["refused"] == {"publish": 1}


def test_subscriptions_end_with_the_right_to_them_also_of_clients_that_are_away() -> None:
    talk = Talk(access=OPEN)
    here = talk.connect("here")
    away = talk.connect("away", session_expiry_s=1000)
    here.subscribe("t")
    away.subscribe("t", qos=1)
    away.lose()
    talk.tell(AccessChanged(NO_SUBSCRIBING))
    talk.tell(AccessChanged(OPEN))
    talk.connect("p").publish("t", b"1", qos=1)
    assert here.payloads() == []
    back = talk.connect("away", clean_start=False, session_expiry_s=1000, version=V5)
    assert back.payloads() == []
