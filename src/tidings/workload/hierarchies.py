"""Hierarchies: trees of named nodes, such as subjects or languages, whose leaves are the base interests.

Nodes are numbered in preorder: the root is 0, a node comes before what is below it, and children keep the
order in which they were given. Everything else speaks of nodes by these numbers.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tidings.errors import InputError

NODES_MAX = 1_000_000
"""Of one hierarchy; an array over all of them still fits into memory."""

DEPTH_MAX = 64
"""Levels of nested tables and of chains of parents."""


@dataclass(frozen=True)
class Hierarchy:
    """A tree of named nodes."""

    name: str
    """Also the name of the field whose values lie in its intervals."""

    nodes: tuple[str, ...]
    """Names, in preorder."""

    parents: tuple[int, ...]
    """The parent of each node; -1 for the root."""

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each node, in order."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(node)
        return tuple(tuple(below) for below in found)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The nodes without children, in order."""
        return tuple(node for node, below in enumerate(self.children) if not below)

    @cached_property
    def leaf_ranges(self) -> tuple[tuple[int, int], ...]:
        """For each node the leaves below it, or itself, as a range of positions in `leaves`."""
        found = [(0, 0)] * len(self.nodes)
        at = {leaf: position for position, leaf in enumerate(self.leaves)}
        for node in reversed(range(len(self.nodes))):
            below = self.children[node]
            found[node] = (found[below[0]][0], found[below[-1]][1]) if below else (at[node], at[node] + 1)
        return tuple(found)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many levels below the root each node is."""
        found: list[int] = []
        for parent in self.parents:
            found.append(found[parent] + 1 if parent >= 0 else 0)
        return tuple(found)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each name."""
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def tops(self) -> tuple[int, ...]:
        """For each node the child of the root that it is, or is below; the root is its own."""
        found: list[int] = []
        for node, parent in enumerate(self.parents):
            found.append(node if parent <= 0 else found[parent])
        return tuple(found)


def from_parents(name: str, pairs: Iterable[tuple[str, str]]) -> Hierarchy:
    """A hierarchy from (child, parent) pairs; the one node that is no child is the root."""
    below: dict[str, list[str]] = {}
    above: dict[str, str] = {}
    for child, parent in pairs:
        if child in above:
            raise InputError(
                f"hierarchy {name!r}: {child!r} has two parents, {above[child]!r} and {parent!r}; give it one"
            )
        above[child] = parent
        below.setdefault(parent, []).append(child)
        below.setdefault(child, [])
    roots = [node for node in below if node not in above]
    if len(roots) > 1:
        shown = ", ".join(map(repr, roots[:5]))
        raise InputError(f"hierarchy {name!r} has {len(roots)} roots ({shown}); put them below one node")
    nodes: list[str] = []
    parents: list[int] = []
    waiting = [(root, -1, 0) for root in roots]
    while waiting:
        node, number, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise InputError(f"hierarchy {name!r}: {node!r} is more than {DEPTH_MAX} levels deep")
        waiting.extend((child, len(nodes), depth + 1) for child in reversed(below[node]))
        nodes.append(node)
        parents.append(number)
    reached = set(nodes)
    if left := [node for node in below if node not in reached]:
        raise InputError(
            f"hierarchy {name!r} has a cycle: {_cycle(left[0], above)}; a node cannot be above itself"
        )
    return _checked(Hierarchy(name, tuple(nodes), tuple(parents)))


def from_nested(name: str, root: str, nested: Any) -> Hierarchy:
    """A hierarchy from nested mappings, whose innermost values are lists of leaves."""
    pairs: list[tuple[str, str]] = []

    def walk(parent: str, given: Any, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise InputError(f"hierarchy {name!r}: {parent!r} is more than {DEPTH_MAX} levels deep")
        if isinstance(given, Mapping):
            for child, rest in given.items():
                pairs.append((child, parent))
                walk(child, rest, depth + 1)
        elif isinstance(given, list) and all(isinstance(leaf, str) for leaf in given):
            pairs.extend((leaf, parent) for leaf in given)
        else:
            raise InputError(
                f"hierarchy {name!r}: below {parent!r} is {given!r}; give a table of nodes or a list of names"
            )

    walk(root, nested, 0)
    return from_parents(name, pairs)


def from_file(name: str, root: str, path: Path) -> Hierarchy:
    """A hierarchy from a file: CSV of child,parent, or TOML of nested tables below a root."""
    try:
        if path.suffix.lower() == ".toml":
            return from_nested(name, root, tomllib.loads(path.read_text("utf-8")))
        return from_parents(name, _pairs(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (csv.Error, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is neither CSV of child,parent nor TOML: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        if header[:2] != ["child", "parent"]:
            raise InputError(f"the header is {','.join(header)!r}; it must begin with child,parent")
        for values in reader:
            pair = tuple(value.strip() for value in values[:2])
            if not values:
                continue
            if len(pair) < 2 or not all(pair):
                raise InputError(f"line {reader.line_num:,} is {','.join(values)!r}; give child,parent")
            yield pair[0], pair[1]


def _cycle(start: str, above: Mapping[str, str]) -> str:
    """A cycle that is reached from a node by going up, in words."""
    seen: list[str] = []
    node = start
    while node not in seen:
        seen.append(node)
        node = above[node]
    return " below ".join(repr(one) for one in [*seen[seen.index(node) :], node])


def _checked(hierarchy: Hierarchy) -> Hierarchy:
    if not hierarchy.nodes:
        raise InputError(f"hierarchy {hierarchy.name!r} is empty; give at least one node below a root")
    if len(hierarchy.nodes) > NODES_MAX:
        raise InputError(
            f"hierarchy {hierarchy.name!r} has {len(hierarchy.nodes):,} nodes; at most {NODES_MAX:,}"
        )
    return hierarchy
