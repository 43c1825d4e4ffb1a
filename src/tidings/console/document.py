"""What pages are made of: one HTML file with its style, pictures in four drawings each, tables, sentences.

No script, nothing loaded from elsewhere, light or dark as the reader's system is, on a phone as on a wide
screen: the browser chooses among four drawings of every picture. What a page tells is not known here.
matplotlib is imported only when pictures are drawn.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tidings import installation
from tidings.console.captions import Caption
from tidings.console.looks import DARK, LIGHT, LOOKS, NARROW_BELOW_PX, WIDE, Colours, Look
from tidings.console.tables import Table
from tidings.console.words import clipped, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_MAX = 60
"""Of a table; who wants more has the records."""

TEXT_LENGTH_MAX = 400

Drawn = Mapping[Look, str]
"""One picture as SVG, for every look."""


def check() -> None:
    """See that pages can be written here: for who would not like to hear at the end that they cannot."""
    installation.need("the page", "matplotlib")


def drawn(pictures: Mapping[str, Callable[[Look], Figure]], folder: Path) -> dict[str, Drawn]:
    """Draw pictures for every look; of each a PNG goes into the folder, under its name."""
    from tidings.console import drawing

    found: dict[str, Drawn] = {}
    with drawing.settled():
        for name, draw in pictures.items():
            figures = {look: draw(look) for look in LOOKS}
            found[name] = {look: drawing.svg(figure) for look, figure in figures.items()}
            (folder / f"{name}.png").write_bytes(drawing.png(figures[WIDE], WIDE))
    return found


def whole(title: str, body: str) -> str:
    """A page as text; the body is HTML already, the title is not."""
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
{body}
</main>
</body>
</html>
"""


def section(name: str, caption: Caption, picture: Drawn, behind: Table | None) -> str:
    """A picture with its heading and sentences, and the numbers behind it."""
    without = "\n".join(f'<p class="without">{prose(line)}</p>' for line in caption.without.splitlines())
    return f"""<section class="card" id="{name}">
<h2>{escape(caption.heading)}</h2>
<figure>
{_picture(picture, caption.alt)}
<figcaption>
<p>{prose(caption.shows)}</p>
{without}
</figcaption>
</figure>
{table(behind)}
</section>"""


def _picture(picture: Drawn, alt: str) -> str:
    sources = []
    for look in (Look(dark=True, narrow=True), Look(narrow=True), Look(dark=True)):
        media = [f"(max-width: {NARROW_BELOW_PX - 0.02}px)"] if look.narrow else []
        media += ["(prefers-color-scheme: dark)"] if look.dark else []
        sources.append(
            f'<source media="{" and ".join(media)}" srcset="{_data(picture[look])}" {_size(picture[look])}>'
        )
    return (
        "<picture>\n"
        + "\n".join(sources)
        + f'\n<img src="{_data(picture[WIDE])}" {_size(picture[WIDE])} alt="{escape(alt)}">\n</picture>'
    )


def _data(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _size(svg: str) -> str:
    """The proportions of a picture, so that nothing on the page moves when it is there."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    return f'width="{float(found[1]):.0f}" height="{float(found[2]):.0f}"' if found else ""


def table(given: Table | None, *, shown: bool = False) -> str:
    """Numbers to be unfolded, or `shown` at once; nothing where there are none."""
    if given is None or not given.rows:
        return ""
    body = "\n".join(
        "<tr>" + "".join(f"<td{_numeric(cell)}>{text(cell)}</td>" for cell in row) + "</tr>"
        for row in given.rows[:ROWS_MAX]
    )
    more = len(given.rows) - ROWS_MAX
    rest = f"<p><small>and {counted(more, 'row')} more</small></p>" if more > 0 else ""
    rows = f"""<div class="scroll"><table>
<thead><tr>{"".join(f'<th scope="col">{escape(cell)}</th>' for cell in given.head)}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>{rest}"""
    return rows if shown else f"<details>\n<summary>{escape(given.name)}</summary>\n{rows}\n</details>"


def _numeric(cell: str) -> str:
    return ' class="number"' if re.fullmatch(r"[\d.,]+( (B|[kMGT]B|s|ms)|%)?", cell) else ""


def prose(words: str) -> str:
    """A sentence in which no number is parted from its unit."""
    return escape(re.sub(r"(\d) (%|m?s|min|h|[kMGT]?B)(?![\w/])", "\\1\u00a0\\2", words))


def text(given: str) -> str:
    """Some text from outside, no longer than anybody reads."""
    return escape(clipped(given, TEXT_LENGTH_MAX))


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
h3{font-size:1.05rem;line-height:1.3;margin:1.6rem 0 .4rem}
.why{padding-left:1.1rem;margin:0;max-width:46rem}
.why li{margin:.3rem 0}
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
