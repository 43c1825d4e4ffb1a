"""Filters as rows of bits: for every attribute and every stretch of its values, who is not against it.

It is the plainest index there is. Where filters are single boxes whose bounds lie on few values, it finds
those of an event in a third of the time that the tiles of `matching` take, or less: the rows are read from
end to end and ANDed. It grows with filters times bounds, so that the tiles stay the way for all else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tidings import installation
from tidings.errors import SetupError
from tidings.matching.compiling import compile_kernels
from tidings.matching.images import Found
from tidings.matching.state import B_LENGTH, B_OFFSET, B_OWNER, H_BITS, MAX_ORDINAL

Array = npt.NDArray[Any]

BITS_MAX = 2_000_000
"""Attributes times filters: some 15 µs per event. Beyond it tiles are as fast, or faster."""

BYTES_MAX = 1 << 26
"""Of all rows: what the caches of a machine may still hold a good part of."""

NAMES = ("bits", "bounds", "first_bound", "first_row", "attribute")


def rows_of(held: Mapping[str, Array], asked: bool) -> dict[str, Array] | None:
    """Rows for the filters of an index's image; None where they would not pay.

    `asked`: whether some filters must be asked again.
    """
    boxes, count = held["boxes"], int(held["head"][H_BITS])
    owners = boxes[:, B_OWNER].astype(np.int64)
    if asked or not np.array_equal(np.sort(owners), np.arange(count)):
        # Filters of several boxes, or of none.
        return None
    lengths = boxes[:, B_LENGTH].astype(np.int64)
    before = np.cumsum(lengths) - lengths
    places = np.repeat(boxes[:, B_OFFSET] - before, lengths) + np.arange(int(lengths.sum()))
    owner = np.repeat(owners, lengths)
    head = held["constraint_attribute"][places].astype(np.int64)
    least, greatest = held["constraint_least"][places], held["constraint_greatest"][places]
    attributes = np.unique(head >> 1)
    width = -(-count // 512) * 8
    found: list[Array] = []
    bounds: list[Array] = []
    if not len(attributes) or len(attributes) * count > BITS_MAX:
        return None
    for attribute in attributes.tolist():
        mine = head >> 1 == attribute
        some, low, high = owner[mine], least[mine], greatest[mine]
        ends = np.unique(np.concatenate((low, high[high < np.uint64(MAX_ORDINAL)] + np.uint64(1))))
        ends = ends[ends > 0]
        found_bytes = (sum(len(one) for one in found) + len(ends) + 2) * width * 8
        if len(np.unique(some)) < len(some) or found_bytes > BYTES_MAX:
            return None
        first = np.searchsorted(ends, low, "right")
        last = np.searchsorted(ends, high, "right")
        rows = np.zeros((len(ends) + 2, width), dtype=np.uint64)
        free = np.zeros(width * 64, dtype=bool)
        free[:count] = True
        for bucket in range(len(ends) + 1):
            free[some] = (first <= bucket) & (bucket <= last) & (low <= high)
            rows[bucket] = np.packbits(free, bitorder="little").view(np.uint64)
        free[some] = (head[mine] & 1) == 1
        rows[-1] = np.packbits(free, bitorder="little").view(np.uint64)
        found.append(rows)
        bounds.append(ends)
    starts = np.cumsum([0, *(len(one) for one in bounds)])
    return {
        "bits": np.concatenate(found),
        "bounds": np.concatenate([*bounds, np.zeros(1, dtype=np.uint64)]),
        "first_bound": starts.astype(np.int64),
        "first_row": np.cumsum([0, *(len(one) for one in found[:-1])]).astype(np.int64),
        "attribute": attributes,
    }


class Rows:
    """Rows that answer."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = [arrays[name] for name in NAMES[:4]]
        self._attributes: list[int] = arrays["attribute"].tolist()
        self._most = 64 * arrays["bits"].shape[1]
        """Filters, with those of the last line that are none."""
        self._room = np.empty(len(self._attributes), dtype=np.int64), np.empty(8, dtype=np.uint64)
        self._match, self._count = _compiled()

    def match(self, heads: Array, raw: Array, there: Array) -> Found:
        """The filters that each event of a batch satisfies; events come as for `Frozen.match`."""
        columns, count = self._columns(heads), raw.shape[1]
        ends = np.empty(count, dtype=np.int64)
        parts: list[Array] = []
        begin = written = 0
        while begin < count:
            out = np.empty(self._most * 8, dtype=np.int64)
            done = self._match(*self._arrays, columns, heads, raw, there, begin, *self._room, out, ends)
            size = int(ends[begin + done - 1])
            ends[begin : begin + done] += written
            parts.append(out[:size])
            written += size
            begin += done
        if len(parts) == 1:
            return Found(parts[0], ends)
        return Found(np.concatenate([*parts, np.empty(0, dtype=np.int64)]), ends)

    def count(self, heads: Array, raw: Array, there: Array) -> Array:
        """How many filters each event of a batch satisfies."""
        counts = np.empty(raw.shape[1], dtype=np.int64)
        self._count(*self._arrays, self._columns(heads), heads, raw, there, *self._room, counts)
        return counts

    def _columns(self, heads: Array) -> Array:
        """In which column each attribute is; -1 where it is not there."""
        known = {head >> 1: at for at, head in enumerate(heads.tolist())}
        return np.array([known.get(one, -1) for one in self._attributes], dtype=np.int64)


@cache
def _compiled() -> tuple[Any, Any]:
    """The kernels, compiled once for each process, and kept in the user's cache folder where that can be."""
    compile_kernels()
    import numba

    folder = _writable_folder()
    config: Any = numba.config
    before = config.CACHE_DIR
    # A cache is given its folder when a function is decorated.
    config.CACHE_DIR = str(folder or "")
    try:
        from tidings.pipeline.match import bits

        return bits.make(cache=folder is not None)
    finally:
        config.CACHE_DIR = before


def _writable_folder() -> Path | None:
    try:
        version = sha256(Path(__file__).with_name("bits.py").read_bytes()).hexdigest()[:16]
        folder = installation.cache_folder() / "numba" / version
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, SetupError):
        # Workers may have the package as an archive, and no home.
        return None
