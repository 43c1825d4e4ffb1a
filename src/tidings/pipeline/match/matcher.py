"""A batch of events to the subscriptions that get each of them.

A matcher is made of the arrays of `asking.image`, mapped from a file or not. It finds filters, leads them to
their subscriptions, and leaves those out that are not there at the time of the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidings.language import names
from tidings.matching.images import Found, Frozen, attributes_of
from tidings.pipeline.match.encoding import encode, event_of
from tidings.pipeline.match.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]

POSITION_BITS = 32
"""Of a subscription's place among all; a batch has fewer than 2**31 events."""


@dataclass(frozen=True)
class Matched:
    """What some events match."""

    positions: Array
    """Places of subscriptions in `number`, one event after the other, sorted for each."""

    ends: Array
    """Behind the last of each event."""

    number: Array
    """The numbers of subscriptions, in increasing order."""

    @property
    def numbers(self) -> Array:
        """The subscriptions, one event after the other, sorted for each."""
        return self.number[self.positions]

    @property
    def counts(self) -> Array:
        """How many each event matches."""
        return np.diff(self.ends, prepend=0)


class _Held:
    """What is held under one topic filter."""

    def __init__(self, at: int, about: Mapping[str, Any], arrays: Mapping[str, Array], number: Array) -> None:
        mine = f"{at}."
        self.filter: str = about["filter"]
        own = {key.removeprefix(mine): one for key, one in arrays.items() if key.startswith(mine)}
        self._rows = Rows(own) if about["rows"] else None
        self._index = None if about["rows"] else Frozen(about["index"], own)
        self._attributes = attributes_of(about["index"])
        self.begin = own["begin"]
        self.position = own["position"]
        self.alone: bool = about["alone"]
        """Whether each filter is asked for by one subscription only."""
        self.number = number[self.position] if self.alone else number
        """Then, whose it is."""

    def found(self, fields: pa.StructArray) -> Found:
        """The filters that some events satisfy."""
        columns, raw, there = encode(self._attributes, fields)
        if self._rows is not None:
            return self._rows.match(columns, raw, there)
        assert self._index is not None, "there are rows or an index"
        return self._index.match(columns, raw, there, partial(event_of, fields))

    def counts(self, fields: pa.StructArray) -> Array:
        """How many filters some events satisfy."""
        if self._rows is not None:
            return self._rows.count(*encode(self._attributes, fields))
        return np.diff(self.found(fields).ends, prepend=0)

    def positions(self, fields: pa.StructArray) -> tuple[Array, Array]:
        """Which event of some, and the place of a subscription among all, for all that is found."""
        found = self.found(fields)
        events = np.repeat(np.arange(len(fields)), np.diff(found.ends, prepend=0))
        if self.alone:
            return events, self.position[found.owners]
        begins = self.begin[found.owners]
        asking = self.begin[found.owners + 1] - begins
        before = np.cumsum(asking) - asking
        places = np.repeat(begins - before, asking) + np.arange(int(asking.sum()))
        return np.repeat(events, asking), self.position[places]


class _Asked(NamedTuple):
    """Some events, and what is held under a topic filter that matches their topic."""

    chosen: Array | None
    """Which events of a batch; None for all of them."""

    held: _Held
    fields: pa.StructArray


class Matcher:
    """Subscriptions that answer."""

    def __init__(self, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        self._number = arrays["number"]
        self._timeless: bool = about["timeless"]
        self._from_at = arrays.get("from_at", self._number)
        self._until_at = arrays.get("until_at", self._number)
        self._held = [_Held(at, one, arrays, self._number) for at, one in enumerate(about["topics"])]
        self._topics: dict[str, list[_Held]] = {}

    def match(self, fields: pa.StructArray, topics: pa.Array | None, at: pa.Array | None) -> Matched:
        """The subscriptions of each event.

        Without topics those of all topics are looked at, without times those of all times.
        """
        asked = self._asked(fields, topics)
        if (plain := self._plain(asked, at)) is not None:
            # What the index has found is the answer, and in order.
            found = plain.found(fields)
            return Matched(found.owners, found.ends, plain.number)
        untimed = self._timeless or at is None
        none = np.zeros(0, dtype=np.int64)
        every_event, every_position = [none], [none]
        for one in asked:
            events, positions = one.held.positions(one.fields)
            every_event.append(events if one.chosen is None else one.chosen[events])
            every_position.append(positions)
        events, positions = np.concatenate(every_event), np.concatenate(every_position)
        if not untimed:
            assert at is not None, "times are given"
            when = np.asarray(at.to_numpy(zero_copy_only=False), dtype=np.int64)[events]
            standing = (self._from_at[positions] <= when) & (when < self._until_at[positions])
            events, positions = events[standing], positions[standing]
        # Event and place in one number: sorting one array of numbers is many times quicker than two.
        keys = np.sort((events << POSITION_BITS) | positions)
        ends = np.cumsum(np.bincount(events, minlength=len(fields)))
        return Matched(keys & ((1 << POSITION_BITS) - 1), ends, self._number)

    def count(self, fields: pa.StructArray, topics: pa.Array | None, at: pa.Array | None) -> Array:
        """How many subscriptions each event has."""
        plain = self._plain(self._asked(fields, topics), at)
        return self.match(fields, topics, at).counts if plain is None else plain.counts(fields)

    def _plain(self, asked: list[_Asked], at: pa.Array | None) -> _Held | None:
        """What alone answers for all events, each of whose filters one subscription has, at all times."""
        if len(asked) != 1 or asked[0].chosen is not None or not (self._timeless or at is None):
            return None
        return asked[0].held if asked[0].held.alone else None

    def _asked(self, fields: pa.StructArray, topics: pa.Array | None) -> list[_Asked]:
        """What is held under topic filters, with the events whose topics they match."""
        if topics is None:
            return [_Asked(None, held, fields) for held in self._held]
        found: list[_Asked] = []
        encoded = topics.fill_null("").dictionary_encode()
        places = encoded.indices.to_numpy(zero_copy_only=False)
        different = encoded.dictionary.to_pylist()
        for place, topic in enumerate(different):
            if len(different) == 1:
                found += [_Asked(None, held, fields) for held in self._of(topic)]
                continue
            if matching := self._of(topic):
                chosen = np.flatnonzero(places == place)
                some = fields.take(chosen)
                found += [_Asked(chosen, held, some) for held in matching]
        return found

    def _of(self, topic: str) -> list[_Held]:
        known = self._topics.get(topic)
        if known is None:
            known = [held for held in self._held if names.match(held.filter, topic)]
            self._topics[topic] = known
        return known
