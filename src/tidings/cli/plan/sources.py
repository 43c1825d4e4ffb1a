"""Spark for the commands that plan: where a plan is to come from, and how far that is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tidings.cli.pipeline.spark import MASTER, checked
from tidings.cli.plan import network
from tidings.cli.plan.options import hour, only_for
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.cli.plan.network import Wired
    from tidings.pipeline.plan.inputs import Progress
    from tidings.pipeline.plan.sources import Source
    from tidings.pipeline.session import Session


@dataclass(frozen=True)
class Asked:
    """The options that say what a plan is made from on Spark, as they were given."""

    records: Path | None
    workload: Path | None
    first: str | None
    until: str | None
    latest: int | None
    master: str | None
    settings: list[str] | None

    @property
    def on_spark(self) -> bool:
        """Whether Spark is asked for at all."""
        return self.records is not None or self.workload is not None

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that this takes."""
        return ("pyspark",) if self.on_spark else ()

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.records is not None and self.workload is not None:
            raise InputError("--records and --workload both say what to plan from; give one of them")
        hours = {"--from": self.first, "--until": self.until, "--hours": self.latest}
        only_for("--records", self.records is not None, hours)
        of_spark = {"--master": self.master, "--set": self.settings or None}
        only_for("--records or --workload", self.on_spark, of_spark)
        if self.latest is not None and (self.first is not None or self.until is not None):
            raise InputError("--hours are the last ones, --from and --until say which; give one or the other")

    def source(self) -> Source:
        """What is asked for, looked at before Spark starts, which takes a while."""
        self.check()
        checked(self.master or MASTER, self.settings)
        first, until = hour("--from", self.first), hour("--until", self.until)
        if first is not None and until is not None and first >= until:
            raise InputError(f"--from {self.first} is not before --until {self.until}; give a later end")
        from tidings.pipeline.plan import sources

        if self.records is not None:
            return sources.recorded(self.records, first=first, until=until, latest=self.latest)
        assert self.workload is not None, "records or a workload are asked for"
        return sources.generated(self.workload, master=self.master or MASTER)

    @contextmanager
    def spark(self, bars: Bars) -> Iterator[Session]:
        """A session, with what workers need."""
        from tidings.pipeline import session, worker_files

        master = self.master or MASTER
        bars("starting Spark", 0, 0)
        with session.start("tidings plan", master=master, settings=checked(master, self.settings)) as spark:
            worker_files.send(spark, master, needed=(*worker_files.KERNELS, "scipy"))
            yield spark


def wired(spark: Session, source: Source, given: Wired | None, progress: Progress) -> Wired:
    """The network as it was given, else as records name it."""
    from tidings.pipeline.plan import inputs
    from tidings.pipeline.plan.sources import Recorded

    if given is not None:
        return given
    assert isinstance(source, Recorded), "a workload has a network of its own"
    brokers, links = inputs.network(spark, source, progress=progress)
    if not links and len(brokers) > 1:
        raise InputError(
            f"{source.name} do not say which brokers are linked; give the network, with --network FILE or "
            "--edges FILE"
        )
    return network.of_names(source.name, brokers, links)


def tell(text: str, as_json: bool) -> None:
    """What a plan is made from, for people: beside it, not in it."""
    if text and not as_json:
        typer.echo(text, err=True)


class Bars:
    """A bar on standard error for each thing that takes a while, where somebody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._now: tuple[str, TaskID] | None = None

    def __call__(self, name: str, done: int, tasks: int) -> None:
        """How many of its tasks are done; of how many, or 0 where nobody knows."""
        if self._now is None or self._now[0] != name:
            self._end()
            self._now = name, self._bars.add_task(name, total=None, tasks="")
        if tasks:
            self._bars.update(self._now[1], total=tasks, completed=done, tasks=f"{done} of {tasks} tasks")

    def _end(self) -> None:
        """What was going on is done."""
        if self._now is not None:
            self._bars.update(self._now[1], total=1, completed=1, tasks="")
            self._bars.stop_task(self._now[1])
            self._now = None

    def __enter__(self) -> Bars:
        if self._bars.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        # Bars that were never started would leave an empty line.
        if self._bars.console.is_terminal:
            self._bars.stop()
