"""A program's side of an attachment: subscribe, publish and receive at a broker near by.

For programs that run beside a broker, and for tests. It does not connect again by itself: whoever attaches
again as the same durable session gets what has waited.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, cast

from tidings.errors import InputError, PeerError, SetupError
from tidings.language.subscriptions import Advertisement, Subscription
from tidings.live import addresses
from tidings.overlay.frames import Frame
from tidings.wire import attachment as a
from tidings.wire.framing import FRAME_BYTES_MAX, Decoder, Encoder, Speech

WAITING_MAX = 4096
"""Publications that wait for the program; beyond it, nothing more is read."""

CLOSE_WITHIN_S = 5.0
"""How long a broker may take to hear that the program goes."""

FRAME_BYTES = 512 * 1024
"""What is said at once goes in frames of at most this size, unless one publication alone is larger: below the
limit of any broker."""


async def attach(
    address: str,
    session: str,
    *,
    durable: bool = False,
    token: str = "",
    context: ssl.SSLContext | None = None,
) -> Attachment:
    """Attach to the broker at an address. SetupError if it is not there, InputError if it refuses."""
    host, port = addresses.read(address)
    loop = asyncio.get_running_loop()
    try:
        _, client = await loop.create_connection(
            lambda: Attachment(session, durable, token),
            host,
            port,
            ssl=context,
            server_hostname=host if context else None,
        )
    except OSError as error:
        raise SetupError(f"no broker answers at {address}: {error}; is one running there?") from error
    await client.attached
    return client


class Attachment(asyncio.Protocol):
    """One session at a broker, as long as the connection holds. Made by `attach`."""

    def __init__(self, session: str, durable: bool, token: str) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.resumed = False
        """Whether the broker knew the session, with its subscriptions."""
        self.attached: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        """Done, with the reason, when the connection is gone."""
        self._loop = loop
        self._durable = durable
        self._token = token
        self._decoder = Decoder(Speech.ATTACHMENT, attachment_bytes_max=FRAME_BYTES_MAX)
        self._encoder = Encoder(frame_bytes_max=FRAME_BYTES)
        self._words: list[a.Word] = []
        self._taken: list[int] = []
        self._flushing = False
        self._tokens = 0
        self._asked: dict[str, asyncio.Future[str]] = {}
        self._offered: dict[int, asyncio.Future[None]] = {}
        self._waiting: deque[a.Delivered] = deque()
        self._came = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._leaving = ""

    async def subscribe(self, name: str, subscription: Subscription) -> str:
        """Ask for what matches; done when it is installed. "", or why not everywhere yet.

        InputError if it is denied.
        """
        answer: asyncio.Future[str] = self._loop.create_future()
        self._asked[name] = answer
        self._say(a.Ask(name, subscription))
        return await answer

    def unsubscribe(self, name: str) -> None:
        self._say(a.Drop(name))

    def advertise(self, name: str, advertisement: Advertisement) -> None:
        self._say(a.Announce(name, advertisement))

    def withdraw(self, name: str) -> None:
        self._say(a.Withdraw(name))

    async def publish(self, topic: str, payload: bytes, qos: int = 0) -> None:
        """Publish; with QoS 1 or 2 done when the broker has accepted it. InputError if it does not."""
        answer = self.offer(topic, payload, qos)
        await self._writable.wait()
        if answer is not None:
            await answer

    def offer(self, topic: str, payload: bytes, qos: int = 0) -> asyncio.Future[None] | None:
        """The same without waiting: many may be under way. None for QoS 0, which is not answered."""
        self._check()
        self._tokens += 1
        self._say(a.Offer(self._tokens, topic, payload, qos))
        if not qos:
            return None
        answer = self._offered[self._tokens] = self._loop.create_future()
        return answer

    async def receive(self) -> a.Delivered:
        """The next publication. It is sent again after a broken connection unless `take` was called."""
        while not self._waiting:
            self._came.clear()
            self._check()
            await self._came.wait()
        delivered = self._waiting.popleft()
        if not self._reading and len(self._waiting) < WAITING_MAX // 2 and not self.lost.done():
            self._reading = True
            self._transport.resume_reading()
        return delivered

    def take(self, delivered: a.Delivered) -> None:
        """The program has it, and never wants it again."""
        if delivered.number and not self.lost.done():
            self._taken.append(delivered.number)
            self._flush_soon()

    async def __aiter__(self) -> AsyncIterator[a.Delivered]:
        """Publications as they come; each is taken when the next one is asked for."""
        while True:
            delivered = await self.receive()
            yield delivered
            self.take(delivered)

    async def close(self, for_good: bool = False) -> None:
        """Go; `for_good` ends a durable session."""
        if not self.lost.done():
            self._say(a.Leave(for_good))
            self._flush()
            await asyncio.wait([self.lost], timeout=CLOSE_WITHIN_S)
            self._transport.abort()  # a broker that is paused does not hear
            await self.lost

    def abort(self) -> None:
        """Cut the connection, as if the program had crashed."""
        self._transport.abort()

    async def __aenter__(self) -> Attachment:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._say(a.Attach(self.session, self._durable))

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            for word in frame.messages:
                self._hear(word)
        if self._decoder.fault is not None:
            self._leaving = str(self._decoder.fault)
            self._transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        reason = self._leaving or (str(error) if error else "closed by the broker")
        self.lost.set_result(reason)
        self._writable.set()
        self._came.set()
        gone = PeerError(f"the broker has closed the connection: {reason}")
        answers: list[asyncio.Future[Any]] = [self.attached, *self._asked.values(), *self._offered.values()]
        for answer in answers:
            if not answer.done():
                answer.set_exception(gone)
                answer.exception()  # nobody need be waiting for it

    # Words.

    def _hear(self, word: object) -> None:
        match word:
            case a.Delivered():
                self._waiting.append(word)
                self._came.set()
                if self._reading and len(self._waiting) > WAITING_MAX:
                    self._reading = False
                    self._transport.pause_reading()
            case a.Accepted(token):
                accepted = self._offered.pop(token, None)
                if accepted is not None and not accepted.done():
                    accepted.set_result(None)
            case a.Rejected(token, reason):
                rejected = self._offered.pop(token, None)
                if rejected is not None and not rejected.done():
                    rejected.set_exception(InputError(f"the publication is not taken: {reason}"))
            case a.Granted(name, reason):
                granted = self._asked.pop(name, None)
                if granted is not None and not granted.done():
                    granted.set_result(reason)
            case a.Denied(name, reason):
                denied = self._asked.pop(name, None)
                if denied is not None and not denied.done():
                    denied.set_exception(InputError(f"{name!r} is denied: {reason}"))
            case a.Challenge(nonce) if self._token:
                self._say(a.Attach(self.session, self._durable, a.proof(self._token, nonce, self.session)))
            case a.Challenge():
                self._fail("this broker asks for the cluster token; give it as `token`")
            case a.Attached(resumed):
                self.resumed = resumed
                if not self.attached.done():
                    self.attached.set_result(None)
            case a.Refused(reason):
                self._fail(f"the broker refuses session {self.session!r}: {reason}")
            case a.Leave():
                self._leaving = word.reason

    def _fail(self, reason: str) -> None:
        self._leaving = reason
        if not self.attached.done():
            self.attached.set_exception(InputError(reason))
        self._transport.close()

    def _check(self) -> None:
        if self.lost.done():
            raise PeerError(f"the broker has closed the connection: {self.lost.result()}")

    def _say(self, word: a.Word) -> None:
        self._check()
        self._words.append(word)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._taken:
            # Before all else: a word behind it may be `Leave`.
            self._words.insert(0, a.Taken(tuple(self._taken)))
            self._taken.clear()
        if self._words and not self.lost.done():
            self._encoder.add(Frame(0, 0, tuple(self._words)))
            self._transport.write(self._encoder.take())
        self._words.clear()
