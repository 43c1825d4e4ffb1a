"""The small workload of the opening: that it is worth showing, and that its end can be known beforehand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidings.demo import roads
from tidings.demo.roads import BROKERS, LINKS, SECONDS, SUBSCRIBERS, TOPICS, Fate, Known

SEEDS = [0, 1, 20261116]


def test_a_seed_is_a_workload() -> None:
    assert roads.reports(1) == roads.reports(1)
    assert roads.reports(1) != roads.reports(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_known_in_the_end_does_not_depend_on_the_order(seed: int) -> None:
    said = roads.reports(seed)
    other = random.Random(seed).sample(said, len(said))
    assert roads.finals(other) == roads.finals(said)


@pytest.mark.parametrize("seed", SEEDS)
def test_some_hundred_reports_become_a_few_events(seed: int) -> None:
    said = roads.reports(seed)
    assert 100 <= len(said) <= 200
    assert len(roads.finals(said)) == len(roads.HAPPENINGS)
    known: dict[str, Known] = {}
    fates = Counter(known.setdefault(one.place, Known()).take(one.fields) for one in said)
    assert fates[Fate.OPENS] == len(roads.HAPPENINGS)
    assert fates[Fate.DROPPED] > len(said) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_news_after_the_half(seed: int) -> None:
    said = roads.reports(seed)
    earlier = [one for one in said if one.at_s < SECONDS / 2]
    for topic in TOPICS:
        before = {place: known for place, known in roads.finals(earlier).items() if place[0] == topic}
        after = {place: known for place, known in roads.finals(said).items() if place[0] == topic}
        assert before
        assert before != after


@pytest.mark.parametrize("seed", SEEDS)
def test_everybody_asks_for_something_that_happens(seed: int) -> None:
    finals = roads.finals(roads.reports(seed))
    for one in SUBSCRIBERS:
        assert any(one.wants(topic, known) for (topic, _), known in finals.items()), one
    assert (
        sum(all(one.wants(topic, known) for (topic, _), known in finals.items()) for one in SUBSCRIBERS) == 1
    )


def test_all_brokers_have_somebody_to_serve() -> None:
    assert {one.broker for one in SUBSCRIBERS} == set(BROKERS)
    assert {one.broker for one in roads.reports(0)} == set(BROKERS)


@pytest.mark.parametrize("dead", BROKERS)
def test_the_others_reach_each_other_whichever_broker_dies(dead: str) -> None:
    left = [one for one in BROKERS if one != dead]
    reached = {left[0]}
    for _ in left:
        reached |= {end for link in LINKS if dead not in link and reached & set(link) for end in link}
    assert reached == set(left)


def test_reports_fit_their_declarations() -> None:
    declared = roads.topics()
    for report in roads.reports(0):
        names = {path[0] for path in declared[report.topic].fields}
        assert report.fields.keys() <= names
    for topic in declared.values():
        policies = {path[0]: field.conflict for path, field in topic.fields.items()}
        assert {name for name, policy in policies.items() if policy == "max"} == set(roads.GREATEST)
