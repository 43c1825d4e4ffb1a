"""Sections of a workload's spec: frozen dataclasses whose fields know what they may be.

Each part of the model declares its own section beside the code that reads it; `read` fills one from a table
of TOML and collects all that is wrong, so that a spec is refused as a whole, with everything there is to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from tidings.language import durations

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be."""

    says: str
    """In words, after "give"."""

    accepts: Callable[[Any], Any]
    """The value to keep, or an exception of kind ValueError."""

    written: Callable[[Any], Any] = field(default=lambda value: value)
    """What is kept, as it may be given again."""


def whole(default: int, least: int = 0, most: int = 2**53) -> Any:
    """A whole number."""

    def accepts(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    return _field(default, Rule(f"a whole number from {least:,} to {most:,}", accepts))


def number(default: float | None, least: float = -math.inf, most: float = math.inf) -> Any:
    """A number; None only as a default, for "not set"."""

    def accepts(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError
        return float(value)

    return _field(default, Rule(f"a number from {least:g} to {most:g}", accepts))


def share(default: float) -> Any:
    """A number from 0 to 1."""
    return number(default, 0.0, 1.0)


def choice(default: str, *others: str) -> Any:
    """One of a few words."""
    words = (default, *others)

    def accepts(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return _field(default, Rule(f"one of {', '.join(map(repr, sorted(words)))}", accepts))


def text(default: str) -> Any:
    """Any text, such as a path."""

    def accepts(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        return value

    return _field(default, Rule("a text", accepts))


def switch(default: bool) -> Any:
    """True or false."""

    def accepts(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return _field(default, Rule("true or false", accepts))


def duration(default: str) -> Any:
    """A length of time, such as "5s" or "1d", kept in microseconds."""
    rule = Rule('a length of time, such as "500ms", "5m" or "1d"', durations.parse, durations.text)
    return _field(durations.parse(default), rule)


def _field(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


def key(one: Field[Any]) -> str:
    """What a spec calls a field: a length of time has its unit in the value, so not in the name."""
    rule: Rule = one.metadata["rule"]
    return one.name.removesuffix("_us") if rule.written is durations.text else one.name


def read(kind: type[Section], given: Mapping[str, Any], where: str, problems: list[str]) -> Section:
    """A section from a table; what is wrong is added to `problems`, and the defaults stand in for it."""
    known = {key(one): one for one in fields(kind)}  # type: ignore[arg-type]
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; is it {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            problems.append(f"{where}{name} is not known{hint}")
            continue
        rule: Rule = known[name].metadata["rule"]
        try:
            kept[known[name].name] = rule.accepts(value)
        except ValueError:
            problems.append(f"{where}{name} is {value!r}; give {rule.says}")
    assert all(one.default is not MISSING for one in known.values()), f"{kind} has defaults"
    return kind(**kept)
