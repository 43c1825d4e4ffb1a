"""LIKE patterns, matched in time linear in the text.

`%` stands for any characters, `_` for one; a character is a code point, as in Spark. A pattern is cut at its
`%` into pieces. The first and the last piece are anchored; each piece between is looked for leftmost, which
is enough because a later place never helps. A piece without `_` is found by `str.find`; one with `_` by
Shift-And (Baeza-Yates and Gonnet, 1992), one machine step per character while patterns are as short as
`limits` keeps them. No backtracking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        return matches(pieces(self.pattern), text) is not self.negated


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


def matches(parts: Sequence[Piece], text: str) -> bool:
    """Whether the whole text matches."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(first) and _at(first, text, 0)
    end = len(text) - len(last)
    if end < len(first) or not _at(first, text, 0) or not _at(last, text, end):
        return False
    start = len(first)
    for part in parts[1:-1]:
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
