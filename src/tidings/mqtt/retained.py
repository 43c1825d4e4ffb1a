"""Retained messages: the last one of each topic, for those who subscribe later.

Kept in a trie of levels, so that a subscription finds its own without looking at all. They are those
published at this broker. Bounded in number and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.overlay.publication import Publication

LEVELS_PER_LOOK = 16
"""Levels without a message that are passed in the time in which one message is looked at."""


class Level:
    """One level of topics."""

    __slots__ = ("below", "message")

    def __init__(self) -> None:
        self.below: dict[str, Level] = {}
        self.message: Publication | None = None


class Retained:
    """All retained messages of a broker."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._root = Level()
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.messages = 0
        self.bytes = 0

    def fits(self, message: Publication) -> bool:
        """Whether there is room for it, in the place of the one before."""
        old = self.get(message.topic)
        count = self.messages + (old is None)
        size = self.bytes + message.size - (old.size if old is not None else 0)
        return count <= self._messages_max and size <= self._bytes_max

    def get(self, topic: str) -> Publication | None:
        level: Level | None = self._root
        for name in topic.split("/"):
            level = level.below.get(name) if level is not None else None
        return level.message if level is not None else None

    def keep(self, message: Publication) -> None:
        """The last one of its topic from now on."""
        level = self._root
        for name in message.topic.split("/"):
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = Level()
            level = below
        if level.message is None:
            self.messages += 1
        else:
            self.bytes -= level.message.size
        level.message = message
        self.bytes += message.size

    def remove(self, topic: str) -> bool:
        """Whether there was one."""
        path = [self._root]
        names = topic.split("/")
        for name in names:
            below = path[-1].below.get(name)
            if below is None:
                return False
            path.append(below)
        message = path[-1].message
        if message is None:
            return False
        path[-1].message = None
        self.messages -= 1
        self.bytes -= message.size
        for above, name in zip(reversed(path[:-1]), reversed(names), strict=True):
            below = above.below[name]
            if below.below or below.message is not None:
                break
            del above.below[name]
        return True

    def matching(self, topic_filter: str) -> Iterator[Publication | None]:
        """All whose topics match a topic filter, in the order in which their levels came; between them None,
        after each `LEVELS_PER_LOOK` levels that have none, for these take time too.

        It may be gone through in steps, while others come and go: each is told as it is when it is reached.
        """
        names = topic_filter.split("/")
        passed = 0
        # Levels to look at, the deepest last; the names that have led there are behind `at`.
        stack: list[tuple[Iterator[Level], int]] = [(iter((self._root,)), 0)]
        while stack:
            levels, at = stack[-1]
            level = next(levels, None)
            if level is None:
                stack.pop()
                continue
            name = names[at] if at < len(names) else ""
            if level.message is not None and (at == len(names) or name == "#"):
                yield level.message
            else:
                passed += 1
                if passed % LEVELS_PER_LOOK == 0:
                    yield None
            if at == len(names):
                continue
            if name not in ("#", "+"):
                found = [level.below[name]] if name in level.below else []
            elif at or level is not self._root:
                found = list(level.below.values())
            else:  # [MQTT-4.7.2-1]
                found = [below for text, below in level.below.items() if not text.startswith("$")]
            stack.append((iter(found), at if name == "#" else at + 1))

    def purge(self, now: float) -> list[str]:
        """Remove all whose time is over; their topics."""
        gone = [message.topic for message in self._all() if expired(message, now)]
        for topic in gone:
            self.remove(topic)
        return gone

    def _all(self) -> Iterator[Publication]:
        levels = [self._root]
        while levels:
            level = levels.pop()
            if level.message is not None:
                yield level.message
            levels += level.below.values()


def expired(message: Publication, now: float) -> bool:
    """Whether the time that a client gave a message is over [MQTT-3.3.2-5]."""
    return message.expiry_s >= 0 and now - message.at_us / 1_000_000 >= max(1, message.expiry_s)
