"""`tidings plan show`: what a plan does, gives and costs, as tables and as a page with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

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

        tidings plan show stores.json
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
        _add(found, *row)
    return found


def _add(table: Table, *cells: str) -> None:
    """A row, in which names from a file are nothing but text."""
    table.add_row(*map(_plain, cells))


def _plain(text: str) -> Text:
    from rich.text import Text

    from tidings.console.words import clean

    return Text(clean(text))


def check_place(out: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is planned."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        why = "it is a folder" if out.is_dir() else f"there is no folder {out.parent}"
        raise InputError(f"{out} cannot be written: {why}; name another file with --out")


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
    for warning in plan.warnings:
        console.print(_plain(f"note: {warning}"))
    if out is not None:
        console.print(f"the plan is in {out}; nothing has been changed", highlight=False)


def _store_tables(plan: StoresPlan) -> list[Table]:
    from rich.table import Table

    places = Table(
        "store", "topics", "held", "requests/s", title=_plain(f"{plan.cost.stores} stores, {plan.algorithm}")
    )
    for name in plan.stores:
        topics = [topic for topic, held in plan.assignment.items() if name in held]
        load, used = plan.forecast.loads[name], plan.forecast.held[name]
        _add(places, name, ", ".join(topics), f"{used:g}", f"{load:.3g}")
    kept = Table(
        "topic", "weight", "kept at", "mean hops", title=f"a request travels {plan.mean_hops:.3f} hops"
    )
    for topic, held in plan.assignment.items():
        short = f" ({plan.short[topic]})" if topic in plan.short else ""
        # A topic that is kept nowhere has none.
        hops = f"{plan.mean_hops_by_topic[topic]:.3f}" if topic in plan.mean_hops_by_topic else "–"
        _add(kept, topic, f"{plan.weights[topic]:.3f}", ", ".join(held) + short, hops)
    return [places, kept]


def _move_tables(plan: MovesPlan) -> list[Table]:
    from rich.table import Table

    cost, most = plan.cost, plan.settings.get("broker_overload")
    what = (
        f"{cost.moves:,} clients move: {cost.moves_across:,} to another cluster, {cost.moves_inside:,} inside"
    )
    bound = "any load" if most is None else f"at most {most:g} even shares, or what it has now"
    gains = Table("", "before", "after", title=_plain(f"{what}; {plan.algorithm}; a broker has {bound}"))
    _add(gains, "mean hops", f"{plan.hops.before:.3f}", f"{plan.hops.after:.3f}")
    clusters = plan.network.clusters
    if not clusters or not all(clusters.values()):
        passed = plan.backbone
        _add(gains, "messages per backbone broker", f"{passed.before:.3f}", f"{passed.after:.3f}")
    busiest = (f"{one.load:.2f} ({one.broker})" for one in (plan.busiest.before, plan.busiest.after))
    _add(gains, "busiest broker, in even shares", *busiest)
    load = Table("cluster", "load", title="what clients send, in fair shares")
    for name, share in plan.load.items():
        _add(load, name, f"{share:.2f}")
    shown = "the moves"
    if len(plan.moves) > MOVES_SHOWN:
        shown = f"the first {MOVES_SHOWN} of {len(plan.moves):,} moves"
    moves = Table("client", "from", "to", "another cluster", title=shown)
    for one in plan.moves[:MOVES_SHOWN]:
        _add(moves, one.client, one.source, one.goal, "yes" if one.across else "no")
    tables = [gains, load, moves]
    if plan.forecast.frontier:
        choice = Table("moves", "mean hops", title="what fewer and more moves would give")
        for count, hops in plan.forecast.frontier:
            _add(choice, str(count), f"{hops:.3f}")
        tables.append(choice)
    return tables
