"""`tidings plan show`: what a plan does, gives and costs, as tables and as a page with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from tidings.console.plan_scene import AnyTrial
    from tidings.console.tables import Table as Figures
    from tidings.planning.plans import MovesPlan, Plan, StoresPlan

MOVES_SHOWN = 20

AsJson = Annotated[bool, typer.Option("--json", help="The plan as JSON, the same that --out writes.")]


def show(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as `--out` writes it.")],
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="DIR", help="Write a page with pictures there: a folder, or a .html."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a plan: what it does, what it gives, what it costs.

    With --page also as pictures: the network before and after, and where clients or stores go.

    Try it:

        tidings plan show examples/plans/stores.json
    """
    made = read(plan)
    written = None if page is None else wrote(made, page, None)
    give(made, None, as_json)
    if not as_json:
        hint = f"for pictures: tidings plan show {plan} --page DIR"
        typer.echo(hint if written is None else f"the page is {written}")


def read(path: Path) -> Plan:
    """A plan from a file."""
    from tidings.planning import plans

    try:
        return plans.read(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def wrote(plan: Plan, target: Path, trial: AnyTrial | None) -> Path:
    """Write the page of a plan, with its trial if it had one; answers where it is."""
    from tidings.console import plan_page

    try:
        return plan_page.write(plan, target, trial)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}; name another folder") from None


def printed(given: Figures) -> Table:
    """A table of figures for the terminal."""
    from rich.table import Table

    found = Table(*given.head, title=given.name)
    for row in given.rows:
        found.add_row(*row)
    return found


def give(plan: Plan, out: Path | None, as_json: bool) -> None:
    """Write a plan where it is wanted, and print it as tables or as JSON."""
    from rich.console import Console

    from tidings.planning import plans
    from tidings.planning.plans import StoresPlan

    if out is not None:
        try:
            out.write_bytes(plans.write(plan) + b"\n")
        except OSError as error:
            raise InputError(
                f"{out} cannot be written: {error.strerror}; name another file with --out"
            ) from None
    if as_json:
        typer.echo(plans.write(plan).decode())
        return
    console = Console()
    for table in _store_tables(plan) if isinstance(plan, StoresPlan) else _move_tables(plan):
        console.print(table)
    if out is not None:
        console.print(f"the plan is in {out}; nothing has been changed", highlight=False)


def _store_tables(plan: StoresPlan) -> list[Table]:
    from rich.table import Table

    places = Table(
        "store", "topics", "held", "requests/s", title=f"{plan.cost.stores} stores, {plan.algorithm}"
    )
    for name in plan.stores:
        topics = [topic for topic, held in plan.assignment.items() if name in held]
        load, used = plan.forecast.loads[name], plan.forecast.held[name]
        places.add_row(name, ", ".join(topics), f"{used:g}", f"{load:.2f}")
    kept = Table(
        "topic", "weight", "kept at", "mean hops", title=f"a request travels {plan.mean_hops:.3f} hops"
    )
    for topic, held in plan.assignment.items():
        short = f" ({plan.short[topic]})" if topic in plan.short else ""
        weight, hops = plan.weights[topic], plan.mean_hops_by_topic[topic]
        kept.add_row(topic, f"{weight:.3f}", ", ".join(held) + short, f"{hops:.3f}")
    return [places, kept]


def _move_tables(plan: MovesPlan) -> list[Table]:
    from rich.table import Table

    what = f"{plan.cost.moves} clients to another cluster, {plan.cost.moves_inside} inside, {plan.algorithm}"
    gains = Table("", "before", "after", title=what)
    for name, pair in (("mean hops", plan.hops), ("messages per backbone broker", plan.backbone)):
        gains.add_row(name, f"{pair.before:.3f}", f"{pair.after:.3f}")
    load = Table("cluster", "load", title="what clients send, in fair shares")
    for name, share in plan.load.items():
        load.add_row(name, f"{share:.2f}")
    moves = Table("client", "from", "to", "another cluster", title=f"the first {MOVES_SHOWN} moves")
    for one in plan.moves[:MOVES_SHOWN]:
        moves.add_row(one.client, one.source, one.goal, "yes" if one.across else "no")
    tables = [gains, load, moves]
    if plan.forecast.frontier:
        choice = Table("moves", "mean hops", title="what fewer and more moves would give")
        for count, hops in plan.forecast.frontier:
            choice.add_row(str(count), f"{hops:.3f}")
        tables.append(choice)
    return tables
