"""Notebooks of `examples/`: what is committed was executed from top to bottom, and still can be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = "examples/notebooks"

BYTES_MAX = 200_000
"""With its pictures: small enough to be read in a browser, and to be committed again and again."""

OF_A_MACHINE = re.compile(r"(?<![\w.:/])(?:/(?:home|root|Users|tmp|var|opt|usr|work|private)/|[A-Z]:\\\\)\S*")
"""Absolute paths, in which user names are too."""


def notebooks(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*.ipynb"))


def cells(path: Path, kind: str = "code") -> list[dict[str, Any]]:
    return [one for one in json.loads(path.read_text(encoding="utf-8"))["cells"] if one["cell_type"] == kind]


def texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON; pictures, which are base64, are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            yield "".join(value)
        else:
            for one in value:
                yield from texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if not name.startswith("image/"):
                yield from texts(one)


def test_there_is_a_notebook(root: Path) -> None:
    assert [path.name for path in notebooks(root)] == ["live-data.ipynb"]


def test_a_notebook_is_small_and_of_the_format_that_all_tools_read(root: Path) -> None:
    for path in notebooks(root):
        assert path.stat().st_size <= BYTES_MAX
        made = json.loads(path.read_text(encoding="utf-8"))
        assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
        assert made["metadata"]["kernelspec"]["name"] == "python3"
        ids = [one["id"] for one in made["cells"]]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one) for one in ids)
        for one in made["cells"]:
            assert one.keys() - {"execution_count", "outputs"} == {"cell_type", "id", "metadata", "source"}
            assert ("outputs" in one) == (one["cell_type"] == "code")


def test_every_cell_of_code_was_executed_in_order_and_without_an_error(root: Path) -> None:
    for path in notebooks(root):
        code = cells(path)
        assert [one["execution_count"] for one in code] == list(range(1, len(code) + 1))
        outputs = [output for one in code for output in one["outputs"]]
        assert [output for output in outputs if output["output_type"] == "error"] == []
        assert [output for output in outputs if output.get("name") == "stderr"] == []
        assert outputs, "it shows something"


def test_nothing_in_a_notebook_is_of_the_machine_that_it_was_executed_on(root: Path) -> None:
    for path in notebooks(root):
        made = json.loads(path.read_text(encoding="utf-8"))
        found = [match[0] for text in texts(made) for match in OF_A_MACHINE.finditer(text)]
        assert found == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_notebook_runs_and_leaves_nothing_behind(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    try:
        for path in notebooks(root):
            made = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
            where = {"metadata": {"path": str(tmp_path)}}
            NotebookClient(made, timeout=600, kernel_name="python3", resources=where).execute()
            nbformat.validate(made)
        assert list((tmp_path / "TMPDIR").glob("live-data-*")) == []
        assert still_running(str(tmp_path / "TMPDIR")) == []
    finally:
        # Of one that failed half way.
        for folder in (tmp_path / "TMPDIR").glob("live-data-*/run"):
            down = [sys.executable, "-c", "from tidings.cli import main; main()", "down"]
            subprocess.run(down, env={**os.environ, "XDG_RUNTIME_DIR": str(folder)}, check=False)


def still_running(mark: str) -> list[str]:
    """Commands of processes that have a text in their environment, other than this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has just ended, or is another user's
    return found
