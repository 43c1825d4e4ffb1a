"""What parts of the space bring, estimated from what others measure; and the doctests of the parts."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.peers.bench import profile
from tidings.peers.rates import Estimates, Rates, exceeds, total


@pytest.mark.parametrize("module", ["cells", "outlooks", "peer"])
def test_docstrings_are_true(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"tidings.peers.{module}"))
    assert found.attempted
    assert not found.failed


def test_all_events_are_what_publishers_publish() -> None:
    roots = [profile("p", "0", "1", bound=0.0, rates=(3.0, 4.0)), profile("q", "", bound=0.0)]
    assert total(roots, 2.0) == 9.0


def test_those_who_get_all_are_averaged_and_others_left_out() -> None:
    known = [
        profile("b", "01", bound=1.0, rates=(4.0,)),
        profile("c", "01", bound=1.0, rates=(6.0,)),
        profile("d", "01", bound=1.0, rates=(1.0,), fed=False),
        profile("e", "010", "1", bound=1.0, rates=(2.0, 9.0)),
        profile("f", "", bound=1.0, rates=(20.0,)),
    ]
    estimates = Estimates(known, 80.0)
    assert [estimates.of((one,)) for one in ("01", "010", "")] == [5.0, 2.0, 20.0]


def test_what_is_known_of_parts_is_completed_by_the_density_around() -> None:
    def estimate(one: str, measured: dict[str, float]) -> float:
        known = [profile(f"b{dz}", dz, bound=1.0, rates=(rate,)) for dz, rate in measured.items()]
        return Estimates(known, 80.0).of((one,))

    assert estimate("0", {"00": 3.0}) == 3.0 + 80.0 / 4
    assert estimate("01", {"01": 5.0, "": 100.0}) == 5.0
    assert estimate("01", {"010": 2.0, "0": 40.0}) == 2.0 + 40.0 / 4
    assert estimate("01", {"010": 2.0, "0100": 1.0}) == 2.0 + 80.0 / 8
    assert estimate("01", {}) == 20.0


def test_a_window_counts_and_begins_anew() -> None:
    counted = Rates(8)
    counted.begin(10.0)
    counted.received, counted.taken, counted.wasted = 20, 10, 5
    counted.close(14.0)
    assert (counted.received_rate, counted.taken_rate, counted.wasted_rate) == (5.0, 2.5, 1.25)
    assert counted.received == 0
    counted.close(14.0)
    assert counted.received_rate == 5.0
    counted.forget(15.0)
    assert counted.received_rate is None


def test_chance_is_not_a_violation() -> None:
    assert not exceeds(5.8, 5.0, 0.1, 100.0)
    assert exceeds(6.0, 5.0, 0.1, 100.0)
    assert exceeds(0.01, 0.0, 0.1, 100.0)
    assert not exceeds(0.0, 0.0, 0.1, 100.0)


def test_windows_together_show_what_one_hides_and_an_excess_that_is_over_is_none() -> None:
    counted = Rates(8)
    found = []
    for number, received in enumerate([28] * 8 + [18, 22], 1):
        counted.received = counted.wasted = received
        counted.close(2.0 * number)
        found.append((counted.receives_more(10.0, 0.1), counted.wastes_more(10.0, 0.1)))
    assert found == [(False, False)] * 2 + [(True, True)] * 6 + [(False, False), (True, True)]
    counted.forget(20.0)
    assert not counted.receives_more(10.0, 0.1)


def test_what_is_told_of_parts_is_the_mean_of_some_windows() -> None:
    counted = Rates(8)
    for number, taken in enumerate((8, 4), 1):
        counted.taken = taken
        counted.close(2.0 * number)
    assert (counted.by_member(("0",), lately=True), counted.by_member(("0",))) == ((3.0,), (2.0,))


def test_after_long_one_window_alone_has_to_show_twice_as_much() -> None:
    counted = Rates(8)

    def closed(number: int, received: int) -> bool:
        counted.received = received
        counted.close(4.0 * number)
        return counted.receives_more(10.0, 0.1)

    chance, surge = 58, 72
    assert [closed(number, 40) for number in range(1, 10)] == [False] * 9
    assert closed(10, chance)
    assert [closed(number, 38) for number in range(11, 30)] == [False] * 19
    assert not closed(30, chance)
    assert [closed(number, 38) for number in range(31, 39)] == [False] * 8
    assert closed(39, surge)
    counted.forget(4.0 * 39)
    assert closed(40, chance), "another subscription"
