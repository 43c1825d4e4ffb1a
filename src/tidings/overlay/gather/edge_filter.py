"""On the way: what the broker where a report enters knows of the seat's events, so that it need not send what
would be redundant there.

It is taught by messages that are sent anyway. A version that a seat tells says until when the event will be
open at least, to every broker that it passes. And when a seat says that it has taken an origin's reports
(`Taken`), it says of each how long one that says the same would be redundant. Nothing is known beyond what is
safe at the seat and its deputy.

All times are those of the seat's clock, which nobody else can read. But a report that was sent here when our
clock showed t was taken before the seat's showed s, so the seat's clock is ahead of ours by s - t at most:
that is how late one that is sent now would come. No clocks need agree, and no delay need be bounded.

How reports travel and what becomes of those that are not sent is not known here (`reports`), nor how anything
is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidings.errors import PayloadError
from tidings.language.keys import Key
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.gather.messages import Holder, Known
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.outbox import QOS_ONCE
from tidings.overlay.publishing.publications import BOOT_SHIFT
from tidings.overlay.routing.topics import Topics

KNOWN_MAX = 10_000
"""Events of one place that are known here, at most; the one heard of longest ago makes room."""

DRIFT = 50
"""Two clocks go apart by less than one part in so many."""


class Knowledge:
    """What a seat is known to have of one event."""

    __slots__ = ("event", "said", "until_us")

    def __init__(self, event: str) -> None:
        self.event = event
        self.until_us = 0
        """By the clock of the seat: until then it is open, less what reports may be late."""
        self.said: list[dict[str, Any]] = [{} for _ in range(QOS_ONCE + 1)]
        """By quality of service: fields that reports or versions of at least that have brought. One of QoS 1
        promises more to subscribers than a version of QoS 0 has kept."""

    def add(self, fields: Mapping[str, Any], qos: int) -> None:
        for said in self.said[: qos + 1]:
            _join(said, fields)


class Upstream:
    """What is known of the events of one place, from the broker that has its seat."""

    def __init__(self) -> None:
        self.known: dict[Key, Knowledge] = {}
        self.keys: dict[str, Key] = {}
        """By event."""
        self.unread: dict[str, Publication] = {}
        """By event: versions that have passed, to be read when a report comes; at most brokers none does."""
        self.ahead: tuple[int, int] | None = None
        """By how much the seat's clock is ahead at most, and when that was so, by the clock here."""

    def learn(self, key: Key, event: str, fields: Mapping[str, Any], qos: int, until_us: int) -> None:
        known = self.known.get(key)
        if known is None or known.event != event:
            if known is not None:
                self.forget(known.event)
            elif len(self.known) >= KNOWN_MAX:
                self.forget(next(iter(self.keys)))
            known = self.known[key] = Knowledge(event)
            self.keys[event] = key
        known.until_us = until_us
        known.add(fields, qos)

    def forget(self, event: str) -> None:
        self.unread.pop(event, None)
        key = self.keys.pop(event, None)
        if key is not None:
            del self.known[key]


class EdgeFilter:
    """What need not be sent, for all places."""

    def __init__(self, core: Core, topics: Topics, holder: Callable[[str], Holder | None]) -> None:
        self._core = core
        self._topics = topics
        self._holder = holder
        self._places: dict[str, Upstream] = {}
        self.dropped = 0
        """Reports that entered here and were not sent, since they would have been redundant."""
        self.merged = 0
        """Reports that entered here and went as part of another."""

    def redundant(self, place: str, topic: Topic, report: Report, qos: int) -> str | None:
        """The event that says all that a report says, if it is sure to be open when that would come."""
        about = self._places.get(place)
        if about is None or about.ahead is None:
            return None
        if about.unread:
            self._read(about, topic)
        known = about.known.get(report.key)
        if known is None or not _within(report.fields, known.said[qos]):
            return None
        at_us = self._core.at_us
        ahead_us, since_us = about.ahead
        if at_us + ahead_us + (at_us - since_us) // DRIFT >= known.until_us:
            return None
        return known.event

    def _read(self, about: Upstream, topic: Topic) -> None:
        unread, about.unread = about.unread, {}
        for event, publication in unread.items():
            told = publication.told
            if told is None or told.declared != topic.version:
                continue
            if self._topics.declaration(publication.topic) is not topic:
                continue
            try:
                read = self._topics.read(publication.topic, publication.payload, publication.content_type)
            except PayloadError:
                continue  # it was told under another declaration
            about.learn(read.key, event, read.fields, publication.qos, told.until_us)

    def on_told(self, publication: Publication) -> None:
        """A version of an event has come by."""
        told = publication.told
        if told is None or not (told.until_us or told.last):
            return
        place = told.place or told.topic
        if told.last:
            self.close(place, told.event)
            return
        holder = self._holder(place)
        boot = publication.incarnation + (publication.number >> BOOT_SHIFT)
        if holder is None or (holder.seat, holder.boot) != (publication.origin, boot):
            return
        unread = self._place(place).unread
        unread.pop(told.event, None)
        if len(unread) >= KNOWN_MAX:
            del unread[next(iter(unread))]
        unread[told.event] = publication

    def on_known(
        self, place: str, known: Known, reports: Iterable[tuple[Publication, Report, int, str, int]]
    ) -> None:
        """A seat has taken reports that were sent from here: each, what it says, when it was first sent, the
        event, and until when that will be open.
        """
        holder = self._holder(place)
        if holder is None or (holder.seat, holder.boot) != (known.seat, known.boot):
            return
        about = self._place(place)
        for publication, report, sent_us, event, until_us in reports:
            ahead = known.at_us - sent_us, sent_us
            if about.ahead is None or ahead[0] < about.ahead[0] + (sent_us - about.ahead[1]) // DRIFT:
                about.ahead = ahead
            if until_us:
                about.learn(report.key, event, report.fields, publication.qos, until_us)

    def close(self, place: str, event: str) -> None:
        """An event is closed, maybe before its time."""
        about = self._places.get(place)
        if about is not None:
            about.forget(event)

    def forget(self, place: str) -> None:
        """Another broker has the seat, which may not know what this one did; or all is declared otherwise."""
        self._places.pop(place, None)

    def _place(self, place: str) -> Upstream:
        about = self._places.get(place)
        if about is None:
            about = self._places[place] = Upstream()
        return about


def _within(fields: Mapping[str, Any], said: Mapping[str, Any]) -> bool:
    """Whether all fields are said, exactly so."""
    if fields.items() <= said.items():
        return True
    return all(
        name in said
        and (
            _within(value, said[name])
            if isinstance(value, dict) and isinstance(said[name], dict)
            else value == said[name]
        )
        for name, value in fields.items()
    )


def joined(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any] | None:
    """What two reports say together; None if they disagree, for then the seat must see both."""
    found = dict(fields)
    for name, value in more.items():
        said = found.get(name)
        if isinstance(value, dict) and isinstance(said, dict):
            value = joined(said, value)
            if value is None:
                return None
        elif said is not None and said != value:
            return None
        found[name] = value
    return found


def _join(said: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, dict):
            _join(said.setdefault(name, {}), value)
        else:
            said[name] = value
