"""The same seed gives the same run, whatever order Python gives to sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tidings.sim.runs import Digest, Run, chaos


def told(seed: int, hash_seed: int, clients: str = "plain") -> dict[str, object]:
    """What the command says of a run, with a digest of all that its brokers were told and answered."""
    call = [sys.executable, "-c", "from tidings.cli import main; main()"]
    done = subprocess.run(
        [*call, "simulate", "--chaos", "--clients", clients, "--seed", str(seed), "--trace", "--json"],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    del said["cpu_s"]
    return said


# Seeds with many faults, with advertisements, with several trees.
@pytest.mark.parametrize("seed", [12, 48, 56, 81])
def test_two_processes_with_different_hash_seeds_make_the_same_trace(seed: int) -> None:
    assert told(seed, 1) == told(seed, 2)


# Seeds with many clients that misbehave, and brokers that crash, stop and lose their disks.
@pytest.mark.parametrize("seed", [6, 98])
def test_two_processes_make_the_same_trace_of_mqtt_clients_too(seed: int) -> None:
    assert told(seed, 1, "mqtt") == told(seed, 2, "mqtt")


def test_another_seed_makes_another_trace() -> None:
    digests = set()
    for seed in (4, 5, 6):
        digest = Digest()
        Run(chaos(seed), trace=digest).run()
        digests.add(digest.text)
    assert len(digests) == 3
