"""What `tidings reproduce qos` calls: which runs each figure needs, and what is concluded from them.

Figures that show the same runs share them: 5(a) to 5(c) the growth of overlays, 5(g) and 5(h) what waste
buys. Chance depends on the seed, the workload and the number of the run alone, so that algorithms and amounts
of waste are compared on the same peers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from papers.qos import setting
from papers.qos.setting import Setting
from tidings.sim.peers import run as peers_runs
from tidings.sim.peers.run import FED, OURS, PRINTED, Outcome
from tidings.sim.peers.workload import HOT, MODERATE, TIGHT, UNIFORM

Task = dict[str, Any]
Row = dict[str, Any]

TITLE = "Delay bounds within bandwidth budgets: an overlay of peers"

FIGURES: Mapping[str, str] = {
    "5a": "Peers that have converged and that are notified, cycle by cycle (W1, uniform)",
    "5b": "The same for W2 (hot spots)",
    "5c": "Connection requests that a peer sends until it has its parents",
    "5d": "Churn: up to a tenth of all peers replaced in each cycle",
    "5e": "Construction time of up to 5,000 peers",
    "5f": "Parents of a peer, by the number of its expressions",
    "5g": "Notified peers, by the waste that everybody accepts",
    "5h": "Waste that is carried, by the waste that everybody accepts",
}

ALGORITHMS = (PRINTED, FED, OURS)
WORKLOADS = {"w1": UNIFORM, "w2": HOT}
SCENARIOS = {"s1": MODERATE, "s2": TIGHT}
ACCEPTED = (0.0, 3.125, 6.25, 12.5, 25.0, 50.0)
"""Percent, figures 5(g) and 5(h)."""

CHURN = {"w1": (0.0, 2.5, 5.0, 10.0), "w2": (0.0, 5.0, 10.0)}
"""Percent of the peers in each cycle, figure 5(d), which shows W1."""

SIZES = (256, 512, 1024, 2048, 5000)
"""Figure 5(e); quick: a quarter, half and all of the usual number."""

EXPRESSIONS = (1, 8, 16, 32, 64, 128)
RUNS, QUICK_RUNS = 3, 1
LARGE, LARGE_RUNS = 2000, 1
"""From so many peers on there is one run unless more are asked for: it takes minutes."""

PEERS = {"degree": 256}
"""Of what would take longest, at most: peers of 128 expressions have a hundred times as much to compare."""

QUICK_PEERS = {"churn": 256, "size": 256, "degree": 256}
"""The same where it must be quick; growth and waste have all peers also then."""

OFTEN = {"growth": 2, "churn": 2}
"""Where cycles are looked at one by one, so many times as many events are published in each."""

CONVERGED = 0.99
"""An overlay is constructed when so many have converged: a last straggler says little of a thousand."""

CHURN_FROM = 15
"""Under churn cycles are averaged from here on: before, the overlay is still being built."""

ROUND = 4
"""Cycles that a round of events takes at most, with the default of events."""

STILLNESS = "stillness"
"""A promise that is counted apart: whether it is kept depends on how long one waits."""

WHOLE = -1
"""In place of a cycle, in rows about a run as a whole."""

REQUESTS = -2
"""The same, in rows about connection requests."""


def tasks(
    figures: Sequence[str], quick: bool, runs: int | None, seed: int, given: Mapping[str, str]
) -> list[Task]:
    """What is to be run, the dearest first. Points that are the same run are one task."""
    chosen = setting.read(seed, given)
    most = QUICK_PEERS if quick else PEERS
    found: list[Task] = []
    for number in range(runs or (QUICK_RUNS if quick else RUNS)):
        made: dict[str, Task] = {}
        for kind, changes in _points(figures, _sizes(quick, chosen.peers)):
            peers = int(changes.get("peers", min(chosen.peers, most.get(kind, chosen.peers))))
            if peers >= LARGE and number >= (runs or LARGE_RUNS):
                continue
            course = _course(chosen, kind, changes, peers)
            task: Task = {"run": number, "setting": asdict(chosen), "course": course, "points": []}
            task = made.setdefault(repr(course), task)
            task["points"].append({"kind": kind, **changes, "peers": peers})
            task["cost"] = _cost(course, chosen.cycles)
        found += made.values()
    return sorted(found, key=lambda task: -float(task["cost"]))


def _course(chosen: Setting, kind: str, changes: Row, peers: int) -> Row:
    """What a run is to be: two points with the same are one run."""
    churn = float(changes.get("churn", 0.0)) / 100
    return {
        "subscriptions": WORKLOADS[changes.get("workload", "w1")],
        "delays": SCENARIOS[changes.get("scenario", "s1")],
        "expressions": int(changes.get("expressions", 1)),
        "algorithm": changes["algorithm"],
        "peers": peers,
        "allowed": float(changes["accepted"]) / 100 if "accepted" in changes else chosen.allowed,
        "churn": churn,
        "events": OFTEN.get(kind, 1) * chosen.events,
        "quiet": chosen.quiet,
        "rest": chosen.rest,
    }


def _cost(course: Row, cycles: int) -> float:
    """About how many seconds a run takes."""
    each = 4.0 + course["peers"] / 500 + course["events"] / 64 + 0.6 * (course["expressions"] - 1)
    return float(course["peers"] * (cycles + (course["rest"] or course["quiet"])) * each / 40_000 + 0.1)


def _points(figures: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, Row]]:
    """What is run once in each run: of which kind, and what is special about it."""
    asked = set(figures)
    if asked & {"5a", "5b", "5c"}:
        for name in WORKLOADS if asked & {"5b", "5c"} else ("w1",):
            for algorithm in ALGORITHMS:
                yield "growth", {"workload": name, "algorithm": algorithm}
    if "5d" in asked:
        for name in WORKLOADS:
            for algorithm in ALGORITHMS:
                for churn in CHURN[name]:
                    yield "churn", {"workload": name, "algorithm": algorithm, "churn": churn}
    if "5e" in asked:
        for size in sizes:
            for name in WORKLOADS:
                for algorithm in ALGORITHMS:
                    yield "size", {"workload": name, "algorithm": algorithm, "peers": size}
    if "5f" in asked:
        for expressions in EXPRESSIONS:
            for algorithm in ALGORITHMS:
                yield "degree", {"workload": "w1", "algorithm": algorithm, "expressions": expressions}
    if asked & {"5g", "5h"}:
        for scenario in SCENARIOS:
            for algorithm in ALGORITHMS:
                for accepted in ACCEPTED:
                    yield "waste", {"scenario": scenario, "algorithm": algorithm, "accepted": accepted}


def _sizes(quick: bool, peers: int) -> Sequence[int]:
    most = min(peers, QUICK_PEERS["size"])
    return tuple(max(2, most // part) for part in (4, 2, 1)) if quick else SIZES


def run(task: Task) -> list[Row]:
    """One overlay, from its first peer to its last cycle, and what each of its points needs of it."""
    chosen, course = Setting(**task["setting"]), dict(task["course"])
    drawn = {name: course.pop(name) for name in ("subscriptions", "delays", "expressions")}
    outcome = peers_runs.run(
        chosen.course(chosen.workload(**drawn), **course), f"{chosen.seed}/{task['run']}"
    )
    what = {"run": task["run"], **drawn, **course}
    rows = [{"kind": "run", **what, **row} for row in _judged(outcome)]
    if outcome.rested:
        rows.append(
            {
                "kind": "rest",
                **what,
                "moved": outcome.moved,
                "restless": int(any(one.promise == STILLNESS for one in outcome.breaches)),
                "converged": 100 * outcome.rested[-1].converged,
                # A round of events ends in one of these: in the other somebody may not have been tried.
                "notified": 100 * max(one.notified for one in outcome.rested[-ROUND:]),
            }
        )
    for point in task["points"]:
        mine = {**point, "run": task["run"]}
        rows.append(
            {
                **mine,
                "cycle": WHOLE,
                "converged": 100 * outcome.last.converged,
                "notified": 100 * outcome.last.notified,
                "waste": 100 * outcome.last.waste,
                "reached": 100 * outcome.reached,
                "in_degree": outcome.in_degree,
                "in_degree_converged": outcome.in_degree_converged,
                "built_at": outcome.built_at(CONVERGED),
                "capacity": 100 * outcome.capacity,
                "messages": outcome.messages,
                "carried": outcome.carried,
            }
        )
        if point["kind"] in ("growth", "churn"):
            rows += [
                {**mine, "cycle": one.cycle, "converged": 100 * one.converged, "notified": 100 * one.notified}
                for one in outcome.cycles
            ]
        if point["kind"] == "growth":
            rows += [
                {**mine, "cycle": REQUESTS, "requests": requests, "count": count}
                for requests, count in sorted(outcome.requests.items())
            ]
    return rows


def _judged(outcome: Outcome) -> Iterator[Row]:
    """What is counted of each run, whatever it is for."""
    counts: dict[str, Counter[str]] = {
        "run": Counter(all=1),
        "breach": Counter(one.promise for one in outcome.breaches),
        "judged": outcome.judged,
        "cause": outcome.causes,
        "forecast, at the start": outcome.forecasts_first,
        "forecast, later": outcome.forecasts,
    }
    for what, counted in counts.items():
        for name, count in sorted(counted.items()):
            yield {"what": what, "name": name, "count": count}


# Concluding.


def conclude(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """A table for each figure, and numbers for the claims."""
    of: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of[row["kind"]].append(row)
    tables: dict[str, list[Row]] = {"by_run": _by_run(rows)}
    numbers: dict[str, float] = {}
    for kind, own in of.items():
        made, said = _CONCLUDE[kind](own)
        tables |= made
        numbers |= said
    return tables, numbers


def _by_run(rows: Sequence[Row]) -> list[Row]:
    """What each run came to, before any means are taken."""
    points = ("kind", "workload", "scenario", "algorithm", "accepted", "churn", "expressions", "peers", "run")
    found = ("converged", "notified", "waste", "reached", "in_degree", "built_at", "capacity")
    whole = [row for row in rows if row.get("cycle") == WHOLE]
    return [
        {name: row.get(name, "") for name in points} | {name: row[name] for name in found}
        for row in sorted(whole, key=lambda row: [(str(type(at)), at) for at in map(row.get, points)])
    ]


def _runs(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """What was judged, broken, foreseen and reported, over all runs."""
    by = ("algorithm", "delays", "allowed", "churn", "what", "name")
    counts: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in rows:
        counts[tuple(row[name] for name in by)] += row["count"]
    table = [
        dict(zip(by, key, strict=True)) | {"count": count}
        for key, count in sorted(counts.items(), key=lambda item: repr(item[0]))
    ]
    broken = [row for row in rows if row["what"] == "breach" and row["name"] != STILLNESS]
    said = {
        "breaches": sum(row["count"] for row in broken),
        "breaches_repaired": sum(row["count"] for row in broken if row["algorithm"] != PRINTED),
        "runs": sum(row["what"] == "run" for row in rows),
    }
    for what, number in (("forecast, at the start", "first"), ("forecast, later", "later")):
        told = dict.fromkeys(("yes, fed", "yes, not fed", "no, fed", "no, not fed", "nothing"), 0)
        for row in rows:
            if row["what"] == what and row["algorithm"] == OURS:
                told[row["name"]] += row["count"]
        for answer, true in (("yes", "yes, fed"), ("no", "no, not fed")):
            total = sum(count for name, count in told.items() if name.startswith(answer))
            if total:
                said[f"forecast_{number}_{answer}"] = 100 * told[true] / total
    return {"runs": table}, said


def _rest(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    """After how much quiet nothing changed any more, and what it had come to by then."""
    by = ("algorithm", "subscriptions", "delays", "allowed", "churn", "expressions", "peers", "events")
    ordered = sorted(rows, key=lambda row: [row[name] for name in by])
    table = _means(ordered, by, ("moved", "converged", "notified"), ("moved",))
    for point in table:
        point["restless"] = sum(row["restless"] for row in _at(rows, **{name: point[name] for name in by}))
    repaired = [row for row in rows if row["algorithm"] != PRINTED]
    said = {"restless": 100 * fmean(row["restless"] for row in rows)}
    if repaired:
        said["restless_repaired"] = 100 * fmean(row["restless"] for row in repaired)
    return {"rest": table}, said


def _means(
    rows: Iterable[Row], by: Sequence[str], of: Sequence[str], spread: Sequence[str] = ()
) -> list[Row]:
    """One row for each point: means over its runs, and of some the least and the most."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return [
        dict(zip(by, key, strict=True))
        | {name: fmean(row[name] for row in own) for name in of}
        | {f"{name}_least": min(row[name] for row in own) for name in spread}
        | {f"{name}_most": max(row[name] for row in own) for name in spread}
        | {"runs": len(own)}
        for key, own in groups.items()
    ]


def _growth(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    by_cycle = _means(
        (row for row in rows if row["cycle"] >= 0),
        ("workload", "algorithm", "cycle"),
        ("converged", "notified"),
        ("notified",),
    )
    whole = _at(rows, cycle=WHOLE)
    tables: dict[str, list[Row]] = {}
    numbers: dict[str, float] = {}
    built = {
        row["workload"]: row["built_at"]
        for row in _means(_at(whole, algorithm=FED), ("workload",), ("built_at",))
    }
    for figure, workload in (("5a", "w1"), ("5b", "w2")):
        own = _at(by_cycle, workload=workload)
        if not own:
            continue
        tables[f"figure{figure}"] = own
        fed = _at(own, algorithm=FED)
        numbers |= {
            f"{figure}_converged": fed[-1]["converged"],
            f"{figure}_notified": fed[-1]["notified"],
            f"{figure}_notified_above": max(
                row["notified"] - row["converged"] for row in fed if row["converged"] < 100
            )
            if any(row["converged"] < 100 for row in fed)
            else 0.0,
            f"{figure}_built_at": built[workload],
        }
        requests = _spread(_at(rows, cycle=REQUESTS, workload=workload))
        tables["figure5c"] = [*tables.get("figure5c", []), *requests]
        numbers[f"5c_{workload}_median"] = next(
            row["requests"] for row in _at(requests, algorithm=FED) if row["within"] >= 50
        )
    if "w2" in built:
        numbers["5b_longer"] = built["w2"] - built["w1"]
    return tables, numbers


def _spread(rows: Sequence[Row]) -> list[Row]:
    """Which share of the peers sent how many requests, and at most so many."""
    found = []
    for algorithm in ALGORITHMS:
        counts: dict[int, int] = defaultdict(int)
        for row in _at(rows, algorithm=algorithm):
            counts[row["requests"]] += row["count"]
        total, so_far = sum(counts.values()), 0
        for requests, count in sorted(counts.items()):
            so_far += count
            found.append(
                {
                    "workload": rows[0]["workload"],
                    "algorithm": algorithm,
                    "requests": requests,
                    "share": 100 * count / total,
                    "within": 100 * so_far / total,
                }
            )
    return found


def _churn(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    last = max(row["cycle"] for row in rows)
    begin = CHURN_FROM if last > 2 * CHURN_FROM else last // 2
    groups: dict[tuple[str, str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row["cycle"] >= begin:
            groups[row["workload"], row["algorithm"], row["churn"]].append(row)
    table = [
        {
            "workload": workload,
            "algorithm": algorithm,
            "churn": churn,
            **{name: fmean(row[name] for row in own) for name in ("converged", "notified")},
            **{f"{name}_deviation": pstdev(row[name] for row in own) for name in ("converged", "notified")},
        }
        for (workload, algorithm, churn), own in sorted(groups.items())
    ]
    numbers: dict[str, float] = {}
    for workload in WORKLOADS:
        own = _at(table, workload=workload, algorithm=FED)
        numbers |= {
            f"5d_{workload}_notified_step": min(
                one["notified"] - two["notified"] for one, two in pairwise(own)
            ),
            f"5d_{workload}_below": min(row["converged"] - row["notified"] for row in own),
            f"5d_{workload}_notified_10": own[-1]["notified"],
        }
    return {"figure5d": table}, numbers


def _size(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    table = _means(
        sorted(rows, key=lambda row: (row["workload"], row["algorithm"], row["peers"])),
        ("workload", "algorithm", "peers"),
        ("built_at", "converged", "notified", "messages"),
        ("built_at",),
    )
    times = {
        workload: [row["built_at"] for row in _at(table, workload=workload, algorithm=FED)]
        for workload in WORKLOADS
    }
    return {"figure5e": table}, {
        "5e_w1_growth": times["w1"][-1] / times["w1"][0],
        "5e_w2_growth": times["w2"][-1] / times["w2"][0],
        "5e_w2_longer": fmean(two - one for one, two in zip(times["w1"], times["w2"], strict=True)),
    }


def _degree(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    table = _means(
        sorted(rows, key=lambda row: (row["algorithm"], row["expressions"])),
        ("algorithm", "expressions", "peers"),
        ("in_degree", "in_degree_converged", "converged", "notified", "waste"),
        ("in_degree",),
    )
    degree = {row["expressions"]: row["in_degree"] for row in _at(table, algorithm=FED)}
    return {"figure5f": table}, {
        "5f_added_8": degree[8] - degree[1],
        "5f_added_128": degree[128] - degree[1],
        "5f_growth": degree[128] - degree[8],
    }


def _waste(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, float]]:
    table = _means(
        sorted(rows, key=lambda row: (row["scenario"], ALGORITHMS.index(row["algorithm"]), row["accepted"])),
        ("scenario", "algorithm", "accepted"),
        ("notified", "converged", "reached", "waste", "capacity"),
        ("notified", "waste"),
    )
    numbers: dict[str, float] = {}
    for row in table:
        point = f"{row['scenario']}_{row['algorithm']}_{row['accepted']:g}"
        numbers |= {f"5g_{point}": row["notified"], f"5h_{point}": row["waste"]}
    numbers |= {
        "5g_s1_ours_added_0": numbers["5g_s1_ours_0"] - numbers["5g_s1_fed_0"],
        "5g_s2_above_capacity": max(
            row["notified"] - row["capacity"] for row in rows if row["scenario"] == "s2"
        ),
        "5h_above": max(row["waste"] - row["accepted"] for row in table),
        "5h_s2_more": numbers["5h_s2_fed_50"] - numbers["5h_s2_fed_12.5"],
    }
    of_g = [{name: value for name, value in row.items() if not name.startswith("waste")} for row in table]
    shown = ("scenario", "algorithm", "accepted", "waste", "waste_least", "waste_most", "runs")
    of_h = [{name: row[name] for name in shown} for row in table]
    return {"figure5g": of_g, "figure5h": of_h}, numbers


def _at(rows: Iterable[Row], **point: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in point.items())]


_CONCLUDE = {
    "run": _runs,
    "rest": _rest,
    "growth": _growth,
    "churn": _churn,
    "size": _size,
    "degree": _degree,
    "waste": _waste,
}


def plot(tables: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """The figures as files."""
    from papers.qos import plots

    return plots.draw(tables, folder)
