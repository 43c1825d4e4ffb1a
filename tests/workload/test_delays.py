"""The delay model: distances over the earth, and round trips that grow with them."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.workload import delays
from tidings.workload.regions import REGIONS


def test_distances_are_those_over_the_earth() -> None:
    # Paris, New York, Sydney, and the antipode of Paris.
    latitude, longitude = np.array([48.86, 40.71, -33.87, -48.86]), np.array([2.35, -74.01, 151.21, -177.65])
    found = delays.kilometres(latitude, longitude)
    assert found[0] == pytest.approx([0, 5_837, 16_960, np.pi * delays.EARTH_KM], abs=15)
    assert np.array_equal(found, found.T)


def test_round_trips_grow_with_distance_and_detour() -> None:
    latitude, longitude = np.zeros(3), np.array([0.0, 10.0, 20.0])
    plain = delays.round_trips(latitude, longitude, np.ones(3))
    assert np.diag(plain).tolist() == [0, 0, 0]
    assert plain[0, 1] == pytest.approx(delays.ENDS_MS + delays.MS_PER_KM * 1_112, abs=0.05)
    assert plain[0, 2] > plain[0, 1] > delays.ENDS_MS
    slow = delays.round_trips(latitude, longitude, np.array([2.0, 1.0, 1.0]))
    assert slow[0, 1] - delays.ENDS_MS == pytest.approx(2 * (plain[0, 1] - delays.ENDS_MS), abs=0.02)
    assert slow[1, 2] == plain[1, 2]


def test_no_round_trip_is_faster_than_light_in_a_fibre() -> None:
    fastest = min(delays.DETOUR.values()) ** 2 * delays.MS_PER_KM
    assert fastest > 2 * 1.468 / 299.792


def test_every_region_has_a_detour() -> None:
    assert set(delays.DETOUR) == set(REGIONS)
