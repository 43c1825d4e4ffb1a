"""Publications go to the brokers that want them and to no others, by the judge of `waste`.

`python -m tests.simulation.campaign waste --seeds 200` plays many more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.waste import Round
from tidings.overlay.publishing.routes import Routes

FAULTS = 3
"""A seed in which brokers die."""

CALM = 4
"""One in which none does."""


@pytest.mark.parametrize("seed", [FAULTS, CALM])
def test_destinations_are_those_who_want_a_publication(seed: int) -> None:
    counts = Round(seed).run()
    assert counts.breaches == []
    assert counts.exact > 1000
    assert counts.wanted > 300
    assert bool(counts.deaths) == (seed == FAULTS)


def test_what_comes_in_vain_to_a_home_that_has_widened_its_set_is_counted() -> None:
    counts = Round(CALM, widened=True).run()
    assert counts.breaches == []
    assert counts.in_vain > 0


def too_few(_routes: Routes, right: dict[str, int]) -> dict[str, int]:
    return dict(list(right.items())[1:])


def too_many(routes: Routes, right: dict[str, int]) -> dict[str, int]:
    return dict.fromkeys(routes._homes.homes, 0) | right


def too_low(_routes: Routes, right: dict[str, int]) -> dict[str, int]:
    return dict.fromkeys(right, 0)


WANTED = Routes.wanted


@pytest.mark.parametrize("wrong", [too_few, too_many, too_low])
def test_the_judge_finds_wrong_destinations(
    wrong: Callable[[Routes, dict[str, int]], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wanted(routes: Routes, *asked: Any) -> list[dict[str, int]]:
        return [wrong(routes, right) for right in WANTED(routes, *asked)]

    monkeypatch.setattr(Routes, "wanted", wanted)
    breaches = Round(CALM).run().breaches
    assert any("is told for" in breach for breach in breaches)
