"""Fields out of many JSON payloads at once, as columns, without making Python values of them.

A reader knows the fields that the filters of one index look at; `batch_kernels.read` does the work. What it
does not read, because a filter asks something that only a decoded event tells, or because the payload is no
plain object of numbers and words, is named, and left to whoever asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from tidings.matching.axes import Attributes
from tidings.matching.base import Event
from tidings.matching.state import KEYS_MAX, Array, Scratch

NAMES_MAX = 1024
"""Fields that a reader looks for; where filters ask for more, events are read one by one."""

LEAVE = -2
"""Of a field: a value of this kind is not for a reader."""

NOTHING = -1
"""Of a field: nobody asks for values of this kind."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Many payloads in one buffer: number e is data[begins[e]:ends[e]]."""

    data: bytes
    begins: Array
    ends: Array

    def __len__(self) -> int:
        return len(self.begins)

    def one(self, at: int) -> bytes:
        """The bytes of one."""
        return self.data[self.begins[at] : self.ends[at]]


@dataclass(frozen=True, slots=True)
class Answers:
    """Which ids were found for each of many payloads."""

    owners: Array
    """All, one payload after the other, sorted for each."""

    ends: Array
    """Behind the last of each payload."""

    unread: Sequence[int]
    """Payloads for which nothing was found because they were not read."""


class Reader:
    """Takes the fields that some attributes are about out of payloads."""

    def __init__(self, attributes: Attributes, besides: Iterable[str]) -> None:
        """Fields named `besides` are known from elsewhere: a payload that has one is left alone."""
        self.changes = attributes.changes
        self.besides = tuple(besides)
        self._attributes = attributes
        self._keys = np.empty((KEYS_MAX, 6), dtype=np.uint64)
        self._raw, self._there, self._done = Scratch(np.uint64), Scratch(np.uint8), Scratch(np.uint8)
        asked: dict[str, tuple[int, int, int]] = {}
        heads: list[int] = []
        self.fits = len(attributes.fields) <= NAMES_MAX
        """Whether this can be done at all."""
        for name, field in attributes.fields.items() if self.fits else ():
            if not field.plain:
                asked[name] = (LEAVE, LEAVE, LEAVE)
                continue
            number = truth = NOTHING
            if field.number >= 0:
                number = len(heads)
                heads.append(field.number * 2 + 1)
            if field.bool >= 0:
                truth = len(heads)
                heads.append(field.bool * 2)
            asked[name] = (number, truth, LEAVE if field.equal >= 0 else NOTHING)
        for name in self.besides:
            asked[name] = (LEAVE, LEAVE, LEAVE)
        self._heads = np.array(heads, dtype=np.int64)
        self._names, self._fields = _table(asked)

    def read(
        self, kernels: ModuleType, payloads: Payloads, about: Event
    ) -> tuple[Array, Array, Array, Array, int]:
        """The columns of payloads, as `Attributes.encode_batch` has them; which payloads were read, and how
        many were not.

        `about` has the fields that are the same for all. The arrays hold until the next time.
        """
        heads: list[int] = []
        floats: list[float] = []
        others: list[int] = []
        ordinals: list[int] = []
        attributes = self._attributes
        attributes.encode(about, attributes.fields, heads, floats, others, ordinals)
        own, same = len(self._heads), len(heads) + len(others)
        count = len(payloads)
        raw = self._raw.take(own + same, count)
        there, done = self._there.take(own + same, count), self._done.take(count)
        left = int(
            kernels.read(
                np.frombuffer(payloads.data, dtype=np.uint8),
                payloads.begins,
                payloads.ends,
                self._names,
                self._fields,
                self._keys,
                raw,
                raw.view(np.float64),
                there,
                done,
            )
        )
        if not same:
            return self._heads, raw, there, done, left
        raw.view(np.float64)[own : own + len(heads)] = np.array(floats).reshape(-1, 1)
        raw[own + len(heads) :] = np.array(ordinals, dtype=np.uint64).reshape(-1, 1)
        there[own:] = 1
        return np.concatenate((self._heads, heads, others)).astype(np.int64), raw, there, done, left


def _table(asked: dict[str, tuple[int, int, int]]) -> tuple[Array, Array]:
    """The bytes of all names, and a table of them by their hash, never more than half full."""
    size = 16
    while size < 2 * len(asked):
        size *= 2
    table = np.zeros((size, 6), dtype=np.uint64)
    table[:, 3:] = np.array(NOTHING).view(np.uint64)
    encoded = b""
    for name, columns in asked.items():
        one = name.encode("utf-8", "surrogatepass")
        code = hash_of(one)
        at = code >> 6 & size - 1
        while table[at, 0]:
            at = (at + 1) & size - 1
        table[at, :3] = code, len(encoded), len(one)
        table[at, 3:] = np.array(columns, dtype=np.int64).view(np.uint64)
        encoded += one
    # One byte at least: an empty array has no address.
    return np.frombuffer(encoded + b"\0", dtype=np.uint8), table


def hash_of(name: bytes) -> int:
    """A number for a name, as `batch_kernels.read` has it; never 0."""
    code = 0
    for byte in name:
        code = (code ^ byte) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        code ^= code >> 29
    return code | 1
