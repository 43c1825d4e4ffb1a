"""From what was given to the plain values that stages need: the transformations, in the order of the paper.

Removal, diffusion, generalisation, intervals, sampling (§4.1 to §4.4). Each is in a module of its own and can
be left out by the spec.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from tidings.errors import InputError
from tidings.workload import (
    diffusion,
    generalisation,
    given,
    intervals,
    removal,
    sampling,
    topics,
    topologies,
)
from tidings.workload.model import Given, Model
from tidings.workload.spec import Spec

SUBSCRIPTIONS_MAX = 2**32
"""Of one region: the places of its subscriptions are multiplied by a stride, and 64 bits must hold it."""


def make(spec: Spec) -> Model:
    """All that stages need, from a spec and the files that it names."""
    topologies.check(spec)
    return replace(transformed(given.read(spec)), files=given.digests(spec))


def transformed(data: Given) -> Model:
    """All that stages need, from data that were read."""
    spec = data.spec
    removed = removal.remove(data.members, data.messages, spec.removal)
    if not removed.members.any():
        raise InputError(
            "no interest has members after the removal of the hottest; remove fewer (section removal)"
        )
    diffused = diffusion.diffused(removed.members, data.dimensions, spec.diffusion.p)
    members = generalisation.generalised(diffused, data.dimensions, spec.generalisation)
    allocated = sampling.allocate(
        members.reshape(-1), spec.sizes.subscriptions, spec.sampling, spec.seed
    ).reshape(members.shape)
    subscribed = allocated.reshape(-1, len(data.regions)).sum(axis=0)
    if subscribed.max() >= SUBSCRIPTIONS_MAX:
        raise InputError(
            f"a region would have {subscribed.max():,} subscriptions; fewer than {SUBSCRIPTIONS_MAX:,} are "
            f"possible: ask for fewer, or for more regions"
        )
    talking = removed.messages.reshape(-1, len(data.regions)).sum(axis=0) > 0
    counts = np.maximum(-(-subscribed // spec.clients.subscriptions_each), talking.astype(np.int64))
    ends = [intervals.intervals(one, spec.space.resolution) for one in data.dimensions]
    return Model(
        spec=spec,
        dimensions=data.dimensions,
        regions=data.regions,
        topics=topics.names(data.dimensions[0]),
        lows=tuple(low for low, _ in ends),
        highs=tuple(high for _, high in ends),
        members=members,
        messages=removed.messages,
        allocated=allocated,
        clients_first=np.cumsum(counts) - counts,
        clients_count=counts,
        nodes=data.nodes,
        start_us=start_us(spec.time.start),
    )


def start_us(text: str) -> int:
    """Microseconds since 1970 of a time in ISO form; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"time.start is {text!r}; give a time such as 2026-11-01T00:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
