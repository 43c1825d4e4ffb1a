"""Nodes of every region, from the cities of the world or from a matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tidings.errors import InputError
from tidings.workload import places
from tidings.workload.embedding import distances
from tidings.workload.regions import REGIONS
from tidings.workload.spec import Network


@pytest.fixture
def matrix(tmp_path: Path) -> str:
    """Three clusters of three nodes, far from each other."""
    centres = np.repeat([0.0, 100.0, 300.0], 3)
    points = np.stack([centres + np.tile([0.0, 4.0, 9.0], 3), np.tile([0.0, 5.0, 2.0], 3)], axis=1)
    path = tmp_path / "rtt.csv"
    np.savetxt(path, distances(points[:, None], points[None, :]), delimiter=",", fmt="%.4f")
    return str(path)


def placed(folder: Path, *rows: str) -> str:
    path = folder / "places.csv"
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_the_default_has_cities_in_every_region() -> None:
    found = places.nodes(Network(nodes=120), REGIONS)
    counts = np.bincount(found.region, minlength=len(REGIONS))
    assert counts.sum() == 120
    assert counts.min() >= places.LEAST
    assert counts.argmax() == REGIONS.index("Asia")
    assert "Tokyo, JP" in found.names
    assert found.points.shape == (120, 5)
    assert (found.weight > 100_000).all()
    assert found.error < 0.1


def test_far_cities_are_far() -> None:
    found = places.nodes(Network(nodes=120), REGIONS)
    at = {name: found.points[number] for number, name in enumerate(found.names)}
    near = distances(at["London, GB"], at["Berlin, DE"])
    assert (
        near
        < distances(at["London, GB"], at["New York City, US"])
        < distances(at["London, GB"], at["Sydney, AU"])
    )


def test_few_nodes_are_dealt_to_all_regions() -> None:
    found = places.nodes(Network(nodes=9), REGIONS)
    assert sorted(np.bincount(found.region).tolist()) == [1] * 7 + [2]


def test_countries_can_be_regions() -> None:
    found = places.nodes(Network(nodes=14), ("FR", "Europe"))
    countries = [name[-2:] for name in found.names]
    assert {country for country, region in zip(countries, found.region, strict=True) if region == 0} == {"FR"}
    assert "FR" not in {country for country, region in zip(countries, found.region, strict=True) if region}


def test_a_region_of_few_cities_leaves_its_share_to_others() -> None:
    found = places.nodes(Network(nodes=50), ("MC", "DE"))
    counts = np.bincount(found.region)
    assert counts.sum() == 50
    assert 1 <= counts[0] < 6


def test_a_region_without_cities_is_named() -> None:
    with pytest.raises(InputError, match=r"no network position lies in 'Moon', 'Mars'"):
        places.nodes(Network(), ("Asia", "Moon", "Mars"))


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(InputError, match=r"network.nodes is 6; 8 regions"):
        places.nodes(Network(nodes=6), REGIONS)


def test_places_say_the_region(tmp_path: Path, matrix: str) -> None:
    rows = [f"n{node},{region},{node}" for node, region in enumerate("aaabbbccc")]
    found = places.nodes(
        Network(latency=matrix, places=placed(tmp_path, "name,region,lon", *rows)), ("c", "a")
    )
    assert found.names == ("n0", "n1", "n2", "n6", "n7", "n8")
    assert found.region.tolist() == [1, 1, 1, 0, 0, 0]
    assert found.longitude.tolist() == [0, 1, 2, 6, 7, 8]
    assert found.weight.tolist() == [1] * 6
    assert found.error < 0.01


def test_places_may_give_countries_instead(tmp_path: Path, matrix: str) -> None:
    countries = ["FR", "fr", "Germany", "US", "US", "US", "JP", "CN", "japan"]
    rows = [f"{node},{country}" for node, country in enumerate(countries)]
    network = Network(latency=matrix, places=placed(tmp_path, "id,country", *rows))
    assert places.nodes(network, ("Asia", "Europe", "US")).region.tolist() == [1, 1, 1, 2, 2, 2, 0, 0, 0]


def test_a_region_without_places_is_named(tmp_path: Path, matrix: str) -> None:
    network = Network(latency=matrix, places=placed(tmp_path, "region", *"aaabbbccc"))
    with pytest.raises(InputError, match=r"no network position lies in 'd'.* has 'a', 'b', 'c'"):
        places.nodes(network, ("a", "d"))


def test_an_unknown_country_is_refused(tmp_path: Path, matrix: str) -> None:
    network = Network(latency=matrix, places=placed(tmp_path, "iso2", *["FR"] * 8, "Atlantis"))
    with pytest.raises(InputError, match=r"row 10 is in 'Atlantis'"):
        places.nodes(network, ("Europe",))


def test_without_places_neighbours_are_of_one_region(matrix: str) -> None:
    found = places.nodes(Network(latency=matrix), ("x", "y", "z"))
    assert [set(found.region[k : k + 3]) for k in (0, 3, 6)] in ([{0}, {1}, {2}], [{2}, {1}, {0}])
    assert found.names[:2] == ("0", "1")


def test_a_matrix_smaller_than_the_regions_is_refused(matrix: str) -> None:
    with pytest.raises(InputError, match=r"'r9', 'r10' would have no position"):
        places.nodes(Network(latency=matrix), [f"r{number}" for number in range(11)])


def test_places_without_a_matrix_are_refused() -> None:
    with pytest.raises(InputError, match=r"network.latency is empty"):
        places.nodes(Network(places="places.csv"), REGIONS)
