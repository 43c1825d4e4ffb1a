"""What the pictures of a plan show, as plain values: brokers, links, and what each has before and after.

It comes from the plan alone, or with what was seen when it was tried. Nothing is drawn and nothing is said
here; where brokers are drawn follows from how far they are from each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.planning.graphs import Graph
from tidings.planning.plans import MovesPlan, Plan, StoresPlan, Topology
from tidings.sim.plans.requests import StoresTrial
from tidings.sim.plans.trial import Trial

AnyTrial = Trial | StoresTrial

ROUNDS = 60
"""Of moving brokers to where their distances are right; it hardly changes after a third of them."""

PLACED_MAX = 1_000
"""Brokers beyond which only a circle is drawn: a matrix of their distances is inverted."""

GOLDEN_TURN = 2.399963


@dataclass(frozen=True, slots=True)
class Spot:
    """A broker."""

    name: str
    x: float
    y: float
    """In a square of size 1."""

    cluster: str
    """Empty for one of the backbone, or where there are no clusters."""

    before: float
    after: float
    store: bool = False


@dataclass(frozen=True, slots=True)
class Wire:
    """A link."""

    a: str
    b: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Scene:
    """A network before and after."""

    spots: tuple[Spot, ...]
    """The busiest first."""

    wires: tuple[Wire, ...]
    counted: str
    """What the circles count."""

    carried: str
    """What the links count; empty where that is not known."""

    clustered: bool

    @property
    def has_backbone(self) -> bool:
        return self.clustered and not all(spot.cluster for spot in self.spots)


@dataclass(frozen=True, slots=True)
class Stream:
    """Clients from one cluster to another."""

    source: str
    goal: str
    clients: int


def of(plan: Plan, trial: AnyTrial | None) -> Scene:
    """The scene of a plan."""
    if isinstance(plan, StoresPlan):
        return _stores(plan, trial if isinstance(trial, StoresTrial) else None)
    return _moves(plan, trial if isinstance(trial, Trial) else None)


def _moves(plan: MovesPlan, trial: Trial | None) -> Scene:
    counted, carried = "clients they have", ""
    before: Mapping[str, float] = {name: float(n) for name, n in plan.clients.before.items()}
    after: Mapping[str, float] = {name: float(n) for name, n in plan.clients.after.items()}
    links: Mapping[tuple[str, str], tuple[float, float]] = {}
    if trial is not None:
        counted, carried = "messages pass them", "messages"
        before = {name: load.measured.before for name, load in trial.brokers.items()}
        after = {name: load.measured.after for name, load in trial.brokers.items()}
        links = {link: (load.measured.before, load.measured.after) for link, load in trial.links.items()}
    return _scene(plan.network, before, after, links, counted, carried, ())


def _stores(plan: StoresPlan, trial: StoresTrial | None) -> Scene:
    carried = ""
    before: Mapping[str, float] = plan.rates
    after: Mapping[str, float] = plan.forecast.loads
    links: Mapping[tuple[str, str], tuple[float, float]] = {}
    if trial is not None:
        carried = "requests"
        before = {name: float(n) for name, n in trial.entered.items()}
        after = {name: share.measured * trial.requests for name, share in trial.stores.items()}
        links = {link: (0.0, float(n)) for link, (_, n) in trial.links.items()}
    return _scene(plan.network, before, after, links, "requests", carried, plan.stores)


def _scene(
    network: Topology,
    before: Mapping[str, float],
    after: Mapping[str, float],
    links: Mapping[tuple[str, str], tuple[float, float]],
    counted: str,
    carried: str,
    stores: Sequence[str],
) -> Scene:
    graph = Graph.of(network.links, network.brokers)
    spots = [
        Spot(
            name,
            x,
            y,
            network.clusters.get(name, ""),
            before.get(name, 0.0),
            after.get(name, 0.0),
            name in stores,
        )
        for name, (x, y) in zip(graph.names, placed(graph).tolist(), strict=True)
    ]
    spots.sort(key=lambda spot: (not spot.store, -max(spot.before, spot.after), graph.place[spot.name]))
    wires = [
        Wire(graph.names[a], graph.names[b], *links.get((graph.names[a], graph.names[b]), (0.0, 0.0)))
        for a, b, _ in graph.links
    ]
    return Scene(tuple(spots), tuple(wires), counted, carried, any(network.clusters.values()))


def streams(plan: MovesPlan) -> tuple[Stream, ...]:
    """Clients by the clusters that they come from and go to, those who stay included, the largest first."""
    cluster = plan.network.clusters
    found: Counter[tuple[str, str]] = Counter()
    for name, count in plan.clients.before.items():
        home = cluster.get(name, name)
        found[home, home] += count
    for move in plan.moves:
        source, goal = cluster.get(move.source, move.source), cluster.get(move.goal, move.goal)
        if source != goal:
            found[source, goal] += 1
            if plan.clients.before:
                found[source, source] -= 1
    kept = [Stream(source, goal, n) for (source, goal), n in found.items() if n > 0]
    return tuple(sorted(kept, key=lambda one: (-one.clients, one.source, one.goal)))


# Where brokers are drawn.


def placed(graph: Graph) -> NDArray[np.float64]:
    """Places in a square of size 1, as far apart as the links say: by stress majorization.

    (Gansner, Koren and North 2004, from a start by Torgerson 1952; the same in every run.)
    """
    count = len(graph.names)
    turns = np.arange(count) * (2 * np.pi / max(1, count))
    if count < 3 or count > PLACED_MAX:
        return _squared(np.stack([np.cos(turns), np.sin(turns)], axis=1))
    far = graph.distances
    places = _begun(far)
    # Near brokers count more: a mistake is as bad as the share that it is of the distance.
    weights = 1.0 / np.where(far > 0, far, np.inf) ** 2
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    for _ in range(ROUNDS):
        ways = places[:, None, :] - places[None, :, :]
        apart = np.sqrt((ways**2).sum(axis=2))
        pulls = -weights * far / np.where(apart > 1e-9, apart, np.inf)
        np.fill_diagonal(pulls, 0.0)
        np.fill_diagonal(pulls, -pulls.sum(axis=1))
        places = inverse @ (pulls @ places)
    return _squared(places)


def _begun(far: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two directions in which brokers are farthest apart."""
    count = len(far)
    centred = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centred @ far**2 @ centred)
    two = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # Which way round is for nobody to say, and must not be for the machine.
    two *= np.sign(two[np.abs(two).argmax(axis=0), [0, 1]])
    turns = np.arange(count) * GOLDEN_TURN
    begun: NDArray[np.float64] = two + 0.05 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return begun


def _squared(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stretched over the square; wider than high, as screens are."""
    centred = places - places.mean(axis=0)
    if len(places) > 2:
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        centred = centred @ axes.T
    span = np.ptp(centred, axis=0)
    found: NDArray[np.float64] = np.where(
        span > 1e-9, (centred - centred.min(axis=0)) / np.where(span > 1e-9, span, 1.0), 0.5
    )
    return found
