"""A peer of the protocol version before ours, as it was recorded, takes its part in a network of today."""

from __future__ import annotations

import asyncio
import json

from tests.live.local import WITHIN_S, run, until
from tests.wire.recorded.record import DOWN, END, FILE, PUBLISH_UP, UP, members, stage
from tidings.live import addresses
from tidings.overlay.messages import Frame, Greet, Publish, Welcome
from tidings.wire.framing import Decoder


class Player:
    """Says what was recorded, each frame once the broker has said what it acknowledges. It understands
    nothing.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self.heard: list[Frame] = []

    async def listen(self) -> None:
        while data := await self._reader.read(65_536):
            self.heard += self._decoder.feed(data)

    @property
    def received(self) -> int:
        """The number of the last message heard."""
        return max((frame.first + len(frame.messages) - 1 for frame in self.heard if frame.first), default=0)

    async def hear(self, number: int) -> None:
        await until(lambda: self.received >= number, f"message {number} of the broker")

    async def play(self, data: bytes) -> None:
        (frame,) = Decoder().feed(data)
        if frame.messages and isinstance(frame.messages[0], Welcome):
            await until(lambda: self.heard, "the broker's greeting")
        await self.hear(frame.ack)
        self._writer.write(data)


def test_a_recorded_peer_of_version_1_publishes_and_is_published_to() -> None:
    async def story() -> None:
        b, c, program = await stage()
        player = Player(*await asyncio.open_connection(*addresses.read(b.address)))
        listening = asyncio.ensure_future(player.listen())
        for line in FILE.read_text(encoding="utf-8").splitlines():
            step = json.loads(line)
            if "hex" in step:
                await player.play(bytes.fromhex(step["hex"]))
            elif step["then"] == PUBLISH_UP:
                await player.hear(step["heard"])
                await until(lambda: members(c) == ("a", "b", "c"))
                answers = [program.offer("up", payload, qos=1) for payload in UP]
                await asyncio.gather(*(answer for answer in answers if answer is not None))
            else:
                assert step["then"] == END
                got = [await asyncio.wait_for(program.receive(), WITHIN_S) for _ in DOWN]
                assert [delivered.publication.payload for delivered in got] == DOWN
                assert {delivered.publication.origin for delivered in got} == {"a"}
                # All that c has published is acknowledged, by a too.
                await until(lambda: c.broker.status(c.now()).held == 0)
        await listening
        said = [message for frame in player.heard for message in frame.messages]
        assert max(len(frame.messages) for frame in player.heard) == 1
        assert [type(message) for message in said[:2]] == [Greet, Welcome]
        assert [message.version for message in said if isinstance(message, Welcome)] == [1]
        assert [message.publication.payload for message in said if isinstance(message, Publish)] == UP
        for node in (c, b):
            await node.stop()

    run(story)
