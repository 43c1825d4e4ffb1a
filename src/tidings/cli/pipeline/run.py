"""`tidings pipeline`: run stages on Spark, see how they hang together, and look at what they have made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.pipeline import gather, match
from tidings.cli.pipeline.spark import DATA, MASTER, Data
from tidings.cli.workload.spec import changed
from tidings.errors import InputError
from tidings.language import durations

if TYPE_CHECKING:
    from rich.console import Console

    from tidings.pipeline.jobs import Listed
    from tidings.pipeline.tables import Made

ALL = "all"
"""In place of a stage: every one."""

WIDTH = 160
"""Of tables where nobody looks: what is piped has no window that it must fit into."""

VALUE_SHOWN = 80
"""Characters of one value of a row."""

MICROSECONDS = "_us"
"""How names of lengths of time end, inside."""


class Form(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"


def run(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="STAGE...",
            help="Stages of a workload, `all` for all of them; gather and match, with their defaults.",
        ),
    ],
    data: Data = DATA,
    master: Annotated[
        str,
        typer.Option(
            "--master",
            help="Where Spark runs: local[*], local[N], spark://HOST:PORT, k8s://…, yarn, or sc://HOST:PORT.",
        ),
    ] = MASTER,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", metavar="FILE", help="What to make, a TOML file; the default if left out."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of the spec (sizes.events=500) or of Spark (spark.driver.memory=4g); repeatable.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace tables that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was made as one JSON object.")] = False,
) -> None:
    """Run stages of the pipeline and write their tables.

    Stages run in the order of what they read. What they read and none of them makes must be in the folder
    already. A table is replaced only when its new version is whole: a run that dies leaves it as it was.
    `all` writes the declarations of the workload's topics too, as `tidings workload generate` does.

    Try it:

        tidings pipeline run all --data my-data --set sizes.subscriptions=1000 --set sizes.events=200
    """
    from tidings.cli.pipeline import stages
    from tidings.pipeline import jobs, running, session
    from tidings.pipeline.tables import Store
    from tidings.pipeline.workload import draft as drafts
    from tidings.workload import making, reading

    given = changed(settings or [])
    of_spark = {key: value for key, value in given.items() if key.startswith("spark.")}
    of_spec = {key: value for key, value in given.items() if key not in of_spark}
    session.check_master(master)
    known = running.registry()
    named = [job for job in jobs.JOBS if job.name in names]
    for job in named:
        if job.name not in AFTER:
            raise InputError(f"{job.name!r} reads {job.given}; run it with: {job.command} --help")
    everything = ALL in names
    names = [name for name in names if name != ALL and name not in AFTER]
    chosen = running.chosen(names, known, [*AFTER, ALL])
    if everything:
        chosen, names = list(known.values()), list(known)
    store = Store(data)
    made: list[Made] = []
    if not names and (spec is not None or of_spec):
        raise InputError(
            "a spec is for stages of a workload, and none is named; leave --spec and its keys out, or name "
            f"{ALL!r} too"
        )
    # Before the plain values are made, which takes a while.
    store.check([*(stage.table for stage in chosen), *(job.writes[0] for job in named)], overwrite)
    if everything:
        drafts.check_declared(data, overwrite)
    if names:
        model = making.make(reading.read(spec, of_spec))
        with drafts.drafted(model, data) if everything else nullcontext() as draft:
            made += stages.run(
                model, data, names=names, master=master, settings=of_spark, overwrite=overwrite
            )
            if draft is not None:
                drafts.finish(draft, data)
    made += [AFTER[job.name](data, master, of_spark, overwrite) for job in named]
    if as_json:
        told = [{key: value for key, value in asdict(one).items() if key != "spec"} for one in made]
        typer.echo(json.dumps({"data": str(store.folder), "tables": told}, ensure_ascii=False))
        return
    stages.show(made, store.folder)
    if left := [job for job in jobs.JOBS if everything and job.name in AFTER and job not in named]:
        typer.echo("From these: " + "; ".join(f"{job.command} --data {data}" for job in left))


def _gathered(data: Path, master: str, settings: Mapping[str, str], overwrite: bool) -> Made:
    return gather.gathered(data, (), gather.REPORTS, None, master, settings, overwrite)[0]


def _matched(data: Path, master: str, settings: Mapping[str, str], overwrite: bool) -> Made:
    form, way = match.Form.ROWS, match.Way.AUTO
    return match.matched(data, form, way, None, master, settings, overwrite)[0]


AFTER: dict[str, Callable[[Path, str, Mapping[str, str], bool], Made]] = {
    "gather": _gathered,
    "match": _matched,
}
"""Jobs that need nothing but the tables of a workload; each by its own defaults."""


def graph(
    form: Annotated[Form, typer.Option("--format", help="How to write it.")] = Form.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Stages as one JSON object.")] = False,
) -> None:
    """Show the stages of the pipeline, the tables that each writes, and those that it reads.

    Those of a workload write a table of their own name, and `run` runs them. The others have commands of
    their own, with more options.

    Try it:

        tidings pipeline graph
    """
    from tidings.pipeline import jobs

    found = jobs.listed()
    if as_json:
        told = [
            {
                "stage": one.name,
                "says": one.says,
                "reads": list(one.reads),
                "given": one.given or None,
                "writes": list(one.writes),
                "command": one.command,
            }
            for one in found
        ]
        typer.echo(json.dumps({"stages": told}, ensure_ascii=False))
    else:
        typer.echo(DRAWN[form](found))


def show(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table, such as clients or traffic/messages.")
    ],
    data: Data = DATA,
    rows: Annotated[int, typer.Option("--rows", min=0, help="So many rows of it.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one JSON object.")] = False,
) -> None:
    """Show a table: its columns, its versions, what made it, and its first rows. Spark is not started.

    Try it:

        tidings pipeline show clients --data my-data --rows 3
    """
    import pyarrow.dataset as ds

    from tidings.pipeline.tables import Store

    store = Store(data)
    # Tables that are published together lie in one folder: traffic/messages.
    name, _, inner = table.partition("/")
    made = store.made(name)
    folder = store.path(name) / inner
    there = sorted(path.name for path in store.path(name).iterdir() if path.is_dir())
    if not folder.is_dir():
        raise InputError(f"there is no {inner!r} in {name!r}; there are: {', '.join(there) or 'none'}")
    if there and not inner:
        raise InputError(
            f"{name!r} is several tables; name one: {', '.join(f'{name}/{one}' for one in there)}"
        )
    found = ds.dataset(folder, format="parquet", partitioning="hive")
    # On this thread, as everywhere in short processes: Arrow aborts one that ends while its threads start.
    first = found.head(rows, use_threads=False).to_pylist()
    others = [store.made(name, number) for number in store.versions(name)]
    if as_json:
        told = {
            "table": table,
            "folder": str(store.folder),
            "columns": [{"name": one.name, "type": str(one.type)} for one in found.schema],
            "versions": [
                {"version": one.version, "at": one.at, "rows": one.rows, "bytes": one.bytes} for one in others
            ],
            "made": asdict(made),
            "rows": first,
        }
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    from rich.table import Table

    console = _console()
    columns = Table(title=f"{table}, {found.count_rows(use_threads=False):,} rows", title_justify="left")
    columns.add_column("column")
    columns.add_column("type")
    for one in found.schema:
        columns.add_row(one.name, str(one.type))
    console.print(columns)
    console.print(_versions(others, made))
    console.print(_settings(made))
    if first:
        shown = Table(title=f"the first {len(first)} rows", title_justify="left")
        for name in first[0]:
            shown.add_column(name)
        for row in first:
            shown.add_row(*("" if value is None else _short(str(value)) for value in row.values()))
        console.print(shown)


def _text(stages: list[Listed]) -> str:
    """A line for each stage, below those that it reads; what it reads and writes behind arrows."""
    wide = max(len(stage.name) for stage in stages)
    lines = []
    for stage in stages:
        lines.append(f"{stage.name:<{wide}}  {stage.says}")
        if reads := [*stage.reads, *filter(None, [stage.given])]:
            lines.append(f"{'':<{wide}}  ← {', '.join(reads)}")
        if stage.writes != (stage.name,):
            lines.append(f"{'':<{wide}}  → {', '.join(stage.writes)}")
            lines.append(f"{'':<{wide}}  $ {stage.command}")
    return "\n".join(lines)


def _arrows(stages: list[Listed]) -> list[tuple[str, str]]:
    """From tables to stages, and to tables that are not called as their stage is."""
    return [
        *((read, stage.name) for stage in stages for read in stage.reads),
        *((stage.name, table) for stage in stages for table in stage.writes if table != stage.name),
    ]


def _nodes(stages: list[Listed]) -> list[str]:
    return list(dict.fromkeys(name for stage in stages for name in (stage.name, *stage.writes)))


def _mermaid(stages: list[Listed]) -> str:
    def key(name: str) -> str:
        return name.replace("/", "_")

    nodes = [f'    {key(one)}["{one}"]' if "/" in one else f"    {one}" for one in _nodes(stages)]
    arrows = [f"    {key(one)} --> {key(other)}" for one, other in _arrows(stages)]
    return "\n".join(["graph LR", *nodes, *arrows])


def _dot(stages: list[Listed]) -> str:
    arrows = [f'    "{one}" -> "{other}";' for one, other in _arrows(stages)]
    nodes = [f'    "{one}";' for one in _nodes(stages)]
    return "\n".join(["digraph pipeline {", "    rankdir=LR;", *nodes, *arrows, "}"])


def _short(text: str) -> str:
    """A value for people: of a long list they want to see that it is one."""
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"


DRAWN = {Form.TEXT: _text, Form.MERMAID: _mermaid, Form.DOT: _dot}


def _console() -> Console:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def _versions(others: list[Made], now: Made) -> Any:
    from rich.table import Table

    table = Table(title="versions", title_justify="left")
    for title in ("version", "made at", "rows", "MB", "files", "seconds", ""):
        table.add_column(title, justify="left" if title in ("made at", "") else "right")
    for one in others:
        table.add_row(
            str(one.version),
            one.at,
            f"{one.rows:,}",
            f"{one.bytes / 1e6:,.2f}",
            str(one.files),
            f"{one.seconds:.1f}",
            "now" if one.version == now.version else "before",
        )
    return table


def _settings(made: Made) -> Any:
    from rich.table import Table

    from tidings.pipeline.running import difference
    from tidings.pipeline.tables import TABLES
    from tidings.workload import reading

    table = Table(title="made by", title_justify="left", show_header=False)
    table.add_row("seed", str(made.seed))
    # What was asked for is long; what differs from the default is not. Only a workload has a default.
    default = json.loads(json.dumps(asdict(reading.read(None)))) if made.table in TABLES else {}
    for line in difference(default, made.spec):
        key, _, values = line.partition(" was ")
        value = values.rpartition(", is ")[2]
        if key.endswith(MICROSECONDS):
            # A spec has lengths of time as people write them.
            key, value = key.removesuffix(MICROSECONDS), durations.text(int(value))
        if key != "seed":
            table.add_row(key, value[:WIDTH])
    table.add_row("from", ", ".join(f"{name} {number}" for name, number in made.reads.items()) or "no table")
    table.add_row("master", made.master)
    for key, value in made.settings.items():
        table.add_row(key, value)
    table.add_row("versions", ", ".join(f"{name} {number}" for name, number in made.versions.items()))
    return table
