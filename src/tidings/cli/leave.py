"""`tidings leave`: one broker less."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated

import msgspec
import typer

from tidings.cli import network
from tidings.cli.network import Member, NoAnswer, State, StateFile, ask, view
from tidings.errors import InputError

LINKED_WITHIN_S = 30.0


def leave(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Its name, as `tidings status` shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Let a broker of the network here leave for good: nothing is held for it any more.

    Where the others would fall apart without it, its neighbours are linked with each other first. The exit
    code is 1 if it does not leave by itself and has to be stopped.

    Try it:

        tidings leave b3
    """
    file = StateFile()
    state = file.read()
    if state is None:
        raise InputError("no network of yours runs here; start one with `tidings up`")
    member = state.member(broker)
    if len(state.members) == 1:
        raise InputError(f"{broker} is the last broker; stop the network with `tidings down`")
    bridges = _bridge(state, member)
    file.put(msgspec.structs.replace(member, leaving=True))
    try:
        ask(member.http, "/leave", {})
    except NoAnswer as reason:
        typer.echo(f"{broker} does not answer ({reason}); it is only forgotten here", err=True)
    left = network.wait_for(lambda: _gone(member), network.STOP_WITHIN_S)
    alone = sum(one.process == member.process for one in state.members) == 1
    if not left and alone:
        network.stop([member], 0.0)
    for other in state.members:
        if other.id != broker and other.alive:
            _part(other, member)
    file.remove(broker)
    if as_json:
        typer.echo(json.dumps({"left": broker, "by_itself": left, "linked": bridges}))
    else:
        for one, another in bridges:
            typer.echo(f"{one} and {another} are linked, or the network would have fallen apart")
        typer.echo(f"{broker} has left" + ("" if left else ", after it had to be stopped"))
    raise typer.Exit(0 if left else 1)


def _gone(member: Member) -> bool:
    if not member.alive:
        return True
    try:
        ask(member.http, "/health")
    except NoAnswer:
        return True
    return False


def _part(other: Member, member: Member) -> None:
    try:
        network.change_neighbours(other, remove=[member.address])
    except NoAnswer:
        pass  # it has died meanwhile, and that is another story


def _bridge(state: State, leaving: Member) -> list[tuple[str, str]]:
    """Link the parts into which the network would fall; says which brokers were linked."""
    others = {one.id: one for one in state.members if one.id != leaving.id and one.alive}
    found = parts(_links(others))
    near = set(view(leaving).links)
    chosen = [min(part & near or part) for part in found]
    bridges = list(pairwise(chosen))
    for one, another in bridges:
        try:
            network.change_neighbours(others[one], add=[others[another].address])
        except NoAnswer as reason:
            raise InputError(f"{one} does not answer ({reason}); look at `tidings status`") from None
    if bridges and not network.wait_for(lambda: len(parts(_links(others))) == 1, LINKED_WITHIN_S):
        raise InputError(
            f"without {leaving.id} the network would fall apart, and {bridges} could not be linked; "
            "look at `tidings status`"
        )
    return bridges


def _links(members: Mapping[str, Member]) -> dict[str, set[str]]:
    return {id_: {peer for peer in view(member).links if peer in members} for id_, member in members.items()}


def parts(links: Mapping[str, set[str]]) -> list[set[str]]:
    """The connected parts of a network, in order of their smallest ids.

    >>> [sorted(part) for part in parts({"a": {"b"}, "b": {"a"}, "c": set()})]
    [['a', 'b'], ['c']]
    """
    found: list[set[str]] = []
    for start in sorted(links):
        if any(start in part for part in found):
            continue
        part, waiting = set(), [start]
        while waiting:
            one = waiting.pop()
            if one not in part:
                part.add(one)
                waiting += [peer for peer in links if peer in links[one] or one in links[peer]]
        found.append(part)
    return found
