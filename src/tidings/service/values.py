"""What the value of a setting looks like: how it is read from TOML or from text, and how it is written.

Every reader takes a value as TOML gives it or the text of a variable, and raises ValueError with the value,
the rule and the way out. Which settings there are is not known here.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import DeclarationError
from tidings.language import durations
from tidings.language.faults import shown
from tidings.language.ids import ID_RULE, is_id
from tidings.service import addresses

if TYPE_CHECKING:
    from tidings.language.views import View

OFF = "off"
"""Turns off what can be turned off."""

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the value of a setting looks like."""

    form: str
    """In the documents."""

    read: Callable[[object], Any]
    """From a value of TOML or the text of a variable; ValueError says what is wrong."""

    write: Callable[[Any], str]
    """As a person would write it."""

    absent: str = ""
    """What a person would write for None."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{shown(value)} is not a text of printable characters")
    return value


def _id(value: object) -> str:
    if not isinstance(value, str) or not is_id(value):
        raise ValueError(f"{shown(value)} is not an id: {ID_RULE}")
    return value


def read_address(value: object) -> Address:
    """Host and port of a text such as `127.0.0.1:7883` or `[::1]:7883`; ValueError says what is wrong.

    >>> read_address("[::1]:7883"), address_text(("::1", 7883))
    (('::1', 7883), '[::1]:7883')
    """
    parts = re.fullmatch(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s\[\]:/@]+)):([0-9]{1,5})", str(value))
    if not isinstance(value, str) or parts is None or int(parts[3]) > 65_535:
        raise ValueError(
            f"{shown(value)} is not an address; write host:port, such as '127.0.0.1:7883' or '[::1]:7883'"
        )
    return parts[1] or parts[2], int(parts[3])


def address_text(address: Address) -> str:
    """An address as `read_address` reads it."""
    return addresses.write(*address)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _peer(value: object) -> Address:
    address = read_address(value)
    if address[1] == 0:
        raise ValueError(f"{shown(value)} has port 0, which nobody can dial; name the real one")
    return address


def _optional(read: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value == OFF else read(value)


def _listed(read: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read_list(value: object) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            raise ValueError(f"{shown(value)} is not a list")
        return tuple(read(one) for one in value)

    return read_list


def _write_list(write: Callable[[Any], str]) -> Callable[[tuple[Any, ...]], str]:
    return lambda values: ", ".join(map(write, values))


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{shown(value)} is not a path")
    return Path(value).expanduser()


def _views(value: object) -> tuple[View, ...]:
    from tidings.language.views import View

    tables = value
    if isinstance(value, str):
        try:
            tables = json.loads(value)
        except ValueError as error:
            raise ValueError(f"{shown(value)} is not a list of views in JSON: {error}") from None
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError(f"{shown(value)} is not a list of views; write [[views]] above each")
    try:
        views = tuple(View.from_mapping(table) for table in tables)
    except DeclarationError as error:
        raise ValueError("; ".join(problem.message for problem in error.problems)) from None
    names = [view.name for view in views]
    if len(set(names)) < len(names):
        raise ValueError("two views have one name; each needs its own")
    return views


def _write_views(views: tuple[View, ...]) -> str:
    return json.dumps([view.to_mapping() for view in views], ensure_ascii=False) if views else ""


def _bool(value: object) -> bool:
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        OFF: False,
        "0": False,
    }
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError(f"{shown(value)} is neither true nor false")


def _integer(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value.replace("_", "")):
        return int(value.replace("_", ""))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{shown(value)} is not a whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?", value.replace("_", "")):
        return float(value.replace("_", ""))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a number")
    return float(value)


def _seconds(value: object) -> float:
    return durations.parse(value) / 1_000_000


def seconds_text(seconds: float) -> str:
    """A duration as it is read."""
    return durations.text(round(seconds * 1_000_000))


SIZES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}
"""Bytes in each unit."""


def read_size(value: object) -> int:
    """Bytes in a size as written; ValueError says what is wrong with it.

    >>> read_size("4MiB"), size_text(4_194_304)
    (4194304, '4MiB')
    """
    parts = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]+)", str(value))
    if value in (0, "0"):
        return 0
    if not isinstance(value, str) or parts is None or parts[2] not in SIZES:
        raise ValueError(
            f"{shown(value)} is not a size; write a number and a unit ({', '.join(SIZES)}), such as '4MiB'"
        )
    return round(float(parts[1]) * SIZES[parts[2]])


def size_text(size: int) -> str:
    """A size as `read_size` reads it, in the widest binary unit that needs no fraction."""
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if size % SIZES[unit] == 0 or unit == "B")
    return f"{size // SIZES[unit]}{unit}" if size else "0B"


def _within(
    read: Callable[[object], Any], write: Callable[[Any], str], low: Any, high: Any
) -> Callable[[object], Any]:
    def read_within(value: object) -> Any:
        found = read(value)
        if not low <= found <= high:
            raise ValueError(f"{shown(value)} is not from {write(low)} to {write(high)}")
        return found

    return read_within


def count(low: int, high: int = 10**9) -> Kind:
    return Kind("whole number", _within(_integer, lambda count: f"{count:,}", low, high), str)


def number(low: float, high: float = 1e15) -> Kind:
    return Kind("number", _within(_number, _number_text, low, high), _number_text)


def _number_text(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def duration(low_s: float = 0.001, high_s: float = 86_400.0 * 365) -> Kind:
    return Kind("duration", _within(_seconds, seconds_text, low_s, high_s), seconds_text)


def size(low: int = 1024, high: int = 1 << 50) -> Kind:
    return Kind("size", _within(read_size, size_text, low, high), size_text)


def choice(*words: str) -> Kind:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{shown(value)} is not one of {', '.join(repr(word) for word in words)}")
        return str(value)

    return Kind(" or ".join(f"`{word}`" for word in words), read, str)


def _truth(truth: bool) -> str:
    return "true" if truth else "false"


ID = Kind("text", _id, str)
TEXT = Kind("text", _text, str)
BOOL = Kind("true or false", _bool, _truth)
PATH = Kind("path", _path, str)
VIEWS = Kind("list of views", _views, _write_views)
TEXTS = Kind("list of texts", _listed(_text), _write_list(str))
PATHS = Kind("list of paths", _listed(_path), _write_list(str))
LISTEN = Kind("address", read_address, address_text)
PEER = Kind("address", _peer, address_text)
PEERS = Kind("list of addresses", _listed(_peer), _write_list(address_text))
LISTEN_OR_OFF = Kind("address or `off`", _optional(read_address), address_text, OFF)
PATH_OR_OFF = Kind("path or `off`", lambda value: OFF if value == OFF else _path(value), str)
