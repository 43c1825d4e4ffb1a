"""What is said about a plan and about its trial: sentences with its own figures, for page and terminal.

Every difference between forecast and measured has its reason here, in words; the figures are counted where
the plan was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from tidings.console.captions import Caption
from tidings.console.plan_scene import AnyTrial, Scene, Stream
from tidings.console.words import clipped, counted, listed, percent
from tidings.planning.plans import MovesPlan, Pair, Plan, StoresPlan
from tidings.sim.plans.requests import Step as RequestStep
from tidings.sim.plans.requests import StoresTrial
from tidings.sim.plans.trial import ALIKE, Reason, Step, Trial

AnyStep: TypeAlias = Step | RequestStep

NAME_LENGTH = 40
MINUS = "\N{MINUS SIGN}"
NAMED_MAX = 6

NOT_BROKERS = (
    "This is not broker code. Brokers have no stores yet; so requests are walked from broker to broker, by "
    "a small program that knows only what a broker would know: its neighbours, and how far each says that a "
    "topic is."
)

NAMES = {
    Reason.FORECAST: "the plan's forecast",
    Reason.MESSAGES: "for what was sent in this run",
    Reason.LINKS: "in links, not lengths",
    Reason.TREE: "along the tree of the topic",
    Reason.SEAT: "by the seat of the topic",
    Reason.ONCE: "each link at most once",
    Reason.SAME: "publications as they were",
    Reason.MEASURED: "measured",
}

HOPS = {
    Reason.MESSAGES: "what was sent in this run is not what the plan was made from; this is the plan's own "
    "way of counting, for the messages of the run",
    Reason.LINKS: "the plan adds up the lengths of links, brokers count links",
    Reason.TREE: "brokers send along one tree for each topic, from one root, and the way between two brokers "
    "in it is not always the shortest",
    Reason.SEAT: "reports on a gathered topic go to its seat, and the event goes from there to who wants it",
}

LOADS = {
    Reason.MESSAGES: HOPS[Reason.MESSAGES],
    Reason.TREE: "the same messages take the ways of the tree, which meet near its root",
    Reason.SEAT: "what is gathered takes the way to its seat and the way from there",
    Reason.ONCE: "a publication crosses a link once for all who want it behind, while the plan counts one "
    "copy for each of them",
    Reason.SAME: "the plan knows pairs of clients and takes as many of their messages for the same as can "
    "be, along shortest ways; these are the publications that brokers really sent",
    Reason.MEASURED: "reports that said nothing new, and events that nobody asked for, travel too; a plan "
    "knows no receiver for them",
}

REQUESTS = {
    Reason.MESSAGES: "what was asked for is not what the plan was made for; this is the plan's own way of "
    "counting, for these requests",
    Reason.LINKS: HOPS[Reason.LINKS],
    Reason.MEASURED: "of several ways that are equally long some have more links, and brokers take turns",
}


# Why figures differ.


def why(steps: Sequence[AnyStep], reasons: dict[Reason, str], digits: int) -> list[str]:
    """A sentence for every step from the forecast to what was measured."""
    found = []
    for last, step in pairwise(steps):
        change = _change(last, step, digits)
        if not change:
            continue
        reason = reasons.get(step.reason, "what none of the reasons above explains")
        found.append(f"{change}: {reason}.")
    if not found:
        found = ["Measured and forecast are the same."]
    return found


LINKS_COUNTED = (
    "A plan does not say what each link carries; as forecast stands what its way of counting gives for the "
    "messages of this run."
)


def _values(step: AnyStep) -> tuple[float, ...]:
    return (step.hops,) if isinstance(step, RequestStep) else (step.before, step.after)


def _change(last: AnyStep, step: AnyStep, digits: int) -> str:
    changes = [now - then for then, now in zip(_values(last), _values(step), strict=True)]
    if max(map(abs, changes)) <= ALIKE:
        return ""
    said = [f"{change:+,.{digits}f}".replace("-", MINUS) for change in changes]
    return said[0] if len(said) == 1 else f"{said[0]} before and {said[1]} after"


def explained(trial: AnyTrial) -> list[tuple[str, list[str]]]:
    """All differences: of which figure, and the sentences."""
    if isinstance(trial, StoresTrial):
        found = [("Hops of a request", why(trial.steps, REQUESTS, 3))]
        if any(abs(share.forecast - share.measured) > ALIKE for share in trial.stores.values()):
            said = (
                "where two stores are equally near, brokers take turns, while the plan counts on the lowest"
            )
            if len(trial.steps) > 2:
                said += "; and what was asked for is not what the plan was made for"
            found.append(("Requests by store", [f"Shares differ: {said}."]))
        if trial.unserved:
            lost = counted(trial.unserved, "request was", "requests were")
            found.append(("Not served", [f"{lost} for topics that the plan does not keep."]))
        return found
    found = [("Mean hops", why(trial.hops, HOPS, 3))]
    if trial.backbone:
        found.append(("Messages for each broker of the backbone", why(trial.backbone, LOADS, 1)))
    found.append(("Messages over all links", why(trial.over_links, LOADS, 0)))
    if trial.unmoved:
        idle = counted(trial.unmoved, "client")
        found.append(("Clients", [f"{idle} of the plan neither publish nor subscribe in this run."]))
    return found


def verdict(trial: Trial) -> str:
    """Whether promises were kept, in both runs."""
    if trial.breaches:
        broken = counted(len(trial.breaches), "promise was", "promises were")
        return f"{broken} broken; the first: {trial.breaches[0]}"
    return "nothing was lost and nothing came twice, before and after"


def saved(pair: Pair) -> str:
    """By how much a figure falls, or rises."""
    if not pair.before:
        return ""
    share = (pair.after - pair.before) / pair.before
    return f"{share:+.1%}".replace("%", "\N{NO-BREAK SPACE}%").replace("-", MINUS)


# The top of the page.


def title(plan: Plan) -> str:
    if isinstance(plan, StoresPlan):
        topics = counted(len(plan.assignment), "topic")
        return f"{counted(plan.cost.stores, 'store')} for {topics}"
    moves = plan.cost.moves
    return f"{counted(moves, 'client')} to other brokers" if moves else "Nobody moves"


def lead(plan: Plan) -> str:
    if isinstance(plan, StoresPlan):
        return (
            "Some brokers keep what was published, for those who ask later. This plan says which brokers "
            "keep which topics, so that requests travel little. Nothing has been changed yet."
        )
    return (
        "Clients that talk to each other should be connected to brokers near each other. This plan says "
        "which clients go to which broker. Nothing has been changed yet."
    )


# Pictures.


def network(plan: Plan, scene: Scene) -> Caption:
    brokers = counted(len(scene.spots), "broker")
    if isinstance(plan, StoresPlan):
        busiest = max(plan.stores, key=lambda name: plan.forecast.loads[name], default="")
        shows = [
            "Circles are brokers: first as large as what clients ask for there, then as what they serve."
        ]
        shows.append("Stores are green.")
        if busiest:
            shows.append(f"{_name(busiest)} serves the most.")
        if scene.carried:
            shows.append("Lines are links, as thick as the requests that crossed them.")
        stores = listed([_name(name) for name in plan.stores[:NAMED_MAX]])
        alt = (
            f"Two drawings of {brokers}: where requests come from, and the stores that serve them: {stores}."
        )
        return Caption("Where stores go", " ".join(shows), "", alt)
    shows = [f"Circles are brokers, the larger the more {scene.counted}; both pictures have one scale."]
    if scene.clustered:
        shows.append("Brokers of one cluster share a ground.")
    if scene.has_backbone:
        shows.append("Grey ones are the backbone, without clients.")
    if scene.carried:
        shows.append(
            "Lines are links, as thick as what brokers really sent over them, each publication once."
        )
    alt = f"Two drawings of {brokers} and {counted(len(scene.wires), 'link')}, before and after the plan."
    return Caption("The network before and after", " ".join(shows), "", alt)


def moves(plan: MovesPlan, streams: Sequence[Stream]) -> Caption:
    across = [one for one in streams if one.source != one.goal]
    shows = [f"{counted(plan.cost.moves_across, 'client goes', 'clients go')} to another cluster"]
    shows[0] += (
        f", {counted(plan.cost.moves_inside, 'more changes', 'more change')} brokers inside their own."
        if plan.cost.moves_inside
        else "."
    )
    if across:
        largest = max(across, key=lambda one: one.clients)
        shows.append(
            f"The broadest stream has {counted(largest.clients, 'client')}, from {_name(largest.source)} to "
            f"{_name(largest.goal)}."
        )
    alt = f"Streams of clients between clusters: {counted(len(across), 'stream')} to another cluster."
    return Caption("Where clients go", " ".join(shows), "", alt)


def loads(plan: Plan, trial: AnyTrial | None) -> Caption:
    if isinstance(plan, StoresPlan):
        most = max(plan.forecast.loads.values(), default=0.0)
        total = sum(plan.forecast.loads.values())
        shows = f"How requests are shared among stores; the busiest serves {percent(most, total)} of them."
        alt = f"Bars: the requests of {counted(len(plan.stores), 'store')}."
        return Caption("What each store serves", shows, "", alt)
    worst = max(plan.load, key=lambda name: plan.load[name], default="")
    shows = (
        "What the clients of each cluster send after the plan, in fair shares: 1 is what its brokers would "
        "have if all had the same."
    )
    if worst:
        shows += f" {_name(worst)} has the most, {plan.load[worst]:.2f}."
    was, now = plan.busiest.before, plan.busiest.after
    shows += (
        f" The busiest broker has {now.load:.2f} even shares ({_name(now.broker)}); before the plan it is "
        f"{was.load:.2f} ({_name(was.broker)})."
    )
    if trial is not None:
        shows += " Measured is the same count of what was delivered in the run."
    alt = f"Bars: the loads of {counted(len(plan.load), 'cluster')}."
    return Caption("What each cluster has to carry", shows, "", alt)


def topics(plan: StoresPlan) -> Caption:
    replicas = plan.cost.replicas
    shows = (
        f"A dot: this store keeps this topic. {counted(replicas, 'replica')} in all, of which "
        f"{counted(plan.cost.copies, 'has', 'have')} to be copied first."
    )
    if plan.short:
        shows += f" {counted(len(plan.short), 'topic has', 'topics have')} fewer replicas than asked for."
    kept = counted(len(plan.assignment), "topic")
    alt = f"A field of dots: {kept} by {counted(len(plan.stores), 'store')}."
    return Caption("Which store keeps what", shows, "", alt)


def frontier(plan: MovesPlan) -> Caption:
    points = plan.forecast.frontier
    first, best = min(points), min(points, key=lambda point: point[1])
    shows = (
        f"Without any move it is {plan.hops.before:.2f} hops. Each point is a plan that moves so many "
        f"clients to another broker: from {first[1]:.2f} hops with {first[0]:,} to {best[1]:.2f} with "
        f"{best[0]:,}."
    )
    alt = f"A falling curve of {counted(len(points), 'point')}: the more moves, the fewer hops."
    return Caption("What fewer and more moves would give", shows, "", alt)


def steps(trial: AnyTrial) -> Caption:
    if isinstance(trial, StoresTrial):
        first, last = trial.steps[0].hops, trial.steps[-1].hops
        shows = f"The plan expects {first:.3f} hops for a request; walked, it was {last:.3f}. {NOT_BROKERS}"
        alt = f"Bars: mean hops of a request, forecast {first:.3f}, measured {last:.3f}."
        return Caption("Forecast and measured", shows, "", alt)
    first_, last_ = trial.hops[0], trial.hops[-1]
    shows = (
        f"The plan expects {first_.before:.2f} hops before and {first_.after:.2f} after; brokers wrote down "
        f"{last_.before:.2f} and {last_.after:.2f}. Each bar between counts the same messages in a way that "
        "is one step nearer to what brokers do."
    )
    alt = f"Bars from forecast to measured, in {counted(len(trial.hops), 'step')} for hops"
    alt += f", {len(trial.backbone)} for the backbone" if trial.backbone else ""
    alt += f" and {len(trial.over_links)} for all links."
    return Caption("From the forecast to what was measured", shows, "", alt)


def _name(text: str) -> str:
    return clipped(text, NAME_LENGTH) or "the backbone"
