"""Topics: one for each first-level subject, and which part of the axis belongs to it.

The axis of the first dimension is divided among the children of the root: each has its own interval and what
is nearer to it than to its neighbours. So the topic of an event follows from where it lies, and a
subscription to one topic misses nothing of its rectangle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload.hierarchies import Hierarchy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def names(hierarchy: Hierarchy) -> tuple[str, ...]:
    """The topic of each node: its first-level subject's, or the filter of all of them for the root."""
    named: dict[int, str] = {0: f"{hierarchy.name}/+"}
    used: set[str] = set()
    for top in hierarchy.children[0]:
        word = re.sub(r"[^\w]+|_+", "-", hierarchy.nodes[top].lower()).strip("-") or "other"
        # Two subjects may differ only by what a topic's name does not have.
        while word in used:
            word += f"-{top}"
        used.add(word)
        named[top] = f"{hierarchy.name}/{word}"
    return tuple(named[top] for top in hierarchy.tops)


def territories(
    hierarchy: Hierarchy, lows: NDArray[np.int64], highs: NDArray[np.int64], resolution: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each node the part of the axis that belongs to its topic, both ends included."""
    tops = np.asarray(hierarchy.children[0], np.int64)
    # Of a gap of odd length the middle goes to the lower neighbour.
    borders = highs[tops[:-1]] + (lows[tops[1:]] - highs[tops[:-1]]) // 2
    begins = np.concatenate([[0], borders + 1])
    ends = np.concatenate([borders, [resolution - 1]])
    first = np.zeros(len(hierarchy.nodes), np.int64)
    last = np.full(len(hierarchy.nodes), resolution - 1)
    place = {int(top): number for number, top in enumerate(tops)}
    for node, top in enumerate(hierarchy.tops):
        if top:
            first[node], last[node] = begins[place[top]], ends[place[top]]
    return first, last
