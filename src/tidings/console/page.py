"""The page of a day: one HTML file that holds all it shows, and each picture as a PNG beside it.

Every text of the day is escaped. What is said about a picture is in `captions`, how it is drawn in
`pictures`, and what pages share in `document`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidings.console import document, totals
from tidings.console.captions import CAPTIONS, Caption
from tidings.console.day import Check, Day, Step
from tidings.console.document import Drawn, prose, section, text
from tidings.console.looks import Look
from tidings.console.tables import TABLES, Table
from tidings.console.words import clean, count, counted, duration, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Further = Mapping[str, tuple[Callable[[Look], "Figure"], Caption, Table | None]]
"""Pictures that are not of the day itself, by name, with their words and the numbers behind them."""

NONE: Further = {}


def write(day: Day, folder: Path, further: Further = NONE) -> Path:
    """Write index.html and a PNG of every picture into the folder; answers where the page is."""
    document.check()
    from tidings.console.pictures import PICTURES

    folder.mkdir(parents=True, exist_ok=True)
    own = {name: partial(draw, day) for name, draw in PICTURES.items()}
    drawn = document.drawn({**own, **{name: draw for name, (draw, _, _) in further.items()}}, folder)
    page = folder / "index.html"
    page.write_text(html(day, drawn, further), encoding="utf-8")
    return page


def html(day: Day, drawn: Mapping[str, Drawn], further: Further = NONE) -> str:
    """The page as text, from a day and its pictures."""
    title = clean(day.title) or "A day of a network"
    sections = "\n".join(
        [
            section(name, caption(day), drawn[name], TABLES[name](day) if name in TABLES else None)
            for name, caption in CAPTIONS.items()
        ]
        + [section(name, caption, drawn[name], table) for name, (_, caption, table) in further.items()]
    )
    return document.whole(
        title,
        f"""<header>
<p class="mark">Tidings</p>
<h1>{escape(title)}</h1>
<p class="lead">Many people and machines report the same event; each tells part of it, and most say what is
known already. Tidings is a network of message brokers that turns such reports into one growing event on the
way, and brings it only to those who asked for it.</p>
<p class="meta">{escape(_about(day))}</p>
</header>
{_figures(day)}
{_notes(day)}
{_checks(day)}
{_steps(day)}
{sections}
{_next(day, [*CAPTIONS, *further])}""",
    )


# The top.


def _about(day: Day) -> str:
    parts = [
        counted(len(day.brokers), "broker"),
        counted(day.subscribers, "subscriber"),
        counted(day.subscriptions, "filter"),
        counted(len(day.topics), "topic"),
        f"size {clean(day.size)}" if day.size else "",
        f"seed {day.seed}",
        f"played {day.speed_up:,.0f} times faster than life" if day.speed_up > 1 else "",
    ]
    return " · ".join(part for part in parts if part)


def _figures(day: Day) -> str:
    """The few numbers that a reader should remember."""
    held, checks = totals.held(day), len(day.checks)
    figures = [
        ("report", count(totals.reports(day)), "reports in", f"at {counted(len(day.brokers), 'broker')}"),
        (
            "event",
            count(totals.opened(day)),
            "events out",
            f"told in {counted(totals.versions(day), 'version')}",
        ),
        ("delivery", *_saved(day)),
        (
            "good" if held == checks else "bad",
            f"{held} of {checks}" if checks else "none",
            "checks held",
            "against what really happened" if checks else "nothing was checked",
        ),
    ]
    cards = "\n".join(
        f'<li class="{kind}"><b>{escape(number)}</b> <span>{escape(name)}</span> '
        f"<small>{prose(more)}</small></li>"
        for kind, number, name, more in figures
    )
    return f'<ul class="figures">\n{cards}\n</ul>'


def _saved(day: Day) -> tuple[str, str, str]:
    here, peer = totals.ours(day), totals.peer(day)
    if here is not None and peer is not None:
        fewer = peer.delivered - here.delivered
        if fewer >= 0:
            return (
                count(fewer),
                "messages saved",
                f"{percent(fewer, peer.delivered)} fewer than {clean(peer.way)}",
            )
        return count(-fewer), "messages more", f"than {clean(peer.way)}"
    stopped = totals.redundant(day) + totals.merged(day)
    return count(stopped), "messages saved", "reports that went no further"


def _notes(day: Day) -> str:
    if not day.notes:
        return ""
    return '<div class="notes">\n' + "\n".join(f"<p>{text(note)}</p>" for note in day.notes) + "\n</div>"


def _checks(day: Day) -> str:
    if not day.checks:
        return ""
    failed = [check for check in day.checks if not check.holds]
    said = (
        f"{counted(len(failed), 'check')} did not hold. What follows is what was seen nevertheless."
        if failed
        else "Every delivery was compared with what really happened in the generated day."
    )
    rows = "\n".join(_check(check) for check in day.checks)
    return f"""<section class="card" id="checks">
<h2>What was checked</h2>
<p>{escape(said)}</p>
<ul class="checks">
{rows}
</ul>
</section>"""


def _check(check: Check) -> str:
    kind, verdict, sign = ("good", "holds", "✓") if check.holds else ("bad", "does not hold", "✗")
    return (
        f'<li class="{kind}"><span class="sign" role="img" aria-label="{verdict}">{sign}</span>'
        f"<span><b>{text(check.name)}</b> <small>{text(check.seen)}</small></span></li>"
    )


# The end.


def _steps(day: Day) -> str:
    if not day.steps:
        return ""
    longest = max(step.seconds for step in day.steps) or 1.0
    rows = "\n".join(_step(step, longest) for step in day.steps)
    whole = duration(sum(step.seconds for step in day.steps))
    return f"""<section class="card" id="steps">
<h2>How this page was made</h2>
<p>In {counted(len(day.steps), "step")} and {whole}, on one machine.</p>
<ol class="steps">
{rows}
</ol>
</section>"""


def _step(step: Step, longest: float) -> str:
    share = max(0.0, min(100.0, 100.0 * step.seconds / longest))
    return (
        f'<li><span>{text(step.name)}</span> <span class="number">{duration(step.seconds)}</span>'
        f'<span class="bar"><span style="width:{share:.1f}%"></span></span></li>'
    )


def _next(day: Day, names: Sequence[str]) -> str:
    pages = " and ".join(
        f'<a href="{quote(file)}">{text(name)}</a>' for name, file in (day.plans.pages if day.plans else ())
    )
    plans = f"<p>The plans in full, with their pictures: {pages}.</p>\n" if pages else ""
    pictures = ", ".join(f'<a href="{name}.png">{name}.png</a>' for name in names)
    return f"""<section class="card" id="next">
<h2>Where to go next</h2>
<ul class="next">
<li><b>You run a service.</b> <code>tidings up --detach</code> starts three brokers here; any MQTT 5 client
can talk to them. <i>In the documentation: running brokers.</i></li>
<li><b>You write Python.</b> <code>tidings.connect</code> publishes and subscribes, with or without asyncio.
<i>In the documentation: clients.</i></li>
<li><b>You work with data.</b> <code>spark.readStream.format("tidings")</code> follows a topic; the pipeline
reads the brokers' records. <i>In the documentation: the connector, the pipeline.</i></li>
<li><b>You do research.</b> <code>tidings simulate</code> drives the same brokers in virtual time, and
<code>tidings reproduce</code> runs published experiments again.
<i>In the documentation: simulation, papers.</i></li>
</ul>
<p>A longer day: <code>tidings demo --size large</code>. A network that stays up when the day is over:
<code>tidings demo --keep</code>.</p>
{plans}<p><small>The pictures as files, beside this page: {pictures}.</small></p>
</section>"""
