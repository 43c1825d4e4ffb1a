"""Whole networks under one seed each, with everything that can go wrong: what was promised is kept.

A failure prints the line that replays it.
"""

from __future__ import annotations

import pytest

from tidings.planning import topologies
from tidings.planning.topologies import distance_delay
from tidings.sim import faults
from tidings.sim.brokers.run import Plan, Run, chaos
from tidings.sim.brokers.workload import Workload

QUICK = range(30)
LONG = range(30, 3_000)


def play(plan: Plan) -> None:
    outcome = Run(plan).run()
    if outcome.breaches:
        pytest.fail(outcome.replay, pytrace=False)


@pytest.mark.parametrize("seed", QUICK)
def test_promises_are_kept(seed: int) -> None:
    play(chaos(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_promises_are_kept_for_long(seed: int) -> None:
    play(chaos(seed))


def plan(seed: int, name: str, kinds: tuple[faults.Kind, ...], brokers: int, count: int) -> Plan:
    return Plan(
        seed=seed,
        topology=topologies.generate(name, brokers, seed).with_delays(distance_delay()),
        workload=Workload(publications=400, rate_per_s=40.0, durable=0.3, wildcards=0.2),
        faults=kinds,
        fault_count=count,
        command=f"tidings simulate --topology {name} --brokers {brokers} --delay distance --publications 400 "
        f"--rate 40 --durable 0.3 --wildcards 0.2 --faults {','.join(kinds)} --fault-count {count} "
        f"--seed {seed}",
    )


@pytest.mark.parametrize("kind", [kind for kind in faults.ALL if kind is not faults.Kind.SKEW])
def test_each_fault_by_itself_breaks_no_promise(kind: faults.Kind) -> None:
    play(plan(1, "random", (kind,), brokers=12, count=6))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(topologies.GENERATORS))
@pytest.mark.parametrize("seed", range(4))
def test_larger_networks_keep_them_too(name: str, seed: int) -> None:
    play(plan(seed, name, faults.ALL, brokers=60, count=30))
