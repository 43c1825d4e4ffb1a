"""The same seed gives the same run, whatever order Python gives to sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tidings.sim.brokers.run import Digest, Run, chaos

RUNS = [
    # Seeds with many faults, with several trees.
    *(f"--clients plain --seed {seed}" for seed in (12, 48, 56, 81)),
    # Seeds with many clients that misbehave, and brokers that crash, stop and lose their disks.
    *(f"--clients mqtt --seed {seed}" for seed in (6, 98)),
    "--gathered --seed 26",
]

PROGRAM = """
import sys
from tidings.cli import app
for line in sys.stdin:
    app(["simulate", "--chaos", "--trace", "--json", *line.split()], standalone_mode=False)
"""


def told(hash_seed: int) -> list[dict[str, object]]:
    """What the command says of each run, with a digest of all that its brokers were told and answered.

    All runs are made by one process: its start costs more than most of them.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(RUNS),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: list[dict[str, object]] = [json.loads(line) for line in done.stdout.splitlines()]
    for one in said:
        del one["cpu_s"]
    return said


@pytest.fixture(scope="module")
def both() -> list[list[dict[str, object]]]:
    """What two processes say in which sets have different orders."""
    return [told(1), told(2)]


@pytest.mark.parametrize("at", range(len(RUNS)), ids=RUNS)
def test_two_processes_with_different_hash_seeds_make_the_same_trace(
    both: list[list[dict[str, object]]], at: int
) -> None:
    first, second = both
    assert len(first) == len(second) == len(RUNS)
    assert first[at]["trace"]
    assert first[at] == second[at]


def test_another_seed_makes_another_trace() -> None:
    digests = set()
    for seed in (4, 5, 6):
        digest = Digest()
        Run(chaos(seed), trace=digest).run()
        digests.add(digest.text)
    assert len(digests) == 3
