"""HTTP/1.1 requests and answers, as few of them as a broker's own pages need.

A request is read whole from bounded bytes, or refused: no continuation lines, no chunks, no body without its
length, nothing pipelined. One connection carries one request and one answer. Which pages there are is not
known here, nor what a socket is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

HEAD_BYTES_MAX = 8192
"""As Apache and nginx allow for a line; ours have a hundred bytes."""

BODY_BYTES_MAX = 16_384
HEADERS_MAX = 64

_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,7000}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,9}")


class BadRequest(Exception):
    """A request that is refused; the answer's status, and the reason for its body."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.about: dict[str, object] = {}
        """What else the answer says."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, without its body."""

    method: str

    path: str
    """Without what follows a question mark."""

    headers: Mapping[str, str]
    """By name in small letters; none comes twice."""

    length: int
    """Bytes of the body that follows."""

    query: str = ""
    """What follows a question mark."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def read_head(head: bytes) -> Request:
    """The request of a head that ends before its empty line; BadRequest where there is none."""
    first, *rest = head.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the first line is not that of an HTTP/1.1 request")
    if len(rest) > HEADERS_MAX:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {HEADERS_MAX} headers")
    headers: dict[str, str] = {}
    for text in rest:
        header = _HEADER.fullmatch(text)
        if header is None:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header cannot be read")
        name = header[1].decode("ascii").lower()
        if name in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"the header {name} is there twice")
        headers[name] = header[2].decode("latin-1")
    path, _, query = line[2].decode().partition("?")
    return Request(line[1].decode(), path, headers, _length(headers), query)


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(HTTPStatus.NOT_IMPLEMENTED, "chunked bodies are not taken; send Content-Length")
    text = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(text):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    if int(text) > BODY_BYTES_MAX:
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is over {BODY_BYTES_MAX} bytes")
    return int(text)


def write_answer(answer: Answer, with_body: bool = True) -> bytes:
    """The bytes of an answer, after which the connection is closed."""
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return head + answer.body if with_body else head
