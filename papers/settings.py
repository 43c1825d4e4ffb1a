"""What `tidings reproduce --set NAME=VALUE` may set: the fields of a paper's `Setting`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from tidings.errors import InputError

S = TypeVar("S")


def read(kind: type[S], seed: int, given: Mapping[str, str]) -> S:
    """A setting from `--seed` and `--set`; each field has a default, and so a type."""
    usual: Any = kind()
    kinds = {field.name: type(getattr(usual, field.name)) for field in fields(usual)}
    changes: dict[str, Any] = {"seed": seed}
    for name, value in given.items():
        if name not in kinds or name == "seed":
            known = ", ".join(one for one in kinds if one != "seed")
            raise InputError(f"--set {name}={value}: there is no {name!r}; there are {known}")
        try:
            changes[name] = kinds[name](value)
        except ValueError:
            raise InputError(f"--set {name}={value}: give a number") from None
    return kind(**changes)
