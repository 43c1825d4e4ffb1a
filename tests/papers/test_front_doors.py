"""Papers see only front doors."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

OURS = {
    "tidings",
    "tidings.errors",
    "tidings.gathering",
    "tidings.pipeline",
    "tidings.planning",
    "tidings.sim",
    "tidings.workload",
    "papers",
}
"""Folders whose modules may be imported, and the front door itself."""

OTHERS = {"matplotlib", "numpy", "pyarrow"}


def imports(file: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found.append(str(node.module))
    return found


def allowed(module: str) -> bool:
    top = module.partition(".")[0]
    if top in ("tidings", "papers"):
        return module == "tidings" or any(
            module == door or module.startswith(f"{door}.") for door in OURS - {"tidings"}
        )
    return top in OTHERS or top in sys.stdlib_module_names


def test_papers_import_only_front_doors(root: Path) -> None:
    files = sorted((root / "papers").rglob("*.py"))
    assert files
    assert [
        f"{file.relative_to(root)}: {module}"
        for file in files
        for module in imports(file)
        if not allowed(module)
    ] == []


@pytest.mark.parametrize("module", ["tidings.overlay.broker", "tidings.live.node", "typer", "pyspark.sql"])
def test_what_is_inside_is_not_a_front_door(module: str) -> None:
    assert not allowed(module)


def test_every_paper_has_a_page_claims_an_experiment_and_a_row(root: Path) -> None:
    listed = (root / "papers" / "README.md").read_text(encoding="utf-8")
    folders = [folder for folder in (root / "papers").iterdir() if (folder / "__init__.py").exists()]
    assert folders
    for folder in folders:
        for name in ("README.md", "claims.toml", "experiment.py"):
            assert (folder / name).exists()
        assert f"({folder.name}/README.md)" in listed
