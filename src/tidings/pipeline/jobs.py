"""Everything that makes tables, by name: the stages of a workload, and jobs that have commands of their own.

A job is a whole of its own, with its own options: what it reads, what it writes and how it is called is said
here, for whoever asks what there is. How each is run is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.pipeline import running
from tidings.records import traffic, workload

GATHER, MATCH, TRAFFIC = "gather", "match", "traffic"


@dataclass(frozen=True, slots=True)
class Listed:
    """A stage or a job."""

    name: str
    says: str
    """What it does, in a line."""

    reads: tuple[str, ...]
    """Tables."""

    writes: tuple[str, ...]
    """Tables; a job may be asked for one of them only."""

    command: str
    """How it is run."""

    given: str = ""
    """What it reads that is no table."""


JOBS = (
    Listed(
        GATHER,
        "reports become events, as a broker's gatherer makes them",
        (workload.REPORTS,),
        ("gathered",),
        "tidings pipeline gather",
    ),
    Listed(
        MATCH,
        "which subscriptions get which events: a row each, a list, or how many",
        (workload.SUBSCRIPTIONS, workload.EVENTS),
        ("notifications", "matches", "match_counts"),
        "tidings pipeline match",
    ),
    Listed(
        TRAFFIC,
        "what the records of brokers add up to, by hour",
        (),
        tuple(f"{traffic.TRAFFIC}/{name}" for name in traffic.TABLES),
        "tidings pipeline traffic",
        "segments of records (--records)",
    ),
)


def listed() -> list[Listed]:
    """All of them, each after what it reads."""
    stages = [
        Listed(stage.table, stage.says, stage.reads, (stage.table,), f"tidings pipeline run {stage.table}")
        for stage in running.registry().values()
    ]
    return [*stages, *JOBS]
