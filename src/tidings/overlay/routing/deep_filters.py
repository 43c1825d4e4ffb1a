"""Topic filters of many levels, found without walking through their levels one by one.

In a trie a topic of n levels can pass 2^n nodes, or a node of each level for every subscription: with a
thousand of 190 levels a new topic took 140 ms. So only short topic filters are in the trie of `table`; the
others are here. Those without wildcards are found by their name. The others are rows of an array with a
number for each level, compared with a topic a few columns at a time. Numbers are hashes: what they find is
compared again by its text, so that nothing depends on them.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tidings.language import names

ANY = 0
"""In a row: whatever the level is, or none at all behind the last one."""

COLUMNS = 16
"""Levels that are compared at a time."""

NOBODY = -1
"""The length of a row that is free."""

T = TypeVar("T")


class DeepFilters(Generic[T]):
    """What is held under each of some topic filters.

    >>> deep = DeepFilters[int]()
    >>> deep.set("a/+/c/d/e/f/g/h/i/j/k/#", 1)
    >>> deep.find("a/b/c/d/e/f/g/h/i/j/k/l"), deep.find("a/b/c")
    ([1], [])
    """

    def __init__(self) -> None:
        self._exact: dict[str, T] = {}
        self._rows: dict[str, int] = {}
        self.compared = 0
        """Levels of rows that were compared with levels of topics, since the beginning."""
        self._clear_rows()

    def _clear_rows(self) -> None:
        """Rows are as wide as the longest ever was; without any, they begin anew."""
        self._held: list[tuple[str, T] | None] = []
        self._free: list[int] = []
        self._levels: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._lengths: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Levels that a topic must have, NOBODY for a row that is free."""
        self._open: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether it may have more, because of a '#'."""

    def get(self, topic_filter: str) -> T | None:
        """What is held under a topic filter."""
        row = self._rows.get(topic_filter)
        if row is None:
            return self._exact.get(topic_filter)
        held = self._held[row]
        return None if held is None else held[1]

    def set(self, topic_filter: str, value: T) -> None:
        """Hold something under a topic filter that holds nothing yet."""
        levels = topic_filter.split("/")
        more = levels[-1] == "#"
        if not more and "+" not in levels:
            self._exact[topic_filter] = value
            return
        if more:
            levels.pop()
        row = self._free.pop() if self._free else len(self._held)
        if row == len(self._held):
            self._held.append(None)
        self._make_room(row + 1, len(levels))
        self._rows[topic_filter] = row
        self._held[row] = (topic_filter, value)
        self._levels[row] = ANY
        self._levels[row, : len(levels)] = [ANY if level == "+" else _number(level) for level in levels]
        self._lengths[row] = len(levels)
        self._open[row] = more

    def remove(self, topic_filter: str) -> None:
        """Hold nothing under a topic filter any more."""
        row = self._rows.pop(topic_filter, None)
        if row is None:
            del self._exact[topic_filter]
            return
        self._held[row] = None
        self._lengths[row] = NOBODY
        self._free.append(row)
        if not self._rows:
            self._clear_rows()

    def find(self, topic: str) -> list[T]:
        """What is held under those that match a topic."""
        exact = self._exact.get(topic)
        found = [] if exact is None else [exact]
        if not self._rows:
            return found
        levels = topic.split("/")
        rows = np.flatnonzero(
            (self._lengths == len(levels))
            | (self._open & (self._lengths >= 0) & (self._lengths <= len(levels)))
        )
        width = min(len(levels), self._levels.shape[1])
        numbers = np.array([_number(level) for level in levels[:width]], dtype=np.int64)
        for start in range(0, width, COLUMNS):
            if not len(rows):
                break
            part = self._levels[rows, start : start + COLUMNS][:, : width - start]
            self.compared += part.size
            same = (part == numbers[start : start + COLUMNS]) | (part == ANY)
            rows = rows[same.all(axis=1)]
        for row in rows.tolist():
            held = self._held[row]
            if held is not None and names.match(held[0], topic):
                found.append(held[1])
        return found

    def all(self) -> list[T]:
        """All that is held."""
        return [*self._exact.values(), *(held[1] for held in self._held if held is not None)]

    def _make_room(self, rows: int, width: int) -> None:
        height, before = self._levels.shape
        if rows <= height and width <= before:
            return
        height, wide = max(16, height if rows <= height else 2 * height, rows), max(before, width)
        levels = np.full((height, wide), ANY, dtype=np.int64)
        levels[: len(self._levels), :before] = self._levels
        self._levels = levels
        added = height - len(self._lengths)
        self._lengths = np.concatenate((self._lengths, np.full(added, NOBODY)))
        self._open = np.concatenate((self._open, np.zeros(added, dtype=np.bool_)))


def _number(level: str) -> Any:
    """A number for a level, never ANY. Nobody outside knows which levels have the same one."""
    return hash(level) or 1
