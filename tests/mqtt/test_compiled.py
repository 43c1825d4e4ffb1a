"""The front door compiled with mypyc is the same: its tests are run against the compiled modules."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = (
    "reasons",
    "properties",
    "codec",
    "clients",
    "fanout",
    "publishing",
    "subscribing",
    "front",
)
"""Not `packets` and `sessions`: mypyc loses the options of msgspec classes, which are the form on disk."""


@pytest.mark.slow
def test_the_compiled_front_door_passes_the_tests_of_the_front_door(root: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("mypyc") is None:
        pytest.skip("mypyc is not installed; it comes with mypy")
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("needs a C compiler")
    package = tmp_path / "tidings"
    shutil.copytree(root / "src" / "tidings", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    # mypyc asks mypy, which reads this here and not our settings.
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n", encoding="utf-8")
    sources = [f"tidings/mqtt/{module}.py" for module in MODULES]
    compiled = subprocess.run(
        [sys.executable, "-m", "mypyc", *sources], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    # Modules that were not compiled could be taken for those that were.
    for module in MODULES:
        (package / "mqtt" / f"{module}.py").unlink()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", "import tidings.mqtt.front as front; print(front.__file__)"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(found.stdout).parent == package / "mqtt"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "tests/mqtt"],
        cwd=root,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
