"""What subscriptions cost the network: how soon they are granted, what others pay, what is sent again.

    python benchmarks/routing.py                    all parts, half an hour
    python benchmarks/routing.py suback restart     some of them
    python benchmarks/routing.py --quick            all parts in small sizes, some minutes

In the simulator, where every frame is encoded and decoded as between real brokers, and nothing else runs:

* change: a new subscription with two comparisons: its bytes on all links, and what it costs other brokers.
* resend: links lost and back, new epochs: filters that are sent again.
* memory: what a filter of another home takes, on many topics and on few.
* expensive: a client that asks for a hundred expensive filters at once: what that costs other brokers.
* large: 50 brokers with 10,000 subscriptions, 200 with 2,000: the same, and the bytes of member lists in a
  new epoch and of destinations in publications.

With brokers that are processes on loopback, and MQTT clients:

* suback: five brokers in a ring: how long 300 subscriptions take with all there, with one stopped, with one
  killed, and the reasons that the answers name.
* restart: a broker is killed and started again, 100 times; a client dials it every millisecond and publishes
  as soon as it is accepted. All of it must arrive at the other broker, which has 20,000 filters.
* scale: eight brokers with 100,000 subscriptions: one more, a link lost and back, a broker killed and back.

Costs are CPU time and bytes, which other work on the machine does not change much. How long a SUBACK takes is
time on the clock: on a busy machine look at p50 as well. A figure beyond its bound is marked with "!", and
the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.routing_rows import Row

from benchmarks import routing_live, routing_simulated

PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "change": routing_simulated.change,
    "resend": routing_simulated.resend,
    "memory": routing_simulated.memory,
    "expensive": routing_simulated.expensive,
    "large": routing_simulated.large,
    "suback": routing_live.suback,
    "restart": routing_live.restart,
    "scale": routing_live.scale,
}
"""Each is told whether it is to be quick."""


def shown(rows: Sequence[Row]) -> Table:
    """A section for each part."""
    table = Table("part", "figure", title="Subscriptions by home")
    table.add_column("measured", justify="right")
    table.add_column("bound", justify="right")
    for at, row in enumerate(rows):
        last = at + 1 == len(rows) or rows[at + 1].part != row.part
        first = at == 0 or rows[at - 1].part != row.part
        table.add_row(row.part if first else "", row.what, row.measured, row.limit, end_section=last)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--json", action="store_true", help="all figures as JSON, with whether each holds")
    given = parser.parse_args()
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    rows: list[Row] = []
    failed = False
    for name in given.parts or PARTS:
        console.print(f"{name} …")
        begin = time.monotonic()
        try:
            for row in PARTS[name](given.quick):
                rows.append(row)
                console.print(f"  {row.what}: {row.measured}")
        except RuntimeError as error:
            failed = True
            console.print(f"  {name}: {error}")
        console.print(f"{name}: {time.monotonic() - begin:.0f} s")
    if given.json:
        print(json.dumps([asdict(row) | {"holds": row.holds} for row in rows], indent=2))
    else:
        Console(markup=False).print(shown(rows))
    return 1 if failed or not all(row.holds for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
