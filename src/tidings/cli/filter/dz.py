"""`tidings filter dz`: a filter, or an event, as parts of its topic's event space."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.filter.filter import AsJson, parsed
from tidings.cli.topic.topic import topic_of
from tidings.errors import PayloadError
from tidings.language import payloads, timestamps
from tidings.language.cuts import Cuts
from tidings.language.fields import Type, find, path_text
from tidings.language.regions import Unknown
from tidings.language.reports import Shape
from tidings.language.topics import Topic
from tidings.space import Decomposed, Space, wildcards
from tidings.space.attributes import Attribute, Real
from tidings.space.spaces import CELLS_MAX

if TYPE_CHECKING:
    from rich.table import Table

DEPTH_MAX = 512
"""Ten attributes of fifty bits, which is a decade in microseconds."""

HALVINGS_OF_FLOATS = 32
"""How often floats, which can be halved without end, are halved by default; oftener if it takes more to use
up the other attributes."""

ROWS_MAX = 40
"""Expressions that are shown to people."""

PICTURE_DEPTH = 9
"""Cells of a picture: 32 by 16."""


def dz(
    topic: Annotated[
        str, typer.Option("--topic", metavar="DECL", help="The topic declaration that lays out the space.")
    ],
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="The filter, in quotes; behind -- if it begins with a minus sign."
        ),
    ] = None,
    point: Annotated[
        str | None, typer.Option("--point", metavar="JSON", help="Instead of a filter, an event as JSON.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            help=f"Bits of an expression at most; all by default, {HALVINGS_OF_FLOATS} or more for a float.",
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--most", help="Expressions at most; coarser ones if need be."),
    ] = None,
    with_wildcards: Annotated[
        bool, typer.Option("--wildcards", help="Write * where a bit may be 0 or 1.")
    ] = False,
    unknown: Annotated[
        Unknown, typer.Option("--unknown", help="What the subscriber takes for an undecided term.")
    ] = Unknown.WAIT,
    as_json: AsJson = False,
) -> None:
    """Show the part of the event space that a filter asks for, as dz-expressions; or where an event lies.

    The space has an attribute for each declared field with a domain. It is halved, one attribute after the
    other; an expression says which half was taken each time. The expressions never leave out an event that
    the filter takes; "exact" says that they are not larger than what it asks of the attributes: nothing was
    enclosed at the depth or made coarser for the number.

    An event with a missing field lies in the lowest cell of that attribute; with --unknown assume it is shown
    as all that it may become.

    Try it:

        tidings filter dz "severity >= 4 AND fire" --topic traffic-athens.toml --depth 6
    """
    declared = topic_of(topic)
    assert declared is not None, "a declaration was given"
    if (text is None) == (point is None):
        raise typer.BadParameter("give a filter or --point, and not both")
    if depth is not None and not 0 <= depth <= DEPTH_MAX:
        raise typer.BadParameter(f"--depth is {depth}; give a number of bits from 0 to {DEPTH_MAX}")
    if most is not None and not 1 <= most <= CELLS_MAX:
        raise typer.BadParameter(f"--most is {most}; give a number of expressions from 1 to {CELLS_MAX}")
    space = Space.of(declared.fields)
    bits = _depth(space, depth)
    if point is not None:
        if unknown is Unknown.WAIT and (most is not None or with_wildcards):
            raise typer.BadParameter(
                "--most and --wildcards are for sets, and an event lies in one cell; leave them out, or add "
                "--unknown assume for all that it may become"
            )
        event = _event(point, declared, as_json)
        found = _of_event(space, event, bits, most, with_wildcards, unknown)
        if not as_json and unknown is Unknown.WAIT:
            # A script reads an empty line for the expression of no bits.
            typer.echo(found.dz[0] or ("the whole space" if sys.stdout.isatty() else ""))
            return
    else:
        asked = parsed(text or "", declared.fields or None, as_json)
        made = space.wild if with_wildcards else space.dz
        found = made(asked, unknown, depth=bits, most=most)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "dz": list(found.dz),
                    "exact": found.exact,
                    "volume": found.volume,
                    "attributes": [path_text(attribute.path) for attribute in space.attributes],
                },
                ensure_ascii=False,
            )
        )
        return
    _show(space, found, bits, with_wildcards)


def _depth(space: Space, asked: int | None) -> int:
    if asked is not None:
        return asked
    known = [attribute.bits for attribute in space.attributes]
    # Each is halved in turn, so the others are used up once a float is halved as often as the longest.
    of_floats = max([HALVINGS_OF_FLOATS, *(bits for bits in known if bits is not None)])
    return min(sum(of_floats if bits is None else bits for bits in known), DEPTH_MAX)


# An event.


def _event(text: str, topic: Topic, as_json: bool) -> Mapping[str, object]:
    try:
        return Shape(topic).typed(payloads.decode(text.encode("utf-8", "surrogateescape")))
    except PayloadError as error:
        if as_json:
            typer.echo(json.dumps({"error": str(error), "point": text}, ensure_ascii=False))
        else:
            typer.echo(f"--point: {error}", err=True)
        raise typer.Exit(2) from None


def _of_event(
    space: Space,
    event: Mapping[str, object],
    depth: int,
    most: int | None,
    with_wildcards: bool,
    unknown: Unknown,
) -> Decomposed:
    """Where an event lies, or all that it may become; exact if every known attribute is used up."""
    if unknown is Unknown.WAIT:
        return Decomposed((space.point(event, depth),), _used_up(space, depth, space.attributes))
    known = [attribute for attribute in space.attributes if find(event, attribute.path) is not None]
    alone = _used_up(space, depth, known)
    if with_wildcards:
        # A single expression, which is within any number.
        return Decomposed(space.wild_reach(event, depth), alone)
    found = space.reach(event, depth, most)
    return Decomposed(found, alone and wildcards.form(found) == space.wild_reach(event, depth))


def _used_up(space: Space, depth: int, some: Sequence[Attribute]) -> bool:
    """Whether some attributes have all their bits at a depth, which floats never have."""
    turns = space.turns(depth)
    at = {attribute.path: at for at, attribute in enumerate(space.attributes)}
    return all(attribute.bits == turns.count(at[attribute.path]) for attribute in some)


# For people.


def _show(space: Space, found: Decomposed, depth: int, with_wildcards: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not space.attributes:
        console.print("no field of the topic has a domain: its event space has no attributes", style="dim")
    console.print(_table(space, found))
    left = len(found.dz) - ROWS_MAX
    if left > 0:
        console.print(f"… and {left:,} more; --json lists all", style="dim")
    exact = "exact" if found.exact else "not exact: more than was asked for"
    count = "1 expression" if len(found.dz) == 1 else f"{len(found.dz):,} expressions"
    console.print(f"{count}, {found.volume:.6g} of the space; {exact}")
    if found.bounded:
        rest = "" if with_wildcards else "; --wildcards may say it exactly, in fewer"
        console.print(f"all of it would take too many, {CELLS_MAX:,} are the most{rest}", style="dim")
    if len(space.attributes) == 2 and len(space.turns(min(depth, PICTURE_DEPTH))) > 1:
        console.print()
        for line in _picture(space, found, depth):
            console.print(line, markup=False)


def _table(space: Space, found: Decomposed) -> Table:
    """The expressions, and what each says of the attributes that are limited at all."""
    from rich.table import Table
    from rich.text import Text

    shown = found.dz[:ROWS_MAX]
    products = [space.product(one) for one in shown]
    limited = [at for at in range(len(space.attributes)) if any(not box[at].full for box in products)]
    table = Table()
    table.add_column("dz")
    for at in limited:
        table.add_column(path_text(space.attributes[at].path))
    for one, box in zip(shown, products, strict=True):
        said = (", ".join(_said(space.attributes[at], box[at])) for at in limited)
        table.add_row(Text(one or "the whole space"), *(Text(text) for text in said))
    return table


def _said(attribute: Attribute, cuts: Cuts) -> Iterator[str]:
    """The values of the domain in a part of an attribute."""
    if cuts.full:
        yield "any"
        return
    empty = True
    for low, end in (cuts & attribute.domain).intervals():
        empty = False
        if isinstance(attribute, Real):
            yield f"{low:g} and more" if end > attribute.high else f"{low:g} to below {end:g}"
        elif attribute.listed:
            yield from attribute.listed[low:end]
        elif end - low == 1:
            yield _value(attribute, low)
        else:
            yield f"{_value(attribute, low)} to {_value(attribute, end - 1)}"
    if empty:
        yield "none of the domain"


def _value(attribute: Attribute, place: float) -> str:
    """The value at a place that values of the domain have."""
    if isinstance(attribute, Real):
        return f"{place:g}"
    at = int(place)
    if attribute.listed:
        return attribute.listed[at]
    if attribute.type is Type.BOOL:
        return "true" if at else "false"
    value = attribute.low + at
    return timestamps.text(timestamps.from_micros(value)) if attribute.type is Type.TIMESTAMP else str(value)


def _picture(space: Space, found: Decomposed, depth: int) -> Iterator[str]:
    """Two attributes as a plane, the first to the right and the second upwards."""
    turns = space.turns(min(depth, PICTURE_DEPTH))
    across, up = turns.count(0), turns.count(1)
    right, above = (path_text(attribute.path) for attribute in space.attributes)
    yield f"{above} upwards, {right} to the right; █ in the set, ▒ in part, · not"
    # As many characters for a cell as make the plane about as wide as it is high.
    wide = max(1, 2 * (1 << up) >> across)
    for y in reversed(range(1 << up)):
        cells = (_cell(turns, format(x, f"0{across}b"), format(y, f"0{up}b")) for x in range(1 << across))
        marks = (
            "▒" if share is None else "█" if share else "·" for share in wildcards.shares(found.dz, cells)
        )
        yield "  " + "".join(mark * wide for mark in marks)


def _cell(turns: list[int], *bits: str) -> str:
    """The bits of attributes, in turn."""
    left = [iter(some) for some in bits]
    return "".join(next(left[at]) for at in turns)
