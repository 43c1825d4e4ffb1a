"""All campaigns: what one seed plays, and what the seeds must cover together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from tests.simulation import waste
from tests.simulation.campaign import aimed, gathered, routing
from tests.simulation.campaign.strikes import LEAST, Cell, Strikes
from tests.simulation.switches import PLANTED, planted
from tidings.sim.brokers.run import Outcome, Plan, Run
from tidings.sim.brokers.run import chaos as plain_chaos
from tidings.sim.gathering.run import GatheredRun
from tidings.sim.gathering.run import chaos as gathered_chaos
from tidings.sim.mqtt.run import MqttRun
from tidings.sim.mqtt.run import chaos as mqtt_chaos

COMMAND = "python -m tests.simulation.campaign"


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one seed."""

    seed: int
    breaches: tuple[str, ...]

    replay: str
    """The line that plays it again."""

    cells: tuple[Cell, ...] = ()
    """What was struck."""

    thin: bool = False
    """Whether too few faults struck the protocol for the seed to show much."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """What happened, by name: an empty run proves nothing."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Many seeds with one purpose."""

    name: str
    about: str
    play: Callable[[int], Played]

    cells: tuple[Cell, ...] = ()
    """States of the protocol and the faults that must strike them in some seed."""

    always: tuple[int, ...] = ()
    """Seeds that are always played too: they have found something once."""


class Playable(Protocol):
    """A run of a plan."""

    def run(self) -> Outcome: ...


def _planned(plan: Callable[[int], Plan], run: Callable[[Plan], Playable]) -> Callable[[int], Played]:
    """Play the run of a seed's plan."""

    def play(seed: int) -> Played:
        made = plan(seed)
        playable = run(made)
        outcome = playable.run()
        counts = {"publications": made.workload.publications, "faults": len(outcome.faults)}
        breaches = tuple(map(str, outcome.breaches))
        strikes = getattr(playable, "strikes", None)
        if not isinstance(strikes, Strikes):
            return Played(seed, breaches, made.command, counts=counts)
        struck = tuple(cell for cell, _ in strikes.struck)
        thin = strikes.wanted > 0 and len(struck) < LEAST
        return Played(seed, breaches, made.command, struck, thin, counts)

    return play


def _aimed(seed: int, names: Iterable[str] = aimed.AIMED) -> Played:
    """Play the workloads that are aimed at these rules, by default at all."""
    found = tuple(f"{name}: {breach}" for name in names for breach in aimed.breaches(name, seed))
    return Played(seed, found, f"{COMMAND} aimed --seed {seed}")


def _waste(seed: int) -> Played:
    counts = asdict(waste.of_seed(seed).run())
    breaches = tuple(counts.pop("breaches"))
    return Played(seed, breaches, f"{COMMAND} waste --seed {seed}", counts=counts)


CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        Campaign(
            "routing",
            "plain topics on 5 to 12 brokers, strikes at sets of subscriptions, confirmations and epochs",
            _planned(routing.plan, routing.RoutingRun),
            routing.CELLS,
            (5131, 6228, 9054, 9130, 810897, 840190, 840303),
        ),
        Campaign(
            "gathered",
            "gathered topics on 9 to 20 brokers, strikes at seats, questions and versions on their way",
            _planned(gathered.plan, gathered.StruckRun),
            gathered.CELLS,
            (*gathered.LINES, *gathered.FOUND, *gathered.FOUND_SINCE),
        ),
        Campaign("aimed", "eight workloads, each aimed at one rule of routing, on 3 to 6 brokers", _aimed),
        Campaign("waste", "a naive judge of who is sent what, on 3 to 14 brokers", _waste),
        Campaign("chaos", "everything is drawn from the seed; plain topics", _planned(plain_chaos, Run)),
        Campaign("gathered-chaos", "the same with gathered topics", _planned(gathered_chaos, GatheredRun)),
        Campaign("mqtt", "the same with MQTT clients", _planned(mqtt_chaos, MqttRun)),
    )
}


def play(name: str, seed: int) -> Played:
    """One seed of a campaign."""
    return _whole(CAMPAIGNS[name].play, seed, f"{COMMAND} {name} --seed {seed}")


def _whole(playing: Callable[[int], Played], seed: int, replay: str) -> Played:
    """What a broker raises is a broken promise too: the next seed goes on, and this one is told."""
    try:
        return playing(seed)
    except Exception as error:  # noqa: BLE001
        return Played(seed, (f"{FAILED}: {error!r}",), replay)


FAILED = "an error"
"""How a broken promise begins that is an exception."""

ROTTEN = tuple(f"{FAILED}: {name}(" for name in ("AttributeError", "ImportError", "NameError", "TypeError"))
"""What a mutation breaks that does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """Whether a planted bug was found."""

    bug: str

    seeds: int
    """How many were played."""

    found: str
    """A broken promise of the last of them; empty if none found it."""


def hunt(name: str, seeds: Iterable[int]) -> Hunt:
    """Plant a bug, and play the campaign that is to find it, or the workload that is aimed at its rule.

    Raises RuntimeError if the bug does not fit the code: that it fails shows nothing.
    """
    count = 0
    bug = PLANTED[name]
    with planted(name):
        for count, seed in enumerate(seeds, 1):
            if bug.campaign == "aimed":
                played = _whole(lambda seed: _aimed(seed, (name,)), seed, "")
            else:
                played = play(bug.campaign, seed)
            if played.breaches:
                found = played.breaches[0]
                if found.removeprefix(f"{name}: ").startswith(ROTTEN):
                    raise RuntimeError(f"the planted bug {name!r} does not fit the code: {found}")
                return Hunt(name, count, found)
    return Hunt(name, count, "")
