"""Records what a broker that speaks only protocol version 1 says, and how the conversation is staged.

`python -m tests.wire.recorded.record` writes version1.jsonl; see README.md.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

from tests.live.local import WITHIN_S, until
from tidings.language.subscriptions import Subscription
from tidings.live import addresses
from tidings.live.attachment import Attachment, attach
from tidings.live.node import FrontLike, Node, NodeOptions, make_front
from tidings.live.store import Store
from tidings.overlay.broker import Broker
from tidings.overlay.settings import Settings
from tidings.wire.framing import LENGTH_BYTES, Decoder

FILE = Path(__file__).parent / "version1.jsonl"
BOOTS = {"a": 1, "b": 2, "c": 3}
UP = [b'{"n": %d}' % n for n in range(3)]
"""Published at c on "up"; a subscribes."""

DOWN = [b'{"n": %d}' % n for n in range(10, 13)]
"""Published at a on "down"; c subscribes."""

PUBLISH_UP = "c publishes"
END = "the end"


def fixed(options: NodeOptions, store: Store) -> FrontLike:
    """With a broker whose boot does not come from the clock."""
    boot = BOOTS[options.id]
    broker = Broker(
        options.id, boot=boot, incarnation=boot, random=random.Random(boot), settings=options.settings
    )
    return make_front(options, store, lambda *_: broker)


async def stage() -> tuple[Node, Node, Attachment]:
    """Brokers b and c, linked, and a program at c that has subscribed to "down"."""
    b = Node(NodeOptions("b"), front=fixed)
    await b.start()
    c = Node(NodeOptions("c", neighbours=(b.address,)), front=fixed)
    await c.start()
    program = await attach(c.address, "at c")
    while await program.subscribe("s", Subscription("down", qos=1)):
        pass  # "settling": they have not found each other yet
    await until(lambda: members(b) == ("b", "c"))
    return b, c, program


def members(node: Node) -> tuple[str, ...]:
    """The brokers in the tree of the smallest id, as this one sees it."""
    status = node.broker.status(node.now())
    return next((tree.members for tree in status.trees if (tree.root,) == status.share), ())


class Recorder:
    """A proxy in front of b that notes every frame of whoever dials it."""

    def __init__(self, target: str) -> None:
        self._target = addresses.read(target)
        self.lines: list[dict[str, object]] = []
        self._heard = 0

    def then(self, what: str) -> None:
        """Note what happens elsewhere, and how many messages b has sent by then."""
        self.lines.append({"then": what, "heard": self._heard})

    async def start(self) -> str:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return addresses.write(*server.sockets[0].getsockname())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        answers = asyncio.ensure_future(self._answer(there, writer))
        try:
            while True:
                length = await reader.readexactly(LENGTH_BYTES)
                frame = length + await reader.readexactly(int.from_bytes(length, "big"))
                self.lines.append({"hex": frame.hex()})
                back.write(frame)
        except asyncio.IncompleteReadError:
            answers.cancel()

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        decoder = Decoder()
        while data := await source.read(65_536):
            for frame in decoder.feed(data):
                self._heard = max(self._heard, frame.first + len(frame.messages) - 1)
            sink.write(data)


async def record() -> list[dict[str, object]]:
    b, c, program = await stage()
    recorder = Recorder(b.address)
    old = replace(Settings(), versions=(1, 1))
    a = Node(NodeOptions("a", neighbours=(await recorder.start(),), settings=old), front=fixed)
    await a.start()
    await until(lambda: members(a) == members(c) == ("a", "b", "c"))
    oldest = await attach(a.address, "at a")
    assert await oldest.subscribe("s", Subscription("up", qos=1)) == ""
    recorder.then(PUBLISH_UP)
    for payload in UP:
        await program.publish("up", payload, qos=1)
    for _ in UP:
        await asyncio.wait_for(oldest.receive(), WITHIN_S)
    await until(lambda: c.broker.status(c.now()).held == 0)
    for payload in DOWN:
        await oldest.publish("down", payload, qos=1)
    for _ in DOWN:
        await asyncio.wait_for(program.receive(), WITHIN_S)
    await until(lambda: a.broker.status(a.now()).held == 0)
    recorder.then(END)
    for node in (a, c, b):
        await node.stop()
    return recorder.lines


def main() -> None:
    lines = asyncio.run(record())
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{FILE}: {len(lines)} lines")


if __name__ == "__main__":
    main()
