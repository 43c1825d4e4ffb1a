"""A broker in a process of its own, for tests that kill it.

`python -m tests.live.process ID PORT MQTT_PORT FOLDER NEIGHBOUR…` prints its addresses when it is started.
Declarations in the folder (`*.toml`) are its topics.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from pathlib import Path

import uvloop

from tidings.language.declarations import read_topic
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.overlay.settings import Settings

WITHIN_S = 60.0
"""For starting and stopping: far more than a busy machine needs."""


class BrokerProcess:
    """One such process; it comes back at the same address, with the same folder."""

    def __init__(self, broker: str, folder: Path, neighbours: tuple[str, ...] = (), port: int = 0) -> None:
        self.broker = broker
        self._folder = folder
        self._neighbours = neighbours
        self._port = port
        self._mqtt_port = 0
        self.address = ""
        self.mqtt = ""
        """Where MQTT clients connect; they may have to try again until they are let in."""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.live.process",
            self.broker,
            str(self._port),
            str(self._mqtt_port),
            str(self._folder),
            *self._neighbours,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), WITHIN_S)
        assert line, f"broker {self.broker} has not started"
        self.address, self.mqtt = line.decode().split()
        self._port, self._mqtt_port = (int(one.rpartition(":")[2]) for one in (self.address, self.mqtt))

    async def kill(self) -> None:
        """As by kill -9: nothing more is written, sent or said."""
        self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        """SIGTERM; the exit code when it has drained."""
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._process.wait(), WITHIN_S)


def main() -> int:
    broker, port, mqtt_port, folder, *neighbours = sys.argv[1:]
    logging.basicConfig(
        level=logging.WARNING,
        format=f"%(relativeCreated)d {broker}: %(message)s %(about)s",
        stream=sys.stderr,
    )
    options = NodeOptions(
        broker,
        port=int(port),
        folder=Path(folder) / broker,
        neighbours=tuple(neighbours),
        listening=(Listening("tcp", "127.0.0.1", int(mqtt_port)),),
        settings=Settings(redial_max_s=0.5),
        topics=tuple(read_topic(file) for file in sorted(Path(folder).glob("*.toml"))),
    )
    return 1 if uvloop.run(serve(Node(options))) else 0


async def serve(node: Node) -> str:
    """Runs it until SIGTERM; gives the reason that it stopped for."""
    await node.start()
    print(node.address, node.mqtt_addresses["tcp"], flush=True)
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[str]] = []
    loop.add_signal_handler(signal.SIGTERM, lambda: ending.append(loop.create_task(node.stop())))
    return await node.stopped()


if __name__ == "__main__":
    sys.exit(main())
