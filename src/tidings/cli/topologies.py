"""Shapes of small networks on one machine: which broker dials which.

Brokers are numbered from 0; of each link only the later one dials, so that every broker's neighbours are
there when it starts.
"""

from __future__ import annotations

import random
from enum import StrEnum


class Topology(StrEnum):
    """A shape."""

    PATH = "path"
    STAR = "star"
    RING = "ring"
    TREE = "tree"
    RANDOM = "random"
    FULL = "full"


def links(topology: Topology, brokers: int, seed: int = 0) -> list[tuple[int, int]]:
    """The links, as (dialling, dialled), each once; the network is connected.

    >>> links(Topology.RING, 4)
    [(1, 0), (2, 1), (3, 0), (3, 2)]
    """
    later = range(1, brokers)
    match topology:
        case Topology.PATH:
            found = {(one, one - 1) for one in later}
        case Topology.STAR:
            found = {(one, 0) for one in later}
        case Topology.RING:
            found = {(one, one - 1) for one in later} | ({(brokers - 1, 0)} if brokers > 2 else set())
        case Topology.TREE:
            found = {(one, (one - 1) // 2) for one in later}
        case Topology.FULL:
            found = {(one, other) for one in later for other in range(one)}
        case Topology.RANDOM:
            # A random tree, and half as many links again, so that most brokers have more than one way.
            chance = random.Random(seed)
            found = {(one, chance.randrange(one)) for one in later}
            possible = brokers * (brokers - 1) // 2
            while len(found) < min(possible, brokers - 1 + brokers // 2):
                one, other = sorted(chance.sample(range(brokers), 2), reverse=True)
                found.add((one, other))
    return sorted(found)
