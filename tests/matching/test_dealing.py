"""A deal lists who takes each piece, and gives each taker its pieces, joined, in their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.matching import Answers, compiling, dealing
from tidings.matching.dealing import Deal, Dealer, Links, joined


def answers(found: list[list[int]]) -> Answers:
    owners = [owner for some in found for owner in some]
    ends = np.cumsum([len(some) for some in found])
    return Answers(np.array(owners, dtype=np.int64), ends.astype(np.int64), ())


def deal_of(pieces: int, takers: int) -> Deal:
    deal = Dealer().deal(pieces, takers)
    assert deal is not None
    return deal


@given(
    st.lists(
        st.tuples(st.binary(max_size=9) | st.binary(min_size=60, max_size=140), st.sets(st.integers(0, 5))),
        min_size=1,
        max_size=30,
    ),
    st.lists(st.lists(st.integers(2, 140), max_size=3, unique=True), min_size=6, max_size=6),
    st.integers(0, 2),
    st.sets(st.integers(0, 140)),
)
def test_each_taker_gets_its_pieces_in_order(
    pieces: list[tuple[bytes, set[int]]], takers_of: list[list[int]], everyone: int, asked: set[int]
) -> None:
    data = b"-".join(piece for piece, _ in pieces)
    lengths = [len(piece) for piece, _ in pieces]
    begins = np.cumsum([0, *lengths[:-1]]) + np.arange(len(pieces))
    found = answers([sorted(owners) for _, owners in pieces])
    links = Links()
    for owner in links.unknown(found):
        links.link(owner, takers_of[owner])
    assert links.unknown(found) == []
    deal = deal_of(len(pieces), 141)
    deal.mark_all(everyone)
    assert deal.mark(links, found)
    dealt = deal.count()
    assert dealt is not None
    wanted = [
        sorted({*range(everyone), *(taker for owner in owners for taker in takers_of[owner])})
        for _, owners in pieces
    ]
    assert dealt.served.tolist() == [at for at, who in enumerate(wanted) if who]
    assert [some.tolist() for some in np.split(dealt.takers, dealt.upto)][:-1] == list(filter(None, wanted))
    taking = {taker for who in wanted for taker in who}
    for some in (sorted(taking), sorted(taking & asked)):
        if not some:
            continue
        own, lasts = dealt.pieces_of(some)
        shares = joined(data, begins, begins + lengths, own, lasts)
        for taker, share in zip(some, shares, strict=True):
            assert share == b"".join(
                piece for (piece, _), who in zip(pieces, wanted, strict=True) if taker in who
            )


def test_what_would_be_too_much_at_once_is_not_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "TAKEN_MAX", 1)
    deal = deal_of(2, 1)
    deal.mark_one(0, 0)
    assert deal.count() is not None
    deal.mark_one(1, 0)
    kernels = compiling.compiled_batches()
    # Nor is memory taken for it.
    monkeypatch.setattr(kernels, "count", None)
    assert deal.count() is None
    monkeypatch.setattr(dealing, "BITS_MAX", 99)
    assert Dealer().deal(10, 10) is None


def test_without_kernels_nothing_is_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "compiled_batches", lambda: None)
    assert Dealer().deal(1, 1) is None


def test_more_takers_than_are_usual_are_listed_all_the_same() -> None:
    deal = deal_of(2, 100)
    deal.mark_all(100)
    dealt = deal.count()
    assert dealt is not None
    assert dealt.takers.tolist() == [*range(100), *range(100)]
    pieces, lasts = dealt.pieces_of(range(100))
    shares = joined(b"ab", np.array([0, 1]), np.array([1, 2]), pieces, lasts)
    assert {bytes(share) for share in shares} == {b"ab"}


def test_where_nobody_takes_anything_nobody_gets_anything() -> None:
    """Not even memory that is not there is written to."""
    deal = deal_of(3, 0)
    assert deal.mark(Links(), answers([[], [], []]))
    dealt = deal.count()
    assert dealt is not None
    assert dealt.takers.tolist() == dealt.served.tolist() == []


def test_what_goes_into_records_keeps_no_more_than_itself() -> None:
    deal = deal_of(1000, 2)
    deal.mark_one(7, 1)
    dealt = deal.count()
    assert dealt is not None
    assert (dealt.takers.tolist(), dealt.upto.tolist(), dealt.served.tolist()) == ([1], [1], [7])
    assert dealt.takers.base is dealt.upto.base is None
