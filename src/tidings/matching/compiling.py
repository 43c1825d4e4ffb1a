"""Compiling the kernels, or loading them from the cache.

Nothing here happens by itself: the driver calls `compile_kernels`, in a thread of its own if it likes, and until
that has returned the index answers by numpy. Compiled code is kept in the user's cache folder; where that
cannot be written, it is compiled anew each time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import ModuleType

caching = True
"""Whether the kernels are to be kept; decided before they are imported."""

_compiled: ModuleType | None = None


def compiled() -> ModuleType | None:
    """The kernels, once they are ready."""
    return _compiled


def cache_folder() -> Path:
    """Where compiled code is kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "tidings" / "numba"


def compile_kernels() -> None:
    """Make the compiled way of matching ready; results are the same before and after.

    Takes some seconds the first time on a machine, under a second after that. Raises ImportError if numba is not
    there.
    """
    global _compiled, caching
    if _compiled is not None:
        return
    import numba  # noqa: PLC0415 - half a second that only a matcher should pay

    # A cache is given its folder when a function is decorated, so the setting is ours only while that happens.
    before = numba.config.CACHE_DIR
    folder = cache_folder()
    caching = _writable(folder)
    numba.config.CACHE_DIR = str(folder)
    try:
        from tidings.matching import kernels  # noqa: PLC0415
    finally:
        numba.config.CACHE_DIR = before
    from tidings.matching.store import Store  # noqa: PLC0415

    Store().rehearse(kernels)
    _compiled = kernels


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except (OSError, RuntimeError):
        return False
