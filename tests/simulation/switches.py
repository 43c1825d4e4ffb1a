"""Planted bugs: mutations of the real code, by which tests show that they would find such a bug.

A bug is a context manager that replaces a small function of `src/tidings/overlay` while it is open; nothing
in `src` knows of it. The first eight are *switches*: each breaks one of the eight rules of routing (0035),
for each of which there is a workload (`aimed`) and a transcript. All of them are found by a campaign:
`python -m tests.simulation.campaign --planted all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from tidings.gathering.gatherer import Telling
from tidings.language.reports import Event
from tidings.language.subscriptions import Subscription
from tidings.overlay.gather.seat import Seat
from tidings.overlay.links.links import Link
from tidings.overlay.publication import Batch, Told
from tidings.overlay.publishing import batches
from tidings.overlay.publishing.flow import Channel, Flow, Passage
from tidings.overlay.publishing.messages import Places
from tidings.overlay.publishing.outbox import Held
from tidings.overlay.publishing.publications import Publications
from tidings.overlay.routing.absence import Absences
from tidings.overlay.routing.changes import NONE, Version
from tidings.overlay.routing.confirmations import Confirmations
from tidings.overlay.routing.homes import Home, Homes
from tidings.overlay.routing.messages import Change, Item
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.routing.table import Fields
from tidings.overlay.trees.rolls import Rolls
from tidings.overlay.trees.trees import Edge, Member, Tree, TreeEpoch
from tidings.overlay.versions.catch_up import CatchUp, Known
from tidings.overlay.versions.receivers import Receivers

Planting = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug."""

    name: str
    """What the broken code does."""

    rule: str
    """What the right code does."""

    campaign: str
    """The one that finds it."""

    plant: Planting
    """Replaces the right code for as long as it is open."""


def around(owner: object, name: str, mutant: Callable[..., Any]) -> AbstractContextManager[object]:
    """Replace a function or method by another, whose first argument is the one that it replaces."""
    original = getattr(owner, name)

    def mutated(*given: Any, **named: Any) -> Any:
        return mutant(original, *given, **named)

    return patch.object(owner, name, mutated)


# The eight switches.


def _never_waits_for_the_disk() -> AbstractContextManager[object]:
    def is_saved(_original: object, _absences: Absences, _name: str) -> bool:
        return True

    return around(Absences, "is_saved", is_saved)


def _confirms_for_those_behind_it() -> AbstractContextManager[object]:
    def known(
        _original: object, confirmations: Confirmations, _grown: TreeEpoch, home: str, _toward: Edge
    ) -> Version:
        return confirmations._homes.version(home) if confirmations._is_met(home) else NONE

    return around(Confirmations, "_known", known)


@contextmanager
def _takes_the_unknown_for_nothing() -> Iterator[None]:
    def with_unknown(
        _original: object, _publications: Publications, _grown: TreeEpoch, wanted: Mapping[str, int]
    ) -> Mapping[str, int]:
        return wanted

    def blind(_original: object, _absences: Absences, _grown: TreeEpoch) -> list[str]:
        return []

    with around(Publications, "_with_unknown", with_unknown), around(Absences, "blind", blind):
        yield


def _takes_a_set_in_pieces() -> AbstractContextManager[object]:
    def on_change(original: Callable[..., None], homes: Homes, link: Link, message: Change) -> None:
        home = homes.homes.get(message.home)
        if home is not None and message.whole and message.boot > home.version[0] and message.more:
            if not message.part:
                homes._clear(home)
            for item in message.added:
                homes._add(home, item)
        original(homes, link, message)

    return around(Homes, "on_change", on_change)


@contextmanager
def _holds_for_former_members_alone() -> Iterator[None]:
    members: WeakKeyDictionary[Absences, dict[str, None]] = WeakKeyDictionary()

    def on_ready(
        original: Callable[..., list[tuple[str, str]]], absences: Absences, tree: Tree
    ) -> list[tuple[str, str]]:
        assert tree.current is not None, "it is ready"
        members.setdefault(absences, {}).update(dict.fromkeys(tree.current.bits))
        return original(absences, tree)

    def holds_for(original: Callable[..., bool], absences: Absences, name: str) -> bool:
        return name in members.get(absences, {}) and original(absences, name)

    with around(Absences, "on_ready", on_ready), around(Absences, "holds_for", holds_for):
        yield


@contextmanager
def _keeps_bits() -> Iterator[None]:
    epochs: dict[Held, TreeEpoch] = {}

    def settle(original: Callable[[Held], None], held: Held) -> None:
        if held.grown is not None:
            epochs[held] = held.grown
        original(held)

    def address(
        original: Callable[..., None], publications: Publications, held: Held, grown: TreeEpoch
    ) -> None:
        before = held.grown or epochs.pop(held, None)
        if before is not None:
            # The same bits, although the new epoch numbers its members anew.
            held.done = grown.names_of(before.mask_of(held.done))
            held.grown = grown if held.grown is not None else None
        original(publications, held, grown)

    with around(Held, "settle", settle), around(Publications, "_address", address):
        yield


def _fields_of(event: Event) -> Fields:
    return event.fields


@contextmanager
def _matches_when_a_batch_is_closed() -> Iterator[None]:
    """A version is matched when its batch is closed, and numbered when that batch is safe."""
    matched: WeakKeyDictionary[Publications, dict[tuple[str, int], Mapping[str, int]]] = WeakKeyDictionary()

    def secure(original: Callable[..., None], seat: Seat, *given: object) -> None:
        publications: Publications = seat._office._publications  # type: ignore[attr-defined]
        found = matched.setdefault(publications, {})
        for one in seat._batches[-1].out:
            if isinstance(one, Telling):
                event = one.event
                wanted = publications._homes.table.match(one.name, partial(_fields_of, event))
                found[event.opened_by, event.version] = wanted
        original(seat, *given)

    def wanting(
        original: Callable[..., dict[str, int]], publications: Publications, held: Held, grown: TreeEpoch
    ) -> dict[str, int]:
        known = matched.get(publications, {})
        found = (
            known.pop((held.batch.told[0].event, held.batch.told[0].version), None)
            if held.batch.told
            else None
        )
        if found is None:
            return original(publications, held, grown)
        with patch.object(publications.routes, "wanted", lambda *_: [dict(found)]):
            return original(publications, held, grown)

    with around(Seat, "_secure", secure), around(Publications, "_wanting", wanting):
        yield


def _answers_at_once() -> AbstractContextManager[object]:
    def has(_original: object, _homes: Homes, _name: str, _version: Version) -> bool:
        return True

    return around(Homes, "has", has)


SWITCHES = (
    Bug(
        "confirmed-before-on-disk",
        "A broker confirms a number of a home only when that home is on its disk.",
        "aimed",
        _never_waits_for_the_disk,
    ),
    Bug(
        "granted-without-a-member",
        "A subscription is granted only when all members of the epoch have confirmed it.",
        "aimed",
        _confirms_for_those_behind_it,
    ),
    Bug(
        "unknown-counts-as-empty",
        "A home whose set is not known gets everything.",
        "aimed",
        _takes_the_unknown_for_nothing,
    ),
    Bug(
        "replaced-piece-by-piece",
        "A set of a later boot replaces the one before as a whole, when it is complete.",
        "aimed",
        _takes_a_set_in_pieces,
    ),
    Bug(
        "not-held-for-strangers",
        "A home that matches and is no member of the epoch is held for, whether or not it ever was one.",
        "aimed",
        _holds_for_former_members_alone,
    ),
    Bug(
        "bits-instead-of-names",
        "What is held keeps the names of its destinations, since each epoch numbers its members anew.",
        "aimed",
        _keeps_bits,
    ),
    Bug(
        "matched-before-numbered",
        "A publication is matched in the step in which it is numbered, or later.",
        "aimed",
        _matches_when_a_batch_is_closed,
    ),
    Bug(
        "asked-before-known",
        "A seat answers a question of a home only when it has the number of that home's set.",
        "aimed",
        _answers_at_once,
    ),
)
"""The eight rules."""


# Further bugs.


def _drops_must_for_one_link() -> AbstractContextManager[object]:
    def forward(
        original: Callable[..., None],
        publications: Publications,
        tree: Tree,
        grown: TreeEpoch,
        batch: Batch,
        targets: Sequence[Edge],
        to: int,
        must: int,
        passage: Passage | None,
        hops: int,
        source: Link | None,
    ) -> None:
        if len(targets) > 1:
            must &= ~targets[-1].mask
        original(publications, tree, grown, batch, targets, to, must, passage, hops, source)

    return around(Publications, "_forward", forward)


def _names_nobody_in_a_stale_answer() -> AbstractContextManager[object]:
    def answer(
        original: Callable[..., None],
        flow: Flow,
        link: Link,
        channel: Channel,
        slot: int,
        count: int,
        size: int,
        *,
        missing: int = 0,
        awaited: bool = True,
    ) -> None:
        original(flow, link, channel, slot, count, size, missing=0, awaited=awaited or bool(missing))

    return around(Flow, "answer", answer)


def _passes_changes_to_all_but_one() -> AbstractContextManager[object]:
    def pass_on(
        original: Callable[..., None],
        homes: Homes,
        home: Home,
        source: Link,
        version: Version,
        added: list[Item],
        removed: list[int],
    ) -> None:
        up = [link for link in homes._links.up() if link is not source]
        with patch.object(homes._links, "up", lambda: up[:-1]):
            original(homes, home, source, version, added, removed)

    return around(Homes, "_pass_on", pass_on)


def _leaves_the_covered_out() -> AbstractContextManager[object]:
    def change(
        original: Callable[..., None], own: OwnSet, added: list[Subscription], removed: list[Subscription]
    ) -> None:
        original(own, added, removed)
        if removed:
            for subscription in added:
                own._added.pop(own._keys[subscription], None)

    return around(OwnSet, "_change", change)


def _joins_with_the_number_before() -> AbstractContextManager[object]:
    def own(original: Callable[..., Member], rolls: Rolls) -> Member:
        member = original(rolls)
        return member._replace(number=max(0, member.number - 1))

    return around(Rolls, "_own", own)


def _packs_all_but_the_last() -> AbstractContextManager[object]:
    def packed(original: Callable[[int], Places], bits: int) -> Places:
        short = original(bits)
        return original(bits & ~(1 << (bits.bit_length() - 1))) if isinstance(short, bytes) else short

    return around(batches, "packed", packed)


def _forgets_who_is_back() -> AbstractContextManager[object]:
    def is_back(_original: object, _publications: Publications, _held: Held) -> bool:
        return False

    return around(Publications, "_is_back", is_back)


def _waits_for_a_lost_neighbour() -> AbstractContextManager[object]:
    def on_link_down(original: Callable[..., None], homes: Homes, link: Link) -> None:
        fetching = {home: home.fetching for home in homes.homes.values()}
        with patch.object(homes, "_fetch", lambda _home: None):
            original(homes, link)
        for home, before in fetching.items():
            home.fetching = before

    return around(Homes, "on_link_down", on_link_down)


def _says_nothing_of_what_is_followed() -> AbstractContextManager[object]:
    def follow(
        original: Callable[..., None], catch_up: CatchUp, place: str, _events: Mapping[str, Known]
    ) -> None:
        original(catch_up, place, {})

    return around(CatchUp, "_follow", follow)


def _remembers_nobody() -> AbstractContextManager[object]:
    def sent(
        original: Callable[..., None], receivers: Receivers, told: Told, _homes: Mapping[str, int]
    ) -> None:
        original(receivers, told, {})

    return around(Receivers, "sent", sent)


def _lets_go_whatever_was_sent() -> AbstractContextManager[object]:
    def leave(
        original: Callable[..., None], receivers: Receivers, home: str, name: str, _version: int
    ) -> None:
        original(receivers, home, name, inf)

    return around(Receivers, "leave", leave)


PLANTED = {
    bug.name: bug
    for bug in (
        *SWITCHES,
        Bug(
            "must-dropped-for-one-link",
            "Over each link goes who must have a publication of those behind it.",
            "routing",
            _drops_must_for_one_link,
        ),
        Bug(
            "stale-answer-names-nobody",
            "A stale answer names those who have not been sent the publication.",
            "routing",
            _names_nobody_in_a_stale_answer,
        ),
        Bug(
            "change-not-passed-to-one",
            "A change is passed on to all neighbours but the one that it came from.",
            "routing",
            _passes_changes_to_all_but_one,
        ),
        Bug(
            "covered-not-brought-back",
            "A change in which a cover goes has what it covered.",
            "routing",
            _leaves_the_covered_out,
        ),
        Bug(
            "joined-with-the-number-before",
            "A member joins an epoch with the number of its latest change.",
            "routing",
            _joins_with_the_number_before,
        ),
        Bug(
            "last-place-not-packed",
            "A set of members is the same when it has been packed and unpacked.",
            "routing",
            _packs_all_but_the_last,
        ),
        Bug(
            "held-although-back",
            "What is held for a home is sent when that home is a member again.",
            "routing",
            _forgets_who_is_back,
        ),
        Bug(
            "fetched-from-the-lost",
            "A set that was asked for over a link that is lost is asked for over another.",
            "routing",
            _waits_for_a_lost_neighbour,
        ),
        Bug(
            "follow-not-said",
            "A home says to a new seat, or to one started anew, what its sessions follow.",
            "gathered",
            _says_nothing_of_what_is_followed,
        ),
        Bug(
            "receivers-not-remembered",
            "A seat remembers which homes were sent a version.",
            "gathered",
            _remembers_nobody,
        ),
        Bug(
            "unfollowed-too-late",
            "A home that says that it wants no more is not taken at its word if it was sent more meanwhile.",
            "gathered",
            _lets_go_whatever_was_sent,
        ),
    )
}
"""All of them, by name."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Turn a bug on; none if there is no name."""
    with ExitStack() as stack:
        if name:
            stack.enter_context(PLANTED[name].plant())
        yield
