"""`tidings workload`: make a workload of a wide-area network, see what is in one, and start from a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings import installation
from tidings.cli.workload.spec import changed
from tidings.errors import InputError

SPARK = "spark."


def generate(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the tables go.")],
    spec: Annotated[
        Path | None,
        typer.Option("--spec", metavar="FILE", help="A spec, a TOML file; the bundled default if left out."),
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option("--subscriptions", metavar="N", help="sizes.subscriptions of the spec.")
    ] = None,
    events: Annotated[
        int | None,
        typer.Option("--events", metavar="N", help="sizes.events: about so many, as arrivals are random."),
    ] = None,
    brokers: Annotated[int | None, typer.Option("--brokers", metavar="N", help="sizes.brokers.")] = None,
    requests: Annotated[int | None, typer.Option("--requests", metavar="N", help="sizes.requests.")] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts",
            metavar="FILE",
            help="Members and messages, instead of the model: CSV or Parquet (subject, language, region, "
            "members, messages).",
        ),
    ] = None,
    latency: Annotated[
        Path | None,
        typer.Option("--latency", metavar="MATRIX", help="Round trips in milliseconds, a square CSV."),
    ] = None,
    places: Annotated[
        Path | None,
        typer.Option(
            "--places", metavar="FILE", help="Where the matrix's nodes are: CSV (region or iso2, …)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same tables.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key of the spec, or a setting of Spark; may be repeated."
        ),
    ] = None,
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*], spark://…, k8s://…, sc://….")
    ] = "local[*]",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the workload that is in the folder.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Make a workload: who is interested in what and where, what happens, and who reports it.

    Subjects, languages, regions and the popularity of interests come from a spec, as do network positions,
    rates and sizes; Spark makes the tables from them, the same rows on any number of cores. The folder has
    Parquet tables (brokers, links, clients, interests, subscriptions, events, reports, requests), the
    declarations of the topics, and the spec. `tidings simulate`, `tidings bench` and `tidings match` read it.

    Try it:

        tidings workload generate --subscriptions 20000 --events 2000 --brokers 12 --out my-workload
    """
    # Some of them are in another extra too; a workload needs this one.
    installation.need("a workload", "pyspark", "scipy", extra="spark")
    from tidings.cli.pipeline import stages
    from tidings.pipeline.session import check_master
    from tidings.pipeline.workload import draft as drafts
    from tidings.workload import making, reading

    given = changed(set_ or [])
    settings = {name: value for name, value in given.items() if name.startswith(SPARK)}
    changes = {name: value for name, value in given.items() if not name.startswith(SPARK)}
    for name, number in {
        "sizes.subscriptions": subscriptions,
        "sizes.events": events,
        "sizes.brokers": brokers,
        "sizes.requests": requests,
        "seed": seed,
    }.items():
        if number is not None:
            changes[name] = str(number)
    for name, file in {"counts.file": counts, "network.latency": latency, "network.places": places}.items():
        if file is not None:
            changes[name] = str(file)
    check_master(master)
    asked = reading.read(spec, changes)
    _check_folder(out, overwrite)
    model = making.make(asked)
    with drafts.drafted(model, out) as draft:
        made = stages.run(model, out, master=master, settings=settings, overwrite=overwrite)
        drafts.finish(draft, out)
    if json:
        import msgspec

        told = {"folder": str(out), "position_error": model.nodes.error, "tables": made}
        typer.echo(msgspec.json.encode(told).decode())
        return
    stages.show(made, out)
    typer.echo(
        f"Positions: {len(model.nodes.names):,} nodes in five dimensions, median relative error "
        f"{model.nodes.error:.1%}. See what is in it: tidings workload describe {out}"
    )


def _check_folder(out: Path, overwrite: bool) -> None:
    """A folder that has something in it is only written to if that was said."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is not a folder; name one, or a place where there is nothing yet")
    if not overwrite and out.is_dir() and any(out.iterdir()):
        raise InputError(
            f"--out {out} exists and is not empty; name another folder, or replace the workload in it with "
            f"--overwrite"
        )
