"""`tidings reproduce`: a paper's experiments, with tables, plots and a verdict for each of its claims.

What is run is in papers/, beside the source; papers/README.md says what such a folder has. Here are the
processes, the progress bar, the files and the verdicts, the same for all papers.
"""

from __future__ import annotations

import csv
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Protocol, cast

import msgspec
import typer

from tidings import installation
from tidings.errors import InputError

Task = dict[str, Any]
Row = dict[str, Any]

FOLDER = "papers"
"""What the folder is called, and so the package that its modules are in."""

BESIDE = Path(__file__).resolve().parents[4]
"""The checkout, if the source is run from one."""

ANY = "any"
"""Of a claim about whatever was run."""

TELL_EVERY_S = 60.0
"""How often a run that nobody looks at says how far it is."""

HOLDS, DIFFERS, KNOWN = "holds", "differs", "differs, as known"

NOT_JUDGED = "not judged"
"""Of every claim after a quick run, which is too small: its numbers scatter more than the claims allow."""


class Experiment(Protocol):
    """The module `experiment` of a paper."""

    TITLE: str
    FIGURES: Mapping[str, str]

    def tasks(
        self, figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
    ) -> list[Task]: ...
    def run(self, task: Task) -> list[Row]: ...
    def conclude(self, rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]: ...
    def plot(self, tables: Mapping[str, list[Row]], folder: Path) -> list[Path]: ...


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of claims.toml."""

    id: str
    figure: str
    """What must have been run; "any" for whatever was."""

    where: str
    """The place in the paper."""

    says: str
    """In our words."""

    number: str
    """Which number of the experiment it is about."""

    least: float = float("-inf")
    most: float = float("inf")
    paper: str = ""
    unit: str = ""

    known: str = ""
    """Why it is known not to hold."""


class Verdict(msgspec.Struct, frozen=True):
    """What came of a claim."""

    id: str
    figure: str
    where: str
    says: str
    paper: str
    least: float | None
    most: float | None
    ours: float
    unit: str
    verdict: str
    known: str


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(metavar="[PAPER]", help="Which paper; without it all of them are listed.")
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option("--figure", metavar="NAME", help="Only this figure; may be repeated."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer runs and points: minutes, not an hour; judges no claim."),
    ] = False,
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="N", min=1, help="Runs of which the median is taken.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same numbers.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A number of the model; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where tables and plots go; reproduced/PAPER by default."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", min=1, help="As many as cores by default.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            help="Run on Spark instead of processes: local[*], local[N], spark://HOST:PORT, or another.",
        ),
    ] = None,
    papers: Annotated[
        Path | None,
        typer.Option("--papers", metavar="DIR", help="The folder papers/ of a checkout, if it is elsewhere."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Run a paper's experiments, and see which of its claims hold.

    Tables (CSV), plots (PNG) and the verdicts go to a folder. The exit code is 1 if a claim does not hold
    that is not known to. A quick run is too small to judge: it shows the numbers beside the claims, and its
    exit code is 0. Every number is the same whatever the number of processes, here or on Spark.

    Try it:

        tidings reproduce agele --figure 3 --quick
    """
    folder = _folder(papers)
    if paper is None:
        _list(folder, json)
        return
    experiment = _experiment(folder, paper)
    figures = figure or list(experiment.FIGURES)
    for name in figures:
        if name not in experiment.FIGURES:
            raise InputError(f"{paper} has no figure {name!r}; there are {', '.join(experiment.FIGURES)}")
    installation.need("a plot", "matplotlib")
    if master is not None and processes is not None:
        raise InputError("--processes and --master are two ways to run the same; leave one of them out")
    claims = _claims(folder / paper / "claims.toml")
    tasks = experiment.tasks(figures, quick, runs, seed, _given(set_ or []))
    if master is not None:
        rows = _run_on_spark(folder, paper, tasks, master)
    else:
        count = processes or os.cpu_count() or 1
        with _Progress(paper, sum(float(task["cost"]) for task in tasks)) as progress:
            rows = _run_all(folder, paper, experiment, tasks, count, progress)
    tables, numbers = experiment.conclude(rows)
    verdicts = [verdict for claim in claims for verdict in _judge(claim, figures, numbers, quick)]
    target = out or Path("reproduced") / paper
    target.mkdir(parents=True, exist_ok=True)
    _write(target / "verdicts.csv", [msgspec.structs.asdict(one) for one in verdicts])
    for name, table in tables.items():
        _write(target / f"{name}.csv", table)
    plots = experiment.plot(tables, target)
    if json:
        told = {
            "paper": paper,
            "figures": figures,
            "seed": seed,
            "verdicts": verdicts,
            "numbers": numbers,
            "tables": tables,
            "plots": [str(plot) for plot in plots],
        }
        typer.echo(msgspec.json.encode(told).decode())
    else:
        _show(experiment, verdicts, target)
    if any(one.verdict == DIFFERS for one in verdicts):
        raise typer.Exit(1)


# Where papers are.


def _folder(given: Path | None) -> Path:
    """The folder of papers: the one that is named, beside our own source, here, or above."""
    if given is not None:
        if given.name != FOLDER or not _papers(given):
            raise InputError(f"{given} is not the folder papers/ of a checkout; no paper is in it")
        return given.resolve()
    here = Path.cwd()
    for place in (BESIDE, here, *here.parents):
        if _papers(place / FOLDER):
            return place / FOLDER
    raise InputError(
        "there is no folder papers/ here or above; it is in the repository and in the source archive of "
        "tidings-network, not in what is installed: go there, or name it with --papers DIR"
    )


def _papers(folder: Path) -> list[str]:
    """The papers in a folder; none if it is something else."""
    return sorted(
        file.parent.name for file in folder.glob("*/experiment.py") if (file.parent / "claims.toml").exists()
    )


def _experiment(folder: Path, paper: str) -> Experiment:
    if paper not in _papers(folder):
        raise InputError(f"there is no paper {paper!r} in {folder}; there are {', '.join(_papers(folder))}")
    _see(folder)
    return cast("Experiment", import_module(f"{FOLDER}.{paper}.experiment"))


def _see(folder: Path) -> None:
    """Let modules of papers be imported."""
    above = str(folder.parent)
    if above not in sys.path:
        sys.path.insert(0, above)


def _list(folder: Path, json: bool) -> None:
    found = {paper: _experiment(folder, paper) for paper in _papers(folder)}
    if json:
        listed = [
            {"paper": paper, "title": one.TITLE, "figures": dict(one.FIGURES)} for paper, one in found.items()
        ]
        typer.echo(msgspec.json.encode(listed).decode())
        return
    for paper, one in found.items():
        typer.echo(f"{paper}: {one.TITLE}")
        for name, title in one.FIGURES.items():
            typer.echo(f"  --figure {name:<10} {title}")


def _given(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r} does not say what is set to what; write --set hop=1.5")
        found[name] = value
    return found


# Running.


def _run_all(
    folder: Path,
    paper: str,
    experiment: Experiment,
    tasks: Sequence[Task],
    processes: int,
    progress: _Progress,
) -> list[Row]:
    """The rows of all tasks, in the order of the tasks whoever ran them."""
    if processes == 1:
        rows = []
        for task in tasks:
            rows += experiment.run(task)
            progress.step(float(task["cost"]))
        return rows
    answers: dict[int, list[Row]] = {}
    # A forked process would share our threads' locks; a fresh one shares nothing.
    with ProcessPoolExecutor(processes, get_context("spawn"), _see, (folder,)) as pool:
        waiting = {pool.submit(_work, paper, task): at for at, task in enumerate(tasks)}
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    at = waiting.pop(future)
                    answers[at] = future.result()
                    progress.step(float(tasks[at]["cost"]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [row for at in range(len(tasks)) for row in answers[at]]


def _run_on_spark(folder: Path, paper: str, tasks: Sequence[Task], master: str) -> list[Row]:
    """The same rows, from tasks of Spark."""
    from rich.console import Console

    from tidings.pipeline import session, sweep

    session.check_master(master)
    function = f"{FOLDER}.{paper}.experiment:run"
    with (
        Console(stderr=True).status(f"{paper}: {len(tasks):,} tasks on {master}"),
        session.start("tidings reproduce", master=master) as spark,
    ):
        answers = sweep.run(spark, function, tasks, packages=[folder], master=master)
    return [row for rows in answers for row in rows]


def _work(paper: str, task: Task) -> list[Row]:
    """What a process of the pool does."""
    experiment = cast("Experiment", import_module(f"{FOLDER}.{paper}.experiment"))
    return experiment.run(task)


# Judging.


def _claims(path: Path) -> list[Claim]:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8"))["claim"], list[Claim])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, KeyError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _judge(
    claim: Claim, figures: Sequence[str], numbers: Mapping[str, float], quick: bool
) -> Iterator[Verdict]:
    """The verdict on a claim, if what it is about was run."""
    if claim.figure not in figures and not (claim.figure == ANY and claim.number in numbers):
        return
    if claim.number not in numbers:
        raise InputError(f"claim {claim.id!r} is about {claim.number!r}, which the experiment does not give")
    ours = numbers[claim.number]
    holds = claim.least <= ours <= claim.most
    yield Verdict(
        claim.id,
        claim.figure,
        claim.where,
        claim.says,
        claim.paper,
        None if claim.least == float("-inf") else claim.least,
        None if claim.most == float("inf") else claim.most,
        ours,
        claim.unit,
        NOT_JUDGED if quick else HOLDS if holds else KNOWN if claim.known else DIFFERS,
        "" if quick or holds else claim.known,
    )


# Showing.


def _write(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
            for row in rows
        )


def _show(experiment: Experiment, verdicts: Sequence[Verdict], target: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("verdict", "ours", "claim", title=experiment.TITLE, title_justify="left", box=None)
    for one in verdicts:
        said = f"the paper: {one.paper}; " if one.paper else ""
        words = f"{one.says} [dim]({one.id}; {said}holds if {_within(one)})[/dim]"
        table.add_row(one.verdict, f"{one.ours:,.1f}{one.unit}", words)
    console.print(table)
    for one in verdicts:
        if one.known:
            console.print(f"\n{one.id}: {one.known}", highlight=False)
    count = Counter(one.verdict for one in verdicts)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in count.items())
    if NOT_JUDGED in count:
        summary += "; a quick run is too small to judge the paper's claims, run it without --quick"
    console.print(f"\n{len(verdicts)} claims: {summary}. Tables and plots are in {target}", highlight=False)


def _within(one: Verdict) -> str:
    if one.least is None:
        return f"at most {one.most:g}"
    return f"at least {one.least:g}" if one.most is None else f"{one.least:g} to {one.most:g}"


class _Progress:
    """A bar on standard error, where somebody looks; a line now and then, where it is kept in a file."""

    def __init__(self, title: str, total: float, clock: Callable[[], float] = monotonic) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bars.add_task(title, total=total)
        self._clock = clock
        self._began_at = self._told_at = clock()

    def step(self, cost: float) -> None:
        """So much more is done."""
        self._bars.advance(self._task, cost)
        now = self._clock()
        if self._console.is_terminal or now - self._told_at < TELL_EVERY_S:
            return
        self._told_at = now
        task = self._bars.tasks[0]
        spent = (now - self._began_at) / 60
        print(
            f"{task.description}: {task.percentage:.0f}% after {spent:.0f} min", file=sys.stderr, flush=True
        )

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()
