"""Changes of sets on their way: cut into messages, put together again, and the latest kept.

A change, or a whole set, that is too long for one message goes in several parts, one directly behind the
other. They are numbered, so that a change of which a part was not taken is never mistaken for all of it.
Nothing is known here of what the items say.
"""

from __future__ import annotations

from collections import deque

from tidings.overlay.routing.messages import Change, Item

Version = tuple[int, int]
"""Of a set: boot of its home, and number of the last change."""

NONE: Version = (0, 0)
"""Of a home of which no set is here."""

CHANGES_KEPT = 64
"""Changes of a home that are kept for neighbours that have missed them, …"""

CHANGES_WEIGHT = 1_000
"""… and what they weigh together, about an item or a KiB each. Who has missed more gets the whole set."""

PART_ITEMS = 1_000
"""Items in one message, …"""

PART_BYTES = 256 * 1024
"""… and bytes of them: a message ends with the item that reaches this, so it stays below 512 KiB."""

ITEM_BYTES_MAX = 256 * 1024
"""Of one item: four times what the longest topic filter and the largest normal form take."""

SET_BYTES_MAX = 256 * 1024 * 1024
"""Of all items of a change, or of a whole set, that are put together. A million usual filters have less."""


def parts_of(
    home: str,
    version: Version,
    added: tuple[Item, ...],
    removed: tuple[int, ...],
    *,
    whole: bool,
    omitted: int = 0,
) -> tuple[Change, ...]:
    """A change in messages that are not too long."""
    cuts = [0]
    size = 0
    for at, item in enumerate(added):
        if at - cuts[-1] >= PART_ITEMS or size >= PART_BYTES:
            cuts.append(at)
            size = 0
        size += len(item.value)
    cuts.append(len(added))
    count = max(len(cuts) - 1, -(-len(removed) // PART_ITEMS))
    cuts += [len(added)] * (count + 1 - len(cuts))
    return tuple(
        Change(
            home,
            *version,
            added[cuts[at] : cuts[at + 1]],
            removed[at * PART_ITEMS : (at + 1) * PART_ITEMS],
            whole,
            at,
            at + 1 < count,
            omitted,
        )
        for at in range(count)
    )


class Parts:
    """A change that comes in several messages."""

    def __init__(self, items_max: int) -> None:
        """`items_max`: more are counted and not kept."""
        self.added: list[Item] = []
        self.removed: list[int] = []
        self.items = 0
        """Added and removed, whether they are kept or not."""
        self._items_max = items_max
        self._bytes = 0
        self._last: Change | None = None

    def take(self, part: Change) -> bool:
        """The next part; False if it does not go on where the last one ended."""
        last, self._last = self._last, part
        if last is None:
            if part.part:
                return False
        elif (part.home, part.boot, part.number, part.whole, part.part) != (
            last.home,
            last.boot,
            last.number,
            last.whole,
            last.part + 1,
        ):
            return False
        self.items += len(part.added) + len(part.removed)
        for item in part.added:
            # An item without a value is not understood, whatever it is.
            self.added.append(item if len(item.value) <= ITEM_BYTES_MAX else Item(item.kind, item.key, b""))
            self._bytes += len(self.added[-1].value)
        self.removed += part.removed
        if self.too_large:
            self.added, self.removed = [], []
        return True

    @property
    def too_large(self) -> bool:
        """Whether it is more than is put together."""
        return self.items > self._items_max or self._bytes > SET_BYTES_MAX


class Latest:
    """The latest changes of a set, each in its parts, for neighbours that have missed them."""

    __slots__ = ("_changes", "_weight")

    def __init__(self) -> None:
        self._changes: deque[tuple[tuple[Change, ...], int]] = deque()
        self._weight = 0

    def keep(self, parts: tuple[Change, ...]) -> None:
        """Remember the next change."""
        weight = sum(part.weight for part in parts)
        self._changes.append((parts, weight))
        self._weight += weight
        while len(self._changes) > CHANGES_KEPT or self._weight > CHANGES_WEIGHT:
            self._weight -= self._changes.popleft()[1]

    def clear(self) -> None:
        """Those that were kept are not what was before the next one."""
        self._changes.clear()
        self._weight = 0

    def between(self, known: Version, version: Version) -> tuple[Change, ...] | None:
        """All that has changed between two versions; None if not all of it is here."""
        missed = [parts for parts, _ in self._changes if parts[0].number > known[1]]
        if known[0] != version[0] or len(missed) != version[1] - known[1]:
            return None
        return tuple(part for parts in missed for part in parts)
