"""What `tidings` shows is what we mean to show, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tidings


def test_the_front_door_shows_exactly_these_names() -> None:
    assert tidings.__all__ == [
        "Event",
        "Filter",
        "Index",
        "Report",
        "Scan",
        "TidingsError",
        "Topic",
        "Unknown",
        "__version__",
        "connect",
        "covers",
        "merge",
        "overlaps",
        "parse_filter",
        "read_topic",
    ]


@pytest.mark.parametrize("name", tidings.__all__)
def test_every_name_leads_somewhere(name: str) -> None:
    assert getattr(tidings, name) is not None
    assert name in dir(tidings)


def test_another_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'parse'; it shows: Event, Filter"):
        getattr(tidings, "parse")  # noqa: B009


def test_type_checkers_see_the_same_names(root: Path) -> None:
    tree = ast.parse((root / "src" / "tidings" / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        (alias.asname or alias.name): (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tidings._HOMES
