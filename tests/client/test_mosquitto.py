"""`tidings.connect` and the load generator with a broker that others wrote, where it is installed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidings
from tidings.client import network as network_module
from tidings.client.urls import read_all
from tidings.errors import SubscriptionError
from tidings.load import load as loads
from tidings.load.load import Load
from tidings.local.network import LOOPBACK, free_ports, wait_for
from tidings.mqtt.packets import Version

PATIENCE_S = 60.0
PROGRAM = shutil.which(
    "mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin"
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs mosquitto")


class Mosquitto:
    """A process of it, that can be killed and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1, 23_000)
        self.url = f"mqtt://{LOOPBACK}:{self.port}"
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} {LOOPBACK}\nallow_anonymous true\nset_tcp_nodelay true\n", encoding="utf-8"
        )
        self.start()

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen([PROGRAM, "-c", self._config], stderr=subprocess.DEVNULL)
        assert wait_for(self._answers, PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    started = Mosquitto(tmp_path)
    yield started
    started.kill()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_reports_arrive_with_their_properties(mosquitto: Mosquitto, qos: int) -> None:
    with tidings.connect(mosquitto.url).sync() as network, network.subscribe("t/#", qos=qos) as events:
        for n in range(100):
            network.publish(f"t/{n}", {"n": n}, qos=qos, user=[("k", "1"), ("k", "2")])
        got = [events.next(PATIENCE_S) for _ in range(100)]
    assert [one.fields["n"] for one in got] == list(range(100))
    assert {(one.qos, one.properties.content_type) for one in got} == {(qos, "application/json")}
    assert {one.properties.user for one in got} == {(("k", "1"), ("k", "2"))}


def test_overlapping_subscriptions_get_what_is_theirs(mosquitto: Mosquitto) -> None:
    with (
        tidings.connect(mosquitto.url).sync() as network,
        network.subscribe("t/#") as wide,
        network.subscribe("t/x") as narrow,
    ):
        network.publish("t/x", "1")
        network.publish("t/y", "2")
        assert [wide.next(PATIENCE_S).text for _ in range(2)] == ["1", "2"]
        assert narrow.next(PATIENCE_S).text == "1"


def test_retained_messages_come_first(mosquitto: Mosquitto) -> None:
    with tidings.connect(mosquitto.url).sync() as network:
        network.publish("t", "kept", retain=True)
        with network.subscribe("t") as events:
            kept = events.next(PATIENCE_S)
        assert (kept.text, kept.retained) == ("kept", True)


def test_a_filter_is_not_sent_where_it_would_be_ignored(mosquitto: Mosquitto) -> None:
    with (
        tidings.connect(mosquitto.url).sync() as network,
        pytest.raises(SubscriptionError, match="no Tidings broker"),
        network.subscribe("t", where="a = 1"),
    ):
        pytest.fail("everything would be delivered")


def test_a_killed_broker_is_found_again(mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "PAUSE_S_MAX", 0.2)

    async def story() -> str:
        async with tidings.connect(mosquitto.url) as network, network.subscribe("t") as events:
            await asyncio.to_thread(mosquitto.kill)
            late = asyncio.create_task(network.publish("t", "after"))
            await asyncio.to_thread(mosquitto.start)
            async with asyncio.timeout(PATIENCE_S):
                await late
                return (await events.next()).text

    assert asyncio.run(story()) == "after"


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_load_is_counted_right(mosquitto: Mosquitto, version: Version, qos: int) -> None:
    load = Load(
        read_all(mosquitto.url), publishers=2, subscribers=2, topics=5, mixed=True, messages=200, qos=qos,
        version=version,
    )  # fmt: skip
    outcome = asyncio.run(loads.run(load))
    assert (outcome.sent, outcome.received, outcome.lost, outcome.repeated) == (400, 800, 0, 0)
