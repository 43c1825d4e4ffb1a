"""JSON lines: a payload on each line, known by the number of its line. Files are read by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidings.errors import PayloadError
from tidings.language import payloads

LINE_BYTES_MAX = payloads.PAYLOAD_BYTES_MAX
"""A line is one payload, with its limit; a file without line ends must not fill the memory."""

MARK = b"\xef\xbb\xbf"
"""Some editors begin a file with a byte order mark; it is no part of the first object."""


def texts(readline: Callable[[int], bytes], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number and without what is around its object.

    `readline` is that of a binary file, and `first` the number of the line that it gives first. Of a line
    that is too long only the beginning comes, which is too long as well, so that `decode` refuses it.
    """
    number = first - 1
    while line := readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
            yield number, line
            while line and not line.endswith(b"\n"):
                line = readline(LINE_BYTES_MAX)
        elif text := (line.removeprefix(MARK) if number == 1 else line).strip():
            yield number, text


def decode(text: bytes) -> dict[str, object]:
    """The object on a line; PayloadError says why it is refused."""
    if len(text) > LINE_BYTES_MAX:
        raise PayloadError(f"the line has more than {LINE_BYTES_MAX} bytes, which is the limit")
    try:
        return payloads.decode(text)
    except PayloadError as error:
        raise PayloadError(str(error).replace("the payload", "the line")) from None
