"""The city: its spec is one that the generator takes, and what is read of it can be checked."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from tidings.demo import city
from tidings.demo.sizes import SIZES
from tidings.language.declarations import read_topic
from tidings.language.fields import Conflict
from tidings.language.topics import StaysOpen
from tidings.workload import declarations
from tidings.workload.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    return city.model(SIZES["large"], seed=1)


def test_the_spec_is_in_the_package_with_all_that_it_names() -> None:
    found = {one.name for one in (resources.files("tidings.demo") / "athens").iterdir()}
    assert found == {"city.toml", "counts.csv", "latency.csv", "places.csv"}


def test_each_incident_and_each_district_is_one_number(model: Model) -> None:
    words = city.words(model)
    assert list(words) == ["incident", "district"]
    for one in words.values():
        assert one.lows == one.highs
        assert [one.of(number) for number in one.lows] == list(one.names)


def test_a_number_that_stands_for_nothing_has_a_question_mark(model: Model) -> None:
    words = city.words(model)["incident"]
    assert words.of(words.lows[1] + 1) in (f"{words.names[1]}?", f"{words.names[2]}?")


def test_each_kind_of_incident_is_a_topic(model: Model) -> None:
    kinds = ("traffic", "transit", "weather", "power", "health", "streets")
    assert list(dict.fromkeys(model.topics[1:])) == [f"incident/{kind}" for kind in kinds]


def test_brokers_are_called_by_the_districts_in_which_they_stand(model: Model) -> None:
    places = city.placed(model)
    assert len({place.id for place in places}) == len(places) == SIZES["large"].brokers
    assert {place.region for place in places} == set(model.regions)
    districts = {name.lower().replace(" ", "-") for name in city.words(model)["district"].names}
    assert {place.id for place in places} <= districts
    assert all(23.5 < place.x < 24 and 37.8 < place.y < 38.2 for place in places)


def test_some_want_more_than_one_incident_in_one_district(model: Model) -> None:
    asked = model.allocated.sum(axis=-1)
    assert asked[0].sum() > 0, "whatever happens"
    assert asked[:, 0].sum() > 0, "wherever it happens"
    assert asked[1:, 1:].sum() > asked[0].sum() + asked[:, 0].sum()


def test_what_happens_in_a_district_is_told_in_its_region(model: Model) -> None:
    district = model.dimensions[1]
    for place, leaf in enumerate(district.leaves):
        region = model.regions.index(district.nodes[district.tops[leaf]])
        told = model.messages[:, place, :].sum(axis=0)
        assert told[region] > 0
        assert np.delete(told, region).sum() == 0


def test_timings_are_divided_by_the_speed_up_and_majorities_decide(model: Model, tmp_path: Path) -> None:
    (tmp_path / "topic.toml").write_text(declarations.texts(model)["incident-traffic.toml"])
    had = read_topic(tmp_path / "topic.toml")
    topic = city.declared(had, speed_up=1_000.0)
    assert topic.gathering is not None
    assert had.gathering is not None
    assert topic.gathering.merge_after_us == city.MERGE_AFTER_US // 1000
    assert topic.gathering.stays_open is StaysOpen.REPORTED
    assert topic.keep_us == had.keep_us
    policies = {field.path[0]: field.conflict for field in topic.fields.values()}
    assert policies.pop("story") is Conflict.FIRST
    assert set(policies.values()) == {Conflict.MAJORITY}


def test_an_event_stays_open_long_enough_for_a_machine_that_is_late(model: Model) -> None:
    topic = declarations.declared(model, "incident/traffic")
    quick, slow = city.declared(topic, 1e6).gathering, city.declared(topic, 1.0).gathering
    assert quick is not None
    assert slow is not None
    assert topic.gathering is not None
    assert quick.redundant_for_us == city.REDUNDANT_FOR_US_MIN
    assert slow.redundant_for_us == topic.gathering.redundant_for_us


def test_declarations_are_written_as_brokers_read_them(model: Model, tmp_path: Path) -> None:
    topic = city.declared(declarations.declared(model, "incident/power"), 1_440.0)
    (file,) = city.write_declarations([topic], tmp_path / "topics")
    assert read_topic(file) == topic


def test_an_event_ends_as_the_truth_as_far_as_it_is_told() -> None:
    truth = {"story": 1, "incident": 4, "severity": 2}
    assert city.settled(truth, [{"story": 1, "severity": 2}, {"story": 1}]) == {"story": 1, "severity": 2}


def test_what_most_reports_say_outvotes_what_is_wrong() -> None:
    said = [{"severity": 3}, {"severity": 2}, {"severity": 2}, {"severity": 1}]
    assert city.settled({"severity": 2}, said) == {"severity": 2}


@pytest.mark.parametrize("said", [[3], [2, 3], [3, 2], [2, 3, 3], [2, 2, 3, 3]])
def test_an_event_of_which_nobody_could_know_the_truth_is_left_out(said: list[int]) -> None:
    assert city.settled({"severity": 2}, [{"severity": value} for value in said]) is None
