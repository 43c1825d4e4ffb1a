"""The benchmark of planners measures what it says."""

from __future__ import annotations

import pytest

from benchmarks import plans


@pytest.mark.parametrize("shape", plans.SHAPES)
def test_traffic_is_drawn_the_same_every_time_and_nobody_talks_to_itself(shape: str) -> None:
    senders, receivers, messages = plans.drawn(shape, 300, 2_000)
    assert (senders != receivers).all()
    assert messages.min() >= 1
    assert plans.drawn(shape, 300, 2_000)[1].tolist() == receivers.tolist()


@pytest.mark.slow
def test_a_plan_of_moves_is_timed_step_by_step() -> None:
    row = plans.moves("groups", 40, 300, greedy_s=60)
    assert row["hops"]["search"] < row["hops"]["published"] < row["hops"]["before"]
    assert row["moves"]["search, half the moves"] <= row["moves"]["published"] // 2
    assert row["greedy"]["modularity"] > 0
    assert row["in_all"][1] <= sum(cpu for _, cpu in row["seconds"].values())


def test_a_job_that_takes_too_long_is_given_up() -> None:
    assert plans.bounded(_for_ever, (), 0.1) == {"given_up_after_s": 0.1}


def _for_ever() -> float:
    while True:
        pass


def test_a_plan_of_stores_is_timed_step_by_step() -> None:
    row = plans.stores(20, 10, 8, 5, plain=True)
    assert row["hops"]["local"] <= row["hops"]["placement"]
    assert {"votes", "votes of one topic, plain", "placement", "local"} <= set(row["seconds"])
