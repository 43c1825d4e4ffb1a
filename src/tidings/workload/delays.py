"""Round trips from places on the earth: a fitted model, for when nobody has measured.

A round trip takes a while for its ends, and then grows with the distance over the earth times a detour for
each end's region. The constants were fitted by us to a published matrix of some 240 cities (docs/workload.md,
"Network"); nothing is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload import regions

if TYPE_CHECKING:
    from numpy.typing import NDArray

EARTH_KM = 6371.0
"""The mean radius."""

ENDS_MS = 17.1
"""What every round trip takes, however short the way."""

MS_PER_KM = 0.0188
"""There and back, on the ground as the bird flies. Light in a fibre alone takes 0.0098."""

DETOUR: Mapping[str, float] = MappingProxyType(
    {
        regions.ASIA: 1.23,
        regions.EUROPE: 0.99,
        regions.US: 0.78,
        regions.LATIN_AMERICA: 1.06,
        regions.AFRICA: 1.26,
        regions.MIDDLE_EAST: 1.22,
        regions.CANADA: 0.90,
        regions.OCEANIA: 0.96,
    }
)
"""A factor of the distance for each end: how roundabout the cables are, and how slow what they join."""

DECIMALS = 2
"""Sines differ between machines in the last bit; rounded, the round trips do not."""


def kilometres(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances of all pairs, by the haversine."""
    north, east = np.radians(latitude), np.radians(longitude)
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north[:, None]) * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    far: NDArray[np.float64] = 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(half, 0.0, 1.0)))
    return far


def round_trips(
    latitude: NDArray[np.float64], longitude: NDArray[np.float64], detour: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Milliseconds between all pairs, with 0 on the diagonal; `detour` is each node's factor."""
    way = kilometres(latitude, longitude) * (detour[:, None] * detour)
    times = np.round(ENDS_MS + MS_PER_KM * way, DECIMALS)
    np.fill_diagonal(times, 0.0)
    return times
