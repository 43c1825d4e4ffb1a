"""Section 4.3 and packet identifiers: the three qualities of service, both ways."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves, refused
from tests.mqtt.talk import V5, Client, Talk
from tidings.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Version


def pair(version: Version, qos: int = 2) -> tuple[Talk, Client, Client]:
    """A publisher, and a subscriber to "t"."""
    talk = Talk()
    watcher = talk.connect("w", version)
    watcher.subscribe("t", qos=qos)
    return talk, talk.connect("p", version), watcher


@proves("4.3.1-1", "3.3.1-2", "2.2.1-2", v311=("4.3.1-1", "3.3.1-2", "2.3.1-5"))
@both
def test_qos_0_goes_out_once_without_dup_or_identifier(version: Version) -> None:
    _, publisher, watcher = pair(version)
    publisher.publish("t", b"x")
    (it,) = watcher.take(Publish)
    assert (it.qos, it.dup, it.packet_id) == (0, False, 0)
    assert watcher.take_all() == []


@proves("4.3.2-1", "4.3.2-2", "4.3.2-3", "2.2.1-4", v311=("4.3.2-1", "2.3.1-1", "2.3.1-4"))
@both
def test_qos_1_goes_out_with_an_identifier_that_is_free_after_its_acknowledgement(version: Version) -> None:
    _, publisher, watcher = pair(version)
    for _ in range(5):
        publisher.publish("t", b"x", 1)
    got = watcher.take(Publish)
    assert [(it.qos, it.dup) for it in got] == [(1, False)] * 5
    ids = [it.packet_id for it in got]
    assert len(set(ids)) == 5
    assert 0 not in ids
    for id_ in ids:
        watcher.send(Puback(id_))
    assert watcher.take_all() == []


@proves("2.2.1-4", "4.3.2-1", "4.3.3-1", v311=("2.3.1-4", "4.3.2-1"))
def test_identifiers_come_round_and_pass_by_those_in_use() -> None:
    _, publisher, watcher = pair(V5)
    publisher.publish("t", b"never acknowledged", 1)
    (kept,) = watcher.take(Publish)
    for _ in range(140):
        publisher.send(*[Publish("t", b"x", 1, packet_id=n) for n in range(1, 501)])
        ids = [it.packet_id for it in watcher.take(Publish)]
        assert len(set(ids)) == 500
        assert min(ids) >= 1
        assert max(ids) <= 0xFFFF
        assert kept.packet_id not in ids
        watcher.send(*map(Puback, ids))
    publisher.take_all()


@proves(
    "4.3.3-1",
    "4.3.3-2",
    "4.3.3-3",
    "4.3.3-4",
    "4.3.3-5",
    "2.2.1-5",
    "3.6.2-1",
    v311=("4.3.3-1", "2.3.1-6"),
)
@both
def test_qos_2_goes_out_is_released_and_completed(version: Version) -> None:
    _, publisher, watcher = pair(version)
    publisher.publish("t", b"x", 2)
    (it,) = watcher.take(Publish)
    assert (it.qos, it.dup) == (2, False)
    assert it.packet_id != 0
    watcher.send(Pubrec(it.packet_id))
    assert watcher.take_all() == [Pubrel(it.packet_id)]
    watcher.send(Pubrec(it.packet_id))
    assert watcher.take_all() == [Pubrel(it.packet_id)], "it was not completed yet"
    watcher.send(Pubcomp(it.packet_id))
    assert watcher.take_all() == []


@proves("4.3.2-4", "2.2.1-5", v311=("4.3.2-2", "2.3.1-6"))
@both
def test_qos_1_is_acknowledged_and_passed_on(version: Version) -> None:
    _, publisher, watcher = pair(version)
    publisher.send(Publish("t", b"x", 1, packet_id=77))
    assert publisher.take_all() == [Puback(77)]
    assert watcher.payloads() == [b"x"]


@proves("4.3.2-5", "3.3.1-3", v311=("4.3.2-2", "3.3.1-3"))
@pytest.mark.parametrize("dup", [False, True])
@both
def test_qos_1_with_the_same_identifier_is_a_new_message(version: Version, dup: bool) -> None:
    _, publisher, watcher = pair(version)
    for payload in (b"one", b"two"):
        publisher.send(Publish("t", payload, 1, dup=dup, packet_id=7))
        assert publisher.take_all() == [Puback(7)]
    got = watcher.read()
    assert [(it.payload, it.dup) for it in got] == [(b"one", False), (b"two", False)]


@proves("3.3.1-3", v311=("3.3.1-3",))
@pytest.mark.parametrize("qos", [1, 2])
@both
def test_dup_of_a_publisher_is_not_passed_on(version: Version, qos: int) -> None:
    _, publisher, watcher = pair(version)
    publisher.send(Publish("t", b"x", qos, dup=True, packet_id=7))
    if qos == 2:
        publisher.send(Pubrel(7))
    assert [it.dup for it in watcher.read()] == [False]


@proves("4.3.3-8", "4.3.3-10", "4.3.3-11", "4.3.3-12", "2.2.1-5", "3.7.2-1", v311=("4.3.3-2", "2.3.1-6"))
@both
def test_qos_2_is_passed_on_once_however_often_it_is_sent(version: Version) -> None:
    _, publisher, watcher = pair(version)
    for dup in (False, True, True):
        publisher.send(Publish("t", b"one", 2, dup=dup, packet_id=7))
        assert publisher.take_all() == [Pubrec(7)]
    for _ in range(2):
        publisher.send(Pubrel(7))
        (pubcomp,) = publisher.take_all()
        assert isinstance(pubcomp, Pubcomp)
        assert pubcomp.packet_id == 7
    assert watcher.payloads() == [b"one"]
    publisher.publish("t", b"other", 1)
    publisher.send(Publish("t", b"two", 2, packet_id=7))
    assert publisher.take_all() == [Pubrec(7)]
    publisher.send(Pubrel(7))
    assert publisher.take_all() == [Pubcomp(7)]
    assert watcher.payloads() == [b"other", b"two"]


@proves("4.3.3-9", "3.5.2-1")
def test_qos_2_that_was_refused_leaves_its_identifier_free() -> None:
    _, publisher, watcher = pair(V5)
    publisher.send(Publish("$SYS/no", b"x", 2, packet_id=7))
    (pubrec,) = publisher.take(Pubrec)
    assert pubrec.reason >= 0x80
    publisher.send(Publish("t", b"new", 2, packet_id=7))
    assert publisher.take_all() == [Pubrec(7)]
    publisher.send(Pubrel(7))
    assert publisher.take_all() == [Pubcomp(7)]
    assert watcher.payloads() == [b"new"]


@proves("4.3.3-7", "4.3.3-13")
def test_qos_2_that_was_begun_is_completed_although_it_has_expired() -> None:
    talk = Talk()
    watcher = talk.connect("w", session_expiry_s=3600)
    watcher.subscribe("t", qos=2)
    publisher = talk.connect("p")
    publisher.publish("t", b"x", 2, message_expiry_s=5)
    (it,) = watcher.take(Publish)
    watcher.lose()
    talk.advance(100)
    watcher = talk.connect("w", clean_start=False, session_expiry_s=3600)
    (again,) = watcher.take(Publish)
    assert (again.packet_id, again.dup, again.payload) == (it.packet_id, True, b"x")
    watcher.send(Pubrec(it.packet_id))
    assert watcher.take_all() == [Pubrel(it.packet_id)]
    watcher.send(Pubcomp(it.packet_id))
    watcher.ping()


@proves("4.3.3-13")
def test_qos_2_from_a_client_is_completed_although_it_has_expired() -> None:
    talk, publisher, _ = pair(V5)
    publisher.send_bytes("34 0b 000174 0007 05 02 00000001")
    assert publisher.take_all() == [Pubrec(7)]
    talk.advance(100)
    publisher.send(Pubrel(7))
    assert publisher.take_all() == [Pubcomp(7)]


@proves("4.3.3-4", "3.5.2-1")
def test_a_publication_that_the_subscriber_refuses_is_not_released() -> None:
    _, publisher, watcher = pair(V5)
    publisher.publish("t", b"x", 2)
    (it,) = watcher.take(Publish)
    watcher.send(Pubrec(it.packet_id, 0x80))
    assert watcher.take_all() == []
    watcher.ping()


WRONG_ANSWERS: dict[str, tuple[int, type[Puback | Pubrec | Pubcomp]]] = {
    "PUBREC for QoS 1": (1, Pubrec),
    "PUBCOMP for QoS 1": (1, Pubcomp),
    "PUBACK for QoS 2": (2, Puback),
    "PUBCOMP before PUBREC": (2, Pubcomp),
}


@proves("2.2.1-5", "4.13.1-1", v311=("4.8.0-1",))
@pytest.mark.parametrize("name", WRONG_ANSWERS)
@both
def test_an_answer_that_does_not_belong_to_the_qos_closes_the_connection(version: Version, name: str) -> None:
    qos, answer = WRONG_ANSWERS[name]
    _, publisher, watcher = pair(version)
    publisher.publish("t", b"x", qos)
    (it,) = watcher.take(Publish)
    watcher.send(answer(it.packet_id))
    refused(watcher, 0x82)


@proves("3.6.2-1", "3.7.2-1")
@both
def test_acknowledgements_that_nobody_waits_for_do_no_harm(version: Version) -> None:
    client = Talk().connect("c", version)
    client.send(Puback(9))
    client.send(Pubcomp(9))
    assert client.take_all() == []
    client.send(Pubrec(9))
    (pubrel,) = client.take_all()
    assert isinstance(pubrel, Pubrel)
    assert (pubrel.packet_id, pubrel.reason in (0, 0x92)) == (9, True)
    client.send(Pubrel(9))
    (pubcomp,) = client.take_all()
    assert isinstance(pubcomp, Pubcomp)
    assert (pubcomp.packet_id, pubcomp.reason in (0, 0x92)) == (9, True)
    client.ping()


@proves("3.4.2-1")
def test_a_publisher_is_told_that_nobody_wants_what_it_publishes() -> None:
    talk = Talk()
    publisher = talk.connect("p")
    assert publisher.publish("nobody", b"x", 1) in (0, 0x10)
    talk.connect("w").subscribe("somebody", qos=1)
    assert publisher.publish("somebody", b"x", 1) == 0


@proves("3.8.4-8", v311=("3.8.4-6",))
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
@both
def test_the_smaller_of_two_qos_holds(version: Version, published: int, granted: int) -> None:
    _, publisher, watcher = pair(version, granted)
    publisher.publish("t", b"x", published)
    (it,) = watcher.read()
    assert it.qos == min(published, granted)


@proves("4.3.2-4", "4.5.0-1", v311=("4.3.2-2", "4.5.0-1"))
@both
def test_what_was_acknowledged_is_not_lost_with_the_broker(version: Version) -> None:
    talk = Talk()
    options = {"session_expiry_s": 3600} if version is V5 else {}
    talk.connect("w", version, clean_start=False, **options).subscribe("t", qos=2)
    publisher = talk.connect("p", version)
    for n in range(20):
        publisher.publish("t", str(n).encode(), 1 + n % 2)
    talk.crash()
    watcher = talk.connect("w", version, clean_start=False, **options)
    assert watcher.payloads() == [str(n).encode() for n in range(20)]


@proves("4.3.3-10", "4.3.3-11", v311=("4.3.3-2",))
def test_many_publications_of_qos_2_may_be_open_at_once() -> None:
    _, publisher, watcher = pair(V5)
    for n in range(1, 101):
        publisher.send(Publish("t", str(n).encode(), 2, packet_id=n))
    assert publisher.take_all() == [Pubrec(n) for n in range(1, 101)]
    for n in range(100, 0, -1):
        publisher.send(Pubrel(n))
    assert publisher.take_all() == [Pubcomp(n) for n in range(100, 0, -1)]
    assert sorted(int(it) for it in watcher.payloads()) == list(range(1, 101))
