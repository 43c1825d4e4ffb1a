"""Filters with topic filters: an index for each topic filter, and for an event those that match its topic.

It is for many events of few topics, known all at once, such as a workload's; brokers have
`overlay.routing.table`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidings.language import names
from tidings.language.filters import Filter, Unknown
from tidings.matching.base import Event
from tidings.matching.index import Index


class _Held:
    """What is held under one topic filter."""

    def __init__(self) -> None:
        self.index = Index()
        self.numbers: list[int] = []
        """By the id in the index: the number that it was added with."""


class TopicalIndex:
    """Filters by number, each with a topic filter; numbers are added in increasing order.

    >>> from tidings.language.filters import parse
    >>> index = TopicalIndex()
    >>> index.add(0, "sport/+", parse("x > 3"))
    >>> index.add(7, "sport/chess", parse("x > 5"))
    >>> [found.tolist() for found in index.match_batch("sport/chess", [{"x": 4}, {"x": 6}])]
    [[0], [0, 7]]
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._topics: dict[str, list[_Held]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, number: int, topic_filter: str, filter: Filter, unknown: Unknown = Unknown.WAIT) -> None:  # noqa: A002
        """Hold a filter under a topic filter."""
        held = self._held.get(topic_filter)
        if held is None:
            held = self._held[topic_filter] = _Held()
            self._topics.clear()
        # Ids are given out densely within each index, whose arrays are as long as its greatest id.
        held.index.add(len(held.numbers), filter, unknown)
        held.numbers.append(number)
        self._count += 1

    def match_batch(self, topic: str, events: Sequence[Event]) -> list[npt.NDArray[np.int64]]:
        """For each of some events of one topic the numbers of the filters that it satisfies, sorted."""
        found: list[list[npt.NDArray[np.int64]]] = [[] for _ in events]
        for held in self._matching(topic):
            numbers = np.array(held.numbers, dtype=np.int64)
            for own, ids in zip(found, held.index.match_batch(events), strict=True):
                own.append(numbers[np.asarray(ids, dtype=np.int64)])
        none = np.zeros(0, dtype=np.int64)
        return [np.sort(np.concatenate(own)) if own else none for own in found]

    def _matching(self, topic: str) -> list[_Held]:
        found = self._topics.get(topic)
        if found is None:
            found = [held for text, held in self._held.items() if names.match(text, topic)]
            self._topics[topic] = found
        return found

    @property
    def engine(self) -> str:
        """Who answers, as `Index.engine`."""
        return next((held.index.engine for held in self._held.values()), Index().engine)

    def work(self) -> None:
        """Tidy up ahead of need."""
        for held in self._held.values():
            held.index.work()
