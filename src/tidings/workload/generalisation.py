"""Interest generalisation (§4.3): subscriptions to inner nodes, made from those to base interests.

Interests form a poset: one interest is above another if each of its nodes is the other's or above it. The
parents of an interest are those with one of its nodes replaced by that node's parent; so an interest's
parents are all one level above it, where the level is the sum of its nodes' depths, and levels from the
lowest up are a topological order. Within a level the order does not matter: all that is computed for a level
is computed before anything of it is changed. Regions are treated each for itself.

Option 1, `parents`: a fraction of each interest's count, with what it has received itself, moves to its
parents in equal parts. The total is conserved.

Option 2, `children`: whoever subscribes to an interest wants all of its children, so the counts of base
interests already hold it. An interest gets x, a fraction of the least count / number of parents among its
children; the counts below pay for it. What must be conserved is what each base interest is covered by: the
sum of the counts of all interests that are it or above it.

As printed, `children-as-printed`, x is deducted from all children. Each base interest below lies under one
child for every dimension in which the interest has children. So with children in one dimension its cover is
conserved, and with children in k dimensions it falls by (k - 1) x: in two dimensions it is charged twice. The
repair is inclusion-exclusion: for each set S of those dimensions, all interests that are one step down in
exactly the dimensions of S pay x if S is odd, and get x back if S is even. A base interest lies under one of
them for each S, and the signs sum to zero, so the cover of each is conserved exactly. In two dimensions no
interest is assigned another x than as printed; the difference is what (t_i, l_j) gets back from (t, l).

No count becomes negative. An interest J that is n dimensions away from its roots pays at most n parents at
once, each at most count / n. In three dimensions and more, J also pays the interests that are three (five, …)
steps up; there are C(n, 3) of them, all of one level, and the minimum for x includes what J then has, divided
by their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.workload.hierarchies import Hierarchy
from tidings.workload.rounding import whole
from tidings.workload.spec import Generalisation

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE, PARENTS, CHILDREN, CHILDREN_AS_PRINTED = "none", "parents", "children", "children-as-printed"


def generalise(
    members: NDArray[Any], dimensions: Sequence[Hierarchy], option: str, fraction: Any
) -> NDArray[Any]:
    """A full array from a base array, before it is rounded.

    The arithmetic is that of the array: floating point, or exact if it holds fractions and `fraction` is one.
    """
    full = spread(members, dimensions)
    counts = full.reshape(-1, full.shape[-1])
    poset = _Poset(dimensions)
    if option == PARENTS:
        _to_parents(counts, poset, fraction)
    elif option != NONE:
        _from_children(counts, poset, fraction, repaired=option == CHILDREN)
    # Only the last bits of floating point can be below zero.
    clipped: NDArray[Any] = np.maximum(full, 0)
    return clipped


def generalised(
    members: NDArray[np.int64], dimensions: Sequence[Hierarchy], options: Generalisation
) -> NDArray[np.int64]:
    """A full array in whole numbers; the total of a region is that before rounding, rounded itself."""
    full = generalise(members.astype(np.float64), dimensions, options.option, options.fraction)
    flat = full.reshape(-1, full.shape[-1])
    return whole(full, np.array([round(math.fsum(column)) for column in flat.T], np.int64))


def spread(members: NDArray[Any], dimensions: Sequence[Hierarchy]) -> NDArray[Any]:
    """A full array with the counts of a base array, and none elsewhere."""
    full = np.zeros((*(len(one.nodes) for one in dimensions), members.shape[-1]), members.dtype)
    full[np.ix_(*(one.leaves for one in dimensions), range(members.shape[-1]))] = members
    return full


class _Poset:
    """Interests by number, as in a full array of one region laid out in a row."""

    def __init__(self, dimensions: Sequence[Hierarchy]) -> None:
        shape = tuple(len(one.nodes) for one in dimensions)
        nodes = np.indices(shape).reshape(len(shape), -1)
        parents = [np.array(one.parents) for one in dimensions]
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        levels = sum(np.array(one.depths)[nodes[at]] for at, one in enumerate(dimensions))
        self._up = [np.where(row, (parents[at][row] - row) * strides[at], 0) for at, row in enumerate(nodes)]
        self.dimensions = range(len(shape))
        self.level_count = int(np.max(levels)) + 1
        self.levels = [np.flatnonzero(levels == level) for level in range(self.level_count)]
        self.ways = np.sum(nodes > 0, axis=0)
        """How many parents each interest has."""

        inner = [np.array([bool(below) for below in one.children]) for one in dimensions]
        self.base = ~np.any([inner[at][row] for at, row in enumerate(nodes)], axis=0)

    def ups(self, level: int, steps: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each set of so many dimensions: which of a level can go up in all of them, and where to."""
        if level >= self.level_count:
            return []
        found = []
        for chosen in combinations(self.dimensions, steps):
            moves = [self._up[at][self.levels[level]] for at in chosen]
            can = np.all([move != 0 for move in moves], axis=0)
            interests = self.levels[level][can]
            found.append((interests, interests + np.sum(moves, axis=0)[can]))
        return found


def _to_parents(counts: NDArray[Any], poset: _Poset, fraction: Any) -> None:
    for level in reversed(range(1, poset.level_count)):
        interests = poset.levels[level]
        moved = counts * 0
        moved[interests] = counts[interests] * fraction / poset.ways[interests, None]
        for below, above in poset.ups(level, 1):
            np.add.at(counts, above, moved[below])
            counts[below] -= moved[below]


def _from_children(counts: NDArray[Any], poset: _Poset, fraction: Any, repaired: bool) -> None:
    most = len(poset.dimensions) if repaired else 1
    for level in reversed(range(poset.level_count - 1)):
        interests = poset.levels[level][~poset.base[poset.levels[level]]]
        least = np.full(counts.shape, np.inf, counts.dtype)
        for steps in range(1, most + 1, 2):
            for below, above in poset.ups(level + steps, steps):
                payers = np.array([math.comb(int(ways), steps) for ways in poset.ways[below]])
                np.minimum.at(least, above, counts[below] / payers[:, None])
        gained = counts * 0
        gained[interests] = least[interests] * fraction
        counts[interests] += gained[interests]
        for steps in range(1, most + 1):
            for below, above in poset.ups(level + steps, steps):
                counts[below] += gained[above] if steps % 2 == 0 else -gained[above]
