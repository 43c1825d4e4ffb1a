"""What is measured for each figure and section of the paper: rows of tables, and numbers for the claims.

A row has a `kind`: the table that it belongs to, or `number` for a number of a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from papers.workload import network, space, statistics, subscribing
from papers.workload.rows import NUMBER, Asked, Row
from papers.workload.setting import Setting

__all__ = ["FIGURES", "NUMBER", "Asked", "Figure", "Row"]


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that `--figure` names."""

    title: str
    cost: float
    """Seconds, about."""

    rows: Callable[[Setting, Asked], Iterator[dict[str, Any]]]


FIGURES = {
    "1": Figure("Interests over the event space, by region", 5, statistics.interests),
    "2": Figure("Subscribers along each dimension, by region", 5, statistics.dimensions),
    "3": Figure("Popularity of base interests, and removal of the hottest", 5, statistics.popularity),
    "4": Figure("Shares of regions as the most popular interests are removed", 5, statistics.shares),
    "5": Figure("Interests after diffusion, and what diffusion keeps", 12, space.diffusion),
    "6": Figure("Subscribers along each dimension after diffusion", 5, space.diffused_dimensions),
    "generalisation": Figure("Both options, and what each conserves (§4.3)", 6, space.generalisation),
    "8": Figure("Hierarchies as intervals", 8, space.intervals),
    "sampling": Figure("Distinct interests in samples of any size (§4.4)", 8, subscribing.sampling),
    "events": Figure("Event rates, smoothed into the gaps (§4.5)", 6, subscribing.events),
    "brokers": Figure("Brokers by region (§4.6)", 5, network.brokers),
    "positions": Figure("Round trips embedded in five dimensions (§3.2)", 5, network.positions),
    "spark": Figure("Tables made on Spark, against those of one process", 60, network.spark),
}
