"""A network of brokers as planners see it: who is linked to whom, how long each link is, and how far it is
from each broker to each other one. Nothing here knows what is planned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BROKERS_MAX = 20_000
"""All distances of so many are 3 GB; a planner of more would need another method."""

_WHOLE = re.compile(r"-?[0-9]{1,4000}")
"""Python makes no number of more digits."""


def in_order(names: Iterable[str]) -> list[str]:
    """Names as people expect them: numbers by size where all are whole numbers, else by their bytes.

    >>> in_order(["10", "-9", "9"]), in_order(["b10", "b9"])
    (['-9', '9', '10'], ['b10', 'b9'])
    """
    found = list(names)
    if found and all(map(_WHOLE.fullmatch, found)):
        return sorted(found, key=lambda name: (int(name), name))
    return sorted(found, key=str.encode)


@dataclass(frozen=True, eq=False)
class Graph:
    """Brokers and links, in one piece unless somebody asked for what there is."""

    names: tuple[str, ...]
    """In their order: the lowest wins a tie."""

    links: tuple[tuple[int, int, float], ...]
    """Pairs of places in `names`, the lower first, with a length each; no pair twice."""

    @classmethod
    def of(
        cls, links: Iterable[tuple[str, str, float]], brokers: Iterable[str] = (), *, whole: bool = True
    ) -> Graph:
        """From names; InputError if it is to be `whole` and is not in one piece, or a length is not one.

        A link that is named twice has the shorter of its lengths.
        """
        lengths: dict[tuple[str, str], float] = {}
        known = dict.fromkeys(brokers)
        for a, b, length in links:
            if not (math.isfinite(length) and length > 0):
                raise InputError(f"the link {a},{b} has the length {length}; lengths are numbers above 0")
            if a == b:
                raise InputError(f"broker {a!r} is linked to itself; a link joins two brokers")
            known |= {a: None, b: None}
            pair = (a, b) if (b, a) not in lengths else (b, a)
            lengths[pair] = min(length, lengths.get(pair, math.inf))
        names = in_order(known)
        if not names:
            raise InputError("the network has no brokers; give at least one link, or one broker")
        if len(names) > BROKERS_MAX:
            raise InputError(
                f"the network has {len(names):,} brokers; plans are made for up to {BROKERS_MAX:,}"
            )
        place = {name: at for at, name in enumerate(names)}
        pairs = sorted((*sorted((place[a], place[b])), length) for (a, b), length in lengths.items())
        made = cls(tuple(names), tuple((int(a), int(b), length) for a, b, length in pairs))
        if whole and made.apart:
            raise InputError(
                f"the network is in pieces: {made.apart[0]!r} is not reached from {made.names[0]!r}; "
                "add the links that are missing, or plan each piece by itself"
            )
        return made

    @cached_property
    def apart(self) -> tuple[str, ...]:
        """Brokers that are not reached from the first; none where all are in one piece."""
        reached, waiting = {0}, [0]
        while waiting:
            for other in self.neighbours[waiting.pop()]:
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        return tuple(name for at, name in enumerate(self.names) if at not in reached)

    @cached_property
    def place(self) -> Mapping[str, int]:
        """The place of each name."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def neighbours(self) -> Sequence[Mapping[int, float]]:
        """By broker: its neighbours, lowest first, and how far each is."""
        found: list[dict[int, float]] = [{} for _ in self.names]
        for a, b, length in self.links:
            found[a][b] = length
            found[b][a] = length
        return [dict(sorted(one.items())) for one in found]

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """From each broker to each other one, along the shortest way; infinite where there is none."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        count = len(self.names)
        if not self.links:
            return np.where(np.eye(count), 0.0, np.inf)
        a, b, lengths = (np.array(column) for column in zip(*self.links, strict=True))
        matrix = csr_array((lengths.astype(float), (a, b)), shape=(count, count))
        found: NDArray[np.float64] = dijkstra(matrix, directed=False)
        return found

    @cached_property
    def _ways(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Each link both ways: from, to and length, the lowest first."""
        both = sorted([*self.links, *((b, a, length) for a, b, length in self.links)])
        columns = list(zip(*both, strict=True)) or [(), (), ()]
        return np.array(columns[0], np.int64), np.array(columns[1], np.int64), np.array(columns[2], float)

    def towards(self, target: int) -> list[int]:
        """The neighbour through which each broker reaches a target, the lowest of several; itself there."""
        far = self.distances[target]
        begins, ends, lengths = self._ways
        shortest = np.isclose(far[ends] + lengths, far[begins], rtol=1e-9, atol=0.0)
        found = np.full(len(self.names), target)
        # Of several the first is written last, and stays.
        found[begins[shortest][::-1]] = ends[shortest][::-1]
        found[target] = target
        return [int(at) for at in found]
