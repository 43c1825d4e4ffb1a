"""Overlays of peers keep their promises under churn, crashes and loss, and come to rest."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.simulation.test_peers_runs import COURSE
from tidings.sim.peers import run
from tidings.sim.peers.run import FED, OURS, Course
from tidings.sim.peers.workload import HOT, TIGHT, Workload

FAULTS = replace(COURSE, churn=0.05, loss=0.02, cycles=20, quiet=80, events=64)
ANEW = replace(FAULTS, changing=0.05, restarting=0.05)
PARTS = replace(FAULTS, publishers=2, halves=True)


@pytest.mark.parametrize("algorithm", [FED, OURS])
@pytest.mark.parametrize("course", [FAULTS, ANEW, PARTS], ids=["churn", "anew", "parts"])
def test_promises_are_kept_under_churn_crashes_and_loss(algorithm: str, course: Course) -> None:
    outcome = run.run(replace(course, algorithm=algorithm), 0)
    assert outcome.breaches == []
    assert outcome.judged["photographs"] == 100


def test_milliseconds_are_kept_while_peers_change_their_minds_and_begin_anew() -> None:
    timed = replace(ANEW, loss=0.0, metric="ms", link_s=0.002, far_s=0.02, quiet=0, bandwidth=200.0)
    outcome = run.run(timed, 0)
    assert outcome.breaches == []
    assert outcome.judged["events due"] > 1000
    assert outcome.judged["bandwidths"] > 0


def test_promises_are_kept_where_subscribers_publish_too() -> None:
    # Only 12 cycles after its last word is a publisher forgotten that crashed; gossip may be as late.
    course = replace(COURSE, publishing=3, churn=0.05, cycles=20, quiet=80, events=64)
    assert run.run(course, 0).breaches == []


@pytest.mark.slow
@pytest.mark.parametrize("churn", [0.0, 0.025, 0.05, 0.1])
@pytest.mark.parametrize("seed", range(10))
def test_promises_are_kept_whatever_is_drawn(churn: float, seed: int) -> None:
    chance = Random(seed)
    workload = Workload(
        subscriptions=chance.choice(("uniform", HOT)),
        delays=chance.choice(("moderate", TIGHT)),
        depth_most=chance.choice((6, 8)),
        expressions=chance.choice((1, 1, 4)),
    )
    course = Course(
        workload=workload,
        algorithm=chance.choice((FED, OURS)),
        peers=chance.choice((40, 120)),
        publishers=chance.choice((1, 1, 3)),
        publishing=chance.choice((0, 0, 4)),
        view=0.2,
        allowed=chance.choice((0.0, 0.0625, 0.5)),
        bandwidth=chance.choice((0.0, 150.0)),
        events=128,
        surge=chance.choice((1.0, 2.0)),
        churn=churn,
        polite=chance.choice((0.0, 0.5, 1.0)),
        changing=chance.choice((0.0, 0.02)),
        restarting=chance.choice((0.0, 0.02)),
        loss=chance.choice((0.0, 0.02)),
        cycles=25,
        quiet=120,
    )
    assert run.run(course, seed).breaches == []
