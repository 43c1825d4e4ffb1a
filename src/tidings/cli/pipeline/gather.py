"""`tidings pipeline gather`: reports through the gatherer on Spark, to a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.files.counts import show_counts
from tidings.cli.files.lines import REFUSED_SHOWN, say_unnamed
from tidings.cli.pipeline import follow as pipeline_follow
from tidings.cli.pipeline.spark import DATA, MASTER, AsJson, Data, Master, Overwrite, Settings, checked
from tidings.cli.workload.spec import changed
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.pipeline.gather.layout import Layout
    from tidings.pipeline.tables import Made

REPORTS = "reports"
"""The table that is gathered unless another is named."""

LINES = ".jsonl"
"""How the names of files of JSON lines end."""


def gather(
    data: Data = DATA,
    topic: Annotated[
        list[Path] | None,
        typer.Option(
            "--topic",
            metavar="DECL",
            help="A gathered topic's declaration; those of the workload by default.",
        ),
    ] = None,
    reports: Annotated[
        str,
        typer.Option(
            "--reports",
            metavar="SOURCE",
            help="A table of DIR, a folder of Parquet files, or a file of JSON lines "
            '{"at": 12.5, "fields": {…}} that ends with .jsonl.',
        ),
    ] = REPORTS,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Tasks among which keys are divided.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Gather a stream: go on with what comes, until Ctrl-C.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Follow the kept reports of a network: the HTTP listener of a broker."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="Where a stream keeps what is open; it goes on from there."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="What a stream tells, as Parquet files; told in --data."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="DURATION", help="How long a stream waits for late reports."),
    ] = None,
    idle_after: Annotated[
        str | None,
        typer.Option(
            "--idle-after", metavar="DURATION", help="A stream that is quiet for so long goes with the clock."
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option("--buckets", min=1, help="Into how many a stream divides keys; 8, fixed at its start."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option of a stream's source (maxFilesPerTrigger=1, startingOffsets=latest); repeatable.",
        ),
    ] = None,
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="Follow what is there to its end, and keep what is open."),
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Follow what is there to its end, and run all clocks out.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print what a stream tells, as JSON lines, as it is told.")
    ] = False,
    master: Master = MASTER,
    settings: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Gather reports into events on Spark, exactly as a broker's gatherer would.

    Writes the table `gathered`: each version that is told, each closing, each report that is refused. The
    summary is that of `tidings gather` on the same reports, however many tasks there are.

    With `--follow` reports are a stream: files that come into a folder, or what a topic of a live network
    keeps (`keep_reports`). A report is fed once the latest time of all less `--delay` has passed it. Ctrl-C
    ends it; called again, it goes on from its checkpoint, and every version is told once.

    Try it:

        tidings pipeline gather --topic traffic-athens.toml --reports reports.jsonl
    """
    streamed = {
        "--url": url,
        "--checkpoint": checkpoint,
        "--out": out,
        "--delay": delay,
        "--idle-after": idle_after,
        "--buckets": buckets,
        "--option": option,
        "--available-now": available_now,
        "--finish": finish,
        "--lines": lines,
    }
    if not follow:
        if given := [name for name, value in streamed.items() if value]:
            raise InputError(f"{given[0]} is for a stream; give --follow too")
        _gather(data, topic or [], reports, partitions, master, settings, overwrite, as_json)
        return
    if checkpoint is None:
        raise InputError("--follow keeps what is open in a folder; name one: --checkpoint DIR")
    for name, value in {"--partitions": partitions, "--overwrite": overwrite}.items():
        if value:
            raise InputError(f"{name} is not for a stream; leave it out, or leave --follow out")
    pipeline_follow.follow(
        pipeline_follow.Asked(
            data=data,
            topics=topic or [],
            reports=reports,
            url=url,
            checkpoint=checkpoint,
            out=out or data / "told",
            delay=delay or "0s",
            idle_after=idle_after,
            buckets=buckets,
            options=changed(option or [], "--option", "maxFilesPerTrigger=1"),
            until_now=available_now or finish,
            finish=finish,
            lines=lines,
        ),
        master=master,
        settings=settings,
        as_json=as_json,
    )


def _gather(
    data: Path,
    topic: list[Path],
    reports: str,
    partitions: int | None,
    master: str,
    settings: list[str] | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Gather in batch."""
    from tidings.pipeline.gather import engines

    given = checked(master, settings)
    made, counts, layout = gathered(data, topic, reports, partitions, master, given, overwrite)
    folder = data.absolute()
    if as_json:
        table = {key: value for key, value in asdict(made).items() if key != "spec"}
        engine = engines.engine_of(layout).value
        told_of = {"data": str(folder), "table": table, "engine": engine, "summary": counts}
        typer.echo(json.dumps(told_of, ensure_ascii=False))
    else:
        show_counts(counts, f"gathered in {folder}, {made.seconds:.1f} s")


def gathered(
    data: Path,
    topic: Sequence[Path],
    reports: str,
    partitions: int | None,
    master: str,
    settings: Mapping[str, str],
    overwrite: bool,
) -> tuple[Made, dict[str, int], Layout]:
    """Start Spark and gather; how the table was made, its summary, and its columns."""
    from tidings.pipeline import session, worker_files
    from tidings.pipeline.gather import batch, columnar, job, lines
    from tidings.pipeline.gather.layout import Layout
    from tidings.pipeline.tables import Store

    store = Store(data)
    topics = job.topics_of(data, topic)
    store.check([job.GATHERED], overwrite)
    of_lines = reports.endswith(LINES)
    if of_lines and len(topics) > 1:
        raise InputError(
            f"{reports} has reports of one topic, and {len(topics)} are declared; give one --topic"
        )
    # Before Spark starts, which takes a while.
    found = lines.File(Path(reports), _cores(master)) if of_lines else job.reports_of(store, reports)
    tasks = partitions or batch.partitions_for(found.rows, _cores(master))
    with session.start("tidings gather", master=master, settings=settings) as spark:
        worker_files.send(spark, master, needed=worker_files.KERNELS)
        if isinstance(found, lines.File):
            layout = Layout(topics[0])
            told = lines.gather(spark, found, layout, partitions=tasks)
        else:
            frame, layout = job.of_files(spark, found, topics)
            told = batch.gather(frame, layout, partitions=tasks)
        if (reason := columnar.unsaid(layout.topic)) is not None:
            typer.echo(f"each report goes through the machine itself, one by one: {reason}", err=True)
        made, counts = job.write(
            spark,
            store,
            told,
            layout,
            source=reports,
            topics=topics,
            master=master,
            settings=settings,
            overwrite=overwrite,
        )
        # Lines are read by workers, so that what is wrong with them is in the table and nowhere else.
        if of_lines and counts["refused"]:
            for number, reason in job.refused(spark, store, REFUSED_SHOWN):
                typer.echo(f"{reports}:{number}: {reason}", err=True)
            say_unnamed(reports, counts["refused"])
    return made, counts, layout


def _cores(master: str) -> int:
    from tidings.pipeline import session

    return session.core_count(master) if session.is_local(master) else 16
