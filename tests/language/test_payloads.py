from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.counting import lines
from tidings.errors import PayloadError
from tidings.language.payloads import (
    DEPTH_MAX,
    OPENED_MAX,
    PAYLOAD_BYTES_MAX,
    VALUES_MAX,
    Encoding,
    check,
    decode,
    encode,
    encoding_of,
)

JSON, MSGPACK = Encoding.JSON, Encoding.MSGPACK
NOON = datetime(2026, 11, 15, 12, 0, 0, 250_000, tzinfo=UTC)


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (b' {"a" : 1, "b":[true,null,"x"] } ', {"a": 1, "b": [True, None, "x"]}),
        (b'{"a":-0,"b":-0.0,"c":1e2}', {"a": 0, "b": 0.0, "c": 100.0}),
        (b'{"a":9223372036854775807,"b":-9223372036854775808}', {"a": 2**63 - 1, "b": -(2**63)}),
        ('{"πόλη":"Αθήνα"}'.encode(), {"πόλη": "Αθήνα"}),
        (b'{"\\u03c0":"\\ud83d\\ude00"}', {"π": "😀"}),
        (b'{"at":"12:30:00","x:y":{"z":":"}}', {"at": "12:30:00", "x:y": {"z": ":"}}),
        (b'{"a":"\\u003a","b\\u003A":1}', {"a": ":", "b:": 1}),
        (b'{"a":"\\\\u003a"}', {"a": "\\u003a"}),
        (b'{"a":{"k":1},"b":{"k":2}}', {"a": {"k": 1}, "b": {"k": 2}}),
        (b'{"":1}', {"": 1}),
    ],
)
def test_json_objects_are_taken(data: bytes, value: object) -> None:
    assert decode(data) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" ", "not JSON"),
        (b"[1]", "is a list; it must be an object"),
        (b"null", "is null"),
        (b'"x"', "is a text"),
        (b"3", "is a number"),
        (b"{} x", "trailing characters"),
        (b"{}{}", "trailing characters"),
        (b'{"a":1', "truncated"),
        (b"{'a':1}", "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b'{"a":01}', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":Infinity}', "not JSON"),
        (b'{"a":1e400}', "out of range"),
        (b'{"a":9223372036854775808}', "a: an integer of 64 bits is too large"),
        (b'{"a":{"b c":[0,-9223372036854775809]}}', r"a\.`b c`\[1\]: an integer of 64 bits"),
        (b'{"a":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a":"\xff"}', "not valid UTF-8"),
        (b'{"\xff":1}', "not valid UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8"),
        (b'{"a":"\\ud800"}', "not JSON"),
        (b'{"a":"\\udc00x"}', "surrogate"),
        (b'{"a":"\n"}', "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a":1,"a":1}', "'a' is there twice"),
        (b'{"a":1,"\\u0061":1}', "'a' is there twice"),
        (b'{"o":{"a":":","b":1,"a":":"}}', "'a' is there twice"),
        (b'{"l":[{"x":"::"},{"x":1,"x":"::"}]}', "'x' is there twice"),
        (b'{"a":1,"a":"","b":"\\u003a"}', "'a' is there twice"),
        (b'{"a":' + b"[" * 500 + b"]" * 500 + b',"a":1}', "'a' is there twice"),
        (b'{"a":' + b"9" * 4000 + b',"a":1}', "'a' is there twice"),
        (nested(DEPTH_MAX + 1), "nested more than 32 deep"),
        (nested(20_000), "nested more than 32 deep"),
        (b"[" * 30_000, "nested more than 32 deep"),
        (b'{"a":' + b"[" * 30_000, "nested more than 32 deep"),
        (nested(100_000), "more than 32768 objects and lists; send it in parts"),
        (b"[" * 200_000, "more than 32768 objects and lists"),
    ],
)
def test_other_json_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        decode(data)


def test_nesting_and_size_are_allowed_up_to_the_limit() -> None:
    assert decode(nested(DEPTH_MAX))
    assert decode(b'{"a":1}', bytes_max=7) == {"a": 1}
    with pytest.raises(PayloadError, match="7 bytes; the limit is 6"):
        decode(b'{"a":1}', bytes_max=6)


def timestamp(nanoseconds: int, seconds: int) -> bytes:
    return b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x80", {}),
        (b"\x81\xa1a\x01", {"a": 1}),
        (b"\x81\xa1a\xd3" + (5).to_bytes(8, "big"), {"a": 5}),
        (b"\x81\xa1a\xca" + struct.pack(">f", 0.5), {"a": 0.5}),
        (b"\xde\x00\x01\xd9\x01a\xdc\x00\x01\xc2", {"a": [False]}),
        (b"\xdf\x00\x00\x00\x01\xda\x00\x01a\xdd\x00\x00\x00\x01\xdb\x00\x00\x00\x01b", {"a": ["b"]}),
        (b"\x82\xa1a\x81\xa1k\xcc\x01\xa1b\x81\xa1k\xc0", {"a": {"k": 1}, "b": {"k": None}}),
        (b"\x81\xa1a" + timestamp(500, 5), {"a": datetime(1970, 1, 1, 0, 0, 5, 1, tzinfo=UTC)}),
        (b"\x81\xa1a\xd6\xff\x00\x00\x00\x05", {"a": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)}),
    ],
)
def test_messagepack_maps_are_taken(data: bytes, value: object) -> None:
    assert decode(data, MSGPACK) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\x01", "is a number"),
        (b"\x90", "is a list"),
        (b"\x80\x80", "trailing"),
        (b"\x81\xa1a", "truncated"),
        (b"\x81\xc1\x01", "not MessagePack"),
        (b"\x81\x01\x02", "the key 1 is not a string"),
        (b"\x81\xa1o\x81\xc0\x02", "o: the key None is not a string"),
        (b"\x81\x90\x02", "is not a string"),
        (b"\x81\x80\x02", "not MessagePack|is not a string"),
        (b"\x81\xa1a\xcf" + b"\xff" * 8, "a: an integer of 64 bits"),
        (b"\x81\xa1a\xcb\x7f\xf8" + b"\0" * 6, "a: nan is not a finite number"),
        (b"\x81\xa1a\xcb\xff\xf0" + b"\0" * 6, "a: -inf is not a finite number"),
        (b"\x81\xa1a\xc4\x01x", "a: binary data is not a value"),
        (b"\x81\xa1a\xd4\x05x", "a: a MessagePack extension of type 5"),
        (b"\x81\xa1a" + timestamp(0, 10**15), "not MessagePack"),
        (b"\x81\xa1\xff\x01", "not valid UTF-8"),
        (b"\x82\xa1a\x01\xa1a\x01", "there twice"),
        (b"\x82\xa1a\x01\xd9\x01a\x01", "there twice"),
        (b"\x82\xa1a\x01\xa1b\x82\xa1k\xca" + struct.pack(">f", 0.5) + b"\xa1k\x01", "there twice"),
        (b"\x81\xa1a\xdd\xff\xff\xff\xff", "truncated"),
        (b"\x81\xa1a" * (DEPTH_MAX + 1) + b"\x01", "nested more than 32 deep"),
        (b"\x81\xa1a" + b"\x91" * 60_000, "nested more than 32 deep"),
        (b"\x81\xa1a" + b"\x91" * 200_000, "more than 65536 values; send it in parts"),
    ],
)
def test_other_messagepack_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        decode(data, MSGPACK)


def test_what_is_written() -> None:
    fields = {"place": "A1", "opened": NOON, "ends": NOON.replace(microsecond=0), "lanes": [1, 2.0]}
    assert encode(fields) == (
        b'{"place":"A1","opened":"2026-11-15T12:00:00.250000Z","ends":"2026-11-15T12:00:00Z","lanes":[1,2.0]}'
    )
    assert decode(encode(fields, MSGPACK), MSGPACK) == fields


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"a": float("nan")}, "a: nan is not a finite number"),
        ({"a": {1: 2}}, "a: the key 1 is not a string"),
        ({"a": {"b": {1, 2}}}, r"a\.b: a set is not a value"),
        ({"a": [2**63]}, r"a\[0\]: an integer of 64 bits"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
    ],
)
def test_values_of_a_program_are_checked_alike(fields: Mapping[str, object], reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        check(fields)


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        (None, JSON),
        ("", JSON),
        ("application/json", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("application/geo+json", JSON),
        ("application/msgpack", MSGPACK),
        ("application/x-msgpack", MSGPACK),
        ("application/vnd.msgpack", MSGPACK),
    ],
)
def test_the_content_type_names_the_encoding(content_type: str | None, encoding: Encoding) -> None:
    assert encoding_of(content_type) is encoding


def test_other_content_types_are_refused() -> None:
    with pytest.raises(PayloadError, match="'text/plain' is neither JSON nor MessagePack"):
        encoding_of("text/plain")


# Texts are full of what the count of colons looks at.
TEXTS = st.text(st.sampled_from(':"\\u03aAb\x00é€😀/{}[],'), max_size=6) | st.text(max_size=6)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, PLAIN, max_size=5)
TIMES = st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))  # noqa: DTZ001


@given(OBJECTS)
def test_json_leads_back(fields: dict[str, object]) -> None:
    assert decode(encode(fields)) == fields
    assert decode(json.dumps(fields).encode()) == fields
    assert decode(json.dumps(fields, ensure_ascii=False, indent=1).encode()) == fields


@given(st.dictionaries(TEXTS, PLAIN | TIMES, max_size=5))
def test_messagepack_leads_back(fields: dict[str, object]) -> None:
    assert decode(encode(fields, MSGPACK), MSGPACK) == fields


def pairs_text(value: object) -> str:
    """JSON text of an object given as a list of pairs, in which keys may be repeated."""
    if isinstance(value, tuple):
        return "{" + ",".join(f"{json.dumps(name)}:{pairs_text(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(pairs_text, value)) + "]"
    return json.dumps(value, ensure_ascii=isinstance(value, str) and len(value) % 2 == 0)


def pairs_bytes(value: object, wide: bool) -> bytes:
    """The same in MessagePack, with the shortest form of a map or the longest."""
    if isinstance(value, tuple):
        head = b"\xdf" + len(value).to_bytes(4, "big") if wide else bytes([0x80 + len(value)])
        return head + b"".join(msgspec.msgpack.encode(n) + pairs_bytes(item, wide) for n, item in value)
    if isinstance(value, list):
        return bytes([0x90 + len(value)]) + b"".join(pairs_bytes(item, wide) for item in value)
    return msgspec.msgpack.encode(value)


def repeats(value: object) -> bool:
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(repeats(item) for _, item in value)
    return isinstance(value, list) and any(map(repeats, value))


NAMES = st.sampled_from(["a", ":", "a:", '"', "\\u003a", "é"])
PAIRS = st.recursive(
    st.none() | st.integers(-5, 5) | st.floats(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=4).map(tuple),
    max_leaves=10,
)


@given(st.lists(st.tuples(NAMES, PAIRS), max_size=4).map(tuple), st.booleans())
def test_a_repeated_key_is_found_wherever_it_is(pairs: tuple[tuple[str, object], ...], wide: bool) -> None:
    for data, encoding in ((pairs_text(pairs).encode(), JSON), (pairs_bytes(pairs, wide), MSGPACK)):
        if repeats(pairs):
            with pytest.raises(PayloadError, match="there twice"):
                decode(data, encoding)
        else:
            decode(data, encoding)


@given(st.binary(max_size=60), st.sampled_from(Encoding))
@example(b"\xc7\x0c\xff" + b"\xff" * 12, MSGPACK)
def test_arbitrary_bytes_are_taken_or_refused(data: bytes, encoding: Encoding) -> None:
    try:
        fields = decode(data, encoding)
    except PayloadError:
        return
    assert decode(encode(fields, encoding), encoding) == fields


@given(OBJECTS, st.sampled_from(Encoding), st.data())
def test_damaged_payloads_are_taken_or_refused(
    fields: dict[str, object], encoding: Encoding, draw: st.DataObject
) -> None:
    data = bytearray(encode(fields, encoding))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        taken = decode(bytes(data), encoding)
    except PayloadError:
        return
    assert decode(encode(taken, encoding), encoding) == taken


def test_half_a_microsecond_is_rounded_once() -> None:
    for nanoseconds, micros in ((499, 0), (500, 1), (1499, 1), (999_999_500, 1_000_000)):
        taken = decode(b"\x81\xa1a" + timestamp(nanoseconds, 5), MSGPACK)["a"]
        assert taken == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC) + timedelta(microseconds=micros)


def full_of(item: bytes, tail: bytes = b"") -> bytes:
    """As many of some JSON value as a payload has room for, or may have."""
    count = min((PAYLOAD_BYTES_MAX - 200) // (len(item) + 1), (OPENED_MAX - 4) // max(1, opened(item)))
    return b'{"x":[' + b",".join([item] * count) + b'],"z":{"t":"\\u003a:"}' + tail + b"}"


def opened(item: bytes) -> int:
    return item.count(b"{") + item.count(b"[")


@pytest.mark.parametrize("tail", [b"", b',"y":1,"y":2', b',"y":99999999999999999999'])
@pytest.mark.parametrize(
    "item", [b'{"a":1}', b"{}", b"[[[[]]]]", b"1", b"1.5", b'""', b'":"', b'{"a":{"b":":"}}', b"[1,2,3]"]
)
def test_a_large_payload_is_not_walked_through_in_python(item: bytes, tail: bytes) -> None:
    """Not by a call for each value; a line or two to sort them out, and some for each object, are allowed."""
    data = full_of(item, tail)

    def read() -> None:
        if tail:
            with pytest.raises(PayloadError):
                decode(data)
        else:
            decode(data)

    assert lines(read) < 2 * data.count(b",") + 6 * opened(data) + 2_000


@pytest.mark.parametrize("item", [b'{"a":1}', b"[]", b'{"a":{}}'])
def test_a_payload_of_too_many_objects_is_refused_before_it_is_read(item: bytes) -> None:
    data = b'{"x":[' + b",".join([item] * (OPENED_MAX + 1)) + b"]}"
    refused: list[str] = []

    def read() -> None:
        try:
            decode(data)
        except PayloadError as error:
            refused.append(str(error))

    assert lines(read) < 100
    assert refused == [f"the payload has more than {OPENED_MAX} objects and lists; send it in parts"]


def test_messagepack_of_many_values_is_refused() -> None:
    values = msgspec.msgpack.encode({"x": [[]] * (VALUES_MAX - 3)})
    assert len(decode(values, MSGPACK)) == 1
    with pytest.raises(PayloadError, match=f"more than {VALUES_MAX} values"):
        decode(msgspec.msgpack.encode({"x": [[]] * VALUES_MAX}), MSGPACK)


@pytest.mark.parametrize(
    "text", [b'"\\u003a"', b'"\\u003A:"', b'"\\\\u003a"', b'"\\\\\\u003a"', b'"\\\\\\\\u003a:"', b'"\\\\:"']
)
def test_escaped_colons_are_told_from_what_looks_like_them(text: bytes) -> None:
    assert decode(b'{"a":' + text + b',"b":[]}') == {"a": json.loads(text), "b": []}
    with pytest.raises(PayloadError, match="there twice"):
        decode(b'{"a":' + text + b',"b":[1],"b":[]}')
