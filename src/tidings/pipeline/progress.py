"""How far Spark is with what it is doing: tasks done, of those planned.

Spark Connect tells by a handler. Classic Spark is asked, from a thread of its own, while the one that started
the job waits for it. A progress bar is all that hangs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

ASKED_EVERY_S = 0.25

Moved = Callable[[int, int], None]
"""Told how many tasks are done, and of how many."""


def is_connect(spark: SparkSession) -> bool:
    """Whether a session speaks to a server, and has no `sparkContext`."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def watched(spark: SparkSession, moved: Moved) -> Iterator[None]:
    """While this is open, `moved` is told how far Spark is."""
    with _told(spark, moved) if is_connect(spark) else _asked(spark, moved):
        yield


@contextmanager
def _told(spark: SparkSession, moved: Moved) -> Iterator[None]:
    def handler(stages: Any = None, **_: Any) -> None:
        counted = list(stages or [])
        moved(sum(one.num_completed_tasks for one in counted), sum(one.num_tasks for one in counted))

    # Any function with these arguments will do; the class is an interface that nothing asks for.
    told = cast("ProgressHandler", handler)
    spark.registerProgressHandler(told)
    try:
        yield
    finally:
        spark.removeProgressHandler(told)


@contextmanager
def _asked(spark: SparkSession, moved: Moved) -> Iterator[None]:
    tracker = spark.sparkContext.statusTracker()
    over = Event()
    seen: dict[int, tuple[int, int]] = {}

    def ask() -> None:
        while not over.wait(ASKED_EVERY_S):
            for number in tracker.getActiveStageIds():
                if (stage := tracker.getStageInfo(number)) is not None:
                    seen[number] = (stage.numCompletedTasks, stage.numTasks)
            # A stage that is no longer active is done.
            for number in set(seen) - set(tracker.getActiveStageIds()):
                seen[number] = (seen[number][1], seen[number][1])
            if seen:
                moved(sum(done for done, _ in seen.values()), sum(tasks for _, tasks in seen.values()))

    asking = Thread(target=ask, name="tidings-progress", daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()
