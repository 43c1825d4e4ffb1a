"""What all parts of one broker share: who it is, what time it is, what it wants done."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings.overlay.events import Effect, Log
from tidings.overlay.publication import Batch
from tidings.overlay.settings import Settings
from tidings.overlay.timers import Timer, Timers
from tidings.records.holders import Holder
from tidings.records.record import Kind, Record, Run

TURN_DELIVERIES = 500
"""Deliveries that a broker makes in one turn: about 10 ms of work. Then it is told what clients have sent."""

DELIVERY_BYTES = 4096
"""A larger publication counts for one delivery more for each of these."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """The base of what one part of a broker tells the parts above it. Who hears it is a table in `broker`."""


class Core:
    """One per broker; `now` and `out` belong to the event that is being handled."""

    def __init__(
        self,
        id: str,  # noqa: A002
        boot: int,
        incarnation: int,
        settings: Settings,
        random: random.Random,
    ) -> None:
        self.id = id
        self.boot = boot
        self.incarnation = incarnation
        self.holder = Holder(id, incarnation)
        """Under whose name what is kept here is numbered."""
        self.settings = settings
        self.random = random
        self.life = random.getrandbits(53)
        """Tells this broker, since this start, from any other with its id."""
        self.timers: Timers[Timer] = Timers()
        self.now = 0.0
        self.out: list[Effect] = []
        self.records = 0
        self.generation = 0
        """Counts whatever may change who gets what is published: decisions of another one are made anew."""
        self.turn_deliveries = TURN_DELIVERIES
        self.spent = 0
        """Deliveries that were made in this turn."""
        self.held = False
        """Whether no data is taken from links for now, because sessions here have much queued."""
        self.late = False
        """Whether the timer that is being handled comes so late that others may have waited for us."""
        self.synced = 0
        """The last sync that is known to be on disk."""
        self.sync_wanted = False
        self.sync_token = 0
        self.heard_by: dict[type[Notice], Callable[[Any], None]] = {}
        self._unsynced: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def at_us(self) -> int:
        return round(self.now * 1_000_000)

    def changed(self) -> None:
        """Who gets what is published may have changed."""
        self.generation += 1

    def spend(self, receivers: int, size: int) -> None:
        """Count deliveries of a publication, to sessions here or to links."""
        self.spent += receivers * (1 + size // DELIVERY_BYTES)

    def turn_is_over(self) -> bool:
        """Whether the rest must wait for the next turn."""
        return self.spent >= self.turn_deliveries

    def tell(self, notice: Notice) -> None:
        """Tell the parts above."""
        heard = self.heard_by.get(type(notice))
        if heard is not None:
            heard(notice)

    def log(self, level: str, text: str, **about: object) -> None:
        self.out.append(Log(level, text, tuple((key, str(value)) for key, value in about.items())))

    def record_link(self, kind: Kind, peer: str, reason: str) -> None:
        self.records += 1
        self.out.append(Record(self.id, self.boot, self.records, self.at_us, kind, link=peer, reason=reason))

    def ask_sync(self) -> int:
        """Have all that was written be made durable at the end of this event; the token to wait for."""
        if not self.sync_wanted:
            self.sync_wanted = True
            self.sync_token += 1
        return self.sync_token

    def after_sync(self, then: Callable[[], None]) -> None:
        """Do something when all that was written by now is durable."""
        self._unsynced.append((self.ask_sync(), then))

    def on_synced(self, token: int) -> None:
        """What was written up to here is on disk."""
        self.synced = max(self.synced, token)
        while self._unsynced and self._unsynced[0][0] <= token:
            self._unsynced.popleft()[1]()

    @property
    def syncing(self) -> bool:
        """Whether something waits for the disk."""
        return bool(self._unsynced)

    # Writing down.

    def suppress(self, batch: Batch, peer: str | None, hops: int, reason: str) -> None:
        """Publications are not taken further."""
        self.record_batch(Kind.SUPPRESSED, batch, link=peer, hops=hops, reason=reason)

    def record_batch(
        self,
        kind: Kind,
        batch: Batch,
        *,
        client: bool = False,
        link: str | None = None,
        hops: int | None = None,
        latency: bool = False,
        reason: str | None = None,
        receivers: Sequence[tuple[str, ...]] = ((),),
        epoch: str | None = None,
    ) -> None:
        """Write down what became of publications in one decision; `receivers` are of each, or of all."""
        count, heads, which = len(batch), batch.heads, batch.which
        now = self.at_us
        if count == 1:
            head = batch.head(0)
            self.record(
                kind,
                head.topic,
                f"{batch.prefix}{batch.numbers[0]}",
                batch.ends[0] - batch.starts[0],
                publisher=head.publisher,
                client=head.publisher if client else None,
                link=link,
                hops=hops,
                latency_us=now - batch.at_us[0] if latency else None,
                reason=reason,
                receivers=receivers[0],
                epoch=epoch,
            )
            return
        self.out.append(
            Run(
                self.id,
                self.boot,
                self.records + 1,
                now,
                kind,
                [head.topic for head in heads],
                [head.publisher for head in heads],
                batch.prefix,
                batch.numbers,
                batch.lengths,
                client,
                link,
                hops,
                [now - at for at in batch.at_us] if latency else (),
                reason,
                receivers,
                epoch,
                which or (0,),
            )
        )
        self.records += count

    def record(
        self,
        kind: Kind,
        topic: str,
        message: str | None,
        size: int,
        *,
        publisher: str | None = None,
        client: str | None = None,
        link: str | None = None,
        hops: int | None = None,
        latency_us: int | None = None,
        reason: str | None = None,
        receivers: tuple[str, ...] = (),
        epoch: str | None = None,
        event: str | None = None,
        version: int | None = None,
        report: str | None = None,
    ) -> None:
        self.records += 1
        self.out.append(
            Record(
                self.id,
                self.boot,
                self.records,
                self.at_us,
                kind,
                topic,
                message,
                size,
                event,
                version,
                report,
                publisher,
                client,
                None,
                link,
                hops,
                latency_us,
                reason,
                receivers,
                epoch,
            )
        )
