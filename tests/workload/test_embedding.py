"""Embeddings keep distances as far as a Euclidean space can, and are the same on any number of cores."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from tidings.workload import embedding


def scattered(count: int, dimensions: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(5).uniform(0.0, 200.0, (count, dimensions))


def between(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return embedding.distances(points[:, None, :], points[None, :, :])


@pytest.mark.parametrize("dimensions", [1, 3, 5])
def test_euclidean_distances_come_back(dimensions: int) -> None:
    matrix = between(scattered(40, dimensions))
    found = embedding.embed(matrix)
    assert found.points.shape == (40, 5)
    assert found.median_relative_error < 0.001
    assert np.abs(between(found.points) - matrix).max() < 1.0


def test_holes_are_left_out() -> None:
    matrix = between(scattered(40))
    holed = matrix.copy()
    rows, columns = np.triu_indices(40, 1)
    holed[rows[::4], columns[::4]] = np.nan
    holed[columns[::4], rows[::4]] = np.nan
    found = embedding.embed(holed)
    assert found.median_relative_error < 0.005
    assert np.median(np.abs(between(found.points) - matrix)[rows[::4], columns[::4]]) < 2.0


def test_the_error_is_that_of_the_points() -> None:
    matrix = between(scattered(30)) ** 1.3
    found = embedding.embed(matrix)
    rows, columns = np.triu_indices(30, 1)
    errors = np.abs(between(found.points) / np.where(matrix == 0, 1, matrix) - 1.0)[rows, columns]
    assert found.median_relative_error == pytest.approx(np.median(errors))
    assert found.mean_relative_error == pytest.approx(errors.mean())


def test_wild_pairs_do_not_move_the_others() -> None:
    matrix = between(scattered(40))
    matrix[0, 1] = matrix[1, 0] = 5_000.0
    assert embedding.embed(matrix).median_relative_error < 0.005


def test_points_are_whole_microseconds() -> None:
    points = embedding.embed(between(scattered(20)) ** 1.2).points
    assert np.array_equal(np.round(points, 3), points)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_few_nodes_can_be_embedded(count: int) -> None:
    assert embedding.embed(between(scattered(count))).median_relative_error < 0.01


def test_a_large_matrix_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PAIRS_MAX", 1_500)
    assert embedding.embed(between(scattered(100))).median_relative_error < 0.005


def test_the_number_of_threads_changes_nothing() -> None:
    program = (
        "import numpy as np; from tidings.workload.embedding import embed\n"
        "x = np.random.default_rng(1).uniform(0, 200, (150, 8))\n"
        "m = np.sqrt(((x[:, None] - x) ** 2).sum(axis=2))\n"
        "print(embed(m).points.tobytes().hex())"
    )
    found = []
    for threads in ("1", "2"):
        settings = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, check=True
        )
        found.append(run.stdout)
    assert len(found[0]) > 10_000
    assert found[0] == found[1]
