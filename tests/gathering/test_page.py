"""The examples on the page about gathering come out as it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.test_commands import run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gathering.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


def test_every_example_comes_out_as_shown(tmp_path: Path) -> None:
    declared = tmp_path / "declared.toml"
    declared.write_text(blocks("toml")[0], encoding="utf-8")
    topics = [str(ROOT / "examples" / "traffic-athens.toml"), str(declared)]
    given, told = blocks("jsonl reports"), blocks("jsonl told")
    assert len(given) == len(told) == len(topics)
    for topic, reports, expected in zip(topics, given, told, strict=True):
        result = run("gather", "--topic", topic, "--reports", "-", "--json", given=reports)
        assert result.exit_code == 0
        assert result.stdout == expected


def test_the_drawing_is_of_the_reports_in_the_examples() -> None:
    lines = (ROOT / "examples" / "reports.jsonl").read_text(encoding="utf-8").splitlines()
    omonia = [line for line in lines if '"Omonia"' in line]
    assert blocks("jsonl reports")[0].splitlines() == omonia[:-1]
