"""Dealing: from who is found to what each gets, for many pieces of one buffer at once.

Owners of filters stand for *takers*, several of them or the same as others. A deal numbers the takers, marks
for each piece who takes it, and gives each taker its pieces, joined, in their order. What takers and pieces
are, is not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from tidings.matching.compiling import compiled_batches
from tidings.matching.reading import Answers
from tidings.matching.state import MOVED_BYTES, Array, Blocks, Scratch

BYTES_MAX = 16 << 20
"""What one deal may make in all. A few takers keep far below it; with many, lists of pieces that all have in
common take less memory."""

TOGETHER_BYTES = 256 * 1024
"""What several takers get lies together up to so much: as long as one of them has not let go of its own, all
of it is kept."""

BLOCKS_MAX = 32
"""Blocks of so much that are kept for the next time, and for good: what a deal makes of one read is a few."""

UNKNOWN = -1


def spans(parts: Array, count: int) -> tuple[Array, Array, Array, bool] | None:
    """Where pieces begin, where what counts in them does, where they end, and whether as much counts in each;
    None without kernels. The arrays hold until the next time.

    A part is a row of four numbers, for pieces of one size in a row: where the first begins, how many they
    are, their size, and how much of its end counts. There are `count` pieces in all.
    """
    kernels = compiled_batches()
    if kernels is None:
        return None
    begins, bodies, ends = _begins.take(count), _bodies.take(count), _ends.take(count)
    return begins, bodies, ends, kernels.spread(parts, begins, bodies, ends)


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

    def mark(self, answers: Answers, bits: Array, blank: bool) -> bool:
        known: bool = _kernels().mark(answers.owners, answers.ends, self._first, self._links, bits, blank)
        return known


class Deal:
    """Who takes which of some pieces; there is one at a time.

    `bits` has a row for each piece and a bit for each taker.
    """

    __slots__ = ("_bits", "_blank", "_takers")

    def __init__(self, pieces: int, takers: int) -> None:
        self._takers = takers
        self._bits = _bits.take(pieces, -(-takers // 64))
        self._blank = True
        """Whether the bits are those of another deal yet."""

    def mark_all(self, takers: int) -> None:
        """The first takers take every piece."""
        for at in range(takers):
            self.mark_one(slice(None), at)

    def mark_one(self, piece: int | slice, taker: int) -> None:
        self._begun()[piece, taker >> 6] |= np.uint64(1 << (taker & 63))

    def mark(self, links: Links, answers: Answers) -> bool:
        """Those for whom the owners stand that were found take the pieces for which they were. False if some
        owner has not been linked: then nothing more is to be done with this deal.
        """
        blank, self._blank = self._blank, False
        return links.mark(answers, self._bits, blank)

    def _begun(self) -> Array:
        if self._blank:
            self._blank = False
            self._bits.fill(0)
        return self._bits

    def count(self, begins: Array, ends: Array) -> Dealt | None:
        """Who gets how much of pieces that begin and end there; None if that is too much in all."""
        kernels, bits = _kernels(), self._begun()
        taken, served_count, size = kernels.total(begins, ends, bits)
        if size > BYTES_MAX:
            return None
        # Each by itself, and no longer than it is: those that go into records are kept for a while.
        takers = np.empty(taken, dtype=np.int32)
        upto, served = np.empty(served_count, dtype=np.int64), np.empty(served_count, dtype=np.int64)
        pieces, listed = _pieces.take(taken), _listed.take(taken)
        lasts, sizes = np.empty(self._takers, dtype=np.int64), np.empty(self._takers, dtype=np.int64)
        kernels.count(begins, ends, bits, takers, upto, served, listed, pieces, lasts, sizes)
        return Dealt(begins, ends, takers, upto, served, pieces, lasts, sizes)


class Dealt:
    """Pieces and who takes them; where they are, holds until others are looked at, whoever does so."""

    __slots__ = ("_taken", "begins", "ends", "lasts", "pieces", "served", "sizes", "takers", "upto")

    def __init__(
        self,
        begins: Array,
        ends: Array,
        takers: Array,
        upto: Array,
        served: Array,
        pieces: Array,
        lasts: Array,
        sizes: Array,
    ) -> None:
        self._taken = _begins.taken, _pieces.taken
        self.begins = begins
        self.ends = ends
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
        self.sizes = sizes
        """How many bytes those of all takers up to each make."""

    def check(self) -> None:
        """Nothing else must have been looked at since: it would be in the same place."""
        assert self._taken == (_begins.taken, _pieces.taken), "what was dealt out before is asked for"

    def stretches(self, data: bytes, takers: Sequence[int] | None = None) -> list[memoryview]:
        """What each taker gets, by its number; or each of some of them, whose numbers ascend."""
        self.check()
        kernels = _kernels()
        buffer = np.frombuffer(data, dtype=np.uint8)
        found: list[memoryview] = []
        pieces, ends, sizes = (self.pieces, self.lasts, self.sizes) if takers is None else self._of(takers)
        upto, lasts = sizes.tolist(), ends.tolist()
        taker = piece = before = 0
        while taker < len(upto):
            # All that fits, and one at least.
            end = max(taker + 1, bisect_right(upto, before + TOGETHER_BYTES, taker))
            out = _blocks.take(upto[end - 1] - before + MOVED_BYTES)
            kernels.join(buffer, self.begins, self.ends, pieces, piece, lasts[end - 1], out)
            whole, at = out.data, 0
            for last in upto[taker:end]:
                found.append(whole[at : last - before])
                at = last - before
            taker, piece, before = end, lasts[end - 1], upto[end - 1]
        return found

    def _of(self, takers: Sequence[int]) -> tuple[Array, Array, Array]:
        """The pieces of some takers, where those of each end, and how many bytes those up to each make."""
        chosen = np.zeros(len(self.lasts), dtype=np.bool_)
        chosen[list(takers)] = True
        counts, sizes = np.diff(self.lasts, prepend=0), np.diff(self.sizes, prepend=0)
        pieces = self.pieces[np.repeat(chosen, counts)]
        return pieces, np.cumsum(counts[chosen]), np.cumsum(sizes[chosen])


_blocks = Blocks(TOGETHER_BYTES + MOVED_BYTES, BLOCKS_MAX)
_begins, _bodies, _ends = Scratch(np.int64), Scratch(np.int64), Scratch(np.int64)
_bits, _pieces, _listed = Scratch(np.uint64), Scratch(np.int32), Scratch(np.int32)


def _kernels() -> ModuleType:
    kernels = compiled_batches()
    assert kernels is not None, "whoever has answers has kernels"
    return kernels
