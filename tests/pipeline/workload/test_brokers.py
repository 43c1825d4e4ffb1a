"""Brokers: as many in each region as subscriptions ask for, at its nodes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.judges import workload_brokers as twin
from tests.workload.models import tiny
from tidings.pipeline.workload import brokers
from tidings.records.workload import COORDINATES
from tidings.workload.model import Model


def subscribed(model: Model, *counts: int) -> Model:
    return replace(model, allocated=np.array(counts, np.int64).reshape(1, 1, 3))


def rows(model: Model) -> NDArray[np.float64]:
    table = brokers.table(model)
    return np.stack([table[axis].to_numpy() for axis in COORDINATES], axis=1)


@pytest.mark.parametrize("place", ["vicinity", "box", "hull"])
@pytest.mark.parametrize("count", [1, 4, 40])
def test_brokers_are_those_of_the_twin(place: str, count: int) -> None:
    model = tiny(sizes={"brokers": count}, clients={"place": place})
    assert brokers.table(model).equals(twin.rows(model, {}))


def test_regions_have_brokers_in_proportion_to_subscriptions() -> None:
    model = subscribed(tiny(sizes={"brokers": 10}), 600, 100, 300)
    assert brokers.counts(model) == [6, 1, 3]
    assert brokers.counts(subscribed(tiny(sizes={"brokers": 10}), 0, 551, 449)) == [0, 6, 4]


def test_one_broker_is_where_most_subscriptions_are() -> None:
    assert brokers.counts(subscribed(tiny(sizes={"brokers": 1}), 3, 4, 3)) == [0, 1, 0]


def test_without_subscriptions_brokers_are_where_clients_are() -> None:
    model = replace(subscribed(tiny(sizes={"brokers": 4}), 0, 0, 0), clients_count=np.array([1, 3, 0]))
    assert brokers.counts(model) == [1, 3, 0]
    assert brokers.table(model).equals(twin.rows(model, {}))


def test_brokers_are_named_by_number() -> None:
    assert brokers.table(tiny(sizes={"brokers": 12}))["broker"].to_pylist() == [f"b{k}" for k in range(12)]


def test_brokers_are_at_nodes_of_their_region_without_repetition() -> None:
    model = subscribed(tiny(sizes={"brokers": 4}), 2, 1, 1)
    region, found = brokers.points(model)
    assert region.tolist() == [0, 0, 1, 2]
    assert len({tuple(point) for point in found}) == 4
    for home, point in zip(region, found, strict=True):
        assert any(np.array_equal(point, node) for node in model.nodes.points[model.nodes.region == home])


def test_further_brokers_are_placed_as_clients_are() -> None:
    model = subscribed(tiny(sizes={"brokers": 30}, clients={"vicinity_ms": 2.0}), 1, 0, 0)
    found = rows(model)
    at = model.nodes.points[:2]
    assert {tuple(point) for point in found[:2]} == {tuple(point) for point in at}
    away = np.abs(found[2:, None, :] - at).max(axis=2).min(axis=1)
    assert (away > 0).all()
    assert (away <= 2.0).all()


def test_another_seed_draws_others() -> None:
    one, other = (subscribed(tiny(seed=seed, sizes={"brokers": 30}), 1, 1, 1) for seed in (1, 2))
    assert not np.array_equal(rows(one), rows(other))
