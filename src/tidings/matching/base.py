"""What the ways of matching have in common: ids, and the questions that can be asked.

A matcher holds filters under ids and says which of them an event satisfies. Ids are whole numbers, which the
caller gives out roughly densely from 0 on, or strings; never both in one matcher. What is found comes
sorted, so that an order that reaches an effect never depends on how it was found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tidings.errors import SubscriptionError
from tidings.language.filters import Filter, Unknown
from tidings.language.regions import Box

Id = int | str
Matches = npt.NDArray[np.int64] | list[str]
"""The ids found, sorted: an array of whole numbers, or a list of strings."""

Event = Mapping[str, object]

ID_MAX: Final = 2**31 - 1
"""The greatest id: owners are 32 bits wide in the index."""

ID_SPREAD, ID_FREE = 64, 2**24
"""Ids index arrays. One beyond ID_FREE must not be more than ID_SPREAD times the most filters ever held."""


class Boxed(Protocol):
    """A filter, as far as an index asks it: its boxes, and itself where these leave something in doubt."""

    def boxes(self, unknown: Unknown) -> tuple[Box, ...]: ...
    def matches(self, event: Event, unknown: Unknown = ..., /) -> bool: ...


class Matcher(ABC):
    """Filters under ids; which of them does an event satisfy?"""

    def __init__(self) -> None:
        self._sort: type[Any] | None = None
        self._most = 0

    @abstractmethod
    def add(self, id: Id, filter: Filter, unknown: Unknown = Unknown.WAIT) -> None:  # noqa: A002
        """Hold a filter under a new id."""

    @abstractmethod
    def remove(self, id: Id) -> None:  # noqa: A002
        """Let a filter go."""

    @abstractmethod
    def match(self, event: Event) -> Matches:
        """The ids of the filters that the event satisfies, sorted."""

    @abstractmethod
    def match_batch(self, events: Sequence[Event]) -> list[Matches]:
        """The same for several events, which is quicker than one by one."""

    @abstractmethod
    def __len__(self) -> int:
        """How many filters are held."""

    @abstractmethod
    def __contains__(self, id: object) -> bool:  # noqa: A002
        """Whether a filter is held under this id."""

    def _admit(self, id: Id) -> None:  # noqa: A002
        """Refuse an id that cannot be added."""
        sort = type(id)
        if sort is not int and sort is not str:
            raise SubscriptionError(
                f"id {id!r} is a {sort.__name__}; ids are whole numbers or strings; give one of these"
            )
        held = len(self)
        if not held:
            self._sort = sort
        elif sort is not self._sort:
            assert self._sort is not None
            raise SubscriptionError(
                f"id {id!r} is of type {sort.__name__} and those already here are of type "
                f"{self._sort.__name__}; one matcher holds one sort; use a second matcher"
            )
        if id in self:
            raise SubscriptionError(
                f"id {id!r} is already there; an id is held once; remove it first or take another"
            )
        self._most = max(self._most, held + 1)
        if isinstance(id, int) and not 0 <= id <= min(ID_MAX, ID_FREE + ID_SPREAD * self._most):
            raise SubscriptionError(
                f"id {id} is out of range; whole numbers from 0 to {ID_MAX} are given out densely, "
                f"here up to {min(ID_MAX, ID_FREE + ID_SPREAD * self._most)}; count from 0, or use strings"
            )

    def _find(self, id: Id) -> None:  # noqa: A002
        """Refuse an id that cannot be removed."""
        if id not in self:
            raise SubscriptionError(
                f"id {id!r} is not there; only what was added can be removed; check the id"
            )

    def _sorted(self, ids: list[Any]) -> Matches:
        """Ids as they are given back."""
        if self._sort is str:
            return sorted(ids)
        return np.array(sorted(ids), dtype=np.int64)
