"""`tidings demo`: what a newcomer runs, sees and understands.

Here is only what can be asked for; what is done, in which order, is in `demo.steps`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidings.local import network

OUT = Path("tidings-demo")
"""Where everything goes if nobody says."""


class SizeName(StrEnum):
    """How large."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


def demo(
    size: Annotated[
        SizeName,
        typer.Option("--size", help="About 2, 5 or 15 minutes on two cores.", show_default=True),
    ] = SizeName.SMALL,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the network up at the end; `tidings down` stops it.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Another seed is another day.", show_default=True)
    ] = 1,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Where everything goes; the demonstration before is replaced."
        ),
    ] = OUT,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=1, max=65_000, help="Brokers take free ports from here up.", show_default=True
        ),
    ] = network.FIRST_PORT,
    json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object at the end; what happens is told on standard error."),
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """See all of it in a few minutes: noisy reports about a city become events, and reach who wants them.

    First a handful of brokers gather reports while one of them is killed. Then Spark generates a day in
    Athens, a live network of brokers and MQTT clients plays it in accelerated time, every subscriber is
    checked against what truly happened, Spark counts what the brokers have written down and plans by it, and
    a page shows it with what the same day costs in other ways. It waits for all that must come for as long as
    anything moves, on a slow machine too. The exit code is 1 if anything was lost, wrong or repeated; what
    MQTT itself sends again and marks so (DUP) is no repeat.

    Ctrl-C at any moment stops everything and leaves nothing running.

    Try it:

        tidings demo --size medium
    """
    from tidings.demo import steps

    raise typer.Exit(
        steps.run(size.value, keep=keep, seed=seed, out=out, port=port, json=json, opens=not no_open)
    )
