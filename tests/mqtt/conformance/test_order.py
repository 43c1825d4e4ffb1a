"""Section 4.6: order."""

from __future__ import annotations

import pytest

from tests.mqtt.conformance.proving import both, proves
from tests.mqtt.talk import V5, Talk
from tidings.mqtt.packets import Puback, Publish, Pubrec, Pubrel, Version


@proves("4.6.0-5", "4.6.0-6", v311=("4.6.0-5", "4.6.0-6"))
@pytest.mark.parametrize("qos", [0, 1, 2])
@both
def test_messages_of_one_client_keep_their_order(version: Version, qos: int) -> None:
    talk = Talk()
    watchers = [talk.connect(f"w{granted}", version) for granted in (0, 1, 2)]
    for granted, watcher in enumerate(watchers):
        watcher.subscribe("t/#", qos=granted)
    publishers = [talk.connect(f"p{n}", version) for n in range(2)]
    for n in range(50):
        for which, publisher in enumerate(publishers):
            publisher.publish(f"t/{n % 3}", f"{which} {n}".encode(), qos)
    for watcher in watchers:
        got = watcher.payloads()
        for which in range(2):
            assert [it for it in got if it.startswith(str(which).encode())] == [
                f"{which} {n}".encode() for n in range(50)
            ]


@proves("4.6.0-5", "4.6.0-6", v311=("4.6.0-5", "4.6.0-6"))
@both
def test_messages_of_all_qos_keep_their_order_for_who_was_away(version: Version) -> None:
    talk = Talk()
    options = {"session_expiry_s": 3600} if version is V5 else {}
    watcher = talk.connect("w", version, clean_start=False, **options)
    watcher.subscribe("t", qos=2)
    watcher.disconnect()
    publisher = talk.connect("p", version)
    for n in range(40):
        publisher.publish("t", str(n).encode(), 1 + n % 2)
    watcher = talk.connect("w", version, clean_start=False, **options)
    for n in range(40, 50):
        publisher.publish("t", str(n).encode(), 1 + n % 2)
    assert [int(it) for it in watcher.payloads()] == list(range(50))


@proves("4.6.0-5", "4.9.0-2", v311=("4.6.0-6",))
def test_messages_keep_their_order_for_who_takes_few_at_a_time() -> None:
    talk = Talk()
    watcher = talk.connect("w", receive_maximum=3, session_expiry_s=3600)
    watcher.subscribe("t", qos=1)
    publisher = talk.connect("p")
    for n in range(30):
        publisher.publish("t", str(n).encode(), 1)
    got = []
    for _ in range(4):
        waiting = watcher.take(Publish)
        for it in waiting[:1]:
            got.append(int(it.payload))
            watcher.send(Puback(it.packet_id))
        watcher.lose()
        watcher = talk.connect("w", receive_maximum=3, clean_start=False, session_expiry_s=3600)
    got += [int(it) for it in watcher.payloads()]
    assert got == list(range(30))


@proves(v311=("4.6.0-2", "4.6.0-3", "4.6.0-4"))
@both
def test_acknowledgements_come_in_the_order_of_what_they_acknowledge(version: Version) -> None:
    talk = Talk()
    watcher = talk.connect("w", version)
    watcher.subscribe("t", qos=2)
    client = talk.connect("c", version)
    ids = [9, 3, 7, 1, 5]
    for id_ in ids:
        client.send(Publish("t", b"x", 1, packet_id=id_))
    assert [it.packet_id for it in client.take(Puback)] == ids
    for id_ in ids:
        client.send(Publish("t", b"x", 2, packet_id=id_))
    assert [it.packet_id for it in client.take(Pubrec)] == ids
    sent = [it.packet_id for it in watcher.take(Publish) if it.qos == 2]
    for id_ in reversed(sent):
        watcher.send(Pubrec(id_))
    assert [it.packet_id for it in watcher.take(Pubrel)] == sent[::-1]


@proves(v311=("4.6.0-2", "4.6.0-3"))
def test_acknowledgements_of_one_burst_come_in_its_order() -> None:
    client = Talk().connect("c")
    ids = list(range(1, 50))
    client.send(*[Publish("t", b"x", 1, packet_id=id_) for id_ in ids])
    assert [it.packet_id for it in client.take(Puback)] == ids
    client.send(*[Publish("t", b"x", 2, packet_id=id_) for id_ in ids])
    assert [it.packet_id for it in client.take(Pubrec)] == ids
