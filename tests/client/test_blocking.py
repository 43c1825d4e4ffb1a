"""The network without asyncio, in scripts and in notebooks whose own loop runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import tidings
from tests.client.stub import in_a_thread
from tidings.errors import FilterError, InputError, NetworkError


@pytest.fixture
def address() -> Iterator[str]:
    with in_a_thread() as stub:
        yield stub.address


def test_a_script_publishes_and_reads(address: str) -> None:
    with tidings.connect(address).sync() as network, network.subscribe("t/#", where="n > 1") as events:
        for n in range(4):
            network.publish("t/x", {"n": n})
        assert [events.next(30).fields["n"] for _ in range(2)] == [2, 3]
        assert events.dropped == 0


def test_iteration_ends_when_it_has_been_quiet(address: str) -> None:
    with tidings.connect(address).sync() as network:
        with network.subscribe("t", quiet=0.05) as events:
            network.publish("t", "1")
            network.publish("t", "2")
            assert [event.text for event in events] == ["1", "2"]
        assert list(network.subscribe("t", quiet=0.01)) == []


def test_nothing_in_time_is_a_timeout(address: str) -> None:
    with tidings.connect(address).sync() as network, network.subscribe("t") as events:
        with pytest.raises(TimeoutError):
            events.next(timeout=0.01)
        network.publish("t", "later")
        assert events.next(timeout=30).text == "later"


def test_it_works_where_a_loop_runs_already(address: str) -> None:
    async def notebook() -> str:
        with tidings.connect(address).sync() as network, network.subscribe("t") as events:
            network.publish("t", "from a cell")
            return events.next(30).text

    assert asyncio.run(notebook()) == "from a cell"


def test_errors_come_to_the_caller(address: str) -> None:
    with tidings.connect(address).sync() as network:
        with pytest.raises(FilterError, match="character"), network.subscribe("t", where="a >"):
            pytest.fail("it was refused")
        with pytest.raises(NetworkError, match="nothing answered"):
            network.request("$tidings/unknown", {}, timeout=0.01)
    with pytest.raises(InputError, match="has not been entered"):
        network.publish("t", {})
    with (
        pytest.raises(NetworkError, match="is a broker running there"),
        tidings.connect("mqtt://127.0.0.1:1").sync(),
    ):
        pytest.fail("nobody is there")


def test_no_thread_is_left_behind(address: str) -> None:
    before = set(threading.enumerate())
    with tidings.connect(address).sync() as network:
        network.publish("t", {})
    assert set(threading.enumerate()) <= before
