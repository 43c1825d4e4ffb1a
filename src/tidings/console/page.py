"""The page of a day: one HTML file that holds all it shows, and each picture as a PNG beside it.

No script, nothing loaded from elsewhere, light or dark as the reader's system is, on a phone as on a wide
screen: the browser chooses among four drawings of every picture. Every text of the day is escaped. What is
said about a picture is in `captions`, how it is drawn in `pictures`; matplotlib is imported only when a page
is written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import fields
from html import escape
from importlib.util import find_spec
from pathlib import Path

from tidings.console import totals
from tidings.console.captions import CAPTIONS, Caption
from tidings.console.day import Check, Day, Step
from tidings.console.looks import DARK, LIGHT, LOOKS, NARROW_BELOW_PX, WIDE, Colours, Look
from tidings.console.tables import TABLES, Table
from tidings.console.words import clean, clipped, count, counted, duration, percent
from tidings.errors import SetupError

ROWS_MAX = 60
"""Of a table; who wants more has the records."""

TEXT_LENGTH_MAX = 400

Drawn = Mapping[Look, str]
"""One picture as SVG, for every look."""


def check() -> None:
    """See that pages can be written here: for who would not like to hear at the end that they cannot."""
    if find_spec("matplotlib") is None:
        raise SetupError(
            "the page needs matplotlib, which is not installed; pip install 'tidings-network[papers]'"
        )


def write(day: Day, folder: Path) -> Path:
    """Write index.html and a PNG of every picture into the folder; answers where the page is."""
    check()
    from tidings.console import drawing
    from tidings.console.pictures import PICTURES

    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Drawn] = {}
    with drawing.settled():
        for name, draw in PICTURES.items():
            figures = {look: draw(day, look) for look in LOOKS}
            drawn[name] = {look: drawing.svg(figure) for look, figure in figures.items()}
            (folder / f"{name}.png").write_bytes(drawing.png(figures[WIDE], WIDE))
    page = folder / "index.html"
    page.write_text(html(day, drawn), encoding="utf-8")
    return page


def html(day: Day, drawn: Mapping[str, Drawn]) -> str:
    """The page as text, from a day and its pictures."""
    title = clean(day.title) or "A day of a network"
    sections = "\n".join(
        _section(name, caption(day), drawn[name], TABLES[name](day) if name in TABLES else None)
        for name, caption in CAPTIONS.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} – Tidings</title>
<link rel="icon" href="data:,">
<style>{_style()}</style>
</head>
<body>
<main>
<header>
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
{_next()}
</main>
</body>
</html>
"""


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
        f"<small>{_prose(more)}</small></li>"
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
    return '<div class="notes">\n' + "\n".join(f"<p>{_text(note)}</p>" for note in day.notes) + "\n</div>"


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
        f"<span><b>{_text(check.name)}</b> <small>{_text(check.seen)}</small></span></li>"
    )


# Pictures.


def _section(name: str, caption: Caption, drawn: Drawn, table: Table | None) -> str:
    without = "\n".join(f'<p class="without">{_prose(line)}</p>' for line in caption.without.splitlines())
    return f"""<section class="card" id="{name}">
<h2>{escape(caption.heading)}</h2>
<figure>
{_picture(drawn, caption.alt)}
<figcaption>
<p>{_prose(caption.shows)}</p>
{without}
</figcaption>
</figure>
{_table(table)}
</section>"""


def _picture(drawn: Drawn, alt: str) -> str:
    sources = []
    for look in (Look(dark=True, narrow=True), Look(narrow=True), Look(dark=True)):
        media = [f"(max-width: {NARROW_BELOW_PX - 0.02}px)"] if look.narrow else []
        media += ["(prefers-color-scheme: dark)"] if look.dark else []
        sources.append(
            f'<source media="{" and ".join(media)}" srcset="{_data(drawn[look])}" {_size(drawn[look])}>'
        )
    return (
        "<picture>\n"
        + "\n".join(sources)
        + f'\n<img src="{_data(drawn[WIDE])}" {_size(drawn[WIDE])} alt="{escape(alt)}">\n</picture>'
    )


def _data(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _size(svg: str) -> str:
    """The proportions of a picture, so that nothing on the page moves when it is there."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    return f'width="{float(found[1]):.0f}" height="{float(found[2]):.0f}"' if found else ""


def _table(table: Table | None) -> str:
    if table is None or not table.rows:
        return ""
    body = "\n".join(
        "<tr>" + "".join(f"<td{_numeric(cell)}>{_text(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows[:ROWS_MAX]
    )
    more = len(table.rows) - ROWS_MAX
    rest = f"<p><small>and {counted(more, 'row')} more</small></p>" if more > 0 else ""
    return f"""<details>
<summary>{escape(table.name)}</summary>
<div class="scroll"><table>
<thead><tr>{"".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>{rest}
</details>"""


def _numeric(cell: str) -> str:
    return ' class="number"' if re.fullmatch(r"[\d.,]+( (B|[kMGT]B|s|ms))?", cell) else ""


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
        f'<li><span>{_text(step.name)}</span> <span class="number">{duration(step.seconds)}</span>'
        f'<span class="bar"><span style="width:{share:.1f}%"></span></span></li>'
    )


def _next() -> str:
    pictures = ", ".join(f'<a href="{name}.png">{name}.png</a>' for name in CAPTIONS)
    return f"""<section class="card" id="next">
<h2>Where to go next</h2>
<ul class="next">
<li><b>You run a service.</b> <code>tidings up --detach</code> starts three brokers here; any MQTT 5 client
can talk to them. <i>docs/operations.md</i></li>
<li><b>You write Python.</b> <code>tidings.connect</code> publishes and subscribes, with or without asyncio.
<i>docs/clients.md</i></li>
<li><b>You work with data.</b> <code>spark.readStream.format("tidings")</code> follows a topic; the pipeline
reads the brokers' records. <i>docs/connector.md, docs/pipeline.md</i></li>
<li><b>You do research.</b> <code>tidings simulate</code> drives the same brokers in virtual time, and
<code>tidings reproduce</code> runs published experiments again.
<i>docs/simulation.md, papers/README.md</i></li>
</ul>
<p>A longer day: <code>make demo SIZE=large</code>. A network that stays up when the day is over:
<code>make demo KEEP=1</code>.</p>
<p><small>The pictures as files, beside this page: {pictures}.</small></p>
</section>"""


def _prose(text: str) -> str:
    """A sentence in which no number is parted from its unit."""
    return escape(re.sub(r"(\d) (%|m?s|min|h|[kMGT]?B)(?![\w/])", "\\1\u00a0\\2", text))


def _text(text: str) -> str:
    return escape(clipped(text, TEXT_LENGTH_MAX))


def _variables(colours: Colours) -> str:
    return "".join(f"--{field.name}:{getattr(colours, field.name)};" for field in fields(colours))


def _style() -> str:
    return (
        f"\n:root{{{_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme: dark){{:root{{{_variables(DARK)}}}}}\n"
        + STYLE.replace("NARROW", f"{NARROW_BELOW_PX - 0.02}px")
    )


STYLE = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.55;
 font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",Arial,sans-serif}
main{max-width:61rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1,h2{line-height:1.2;text-wrap:balance;overflow-wrap:anywhere}
h1{font-size:clamp(1.7rem,5vw,2.6rem);margin:.2rem 0 1rem;letter-spacing:-.02em}
h2{font-size:1.35rem;margin:0 0 1rem;letter-spacing:-.01em}
p,li{overflow-wrap:anywhere}
.mark{margin:0;font-weight:700;letter-spacing:.08em;text-transform:uppercase;font-size:.8rem;
 color:var(--event)}
.lead{font-size:1.13rem;max-width:44rem;margin:0 0 .8rem}
.meta,small{color:var(--muted);font-size:.875rem}
.meta{margin:0}
.figures{list-style:none;display:grid;grid-template-columns:repeat(4,1fr);gap:.9rem;padding:0;margin:1.8rem 0}
.figures li{background:var(--paper);border:1px solid var(--line);border-top:4px solid var(--tone);
 border-radius:.6rem;padding:.9rem 1rem}
.figures b{display:block;font-size:1.9rem;line-height:1.15;letter-spacing:-.02em;color:var(--tone);
 font-variant-numeric:tabular-nums}
.figures span{display:block;font-weight:600}
.figures small{display:block;line-height:1.35;margin-top:.2rem}
.report{--tone:var(--report)}.event{--tone:var(--event)}.delivery{--tone:var(--delivery)}
.good{--tone:var(--good)}.bad{--tone:var(--bad)}
.notes{border-left:4px solid var(--report);padding:.1rem 0 .1rem 1rem;margin:1.8rem 0}
.notes p{margin:.4rem 0}
.card{background:var(--paper);border:1px solid var(--line);border-radius:.8rem;padding:1.6rem 1.75rem;
 margin:1.5rem 0}
.card>p{max-width:46rem;margin:0 0 1rem}
.card>:last-child{margin-bottom:0}
.checks{list-style:none;margin:0;padding:0;display:grid;grid-template-columns:1fr 1fr;gap:0 2rem}
.notes p::first-letter,.checks b::first-letter,.steps li>:first-child::first-letter{text-transform:uppercase}
.checks li{display:flex;gap:.8rem;padding:.55rem 0;border-top:1px solid var(--line)}
.checks b{display:block;font-weight:600}
.checks .sign{flex:none;width:1.5rem;height:1.5rem;border-radius:50%;background:var(--tone);
 color:var(--paper);font-weight:700;font-size:.9rem;line-height:1.5rem;text-align:center;margin-top:.1rem}
figure{margin:0}
picture,img{display:block}
img{width:100%;height:auto}
figcaption{margin-top:1.1rem}
figcaption p{max-width:46rem;margin:0}
.without{margin-top:.8rem!important;padding-left:.9rem;border-left:3px solid var(--unwanted);color:var(--ink)}
details{margin-top:1.1rem}
summary{cursor:pointer;color:var(--event);font-size:.9rem}
.scroll{overflow-x:auto;margin-top:.7rem}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;min-width:100%}
th,td{text-align:left;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td{max-width:22rem;overflow-wrap:break-word}
th{color:var(--muted);font-weight:600}
td.number{text-align:right;white-space:nowrap}
.steps{list-style:none;padding:0;margin:0;display:grid;grid-template-columns:repeat(3,1fr);gap:.6rem 2rem}
.steps li{display:grid;grid-template-columns:1fr auto;grid-template-rows:1fr auto;gap:.3rem 1rem;
 font-size:.94rem;line-height:1.4}
.steps li>*{display:block}
.steps .number{color:var(--muted);font-variant-numeric:tabular-nums}
.steps .bar{grid-column:1/-1;height:.35rem;border-radius:.2rem;background:var(--line);overflow:hidden}
.steps .bar span{display:block;height:100%;background:var(--event)}
.next{padding-left:1.1rem;margin:0 0 1rem}
.next li{margin:.5rem 0}
i{color:var(--muted)}
a{color:var(--event)}
code{font:.9em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
 background:var(--page);padding:.1em .35em;border-radius:.3em;white-space:nowrap}
@media (max-width:NARROW){
 main{padding:1.4rem .6rem 3rem}
 header{padding:0 .4rem}
 .checks,.steps{grid-template-columns:1fr}
 .card{padding:1.1rem .6rem;border-radius:.6rem}
 .figures{grid-template-columns:1fr 1fr;gap:.6rem}
 .figures li{padding:.7rem .75rem}
 .figures b{font-size:1.5rem}
 picture{max-width:34rem;margin:0 auto}
}
@media print{body{background:none}.card{break-inside:avoid;border:none;padding:0}details{display:none}}
"""
