"""A mosquitto that is bridged to a broker, with the defaults of its bridges."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from tests.live.local import WITHIN_S, run, until
from tests.live.test_mqtt import aio, broker, place
from tidings.live.node import Node
from tidings.local.network import LOOPBACK, free_ports

PROGRAM = shutil.which(
    "mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin"
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs mosquitto")


@contextlib.contextmanager
def bridged(node: Node, version: str, folder: Path) -> Iterator[int]:
    """A mosquitto with a bridge to the node; its port."""
    assert PROGRAM is not None
    (port,) = free_ports(1, 24_000)
    host, other = place(node)
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} {LOOPBACK}\nallow_anonymous true\n"
        f"connection house\naddress {host}:{other}\ntopic # both 1\nbridge_protocol_version {version}\n",
        encoding="utf-8",
    )
    process = subprocess.Popen([PROGRAM, "-c", config], stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait(WITHIN_S)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv50"])
def test_messages_cross_a_bridge_once_in_both_directions(version: str, tmp_path: Path) -> None:
    async def texts(client: aiomqtt.Client, last: str) -> list[str]:
        got: list[str] = []
        async for message in client.messages:
            got.append(str(message.payload, "utf-8"))
            if got[-1] == last:
                return got
        raise AssertionError("the messages have ended")

    async def story() -> None:
        async with broker("a") as node:
            with bridged(node, version, tmp_path) as port:
                await until(lambda: answers(port), "mosquitto")
                await until(lambda: node.front.status(node.now()).subscriptions, "the bridge's subscription")
                async with (
                    aio(node, "here") as here,
                    aiomqtt.Client(LOOPBACK, port, identifier="there", timeout=WITHIN_S) as there,
                ):
                    await here.subscribe("t/#", qos=1)
                    await there.subscribe("t/#", qos=1)
                    # What came back over the bridge would be between two messages that cross it one after the
                    # other.
                    await there.publish("t/1", "from there", qos=1, retain=True)
                    assert await texts(here, "from there") == ["from there"]
                    await here.publish("t/2", "from here", qos=1)
                    assert await texts(there, "from here") == ["from there", "from here"]
                    await there.publish("t/3", "last", qos=1)
                    assert await texts(here, "last") == ["from here", "last"]
                    assert await texts(there, "last") == ["last"]
                async with aio(node, "late") as late:
                    await late.subscribe("t/#", qos=1)
                    message = await asyncio.wait_for(anext(aiter(late.messages)), WITHIN_S)
                    assert (str(message.payload, "utf-8"), message.retain) == ("from there", True)
            status = node.front.status(node.now())
            assert not status.refusals
            assert status.counters["connected"] == 3, "the bridge has connected at the first attempt"

    run(story)
