"""Sizes: what can be asked for is what there is, and each is larger than the one before."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise

from tidings.cli.demo import SizeName
from tidings.cli.demo.sizes import SIZES


def test_every_size_that_can_be_asked_for_is_there() -> None:
    assert list(SIZES) == [name.value for name in SizeName]


def test_each_size_has_more_of_everything_than_the_one_before() -> None:
    sizes = list(SIZES.values())
    for less, more in pairwise(sizes):
        assert all(one < other for one, other in zip(astuple(less), astuple(more), strict=True))


def test_a_day_is_played_in_the_time_that_its_size_says() -> None:
    assert SIZES["small"].speed_up * SIZES["small"].play_s == 86_400
