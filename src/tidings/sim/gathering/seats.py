"""Who has the seats of gathered topics, judged from what brokers say of them once all is quiet and whole.

One broker gathers at each place and all agree who; its deputy is its neighbour in the tree. Where a seat has
never moved it is where the strategy puts it: that is worked out here by comparing all brokers of a tree. How
brokers find that out is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tidings.planning.topologies import Topology
from tidings.sim.brokers.promises import BREACHES_MAX, Breach, distances


class Seat(Protocol):
    """What a broker says of one seat; `tidings.overlay.status.GatheredStatus` does."""

    @property
    def place(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def term(self) -> int: ...
    @property
    def seat(self) -> str: ...
    @property
    def deputy(self) -> str: ...
    @property
    def mine(self) -> bool: ...
    @property
    def waiting(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def opened(self) -> int: ...
    @property
    def merged(self) -> int: ...
    @property
    def redundant(self) -> int: ...
    @property
    def refused(self) -> int: ...


def check_seats(
    told: Mapping[str, Sequence[Seat]],
    topology: Topology,
    *,
    strategy: str = "",
    deputies: bool = True,
) -> list[Breach]:
    """`told`: by broker, what it says of all seats; `strategy`: where none of them has ever moved."""
    found: list[Breach] = []
    for place in sorted({seat.place for seats in told.values() for seat in seats}):
        said = {name: seat for name, seats in told.items() for seat in seats if seat.place == place}
        found += _agreed(place, said, told)
        if not found:
            found += _right(place, next(iter(said.values())), topology, strategy, deputies)
    return found[:BREACHES_MAX]


def _agreed(place: str, said: Mapping[str, Seat], told: Mapping[str, object]) -> Iterator[Breach]:
    for name in told:
        if name not in said:
            yield Breach("seats", f"{name} does not know of {place!r}")
    if not any(seat.term for seat in said.values()):
        return  # it was never needed, and so is nobody's
    holders = sorted({(seat.root, seat.term, seat.seat, seat.deputy) for seat in said.values()}, key=repr)
    if len(holders) > 1:
        yield Breach("seats", f"{place!r} has {holders}")
    gathering = [name for name, seat in said.items() if seat.mine]
    if gathering != [next(iter(said.values())).seat]:
        yield Breach("seats", f"{place!r} is gathered at {gathering}, and held by {holders}")
    for name, seat in said.items():
        if seat.waiting:
            yield Breach("seats", f"{seat.waiting} reports for {place!r} still wait at {name}")
        decided = seat.opened + seat.merged + seat.redundant + seat.refused
        if seat.mine and seat.received != decided:
            yield Breach("seats", f"{name} has received {seat.received} and decided on {decided}")


def _right(place: str, seat: Seat, topology: Topology, strategy: str, deputies: bool) -> Iterator[Breach]:
    if not seat.term:
        return
    if not seat.root:
        yield Breach("seats", f"{place!r} has no tree")
        return
    tree = tree_of(topology, seat.root)
    if deputies and len(tree) > 1 and seat.deputy not in tree[seat.seat]:
        yield Breach("seats", f"{place!r}: {seat.deputy!r} is no neighbour of {seat.seat} in the tree")
    if strategy and (best := best_seat(tree, strategy)) != seat.seat:
        yield Breach("seats", f"{place!r} is at {seat.seat}; the {strategy} is {best}")


def tree_of(topology: Topology, root: str) -> dict[str, list[str]]:
    """Neighbours in the tree of shortest paths from a root, ties to the smaller id."""
    joined = topology.neighbours()
    hops = distances(joined, root)
    tree: dict[str, list[str]] = {name: [] for name in hops}
    for name in hops:
        if name != root:
            parent = next(other for other in joined[name] if hops[other] == hops[name] - 1)
            tree[name].append(parent)
            tree[parent].append(name)
    return tree


def best_seat(tree: Mapping[str, Sequence[str]], strategy: str) -> str:
    """The centre or the median of a tree; ties to the smaller id."""
    total = max if strategy == "centre" else sum

    def cost(name: str) -> tuple[int, bytes]:
        return total(distances(tree, name).values()), name.encode()

    return min(tree, key=cost)
