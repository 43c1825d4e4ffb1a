"""What may be set: `tidings reproduce qos --set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from papers import settings
from tidings.errors import InputError
from tidings.sim.peers.run import Course
from tidings.sim.peers.workload import Workload


@dataclass(frozen=True, slots=True)
class Setting:
    """Of all figures. What §6 leaves open is as in the study that found the published shape."""

    seed: int = 0
    peers: int = 1024
    """Subscribers (§6)."""

    publishers: int = 1
    """Each of them advertises the whole space. Open in the paper."""

    out_degree: int = 0
    """Children that a peer may have; 0 for log2 of the peers (§6)."""

    view: float = 0.05
    """Share of the peers that a peer knows (§6)."""

    cycles: int = 40
    quiet: int = 120
    """Cycles at most after these that nothing is measured in: time to come to rest."""

    rest: int = 24
    """So many of those without any change are enough; in the last of them all promises are judged without
    excuse."""

    coarsen_after: int = 3
    """Cycles without cover after which a peer takes a coarser subscription."""

    allowed: float = 0.5
    """Waste that everybody accepts in figures 5(a) to 5(f), as a share of all events: enough to converge."""

    events: int = 256
    """Published in a cycle; twice as many where figures show cycles one by one."""

    loss: float = 0.0
    """Share of messages that are lost. None in the paper."""

    attributes: int = 10
    values: int = 128
    depth_least: int = 3
    depth_most: int = 10
    hot_spots: int = 20
    hot_exponent: float = 1.6
    hot_spread: float = 0.05
    delay_most: int = 1000
    one_hop: float = 0.3

    def workload(self, **changed: Any) -> Workload:
        """What is drawn."""
        own: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "attributes",
                "values",
                "depth_least",
                "depth_most",
                "hot_spots",
                "hot_exponent",
                "hot_spread",
                "delay_most",
                "one_hop",
            )
        }
        return Workload(**(own | changed))

    def course(self, workload: Workload, **changed: Any) -> Course:
        """A run."""
        own: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "peers",
                "publishers",
                "out_degree",
                "view",
                "cycles",
                "quiet",
                "rest",
                "coarsen_after",
                "allowed",
                "events",
                "loss",
            )
        }
        return Course(workload=workload, **(own | changed))


def read(seed: int, given: Mapping[str, str]) -> Setting:
    """A setting from `--seed` and `--set`; what cannot be run is refused before anything is."""
    found = settings.read(Setting, seed, given)
    try:
        found.course(found.workload()).check()
    except InputError as error:
        raise InputError(f"--set: {error}") from None
    return found
