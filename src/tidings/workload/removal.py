"""Hot-interest removal (§4.1): the most popular base interests go, in every region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.workload.spec import Removal


@dataclass(frozen=True, eq=False)
class Removed:
    """What is left, and what went."""

    members: NDArray[np.int64]
    messages: NDArray[np.float64]
    interests: tuple[tuple[int, ...], ...]
    """The places of those that went in a base array, without the region, the most popular first."""


def remove(members: NDArray[np.int64], messages: NDArray[np.float64], options: Removal) -> Removed:
    """Base arrays without the most popular interests; if chosen in several ways, without all of them.

    An interest's popularity is its members in all regions together; of equal ones the first in the array
    goes first.
    """
    popularity = members.sum(axis=-1).reshape(-1)
    order = ranked(popularity)
    gone = order[: _count(popularity[order], options)]
    members, messages = members.copy(), messages.copy()
    members.reshape(-1, members.shape[-1])[gone] = 0
    if options.events_too:
        messages.reshape(-1, messages.shape[-1])[gone] = 0.0
    places = np.stack(np.unravel_index(gone, members.shape[:-1]), axis=-1)
    return Removed(members, messages, tuple(tuple(int(at) for at in place) for place in places))


def ranked(popularity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in an array, the largest count first, of equal ones the first."""
    return np.argsort(-popularity, kind="stable")


def _count(popularity: NDArray[np.int64], options: Removal) -> int:
    """How many go, of popularities that fall. Every way takes the first ones, so the most decides."""
    count = min(options.top, len(popularity))
    if options.share > 0.0:
        wanted = options.share * float(popularity.sum())
        together = np.cumsum(popularity)
        some = int(np.count_nonzero(popularity))
        count = max(count, min(int(np.searchsorted(together, wanted)) + 1, some))
    if options.threshold > 0:
        count = max(count, int(np.count_nonzero(popularity >= options.threshold)))
    return count
