"""Which way to match: by size whether the index fits, and by skew how the space is divided where it does not.

The index is the better way as long as it fits, since events then never move. Where it does not, the space is
halved until the subscriptions of the fullest cell fit, once for each task that runs at the same time; each
halving that a subscription does not decide makes two copies of it, so that it is halved no further than that.
A cell in which more events lie than one task should have is divided. Both are seen in samples. Nothing here
reads, and nothing knows Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.match import cells as meeting
from tidings.records.workload_reading import Subscriptions
from tidings.space import Space

if TYPE_CHECKING:
    import pyarrow as pa

BYTES_PER_SUBSCRIPTION = 280
"""At most: 230 of the index (0010) where nobody asks for the same, and 48 for number, place and times."""

BUILT_MAX = 10_000_000
"""Subscriptions that one process makes an index of: some minutes."""

EVENTS_PER_PART = 50_000
"""What they match must fit into memory: 200 MB where each matches 500."""

DEPTH_MAX = 12
"""Halvings: of a subscription to everything there is a copy in each cell, and so never more than 4,096."""

COPIES_MAX = 64
"""Of a subscription, on average: more would cost more than they save."""


class Way(StrEnum):
    """How events and subscriptions come together."""

    INDEX = "index"
    """Every worker maps one index of all subscriptions."""

    CELLS = "cells"
    """Both are sent to the cells of the event space that they lie in."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What there is."""

    subscriptions: int
    events: int
    memory_bytes: int
    """What subscriptions may take on one machine."""

    cores: int
    """Tasks that run on it at the same time."""

    @property
    def index_bytes(self) -> int:
        """What an index of all subscriptions takes, at most."""
        return self.subscriptions * BYTES_PER_SUBSCRIPTION


@dataclass(frozen=True, slots=True)
class Choice:
    """The way, and why."""

    way: Way
    sizes: Sizes
    why: str
    depth: int = 0
    """How often the space is halved, for cells."""

    attributes: tuple[str, ...] = ()
    """What is halved, in turn."""

    copies: float = 1.0
    """Of a subscription, on average."""

    fullest_subscriptions: int = 0
    """In the cell with most of them."""

    fullest_events: int = 0
    parts: dict[int, int] = field(default_factory=dict)
    """Cells with many events, and into how many parts each is divided."""


def choose(
    sizes: Sizes, space: Space, asked: Subscriptions, happened: pa.StructArray, wanted: Way | None = None
) -> Choice:
    """The way for these sizes; samples of subscriptions and events say how they lie in the space.

    With a way that is wanted, that one, with what it needs.
    """
    fits = sizes.index_bytes <= sizes.memory_bytes
    way = wanted or (Way.INDEX if fits and sizes.subscriptions <= BUILT_MAX else Way.CELLS)
    if wanted is not None:
        why = "it was asked for"
    elif way is Way.INDEX:
        why = "the index fits into memory"
    elif not fits:
        why = "the index does not fit into memory"
    else:
        why = f"there are more than {BUILT_MAX:,} subscriptions, too many to be read by one process"
    if way is Way.INDEX:
        return Choice(way, sizes, why)
    return _divided(sizes, space, asked, happened, why)


def _divided(sizes: Sizes, space: Space, asked: Subscriptions, happened: pa.StructArray, why: str) -> Choice:
    scale = sizes.subscriptions / max(1, len(asked))
    depth, copies, fullest = 0, 1.0, sizes.subscriptions
    for tried in range(1, len(space.turns(DEPTH_MAX)) + 1):
        if fullest * BYTES_PER_SUBSCRIPTION * sizes.cores <= sizes.memory_bytes:
            break
        row, cell = meeting.cells_of_subscriptions(space, asked, tried)
        if len(row) > COPIES_MAX * max(1, len(asked)):
            break
        _, counts = np.unique(cell, return_counts=True)
        depth, copies = tried, len(row) / max(1, len(asked))
        fullest = round(scale * int(counts.max(initial=0)))
    if fullest * BYTES_PER_SUBSCRIPTION * sizes.cores > sizes.memory_bytes:
        why += "; nor do those of the fullest cell for every task, which the space does not divide further"
    cells, counts = np.unique(meeting.cells_of_events(space, happened, depth), return_counts=True)
    events = np.round(counts * (sizes.events / max(1, len(happened)))).astype(np.int64)
    divided = -(-events // EVENTS_PER_PART)
    parts = {int(one): int(many) for one, many in zip(cells, divided, strict=True) if many > 1}
    names = tuple(dict.fromkeys(".".join(space.attributes[at].path) for at in space.turns(depth)))
    return Choice(Way.CELLS, sizes, why, depth, names, copies, fullest, int(events.max(initial=0)), parts)
