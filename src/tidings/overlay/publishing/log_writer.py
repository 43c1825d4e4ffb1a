"""Log writer: what goes to the log, and under which number.

A topic declared with `keep` is kept where it enters: a plain topic at each broker for what was published
there, a gathered one at its seat for what it told. With `keep_reports` each broker keeps the reports that
entered there. Each broker numbers its own, densely, for each topic; its driver says at birth where the
numbers go on, and has an entry durable with the sync that an acknowledgement waits for. What a log is on disk
is not known here (`history`).

A seat's deputy keeps a copy of what the seat told, under the seat's name, incarnation and numbers. It gets an
entry only when it is on the seat's own disk: else a seat that is started anew could give the number again,
and the copy would say something else.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.language.topics import Topic
from tidings.overlay.core import Core
from tidings.overlay.events import Append
from tidings.overlay.publication import Batch, Publication, Told
from tidings.overlay.publishing.messages import Logged
from tidings.overlay.routing.topics import Topics
from tidings.records.holders import Holder

EVENTS = "events"
REPORTS = "reports"

Numbers = Mapping[tuple[str, str], int]
"""By name of a topic and what: the number that its next entry has."""


class LogWriter:
    """What this broker numbers."""

    def __init__(self, core: Core, topics: Topics, logged: Numbers) -> None:
        self._core = core
        self._topics = topics
        self._next = dict(logged)

    def publications(self, topic: Topic, batch: Batch) -> bool:
        """Something was published on a declared topic and goes its way as it is; whether it is kept."""
        if topic.gathering is None:
            what, kept = EVENTS, topic.keep_us is not None
        else:
            what, kept = REPORTS, topic.gathering.keep_reports_us is not None
        for at in range(len(batch)) if kept else ():
            head = batch.head(at)
            self._core.out.append(
                Append(
                    topic.name,
                    what,
                    self._core.holder,
                    self._number(topic.name, what),
                    self._core.at_us,
                    head.topic,
                    batch.payload(at),
                    head.content_type,
                )
            )
        return kept

    def report(self, publication: Publication, report: str) -> bool:
        """A report has entered here; whether it is kept, so that its acknowledgement waits for the disk."""
        topic = self._topics.declaration(publication.topic)
        if topic is None or topic.gathering is None or topic.gathering.keep_reports_us is None:
            return False
        self._core.out.append(
            Append(
                topic.name,
                REPORTS,
                self._core.holder,
                self._number(topic.name, REPORTS),
                publication.at_us,
                publication.topic,
                publication.payload,
                publication.content_type,
                report=report,
            )
        )
        return True

    def told(self, topic: Topic, name: str, payload: bytes, content_type: str, told: Told) -> Logged | None:
        """A seat here tells a version; its entry, for the deputy, if it is kept."""
        if topic.keep_us is None:
            return None
        logged = Logged(
            topic.name,
            self._number(topic.name, EVENTS),
            self._core.at_us,
            name,
            payload,
            content_type,
            told.event,
            told.version,
            told.reports,
            told.complete,
            told.state,
        )
        self._append(self._core.holder, logged)
        return logged

    def copy(self, seat: str, incarnation: int, logged: Logged) -> None:
        """This broker is the deputy of a seat that has told a version: keep it under that one's name."""
        topic = self._topics.named(logged.name)
        if topic is not None and topic.keep_us is not None and seat != self._core.id:
            self._append(Holder(seat, incarnation), logged)

    def _append(self, holder: Holder, logged: Logged) -> None:
        self._core.out.append(
            Append(
                logged.name,
                EVENTS,
                holder,
                logged.number,
                logged.at_us,
                logged.topic,
                logged.payload,
                logged.content_type,
                logged.event,
                logged.version,
                logged.reports,
                logged.complete,
                logged.state,
            )
        )

    def _number(self, name: str, what: str) -> int:
        number = self._next.get((name, what), 0)
        self._next[name, what] = number + 1
        return number
