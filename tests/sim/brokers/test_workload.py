"""Workloads: the numbers asked for come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.language import subscriptions as language
from tidings.planning import topologies
from tidings.sim.brokers import workload
from tidings.sim.brokers.promises import fields_of, wants
from tidings.sim.brokers.workload import Workload

TOPOLOGY = topologies.path(5)


def matches(shape: Workload) -> float:
    """Subscriptions that a publication satisfies, on average."""
    asked = [one.subscription for one in workload.subscribers(shape, TOPOLOGY, 1)]
    found = 0
    for one in workload.publications(shape, TOPOLOGY, 1):
        fields = fields_of(one.payload)
        found += sum(wants(subscription, one.topic, fields) for subscription in asked)
    return found / shape.publications


@pytest.mark.parametrize("wildcards", [0.0, 0.5])
def test_a_publication_matches_as_many_subscriptions_as_asked_for(wildcards: float) -> None:
    shape = Workload(topics=10, subscriptions=500, publications=400, matching=10, wildcards=wildcards)
    assert matches(shape) == pytest.approx(10, rel=0.15)


def test_every_subscription_can_be_understood_and_every_payload_differs() -> None:
    shape = Workload(wildcards=0.5, popularity=1.0, publications=200)
    for one in workload.subscribers(shape, TOPOLOGY, 2):
        language.check(one.subscription)
    made = list(workload.publications(shape, TOPOLOGY, 2))
    assert len({one.payload for one in made}) == 200
    assert all(len(one.payload) >= shape.payload_bytes for one in made)


def test_publications_come_at_their_rate_and_in_order() -> None:
    shape = Workload(publications=2_000, rate_per_s=50.0)
    times = [one.after for one in workload.publications(shape, TOPOLOGY, 1)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(40.0, rel=0.1)


def test_popular_topics_are_published_to_more_often() -> None:
    shape = Workload(topics=50, publications=2_000, popularity=1.2)
    topics = [one.topic for one in workload.publications(shape, TOPOLOGY, 1)]
    assert topics.count(workload.topic_name(0)) > 5 * topics.count(workload.topic_name(20))


def test_a_seed_decides_the_workload() -> None:
    shape = Workload()
    assert workload.subscribers(shape, TOPOLOGY, 1) == workload.subscribers(shape, TOPOLOGY, 1)
    assert workload.subscribers(shape, TOPOLOGY, 1) != workload.subscribers(shape, TOPOLOGY, 2)


def test_a_file_says_the_numbers(tmp_path: Path) -> None:
    file = tmp_path / "work.toml"
    file.write_text("topics = 3\nmatching = 2\n", encoding="utf-8")
    assert workload.read(str(file)) == Workload(topics=3, matching=2)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("topics = 0\nrate = 3\nqos = 7\n", ["topics is 0", "'rate' is not known", "qos is 7; give 0, 1, 2"]),
        ("durable = 2", ["durable is 2; give a share from 0 to 1"]),
        ("topics = 1.5", ["topics is 1.5"]),
        ("topics = true", ["topics is True"]),
        ("topics", ["is not TOML"]),
    ],
)
def test_all_that_is_wrong_with_a_workload_is_said_at_once(
    tmp_path: Path, text: str, reasons: list[str]
) -> None:
    file = tmp_path / "work.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        workload.read(str(file))
    for reason in reasons:
        assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["uniformly", "not/there.toml"])
def test_a_workload_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InputError, match=r"is unknown; there are uniform|cannot be read"):
        workload.read(name)
