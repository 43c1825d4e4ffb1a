"""The page that says which test keeps which sentence names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "README.md"


def named() -> list[tuple[str, str]]:
    return re.findall(r"`([\w./]+\.py)::(\w+)`", PAGE.read_text())


@cache
def defined(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_every_test_that_the_page_names_exists() -> None:
    missing = [f"{file}::{name}" for file, name in named() if name not in defined((HERE / file).resolve())]
    assert missing == []
    assert len(named()) > 100


def test_every_sentence_has_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    without = [row for row in rows if "::" not in row and row != "| sentence | tests |"]
    assert without == []
    assert len(rows) > 50
