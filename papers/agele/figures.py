"""What is run for each figure: tasks, plain values that any process can run, and rows, flat and plain too.

A task is one network with its messages under several timings, or one search for a centre. What is drawn by
chance depends on the seed, the figure, the size and the number of the run, so that neither the number of
processes nor the choice of figures changes a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from papers.agele import brokers, machine
from papers.agele.measures import Measured, baseline, overhead
from papers.agele.network import Network, grow, on_tree
from papers.agele.setting import Setting, chance
from papers.agele.workload import Occurrence, draw
from tidings.errors import InputError
from tidings.planning import topologies
from tidings.sim.gathering import centres

Task = dict[str, Any]
Row = dict[str, Any]

TB = (50.0, 75.0, 100.0, 125.0, 150.0)
"""Figure 3 and the table of figure 4."""

THRESHOLDS = tuple(float(value) for value in range(11))
"""Tm in figure 3, Tr in figure 4."""

SIZES = (100, 200, 400, 800, 1600, 3200)
"""Figure 5, and the time to find the centre in figure 6."""

ECCENTRICITIES = (7, 8, 9, 10, 11)
"""Figure 6."""

SEATS_EACH = 5
"""Figure 6: brokers of one eccentricity that are tried, one at a time, in each run."""

RUNS, QUICK_RUNS = 50, 8

QUICK_BROKERS = 100
"""Where brokers run hop by hop and it must be quick."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person wants to see."""

    figures: tuple[str, ...]
    quick: bool = False
    runs: int = RUNS
    seed: int = 0
    given: tuple[tuple[str, str], ...] = ()
    """Settings, changed."""


def tasks(asked: Asked) -> list[Task]:
    """All that is to be run, the dearest first, so that no core waits for a last long one."""
    Setting().changed(dict(asked.given))
    found = [task for figure in asked.figures for task in FIGURES[figure].tasks(asked)]
    return sorted(found, key=lambda task: -float(task["cost"]))


def run(task: Task) -> list[Row]:
    """The rows of a task."""
    figure = FIGURES[task["figure"]]
    setting = Setting().changed(task["given"] | task["setting"])
    return [{"figure": task["figure"], "run": task["run"], **row} for row in figure.run(task, setting)]


def _task(
    asked: Asked, figure: str, number: int, cost: float, setting: Mapping[str, object], **more: object
) -> Task:
    """A task; its cost is about what it takes in seconds."""
    return {
        "figure": figure,
        "run": number,
        "seed": asked.seed,
        "given": dict(asked.given),
        "setting": dict(setting),
        "cost": cost,
        **more,
    }


# What one run gives.


def _row(setting: Setting, measured: Measured, base: Measured, engine: str = "machine") -> Row:
    return {
        "engine": engine,
        "overlay": setting.overlay,
        "brokers": setting.brokers,
        "where": setting.where,
        "seat": setting.seat,
        "seats": setting.seats,
        "on_the_way": setting.on_the_way,
        "tb": setting.tb,
        "tm": setting.tm,
        "tr": setting.tr,
        "messages": measured.messages,
        "told": measured.told,
        "suppressed": measured.suppressed,
        "duplicates": measured.duplicates,
        "merges": measured.merges,
        "time": measured.time,
        "siena_time": base.time,
        "overhead": overhead(measured, base),
        "buffer": measured.open_max,
        "hops_to_seat": measured.hops_to_seat / measured.messages,
        "crossings": measured.crossings,
        "siena_crossings": base.crossings,
        "busiest": 100 * measured.busiest,
        "control": measured.control,
        "compared": 0,
        "differences": 0,
    }


def _drawn(task: Task, setting: Setting) -> tuple[Network, list[Occurrence], Measured]:
    """The network of a run, its messages, and what the baseline makes of them."""
    seed, what = task["seed"], (task["figure"], task["run"])
    network = grow(setting, seed, *what)
    occurrences = draw(setting, network, seed, *what)
    return network, occurrences, baseline(network, occurrences, setting.hop_us)


def _timings(task: Task, setting: Setting) -> Iterator[Row]:
    """One network under several timings, by the gatherer and tree distances."""
    network, occurrences, base = _drawn(task, setting)
    seat = network.seat("centre")
    for timing in task["timings"]:
        own = setting.changed(timing)
        yield _row(own, machine.gather(own, network, occurrences, seat), base)


def _on_brokers(task: Task, setting: Setting) -> Iterator[Row]:
    """The same on brokers, hop by hop, baseline included, compared with the other engine."""
    network, occurrences, base = _drawn(task, setting)
    plain = brokers.baseline(setting, network, occurrences)
    seat = network.seat("centre")
    for timing in task["timings"]:
        own = setting.changed(timing)
        measured = brokers.gather(own, network, occurrences)
        expected = machine.gather(own, network, occurrences, seat)
        row = _row(own, measured, plain, "brokers")
        differences = measured.differences(expected) + plain.differences(base)
        yield row | {"compared": 1, "differences": len(differences)}


def _either(task: Task, setting: Setting) -> Iterator[Row]:
    return _on_brokers(task, setting) if task.get("engine") == "brokers" else _timings(task, setting)


# Figures 3, 4 and 5.


def _tasks_3(asked: Asked) -> Iterator[Task]:
    merge = THRESHOLDS[::2] if asked.quick else THRESHOLDS
    timings = [{"tm": tm, "tr": 10.0} for tm in merge]
    for number in range(asked.runs):
        for tb in TB:
            yield _task(asked, "3", number, 0.02 * len(timings), {"tb": tb}, timings=timings)
    yield from _broker_tasks(asked, "3", {"tb": 100.0}, [{"tm": 4.0, "tr": 10.0}])


def _tasks_4(asked: Asked) -> Iterator[Task]:
    keep = THRESHOLDS[::2] if asked.quick else THRESHOLDS
    timings = [{"tm": 0.0, "tr": tr} for tr in keep]
    for number in range(asked.runs):
        for tb in TB:
            yield _task(asked, "4", number, 0.02 * len(timings), {"tb": tb}, timings=timings)
        more = {"tb": 100.0, "brokers": 1000}
        yield _task(asked, "4", number, 0.05 * len(timings), more, timings=timings)
    yield from _broker_tasks(asked, "4", {"tb": 100.0}, [{"tm": 0.0, "tr": 10.0}])


def _tasks_5(asked: Asked) -> Iterator[Task]:
    timings = [{"tm": 5.0, "tr": 10.0}]
    for brokers_ in SIZES:
        runs = max(1, asked.runs // 2) if asked.quick and brokers_ > 800 else asked.runs
        for number in range(runs):
            setting = {"brokers": brokers_, "tb": 50.0}
            square = (brokers_ / 400) ** 2
            yield _task(asked, "5", number, 0.03 * square, setting, timings=timings)
            if brokers_ in BROKER_RUNS and number < BROKER_RUNS[brokers_][asked.quick]:
                yield _task(asked, "5", number, 25 * square, setting, timings=timings, engine="brokers")


BROKER_RUNS = {100: (RUNS, 4), 200: (RUNS, 1), 400: (RUNS, 0)}
"""Figure 5: how many of the runs are on brokers too, in full and quick."""


def _broker_tasks(asked: Asked, figure: str, setting: Row, timings: Sequence[Row]) -> Iterator[Task]:
    """One point of a figure on brokers, in smaller networks if it must be quick."""
    own = setting | {"brokers": QUICK_BROKERS} if asked.quick else setting
    for number in range(min(asked.runs, 2)):
        yield _task(asked, figure, number, 2 if asked.quick else 45, own, timings=timings, engine="brokers")


# Figure 6: the seat elsewhere.


def _tasks_6(asked: Asked) -> Iterator[Task]:
    setting = {"brokers": 300, "tb": 100.0, "tm": 5.0, "tr": 10.0}
    for number in range(asked.runs):
        yield _task(asked, "6", number, 0.5, setting)
    for number in range(1 if asked.quick else asked.runs):
        yield _task(asked, "6", number, 6, setting, engine="brokers")


def _run_6(task: Task, setting: Setting) -> Iterator[Row]:
    network = _of_eccentricity(task, setting)
    occurrences = draw(setting, network, task["seed"], "6", task["run"])
    base = baseline(network, occurrences, setting.hop_us)
    if task.get("engine") == "brokers":
        # Brokers take the seat that their search gives them, so only the centre can be run on them.
        measured = brokers.gather(setting, network, occurrences)
        expected = machine.gather(setting, network, occurrences, network.seat("centre"))
        row = _row(setting, measured, base, "brokers")
        yield row | {
            "eccentricity": ECCENTRICITIES[0],
            "gatherers": "one",
            "compared": 1,
            "differences": len(measured.differences(expected)),
        }
        return
    eccentricities = network.eccentricities()
    source = chance(task["seed"], "6", "seats", task["run"])
    for eccentricity in ECCENTRICITIES:
        there = [at for at in range(network.size) if eccentricities[at] == eccentricity]
        for seat in source.sample(there, min(SEATS_EACH, len(there))):
            row = _row(setting, machine.gather(setting, network, occurrences, seat), base)
            yield row | {"eccentricity": eccentricity, "gatherers": "one"}
        together = machine.gather(setting, network, occurrences, machine.nearest_of(network, there))
        yield _row(setting, together, base) | {
            "eccentricity": eccentricity,
            "gatherers": "all",
            "seats": len(there),
        }


TRIES_MAX = 1000


def _of_eccentricity(task: Task, setting: Setting) -> Network:
    """A network like the paper's: the centre has eccentricity 7, and some broker at least 11 (§6.4)."""
    for attempt in range(TRIES_MAX):
        network = grow(setting, task["seed"], "6", task["run"], attempt)
        found = network.eccentricities()
        if found.min() == ECCENTRICITIES[0] and found.max() >= ECCENTRICITIES[-1]:
            return network
    raise InputError(
        f"{TRIES_MAX} overlays of {setting.brokers} brokers had none whose centre has eccentricity "
        f"{ECCENTRICITIES[0]}; change brokers or degree back"
    )


# Finding the centre.


def _tasks_centre(asked: Asked) -> Iterator[Task]:
    runs = max(1, asked.runs // (4 if asked.quick else 2))
    for overlay in ("random", "power-law"):
        for brokers_ in SIZES[:-1] if asked.quick else SIZES:
            for number in range(runs):
                setting = {"overlay": overlay, "brokers": brokers_}
                yield _task(asked, "centre", number, brokers_ / 1000, setting, shape="overlay")
    for shape in ("path", "star", "tree"):
        for brokers_ in (2, 3, 10, 100):
            yield _task(
                asked, "centre", 0, 0.02, {"brokers": brokers_, "degree": 1.0, "links_each": 1}, shape=shape
            )


def _run_centre(task: Task, setting: Setting) -> Iterator[Row]:
    shape = task["shape"]
    if shape == "overlay":
        network = grow(setting, task["seed"], "centre", task["run"])
    else:
        network = on_tree(topologies.generate(shape, setting.brokers, 0), 0)
    tree, eccentricities = network.tree(), network.eccentricities()
    expected = {id_: int(eccentricities[at]) for at, id_ in enumerate(network.ids)}
    least = min(expected.values())
    middle = {id_ for id_, eccentricity in expected.items() if eccentricity == least}
    links = network.size - 1
    for protocol in ("paper", "report"):
        for initiators in (1, min(5, network.size)):
            search = centres.find(tree, protocol=protocol, initiators=initiators, seed=task["run"])
            bound = centres.published_bound(tree)
            yield {
                "shape": setting.overlay if shape == "overlay" else shape,
                "protocol": protocol,
                "initiators": initiators,
                "brokers": network.size,
                "leaves": centres.leaves(tree),
                "centres": len(middle),
                "exact": int(set(search.centres) == middle and search.eccentricity == expected),
                **{phase: search.messages[phase] / links for phase in centres.PHASES},
                "messages": search.total,
                "per_link": search.total / links,
                "bound": bound,
                "above_bound": int(search.total > bound),
                "time": search.time * setting.hop,
            }


# Power-law overlays.


def _tasks_power_law(asked: Asked) -> Iterator[Task]:
    timings = [{"tm": tm, "tr": 10.0} for tm in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)]
    for number in range(asked.runs):
        for tb in TB[::2]:
            yield _task(asked, "power-law", number, 0.15, {"overlay": "power-law", "tb": tb}, timings=timings)
    setting = {"overlay": "power-law", "brokers": 100, "tb": 100.0}
    yield _task(asked, "power-law", 0, 2, setting, timings=[{"tm": 4.0, "tr": 10.0}], engine="brokers")


# Beyond the paper: other seats, several of them, and what brokers on the way may do.

BEYOND = {"tb": 100.0, "tm": 5.0, "tr": 10.0}

WHERE = ("even", "corner")

STRATEGIES = ("centre", "median", "traffic")

SEATS = (1, 2, 3, 5, 9)
"""Among how many brokers around the centre events are divided."""


WAYS = ("drop", "merge")

WAY_TR = (10.0, 60.0)
"""What a seat has told can be relied on until Tr is over, so a Tr as long as the way there and back leaves
nothing to drop: the paper's, and one much longer."""


def _tasks_beyond(asked: Asked) -> Iterator[Task]:
    for number in range(asked.runs):
        for where in WHERE:
            yield _task(asked, "beyond", number, 0.2, {**BEYOND, "where": where}, part="seat")
        yield _task(asked, "beyond", number, 0.2, BEYOND, part="several")
    for number in range(min(asked.runs, 1 if asked.quick else 10)):
        setting = {**BEYOND, "brokers": QUICK_BROKERS}
        for where in WHERE:
            yield _task(asked, "beyond", number, 9, {**setting, "where": where}, part="way", engine="brokers")
        yield _task(asked, "beyond", number, 3, setting, part="several", engine="brokers")


def _run_beyond(task: Task, setting: Setting) -> Iterator[Row]:
    network, occurrences, base = _drawn(task, setting)
    part = task["part"]
    if part == "seat":
        rows = _seats(setting, network, occurrences, base)
    elif task.get("engine") != "brokers":
        rows = _several(setting, network, occurrences, base)
    else:
        changes: list[Row] = (
            [{"seats": seats} for seats in (1, 5)]
            if part == "several"
            else [{"on_the_way": way, "tr": tr} for tr in WAY_TR for way in ("nothing", *WAYS)]
        )
        rows = (_beyond_on_brokers(setting.changed(change), network, occurrences, base) for change in changes)
    for row in rows:
        yield row | {"part": part}


def _beyond_on_brokers(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], base: Measured
) -> Row:
    """One run; where brokers on the way drop reports, what is told and when must be as if they did not."""
    measured = brokers.gather(setting, network, occurrences)
    row = _row(setting, measured, base, "brokers")
    if setting.seats > 1 or setting.on_the_way == "merge":
        return row
    expected = machine.gather(setting, network, occurrences, network.seat("centre"))
    same = {"told", "merged", "time_us", "seat"} if setting.on_the_way == "drop" else set(measured.__slots__)
    return row | {"compared": 1, "differences": len(same & set(measured.differences(expected)))}


def _seats(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], base: Measured
) -> Iterator[Row]:
    """One seat, by each strategy, with all the traffic of the run known beforehand.

    Traffic weighs as brokers weigh it: a report where it enters as much as one version delivered at every
    broker. Were each delivery to weigh as much as a report, a topic that everybody subscribes to would have
    its traffic seat at the median whoever publishes.
    """
    entered = [0] * network.size
    for one in occurrences:
        for message in one.messages:
            entered[message.broker] += 1
    told = 0
    for strategy in STRATEGIES:
        seat = network.seat(strategy, [count * network.size + told for count in entered])
        measured = machine.gather(setting, network, occurrences, seat)
        told = told or measured.told
        yield _row(setting, measured, base) | {"seat": strategy}


def _several(
    setting: Setting, network: Network, occurrences: Sequence[Occurrence], base: Measured
) -> Iterator[Row]:
    """Events divided among the brokers nearest to the centre, by the hash that ranks highest for each."""
    centre = network.seat("centre")
    around = sorted(range(network.size), key=lambda at: (int(network.distances[centre, at]), at))
    for count in SEATS:
        seats = around[:count]

        def seat_of(one: Occurrence, _: object, seats: Sequence[int] = seats) -> int:
            return max(seats, key=lambda seat: hashlib.blake2b(b"%d %d" % (seat, one.number)).digest())

        measured = machine.gather(setting, network, occurrences, seat_of)
        yield _row(setting.changed({"seats": count}), measured, base)


@dataclass(frozen=True, slots=True)
class Figure:
    """How one is made."""

    title: str
    tasks: Callable[[Asked], Iterator[Task]]
    run: Callable[[Task, Setting], Iterator[Row]]


FIGURES: dict[str, Figure] = {
    "3": Figure("varying Tm", _tasks_3, _either),
    "4": Figure("varying Tr", _tasks_4, _either),
    "5": Figure("more brokers", _tasks_5, _either),
    "6": Figure("the gatherer elsewhere", _tasks_6, _run_6),
    "centre": Figure("finding the centre", _tasks_centre, _run_centre),
    "power-law": Figure("power-law overlays", _tasks_power_law, _either),
    "beyond": Figure("other seats, several seats, brokers on the way", _tasks_beyond, _run_beyond),
}
