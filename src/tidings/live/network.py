"""Many nodes in one process: for trying things out, and for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.live.node import Node


class Network:
    """Nodes that start together and stop together."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    async def start(self) -> None:
        """One after the other. If one cannot start, those before it are stopped, and its error is raised."""
        for count, node in enumerate(self.nodes):
            try:
                await node.start()
            except BaseException:
                await _stop(self.nodes[:count])
                raise

    async def stop(self) -> None:
        """One after the other, the last one first."""
        await _stop(self.nodes)


async def _stop(nodes: Sequence[Node]) -> None:
    for node in reversed(nodes):
        await node.stop()
