"""The network without asyncio: for scripts, and for notebooks whose own loop is busy.

The loop runs in a thread of its own, and every call waits for it. What happens there is `network`'s.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tidings.client.deliveries import Delivery, Sent
from tidings.client.subscriptions import WAITING_MAX, Subscription
from tidings.errors import InputError
from tidings.language.regions import Unknown

if TYPE_CHECKING:
    from tidings.client.network import Network, Retained
    from tidings.language.filters import Filter

Result = TypeVar("Result")


class BlockingNetwork:
    """A network for programs without asyncio. Made by `tidings.connect(…).sync()`, entered with `with`."""

    def __init__(self, network: Network) -> None:
        self.network = network
        """The asynchronous one; it belongs to the thread."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BlockingNetwork:
        """Connect; NetworkError if none of the brokers answers, AccessError if they refuse."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidings", daemon=True)
        self._thread.start()
        try:
            self.run(self.network.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self.network.__aexit__(kind, error, trace))
        finally:
            self._stop()

    def publish(
        self,
        topic: str,
        report: Sent = None,
        *,
        qos: int = 1,
        retain: bool = False,
        content_type: str | None = None,
        user: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        expiry: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """As `Network.publish`: with QoS 1 or 2, done when the broker has acknowledged it."""
        self.run(
            self.network.publish(
                topic,
                report,
                qos=qos,
                retain=retain,
                content_type=content_type,
                user=user,
                expiry=expiry,
                timeout=timeout,
            )
        )

    def subscribe(
        self,
        topic_filter: str,
        *,
        where: str | Filter | Sequence[str | Filter] | None = None,
        unknown: Unknown | Literal["wait", "assume"] = Unknown.WAIT,
        every: str | None = None,
        qos: int = 1,
        retained: Retained = "all",
        snapshot: bool = True,
        no_local: bool = False,
        keep: bool | None = None,
        waiting_max: int = WAITING_MAX,
        quiet: float | None = None,
    ) -> BlockingSubscription:
        """As `Network.subscribe`; with `quiet`, iteration ends once nothing has come for so many seconds."""
        return BlockingSubscription(
            self,
            self.network.subscribe(
                topic_filter,
                where=where,
                unknown=unknown,
                every=every,
                qos=qos,
                retained=retained,
                snapshot=snapshot,
                no_local=no_local,
                keep=keep,
                waiting_max=waiting_max,
            ),
            quiet,
        )

    def request(
        self, topic: str, body: Mapping[str, object], *, timeout: float | None = None
    ) -> dict[str, object]:
        """As `Network.request`."""
        return self.run(self.network.request(topic, body, timeout=timeout))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Let the loop do something, and wait for it; Ctrl-C ends the wait and the work."""
        if self._loop is None:
            work.close()
            raise InputError(
                "the network has not been entered; write `with tidings.connect(…).sync() as network:`"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        loop, self._loop = self._loop, None
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


class BlockingSubscription:
    """A subscription for programs without asyncio: iterate it, or enter it first so that it is confirmed."""

    def __init__(self, network: BlockingNetwork, subscription: Subscription, quiet_s: float | None) -> None:
        self._network = network
        self._subscription = subscription
        self._quiet_s = quiet_s
        self._entered = False

    def __enter__(self) -> BlockingSubscription:
        """Subscribe; done when the broker has confirmed it."""
        self._network.run(self._subscription.__aenter__())
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered = False
        self._network.run(self._subscription.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Delivery]:
        """Deliveries as they come."""
        if self._entered:
            yield from self._deliveries()
            return
        with self:
            yield from self._deliveries()

    def next(self, timeout: float | None = None) -> Delivery:
        """The next delivery; the one before counts as read. TimeoutError if none comes in time."""
        return self._network.run(self._subscription.next(timeout))

    @property
    def dropped(self) -> int:
        """Deliveries of QoS 0 and 2 that nobody read in time."""
        return self._subscription.dropped

    def _deliveries(self) -> Iterator[Delivery]:
        while True:
            try:
                delivery = self.next(self._quiet_s)
            except TimeoutError:
                return
            yield delivery
