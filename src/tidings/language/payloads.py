"""Payloads: bytes from outside into plain values, and back.

A payload is one JSON or MessagePack object. What comes out is known to be sound, whatever the bytes were:
every key is there once, integers have 64 bits, numbers are finite, text is Unicode, nesting is bounded.
Anything else is refused as a whole with the place and the reason. Whether the values are those that a topic
declares is the business of `reports`.

msgspec does the decoding, and of two equal keys keeps the last without a word. Finding them needs no second
parser:

* In JSON each key brings one colon, and all others are inside strings. So there are as many colons in the
  text as in the decoded value when msgspec writes it again, but for escaped ones, unless a key was lost.
* MessagePack that msgspec would write just so has lost nothing. Other bytes are walked once to count keys.

What is decoded is looked at level by level, all values of a level at once, because a payload of a mebibyte
can have hundreds of thousands of them. How many objects there may be is bounded too: a broker decodes on the
loop that serves all its clients, and the worst payload takes it 50 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import chain
from math import isfinite
from typing import Annotated, Any

import msgspec

from tidings.errors import PayloadError
from tidings.language.fields import path_text

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
"""What an int is, in an event as in Spark's BIGINT."""

PAYLOAD_BYTES_MAX = 1_048_576
"""A mebibyte: thousands of times a usual report, and too little to keep a broker from its other clients."""

DEPTH_MAX = 32
"""Objects and lists within each other, the outermost included."""

OPENED_MAX = 32_768
"""`{` and `[` in a JSON payload, those within strings too. Each takes half a microsecond, if it is a list."""

VALUES_MAX = 65_536
"""Values in a MessagePack payload, keys included; they are counted one by one, and only in long payloads."""

LONG = 64
"""Values of a list from which it is worth a look of its own."""

PLACE_BYTES_MAX = 65_536
"""Of a payload in which the place of a fault is looked for; in longer ones that would take long."""


class Encoding(StrEnum):
    """How a payload is written."""

    JSON = "json"
    """RFC 8259, UTF-8."""

    MSGPACK = "msgpack"
    """MessagePack, with its timestamp extension."""


def encoding_of(content_type: str | None) -> Encoding:
    """The encoding that an MQTT content type names; JSON where there is none.

    >>> encoding_of("application/msgpack").value
    'msgpack'
    """
    name = (content_type or "application/json").partition(";")[0].strip().lower()
    if name in ("application/json", "text/json") or re.fullmatch(r"application/[\w.-]+\+json", name):
        return Encoding.JSON
    if name in ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack"):
        return Encoding.MSGPACK
    raise PayloadError(
        f"content type {name[:80]!r} is neither JSON nor MessagePack; send application/json or "
        "application/msgpack"
    )


def decode(
    data: bytes, encoding: Encoding = Encoding.JSON, bytes_max: int = PAYLOAD_BYTES_MAX
) -> dict[str, object]:
    """The object in a payload; PayloadError says why it is refused."""
    if len(data) > bytes_max:
        raise PayloadError(f"the payload has {len(data)} bytes; the limit is {bytes_max}")
    if not data:
        raise PayloadError("the payload is empty; send an object, {} if there is nothing to say")
    if encoding is Encoding.JSON:
        if (simple := _decode_simple(data)) is not None:
            return simple
        if data.count(b"{") + data.count(b"[") > OPENED_MAX:
            raise PayloadError(f"the payload has more than {OPENED_MAX} objects and lists; send it in parts")
    elif len(data) > VALUES_MAX:
        _map_entries(data)
    try:
        value = _DECODERS[encoding](data)
    except UnicodeDecodeError as error:
        raise PayloadError(f"the payload is not valid UTF-8: {error.reason}") from None
    except RecursionError:
        raise PayloadError(_TOO_DEEP) from None
    except msgspec.DecodeError as error:
        raise PayloadError(f"the payload is not {_NAMES[encoding]}: {error}") from None
    if not isinstance(value, dict):
        raise PayloadError(f"the payload is {_kind(value)}; it must be an object of fields")
    if not _is_sound(value):
        if len(data) <= PLACE_BYTES_MAX:
            _sound(value)
        raise PayloadError(_UNSOUND)
    if encoding is Encoding.JSON:
        _refuse_lost_json(data, value)
    else:
        _refuse_lost_msgpack(data, value)
    return value


def _decode_simple(data: bytes) -> dict[str, object] | None:
    """The same for what nearly all reports are, a sound JSON object without objects or lists in it.

    Here msgspec checks the values too. With as many colons as fields no field comes twice; if there are more
    it is quicker at writing them again to count colons than Python at looking at each. None for everything
    else, sound or not.
    """
    if data.count(b"{") != 1 or b"[" in data or b"\\" in data:
        return None
    try:
        value: dict[str, object] = _SIMPLE_DECODER(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    colons = data.count(b":")
    if colons == len(value) or colons == _ENCODERS[Encoding.JSON](value).count(b":"):
        return value
    return None


def encode(fields: Mapping[str, object], encoding: Encoding = Encoding.JSON) -> bytes:
    """The payload of some fields, in their order; timestamps as ISO 8601 texts in JSON.

    >>> encode({"place": "A1", "severity": 3})
    b'{"place":"A1","severity":3}'
    """
    return _ENCODERS[encoding](fields)


def check(fields: Mapping[str, object]) -> None:
    """Refuse plain values that no payload could bring; for those that a program made itself."""
    _sound(fields)
    try:
        encode(fields)
    except UnicodeEncodeError:
        raise PayloadError("a text has half of a surrogate pair, which is not Unicode text") from None


def _is_sound(value: dict[str, object]) -> bool:
    """Whether all that was decoded is a value, and nothing is too large or too deep."""
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX):
        dicts = [one for one in level if type(one) is dict]
        lists = [one for one in level if type(one) is list]
        if not all(map(_has_string_keys, dicts)):
            return False
        # A long list is looked at by itself: its values are likely to be of one kind.
        some = [one for one in lists if len(one) > LONG]
        short = chain.from_iterable(one for one in lists if len(one) <= LONG)
        some.append([*chain.from_iterable(map(dict.values, dicts)), *short])
        level = []
        for values in some:
            kinds = set(map(type, values))
            if not kinds <= _KINDS_TAKEN:
                return False
            if int in kinds:
                whole = [one for one in values if type(one) is int] if len(kinds) > 1 else values
                if min(whole) < INT_MIN or max(whole) > INT_MAX:
                    return False
            if float in kinds and not all(isfinite(one) for one in values if type(one) is float):
                return False
            if dict in kinds or list in kinds:
                level += [one for one in values if type(one) is dict or type(one) is list]
        if not level:
            return True
    return False


def _has_string_keys(value: Iterable[str]) -> bool:
    try:
        "".join(value)
    except TypeError:
        return False
    return True


def _sound(fields: Mapping[str, object]) -> None:
    """Refuse what is no value, too large or too deep, with its place."""
    try:
        _check(fields, DEPTH_MAX)
    except _Refused as refused:
        place = "".join(reversed(refused.place)).removeprefix(".")
        raise PayloadError(f"{place}: {refused.reason}" if place else refused.reason) from None


class _Refused(Exception):
    """What is wrong with a value; the place is collected on the way out, innermost first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.place: list[str] = []


def _check(value: Mapping[str, object], depth: int) -> None:
    if not _has_string_keys(value):
        keys: Iterable[object] = value
        other = next(key for key in keys if not isinstance(key, str))
        raise _Refused(f"the key {other!r:.80} is not a string; keys must be strings")
    for name, item in value.items():
        try:
            _check_other(item, depth)
        except _Refused as refused:
            refused.place.append("." + path_text((name,)))
            raise


def _check_other(value: object, depth: int) -> None:
    if isinstance(value, bool | str | datetime | None):
        return
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise _Refused(f"an integer of {value.bit_length()} bits is too large; the limit is 64 with sign")
    elif isinstance(value, float):
        if not isfinite(value):
            raise _Refused(f"{value} is not a finite number; leave the field out, or send null")
    elif isinstance(value, Mapping):
        if depth == 1:
            raise _Refused(_TOO_DEEP)
        _check(value, depth - 1)
    elif isinstance(value, list):
        if depth == 1:
            raise _Refused(_TOO_DEEP)
        for at, item in enumerate(value):
            try:
                _check_other(item, depth - 1)
            except _Refused as refused:
                refused.place.append(f"[{at}]")
                raise
    else:
        raise _Refused(
            f"{_kind(value)} is not a value; send text, numbers, true, false, null, lists or objects"
        )


def _refuse_lost_json(data: bytes, value: dict[str, object]) -> None:
    escaped = len(_ESCAPED_COLON.findall(data)) if b"\\u003" in data else 0
    if data.count(b":") + escaped == _ENCODERS[Encoding.JSON](value).count(b":"):
        return

    def once(pairs: list[tuple[str, object]]) -> None:
        names = set()
        for name, _ in pairs:
            if name in names:
                raise PayloadError(f"the key {name[:80]!r} is there twice in one object; send it once")
            names.add(name)

    if len(data) <= PLACE_BYTES_MAX:
        # Numbers stay text: a value that was lost may hold one that Python refuses to read.
        json.loads(data, object_pairs_hook=once, parse_int=str, parse_float=str)
    raise PayloadError("a key is there twice in one object; send it once")


def _refuse_lost_msgpack(data: bytes, value: dict[str, object]) -> None:
    if _ENCODERS[Encoding.MSGPACK](value) == data:
        return
    if _map_entries(data) != _count_keys(value):
        raise PayloadError("a key is there twice in one map; send it once")


def _count_keys(value: object) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_count_keys(item) for item in value.values())
    return sum(_count_keys(item) for item in value) if isinstance(value, list) else 0


# Of each first byte from 0xc0: bytes of a length that follow it, or of the value itself.
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2,
          0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}  # fmt: skip
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1), 0xD9: (1, 0),
          0xDA: (2, 0), 0xDB: (4, 0)}  # fmt: skip
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def _map_entries(data: bytes) -> int:
    """How many keys there are in all maps of a MessagePack value; PayloadError if it has too many values."""
    at, left, entries, values = 0, 1, 0, 0
    while left and at < len(data):
        values += 1
        if values > VALUES_MAX:
            raise PayloadError(f"the payload has more than {VALUES_MAX} values; send it in parts")
        byte = data[at]
        at += 1
        left -= 1
        if byte < 0x80 or byte >= 0xE0 or byte in _FIXED:
            at += _FIXED.get(byte, 0)
        elif 0xA0 <= byte < 0xC0:
            at += byte & 0x1F
        elif byte in _SIZED:
            width, extra = _SIZED[byte]
            at += width + extra + int.from_bytes(data[at : at + width], "big")
        elif 0x90 <= byte < 0xA0 or byte in _LISTS:
            width = _LISTS.get(byte, 0)
            left += int.from_bytes(data[at : at + width], "big") if width else byte & 0x0F
            at += width
        else:
            width = _MAPS.get(byte, 0)
            count = int.from_bytes(data[at : at + width], "big") if width else byte & 0x0F
            at += width
            entries += count
            left += 2 * count
    return entries


def _kind(value: object) -> str:
    if isinstance(value, msgspec.msgpack.Ext):
        return f"a MessagePack extension of type {value.code}"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    bytes: "binary data",
    datetime: "a timestamp",
}
_KINDS_TAKEN = {*_KINDS, dict} - {bytes}
_ESCAPED_COLON = re.compile(rb"(?<!\\)(?:\\\\)*\\u003[aA]")
_UNSOUND = (
    "a value is not one that events have (a number beyond 64 bits, binary data), a key is not a string, or "
    f"objects and lists are nested more than {DEPTH_MAX} deep"
)
_TOO_DEEP = f"objects and lists are nested more than {DEPTH_MAX} deep"
_NAMES = {Encoding.JSON: "JSON", Encoding.MSGPACK: "MessagePack"}
_Int = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_SIMPLE_DECODER: Callable[[bytes], Any] = msgspec.json.Decoder(
    dict[str, str | _Int | float | bool | None]
).decode
_DECODERS = {Encoding.JSON: msgspec.json.Decoder().decode, Encoding.MSGPACK: msgspec.msgpack.Decoder().decode}
_ENCODERS = {Encoding.JSON: msgspec.json.Encoder().encode, Encoding.MSGPACK: msgspec.msgpack.Encoder().encode}
