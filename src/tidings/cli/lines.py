"""JSON lines in and out: each bad line is reported with its file and number, and the rest goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

import typer

from tidings.errors import PayloadError
from tidings.language import payloads

LINE_BYTES_MAX = payloads.PAYLOAD_BYTES_MAX
"""A line is one payload, with its limit; a file without line ends must not fill the memory."""


class Lines:
    """The objects of one file of JSON lines."""

    def __init__(self, name: str, shown_max: int | None = None) -> None:
        """Open a file, or standard input where the name is `-`.

        Of lines that are refused no more are shown than `shown_max`.
        """
        self._shown_max = shown_max
        self.name = "standard input" if name == "-" else name
        self.bad = 0
        """Lines that were refused."""
        self.size: int | None = None
        """Bytes in the file, None where they cannot be known beforehand."""
        self.done = 0
        """Bytes read so far."""
        self._file: BinaryIO | IO[bytes]
        if name == "-":
            self._file = sys.stdin.buffer
            return
        path = Path(name)
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise typer.BadParameter(f"{name} cannot be read: {error.strerror}") from None
        if path.is_file():
            self.size = path.stat().st_size

    def __iter__(self) -> Iterator[tuple[int, dict[str, object]]]:
        """Each object with its line number; blank lines are passed over."""
        number = 0
        while line := self._file.readline(LINE_BYTES_MAX + 1):
            number += 1
            self.done += len(line)
            if len(line) > LINE_BYTES_MAX:
                self.refuse(number, f"the line has more than {LINE_BYTES_MAX} bytes, which is the limit")
                self._skip_line()
                continue
            # Some editors begin a file with a byte order mark; it is no part of the first object.
            text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
            if not text:
                continue
            try:
                yield number, payloads.decode(text)
            except PayloadError as error:
                self.refuse(number, str(error).replace("the payload", "the line"))

    def _skip_line(self) -> None:
        while line := self._file.readline(LINE_BYTES_MAX):
            self.done += len(line)
            if line.endswith(b"\n"):
                return

    def refuse(self, number: int, reason: str) -> None:
        """Say what is wrong with a line, on standard error."""
        self.bad += 1
        if self._shown_max is None or self.bad <= self._shown_max:
            typer.echo(f"{self.name}:{number}: {reason}", err=True)
