"""MQTT clients at brokers that run: over links, restarts, TLS and WebSocket, with users and rules."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import queue
import shutil
import signal
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from tests.live.local import WITHIN_S, make_authority, run, until
from tests.live.mqtt import KEPT, TCP, Gone, RawClient, dial, dial_again
from tests.live.process import BrokerProcess
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.live.service import serve
from tidings.mqtt.events import Access, Rule
from tidings.mqtt.packets import (
    Asked,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
)
from tidings.mqtt.reasons import Reason
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay.settings import Settings
from tidings.service import users
from tidings.service.config import load
from tidings.service.tls import ClientTls
from tidings.service.users import Hashed, Users, add_user, remove_user


@contextlib.asynccontextmanager
async def broker(id_: str = "a", *others: Node, **options: Any) -> AsyncIterator[Node]:
    """A node that lets clients in, linked with others."""
    neighbours = tuple(other.address for other in others)
    node = Node(NodeOptions(id_, neighbours=neighbours, **{"listening": (TCP,), **options}))
    await node.start()
    try:
        await until(lambda: not node.synchronising, "letting clients in")
        yield node
    finally:
        await node.stop()


def place(node: Node, kind: str = "tcp") -> tuple[str, int]:
    host, _, port = node.mqtt_addresses[kind].rpartition(":")
    return host, int(port)


def aio(node: Node, client: str, **how: Any) -> aiomqtt.Client:
    host, port = place(node)
    return aiomqtt.Client(
        host, port, identifier=client, **{"protocol": aiomqtt.ProtocolVersion.V5, "timeout": WITHIN_S, **how}
    )


def with_where(text: str) -> PahoProperties:
    properties = PahoProperties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("where", text)
    return properties


async def first(client: aiomqtt.Client) -> aiomqtt.Message:
    async for message in client.messages:
        return message
    raise AssertionError("the messages have ended")


# Across the network.


def test_a_filter_at_one_broker_gets_what_is_published_at_another() -> None:
    async def story() -> None:
        async with (
            broker("a") as a,
            broker("b", a) as b,
            aio(b, "reader") as reader,
            aio(a, "writer") as writer,
        ):
            await reader.subscribe("traffic/#", qos=1, properties=with_where("severity >= 3"))
            for severity in (1, 4, 2, 5):
                await writer.publish("traffic/athens", json.dumps({"severity": severity}), qos=1)
            got = [json.loads(str((await first(reader)).payload, "utf-8")) for _ in range(2)]
            assert got == [{"severity": 4}, {"severity": 5}]
            # What nobody wants there has not gone over the link.
            assert a.counters.messages_out["Publish"] == 2

    run(story)


def test_a_broker_that_was_killed_is_named_by_suback_and_not_waited_for(tmp_path: Path) -> None:
    patient = Settings(redial_max_s=0.5, settle_s=3600.0)  # who waits for the killed one waits for ever

    def together(node: Node, *brokers: str) -> bool:
        status = node.broker.status(node.now())
        return any((tree.root,) == status.share and tree.members == brokers for tree in status.trees)

    async def story() -> None:
        async with broker("a", settings=patient) as a, broker("b", a, settings=patient) as b:
            killed = BrokerProcess("c", tmp_path, (a.address,))
            await killed.start()
            await until(lambda: all(together(node, "a", "b", "c") for node in (a, b)), "three brokers")
            await killed.kill()
            await until(lambda: all(together(node, "a", "b") for node in (a, b)), "two brokers")
            reader, _ = await RawClient.dial(b.mqtt_addresses["tcp"], "reader")
            reader.send(Subscribe(1, (Asked("t", 1),)))
            answer = await reader.next(Suback)
            assert (answer.reasons, answer.properties.reason_string) == ((1,), "absent: c")
            writer, _ = await RawClient.dial(a.mqtt_addresses["tcp"], "writer")
            await writer.publish("t", b"from a")
            assert (await reader.next(Publish)).payload == b"from a"

    run(story)


def test_a_client_of_3_1_1_and_one_of_5_hear_each_other() -> None:
    async def story() -> None:
        async with broker() as node:
            new = await dial(node, "new")
            await new.subscribe("a/#", 1)
            async with aio(node, "old", protocol=aiomqtt.ProtocolVersion.V311) as old:
                await old.subscribe("b/#", qos=1)
                await old.publish("a/b", b"from old", qos=1)
                assert (await new.receive()).payload == b"from old"
                await new.publish("b/c", b"from new")
                assert (await first(old)).payload == b"from new"

    run(story)


def test_devices_that_talk_in_turn_get_every_message_once_and_in_order() -> None:
    async def story() -> None:
        async with broker() as node:
            address = node.mqtt_addresses["tcp"]
            one, _ = await RawClient.dial(address, "one")
            other, _ = await RawClient.dial(address, "other")
            for device, topic in ((one, "to/one"), (other, "to/other")):
                assert await device.subscribe(topic) == 0
            for number in range(50):
                one.send(Publish("to/other", b"%3d" % number))
                assert (await other.next(Publish)).payload == b"%3d" % number
                other.send(Publish("to/one", b"%3d" % number))
                assert (await one.next(Publish)).payload == b"%3d" % number
            counters = node.front.status(node.now()).counters
            assert (counters["published"], counters["delivered"]) == (100, 100)
            for device in (one, other):
                await device.close()

    run(story)


# Over restarts.


def test_a_session_its_queue_and_retained_messages_survive_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with broker(folder=tmp_path) as node:
            address = node.mqtt_addresses["tcp"]
            reader, _ = await RawClient.dial(address, "reader", **KEPT)
            assert await reader.subscribe("t/#", 1) == 1
            await reader.close()
            writer, _ = await RawClient.dial(address, "writer")
            assert await writer.publish("t/1", b"queued") == 0
            await writer.publish("kept/1", b"retained", 2, retain=True)
        async with broker(folder=tmp_path) as node:
            address = node.mqtt_addresses["tcp"]
            reader, connack = await RawClient.dial(address, "reader", **KEPT)
            assert connack.session_present
            queued = await reader.next(Publish)
            assert (queued.topic, queued.payload) == ("t/1", b"queued")
            reader.send(Puback(queued.packet_id))
            await reader.subscribe("kept/#", 1)
            retained = await reader.next(Publish)
            assert (retained.payload, retained.retain) == (b"retained", True)
            writer, _ = await RawClient.dial(address, "writer")
            await writer.publish("t/2", b"new")
            assert (await reader.next(Publish)).payload == b"new"

    run(story)


def test_kill_minus_9_loses_nothing_that_was_acknowledged_and_repeats_nothing_unmarked(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        process = BrokerProcess("a", tmp_path)
        await process.start()
        acknowledged: set[int] = set()
        received: dict[int, int] = {}
        """How often each came without the mark of a repeat."""
        wanted = 200

        async def read() -> None:
            subscribed = False
            while len(received) < wanted:
                reader = await dial_again(lambda: process.mqtt, "reader", **KEPT)
                with contextlib.suppress(OSError, Gone):
                    if not subscribed:
                        subscribed = await reader.subscribe("t", 1) == 1
                        ready.set()
                    while len(received) < wanted:
                        publish = await reader.next(Publish)
                        number = int(publish.payload)
                        received[number] = received.get(number, 0) + (not publish.dup)
                        reader.send(Puback(publish.packet_id))

        async def write() -> None:
            await ready.wait()
            while len(acknowledged) < wanted:
                writer = await dial_again(lambda: process.mqtt, "writer")
                with contextlib.suppress(OSError, Gone):
                    for number in range(wanted):
                        if number not in acknowledged:
                            # A new publication each time: the session of the writer is not kept.
                            await writer.publish("t", b"%d" % number, number + 1)
                            acknowledged.add(number)

        ready = asyncio.Event()
        reading, writing = asyncio.ensure_future(read()), asyncio.ensure_future(write())
        await until(lambda: len(acknowledged) > wanted // 3)
        await process.kill()
        await process.start()
        await writing
        await reading
        assert set(received) == acknowledged == set(range(wanted))
        # One may have been published twice, since its PUBACK was lost.
        assert sum(count - 1 for count in received.values() if count) <= 1
        assert await process.terminate() == 0

    run(story)


# TLS, WebSocket, users.


def test_a_certificate_is_enough_to_come_in(tmp_path: Path) -> None:
    async def story() -> None:
        issue = make_authority(tmp_path)
        authority, certificate, key = issue("broker")
        own = issue("ann")[1:]
        rules = Access((Rule(True, "any", "of/%u/#", "ann"),))
        tls = ClientTls(certificate, key, authority, required=True)
        listening = (Listening("tls", "127.0.0.1", 0),)
        async with broker(listening=listening, client_tls=tls, access=rules) as node:
            context = ssl.create_default_context(cafile=str(authority))
            context.check_hostname = False
            context.load_cert_chain(*own)
            host, port = place(node, "tls")
            client = aiomqtt.Client(host, port, tls_context=context, identifier="c", timeout=WITHIN_S)
            async with client:
                await client.subscribe("of/ann/#")
                await client.publish("of/ann/x", b"mine")
                assert (await first(client)).payload == b"mine"

    run(story)


def test_paho_speaks_by_websocket() -> None:
    async def story() -> None:
        async with broker(listening=(Listening("ws", "127.0.0.1", 0),)) as node:
            await asyncio.get_running_loop().run_in_executor(None, by_websocket, *place(node, "ws"))

    def by_websocket(host: str, port: int) -> None:
        client = paho.Client(
            CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, transport="websockets", client_id="web"
        )
        client.ws_set_options(path="/mqtt")
        got: queue.Queue[bytes] = queue.Queue()
        granted: queue.Queue[Any] = queue.Queue()
        client.on_message = lambda _client, _data, message: got.put(bytes(message.payload))
        client.on_subscribe = lambda _client, _data, _mid, reasons, _properties: granted.put(reasons)
        client.connect(host, port)
        client.loop_start()
        client.subscribe("t/#", options=None, qos=1)
        assert [int(one.value) for one in granted.get(timeout=WITHIN_S)] == [1]
        large = b"x" * 300_000
        client.publish("t/1", large, qos=1)
        assert got.get(timeout=WITHIN_S) == large
        client.disconnect()
        client.loop_stop()

    run(story)


def test_users_rules_and_their_change_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "LOG2_N", 4)
    users_file, access_file = tmp_path / "users", tmp_path / "access.toml"
    add_user(users_file, "ann", b"secret")
    rule = '[[rule]]\nallow = true\ntopic = "{}/#"\n'
    access_file.write_text(rule.format("a"), encoding="utf-8")
    flags = {"id": "a", "listen": "127.0.0.1:0", "mqtt": "127.0.0.1:0", "http": "off"}
    files = {"users_file": str(users_file), "access_file": str(access_file)}

    async def story() -> None:
        nodes: list[Node] = []
        running = asyncio.ensure_future(
            serve([load(None, {}, {**flags, **files})], lambda service: nodes.append(service.node))
        )
        await until(lambda: nodes and not nodes[0].synchronising)
        address = nodes[0].mqtt_addresses["tcp"]
        ann = {"username": "ann", "password": b"secret"}
        for refused, reason in (
            ({}, Reason.NOT_AUTHORIZED),
            ({"username": "ann", "password": b"wrong"}, Reason.BAD_USER_NAME_OR_PASSWORD),
            ({"username": "bob", "password": b"secret"}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ):
            _, connack = await RawClient.dial(address, "c", **refused)
            assert connack.reason == reason
        client, connack = await RawClient.dial(address, "c", **ann)
        assert connack.reason == 0
        assert await client.subscribe("a/#", 1) == 1
        assert await client.subscribe("b/#", 1) == Reason.NOT_AUTHORIZED
        assert await client.publish("b/1", b"x") == Reason.NOT_AUTHORIZED

        access_file.write_text(rule.format("b"), encoding="utf-8")
        add_user(users_file, "bob", b"b")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "bob" in nodes[0]._clients.users.hashes)  # type: ignore[union-attr]
        assert await client.publish("b/1", b"x") in (0, Reason.NO_MATCHING_SUBSCRIBERS)
        bob, connack = await RawClient.dial(address, "d", username="bob", password=b"b")
        assert connack.reason == 0

        access_file.write_text("rule = 1\n", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGHUP)
        assert await client.publish("b/2", b"x") in (0, Reason.NO_MATCHING_SUBSCRIBERS)

        access_file.write_text(rule.format("b"), encoding="utf-8")
        remove_user(users_file, "ann")
        os.kill(os.getpid(), signal.SIGHUP)
        assert (await client.next(Disconnect)).reason == Reason.NOT_AUTHORIZED
        bob.send(Pingreq())
        await bob.next(Pingresp)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == {"a": ""}

    run(story)


def test_a_user_who_is_removed_while_the_password_is_checked_does_not_get_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users, "LOG2_N", 4)
    checking, removed = threading.Event(), threading.Event()
    fits = Hashed.fits

    def slowly(self: Hashed, password: bytes) -> bool:
        checking.set()
        assert removed.wait(WITHIN_S)
        return fits(self, password)

    monkeypatch.setattr(Hashed, "fits", slowly)
    access = Access((Rule(True, "any", "#"),), verify=True)

    async def story() -> None:
        async with broker(users=Users({"ann": Hashed.of(b"secret")}), access=access) as node:
            dialled = asyncio.ensure_future(
                RawClient.dial(node.mqtt_addresses["tcp"], "c", username="ann", password=b"secret")
            )
            await until(checking.is_set)
            node.change_access(Users({}), access)
            removed.set()
            _, connack = await dialled
            assert connack.reason == Reason.BAD_USER_NAME_OR_PASSWORD

    run(story)


# One client and the others.


def test_a_subscriber_that_takes_nothing_does_not_hold_up_others() -> None:
    async def story() -> None:
        async with broker(mqtt=MqttSettings(slow_bytes=65_536)) as node:
            address = node.mqtt_addresses["tcp"]
            slow, _ = await RawClient.dial(address, "slow")
            quick, _ = await RawClient.dial(address, "quick")
            writer, _ = await RawClient.dial(address, "writer")
            await slow.subscribe("t", 0)
            await quick.subscribe("t", 0)
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            payload = b"x" * 100_000
            for _ in range(200):
                writer.send(Publish("t", payload))
                assert (await quick.next(Publish)).payload == payload
            assert sum(node.status()["mqtt"]["counters"]["dropped"].values()) > 0  # type: ignore[index]
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            # It is still there, and got a part.
            assert (await slow.next(Publish)).payload == payload
            slow.send(Pingreq())
            await slow.next(Pingresp)

    run(story)


def test_who_says_nothing_is_closed_and_who_says_nonsense_harms_nobody() -> None:
    async def story() -> None:
        async with broker(mqtt=MqttSettings(connect_within_s=0.05)) as node:
            host, port = place(node)
            calm, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "calm")
            silent, _ = await asyncio.open_connection(host, port)
            assert await asyncio.wait_for(silent.read(), WITHIN_S) == b""
            for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\xff\xff", b"\0" * 100):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(nonsense)
                await asyncio.wait_for(reader.read(), WITHIN_S)
                writer.close()
            calm.send(Pingreq())
            await calm.next(Pingresp)

    run(story)


def test_clients_are_told_that_the_broker_stops() -> None:
    async def story() -> None:
        async with broker() as node:
            client, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "c")
        assert (await client.next(Disconnect)).reason == Reason.SERVER_SHUTTING_DOWN
        with pytest.raises(Gone):
            await client.packet()

    run(story)


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_the_log_says_who_comes_from_where_and_goes(caplog: pytest.LogCaptureFixture, level: int) -> None:
    caplog.set_level(level, "tidings.broker")

    async def story() -> str:
        async with broker() as node:
            client, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "c")
            await client.subscribe("t")
            await client.close()
            await until(lambda: "a client is disconnected" in caplog.messages)
            host, port = client.writer.get_extra_info("sockname")
            return f"{host}:{port}"

    address = run(story)
    lines = [(record.message, record.__dict__["about"]) for record in caplog.records]
    said = {text: about for text, about in lines if text.startswith("a client")}
    assert ("a client subscribes" in said) is (level == logging.DEBUG)
    for about in said.values():
        assert about.items() >= {"client": "c", "user": "", "address": address}.items()
    assert {"a client is connected", "a client is disconnected"} <= said.keys()


def test_a_client_that_is_expelled_is_told_so() -> None:
    async def story() -> None:
        async with broker() as node:
            client, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "c")
            node.expel("nobody")
            node.expel("c")
            assert (await client.next(Disconnect)).reason == Reason.ADMINISTRATIVE_ACTION

    run(story)


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="needs mosquitto's clients")
def test_mosquitto_sub_gets_what_its_filter_asks_for() -> None:
    async def story() -> None:
        async with broker() as node:
            words = ["-V", "5", "-p", str(place(node)[1]), "-t", "traffic/#", "-C", "1", "-i", "sub"]
            where = ["-D", "subscribe", "user-property", "where", "severity >= 3"]
            sub = await asyncio.create_subprocess_exec(
                "mosquitto_sub", *words, *where, stdout=asyncio.subprocess.PIPE
            )
            writer, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "writer")
            await until(lambda: node.status()["mqtt"]["subscriptions"] == 1)  # type: ignore[index]
            for severity in (1, 4):
                await writer.publish("traffic/athens", b'{"severity": %d}' % severity)
            told, _ = await asyncio.wait_for(sub.communicate(), WITHIN_S)
            assert told == b'{"severity": 4}\n'

    run(story)
