"""`tidings leave`: one broker less."""

from __future__ import annotations

import http.client
import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
import typer

from tidings.cli.network.topologies import both_ways, parts, reached
from tidings.errors import InputError
from tidings.local import network
from tidings.local.network import Member, NoAnswer, State, StateFile, ask, view

LINKED_WITHIN_S = 30.0

Links = Mapping[str, set[str]]
"""By broker: those that it is linked with."""

Pair = tuple[str, str]
"""Two brokers with a link between them."""


def leave(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Its name, as `tidings status` shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Let a broker of the network here leave for good: nothing is held for it any more.

    Where the others would fall apart without it, its neighbours are linked with each other first. It is said
    which brokers and links the others can no longer do without. One that is dead, or does not answer, is only
    forgotten: the others go on holding what is for it. The exit code is 1 if it did not leave by itself.

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
    before = _links({one.id: one for one in state.members if one.alive})
    bridges = _bridge(state, member)
    file.put(msgspec.structs.replace(member, leaving=True))
    why_forgotten = _tell(member)
    gone = network.wait_for(lambda: _gone(member), network.STOP_WITHIN_S)
    alone = sum(one.process == member.process for one in state.members) == 1
    if not gone and alone:
        network.stop([member], 0.0)
        why_forgotten += " and had to be stopped" * bool(why_forgotten)
    for other in state.members:
        if other.id != broker and other.alive:
            part(other, member)
    file.remove(broker)
    by_itself = gone and not why_forgotten
    brokers, links = redundancy_lost(before, broker, bridges)
    if as_json:
        lost = {"brokers": brokers, "links": links}
        told = {"left": broker, "by_itself": by_itself, "linked": bridges, "redundancy_lost": lost}
        typer.echo(json.dumps(told | {"forgotten": bool(why_forgotten)}))
        raise typer.Exit(0 if by_itself else 1)
    for one, another in bridges:
        typer.echo(f"{one} and {another} are linked, or the network would have fallen apart")
    if why_forgotten:
        again = shlex.quote(broker)
        typer.echo(
            f"{broker} {why_forgotten}: it has not left and was only forgotten here; the others hold what is "
            f"for it until `absent_hold` is over. If it will not come back, have them hold nothing:\n\n"
            f"  tidings forget {again}\n\n"
            f"To let it leave after all:\n\n"
            f"  tidings join --id {again} && tidings leave {again}"
        )
    else:
        typer.echo(f"{broker} has left" + ("" if gone else ", after it had to be stopped"))
    if brokers or links:
        critical = [f"broker {one}" for one in brokers] + [f"the link of {a} and {b}" for a, b in links]
        typer.echo(
            f"redundancy is lost: the network now falls apart without {' or '.join(critical)}; "
            "`tidings join --to ONE --to ANOTHER` adds a broker with two links"
        )
    raise typer.Exit(0 if by_itself else 1)


def _tell(member: Member) -> str:
    """Ask a broker to leave; says why it cannot, empty if it does."""
    if not member.alive:
        return "is dead"
    try:
        status, told = ask(member.http, "/leave", {})
    except NoAnswer as reason:
        return f"does not answer ({reason})"
    return "" if status == http.client.ACCEPTED else f"refuses to leave ({told.get('error', status)})"


def redundancy_lost(before: Links, leaving: str, bridges: Sequence[Pair]) -> tuple[list[str], list[Pair]]:
    """Brokers, and links, without which the others fall apart once a broker has left, and did not before.

    Links that were made in its place are not among them, nor their ends: the others could not do without it.

    >>> ring = {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"a"}}
    >>> redundancy_lost(ring, "a", [])
    (['c'], [('b', 'c'), ('c', 'd')])
    """
    joined = both_ways(before)
    brokers_before, links_before = _critical(joined, leaving)
    after = {one: others - {leaving} for one, others in joined.items() if one != leaving}
    for one, another in bridges:
        after[one].add(another)
    brokers, links = _critical(both_ways(after), leaving)
    in_its_place = {end for pair in bridges for end in pair}
    made = {(min(pair), max(pair)) for pair in bridges}
    return (
        [one for one in brokers if one not in brokers_before and one not in in_its_place],
        [pair for pair in links if pair not in links_before and pair not in made],
    )


def _critical(joined: Links, leaving: str) -> tuple[list[str], list[Pair]]:
    """Brokers, and links, without which others than the leaving one fall apart."""

    def apart(links: Links, without: set[str]) -> bool:
        rest = joined.keys() - without - {leaving}
        return bool(rest) and not rest <= reached(links, min(rest), without)

    brokers = [one for one in sorted(joined) if one != leaving and apart(joined, {one})]
    pairs = {(min(one, other), max(one, other)) for one in joined for other in joined[one]}
    # Two with a common neighbour have another way, which spares most of the work where links are many.
    alone = [(a, b) for a, b in sorted(pairs) if not joined[a] & joined[b]]
    return brokers, [
        (a, b) for a, b in alone if apart({**joined, a: joined[a] - {b}, b: joined[b] - {a}}, set())
    ]


def _gone(member: Member) -> bool:
    if not member.alive:
        return True
    try:
        ask(member.http, "/health")
    except NoAnswer:
        return True
    return False


def part(other: Member, member: Member) -> None:
    """Have a broker dial another one no more."""
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
