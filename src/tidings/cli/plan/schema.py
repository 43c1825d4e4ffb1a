"""`tidings plan schema`: what a plan looks like, for programs that read one."""

from __future__ import annotations

import typer


def schema() -> None:
    """Print the JSON Schema of plans: what each key of the two kinds holds.

    Try it:

        tidings plan schema
    """
    import json

    from tidings.planning import plans

    typer.echo(json.dumps(plans.schema(), indent=2, ensure_ascii=False))
