"""Random hierarchies, and exact arrays over them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from tidings.workload.hierarchies import Hierarchy, from_parents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@st.composite
def hierarchies(draw: st.DrawFn, most: int = 12) -> Hierarchy:
    """Trees of up to so many nodes below the root."""
    parents = [draw(st.integers(0, node)) for node in range(draw(st.integers(1, most)))]
    return from_parents("tree", [(f"n{node + 1}", f"n{parent}") for node, parent in enumerate(parents)])


@st.composite
def base_arrays(
    draw: st.DrawFn, dimensions: Sequence[Hierarchy], regions: int = 1, most: int = 60
) -> NDArray[np.int64]:
    """Counts of base interests, many of them zero."""
    shape = (*(len(one.leaves) for one in dimensions), regions)
    size = int(np.prod(shape))
    some = st.one_of(st.just(0), st.integers(0, most))
    return np.array(draw(st.lists(some, min_size=size, max_size=size)), np.int64).reshape(shape)


def exact(members: NDArray[np.int64]) -> NDArray[Any]:
    """The same counts as fractions."""
    found = np.empty(members.shape, object)
    for place, count in np.ndenumerate(members):
        found[place] = Fraction(int(count))
    return found


def below(values: NDArray[Any], dimensions: Sequence[Hierarchy], nodes: Sequence[int]) -> Any:
    """The count of a tuple of nodes in one region's base array: the sum over all base interests below it."""
    ranges = [one.leaf_ranges[node] for one, node in zip(dimensions, nodes, strict=True)]
    return values[tuple(slice(*one) for one in ranges)].sum()


def sub_tuples(dimensions: Sequence[Hierarchy], nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """The immediate sub-pairs of a pair: a leaf stands for itself."""
    return list(
        product(*(one.children[node] or (node,) for one, node in zip(dimensions, nodes, strict=True)))
    )
