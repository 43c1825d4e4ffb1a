"""Sessions of attached programs: what is on its way to each, and what waits while it is away or slow.

A publication of QoS 1 or 2 for a durable session is written down before it is sent, so that a program that
has taken it does not see it again, whatever happens to this broker. Its life:

    put ──(synced)──> waiting in memory, or on disk only if memory is full ──> sent ──(Taken)──> gone
                                                                                │
                                              the connection breaks: sent again, marked as a repeat

Memory is bounded, and so is disk. Of QoS 0, what does not fit is dropped and counted. A program without a
durable session that is too slow for QoS 1 or 2 loses its connection: silence would be worse. Why something is
delivered is not known here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidings.live.connections import Connection
from tidings.live.counters import Counters
from tidings.live.store import Kept, Store
from tidings.overlay.publication import Publication
from tidings.wire.attachment import Delivered, Leave

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Delivered)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one session."""

    queue_bytes: int
    """Waiting in memory; and sent to a durable session, but not taken."""

    store_bytes: int
    """Waiting on disk for a durable session."""


class Session:
    """One program's session; durable ones are there while it is not."""

    def __init__(
        self,
        name: str,
        durable: bool,
        store: Store,
        limits: Limits,
        counters: Counters,
        kept: Kept | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.connection: Connection | None = None
        self.queue_bytes = 0
        """Of what waits in memory."""
        self._store = store
        self._limits = limits
        self._counters = counters
        self._queue: deque[tuple[Delivered, int]] = deque()
        # Of durable sessions. Numbers: taken <= sent <= loaded (into memory) <= synced <= given.
        kept = kept or Kept()
        self._given = self._synced = kept.last
        self._loaded = 0
        self._sent = 0
        self._repeats_to = kept.last
        """What may have been sent on an earlier connection, perhaps before a restart."""
        self._store_bytes = kept.bytes
        self._unsynced: deque[tuple[Delivered, int]] = deque()
        self._untaken: dict[int, int] = {}
        self._untaken_bytes = 0
        self._reading: asyncio.Task[None] | None = None

    def attach(self, connection: Connection) -> None:
        """The program is there; all that waits is sent, from the beginning."""
        assert self.connection is None, "the connection before was let go"
        self.connection = connection
        self._sent = self._loaded = 0
        self.pump()

    def detach(self) -> None:
        """The program is away. Of what was not taken, a durable session keeps QoS 1 and 2."""
        self.connection = None
        self._repeats_to = max(self._repeats_to, self._sent)
        self._queue.clear()
        self.queue_bytes = 0
        self._untaken.clear()
        self._untaken_bytes = 0
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def deliver(self, publication: Publication, names: tuple[str, ...], hops: int, qos: int) -> bool:
        """Hand a publication over, with the QoS asked for. Whether it waits for the store to be synced."""
        size = publication.size
        if not self.durable or not qos:
            if self.connection is not None:
                self._counters.delivered += 1
                word = Delivered(0, publication, names, hops)
                if self._unsynced:
                    self._unsynced.append((word, size))
                elif self._enqueue(word, size, qos):
                    self.pump()
            return False
        if self._store_bytes + size > self._limits.store_bytes:
            self._counters.overflowed += 1
            return False
        self._counters.delivered += 1
        self._given += 1
        word = Delivered(self._given, publication, names, hops)
        self._store.put(self.name, self._given, _ENCODER.encode(word))
        self._store_bytes += size
        self._unsynced.append((word, size))
        return True

    @property
    def given(self) -> int:
        """The last number: what is to be told to `on_synced` when the store has been synced."""
        return self._given

    def on_synced(self, number: int) -> None:
        """The store has all up to this number."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0].number <= number:
            word, size = unsynced.popleft()
            if not word.number:
                if self.connection is not None:
                    self._enqueue(word, size, 0)
                continue
            if (
                self.connection is not None
                and self._loaded == self._synced
                and self._reading is None
                and self.queue_bytes < self._limits.queue_bytes
            ):
                self._queue.append((word, size))
                self.queue_bytes += size
                self._loaded = word.number
            self._synced = word.number
        self.pump()

    def on_taken(self, numbers: tuple[int, ...]) -> None:
        known = [number for number in numbers if number in self._untaken]
        for number in known:
            size = self._untaken.pop(number)
            self._untaken_bytes -= size
            # What was there before a restart is counted a little differently.
            self._store_bytes = max(0, self._store_bytes - size)
        if known:
            self._store.take(self.name, known)
            self.pump()

    def pump(self) -> None:
        """Send what can be sent."""
        connection, queue = self.connection, self._queue
        if connection is None:
            return
        while queue and not connection.congested and self._untaken_bytes < self._limits.queue_bytes:
            word, size = queue.popleft()
            self.queue_bytes -= size
            if word.number:
                self._sent = word.number
                self._untaken[word.number] = size
                self._untaken_bytes += size
            connection.say(word, size)
        if not queue and self._loaded < self._synced and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(connection))

    async def _read(self, connection: Connection) -> None:
        """Bring back from disk what had no room, or waits from before."""
        synced = self._synced
        rows = await self._store.read(self.name, self._loaded, self._limits.queue_bytes)
        if self.connection is not connection:
            return
        self._reading = None
        for number, value in rows:
            word = _DECODER.decode(value)
            if number <= self._repeats_to:
                word = msgspec.structs.replace(word, repeat=True)
            size = word.publication.size
            self._queue.append((word, size))
            self.queue_bytes += size
        # Where nothing was found, all that was synced then has been taken.
        self._loaded = rows[-1][0] if rows else synced
        self.pump()

    def _enqueue(self, word: Delivered, size: int, qos: int) -> bool:
        """Of what is kept nowhere else: to memory, if there is room."""
        if self.queue_bytes + size <= self._limits.queue_bytes and not (self.durable and self._behind):
            self._queue.append((word, size))
            self.queue_bytes += size
            return True
        self._counters.dropped += 1
        if qos and not self.durable and self.connection is not None:
            self._counters.expelled += 1
            self.expel("too slow for what is sent to it")
        return False

    @property
    def _behind(self) -> bool:
        """Whether something older must be read from disk first."""
        return self._loaded < self._synced or self._reading is not None

    def expel(self, reason: str) -> None:
        """Take the connection from the program; the node hears of it as of any loss."""
        assert self.connection is not None, "only a program that is there can be expelled"
        self.connection.say(Leave(reason=reason))
        self.connection.flush()
        self.connection.drop(reason)


class Sessions:
    """All sessions of a node, by name."""

    def __init__(self, store: Store, limits: Limits, counters: Counters) -> None:
        self._store = store
        self._limits = limits
        self._counters = counters
        self._touched: dict[str, Session] = {}
        self.by_name = {
            name: Session(name, True, store, limits, counters, kept) for name, kept in store.sessions.items()
        }

    def open(self, name: str, durable: bool) -> tuple[Session, bool]:
        """The session of that name, made if need be; and whether it was there."""
        session = self.by_name.get(name)
        if session is not None:
            return session, True
        session = self.by_name[name] = Session(name, durable, self._store, self._limits, self._counters)
        if durable:
            self._store.keep_session(name)
        return session, False

    def end(self, session: Session) -> None:
        """Nothing of it is wanted any more."""
        self.by_name.pop(session.name, None)
        self._touched.pop(session.name, None)
        if session.durable:
            self._store.end_session(session.name)

    def deliver(
        self,
        publication: Publication,
        matches: tuple[tuple[str, str], ...],
        hops: int,
        qos_asked: Callable[[str, str], int],
    ) -> None:
        """To every session among the matches (session, subscription), which are sorted."""
        at, count = 0, len(matches)
        while at < count:
            name = matches[at][0]
            end = at + 1
            while end < count and matches[end][0] == name:
                end += 1
            session = self.by_name.get(name)
            if session is not None:
                names = tuple([match[1] for match in matches[at:end]])
                qos = publication.qos and min(publication.qos, max(qos_asked(name, it) for it in names))
                if session.deliver(publication, names, hops, qos):
                    self._touched[name] = session
            at = end

    def mark(self) -> Callable[[], None] | None:
        """What to call when all that was delivered until now is durable; None if nothing waits for it."""
        if not self._touched:
            return None
        marks = [(session, session.given) for session in self._touched.values()]
        self._touched.clear()

        def synced() -> None:
            for session, given in marks:
                session.on_synced(given)

        return synced

    @property
    def queue_bytes(self) -> int:
        """Of what waits in memory for all of them."""
        return sum(session.queue_bytes for session in self.by_name.values())

    @property
    def attached(self) -> int:
        """Programs that are there."""
        return sum(session.connection is not None for session in self.by_name.values())
