"""Speakers of languages, from CLDR and GeoNames."""

from __future__ import annotations

import pytest

from tidings.workload import regions, speakers


@pytest.mark.parametrize(
    ("name", "code"), [("Korean", "ko"), ("korean", "ko"), ("ko", "ko"), ("chess", None)]
)
def test_a_language_has_its_english_name_or_its_code(name: str, code: str | None) -> None:
    assert speakers.code(name) == code


def test_most_speakers_of_korean_at_home_are_in_asia() -> None:
    (home,) = speakers.speakers(["ko"], regions.REGIONS, home=True)
    assert 60e6 < home[regions.REGIONS.index(regions.ASIA)] < 100e6
    assert home.sum() == home[regions.REGIONS.index(regions.ASIA)]


def test_speakers_abroad_are_where_the_language_is_not_official() -> None:
    (abroad,) = speakers.speakers(["de"], (regions.US,), home=False)
    assert abroad[0] > 100_000
    assert not speakers.speakers(["de"], (regions.US,), home=True).any()


def test_scripts_of_a_language_are_counted_once() -> None:
    (serbian,) = speakers.speakers(["sr"], (regions.EUROPE,), home=True)
    assert 5e6 < serbian[0] < 12e6


def test_people_are_those_of_the_regions_asked_for() -> None:
    us, asia = speakers.people((regions.US, regions.ASIA))
    assert 300e6 < us < 400e6
    assert asia > 3e9
