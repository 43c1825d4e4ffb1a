"""What went astray in a network, counted from its records.

A false positive of a link is a message that was forwarded over it to a broker that neither delivered it to
anyone nor forwarded it: nobody behind that link wanted it. A false negative is one that should have gone over
a link and did not; what should have gone where is the truth, which no record holds and the caller brings.
Plain Python over Arrow, for what fits into memory; Spark does the same for more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tidings.records.record import Kind

if TYPE_CHECKING:
    import pyarrow as pa

Link = tuple[str, str]
"""Sender and receiver."""


@dataclass(frozen=True, slots=True)
class LinkCount:
    """What went over one link in one direction."""

    forwarded: int
    """Different messages sent."""

    false_positives: int
    """Of these, messages that the receiver neither delivered nor forwarded."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Deliveries beside the truth. Each is (message, broker, session)."""

    lost: tuple[tuple[str, str, str], ...]
    """Wanted, and not delivered."""

    unwanted: tuple[tuple[str, str, str], ...]
    """Delivered, and not wanted."""

    repeated: tuple[tuple[str, str, str], ...]
    """Delivered more than once."""


def count_links(table: pa.Table) -> dict[Link, LinkCount]:
    """Per link, how much was forwarded, and how much of it for nothing.

    Records of a receiver that are missing, as of one that crashed with a segment open, make its links look
    worse than they are.
    """
    sent = _sent(table)
    used = {(broker, message) for (broker, _), messages in sent.items() for message in messages}
    used |= {(broker, message) for message, broker, _ in _deliveries(table)}
    return {
        link: LinkCount(len(messages), sum((link[1], message) not in used for message in messages))
        for link, messages in sorted(sent.items())
    }


def count_false_negatives(table: pa.Table, paths: Mapping[str, Iterable[Sequence[str]]]) -> dict[Link, int]:
    """Per link, the messages that should have gone over it and stopped before it.

    `paths` says for each message the ways that it should have travelled, as brokers from its origin to that
    of a subscriber. Of a way that was not finished, the first link that was not travelled is to blame.
    """
    sent = _sent(table)
    blamed: dict[Link, set[str]] = defaultdict(set)
    for message, ways in paths.items():
        for way in ways:
            for link in pairwise(way):
                if message not in sent.get(link, ()):
                    blamed[link].add(message)
                    break
    return {link: len(messages) for link, messages in sorted(blamed.items())}


def compare_deliveries(table: pa.Table, wanted: Iterable[tuple[str, str, str]]) -> Delivered:
    """What was delivered beside what should have been, both as (message, broker, session)."""
    counts = Counter(_deliveries(table))
    truth = set(wanted)
    return Delivered(
        tuple(sorted(truth - counts.keys())),
        tuple(sorted(counts.keys() - truth)),
        tuple(sorted(one for one, count in counts.items() if count > 1)),
    )


def _sent(table: pa.Table) -> dict[Link, set[str]]:
    """Per link the messages that were forwarded over it."""
    sent: dict[Link, set[str]] = defaultdict(set)
    for message, broker, receiver in _rows(table, Kind.FORWARDED):
        sent[broker, receiver].add(message)
    return sent


def _deliveries(table: pa.Table) -> list[tuple[str, str, str]]:
    return _rows(table, Kind.DELIVERED)


def _rows(table: pa.Table, kind: Kind) -> list[tuple[str, str, str]]:
    """(message, broker, receiver) of every record of one kind."""
    import pyarrow.compute as pc

    chosen = table.filter(pc.equal(table["kind"], kind.value)).select(["message", "broker", "receivers"])
    return [
        (message, broker, receiver)
        for message, broker, receivers in zip(*(column.to_pylist() for column in chosen), strict=True)
        for receiver in receivers
    ]
