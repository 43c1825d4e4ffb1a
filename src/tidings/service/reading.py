"""The log over HTTP: what a broker keeps of a topic, and through it what the whole network does.

    GET /log?topic=&what=                              which columns, and who holds which numbers
    GET /log/at?topic=&what=&at=                       by holder, the first number at or after a time
    GET /log/read?topic=&what=&holder=&from=&to=&where=    a range of one holder, as an Arrow stream

The users and rules of MQTT hold: who may subscribe to a topic may read it. Any broker answers for all: it
asks the others, in the name of the client who asked, and passes on what they say. Files and other brokers are
read on threads, one piece at a time, so that neither the loop nor memory fills up. How a log is kept is known
to `history`, what rows are to `records.log_rows`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import http.client
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Protocol, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from tidings.errors import FilterError, InputError, SetupError
from tidings.history.entries import EVENTS, KINDS, Entry
from tidings.history.log import NoLongerKept
from tidings.history.logs import Logs
from tidings.language.filters import Filter, parse
from tidings.language.names import parse_pattern
from tidings.language.topics import Topic
from tidings.mqtt.access import allowed
from tidings.mqtt.events import Access
from tidings.overlay.events import LogRead
from tidings.records.holders import Held, Holder, parse_holder
from tidings.records.log_rows import Rows, form_of
from tidings.service.requests import Answer, BadRequest, Request
from tidings.service.tls import certified
from tidings.wire.log_stream import CONTENT_TYPE, StreamWriter

PATHS = ("/log", "/log/at", "/log/read")

READS_MAX = 8
"""Reads at once; others are told to come back. Each has a thread, and a core is soon busy with two."""

ROWS_AT_ONCE = 4096
BYTES_AT_ONCE = 4 << 20
"""Of payloads, turned into one batch."""

PIECE_BYTES = 1 << 20
"""Passed on at a time of what another broker says."""

ASK_WITHIN_S = 3.0
"""How long another broker may take to say what it holds; then it counts as away."""

ASKED_AT_ONCE = 16
"""Other brokers, for one request."""

SILENT_S_MAX = 60.0
"""How long a client may take nothing, or another broker say nothing, before a read is ended."""

ANSWER_BYTES_MAX = 16 << 20

RELAY = "x-tidings-broker"
"""Says that another broker asks, and which; it is told only what is here, and asks nobody else."""

Result = TypeVar("Result")


class Keeper(Protocol):
    """What is asked of a node."""

    @property
    def id(self) -> str: ...
    @property
    def holder(self) -> Holder: ...
    @property
    def ready(self) -> bool: ...
    @property
    def logs(self) -> Logs | None: ...
    @property
    def access(self) -> Access: ...
    def topic(self, name: str) -> Topic | None: ...
    def pages_of_others(self) -> Mapping[str, str]: ...
    def user(self, name: str, password: bytes) -> str | None: ...
    def tell(self, event: LogRead, /) -> None: ...


class _Holders(msgspec.Struct, frozen=True):
    """What another broker answers to /log, as far as it is used here."""

    holder: str
    """Which holder it is itself."""

    holders: list[Held]


class _Numbers(msgspec.Struct, frozen=True):
    """And to /log/at."""

    holder: str
    holders: dict[str, int]


class Asked(msgspec.Struct, frozen=True):
    """A request, understood: what it is about, and who asks."""

    topic: Topic
    what: str
    user: str

    relay: str
    """The broker that asks for another client; empty if it is the client itself."""

    words: Mapping[str, str]
    """The query, as it came."""

    authorization: str
    """To be passed on."""

    others: Mapping[str, str]
    """Where the other brokers are; none if another broker asks, which asks them itself."""


class Reading:
    """Serves the log of one node."""

    def __init__(self, node: Keeper) -> None:
        self._node = node
        self._pool: ThreadPoolExecutor | None = None
        self._reads = 0

    def close(self) -> None:
        """End the threads; what is being read ends with its connection."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> Answer | None:
        """The answer to a request; None if it was written already. BadRequest says why there is none."""
        if request.method not in ("GET", "HEAD"):
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not possible here; GET is")
        if not self._node.ready:
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "the broker is starting or stopping")
        if self._reads >= READS_MAX:
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, f"{READS_MAX} reads are under way; try again")
        self._reads += 1
        try:
            asked = await self._understand(request, writer.get_extra_info("peercert"))
            if request.path == "/log":
                return await self._run(lambda: self._about(asked))
            if request.path == "/log/at":
                return await self._run(lambda: self._at(asked))
            if request.method == "HEAD":
                return Answer(HTTPStatus.OK, b"", CONTENT_TYPE)
            await self._read(asked, writer)
            return None
        finally:
            self._reads -= 1

    def _run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(READS_MAX, thread_name_prefix="log")
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    # Who asks, and for what.

    async def _understand(self, request: Request, certificate: Mapping[str, object] | None) -> Asked:
        words = dict(parse_qsl(request.query, keep_blank_values=True))
        authorization = request.headers.get("authorization", "")
        user = certified(certificate)
        if user is None:
            user = await self._user(authorization)
        name, what = words.get("topic", ""), words.get("what", EVENTS)
        if what not in KINDS:
            raise BadRequest(
                HTTPStatus.BAD_REQUEST, f"what is {what[:80]!r}; it is one of {', '.join(KINDS)}"
            )
        try:
            topic_filter = parse_pattern(name).filter
        except ValueError as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"topic: {error}") from None
        if not allowed(self._node.access, user, "", "subscribe", topic_filter):
            raise BadRequest(
                HTTPStatus.FORBIDDEN, f"the right to subscribe to {topic_filter[:80]!r} is lacking"
            )
        topic = self._node.topic(name)
        if topic is None:
            raise BadRequest(
                HTTPStatus.NOT_FOUND, f"no topic {name[:80]!r} is declared; see them with: tidings topic list"
            )
        kept_us = topic.keep_us
        if what != EVENTS:
            if topic.gathering is None:
                raise BadRequest(
                    HTTPStatus.NOT_FOUND,
                    f"{name[:80]!r} is plain, and has no {what}; ask for events",
                )
            kept_us = topic.gathering.keep_reports_us
        if kept_us is None:
            option = "keep" if what == EVENTS else "keep_reports"
            raise BadRequest(
                HTTPStatus.NOT_FOUND, f'{what} of {name[:80]!r} are not kept; declare {option} = "7d", say'
            )
        relay = request.headers.get(RELAY, "")[:255]
        # Here, not on a thread: the catalogue is the loop's.
        others = {} if relay else dict(sorted(self._node.pages_of_others().items()))
        return Asked(topic, what, user, relay, words, authorization, others)

    async def _user(self, authorization: str) -> str:
        """Who asks, "" for one without a name; refused where that is not allowed."""
        scheme, _, rest = authorization.partition(" ")
        if not authorization:
            if self._node.access.anonymous:
                return ""
        elif scheme.lower() == "basic":
            try:
                name, _, password = base64.b64decode(rest, validate=True).partition(b":")
                text = name.decode()
            except (binascii.Error, UnicodeDecodeError):
                raise BadRequest(HTTPStatus.BAD_REQUEST, "Authorization is not Basic and base64") from None
            user = await self._run(lambda: self._node.user(text, password))
            if user is not None:
                return user
        raise BadRequest(
            HTTPStatus.UNAUTHORIZED, "a user name and a password that fit are needed: Authorization: Basic …"
        )

    # What there is.

    def _about(self, asked: Asked) -> Answer:
        own = str(self._node.holder)
        found: dict[str, dict[str, Held]] = {own: {one.holder: one for one in self._here(asked)}}
        answers, away = self._ask_others("/log", asked)
        for broker, told in answers.items():
            listed = _decoded(broker, told, _Holders)
            found[listed.holder] = {one.holder: one for one in listed.holders}
        present = {_holder(one).broker: one for one in found}
        holders = [
            msgspec.structs.replace(
                one, copied=one.broker in away, gone=present.get(one.broker, one.holder) != one.holder
            )
            for _, one in sorted(_merged(found).items())
        ]
        return _json(
            msgspec.to_builtins(form_of(asked.topic, asked.what))
            | {
                "topic": asked.topic.name,
                "holder": own,
                "holders": holders,
                "away": sorted(set(away) - {one.broker for one in holders}),
            }
        )

    def _at(self, asked: Asked) -> Answer:
        at_us = _number(asked.words, "at")
        own = str(self._node.holder)
        found = {own: self._at_here(asked, at_us)}
        answers, away = self._ask_others("/log/at", asked)
        for broker, told in answers.items():
            listed = _decoded(broker, told, _Numbers)
            found[listed.holder] = listed.holders
        numbers = dict(sorted(_merged(found).items()))
        missing = sorted(set(away) - {_holder(one).broker for one in numbers})
        return _json({"holder": own, "holders": numbers, "away": missing})

    def _at_here(self, asked: Asked, at_us: int) -> dict[str, int]:
        logs = self._node.logs
        if logs is None:
            return {}
        numbers = {str(one): at for one, at in logs.at(asked.topic.name, asked.what, at_us).items()}
        own = str(self._node.holder)
        # Before the first entry of a copy its owner may have others that are as late.
        unsure = {
            held.holder
            for held in self._here(asked)
            if held.holder != own and 0 < held.first == numbers.get(held.holder)
        }
        return {holder: number for holder, number in numbers.items() if holder not in unsure}

    def _here(self, asked: Asked) -> list[Held]:
        logs = self._node.logs
        if logs is None:
            return []
        return [
            Held(str(holder), first, following)
            for holder, first, following in logs.holders(asked.topic.name, asked.what)
        ]

    def _ask_others(self, path: str, asked: Asked) -> tuple[dict[str, bytes], list[str]]:
        """What the others say, by broker; and those who cannot be asked."""
        if not asked.others:
            return {}, []
        answers: dict[str, bytes] = {}
        away: list[str] = []
        # Threads of its own: one that waits for another broker must not keep a read from going on.
        with ThreadPoolExecutor(min(ASKED_AT_ONCE, len(asked.others)), "log-ask") as pool:
            asking = {
                broker: pool.submit(self._ask, url, path, asked) for broker, url in asked.others.items()
            }
            for broker, answer in asking.items():
                try:
                    status, body = answer.result()
                except (OSError, http.client.HTTPException):
                    away.append(broker)
                    continue
                if status == HTTPStatus.OK:
                    answers[broker] = body
                elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise BadRequest(HTTPStatus(status), f"{broker!r} does not let this user read the topic")
                elif status == HTTPStatus.NOT_FOUND:
                    continue  # it has not heard of the declaration yet, and holds nothing
                else:
                    away.append(broker)
        return answers, away

    def _ask(self, url: str, path: str, asked: Asked) -> tuple[int, bytes]:
        with self._open(url, path, asked, ASK_WITHIN_S) as response:
            return response.status, response.read(ANSWER_BYTES_MAX)

    def _open(self, url: str, path: str, asked: Asked, within_s: float) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within_s)
        headers = {"Connection": "close", RELAY: self._node.id}
        if asked.authorization:
            headers["Authorization"] = asked.authorization
        try:
            connection.request("GET", f"{path}?{urlencode(asked.words)}", headers=headers)
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    # A range.

    async def _read(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        span = _span(asked.words)
        where = _where(asked)
        tally = Tally()
        pieces = await self._run(lambda: self._pieces(asked, span, where, tally))
        coming = self._run(lambda: next(pieces, None))
        try:
            piece = await coming
            writer.write(STREAM_HEAD)
            while piece is not None:
                # The next one is made while this one is sent; there are never more than two.
                coming = self._run(lambda: next(pieces, None))
                tally.bytes += len(piece)
                writer.write(piece)
                async with asyncio.timeout(SILENT_S_MAX):
                    await writer.drain()
                piece = await coming
        finally:
            await asyncio.wait([coming])
            pieces.close()
            if tally.following is not None:
                self._node.tell(
                    LogRead(
                        asked.topic.name,
                        asked.what,
                        span.holder,
                        span.start,
                        tally.following,
                        tally.rows,
                        tally.bytes,
                        asked.user,
                        asked.relay or self._node.id,
                    )
                )

    def _pieces(
        self, asked: Asked, span: Span, where: Filter | None, tally: Tally
    ) -> Generator[bytes, None, None]:
        """The bytes of an answer: made here, or by another who has it. BadRequest says why there are none."""
        others, owner = asked.others, span.holder.broker
        fault = BadRequest(HTTPStatus.NOT_FOUND, f"{span.holder} holds nothing of {asked.topic.name!r}")
        over: Gone | None = None
        """Where the owner lives another life now: what no copy has is lost."""
        if owner == self._node.id and span.holder != self._node.holder:
            fault = over = _life_over(span.holder, self._node.holder)
        elif owner in others:
            try:
                return self._passed_on(others[owner], asked)
            except (OSError, http.client.HTTPException):
                # A deputy may have it.
                fault = BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, f"{owner!r} cannot be reached now")
            except Gone as error:
                if error.first is not None:
                    raise
                fault = over = error
        for held in self._here(asked):
            if held.holder == str(span.holder):
                try:
                    return self._made(asked, span, where, held, tally)
                except Incomplete as error:
                    # Another broker may have been its deputy for longer.
                    fault = error if over is None else _partly_copied(over, held)
        for other, url in others.items():
            if other != owner:
                try:
                    return self._passed_on(url, asked)
                except (OSError, http.client.HTTPException, BadRequest):
                    continue
        raise fault

    def _made(
        self, asked: Asked, span: Span, where: Filter | None, held: Held, tally: Tally
    ) -> Generator[bytes, None, None]:
        if span.holder == self._node.holder:
            if span.start < held.first:
                raise Gone(f"{held.holder} keeps entries from {held.first} on, not {span.start}", held.first)
            if span.start > held.next:
                raise BadRequest(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{held.holder} has entries up to {held.next}, not yet {span.start}",
                )
        elif not held.first <= span.start <= span.stop <= held.next:
            raise Incomplete(
                f"{held.holder} is away, and the copy here has {held.first} up to {held.next}, not all of "
                f"{span.start} up to {span.stop}"
            )
        logs = self._node.logs
        assert logs is not None, "it holds something"
        rows = Rows(asked.topic, asked.what, where)
        try:
            entries = logs.read(asked.topic.name, asked.what, span.holder, span.start, span.stop)
        except NoLongerKept as error:
            raise Gone(str(error), None) from None
        except (InputError, SetupError) as error:
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        tally.following = span.start
        return _encoded(rows, held.holder, entries, tally)

    def _passed_on(self, url: str, asked: Asked) -> Generator[bytes, None, None]:
        response = self._open(url, "/log/read", asked, SILENT_S_MAX)
        if response.status == HTTPStatus.OK:
            return _copied(response)
        with response:
            body = response.read(ANSWER_BYTES_MAX)
        try:
            told = msgspec.json.decode(body, type=_Refusal)
        except msgspec.DecodeError:
            told = _Refusal()
        if response.status == HTTPStatus.GONE:
            raise Gone(told.error, told.first)
        raise BadRequest(HTTPStatus(response.status), told.error)


class Gone(BadRequest):
    """Entries that are kept no more."""

    def __init__(self, reason: str, first: int | None) -> None:
        super().__init__(HTTPStatus.GONE, reason)
        self.first = first
        """Where the log begins now; None if there is no more of it, or nobody knows."""
        self.about["first"] = first


class Incomplete(BadRequest):
    """A copy that begins later or ends earlier than what is asked for. Nothing is lost: its owner is away."""

    def __init__(self, reason: str) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, reason)


class Span(msgspec.Struct, frozen=True):
    """Entries that are asked for: of a holder, from one number up to, not including, another."""

    holder: Holder
    start: int
    stop: int


class Tally(msgspec.Struct):
    """What a read has come to."""

    rows: int = 0
    bytes: int = 0

    following: int | None = None
    """The number behind the last entry; None if another broker makes the answer, and counts."""


class _Refusal(msgspec.Struct, frozen=True):
    error: str = "it gives no reason"
    first: int | None = None


STREAM_HEAD = (
    f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nCache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
).encode("ascii")
"""Without a length, which nobody knows: the stream says itself where it ends."""


def _life_over(asked: Holder, now: Holder) -> Gone:
    """A life of a broker that is over, and its log with it."""
    return Gone(
        f"{asked} is in the network no more: the broker came back without its disk, and is {now} now; read "
        "that one from its first entry",
        None,
    )


def _partly_copied(over: Gone, held: Held) -> Gone:
    """The same, where a copy has some of it."""
    return Gone(f"{over.reason}; a copy has {held.first} up to {held.next}", held.first)


def _encoded(rows: Rows, holder: str, entries: Iterator[Entry], tally: Tally) -> Generator[bytes, None, None]:
    assert tally.following is not None, "it is known where the range begins"
    writer = StreamWriter(rows.schema)
    try:
        for some in _batched(entries):
            batch = rows.batch(holder, some)
            tally.rows += batch.num_rows
            tally.following = some[-1].number + 1
            yield writer.batch(batch, tally.following)
        last = writer.end(tally.following)
    except (InputError, SetupError) as error:
        # Dropped or broken while it was read.
        last = writer.fault(str(error))
    yield last


def _copied(response: http.client.HTTPResponse) -> Generator[bytes, None, None]:
    """What another broker says. Where it is cut off so is ours, and the client sees that."""
    with response:
        while True:
            try:
                piece = response.read1(PIECE_BYTES)
            except (OSError, http.client.HTTPException):
                return
            if not piece:
                return
            yield piece


def _batched(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    size = 0
    for entry in entries:
        some.append(entry)
        size += len(entry.payload)
        if len(some) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _merged(found: Mapping[str, Mapping[str, Number]]) -> dict[str, Number]:
    """Of what each holder says of each log, what its owner says; else the best of the copies."""
    merged: dict[str, Number] = {}
    for speaker, logs in sorted(found.items()):
        for holder, said in logs.items():
            if speaker == holder or holder not in found.get(holder, {}):
                before = merged.get(holder)
                merged[holder] = said if before is None or _end(said) > _end(before) else before
    return merged


Number = TypeVar("Number", Held, int)


def _end(said: Held | int) -> int:
    return said.next if isinstance(said, Held) else said


def _where(asked: Asked) -> Filter | None:
    text = asked.words.get("where", "")
    if not text:
        return None
    try:
        return parse(text, asked.topic.fields or None)
    except FilterError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"where: {error.reason}") from None


def _span(words: Mapping[str, str]) -> Span:
    span = Span(_holder(words.get("holder", "")), _number(words, "from"), _number(words, "to"))
    if span.stop < span.start:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "say holder, from and to; from must not be above to")
    return span


def _holder(text: str) -> Holder:
    try:
        return parse_holder(text)
    except InputError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"holder: {error}") from None


def _number(words: Mapping[str, str], name: str) -> int:
    text = words.get(name, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) >= 2**63:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"{name} is {text[:80]!r}; it is a whole number from 0 on")
    return int(text)


def _decoded(broker: str, body: bytes, kind: type[Result]) -> Result:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise BadRequest(HTTPStatus.BAD_GATEWAY, f"what {broker!r} says is not understood: {error}") from None


def _json(value: object) -> Answer:
    return Answer(HTTPStatus.OK, msgspec.json.encode(value) + b"\n")
