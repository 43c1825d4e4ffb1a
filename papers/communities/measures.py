"""One run: an overlay, clients, who talks to whom, and what each planner makes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.communities import overlays, relations
from papers.communities.setting import Setting
from tidings.planning.communities import base, interest, published, search
from tidings.planning.communities.base import Flows, Limits, Network, Seating
from tidings.planning.communities.published import Division, Reading

Row = dict[str, Any]

BEFORE, PUBLISHED, UNDIVIDED, SEATS, INTEREST, SEARCH, HALF, SEARCH_UNDIVIDED = PLANNERS = (
    "before",
    "published",
    "published, not divided again",
    "published, better seats",
    "interest",
    "search",
    "search, half the moves",
    "search, beside not divided",
)
HOPS_MAX = 20

POINTS = 8
"""Of the frontier."""


def drawn(setting: Setting, kind: str, seed: int, *, equal: bool, crowded: bool) -> tuple[Network, Flows]:
    """A network and its traffic."""
    rng = Random(seed)
    graph, clusters = overlays.made(overlays.sizes(rng, equal=equal))
    at = overlays.homes(setting.clients, clusters, rng, crowded=crowded)
    flows = Flows.of(relations.flows(kind, setting, rng), at)
    return Network.of(graph, clusters, at, flows.clients), flows


def run(setting: Setting, kind: str, seed: int, *, equal: bool, crowded: bool) -> list[Row]:
    """A row for each planner."""
    network, flows = drawn(setting, kind, seed, equal=equal, crowded=crowded)
    limits = Limits(setting.overload, broker_overload=math.inf)
    plan = published.planned(network, flows, limits, seed=seed)
    whole = published.planned(network, flows, limits, Reading(divide=Division.NONE), seed)
    # Better seats in the clusters that the published plan chose: as if clients were there already.
    there = replace(network, homes=plan.seats)
    seatings = {
        BEFORE: Seating(network.homes),
        PUBLISHED: plan,
        UNDIVIDED: whole,
        SEATS: search.planned(there, flows, replace(_beside(network, flows, plan), moves_across=0), seed),
        INTEREST: interest.planned(network, flows, limits, seed=seed),
        SEARCH: search.planned(network, flows, _beside(network, flows, plan), seed, [plan]),
        HALF: search.planned(network, flows, _beside(network, flows, plan, 0.5), seed),
        SEARCH_UNDIVIDED: search.planned(network, flows, _beside(network, flows, whole), seed, [whole]),
    }
    return [
        {"planner": name, **_measured(setting, network, flows, seating)} for name, seating in seatings.items()
    ]


def frontier(setting: Setting, kind: str, seed: int) -> list[Row]:
    """Moves against hops, and where the published plans are beside it."""
    network, flows = drawn(setting, kind, seed, equal=False, crowded=False)
    plan = published.planned(network, flows, Limits(setting.overload, broker_overload=math.inf), seed=seed)
    limits = _beside(network, flows, plan)
    seatings = [search.planned(network, flows, replace(limits, moves_across=None), seed)]
    most = _across(network, seatings[0])
    begin = Seating(network.homes)
    for budget in sorted({round(most * part / (POINTS - 1)) for part in range(POINTS - 1)} - {most}):
        begin = search.planned(network, flows, replace(limits, moves_across=budget), seed, [begin])
        seatings.append(begin)
    seatings.sort(key=lambda seating: _across(network, seating))
    return [
        {"number": number, "moves": _across(network, one), "hops": base.mean_hops(network, flows, one.seats)}
        for number, one in [*enumerate(seatings), (-1, plan)]
    ]


def _across(network: Network, seating: Seating) -> int:
    """The moves that the paper counts: those to another cluster."""
    return len(base.moved(network, seating.seats)[0])


def _beside(network: Network, flows: Flows, plan: Seating, part: float = 1.0) -> Limits:
    """As many moves as a plan has, or a part of them, and no busier cluster or broker."""
    even = base.even_share(network, flows)
    return Limits(
        max(1.0, float(base.cluster_loads(network, flows, plan.seats).max())),
        moves_across=int(_across(network, plan) * part),
        broker_overload=max(1.0, float(base.broker_loads(network, flows, plan.seats).max()) / even),
    )


def _measured(setting: Setting, network: Network, flows: Flows, seating: Seating) -> Row:
    seats = seating.seats
    across, inside = base.moved(network, seats)
    counts = base.hop_counts(network, flows, seats)
    share = [counts.get(float(hops), 0.0) / flows.copies for hops in range(HOPS_MAX)]
    waits = _latencies(setting, network, flows, seats)
    order = np.argsort(waits)
    sums = np.cumsum(flows.messages[order]) / flows.copies
    within = {
        f"within_{ms}_ms": float(sums[np.searchsorted(waits[order], ms, side="right") - 1])
        if (waits <= ms).any()
        else 0.0
        for ms in (100, 500)
    }
    return {
        "hops": base.mean_hops(network, flows, seats),
        "within_4": sum(share[:5]),
        "within_5": sum(share[:6]),
        "from_5_to_9": sum(share[5:10]),
        "peak": int(np.argmax(share)),
        "backbone": base.backbone(network, flows, seats),
        "moves": len(across),
        "moves_inside": len(inside),
        "load": float(base.cluster_loads(network, flows, seats).max()),
        "modularity": (seating.final or seating).modularity or 0.0,
        "inside": _inside(flows, seating),
        "share": " ".join(f"{one:.4f}" for one in share),
        **within,
    }


def _inside(flows: Flows, seating: Seating) -> float:
    """The share of messages inside communities of the last division, at least their modularity."""
    if seating.last is None:
        return 0.0
    same = seating.last[flows.senders] == seating.last[flows.receivers]
    return float(flows.messages[same].sum()) / flows.copies


def _latencies(
    setting: Setting, network: Network, flows: Flows, seats: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of each pair: links, and at each broker on the way its time, longer the busier it is.

    A broker that is busy for a share of the time takes its service time over what is left of it (a queue with
    one server). The time in which all is sent is such that the busiest broker is as busy as set before
    anything moves; it is the same for all seatings.
    """
    before = base.passing(network, flows, network.homes).max()
    busy = np.minimum(base.passing(network, flows, seats) / before * setting.busy, 0.99)
    at_broker = setting.service_ms / (1 - busy)
    found = np.empty(len(flows.messages))
    towards: dict[int, list[int]] = {}
    for number, (sender, receiver) in enumerate(
        zip(flows.senders.tolist(), flows.receivers.tolist(), strict=True)
    ):
        here, goal = int(seats[sender]), int(seats[receiver])
        way = towards.setdefault(goal, network.graph.towards(goal)) if goal not in towards else towards[goal]
        total = at_broker[here] + base.CLIENT_LINKS * setting.link_ms
        while here != goal:
            here = way[here]
            total += at_broker[here] + setting.link_ms
        found[number] = total
    return found
