"""What may be set: `tidings reproduce communities --set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from papers import settings


@dataclass(frozen=True, slots=True)
class Setting:
    """Of all figures; what the paper gives no number for is our choice."""

    seed: int = 0
    clients: int = 200
    heard: int = 5
    """Of a random network: clients that a client hears from. Its modularity is then that of the paper: of the
    first division, since the share inside the last one's communities would otherwise be below it."""

    neighbours: int = 4
    """Of a small world: clients on a ring that a client hears from."""

    joined: int = 2
    """Of a scale-free network: clients that a new one hears from."""

    shortcuts: float = 0.3
    """Of a small world: links to anybody, as a share of all; the same of its modularity."""

    overload: float = 1.5
    """The most that a cluster's clients may send, in fair shares."""

    service_ms: float = 40.0
    """What a broker takes for a message when nothing else waits."""

    link_ms: float = 10.0
    busy: float = 0.9
    """How busy the busiest broker is before anything moves; what the rest have follows from it."""

    edges: str = ""
    """For the scale-free network: a CSV of from,to pairs, gzipped if one likes, instead of the generator."""


def read(seed: int, given: Mapping[str, str]) -> Setting:
    """A setting from `--seed` and `--set`."""
    return settings.read(Setting, seed, given)
