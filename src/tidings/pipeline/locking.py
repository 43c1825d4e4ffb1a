"""One process at a time: a file that is held, and says by whom.

The lock is the kernel's and goes when its process goes, so that a dead one holds nothing. What the file
stands for is not known here.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.errors import InputError


@contextmanager
def held(file: Path, busy: str, way_out: str) -> Iterator[None]:
    """While this is open nobody else holds the file, which is made if it is not there.

    Otherwise InputError: `busy` by whom, and the way out.
    """
    with file.open("a+", encoding="utf-8") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            opened.seek(0)
            raise InputError(f"{busy} by {opened.read().strip() or 'another process'}; {way_out}") from None
        opened.truncate(0)
        opened.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        opened.flush()
        yield
