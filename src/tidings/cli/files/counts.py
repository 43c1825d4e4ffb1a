"""What was gathered, in numbers, for people."""

from __future__ import annotations

from collections.abc import Mapping


def show_counts(counts: Mapping[str, int], title: str) -> None:
    """The summary of a run."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, count in counts.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    Console().print(table)
