"""Frames survive the way through bytes, however these are cut, and wrong bytes do no more than end it."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import overlay
from tidings.overlay.frames import Data, Frame, Message
from tidings.overlay.links.messages import PROTOCOL_VERSION, Greet, Refuse, Welcome
from tidings.overlay.publication import Batch, Publication
from tidings.overlay.publishing.batches import message_of
from tidings.overlay.publishing.messages import Done, Keep, Publish
from tidings.overlay.routing.changes import parts_of
from tidings.overlay.routing.messages import FILTER, Change, Confirm, Fetch, Has, Item, Sets
from tidings.overlay.trees.messages import Distance, Roll, Seek
from tidings.wire import framing
from tidings.wire.framing import (
    FRAME_MESSAGES_MAX,
    GREETING_BYTES_MAX,
    LENGTH_BYTES,
    Decoder,
    Encoder,
)
from tidings.wire.messages import AnyMessage

NUMBERS = st.integers(0, 2**62)
EPOCHS = st.tuples(NUMBERS, NUMBERS)
NAMES = st.text(max_size=8)
VERSIONS = st.tuples(NAMES, NUMBERS, NUMBERS)
ITEMS = st.lists(st.builds(Item, st.integers(0, 3), NUMBERS, st.binary(max_size=64)), max_size=3).map(tuple)
KEYS = st.lists(NUMBERS, max_size=3).map(tuple)
PLACES = st.binary(max_size=4) | st.lists(st.integers(0, 2**16), max_size=3).map(tuple)
PUBLICATIONS = st.builds(Publication, NAMES, NUMBERS, NAMES, NUMBERS, NAMES, st.binary(max_size=64))


@st.composite
def publishes(draw: st.DrawFn) -> Publish:
    """Some publications in a message."""
    some = draw(st.lists(PUBLICATIONS, min_size=1, max_size=3))
    bits = st.integers(0, 2**40)
    root, epoch, slot, hops = draw(NAMES), draw(EPOCHS), draw(NUMBERS), draw(NUMBERS)
    return message_of(root, epoch, slot, hops, Batch.of(*some), draw(NUMBERS), draw(bits), draw(bits))


NUMBERED = st.one_of(
    st.builds(Distance, NAMES, EPOCHS, st.integers(-1, 300)),
    st.builds(Roll, NAMES, EPOCHS, st.just((("b", 2, 1, 7),)), st.integers(-1, 9)),
    st.builds(Sets, st.lists(VERSIONS.map(lambda version: Has(*version)), max_size=3).map(tuple)),
    st.builds(Fetch, NAMES, NUMBERS, NUMBERS),
    st.builds(
        Change, NAMES, NUMBERS, NUMBERS, ITEMS, st.lists(NUMBERS, max_size=3).map(tuple), st.booleans()
    ),
    st.builds(Confirm, NAMES, EPOCHS, st.lists(VERSIONS, max_size=3).map(tuple)),
    publishes(),
    st.builds(Done, NAMES, st.just((1, 3)), st.lists(st.tuples(NUMBERS, PLACES), max_size=3).map(tuple)),
    st.builds(Keep, PUBLICATIONS),
)

GREETING = Frame(0, 0, (Greet((1, 2), "a", "tidings", 1, (), b"nonce", (), 0, 5),))
WELCOME = Frame(0, 0, (Welcome(PROTOCOL_VERSION, b""),))


def encoded(*frames: Frame) -> bytes:
    encoder = Encoder()
    for frame in frames:
        encoder.add(frame)
    return bytes(encoder.take())


def numbered(frames: list[Frame]) -> list[tuple[int, Message]]:
    """Every message that has a number, with it."""
    return [(f.first + n, message) for f in frames if f.first for n, message in enumerate(f.messages)]


@st.composite
def conversations(draw: st.DrawFn) -> list[Frame]:
    """One side of a link: frames whose numbers count up, some without messages, some after a gap."""
    number, frames = 1, [GREETING, WELCOME]
    for group in draw(st.lists(st.lists(NUMBERED, max_size=4), max_size=6)):
        number += draw(st.sampled_from([0, 0, 0, 7]))
        frames.append(Frame(number, draw(NUMBERS), tuple(group)))
        number += len(group)
    return frames


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[i:j] for i, j in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def fed(parts: list[bytes], decoder: Decoder) -> list[Frame]:
    return [frame for part in parts for frame in decoder.feed(part)]


@given(st.data(), conversations())
def test_what_is_said_arrives_however_the_bytes_are_cut(data: st.DataObject, said: list[Frame]) -> None:
    decoder = Decoder()
    heard = fed(data.draw(pieces(encoded(*said))), decoder)
    assert decoder.fault is None
    assert numbered(heard) == numbered(said)
    assert heard[:2] == said[:2]
    assert heard[-1].ack == said[-1].ack


@given(st.lists(NUMBERED, min_size=2, max_size=20))
def test_frames_that_follow_each_other_are_written_as_one(messages: list[Message]) -> None:
    said = [Frame(10 + n, n, (message,)) for n, message in enumerate(messages)]
    heard = Decoder().feed(encoded(*said))
    assert heard == [Frame(10, len(messages) - 1, tuple(messages))]


def test_frames_do_not_grow_without_bound() -> None:
    said = [Frame(n, 0, (Seek("r", (1, 1)),)) for n in range(1, 2 * FRAME_MESSAGES_MAX + 2)]
    heard = Decoder().feed(encoded(*said))
    assert [len(frame.messages) for frame in heard] == [FRAME_MESSAGES_MAX, FRAME_MESSAGES_MAX, 1]


def test_frames_with_much_in_them_are_not_joined() -> None:
    parts = parts_of("h", (1, 1), tuple(Item(1, key, b"x" * 60_000) for key in range(500)), (), whole=True)
    heard = Decoder()
    heard.feed(encoded(WELCOME))
    frames = heard.feed(encoded(*[Frame(number, 0, (part,)) for number, part in enumerate(parts, 1)]))
    assert sum(len(frame.messages) for frame in frames) == len(parts)
    assert all(len(encoded(frame)) < 2 * 1024 * 1024 for frame in frames)


def test_a_gap_in_the_numbers_is_not_written_over() -> None:
    message = (Seek("r", (1, 1)),)
    said = [Frame(1, 0, message), Frame(3, 0, message), Frame(4, 5, ()), Frame(4, 6, message)]
    heard = Decoder().feed(encoded(*said))
    assert heard == [Frame(1, 0, message), Frame(3, 6, message * 2)]


def test_what_was_taken_is_not_written_again() -> None:
    two = (Seek("r", (1, 1)), Seek("s", (1, 1)))
    encoder = Encoder()
    for frame in (Frame(1, 0, two), WELCOME, Frame(3, 0, two)):
        encoder.add(frame)
    heard = Decoder().feed(encoder.take())
    assert [len(frame.messages) for frame in heard] == [2, 1, 2]
    assert encoder.frames == 3
    assert encoder.take() == b""


def test_what_is_too_large_for_one_frame_is_written_as_several() -> None:
    large = tuple(Refuse(letter * 400) for letter in "abc")
    encoder = Encoder(frame_bytes_max=1_000)
    for frame in (Frame(1, 0, large), Frame(0, 0, large)):
        encoder.add(frame)
    heard = Decoder().feed(encoder.take())
    assert [(f.first, len(f.messages)) for f in heard] == [(1, 1), (2, 2), (0, 1), (0, 2)]


@given(st.data(), st.binary(max_size=200))
def test_any_bytes_give_frames_or_one_fault(data: st.DataObject, junk: bytes) -> None:
    whole, cut = Decoder(), Decoder()
    assert whole.feed(junk) == fed(data.draw(pieces(junk)), cut)
    assert str(whole.fault) == str(cut.fault)


@given(st.data(), conversations())
def test_bytes_with_a_flipped_bit_give_frames_or_one_fault(data: st.DataObject, said: list[Frame]) -> None:
    changed = bytearray(encoded(*said))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    whole, cut = Decoder(), Decoder()
    assert whole.feed(bytes(changed)) == fed(data.draw(pieces(bytes(changed))), cut)
    assert str(whole.fault) == str(cut.fault)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(ANYTHING)
def test_any_other_messagepack_is_a_fault_or_a_sound_frame(value: object) -> None:
    body = msgspec.msgpack.encode(value)
    decoder = Decoder()
    for frame in decoder.feed(len(body).to_bytes(LENGTH_BYTES, "big") + body):
        assert frame.first >= 0
        assert frame.ack >= 0
        assert all(isinstance(message, Message) for message in frame.messages)


def body_of(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (body_of([0, 0, [[250]]]), "a frame that is not one: Invalid value 250 - at `$[2][0][0]`"),
        (body_of(["x", 0]), "a frame that is not one: Expected `int`, got `str` - at `$[0]`"),
        (body_of([0]), "a frame that is not one: Expected `array` of at least length 2, got 1"),
        (
            body_of([-1, 0, []]),
            "a frame numbered -1 that acknowledges 0; neither is negative",
        ),
        (b"\x00\x00\x00\x00", "a frame that is not one: Input data was truncated"),
        (
            (GREETING_BYTES_MAX + 1).to_bytes(LENGTH_BYTES, "big"),
            "a frame of 65537 bytes; 65536 are allowed here",
        ),
    ],
)
def test_a_fault_says_what_was_wrong(wrong: bytes, said: str) -> None:
    decoder = Decoder()
    assert decoder.feed(encoded(GREETING) + wrong + encoded(GREETING)) == [GREETING]
    assert str(decoder.fault) == said
    assert decoder.feed(encoded(GREETING)) == []


def test_a_text_that_is_none_is_a_fault() -> None:
    wrong = encoded(Frame(0, 0, (Refuse("reason"),))).replace(b"reason", b"\xff" * 6)
    decoder = Decoder()
    assert decoder.feed(wrong) == []
    assert decoder.fault is not None


def test_very_deep_values_are_a_fault() -> None:
    body = b"\x94\x00\x00\x90" + b"\x91" * 60_000 + b"\x90"
    decoder = Decoder()
    assert decoder.feed(len(body).to_bytes(LENGTH_BYTES, "big") + body) == []
    assert decoder.fault is not None


def test_a_large_frame_is_taken_only_from_a_peer_that_has_agreed() -> None:
    large = Frame(1, 0, (Change("a", 1, 1, (Item(FILTER, 1, b"x" * GREETING_BYTES_MAX),)),))
    before, behind = Decoder(), Decoder()
    assert before.feed(encoded(GREETING, large)) == [GREETING]
    assert before.fault is not None
    assert behind.feed(encoded(GREETING, WELCOME, large)) == [GREETING, WELCOME, large]


def test_fields_added_by_a_later_release_are_passed_over() -> None:
    body = msgspec.msgpack.encode([7, 3, [[3, "full", "new field", 12]], "another"])
    heard = Decoder().feed(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    assert heard == [Frame(7, 3, (Refuse("full"),))]


def test_every_message_has_a_tag_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in AnyMessage.__args__]
    assert len(tags) == len(set(tags))


def test_every_message_that_a_part_of_a_broker_declares_is_known() -> None:
    found = set()
    for module in pkgutil.walk_packages(overlay.__path__, "tidings.overlay."):
        if module.name.endswith(".messages"):
            found |= {
                kind
                for kind in vars(importlib.import_module(module.name)).values()
                if isinstance(kind, type) and issubclass(kind, Message)
            }
    assert found - {Message, Data} == set(AnyMessage.__args__)


def test_the_examples_in_the_module_hold() -> None:
    assert doctest.testmod(framing).failed == 0
