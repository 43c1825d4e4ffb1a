"""Step 5, the stream: a query on `format("tidings")` reads a topic's log all the while a day is played.

When the day is over it has read what the log holds and what a client that watches the whole topic got; that
the three agree is checked. How the query is run is the business of `pipeline.connector.stream`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.client.log import LogReader
from tidings.console.day import Check
from tidings.demo.completeness import SLOW_S
from tidings.records.log_rows import EVENTS

if TYPE_CHECKING:
    from tidings.demo.brokers import Brokers
    from tidings.demo.playing import Played
    from tidings.pipeline.connector.stream import Counts, Stream
    from tidings.pipeline.session import Session


def begin(spark: Session, net: Brokers, topic: str, folder: Path) -> Following:
    """Follow a topic of a network; call it when the topic is declared. The folder is for what it writes."""
    from tidings.pipeline.connector import stream as following

    pages = [f"http://{member.http}" for member in net.members]
    return Following(following.begin(spark, pages, topic, folder.absolute()), pages)


class Following:
    """A stream that follows a topic."""

    def __init__(self, stream: Stream, pages: Sequence[str]) -> None:
        self._stream = stream
        self._pages = pages

    @property
    def topic(self) -> str:
        """What it follows."""
        return self._stream.topic

    @property
    def rows(self) -> int:
        """How much it has read, so far."""
        return self._stream.rows

    def finish(self, played: Played) -> tuple[Check, ...]:
        """Read to the end of the log, stop, and compare; the network must still be up."""
        followed = self._stream.read_to_end(SLOW_S)
        watchers = {one.client for one in played.subscribers if one.filter is None}
        watched = [
            (one.event, one.version)
            for one in played.delivered
            if one.subscriber in watchers and one.topic == self.topic
        ]
        return checks(followed, logged(self._pages, self.topic), watched)

    def table(self) -> Any:
        """The rows that it wrote down: a DataFrame."""
        return self._stream.table()

    def stop(self) -> None:
        """Stop it; nothing happens the second time."""
        self._stream.stop()


def logged(pages: Sequence[str], topic: str) -> Counts:
    """What a log holds of a topic, read without Spark."""
    from tidings.pipeline.connector.stream import Counts

    reader = LogReader(pages, timeout_s=SLOW_S, patience_s=SLOW_S)
    rows = 0
    versions: set[tuple[str, int]] = set()
    for held in reader.whole(topic).holders:
        for batch in reader.read(topic, EVENTS, held.holder, held.first, held.next):
            rows += batch.num_rows
            versions.update(
                zip(batch.column("_event").to_pylist(), batch.column("_version").to_pylist(), strict=True)
            )
    return Counts(rows, len(versions), len({event for event, _ in versions}))


def checks(followed: Counts, log: Counts, watched: Collection[tuple[str, int]]) -> tuple[Check, ...]:
    """Whether the stream, the log and the client that watched the topic have the same."""
    versions, events = len(set(watched)), len({event for event, _ in watched})
    return (
        Check(
            "What the stream read, and what the log holds",
            f"{_told(followed)}; {_told(log)}",
            followed == log,
        ),
        Check(
            "What the stream read, and what a client got of the whole topic",
            f"{followed.versions:,} versions of {followed.events:,} events; {versions:,} of {events:,}",
            (followed.versions, followed.events) == (versions, events),
        ),
    )


def _told(counts: Counts) -> str:
    return f"{counts.rows:,} rows, {counts.versions:,} versions of {counts.events:,} events"
