"""What commands on Spark ask alike: where tables live, where Spark runs, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.workload.spec import changed
from tidings.errors import InputError

DATA = Path("data")
MASTER = "local[*]"

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder in which tables live.")]
Master = Annotated[str, typer.Option("--master", help="Where Spark runs, as for `tidings pipeline run`.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of Spark (spark.driver.memory=4g); repeatable."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the table that is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="What was made as one JSON object.")]


def checked(master: str, settings: list[str] | None) -> dict[str, str]:
    """Spark's settings by name; InputError for a master that nobody knows, and for what is no setting."""
    from tidings.pipeline import session

    given = changed(settings or [])
    if wrong := [key for key in given if not key.startswith("spark.")]:
        raise InputError(f"{wrong[0]!r} is no setting of Spark's; those begin with 'spark.'")
    session.check_master(master)
    return given
