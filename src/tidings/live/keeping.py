"""The logs of a node: what its broker appends, on the disk, with the store's commits.

Entries wait in the store's batch and go to their logs on the store's thread, before the rows of that batch:
so what waits for the one waits for the other. What a log is, `history` knows; here is when it is written,
synced and made smaller.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from tidings.history.files import DiskFiles, MemoryFiles
from tidings.history.logs import Logs, Syncing
from tidings.live import private
from tidings.records.holders import Holder

FOLDER = "history"
"""Of the logs, in a broker's folder."""

RETAIN_EVERY_S = 10.0
"""How often what need not be kept is looked for."""

MEMORY_BYTES = 64 * 1024 * 1024
"""What a broker without a folder keeps in memory, at most."""

MEMORY_SEGMENT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """How a broker keeps what its topics say is to be kept."""

    syncing: Syncing = Syncing.ALWAYS
    every_s: float = 1.0
    """For `Syncing.INTERVAL`: how often."""

    bytes_max: int = 0
    """All logs together; the oldest entries make room. 0 for any size."""


def disk_logs(folder: Path, holder: Holder, options: KeepOptions) -> Logs:
    """The logs in a broker's folder. SetupError says what is wrong with them."""
    salt = int.from_bytes(os.urandom(4), "little")
    private.make_folder(folder / FOLDER)
    private.close(folder / FOLDER)
    return Logs(DiskFiles(folder / FOLDER), holder, salt=salt, syncing=options.syncing)


def memory_logs(holder: Holder) -> Logs:
    """Logs that are as good as the process."""
    return Logs(MemoryFiles(), holder, syncing=Syncing.NEVER, segment_bytes=MEMORY_SEGMENT_BYTES)


def bytes_max(options: KeepOptions, durable: bool) -> float:
    """How large all logs together may become."""
    wanted = options.bytes_max or math.inf
    return wanted if durable else min(wanted, MEMORY_BYTES)
