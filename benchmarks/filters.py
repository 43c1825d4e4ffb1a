"""How long a filter takes to be read, beside sqlglot alone; and how soon a hostile one is refused.

    python benchmarks/filters.py [--json]

Times are of the processor, best of several runs. The ratio is to `sqlglot.parse_one` on the same text: what
we add to its tree is the check of names and types, the normal form and the limits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import sqlglot
from rich.console import Console
from rich.table import Table

from tidings.errors import FilterError
from tidings.language.filters import parse

RUNS = 5

ORDINARY = {
    "one comparison": "severity >= 3",
    "the README's": "severity >= 3 AND road IN ('A1', 'A2') AND note LIKE 'fire%'",
    "ten ranges": " AND ".join(f"a{n} BETWEEN {n} AND {n + 9}" for n in range(10)),
    "four by four": " AND ".join(f"(a{n} = 1 OR b{n} < 2)" for n in range(4)),
    "a list of a thousand": "place IN (" + ", ".join(f"'{n:05}'" for n in range(1_000)) + ")",
}

HOSTILE = {
    "too long": "x = '" + "a" * 100_000 + "'",
    "8,000 parentheses": "(" * 8_000,
    "2,000 NOTs": "NOT " * 2_000 + "x",
    "two to the twentieth": " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(20)),
    "1,500 fields, OR": " OR ".join(f"a{n}" for n in range(1_500)),
    "1,500 fields, AND": " AND ".join(f"a{n}" for n in range(1_500)),
    "an IN list of 2,000": "x IN (" + ", ".join(map(str, range(2_000))) + ")",
    "100 patterns": " AND ".join(f"x LIKE '%{n}%'" for n in range(100)),
    "8,000 dots": "a." * 8_000 + "a = 1",
    "5,000 quotes": "x = " + "''" * 5_000,
}

# Allowed, and as costly as anything that is.
WORST = {
    "63 pairs": " OR ".join(f"(x = {n} AND y = {n})" for n in range(63)),
    "15 times 15 fields": " OR ".join(
        f"({' AND '.join(f'a{n}_{m}=1' for m in range(15))})" for n in range(15)
    ),
    "200 values by OR": " OR ".join(f"x = {n}" for n in range(0, 400, 2)),
    "200 values by AND": " AND ".join(f"x <> {n}" for n in range(0, 400, 2)),
}


def best_ms(job: Callable[[], object]) -> float:
    found = []
    for _ in range(RUNS):
        begin = time.process_time()
        job()
        found.append(time.process_time() - begin)
    return min(found) * 1e3


def verdict(text: str) -> str:
    try:
        parse(text)
    except FilterError as error:
        return error.reason
    return "accepted"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    as_json = parser.parse_args().json
    parse("x = 1")
    rows: list[dict[str, object]] = []
    for name, text in ORDINARY.items():
        ours = best_ms(partial(parse, text))
        theirs = best_ms(partial(sqlglot.parse_one, text, read="spark"))
        rows.append(
            {"filter": name, "ms": ours, "sqlglot_ms": theirs, "ratio": ours / theirs, "said": "accepted"}
        )
    for name, text in {**HOSTILE, **WORST}.items():
        rows.append({"filter": name, "ms": best_ms(partial(verdict, text)), "said": verdict(text)})
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("filter", "ms", "sqlglot alone", "ratio", "answer", title="reading filters")
    for row in rows:
        figures = [f"{row[name]:.2f}" if name in row else "" for name in ("ms", "sqlglot_ms", "ratio")]
        table.add_row(str(row["filter"]), *figures, str(row["said"])[:60])
    Console().print(table)


if __name__ == "__main__":
    main()
