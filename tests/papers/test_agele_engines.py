"""Brokers, hop by hop, and the gatherer with tree distances give identical times and counts.

That is what lets the gatherer with tree distances stand in for networks of more than 400 brokers.
"""

from __future__ import annotations

import pytest

from papers.agele import brokers, machine, measures
from papers.agele.network import grow
from papers.agele.setting import Setting
from papers.agele.workload import draw

TIMINGS = [(5.0, 10.0), (0.0, 10.0), (10.0, 10.0), (0.0, 0.0), (4.0, 6.0)]


def setting_of(seed: int) -> Setting:
    """Twenty different runs: sizes, overlays, timings and durations."""
    tm, tr = TIMINGS[seed % len(TIMINGS)]
    return Setting(
        overlay=("random", "power-law")[seed % 2],
        brokers=20 + 2 * seed,
        events=15,
        messages=1.0,
        tb=(50.0, 100.0, 150.0)[seed % 3],
        tm=tm,
        tr=tr,
    )


def check(seed: int) -> None:
    setting = setting_of(seed)
    network = grow(setting, seed)
    occurrences = draw(setting, network, seed)
    plain = measures.baseline(network, occurrences, setting.hop_us)
    assert brokers.baseline(setting, network, occurrences).differences(plain) == []
    expected = machine.gather(setting, network, occurrences, network.seat("centre"))
    found = brokers.gather(setting, network, occurrences)
    assert found.differences(expected) == []
    assert found.messages > 30
    assert found.time_us > 0


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_give_identical_times_and_counts(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 20))
def test_both_engines_give_identical_times_and_counts_on_more_seeds(seed: int) -> None:
    check(seed)
