"""Matches: which subscriptions here get which publications of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.matching.dealing import Dealt

Named = tuple[str, str]
"""(session, name of the subscription)."""


class Dealing:
    """Who gets which publications by content filters, where many were matched together."""

    __slots__ = ("_listed", "dealt", "mixed", "plain", "sessions")

    def __init__(
        self,
        dealt: Dealt,
        sessions: Sequence[str],
        plain: int,
        mixed: Mapping[str, None],
        listed: Callable[[], Sequence[tuple[Named, ...]]],
    ) -> None:
        """`listed` finds what `Matches.listed` would say."""
        self.dealt = dealt
        """By sessions, …"""
        self.sessions = sessions
        """… which are these."""
        self.plain = plain
        """How many of them, the first ones, get everything, without a content filter."""
        self.mixed = mixed
        """Those of them that have content filters besides."""
        self._listed = listed

    def listed(self) -> Sequence[tuple[Named, ...]]:
        """For each publication, subscriptions with a content filter that get it, sorted."""
        return self._listed()


class Matches:
    """Who gets what. A session that is there under several names gets one message."""

    __slots__ = ("_listed", "count", "dealing", "everyone")

    def __init__(
        self,
        count: int,
        everyone: tuple[Named, ...],
        listed: Sequence[tuple[Named, ...]] = (),
        dealing: Dealing | None = None,
    ) -> None:
        self.count = count
        self.everyone = everyone
        """Subscriptions that get all of them, sorted; the same object as long as nothing changes."""
        self._listed = listed
        self.dealing = dealing
        """Instead of a list, where there are kernels and many publications."""

    @property
    def listed(self) -> Sequence[tuple[Named, ...]]:
        """For each publication, subscriptions that get it besides, sorted; empty if there are none at all."""
        if self.dealing is not None and not self._listed:
            self._listed = self.dealing.listed()
        return self._listed

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[Named, ...]]:
        """For each publication all subscriptions that get it, sorted."""
        listed = self.listed
        if not listed:
            yield from (self.everyone for _ in range(self.count))
            return
        for some in listed:
            yield tuple(sorted((*self.everyone, *some))) if some else self.everyone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matches) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Matches({self.count}, {self.everyone!r}, {self.listed!r})"
