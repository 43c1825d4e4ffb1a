"""`tidings.connect` with a broker that does as it is told: what programs are promised when it fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec
import pytest
import uvloop

import tidings
from tests.client.stub import PATIENCE_S, Stub, running, until
from tidings.client import network as network_module
from tidings.client.network import Network
from tidings.errors import AccessError, FilterError, InputError, NetworkError, SubscriptionError
from tidings.mqtt import packets as p
from tidings.mqtt.codec import encode
from tidings.mqtt.reasons import Reason

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = []

Story = Callable[[Stub], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True, params=[asyncio.new_event_loop, uvloop.new_event_loop])
def _loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything on both loops that programs use."""
    LOOPS.append(request.param)
    yield
    LOOPS.pop()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants to wait for pauses that are meant for crowds."""
    monkeypatch.setattr(network_module, "PAUSE_S_MAX", 0.05)


def tell(story: Story, *, ours: bool = True) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE_S), running(ours=ours) as stub:
            await story(stub)

    run(bounded())


def run(story: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[-1]) as runner:
        runner.run(story)


# Publishing.


def test_fields_are_published_as_json_with_their_properties() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            await network.publish(
                "t/a", {"severity": 4}, user=[("k", "1"), ("k", "2")], expiry=60, retain=True
            )
        (publish,) = stub.of(p.Publish)
        assert isinstance(publish, p.Publish)
        assert (publish.topic, publish.payload, publish.qos, publish.retain) == (
            "t/a",
            b'{"severity":4}',
            1,
            True,
        )
        assert publish.properties == p.Properties(
            content_type="application/json", message_expiry_s=60, user=(("k", "1"), ("k", "2"))
        )

    tell(story)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_many_are_published_in_order_with_each_quality_of_service(qos: int) -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            await asyncio.gather(*(network.publish("t", str(n), qos=qos) for n in range(500)))
            await until(lambda: len(stub.of(p.Publish)) == 500)
        payloads = [one.payload for one in stub.of(p.Publish) if isinstance(one, p.Publish)]
        assert payloads == [str(n).encode() for n in range(500)]

    tell(story)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_publication_raises_with_the_reason(qos: int) -> None:
    async def story(stub: Stub) -> None:
        stub.refuse_publish = (Reason.NOT_AUTHORIZED, "user 'x' may not publish to 't'")
        async with tidings.connect(stub.address) as network:
            with pytest.raises(AccessError, match="user 'x' may not publish to 't'"):
                await network.publish("t", {}, qos=qos)
            assert stub.of(p.Pubrel) == []
            stub.refuse_publish = None
            # As many more as may be under way: none of them was taken up for ever.
            await asyncio.gather(*(network.publish("t", {}, qos=qos) for _ in range(50)))
            assert len(stub.of(p.Pubrel)) == (50 if qos == 2 else 0)

    tell(story)


def test_what_is_not_acknowledged_in_time_is_said_to_be_open() -> None:
    async def story(stub: Stub) -> None:
        stub.silent = True
        async with tidings.connect(stub.address) as network:
            with pytest.raises(NetworkError, match=r"was not acknowledged within 0\.01 s"):
                await network.publish("t", {}, timeout=0.01)

    tell(story)


@pytest.mark.parametrize("topic", ["", "a/#", "+", "a\x00b"])
def test_a_topic_that_cannot_be_published_to_is_refused_before_it_is_sent(topic: str) -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            with pytest.raises(InputError):
                await network.publish(topic, {})
        assert stub.of(p.Publish) == []

    tell(story)


def test_a_program_keeps_to_the_receive_maximum_of_the_broker() -> None:
    async def story(stub: Stub) -> None:
        stub.receive_maximum, stub.silent = 3, True
        async with tidings.connect(stub.address) as network:
            sending = [asyncio.create_task(network.publish("t", str(n))) for n in range(10)]
            await until(lambda: len(stub.of(p.Publish)) == 3)
            await network.publish("t", "0", qos=0, timeout=None)
            assert len(stub.of(p.Publish)) == 3
            for task in sending:
                task.cancel()

    tell(story)


def test_what_is_published_while_away_is_sent_when_back_and_only_then_done() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            await stub.stop()
            await until(lambda: not network.connected)
            sending = asyncio.create_task(network.publish("t", "while away"))
            await until(lambda: network.queued == 1)
            await network.publish("t", "with QoS 0", qos=0)
            assert not sending.done()
            await stub.start()
            await sending
            await until(lambda: len(stub.of(p.Publish)) == 2)
        assert [one.payload for one in stub.of(p.Publish) if isinstance(one, p.Publish)] == [
            b"while away",
            b"with QoS 0",
        ]

    tell(story)


def test_what_waits_is_bounded_and_the_publisher_waits_beyond() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address, queue_max=2) as network:
            await stub.stop()
            await until(lambda: not network.connected)
            await network.publish("t", "1", qos=0)
            await network.publish("t", "2", qos=0)
            with pytest.raises(NetworkError, match=r"was not sent within 0\.01 s"):
                await network.publish("t", "3", qos=0, timeout=0.01)
            fourth = asyncio.create_task(network.publish("t", "4", qos=0))
            await stub.start()
            await fourth
            await until(lambda: len(stub.of(p.Publish)) == 3)

    tell(story)


def test_what_was_under_way_when_the_connection_broke_is_sent_again() -> None:
    async def story(stub: Stub) -> None:
        stub.silent = True
        async with tidings.connect(stub.address) as network:
            sending = asyncio.create_task(network.publish("t", "x"))
            await until(lambda: len(stub.of(p.Publish)) == 1)
            stub.silent = False
            stub.cut()
            await sending
        assert len(stub.of(p.Publish)) == 2

    tell(story)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_larger_than_the_broker_takes_is_refused_before_it_is_sent(qos: int) -> None:
    async def story(stub: Stub) -> None:
        stub.packet_bytes_max = 2_000
        async with tidings.connect(stub.address) as network:
            with pytest.raises(InputError) as refused:
                await network.publish("t", b"x" * 2_000, qos=qos)
            size = len(encode(p.Publish("t", b"x" * 2_000, qos, packet_id=min(qos, 1)), p.Version.V5))
            assert str(refused.value) == (
                f"what was published to 't' is a packet of {size:,} bytes, and {stub.address} takes at most "
                "2,000; send less at once, or raise the broker's Maximum Packet Size (mqtt_packet_bytes_max)"
            )
            with pytest.raises(InputError, match="the subscription to 't' with its filters is a packet of"):
                async with network.subscribe("t", where=f"a = '{'x' * 2_000}'"):
                    pytest.fail("it was refused")
            # One that fits to the byte is sent.
            await network.publish("t", b"x" * (2_000 - (size - 2_000)), qos=qos)
            await until(lambda: len(stub.of(p.Publish)) == 1)
        assert stub.connections == 1

    tell(story)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_new_connection_does_not_take_fails_alone(qos: int) -> None:
    """One large publication was under way, one waits; neither fits the broker that comes back."""

    async def story(stub: Stub) -> None:
        stub.silent, stub.receive_maximum = True, 2
        async with tidings.connect(stub.address) as network:
            payloads = [b"x" * 2_000, b"small", b"x" * 3_000, b"small too"]
            sending = [asyncio.create_task(network.publish("t", one, qos=qos)) for one in payloads]
            await until(lambda: len(stub.of(p.Publish)) == 2)
            await network.publish("t", b"x" * 4_000, qos=0)
            stub.silent, stub.packet_bytes_max = False, 1_000
            stub.heard.clear()
            stub.cut()
            done = await asyncio.gather(*sending, return_exceptions=True)
            assert [type(one) for one in done] == [InputError, type(None), InputError, type(None)]
            assert [one.payload for one in stub.of(p.Publish) if isinstance(one, p.Publish)] == [
                b"small",
                b"small too",
            ]
        assert stub.connections == 2

    tell(story)


def test_what_the_broker_has_already_is_completed_on_a_connection_that_takes_less() -> None:
    async def story(stub: Stub) -> None:
        stub.hold_pubcomp = True
        async with tidings.connect(stub.address, client_id="c", session_expiry=60) as network:
            sending = asyncio.create_task(network.publish("t", b"x" * 2_000, qos=2))
            await until(lambda: len(stub.of(p.Pubrel)) == 1)
            stub.hold_pubcomp, stub.packet_bytes_max = False, 1_000
            stub.cut()
            await sending
        assert (len(stub.of(p.Publish)), len(stub.of(p.Pubrel))) == (1, 2)

    tell(story)


# Subscribing.


def test_a_subscription_delivers_what_its_filter_wants() -> None:
    async def story(stub: Stub) -> None:
        async with (
            tidings.connect(stub.address) as network,
            network.subscribe("traffic/#", where="severity >= 3", unknown="assume") as events,
        ):
            (asked,) = stub.of(p.Subscribe)
            assert isinstance(asked, p.Subscribe)
            assert asked.properties.user == (("where", "severity >= 3"), ("unknown", "assume"))
            for severity in (1, 4, 2, 5):
                await network.publish("traffic/a1", {"severity": severity})
            assert [(await events.next()).fields["severity"] for _ in range(2)] == [4, 5]
            assert events.waiting == 0
        assert len(stub.of(p.Unsubscribe)) == 1

    tell(story)


def test_a_subscription_can_be_iterated_without_being_entered() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            seen = []

            async def read() -> None:
                async for event in network.subscribe("t"):
                    seen.append(event.text)
                    if len(seen) == 2:
                        return

            reading = asyncio.create_task(read())
            await until(lambda: bool(stub.of(p.Subscribe)))
            await network.publish("t", "1")
            await network.publish("t", "2")
            await reading
            await until(lambda: bool(stub.of(p.Unsubscribe)))
            assert seen == ["1", "2"]

    tell(story)


def test_a_refused_filter_raises_with_its_caret() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            where = "severity >= 3 AND road LIK 'A%'"
            with pytest.raises(FilterError) as here:
                tidings.parse_filter(where)
            with pytest.raises(FilterError) as there:
                async with network.subscribe("t", where=where):
                    pytest.fail("it was refused")
            assert str(there.value) == str(here.value)
            assert "^" in str(there.value)
            async with network.subscribe("t", where="severity >= 3"):
                pass

    tell(story)


def test_a_broker_that_would_ignore_a_filter_is_not_asked_with_one() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            with pytest.raises(SubscriptionError, match="no Tidings broker"):
                async with network.subscribe("t", where="a = 1"):
                    pytest.fail("it would deliver everything")
            with pytest.raises(SubscriptionError, match="it would ignore `every`"):
                async with network.subscribe("t", every="5s"):
                    pytest.fail("it would deliver each version")
            with pytest.raises(NetworkError, match="no Tidings broker"):
                await network.request("$tidings/topic/list", {})
            async with network.subscribe("t") as plain:
                await network.publish("t", "x")
                assert (await plain.next()).text == "x"

    tell(story, ours=False)


def test_a_subscription_asks_for_a_cycle_and_for_open_events() -> None:
    async def story(stub: Stub) -> None:
        async with (
            tidings.connect(stub.address) as network,
            network.subscribe("t", where="a = 1", every="5s"),
            network.subscribe("u", retained="new"),
            network.subscribe("v", retained="new", snapshot=False),
        ):
            asked = [one for one in stub.of(p.Subscribe) if isinstance(one, p.Subscribe)]
        assert asked[0].properties.user == (("where", "a = 1"), ("every", "5s"))
        assert [one.asked[0].retain_handling for one in asked] == [0, 1, 2]

    tell(story)


def test_no_content_filter_may_be_said_in_any_way() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            for at, where in enumerate((None, "", (), [], [""])):
                async with network.subscribe(f"t/{at}", where=where):
                    pass
        asked = [it for it in stub.of(p.Subscribe) if isinstance(it, p.Subscribe)]
        assert [it.properties.user for it in asked] == [()] * 5

    tell(story)


@pytest.mark.parametrize("where", [3, ["a = 1", None], b"a = 1", {"a": 1}])
def test_what_is_no_content_filter_is_refused(where: Any) -> None:
    network = tidings.connect("mqtt://127.0.0.1:1")
    with pytest.raises(InputError, match=r"where is .*it is the text of a content filter, a Filter, several"):
        network.subscribe("t", where=where)


def test_one_topic_filter_is_subscribed_to_once() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network, network.subscribe("t", where="a = 1"):
            with pytest.raises(SubscriptionError, match="join the filters with OR"):
                async with network.subscribe("t", where="a = 2"):
                    pytest.fail("it would have replaced the first")
        assert len(stub.of(p.Subscribe)) == 1

    tell(story)


def test_overlapping_subscriptions_get_what_is_theirs_once_each() -> None:
    async def story(stub: Stub) -> None:
        async with (
            tidings.connect(stub.address) as network,
            network.subscribe("t/#", where="a > 1") as some,
            network.subscribe("t/x") as one,
        ):
            await network.publish("t/x", {"a": 1})
            await network.publish("t/x", {"a": 2})
            await network.publish("t/y", {"a": 3})
            assert [(await one.next()).fields["a"] for _ in range(2)] == [1, 2]
            assert [(await some.next()).fields["a"] for _ in range(2)] == [2, 3]
            assert some.waiting == one.waiting == 0

    tell(story)


def test_an_event_is_acknowledged_when_the_next_is_asked_for_in_the_order_of_arrival() -> None:
    async def story(stub: Stub) -> None:
        def acknowledged() -> list[int]:
            return [one.packet_id for one in stub.of(p.Puback) if isinstance(one, p.Puback)]

        async with (
            tidings.connect(stub.address) as network,
            network.subscribe("slow") as slow,
            network.subscribe("fast") as fast,
        ):
            for topic in ("slow", "fast", "fast"):
                await network.publish(topic, {})
            await fast.next()
            await fast.next()
            await network.publish("nobody", {})
            assert acknowledged() == []
            await slow.next()
            waiting = asyncio.create_task(slow.next())
            await until(lambda: acknowledged() == [1, 2])
            waiting.cancel()
        assert acknowledged() == [1, 2, 3]

    tell(story)


def test_of_qos_0_the_oldest_are_dropped_and_counted() -> None:
    async def story(stub: Stub) -> None:
        async with (
            tidings.connect(stub.address) as network,
            network.subscribe("t", waiting_max=3) as events,
            network.subscribe("end") as end,
        ):
            for n in range(10):
                await network.publish("t", str(n), qos=0)
            await network.publish("end", "")
            await end.next()
            assert events.dropped == 7
            assert [(await events.next()).text for _ in range(3)] == ["7", "8", "9"]

    tell(story)


def test_of_qos_1_the_broker_keeps_what_the_program_does_not_read() -> None:
    async def story(stub: Stub) -> None:
        count = network_module.RECEIVE_MAXIMUM + 100
        async with tidings.connect(stub.address) as network, network.subscribe("t") as events:
            await asyncio.gather(*(network.publish("t", str(n)) for n in range(count)))
            (session,) = stub.sessions.values()
            assert len(session.waiting) == 100
            assert [(await events.next()).text for _ in range(count)] == [str(n) for n in range(count)]
            assert events.dropped == 0

    tell(story)


def test_a_wrong_word_is_refused_before_anything_is_sent() -> None:
    network = tidings.connect("mqtt://localhost")
    wrong: dict[str, Any]
    for wrong in ({"qos": 3}, {"unknown": "perhaps"}, {"retained": "some"}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} is"):
            network.subscribe("t", **wrong)
    with pytest.raises(InputError, match="every: '5' is not a duration"):
        network.subscribe("t", every="5")
    with pytest.raises(InputError, match="can only be resumed by the name of its client"):
        tidings.connect("mqtt://localhost", session_expiry=60)


# Losing the connection.


def test_subscriptions_are_made_again_on_a_new_connection() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network, network.subscribe("t", where="a = 1") as events:
            await network.publish("t", {"a": 1, "n": 1})
            stub.cut()
            await until(lambda: len(stub.of(p.Subscribe)) == 2)
            await network.publish("t", {"a": 2})
            await network.publish("t", {"a": 1, "n": 2})
            assert [(await events.next()).fields["n"] for _ in range(2)] == [1, 2]

    tell(story)


def test_a_subscription_that_is_refused_when_made_again_tells_its_reader() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network, network.subscribe("t", where="a = 1") as events:
            stub.ours = False
            stub.cut()
            with pytest.raises(SubscriptionError, match="no Tidings broker"):
                await events.next()
            await network.publish("t", {})

    tell(story)


class Pauses:
    """Instead of random pauses: the longest that each may be, and none is waited for."""

    def __init__(self) -> None:
        self.longest_s: list[float] = []

    def uniform(self, _: float, longest_s: float) -> float:
        self.longest_s.append(longest_s)
        return 0.0


def test_pauses_grow_if_connections_are_accepted_and_closed_at_once() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address, pause_max=1.0) as network:
            pauses = Pauses()
            network._random = pauses  # type: ignore[assignment]
            stub.expel_at_once = Reason.SERVER_BUSY
            stub.cut()
            await until(lambda: stub.connections >= 8)
            # There is a connection between CONNACK and DISCONNECT, if they are not read together.
            await until(lambda: not network.connected and network.address is None)
            stub.expel_at_once = None
            await network.publish("t", "x")
            # The connection held for a moment only: what comes next is not the first failure.
            stub.cut()
            await network.publish("t", "y")
        assert pauses.longest_s[:7] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        assert pauses.longest_s[-1] == 1.0
        assert len(pauses.longest_s) == stub.connections - 1

    tell(story)


def test_pauses_begin_anew_after_a_connection_that_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "STEADY_S", 0.0)

    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network:
            network._random = pauses = Pauses()  # type: ignore[assignment]
            for losses in (1, 2, 3):
                stub.cut()
                while len(pauses.longest_s) < losses:
                    await asyncio.sleep(0.005)
                await until(lambda: network.connected)
        assert pauses.longest_s == [0.0, 0.0, 0.0]

    tell(story)


def test_connack_and_disconnect_in_one_read_are_no_connection() -> None:
    async def story(stub: Stub) -> None:
        async with running() as other, tidings.connect([stub.address, other.address]) as network:
            stub.silent = True
            # paho reads as many packets at once as it has publications under way.
            sending = [asyncio.create_task(network.publish("t", str(n))) for n in range(3)]
            await until(lambda: len(stub.of(p.Publish)) == 3)
            stub.expel_at_once = Reason.SERVER_BUSY
            stub.cut()
            await asyncio.gather(*sending)
            assert str(network.address) == other.address
            assert (stub.connections, other.connections) == (2, 1)

    tell(story)


def test_a_client_that_is_accepted_and_pushed_out_at_once_does_not_come_back() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address, client_id="c") as network:
            stub.expel_at_once = Reason.SESSION_TAKEN_OVER
            stub.cut()
            with pytest.raises(NetworkError, match=r"session taken over .* it is not connected again"):
                await network.publish("t", {})
        assert stub.connections == 2

    tell(story)


def test_another_broker_is_used_when_the_first_is_gone() -> None:
    async def story(stub: Stub) -> None:
        async with running() as other, tidings.connect([stub.address, other.address]) as network:
            async with network.subscribe("t") as events:
                await stub.stop()
                await until(lambda: bool(other.of(p.Subscribe)))
                await network.publish("t", "there")
                assert (await events.next()).text == "there"
                assert str(network.address) == other.address
            await stub.start()

    tell(story)


def test_the_first_broker_that_answers_is_taken() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(["mqtt://127.0.0.1:1", stub.address]) as network:
            assert str(network.address) == stub.address

    tell(story)


def test_brokers_that_do_not_answer_are_all_named() -> None:
    async def story() -> None:
        with pytest.raises(NetworkError, match=r"no broker will do:\n.*127.0.0.1:1 .*\n.*127.0.0.1:2 "):
            async with tidings.connect("mqtt://127.0.0.1:1,mqtt://127.0.0.1:2"):
                pytest.fail("nobody is there")

    run(story())


def test_refused_credentials_are_told_and_not_tried_again() -> None:
    async def story(stub: Stub) -> None:
        stub.refuse_connect = (Reason.BAD_USER_NAME_OR_PASSWORD, None)
        with pytest.raises(AccessError, match="TIDINGS_PASSWORD"):
            async with tidings.connect(stub.address, user="u", password="wrong"):
                pytest.fail("it was refused")
        (connect,) = stub.of(p.Connect)
        assert isinstance(connect, p.Connect)
        assert (connect.username, connect.password) == ("u", b"wrong")

    tell(story)


def test_pauses_between_attempts_grow_to_what_was_asked_for() -> None:
    class Chance(random.Random):
        def __init__(self) -> None:
            super().__init__()
            self.pauses: list[float] = []

        def uniform(self, _: float, most: float) -> float:
            self.pauses.append(most)
            return 0.0

    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address, pause_max=0.3) as network:
            network._random = chance = Chance()
            await stub.stop()
            await until(lambda: len(chance.pauses) >= 6)
            await stub.start()
            await network.publish("t", "x")
        assert chance.pauses[:6] == [0.0, 0.1, 0.2, 0.3, 0.3, 0.3]

    tell(story)


def test_a_session_taken_over_by_another_client_is_not_fought_for() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address, client_id="c") as network, network.subscribe("t") as events:
            stub.expel(Reason.SESSION_TAKEN_OVER)
            with pytest.raises(NetworkError, match="session taken over"):
                await events.next()
            with pytest.raises(NetworkError, match="session taken over"):
                await network.publish("t", {})
        assert len(stub.of(p.Connect)) == 1

    tell(story)


def test_bytes_that_are_not_mqtt_cost_the_connection_and_no_more() -> None:
    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network, network.subscribe("t") as events:
            for client in stub.clients:
                client.transport.write(b"\x30\x04\x00\x09ab")
                client.transport.write(b"\xf0\xff\xff\xff\xff\xff")
            await until(lambda: len(stub.of(p.Subscribe)) == 2)
            await network.publish("t", "still here")
            assert (await events.next()).text == "still here"

    tell(story)


# Sessions.


def durable(stub: Stub) -> Network:
    return tidings.connect(stub.address, client_id="c", session_expiry=3600)


def test_a_resumed_session_is_not_subscribed_again_and_repeats_nothing() -> None:
    async def story(stub: Stub) -> None:
        async with durable(stub) as network, network.subscribe("t") as events:
            for n in range(5):
                await network.publish("t", str(n))
            assert (await events.next()).text == "0"
            assert (await events.next()).text == "1"
            await until(lambda: len(stub.of(p.Puback)) == 1)
            stub.cut()
            await until(lambda: len(stub.of(p.Connect)) == 2 and network.connected)
            await network.publish("t", "5")
            assert [(await events.next()).text for _ in range(4)] == ["2", "3", "4", "5"]
        assert len(stub.of(p.Subscribe)) == 1
        assert network.session_present
        assert not stub.sessions["c"].unacknowledged

    tell(story)


def test_a_program_that_fails_gets_what_it_had_not_finished_when_it_starts_again() -> None:
    async def story(stub: Stub) -> None:
        async def fails() -> None:
            async with durable(stub) as network, network.subscribe("t") as events:
                for n in range(3):
                    await network.publish("t", str(n))
                await events.next()
                await events.next()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails()
        async with durable(stub) as network:
            await until(lambda: network.session_present)
            await network.publish("t", "3")
            async with network.subscribe("t") as events:
                assert [(await events.next()).text for _ in range(3)] == ["1", "2", "3"]
        assert stub.of(p.Unsubscribe) == []

    tell(story)


def test_a_session_can_drop_a_subscription() -> None:
    async def story(stub: Stub) -> None:
        async with durable(stub) as network:
            async with network.subscribe("t", keep=False) as events:
                await network.publish("t", "unread")
            assert events.waiting == 0
            await until(lambda: not stub.sessions["c"].unacknowledged)
            assert stub.sessions["c"].asked == {}

    tell(story)


# Asking.


def test_a_request_gets_its_own_answer() -> None:
    async def story(stub: Stub) -> None:
        stub.answers = {"$tidings/a": b'{"ok": true, "n": 1}', "$tidings/b": b'{"ok": false, "reason": "no"}'}
        async with tidings.connect(stub.address) as network:
            first, second = await asyncio.gather(
                network.request("$tidings/a", {}), network.request("$tidings/b", {"x": 1})
            )
            assert first == {"ok": True, "n": 1}
            assert second == {"ok": False, "reason": "no"}
        assert len(stub.of(p.Subscribe)) == 1

    tell(story)


def test_a_request_can_be_made_by_url() -> None:
    from tests.client.requests import ask

    async def story(stub: Stub) -> None:
        stub.answers = {"$tidings/a": b'{"ok": true}'}
        assert await ask(stub.address, "$tidings/a") == {"ok": True}
        with pytest.raises(NetworkError, match=r"nothing answered '\$tidings/unknown' within 0.01 s"):
            await ask(stub.address, "$tidings/unknown", timeout=0.01)

    tell(story)


def test_an_answer_that_is_no_object_is_an_error_of_the_network() -> None:
    async def story(stub: Stub) -> None:
        stub.answers = {"$tidings/a": b"[]"}
        async with tidings.connect(stub.address) as network:
            with pytest.raises(NetworkError, match="cannot be read"):
                await network.request("$tidings/a", {})

    tell(story)


# Using it wrongly.


def test_a_network_is_entered_before_it_is_used_and_only_once() -> None:
    async def story(stub: Stub) -> None:
        network = tidings.connect(stub.address)
        with pytest.raises(InputError, match="has not been entered"):
            await network.publish("t", {})
        with pytest.raises(TypeError, match=r"async with tidings.connect"), network:
            pytest.fail("it needs a loop")
        async with network:
            with pytest.raises(InputError, match="entered already"):
                await network.__aenter__()
        with pytest.raises(NetworkError, match="was left"):
            await network.publish("t", {})

    tell(story)


def test_a_will_is_left_with_the_broker() -> None:
    async def story(stub: Stub) -> None:
        will = p.Will("gone", b"{}", 1, True, p.Properties(will_delay_s=5))
        async with tidings.connect(stub.address, will=will, client_id="w"):
            pass
        (connect,) = stub.of(p.Connect)
        assert isinstance(connect, p.Connect)
        assert connect.will == will
        await until(lambda: len(stub.of(p.Disconnect)) == 1)

    tell(story)


def test_a_struct_is_published_as_its_fields() -> None:
    class Accident(msgspec.Struct):
        severity: int

    async def story(stub: Stub) -> None:
        async with tidings.connect(stub.address) as network, network.subscribe("t") as events:
            await network.publish("t", Accident(4))
            assert (await events.next()).fields == {"severity": 4}

    tell(story)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_however_often_connections_break(seed: int) -> None:
    draws = random.Random(seed)
    count = 300

    async def story(stub: Stub) -> None:
        async def trouble() -> None:
            while not finished.is_set():
                await until(enough(len(stub.heard) + draws.randint(1, 150)))
                stub.cut()

        def enough(heard: int) -> Callable[[], bool]:
            return lambda: len(stub.heard) >= heard or finished.is_set()

        finished = asyncio.Event()
        troubling = asyncio.create_task(trouble())
        async with (
            tidings.connect(stub.address, client_id="writer", session_expiry=60) as writer,
            durable(stub) as reader,
            reader.subscribe("t") as events,
        ):
            sending = asyncio.gather(*(writer.publish("t", str(n)) for n in range(count)))
            got: list[int] = []
            while len(set(got)) < count:
                got.append(int((await events.next(PATIENCE_S)).text))
            await sending
            finished.set()
            await troubling
        # Whatever came again, a first time came in order.
        assert list(dict.fromkeys(got)) == list(range(count))

    tell(story)
