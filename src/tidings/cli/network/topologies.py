"""Shapes of small networks on one machine: which broker dials which, by name or from a file.

Brokers are numbered from 0; of each link only the later one dials, so that every broker's neighbours are
there when it starts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from enum import StrEnum
from pathlib import Path

from tidings.cli.plan import files
from tidings.errors import InputError

BROKERS_MAX = 200
"""Processes on one machine; more are for the simulator."""

NAME_BYTES_MAX = 255
"""Of a folder, on all common file systems."""


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


def name_fault(id_: str) -> str | None:
    """Why an id cannot be that of a broker here, whose folder has its name; None if it can."""
    # What begins with "-" would be an option of `tidings leave`.
    if id_ in ("", ".", "..", "records") or not id_.isprintable() or "/" in id_ or id_.startswith("-"):
        return f"{id_!r:.80} cannot be the name of a broker and of its folder; take letters and digits"
    if len(id_.encode()) > NAME_BYTES_MAX:
        return f"{id_!r:.80} has {len(id_.encode())} bytes; the name of a broker has {NAME_BYTES_MAX} at most"
    return None


def read_links(path: Path) -> tuple[list[str], list[tuple[int, int]]]:
    """Brokers in the order in which a file of lines a,b names them, and their links as `links` has them.

    A third column, the length that planners use, is checked and means nothing here.
    """
    names: dict[str, int] = {}
    """Of all brokers, with the line that names each first."""
    written: dict[frozenset[str], int] = {}
    """Links, with their lines."""
    for number, a, b, _ in files.links(path):
        where = f"{path}, line {number}"
        for name in (a, b):
            if fault := name_fault(name):
                raise InputError(f"{where}: {fault}")
            if names.setdefault(name, number) == number and len(names) > BROKERS_MAX:
                raise InputError(
                    f"{where}: {name!r} is broker number {len(names)}; there are {BROKERS_MAX} at most, and "
                    "more with `tidings simulate`"
                )
        if a == b:
            raise InputError(f"{where}: {a!r} is linked to itself; a link joins two brokers")
        if (before := written.setdefault(frozenset((a, b)), number)) != number:
            raise InputError(f"{where}: the link {a},{b} is there already, in line {before}; write it once")
    if not names:
        raise InputError(f"{path} names no broker; write a link in each line, as athens,patras")
    joined: dict[str, set[str]] = {name: set() for name in names}
    for one, other in written:
        joined[one].add(other)
        joined[other].add(one)
    first = next(iter(names))
    near = reached(joined, first)
    if lost := next((name for name in names if name not in near), None):
        raise InputError(
            f"{path}, line {names[lost]}: no way leads from {lost!r} to {first!r} of line {names[first]}; "
            "add a link between the two parts (a first line a,b names the columns if no later line names a "
            "or b)"
        )
    place = {name: at for at, name in enumerate(names)}
    ends = (sorted((place[one] for one in pair), reverse=True) for pair in written)
    return list(names), sorted((later, earlier) for later, earlier in ends)


def parts(links: Mapping[str, Set[str]]) -> list[set[str]]:
    """The connected parts of a network, in order of their smallest ids. A link may be said on either side.

    >>> [sorted(part) for part in parts({"a": {"b"}, "b": set(), "c": set()})]
    [['a', 'b'], ['c']]
    """
    joined = both_ways(links)
    found: list[set[str]] = []
    for start in sorted(links):
        if not any(start in part for part in found):
            found.append(reached(joined, start))
    return found


def both_ways(links: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Links said on both sides."""
    joined = {one: set(others) for one, others in links.items()}
    for one, others in links.items():
        for other in others:
            joined[other].add(one)
    return joined


def reached(joined: Mapping[str, Set[str]], start: str, without: Set[str] = frozenset()) -> set[str]:
    """Brokers to which a way leads from one, itself included, if some others are not there."""
    found = latest = {start}
    while latest:
        latest = set().union(*(joined[one] for one in latest)) - found - without
        found = found | latest
    return found
