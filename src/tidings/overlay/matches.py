"""Matches: which subscriptions here get which publications of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Named = tuple[str, str]
"""(session, name of the subscription)."""


class Matches:
    """Who gets what. A session that is there under several names gets one message."""

    __slots__ = ("count", "everyone", "listed")

    def __init__(
        self, count: int, everyone: tuple[Named, ...], listed: Sequence[tuple[Named, ...]] = ()
    ) -> None:
        self.count = count
        self.everyone = everyone
        """Subscriptions that get all of them, sorted; the same object as long as nothing changes."""
        self.listed = listed
        """For each publication, subscriptions that get it besides, sorted; empty if there are none at all."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[Named, ...]]:
        """For each publication all subscriptions that get it, sorted."""
        if not self.listed:
            yield from (self.everyone for _ in range(self.count))
            return
        for some in self.listed:
            yield tuple(sorted((*self.everyone, *some))) if some else self.everyone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matches) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Matches({self.count}, {self.everyone!r}, {self.listed!r})"
