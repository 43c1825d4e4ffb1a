"""A workload as it is run to see what a plan gives: clients where they are, or where the plan has them.

Nothing goes wrong and nobody is there who is not in the workload, so that what is counted is its own. What
was told of gathered topics is then not known in full, and who should have it cannot be judged. So of each
report that was accepted it is asked that a seat decided on it, once, and the same workload is run again with
sessions that want everything, only to be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidings.sim.brokers import workload
from tidings.sim.brokers.promises import BREACHES_MAX, Breach
from tidings.sim.brokers.replay import Replay
from tidings.sim.brokers.replay_run import GatheredReplayRun, ReplayRun
from tidings.sim.brokers.run import Plan, Progress, Run
from tidings.sim.plans.counts import Counts

LAST = "always the last"
"""The promise that can be judged only by who knows all that was told."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one run."""

    counts: Counts
    trees: Mapping[str, tuple[tuple[str, str], ...]]
    """By root: each broker with the one above it, as brokers say themselves when all is over."""

    breaches: tuple[Breach, ...]
    virtual_s: float


def session(client: int) -> str:
    """The name of a client's session, as `replay_runs` gives it."""
    return f"c{client}"


def seated(replay: Replay, homes: Mapping[int, str]) -> Replay:
    """The same workload with some clients elsewhere."""
    return replace(
        replay,
        homes={**replay.homes, **homes},
        happenings=tuple(
            replace(one, broker=homes[one.client]) if one.client in homes else one
            for one in replay.happenings
        ),
    )


def run(
    replay: Replay,
    seed: int,
    progress: Progress = lambda _text, _share: None,
    *,
    kind: type[Run] | None = None,
) -> Seen:
    """All of it, from start to judgement; `kind` for another run than the workload's own."""
    plan = _planned(replay, seed)
    counts = Counts({session(client): home for client, home in replay.homes.items()})
    own: type[Run] = ReplayRun if replay.declared is None else GatheredTrialRun
    made = (kind or own)(plan, record=counts, progress=progress)
    outcome = made.run()
    counts.end()
    trees: dict[str, list[tuple[str, str]]] = {}
    for name, status in made.world.statuses().items():
        for tree in status.trees:
            if tree.parent is not None:
                trees.setdefault(tree.root, []).append((name, tree.parent))
    return Seen(
        counts,
        {root: tuple(links) for root, links in trees.items()},
        tuple(outcome.breaches),
        outcome.measures.virtual_s,
    )


def judged(replay: Replay, seed: int, progress: Progress = lambda _text, _share: None) -> list[Breach]:
    """What was broken, as somebody sees who wants everything; for gathered topics."""
    return GatheredReplayRun(_planned(replay, seed), progress=progress).run().breaches


def _planned(replay: Replay, seed: int) -> Plan:
    count = len(replay.happenings)
    return Plan(
        seed=seed,
        topology=replay.topology,
        workload=workload.Workload(
            topics=max(1, len(replay.topics)),
            subscriptions=len(replay.followers),
            publications=count,
            # So that the run knows how long it takes.
            rate_per_s=count / replay.lasts_s if count and replay.lasts_s else 1.0,
        ),
        replay=replay,
    )


class GatheredTrialRun(GatheredReplayRun):
    """One run of a workload's reports, without those who would watch it, and without probes."""

    def _subscribe(self) -> None:
        ReplayRun._subscribe(self)  # what it has in common with a run of events

    def _probe(self) -> None:
        self._calm = self.world.ledger.turn

    def _judge(self) -> list[Breach]:
        known = [breach for breach in super()._judge() if breach.promise != LAST]
        return known + list(self._decided())[:BREACHES_MAX]

    def _decided(self) -> Iterator[Breach]:
        accepted = sum(offer.accepted is not None for offer in self.world.ledger.offers)
        decided = self.notes.decided
        if len(decided) != accepted:
            yield Breach("nothing lost", f"{accepted} reports were accepted, and seats had {len(decided)}")
        for report, fates in sorted(decided.items()):
            if len(fates) > 1:
                yield Breach("nothing twice", f"report {report} was decided on {len(fates)} times: {fates}")
