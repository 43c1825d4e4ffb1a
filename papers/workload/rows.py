"""The form of what is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

NUMBER = "number"
"""The kind of rows that are numbers for claims."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How much of it."""

    runs: int
    quick: bool


def number(name: str, value: float) -> Row:
    """A number for a claim."""
    return {"kind": NUMBER, "name": name, "value": float(value)}
