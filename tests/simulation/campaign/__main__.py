"""The command: `python -m tests.simulation.campaign routing --seeds 1000 --from 0`.

Seeds are played in several processes. What came of each is kept in a file as soon as it is known, so a
campaign that was stopped goes on where it was. What is in the file counts, whatever the code was then: begin
anew (`--again`) after a change.

With `--planted` it is the campaigns that are tried: a bug is planted, and some seed must find it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.simulation.campaign.campaigns import CAMPAIGNS, COMMAND, Campaign, Played, hunt, play
from tests.simulation.campaign.strikes import Cell
from tests.simulation.switches import PLANTED
from tidings.sim.faults import Kind

Item = TypeVar("Item")
Result = TypeVar("Result")

Say = Callable[[str], object]

SEEDS, SEEDS_PLANTED = 20, 100
"""By default."""

SHOWN = 5
"""Broken promises of one seed."""

TEACHES = """examples:
  %(prog)s --list
  %(prog)s routing --seeds 1000 --from 0        fresh seeds; the same line goes on after it was stopped
  %(prog)s gathered --seeds 20 --again          from the beginning, after a change of the code
  %(prog)s routing --seed 17                    one seed, with all that it broke; nothing is kept
  %(prog)s --planted all                        whether all planted bugs are found, and how soon

exit code: 0 if no seed broke a promise, every run was struck often enough, and every cell of the table of
protocol states and faults has at least one strike in it; with --planted, if all bugs were found; 1 otherwise;
2 if the command is not understood.
"""


def main(words: Sequence[str] | None = None, say: Say = print) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Play many seeds of networks in virtual time, with faults that strike the protocol.",
        epilog=TEACHES % {"prog": COMMAND},
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=sorted(CAMPAIGNS), help="which campaign")
    parser.add_argument("--list", action="store_true", help="name all campaigns")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help=f"how many (default: {SEEDS}; {SEEDS_PLANTED} if planted)"
    )
    parser.add_argument(
        "--from", type=int, default=0, metavar="S", dest="first", help="the first (default: 0)"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="play this one alone, and say all of it")
    parser.add_argument(
        "--planted",
        choices=["all", *PLANTED],
        metavar="BUG",
        help="plant a bug, or one after the other, and play what is to find it; --list names them",
    )
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="at a time (default: 2)")
    parser.add_argument("--again", action="store_true", help="forget what has been played")
    parser.add_argument(
        "--folder", type=Path, default=Path(".campaign"), help="where it is kept (default: .campaign)"
    )
    given = parser.parse_args(words)
    if given.list:
        for campaign in CAMPAIGNS.values():
            say(f"{campaign.name:32} {campaign.about}")
        say("\nplanted bugs, each with the rule that it breaks:")
        for bug in PLANTED.values():
            say(f"{bug.name:32} {bug.rule}")
        return 0
    if given.seeds is None:
        given.seeds = SEEDS_PLANTED if given.planted else SEEDS
    if given.seeds < 1 or given.processes < 1:
        parser.error("--seeds and --processes are at least 1")
    if given.planted is not None:
        if given.name is not None or given.seed is not None:
            parser.error("a planted bug says itself what is played; give --seeds and --from")
        names = list(PLANTED) if given.planted == "all" else [given.planted]
        return hunt_all(names, range(given.first, given.first + given.seeds), given.processes, say)
    if given.name is None:
        parser.error("name a campaign; --list says which there are")
    campaign = CAMPAIGNS[given.name]
    if given.seed is not None:
        return one(campaign, given.seed, say)
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / f"{campaign.name}.jsonl"
    if given.again:
        kept.unlink(missing_ok=True)
    seeds = list(dict.fromkeys((*campaign.always, *range(given.first, given.first + given.seeds))))
    done = {seed: played for seed, played in read(kept).items() if seed in set(seeds)}
    if done:
        say(f"{len(done)} of {len(seeds)} seeds have been played; --again begins anew")
    try:
        run(campaign, [seed for seed in seeds if seed not in done], given.processes, kept, done, say)
    except KeyboardInterrupt:
        say("stopped; the same command goes on")
        return 1
    return judge(campaign, list(done.values()), say)


def run(
    campaign: Campaign,
    seeds: Sequence[int],
    processes: int,
    kept: Path,
    done: dict[int, Played],
    say: Say,
) -> None:
    """Play seeds, and keep what comes of each."""
    began, total = time.monotonic(), len(done) + len(seeds)
    with (
        kept.open("a", encoding="utf-8") as file,
        each(partial(play, campaign.name), seeds, processes) as results,
    ):
        if kept.stat().st_size and not kept.read_bytes().endswith(b"\n"):
            file.write("\n")  # the last line was not written to its end
        for count, played in enumerate(results, 1):
            done[played.seed] = played
            file.write(written(played) + "\n")
            file.flush()
            if played.breaches:
                say("")
                say_broken(played, say)
            broken = sum(bool(it.breaches) for it in done.values())
            left_s = (time.monotonic() - began) / count * (len(seeds) - count)
            progress = f"{len(done)} of {total} seeds, {broken} broken, {left_s / 60:.0f} min to go"
            if sys.stderr.isatty():
                print(f"\r{progress}   ", end="", file=sys.stderr, flush=True)
            elif count % max(1, len(seeds) // 20) == 0:
                say(progress)


@contextmanager
def each(do: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Iterable[Result]]:
    """Do something with each, in any order, in several processes if there is more than one."""
    if processes == 1 or len(items) < 2:
        yield map(do, items)
        return
    with multiprocessing.get_context("spawn").Pool(min(processes, len(items))) as pool:
        yield pool.imap_unordered(do, items)


def say_broken(played: Played, say: Say) -> None:
    say(f"seed {played.seed} broke {len(played.breaches)}: {played.breaches[0]}")
    say(f"  replay: {played.replay}")


def one(campaign: Campaign, seed: int, say: Say) -> int:
    """Play one seed here."""
    played = play(campaign.name, seed)
    say(f"replay: {played.replay}")
    for cell in played.cells:
        say(f"struck: {cell.state}, {cell.kind}")
    for breach in played.breaches:
        say(breach)
    say(f"{len(played.breaches)} broken")
    return 1 if played.breaches else 0


def judge(campaign: Campaign, played: Sequence[Played], say: Say) -> int:
    """Say what came of all; the exit code."""
    broken = sorted((it for it in played if it.breaches), key=lambda it: it.seed)
    thin = sorted(it.seed for it in played if it.thin)
    empty = table(campaign, played, say) if campaign.cells else []
    for it in broken:
        say_broken(it, say)
    if thin:
        say(f"seeds that were not struck often enough: {', '.join(map(str, thin))}")
    if empty:
        say(f"{len(empty)} of {len(campaign.cells)} cells are empty; give more seeds")
    totals: Counter[str] = Counter()
    for it in played:
        totals.update(it.counts)
    if totals:
        say(", ".join(f"{count:,} {name}" for name, count in totals.items()))
    say(f"{len(played)} seeds, {len(broken)} broken")
    return 1 if broken or thin or empty else 0


def table(campaign: Campaign, played: Sequence[Played], say: Say) -> list[Cell]:
    """Print how often each state was struck by each kind of fault; the cells that are empty."""
    counts = Counter(cell for it in played for cell in it.cells)
    states = list(dict.fromkeys(cell.state for cell in campaign.cells))
    kinds = list(dict.fromkeys(cell.kind for cell in campaign.cells))
    width = max(map(len, states))
    say(" " * width + "".join(f" {kind.value:>11}" for kind in kinds))
    for state in states:
        say(f"{state:{width}}" + "".join(f" {counts[Cell(state, kind)] or '-':>11}" for kind in kinds))
    return [cell for cell in campaign.cells if not counts[cell]]


def hunt_all(names: Sequence[str], seeds: Sequence[int], processes: int, say: Say) -> int:
    """Plant one bug after the other; the exit code."""
    missed = 0
    say(f"{'bug':32} {'campaign':10} {'seeds':>5}  broken")
    with each(partial(hunt, seeds=seeds), names, processes) as hunts:
        for it in hunts:
            missed += not it.found
            needed = str(it.seeds) if it.found else "-"
            found = it.found or f"nothing in {it.seeds} seeds"
            say(f"{it.bug:32} {PLANTED[it.bug].campaign:10} {needed:>5}  {found:.110}")
    say(f"{len(names)} bugs, {missed} not found")
    return 1 if missed else 0


def read(path: Path) -> dict[int, Played]:
    """What has been played, by seed; a last line that was not written to its end does not count."""
    found: dict[int, Played] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        cells = tuple(Cell(state, Kind(kind)) for state, kind in row["cells"])
        found[row["seed"]] = Played(
            row["seed"], tuple(row["breaches"]), row["replay"], cells, row["thin"], row["counts"]
        )
    return found


def written(played: Played) -> str:
    """One line."""
    return json.dumps(
        {
            "seed": played.seed,
            "breaches": played.breaches[:SHOWN],
            "replay": played.replay,
            "cells": [(cell.state, cell.kind) for cell in played.cells],
            "thin": played.thin,
            "counts": played.counts,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
