"""The declared topic of the experiment: 20 fields, one of them the key, and the paper's timings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from papers.agele.setting import Setting
from tidings import Topic

NAME = "agele"

WINDOW = "1000000s"
"""W: the paper's experiments never reach it."""


def field_names(setting: Setting) -> list[str]:
    """The key first."""
    return ["event", *(f"f{number:02d}" for number in range(1, setting.fields))]


def gathered(setting: Setting, root: str) -> Topic:
    """With an event gatherer."""
    return Topic.from_mapping(
        {
            "name": NAME,
            "kind": "gathered",
            "root": root,
            "key": ["event"],
            "merge_after": f"{setting.tm}s",
            "redundant_for": f"{setting.tr}s",
            "window": WINDOW,
            "complete": setting.complete,
            "seat": setting.seat,
            "seats": setting.seats,
            "on_the_way": setting.on_the_way,
            "fields": {name: {"type": "int"} for name in field_names(setting)},
        }
    )


def plain(setting: Setting, root: str) -> Topic:
    """Without: the baseline."""
    return Topic.from_mapping(
        {
            "name": NAME,
            "kind": "plain",
            "root": root,
            "fields": {name: {"type": "int"} for name in field_names(setting)},
        }
    )


@lru_cache(maxsize=65_536)
def values(event: int, mask: int, names: tuple[str, ...]) -> Mapping[str, object]:
    """The fields of a message; those of one event never disagree."""
    return {name: event for bit, name in enumerate(names) if mask >> bit & 1}


def mask(fields: Mapping[str, object], bits: Mapping[str, int]) -> int:
    """The other way round."""
    return sum(bits[name] for name in fields)


def bits(names: tuple[str, ...]) -> dict[str, int]:
    """Of each field its bit."""
    return {name: 1 << bit for bit, name in enumerate(names)}
