"""Sizes: what can be asked for is what there is, and each is larger than the one before."""

from __future__ import annotations

import re
from dataclasses import astuple
from inspect import signature
from itertools import pairwise
from pathlib import Path

from tidings.cli.demo import SizeName, demo
from tidings.demo import planning
from tidings.demo.sizes import SIZES


def test_every_size_that_can_be_asked_for_is_there() -> None:
    assert list(SIZES) == [name.value for name in SizeName]


def test_each_size_has_more_of_everything_than_the_one_before() -> None:
    sizes = list(SIZES.values())
    for less, more in pairwise(sizes):
        assert all(one < other for one, other in zip(astuple(less), astuple(more), strict=True))


def test_the_page_about_it_has_these_sizes_and_the_default_in_its_first_line(root: Path) -> None:
    page = (root / "docs" / "demo.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \| [\d,]+ \| (\d+) s \|$", page, re.MULTILINE
    )
    assert [(name, *(int(one.replace(",", "")) for one in rest)) for name, *rest in rows] == [
        (name, size.brokers, size.subscriptions, size.events, size.play_s) for name, size in SIZES.items()
    ]
    default = signature(demo).parameters["size"].default
    assert re.findall(r"^make demo +# (\w+),", page, re.MULTILINE) == [default.value]
    assert f"`{default.value}` (the default)" in (root / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_pages_say_how_many_clients_may_move(root: Path) -> None:
    assert planning.MOVED_SHARE == 0.1
    for name, words in (
        ("demo.md", "At most one client in ten moves"),
        ("design/0028-demo.md", "at most a tenth"),
    ):
        assert words in " ".join((root / "docs" / name).read_text(encoding="utf-8").split())


def test_a_day_is_played_in_the_time_that_its_size_says() -> None:
    assert SIZES["small"].speed_up * SIZES["small"].play_s == 86_400
