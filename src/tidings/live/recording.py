"""Records of a node on disk, written by a thread of their own: the event loop only ever appends to a list."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tidings.live import private
from tidings.records.segments import SegmentWriter, prepare
from tidings.service.logs import LOGGER

LOG = logging.getLogger(LOGGER)

REST_S = 0.001
"""How long the thread leaves the interpreter to the event loop after each portion of its work: long enough
for the loop to wake up and take it."""


class Recorder:
    """What a node hands its records to. A disk that fails costs records, and is logged; the node goes on."""

    def __init__(
        self, folder: Path, broker: str, boot: int, *, rows_max: int, age_max_s: float, keep_bytes: int
    ) -> None:
        # Who wants others to read them makes the folder beforehand.
        private.make_folder(folder)
        self._broker = broker
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="records")
        self._writer = SegmentWriter(
            folder,
            broker,
            boot,
            rows_max=rows_max,
            age_max_s=age_max_s,
            keep_bytes=keep_bytes,
            run=self._submit,
            rest=self._rest,
            on_fault=self._on_fault,
        )
        self._submit(prepare)
        self.add = self._writer.add
        self.tick = self._writer.tick

    @property
    def rows_written(self) -> int:
        """Rows on disk."""
        return self._writer.rows_written

    @property
    def rows_lost(self) -> int:
        """Rows that are not, and will not be."""
        return self._writer.rows_lost

    def close(self) -> None:
        """Write what is left; returns when it is on disk."""
        self._writer.close()
        self._thread.shutdown()

    def _rest(self) -> None:
        # With more to do, rows would be lost before long: then the loop has to ask for the interpreter.
        if self._writer.waiting < 2:
            time.sleep(REST_S)

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(work).add_done_callback(self._ended)

    def _ended(self, work: Future[None]) -> None:
        # What is not a fault of the disk is a bug, and a thread would keep it to itself.
        if error := work.exception():
            LOG.error(
                "records cannot be written", exc_info=error, extra={"broker": self._broker, "about": {}}
            )

    def _on_fault(self, error: OSError, rows: int) -> None:
        about = {"reason": error.strerror or str(error), "rows_lost": str(rows)}
        LOG.error("records cannot be written", extra={"broker": self._broker, "about": about})
