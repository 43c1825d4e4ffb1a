"""Publications side by side in one message, and sets of members as bits, come out as they went in."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.bench import EPOCH, Middle, publication, publish
from tidings.errors import PeerError
from tidings.overlay.publication import Batch, Publication, Told
from tidings.overlay.publishing import batches
from tidings.overlay.publishing.batches import (
    PLACE_MAX,
    Outgoing,
    Packed,
    batch_of,
    packed,
    read,
    unpacked,
    written,
)
from tidings.overlay.publishing.messages import Done, Publish

BITS = st.one_of(
    st.integers(0, 2**70), st.sets(st.integers(0, 300), max_size=5).map(lambda at: sum(1 << it for it in at))
)
NUMBERS = st.integers(0, 2**62)
NAMES = st.sampled_from(["", "t", "t/u", "é"])
TOLD = st.builds(
    Told,
    st.just("t"),
    NAMES,
    NUMBERS,
    NUMBERS,
    st.booleans(),
    NAMES,
    state=st.sampled_from(["told", "ended"]),
)


@st.composite
def some_publications(draw: st.DrawFn) -> list[Publication]:
    """Of one stream, told or not."""
    origin, incarnation, stream, told = draw(NAMES), draw(NUMBERS), draw(NAMES), draw(st.booleans())
    one = st.builds(
        Publication,
        *map(st.just, (origin, incarnation, stream)),
        NUMBERS,
        NAMES,
        st.binary(max_size=8),
        st.integers(0, 2),
        NUMBERS,
        NAMES,
        st.sampled_from(["", "application/msgpack"]),
        st.sampled_from([(), (("k", "v"),)]),
        st.booleans(),
        st.integers(-1, 1),
        st.integers(-1, 9),
        st.none() | NAMES,
        st.none() | st.binary(max_size=3),
        TOLD if told else st.none(),
    )
    some = draw(st.lists(one, min_size=1, max_size=6, unique_by=lambda it: it.number))
    return sorted(some, key=lambda it: it.number)


def message_of(
    some: Sequence[Publication],
    previous: Sequence[int],
    to: Sequence[int],
    must: Sequence[int],
    slot: int = 1,
    hops: int = 1,
) -> Publish:
    """A message with publications, each with its own destinations."""
    outgoing = Outgoing("a", EPOCH, hops, slot)
    for one in zip(some, previous, to, must, strict=True):
        batch = Batch.of(one[0])
        assert not outgoing.count or outgoing.fits("a", EPOCH, hops, slot + outgoing.count, batch, 1 << 20)
        outgoing.add(batch, *one[1:], one[0].size)
    return outgoing.message()


@given(st.data(), some_publications())
def test_publications_of_one_stream_come_out_as_they_went_in(
    data: st.DataObject, some: list[Publication]
) -> None:
    each = st.lists(BITS, min_size=len(some), max_size=len(some))
    to, must, previous = data.draw(each), data.draw(each), list(range(len(some)))
    message = message_of(some, previous, to, must, slot=5, hops=2)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Publish)
    assert list(batch_of(sent)) == some
    assert [unpacked(places) for places in sent.to] == to
    assert [unpacked(places) for places in sent.must or sent.to] == must
    assert (sent.root, sent.epoch, sent.slot, sent.hops, sent.previous) == ("a", EPOCH, 5, 2, tuple(previous))


@given(some_publications())
def test_a_batch_is_read_as_it_was_written(some: list[Publication]) -> None:
    it = written(Batch.of(*some))
    assert list(read(msgspec.msgpack.decode(msgspec.msgpack.encode(it), type=Packed))) == some


@given(st.data(), some_publications())
def test_a_part_of_a_batch_has_the_publications_at_its_places(
    data: st.DataObject, some: list[Publication]
) -> None:
    batch = Batch.of(*some)
    places = data.draw(st.sets(st.integers(0, len(some) - 1), min_size=1).map(sorted))
    part = batch.some(places)
    assert list(part) == list(part.apart()) == [some[at] for at in places]
    assert part.sizes == [some[at].size for at in places]
    assert part.payloads == b"".join(some[at].payload for at in places)
    first, end = places[0], places[-1] + 1
    assert list(batch.part(first, end)) == some[first:end]
    runs = [(head.topic, first, end) for head, first, end in batch.runs()]
    assert [topic for topic, first, end in runs for _ in range(first, end)] == [it.topic for it in some]


def test_what_publications_have_in_common_is_said_once() -> None:
    some = [publication(number, topic=topic) for number, topic in enumerate("ttutu", 1)]
    message = message_of(some, range(5), [1] * 5, [1] * 5)
    assert [head.topic for head in message.heads] == ["t", "u"]
    assert message.which == (0, 0, 1, 0, 1)
    assert message.must == ()
    of_one_head = message_of(some[:2], range(2), [1] * 2, [1] * 2)
    assert (len(of_one_head.heads), of_one_head.which) == (1, ())


@given(BITS)
def test_a_set_of_members_comes_out_as_it_went_in_and_is_short(bits: int) -> None:
    places = packed(bits)
    assert unpacked(places) == bits
    assert len(places) <= min(bits.bit_count(), (bits.bit_length() + 7) // 8)


@given(st.lists(st.integers(-(2**63), 2**64 - 1)).map(tuple) | st.binary(max_size=2 * PLACE_MAX // 8))
def test_whatever_comes_as_a_set_of_members_is_one_of_bounded_size(places: bytes | tuple[int, ...]) -> None:
    assert 0 <= unpacked(places) < 1 << PLACE_MAX


SOME = [publication(number, b"%d" % number, topic="tu"[number % 2]) for number in (1, 2, 3)]
WHOLE = message_of(SOME, (0, 1, 2), (6, 4, 2), (6, 4, 0))


@given(st.data())
def test_lists_of_other_lengths_are_a_fault_of_the_peer(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["numbers", "previous", "to", "must", "which", "at_us", "ends", "told"]))
    optional = name in ("must", "which", "told")
    lengths = [length for length in range(6) if length != 3 and not (optional and length == 0)]
    length = data.draw(st.sampled_from(lengths))
    value = (getattr(WHOLE, name) + (0,) * 6)[:length]
    with pytest.raises(PeerError, match="do not fit together"):
        batch_of(msgspec.structs.replace(WHOLE, **{name: value}))


@pytest.mark.parametrize(
    "odds",
    [
        {"heads": ()},
        {"which": (0, 1, 2)},
        {"which": (0, 1, -1)},
        {"ends": (2, 1, 3)},
        {"ends": (-1, 2, 3)},
        {"ends": (1, 2, 4)},
        {"ends": (1, 2, 2)},
        {"payloads": b""},
        {"numbers": (1, 1, 2)},
        {"numbers": (1, 3, 2)},
    ],
    ids=repr,
)
def test_lists_that_do_not_fit_are_a_fault_of_the_peer(odds: dict[str, Any]) -> None:
    with pytest.raises(PeerError, match="do not fit together"):
        batch_of(msgspec.structs.replace(WHOLE, **odds))


def test_a_hop_does_with_many_in_one_message_what_it_does_with_each_in_its_own() -> None:
    together, apart = Middle(), Middle()
    effects = together["a"].say(WHOLE)
    singly = apart["a"].say(
        *(
            publish(slot, slot - 1, it, to=to, must=must)
            for slot, (it, to, must) in enumerate(zip(SOME, (6, 4, 2), (6, 4, 0), strict=True), 1)
        )
    )
    sent = together.heard(effects, Publish)
    assert [(peer, message.numbers, message.previous) for peer, message in sent] == [
        ("x", (1, 2), (0, 1)),
    ]
    assert sent == apart.heard(singly, Publish)
    # Each has a slot of its own, counted from that of the message.
    answer = Done("a", (2, 2), ((1, packed(4)),))
    answers = together.heard(together["x"].say(answer), Done)
    assert [(peer, done.stale) for peer, done in answers] == [("a", ((1, packed(4)),))]
    assert answers == apart.heard(apart["x"].say(answer), Done)


def test_the_examples_in_the_module_hold() -> None:
    assert doctest.testmod(batches).failed == 0
