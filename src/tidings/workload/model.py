"""The plain values that a workload is made of, between the spec and the stages. No pyspark, nothing is read.

Arrays over interests have one axis per event dimension and a last one for regions. A base array has a place
for every leaf, in the order of `Hierarchy.leaves`; a full one for every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings.workload.hierarchies import Hierarchy
from tidings.workload.spec import Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Given:
    """What the spec names, read: the bundled default or somebody's own data."""

    spec: Spec
    dimensions: tuple[Hierarchy, ...]
    """The first gives the topics: one for each child of its root."""

    regions: tuple[str, ...]

    members: NDArray[np.int64]
    """A base array."""

    messages: NDArray[np.float64]
    """A base array: messages in a month."""

    nodes: Nodes


@dataclass(frozen=True, eq=False)
class Nodes:
    """Places in the network that were measured, or computed."""

    names: tuple[str, ...]
    region: NDArray[np.int64]
    """The number of each node's region."""

    longitude: NDArray[np.float64]
    """In degrees, eastwards; 0 where it is not known. Days begin by it."""

    weight: NDArray[np.float64]
    """How likely a client of the region is there: the city's population, or 1."""

    points: NDArray[np.float64]
    """Five coordinates each; distances are round trips in milliseconds."""

    error: float
    """The median relative error of distances against the round trips that were embedded."""


@dataclass(frozen=True, eq=False)
class Model:
    """What the transformations have made of it: all that stages need."""

    spec: Spec
    dimensions: tuple[Hierarchy, ...]
    regions: tuple[str, ...]
    topics: tuple[str, ...]
    """Per node of the first dimension the topic of its subscriptions: `subject/<top>`, or `subject/+`."""

    lows: tuple[NDArray[np.int64], ...]
    highs: tuple[NDArray[np.int64], ...]
    """Per dimension the interval of every node, both ends included."""

    members: NDArray[np.int64]
    """A full array, after removal, diffusion and generalisation."""

    messages: NDArray[np.float64]
    """A base array, after removal."""

    allocated: NDArray[np.int64]
    """A full array: subscriptions that are made, which is what sampling decided."""

    clients_first: NDArray[np.int64]
    clients_count: NDArray[np.int64]
    """Per region: its clients are numbered from the first. Every region that has events or subscriptions
    has one."""

    nodes: Nodes

    start_us: int
    """When the workload begins."""

    files: Mapping[str, str] = field(default_factory=dict)
    """A digest of each file that the spec names, by its key: what was in it is part of what was asked for."""
