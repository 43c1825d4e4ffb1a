"""The network that a plan is for, from wherever it is said: links in a CSV file, a topology, a workload.

Planners get plain values: a graph, and clusters by broker. Nothing here plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.cli.plan import files
from tidings.cli.plan.options import Lengths
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.planning.graphs import Graph

GIVEN = "given"
"""Lengths as `--edges` says."""

AUTO = "auto"

DELAY_MS_MIN = 0.001
"""Of a link: brokers on one machine are not nowhere apart."""


@dataclass(frozen=True)
class Wired:
    """Brokers and links as they were given."""

    source: str
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    lengths: tuple[float, ...] | None = None
    """That the source gives to links itself."""

    delays_ms: tuple[float, ...] | None = None
    """Of links, one way, where the source knows them."""

    clusters: dict[str, str] = field(default_factory=dict)
    """Those that the source declares: of every broker, or none."""

    def counted(self, wanted: Lengths | None) -> str:
        """What lengths are taken, by name."""
        return GIVEN if wanted is None and self.lengths is not None else (wanted or Lengths.HOPS).value

    def graph(self, wanted: Lengths | None = None, *, whole: bool = True) -> Graph:
        """With lengths as wanted, those of the source by default, and 1 each where it has none.

        One in pieces is refused, unless it need not be `whole`.
        """
        lengths = self.lengths if wanted is None else None
        if wanted is Lengths.DELAY:
            if self.delays_ms is None:
                raise InputError(
                    f"{self.source} says nothing of delays; leave out --lengths delay, or give a topology "
                    "that does (--network FILE)"
                )
            lengths = self.delays_ms
        return self._graph(lengths, whole=whole)

    def clustered(self, wanted: str | None, seated: Collection[str]) -> tuple[dict[str, str], str]:
        """Clusters by broker as asked for, and how they came to be: given, declared or derived.

        `wanted` is a file, how many there are to be, or `auto`; without it they are as the source declares
        them, else as many as are most apart. `seated` are the brokers that have clients.
        """
        if wanted is None and self.clusters:
            return self.clusters, "declared"
        if wanted is None or wanted == AUTO or wanted.isdecimal():
            from tidings.planning.communities.clusters import derived

            count = None if wanted in (None, AUTO) else int(wanted or 0)
            return derived(self._graph(self.delays_ms or self.lengths), count, seated), "derived"
        path = Path(wanted)
        if not path.exists():
            raise InputError(
                f"--clusters is {wanted!r}, which is no file; give a file of lines broker,cluster, how many "
                "clusters there are to be, or auto"
            )
        return files.mapping(path, ("broker", "cluster"), empty=True), GIVEN

    def _graph(self, lengths: tuple[float, ...] | None, *, whole: bool = True) -> Graph:
        from tidings.planning.graphs import Graph

        count = len(self.links)
        found = zip(self.links, lengths or (1.0,) * count, strict=True)
        return Graph.of(((a, b, length) for (a, b), length in found), self.brokers, whole=whole)


def packages(network: Path | None) -> tuple[str, ...]:
    """Optional packages that it takes to read a topology, if one is given."""
    from tidings.planning import topologies

    return () if network is None else topologies.packages(network)


def of_edges(path: Path) -> Wired:
    """From lines a,b or a,b,length."""
    found = [
        (files.named(path, number, a, "a"), files.named(path, number, b, "b"), length)
        for number, a, b, length in files.links(path)
    ]
    return Wired(
        str(path), (), tuple((a, b) for a, b, _ in found), tuple(length for _, _, length in found) or None
    )


def of_topology(path: Path, *, whole: bool = True) -> Wired:
    """From a topology, as `tidings simulate --topology` reads it."""
    from tidings.planning import topologies

    topology = topologies.read(path, whole=whole)
    clusters = {place.id: place.cluster or "" for place in topology.places}
    return Wired(
        str(path),
        topology.ids,
        tuple((link.one, link.other) for link in topology.links),
        delays_ms=tuple(max(DELAY_MS_MIN, link.delay_s * 1e3) for link in topology.links),
        clusters=clusters if any(clusters.values()) else {},
    )


def of_workload(folder: Path) -> Wired:
    """From the brokers and links of a workload."""
    from tidings.records.workload_reading import Workload

    workload = Workload(folder)
    brokers = workload.brokers()
    links = workload.links(brokers)
    return Wired(
        str(folder),
        tuple(broker.name for broker in brokers),
        tuple((link.one, link.other) for link in links),
        delays_ms=tuple(max(DELAY_MS_MIN, link.delay_ms) for link in links),
    )


def of_names(source: str, brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> Wired:
    """From brokers and links as records name them."""
    return Wired(source, tuple(brokers), tuple(links))


def of_files(
    edges: Path | None, network: Path | None, workload: Path | None, *, whole: bool = True
) -> Wired | None:
    """From whichever is given, a file before the workload; None if nothing is.

    A topology in pieces is refused, unless it need not be `whole`.
    """
    if edges is not None and network is not None:
        raise InputError("--edges and --network both say which brokers are linked; give one of them")
    if edges is not None:
        return of_edges(edges)
    if network is not None:
        return of_topology(network, whole=whole)
    return None if workload is None else of_workload(workload)
