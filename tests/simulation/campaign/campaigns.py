"""All campaigns: how a seed becomes a plan, which run plays it, what the seeds must cover together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.simulation.campaign import gathered, routing
from tests.simulation.campaign.strikes import LEAST, Cell, Strikes
from tidings.sim.brokers.run import Outcome, Plan, Run
from tidings.sim.brokers.run import chaos as plain_chaos
from tidings.sim.gathering.run import GatheredRun
from tidings.sim.gathering.run import chaos as gathered_chaos
from tidings.sim.mqtt.run import MqttRun
from tidings.sim.mqtt.run import chaos as mqtt_chaos


class Playable(Protocol):
    """A run of a plan."""

    def run(self) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Campaign:
    """Many seeds with one purpose."""

    name: str
    about: str
    plan: Callable[[int], Plan]
    run: Callable[[Plan], Playable]

    cells: tuple[Cell, ...] = ()
    """States of the protocol and the faults that must strike them in some seed."""

    always: tuple[int, ...] = ()
    """Seeds that are always played too: they have found something once."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one seed."""

    seed: int
    breaches: tuple[str, ...]
    cells: tuple[Cell, ...]

    thin: bool
    """Whether too few faults struck the protocol for the seed to show much."""


CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        Campaign(
            "routing",
            "plain topics on 5 to 12 brokers, strikes at sets of subscriptions, confirmations and epochs",
            routing.plan,
            routing.RoutingRun,
            routing.CELLS,
            (5131, 6228),
        ),
        Campaign(
            "gathered",
            "gathered topics on 9 to 20 brokers, strikes at seats, questions and versions on their way",
            gathered.plan,
            gathered.StruckRun,
            gathered.CELLS,
            (*gathered.LINES, 5052, 6174, 6192),
        ),
        Campaign("chaos", "everything is drawn from the seed; plain topics", plain_chaos, Run),
        Campaign("gathered-chaos", "the same with gathered topics", gathered_chaos, GatheredRun),
        Campaign("mqtt", "the same with MQTT clients", mqtt_chaos, MqttRun),
    )
}


def play(name: str, seed: int) -> Played:
    """One seed of a campaign; what a broker raises is a broken promise too."""
    campaign = CAMPAIGNS[name]
    run = campaign.run(campaign.plan(seed))
    try:
        breaches = tuple(str(breach) for breach in run.run().breaches)
    except Exception as error:  # noqa: BLE001 -- the next seed goes on, and this one is told
        breaches = (f"an error: {error!r}",)
    strikes = getattr(run, "strikes", None)
    if not isinstance(strikes, Strikes):
        return Played(seed, breaches, (), thin=False)
    struck = tuple(cell for cell, _ in strikes.struck)
    return Played(seed, breaches, struck, thin=strikes.wanted > 0 and len(struck) < LEAST)
