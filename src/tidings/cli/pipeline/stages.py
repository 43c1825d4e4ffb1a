"""What `tidings pipeline` and `tidings workload` share: stages run under bars, and a table of what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.pipeline.running import Step
    from tidings.pipeline.tables import Made
    from tidings.workload.model import Model


def run(
    model: Model,
    folder: Path,
    *,
    names: Sequence[str] = (),
    master: str,
    settings: Mapping[str, str],
    overwrite: bool,
) -> list[Made]:
    """Start Spark and run the stages of these names, or all; bars on standard error, where somebody looks."""
    from tidings.pipeline import running, session
    from tidings.pipeline.tables import Store

    known = running.registry()
    chosen = running.chosen(names or list(known), known)
    store = Store(folder)
    store.check([stage.table for stage in chosen], overwrite)
    with _Bars(len(chosen)) as bars:
        bars.wait("starting Spark")
        with session.start("tidings", master=master, settings=settings) as spark:
            return running.run(
                spark,
                chosen,
                model,
                store,
                overwrite=overwrite,
                settings=settings,
                master=master,
                progress=bars.step,
            )


def show(made: Sequence[Made], folder: Path) -> None:
    """What was made, for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table("table", box=None, title=f"Tables in {folder}", title_justify="left")
    for name in ("rows", "MB", "files", "seconds", "version"):
        table.add_column(name, justify="right")
    for one in made:
        table.add_row(
            one.table,
            f"{one.rows:,}",
            f"{one.bytes / 1e6:,.1f}",
            f"{one.files:,}",
            f"{one.seconds:.1f}",
            str(one.version),
        )
    Console().print(table)


class _Bars:
    """A bar of stages and one of the tasks of the stage that runs, on standard error."""

    def __init__(self, count: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._stages = self._bars.add_task("stages", total=count)
        self._tasks = self._bars.add_task("", total=None)

    def wait(self, title: str) -> None:
        """Something of which nobody knows how long it takes."""
        self._bars.update(self._tasks, description=title, total=None)

    def step(self, step: Step) -> None:
        """What the runner tells."""
        from tidings.pipeline.running import Finished, Moved, Started

        if isinstance(step, Started):
            self._bars.reset(self._tasks, description=step.stage, total=None)
        elif isinstance(step, Moved):
            self._bars.update(self._tasks, completed=step.tasks_done, total=step.tasks)
        else:
            assert isinstance(step, Finished), f"{step} is a step"
            self._bars.advance(self._stages)

    def __enter__(self) -> _Bars:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()
