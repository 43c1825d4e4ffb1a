"""Hostile clients at a broker that runs, beside one that pings: it is answered again and again meanwhile.

How much work a turn does is counted in `tests/mqtt/test_hostile_acts.py`; here it is seen that the loop, the
sockets and the threads leave the others their turns. Nothing is timed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.live.local import run, until
from tests.live.mqtt import Gone, RawClient
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.mqtt.events import Access, Rule
from tidings.mqtt.packets import Asked, Pingreq, Pingresp, Properties, Suback, Subscribe
from tidings.mqtt.reasons import Reason
from tidings.overlay.routing.sessions import Sessions
from tidings.service import users
from tidings.service.http import Pages
from tidings.service.users import Hashed, Users

TCP = (Listening("tcp", "127.0.0.1", 0),)

ENOUGH = 5
"""Pings that are answered while something expensive is under way."""


class Pinger:
    """Pings, one after the other, until it is stopped."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.answered = 0
        self._stopped = False
        self._task = asyncio.create_task(self._ping())

    async def stop(self) -> None:
        self._stopped = True
        await self._task

    async def _ping(self) -> None:
        while not self._stopped:
            self._client.send(Pingreq())
            await self._client.next(Pingresp)
            self.answered += 1


@contextlib.asynccontextmanager
async def pinged(**options: object) -> AsyncIterator[tuple[Node, Pinger]]:
    """A broker, and a client that pings it."""
    node = Node(NodeOptions("a", listening=TCP, **options))  # type: ignore[arg-type]
    await node.start()
    try:
        await until(lambda: not node.synchronising)
        client, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "pinger")
        pinger = Pinger(client)
        try:
            yield node, pinger
        finally:
            await pinger.stop()
    finally:
        await node.stop()


def expensive(number: int) -> Subscribe:
    where = " OR ".join(f"a{at} = {number}" for at in range(40))
    return Subscribe(number, (Asked(f"t/{number}"),), Properties(user=(("where", where),)))


def test_pings_are_answered_while_thousands_of_topic_filters_are_asked_for() -> None:
    async def story() -> None:
        async with pinged() as (node, pinger):
            hostile, _ = await RawClient.dial(node.mqtt_addresses["tcp"], "hostile")
            before = pinger.answered
            hostile.send(Subscribe(1, tuple(Asked(f"a/{at}/+") for at in range(9_000))))
            suback = await hostile.next(Suback)
            assert suback.reasons == (0,) * 9_000
            assert pinger.answered - before >= ENOUGH

    run(story)


def test_what_closed_connections_have_asked_for_is_not_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    ask = Sessions.ask

    def counted(*given: Any) -> bool:
        nonlocal asked
        asked += 1
        return ask(*given)

    monkeypatch.setattr(Sessions, "ask", counted)

    async def story() -> None:
        async with pinged() as (node, pinger):
            hostile = [(await RawClient.dial(node.mqtt_addresses["tcp"], f"h{at}"))[0] for at in range(4)]
            for client in hostile:
                client.send(*(expensive(at + 1) for at in range(500)))
            for client in hostile:
                await client.next(Suback)
            before = pinger.answered
            await until(lambda: pinger.answered >= before + ENOUGH, "answers to pings")
            for client in hostile:
                client.writer.transport.abort()
            await until(lambda: node.front.status(node.now()).clients == 1, "the end of the connections")
            assert node.front.status(node.now()).subscriptions == 0
            assert asked < 4 * 500, "not all was asked for when they closed, and nothing was behind it"

    run(story)


def test_a_good_user_is_let_in_under_a_flood_of_wrong_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """All from one address; the good user is not known to the broker from before."""
    monkeypatch.setattr(users, "LOG2_N", 11)
    known = Users({name: Hashed.of(b"right") for name in ("good", "other")})
    access = Access((Rule(True, "any", "#"),), anonymous=True, verify=True)

    async def story() -> None:
        async with pinged(users=known, access=access) as (node, pinger):
            address = node.mqtt_addresses["tcp"]
            stop = asyncio.Event()
            tried = 0

            async def flood(first: int) -> None:
                nonlocal tried
                number = first
                while not stop.is_set():
                    number += 8
                    name = ("other", "unknown", f"n{number}")[number % 3]
                    with contextlib.suppress(Gone, OSError):
                        client, connack = await RawClient.dial(
                            address, "", username=name, password=b"wrong %d" % number
                        )
                        assert connack.reason in (Reason.BAD_USER_NAME_OR_PASSWORD, Reason.SERVER_BUSY)
                        client.writer.close()
                    tried += 1

            floods = [asyncio.create_task(flood(first)) for first in range(40)]
            await until(lambda: tried > 40, "the flood")
            before = pinger.answered
            _, connack = await RawClient.dial(address, "good", username="good", password=b"right")
            assert connack.reason == 0
            await until(lambda: pinger.answered >= before + ENOUGH, "answers to pings")
            stop.set()
            await asyncio.gather(*floods)

    run(story)


def test_a_broker_says_that_it_is_alive_though_requests_are_held_back() -> None:
    async def story() -> None:
        async with pinged() as (node, pinger):
            pages = Pages(node, ("127.0.0.1", 0))
            await pages.start()
            held = [await asyncio.open_connection(*pages.address) for _ in range(100)]
            for _, writer in held:
                writer.write(b"GET /metrics HTTP/1.1\r\n")
            for path in (b"health", b"ready"):
                reader, writer = await asyncio.open_connection(*pages.address)
                writer.write(b"GET /%b HTTP/1.1\r\n\r\n" % path)
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
                writer.close()
            before = pinger.answered
            await until(lambda: pinger.answered >= before + ENOUGH, "answers to pings")
            for _, writer in held:
                writer.close()
            await pages.stop()

    run(story)
