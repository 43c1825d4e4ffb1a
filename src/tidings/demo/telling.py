"""What a demonstration says: steps with the reason for each, how far they are, and the summary at the end.

It goes to a console, with bars where that is a terminal and a line now and then where it is not. What is said
is given; nothing is computed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tidings.console.day import Check, Cost, Day, Saving, Step

LINE_S = 10.0
"""How often a line says how far it is, where there are no bars; the first one comes at once."""

MANY = 100
"""A figure from here up is not told in hundredths."""

Move = Callable[[float, str], None]
"""Told how far something is, and in words."""


class Telling:
    """Says what happens, and keeps how long each step took."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steps: list[Step] = []
        self._step = ""
        self._began = 0.0

    @property
    def so_far(self) -> tuple[Step, ...]:
        """The steps that are done, and the one that is under way with what it has taken."""
        if not self._step:
            return tuple(self._steps)
        return (*self._steps, Step(self._step, round(time.monotonic() - self._began, 2)))

    @contextmanager
    def step(self, name: str, why: str) -> Iterator[None]:
        """A step: its name, and in a line or two what it does and why that matters."""
        self.console.rule(f"[bold]{len(self._steps) + 1}  {name}", align="left")
        self.say(why)
        self._step, self._began = name, time.monotonic()
        yield
        self._steps = list(self.so_far)
        self._step = ""
        self.say(f"({self._steps[-1].seconds:.1f} s)\n", style="dim")

    def say(self, text: str, style: str | None = None) -> None:
        """A line, or some."""
        self.console.print(text, style=style, highlight=False, markup=False)

    def paste(self, text: str) -> None:
        """A line with something to be pasted: it is never broken, whatever the width."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, title: str, total: float | None = None) -> Iterator[Move]:
        """Something that goes on for a while."""
        if not self.console.is_interactive:
            yield self._lines(title)
            return
        bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        with bars:
            task = bars.add_task(title, total=total, said="")

            def move(done: float, said: str) -> None:
                bars.update(task, completed=done, said=said)

            yield move

    def _lines(self, title: str) -> Move:
        last = -LINE_S

        def move(_: float, said: str) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_S:
                last = time.monotonic()
                self.say(f"{title}: {said}")

        return move

    def checks(self, checks: Sequence[Check]) -> None:
        """What had to hold, and whether it does."""
        rows = Table.grid(padding=(0, 2, 0, 0))
        for one in checks:
            mark = Text("yes", "green") if one.holds else Text("NO", "bold red")
            rows.add_row("", mark, Text(f"{one.name}: {one.seen}"))
        self.console.print(rows)

    def savings(self, savings: Sequence[Saving]) -> None:
        """What plans would save."""
        self.console.print(_savings(savings))

    def summary(self, day: Day, counts: Mapping[str, int]) -> None:
        """The day in figures."""
        table = Table(box=None, show_header=False, title=f"{day.title}, {day.size}", title_justify="left")
        table.add_column()
        table.add_column(justify="right")
        for name, count in counts.items():
            table.add_row(name, f"{count:,}")
        self.console.print(table)
        if day.costs:
            self.console.print(_costs(day.costs))
        if day.plans is not None:
            self.savings(day.plans.savings)
        took = Table("step", box=None, title="How long it took", title_justify="left")
        took.add_column("seconds", justify="right")
        for step in day.steps:
            took.add_row(step.name, f"{step.seconds:.1f}")
        self.console.print(took)
        for note in day.notes:
            self.say(f"Note: {note}")

    def paths(self, paths: Mapping[str, Path]) -> None:
        """Where everything lies."""
        table = Table(box=None, show_header=False, title="Where everything lies", title_justify="left")
        for name, path in paths.items():
            table.add_row(name, str(path))
        self.console.print(table, soft_wrap=True)


def _costs(costs: Sequence[Cost]) -> Table:
    table = Table("the same day", box=None, title="What it costs", title_justify="left")
    for name in ("delivered", "unwanted", "MB", "between brokers", "CPU s"):
        table.add_column(name, justify="right")
    for cost in costs:
        table.add_row(
            cost.way,
            f"{cost.delivered:,}",
            f"{cost.unwanted:,}",
            f"{cost.delivered_bytes / 1e6:,.2f}",
            "–" if cost.carried is None else f"{cost.carried:,}",
            "–" if cost.cpu_s is None else f"{cost.cpu_s:,.1f}",
        )
    return table


def _savings(savings: Sequence[Saving]) -> Table:
    table = Table("on such a day", box=None, title="What plans would save", title_justify="left")
    for name in ("as it was", "planned", "less"):
        table.add_column(name, justify="right")
    table.add_column("for that")
    for one in savings:
        less = 1 - one.after / one.before if one.before else 0.0
        table.add_row(one.what, _figure(one.before), _figure(one.after), f"{less:.0%}", one.by)
    return table


def _figure(value: float) -> str:
    return f"{value:,.2f}" if value < MANY else f"{value:,.0f}"
