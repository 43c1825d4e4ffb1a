"""Arrays in one file, which many processes map: the kernel then has them in memory once.

A file begins with a line that says what it is, the length of a description and the description, JSON; the
arrays follow, each at the beginning of a page. What is mapped may be written to: a page that somebody writes
to becomes his own copy, and the file never changes.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tidings.errors import InputError

Array = npt.NDArray[Any]

MAGIC = b"tidings arrays 1\n"
PAGE = 4096
TYPES = frozenset({"<u8", "<i8", "<u4", "<i4", "|b1"})


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> int:
    """Write a file, whole or not at all; how many bytes it has."""
    listed: dict[str, tuple[str, tuple[int, ...], int]] = {}
    offset = 0
    for name, array in arrays.items():
        assert array.dtype.str in TYPES, f"{name} is an array of {array.dtype.str}"
        listed[name] = array.dtype.str, array.shape, offset
        offset += -(-array.nbytes // PAGE) * PAGE
    head = json.dumps({"about": about, "arrays": listed}).encode()
    begin = _begin(len(head))
    number, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(MAGIC + len(head).to_bytes(8, "little") + head)
            for name, array in arrays.items():
                file.seek(begin + listed[name][2])
                file.write(np.ascontiguousarray(array).data)
            file.truncate(begin + offset)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return begin + offset


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The description and the arrays of a file, mapped; `InputError` if it is none."""
    with path.open("rb") as file:
        said = file.read(len(MAGIC))
        length = int.from_bytes(file.read(8), "little")
        if said != MAGIC:
            raise InputError(f"{path} is no file of subscriptions that were made ready; make it anew")
        head = json.loads(file.read(length))
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    begin = _begin(length)
    arrays: dict[str, Array] = {}
    for name, (kind, shape, offset) in head["arrays"].items():
        count = math.prod(shape)
        if kind not in TYPES or begin + offset + count * np.dtype(kind).itemsize > len(mapped):
            raise InputError(f"{path}: {name!r} is cut off or of a strange type; make the file anew")
        arrays[name] = np.frombuffer(mapped, kind, count, begin + offset).reshape(shape)
    return head["about"], arrays


def _begin(head: int) -> int:
    """Where the arrays begin, behind so long a description."""
    return -(-(len(MAGIC) + 8 + head) // PAGE) * PAGE
