"""Points lie where the spec says: in the box, in the hull, near a node, in proportion to weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from tidings.pipeline.workload import placing
from tidings.workload.model import Nodes

COUNT = 20_000


def scattered(points: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> Nodes:
    count = len(points)
    return Nodes(
        names=tuple(map(str, range(count))),
        region=np.zeros(count, np.int64),
        longitude=np.zeros(count),
        weight=np.ones(count) if weight is None else weight,
        points=points,
        error=0.0,
    )


def placed(nodes: Nodes, kind: str, reach: float = 5.0, count: int = COUNT) -> NDArray[np.float64]:
    pieces = placing.cut(nodes, int(nodes.region.max()) + 1, kind, reach)
    return placing.points(pieces, np.zeros(count, np.int64), np.arange(count), 3, "clients")


def cloud(count: int = 30) -> NDArray[np.float64]:
    return np.random.default_rng(2).uniform(-100.0, 100.0, (count, 5))


def test_a_box_holds_all_and_is_filled_evenly() -> None:
    points = cloud()
    low, high = points.min(axis=0), points.max(axis=0)
    found = placed(scattered(points), placing.BOX)
    assert (found >= low).all()
    assert (found <= high).all()
    shares = (found - low) / (high - low)
    assert np.quantile(shares, [0.1, 0.5, 0.9], axis=0) == pytest.approx(
        np.repeat([[0.1], [0.5], [0.9]], 5, axis=1), abs=0.02
    )


def test_a_hull_holds_all_its_points() -> None:
    points = cloud()
    assert (Delaunay(points).find_simplex(placed(scattered(points), placing.HULL, count=2_000)) >= 0).all()


def test_a_hull_is_filled_evenly() -> None:
    """The corners of a cube: its hull is the cube, whatever it is cut into."""
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
    found = placed(scattered(corners), placing.HULL)
    assert np.quantile(found, [0.1, 0.5, 0.9], axis=0) == pytest.approx(
        np.repeat([[0.1], [0.5], [0.9]], 5, axis=1), abs=0.02
    )
    assert np.corrcoef(found.T) == pytest.approx(np.eye(5), abs=0.04)


def test_simplices_fill_the_hull_to_its_volume() -> None:
    points = cloud()
    pieces = placing.cut(scattered(points), 1, placing.HULL, 0.0)
    whole = Delaunay(points)
    expected = np.abs(np.linalg.det(points[whole.simplices][:, 1:] - points[whole.simplices][:, :1])).sum()
    assert np.abs(np.linalg.det(pieces.corners[:, 1:] - pieces.corners[:, :1])).sum() == pytest.approx(
        expected
    )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_nodes_still_have_a_hull(count: int) -> None:
    points = np.zeros((count, 5))
    points[:, 0] = np.arange(count)
    found = placed(scattered(points), placing.HULL, count=500)
    assert found[:, 0].min() >= 0
    assert found[:, 0].max() <= count - 1 + 1e-9
    assert (found[:, 1:] == 0).all()


def test_flat_nodes_still_have_a_hull() -> None:
    points = cloud(20)
    points[:, 3:] = 7.0
    found = placed(scattered(points), placing.HULL, count=2_000)
    assert found[:, 3:] == pytest.approx(7.0)
    assert (Delaunay(points[:, :3]).find_simplex(found[:, :3]) >= 0).all()


def test_a_vicinity_is_around_nodes_by_weight() -> None:
    points = np.zeros((3, 5))
    points[:, 0] = [0.0, 100.0, 200.0]
    found = placed(scattered(points, np.array([6.0, 0.0, 2.0])), placing.VICINITY)
    node = np.rint(found[:, 0] / 100).astype(int)
    assert np.bincount(node, minlength=3) / COUNT == pytest.approx([0.75, 0.0, 0.25], abs=0.01)
    away = found - points[node]
    assert np.abs(away).max() <= 5.0
    # A tent: half of it lies within (1 - sqrt(1/2)) of its reach.
    assert np.quantile(np.abs(away), 0.5, axis=0) == pytest.approx([5 * (1 - 0.5**0.5)] * 5, abs=0.05)


def test_no_vicinity_is_the_node_itself() -> None:
    points = cloud(4)
    found = placed(scattered(points), placing.VICINITY, reach=0.0, count=100)
    assert {tuple(point) for point in found} == {tuple(point) for point in points}


@pytest.mark.parametrize("kind", [placing.BOX, placing.HULL, placing.VICINITY])
def test_a_point_depends_on_its_own_row_alone(kind: str) -> None:
    nodes = scattered(cloud())
    pieces = placing.cut(nodes, 1, kind, 5.0)
    ids = np.arange(500, 0, -7)
    some = placing.points(pieces, np.zeros(len(ids), np.int64), ids, 3, "clients")
    assert np.array_equal(some, placed(nodes, kind, count=501)[ids])
