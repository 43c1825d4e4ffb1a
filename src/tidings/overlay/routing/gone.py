"""Brokers that are gone for good, as the network has been told.

What is known of one is a boot and a count: the count is odd while the broker is gone for good since that
boot, and even when it has come back in it. Of two words about a broker the one with the later boot counts, or
the higher count: so all come to the same, whoever was away for how long, and what was said before a broker
came back does it no harm. It is on disk, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

import msgspec

from tidings.overlay.core import Core
from tidings.overlay.events import Erase, Write

PREFIX = "gone/"
"""Of the keys under which brokers are written."""

GONE_MAX = 1_000
"""Brokers that are remembered; beyond, the one of which something was said longest ago is not."""

Word = tuple[str, int, int]
"""A broker, a boot, and how often it was said to be gone for good in it, and to have come back."""

COUNT_MAX = 2**53
"""Greater than any boot, and than any count."""

UNHEARD = (-1, 0)
"""Of a broker of which nothing was ever said."""


class Gone:
    """What this broker has been told."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._words: dict[str, tuple[int, int]] = {}
        """By broker: boot and count; the one changed longest ago first."""

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """What was known before a restart."""
        for key in sorted(saved):
            if key.startswith(PREFIX):
                name, boot, count = msgspec.msgpack.decode(saved[key], type=Word)
                self._words[name] = boot, count

    def __contains__(self, name: str) -> bool:
        """Whether a broker is gone for good."""
        return self._words.get(name, UNHEARD)[1] % 2 == 1

    def has_heard_of(self, name: str) -> bool:
        """Whether anything was said of a broker."""
        return name in self._words

    def since(self, name: str, boot: int) -> bool:
        """Whether a broker is gone for good, and this boot is not a later one."""
        return name in self and boot <= self._words[name][0]

    def words(self) -> Iterator[Word]:
        """All that neighbours are told: what is said of a broker itself it need not say."""
        return ((name, *word) for name, word in self._words.items() if name != self._core.id)

    def is_news(self, word: Word) -> bool:
        """Whether nothing later is known here. No broker says what cannot be."""
        name, boot, count = word
        can_be = 0 <= boot < COUNT_MAX and 0 <= count < COUNT_MAX
        return can_be and (boot, count) > self._words.get(name, UNHEARD)

    def hear(self, word: Word) -> None:
        """Keep what was said."""
        name, boot, count = word
        self._words.pop(name, None)
        self._words[name] = boot, count
        self._core.out.append(Write(_key(name), msgspec.msgpack.encode(word)))
        if len(self._words) > GONE_MAX:
            oldest = next(iter(self._words))
            del self._words[oldest]
            self._core.out.append(Erase(_key(oldest)))
        self._core.ask_sync()

    def leave(self, name: str, boot: int) -> Word:
        """The word that a broker is gone for good since a boot, or since a later one that was said."""
        known, count = self._words.get(name, UNHEARD)
        return (name, boot, 1) if boot > known else (name, known, count | 1)

    def come_back(self, name: str, boot: int) -> Word | None:
        """The word that a broker is a member in a boot, so it has come back; None if nobody need be told.

        That may be an earlier boot than the one that was said: who said so was mistaken, or the folder of the
        broker was put back from a copy.
        """
        known, count = self._words.get(name, UNHEARD)
        if name not in self:
            return None
        return (name, boot, 0) if boot > known else (name, known, count + 1)


def _key(name: str) -> str:
    return PREFIX + quote(name, safe="")
