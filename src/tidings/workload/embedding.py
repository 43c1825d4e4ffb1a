"""Positions of nodes in a Euclidean space whose distances are the given round trips, as far as they can be.

The paper (§3.2) uses an embedding in five dimensions. Ours starts with classical scaling (Torgerson 1952) and
then minimises relative errors: first their smoothed absolute values, then a loss that gives up on pairs which
no Euclidean space can hold, such as round trips that break the triangle inequality by far.

Sums are numpy's own, and no library of linear algebra takes part: those split sums over threads, and another
number of cores would give other positions. Nothing here knows what nodes or regions are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload import hashing

if TYPE_CHECKING:
    from numpy.typing import NDArray

DECIMALS = 3
"""Coordinates are rounded to a microsecond of round trip."""

PAIRS_MAX = 250_000
"""Pairs that are looked at: all of 700 nodes; of 5,000 a hundred for each, beyond which more add little."""

_ITERATIONS = 30
"""Of the subspace iteration; the scaling need not be exact, it is only where minimising starts."""

_SMOOTH = 0.1
"""Relative errors below it count quadratically in the first phase, above it linearly."""

_GIVEN_UP = 0.3
"""Relative errors well above it hardly pull in the second phase."""

_STEPS = 300
"""At most, of each phase."""

_ENOUGH = 1e-5
"""A phase ends when a step improves the loss by less than this share of it."""

_MEMORY = 10
"""Steps that the quasi-Newton method remembers."""

Loss = Callable[["NDArray[np.float64]"], "tuple[float, NDArray[np.float64]]"]
"""The value at some positions (dimension, node) and its gradient."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Positions, and how good they are."""

    points: NDArray[np.float64]
    """One row for each node."""

    median_relative_error: float
    mean_relative_error: float
    """Of distances against round trips, over all pairs that were measured."""


def embed(matrix: NDArray[np.float64], dimensions: int = 5, seed: int = 1) -> Embedding:
    """Positions for a symmetric matrix of round trips with NaN for holes."""
    size = len(matrix)
    one, other = np.nonzero(np.triu(~np.isnan(matrix), 1))
    given = matrix[one, other]
    points = _scaled(matrix, dimensions, hashing.key(seed, "embedding", "start"))
    kept = _sampled(one, other, hashing.key(seed, "embedding", "pairs"))
    pairs = one[kept], other[kept], given[kept]
    points = _minimised(_loss(*pairs, size, _smoothed), points)
    points = _minimised(_loss(*pairs, size, _robust), points)
    points = np.round(points.T - points.mean(axis=1), DECIMALS) + 0.0
    error = np.abs(distances(points[one], points[other]) - given) / given
    return Embedding(points, float(np.median(error)), float(error.mean()))


def distances(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Between points along the last axis, summed in the order of coordinates."""
    squares = np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1])
    for axis in range(a.shape[-1]):
        step = a[..., axis] - b[..., axis]
        squares += step * step
    return np.sqrt(squares)


def _scaled(matrix: NDArray[np.float64], dimensions: int, key: int) -> NDArray[np.float64]:
    """Classical scaling: the largest principal components, of all distances at once."""
    size = len(matrix)
    squares = _filled(matrix) ** 2
    means = squares.mean(axis=1)
    products = (means[:, None] + means[None, :] - squares - means.mean()) / 2
    axes = hashing.fraction(hashing.draw(key, np.arange(dimensions)[:, None], np.arange(size))) - 0.5
    lengths = np.zeros(dimensions)
    for _ in range(_ITERATIONS):
        axes = np.stack([(products * axis).sum(axis=1) for axis in axes])
        for number in range(dimensions):
            for before in axes[:number]:
                axes[number] -= (axes[number] * before).sum() * before
            lengths[number] = np.sqrt((axes[number] ** 2).sum())
            axes[number] /= max(lengths[number], 1e-300)
    # A matrix of few nodes has fewer axes; a little of each keeps the others alive.
    return axes * np.sqrt(np.maximum(lengths, 1e-6))[:, None]


def _filled(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holes filled with the shortest way over one other node; only for the start."""
    holes = np.isnan(matrix)
    if not holes.any():
        return matrix
    known = np.where(holes, np.inf, matrix)
    filled = matrix.copy()
    for node in np.flatnonzero(holes.any(axis=1)):
        missing = np.flatnonzero(holes[node])
        filled[node, missing] = (known[missing] + known[node]).min(axis=1)
    return np.where(np.isinf(filled), np.median(matrix[~holes]), filled)


def _sampled(one: NDArray[np.int64], other: NDArray[np.int64], key: int) -> NDArray[np.int64] | slice:
    """The pairs to look at: all, or an even sample of a large matrix's."""
    if len(one) <= PAIRS_MAX:
        return slice(None)
    return np.flatnonzero(hashing.fraction(hashing.draw(key, one, other)) < PAIRS_MAX / len(one))


def _smoothed(error: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    length = np.sqrt(error * error + _SMOOTH * _SMOOTH)
    return length, error / length


def _robust(error: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    square = error * error
    whole = square + _GIVEN_UP * _GIVEN_UP
    return square / whole, 2 * _GIVEN_UP * _GIVEN_UP * error / (whole * whole)


def _loss(
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    given: NDArray[np.float64],
    size: int,
    kind: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> Loss:
    weights = 1.0 / given

    def loss(points: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        steps = [axis[one] - axis[other] for axis in points]
        squares = np.full(len(one), 1e-12)
        for step in steps:
            squares += step * step
        lengths = np.sqrt(squares)
        values, slopes = kind(lengths * weights - 1.0)
        pulls = slopes * weights / lengths
        gradient = np.stack(
            [np.bincount(one, pulls * step, size) - np.bincount(other, pulls * step, size) for step in steps]
        )
        return float(values.sum()), gradient

    return loss


def _minimised(loss: Loss, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """L-BFGS (Nocedal 1980) with a backtracking line search."""
    value, gradient = loss(points)
    past: list[tuple[NDArray[np.float64], NDArray[np.float64], float]] = []
    for _ in range(_STEPS):
        direction = _direction(gradient, past)
        slope = _dot(direction, gradient)
        if slope >= 0:
            break
        length = 1.0
        while True:
            next_points = points + length * direction
            next_value, next_gradient = loss(next_points)
            if next_value <= value + 1e-4 * length * slope or length < 1e-9:
                break
            length /= 2
        if next_value >= value:
            break
        step, change = next_points - points, next_gradient - gradient
        curvature = _dot(step, change)
        if curvature > 0:
            past = [*past[1 - _MEMORY :], (step, change, curvature)]
        gain = value - next_value
        points, value, gradient = next_points, next_value, next_gradient
        if gain < _ENOUGH * value:
            break
    return points


def _direction(
    gradient: NDArray[np.float64], past: list[tuple[NDArray[np.float64], NDArray[np.float64], float]]
) -> NDArray[np.float64]:
    direction = -gradient
    shares = []
    for step, change, curvature in reversed(past):
        part = _dot(step, direction) / curvature
        direction = direction - part * change
        shares.append(part)
    if past:
        _, change, curvature = past[-1]
        direction = direction * (curvature / _dot(change, change))
    else:
        direction = direction / max(1e-300, float(np.sqrt(_dot(gradient, gradient))))
    for (step, change, curvature), part in zip(past, reversed(shares), strict=True):
        direction = direction + (part - _dot(change, direction) / curvature) * step
    return direction


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float((a * b).sum())
