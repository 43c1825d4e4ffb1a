"""The page of a plan: what it does, what it is expected to give, and what was seen when it was tried.

One HTML file that holds all it shows, and each picture as a PNG beside it, as the page of a day is made.
Words are in `plan_words`, figures in `plan_tables`, and what pages share in `document`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.console import document, plan_scene, plan_tables, plan_words
from tidings.console.captions import Caption
from tidings.console.document import Drawn, prose, section, text
from tidings.console.looks import Look
from tidings.console.plan_scene import AnyTrial
from tidings.console.tables import Table
from tidings.console.words import clean, clipped, counted
from tidings.planning.plans import MovesPlan, Pair, Plan, StoresPlan
from tidings.sim.plans.requests import StoresTrial
from tidings.sim.plans.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "index.html"

SETTING_LENGTH = 60

Draw = Callable[[Look], "Figure"]

Shown = tuple[Draw, Caption, Table | None]
"""A picture, what is said about it, and the numbers behind it."""


def write(plan: Plan, target: Path, trial: AnyTrial | None = None) -> Path:
    """Write a page, into a folder or as a file that ends in .html, with its pictures beside it."""
    document.check()
    if target.suffix.lower() in (".html", ".htm"):
        folder, page, prefix = target.parent, target, f"{target.stem}-"
    else:
        folder, page, prefix = target, target / PAGE, ""
    folder.mkdir(parents=True, exist_ok=True)
    shown = pictures(plan, trial)
    drawn = document.drawn({f"{prefix}{name}": draw for name, (draw, _, _) in shown.items()}, folder)
    page.write_text(
        html(
            plan,
            trial,
            {name: (drawn[f"{prefix}{name}"], caption, table) for name, (_, caption, table) in shown.items()},
            prefix,
        ),
        encoding="utf-8",
    )
    return page


def html(
    plan: Plan,
    trial: AnyTrial | None,
    shown: Mapping[str, tuple[Drawn, Caption, Table | None]],
    prefix: str = "",
) -> str:
    """The page as text."""
    title = clean(plan_words.title(plan))
    sections = [section(name, caption, drawn, table) for name, (drawn, caption, table) in shown.items()]
    if trial is not None:
        sections.insert(0, _compared(plan, trial))
    return document.whole(
        title,
        "\n".join(
            [
                f"""<header>
<p class="mark">Tidings</p>
<h1>{escape(title)}</h1>
<p class="lead">{prose(plan_words.lead(plan))}</p>
<p class="meta">{escape(_about(plan))}</p>
</header>""",
                _figures(plan, trial),
                _notes(plan, trial),
                *sections,
                _end(plan, trial, list(shown), prefix),
            ]
        ),
    )


def _about(plan: Plan) -> str:
    parts = [
        counted(len(plan.network.brokers), "broker"),
        counted(len(plan.network.links), "link"),
        f"made by {clean(plan.algorithm)}",
    ]
    settings = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in plan.settings.items()
        if isinstance(value, str | int | float)
    ]
    return " · ".join([*parts, *(clipped(one, SETTING_LENGTH) for one in settings)])


# The top.


def _figures(plan: Plan, trial: AnyTrial | None) -> str:
    cards = (
        _of_stores(plan, trial if isinstance(trial, StoresTrial) else None)
        if isinstance(plan, StoresPlan)
        else _of_moves(plan, trial if isinstance(trial, Trial) else None)
    )
    shown = "\n".join(
        f'<li class="{kind}"><b>{escape(number)}</b> <span>{escape(name)}</span> '
        f"<small>{prose(more)}</small></li>"
        for kind, number, name, more in cards
    )
    return f'<ul class="figures">\n{shown}\n</ul>'


Card = tuple[str, str, str, str]


def _of_moves(plan: MovesPlan, trial: Trial | None) -> list[Card]:
    cards = [
        ("report", f"{plan.cost.moves:,}", "clients move", f"{plan.cost.moves_across:,} to another cluster"),
        ("event", f"{plan.hops.after:.2f}", "hops, as forecast", _instead(plan.hops, 2)),
    ]
    if trial is None:
        if plan.network.clusters and not all(plan.network.clusters.values()):
            backbone = plan.backbone
            cards.append(("delivery", f"{backbone.after:,.0f}", "messages, backbone", _instead(backbone, 0)))
        most = max(plan.load.values(), default=0.0)
        cards.append(("event", f"{most:.2f}", "fair shares at most", "what a cluster's clients send"))
        return cards
    measured = Pair(trial.hops[-1].before, trial.hops[-1].after)
    cards.append(("delivery", f"{measured.after:.2f}", "hops, measured", _instead(measured, 2)))
    broken = len(trial.breaches)
    kept = ("bad", f"{broken:,}", "promises broken", "see below") if broken else None
    cards.append(kept or ("good", "none", "lost or twice", "in both runs, of all deliveries"))
    return cards


def _of_stores(plan: StoresPlan, trial: StoresTrial | None) -> list[Card]:
    cards = [
        ("delivery", f"{plan.cost.stores:,}", "stores", f"for {counted(len(plan.assignment), 'topic')}"),
        ("report", f"{plan.cost.copies:,}", "copies to make", f"of {plan.cost.replicas:,} replicas"),
        ("event", f"{plan.mean_hops:.2f}", "hops, as forecast", "of a request to its store"),
    ]
    if trial is None:
        worst = max(plan.mean_hops_by_topic.values(), default=0.0)
        cards.append(("event", f"{worst:.2f}", "hops at most", "of any topic, on average"))
    else:
        walked = counted(trial.requests, "request")
        cards.append(("good", f"{trial.steps[-1].hops:.2f}", "hops, walked", f"by {walked}, hop by hop"))
    return cards


def _instead(pair: Pair, digits: int) -> str:
    return f"instead of {pair.before:,.{digits}f} ({plan_words.saved(pair)})" if pair.before else "as before"


def _notes(plan: Plan, trial: AnyTrial | None) -> str:
    notes = [*plan.warnings]
    if isinstance(trial, Trial) and trial.breaches:
        notes += [str(breach) for breach in trial.breaches[:5]]
    if isinstance(trial, StoresTrial):
        notes.append(plan_words.NOT_BROKERS)
    if not notes:
        return ""
    return '<div class="notes">\n' + "\n".join(f"<p>{text(note)}</p>" for note in notes) + "\n</div>"


# Forecast and measured.


def _compared(plan: Plan, trial: AnyTrial) -> str:
    what = (
        f"{counted(trial.requests, 'request')} went hop by hop to the nearest store."
        if isinstance(trial, StoresTrial)
        else f"The same workload ran twice in the simulator, with the brokers that run live: "
        f"{counted(trial.published, 'publication')}, {trial.messages.before:,.0f} messages from clients to "
        f"clients before and {trial.messages.after:,.0f} after. "
        f"{plan_words.verdict(trial).capitalize()}. {plan_words.LINKS_COUNTED}"
    )
    reasons = "\n".join(
        f'<h3>{escape(name)}: why they differ</h3>\n<ul class="why">\n{_items(lines)}\n</ul>'
        for name, lines in plan_words.explained(trial)
    )
    return f"""<section class="card" id="compared">
<h2>Forecast and measured, side by side</h2>
<p>{prose(what)}</p>
{document.table(plan_tables.compared(plan, trial), shown=True)}
{reasons}
</section>"""


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"<li>{prose(line)}</li>" for line in lines)


# Pictures.


def pictures(plan: Plan, trial: AnyTrial | None = None) -> dict[str, Shown]:
    """By name: how it is drawn, what is said, and the numbers behind it."""
    from tidings.console.pictures.plan_network import plan_network

    scene = plan_scene.of(plan, trial)
    found: dict[str, Shown] = {}
    if trial is not None:
        found["steps"] = (_steps(trial), plan_words.steps(trial), None)
    behind = plan_tables.links(trial) if trial is not None else None
    found["network"] = (partial(plan_network, scene), plan_words.network(plan, scene), behind)
    if isinstance(plan, StoresPlan):
        found |= _of_topics(plan, trial if isinstance(trial, StoresTrial) else None)
    else:
        found |= _of_clients(plan, trial if isinstance(trial, Trial) else None)
    return found


def _steps(trial: AnyTrial) -> Draw:
    from tidings.console.pictures.plan_bars import Bars, Row, plan_bars

    if isinstance(trial, StoresTrial):
        rows = tuple(Row(plan_words.NAMES[step.reason], (step.hops,)) for step in trial.steps)
        return partial(
            plan_bars,
            [Bars("mean hops of a request", rows, "{:.3f}".format)],
            [("all requests", "event")],
        )
    panels = [
        Bars(
            name,
            tuple(Row(plan_words.NAMES[step.reason], (step.before, step.after)) for step in steps),
            said,
        )
        for name, steps, said in (
            ("mean hops of a message, client links included", trial.hops, "{:.2f}".format),
            ("messages for each broker of the backbone", trial.backbone, "{:,.0f}".format),
            ("messages over all links", trial.over_links, "{:,.0f}".format),
        )
    ]
    return partial(plan_bars, panels, [("before the plan", "report"), ("after", "event")])


def _of_clients(plan: MovesPlan, trial: Trial | None) -> dict[str, Shown]:
    from tidings.console.pictures.plan_bars import Bars, Row, plan_bars
    from tidings.console.pictures.plan_frontier import plan_frontier
    from tidings.console.pictures.plan_moves import plan_moves

    streams = plan_scene.streams(plan)
    measured = trial.clusters if trial is not None else {}
    rows = tuple(
        Row(name, (share, measured[name].after) if name in measured else (share,))
        for name, share in sorted(plan.load.items(), key=lambda item: (-item[1], item[0]))
    )
    limit = plan.settings.get("overload")
    marks = [(1.0, "fair")] + ([(float(limit), "limit")] if isinstance(limit, int | float) else [])
    series = [("forecast", "~event" if measured else "event")] + ([("measured", "event")] if measured else [])
    found: dict[str, Shown] = {
        "moves": (partial(plan_moves, streams), plan_words.moves(plan, streams), plan_tables.moves(plan)),
        "loads": (
            partial(
                plan_bars,
                [
                    Bars(
                        "load after the plan, in fair shares",
                        rows,
                        "{:.2f}".format,
                        tuple(marks),
                    )
                ],
                series,
            ),
            plan_words.loads(plan, trial),
            plan_tables.brokers(plan, trial) if trial is not None else None,
        ),
    }
    if len(plan.forecast.frontier) > 1:
        found["frontier"] = (
            partial(plan_frontier, plan.forecast.frontier, plan.cost.moves, plan.hops.after),
            plan_words.frontier(plan),
            Table(
                "The points in numbers",
                ("moves", "mean hops"),
                [(f"{moves:,}", f"{hops:.3f}") for moves, hops in plan.forecast.frontier],
            ),
        )
    return found


def _of_topics(plan: StoresPlan, trial: StoresTrial | None) -> dict[str, Shown]:
    from tidings.console.pictures.plan_bars import Bars, Row, plan_bars
    from tidings.console.pictures.plan_topics import plan_topics

    by_weight = sorted(plan.assignment, key=lambda topic: -plan.weights[topic])
    total = sum(plan.forecast.loads.values()) or 1.0
    shares = trial.stores if trial is not None else {}
    rows = tuple(
        Row(name, (load / total, shares[name].measured) if shares else (load / total,))
        for name, load in sorted(plan.forecast.loads.items(), key=lambda item: (-item[1], item[0]))
    )
    series = [("forecast", "~delivery" if shares else "delivery")]
    series += [("walked", "delivery")] if shares else []
    return {
        "topics": (
            partial(plan_topics, {topic: plan.assignment[topic] for topic in by_weight}, plan.stores),
            plan_words.topics(plan),
            plan_tables.topics(plan),
        ),
        "loads": (
            partial(plan_bars, [Bars("share of all requests", rows, "{:.1%}".format)], series),
            plan_words.loads(plan, trial),
            None,
        ),
    }


# The end.


def _end(plan: Plan, trial: AnyTrial | None, shown: list[str], prefix: str) -> str:
    pictures = ", ".join(f'<a href="{prefix}{name}.png">{prefix}{name}.png</a>' for name in shown)
    kind = "stores" if isinstance(plan, StoresPlan) else "communities"
    untried = (
        "<li><b>See what it really gives.</b> <code>tidings plan try PLAN</code> runs a workload, or sends "
        "requests, and compares.</li>\n"
    )
    return f"""<section class="card" id="next">
<h2>Where to go next</h2>
<ul class="next">
{untried if trial is None else ""}<li><b>See whether it still fits.</b>
<code>tidings plan check PLAN</code> compares it with the network as it is now.</li>
<li><b>Plan again.</b> <code>tidings plan {kind}</code>, with other limits or another algorithm.
<i>In the documentation: plans.</i></li>
</ul>
<p><small>The pictures as files, beside this page: {pictures}.</small></p>
</section>"""
