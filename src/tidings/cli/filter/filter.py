"""`tidings filter`: look at one filter, or compare two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.topic.topic import topic_of
from tidings.errors import FilterError
from tidings.language.fields import Field, Path, path_text
from tidings.language.limits import DEFAULT
from tidings.language.regions import Unknown
from tidings.language.tree import Always, And, Node, Not, Or

if TYPE_CHECKING:
    from rich.tree import Tree

    from tidings.language.filters import Filter

Declaration = Annotated[
    str | None,
    typer.Option("--topic", metavar="DECL", help="Check names and types against this topic declaration."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")]


def explain(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="The filter, in quotes; behind -- if it begins with a minus sign."
        ),
    ],
    topic: Declaration = None,
    as_json: AsJson = False,
) -> None:
    """Show how a filter is understood: its terms, its normal form, its cost, the fields that it needs.

    A mistake is shown with its place; the exit code is then 2.

    Try it:

        tidings filter explain "severity >= 3 AND road IN ('A1','A2') AND note LIKE 'fire%'"
    """
    from tidings.language.wording import conjunction_text

    filter_ = parsed(text, _fields(topic), as_json)
    cost = filter_.cost
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "filter": filter_.source,
                    "tree": _tree_value(filter_.tree),
                    "canonical": filter_.text,
                    "normal_form": [conjunction_text(one) for one in filter_.disjuncts],
                    "cost": {
                        "terms": cost.terms,
                        "disjuncts": cost.disjuncts,
                        "constraints": cost.constraints,
                        "points": cost.points,
                        "searched": cost.searched,
                        "steps": filter_.steps,
                    },
                    "fields": [path_text(path) for path in filter_.paths],
                },
                ensure_ascii=False,
            )
        )
        return

    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    console = Console()
    root = Tree(Text("the filter as it was read", style="bold"))
    _grow(root, filter_.tree)
    console.print(root)
    normal = Tree(Text("its normal form: an event matches if one of these holds", style="bold"))
    for one in filter_.disjuncts:
        normal.add(Text(conjunction_text(one)))
    if not filter_.disjuncts:
        normal.add(Text("none: it is false of every event"))
    console.print(normal)
    console.print(
        Text.assemble(
            ("its cost: ", "bold"),
            f"{cost.terms} terms as written; {cost.disjuncts} conjunctions with {cost.constraints} "
            f"constraints and {cost.points} bounds in normal form; {filter_.steps} steps to read it, of "
            f"{DEFAULT.steps}",
        )
    )
    needed = ", ".join(path_text(path) for path in filter_.paths)
    console.print(Text.assemble(("fields needed: ", "bold"), needed or "none"))


def covers(
    a: Annotated[str, typer.Argument(metavar="A", help="The filter that may be the wider one.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The filter that may be within it.")],
    topic: Declaration = None,
    unknown: Annotated[
        Unknown, typer.Option("--unknown", help="What both subscribers take for an undecided term.")
    ] = Unknown.WAIT,
    unknown_a: Annotated[Unknown | None, typer.Option("--unknown-a", help="The same for A alone.")] = None,
    unknown_b: Annotated[Unknown | None, typer.Option("--unknown-b", help="The same for B alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a subscriber with filter A gets every event that one with filter B gets.

    The question is about all events, those with missing fields included. "Yes" is always right; "no" can
    also mean that it could not be shown, where several alternatives of A together, or patterns with an inner
    `%` or `_`, are needed. The exit code is 0 for yes, 1 for no, 2 for a filter that cannot be understood.

    Try it:

        tidings filter covers "severity >= 3" "severity = 4 AND fire"
    """
    from tidings.language import covering

    fields = _fields(topic)
    wide = (parsed(a, fields, as_json), unknown_a or unknown)
    narrow = (parsed(b, fields, as_json), unknown_b or unknown)
    answer = covering.covers(wide, narrow)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "covers": answer,
                    "covered_by": covering.covers(narrow, wide),
                    "overlaps": covering.overlaps(wide, narrow),
                    "a": {"canonical": wide[0].text, "unknown": wide[1]},
                    "b": {"canonical": narrow[0].text, "unknown": narrow[1]},
                },
                ensure_ascii=False,
            )
        )
    elif answer:
        typer.echo("yes: every event that B gets, A gets too")
    elif not covering.overlaps(wide, narrow):
        typer.echo("no: there is no event that both get")
    else:
        typer.echo("no: B may get events that A does not get")
    raise typer.Exit(0 if answer else 1)


def _fields(declaration: str | None) -> Mapping[Path, Field] | None:
    topic = topic_of(declaration)
    # A plain topic that declares no fields leaves its events untyped.
    return None if topic is None or not topic.fields else topic.fields


def parsed(text: str, fields: Mapping[Path, Field] | None, as_json: bool) -> Filter:
    """The filter that a command was given; a wrong one ends the command, with its place."""
    from tidings.language.filters import parse

    try:
        return parse(text, fields)
    except FilterError as error:
        if as_json:
            typer.echo(
                json.dumps(
                    {"error": error.reason, "filter": text, "start": error.start, "end": error.end},
                    ensure_ascii=False,
                )
            )
        else:
            typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def _grow(place: Tree, node: Node) -> None:
    from rich.text import Text

    from tidings.language.wording import term_text

    match node:
        case And(parts) | Or(parts):
            branch = place.add(Text("AND" if isinstance(node, And) else "OR", style="cyan"))
            for part in parts:
                _grow(branch, part)
        case Not(part):
            _grow(place.add(Text("NOT", style="cyan")), part)
        case Always(holds):
            place.add(Text("TRUE" if holds else "FALSE"))
        case _:
            place.add(Text(term_text(node)))


def _tree_value(node: Node) -> object:
    from tidings.language.wording import term_text

    match node:
        case And(parts) | Or(parts):
            return {"and" if isinstance(node, And) else "or": [_tree_value(part) for part in parts]}
        case Not(part):
            return {"not": _tree_value(part)}
        case Always(holds):
            return holds
        case _:
            return term_text(node)
