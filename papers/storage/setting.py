"""What may be set: `tidings reproduce storage --set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from papers.storage.trees import TREES
from tidings.errors import InputError


@dataclass(frozen=True, slots=True)
class Setting:
    """Of all figures; what the paper gives no number for is our choice."""

    seed: int = 0
    topics: int = 10
    brokers: int = 50
    """Where it is not what varies."""

    replicas: int = 3
    capacity: int = 5
    tree: str = "uniform"
    """How brokers are linked, where it is not what varies."""

    published: float = 1.0
    """Messages per second and topic. It does not move the mean distance, and a row shows it."""

    lifetime: float = 1000.0
    """Seconds; the same."""

    requests: int = 20_000
    """Of the run that sends them one by one."""


def read(seed: int, given: Mapping[str, str]) -> Setting:
    """A setting from `--seed` and `--set`."""
    kinds = {field.name: type(getattr(Setting(), field.name)) for field in fields(Setting)}
    changes: dict[str, object] = {"seed": seed}
    for name, value in given.items():
        if name not in kinds or name == "seed":
            known = ", ".join(one for one in kinds if one != "seed")
            raise InputError(f"--set {name}={value}: there is no {name!r}; there are {known}")
        try:
            changes[name] = kinds[name](value)
        except ValueError:
            raise InputError(f"--set {name}={value}: give a number") from None
    made = Setting(**changes)  # type: ignore[arg-type]
    if made.tree not in TREES:
        raise InputError(f"--set tree={made.tree}: there are {', '.join(TREES)}")
    return made
