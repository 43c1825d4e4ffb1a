"""How many members and messages each base interest has in each region: a model, fitted to the paper's data.

Popularity: the interest at rank r has members in proportion to (r + shift) ** -exponent (§4.1, figure 3).
Which interest is at which rank is decided by how attractive it is: the weights of its leaves, one for each
dimension, times noise. Where its members are is decided by its language: its speakers in each region, times
how readily people there join (§3.1, figures 1 and 2). Topics have no region of their own. The fit and what is
assumed: docs/workload.md.

A dimension is one of languages if it is called `language` or CLDR knows most of its leaves; any other is one
of topics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.workload import hashing, rounding, speakers
from tidings.workload import regions as world
from tidings.workload.spec import LANGUAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.workload.hierarchies import Hierarchy
    from tidings.workload.spec import Counts

HOT_TOPICS = ("business services", "small business", "consulting")
"""The most popular topics of the paper's data, in this order (§4.1)."""

HOT_LANGUAGE = "English"
"""Theirs; also the language that people have in common who have no other."""

ADOPTION = {
    world.US: 1.0,
    world.CANADA: 0.9,
    world.OCEANIA: 0.8,
    world.EUROPE: 0.6,
    world.LATIN_AMERICA: 0.15,
    world.MIDDLE_EAST: 0.15,
    world.ASIA: 0.08,
    world.AFRICA: 0.01,
}
"""How readily a speaker joins, against one in the US. Fitted to the regions' shares in figures 1, 2 and 4."""

COMMON_ADOPTION = 0.5
"""The power of a region's adoption that holds for speakers of `HOT_LANGUAGE`: where few join, those who
know it do so more often. It is why more of Asia's members than of Europe's have a very popular interest."""

ABROAD = 0.1
"""How much a speaker counts where the language is not official: people join in the languages of the place."""

TOPIC_EXPONENT = 1.5
TOPIC_SHIFT = 10.0
"""The topic at rank r has weight (r + shift) ** -exponent, in every language."""

INTEREST_NOISE = 0.5
REGION_NOISE = 0.5
"""An interest's attractiveness, and its share of each region, are off by at most e to this power."""

MESSAGES_EACH = 2.0
MESSAGES_POWER = 0.9
MESSAGES_NOISE = 1.0
"""n members post about 2 n ** 0.9 messages in a month: in large groups a member says less; noise as above."""

CELLS_MAX = 50_000_000
"""Places of a base array; one of them takes 400 MB."""

_TABLE = "counts"
"""What random numbers are drawn for."""


def shape(dimensions: Sequence[Hierarchy], regions: Sequence[str]) -> tuple[int, ...]:
    """That of a base array, if it fits into memory."""
    found = (*(len(dimension.leaves) for dimension in dimensions), len(regions))
    if (cells := math.prod(found)) > CELLS_MAX:
        raise InputError(
            f"the dimensions' leaves and the regions make {cells:,} combinations; at most {CELLS_MAX:,}, so "
            "give smaller hierarchies"
        )
    return found


def model(
    counts: Counts, seed: int, dimensions: Sequence[Hierarchy], regions: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Members and messages in a month, as base arrays; the members are `counts.total` to the unit."""
    *interests, _ = shape(dimensions, regions)
    codes = [_codes(dimension) for dimension in dimensions]
    joining = [None if one is None else _joining(one, regions) for one in codes]
    popularity = np.empty(math.prod(interests), np.int64)
    popularity[_order(dimensions, joining, seed)] = _ranked(counts, len(popularity))
    shares = _shares(interests, joining, regions, seed)
    members = _shared(popularity, shares).reshape(*interests, len(regions))
    return members, _messages(members, seed)


def _ranked(counts: Counts, interests: int) -> NDArray[np.int64]:
    """Members of the interest at each rank."""
    falling = (np.arange(1, interests + 1) + counts.shift) ** -counts.exponent
    parts = falling * (counts.total / falling.sum())
    return rounding.whole(parts[:, None], np.asarray([counts.total]))[:, 0]


def _order(
    dimensions: Sequence[Hierarchy], joining: Sequence[NDArray[np.float64] | None], seed: int
) -> NDArray[np.int64]:
    """The places of all interests, the most attractive first."""
    attractive = np.ones(1)
    for dimension, speaking in zip(dimensions, joining, strict=True):
        weights = _topic_weights(dimension, seed) if speaking is None else speaking.sum(axis=1)
        attractive = np.multiply.outer(attractive, weights).reshape(-1)
    attractive *= _noise(seed, "interest", attractive.size, INTEREST_NOISE)
    for behind, place in enumerate(_hot(dimensions)):
        attractive[place] = np.finfo(np.float64).max / 2.0**behind
    return np.argsort(-attractive, kind="stable")


def _topic_weights(dimension: Hierarchy, seed: int) -> NDArray[np.float64]:
    """Of the leaves: the hot ones are first, the others fall in by hash."""
    names = [dimension.nodes[leaf] for leaf in dimension.leaves]
    drawn = hashing.fraction(hashing.draw(_key(seed, f"topic {dimension.name}"), np.arange(len(names))))
    for behind, name in enumerate(HOT_TOPICS):
        if name in names:
            drawn[names.index(name)] = behind - len(HOT_TOPICS)
    weights = np.empty(len(names))
    weights[np.argsort(drawn, kind="stable")] = (
        np.arange(1, len(names) + 1) + TOPIC_SHIFT
    ) ** -TOPIC_EXPONENT
    return weights


def _hot(dimensions: Sequence[Hierarchy]) -> list[int]:
    """The places of the paper's top three, if the dimensions are such that there are any."""
    places: list[int] = []
    for topic in HOT_TOPICS:
        place = 0
        for dimension in dimensions:
            names = [dimension.nodes[leaf] for leaf in dimension.leaves]
            named = [names.index(name) for name in (topic, HOT_LANGUAGE) if name in names]
            if len(named) != 1:
                return []
            place = place * len(names) + named[0]
        places.append(place)
    return places


def _codes(dimension: Hierarchy) -> list[str | None] | None:
    """The languages of a dimension's leaves; None if it is one of topics."""
    found = [speakers.code(dimension.nodes[leaf]) for leaf in dimension.leaves]
    known = sum(code is not None for code in found)
    return found if dimension.name == LANGUAGE.name or known * 2 > len(found) else None


def _joining(codes: Sequence[str | None], regions: Sequence[str]) -> NDArray[np.float64]:
    """How many speakers of each language join in each region, up to a factor."""
    spoken = speakers.speakers(codes, regions, home=True)
    spoken += ABROAD * speakers.speakers(codes, regions, home=False)
    adoption = np.asarray([ADOPTION[region] for region in regions])
    common = np.asarray([code == speakers.code(HOT_LANGUAGE) for code in codes])
    found = spoken * np.where(common[:, None], adoption**COMMON_ADOPTION, adoption)
    # A language without speakers in these regions is the least of all, and its few members are everywhere.
    nobody = found.sum(axis=1) == 0.0
    least = found[~nobody].sum(axis=1).min(initial=1.0) / 2.0
    everywhere = speakers.people(regions) * adoption
    found[nobody] = least * everywhere / everywhere.sum()
    return found


def _shares(
    interests: Sequence[int],
    joining: Sequence[NDArray[np.float64] | None],
    regions: Sequence[str],
    seed: int,
) -> NDArray[np.float64]:
    """Of every interest the share of each region."""
    spoken = [speaking is not None for speaking in joining]
    shares = np.ones((*interests, len(regions)))
    for axis, speaking in enumerate(joining):
        if speaking is not None:
            along = [1] * len(interests) + [len(regions)]
            along[axis] = interests[axis]
            shares *= (speaking / speaking.sum(axis=1, keepdims=True)).reshape(along)
    if not any(spoken):
        shares *= speakers.people(regions) * [ADOPTION[region] for region in regions]
    shares = shares.reshape(-1, len(regions))
    shares = shares * _noise(seed, "region", shares.size, REGION_NOISE).reshape(shares.shape)
    # Of two languages that no region has both of, the members are anywhere.
    shares[shares.sum(axis=1) == 0.0] = 1.0
    normal: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return normal


def _shared(popularity: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each interest's members by region, by largest remainder: its total holds to the unit."""
    parts = shares * popularity[:, None]
    members = np.floor(parts).astype(np.int64)
    missing = popularity - members.sum(axis=1)
    order = np.argsort(members - parts, axis=1, kind="stable")
    members += np.argsort(order, axis=1, kind="stable") < missing[:, None]
    return members


def _messages(members: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    noise = _noise(seed, "messages", members.size, MESSAGES_NOISE).reshape(members.shape)
    # Rounded, so that the last bit of a power is nobody's business.
    messages: NDArray[np.float64] = np.round(
        MESSAGES_EACH * members.astype(np.float64) ** MESSAGES_POWER * noise, 3
    )
    return messages


def _noise(seed: int, column: str, count: int, reach: float) -> NDArray[np.float64]:
    drawn = hashing.fraction(hashing.draw(_key(seed, column), np.arange(count)))
    return np.exp(reach * (2.0 * drawn - 1.0))


def _key(seed: int, column: str) -> int:
    return hashing.key(seed, _TABLE, column)
