"""Where in the event space an event lies (§4.5): in its base interest's rectangle, moved by a kernel.

Along each dimension an event is drawn evenly from the interval of the interest's leaf, and then moved by the
difference of two even draws: a triangular kernel that reaches as far as `events.smoothing` widths of the
interval. So gaps between interests are filled, most near interests that have many events. What would leave
the space is reflected at its ends, so that nothing of the rate is lost. All of it in whole numbers: the draws
of events and the density that they come from agree to the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reaches(model: Model, axis: int) -> NDArray[np.int64]:
    """How far the kernel moves events of each leaf of a dimension, at most."""
    leaves = list(model.dimensions[axis].leaves)
    width = model.highs[axis][leaves] - model.lows[axis][leaves] + 1
    # One that reaches over the whole space and is reflected is even already.
    most = float(model.spec.space.resolution)
    found: NDArray[np.int64] = np.minimum(np.floor(width * model.spec.events.smoothing), most).astype(
        np.int64
    )
    return found


def density(model: Model, edges: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Messages in each cell of a grid over the event space, and region: the rates, smoothed.

    `edges` are for each dimension the first values of its cells, and the resolution behind the last. Over a
    grid of the whole space the sum is that of all messages.
    """
    found = model.messages
    for axis, edge in enumerate(edges):
        # The axis that was smoothed comes last but one; so each turn finds its own in front.
        smoothed = np.tensordot(found, masses(model, axis, edge), axes=(0, 0))
        found = np.moveaxis(smoothed, -1, len(edges) - 1)
    return found


def masses(model: Model, axis: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """The part of each leaf's events that lies between each edge of a dimension and the next."""
    leaves = list(model.dimensions[axis].leaves)
    low, high = (ends[axis][leaves][:, None] for ends in (model.lows, model.highs))
    reach = reaches(model, axis)[:, None]
    width = high - low + 1
    size = model.spec.space.resolution

    def up_to(last: NDArray[np.int64]) -> NDArray[np.float64]:
        """The part that lies at `last` or below it, before any reflection."""
        return (_summed(last - low, reach) - _summed(last - low - width, reach)) / width

    last = np.asarray(edges, np.int64)[None, :] - 1
    inside = up_to(last) - up_to(np.full_like(last, -1))
    below = up_to(np.full_like(last, -1)) - up_to(-2 - last)
    above = up_to(np.full_like(last, 2 * size - 1)) - up_to(2 * size - 2 - last)
    return np.diff(inside + below + above, axis=1)


def _summed(at: NDArray[np.int64], reach: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum over all y up to `at` of the probability that the kernel moves by y or less.

    Below 0 it is a product of three; from 0 on it follows from symmetry, and nothing large is subtracted.
    """
    left = np.where(at < 0, at, -at - 2)
    steps = np.maximum(left + reach + 1, 0).astype(np.float64)
    size = (reach + 1).astype(np.float64)
    tail = steps * (steps + 1) / size * ((steps + 2) / size) / 6
    return tail + np.where(at < 0, 0, at + 1)


def topic_steps(model: Model) -> tuple[int, int, int]:
    """How the first field says the topic: number = (value + shift) // step, but at most the last.

    A topic is that of the nearest first-level interval: an event that the kernel moves into a neighbour's
    interval must meet those who subscribe there. In the middle of a gap it is the lower one's.
    """
    tops = list(model.dimensions[0].children[0])
    lows, highs = model.lows[0][tops], model.highs[0][tops]
    width = int(highs[0] - lows[0] + 1)
    assert (lows == np.arange(len(tops)) * 2 * width).all(), "first-level intervals have gaps as wide as they"
    return width // 2, 2 * width, len(tops) - 1
