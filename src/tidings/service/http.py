"""The pages of a broker over HTTP: is it alive, is it ready, how much does it do, what does it know.

    GET  /health       the process runs and its loop turns; however many other requests there are
    GET  /ready        it is started, and linked and settled as far as it can tell; else 503 with the reason
    GET  /metrics      counts and gauges for Prometheus
    GET  /status       all that it knows about itself, as JSON
    GET  /log…         what topics that are kept have had, for who may subscribe to them; see `reading`
    POST /forget       {"broker": id}: a broker is gone for good, and nobody holds anything or waits for it
    POST /neighbours   {"add": [address, …], "remove": [address, …]}
    POST /expel        {"clients": [client id, …]}: close the connections of MQTT clients
    POST /sessions     {"remove": [client id, …]}: end sessions of MQTT clients, whether or not they are there
    POST /leave        leave the network for good, then stop

Whoever reaches the address may look. To change something one must be on this machine or bring the cluster
token (`Authorization: Bearer …`), and must not be a web page: a browser always says where a page comes from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from tidings.errors import InputError, SetupError
from tidings.service import addresses
from tidings.service.metrics import Metered, Metrics
from tidings.service.reading import PATHS as LOG_PATHS
from tidings.service.reading import Keeper, Reading
from tidings.service.requests import HEAD_BYTES_MAX, Answer, BadRequest, Request, read_head, write_answer
from tidings.service.values import Address, address_text, is_loopback

REQUEST_WITHIN_S = 10.0
"""A connection that has not been answered by then is closed."""

READ_MAX = 64
"""Requests that are read at once. Another one takes the place of the oldest, which is told to come back: who
holds its request back keeps nobody else from being heard."""

ANSWERED_MAX = 64
"""Requests that are answered at once; others are told to come back."""

PROBES = ("/health", "/ready")
"""Pages that need no such place: who watches over a broker must not take a busy one for a dead one."""

ADDRESSES_MAX = 64
"""In one request."""

NAMES_SHOWN = 16
"""Brokers that an error names; more are counted."""

NAME_SHOWN = 80
"""Characters of a name that somebody has sent."""


class Watched(Metered, Keeper, Protocol):
    """What is shown here of a node, and what may be asked of it."""

    @property
    def stopping(self) -> bool: ...
    def add_neighbour(self, address: str) -> None: ...
    def remove_neighbour(self, address: str) -> None: ...
    def expel(self, client: str) -> bool: ...
    def remove_session(self, client: str) -> bool: ...
    def forget(self, broker: str) -> bool: ...
    async def stop(self, for_good: bool = False) -> str: ...


class Neighbours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /neighbours."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Expelled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /expel."""

    clients: tuple[str, ...]


class Sessions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /sessions."""

    remove: tuple[str, ...]


class Forgotten(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /forget."""

    broker: str


class Pages:
    """Serves the pages of one node."""

    def __init__(
        self,
        node: Watched,
        address: Address,
        *,
        token: str = "",
        secure: tuple[Address, ssl.SSLContext] | None = None,
        expects_links: bool = False,
        extra: Callable[[], dict[str, object]] = dict,
        recorded: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`secure` is where they are served with TLS too, `expects_links` whether it is to have neighbours;
        `extra` is shown by /status too; `recorded` says how many records were written, and lost.
        """
        self._expects_links = expects_links
        self._node = node
        self._wanted = address
        self._token = token
        self._extra = extra
        self._metrics = Metrics(node, recorded)
        self._secure = secure
        self._server: asyncio.Server | None = None
        self._secure_server: asyncio.Server | None = None
        self._incoming: dict[asyncio.StreamWriter, None] = {}
        """Connections whose request is not whole yet, the oldest first."""
        self._answered = 0
        self._leaving: asyncio.Task[str] | None = None
        self._reading = Reading(node)

    @property
    def address(self) -> Address:
        """Where it is served, with the real port."""
        assert self._server is not None, "the pages are being served"
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    @property
    def secure_address(self) -> Address | None:
        """Where it is served with TLS, with the real port."""
        if self._secure_server is None:
            return None
        host, port = self._secure_server.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Begin to serve."""
        self._server = await self._listen("http", self._wanted, None)
        if self._secure is not None:
            try:
                self._secure_server = await self._listen("https", *self._secure)
            except BaseException:
                self._server.close()
                raise

    async def _listen(self, setting: str, address: Address, context: ssl.SSLContext | None) -> asyncio.Server:
        try:
            return await asyncio.start_server(
                self._serve,
                *address,
                limit=HEAD_BYTES_MAX,
                ssl=context,
                ssl_handshake_timeout=REQUEST_WITHIN_S if context is not None else None,
            )
        except OSError as error:
            raise SetupError(
                f"the HTTP address {address_text(address)} cannot be used: {error.strerror}; set `{setting}` "
                f"to another, such as 127.0.0.1:0 for any free port, or to off"
            ) from None

    async def stop(self) -> None:
        """End serving; what is being answered is cut off."""
        for server in (self._server, self._secure_server):
            if server is not None:
                server.close()
        self._reading.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with_body = True
            try:
                request, body = await self._request(reader, writer)
                with_body = request.method != "HEAD"
                with self._place(request.path):
                    answer: Answer | None
                    if request.path in LOG_PATHS:
                        # As long as it takes; it looks itself after clients that do not listen.
                        answer = await self._reading.serve(request, writer)
                    else:
                        answer = self.answer(request, body, str(writer.get_extra_info("peername")[0]))
                    await _send(writer, answer, with_body)
            except BadRequest as refused:
                await _send(writer, _refused(refused), with_body)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Request, bytes]:
        """A request and its body, if they come in time and none of those behind it needs its place."""
        if len(self._incoming) >= READ_MAX:
            oldest = next(iter(self._incoming))
            del self._incoming[oldest]
            oldest.write(write_answer(_refused(_crowded())))
            oldest.close()
        self._incoming[writer] = None
        try:
            async with asyncio.timeout(REQUEST_WITHIN_S):
                return await _read(reader)
        finally:
            self._incoming.pop(writer, None)

    @contextlib.contextmanager
    def _place(self, path: str) -> Iterator[None]:
        """One of the places for requests that are answered."""
        if path in PROBES:
            yield
            return
        if self._answered >= ANSWERED_MAX:
            raise _crowded()
        self._answered += 1
        try:
            yield
        finally:
            self._answered -= 1

    def answer(self, request: Request, body: bytes, peer: str) -> Answer:
        """What a request from a peer gets."""
        pages: dict[str, dict[str, Callable[[], Answer]]] = {
            "/": {"GET": self._index},
            "/health": {"GET": lambda: _told(HTTPStatus.OK, {"broker": self._node.id, "alive": True})},
            "/ready": {"GET": self._ready},
            "/metrics": {"GET": self._shown_metrics},
            "/status": {"GET": self._status},
            "/neighbours": {"POST": lambda: self._neighbours(body)},
            "/expel": {"POST": lambda: self._expel(body)},
            "/sessions": {"POST": lambda: self._remove_sessions(body)},
            "/forget": {"POST": lambda: self._forget(body)},
            "/leave": {"POST": self._leave},
        }
        page = pages.get(request.path)
        if page is None:
            raise BadRequest(HTTPStatus.NOT_FOUND, f"there is no such page; there are {', '.join(pages)}")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in page:
            allowed = ", ".join(page)
            told = {"error": f"{request.method} is not possible here; {allowed} is"}
            answer = _told(HTTPStatus.METHOD_NOT_ALLOWED, told)
            return Answer(answer.status, answer.body, headers=(("Allow", allowed),))
        if method == "POST":
            self._admit(request, peer)
        return page[method]()

    def _admit(self, request: Request, peer: str) -> None:
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            raise BadRequest(HTTPStatus.FORBIDDEN, "a web page may not do this")
        if is_loopback(peer.removeprefix("::ffff:")):
            return
        given = request.headers.get("authorization", "").encode("latin-1")
        if not self._token or not hmac.compare_digest(given, b"Bearer " + self._token.encode()):
            raise BadRequest(
                HTTPStatus.FORBIDDEN,
                "only from this machine, or with the cluster token: Authorization: Bearer …",
            )

    def _index(self) -> Answer:
        text = f"Tidings broker {self._node.id}\n/health /ready /metrics /status\n"
        return Answer(HTTPStatus.OK, text.encode(), "text/plain; charset=utf-8")

    def _ready(self) -> Answer:
        reason = unready(self._node, self._expects_links)
        status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
        return _told(status, {"broker": self._node.id, "ready": not reason, "reason": reason})

    def _need_start(self) -> None:
        if not (self._node.ready or self._node.stopping):
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "it is starting")

    def _shown_metrics(self) -> Answer:
        self._need_start()
        return Answer(HTTPStatus.OK, self._metrics.text(), self._metrics.content_type)

    def _status(self) -> Answer:
        self._need_start()
        told = self._node.status()
        return _told(
            HTTPStatus.OK, {**told, "unready": unready(self._node, self._expects_links), **self._extra()}
        )

    def _neighbours(self, body: bytes) -> Answer:
        try:
            asked = msgspec.json.decode(body, type=Neighbours)
        except (msgspec.DecodeError, RecursionError) as error:
            form = '{"add": ["host:port"], "remove": ["host:port"]}'
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"{error}; write {form}") from None
        if len(asked.add) + len(asked.remove) > ADDRESSES_MAX:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"more than {ADDRESSES_MAX} addresses")
        try:
            # All or none: the first mistake must not leave half of it done.
            for address in asked.add + asked.remove:
                addresses.read(address)
        except InputError as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, str(error)) from None
        for address in asked.add:
            self._node.add_neighbour(address)
        for address in asked.remove:
            self._node.remove_neighbour(address)
        return _told(HTTPStatus.OK, {"added": asked.add, "removed": asked.remove})

    def _expel(self, body: bytes) -> Answer:
        self._need_start()
        try:
            asked = msgspec.json.decode(body, type=Expelled)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f'{error}; write {{"clients": ["client id"]}}') from None
        return _done("expelled", asked.clients, self._node.expel, "is not connected here")

    def _remove_sessions(self, body: bytes) -> Answer:
        self._need_start()
        try:
            asked = msgspec.json.decode(body, type=Sessions)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f'{error}; write {{"remove": ["client id"]}}') from None
        return _done("removed", asked.remove, self._node.remove_session, "has no session here")

    def _forget(self, body: bytes) -> Answer:
        self._need_start()
        try:
            asked = msgspec.json.decode(body, type=Forgotten)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f'{error}; write {{"broker": "its id"}}') from None
        status = self._node.status()
        in_reach = {link["peer"] for link in status["links"] if link["state"] == "up"}
        in_reach |= {self._node.id, *(member for tree in status["trees"] for member in tree["members"])}
        if asked.broker in in_reach:
            raise BadRequest(
                HTTPStatus.CONFLICT,
                f"{asked.broker} is in reach; let it leave instead (POST /leave there, or `tidings leave`), "
                "or stop it and ask again when its links are given up",
            )
        if not self._node.forget(asked.broker):
            known = {*status["absent"], *self._node.pages_of_others()} - in_reach
            others = f"out of reach are {_some(known)}" if known else "no broker is out of reach"
            raise BadRequest(
                HTTPStatus.NOT_FOUND, f"no broker is known as {asked.broker[:NAME_SHOWN]!r}; {others}"
            )
        return _told(HTTPStatus.OK, {"forgotten": asked.broker})

    def _leave(self) -> Answer:
        if self._leaving is None:
            leave: Coroutine[Any, Any, str] = self._node.stop(for_good=True)
            self._leaving = asyncio.get_running_loop().create_task(leave)
        return _told(HTTPStatus.ACCEPTED, {"broker": self._node.id, "leaving": True})


def _some(names: Iterable[str]) -> str:
    """Names, not too many of them."""
    found = sorted(names)
    more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
    return ", ".join(found[:NAMES_SHOWN]) + more


def _done(what: str, clients: tuple[str, ...], do: Callable[[str], bool], fault: str) -> Answer:
    """Do something with clients, one after the other; what is not to be found is named, and the rest done."""
    found: list[str] = []
    unknown: list[str] = []
    for client in dict.fromkeys(clients):
        (found if do(client) else unknown).append(client)
    if not unknown:
        return _told(HTTPStatus.OK, {what: found})
    others = f"; {len(unknown) - 1} others likewise" if len(unknown) > 1 else ""
    error = f"{unknown[0][:NAME_SHOWN]!r} {fault}{others}"
    return _told(HTTPStatus.NOT_FOUND, {what: found, "unknown": unknown, "error": error})


async def _send(writer: asyncio.StreamWriter, answer: Answer | None, with_body: bool) -> None:
    """Send an answer, unless it was sent before."""
    if answer is None or writer.is_closing():
        return
    async with asyncio.timeout(REQUEST_WITHIN_S):
        writer.write(write_answer(answer, with_body))
        await writer.drain()


def _crowded() -> BadRequest:
    return BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again")


async def _read(reader: asyncio.StreamReader) -> tuple[Request, bytes]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is over {HEAD_BYTES_MAX} bytes"
        ) from None
    except asyncio.IncompleteReadError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request ends before its empty line") from None
    request = read_head(head.removesuffix(b"\r\n\r\n"))
    try:
        return request, await reader.readexactly(request.length)
    except asyncio.IncompleteReadError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length") from None


def _refused(refused: BadRequest) -> Answer:
    answer = _told(refused.status, {"error": refused.reason, **refused.about})
    if refused.status is not HTTPStatus.UNAUTHORIZED:
        return answer
    challenge = ("WWW-Authenticate", 'Basic realm="Tidings", charset="UTF-8"')
    return Answer(answer.status, answer.body, headers=(challenge,))


def _told(status: HTTPStatus, value: object) -> Answer:
    return Answer(status, msgspec.json.encode(value) + b"\n")


def unready(node: Watched, expects_links: bool) -> str:
    """Why a node should get no traffic yet; empty if it may.

    One that is to have neighbours is not ready before it has reached the first. Later it stays so without
    them: each side of a parted network serves its own.
    """
    if node.stopping:
        return "it is stopping"
    if not node.ready:
        return "it is starting"
    status = node.status()
    if expects_links and node.counters.links_up == 0:
        why = "; ".join(f"{address}: {reason}" for address, reason in status["unreached"])
        return "no neighbour has been reached yet" + (f" ({why})" if why else "")
    if status["mqtt"]["synchronising"]:
        return "synchronising: clients are let in when the network's declarations have been heard"
    return str(status["reason"])
