"""Rights at the front: what is taken away ends at once, whichever way publications go."""

from __future__ import annotations

from tests.mqtt.talk import V5, Talk
from tidings.mqtt.events import Access, AccessChanged, Rule
from tidings.mqtt.packets import Connack, Publish
from tidings.mqtt.reasons import Reason

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


USERS = {"ann": b"a", "bob": b"b"}
ANN_ALL = Access(
    (Rule(True, "any", "#", "ann"), Rule(True, "any", "open/#", "bob")), anonymous=True, verify=True
)


def test_a_client_id_is_no_key_to_the_session_of_another_user() -> None:
    talk = Talk(access=ANN_ALL, users=USERS)
    ann = talk.connect("shared", username="ann", password=b"a", session_expiry_s=1000)
    ann.subscribe("secret/#", qos=1)
    ann.lose()
    bob = talk.dial(V5)
    answer = bob.connect("shared", username="bob", password=b"b", clean_start=False)
    assert isinstance(answer, Connack)
    assert answer.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    back = talk.connect("shared", username="ann", password=b"a", clean_start=False, session_expiry_s=1000)
    talk.connect("p", username="ann", password=b"a").publish("secret/x", b"1", qos=1)
    assert back.payloads() == [b"1"]


def test_a_session_without_a_user_is_not_taken_up_by_one_with_a_name() -> None:
    talk = Talk(access=Access((Rule(True, "any", "#"),), anonymous=True, verify=True), users=USERS)
    nobody = talk.connect("shared", session_expiry_s=1000)
    nobody.subscribe("t", qos=1)
    nobody.lose()
    bob = talk.dial(V5)
    answer = bob.connect("shared", username="bob", password=b"b", clean_start=False)
    assert isinstance(answer, Connack)
    assert (answer.reason, answer.session_present) == (0, False)
