"""From rows to tables, and from tables to the numbers that claims.toml is about.

A table has one row for each point of a figure: the median of its runs (§6.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from statistics import median

from papers.agele.figures import ECCENTRICITIES, STRATEGIES, WAY_TR, WAYS, WHERE, Row

POINT = ("engine", "overlay", "brokers", "where", "seat", "seats", "on_the_way", "tb", "tm", "tr")
"""What says which point a row belongs to."""

MEASURES = (
    "messages",
    "told",
    "suppressed",
    "duplicates",
    "merges",
    "time",
    "siena_time",
    "overhead",
    "buffer",
    "hops_to_seat",
    "crossings",
    "siena_crossings",
    "busiest",
    "control",
)

SEARCH_POINT = ("shape", "protocol", "initiators", "brokers")
SEARCH_MEASURES = (
    "leaves",
    "centres",
    "init",
    "update",
    "stable",
    "ecc",
    "announce",
    "report",
    "per_link",
    "messages",
    "bound",
    "time",
)


Take = Callable[[Sequence[float]], float]
"""From the values of several runs to one."""


def tables(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By name; each is a file."""
    by_figure: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_figure[row["figure"]].append(row)
    found: dict[str, list[Row]] = {}
    for figure, own in by_figure.items():
        name = f"figure{figure}" if figure.isdigit() else figure
        if figure == "centre":
            found[name] = _medians(own, SEARCH_POINT, SEARCH_MEASURES, {"exact": min, "above_bound": max})
        elif figure == "6":
            point = (*POINT[:5], *POINT[6:], "eccentricity", "gatherers")
            one = _medians(own, (*point, "run"), MEASURES, {"differences": max}, of=_mean)
            found[name] = _medians(one, point, MEASURES, {"differences": max})
        elif figure == "beyond":
            found[name] = _medians(own, ("part", *POINT), MEASURES, {"differences": max})
        else:
            found[name] = _medians(own, POINT, MEASURES, {"differences": max, "buffer": max})
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _medians(
    rows: Iterable[Row],
    point: Sequence[str],
    measures: Sequence[str],
    others: Mapping[str, Take],
    of: Take = median,
) -> list[Row]:
    """One row for each point."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in point)].append(row)
    take = dict.fromkeys(measures, of) | dict(others)
    return [
        {
            **dict(zip(point, key, strict=True)),
            "runs": len(own),
            **{name: float(how([row[name] for row in own])) for name, how in take.items()},
        }
        for key, own in sorted(groups.items(), key=lambda pair: tuple(map(_sortable, pair[0])))
    ]


def _sortable(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


# Numbers.


def numbers(rows: Sequence[Row], made: Mapping[str, list[Row]]) -> dict[str, float]:
    """All that can be said of what was run."""
    found: dict[str, float] = {}
    for name, say in _SAY.items():
        if name in made:
            found |= say(made[name])
    if "beyond" in made:
        found |= _beyond(rows)
    buffers = [row["buffer"] for row in rows if "buffer" in row]
    if buffers:
        found["buffer_most"] = max(buffers)
    compared = [row for row in rows if row.get("compared")]
    if compared:
        found["engines_compared"] = len(compared)
        found["engines_differences"] = sum(row["differences"] for row in compared)
    return found


def _curve(rows: Iterable[Row], by: str, measure: str, **at: object) -> dict[float, float]:
    """One measure over one axis, at a point on the others."""
    return {row[by]: row[measure] for row in rows if all(row[name] == value for name, value in at.items())}


def _spread(values: Iterable[float]) -> float:
    listed = list(values)
    return max(listed) - min(listed)


def _least_step(curve: Mapping[float, float]) -> float:
    """How much it rises where it rises least; below 0 if it falls anywhere."""
    ordered = [curve[key] for key in sorted(curve)]
    return min(later - earlier for earlier, later in pairwise(ordered))


def _by_machine(rows: Iterable[Row]) -> list[Row]:
    """Every point of a figure is there by this engine; where it is by brokers too, they were compared."""
    return [row for row in rows if row["engine"] == "machine"]


def _figure3(rows: Sequence[Row]) -> dict[str, float]:
    rows = _by_machine(rows)
    overheads = [row["overhead"] for row in rows]
    at_100 = _curve(rows, "tm", "overhead", tb=100.0)
    suppressed = {tb: _curve(rows, "tm", "suppressed", tb=tb) for tb in (50.0, 100.0, 150.0)}
    return {
        "fig3_overhead_least": min(overheads),
        "fig3_overhead_most": max(overheads),
        "fig3_overhead_most_tb100": max(at_100.values()),
        "fig3_overhead_tm4_tb100": at_100[4.0],
        "fig3_suppressed_tm4_tb100": suppressed[100.0][4.0],
        "fig3_suppressed_most": max(row["suppressed"] for row in rows),
        "fig3_suppressed_over_60": 100 * _mean([float(row["suppressed"] > 60) for row in rows]),
        "fig3_overhead_over_25": 100 * _mean([float(row["overhead"] > 25) for row in rows]),
        "fig3_tb50_above_tb150": min(suppressed[50.0][tm] - suppressed[150.0][tm] for tm in suppressed[50.0]),
        "fig3_duplicates_spread": _spread(_curve(rows, "tm", "duplicates", tb=100.0).values()),
        "fig3_suppressed_last_step": suppressed[100.0][10.0] - suppressed[100.0][8.0],
    }


def _figure4(rows: Sequence[Row]) -> dict[str, float]:
    rows = _by_machine(rows)
    own = [row for row in rows if row["brokers"] == min(one["brokers"] for one in rows)]
    more = [row for row in rows if row["brokers"] == max(one["brokers"] for one in rows)]
    suppressed = _curve(own, "tr", "suppressed", tb=100.0)
    suppressed_more = _curve(more, "tr", "suppressed", tb=100.0)
    return {
        "fig4_suppressed_tr0": suppressed[0.0],
        "fig4_suppressed_tr10": suppressed[10.0],
        "fig4_suppressed_step": _least_step(suppressed),
        "fig4_suppressed_step_more": _least_step(suppressed_more),
        "fig4_overhead_spread_tr": max(
            _spread(_curve(own, "tr", "overhead", tb=tb).values()) for tb in {row["tb"] for row in own}
        ),
        "fig4_overhead_spread_tb": _spread(_curve(own, "tb", "overhead", tr=10.0).values()),
    }


def _figure5(rows: Sequence[Row]) -> dict[str, float]:
    rows = _by_machine(rows)
    overheads = _curve(rows, "brokers", "overhead")
    merges = _curve(rows, "brokers", "merges")
    return {
        "fig5_suppressed_step": _least_step(_curve(rows, "brokers", "suppressed")),
        "fig5_overhead_least": min(overheads.values()),
        "fig5_overhead_most": max(overheads.values()),
        "fig5_merges_spread": _spread(merges[size] for size in merges if size <= 800),
    }


def _figure6(rows: Sequence[Row]) -> dict[str, float]:
    rows = _by_machine(rows)
    one = _curve(rows, "eccentricity", "time", gatherers="one")
    together = _curve(rows, "eccentricity", "time", gatherers="all")
    return {
        "fig6_time_step": _least_step(one),
        "fig6_together_step": _least_step(together),
        **{f"fig6_time_{eccentricity}": one[eccentricity] for eccentricity in ECCENTRICITIES},
    }


def _centre(rows: Sequence[Row]) -> dict[str, float]:
    def times(protocol: str) -> dict[float, float]:
        return _curve(rows, "brokers", "time", shape="random", protocol=protocol, initiators=1)

    paper = [row for row in rows if row["protocol"] == "paper"]
    overlays = [row for row in paper if row["shape"] in ("random", "power-law")]
    small, large = min(times("paper")), max(times("paper"))
    return {
        "centre_exact": 100 * min(row["exact"] for row in rows),
        "centre_above_bound_overlays": sum(row["above_bound"] for row in overlays),
        "centre_above_bound_shapes": sum(row["above_bound"] for row in paper if row not in overlays),
        "centre_stable_per_link": max(row["stable"] for row in paper),
        "centre_init_per_link": max(row["init"] for row in paper),
        "centre_per_link_paper": max(row["per_link"] for row in overlays),
        "centre_per_link_report": max(row["per_link"] for row in rows if row["protocol"] == "report"),
        "centre_time_growth": times("paper")[large] / times("paper")[small],
        "centre_time_growth_brokers": large / small,
    }


def _power_law(rows: Sequence[Row]) -> dict[str, float]:
    rows = _by_machine(rows)
    overheads = [row["overhead"] for row in rows]
    return {
        "power_overhead_least": min(overheads),
        "power_overhead_most": max(overheads),
        "power_suppressed_tm4_tb100": _curve(rows, "tm", "suppressed", tb=100.0)[4.0],
        "power_overhead_tm4_tb100": _curve(rows, "tm", "overhead", tb=100.0)[4.0],
    }


def _beyond(rows: Sequence[Row]) -> dict[str, float]:
    """Against the centre, in the same runs."""
    own = [row for row in rows if row["figure"] == "beyond"]
    seats = [row for row in own if row["part"] == "seat"]
    several = [row for row in own if row["part"] == "several" and row["engine"] == "machine"]
    ways = [row for row in own if row["part"] == "way"]
    found = {"several_busiest_5": median(row["busiest"] for row in several if row["seats"] == 5)}
    found |= _saved("several_5", several, {"seats": 1}, {"seats": 5})
    found["several_5_overhead_added"] = -found["several_5_overhead_saved"]
    for where in WHERE:
        for seat in STRATEGIES[1:]:
            before, after = {"where": where, "seat": "centre"}, {"where": where, "seat": seat}
            found |= _saved(f"{where}_{seat}", seats, before, after)
        for way, tr in product(WAYS, WAY_TR):
            here: Row = {"where": where, "tr": tr}
            name = f"{where}_{way}_tr{tr:g}"
            found |= _saved(name, ways, {**here, "on_the_way": "nothing"}, {**here, "on_the_way": way})
    return found


def _saved(name: str, rows: Sequence[Row], before: Row, after: Row) -> dict[str, float]:
    """What one way saves against another: shares of hops and crossings, percentage points of added time."""
    pairs = [(one, two) for one in _at(rows, before) for two in _at(rows, after) if one["run"] == two["run"]]
    if not pairs:
        return {}

    def share(measure: str) -> float:
        return float(median(100 * (1 - two[measure] / one[measure]) for one, two in pairs))

    return {
        f"{name}_hops_saved": share("hops_to_seat"),
        f"{name}_crossings_saved": share("crossings"),
        f"{name}_overhead_saved": median(one["overhead"] - two["overhead"] for one, two in pairs),
    }


def _at(rows: Iterable[Row], point: Mapping[str, object]) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in point.items())]


_SAY = {
    "figure3": _figure3,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure6": _figure6,
    "centre": _centre,
    "power-law": _power_law,
}
