"""Copies: an entry as bytes, for a deputy, a successor, another side of a partition, a disk.

A copy has everything that the entry has, so that whoever reads it goes on as if nothing had happened. Clocks
travel as what is left of them, since two brokers' clocks need not agree; stamps travel as they are, because
they only say which report came first. An entry of a declaration that holds no longer brings that declaration
along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidings.errors import DeclarationError, PayloadError, PeerError
from tidings.gathering.entries import Entry
from tidings.gathering.policies import Ballot, Stamp, Votes
from tidings.gathering.rules import Rules
from tidings.language.fields import find
from tidings.language.reports import Event
from tidings.language.topics import Topic


class ToldCopy(msgspec.Struct, frozen=True, array_like=True):
    """The latest version told."""

    version: int
    reports: int
    complete: bool
    state: str
    into: str

    fields: Mapping[str, Any] | None
    """None if they are those of the entry."""


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """An entry."""

    declared: bytes
    """Which declaration it is of, see `Rules.digest`."""

    declaration: dict[str, Any] | None
    """That declaration, if it is not the one that holds."""

    key: list[Any]
    name: str
    event: str
    at_us: int
    order: int
    recent: int
    events: dict[str, int]
    fields: Mapping[str, Any]
    stamps: dict[str, Stamp]

    votes: dict[str, list[tuple[Any, Stamp, dict[str, int]]]]
    """By a field's label: each value with its first report and its votes per branch."""

    merged: dict[str, int]
    tellings: dict[str, int]
    qos: int
    told_qos: int
    told: ToldCopy | None
    untold: bool
    confirmed: int
    closed: bool

    merge_left_us: int | None
    """What is left of Tm; None if it does not run."""

    redundant_left_us: int
    window_left_us: int | None

    version: int
    """Of the latest version told, which a digest does not hold."""

    hashes: dict[str, list[bytes]] | None
    """Of a digest."""


STATES = ("told", "ended", "merged-into")
"""How a version can have been told by a gatherer."""


def write(entry: Entry, current: Rules, now_us: int) -> bytes:
    """The copy of an entry, at a seat where the declaration `current` holds."""
    told, fields = entry.told, entry.content()
    return _ENCODER.encode(
        Copy(
            declared=entry.rules.digest,
            declaration=None if entry.rules is current else entry.rules.topic.to_mapping(),
            key=list(entry.key),
            name=entry.name,
            event=entry.event,
            at_us=entry.at_us,
            order=entry.order,
            recent=entry.recent,
            events=entry.events,
            fields=fields,
            stamps=entry.stamps,
            votes={
                label: [(value, ballot.first, ballot.by) for value, ballot in votes.items()]
                for label, votes in entry.votes.items()
            },
            merged=entry.merged,
            tellings=entry.tellings,
            qos=entry.qos,
            told_qos=entry.told_qos,
            told=None
            if told is None
            else ToldCopy(
                told.version,
                told.reports,
                told.complete,
                entry.state,
                entry.into,
                None if told.fields is fields else told.fields,
            ),
            untold=entry.untold,
            confirmed=entry.confirmed,
            closed=entry.closed,
            merge_left_us=None if entry.merge_us is None else entry.merge_us - now_us,
            redundant_left_us=entry.redundant_us - now_us,
            window_left_us=None if entry.window_us is None else entry.window_us - now_us,
            version=entry.version,
            hashes=None
            if entry.hashes is None
            else {label: sorted(hashes) for label, hashes in entry.hashes.items()},
        )
    )


def read(data: bytes) -> Copy:
    """The copy in some bytes; PeerError if there is none."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"a copy of an event cannot be read: {error}") from None


def rules_of(copy: Copy) -> Rules:
    """The rules of the declaration that a copy brings along."""
    try:
        return Rules(Topic.from_mapping(copy.declaration or {}, "the declaration of a copied event"))
    except (DeclarationError, AssertionError) as error:
        raise PeerError(f"a copy of event {copy.event!r} has a declaration that is none: {error}") from None


def restore(copy: Copy, rules: Rules, branch: str, now_us: int, elapsed_us: int) -> Entry:
    """The entry that a copy made `elapsed_us` ago is of; a clock that has run out since is due now."""

    def due_us(left_us: int) -> int:
        return now_us + max(0, left_us - elapsed_us)

    fields = _fields(copy.fields, rules, copy)
    entry = Entry(rules, tuple(copy.key), copy.name, copy.event, copy.at_us, fields, branch)
    entry.order = copy.order
    entry.recent = copy.recent
    entry.events = copy.events
    entry.stamps = copy.stamps
    for rule in rules.votes:
        current = find(fields, rule.path)
        if current is not None:
            entry.votes[rule.label] = _votes(copy, rule.label, current, entry)
    entry.merged = copy.merged
    entry.tellings = copy.tellings
    entry.qos, entry.told_qos = copy.qos, copy.told_qos
    entry.untold = copy.untold
    entry.confirmed = copy.confirmed
    entry.closed = copy.closed
    entry.version = copy.version
    if copy.told is not None:
        told = copy.told
        if told.state not in STATES:
            raise PeerError(
                f"a copy of event {copy.event!r} was told as {told.state!r:.80}, which is no way to tell"
            )
        entry.state, entry.into = told.state, told.into
        entry.told = Event(
            rules.topic.name,
            entry.key,
            copy.event,
            told.version,
            told.reports,
            told.complete,
            fields if told.fields is None else _fields(told.fields, rules, copy),
        )
    entry.merge_us = None if copy.merge_left_us is None else due_us(copy.merge_left_us)
    entry.redundant_us = due_us(copy.redundant_left_us)
    entry.window_us = None if copy.window_left_us is None else due_us(copy.window_left_us)
    if copy.hashes is not None:
        entry.hashes = {label: frozenset(hashes) for label, hashes in copy.hashes.items()}
    entry.measure()
    return entry


def _votes(copy: Copy, label: str, current: Any, entry: Entry) -> Votes:
    """The votes of a field that has a value; one vote, if it had another policy where the copy was made."""
    ballots = copy.votes.get(label)
    if ballots is None:
        return {current: Ballot((copy.at_us, copy.event), {entry.branch: 1})}
    values = [value for value, _, _ in ballots]
    if current not in values or any(type(value) is not type(current) for value in values):
        raise PeerError(f"a copy of event {copy.event!r} has votes that do not fit its fields")
    return {value: Ballot(first, by) for value, first, by in ballots}


def _fields(fields: Mapping[str, Any], rules: Rules, copy: Copy) -> dict[str, object]:
    try:
        return rules.shape.typed(fields)
    except PayloadError as error:
        raise PeerError(f"a copy of event {copy.event!r} is not as its topic declares: {error}") from None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Copy)
