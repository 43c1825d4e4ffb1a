"""The blocking reader of a network's log: what was published and told, by holder and number, over HTTP.

    reader = LogReader("http://localhost:9883", username="ann", password="…")
    about = reader.about("traffic/athens")
    for held in about.holders:
        for batch in reader.read("traffic/athens", "events", held.holder, held.first, held.next):
            …

One address is enough: any broker asks the others. An answer is whole, or there is an error: what a cut
connection left out is asked for again from where it broke off, while there is patience, and then the read
fails. Nothing is ever skipped in silence. A password is sent to the brokers and shown nowhere.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

import msgspec

from tidings.errors import AccessError, DataLost, InputError, NetworkError, PeerError, SetupError
from tidings.records.holders import Held, parse_holder
from tidings.records.log_rows import EVENTS, Form, arrow_schema
from tidings.wire import log_stream

if TYPE_CHECKING:
    import pyarrow as pa

PORT = 9883
"""Where a broker's HTTP listener is, unless told otherwise."""

DEFAULT_URL = f"http://localhost:{PORT}"

TIMEOUT_S = 30.0
"""How long a broker may be silent."""

PAUSE_S = 0.25
"""Between two attempts; it doubles up to PAUSE_S_MAX."""

PAUSE_S_MAX = 5.0

ANSWER_BYTES_MAX = 16 << 20
"""Of an answer in JSON: a line for each broker of the network."""

WHERE_BYTES_MAX = 6144
"""Of a filter as it stands in a request, whose head a broker takes up to 8 KiB."""

Result = TypeVar("Result")


class _Told(Form, frozen=True, kw_only=True):
    """The answer of GET /log: which columns there are, and who holds what."""

    topic: str
    holders: list[Held]
    away: tuple[str, ...] = ()


class _Numbers(msgspec.Struct, frozen=True):
    """The answer of GET /log/at."""

    holders: dict[str, int]
    away: tuple[str, ...] = ()


class _Refusal(msgspec.Struct, frozen=True):
    """The body of every answer that is none."""

    error: str = ""
    first: int | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What a network has of a topic."""

    topic: str

    form: Form
    """Which columns there are."""

    holders: tuple[Held, ...]
    """Sorted."""

    away: tuple[str, ...]
    """Brokers that may hold a part and cannot be asked now; sorted."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return arrow_schema(self.form)


@dataclass(frozen=True, slots=True)
class Place:
    """One address of a broker's HTTP listener."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


class LogReader:
    """Reads the log of a network. One reader is for one thread; it holds no connection open between calls."""

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_URL,
        *,
        username: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ca` is a file of authorities to trust instead of the system's, `certificate` and `key` are our
        own. `patience_s` is how long a broker may be out of reach before a call fails.
        """
        self.places, named, secret = read_places(urls)
        """Tried in turn, the one that answered last first."""
        self._username = username if username is not None else named
        self._password = password if password is not None else secret
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._sleep = sleep
        self._clock = clock
        self._tls = _context(ca, certificate, key) if any(one.secure for one in self.places) else None
        if self._password and self._username is None:
            raise InputError("there is a password and no user name; give both, or none")

    def __repr__(self) -> str:
        return f"LogReader({', '.join(map(str, self.places))})"

    def about(self, topic: str, what: str = EVENTS) -> About:
        """What there is of a topic, in the whole network.

        InputError if it is not declared or not kept, AccessError if we may not read it, NetworkError if no
        broker answers.
        """
        return self._patient(lambda: _about(self._ask("/log", {"topic": topic, "what": what}, _Told)))

    def at(self, topic: str, what: str, at_us: int) -> dict[str, int]:
        """By holder, the number of the first entry at or after a time; where there is none, the next number.

        NetworkError if a broker that may hold a part is away: then nobody knows.
        """
        asked = {"topic": topic, "what": what, "at": str(max(0, at_us))}

        def ask() -> dict[str, int]:
            told = self._ask("/log/at", asked, _Numbers)
            if told.away:
                raise NetworkError(f"{_listed(told.away)} cannot be asked now; is it running?")
            return dict(sorted(told.holders.items()))

        return self._patient(ask)

    def whole(
        self,
        topic: str,
        what: str = EVENTS,
        of: Collection[str] | None = None,
        since: Mapping[str, int] | None = None,
        until: Mapping[str, int] | None = None,
    ) -> About:
        """As `about`, but with none of these holders away, or with none at all: waits for them while there is
        patience, then NetworkError.

        A deputy that speaks for a broker is as good as that one where it has the entry at which a read begins
        (`since`, by holder; the very first if it is not there) and reaches as far as `until`. Otherwise the
        broker counts as away. Of a holder that is gone there is what copies have, and nobody is waited for.
        """

        def ask() -> About:
            found = _about(self._ask("/log", {"topic": topic, "what": what}, _Told))
            short = {
                one.holder: one
                for one in found.holders
                if one.copied
                and not (
                    one.first <= (since or {}).get(one.holder, 0) <= one.next
                    and (until or {}).get(one.holder, 0) <= one.next
                )
            }
            why = {one.broker: f" (its deputy has {one.first} up to {one.next})" for one in short.values()}
            away = {*found.away, *why}
            if of is None:
                missed = away
            else:
                # Another life of a broker may have a copy, and the one that is needed none.
                here = {one.holder for one in found.holders} - short.keys()
                unasked = away | {one.broker for one in found.holders if one.copied}
                missed = unasked & {parse_holder(one).broker for one in of if one not in here}
            if missed:
                named = ", ".join(f"{broker!r}{why.get(broker, '')}" for broker in sorted(missed))
                raise NetworkError(
                    f"{named} may hold a part of {topic!r} and cannot be asked now; is it running?"
                )
            there = tuple(one for one in found.holders if one.holder not in short)
            return replace(found, holders=there, away=tuple(sorted(away)))

        return self._patient(ask)

    def read(
        self, topic: str, what: str, holder: str, start: int, stop: int, where: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """The entries from `start` up to, not including, `stop`, as batches; those that `where` lets through.

        DataLost if the first of them are kept no more, NetworkError if the rest cannot be had.
        """
        asked = {"topic": topic, "what": what, "holder": holder, "to": str(stop)}
        if fault := where_fault(where):
            raise InputError(fault)
        if where:
            asked["where"] = where
        patience = Patience(self._patience_s, self._sleep, self._clock)
        while start < stop:
            try:
                for batch, following in self._stream("/log/read", {**asked, "from": str(start)}):
                    # A broker must not go back, nor beyond what was asked for.
                    if not start <= following <= stop:
                        raise PeerError(
                            f"{holder!r} was asked for entries {start} to {stop} and tells of {following}"
                        )
                    if following > start:
                        start = following
                        patience.restore()
                    if batch.num_rows:
                        yield batch
                if start < stop:
                    raise NetworkError(
                        f"{holder!r} ended its answer at {start}, before {stop}: it does not have that yet"
                    )
            except NetworkError as error:
                patience.wait_or_raise(error)

    # Asking.

    def _patient(self, ask: Callable[[], Result]) -> Result:
        patience = Patience(self._patience_s, self._sleep, self._clock)
        while True:
            try:
                return ask()
            except NetworkError as error:
                patience.wait_or_raise(error)

    def _ask(self, path: str, asked: dict[str, str], kind: type[Result]) -> Result:
        with self._answer(path, asked) as response:
            try:
                body = response.read(ANSWER_BYTES_MAX + 1)
            except (OSError, http.client.HTTPException) as error:
                raise NetworkError(f"{self.places[0]} was cut off: {_reason(error)}") from None
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise PeerError(
                f"the answer of {self.places[0]} to {path} is none of a broker's: {error}"
            ) from None

    def _stream(self, path: str, asked: dict[str, str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        with self._answer(path, asked) as response:
            try:
                yield from log_stream.read(_Body(response))
            except NetworkError as error:
                raise NetworkError(f"{self.places[0]}: {error}") from None

    def _answer(self, path: str, asked: dict[str, str]) -> http.client.HTTPResponse:
        """The answer of the first broker that gives one; its body is still to be read."""
        faults = []
        untrusted = 0
        for place in self.places:
            try:
                response = self._request(place, f"{path}?{urlencode(asked)}")
            except ssl.SSLCertVerificationError as error:
                faults.append(f"{place} is not trusted: {error.verify_message.rstrip('.')}")
                untrusted += 1
                continue
            except (OSError, http.client.HTTPException) as error:
                hint = "; does it speak TLS?" if isinstance(error, ssl.SSLError) else ""
                faults.append(f"{place}: {_reason(error)}{hint}")
                continue
            if response.status != HTTPStatus.OK:
                with response:
                    fault = _refusal(place, response)
                if isinstance(fault, NetworkError) and not isinstance(fault, DataLost):
                    faults.append(str(fault))
                    continue
                raise fault
            self.places = (place, *(other for other in self.places if other != place))
            return response
        if untrusted == len(faults):
            # No patience helps.
            raise SetupError(
                f"{'; '.join(faults)}; name the authority that signed its certificate, and the host as in it"
            )
        raise NetworkError("; ".join(faults))

    def _request(self, place: Place, target: str) -> http.client.HTTPResponse:
        connection: http.client.HTTPConnection
        if place.secure:
            assert self._tls is not None, "made where a place is secure"
            connection = http.client.HTTPSConnection(
                place.host, place.port, timeout=self._timeout_s, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(place.host, place.port, timeout=self._timeout_s)
        headers = {"Connection": "close"}
        if self._username is not None:
            pair = f"{self._username}:{self._password or ''}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        try:
            connection.request("GET", target, headers=headers)
            # The response holds the socket, as its connection is to be closed; nothing else need be kept.
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise


class _Body:
    """The body of a response as Arrow reads a file; what breaks it off is an OSError."""

    closed = False

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def read(self, size: int = -1) -> bytes:
        try:
            return self._response.read(None if size < 0 else size)
        except http.client.HTTPException as error:
            raise OSError(_reason(error)) from None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


class Patience:
    """How long to go on trying; full again after each success."""

    def __init__(self, patience_s: float, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._patience_s = patience_s
        self._sleep = sleep
        self._clock = clock
        self.restore()

    def restore(self) -> None:
        self._until_s, self._pause_s = self._clock() + self._patience_s, PAUSE_S

    def wait_or_raise(self, error: NetworkError) -> None:
        """Wait a little; raises what DataLost is too, and what there is no more patience for."""
        left_s = self._until_s - self._clock()
        if isinstance(error, DataLost) or left_s <= 0:
            raise error
        pause_s = min(self._pause_s, left_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self._sleep(pause_s)


def where_fault(where: str) -> str | None:
    """Why a filter cannot be asked for in one request; None if it can."""
    size = len(quote_plus(where))
    if size <= WHERE_BYTES_MAX:
        return None
    return f"where has {size} bytes in a request, and may have {WHERE_BYTES_MAX}; filter after reading"


def read_places(urls: str | Sequence[str]) -> tuple[tuple[Place, ...], str | None, str | None]:
    """The addresses in a URL, a list of them, or a text with commas; and a name and a password in them.

    >>> [str(place) for place in read_places("http://a.example, https://[::1]:9884")[0]]
    ['http://a.example:9883', 'https://[::1]:9884']
    """
    texts = urls.split(",") if isinstance(urls, str) else [str(one) for one in urls]
    places: list[Place] = []
    name: str | None = None
    secret: str | None = None
    for text in (one.strip() for one in texts):
        if not text:
            continue
        # Not shown in errors: there may be a password in it.
        shown = text.rpartition("@")[2][:200]
        if "://" not in text:
            raise InputError(f"{shown!r} has no scheme; write http://{shown}, or https://{shown}")
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise InputError(f"{shown!r} is no URL: {error}; write {DEFAULT_URL}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise InputError(
                f"{shown!r} is no address of a broker's HTTP listener; write {DEFAULT_URL}, or https://…"
            )
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise InputError(
                f"{shown!r} has more than host and port; write {parts.scheme}://{parts.hostname}"
            )
        if parts.username is not None:
            name, secret = unquote(parts.username), unquote(parts.password or "")
        places.append(Place(parts.scheme == "https", parts.hostname, port or PORT))
    if not places:
        raise InputError(f"no URL is given; write where a broker's HTTP listener is, such as {DEFAULT_URL}")
    return tuple(places), name, secret


def _context(ca: str | Path | None, certificate: str | Path | None, key: str | Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            context.load_cert_chain(str(certificate), None if key is None else str(key))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(one) for one in (ca, certificate, key) if one is not None)
        raise SetupError(f"the certificates {files} cannot be used: {_reason(error)}; name others") from None
    return context


def _refusal(place: Place, response: http.client.HTTPResponse) -> Exception:
    """What a status other than 200 means."""
    status = response.status
    try:
        told = msgspec.json.decode(response.read(ANSWER_BYTES_MAX), type=_Refusal)
    except (msgspec.DecodeError, OSError, http.client.HTTPException):
        told = _Refusal()
    reason = told.error or f"HTTP status {status}"
    if status == HTTPStatus.GONE:
        return DataLost(f"{place}: {reason}", told.first)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return AccessError(f"{place}: {reason}")
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return InputError(f"{place}: {reason}")
    return NetworkError(f"{place}: {reason}")


def _about(told: _Told) -> About:
    return About(
        told.topic,
        Form(told.fields, told.what, told.gathered, told.open),
        tuple(sorted(told.holders, key=lambda held: held.holder)),
        tuple(sorted(told.away)),
    )


def _listed(brokers: Sequence[str]) -> str:
    return ", ".join(repr(broker) for broker in sorted(brokers))


def _reason(error: Any) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
