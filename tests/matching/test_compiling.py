"""Compiled code is kept where it belongs, and nothing breaks where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.matching import compiling


def run(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_matching_does_not_import_numba() -> None:
    assert run("import sys, tidings.matching; print('numba' in sys.modules)") == "False"


def test_numpy_answers_before_the_kernels_are_there() -> None:
    program = """
from tidings.language.filters import parse
from tidings.matching import Index
index = Index()
index.add(0, parse("x > 1"))
index.add(1, parse("x > 2"))
print(index.engine, index.match({"x": 2}).tolist(), index.work())
"""
    assert run(program) == "numpy [0] False"


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiling.kernels_folder().parent == tmp_path / "tidings" / "numba"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiling.kernels_folder().parent == tmp_path / ".cache" / "tidings" / "numba"


def test_a_folder_that_cannot_be_made_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tidings").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiling._writable_folder() is None


def test_the_cache_setting_of_others_is_left_alone() -> None:
    program = """
import numba
numba.config.CACHE_DIR = "/somewhere/else"
from tidings.matching import compile_kernels
compile_kernels()
print(numba.config.CACHE_DIR)
"""
    assert run(program) == "/somewhere/else"


def test_several_that_compile_at_once_leave_the_setting_alone() -> None:
    program = """
import threading
import numba
from tidings.matching import compile_kernels
from tidings.matching.compiling import kept
numba.config.CACHE_DIR = "/somewhere/else"
turns = threading.Barrier(4)

def one():
    turns.wait()
    with kept():
        assert numba.config.CACHE_DIR != "/somewhere/else"
    compile_kernels()

threads = [threading.Thread(target=one) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(numba.config.CACHE_DIR)
"""
    assert run(program) == "/somewhere/else"


def test_other_kernels_have_a_folder_for_each_version_of_theirs(tmp_path: Path) -> None:
    source = tmp_path / "other_kernels.py"
    source.write_text("1")
    first = compiling.kernels_folder(source)
    source.write_text("2")
    assert len({compiling.kernels_folder(), first, compiling.kernels_folder(source)}) == 3
