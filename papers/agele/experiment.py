"""What `tidings reproduce agele` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.agele import figures as figures_
from papers.agele import results
from papers.agele.figures import QUICK_RUNS, RUNS, Asked, Row, Task, run

TITLE = "Agele: event gatherers for noisy events"

FIGURES: Mapping[str, str] = {name: figure.title for name, figure in figures_.FIGURES.items()}

__all__ = ["FIGURES", "TITLE", "conclude", "plot", "run", "tasks"]


def tasks(
    figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
) -> list[Task]:
    """What is to be run."""
    count = runs or (QUICK_RUNS if quick else RUNS)
    return figures_.tasks(Asked(tuple(figures), quick, count, seed, tuple(sorted(given.items()))))


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """Tables, and numbers for the claims."""
    tables = results.tables(rows)
    return tables, results.numbers(rows, tables)


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.agele import plots

    return plots.draw(tables, folder)
