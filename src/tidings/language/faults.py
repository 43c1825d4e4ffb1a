"""What can be wrong with a declaration, and how a value is shown to the one who wrote it."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from tidings.language.payloads import INT_MAX, INT_MIN

Where = tuple[str | int, ...]
"""A place in a declaration: the keys, and positions in lists, that lead to it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a declaration."""

    where: Where
    """The place of it."""

    message: str
    """The value, the rule and the way out."""


class Faults(list[Fault]):
    """The faults found so far."""

    def add(self, where: Where, message: str) -> None:
        """Note one more."""
        self.append(Fault(where, message))


Choice = TypeVar("Choice", bound=StrEnum)


def choice(choices: type[Choice]) -> Callable[[object], Choice]:
    """A reader of one of some words; it raises ValueError for anything else."""

    def read(value: object) -> Choice:
        if isinstance(value, str) and value in list(choices):
            return choices(value)
        raise ValueError(f"{shown(value)} is not one of {', '.join(repr(c.value) for c in choices)}")

    return read


class _Short(reprlib.Repr):
    """Values as messages show them: short, whatever they are, and in the words of TOML and JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80
        self.maxlevel = 3

    def repr_bool(self, x: bool, level: int) -> str:  # noqa: ARG002
        return "true" if x else "false"

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: ARG002, N802
        return "null"

    def repr_datetime(self, x: datetime, level: int) -> str:  # noqa: ARG002
        return x.isoformat()

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        # Python refuses to write out an integer of more than 4,300 digits.
        return repr(x) if INT_MIN <= x <= INT_MAX else f"an integer of {x.bit_length()} bits"


shown = _Short().repr
"""A value in a message."""
