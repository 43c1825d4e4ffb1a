"""A deal gives each taker its pieces, joined, in their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.matching import Answers, compiling, state
from tidings.matching.state import Blocks
from tidings.mqtt import fanout
from tidings.mqtt.fanout import Deal, Links


def answers(found: list[list[int]]) -> Answers:
    owners = [owner for some in found for owner in some]
    ends = np.cumsum([len(some) for some in found])
    return Answers(np.array(owners, dtype=np.int64), ends.astype(np.int64), ())


@given(
    st.lists(
        st.tuples(st.binary(max_size=9) | st.binary(min_size=60, max_size=140), st.sets(st.integers(0, 5))),
        min_size=1,
        max_size=30,
    ),
    st.lists(st.lists(st.integers(2, 140), max_size=3, unique=True), min_size=6, max_size=6),
    st.integers(0, 2),
)
def test_each_taker_gets_its_pieces_in_order(
    pieces: list[tuple[bytes, set[int]]], takers_of: list[list[int]], everyone: int
) -> None:
    data = b"-".join(piece for piece, _ in pieces)
    lengths = [len(piece) for piece, _ in pieces]
    begins = np.cumsum([0, *lengths[:-1]]) + np.arange(len(pieces))
    found = answers([sorted(owners) for _, owners in pieces])
    links = Links()
    for owner in links.unknown(found):
        links.link(owner, takers_of[owner])
    assert links.unknown(found) == []
    deal = Deal(len(pieces), 141)
    deal.mark_all(everyone)
    assert deal.mark(links, found)
    dealt = deal.count(begins, begins + lengths)
    assert dealt is not None
    wanted = [
        sorted({*range(everyone), *(taker for owner in owners for taker in takers_of[owner])})
        for _, owners in pieces
    ]
    assert dealt.served.tolist() == [at for at, who in enumerate(wanted) if who]
    assert [some.tolist() for some in np.split(dealt.takers, dealt.upto)][:-1] == list(filter(None, wanted))
    stretches = dealt.stretches(data)
    assert len(stretches) == 141
    for taker, stretch in enumerate(stretches):
        assert stretch == b"".join(
            piece for (piece, _), who in zip(pieces, wanted, strict=True) if taker in who
        )


def test_what_would_be_too_much_at_once_is_not_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "BYTES_MAX", 11)
    begins, ends = np.array([0, 6]), np.array([6, 12])
    deal = Deal(2, 1)
    deal.mark_one(0, 0)
    assert deal.count(begins, ends) is not None
    deal.mark_one(1, 0)
    kernels = compiling.compiled_batches()
    # Nor is memory taken for it.
    monkeypatch.setattr(kernels, "count", None)
    assert deal.count(begins, ends) is None


def test_more_takers_than_are_usual_are_listed_all_the_same() -> None:
    deal = Deal(2, 100)
    deal.mark_all(100)
    dealt = deal.count(np.array([0, 1]), np.array([1, 2]))
    assert dealt is not None
    assert dealt.takers.tolist() == [*range(100), *range(100)]
    assert {bytes(stretch) for stretch in dealt.stretches(b"ab")} == {b"ab"}


def test_where_nobody_takes_anything_nobody_gets_anything() -> None:
    """Not even memory that is not there is written to."""
    deal = Deal(3, 0)
    links = Links()
    assert deal.mark(links, answers([[], [], []]))
    dealt = deal.count(np.array([0, 1, 2]), np.array([1, 2, 3]))
    assert dealt is not None
    assert dealt.takers.tolist() == dealt.served.tolist() == dealt.stretches(b"abc") == []


def test_what_goes_into_records_keeps_no_more_than_itself() -> None:
    deal = Deal(1000, 2)
    deal.mark_one(7, 1)
    dealt = deal.count(np.arange(1000), np.arange(1000) + 1)
    assert dealt is not None
    assert (dealt.takers.tolist(), dealt.upto.tolist(), dealt.served.tolist()) == ([1], [1], [7])
    assert dealt.takers.base is dealt.upto.base is None


def test_an_owner_that_is_not_known_is_told_of() -> None:
    links = Links()
    links.link(0, [0])
    for unknown in (1, 1000):
        found = answers([[0], [0, unknown]])
        assert not Deal(2, 1).mark(links, found)
        assert links.unknown(found) == [unknown]
        links.link(unknown, [])
    deal = Deal(2, 1)
    assert deal.mark(links, found)
    dealt = deal.count(np.array([0, 1]), np.array([1, 2]))
    assert dealt is not None
    assert dealt.stretches(b"ab") == [b"ab"]


@pytest.mark.parametrize("by_one", [True, False])
def test_a_deal_has_nothing_of_the_one_before_it(by_one: bool) -> None:
    """They have the same memory."""
    Deal(2, 1).mark_all(1)
    deal, links = Deal(2, 1), Links()
    links.link(0, [0])
    if by_one:
        deal.mark_one(1, 0)
    else:
        assert deal.mark(links, answers([[], [0]]))
    dealt = deal.count(np.array([0, 1]), np.array([1, 2]))
    assert dealt is not None
    assert dealt.stretches(b"ab") == [b"b"]
    Deal(2, 1).mark_all(1)
    dealt = Deal(2, 1).count(np.array([0, 1]), np.array([1, 2]))
    assert dealt is not None
    assert dealt.stretches(b"ab") == [b""]


def test_what_several_get_lies_together_and_not_with_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as one of them is kept, all of it is."""
    monkeypatch.setattr(fanout, "TOGETHER_BYTES", 10)
    deal = Deal(3, 5)
    for piece, taker in ((0, 0), (1, 0), (1, 1), (2, 2), (0, 4), (1, 4), (2, 4)):
        deal.mark_one(piece, taker)
    dealt = deal.count(np.array([0, 4, 8]), np.array([4, 8, 12]))
    assert dealt is not None
    stretches = dealt.stretches(b"aaaabbbbcccc")
    assert [bytes(one) for one in stretches] == [b"aaaabbbb", b"bbbb", b"cccc", b"", b"aaaabbbbcccc"]
    kept = [memoryview(one.obj).nbytes - state.MOVED_BYTES for one in stretches if one]
    assert kept == [8, 8, 8, 12]


def test_a_block_is_given_again_when_nobody_looks_at_it() -> None:
    blocks = Blocks(64, 2)
    first = blocks.take(64)
    address = first.ctypes.data
    first[:3] = (1, 2, 3)
    view = first.data[1:3]
    del first
    # Part of a view is enough to keep it.
    others = [blocks.take(64) for _ in range(3)]
    assert address not in {other.ctypes.data for other in others}
    assert bytes(view) == b"\2\3"
    del view
    assert blocks.take(64).ctypes.data == address


def test_where_views_are_not_counted_no_block_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_holders", lambda blocks: [3] * len(blocks))
    assert state._count_alone() is None
    monkeypatch.undo()
    monkeypatch.setattr(state, "ALONE", None)
    blocks = Blocks(64, 2)
    assert len(blocks.take(16)) == 16
    assert blocks._blocks == []


def test_only_so_many_blocks_are_kept_and_only_for_what_is_about_as_large() -> None:
    blocks = Blocks(64, 2)
    taken = [blocks.take(64) for _ in range(4)]
    kept = {block.ctypes.data for block in taken[:2]}
    del taken
    again = [blocks.take(16) for _ in range(3)]
    assert {block.ctypes.data for block in again[:2]} == kept
    assert [len(block) for block in again] == [64, 64, 16]
    assert len(blocks.take(15)) == 15
    assert len(blocks.take(65)) == 65


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), max_size=60))
def test_what_is_looked_at_is_never_written_over(steps: list[tuple[int, int]]) -> None:
    blocks = Blocks(32, 3)
    kept: dict[int, tuple[memoryview, bytes]] = {}
    for number, (size, place) in enumerate(steps):
        kept.pop(place, None)
        block = blocks.take(size)
        block[:size] = number
        kept[place] = (memoryview(block.data[:size])[size // 2 :], bytes([number]) * (size - size // 2))
        del block
        assert all(bytes(view) == expected for view, expected in kept.values())
