"""Plans of moves, tried with brokers: by hand on four brokers, and with every promise judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.records import workloads as made
from tests.sim import plan_towns as towns
from tidings.errors import InputError
from tidings.planning.plans import MovesPlan, Pair
from tidings.records.workload_reading import Workload
from tidings.sim.brokers import replay as replays
from tidings.sim.brokers.promises import Breach
from tidings.sim.plans import run
from tidings.sim.plans import trial as plan_trials
from tidings.sim.plans.trial import Load, Reason, Step, Trial

HOMES = {"0": "b2", "1": "b3", "2": "b3"}
FLOWS = [("0", "1", 5.0), ("0", "2", 5.0)]


def star(*brokers: str) -> dict[str, object]:
    """All joined to the last, as a plan has it."""
    return {"brokers": sorted(brokers), "links": [[one, brokers[-1], 1.0] for one in brokers[:-1]]}


def tried(folder: Path, plan: MovesPlan) -> Trial:
    return plan_trials.tried(plan, replays.read(Workload(folder)))


def test_on_a_tree_hops_are_the_forecast_and_links_carry_each_publication_once(tmp_path: Path) -> None:
    plan = towns.plan(towns.PATH, HOMES, {"1": "b2"}, FLOWS)
    trial = tried(towns.events(tmp_path, towns.PATH), plan)
    assert trial.breaches == ()
    assert (trial.moves, trial.unmoved, trial.messages, trial.published) == (1, 0, Pair(10, 10), 5)
    # From b2 to b3 and two links of clients; then one of two receivers is on the spot.
    assert trial.hops == (Step(Reason.FORECAST, 3.0, 2.5), Step(Reason.MEASURED, 3.0, 2.5))
    assert trial.links["b2", "b3"] == Load(Pair(10.0, 5.0), Pair(5.0, 5.0))
    assert trial.links["b0", "b1"] == Load(Pair(0.0, 0.0), Pair(0.0, 0.0))
    assert trial.backbone == (Step(Reason.FORECAST, 0.0, 0.0), Step(Reason.MEASURED, 0.0, 0.0))
    assert trial.clusters == {"east": Pair(2.0, 2.0), "west": Pair(0.0, 0.0)}
    assert trial.clients == {"b0": (0, 0), "b1": (0, 0), "b2": (1, 2), "b3": (2, 1)}


def test_on_a_ring_the_tree_is_the_reason_and_copies_are_the_next(tmp_path: Path) -> None:
    plan = towns.plan(towns.RING, HOMES, {"1": "b2"}, FLOWS)
    trial = tried(towns.events(tmp_path), plan)
    assert trial.breaches == ()
    # The tree has no link from b2 to b3: it is three links over b1 and b0.
    assert trial.hops == (
        Step(Reason.FORECAST, 3.0, 2.5),
        Step(Reason.TREE, 5.0, 3.5),
        Step(Reason.MEASURED, 5.0, 3.5),
    )
    # Ten copies over b0 and over b1; one serves both who are at b3.
    assert trial.backbone == (
        Step(Reason.FORECAST, 0.0, 0.0),
        Step(Reason.TREE, 10.0, 5.0),
        Step(Reason.ONCE, 5.0, 5.0),
        Step(Reason.MEASURED, 5.0, 5.0),
    )
    assert trial.over_links == (
        Step(Reason.MESSAGES, 10.0, 5.0),
        Step(Reason.TREE, 30.0, 15.0),
        Step(Reason.ONCE, 15.0, 15.0),
        Step(Reason.MEASURED, 15.0, 15.0),
    )
    assert trial.links["b2", "b3"] == Load(Pair(10.0, 5.0), Pair(0.0, 0.0))
    assert trial.links["b0", "b3"] == Load(Pair(0.0, 0.0), Pair(5.0, 5.0))
    assert trial.brokers["b0"].measured == Pair(5.0, 5.0)


def test_what_is_gathered_goes_by_the_seat(tmp_path: Path) -> None:
    # Each event is told once, to clients 1 and 2; it is of clients 0 and 2. What client 1 said was known.
    flows = [(sender, receiver, 5.0) for sender in "02" for receiver in "12"]
    plan = towns.plan(towns.PATH, HOMES, {"0": "b3"}, flows)
    trial = tried(towns.reports(tmp_path, towns.PATH), plan)
    assert trial.breaches == ()
    assert trial.messages == Pair(20, 20)
    # The seat is b1, the lower median of the path. From b2 by b1 to b3 it is three links, from b3 four.
    assert trial.hops == (
        Step(Reason.FORECAST, 2.5, 2.0),
        Step(Reason.SEAT, 5.5, 6.0),
        Step(Reason.MEASURED, 5.5, 6.0),
    )
    # Of b0 and b1 only b1 has to do with it: with 20 messages on their way to it and from it; or with two
    # reports and one version for each event; or with the third report too.
    assert trial.backbone == (
        Step(Reason.FORECAST, 0.0, 0.0),
        Step(Reason.SEAT, 20.0, 20.0),
        Step(Reason.ONCE, 7.5, 7.5),
        Step(Reason.MEASURED, 10.0, 10.0),
    )
    # Two messages each from b2 and from b3, to two at b3. By the seat it is 3 and 4 links; in truth a report
    # from b2 takes one, one from b3 two, and a version two; what client 1 says takes two more. Then all are
    # at b3.
    assert trial.over_links == (
        Step(Reason.MESSAGES, 10.0, 0.0),
        Step(Reason.SEAT, 70.0, 80.0),
        Step(Reason.ONCE, 25.0, 30.0),
        Step(Reason.MEASURED, 35.0, 40.0),
    )


def test_the_same_seed_gives_the_same_figures_whatever_the_hash_seed(tmp_path: Path) -> None:
    folder = made.write(tmp_path, **made.drawn(3, lasts_s=10, subscriptions=40, events=12))
    replay = replays.read(Workload(folder))
    homes = {str(client): home for client, home in replay.homes.items()}
    client = min(homes)
    goal = next(name for name in made.BROKERS if name != homes[client])
    clusters = dict.fromkeys(made.BROKERS, "all")
    plan = towns.plan(towns.RING, homes, {client: goal}, [], clusters)
    trial = plan_trials.tried(plan, replay)
    assert trial.breaches == ()
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
    program = (
        "import sys, pathlib; from tidings.planning import plans;"
        "from tidings.sim.brokers import replay; from tidings.sim.plans import trial;"
        "from tidings.records.workload_reading import Workload;"
        "at = pathlib.Path(sys.argv[1]);"
        "plan = plans.read((at / 'plan.json').read_bytes(), 'plan');"
        "print(trial.tried(plan, replay.read(Workload(at)), judge=False))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told == [f"{trial}\n"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_workload_nothing_is_left_unexplained_and_no_promise_broken(
    tmp_path: Path, seed: int
) -> None:
    folder = made.write(tmp_path, **made.drawn(seed, lasts_s=40, subscriptions=80, events=40))
    for publish in ("events", "reports"):
        replay = replays.read(Workload(folder), publish)
        homes = {str(client): home for client, home in replay.homes.items()}
        goals = {client: made.BROKERS[(int(client) + seed) % 4] for client in homes if int(client) % 3}
        plan = towns.plan(towns.RING, homes, goals, [], dict.fromkeys(made.BROKERS, "all"))
        trial = plan_trials.tried(plan, replay)
        assert trial.breaches == ()
        *_, last, measured = trial.hops
        assert measured.reason is Reason.MEASURED
        assert (last.before, last.after) == pytest.approx((measured.before, measured.after))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"moves": [{"client": "1", "from": "b2", "to": "b1", "across": True}]},
            "client 1 from b2, and the workload has it at b3",
        ),
        (
            {"moves": [{"client": "1", "from": "b3", "to": "b9", "across": True}]},
            "client 1 to 'b9', which is no broker of the network",
        ),
        ({"settings": {"count": "weight"}}, "counts messages by 'weight'; known are copy and link"),
        ({"settings": {"client_links": "two"}}, "client_links 'two' among its settings; it is a number"),
        (
            {"moves": [{"client": "ann", "from": "b2", "to": "b1", "across": True}]},
            "'ann', and clients of a workload are numbers",
        ),
        (
            {"network": star("b0", "b1", "b2", "b4")},
            "broker b4 of the plan is gone, and",
        ),
        (
            {"network": star("b1", "b0")},
            "broker b2 is new, and",
        ),
        (
            {"network": star("b0", "b2", "b3", "b1")},
            "the link b0,b1 is new|the link b0,b3 is new",
        ),
    ],
)
def test_a_plan_that_is_not_of_the_workload_is_refused(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    plan = towns.plan(towns.RING, HOMES, {"1": "b2"}, FLOWS)
    other = msgspec.json.decode(
        json.dumps({**json.loads(msgspec.json.encode(plan)), **change}), type=MovesPlan
    )
    with pytest.raises(InputError, match=says):
        tried(towns.events(tmp_path), other)


def test_clients_may_be_named_as_their_sessions_and_those_who_do_nothing_are_counted(tmp_path: Path) -> None:
    plan = towns.plan(towns.PATH, HOMES, {"1": "b2"}, FLOWS)
    again = [msgspec.structs.replace(plan.moves[0], client="c1"), plan.moves[0]]
    again[1] = msgspec.structs.replace(again[1], client="77")
    trial = tried(towns.events(tmp_path, towns.PATH), msgspec.structs.replace(plan, moves=again))
    assert (trial.moves, trial.unmoved) == (1, 1)


def test_a_report_that_no_seat_decided_on_is_found(tmp_path: Path) -> None:
    seen: list[str] = []

    class Forgetful(run.GatheredTrialRun):
        def _judge(self) -> list[Breach]:
            self.notes.decided.popitem()
            one = next(iter(self.notes.decided))
            self.notes.decided[one].append("merged")
            seen.extend(breach.promise for breach in super()._judge())
            return []

    replay = replays.read(Workload(towns.reports(tmp_path)))
    run.run(replay, 0, kind=Forgetful)
    assert seen == ["nothing lost", "nothing twice"]


def test_a_plan_by_lengths_is_told_in_links_too(tmp_path: Path) -> None:
    plan = towns.plan(towns.PATH, HOMES, {"1": "b2"}, FLOWS)
    network = msgspec.structs.replace(
        plan.network, links=[(a, b, length * 7) for a, b, length in plan.network.links]
    )
    by_delay = msgspec.structs.replace(
        plan, network=network, hops=Pair(7.0, 3.5), settings={"client_links": 0, "count": "link"}
    )
    trial = tried(towns.events(tmp_path, towns.PATH), by_delay)
    assert trial.hops == (
        Step(Reason.FORECAST, 7.0, 3.5),
        Step(Reason.LINKS, 3.0, 2.5),
        Step(Reason.MEASURED, 3.0, 2.5),
    )
    assert [step.reason for step in trial.backbone] == [Reason.FORECAST, Reason.MEASURED]
