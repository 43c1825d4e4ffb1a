"""Arrivals: Poisson counts whose means follow the sun, epochs and flash crowds, with totals kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.workload import models
from tidings.errors import InputError
from tidings.workload import arrivals
from tidings.workload.model import Model

DAY_US = 86_400_000_000
HOUR_US = DAY_US // 24


def busy(events: int = 200_000, **changes: Any) -> Model:
    return models.tiny(2, sizes={"events": events}, events=changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"diurnal": 0.0},
        {"diurnal": 1.0},
        {"flashes": 7, "flash_share": 0.3},
        {"drift": 0.8, "epoch_us": HOUR_US},
        {"cell_us": 7 * HOUR_US, "flashes": 3},
    ],
)
def test_as_many_events_are_expected_as_asked_for(changes: dict[str, Any]) -> None:
    assert arrivals.draw(busy(**changes)).mean.sum() == pytest.approx(200_000, rel=1e-12)


def test_no_events_are_no_pieces() -> None:
    found = arrivals.draw(busy(0, flashes=5, drift=1.0))
    assert len(found.count) == 0


def test_numbers_are_dense_and_in_the_order_of_time() -> None:
    found = arrivals.draw(busy(flashes=5))
    assert found.first[0] == 0
    np.testing.assert_array_equal(found.first[1:], (found.first + found.count)[:-1])
    assert (np.diff(found.start_us) >= 0).all()


def test_pieces_lie_within_the_workload() -> None:
    model = busy(flashes=20, cell_us=7 * HOUR_US)
    found = arrivals.draw(model)
    assert found.start_us.min() == model.start_us
    assert (found.start_us + found.length_us).max() == model.start_us + DAY_US
    assert found.length_us.min() > 0


def test_counts_have_the_law_of_poisson() -> None:
    """By the index of dispersion: squares of deviations over means are a chi-square with as many degrees."""
    found = arrivals.draw(busy(cell_us=60_000_000))
    assert len(found.count) == 1440 * 3
    deviation = found.count - found.mean
    assert abs(deviation.sum()) < 5 * np.sqrt(found.mean.sum())
    dispersion = (deviation**2 / found.mean).sum()
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], len(found.count))
    assert low < dispersion < high


def test_rare_events_have_the_law_of_poisson() -> None:
    found = arrivals.draw(busy(3_000, diurnal=0.0))
    for count in range(4):
        expected = stats.poisson.pmf(count, found.mean).sum()
        assert abs((found.count == count).sum() - expected) < 5 * np.sqrt(expected)


def test_counts_of_neighbours_have_nothing_to_do_with_each_other() -> None:
    found = arrivals.draw(busy(diurnal=0.0))
    scaled = (found.count - found.mean) / np.sqrt(found.mean)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(scaled[lag:], scaled[:-lag])[0, 1]) < 5 / np.sqrt(len(scaled))


def test_a_cell_that_is_counted_otherwise_leaves_the_others_alone() -> None:
    longer = models.tiny(2, time={"duration_us": 2 * DAY_US}, sizes={"events": 4_000})
    day = models.tiny(2, sizes={"events": 2_000})
    one, two = arrivals.draw(day), arrivals.draw(longer)
    np.testing.assert_allclose(two.mean[: len(one.mean)], one.mean)
    np.testing.assert_array_equal(two.count[: len(one.count)], one.count)


# The sun


def test_over_a_day_each_region_has_its_own_rate() -> None:
    model = busy(diurnal=1.0)
    hours = model.start_us + np.arange(24) * HOUR_US
    light = arrivals.daylight(model, hours, hours + HOUR_US)
    np.testing.assert_allclose(light.mean(axis=0), 1.0, rtol=1e-12)
    found = arrivals.draw(model)
    by_region = np.bincount(found.region, found.mean, 3)
    given = arrivals.rates(model).sum(axis=0)
    np.testing.assert_allclose(by_region, 200_000 * given / given.sum(), rtol=1e-9)


def test_a_region_is_busiest_in_its_own_afternoon() -> None:
    model = busy(diurnal=0.6)
    minutes = model.start_us + np.arange(1440) * 60_000_000
    light = arrivals.daylight(model, minutes, minutes + 60_000_000)
    for region in range(3):
        mine = model.nodes.region == region
        east = np.average(model.nodes.longitude[mine], weights=model.nodes.weight[mine])
        peak = (15 - east / 15) % 24
        # The mean of two cosines is not quite the cosine of the mean.
        assert light[:, region].argmax() / 60 == pytest.approx(peak, abs=0.3)
        assert light[:, region].argmin() / 60 == pytest.approx((peak + 12) % 24, abs=0.3)
        # Two places at different longitudes are never dark at once.
        assert 0.4 < light[:, region].min() < 0.45


def test_where_nothing_follows_the_sun_the_rate_is_even() -> None:
    model = busy(diurnal=0.0)
    hours = model.start_us + np.arange(24) * HOUR_US
    assert (arrivals.daylight(model, hours, hours + HOUR_US) == 1.0).all()


def test_at_one_place_all_is_silent_at_night_if_everything_follows_the_sun() -> None:
    model = busy(diurnal=1.0)
    model = replace(model, nodes=replace(model.nodes, longitude=np.zeros(6)))
    three = np.array([model.start_us + 3 * HOUR_US])
    assert arrivals.daylight(model, three, three + 1)[0] == pytest.approx(np.zeros(3), abs=1e-9)
    assert (arrivals.draw(model).mean >= 0).all()


# Drift


def test_drift_keeps_the_total_of_each_region_in_each_epoch() -> None:
    model = busy(drift=1.5, epoch_us=HOUR_US)
    found = arrivals.drifted(model)
    assert found.shape == (24, 40, 3)
    np.testing.assert_allclose(
        found.sum(axis=1), np.tile(arrivals.rates(model).sum(axis=0), (24, 1)), rtol=1e-12
    )


def test_drift_begins_as_given_and_changes_from_epoch_to_epoch() -> None:
    model = busy(drift=0.5, epoch_us=HOUR_US)
    found = arrivals.drifted(model)
    np.testing.assert_allclose(found[0], arrivals.rates(model), rtol=1e-12)
    active = found[0, :, 0] > 0
    steps = np.diff(np.log(found[:, active, 0]), axis=0)
    # Each epoch changes the logarithm by so much, apart from what is forgotten and what keeps the total.
    assert steps.std() == pytest.approx(0.5, rel=0.15)
    assert (found[:, arrivals.rates(model) == 0] == 0).all()


def test_drift_that_is_not_asked_for_needs_no_epochs() -> None:
    assert arrivals.epochs(busy(epoch_us=0)) == 1


# Flash crowds


def test_flash_crowds_have_their_share_and_their_time() -> None:
    model = busy(flashes=6, flash_share=0.25, flash_length_us=HOUR_US)
    found, flash = arrivals.draw(model), arrivals.flashes(model)
    mine = found.table >= 3
    assert found.mean[mine].sum() == pytest.approx(50_000)
    assert found.mean[~mine].sum() == pytest.approx(150_000)
    for number in range(6):
        pieces = found.table == 3 + number
        start = model.start_us + flash.start_us[number]
        assert found.start_us[pieces].min() == start
        assert (found.start_us + found.length_us)[pieces].max() == start + HOUR_US
        assert (found.region[pieces] == flash.region[number]).all()
        assert found.mean[pieces].sum() == pytest.approx(50_000 / 6)
        assert found.count[pieces].sum() == pytest.approx(50_000 / 6, abs=5 * np.sqrt(50_000 / 6))


def test_a_flash_crowd_comes_at_once_and_goes_slowly() -> None:
    found = arrivals.draw(busy(flashes=1, flash_length_us=HOUR_US))
    pieces = found.table == 3
    rate = found.mean[pieces] / found.length_us[pieces]
    assert (np.diff(rate) < 0).all()
    assert rate[0] == pytest.approx(2 * found.mean[pieces].sum() / HOUR_US, rel=0.02)


def test_a_flash_crowd_is_about_an_interest_that_its_region_has() -> None:
    model = busy(flashes=200)
    flash, weights = arrivals.flashes(model), arrivals.weights(model)
    assert (arrivals.rates(model)[flash.interest, flash.region] > 0).all()
    assert len(np.unique(flash.interest)) > 30
    np.testing.assert_array_equal(weights.count[3:], 1)
    np.testing.assert_array_equal(weights.interest[weights.first[3:]], flash.interest)


def test_a_flash_crowd_longer_than_the_workload_fills_it() -> None:
    model = busy(flashes=2, flash_length_us=30 * DAY_US)
    found = arrivals.draw(model)
    assert (found.start_us + found.length_us).max() == model.start_us + DAY_US
    assert found.mean.sum() == pytest.approx(200_000)


# Weights


def test_weights_give_each_interest_its_rate() -> None:
    model = busy(drift=0.7, epoch_us=6 * HOUR_US)
    weights, given = arrivals.weights(model), arrivals.drifted(model)
    for table, (epoch, region) in enumerate(np.ndindex(4, 3)):
        slots = slice(int(weights.first[table]), int(weights.first[table] + weights.count[table]))
        found = np.zeros(40)
        np.add.at(found, weights.interest[slots], weights.cut[slots])
        np.add.at(found, weights.other[slots], 1 - weights.cut[slots])
        expected = given[epoch, :, region] / given[epoch, :, region].sum()
        np.testing.assert_allclose(found / weights.count[table], expected, atol=1e-12)


# Bad input


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"events": {"cell_us": 1}}, r"cells of time .* at most 2,000,000: make events.cell longer"),
        ({"events": {"cell_us": 0}}, r"events.cell is 0"),
        ({"time": {"duration_us": 0}}, r"time.duration is 0"),
        ({"events": {"flashes": 3, "flash_length_us": 0}}, r"events.flash_length is 0"),
        ({"events": {"drift": 1.0, "epoch_us": 0}}, r"events.epoch is 0"),
        (
            {"events": {"flashes": 100_000, "cell_us": 10_000_000}},
            r"12,\d+,\d+ cells of time by region and flash",
        ),
    ],
)
def test_what_cannot_be_drawn_is_said_with_the_way_out(sections: dict[str, Any], says: str) -> None:
    model = models.tiny(2, **sections)
    with pytest.raises(InputError, match=says):
        arrivals.draw(model)


def test_epochs_without_end_are_refused_with_the_way_out() -> None:
    model = models.tiny(2, events={"drift": 1.0, "epoch_us": 1_000_000})
    with pytest.raises(InputError, match=r"86,400 epochs .* at most 4,000,000: make events.epoch longer"):
        arrivals.weights(model)


def test_events_without_messages_are_refused_and_none_are_not() -> None:
    model = models.tiny(2)
    silent = replace(model, messages=np.zeros_like(model.messages))
    with pytest.raises(InputError, match=r"sizes.events is 2,000, but no interest has messages"):
        arrivals.draw(silent)
    nothing = replace(silent, spec=replace(model.spec, sizes=replace(model.spec.sizes, events=0)))
    assert len(arrivals.draw(nothing).count) == 0
    assert len(arrivals.weights(nothing).cut) == 0
