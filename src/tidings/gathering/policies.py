"""Policies: what an event keeps in one field when reports, or two copies of the event, disagree.

A rule is made of a declared field. It says whether two values are the same, which of them is kept when a
report brings another one (`kept`), and which when two copies of an event are joined (`joined`). A join must
come out the same in any order and any number of times, so it goes by what does not depend on who joins: the
values themselves, or the stamps of the reports that brought them, or votes counted per branch. Nothing here
knows events, clocks or other fields.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from tidings.language.fields import Conflict, Field, Path, Type

Stamp = tuple[int, str]
"""When a report arrived, and its id: which of two came first."""

Held = tuple[Any, Stamp]
"""A value of one copy, and the stamp of the report that set it."""

BALLOT_BYTES = 64
"""What a value with its votes takes, besides the value: about what it takes in a copy."""


def stamp_order(stamp: Stamp) -> tuple[int, int, str]:
    """Stamps in their order: the shorter id first, so that report 9 comes before report 10."""
    return stamp[0], len(stamp[1]), stamp[1]


def bytes_of(value: object) -> int:
    """What a value takes, in MessagePack."""
    return len(_encode(value))


_encode = msgspec.msgpack.Encoder().encode


class Rule:
    """One field of a topic, and what happens to its value."""

    __slots__ = ("bytes", "field", "label", "same", "tolerance")

    stamped = False
    """Whether joins need the stamp of the report that set the value."""

    renewed = False
    """Whether a report that brings the same value again matters to joins."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.label = "\0".join(field.path)
        """What stamps and votes call it: one text for each path, since names are printable."""
        self.bytes = bytes_of(self.label)
        self.tolerance: Any = field.tolerance
        if self.tolerance is not None and field.type is Type.TIMESTAMP:
            self.tolerance = timedelta(microseconds=self.tolerance)
        self.same: Callable[[Any, Any], bool] = _equal if self.tolerance is None else self._near

    @property
    def path(self) -> Path:
        """The field's name."""
        return self.field.path

    def _near(self, one: Any, other: Any) -> bool:
        return bool(abs(one - other) <= self.tolerance)

    def filling(self, brought: Any) -> Any:
        """What an empty field is filled with."""
        return brought

    def kept(self, current: Any, brought: Any) -> Any:
        """What stays when a report brings a value that is not the same as the current one."""
        del brought
        return current

    def joined(self, one: Held, other: Held) -> Any:
        """What stays when two copies have a value each."""
        return min(one, other, key=_by_stamp)[0]


def _by_stamp(held: Held) -> tuple[tuple[int, int, str], Any]:
    # Equal stamps are of one report, which has one value; by value all the same, so that it is certain.
    return stamp_order(held[1]), held[0]


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


class First(Rule):
    """The value that came first."""

    __slots__ = ()
    stamped = True


class Last(Rule):
    """The value that came last."""

    __slots__ = ()
    stamped = True
    renewed = True

    def kept(self, _current: Any, brought: Any) -> Any:
        return brought

    def joined(self, one: Held, other: Held) -> Any:
        return max(one, other, key=_by_stamp)[0]


class Max(Rule):
    """The greatest value."""

    __slots__ = ()

    def kept(self, current: Any, brought: Any) -> Any:
        return max(current, brought)

    def joined(self, one: Held, other: Held) -> Any:
        return max(one[0], other[0])


class Min(Rule):
    """The smallest value."""

    __slots__ = ()

    def kept(self, current: Any, brought: Any) -> Any:
        return min(current, brought)

    def joined(self, one: Held, other: Held) -> Any:
        return min(one[0], other[0])


class Union(Rule):
    """All distinct values, as a list in increasing order."""

    __slots__ = ()

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        # Lists are the same if they are equal; a tolerance is for their elements, and `kept` looks at it.
        self.same = _equal

    def filling(self, brought: Any) -> Any:
        return brought if self.tolerance is None else self.new([], brought)

    def kept(self, current: Any, brought: Any) -> Any:
        new = self.new(current, brought)
        return sorted([*current, *new]) if new else current

    def new(self, current: list[Any], brought: list[Any]) -> list[Any]:
        """What is brought and not there yet."""
        if self.tolerance is None:
            held = set(current)
            return [value for value in brought if value not in held]
        found: list[Any] = []
        for value in brought:
            if not any(self._near(value, held) for held in (*current, *found)):
                found.append(value)
        return found

    def joined(self, one: Held, other: Held) -> Any:
        return sorted({*one[0], *other[0]})


class Ballot:
    """The votes for one value of a `majority` field."""

    __slots__ = ("by", "first")

    def __init__(self, first: Stamp, by: dict[str, int]) -> None:
        self.first = first
        """The stamp of the first report that brought it."""
        self.by = by
        """How many reports brought it, per branch."""

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """The smallest wins: more votes, then the earlier first report."""
        at_us, length, text = stamp_order(self.first)
        return -sum(self.by.values()), at_us, length, text


Votes = dict[Any, Ballot]
"""The ballots of one field, by value."""


class Majority(Rule):
    """The value that most reports brought, among equals the one that came first."""

    __slots__ = ()
    renewed = True

    def candidate(self, votes: Votes, current: Any, brought: Any) -> Any:
        """The value that a report votes for: with a tolerance, one that is there and the same."""
        if self.tolerance is None or brought in votes:
            return brought
        if self._near(current, brought):
            return current
        near = [value for value in votes if self._near(value, brought)]
        return min(near, key=lambda value: stamp_order(votes[value].first)) if near else brought

    @staticmethod
    def vote(votes: Votes, value: Any, stamp: Stamp, branch: str) -> None:
        """Count a vote."""
        ballot = votes.get(value)
        if ballot is None:
            votes[value] = Ballot(stamp, {branch: 1})
        else:
            ballot.by[branch] = ballot.by.get(branch, 0) + 1

    @staticmethod
    def winner(votes: Votes) -> Any:
        """The value with the most votes."""
        return min(votes, key=lambda value: votes[value].rank)

    @staticmethod
    def joined_votes(one: Votes, other: Votes) -> Votes:
        """All votes of two copies: what both have counted of a branch is counted once."""
        votes = {value: Ballot(ballot.first, dict(ballot.by)) for value, ballot in one.items()}
        for value, ballot in other.items():
            mine = votes.get(value)
            if mine is None:
                votes[value] = Ballot(ballot.first, dict(ballot.by))
            else:
                mine.first = min(mine.first, ballot.first, key=stamp_order)
                mine.by = joined_counts(mine.by, ballot.by)
        return votes


def joined_counts(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Counts per branch, of two copies: the larger of each, since a branch only counts up."""
    counts = dict(one)
    for branch, count in other.items():
        counts[branch] = max(count, counts.get(branch, 0))
    return counts


RULES: dict[Conflict, type[Rule]] = {
    Conflict.FIRST: First,
    Conflict.LAST: Last,
    Conflict.MAX: Max,
    Conflict.MIN: Min,
    Conflict.UNION: Union,
    Conflict.MAJORITY: Majority,
}
