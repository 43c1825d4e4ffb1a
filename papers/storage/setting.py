"""What may be set: `tidings reproduce storage --set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from papers import settings
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
    made = settings.read(Setting, seed, given)
    if made.tree not in TREES:
        raise InputError(f"--set tree={made.tree}: there are {', '.join(TREES)}")
    return made
