"""How long plans take, from a file of traffic to a plan, beside plain versions of the same.

    python benchmarks/plans.py                        # small: seconds
    python benchmarks/plans.py --full                 # 100,000 clients, 2 million pairs; 1,000 brokers
    python benchmarks/plans.py --full --greedy 600    # Newman's algorithm too, given up after so many seconds
    python benchmarks/plans.py moves --shape random --json

Traffic is drawn from a seed: `groups` (of a hundred clients, a fifth of the messages to anybody), `random`
(anybody to anybody) and `popular` (a few senders whom very many hear, by Zipf's law). Brokers are in stars
along a backbone. Times are of a clock, and in parentheses of the processor: on a busy machine the second is
what counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tidings.cli.plan import files
from tidings.planning import plans
from tidings.planning.communities import extraction, published, search
from tidings.planning.communities.base import Flows, Limits, Network, mean_hops, moved
from tidings.planning.communities.extraction import Method
from tidings.planning.communities.published import Reading
from tidings.planning.graphs import Graph
from tidings.planning.stores import local, modified
from tidings.planning.stores import published as placing
from tidings.planning.stores.base import Demand, Problem, mean_distance

SHAPES = ("groups", "random", "popular")
SMALL, FULL = (5_000, 50_000), (100_000, 2_000_000)
"""Clients, and pairs of them that are drawn; a few are drawn twice."""

CLUSTERS, CLUSTER_BROKERS = 10, 10
GROUP = 100

STORES_SMALL = ((100, 50, 20, 10),)
STORES_FULL = ((100, 100, 20, 10), (1_000, 100, 50, 10))
"""Brokers, topics, brokers that ask for a topic, topics that a store holds."""

Row = dict[str, Any]


class Clock:
    """Times of steps, by name: seconds of a clock and of the processor."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float]] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.found[name] = (time.perf_counter() - wall, time.process_time() - cpu)


def drawn(
    shape: str, clients: int, pairs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    anybody = rng.integers(0, clients, pairs)
    if shape == "popular":
        chances = 1 / np.arange(1, clients + 1) ** 0.8
        senders = rng.permutation(clients)[rng.choice(clients, pairs, p=chances / chances.sum())]
    else:
        senders = rng.integers(0, clients, pairs)
    receivers = anybody
    if shape == "groups":
        near = np.minimum(senders // GROUP * GROUP + rng.integers(0, GROUP, pairs), clients - 1)
        receivers = np.where(rng.random(pairs) < 0.8, near, anybody)
    apart = senders != receivers
    return senders[apart], receivers[apart], rng.integers(1, 20, int(apart.sum()))


def overlay() -> tuple[Graph, dict[str, str]]:
    links: list[tuple[str, str, float]] = []
    clusters: dict[str, str] = {}
    for number in range(CLUSTERS):
        clusters[f"backbone{number}"] = ""
        if number:
            links.append((f"backbone{number - 1}", f"backbone{number}", 1.0))
        for member in range(CLUSTER_BROKERS):
            clusters[f"c{number}.{member}"] = f"c{number}"
            links.append((f"c{number}.{member}", f"c{number}.0" if member else f"backbone{number}", 1.0))
    return Graph.of(links), clusters


def moves(shape: str, clients: int, pairs: int, greedy_s: float) -> Row:
    """A plan of moves from a file, step by step."""
    graph, clusters = overlay()
    seats = [broker for broker, cluster in clusters.items() if cluster]
    homes = {
        f"u{number}": seats[at]
        for number, at in enumerate(np.random.default_rng(1).integers(0, len(seats), clients))
    }
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traffic.csv"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(f"u{a},u{b},{n}\n" for a, b, n in zip(*drawn(shape, clients, pairs), strict=True))
        with clock.step("read"):
            flows = files.traffic(file, homes)
        with clock.step("read line by line"):
            Flows.of(files.triples(file, files.TRAFFIC), homes)
    with clock.step("network"):
        network = Network.of(graph, clusters, homes, flows.clients)
    warm_up()
    with clock.step("published, leiden"):
        first = published.planned(network, flows, Limits(), Reading(method=Method.LEIDEN))
    with clock.step("search"):
        found = search.planned(network, flows, Limits(), starts=[first])
    allowed = len(moved(network, first.seats)[0]) // 2
    with clock.step("search, half the moves"):
        half = search.planned(network, flows, Limits(moves=allowed), starts=[first])
    with clock.step("plan and JSON"):
        size = len(plans.write(plans.of_moves(network, flows, found, "search", {})))
    row: Row = {
        "shape": shape,
        "clients": clients,
        "pairs": len(flows.messages),
        "brokers": len(graph.names),
        "seconds": clock.found,
        "in_all": tuple(
            sum(
                clock.found[name][at]
                for name in ("read", "network", "published, leiden", "search", "plan and JSON")
            )
            for at in (0, 1)
        ),
        "json_bytes": size,
        "modularity": first.modularity,
        "hops": {
            "before": mean_hops(network, flows, network.homes),
            "published": mean_hops(network, flows, first.seats),
            "search": mean_hops(network, flows, found.seats),
            "search, half the moves": mean_hops(network, flows, half.seats),
        },
        "moves": {
            "published": len(moved(network, first.seats)[0]),
            "search": len(moved(network, found.seats)[0]),
            "search, half the moves": len(moved(network, half.seats)[0]),
        },
    }
    if greedy_s:
        row["greedy"] = bounded(_greedy, (flows,), greedy_s)
    return row


def warm_up() -> None:
    """Compiled code is made once for a machine, and kept; that is not what is measured."""
    graph = Graph.of([("a", "b", 1.0)])
    flows = Flows.of([("u", "v", 1.0)])
    network = Network.of(graph, {"a": "x", "b": "y"}, {"u": "a", "v": "b"}, flows.clients)
    search.planned(network, flows, Limits())
    modified.votes(
        Graph.of((str(at), str(at + 1), 1.0) for at in range(modified.LARGE)), np.ones(modified.LARGE + 1), 1
    )


def _greedy(flows: Flows) -> float:
    return extraction.modularity(flows, extraction.communities(flows, Method.GREEDY))


def _told(job: Callable[..., float], words: tuple[Any, ...], pipe: Any) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    value = job(*words)
    pipe.send((value, time.perf_counter() - wall, time.process_time() - cpu))


def bounded(job: Callable[..., float], words: tuple[Any, ...], seconds: float) -> Row:
    """A job in a process of its own that is ended if it takes too long."""
    there, here = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_told, args=(job, words, here))
    process.start()
    try:
        if there.poll(seconds):
            value, wall, cpu = there.recv()
            return {"modularity": value, "seconds": (wall, cpu)}
        return {"given_up_after_s": seconds}
    finally:
        process.terminate()
        process.join()


def stores(brokers: int, topics: int, asking: int, capacity: int, *, plain: bool) -> Row:
    """Votes, the repaired placement and the search from there, on a tree."""
    rng = np.random.default_rng(0)
    graph = Graph.of((str(at), str(int(rng.integers(0, at))), 1.0) for at in range(1, brokers))
    rates = np.zeros((topics, brokers))
    for topic in range(topics):
        rates[topic, rng.choice(brokers, asking, replace=False)] = rng.random(asking)
    problem = Problem.of(graph, Demand(tuple(f"t{topic:05}" for topic in range(topics)), rates), 3, capacity)
    clock = Clock()
    with clock.step("distances"):
        _ = graph.distances
    warm_up()
    with clock.step("votes"):
        voted = placing.votes(problem)
    if plain:
        with clock.step("votes of one topic, plain"):
            modified.plain_votes(graph, rates[0], 3)
    with clock.step("placement"):
        printed, placed = placing.as_printed(problem, voted), placing.repaired(problem, voted)
    row: Row = {"brokers": brokers, "topics": topics, "asking": asking, "stores": problem.stores}
    row |= {
        "short_as_printed": len(printed.short),
        "hops": {"placement": mean_distance(problem, placed.assignment)},
    }
    if topics <= 100 and brokers <= 100:
        with clock.step("local"):
            found = local.improved(problem, placed)
        row["hops"]["local"] = mean_distance(problem, found.assignment)
    return {**row, "seconds": clock.found}


def shown(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.1f} s ({seconds[1]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="moves, stores; both by default")
    parser.add_argument("--full", action="store_true", help="the sizes that the docs give")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="only this traffic; may be repeated")
    parser.add_argument(
        "--greedy", type=float, default=0.0, metavar="SECONDS", help="time Newman's algorithm too"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args()
    if unknown := set(options.what) - {"moves", "stores"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are moves and stores")
    console = Console()
    if not options.what or "moves" in options.what:
        table = Table("traffic", "step", "time", title="moves")
        for shape in options.shape or SHAPES:
            row = moves(shape, *(FULL if options.full else SMALL), options.greedy)
            if options.json:
                print(json.dumps({"kind": "moves", **row}), flush=True)
                continue
            for step, seconds in row["seconds"].items():
                table.add_row(shape, step, shown(seconds))
            table.add_row(shape, "in all, read by columns", shown(row["in_all"]))
            if "greedy" in row:
                told = row["greedy"]
                table.add_row(
                    shape,
                    "Newman's greedy algorithm",
                    shown(told["seconds"]) if "seconds" in told else f"over {told['given_up_after_s']:g} s",
                )
            hops = ", ".join(f"{name} {value:.2f}" for name, value in row["hops"].items())
            table.add_row(shape, f"{row['clients']:,} clients, {row['pairs']:,} pairs", f"hops: {hops}")
        if not options.json:
            console.print(table)
    if not options.what or "stores" in options.what:
        table = Table("brokers", "topics", "step", "time", title="stores")
        for size in STORES_FULL if options.full else STORES_SMALL:
            row = stores(*size, plain=size[0] <= 100)
            if options.json:
                print(json.dumps({"kind": "stores", **row}), flush=True)
                continue
            for step, seconds in row["seconds"].items():
                table.add_row(f"{row['brokers']:,}", f"{row['topics']:,}", step, shown(seconds))
        if not options.json:
            console.print(table)


if __name__ == "__main__":
    main()
