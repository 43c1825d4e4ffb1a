"""An index as plain arrays, and an index that only answers, from such arrays.

The arrays may lie in a file that several processes map: what a match reads is theirs together, what it writes
is each one's own. Whoever writes and maps files does so elsewhere; here are only arrays, and a description
that is plain JSON. Filters that the index must ask again travel as text, and are parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Filter, Unknown, parse
from tidings.matching.axes import Attributes
from tidings.matching.base import Boxed, Event
from tidings.matching.compiling import compile_kernels, compiled
from tidings.matching.index import Index
from tidings.matching.state import (
    H_BITS,
    H_TABLES,
    H_TILES,
    ORDINAL_ROWS,
    S_CANDIDATES,
    SAMPLES,
    Array,
    State,
)

SHARED = (
    "memory",
    "tiles",
    "nodes",
    "attributes",
    "boxes",
    "constraint_attribute",
    "constraint_least",
    "constraint_greatest",
    "tables",
    "queue",
    "head",
    "doubtful",
)
"""The arrays of an image, by the names of `State`."""

LINE_BYTES = 64
"""Of a cache line."""

ROOM = 1 << 16
"""Owners for which there is room at first, beside one event's."""


@dataclass(frozen=True, slots=True)
class Image:
    """An index in rest."""

    about: dict[str, Any]
    """Its attributes, strings and doubtful filters, as JSON says them."""

    arrays: dict[str, Array]
    """By the names of `SHARED`."""


def image_of(index: Index) -> Image:
    """An index of whole-number ids as arrays; it is put in order first, and the kernels are compiled."""
    compile_kernels()
    while index.work():
        pass
    attributes, store = index._attributes, index._store
    about = {
        "attributes": [None if key is None else [list(key[0]), key[1]] for key in attributes._keys],
        "texts": attributes._texts,
        "asked": [[owner, *_written(*asked)] for owner, asked in sorted(index._asked.items())],
    }
    return Image(about, store.image())


def _written(asked: Boxed, unknown: Unknown) -> tuple[str, list[Any], str]:
    assert isinstance(asked, Filter), "a filter that travels has a text"
    types = [[list(path), None if kind is None else kind.value] for path, kind in sorted(asked.types.items())]
    return asked.source, types, unknown.value


def _read(source: str, types: list[Any], unknown: str) -> tuple[Filter, Unknown]:
    declared: dict[Path, Field] = {
        tuple(path): Field(tuple(path), Type(kind)) for path, kind in types if kind is not None
    }
    return parse(source, declared or None), Unknown(unknown)


def attributes_of(about: Mapping[str, Any]) -> Attributes:
    """The attributes of an image: what an event is in its terms."""
    made = Attributes()
    for number, key in enumerate(about["attributes"]):
        if number:
            made._keys.append(None)
            made._uses.append(1)
        if key is not None:
            made._free.append(number)
            assert made._new(tuple(key[0]), key[1]) == number
    made.symbols = {text: at for at, text in enumerate(about["texts"]) if text is not None}
    return made


@dataclass(frozen=True, slots=True)
class Found:
    """What some events were found to satisfy."""

    owners: Array
    """The ids of all, one event after the other, sorted for each."""

    ends: Array
    """Behind the last of each event."""


class Frozen:
    """An index that answers and never changes."""

    def __init__(self, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        compile_kernels()
        kernels = compiled()
        assert kernels is not None, "the kernels were just compiled"
        self._kernels = kernels
        self.attributes = attributes_of(about)
        self._asked = {owner: _read(*rest) for owner, *rest in about["asked"]}
        self._state, self._doubtful = _state(arrays)
        self._room = ROOM

    def match(self, columns: Array, raw: Array, there: Array, event: Callable[[int], Event]) -> Found:
        """The ids of the filters that each event of a batch satisfies.

        Events come as `Attributes.encode_batch` says them; `event` gives one as a mapping, and is called for
        those about which a filter must be asked.
        """
        count = raw.shape[1]
        ends = np.empty((2, count), dtype=np.int64)
        parts: list[Array] = []
        begin = written = 0
        one = int(self._state.head[H_BITS]) + 2
        while begin < count:
            out = np.empty(one + self._room, dtype=np.int64)
            done = self._kernels.match(
                self._state, columns, raw, there, begin, count, self._doubtful, out, ends
            )
            if done:
                size = int(ends[0, begin + done - 1])
                ends[0, begin : begin + done] += written
                parts.append(out[:size])
                written += size
                begin += done
            if begin < count:
                self._room *= 2
        owners = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, dtype=np.int64)])
        found = Found(owners, ends[0])
        return self._decided(found, ends[1], event) if ends[1].any() else found

    def _decided(self, found: Found, doubts: Array, event: Callable[[int], Event]) -> Found:
        """Without those whose filter says no when it is asked."""
        kept = np.ones(len(found.owners), dtype=bool)
        for at in np.flatnonzero(doubts).tolist():
            begin = int(found.ends[at - 1]) if at else 0
            one = event(at)
            for place, owner in enumerate(found.owners[begin : found.ends[at]].tolist(), begin):
                if owner in self._asked:
                    asked, unknown = self._asked[owner]
                    kept[place] = asked.matches(one, unknown)
        before = np.concatenate(([0], np.cumsum(kept)))
        return Found(found.owners[kept], before[found.ends])


def _state(arrays: Mapping[str, Array]) -> tuple[State, Array]:
    """The arrays as the kernels take them: those of the image, and fresh ones to be written to."""
    head = arrays["head"].copy()
    owners, tiles, tables = int(head[H_BITS]), int(head[H_TILES]), int(head[H_TABLES])
    count = len(arrays["attributes"])
    memory = _on_lines(arrays["memory"])
    return State(
        memory=memory,
        memory32=memory.view(np.uint32),
        tiles=arrays["tiles"],
        nodes=arrays["nodes"],
        attributes=arrays["attributes"],
        samples=np.zeros((1, SAMPLES), dtype=np.uint64),
        boxes=arrays["boxes"],
        constraint_attribute=arrays["constraint_attribute"],
        constraint_least=arrays["constraint_least"],
        constraint_greatest=arrays["constraint_greatest"],
        value=np.zeros(count, dtype=np.uint64),
        stamp=np.zeros(count, dtype=np.int64),
        tables=arrays["tables"],
        places=np.zeros(4 * (tables + 1), dtype=np.uint64),
        bits=np.zeros((owners >> 6) + 1, dtype=np.uint64),
        summary=np.zeros((owners >> 12) + 1, dtype=np.uint64),
        queue=arrays["queue"],
        scratch=np.zeros(S_CANDIDATES + tiles + 64, dtype=np.int64),
        ordinals=np.zeros(ORDINAL_ROWS, dtype=np.uint64),
        head=head,
    ), arrays["doubtful"]


def _on_lines(array: Array) -> Array:
    """The array, or a copy of it that begins with a cache line: the kernels read whole ones."""
    if array.ctypes.data % LINE_BYTES == 0:
        return array
    copy = np.empty(len(array) + LINE_BYTES // array.itemsize, dtype=array.dtype)
    begin = -copy.ctypes.data % LINE_BYTES // array.itemsize
    copy[begin : begin + len(array)] = array
    return copy[begin : begin + len(array)]
