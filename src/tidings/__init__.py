"""Tidings: content-based publish/subscribe for events that people and machines report imperfectly.

The front door: these names are what programs use, and a test pins them. Each is loaded when it is first asked
for, so that `import tidings` costs next to nothing and a program that only parses filters never loads the
matcher.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tidings.errors import TidingsError

if TYPE_CHECKING:
    from tidings.client.network import connect
    from tidings.language.covering import covers, merge, overlaps
    from tidings.language.declarations import read_topic
    from tidings.language.filters import Filter, Unknown
    from tidings.language.filters import parse as parse_filter
    from tidings.language.reports import Event, Report
    from tidings.language.topics import Topic
    from tidings.matching import Index, Scan

__version__ = "0.1.0"

__all__ = [
    "Event",
    "Filter",
    "Index",
    "Report",
    "Scan",
    "TidingsError",
    "Topic",
    "Unknown",
    "__version__",
    "connect",
    "covers",
    "merge",
    "overlaps",
    "parse_filter",
    "read_topic",
]

# Name here: module, name there.
_HOMES = {
    "Event": ("tidings.language.reports", "Event"),
    "Filter": ("tidings.language.filters", "Filter"),
    "Index": ("tidings.matching", "Index"),
    "Report": ("tidings.language.reports", "Report"),
    "Scan": ("tidings.matching", "Scan"),
    "Topic": ("tidings.language.topics", "Topic"),
    "Unknown": ("tidings.language.filters", "Unknown"),
    "connect": ("tidings.client.network", "connect"),
    "covers": ("tidings.language.covering", "covers"),
    "merge": ("tidings.language.covering", "merge"),
    "overlaps": ("tidings.language.covering", "overlaps"),
    "parse_filter": ("tidings.language.filters", "parse"),
    "read_topic": ("tidings.language.declarations", "read_topic"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidings' has no attribute {name!r}; it shows: {', '.join(__all__)}")
    module, there = _HOMES[name]
    value: object = getattr(import_module(module), there)
    globals()[name] = value  # the next time it is found without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
