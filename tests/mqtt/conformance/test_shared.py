"""Section 4.8.2: shared subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mqtt.conformance.proving import both, proves, refused, subscribe_bytes
from tests.mqtt.talk import V5, Client, Talk
from tidings.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Version


def group(talk: Talk, *names: str, qos: int = 2, **options: Any) -> list[Client]:
    """Clients that share a subscription to "t"."""
    clients = [talk.connect(name, **options) for name in names]
    for client in clients:
        client.subscribe("$share/g/t", qos=qos)
    return clients


@proves("4.8.2-1", "4.8.2-2")
@both
def test_each_message_goes_to_one_of_a_group(version: Version) -> None:
    talk = Talk()
    members = [talk.connect(f"m{n}", version) for n in range(3)]
    for member in members:
        assert member.subscribe("$share/g/t/#", qos=1).reasons == (1,)
    alone = talk.connect("a", version)
    alone.subscribe("t/#", qos=1)
    other = talk.connect("o", version)
    other.subscribe("$share/h/t/#", qos=1)
    publisher = talk.connect("p", version)
    for n in range(30):
        publisher.publish("t/x", str(n).encode(), 1)
    got = [[int(it) for it in member.payloads()] for member in members]
    assert sorted(it for each in got for it in each) == list(range(30))
    assert all(got), "the work is shared"
    assert [int(it) for it in alone.payloads()] == list(range(30))
    assert [int(it) for it in other.payloads()] == list(range(30))


WRONG = [
    "$share",
    "$share/",
    "$share/g",
    "$share/g/",
    "$share//t",
    "$share/+/t",
    "$share/#/t",
    "$share/a+b/t",
]


@proves("4.8.2-1", "4.8.2-2")
@pytest.mark.parametrize("topic_filter", WRONG)
@both
def test_a_share_without_a_proper_name_or_filter_closes_the_connection(
    version: Version, topic_filter: str
) -> None:
    client = Talk().connect("c", version)
    client.send_bytes(subscribe_bytes(version, topic_filter))
    refused(client, 0x81, 0x82)


@proves("3.8.3-4")
def test_no_local_with_a_share_closes_the_connection() -> None:
    client = Talk().connect("c")
    client.send_bytes(subscribe_bytes(V5, "$share/g/t", 0x04))
    refused(client, 0x82)


@proves("4.8.2-3")
def test_the_granted_qos_of_the_chosen_client_holds() -> None:
    talk = Talk()
    members = {qos: talk.connect(f"m{qos}") for qos in (0, 1, 2)}
    for qos, member in members.items():
        assert member.subscribe("$share/g/t", qos=qos).reasons == (qos,)
    publisher = talk.connect("p")
    for _ in range(30):
        publisher.publish("t", b"x", 2)
    got = {qos: member.read() for qos, member in members.items()}
    assert sum(map(len, got.values())) == 30
    for qos, messages in got.items():
        assert {it.qos for it in messages} <= {qos}


@proves("4.8.2-4")
def test_qos_2_that_was_begun_is_completed_with_the_same_client() -> None:
    talk = Talk()
    clients = dict(zip("ab", group(talk, "a", "b", session_expiry_s=3600), strict=True))
    talk.connect("p").publish("t", b"x", 2)
    chosen = next(name for name, client in clients.items() if client.heard)
    (it,) = clients[chosen].take(Publish)
    clients[chosen].send(Pubrec(it.packet_id))
    assert clients[chosen].take_all() == [Pubrel(it.packet_id)]
    clients[chosen].lose()
    back = talk.connect(chosen, clean_start=False, session_expiry_s=3600)
    assert back.take_all() == [Pubrel(it.packet_id)]
    back.send(Pubcomp(it.packet_id))
    (other,) = (client for name, client in clients.items() if name != chosen)
    assert other.take_all() == []


@proves("4.8.2-4")
def test_qos_2_that_was_sent_is_sent_again_to_the_same_client() -> None:
    talk = Talk()
    clients = dict(zip("ab", group(talk, "a", "b", session_expiry_s=3600), strict=True))
    talk.connect("p").publish("t", b"x", 2)
    chosen = next(name for name, client in clients.items() if client.heard)
    clients[chosen].lose()
    back = talk.connect(chosen, clean_start=False, session_expiry_s=3600)
    (it,) = back.take(Publish)
    assert (it.payload, it.dup) == (b"x", True)
    (other,) = (client for name, client in clients.items() if name != chosen)
    assert other.take_all() == []


@proves("4.8.2-5")
def test_qos_2_that_was_begun_goes_to_no_other_when_the_session_ends() -> None:
    talk = Talk()
    clients = dict(zip("ab", group(talk, "a", "b", session_expiry_s=10), strict=True))
    talk.connect("p").publish("t", b"x", 2)
    chosen = next(name for name, client in clients.items() if client.heard)
    clients[chosen].lose()
    talk.advance(60)
    (other,) = (client for name, client in clients.items() if name != chosen)
    assert other.take_all() == []


@proves("4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_its_client_refuses_goes_to_no_other(qos: int) -> None:
    talk = Talk()
    clients = group(talk, "a", "b")
    talk.connect("p").publish("t", b"x", qos)
    (chosen,) = (client for client in clients if client.heard)
    (it,) = chosen.take(Publish)
    chosen.send(Puback(it.packet_id, 0x80) if qos == 1 else Pubrec(it.packet_id, 0x80))
    talk.advance(60)
    assert all(client.take_all() == [] for client in clients)


def test_who_leaves_the_group_gets_nothing_more() -> None:
    talk = Talk()
    one, two = group(talk, "a", "b", qos=1)
    assert one.unsubscribe("$share/g/t").reasons == (0,)
    publisher = talk.connect("p")
    for _ in range(10):
        publisher.publish("t", b"x", 1)
    assert one.read() == []
    assert len(two.read()) == 10


def test_a_share_and_a_plain_subscription_of_one_client_are_two() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("$share/g/t", qos=1)
    client.subscribe("t", qos=1)
    assert client.unsubscribe("t").reasons == (0,)
    talk.connect("p").publish("t", b"x", 1)
    assert client.payloads() == [b"x"]


def test_retained_messages_are_not_for_shares() -> None:
    talk = Talk()
    talk.connect("p").publish("t", b"x", 1, retain=True)
    client = talk.connect("c")
    client.subscribe("$share/g/t", qos=1)
    assert client.read() == []


@proves("4.8.2-3")
def test_a_share_carries_its_subscription_identifier() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("$share/g/t", subscription_identifiers=(5,))
    talk.connect("p").publish("t", b"x")
    assert [it.properties.subscription_identifiers for it in client.read()] == [(5,)]
