"""Logs of a broker: one JSON object per line for programs, or one line of text for people.

What is said comes from the logger `tidings.broker`, each with the broker it is about and some named values. A
line never holds a secret, and never more than one line: what peers call themselves may hold anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO

from tidings.service.addresses import host_of
from tidings.service.checks import source_of

LOGGER = "tidings.broker"

HIDDEN = "(hidden)"

SECRET_NAMES = ("token", "secret", "password", "proof", "nonce", "key")
"""Values of names that hold one of these are not written."""

REPEATS_MAX = 20
"""How often one text is written within `REPEATS_S`; nobody may fill a disk by dialling."""

REPEATS_S = 60.0

COUNT_EVERY_S = 5.0
"""How often it is looked whether that time is over for lines that were kept back."""

TEXTS_MAX = 256

ADDRESS_REPEATS_MAX = 100
"""The same for what is about somebody at an address: each address has so many lines of its own, so that one
that connects in a loop does not keep back what there is to say of others. At 250 bytes, 36 MB a day."""

ALL_REPEATS_MAX = 1_000
"""And of all addresses together: 360 MB a day."""

ADDRESSES_MAX = 4_096

VALUE_CHARACTERS_MAX = 4_096
"""Of one named value: what strangers say may be megabytes long."""


class _Lines(logging.Formatter):
    """What both forms share: what is said, without secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        # The longest first: one secret may be part of another.
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def told(self, record: logging.LogRecord) -> tuple[str, str, dict[str, str], str]:
        """Broker, text, named values and traceback."""
        about: Mapping[str, object] = getattr(record, "about", {})
        values = {
            name: HIDDEN
            if any(part in name.lower() for part in SECRET_NAMES)
            else _cut(self._clean(str(value)))
            for name, value in about.items()
        }
        trace = self._clean(self.formatException(record.exc_info)) if record.exc_info else ""
        return str(getattr(record, "broker", "")), self._clean(record.getMessage()), values, trace

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


class JsonLines(_Lines):
    """One JSON object per line: `at`, `level`, `broker`, `text`; `about` and `trace` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        broker, text, about, trace = self.told(record)
        line: dict[str, object] = {
            "at": _at(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "broker": broker,
            "text": text,
        }
        if about:
            line["about"] = about
        if trace:
            line["trace"] = trace
        return "".join(map(_escaped, json.dumps(line, ensure_ascii=False)))


class TextLines(_Lines):
    """For people: `12:00:01.250 warning b1: the link is lost (neighbour=b2)`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback where there is one."""
        broker, text, about, trace = self.told(record)
        values = ", ".join(f"{name}={_printable(value)}" for name, value in about.items())
        line = f"{_at(record):%H:%M:%S}.{int(record.msecs):03d} {record.levelname.lower():7} "
        line += f"{_printable(broker)}: {_printable(text)}" + (f" ({values})" if values else "")
        return f"{line}\n{trace}" if trace else line


class _Budget:
    """How often something was said within `REPEATS_S`, for some things."""

    def __init__(self, things_max: int, most: int) -> None:
        self._things_max = things_max
        self._most = most
        self._counts: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def take(self, thing: tuple[str, ...], now: float) -> tuple[bool, int]:
        """Whether it may be said once more, and how often it was kept back before."""
        since, count = self._counts.pop(thing, (now, 0))
        kept_back = 0
        if now - since >= REPEATS_S:
            kept_back = max(0, count - self._most)
            since, count = now, 0
        self._counts[thing] = since, count + 1
        if len(self._counts) > self._things_max:
            self._counts.popitem(last=False)
        return count < self._most, kept_back

    def settle(self, now: float) -> Iterator[tuple[tuple[str, ...], int]]:
        """Forget the things whose time is over; how often each of them was kept back, if it was."""
        for thing, (since, count) in list(self._counts.items()):
            if now - since >= REPEATS_S:
                del self._counts[thing]
                if count > self._most:
                    yield thing, count - self._most


class Repeats(logging.Filter):
    """Lets one text through only so often, and counts what it keeps back.

    The count is said with the next line of the text that is let through, or by `kept_back` if that is first.
    A line that names an `address` counts for that address first, and then for all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts = _Budget(TEXTS_MAX, REPEATS_MAX)
        self._addresses = _Budget(ADDRESSES_MAX, ADDRESS_REPEATS_MAX)
        self._all = _Budget(TEXTS_MAX, ALL_REPEATS_MAX)
        """Of all addresses together."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        about: Mapping[str, object] = getattr(record, "about", {})
        what = str(getattr(record, "broker", "")), record.levelname, str(record.msg)
        address, more = about.get("address"), 0
        if address:
            source = source_of(host_of(str(address)))
            own, more = self._addresses.take((*what, source), record.created)
            if not own:
                return False
            said, kept_back = self._all.take(what, record.created)
        else:
            said, kept_back = self._texts.take(what, record.created)
        if kept_back + more:
            record.about = {**about, "kept_back": str(kept_back + more)}
        return said

    def kept_back(self, now: float = math.inf) -> list[logging.LogRecord]:
        """One line for each text of which some were kept back, and whose time is over; without `now` for all.

        However many addresses there were, they share one line.
        """
        counts: Counter[tuple[str, ...]] = Counter()
        for budget in (self._texts, self._addresses, self._all):
            for (broker, level, text, *_), count in budget.settle(now):
                counts[broker, level, text] += count
        return [
            logging.makeLogRecord(
                {
                    "levelname": level,
                    "msg": f"{count:,} more {'line' if count == 1 else 'lines'} '{text}' "
                    f"{'was' if count == 1 else 'were'} kept back",
                    "broker": broker,
                    "about": {"kept_back": str(count)},
                }
            )
            for (broker, level, text), count in counts.items()
        ]


class Bounded(logging.StreamHandler[TextIO]):
    """Writes to a stream what `Repeats` lets through."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._repeats = Repeats()
        self.addFilter(self._repeats)

    def say_kept_back(self, now: float = math.inf) -> None:
        """Write how many lines were kept back in times that are over; without `now` in all."""
        self.acquire()
        try:
            for record in self._repeats.kept_back(now):
                self.emit(record)  # past the filter, for which each of them would be another text
        finally:
            self.release()


class Counting:
    """Has it said how many lines were kept back, while a loop runs and when that ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._handle = self._loop.call_later(COUNT_EVERY_S, self._count)

    def end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        _say_kept_back(math.inf)

    def _count(self) -> None:
        _say_kept_back(time.time())
        self.begin()


def _say_kept_back(now: float) -> None:
    for handler in logging.getLogger(LOGGER).handlers:
        if isinstance(handler, Bounded):
            handler.say_kept_back(now)


def configure(
    level: str = "info", form: str = "auto", stream: TextIO | None = None, secrets: Iterable[str] = ()
) -> logging.Logger:
    """Send what brokers of this process log to a stream, standard error by default."""
    stream = sys.stderr if stream is None else stream
    handler = Bounded(stream)
    text = form == "text" or (form == "auto" and stream.isatty())
    handler.setFormatter(TextLines(secrets) if text else JsonLines(secrets))
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    return logger


def _at(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _cut(value: str) -> str:
    return value if len(value) <= VALUE_CHARACTERS_MAX else value[:VALUE_CHARACTERS_MAX] + "…"


def _escaped(char: str) -> str:
    """A character of JSON as it steers no terminal and ends no line: what is not printable is in a string."""
    return char if char.isprintable() else json.dumps(char)[1:-1]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)
