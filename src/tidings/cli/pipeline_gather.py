"""`tidings pipeline gather`: reports through the gatherer on Spark, to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.lines import Lines
from tidings.cli.on_spark import DATA, MASTER, AsJson, Data, Master, Overwrite, Settings, checked
from tidings.errors import InputError, PayloadError
from tidings.gathering.replay import Reader
from tidings.language.reports import Report
from tidings.language.topics import Topic

REFUSED_SHOWN = 5
"""Refused lines that are named; all are counted."""


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
            help='A table of DIR, or a file of JSON lines {"at": 12.5, "fields": {…}} that ends with .jsonl.',
        ),
    ] = "reports",
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Tasks among which keys are divided.")
    ] = None,
    master: Master = MASTER,
    settings: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Gather reports into events on Spark, exactly as a broker's gatherer would.

    Writes the table `gathered`: each version that is told, each closing, each report that is refused. The
    summary is that of `tidings gather` on the same reports, however many tasks there are.

    Try it:

        tidings pipeline gather --topic examples/traffic-athens.toml --reports examples/reports.jsonl
    """
    from tidings.pipeline import session, shipping
    from tidings.pipeline.gather import batch, columnar, engines, job
    from tidings.pipeline.gather.layout import Layout
    from tidings.pipeline.tables import Store

    given = checked(master, settings)
    store = Store(data)
    topics = job.topics_of(data, topic or [])
    store.check([job.GATHERED], overwrite)
    lines = _Lines(reports) if reports.endswith(".jsonl") else None
    if lines is not None and len(topics) > 1:
        raise InputError(
            f"{reports} has reports of one topic, and {len(topics)} are declared; give one --topic"
        )
    with session.start("tidings gather", master=master, settings=given) as spark:
        shipping.send(spark, master)
        if lines is None:
            count = store.made(reports).rows
            frame, layout = job.of_table(spark, store, reports, topics)
            tasks = partitions or batch.partitions_for(count, _cores(master))
            told = batch.gather(frame, layout, partitions=tasks)
        else:
            layout = Layout(topics[0])
            rows = job.of_lines(spark, layout, lines.reports(topics[0]), lines.refused)
            told = batch.gather_rows(rows, layout, partitions=partitions or _cores(master))
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
            settings=given,
            overwrite=overwrite,
        )
    if as_json:
        table = {key: value for key, value in asdict(made).items() if key != "spec"}
        engine = engines.engine_of(layout).value
        told_of = {"data": str(store.folder), "table": table, "engine": engine, "summary": counts}
        typer.echo(json.dumps(told_of, ensure_ascii=False))
    else:
        _show(counts, made.seconds, store.folder)


def _cores(master: str) -> int:
    from tidings.pipeline import session

    return session.core_count(master) if session.is_local(master) else 16


class _Lines(Lines):
    """Lines that remember which of them were refused."""

    def __init__(self, name: str) -> None:
        super().__init__(name, REFUSED_SHOWN)
        self.refused: list[int] = []

    def refuse(self, number: int, reason: str) -> None:
        self.refused.append(number)
        super().refuse(number, reason)

    def reports(self, topic: Topic) -> Iterator[Report]:
        """The reports that can be taken."""
        reader = Reader(topic)
        for number, line in self:
            try:
                yield reader.read(number, line)
            except PayloadError as error:
                self.refuse(number, str(error))


def _show(counts: dict[str, int], seconds: float, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title=f"gathered in {folder}, {seconds:.1f} s", title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, count in counts.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    Console().print(table)
