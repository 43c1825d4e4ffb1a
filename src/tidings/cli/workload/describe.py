"""`tidings workload describe`: what is in a workload, as tables and plots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings import installation
from tidings.errors import InputError
from tidings.records.workload import TABLES
from tidings.records.workload_files import files_of

if TYPE_CHECKING:
    from rich.console import Console

    from tidings.workload.describing import Row

PLOTS = "plots"
"""The folder beside the tables that plots go to."""

TITLES = {
    "tables": "Tables",
    "regions": "Regions",
    "interests": "Interests: base ones, and those above them",
    "popular": "The most popular interests",
    "removal": "Without the most popular interests",
    "dimensions": "Dimensions: how regional each is, from 0, alike everywhere, to 100",
    "topics": "Topics",
    "network": "Network",
    "subscriptions": "Subscriptions",
    "reports": "Reports of an event",
    "requests": "Requests for stored events",
}
"""What is shown to people, in this order; the rest is in plots and in JSON."""

ROWS_SHOWN = 24

WIDTH = 160


def describe(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A workload: what `generate --out` has named.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where plots go; plots/ in the workload by default."),
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots (PNG).")] = True,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """See what is in a workload: tables, and plots like the paper's figures.

    Popularity of interests, heat maps of interests by region, subscribers along each dimension, shares of
    regions as popular interests are removed, positions of clients and brokers, what happens when. Tables are
    read in batches, whatever their size; one that is missing is left out.

    Try it:

        tidings workload describe my-workload --no-plots
    """
    import msgspec

    from tidings.workload import describing

    if plots:
        installation.need("a plot", "matplotlib", otherwise="add --no-plots")
    with _Bars() as bars:
        found = describing.describe(folder, bars.tell)
    drawn = _drawn(found, out or folder / PLOTS) if plots else []
    missing = [name for name in TABLES if not files_of(folder / name)]
    if json:
        told = {
            "workload": str(folder),
            "missing": missing,
            **found.tables,
            "plots": [str(file) for file in drawn],
        }
        typer.echo(msgspec.json.encode(told).decode())
        return
    from rich.console import Console

    # What is piped has no window that it must fit into.
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    if missing:
        console.print(
            f"This workload is not whole: it has no {', '.join(missing)}.\n", highlight=False, soft_wrap=True
        )
    for name, title in TITLES.items():
        if name in found.tables:
            _show(console, title, found.tables[name])
    if drawn:
        names = ", ".join(file.name for file in drawn)
        console.print(f"Plots are in {drawn[0].parent}: {names}", highlight=False, soft_wrap=True)


def _drawn(found: Any, target: Path) -> list[Path]:
    from tidings.workload import plots

    try:
        target.mkdir(parents=True, exist_ok=True)
        return plots.draw(found, target)
    except OSError as error:
        raise InputError(
            f"plots cannot be written to {target} ({error.strerror}); name another folder with --out, or "
            "add --no-plots"
        ) from None


def _show(console: Console, title: str, rows: list[Row]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None)
    for name, value in rows[0].items():
        table.add_column(
            name.replace("_percent", " %").replace("_", " "),
            justify="left" if isinstance(value, str) else "right",
        )
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)
    if len(rows) > ROWS_SHOWN:
        console.print(f"and {len(rows) - ROWS_SHOWN:,} more; --json has all", highlight=False)
    console.print()


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


class _Bars:
    """A bar for each table on standard error, where somebody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskID,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def tell(self, table: str, done: int, rows: int) -> None:
        """So many rows of a table have been read."""
        if table not in self._tasks:
            self._tasks[table] = self._bars.add_task(table, total=rows)
        self._bars.update(self._tasks[table], completed=done)

    def __enter__(self) -> _Bars:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()
