"""Views: a topic filter and a content filter that the network keeps under a name.

Clients that cannot send properties with a subscription subscribe to `view/<name>/<topic filter>` and get of
the topics that both filters match what the view's content filter lets through, each under
`view/<name>/<topic>`. Here a view is a value that is checked as a whole; who may see it and how its messages
reach a client is not known.

The theory is small: two MQTT topic filters have at most one in common that matches exactly what both match
(`intersection`), since each says of every level "this", "any" or "any from here on".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidings.errors import DeclarationError, FilterError, FilterTooCostly, Problem
from tidings.language import durations, names
from tidings.language.faults import choice, shown
from tidings.language.filters import joined, parse
from tidings.language.limits import DEFAULT, Steps
from tidings.language.regions import Unknown
from tidings.language.subscriptions import read_where, remember
from tidings.language.tree import And

PREFIX = "view"
"""The first level of all topics of views."""

NAME_LENGTH_MAX = 255
"""Characters in a view's name."""

VIEW_BYTES_MAX = 262_144
"""Of the JSON text: the longest topic filter and the longest content filter fit."""

OPTIONS = ("name", "from", "where", "unknown", "every")


@dataclass(frozen=True, slots=True)
class View:
    """One view. Make one with `View.from_mapping` or `parse_view`, which check it."""

    name: str
    """One level of a topic."""

    topic_filter: str
    """The topics that it looks at."""

    where: str = ""
    """What it lets through of what is published there; empty for all."""

    unknown: Unknown = Unknown.WAIT
    """What a term over a missing field counts as."""

    every_us: int = 0
    """The least time between two versions of one growing event; 0 for all of them."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> View:
        """A checked view; DeclarationError holds everything that is wrong with it."""
        faults = [
            f"there is no option {shown(name)}; there are {', '.join(OPTIONS)}"
            for name in mapping
            if name not in OPTIONS
        ]
        name = _text(mapping, "name", faults)
        topic_filter = _text(mapping, "from", faults)
        where = _text(mapping, "where", faults, "")
        unknown = Unknown.WAIT
        every_us = 0
        if name is not None and (fault := name_fault(name)):
            faults.append(fault)
        if topic_filter is not None and (fault := _from_fault(topic_filter)):
            faults.append(fault)
        if where:
            try:
                parse(where)
            except FilterError as error:
                faults.append(f"where: {error}")
        if mapping.get("unknown") is not None:
            try:
                unknown = choice(Unknown)(mapping["unknown"])
            except ValueError as error:
                faults.append(f"unknown: {error}")
        if mapping.get("every") is not None:
            try:
                every_us = durations.parse(mapping["every"])
            except ValueError as error:
                faults.append(f"every: {error}")
        if faults or name is None or topic_filter is None or where is None:
            source = f"view {shown(name)}" if name else "view"
            raise DeclarationError([Problem(fault) for fault in faults], source)
        return cls(name, topic_filter, where, unknown, every_us)

    def to_mapping(self) -> dict[str, object]:
        """The view in plain values that `from_mapping` reads back."""
        mapping: dict[str, object] = {
            "name": self.name,
            "from": self.topic_filter,
            "where": self.where,
            "unknown": self.unknown.value,
        }
        if self.every_us:
            mapping["every"] = durations.text(self.every_us)
        return mapping

    @property
    def text(self) -> str:
        """The view as `parse_view` reads it."""
        return json.dumps(self.to_mapping(), ensure_ascii=False)


def parse_view(text: str) -> View:
    """The view that a JSON text says; DeclarationError holds everything that is wrong with it."""
    if len(text) > VIEW_BYTES_MAX:
        fault = f"the text has {len(text)} characters; a view must not have more than {VIEW_BYTES_MAX}"
        raise DeclarationError([Problem(fault)], "view")
    try:
        mapping = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeclarationError([Problem(f"this is not JSON: {error}")], "view") from None
    if not isinstance(mapping, dict):
        fault = f'{shown(mapping)} is not an object; write {{"name": "severe", "from": "traffic/#", …}}'
        raise DeclarationError([Problem(fault)], "view")
    return View.from_mapping(mapping)


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a view, or None."""
    if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        return f"name: {shown(name)} must have 1 to {NAME_LENGTH_MAX} printable characters"
    if any(sign in name for sign in "/+#") or name.startswith("$"):
        return (
            f"name: {shown(name)} is a level of a topic and must not have '/', '+' or '#', nor begin with '$'"
        )
    return None


def asked(view: View, rest: str) -> str | None:
    """The topics that a client asks for whose topic filter is `view/<name>/<rest>`; None if there are none.

    >>> asked(View("severe", "traffic/#"), "+/athens")
    'traffic/athens'
    """
    return intersection(view.topic_filter, rest)


def intersection(one: str, other: str) -> str | None:
    """The topic filter that matches what both match, or None where nothing can; both are taken to be valid.

    >>> intersection("a/+/c", "a/b/#"), intersection("a/#", "+"), intersection("a/b", "a/c")
    ('a/b/c', 'a', None)
    """
    here, there = one.split("/"), other.split("/")
    if any(
        literal[0][:1] == "$" and wild[0] in ("+", "#") for literal, wild in ((here, there), (there, here))
    ):
        return None  # [MQTT-4.7.2-1]
    levels: list[str] = []
    for at in range(max(len(here), len(there))):
        if here[at : at + 1] == ["#"]:
            levels += there[at:]
            break
        if there[at : at + 1] == ["#"]:
            levels += here[at:]
            break
        if at == len(here) or at == len(there):
            return None
        if here[at] != there[at] and "+" not in (here[at], there[at]):
            return None
        levels.append(there[at] if here[at] == "+" else here[at])
    # Of "/#" and "+" only the name without any character is left, and that is none.
    return "/".join(levels) or None


def both(where: str, other: str, steps: Steps | None = None) -> str:
    """The content filter that takes what both take; FilterError if one is wrong, or both together too much.

    >>> both("severity >= 3", "fire OR smoke")
    '(severity >= 3) AND (fire OR smoke)'
    """
    # Each is read alone: texts that are whole only side by side would say something else. There are no
    # comments in the language, so nothing can hide the parentheses.
    parts = [read_where(text) for text in (where, other) if text]
    if len(parts) < 2:
        return where or other
    text = f"({where}) AND ({other})"
    if len(text) > DEFAULT.text:
        raise FilterTooCostly(
            f"together with the view's, the filter has {len(text)} characters; the limit is {DEFAULT.text}"
        )
    return remember(joined(And, parts, text, steps))


def _text(
    mapping: Mapping[str, object], option: str, faults: list[str], default: str | None = None
) -> str | None:
    value = mapping.get(option)
    if value is None:
        value = default
    if isinstance(value, str):
        return value
    example = {"name": '"severe"', "from": '"traffic/#"'}.get(option, '"severity >= 3"')
    if value is None:
        faults.append(f'{option} is missing; write "{option}": {example}, say')
    else:
        faults.append(f"{option}: {shown(value)} is not a string; put it in quotes")
    return None


def _from_fault(topic_filter: str) -> str | None:
    if fault := names.filter_fault(topic_filter):
        return f"from: {fault}"
    first = topic_filter.partition("/")[0]
    if first.startswith("$"):
        return f"from: {shown(topic_filter)} begins with '$', which is the broker's own; choose other topics"
    if first == PREFIX:
        return f"from: {shown(topic_filter)} names topics of views; a view looks at topics that are published"
    return None
