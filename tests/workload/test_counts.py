"""The model of counts: every figure that the paper states of its data, for more than one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tidings.workload import counts, given, hierarchies, regions, removal, speakers
from tidings.workload.hierarchies import Hierarchy
from tidings.workload.spec import Counts, Spec

SEEDS = (1, 2, 3)
ASIA, EUROPE, US = (regions.REGIONS.index(one) for one in (regions.ASIA, regions.EUROPE, regions.US))
THREE = (ASIA, EUROPE, US)


@dataclass(frozen=True, eq=False)
class Modelled:
    subjects: Hierarchy
    languages: Hierarchy
    members: NDArray[np.int64]
    messages: NDArray[np.float64]

    @property
    def flat(self) -> NDArray[np.int64]:
        """A row for each interest, a column for each region."""
        return self.members.reshape(-1, self.members.shape[-1])

    @property
    def order(self) -> NDArray[np.int64]:
        """Interests, the most popular first."""
        return removal.ranked(self.flat.sum(axis=1))

    def name(self, interest: int) -> tuple[str, str]:
        subject, language = divmod(int(interest), len(self.languages.leaves))
        return (
            self.subjects.nodes[self.subjects.leaves[subject]],
            self.languages.nodes[self.languages.leaves[language]],
        )

    def shares(self, removed: int = 0) -> NDArray[np.float64]:
        """Of all members the share of each region, without the most popular interests."""
        left = np.delete(self.flat, self.order[:removed], axis=0).sum(axis=0).astype(np.float64)
        return np.asarray(left / left.sum(), np.float64)


@cache
def made(seed: int) -> Modelled:
    subjects, languages = (given.hierarchy(dimension) for dimension in Spec().dimensions)
    return Modelled(
        subjects, languages, *counts.model(Counts(), seed, (subjects, languages), regions.REGIONS)
    )


@pytest.fixture(params=SEEDS)
def modelled(request: pytest.FixtureRequest) -> Modelled:
    return made(request.param)


def test_there_are_268_topics_and_141_languages(modelled: Modelled) -> None:
    assert modelled.members.shape == (268, 141, len(regions.REGIONS))
    assert len(modelled.flat) == 37_788


def test_the_total_holds_to_the_unit(modelled: Modelled) -> None:
    assert modelled.members.sum() == 8_100_000


@pytest.mark.parametrize("total", [1, 999, 12_345_678])
def test_any_total_holds_to_the_unit(total: int) -> None:
    subjects, languages = (given.hierarchy(dimension) for dimension in Spec().dimensions)
    members, _ = counts.model(Counts(total=total), 1, (subjects, languages), regions.REGIONS)
    assert members.sum() == total
    assert members.min() >= 0


def test_the_top_three_are_those_of_the_paper(modelled: Modelled) -> None:
    assert [modelled.name(one) for one in modelled.order[:3]] == [
        ("business services", "English"),
        ("small business", "English"),
        ("consulting", "English"),
    ]


def test_the_top_three_have_at_least_2_to_the_18_members_each(modelled: Modelled) -> None:
    assert modelled.flat.sum(axis=1)[modelled.order[:3]].min() >= 2**18


def test_without_the_top_24_about_4_3_million_are_left(modelled: Modelled) -> None:
    left = 8_100_000 - modelled.flat.sum(axis=1)[modelled.order[:24]].sum()
    assert 4_250_000 < left < 4_350_000


def test_popularity_falls_as_the_power_law_of_ranks(modelled: Modelled) -> None:
    popularity = modelled.flat.sum(axis=1)[modelled.order]
    law = (np.arange(1, len(popularity) + 1) + 17.66) ** -1.749
    assert np.abs(popularity - law * (8_100_000 / law.sum())).max() <= 1.0


def test_popularity_is_heavily_skewed(modelled: Modelled) -> None:
    popularity = modelled.flat.sum(axis=1)[modelled.order]
    assert popularity[: len(popularity) // 100].sum() > 0.9 * popularity.sum()


def test_a_pure_power_law_meets_the_totals_only_with_a_million_members_in_one_interest() -> None:
    """Why the ranks are shifted: Zipf's law has 10 members in the least of all interests, too."""
    ranks = np.arange(1, 37_789)
    met = []
    for exponent in np.arange(0.5, 3.0, 0.01):
        parts = ranks**-exponent / (ranks**-exponent).sum() * 8_100_000
        if parts[2] >= 2**18 and 4_250_000 < parts[24:].sum() < 4_350_000:
            met.append((parts[0], parts[-1]))
    assert met
    assert all(most > 2**20 and least > 10 for most, least in met)


def test_most_interests_have_next_to_no_members(modelled: Modelled) -> None:
    assert np.median(modelled.flat.sum(axis=1)) <= 2


def test_the_us_have_few_interests_and_asia_and_europe_many(modelled: Modelled) -> None:
    asia, europe, us = (np.count_nonzero(modelled.flat[:, region]) for region in THREE)
    assert us * 5 < min(asia, europe)


def test_interests_of_the_us_are_very_popular(modelled: Modelled) -> None:
    each = [modelled.flat[:, region][modelled.flat[:, region] > 0].mean() for region in THREE]
    assert each[2] > 5 * max(each[:2])


def test_most_us_members_have_a_very_popular_interest_and_more_asians_than_europeans(
    modelled: Modelled,
) -> None:
    """The reason that the paper gives for figure 4."""
    top = modelled.flat[modelled.order[:24]].sum(axis=0) / modelled.flat.sum(axis=0)
    assert top[US] > 0.5
    assert top[US] > top[ASIA] + 0.1
    assert top[ASIA] > top[EUROPE] + 0.05


def test_asia_and_europe_have_different_interests(modelled: Modelled) -> None:
    asia, europe = (modelled.flat[:, region] > 0 for region in (ASIA, EUROPE))
    assert np.count_nonzero(asia & europe) < 0.1 * np.count_nonzero(asia | europe)
    assert np.count_nonzero(asia & europe) > 0


def test_the_three_regions_of_the_figures_have_most_members(modelled: Modelled) -> None:
    shares = modelled.shares()
    assert shares[US] > max(shares[ASIA], shares[EUROPE])
    assert min(shares[list(THREE)]) > 0.15
    assert shares[list(THREE)].sum() > 0.75


def test_removing_the_top_24_raises_the_share_of_europe_and_lowers_that_of_the_us(
    modelled: Modelled,
) -> None:
    before, after = modelled.shares(), modelled.shares(24)
    assert after[EUROPE] > before[EUROPE] + 0.05
    assert after[US] < before[US] - 0.05
    assert after[EUROPE] - before[EUROPE] > after[ASIA] - before[ASIA]


def test_the_share_of_europe_rises_gradually(modelled: Modelled) -> None:
    europe = [modelled.shares(removed)[EUROPE] for removed in range(0, 25, 4)]
    assert all(later > earlier - 0.005 for earlier, later in pairwise(europe))


def test_most_members_of_each_asian_language_are_in_asia(modelled: Modelled) -> None:
    assert most_in(modelled, "Asian languages", ASIA) == (53, 53)


def test_most_members_of_most_european_languages_are_in_europe(modelled: Modelled) -> None:
    """Not of English, Spanish and Portuguese, which most people speak elsewhere."""
    assert most_in(modelled, "European languages", EUROPE) == (46, 49)


def most_in(modelled: Modelled, family: str, region: int) -> tuple[int, int]:
    """How many languages of a family have most members in a region, and how many there are."""
    first, last = modelled.languages.leaf_ranges[modelled.languages.numbers[family]]
    speaking = modelled.members.sum(axis=0)[first:last]
    return int(np.count_nonzero(speaking[:, region] * 2 > speaking.sum(axis=1))), last - first


def test_languages_of_asia_are_left_and_those_of_europe_in_the_middle() -> None:
    languages = made(1).languages
    ranges = [languages.leaf_ranges[top] for top in languages.children[0]]
    names = [languages.nodes[top] for top in languages.children[0]]
    assert names[:2] == ["Asian languages", "European languages"]
    assert ranges[1][0] < 141 / 2 < ranges[1][1]


def test_topics_are_not_regional(modelled: Modelled) -> None:
    topics = modelled.members.sum(axis=1).astype(float)
    topics /= topics.sum(axis=0)
    for one, other in ((ASIA, EUROPE), (ASIA, US), (EUROPE, US)):
        assert np.corrcoef(topics[:, one], topics[:, other])[0, 1] > 0.85
        assert np.abs(topics[:, one] - topics[:, other]).sum() / 2 < 0.25


def test_languages_are_regional(modelled: Modelled) -> None:
    """Twice as far apart as topics are, at least."""
    far = []
    for axis in (0, 1):
        along = modelled.members.sum(axis=axis).astype(float)
        along /= along.sum(axis=0)
        far.append(np.abs(along[:, ASIA] - along[:, EUROPE]).sum() / 2)
    assert far[0] > 0.5
    assert far[0] > 2 * far[1]


def test_messages_follow_members(modelled: Modelled) -> None:
    assert np.corrcoef(modelled.members.reshape(-1), modelled.messages.reshape(-1))[0, 1] > 0.7
    assert not modelled.messages[modelled.members == 0].any()
    assert (modelled.messages[modelled.members > 0] > 0).all()


def test_a_seed_gives_the_same_counts_again() -> None:
    again = counts.model(Counts(), 1, (made(1).subjects, made(1).languages), regions.REGIONS)
    assert np.array_equal(again[0], made(1).members)
    assert np.array_equal(again[1], made(1).messages)
    assert not np.array_equal(made(1).members, made(2).members)


def test_every_bundled_language_has_speakers() -> None:
    languages = made(1).languages
    assert [name for leaf in languages.leaves if speakers.code(name := languages.nodes[leaf]) is None] == []


def test_a_region_alone_has_all_members() -> None:
    dimensions = (made(1).subjects, made(1).languages)
    members, _ = counts.model(Counts(), 1, dimensions, (regions.OCEANIA,))
    assert members.shape == (268, 141, 1)
    assert members.sum() == 8_100_000


def test_topics_without_languages_follow_the_people() -> None:
    colours = hierarchies.from_nested("colour", "all", ["red", "green", "blue"])
    members, _ = counts.model(Counts(total=1000), 1, (colours,), (regions.US, regions.AFRICA))
    assert members.sum() == 1000
    assert members[:, 0].sum() > members[:, 1].sum() > 0


def test_three_dimensions_have_counts_too() -> None:
    dimensions = (
        hierarchies.from_nested("subject", "all", ["business services", "chess", "tea"]),
        hierarchies.from_nested("language", "all", ["English", "ko", "Klingon"]),
        hierarchies.from_nested("size", "all", ["small", "large"]),
    )
    members, _ = counts.model(Counts(total=10_000), 1, dimensions, regions.REGIONS)
    assert members.shape == (3, 3, 2, 8)
    assert members.sum() == 10_000
    assert members[:, 1].sum(axis=(0, 1)).argmax() == ASIA
    assert members[:, 2].sum() > 0


@pytest.mark.parametrize(
    ("name", "leaves"), [("language", ["Korean", "x", "y"]), ("tongue", ["Korean", "ja", "x"])]
)
def test_a_dimension_of_languages_is_known_by_its_name_or_most_of_its_leaves(
    name: str, leaves: list[str]
) -> None:
    dimension = hierarchies.from_nested(name, "all", leaves)
    members, _ = counts.model(Counts(total=10_000), 1, (dimension,), regions.REGIONS)
    assert members[0, ASIA] > 0.9 * members[0].sum()
