"""Arrivals: how many events there are in each cell of time, and what they may be about. Plain, no pyspark.

Events are a Poisson process whose rate changes from cell to cell: with the sun over each region (diurnal
cycles), from epoch to epoch (drift) and by flash crowds. The count of each piece of a cell is drawn on the
driver, by a hash and the inverse of the distribution, so that the number of an event says when and where it
happened, and none depends on another. Where in the event space events lie is known to `smoothing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError
from tidings.language import durations
from tidings.workload import alias, hashing
from tidings.workload.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE = "events"
"""What random columns are drawn by."""

DAY_US = 86_400_000_000

PEAK = 15 / 24
"""When most happens, as a part of the local day; least happens twelve hours later, at three in the night."""

REMEMBERED = 0.9
"""How much of what an interest has gained or lost by drift it keeps in the next epoch. Without forgetting, a
long workload would end with one interest that has everything."""

PIECES_MAX = 2_000_000
"""Cells of time, times regions: a count for each is drawn on the driver, in seconds."""

SLOTS_MAX = 4_000_000
"""Interests that have a rate, in all epochs and regions: every task holds a table of them, some 200 MB."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Pieces of time in which events arrive at one rate, in the order of time, with the events of each."""

    start_us: NDArray[np.int64]
    """Since 1970."""

    length_us: NDArray[np.int64]
    region: NDArray[np.int64]
    table: NDArray[np.int64]
    """Which weights its events are drawn by: one of `Weights`."""

    mean: NDArray[np.float64]
    """Events expected."""

    count: NDArray[np.int64]
    """Events that there are."""

    first: NDArray[np.int64]
    """The number of the first; an event of one piece has a smaller number than one of the next."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Alias tables of base interests, one behind another: by epoch and region, then one for each flash."""

    first: NDArray[np.int64]
    """Where each table begins."""

    count: NDArray[np.int64]
    """Its slots."""

    cut: NDArray[np.float64]
    interest: NDArray[np.int64]
    """A slot's base interest, as a place in the flattened base array."""

    other: NDArray[np.int64]
    """The base interest of what it turns to above its cut."""


@dataclass(frozen=True, eq=False)
class Flashes:
    """Flash crowds: sudden, then ever fewer."""

    interest: NDArray[np.int64]
    region: NDArray[np.int64]
    start_us: NDArray[np.int64]
    """Since the workload's start."""

    length_us: int
    mean: float
    """Events of each."""


def draw(model: Model) -> Arrivals:
    """How many events there are, and when and where. Raises `InputError` if there are too many cells."""
    from scipy.stats import poisson

    parts = (_steady(model), _flashing(model))
    start, length, region, table, cell, source = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("start_us", "length_us", "region", "table", "cell", "source")
    )
    mean = np.concatenate([part.mean for part in parts])
    drawn = hashing.fraction(hashing.draw(hashing.key(model.spec.seed, TABLE, "count"), cell, source))
    # Of a fraction of 0 scipy says -1.
    count = np.maximum(poisson.ppf(drawn, mean), 0).astype(np.int64)
    order = np.lexsort((table, start))
    count = count[order]
    return Arrivals(
        start_us=model.start_us + start[order],
        length_us=length[order],
        region=region[order],
        table=table[order],
        mean=mean[order],
        count=count,
        first=np.cumsum(count) - count,
    )


def weights(model: Model) -> Weights:
    """What the events of each table are drawn by."""
    tables: list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]] = []
    for epoch in drifted(model):
        for region in range(len(model.regions)):
            active = np.flatnonzero(epoch[:, region])
            cut, other = alias.table(epoch[active, region]) if len(active) else (np.empty(0), active)
            tables.append((cut, active, active[other]))
    one = np.ones(1)
    tables.extend((one, interest, interest) for interest in flashes(model).interest.reshape(-1, 1))
    count = np.array([len(cut) for cut, _, _ in tables], np.int64)
    cut, interest, other = (np.concatenate(part) for part in zip(*tables, strict=True))
    return Weights(np.cumsum(count) - count, count, cut, interest, other)


def rates(model: Model) -> NDArray[np.float64]:
    """Messages by base interest, flattened, and region."""
    return model.messages.reshape(-1, len(model.regions))


def drifted(model: Model) -> NDArray[np.float64]:
    """Weights by epoch, base interest and region: those of a region have the same sum in each epoch.

    An interest drifts everywhere alike. The first epoch is as given.
    """
    from scipy.stats import norm

    asked = model.spec.events
    given = rates(model)
    count = epochs(model)
    slots = count * np.count_nonzero(given)
    if slots > SLOTS_MAX:
        raise InputError(
            f"{count:,} epochs of {np.count_nonzero(given):,} rates each need {slots:,} weights; at most "
            f"{SLOTS_MAX:,}: make events.epoch longer, time.duration shorter, or events.drift 0"
        )
    found = np.empty((count, *given.shape))
    total = given.sum(axis=0)
    gained = np.zeros(len(given))
    key = hashing.key(model.spec.seed, TABLE, "drift")
    for epoch in range(count):
        if epoch:
            # Half a step above the fraction, so that it is never 0.
            drawn = hashing.fraction(hashing.draw(key, epoch, np.arange(len(given)))) + 2.0**-54
            gained = REMEMBERED * gained + asked.drift * norm.ppf(drawn)
        found[epoch] = given * np.exp(gained - gained.max(initial=0.0))[:, None]
        now = found[epoch].sum(axis=0)
        found[epoch] *= np.divide(total, now, out=np.ones_like(now), where=now > 0)
    return found


def epochs(model: Model) -> int:
    """How many times the weights change, and one."""
    asked = model.spec.events
    if not asked.drift:
        return 1
    if not asked.epoch_us:
        raise InputError("events.epoch is 0, but events.drift is not; give a length of time, such as 6h")
    return max(1, -(-model.spec.time.duration_us // asked.epoch_us))


def flashes(model: Model) -> Flashes:
    """Flash crowds, drawn by hash: a region as its rate has it, in it any interest that has one."""
    asked = model.spec.events
    numbers = np.arange(asked.flashes if model.spec.sizes.events else 0)
    if len(numbers) and not asked.flash_length_us:
        raise InputError(
            "events.flash_length is 0, but there are flashes; give a length of time, such as 20m"
        )
    length = min(asked.flash_length_us, model.spec.time.duration_us)

    def drawn(column: str) -> NDArray[np.int64]:
        return hashing.draw(hashing.key(model.spec.seed, TABLE, f"flash {column}"), numbers)

    given = rates(model)
    cut, other = alias.table(given.sum(axis=0)) if len(numbers) else (np.ones(1), np.zeros(1, np.int64))
    slots = hashing.below(drawn("slot"), len(cut))
    region = alias.chosen(slots, hashing.fraction(drawn("region")), cut, other)
    active = [np.flatnonzero(given[:, one]) for one in range(len(model.regions))]
    places = hashing.below(drawn("interest"), np.array([len(one) for one in active])[region])
    interest = np.array([active[one][place] for one, place in zip(region, places, strict=True)], np.int64)
    start = hashing.below(drawn("start"), model.spec.time.duration_us - length + 1)
    mean = model.spec.sizes.events * asked.flash_share / max(1, len(numbers))
    return Flashes(interest, region, start, length, mean)


def daylight(model: Model, starts_us: NDArray[np.int64], ends_us: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean rate of each span of time and region against that of a whole day; times since 1970.

    A node's rate is 1 + diurnal * cos(its local time since the peak), a region's the mean over its nodes by
    their weights, which is again a cosine. Over a whole day each is 1.
    """
    nodes = model.nodes
    turned = nodes.weight * np.exp(2j * np.pi * nodes.longitude / 360.0)
    count = len(model.regions)
    weight = np.bincount(nodes.region, nodes.weight, count)
    phasor = np.bincount(nodes.region, turned.real, count) + 1j * np.bincount(
        nodes.region, turned.imag, count
    )
    phasor /= np.where(weight > 0, weight, 1.0)
    # The mean of a cosine over a span is its value in the middle, times sin(x) / x of half the span.
    half = np.pi * (ends_us - starts_us) / DAY_US
    middle = 2 * np.pi * ((starts_us % DAY_US) / DAY_US - PEAK) + half
    turns = np.exp(1j * middle) * np.sinc(half / np.pi)
    found: NDArray[np.float64] = 1.0 + model.spec.events.diurnal * (turns[:, None] * phasor[None, :]).real
    return found


def _cells(model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last end of each cell of time, since the workload's start."""
    spec = model.spec
    length, cell = spec.time.duration_us, spec.events.cell_us
    if not length or not cell:
        which = "events.cell" if length else "time.duration"
        raise InputError(f"{which} is 0, but there are to be events; give a length of time, such as 1m")
    count = -(-length // cell)
    _bounded(model, count * len(model.regions))
    starts = np.arange(count) * cell
    return starts, np.minimum(starts + cell, length)


def _bounded(model: Model, pieces: int) -> None:
    if pieces > PIECES_MAX:
        raise InputError(
            f"{pieces:,} cells of time by region and flash are too many to draw a count for each; at most "
            f"{PIECES_MAX:,}: make events.cell longer (it is {durations.text(model.spec.events.cell_us)})"
        )


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of time, before their counts are drawn and they are in order."""

    start_us: NDArray[np.int64]
    """Since the workload's start."""

    length_us: NDArray[np.int64]
    region: NDArray[np.int64]
    table: NDArray[np.int64]
    mean: NDArray[np.float64]
    cell: NDArray[np.int64]
    source: NDArray[np.int64]
    """Its region, or below 0 its flash: with the cell it tells a piece from all others."""


def _steady(model: Model) -> _Pieces:
    """What happens always: a piece for each cell and region."""
    spec = model.spec
    if not spec.sizes.events:
        none = np.empty(0, np.int64)
        return _Pieces(none, none, none, none, np.empty(0), none, none)
    total = rates(model).sum(axis=0)
    if not total.sum() > 0:
        raise InputError(
            f"sizes.events is {spec.sizes.events:,}, but no interest has messages; give some in counts.file, "
            f"keep more (section removal), or ask for 0 events"
        )
    starts, ends = _cells(model)
    regions = len(model.regions)
    shape = daylight(model, model.start_us + starts, model.start_us + ends) * (ends - starts)[:, None] * total
    steady = spec.sizes.events * ((1.0 - spec.events.flash_share) if spec.events.flashes else 1.0)
    mean = np.maximum(shape, 0.0) * (steady / shape.sum())
    epoch = starts // spec.events.epoch_us if epochs(model) > 1 else np.zeros_like(starts)
    region = np.tile(np.arange(regions), len(starts))
    return _Pieces(
        start_us=np.repeat(starts, regions),
        length_us=np.repeat(ends - starts, regions),
        region=region,
        table=np.repeat(epoch * regions, regions) + region,
        mean=mean.reshape(-1),
        cell=np.repeat(np.arange(len(starts)), regions),
        source=region,
    )


def _flashing(model: Model) -> _Pieces:
    """What flash crowds add: a piece for each of them and each cell that it meets."""
    flash = flashes(model)
    cell = max(1, model.spec.events.cell_us)
    ends = flash.start_us + flash.length_us
    before = flash.start_us // cell
    met = (ends - 1) // cell - before + 1
    _bounded(model, int(met.sum()))
    which = np.repeat(np.arange(len(met)), met)
    cells = np.arange(len(which)) - np.repeat(np.cumsum(met) - met, met) + before[which]
    start = np.maximum(cells * cell, flash.start_us[which])
    end = np.minimum((cells + 1) * cell, ends[which])

    def had(until: NDArray[np.int64]) -> NDArray[np.float64]:
        """The part of a crowd that has been there: the rate falls evenly to nothing."""
        part = (until - flash.start_us[which]) / max(1, flash.length_us)
        return part * (2.0 - part)

    return _Pieces(
        start_us=start,
        length_us=end - start,
        region=flash.region[which],
        table=epochs(model) * len(model.regions) + which,
        mean=flash.mean * (had(end) - had(start)),
        cell=cells,
        source=-1 - which,
    )
