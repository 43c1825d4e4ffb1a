"""Help for tests of what is below the front: one that echoes, and clients made of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.live.local import LocalBroker
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.live.store import Store
from tidings.mqtt import events as m
from tidings.overlay import events as e

TCP = (Listening("tcp", "127.0.0.1", 0),)


class EchoFront(LocalBroker):
    """Sends back what it hears, in one write for each connection and turn, and notes all in `heard`.

    A connection that says "shut", "quiet" or "who NAME PASSWORD" gets that.
    """

    def __init__(self, options: NodeOptions, store: Store) -> None:
        super().__init__(options, store)
        self.turns: list[list[Any]] = []
        """What was told at once."""
        self.answer: Callable[[m.BytesReceived], list[Any]] = self.echo

    def start(self, now: float) -> list[Any]:
        return [e.Synchronised()]

    def handle_all(self, events: Sequence[Any], now: float) -> list[Any]:
        self.turns.append(list(events))
        effects: list[Any] = []
        for event in events:
            match event:
                case m.BytesReceived():
                    self.heard.append(event)  # type: ignore[arg-type]
                    effects += self.answer(event)
                case m.ClientVerified():
                    self.heard.append(event)  # type: ignore[arg-type]
                    effects.append(m.Transmit(event.connection, [f"you are {event.user}".encode()]))
                case _:
                    effects += self.handle(event, now)
        return effects

    def echo(self, event: m.BytesReceived) -> list[Any]:
        words = event.data.split()
        match words:
            case [b"shut"]:
                return [
                    m.Transmit(event.connection, [b"good", b"bye"]),
                    m.CloseClient(event.connection, "asked"),
                ]
            case [b"who", name, password]:
                return [m.CheckPassword(event.connection, name.decode(), password)]
            case [b"quiet"]:
                return [m.Transmit(event.connection, [b"shh"]), m.PauseReading(event.connection)]
        return [m.Transmit(event.connection, [event.data])]

    def views(self, event: m.BytesReceived) -> list[Any]:
        """For `answer`: sends back views of more than they show."""
        return [m.Transmit(event.connection, [memoryview(b"<" + event.data + b">")[1:-1]])]

    def bytes_of(self, connection: int) -> bytes:
        return b"".join(one.data for one in self.told(m.BytesReceived) if one.connection == connection)


async def echo_node(**options: Any) -> tuple[Node, EchoFront]:
    node = Node(NodeOptions("a", **{"listening": TCP, **options}), front=EchoFront)
    await node.start()
    assert isinstance(node.front, EchoFront)
    return node, node.front


async def connect(
    node: Node, kind: str = "tcp", **how: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = node.mqtt_addresses[kind].rpartition(":")
    return await asyncio.open_connection(host, int(port), **how)
