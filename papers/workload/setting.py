"""What may be set: `tidings reproduce workload --set NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from papers import settings
from tidings.workload import given, making
from tidings.workload.model import Given, Model
from tidings.workload.spec import Counts, Network, Sizes, Spec


@dataclass(frozen=True, slots=True)
class Setting:
    """Of all figures."""

    seed: int = 1
    """Of the bundled model of counts; `--seed N` makes it N + 1."""

    removed: int = 24
    """Interests that are removed (§4.1)."""

    p: float = 0.7
    """Of diffusion (figures 5 and 6)."""

    fraction: float = 0.1
    """Of generalisation. The paper gives none."""

    brokers: int = 50
    subscriptions: int = 100_000
    events: int = 100_000

    latency: str = ""
    """A matrix of round trips; from distances over the earth if empty."""

    places: str = ""
    """Where the nodes of the matrix are."""

    counts: str = ""
    """Members and messages of somebody's own; the bundled model if empty."""


def read(seed: int, given_: Mapping[str, str]) -> Setting:
    """A setting from `--seed` and `--set`."""
    return settings.read(Setting, seed + 1, given_)


@lru_cache(maxsize=2)
def data(setting: Setting) -> Given:
    """What the spec of a setting names."""
    return given.read(spec(setting))


@lru_cache(maxsize=2)
def model(setting: Setting) -> Model:
    """What stages would be given: nothing removed, nothing diffused."""
    return making.transformed(data(setting))


def spec(setting: Setting) -> Spec:
    """The bundled default, but for what was set."""
    return Spec(
        seed=setting.seed,
        sizes=Sizes(
            subscriptions=setting.subscriptions, events=setting.events, brokers=setting.brokers, requests=0
        ),
        counts=Counts(file=setting.counts),
        network=Network(latency=setting.latency, places=setting.places),
    )
