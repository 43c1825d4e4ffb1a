"""The figures of a plan and of its trial as tables of text, for page and terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidings.console.plan_scene import AnyTrial
from tidings.console.plan_words import NAMES, saved
from tidings.console.tables import Table
from tidings.planning.plans import MovesPlan, Pair, Plan, StoresPlan
from tidings.sim.plans.requests import StoresTrial
from tidings.sim.plans.trial import Load, Step, Trial


def compared(plan: Plan, trial: AnyTrial) -> Table:
    """Forecast and measured, side by side."""
    if isinstance(plan, StoresPlan) and isinstance(trial, StoresTrial):
        return _stores(trial)
    assert isinstance(plan, MovesPlan), "a trial is of its plan"
    assert isinstance(trial, Trial), "a trial is of its plan"
    return _moves(plan, trial)


def _moves(plan: MovesPlan, trial: Trial) -> Table:
    loads = list(trial.links.values())
    forecast, measured = [one.forecast for one in loads], [one.measured for one in loads]
    rows = [_row("mean hops of a message", plan.hops, _last(trial.hops), digits=3)]
    if trial.backbone:
        name = "messages for each broker of the backbone"
        rows.append(_row(name, plan.backbone, _last(trial.backbone), digits=1))
    for name, what in (("all links", sum), ("the busiest link", max)):
        pairs = _taken(what, forecast), _taken(what, measured)
        rows.append(_row(f"messages over {name}", *pairs, digits=0))
    most = _taken(max, list(trial.clusters.values()))
    rows.append(("largest load of a cluster, in fair shares", f"{most.before:.2f}", f"{most.after:.2f}"))
    return Table("Forecast and measured", ("before → after", "forecast", "measured"), rows)


WHEN = ("before", "after")
SPACE = "\N{NO-BREAK SPACE}"


def _taken(what: Callable[[Iterable[float]], float], pairs: Sequence[Pair]) -> Pair:
    """Something of the figures before, and of those after."""
    return Pair(what([0.0, *(one.before for one in pairs)]), what([0.0, *(one.after for one in pairs)]))


def _last(steps: Sequence[Step]) -> Pair:
    return Pair(steps[-1].before, steps[-1].after)


def _row(name: str, *pairs: Pair, digits: int) -> tuple[str, ...]:
    cells = [f"{pair.before:,.{digits}f} →{SPACE}{pair.after:,.{digits}f} {saved(pair)}" for pair in pairs]
    return (name, *cells)


def _stores(trial: StoresTrial) -> Table:
    forecast, measured = trial.steps[0].hops, trial.steps[-1].hops
    rows = [("mean hops of a request", f"{forecast:.3f}", f"{measured:.3f}")]
    rows += [
        (f"of {topic}", f"{before:.3f}", f"{after:.3f}") for topic, (before, after) in trial.topics.items()
    ]
    rows += [
        (f"share of {name}", f"{share.forecast:.1%}", f"{share.measured:.1%}")
        for name, share in trial.stores.items()
    ]
    rows.append(
        (
            "requests over all links",
            f"{sum(one for one, _ in trial.links.values()):,.0f}",
            f"{sum(other for _, other in trial.links.values()):,}",
        )
    )
    return Table("Forecast and measured", ("", "forecast", "measured"), rows)


def steps(name: str, taken: Sequence[Step], digits: int) -> Table:
    """From the forecast to what was measured, of one figure."""
    rows = [(NAMES[step.reason], f"{step.before:,.{digits}f}", f"{step.after:,.{digits}f}") for step in taken]
    return Table(name, ("", *WHEN), rows)


def clusters(trial: Trial) -> Table:
    """What the clients of each cluster send after the plan."""
    return Table(
        "Load of clusters after it, in fair shares",
        ("cluster", "forecast", "measured"),
        [(name, f"{pair.before:.2f}", f"{pair.after:.2f}") for name, pair in trial.clusters.items()],
    )


def links(trial: AnyTrial) -> Table:
    """What every link carries, the busiest first."""
    if isinstance(trial, StoresTrial):
        pairs = sorted(trial.links.items(), key=lambda item: (-item[1][1], item[0]))
        return Table(
            "The links in numbers",
            ("link", "forecast", "measured"),
            [(f"{a} – {b}", f"{one:,.0f}", f"{other:,}") for (a, b), (one, other) in pairs],
        )
    busy = sorted(
        trial.links.items(), key=lambda item: (-max(item[1].measured.before, item[1].measured.after), item[0])
    )
    return Table(
        "The links in numbers",
        ("link", "forecast before", "after", "measured before", "after"),
        [(f"{a} – {b}", *_loads(load)) for (a, b), load in busy],
    )


def brokers(plan: MovesPlan, trial: Trial) -> Table:
    """What every broker has to do, the busiest first."""
    busy = sorted(
        trial.brokers.items(),
        key=lambda item: (-max(item[1].measured.before, item[1].measured.after), item[0]),
    )
    return Table(
        "The brokers in numbers",
        (
            "broker",
            "cluster",
            "clients before",
            "after",
            "forecast before",
            "after",
            "measured before",
            "after",
        ),
        [
            (
                name,
                plan.network.clusters.get(name, ""),
                *(f"{n:,}" for n in trial.clients[name]),
                *_loads(load),
            )
            for name, load in busy
        ],
    )


def _loads(load: Load) -> tuple[str, ...]:
    return tuple(f"{getattr(pair, when):,.0f}" for pair in (load.forecast, load.measured) for when in WHEN)


def moves(plan: MovesPlan) -> Table:
    """Who goes where."""
    return Table(
        "The moves, one by one",
        ("client", "from", "to", "another cluster"),
        [(one.client, one.source, one.goal, "yes" if one.across else "no") for one in plan.moves],
    )


def topics(plan: StoresPlan) -> Table:
    """Topics, where they are kept and how far that is."""
    return Table(
        "The topics in numbers",
        ("topic", "share of requests", "kept at", "mean hops", ""),
        [
            (
                topic,
                f"{plan.weights[topic]:.3f}",
                ", ".join(held),
                f"{plan.mean_hops_by_topic[topic]:.3f}" if topic in plan.mean_hops_by_topic else "–",
                plan.short.get(topic, ""),
            )
            for topic, held in plan.assignment.items()
        ],
    )
