"""The page of statements, `docs/mqtt-conformance.md`: read, and brought up to date with what tests prove.

What a statement asks and whose it is stands in the page alone. Its last column is written by this module,
from the notes that `proves` has left at the tests; a person writes there, before the tests, why we deviate,
or why a statement that only binds clients has nothing to be proved. The numbers at the top are written too.

    .venv/bin/python -m tests.mqtt.conformance.page
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "mqtt-conformance.md"

ROW = re.compile(r"\| (\d[\d.]*-\d+) \| (.+?) \| (server|client|both) \| ?(.*?) ?\|")
VERSION = re.compile(r"## MQTT (5\.0|3\.1\.1)")
COUNTS = re.compile(r"\| (5\.0|3\.1\.1) \| \d+ \| \d+ \| \d+ \| \d+ \|")
DEVIATES = "Deviates: "

Statement = tuple[str, str]
"""(version, number)"""


@dataclass(frozen=True)
class Row:
    """One statement, as the page has it."""

    version: str
    number: str
    asks: str

    whose: str
    """"server", "client" or "both"."""

    proof: str
    """Tests, or why there are none."""

    @property
    def of_servers(self) -> bool:
        return self.whose != "client"

    @property
    def deviates(self) -> bool:
        return self.proof.startswith(DEVIATES)

    @property
    def reason(self) -> str:
        """What a person has written: why we deviate, or why there is nothing to be proved."""
        return self.proof.partition("`")[0].strip()

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`(.*?)`", self.proof)


def rows(page: str) -> list[Row]:
    """All statements of the page, in its order."""
    found: list[Row] = []
    version = ""
    for line in page.splitlines():
        if heading := VERSION.fullmatch(line):
            version = heading[1]
        elif row := ROW.fullmatch(line):
            found.append(Row(version, *row.groups()))
    return found


def claims() -> dict[Statement, list[str]]:
    """What the tests say that they prove."""
    claimed: dict[Statement, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                for statement in getattr(test, "proves", ()):
                    claimed.setdefault(statement, []).append(f"{path.name}::{name}")
    return claimed


def brought_up_to_date(page: str, claimed: Mapping[Statement, list[str]]) -> str:
    """The page with the proofs and the numbers that hold now."""
    version = ""
    lines: list[str] = []
    for line in page.splitlines():
        if heading := VERSION.fullmatch(line):
            version = heading[1]
        elif match := ROW.fullmatch(line):
            row = Row(version, *match.groups())
            tests = ", ".join(f"`{test}`" for test in claimed.get((version, row.number), []))
            reason = row.reason if row.deviates or not tests else ""
            line = (
                f"| {row.number} | {row.asks} | {row.whose} | {reason}{' ' * bool(reason and tests)}{tests} |"
            )
        lines.append(line)
    known = rows("\n".join(lines))

    def counted(version: str) -> str:
        there = [row for row in known if row.version == version]
        of_servers = [row for row in there if row.of_servers]
        proved = [row for row in of_servers if row.tests and not row.deviates]
        deviating = [row for row in of_servers if row.deviates]
        return f"| {version} | {len(there)} | {len(of_servers)} | {len(proved)} | {len(deviating)} |"

    return "".join(
        (counted(match[1]) if (match := COUNTS.fullmatch(line)) else line) + "\n" for line in lines
    )


if __name__ == "__main__":
    PAGE.write_text(brought_up_to_date(PAGE.read_text(), claims()))
