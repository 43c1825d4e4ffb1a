"""`tidings workload`: make a workload of a wide-area network, see what is in one, and start from a spec."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidings import installation
from tidings.cli.demo import stopping
from tidings.cli.workload_spec import changed
from tidings.errors import InputError, SetupError
from tidings.records.workload import DECLARATIONS, SPEC_FILE
from tidings.records.workload_files import DIGEST, MADE, digest

if TYPE_CHECKING:
    from tidings.pipeline.workload.model import Model

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
    from tidings.cli import stages
    from tidings.pipeline.session import check_master
    from tidings.pipeline.workload import making, reading

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
    with drafted(model, out) as draft:
        made = stages.run(model, out, master=master, settings=settings, overwrite=overwrite)
        finish(draft, out)
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


@contextmanager
def drafted(model: Model, out: Path) -> Iterator[Path]:
    """A folder with the declarations of the topics and the spec, written while there is nothing to lose.

    It goes at the end, whatever the end is: SIGTERM and a terminal that is closed end what is inside as an
    error does.
    """
    from tidings.pipeline import running
    from tidings.pipeline.workload import declarations, reading

    # Readers compare it with that of the tables: what is put in its place last may not be.
    spec = running.spec_of(model)
    fresh = not out.exists()
    with stopping.handled(_ended, (signal.SIGTERM, signal.SIGHUP)):
        try:
            out.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=out))
        except OSError as error:
            raise InputError(f"{out} cannot be written to: {error.strerror}; name another folder") from error
        try:
            (draft / DECLARATIONS).mkdir()
            for name, text in declarations.texts(model).items():
                (draft / DECLARATIONS / name).write_text(text, encoding="utf-8")
            (draft / DECLARATIONS / MADE).write_text(json.dumps({"spec": spec}), encoding="utf-8")
            text = f"{DIGEST}{digest(spec)}\n{reading.written(model.spec)}"
            (draft / SPEC_FILE).write_text(text, encoding="utf-8")
            yield draft
        except OSError as error:
            raise SetupError(
                f"the workload cannot be written to {out}: {error.strerror}; free some space, or name "
                f"another folder"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if fresh and not any(out.iterdir()):
                out.rmdir()


def _ended(number: int, _: object) -> NoReturn:
    """End as an error does, so that what has begun is cleaned up. A second signal does not cut that short."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(stopping.ENDED_BY + number)


def check_declared(out: Path, overwrite: bool) -> None:
    """Declarations and a spec that are there are only replaced if that was said."""
    for name in (DECLARATIONS, SPEC_FILE):
        if not overwrite and (out / name).exists():
            raise InputError(f"{name!r} is in {out} already; --overwrite replaces it, or name another folder")


def finish(draft: Path, out: Path) -> None:
    """Put the declarations and, last, the spec in their places: two renames."""
    if (out / DECLARATIONS).exists():
        (out / DECLARATIONS).replace(draft / "before")
    (draft / DECLARATIONS).replace(out / DECLARATIONS)
    (draft / SPEC_FILE).replace(out / SPEC_FILE)
