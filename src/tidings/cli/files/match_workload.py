"""`tidings match --workload`: the subscriptions and events of a workload, by the matching index."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np

from tidings.cli.files.match import COMPILE_FROM
from tidings.matching import compile_kernels
from tidings.matching.topical import TopicalIndex
from tidings.records import workload as tables
from tidings.records.workload_reading import Publications, Subscriptions, Workload

SUBSCRIPTIONS_MAX = 10_000_000
"""About 100 bytes each as columns, and 200 in the index for each different rectangle."""

BATCH = 1024
"""Events that are matched at once; those of one topic together."""


def answer(folder: str, subscriptions: int | None, events: int | None) -> None:
    """Write for each event, in the order of time, the numbers of the subscriptions that get it."""
    workload = Workload(Path(folder))
    happened = workload.published(tables.EVENTS, events)
    count = workload.table(tables.EVENTS).rows
    known = workload.subscriptions(subscriptions, SUBSCRIPTIONS_MAX)
    different, _ = known.distinct
    index = TopicalIndex()
    for number, row in enumerate(different.tolist()):
        one = known.asked(row)
        index.add(number, one.topic_filter, one.filter, one.unknown)
    compiling = threading.Thread(target=compile_kernels, name="compile", daemon=True)
    if (count if events is None else min(count, events)) * len(different) > COMPILE_FROM:
        compiling.start()
    for stretch in happened:
        _answer(stretch, known, index)
    sys.stdout.buffer.flush()
    if compiling.is_alive():
        # As for files: nobody should wait for code that is not needed any more.
        os._exit(0)


def _answer(stretch: Publications, known: Subscriptions, index: TopicalIndex) -> None:
    rows = list(stretch.rows())
    for begin in range(0, len(stretch), BATCH):
        batch = range(begin, min(begin + BATCH, len(stretch)))
        found: dict[int, bytes] = {}
        topics = stretch.topic[batch.start : batch.stop]
        for topic in np.unique(topics).tolist():
            here = (np.flatnonzero(topics == topic) + begin).tolist()
            matches = index.match_batch(stretch.topics[topic], [rows[at] for at in here])
            for at, places in zip(here, matches, strict=True):
                standing = known.standing(places, int(stretch.at[at]))
                found[at] = b",".join([b"%d" % number for number in known.number[standing].tolist()])
        sys.stdout.buffer.write(
            b"".join(
                [b'{"event":%d,"matches":[%b]}\n' % (int(stretch.number[at]), found[at]) for at in batch]
            )
        )
        index.work()
