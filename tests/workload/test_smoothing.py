"""The kernel: rates reach into gaps, decay with distance, and nothing of them is lost."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.workload import models
from tidings.workload import smoothing, topics
from tidings.workload.model import Model

SIZE = 2_000
"""A resolution at which every whole number can be looked at."""


def small(smoothed: float, dimensions: int = 2) -> Model:
    return models.tiny(dimensions, space={"resolution": SIZE}, events={"smoothing": smoothed})


def spread(model: Model, axis: int, place: int) -> NDArray[np.float64]:
    """The probabilities of all values for one leaf, by adding up draws."""
    leaf = model.dimensions[axis].leaves[place]
    low, high = int(model.lows[axis][leaf]), int(model.highs[axis][leaf])
    reach = int(smoothing.reaches(model, axis)[place])
    even, step = np.full(high - low + 1, 1 / (high - low + 1)), np.full(reach + 1, 1 / (reach + 1))
    moved = np.convolve(np.convolve(even, step), step)
    folded = np.arange(low - reach, high + reach + 1) % (2 * SIZE)
    found = np.bincount(np.where(folded < SIZE, folded, 2 * SIZE - 1 - folded), moved, SIZE)
    return np.asarray(found, np.float64)


@pytest.mark.parametrize("smoothed", [0.0, 0.3, 1.0, 6.5, 1000.0])
def test_masses_are_those_of_the_draws(smoothed: float) -> None:
    model = small(smoothed)
    for axis, hierarchy in enumerate(model.dimensions):
        found = smoothing.masses(model, axis, np.arange(SIZE + 1))
        for place in range(len(hierarchy.leaves)):
            np.testing.assert_allclose(found[place], spread(model, axis, place), atol=1e-14)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("smoothed", [0.0, 1.0, 1000.0])
def test_the_total_of_each_region_is_kept(dimensions: int, smoothed: float) -> None:
    model = models.tiny(dimensions, events={"smoothing": smoothed})
    edges = [np.linspace(0, 10**9, 7 + axis).astype(np.int64) for axis in range(dimensions)]
    found = smoothing.density(model, edges)
    assert found.shape == (*(len(edge) - 1 for edge in edges), 3)
    axes = tuple(range(dimensions))
    np.testing.assert_allclose(found.sum(axis=axes), model.messages.sum(axis=axes), rtol=1e-12)
    assert (found >= -1e-9).all()


def test_the_density_is_the_sum_over_all_interests() -> None:
    model = small(1.0)
    grid = np.arange(0, SIZE + 1, 50)
    expected = np.zeros((40, 40, 3))
    for subject in range(model.messages.shape[0]):
        for language in range(model.messages.shape[1]):
            sides = [
                spread(model, axis, place).reshape(40, 50).sum(axis=1)
                for axis, place in enumerate((subject, language))
            ]
            expected += np.multiply.outer(np.outer(*sides), model.messages[subject, language])
    np.testing.assert_allclose(smoothing.density(model, [grid, grid]), expected, rtol=1e-9, atol=1e-9)


def test_without_smoothing_gaps_are_empty_and_with_it_they_are_filled() -> None:
    gap = np.array([*range(19, 38)])  # between jazz and opera
    for smoothed, filled in ((0.0, False), (1.0, True)):
        model = small(smoothed, 1)
        assert model.highs[0][models.SUBJECT.numbers["jazz"]] == 18
        assert model.lows[0][models.SUBJECT.numbers["opera"]] == 38
        found = smoothing.density(model, [np.arange(SIZE + 1)]).sum(axis=1)
        assert (found[gap] > 0).all() == filled


def test_between_two_interests_each_one_decays_with_distance() -> None:
    model = small(1.0, 1)
    # The interval of film ends at 284, football begins at 570.
    film = models.SUBJECT.leaves.index(models.SUBJECT.numbers["film"])
    found = smoothing.masses(model, 0, np.arange(SIZE + 1))[film]
    beyond = found[285 : 285 + 95]
    assert (np.diff(beyond) < 0).all()
    assert beyond[-1] > 0
    assert found[285 + 95 :].sum() == pytest.approx(0, abs=1e-12)


def test_a_topic_is_that_of_the_nearest_first_level_interval() -> None:
    model = small(1.0)
    tops = list(model.dimensions[0].children[0])
    ends = [(int(model.lows[0][top]), int(model.highs[0][top])) for top in tops]
    shift, step, last = smoothing.topic_steps(model)
    begins, _ = topics.territories(models.SUBJECT, model.lows[0], model.highs[0], SIZE)
    for value in range(SIZE):
        away = [max(low - value, value - high, 0) for low, high in ends]
        nearest = away.index(min(away))
        assert min((value + shift) // step, last) == nearest
        assert np.searchsorted(begins[tops], value, side="right") - 1 == nearest
