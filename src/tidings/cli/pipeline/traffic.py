"""`tidings pipeline traffic`: records of brokers become tables, a little more with every run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.pipeline.spark import DATA, MASTER, AsJson, Data, Master, Settings, checked

if TYPE_CHECKING:
    from tidings.pipeline.traffic.running import Outcome


def traffic(
    records: Annotated[
        Path, typer.Option("--records", metavar="DIR", help="The folder that brokers write records to.")
    ],
    data: Data = DATA,
    master: Master = MASTER,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Count from the records of brokers who talks to whom, over which links, how far and how long.

    Writes the tables of DIR/traffic. Each run reads the segments that it has not read yet and makes the hours
    anew that these touch; what comes late or twice changes nothing that it should not.

    Try it:

        tidings pipeline traffic --records my-records --data my-data
    """
    from rich.console import Console

    from tidings.pipeline import session
    from tidings.pipeline.tables import Store
    from tidings.pipeline.traffic import ledger

    of_spark = checked(master, settings)
    # Before Spark starts, which takes a while.
    ledger.check(records)
    store = Store(data)
    console = Console(stderr=True)
    with console.status("starting Spark") as status:

        def moved(name: str, done: int, tasks: int) -> None:
            status.update(f"{name}: {done} of {tasks} tasks" if tasks else name)

        with session.start("tidings traffic", master=master, settings=of_spark) as spark:
            from tidings.pipeline.traffic import running

            outcome = running.run(spark, records, store, master=master, settings=of_spark, progress=moved)
    if as_json:
        typer.echo(json.dumps({"data": str(store.folder), **asdict(outcome)}, ensure_ascii=False))
    else:
        _show(outcome, store.folder)


def _show(outcome: Outcome, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("table", box=None, title=f"Traffic in {folder / 'traffic'}", title_justify="left")
    table.add_column("rows", justify="right")
    for name, rows in outcome.rows.items():
        table.add_row(name, f"{rows:,}")
    console.print(table)
    console.print(
        f"\n{outcome.segments:,} segments read, {outcome.known:,} known before; {outcome.records:,} records "
        f"new, {outcome.repeated:,} repeated; {outcome.hours:,} hours made, {outcome.linked:,} left as they "
        f"were; version {outcome.version}, {outcome.seconds:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
