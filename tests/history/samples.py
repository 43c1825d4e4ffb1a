"""Entries and logs for tests."""

from __future__ import annotations

from tidings.history.entries import EVENTS, Entry
from tidings.history.files import Files
from tidings.history.logs import Logs, Syncing
from tidings.records.holders import Holder

A = Holder("a", 7)
"""Whose logs they are."""

B = Holder("b", 8)
NAME = "roads/+road/accidents"


def entry(number: int, at_us: int | None = None, text: str = "") -> Entry:
    return Entry(
        number,
        1_000 * number if at_us is None else at_us,
        "roads/A1/accidents",
        f'{{"n": {number}, "text": "{text}"}}'.encode(),
        "application/json",
    )


def logs_of(
    files: Files, *, salt: int = 7, syncing: Syncing = Syncing.ALWAYS, segment_bytes: int = 4096
) -> Logs:
    return Logs(files, A, salt=salt, syncing=syncing, segment_bytes=segment_bytes)


def fill(logs: Logs, count: int, *, name: str = NAME, holder: Holder = A) -> list[Entry]:
    """Append entries from the next number on, and commit them."""
    first = {one: behind for one, _, behind in logs.holders(name)}.get(holder, 0)
    entries = [entry(number) for number in range(first, first + count)]
    for one in entries:
        logs.append(name, EVENTS, holder, one)
    logs.commit()
    return entries


def kept(logs: Logs, *, name: str = NAME, holder: Holder = A) -> list[Entry]:
    """All that is shown."""
    first = {one: number for one, number, _ in logs.holders(name)}[holder]
    return list(logs.read(name, EVENTS, holder, first))
