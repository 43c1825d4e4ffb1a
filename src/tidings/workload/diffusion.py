"""Interest diffusion (§4.2): the variance among related interests, lowered by a factor p.

The paper goes down from the roots of the hierarchies. A pair of nodes (t, l) with count C has the immediate
sub-pairs (t_i, l_j), m x n of them, where a leaf stands for itself; each gets

    C*(t_i, l_j) = C*(t, l) / mn - s (C(t, l) / mn - C(t_i, l_j)),    s = sqrt(p),    C*(root) = C(root).

Put D = C* - s C. Then D(t_i, l_j) = D(t, l) / mn: what is not s C is dealt out equally at every step,
whatever the counts are. So

    C* = s C + (1 - s) U,

where U is the uniform result, that of p = 0. The number of sub-pairs is a product, so U is one too: the total
times u(t) v(l), where u(t) is the product of 1 / (number of children) over all nodes above t. All that the
paper states, and more, can be read off it:

- Totals are kept, since U has the total of C.
- C* >= s C >= 0, since U >= 0: no count becomes negative, or falls below sqrt(p) times what it was.
- p = 1 changes nothing. p = 0 gives U, in which the sub-pairs of each pair have equal counts.
- The variance among the immediate sub-pairs of a pair is p times what it was, since U is the same for all of
  them. That holds for every pair of nodes, those that the paper's descent does not meet too, such as the
  root of one hierarchy with a leaf of the other.

Nothing of this needs two hierarchies; there may be any number. Regions are diffused each for itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload.hierarchies import Hierarchy
from tidings.workload.rounding import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["diffuse", "diffused", "shares", "whole"]


def diffuse(members: NDArray[np.int64], dimensions: Sequence[Hierarchy], p: float) -> NDArray[np.float64]:
    """A base array after diffusion, before it is rounded."""
    keep = math.sqrt(p)
    uniform = np.ones(())
    for dimension in dimensions:
        uniform = np.multiply.outer(uniform, np.array([float(share) for share in shares(dimension)]))
    totals = members.sum(axis=tuple(range(len(dimensions))))
    mixed: NDArray[np.float64] = keep * members + (1.0 - keep) * np.multiply.outer(uniform, totals)
    return mixed


def diffused(members: NDArray[np.int64], dimensions: Sequence[Hierarchy], p: float) -> NDArray[np.int64]:
    """A base array after diffusion, in whole numbers; each region keeps its total."""
    return whole(diffuse(members, dimensions, p), members.sum(axis=tuple(range(len(dimensions)))))


def shares(dimension: Hierarchy) -> tuple[Fraction, ...]:
    """What each leaf has of one, if every node deals out what it has equally among its children."""
    found: list[Fraction] = []
    for node, parent in enumerate(dimension.parents):
        found.append(found[parent] / len(dimension.children[parent]) if node else Fraction(1))
    return tuple(found[leaf] for leaf in dimension.leaves)
