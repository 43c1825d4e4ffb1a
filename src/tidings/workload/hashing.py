"""Random numbers that are a hash of (seed, table, column, row), so that nothing else can change them.

The hash is Spark's `xxhash64`, XXH64 of 64-bit numbers in a chain that starts at 42; here it is in numpy, for
twins and for what a driver draws. `columns` says the same to Spark. No pyspark here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CHAIN_START = 42
"""The seed of Spark's `xxhash64`."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
"""XXH64's own."""


def key(seed: int, table: str, column: str) -> int:
    """What tells one random column from all others: a signed 64-bit number."""
    digest = hashlib.blake2b(f"{seed}\t{table}\t{column}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def draw(key: int, *ids: ArrayLike) -> NDArray[np.int64]:
    """64 random bits for each row, as Spark's signed number; `ids` are 64-bit numbers."""
    with np.errstate(over="ignore"):
        chained = np.asarray(CHAIN_START, np.uint64)
        for one in (key, *ids):
            chained = _hash_long(np.asarray(one, np.int64).view(np.uint64), chained)
    return np.asarray(chained).view(np.int64)


def fraction(drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 up to 1, from the upper 53 bits."""
    return (drawn.view(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(drawn: NDArray[np.int64], count: ArrayLike) -> NDArray[np.int64]:
    """A whole number from 0 up to `count`. The first ones are likelier, by less than count / 2**63."""
    return np.mod(drawn, np.asarray(count, np.int64))


def _hash_long(value: NDArray[np.uint64], seed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashed = seed + _P5 + np.uint64(8)
    hashed = hashed ^ (_rotated(value * _P2, 31) * _P1)
    hashed = _rotated(hashed, 27) * _P1 + _P4
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


def _rotated(value: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))
