"""`$SYS/broker/…`: what the broker tells about itself."""

from __future__ import annotations

from tests.mqtt.talk import SETTLED_S, Talk


def uptime(talk: Talk) -> bytes:
    """What a client sees that asks now."""
    client = talk.connect()
    client.subscribe("$SYS/broker/uptime")
    (seen,) = client.payloads()
    return seen


def test_uptime_counts_from_the_start_and_not_from_the_first_look() -> None:
    talk = Talk()
    talk.advance(100.0)
    assert uptime(talk) == b"%d seconds" % (SETTLED_S + 100)
    talk.advance(5.0)
    assert uptime(talk) == b"%d seconds" % (SETTLED_S + 105)
    talk.crash()
    assert uptime(talk) == b"%d seconds" % SETTLED_S
