"""A network's log for tests of readers: several brokers in memory behind one HTTP address.

It answers as a broker does, and fails when it is told to: cuts an answer off, loses a broker, asks for a
password. It is started on a thread of its own.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tidings.errors import FilterError
from tidings.language.filters import parse
from tidings.language.topics import Topic
from tidings.records.log_rows import EVENTS, Rows, form_of
from tidings.wire.log_stream import CONTENT_TYPE, StreamWriter

BATCH_ROWS = 100


class Entry(msgspec.Struct, frozen=True):
    """As `history.entries.Entry`, which this server does without."""

    number: int
    at_us: int
    topic: str
    payload: bytes
    content_type: str = ""
    event: str | None = None
    version: int | None = None
    reports: int | None = None
    complete: bool | None = None
    state: str | None = None
    report: str | None = None


@dataclass
class Kept:
    """One holder's log of one topic."""

    entries: list[Entry] = field(default_factory=list)
    first: int = 0
    """Older ones are kept no more."""

    @property
    def following(self) -> int:
        return len(self.entries)


class LogServer:
    """What is served; it may be changed at any time."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.logs: dict[tuple[str, str], Kept] = {}
        """By holder and what."""
        self.away: set[str] = set()
        """Brokers that cannot be asked."""
        self.copies: dict[str, tuple[int, int]] = {}
        """Of holders that are away or gone: from and up to which number a deputy has their entries."""
        self.gone: set[str] = set()
        """Holders whose brokers came back without their disks."""
        self.user: tuple[str, str] | None = None
        """Name and password, where they are asked for."""
        self.cut_after: list[int] = []
        """The next reads end without a word after so many batches."""
        self.faults: list[str] = []
        """The next reads end with such a reason after their first batch."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """All requests, in order."""
        self.url = ""

    def publish(self, holder: str, *reports: dict[str, Any], what: str = EVENTS, **about: Any) -> None:
        """Entries of one holder, a microsecond apart in the order of all."""
        for report in reports:
            log = self.logs.setdefault((holder, what), Kept())
            at_us = sum(len(one.entries) for one in self.logs.values())
            payload = msgspec.json.encode(report)
            log.entries.append(Entry(log.following, at_us, self.topic.name, payload, **about))

    @contextmanager
    def serve(self) -> Iterator[LogServer]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                outer.asked.append((parts.path, asked))
                status, answer = outer._answer(parts.path, asked, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Connection", "close")
                if isinstance(answer, dict):
                    body = json.dumps(answer).encode()
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("Content-Type", CONTENT_TYPE)
                self.end_headers()
                for piece in answer:
                    self.wfile.write(piece)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Nothing: what was asked is in `asked`."""

        return Handler

    def _answer(
        self, path: str, asked: dict[str, str], said: str
    ) -> tuple[int, dict[str, Any] | Iterator[bytes]]:
        if self.user is not None:
            right = "Basic " + base64.b64encode(":".join(self.user).encode()).decode()
            if said != right:
                return HTTPStatus.UNAUTHORIZED, {"error": "no such name and password"}
        if asked["topic"] != self.topic.name:
            return HTTPStatus.NOT_FOUND, {"error": f"no topic {asked['topic']!r} is declared"}
        what = asked.get("what", EVENTS)
        logs = {holder: log for (holder, kind), log in sorted(self.logs.items()) if kind == what}
        silent = self.gone | {one for one in logs if _broker(one) in self.away}
        there = {holder: log for holder, log in logs.items() if holder not in silent}
        if path == "/log":
            holders = [
                {"holder": one, "first": log.first, "next": log.following} for one, log in there.items()
            ]
            copies = {one: span for one, span in self.copies.items() if one in silent}
            holders += [
                {"holder": one, "first": first, "next": following, "copied": one not in self.gone}
                | {"gone": one in self.gone}
                for one, (first, following) in copies.items()
            ]
            away = sorted(self.away - {_broker(one) for one in copies})
            told = {"topic": self.topic.name, "holders": holders, "away": away}
            return HTTPStatus.OK, told | msgspec.to_builtins(form_of(self.topic, what))
        if path == "/log/at":
            at_us = int(asked["at"])
            numbers = {one: _at(log, at_us) for one, log in there.items()}
            return HTTPStatus.OK, {"holders": numbers, "away": sorted(self.away)}
        assert path == "/log/read", path
        holder, start, stop = asked["holder"], int(asked["from"]), int(asked["to"])
        first, following = self.copies.get(holder, (0, -1))
        if holder in silent and not first <= start <= stop <= following:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"{holder!r} cannot be reached"}
        log = logs[holder]
        if start < log.first:
            gone: dict[str, Any] = {
                "error": f"{holder!r} keeps entries from {log.first} on",
                "first": log.first,
            }
            return HTTPStatus.GONE, gone
        try:
            where = parse(asked["where"], self.topic.fields) if "where" in asked else None
        except FilterError as error:
            return HTTPStatus.BAD_REQUEST, {"error": error.reason}
        rows = Rows(self.topic, what, where)
        return HTTPStatus.OK, self._stream(rows, holder, log.entries[start:stop], min(stop, log.following))

    def _stream(self, rows: Rows, holder: str, entries: Sequence[Entry], stop: int) -> Iterator[bytes]:
        writer = StreamWriter(rows.schema)
        cut = self.cut_after.pop(0) if self.cut_after else None
        fault = self.faults.pop(0) if self.faults else None
        for number, at in enumerate(range(0, len(entries), BATCH_ROWS)):
            if number == cut:
                return
            some = entries[at : at + BATCH_ROWS]
            yield writer.batch(rows.batch(holder, some), some[-1].number + 1)
            if fault is not None:
                yield writer.fault(fault)
                return
        if cut is None:
            yield writer.end(stop)


def _broker(holder: str) -> str:
    return holder.rpartition(".")[0]


def _at(log: Kept, at_us: int) -> int:
    return next((one.number for one in log.entries[log.first :] if one.at_us >= at_us), log.following)
