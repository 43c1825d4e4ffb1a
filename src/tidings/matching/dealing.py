"""Dealing: from the filters that were found for many publications to who takes which.

Owners of filters stand for *takers*, several of them or the same as others. A deal numbers the takers and
marks for each piece who takes it. What takers and pieces are is not known here; `joined` gives a taker the
bytes of its pieces.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from tidings.matching.compiling import compiled_batches
from tidings.matching.reading import Answers
from tidings.matching.state import MOVED_BYTES, Array, Scratch

BITS_MAX = 1 << 26
"""Pieces times takers: 8 MiB of bits."""

TAKEN_MAX = 1 << 20
"""How often pieces are taken in all, at most."""

TOGETHER_BYTES = 256 * 1024
"""What several takers get lies together up to so much: as long as one of them has not let go of its own, all
of it is kept."""

UNKNOWN = -1
"""In the place of the takers of an owner that has not been linked."""


class Links:
    """For whom the owners of one index stand; learnt when they are first found."""

    def __init__(self) -> None:
        self._first = np.full(64, UNKNOWN, dtype=np.int64)
        self._links = np.zeros(256, dtype=np.int64)
        self._used = 0

    def unknown(self, answers: Answers) -> list[int]:
        """The owners among those found that have not been linked."""
        owners = answers.owners
        if not len(owners):
            return []
        highest = int(owners.max()) + 1
        if highest > len(self._first):
            self._first = np.append(self._first, np.full(highest, UNKNOWN, dtype=np.int64))
        new: list[int] = np.unique(owners[self._first[owners] == UNKNOWN]).tolist()
        return new

    def link(self, owner: int, takers: Sequence[int]) -> None:
        """An owner stands for these."""
        if len(takers) == 1:
            # Most stand for one, which is then at hand without another place to look at.
            self._first[owner] = -2 - takers[0]
            return
        end = self._used + 1 + len(takers)
        if end > len(self._links):
            self._links = np.append(self._links, np.zeros(end, dtype=np.int64))
        self._links[self._used : end] = [len(takers), *takers]
        self._first[owner] = self._used
        self._used = end

    def mark(self, answers: Answers, bits: Array) -> bool:
        known: bool = _kernels().mark(answers.owners, answers.ends, self._first, self._links, bits)
        return known


class Dealer:
    """Makes deals, one after the other, in the same memory."""

    def __init__(self) -> None:
        self._bits, self._listed = Scratch(np.uint64), Scratch(np.int32)

    def deal(self, pieces: int, takers: int) -> Deal | None:
        """A deal in which nobody takes anything yet; None if it would be too large, or without kernels."""
        if compiled_batches() is None or pieces * takers > BITS_MAX:
            return None
        bits = self._bits.take(pieces, max(1, -(-takers // 64)))
        bits.fill(0)
        return Deal(bits, takers, self._listed)


class Deal:
    """Who takes which of some pieces: `bits` has a row for each piece and a bit for each taker."""

    __slots__ = ("_bits", "_listed", "_takers")

    def __init__(self, bits: Array, takers: int, listed: Scratch) -> None:
        self._bits = bits
        self._takers = takers
        self._listed = listed

    def mark_all(self, takers: int) -> None:
        """The first takers take every piece."""
        for at in range(takers):
            self.mark_one(slice(None), at)

    def mark_one(self, piece: int | slice, taker: int) -> None:
        self._bits[piece, taker >> 6] |= np.uint64(1 << (taker & 63))

    def mark(self, links: Links, answers: Answers) -> bool:
        """Those for whom the owners stand that were found take the pieces for which they were. False if some
        owner has not been linked: then nothing more is to be done with this deal.
        """
        return links.mark(answers, self._bits)

    def count(self) -> Dealt | None:
        """Who takes what; None if that is too much in all."""
        kernels, bits = _kernels(), self._bits
        taken, served_count = kernels.total(bits)
        if taken > TAKEN_MAX:
            return None
        # Each by itself, and no longer than it is: those that go into records are kept for a while.
        takers, pieces = np.empty(taken, dtype=np.int32), np.empty(taken, dtype=np.int32)
        upto, served = np.empty(served_count, dtype=np.int64), np.empty(served_count, dtype=np.int64)
        lasts = np.empty(self._takers, dtype=np.int64)
        kernels.count(bits, takers, upto, served, self._listed.take(taken), pieces, lasts)
        return Dealt(takers, upto, served, pieces, lasts)


class Dealt:
    """Pieces and who takes them."""

    __slots__ = ("lasts", "pieces", "served", "takers", "upto")

    def __init__(self, takers: Array, upto: Array, served: Array, pieces: Array, lasts: Array) -> None:
        self.takers = takers
        """Of one piece after the other, by their numbers."""
        self.upto = upto
        """Where those of each piece end that somebody takes."""
        self.served = served
        """Which pieces these are."""
        self.pieces = pieces
        """Of one taker after the other."""
        self.lasts = lasts
        """Where those of each taker end."""

    def pieces_of(self, takers: Sequence[int]) -> tuple[Array, Array]:
        """The pieces of some takers, whose numbers ascend, and where those of each end."""
        counts = np.diff(self.lasts, prepend=0)
        chosen = np.zeros(len(counts), dtype=np.bool_)
        chosen[list(takers)] = True
        if chosen[counts > 0].all():
            return self.pieces, self.lasts[chosen]
        return self.pieces[np.repeat(chosen, counts)], np.cumsum(counts[chosen])


def joined(data: bytes, begins: Array, ends: Array, pieces: Array, lasts: Array) -> list[memoryview]:
    """What each taker gets, whose pieces begin and end there in the data."""
    kernels = _kernels()
    buffer = np.frombuffer(data, dtype=np.uint8)
    sizes = np.cumsum((ends - begins)[pieces])
    upto, last_of = sizes[lasts - 1].tolist(), lasts.tolist()
    found: list[memoryview] = []
    taker = piece = before = 0
    while taker < len(upto):
        # All that fits, and one at least.
        end = max(taker + 1, bisect_right(upto, before + TOGETHER_BYTES, taker))
        out = np.empty(upto[end - 1] - before + MOVED_BYTES, dtype=np.uint8)
        kernels.join(buffer, begins, ends, pieces, piece, last_of[end - 1], out)
        whole, at = out.data, 0
        for last in upto[taker:end]:
            found.append(whole[at : last - before])
            at = last - before
        taker, piece, before = end, last_of[end - 1], upto[end - 1]
    return found


def _kernels() -> ModuleType:
    kernels = compiled_batches()
    assert kernels is not None, "whoever has answers has kernels"
    return kernels
