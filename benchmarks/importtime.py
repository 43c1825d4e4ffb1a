"""How long `import tidings` takes, beside a Python that imports nothing.

    python benchmarks/importtime.py [RUNS]

The import is timed by Python itself (`-X importtime`), the whole process by the clock; each figure is a
median over runs, taken in turns so that a busy moment falls on all. The limit that we keep to for the import
is a third of a second. The lines below it load one name each, and what that name needs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def import_ms(statement: str) -> float:
    """What `-X importtime` says of `tidings`, its own imports included; 0 when it is not imported."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], check=True, capture_output=True, text=True
    ).stderr
    for line in told.splitlines():
        _, cumulative, name = line.removeprefix("import time:").split("|")
        if name.strip() == "tidings":
            return int(cumulative) / 1000
    return 0.0


def process_ms(statement: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - begin) * 1000


def main(runs: int) -> None:
    statements = {
        "pass": "pass",
        "import tidings": "import tidings",
        "tidings.parse_filter": "import tidings; tidings.parse_filter",
        "tidings.Index": "import tidings; tidings.Index",
    }
    imports: dict[str, list[float]] = {name: [] for name in statements}
    processes: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(runs):
        for name, statement in statements.items():
            imports[name].append(import_ms(statement))
            processes[name].append(process_ms(statement))
    print(f"{'median of ' + str(runs) + ' runs':<24}{'import, ms':>12}{'process, ms':>13}")
    for name in statements:
        imported, processed = statistics.median(imports[name]), statistics.median(processes[name])
        print(f"{name:<24}{imported:>12.1f}{processed:>13.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
