"""The index: which of up to a million filters does an event satisfy?

Three layers, each a module: `axes` turns filters into boxes of ordinals and events into ordinals, `store`
keeps the boxes in arrays, `kernels` finds. This one knows ids, and puts to the filters themselves what the
boxes leave in doubt. docs/design/0010-matching.md tells how it works and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tidings.language.regions import Unknown
from tidings.matching.axes import Attributes
from tidings.matching.base import Boxed, Event, Id, Matcher, Matches
from tidings.matching.compiling import compiled, compiled_batches
from tidings.matching.reading import Answers, Payloads, Reader
from tidings.matching.state import Array, Scratch
from tidings.matching.store import STEP, Store

OWNERS_MAX = 1 << 20
"""Answers about many payloads at once, at most: 8 MiB. Where most filters match there are far more, and then
it takes no longer to ask about a few payloads at a time."""

ONE_BY_ONE = 2
"""Up to so many events are asked about one by one: to make columns of them takes longer."""

CELLS_MAX = 1 << 22
"""Fields of many payloads that are read at once, at most: 64 MiB."""


class Index(Matcher):
    """Finds the filters that an event satisfies in microseconds.

    Matching needs nothing but `add`. Once `compile_kernels` has been called somewhere, answers come from
    compiled code, before that from numpy; `work` tidies up ahead of need. Neither changes what is found.

    Weighs 120 to 230 bytes per filter from 100,000 filters on, up to 400 at 10,000, with whole numbers as
    ids (`bytes_used`): its boxes, rows and numbers. Not counted are the filters, which are the caller's; the
    index keeps only those that it must ask again, such as ones with LIKE '%x%'. Strings as ids cost what a
    dict and a list of them cost on top.

    >>> from tidings.language.filters import parse
    >>> index = Index()
    >>> index.add(0, parse("severity >= 3 AND road IN ('A1', 'A2')"))
    >>> index.add(1, parse("note LIKE 'fire%'"))
    >>> index.match({"severity": 4, "road": "A2", "note": "fire in tunnel"}).tolist()
    [0, 1]
    """

    def __init__(self, compiled_too: bool = True) -> None:
        super().__init__()
        self._compiled_too = compiled_too
        self._attributes = Attributes()
        self._store = Store()
        self._count = 0
        self._asked: dict[int, tuple[Boxed, Unknown]] = {}
        self._owners: dict[str, int] = {}
        self._names: list[str] = []
        self._free_owners: list[int] = []
        self._room = 4096
        self._reader: Reader | None = None
        self._many_out, self._many_ends = Scratch(np.int64), Scratch(np.int64)
        self._found = 16
        """For one of the latest payloads, about."""
        self._one_raw = np.empty((64, 1), dtype=np.uint64)
        self._one_float = self._one_raw.view(np.float64)
        self._one_columns = np.empty(64, dtype=np.int64)
        self._one_there = np.ones((64, 1), dtype=np.uint8)
        self._one_end = np.empty((2, 1), dtype=np.int64)
        self._one_out = np.empty(1024, dtype=np.int64)

    # Filters.

    def add(self, id: Id, filter: Boxed, unknown: Unknown = Unknown.WAIT) -> None:  # noqa: A002
        if type(unknown) is not Unknown:
            unknown = Unknown(unknown)
        self._admit(id)
        boxes, exact = self._attributes.admit(filter.boxes(unknown))
        owner = id if isinstance(id, int) else self._new_owner(id)
        store = self._store
        if len(self._attributes) > store.attribute_room:
            store.attributes_are(len(self._attributes))
        store.add(owner, boxes)
        self._count += 1
        if not exact:
            self._asked[owner] = (filter, unknown)
            store.doubtful.need((owner >> 6) + 1)
            store.doubtful.array[owner >> 6] |= np.uint64(1 << (owner & 63))
        if store.restless:
            store.settle(self._kernels)

    def _new_owner(self, name: str) -> int:
        if self._free_owners:
            owner = self._free_owners.pop()
            self._names[owner] = name
        else:
            owner = len(self._names)
            self._names.append(name)
        self._owners[name] = owner
        return owner

    def remove(self, id: Id) -> None:  # noqa: A002
        self._find(id)
        if isinstance(id, int):
            owner = id
        else:
            owner = self._owners.pop(id)
            self._names[owner] = ""
            self._free_owners.append(owner)
        store = self._store
        for attribute, least, greatest in store.remove(owner):
            if self._attributes.release(attribute, least, greatest):
                store.forget(attribute)
        self._count -= 1
        if owner in self._asked:
            del self._asked[owner]
            store.doubtful.array[owner >> 6] &= ~np.uint64(1 << (owner & 63))
        if store.restless:
            store.settle(self._kernels)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, id: object) -> bool:  # noqa: A002
        if type(id) is str:
            return id in self._owners
        if type(id) is not int or self._sort is str or id < 0:
            return False
        store = self._store
        return id in store.fresh or (id < len(store.first.array) and bool(store.first.array[id]))

    # Events.

    def match(self, event: Event) -> Matches:
        store = self._store
        kernels = self._kernels
        store.settle(kernels)
        if kernels is not None:
            shape = self._attributes.shape(tuple(event))
            if shape is not None and shape.fill(event):
                ends, out, doubtful = self._one_end, self._one_out, store.doubtful.array
                while not kernels.match(
                    store.state, shape.columns, shape.raw, shape.there, 0, 1, doubtful, out, ends
                ):
                    # It then says how much room it needs; the next event is likely to need as much.
                    out = self._one_out = np.empty(2 * ends.item(0) + 64, dtype=np.int64)
                end, doubts = ends.item(0), ends.item(1)
                return self._answer(event, out[:end].copy(), doubts)
        heads: list[int] = []
        floats: list[float] = []
        others: list[int] = []
        ordinals: list[int] = []
        attributes = self._attributes
        attributes.encode(event, attributes.fields, heads, floats, others, ordinals)
        split = len(floats)
        count = split + len(ordinals)
        if count > len(self._one_columns):
            self._one_raw = np.empty((2 * count, 1), dtype=np.uint64)
            self._one_float = self._one_raw.view(np.float64)
            self._one_columns = np.empty(2 * count, dtype=np.int64)
            self._one_there = np.ones((2 * count, 1), dtype=np.uint8)
        self._one_columns[:count] = heads + others
        if split:
            self._one_float[:split, 0] = floats
        if ordinals:
            self._one_raw[split:count, 0] = ordinals
        columns, raw, there = self._one_columns[:count], self._one_raw[:count], self._one_there[:count]
        if kernels is None:
            found = store.scan(columns, raw, there, 0)
        else:
            found = store.match(kernels, columns, raw, there, self._room)[0]
        return self._answer(event, *found)

    def match_batch(self, events: Sequence[Event]) -> list[Matches]:
        if len(events) <= ONE_BY_ONE:
            return [self.match(event) for event in events]
        store = self._store
        kernels = self._kernels
        store.settle(kernels)
        columns, raw, there = self._attributes.encode_batch(events)
        if kernels is None:
            found = [store.scan(columns, raw, there, at) for at in range(len(events))]
        else:
            found = store.match(kernels, columns, raw, there, self._room * min(len(events), 64))
            # Room for the next: half as much again as these took.
            self._room = max(1024, sum(len(owners) for owners, _ in found) * 3 // (2 * len(events)))
        return [self._answer(event, *some) for event, some in zip(events, found, strict=True)]

    def match_payloads(self, payloads: Payloads, about: Event) -> Answers | None:
        """The ids that JSON payloads satisfy, each with the fields of `about`, which a payload cannot say.

        Those that are not read are to be asked about as events, by `match`. None where reading them is not
        worth it, or cannot be done: while there are no kernels, if ids are strings, or if there would be more
        than `OWNERS_MAX` answers. Answers hold until the index is asked again.
        """
        kernels, batches = self._kernels, compiled_batches()
        if kernels is None or batches is None or self._sort is not int:
            return None
        reader = self._reader
        if reader is None or reader.changes != self._attributes.changes or reader.besides != tuple(about):
            reader = self._reader = Reader(self._attributes, about)
        if not reader.fits or len(self._attributes.fields) * len(payloads.ends) > CELLS_MAX:
            return None
        store = self._store
        store.settle(kernels)
        columns, raw, there, done, left = reader.read(batches, payloads, about)
        if 2 * left > len(done):
            return None
        unread: list[int] = np.flatnonzero(done == 0).tolist() if left else []
        room = max(1024, self._found * len(done) * 3 // 2)
        if room > OWNERS_MAX:
            # Forgotten little by little, so that it is tried again: others may be asked about by now.
            self._found = self._found * 7 // 8
            return None
        upto, doubts = ends = self._many_ends.take(2, len(done))
        owners = store.find(kernels, columns, raw, there, self._many_out.take(room), ends, OWNERS_MAX)
        if owners is None:
            self._found = OWNERS_MAX // len(done)
            return None
        self._found = 1 + len(owners) // len(done)
        for at in np.flatnonzero(doubts).tolist() if self._asked else ():
            if done[at]:
                done[at] = 0
                unread.append(at)
        if unread:
            unread.sort()
            owners, upto = _without(owners, upto, done)
        return Answers(owners, upto, unread)

    def _answer(self, event: Event, owners: Array, doubts: int) -> Matches:
        """Ids as they are given back, without those whose filter says no when it is asked."""
        if doubts:
            asked = self._asked
            kept = [
                owner
                for owner in owners.tolist()
                if owner not in asked or asked[owner][0].matches(event, asked[owner][1])
            ]
            owners = np.array(kept, dtype=np.int64)
        if self._sort is str:
            names = self._names
            return sorted([names[owner] for owner in owners.tolist()])
        return owners

    # The driver's.

    @property
    def _kernels(self) -> ModuleType | None:
        return compiled() if self._compiled_too else None

    @property
    def engine(self) -> str:
        """Who answers: "numba" once the kernels are compiled, "numpy" before that."""
        return "numpy" if self._kernels is None else "numba"

    def work(self, budget: int = STEP) -> bool:
        """Move up to `budget` boxes to better places; True while there is more to do.

        Nothing depends on its being called.
        """
        kernels = self._kernels
        if kernels is None:
            self._store.settle(None)
            return False
        return self._store.work(kernels, budget)

    @property
    def bytes_used(self) -> int:
        """Bytes of all arrays of the index that were ever written to."""
        return self._store.bytes_used

    def __getstate__(self) -> Any:
        raise TypeError(
            "an Index cannot be copied or pickled: it is memory maps; add the filters to another one"
        )


def _without(owners: Array, ends: Array, kept: Array) -> tuple[Array, Array]:
    """The owners of those events alone that are kept, and where they end then."""
    lengths = np.diff(ends, prepend=0)
    left = owners[np.repeat(kept != 0, lengths)]
    return left, np.cumsum(np.where(kept, lengths, 0))
