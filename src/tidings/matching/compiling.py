"""Compiling the kernels, or loading them from the cache.

Nothing here happens by itself: the driver calls `compile_kernels`, in a thread of its own if it likes, and
until that has returned the index answers by numpy. Compiled code is kept in the user's cache folder; where
that cannot be written, it is compiled anew each time.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from tidings import installation
from tidings.errors import SetupError

caching = True
"""Whether the kernels are to be kept; decided before they are imported."""

_lock = threading.RLock()
"""One compiles at a time: where compiled code goes is a setting that all have in common."""

_compiled: ModuleType | None = None
_batches: ModuleType | None = None

SOURCES = ("state.py", "slabs.py", "kernels.py", "batch_kernels.py")


def compiled() -> ModuleType | None:
    """The kernels, once they are ready."""
    return _compiled


def compiled_batches() -> ModuleType | None:
    """Those for many events at once, once they are ready."""
    return _batches


def kernels_folder(*besides: Path) -> Path:
    """Where compiled code is kept: a folder for each version of the sources, and of others `besides`.

    Numba looks only at the date and size of the file that a function is in, and would keep code that was
    compiled with other constants.
    """
    here = Path(__file__).parent
    sources = [*(here / name for name in SOURCES), *besides]
    version = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return installation.cache_folder() / "numba" / version


def compile_kernels() -> None:
    """Make the compiled way of matching ready; results are the same before and after.

    Takes some seconds the first time on a machine, under a second after that. Raises ImportError if numba is
    not there.
    """
    global _batches, _compiled
    with _lock:
        if _compiled is not None:
            return
        with kept():
            from tidings.matching import batch_kernels, kernels
        from tidings.matching.store import Store

        Store().rehearse(kernels, batch_kernels)
        _compiled, _batches = kernels, batch_kernels


@contextlib.contextmanager
def kept(*besides: Path) -> Iterator[None]:
    """Modules of kernels are to be imported inside of this, for what is compiled of them to be kept: those of
    `besides`, if they are not ours.
    """
    global caching
    import numba  # half a second that only a matcher should pay

    # A cache is given its folder when a function is decorated, so the setting is ours only while that
    # happens.
    config: Any = numba.config
    with _lock:
        before = config.CACHE_DIR
        folder = _writable_folder(*besides)
        caching = folder is not None
        config.CACHE_DIR = str(folder or "")
        try:
            yield
        finally:
            config.CACHE_DIR = before


def _writable_folder(*besides: Path) -> Path | None:
    """The cache folder, made if need be; None if there can be none."""
    try:
        folder = kernels_folder(*besides)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, SetupError):
        return None
