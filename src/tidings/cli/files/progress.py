"""Bars that show how far a file of lines has been read, where somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tidings.cli.files.lines import Lines


class Progress:
    """Bars on standard error, where somebody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[lines]:,} lines"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )

    def watch(self, title: str, lines: Lines) -> Iterator[tuple[int, dict[str, object]]]:
        """The objects of a file, with a bar that follows them."""
        task = self._bars.add_task(title, total=lines.size, lines=0)
        count = 0
        for count, pair in enumerate(lines, 1):
            if count % 256 == 0:
                self._bars.update(task, completed=lines.done, lines=count)
            yield pair
        self._bars.update(task, total=lines.done, completed=lines.done, lines=count)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def say(self, text: str) -> None:
        """A last line, where somebody looks."""
        if self._console.is_terminal:
            self._stop()
            self._console.print(text, highlight=False)

    def give_way(self) -> None:
        """Stop where answers go to the same terminal, which would run into the bars."""
        if sys.stdout.isatty():
            self._stop()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        # Bars that were never started would leave an empty line.
        if self._console.is_terminal:
            self._bars.stop()
