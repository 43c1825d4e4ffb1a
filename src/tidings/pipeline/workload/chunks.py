"""Chunks: many rows said by few, each with a first and a last number, from which a task makes the rows.

What goes through a shuffle is then small, however many rows there will be, and no task has too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

CHUNK = 50_000
"""Rows of one chunk at most: one array of numbers, which is exploded."""

ROWS_PER_TASK_MIN = 500_000
"""A task takes 0.1 s for itself, as long as 150,000 subscriptions."""

ROWS_PER_TASK_MAX = 5_000_000
"""A file of so many subscriptions has some 200 MB."""

TASKS_MAX = 10_000


def split(
    firsts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs of numbers as chunks: which run each is of, its first number and its last.

    >>> runs, begins, ends = split(np.array([0, 60_000]), np.array([60_000, 2]))
    >>> runs.tolist(), begins.tolist(), ends.tolist()
    ([0, 0, 1], [0, 50000, 60000], [49999, 59999, 60001])
    """
    chunks = -(-counts // CHUNK)
    runs = np.repeat(np.arange(len(counts)), chunks)
    before = np.repeat(np.cumsum(chunks) - chunks, chunks)
    begins = firsts[runs] + (np.arange(len(runs)) - before) * CHUNK
    return runs, begins, np.minimum(begins + CHUNK, firsts[runs] + counts[runs]) - 1


def dealt(frame: DataFrame, rows: int) -> DataFrame:
    """Chunks, dealt out to tasks by their numbers: a hash would give some tasks much more than others.

    They have `begin`, and all numbers together are those below `rows`, or a few more.
    """
    from pyspark.sql import functions as F  # noqa: N812

    count = tasks(frame, rows)
    size = max(1, -(-rows // count))
    return frame.repartitionById(count, F.expr(f"cast(begin div {size} as int)"))


def tasks(frame: DataFrame, rows: int) -> int:
    """Into how many tasks so many rows are divided: those of a shuffle, unless they would be too small or
    too large.
    """
    usual = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    least, most = -(-rows // ROWS_PER_TASK_MAX), -(-rows // ROWS_PER_TASK_MIN)
    return max(1, min(TASKS_MAX, most, max(least, usual)))
