"""LIKE patterns, matched in time linear in the text.

`%` stands for any characters, `_` for one; a character is a code point, as in Spark. A pattern is cut at its
`%` into pieces. The first and the last piece are anchored; each piece between is looked for leftmost, which
is enough because a later place never helps. No backtracking.

In a short text a piece without `_` is found by `str.find`, and one with `_` by Shift-And (Baeza-Yates and
Gonnet, 1992). In a long one, which may have a million characters that were chosen to make this slow, numpy
compares one character of the piece with all of a stretch of text at a time: 40 us for a million characters,
for each character of the piece. `searched` says how many these are, and `limits` bounds them for a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SHORT = 64
"""Characters of a text up to which Shift-And is as quick as numpy."""

LONG = 4_096
"""From here on `str.find` is not asked: for some texts and pieces it takes 4 ms for a million characters."""

STRETCH = 65_536
"""Characters that are looked at together: what is found early is found soon, and all is in a cache."""

FIND_LENGTH = 80
"""Characters of a piece without `_` for which `str.find` is never slower than comparing them one by one."""

ANY_ONE = None
"""In a piece: one character, whichever."""

Piece = tuple[str | None, ...]
"""Characters in a row, or ANY_ONE."""


@dataclass(frozen=True, slots=True, order=True)
class Like:
    """A pattern, or its negation."""

    pattern: str
    """The pattern with backslash as its escape, whatever the text used."""

    negated: bool = False
    """Whether it is NOT LIKE."""

    def holds(self, text: str) -> bool:
        return matches(_pieces(self.pattern), text) is not self.negated


class BadPattern(ValueError):
    """An escape character that escapes nothing."""


def pieces(pattern: str, escape: str = "\\") -> tuple[Piece, ...]:
    """The pieces between the `%` of a pattern; always at least one.

    >>> pieces("a_%b")
    (('a', None), ('b',))
    """
    done: list[Piece] = []
    piece: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                # Spark refuses it too (INVALID_FORMAT); taking the character as it is would differ in
                # silence.
                raise BadPattern(f"{escape} must stand before %, _ or {escape}")
            piece.append(escaped)
        elif character == "%":
            done.append(tuple(piece))
            piece = []
        elif character == "_":
            piece.append(ANY_ONE)
        else:
            piece.append(character)
    return (*done, tuple(piece))


_pieces = lru_cache(maxsize=4_096)(pieces)


def spelled(parts: Sequence[Piece]) -> str:
    """The pattern of some pieces, with backslash as the escape; runs of `%` become one."""
    kept = [parts[0], *(part for part in parts[1:-1] if part), *parts[1:][-1:]]
    return "%".join(
        "".join("_" if c is ANY_ONE else "\\" + c if c in "%_\\" else c for c in part) for part in kept
    )


def prefix(parts: Sequence[Piece]) -> str:
    """The characters that every match begins with."""
    first = parts[0]
    end = first.index(ANY_ONE) if ANY_ONE in first else len(first)
    return "".join(c for c in first[:end] if c is not None)


def searched(parts: Sequence[Piece]) -> int:
    """How many characters of a pattern a text is compared with, one by one, from its begin to its end.

    >>> searched(pieces("fire%")), searched(pieces("%smoke%fire%"))
    (0, 5)
    """
    return max(
        (
            sum(c is not ANY_ONE for c in part) if ANY_ONE in part else min(len(part), FIND_LENGTH)
            for part in parts[1:-1]
        ),
        default=0,
    )


def matches(parts: Sequence[Piece], text: str) -> bool:
    """Whether the whole text matches."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(first) and _at(first, text, 0)
    end = len(text) - len(last)
    if end < len(first) or not _at(first, text, 0) or not _at(last, text, end):
        return False
    start = len(first)
    codes = None
    for part in parts[1:-1]:
        if len(text) > (SHORT if ANY_ONE in part else LONG) and (ANY_ONE in part or len(part) < FIND_LENGTH):
            codes = _codes(text) if codes is None else codes
            found = _find_long(part, codes, start, end)
        else:
            found = _find(part, text, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


def _at(piece: Piece, text: str, start: int) -> bool:
    return all(c is ANY_ONE or c == text[start + i] for i, c in enumerate(piece))


def _find(piece: Piece, text: str, start: int, end: int) -> int:
    """Where a piece stands first within text[start:end]; -1 if nowhere."""
    if ANY_ONE not in piece:
        return text.find("".join(c for c in piece if c is not None), start, end)
    anything = 0
    places: dict[str, int] = {}
    for i, c in enumerate(piece):
        if c is ANY_ONE:
            anything |= 1 << i
        else:
            places[c] = places.get(c, 0) | 1 << i
    goal = 1 << (len(piece) - 1)
    state = 0
    for i in range(start, end):
        state = ((state << 1) | 1) & (places.get(text[i], 0) | anything)
        if state & goal:
            return i + 1 - len(piece)
    return -1


def _codes(text: str) -> Any:
    """The code points of a text, in one byte each if that is enough."""
    import numpy as np  # only where a text is long

    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _find_long(piece: Piece, codes: Any, start: int, end: int) -> int:
    """The same in code points."""
    wanted = [(i, ord(c)) for i, c in enumerate(piece) if c is not ANY_ONE]
    if codes.itemsize == 1 and any(code > 0x7F for _, code in wanted):
        return -1
    last = end - len(piece)
    if not wanted:
        return start if start <= last else -1
    for begin in range(start, last + 1, STRETCH):
        size = min(STRETCH, last + 1 - begin)
        offset, code = wanted[0]
        here = codes[begin + offset : begin + offset + size] == code
        for count, (offset, code) in enumerate(wanted[1:]):
            # Asking takes as long as comparing, and few pieces need more than the first characters.
            if (count < 4 or count % 8 == 0) and not here.any():
                break
            here &= codes[begin + offset : begin + offset + size] == code
        at = int(here.argmax())
        if here[at]:
            return begin + at
    return -1
