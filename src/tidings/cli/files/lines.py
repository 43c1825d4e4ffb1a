"""JSON lines in and out: each bad line is reported with its file and number, and the rest goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

import typer

from tidings.errors import PayloadError
from tidings.language import json_lines

REFUSED_SHOWN = 5
"""Refused reports that are named; all are counted. More would bury what is told on a terminal."""


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
        for number, text in json_lines.texts(self._readline):
            try:
                decoded = json_lines.decode(text)
            except PayloadError as error:
                self.refuse(number, str(error))
            else:
                yield number, decoded

    def _readline(self, limit: int) -> bytes:
        line = self._file.readline(limit)
        self.done += len(line)
        return line

    def refuse(self, number: int, reason: str) -> None:
        """Say what is wrong with a line, on standard error."""
        self.bad += 1
        if self._shown_max is None or self.bad <= self._shown_max:
            typer.echo(f"{self.name}:{number}: {reason}", err=True)


def say_unnamed(name: str, refused: int) -> None:
    """Of so many reports of a file that were refused, say how many were not named."""
    if refused > REFUSED_SHOWN:
        typer.echo(f"{name}: {refused - REFUSED_SHOWN:,} more reports were refused", err=True)
