"""The few subscriptions that say what many ask for.

A neighbour need not hear of a subscription that another one covers, and two that can be said as one without
asking for more are said as one. `Summary` keeps what is asked for and what has been told, and answers each
change with what must be told now: additions first, so that nothing is missed in between. Removing a cover
brings back what it covered.

The theory is Siena's (Carzaniga, Rosenblum, Wolf 2001), the order of a removal our own. Comparing is
bounded: with more than `effort` told on one topic filter, a newcomer is compared with the latest of them, and
with fewer if their content filters are large (`STEPS_MAX`). That costs messages and never a publication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice
from typing import Generic, Protocol, TypeVar

from tidings.language.regions import Box
from tidings.language.subscriptions import (
    EVERYTHING,
    Subscription,
    comparing_steps,
    covers,
    merge,
    read_where,
    topics_cover,
)

MERGED_TEXT_MAX = 2048
"""Characters of a merged content filter: each change of it is told anew, so it must not grow for ever."""


PARTS_MAX = 16
"""Subscriptions that are told as one: when one of them goes, the others are told anew."""

ACROSS = 8
"""Told ones with which a newcomer is compared on each other topic filter that covers its own, or that its own
covers."""


STEPS_MAX = 2_000
"""For comparing one newcomer with what is told: a millisecond or two."""

MERGE_STEPS = 2
"""For merging, for each term, bound and value of both."""


class Asked(Protocol):
    """What can be summarised."""

    @property
    def topic_filter(self) -> str: ...

    @property
    def where(self) -> str: ...


T = TypeVar("T", bound=Asked)

Change = tuple[list[T], list[T]]
"""What to tell: additions, then removals."""


class Summary(Generic[T]):
    """What a neighbour is told of a changing set."""

    def __init__(
        self, covers: Callable[[T, T], bool], merge: Callable[[T, T], T | None], effort: int = 32
    ) -> None:
        self._covers = covers
        self._merge = merge
        self._effort = effort
        self._asked: dict[T, int] = {}  # how many sources ask for it
        self._parts: dict[T, dict[T, None]] = {}  # told: what it stands for
        self._told_as: dict[T, T] = {}
        self._by_filter: dict[str, dict[T, None]] = {}
        self._wild: dict[str, None] = {}  # topic filters with wildcards among the told ones
        self.steps = 0
        """What comparing the latest newcomer has taken, about."""

    def told(self) -> tuple[T, ...]:
        """All that the neighbour has been told, in the order told."""
        return tuple(self._parts)

    def asked(self) -> tuple[T, ...]:
        return tuple(self._asked)

    def __contains__(self, item: T) -> bool:
        return item in self._asked

    def add(self, item: T) -> Change[T]:
        """One more source asks for this."""
        count = self._asked.get(item, 0)
        self._asked[item] = count + 1
        if count:
            return [], []
        return _told_changes(self._place([item], merging=True))

    def remove(self, item: T) -> Change[T]:
        """One source less asks for this."""
        return self.remove_all([item])

    def remove_all(self, items: Iterable[T]) -> Change[T]:
        """The same for many at once, which costs less than one after the other."""
        loose: dict[T, dict[T, None]] = {}
        for item in items:
            count = self._asked[item]
            if count > 1:
                self._asked[item] = count - 1
                continue
            del self._asked[item]
            told = self._told_as.pop(item)
            parts = self._parts[told]
            del parts[item]
            if told not in parts:  # else it was only covered by one that is still asked for
                loose[told] = parts
        changes: dict[T, int] = {}
        left: list[T] = []
        for told, parts in loose.items():
            self._untell(told)
            changes[told] = -1
            left += parts
        # What was merged is told in parts again: to look for new ways to merge it would make a removal dear.
        for one, change in self._place(left, merging=False).items():
            changes[one] = changes.get(one, 0) + change
        return _told_changes(changes)

    def _place(self, items: Iterable[T], *, merging: bool) -> dict[T, int]:
        """Give each item its place below something told; +1 for what is told by it, -1 for what no longer."""
        changes: dict[T, int] = {}
        for item in items:
            self.steps = 0
            if (cover := self._cover_of(item)) is not None:
                self._parts[cover][item] = None
                self._told_as[item] = cover
                continue
            parts: dict[T, None] = {item: None}
            for covered in self._covered_by(item):
                parts |= self._parts[covered]
                self._untell(covered)
                changes[covered] = changes.get(covered, 0) - 1
            if merging:
                item = self._merged(item, parts, changes)
            if item in self._parts:
                # Told already, and too far back to have been compared with.
                parts |= self._parts[item]
                self._untell(item)
                changes[item] = changes.get(item, 0) - 1
            self._tell(item, parts)
            changes[item] = changes.get(item, 0) + 1
        return changes

    def _cover_of(self, item: T) -> T | None:
        for other in self._candidates(item.topic_filter):
            if self._affords(item, other) and self._covers(other, item):
                return other
        for wild in islice(self._wild, self._effort):
            if wild != item.topic_filter and topics_cover(wild, item.topic_filter):
                for other in self._candidates(wild)[:ACROSS]:
                    if self._affords(item, other) and self._covers(other, item):
                        return other
        return None

    def _covered_by(self, item: T) -> list[T]:
        own = item.topic_filter
        found = [
            other
            for other in self._candidates(own)
            if self._affords(item, other) and self._covers(item, other)
        ]
        if _is_wild(own):
            for other_filter in list(islice(reversed(self._by_filter), self._effort)):
                if other_filter != own and topics_cover(own, other_filter):
                    across = self._candidates(other_filter)[:ACROSS]
                    found += [
                        other for other in across if self._affords(item, other) and self._covers(item, other)
                    ]
        return found

    def _merged(self, item: T, parts: dict[T, None], changes: dict[T, int]) -> T:
        """The item together with all that can be said with it as one."""
        again = True
        while again:
            again = False
            for other in self._candidates(item.topic_filter):
                if len(parts) + len(self._parts[other]) > PARTS_MAX or not self._affords(
                    item, other, MERGE_STEPS
                ):
                    continue
                both = self._merge(item, other)
                if both is not None:
                    parts |= self._parts[other]
                    self._untell(other)
                    changes[other] = changes.get(other, 0) - 1
                    item = both
                    again = True
                    break
        return item

    def _affords(self, item: T, other: T, each: int = 0) -> bool:
        """Whether it may still be compared with another; to merge them, `each` term counts."""
        self.steps += comparing_steps(item.where, other.where, each)
        return self.steps <= STEPS_MAX

    def _candidates(self, topic_filter: str) -> list[T]:
        told = self._by_filter.get(topic_filter)
        return list(islice(reversed(told), self._effort)) if told else []

    def _tell(self, item: T, parts: dict[T, None]) -> None:
        self._parts[item] = parts
        for part in parts:
            self._told_as[part] = item
        self._by_filter.setdefault(item.topic_filter, {})[item] = None
        if _is_wild(item.topic_filter):
            self._wild[item.topic_filter] = None

    def _untell(self, item: T) -> None:
        del self._parts[item]
        told = self._by_filter[item.topic_filter]
        del told[item]
        if not told:
            del self._by_filter[item.topic_filter]
            self._wild.pop(item.topic_filter, None)


def of_subscriptions(effort: int) -> Summary[Subscription]:
    return Summary(covers, _merge_if_simpler, effort)


@lru_cache(maxsize=65_536)
def _merge_if_simpler(one: Subscription, other: Subscription) -> Subscription | None:
    """Two as one, if that is less to evaluate than the two: their union has fewer boxes."""
    if (
        not one.where
        or not other.where
        or one.topic_filter != other.topic_filter
        or one.unknown is not other.unknown
        or one.qos != other.qos
        or one.every_us != other.every_us
        or len(one.where) + len(other.where) > MERGED_TEXT_MAX
    ):
        return None
    boxes, other_boxes = (read_where(it.where).boxes(it.unknown) for it in (one, other))
    if not any(_adjoin(box, other_box) for box in boxes[:ACROSS] for other_box in other_boxes[:ACROSS]):
        return None
    both = merge(one, other)
    if both is None or len(both.where) > MERGED_TEXT_MAX:
        return None
    merged = read_where(both.where).boxes(both.unknown)
    return both if len(merged) < len(boxes) + len(other_boxes) else None


def _adjoin(one: Box, other: Box) -> bool:
    """Whether two boxes differ in one field at most; only then can their union be a box."""
    there = dict(other)
    same = sum(there.get(path) == region for path, region in one)
    return max(len(one), len(other)) - same <= 1


def _told_changes(changes: dict[T, int]) -> Change[T]:
    return (
        [item for item, change in changes.items() if change > 0],
        [item for item, change in changes.items() if change < 0],
    )


def _is_wild(topic_filter: str) -> bool:
    return topic_filter == EVERYTHING or "+" in topic_filter or "#" in topic_filter
