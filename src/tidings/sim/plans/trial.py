"""A plan of moves, tried: the same workload before and after it, and why the figures are not the forecast.

A plan counts every message by itself along the shortest way. Brokers send a publication over each link at
most once, along the tree of its topic, and what is gathered goes by its seat. Each of these is a step from
the forecast to what brokers wrote down; every step is counted from the messages of the run itself, and what
the steps leave over is shown too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidings.errors import InputError
from tidings.planning import checks
from tidings.planning.communities import base
from tidings.planning.graphs import Graph
from tidings.planning.plans import Move, MovesPlan, Pair
from tidings.sim.brokers.promises import Breach
from tidings.sim.brokers.replay import Replay
from tidings.sim.brokers.run import Progress
from tidings.sim.plans import paths
from tidings.sim.plans import run as plan_runs
from tidings.sim.plans.paths import Carried
from tidings.sim.plans.run import Seen, session

ALIKE = 1e-9
"""Figures that differ by less are the same."""

ALL = "all"
"""The one cluster of a plan that names none."""


class Reason(StrEnum):
    """Why a figure is another one than the one before it."""

    FORECAST = "forecast"
    """What the plan says."""

    MESSAGES = "messages"
    """Counted as the plan does, for the messages of this run."""

    LINKS = "links"
    """In links, where the plan has lengths."""

    TREE = "tree"
    """Along the tree of the topic, and not the shortest way."""

    SEAT = "seat"
    """By the seat, where the topic is gathered."""

    ONCE = "once"
    """Each publication over a link once, however many want it behind."""

    SAME = "same"
    """Publications as they were, where the plan counts by links and knows only pairs of clients."""

    MEASURED = "measured"
    """As brokers wrote it down; for loads, with what nobody got."""


@dataclass(frozen=True, slots=True)
class Step:
    """A figure, in one way of counting."""

    reason: Reason
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Load:
    """What a link or a broker carries: as the plan counts, and as it was."""

    forecast: Pair
    measured: Pair


@dataclass(frozen=True, slots=True)
class Trial:
    """What was seen of a plan of moves."""

    moves: int
    """Clients that were elsewhere after the plan."""

    unmoved: int
    """Clients that the plan moves and that do nothing in the workload."""

    messages: Pair
    """From clients to clients."""

    published: int
    hops: tuple[Step, ...]
    """Of a message, client links included: from the forecast to what was measured."""

    backbone: tuple[Step, ...]
    """Messages for each broker of the backbone; nothing where there is none."""

    over_links: tuple[Step, ...]
    """Messages over all links together. A plan does not say what links carry, so this begins with the plan's
    way of counting for the messages of the run, as the forecasts of links and brokers do."""

    links: Mapping[tuple[str, str], Load]
    brokers: Mapping[str, Load]
    clusters: Mapping[str, Pair]
    """By cluster: what its clients send in fair shares; forecast and measured, after the plan."""

    clients: Mapping[str, tuple[int, int]]
    """By broker: how many clients of the workload are there before and after."""

    breaches: tuple[Breach, ...]
    """Promises that were broken, before or after."""

    virtual_s: float


def tried(
    plan: MovesPlan,
    replay: Replay,
    seed: int = 0,
    progress: Progress = lambda _text, _share: None,
    *,
    judge: bool = True,
) -> Trial:
    """Run the workload before and after; InputError where the plan is not of this workload.

    `judge`: run gathered topics once more on each side, so that all that was promised can be judged.
    """
    goals, unmoved = _goals(plan, replay)
    graph = _graph(plan, replay)
    moved = plan_runs.seated(replay, goals)
    seen = [
        plan_runs.run(replay, seed, lambda text, share: progress(f"before: {text}", share)),
        plan_runs.run(moved, seed, lambda text, share: progress(f"after: {text}", share)),
    ]
    breaches = [breach for one in seen for breach in one.breaches]
    if judge and replay.declared is not None:
        for one in (replay, moved):
            breaches += plan_runs.judged(one, seed, lambda text, share: progress(f"judging: {text}", share))
    sides = [_Side.of(plan, graph, run, side.homes) for run, side in zip(seen, (replay, moved), strict=True)]
    before, after = sides
    hops = _steps(plan.hops, before.hops(), after.hops())
    backbone = _steps(plan.backbone, before.backbone(), after.backbone()) if before.has_backbone else ()
    over_links = _steps(None, before.over_links(), after.over_links())
    loads = dict(zip(after.network.clusters, after.cluster_loads(), strict=True))
    homes = [Counter(one.homes.values()) for one in (replay, moved)]
    return Trial(
        len(goals),
        unmoved,
        Pair(before.total, after.total),
        len(replay.happenings),
        hops,
        backbone,
        over_links,
        {
            link: Load(
                Pair(*(side.alone.links[link] for side in sides)),
                Pair(*(float(side.over(link)) for side in sides)),
            )
            for link in before.alone.links
        },
        {
            name: Load(
                Pair(*(side.alone.brokers[name] for side in sides)),
                Pair(*(float(side.seen.counts.passed[name]) for side in sides)),
            )
            for name in graph.names
        },
        {name: Pair(plan.load.get(name, 0.0), share) for name, share in loads.items()},
        {name: (homes[0][name], homes[1][name]) for name in graph.names},
        tuple(breaches),
        max(one.virtual_s for one in seen),
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """Before or after: what was seen, and the same messages as a plan counts them."""

    seen: Seen
    network: base.Network
    flows: base.Flows
    alone: Carried
    """Every message by itself, along shortest ways."""

    in_trees: Carried
    by_seats: Carried

    @classmethod
    def of(cls, plan: MovesPlan, graph: Graph, seen: Seen, homes: Mapping[int, str]) -> _Side:
        counts = seen.counts
        names = {session(client): home for client, home in homes.items()}
        flows = base.Flows.of((one, other, float(n)) for (one, other), n in counts.messages.items())
        how, ends = _ways_of_counting(plan)
        flows = flows.counting(how)
        clusters = plan.network.clusters or dict.fromkeys(graph.names, ALL)
        network = base.Network.of(graph, clusters, names, flows.clients, ends)
        direct: Counter[tuple[str, str]] = Counter()
        trees: dict[str, tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]] = {}
        for way, n in counts.ways.items():
            direct[way.origin, way.goal] += n
            straight, bent = trees.setdefault(way.root, (Counter(), Counter()))
            straight[way.origin, way.goal] += n
            if way.seat:
                bent[way.origin, way.seat] += n
                bent[way.teller, way.goal] += n
            else:
                bent[way.origin, way.goal] += n
        nothing = paths.carried(graph, {})
        in_trees = by_seats = nothing
        for root, (straight, bent) in trees.items():
            tree = _tree(graph, seen, root)
            in_trees = paths.added(in_trees, paths.carried(tree, straight))
            by_seats = paths.added(by_seats, paths.carried(tree, bent))
        return cls(seen, network, flows, paths.carried(graph, direct), in_trees, by_seats)

    @property
    def total(self) -> float:
        return self.flows.copies

    @property
    def has_backbone(self) -> bool:
        return bool((self.network.cluster_of == base.BACKBONE).any())

    def over(self, link: tuple[str, str]) -> int:
        """What was measured on a link, in both directions."""
        one, other = link
        return self.seen.counts.links[one, other] + self.seen.counts.links[other, one]

    def hops(self) -> dict[Reason, float]:
        """Of a message, in every way of counting."""
        seats = self.network.homes

        def mean(links: float) -> float:
            return links / self.total + base.CLIENT_LINKS if self.total else 0.0

        return {
            Reason.MESSAGES: base.mean_hops(self.network, self.flows, seats),
            Reason.LINKS: mean(self.alone.over_links),
            Reason.TREE: mean(self.in_trees.over_links),
            Reason.SEAT: mean(self.by_seats.over_links),
            Reason.MEASURED: mean(self.seen.counts.hops),
        }

    def backbone(self) -> dict[Reason, float]:
        """Messages for each broker of the backbone, in every way of counting."""
        names = self.network.graph.names
        members = [names[at] for at in range(len(names)) if self.network.cluster_of[at] == base.BACKBONE]

        def mean(by_broker: Mapping[str, float]) -> float:
            return sum(by_broker.get(name, 0) for name in members) / len(members)

        passed, idle = self.seen.counts.passed, self.seen.counts.idle
        copied = self.flows.counted is base.Counted.COPY
        ways = {Reason.TREE: mean(self.in_trees.brokers), Reason.SEAT: mean(self.by_seats.brokers)}
        return {
            Reason.MESSAGES: base.backbone(self.network, self.flows, self.network.homes),
            **(ways if copied else {}),
            Reason.ONCE if copied else Reason.SAME: mean(passed - idle),
            Reason.MEASURED: mean(passed),
        }

    def over_links(self) -> dict[Reason, float]:
        """Messages over all links together, in every way of counting."""
        counts = self.seen.counts
        return {
            Reason.MESSAGES: self.alone.over_links,
            Reason.TREE: self.in_trees.over_links,
            Reason.SEAT: self.by_seats.over_links,
            Reason.ONCE: float(counts.links.total() - counts.idle_links),
            Reason.MEASURED: float(counts.links.total()),
        }

    def cluster_loads(self) -> list[float]:
        """What the clients of each cluster send, in fair shares."""
        found: list[float] = base.cluster_loads(self.network, self.flows, self.network.homes).tolist()
        return found


def _ways_of_counting(plan: MovesPlan) -> tuple[base.Counted, float]:
    """What counts as a message in the plan, and what the links of clients add to its hops."""
    how = plan.settings.get("count", base.Counted.COPY)
    ends = plan.settings.get("client_links", base.CLIENT_LINKS)
    if how not in list(base.Counted):
        raise InputError(f"the plan counts messages by {how!r}; known are {' and '.join(base.Counted)}")
    if isinstance(ends, bool) or not isinstance(ends, int | float):
        raise InputError(f"the plan has client_links {ends!r} among its settings; it is a number")
    return base.Counted(how), float(ends)


def _steps(
    forecast: Pair | None, before: dict[Reason, float], after: dict[Reason, float]
) -> tuple[Step, ...]:
    """From the forecast to what was measured; ways of counting that change nothing are left out."""
    found = [] if forecast is None else [Step(Reason.FORECAST, forecast.before, forecast.after)]
    for reason, value in before.items():
        step = Step(reason, value, after[reason])
        if not found or reason is Reason.MEASURED or _differ(found[-1], step):
            found.append(step)
    return tuple(found)


def _differ(one: Step, other: Step) -> bool:
    return max(abs(one.before - other.before), abs(one.after - other.after)) >= ALIKE


def _tree(graph: Graph, seen: Seen, root: str) -> Graph:
    """A tree of brokers as a graph; where everything was on the spot any will do."""
    if not root:
        return graph
    return Graph.of(((one, other, 1.0) for one, other in seen.trees[root]), graph.names)


# Whether the plan is of this workload.

NAMED = re.compile(r"(?:c|client-)?(\d+)")
"""A client by its number, or as records name it: by the session that the simulator or the demo gives it."""


def _goals(plan: MovesPlan, replay: Replay) -> tuple[dict[int, str], int]:
    """Where clients of the workload go, and how many of the plan's are not among them."""
    goals: dict[int, str] = {}
    unmoved = 0
    brokers = set(replay.topology.ids)
    for move in plan.moves:
        if move.goal not in brokers:
            raise InputError(
                f"the plan moves client {move.client} to {move.goal!r}, which is no broker of the network"
            )
        number = _number(move)
        home = replay.homes.get(number)
        if home is None:
            unmoved += 1
            continue
        if home != move.source:
            raise InputError(
                f"the plan moves client {move.client} from {move.source}, and the workload has it at {home}; "
                "give the workload that the plan was made for, or plan again"
            )
        goals[number] = move.goal
    return goals, unmoved


def _number(move: Move) -> int:
    found = NAMED.fullmatch(move.client)
    if found is None:
        raise InputError(
            f"the plan moves client {move.client!r}, and clients of a workload are numbers; give a plan that "
            "was made for a workload, or for the records of its simulation"
        )
    return int(found[1])


def _graph(plan: MovesPlan, replay: Replay) -> Graph:
    """The network of the plan, which must be that of the workload but for lengths."""
    topology = replay.topology
    there = Graph.of(((link.one, link.other, 1.0) for link in topology.links), topology.ids)
    for home in replay.homes.values():
        if home not in there.place:
            raise InputError(f"the workload has clients at {home!r}, which is no broker of the network")
    found = [one for one in checks.network(plan, there) if one.change is not checks.Change.LINK_LENGTH]
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise InputError(
            f"the workload does not run on the network of the plan: {found[0].text}{more}; give the network "
            "that the plan was made for with --network, or plan again"
        )
    return Graph.of(plan.network.links, plan.network.brokers)
