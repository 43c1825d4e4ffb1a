"""Publications go to the brokers that want them and to no others, by the judge of `waste`.

`python -m tests.simulation.campaign waste --seeds 200` plays many more.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.waste import Round
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.table import Fields

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


MATCH = Homes.match


def too_few(homes: Homes, topic: str, fields: Callable[[], Fields | None]) -> dict[str, int]:
    return dict(list(MATCH(homes, topic, fields).items())[1:])


def too_many(homes: Homes, topic: str, fields: Callable[[], Fields | None]) -> dict[str, int]:
    return dict.fromkeys(homes.homes, 0) | MATCH(homes, topic, fields)


def too_low(homes: Homes, topic: str, fields: Callable[[], Fields | None]) -> dict[str, int]:
    return dict.fromkeys(MATCH(homes, topic, fields), 0)


@pytest.mark.parametrize("wrong", [too_few, too_many, too_low])
def test_the_judge_finds_wrong_destinations(
    wrong: Callable[..., dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Homes, "match", wrong)
    breaches = Round(CALM).run().breaches
    assert any("is told for" in breach for breach in breaches)
