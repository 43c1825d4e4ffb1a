"""Rights at the front: what is taken away ends at once, whichever way publications go."""

from __future__ import annotations

import pytest

from tests.mqtt.talk import BOTH, V5, Client, Talk
from tidings.mqtt.events import Access, AccessChanged, Rule
from tidings.mqtt.packets import Connack, Publish, Version, Will
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


def ann_and_bob(version: Version = V5) -> tuple[Talk, list[Client]]:
    """A broker with clients of both, and one each with a certificate that names ann and without a name."""
    talk = Talk(access=ANN_ALL, users=USERS)
    clients = [
        talk.connect(f"of {name}", version, username=name, password=password)
        for name, password in USERS.items()
    ]
    certified = talk.dial(version, certified="ann")
    certified.connect("certified")
    return talk, [*clients, certified, talk.connect("anonymous", version)]


@pytest.mark.parametrize("version", BOTH)
def test_a_user_whose_password_holds_no_more_is_disconnected_and_told_why(version: Version) -> None:
    talk, (ann, bob, certified, anonymous) = ann_and_bob(version)
    ann.subscribe("t")
    talk.tell(AccessChanged(ANN_ALL, frozenset({"ann", "carl"})))
    assert ann.dismissed() == (Reason.NOT_AUTHORIZED if version is V5 else None)
    assert [it.closed for it in (bob, certified, anonymous)] == [False] * 3
    assert list(talk.front.sessions) == ["of bob", "certified", "anonymous"]


def test_clients_without_a_name_go_if_these_may_not_connect_any_more() -> None:
    talk, (ann, bob, certified, anonymous) = ann_and_bob()
    talk.tell(AccessChanged(Access(ANN_ALL.rules, anonymous=False, verify=True)))
    assert anonymous.dismissed() == Reason.NOT_AUTHORIZED
    assert [it.closed for it in (ann, bob, certified)] == [False] * 3


def test_the_session_of_a_user_with_another_password_waits_for_its_client() -> None:
    talk = Talk(access=ANN_ALL, users=USERS)
    ann = talk.connect("c", username="ann", password=b"a", session_expiry_s=1000)
    ann.subscribe("t", qos=1)
    talk.tell(AccessChanged(ANN_ALL, frozenset({"ann"})))
    talk.users["ann"] = b"new"
    talk.connect("p", username="bob", password=b"b").publish("open/x", qos=1)
    talk.connect("q", username="ann", password=b"new").publish("t", b"1", qos=1)
    back = talk.connect("c", username="ann", password=b"new", clean_start=False, session_expiry_s=1000)
    assert back.payloads() == [b"1"]


def only(*topic_filters: str) -> Access:
    rules = tuple(Rule(True, "any", topic_filter) for topic_filter in topic_filters)
    return Access(rules, anonymous=True)


def test_what_waits_for_a_client_is_dropped_with_the_right_to_it() -> None:
    talk = Talk(access=OPEN)
    away = talk.connect("away", session_expiry_s=1000)
    away.subscribe("a/#", "b/#", qos=1)
    away.lose()
    publisher = talk.connect("p")
    for topic, payload in (("a/1", b"1"), ("b/1", b"2"), ("a/2", b"3"), ("b/2", b"4")):
        publisher.publish(topic, payload, qos=1)
    talk.tell(AccessChanged(only("b/#", "a/2")))
    assert talk.front.status(talk.now).counters["dropped"] == {"the right to it was taken away": 1}
    talk.tell(AccessChanged(OPEN))
    talk.crash()  # nor is it on disk
    back = talk.connect("away", clean_start=False, session_expiry_s=1000)
    assert back.payloads() == [b"2", b"3", b"4"]
    assert talk.front.status(talk.now).queued_bytes == 0


def test_what_may_have_been_sent_already_is_sent_to_its_end() -> None:
    """Else its packet identifier would be used again, and the client would take the next for a repeat."""
    talk = Talk(access=OPEN)
    client = talk.connect("c", session_expiry_s=1000)
    client.subscribe("a", qos=2)
    talk.connect("p").publish("a", b"1", qos=2)
    client.lose()
    talk.crash()
    talk.tell(AccessChanged(only("b")))
    assert talk.connect("c", clean_start=False, session_expiry_s=1000).payloads() == [b"1"]


def test_a_client_that_is_behind_is_no_longer_when_what_waited_is_gone() -> None:
    talk = Talk(access=OPEN)
    client = talk.connect("c", receive_maximum=1)
    client.subscribe("a", qos=1)
    publisher = talk.connect("p")
    for number in range(1100):
        publisher.publish("a", b"%d" % number, qos=1)
    held = [talk.front.broker.core.held]
    talk.tell(AccessChanged(only("b")))
    assert [*held, talk.front.broker.core.held] == [True, False]
    assert client.payloads() == [b"0"]


WILL = Will("a/gone", b"gone")


@pytest.mark.parametrize(("rules", "told"), [(OPEN, [b"gone"]), (only("a/+"), [b"gone"]), (only("b"), [])])
def test_a_will_is_judged_by_the_rules_that_hold_when_its_client_goes(
    rules: Access, told: list[bytes]
) -> None:
    talk = Talk(access=OPEN)
    client = talk.connect("c", will=WILL)
    talk.tell(AccessChanged(rules))
    watcher = talk.connect("w")
    watcher.subscribe("a/+")
    client.lose()
    assert watcher.payloads() == told
    assert talk.front.status(talk.now).counters["refused"].get("will", 0) == (not told)


def test_the_will_of_a_user_who_was_removed_is_published() -> None:
    talk = Talk(access=ANN_ALL, users=USERS)
    talk.connect("c", username="ann", password=b"a", will=Will("open/gone", b"gone"))
    watcher = talk.connect("w", username="bob", password=b"b")
    watcher.subscribe("open/#")
    talk.tell(AccessChanged(ANN_ALL, frozenset({"ann"})))
    assert watcher.payloads() == [b"gone"]


def test_rules_that_changed_while_the_broker_was_stopped_hold_for_sessions_of_before() -> None:
    talk = Talk(access=OPEN)
    client = talk.connect("c", session_expiry_s=1000, will=WILL)
    client.subscribe("a/#", "b/#", qos=1)
    client.disconnect(0x04)
    client = talk.connect("d", session_expiry_s=1000, will=WILL)
    talk.access = only("b/#")
    talk.crash()
    publisher, watcher = talk.connect("p"), talk.connect("w")
    assert talk.front.status(talk.now).counters["refused"] == {"subscribe": 1, "will": 1}
    publisher.publish("b/1", b"1", qos=1)
    talk.tell(AccessChanged(OPEN))
    publisher.publish("a/1", b"2", qos=1)
    watcher.subscribe("a/#")
    assert watcher.payloads() == []
    back = talk.connect("c", clean_start=False, session_expiry_s=1000)
    assert back.payloads() == [b"1"]
