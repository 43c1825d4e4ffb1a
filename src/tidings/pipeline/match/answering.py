"""A batch of events to the subscriptions that get each of them.

A matcher is made of the arrays of `asking.image`, mapped from a file or not. It finds filters, leads them to
their subscriptions, and leaves those out that are not there at the time of the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidings.language import names
from tidings.matching.images import Frozen
from tidings.pipeline.match.encoding import encode, event_of

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]

POSITION_BITS = 32
"""Of a subscription's place among all; a batch has fewer than 2**31 events."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What some events match."""

    numbers: Array
    """Subscriptions, one event after the other, sorted for each."""

    ends: Array
    """Behind the last of each event."""

    @property
    def counts(self) -> Array:
        """How many each event matches."""
        return np.diff(self.ends, prepend=0)


class _Held:
    """What is held under one topic filter."""

    def __init__(self, at: int, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        mine = f"{at}."
        self.filter: str = about["filter"]
        own = {key.removeprefix(mine): one for key, one in arrays.items() if key.startswith(mine)}
        self.index = Frozen(about["index"], own)
        self.begin = own["begin"]
        self.position = own["position"]
        self.alone: bool = about["alone"]
        """Whether each filter is asked for by one subscription only."""

    def positions(self, fields: pa.StructArray) -> tuple[Array, Array]:
        """Which event of some, and the place of a subscription among all, for all that is found."""
        columns, raw, there = encode(self.index.attributes, fields)
        found = self.index.match(columns, raw, there, partial(event_of, fields))
        counts = np.diff(found.ends, prepend=0)
        events = np.repeat(np.arange(len(fields)), counts)
        if self.alone:
            return events, self.position[found.owners]
        begins = self.begin[found.owners]
        asking = self.begin[found.owners + 1] - begins
        before = np.cumsum(asking) - asking
        places = np.repeat(begins - before, asking) + np.arange(int(asking.sum()))
        return np.repeat(events, asking), self.position[places]


class Matcher:
    """Subscriptions that answer."""

    def __init__(self, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        self._number = arrays["number"]
        self._timeless: bool = about["timeless"]
        self._from_at = arrays.get("from_at", self._number)
        self._until_at = arrays.get("until_at", self._number)
        self._held = [_Held(at, one, arrays) for at, one in enumerate(about["topics"])]
        self._topics: dict[str, list[_Held]] = {}

    def match(self, fields: pa.StructArray, topics: pa.Array | None, at: pa.Array | None) -> Matched:
        """The subscriptions of each event.

        Without topics those of all topics are looked at, without times those of all times.
        """
        count = len(fields)
        parts = [
            (events if chosen is None else chosen[events], positions)
            for chosen, held, some in self._asked(fields, topics)
            for events, positions in [held.positions(some)]
        ]
        if len(parts) == 1:
            events, positions = parts[0]
        else:
            none = np.zeros(0, dtype=np.int64)
            events = np.concatenate([none, *(one for one, _ in parts)])
            positions = np.concatenate([none, *(one for _, one in parts)])
        if not self._timeless and at is not None:
            when = np.asarray(at.to_numpy(zero_copy_only=False), dtype=np.int64)[events]
            standing = (self._from_at[positions] <= when) & (when < self._until_at[positions])
            events, positions = events[standing], positions[standing]
        if len(parts) > 1 or not all(held.alone for held in self._held):
            # Event and place in one number: sorting one array of numbers is many times quicker than two.
            keys = np.sort((events << POSITION_BITS) | positions)
            events, positions = keys >> POSITION_BITS, keys & ((1 << POSITION_BITS) - 1)
        ends = np.cumsum(np.bincount(events, minlength=count))
        return Matched(self._number[positions], ends)

    def _asked(
        self, fields: pa.StructArray, topics: pa.Array | None
    ) -> list[tuple[Array | None, _Held, pa.StructArray]]:
        """Which events (None for all), and what is held under a topic filter that matches their topic."""
        if topics is None:
            return [(None, held, fields) for held in self._held]
        found: list[tuple[Array | None, _Held, pa.StructArray]] = []
        encoded = topics.fill_null("").dictionary_encode()
        places = encoded.indices.to_numpy(zero_copy_only=False)
        different = encoded.dictionary.to_pylist()
        for place, topic in enumerate(different):
            if len(different) == 1:
                found += [(None, held, fields) for held in self._of(topic)]
                continue
            if matching := self._of(topic):
                chosen = np.flatnonzero(places == place)
                some = fields.take(chosen)
                found += [(chosen, held, some) for held in matching]
        return found

    def _of(self, topic: str) -> list[_Held]:
        known = self._topics.get(topic)
        if known is None:
            known = [held for held in self._held if names.match(held.filter, topic)]
            self._topics[topic] = known
        return known
