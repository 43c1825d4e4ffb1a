"""The options of the format `tidings`, read from text once and checked as a whole.

A password is in no text that these objects make of themselves. What is done with them is not known here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidings.client import urls
from tidings.client.log import DEFAULT_URL, LogReader
from tidings.errors import InputError, SetupError
from tidings.language import durations
from tidings.pipeline.connector.offsets import EARLIEST, LATEST, Bound, read_bound
from tidings.records.log_rows import EVENTS, KINDS

PATIENCE_S = 30.0
"""How long a broker may be away before a query fails. A broker that is started again takes a few seconds."""

ROWS_PER_PARTITION = 50_000
"""A few hundred milliseconds of work for a task, so that a task more or less costs little."""

OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Options of a streaming query that Spark shows the sink too."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the network is, and who asks."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    patience_s: float = PATIENCE_S

    def reader(self) -> LogReader:
        """A reader of the log."""
        return LogReader(
            self.url,
            username=self.user,
            password=self.password,
            ca=self.authority,
            certificate=self.certificate,
            key=self.key,
            patience_s=self.patience_s,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """All options of a read."""

    access: Access
    topic: str
    what: str = EVENTS
    where: str = ""
    start: Bound = EARLIEST
    stop: Bound = LATEST
    fail_on_data_loss: bool = True
    rows_per_partition: int = ROWS_PER_PARTITION
    rows_per_batch: int | None = None
    pushdown: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    """All options of a write."""

    access: Access
    topic: str | None
    qos: int = 1


def read_options(given: Mapping[str, str], *, streaming: bool) -> Reading:
    """The options of a read; InputError says which of them is wrong."""
    _refuse_unknown(given, READ)
    values = _Values(given)
    if streaming and "endingoffsets" in values:
        raise InputError(
            "endingOffsets is for spark.read; a stream ends when it is stopped, or by availableNow"
        )
    if streaming and values.flag("pushdown", False):
        raise InputError("pushdown is for spark.read; in a stream say it in the option where")
    if not streaming and "maxrowsperbatch" in values:
        raise InputError("maxRowsPerBatch is for spark.readStream; a batch read is all of its range")
    starting = values.text("startingOffsets", LATEST if streaming else EARLIEST)
    if not streaming and starting.strip().lower() == LATEST:
        raise InputError("startingOffsets latest reads nothing in a batch; leave it out, or give a time")
    ending = values.text("endingOffsets", LATEST)
    if ending.strip().lower() == EARLIEST:
        raise InputError("endingOffsets earliest reads nothing; leave it out, or give a time")
    start, stop = read_bound("startingOffsets", starting), read_bound("endingOffsets", ending)
    if isinstance(start, int):
        if start > time.time_ns() // 1000:
            raise InputError(
                f"startingOffsets {starting.strip()} is still to come, and what comes before it would be "
                "read; write latest in a stream, or give a time that has been"
            )
        if isinstance(stop, int) and stop < start:
            raise InputError(
                f"endingOffsets {ending.strip()} is before startingOffsets {starting.strip()}; swap them"
            )
    topic = values.get("topic", values.get("path"))
    if not topic:
        raise InputError(
            'no topic is given; write .option("topic", "traffic/athens"), or .load("traffic/athens")'
        )
    return Reading(
        _access(values, DEFAULT_URL),
        topic,
        what=values.choice("what", EVENTS, KINDS),
        where=values.text("where", ""),
        start=start,
        stop=stop,
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        rows_per_partition=values.count("rowsPerPartition", ROWS_PER_PARTITION),
        rows_per_batch=values.count("maxRowsPerBatch", 0) or None,
        pushdown=values.flag("pushdown", False),
    )


def write_options(given: Mapping[str, str]) -> Writing:
    """The options of a write; InputError says which of them is wrong."""
    _refuse_unknown(given, WRITE)
    values = _Values(given)
    return Writing(
        _access(values, urls.DEFAULT_URL),
        values.get("topic", values.get("path")),
        qos=int(values.choice("qos", "1", ("0", "1", "2"))),
    )


COMMON = (
    "url",
    "topic",
    "path",
    "user",
    "password",
    "passwordFile",
    "tlsAuthority",
    "tlsCertificate",
    "tlsKey",
    "patience",
)
READ = (
    *COMMON,
    "what",
    "where",
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "maxRowsPerBatch",
    "rowsPerPartition",
    "pushdown",
)
WRITE = (*COMMON, "qos")


class _Values:
    """Options as texts, by name in any case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def get(self, name: str, default: str | None = None) -> str | None:
        return self._given.get(name.lower(), default)

    def text(self, name: str, default: str) -> str:
        return self._given.get(name.lower(), default)

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default).strip().lower()
        if value not in choices:
            raise InputError(f"{name} is {value[:80]!r}; it is one of {', '.join(choices)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def count(self, name: str, default: int) -> int:
        value = self.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20 and 0 < int(value) < 2**63):
            raise InputError(f"{name} is {value[:80]!r}; it is a whole number above 0")
        return int(value)

    def read(self, name: str, default: Any, read: Callable[[str], Any]) -> Any:
        value = self.get(name)
        try:
            return default if value is None else read(value)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None


def _access(values: _Values, default_url: str) -> Access:
    password = values.get("password")
    if (file := values.get("passwordFile")) is not None:
        if password is not None:
            raise InputError("password and passwordFile are both given; leave one out")
        try:
            password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"passwordFile {file} cannot be read: {error}; name another") from None
    if "tlsKey" in values and "tlsCertificate" not in values:
        raise InputError("tlsKey is given without tlsCertificate; name the certificate that it belongs to")
    return Access(
        values.text("url", default_url),
        values.get("user", os.environ.get(urls.USER)),
        password if password is not None else os.environ.get(urls.PASSWORD),
        values.get("tlsAuthority"),
        values.get("tlsCertificate"),
        values.get("tlsKey"),
        values.read("patience", PATIENCE_S, lambda text: durations.parse(text) / 1e6),
    )


def _refuse_unknown(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names and name.lower() not in OF_SPARK:
            near = get_close_matches(name.lower(), names, n=1)
            hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(known)}"
            raise InputError(f"there is no option {name[:80]!r}; {hint}")
