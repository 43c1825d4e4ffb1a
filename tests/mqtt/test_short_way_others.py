"""What the short way leaves to the long one: programs that are no MQTT clients, and what counts as heard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.mqtt.talk import V5, Talk
from tidings.language.subscriptions import Subscription
from tidings.mqtt.codec import encode
from tidings.mqtt.events import BytesReceived
from tidings.mqtt.packets import Publish
from tidings.overlay.events import Deliver, SessionOpened, SubscriptionAsked


class Attached(Talk):
    """A bench with a program beside the clients, which keeps what the program is given."""

    def _carry_out(self, effects: Iterable[Any]) -> None:
        if not hasattr(self, "given"):
            self.given: list[bytes] = []
        effects = list(effects)
        self.given += [effect.publication.payload for effect in effects if isinstance(effect, Deliver)]
        super()._carry_out(effects)


@pytest.mark.parametrize("where", ["", "n >= 3"])
@pytest.mark.parametrize("count", [1, 20])
def test_a_program_with_a_content_filter_gets_what_clients_publish(where: str, count: int) -> None:
    talk = Attached()
    talk.tell(SessionOpened("program"))
    talk.tell(SubscriptionAsked("program", "x", Subscription("t", where)))
    listener = talk.connect("listener")
    listener.subscribe("t", user=(("where", "n >= 2"),))
    publisher = talk.connect("publisher")
    payloads = [b'{"n":%d}' % (3 + number) for number in range(count)]
    burst = b"".join(encode(Publish("t", payload), V5) for payload in payloads)
    talk.tell(BytesReceived(publisher.connection, burst))
    assert talk.given == payloads
    assert [packet.payload for packet in listener.take(Publish)] == payloads


@pytest.mark.parametrize("topic", ["t", "$share/group/t"])
def test_a_client_that_publishes_all_the_time_is_not_taken_for_silent(topic: str) -> None:
    talk = Talk()
    talk.connect("subscriber").subscribe(topic)
    publisher = talk.connect("publisher", keep_alive_s=10)
    before = talk.front.status(talk.now).counters["packets_in"]
    for _ in range(40):
        publisher.send(Publish("t", b"x"))
        talk.advance(1.0)
    assert not publisher.closed
    assert talk.front.status(talk.now).counters["packets_in"] - before == 40
