"""Hierarchies as intervals of whole numbers (§4.4), so that interests become rectangles.

A node of length L with m children gives each the length w = L // (2m - 1), and leaves a gap of w between
neighbours; what the division leaves over lies at the node's upper end. The intervals of two nodes of which
none contains the other therefore lie apart, and nearer to each other the deeper their lowest common ancestor:
below the same child of a node everything is within w, and different children are w apart or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.workload.hierarchies import Hierarchy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def intervals(hierarchy: Hierarchy, resolution: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lower and the upper end of every node; both belong to it. The root's are 0 and resolution - 1."""
    enough = resolution_least(hierarchy)
    if resolution < enough:
        raise InputError(
            f"hierarchy {hierarchy.name!r} does not fit into {resolution:,} whole numbers: each child of a "
            f"node needs an interval and a gap as wide; space.resolution = {enough} is enough"
        )
    lows, lengths = [0] * len(hierarchy.nodes), [resolution] * len(hierarchy.nodes)
    for node, below in enumerate(hierarchy.children):
        width = lengths[node] // (2 * len(below) - 1) if below else 0
        for at, child in enumerate(below):
            lows[child], lengths[child] = lows[node] + 2 * at * width, width
    low = np.array(lows, np.int64)
    return low, low + np.array(lengths, np.int64) - 1


def resolution_least(hierarchy: Hierarchy) -> int:
    """The least length of the root for which every node has one of at least 1."""
    needs = [1] * len(hierarchy.nodes)
    for node in reversed(range(len(needs))):
        if below := hierarchy.children[node]:
            needs[node] = (2 * len(below) - 1) * max(needs[child] for child in below)
    return needs[0]
