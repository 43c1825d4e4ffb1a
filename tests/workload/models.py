"""Small models, made by hand: what stages and their twins are tried on without reading anything.

Three regions far apart in longitude, hierarchies whose nodes have unlike numbers of children and whose leaves
lie at unlike depths, counts without ties, an interest nobody writes about, and one that is written about in
one region alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.workload.hierarchies import Hierarchy, from_nested
from tidings.workload.intervals import intervals
from tidings.workload.model import Model, Nodes
from tidings.workload.spec import Spec

REGIONS = ("america", "europe", "asia")

START_US = 1_793_491_200_000_000
"""2026-11-01T00:00:00Z, a midnight."""

SUBJECT = from_nested(
    "subject",
    "everything",
    {
        "arts": {"music": ["jazz", "opera", "rock"], "film": []},
        "sports": ["football", "tennis"],
        "science": {"nature": {"life": ["birds", "trees"]}, "physics": []},
        "weather": [],
    },
)
"""Ten leaves, from the first level to the fourth."""

LANGUAGE = from_nested("language", "all", {"western": ["english", "french", "spanish"], "eastern": ["thai"]})

AUDIENCE = from_nested("audience", "everybody", {"young": ["children", "pupils"], "old": []})

DIMENSIONS = (SUBJECT, LANGUAGE, AUDIENCE)

TOPICS = {
    "everything": "subject/+",
    "arts": "subject/arts",
    "sports": "subject/sports",
    "science": "subject/science",
    "weather": "subject/weather",
}


def tiny(dimensions: int = 2, *, seed: int = 7, **sections: dict[str, Any]) -> Model:
    """A model of one, two or three dimensions; sections of the spec as in `events={"drift": 0.5}`."""
    spec = Spec(seed=seed)
    small: dict[str, dict[str, Any]] = {"sizes": {"subscriptions": 500, "events": 2_000, "requests": 200}}
    for name, changes in {**small, **sections}.items():
        spec = replace(spec, **{name: replace(getattr(spec, name), **small.get(name, {}) | changes)})
    chosen = DIMENSIONS[:dimensions]
    members = full_members(chosen)
    allocated = shared_out(members, spec.sizes.subscriptions)
    subscribed = allocated.reshape(-1, len(REGIONS)).sum(axis=0)
    clients = np.maximum(1, -(-subscribed // spec.clients.subscriptions_each))
    ends = [intervals(one, spec.space.resolution) for one in chosen]
    return Model(
        spec=spec,
        dimensions=chosen,
        regions=REGIONS,
        topics=tuple(TOPICS[SUBJECT.nodes[top]] for top in SUBJECT.tops),
        lows=tuple(low for low, _ in ends),
        highs=tuple(high for _, high in ends),
        members=members,
        messages=base_messages(chosen),
        allocated=allocated,
        clients_first=np.cumsum(clients) - clients,
        clients_count=clients,
        nodes=nodes(),
        start_us=START_US,
    )


def full_members(dimensions: tuple[Hierarchy, ...]) -> NDArray[np.int64]:
    """Members of every interest, general ones too: different ones, a few of them none."""
    shape = (*(len(one.nodes) for one in dimensions), len(REGIONS))
    numbers = np.arange(np.prod(shape), dtype=np.int64)
    return (numbers * 7_919 % 1_009 * (numbers % 11 > 0)).reshape(shape)


def base_messages(dimensions: tuple[Hierarchy, ...]) -> NDArray[np.float64]:
    """Messages of every base interest: skewed; the first has none, the second only in the first region."""
    shape = (*(len(one.leaves) for one in dimensions), len(REGIONS))
    ranks = np.arange(np.prod(shape), dtype=np.int64) * 7_919 % 1_009
    messages: NDArray[np.float64] = np.asarray(1000.0 / (1.0 + ranks % 97), np.float64)
    messages = messages.reshape(-1, len(REGIONS))
    messages[0] = 0.0
    messages[1, 1:] = 0.0
    return messages.reshape(shape)


def shared_out(members: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """As many as `total` in proportion, by largest remainder."""
    exact = members.reshape(-1) * (total / members.sum())
    found: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    more = np.argsort(found - exact, kind="stable")[: total - int(found.sum())]
    found[more] += 1
    return found.reshape(members.shape)


def nodes() -> Nodes:
    """Two places in each region, the first of them three times as likely; along a line in the network."""
    longitude = np.array([-74.0, -118.0, 2.0, 37.0, 103.0, 139.0])
    points = np.zeros((6, 5))
    points[:, 0] = longitude
    points[:, 1] = [3.0, -4.0, 5.0, -1.0, 2.0, 8.0]
    return Nodes(
        names=("east", "west", "near", "far", "south", "north"),
        region=np.array([0, 0, 1, 1, 2, 2]),
        longitude=longitude,
        weight=np.array([3.0, 1.0, 3.0, 1.0, 3.0, 1.0]),
        points=points,
        error=0.0,
    )
