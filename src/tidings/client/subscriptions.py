"""A subscription of a program: what it asked for, and the deliveries that wait to be read.

What waits is bounded, without a timer and without stopping the socket. Of QoS 1, a delivery is acknowledged
once the program has asked for the next one (or left the subscription in peace); the broker keeps back what
goes beyond the receive maximum of the connection, and sends again what a program did not finish if the
session outlives it. Of QoS 0 and 2 the oldest that wait are dropped when `waiting_max` of them do, and
counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from tidings.client.deliveries import Delivery
from tidings.mqtt.packets import Asked, Properties

if TYPE_CHECKING:
    from tidings.client.network import Network

LOG = logging.getLogger("tidings.client")

WAITING_MAX = 1024
"""Deliveries of one subscription that wait to be read, by default."""


class Slot:
    """A delivery of QoS 1 that is not acknowledged yet."""

    __slots__ = ("finished", "packet_id", "readers", "sent_here")

    def __init__(self, packet_id: int, readers: int) -> None:
        self.packet_id = packet_id
        self.readers = readers
        """Subscriptions that have not finished it."""
        self.finished = False
        self.sent_here = True
        """Whether it came over the connection that is open; only then may it be acknowledged."""


class Subscription:
    """Made by `Network.subscribe`. Iterate it, or enter it first so that it is confirmed before you go on."""

    def __init__(
        self,
        network: Network,
        asked: Asked,
        wheres: tuple[str, ...],
        properties: Properties,
        waiting_max: int,
        *,
        keep: bool,
    ) -> None:
        self.asked = asked
        self.wheres = wheres
        self.properties = properties
        self.waiting_max = waiting_max
        self.keep = keep
        self.number = 0
        """The subscription identifier; the same in every run, for sessions that outlive a program."""
        self.dropped = 0
        """Deliveries of QoS 0 and 2 that nobody read in time."""
        self.qos: int | None = None
        """What the broker grants; None until it has."""
        self._network = network
        self._waiting: deque[tuple[Delivery, Slot | None]] = deque()
        self._droppable = 0
        self._current: list[tuple[Delivery, Slot]] = []
        self._came = asyncio.Event()
        self._error: Exception | None = None
        self._entered = False

    async def __aenter__(self) -> Subscription:
        """Subscribe; done when the broker has confirmed it. InputError and its like if it refuses."""
        await self._network._begin(self)
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What a program did not finish because of an error comes again, where the session outlives it.
        if error is None:
            self._finish()
        self._entered = False
        await self._network._end(self)

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries as they come, for ever; NetworkError once the network is lost for good."""
        if self._entered:
            while True:
                yield await self.next()
        async with self:
            while True:
                yield await self.next()

    async def next(self, timeout: float | None = None) -> Delivery:
        """The next delivery; the one before counts as read. TimeoutError if none comes in time."""
        self._finish()
        async with asyncio.timeout(timeout):
            while not self._waiting:
                if self._error is not None:
                    raise self._error
                self._came.clear()
                await self._came.wait()
        delivery, slot = self._waiting.popleft()
        if slot is None:
            self._droppable -= 1
        else:
            self._current.append((delivery, slot))
        return delivery

    @property
    def waiting(self) -> int:
        """Deliveries that have come and not been read."""
        return len(self._waiting)

    # For the network.

    def take(self, delivery: Delivery, slot: Slot | None) -> None:
        """Let a delivery wait; the oldest that may be dropped goes if there are too many."""
        if slot is None:
            if self._droppable >= self.waiting_max:
                self._drop_oldest()
            self._droppable += 1
        self._waiting.append((delivery, slot))
        self._came.set()

    def fail(self, error: Exception) -> None:
        """Whoever reads hears of it after what has come."""
        self._error = error
        self._came.set()

    def _drop_oldest(self) -> None:
        at = next(at for at, (_, slot) in enumerate(self._waiting) if slot is None)
        del self._waiting[at]
        self._droppable -= 1
        self.dropped += 1
        if self.dropped == 1:
            LOG.warning(
                "%s: %d deliveries wait to be read; the oldest of QoS 0 and 2 are dropped from now on",
                self.asked.topic_filter,
                self.waiting_max,
            )

    def _finish(self) -> None:
        for _, slot in self._current:
            slot.readers -= 1
            if slot.readers == 0:
                self._network._finished(slot)
        self._current.clear()

    def unread(self) -> list[tuple[Delivery, Slot | None]]:
        """Give up what was not read, and what was not finished."""
        left = [*self._current, *self._waiting]
        self._current.clear()
        self._waiting.clear()
        self._droppable = 0
        return left

    def abandon(self) -> None:
        """Nothing more is read: what waits is finished with."""
        self._current = [(delivery, slot) for delivery, slot in self.unread() if slot is not None]
        self._finish()
