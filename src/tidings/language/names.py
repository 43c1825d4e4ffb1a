"""Names of topics: MQTT's topic names and topic filters, and the names of declarations.

The first two are those of MQTT 5, section 4.7. A declaration's name is a topic filter whose `+` levels may
have names, `fleet/+vehicle/status`: each named level is a string field of every report. When several
declarations match a topic the most specific one wins, see `Pattern.rank`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tidings.language.fields import IDENTIFIER

NAME_BYTES_MAX = 65_535
"""The longest UTF-8 string that MQTT can carry [MQTT-4.7.3-3]."""


LEVELS_MAX = 200
"""Levels of a topic name or filter, as in mosquitto: each is a node in tables, whatever its length."""


def name_fault(name: str) -> str | None:
    """What is wrong with a topic name to publish to, or None."""
    # Most messages are published to few topics, each of them asked about for every message.
    return _remembered_fault(name) if len(name) <= _REMEMBERED_LENGTH_MAX else _name_fault(name)


def _name_fault(name: str) -> str | None:
    if "+" in name or "#" in name:
        return f"{_shown(name)} has a wildcard; a topic that is published to must not have '+' or '#'"
    return _text_fault(name)


_REMEMBERED_LENGTH_MAX = 200
_remembered_fault = lru_cache(maxsize=4_096)(_name_fault)


def filter_fault(text: str) -> str | None:
    """What is wrong with a topic filter to subscribe with, or None."""
    levels = text.split("/")
    for at, level in enumerate(levels):
        if "#" in level and (level != "#" or at != len(levels) - 1):
            return f"{_shown(text)} has '#' in the middle; '#' must be the whole of the last level"
        if "+" in level and level != "+":
            return f"{_shown(text)} has '+' beside other characters; '+' must be the whole of its level"
    return _text_fault(text)


def match(text: str, name: str) -> bool:
    """Whether a topic filter matches a topic name; both are taken to be valid.

    >>> match("traffic/+/fire", "traffic/athens/fire"), match("traffic/#", "traffic")
    (True, True)
    """
    return _levels_match(text.split("/"), name.split("/"))


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether every topic name that `narrow` matches is matched by `wide` too."""
    # "#" and "+/#" match the same names, and so do "/#" and "/+/#", since no name is empty. Only the longer
    # forms show the level that there must be.
    wide_levels, narrow_levels = (
        (text[:-1] + "+/#" if text in ("#", "/#") else text).split("/") for text in (wide, narrow)
    )
    if wide_levels[0] == "+" and narrow_levels[0].startswith("$"):
        return False
    for at, level in enumerate(wide_levels):
        if level == "#":
            return True
        if at == len(narrow_levels) or narrow_levels[at] == "#":
            return False
        if level not in ("+", narrow_levels[at]):
            return False
    return len(wide_levels) == len(narrow_levels)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The name of a declaration, taken apart. Make one with `parse_pattern`."""

    text: str
    """The name as declared."""

    levels: tuple[str, ...]
    """Its levels; one that begins with '+' is a wildcard, named if more follows, '#' is the rest."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its named levels, from left to right."""
        return tuple(level[1:] for level in self.levels if level[0:1] == "+" and len(level) > 1)

    @property
    def filter(self) -> str:
        """The MQTT topic filter that matches the same topics."""
        return "/".join("+" if level[0:1] == "+" else level for level in self.levels)

    @property
    def rank(self) -> tuple[tuple[int, ...], str]:
        """Its place in the order of declarations: of those that match a topic, the smallest rank wins.

        Compared level by level from the left: a literal level comes before a wildcard, named or not, and that
        before '#'. Two names that differ only in the names of their levels are ordered by their texts.
        """
        return tuple({"+": 1, "#": 2}.get(level[0:1], 0) for level in self.levels), self.text

    def bind(self, name: str) -> dict[str, str] | None:
        """The values of the named levels in a topic name, or None if it does not match."""
        levels = name.split("/")
        if not _levels_match(self.levels, levels):
            return None
        return {
            own[1:]: level
            for own, level in zip(self.levels, levels, strict=False)
            if own[0:1] == "+" and len(own) > 1
        }


def parse_pattern(text: str) -> Pattern:
    """A declaration's name, taken apart; ValueError says what is wrong with it.

    >>> parse_pattern("fleet/+vehicle/status").bind("fleet/v7/status")
    {'vehicle': 'v7'}
    """
    pattern = Pattern(text, tuple(text.split("/")))
    for name in pattern.names:
        if not IDENTIFIER.fullmatch(name):
            raise ValueError(
                f"the level '+{name}' has a name that is not an identifier; use letters, digits and '_', "
                "not beginning with a digit"
            )
        if pattern.names.count(name) > 1:
            raise ValueError(f"two levels are named {name!r}; a level's name must be used once")
    if text.startswith("$"):
        raise ValueError(f"{_shown(text)} begins with '$', which is the broker's own; choose another name")
    if fault := filter_fault(pattern.filter):
        raise ValueError(fault)
    return pattern


def _levels_match(levels: tuple[str, ...] | list[str], name: list[str]) -> bool:
    # [MQTT-4.7.2-1]: a wildcard at the first level does not match a topic that begins with '$'.
    if name[0].startswith("$") and levels[0][0:1] in ("+", "#"):
        return False
    for at, level in enumerate(levels):
        if level == "#":
            return True
        if at == len(name) or (level != name[at] and level[0:1] != "+"):
            return False
    return len(levels) == len(name)


def _text_fault(text: str) -> str | None:
    if not text:
        return "the topic is empty; it must have at least one character"
    if text.count("/") >= LEVELS_MAX:
        return (
            f"{_shown(text)} has {text.count('/') + 1} levels; a topic must not have more than {LEVELS_MAX}"
        )
    if "\0" in text:
        return f"{_shown(text)} has a NUL character, which MQTT does not allow"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{_shown(text)} has half of a surrogate pair, which is not Unicode text"
    if size > NAME_BYTES_MAX:
        return f"{_shown(text)} has {size} bytes; a topic must not have more than {NAME_BYTES_MAX}"
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
