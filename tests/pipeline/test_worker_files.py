"""What goes to other machines, and what is said of a Python there that cannot use it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidings
from tidings.errors import SetupError
from tidings.pipeline import worker_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = list(sys.version_info[:2])


def test_the_archive_depends_on_the_files_alone(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n", encoding="utf-8")
    (package / "inner" / "words.toml").write_text("a = 1\n", encoding="utf-8")
    first = worker_files.packed(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"x")
    (package / ".hidden").write_text("", encoding="utf-8")
    os.utime(package / "__init__.py", (1, 1))
    assert worker_files.packed(package) == first
    with zipfile.ZipFile(io.BytesIO(first)) as zipped:
        assert zipped.namelist() == ["package/__init__.py", "package/inner/words.toml"]
    (package / "__init__.py").write_text("x = 2\n", encoding="utf-8")
    assert worker_files.packed(package) != first


def test_the_package_is_imported_from_its_archive(tmp_path: Path) -> None:
    archive = worker_files.archive(cache=tmp_path)
    assert worker_files.archive(cache=tmp_path) == archive
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]
    code = "import tidings, tidings.workload.hashing; print(tidings.__version__, tidings.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [tidings.__version__, f"{archive}/tidings/__init__.py"]


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "shipped").write_text("", encoding="utf-8")
    with pytest.raises(SetupError, match=r"cannot be packed for workers .*XDG_CACHE_HOME"):
        worker_files.archive(cache=tmp_path)


def answer(version: list[int], missing: list[str], package: str) -> str:
    return json.dumps(["far", "/opt/python", version, missing, package])


def test_workers_that_are_as_we_need_them_are_no_trouble() -> None:
    assert worker_files.troubles([answer(HERE, [], tidings.__version__)]) == []


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (answer([3, 8], [], ""), f"runs /opt/python, Python 3.8, and this is {HERE[0]}.{HERE[1]}"),
        (answer(HERE, ["numpy", "pyarrow"], ""), "runs /opt/python, which has no numpy and no pyarrow"),
        (answer(HERE, [], "0.0.1"), f"where tidings is 0.0.1 instead of {tidings.__version__}"),
    ],
)
def test_what_is_the_matter_is_said_with_the_place(said: str, trouble: str) -> None:
    (found,) = worker_files.troubles([said])
    assert found.startswith("the worker on far runs ")
    assert found.endswith(trouble)


def test_errors_about_something_else_are_left_as_they_are() -> None:
    assert worker_files.python_trouble("Job aborted: OutOfMemoryError") is None


ALONE = """
import sys
allowed = {name.partition(".")[0] for name in sys.argv[1:]}
class Nothing:
    def find_spec(self, name, path=None, target=None):
        known = name in allowed or name in sys.stdlib_module_names or name.startswith("_")
        if path is None and not known:
            raise ModuleNotFoundError("no " + name, name=name)
sys.meta_path.insert(0, Nothing())
"""

GATHERED = """
import pyarrow as pa
from tidings.language.topics import Topic
from tidings.pipeline.gather import batch, engines, streaming
from tidings.pipeline.gather.layout import Layout
for options in ({}, {"tell_now": "n > 3"}):
    topic = {"name": "t", "kind": "gathered", "key": ["k"], "merge_after": "1s", "redundant_for": "2s"}
    fields = {"k": {"type": "string"}, "n": {"type": "int"}}
    layout = Layout(Topic.from_mapping(topic | options | {"window": "3s", "fields": fields}))
    rows = pa.table({"report": [1], "at": [0], "f0": ["a"], "f1": [4]}, schema=layout.rows)
    assert engines.gather(layout, rows).num_rows == 2, "a version and a closing"
"""

MATCHED = """
import pyarrow as pa
from tidings.pipeline.match import cells, matcher, strategies, subscriptions
table = pa.table({"subscription": [1], "where": ["n > 3"]})
asked = matcher.Matcher(*subscriptions.image(subscriptions.subscriptions_of(table, ())))
assert asked.match(pa.array([{"n": 4}]), None, None).counts.tolist() == [1]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("needed", "code"),
    [(worker_files.STATES, GATHERED), (worker_files.KERNELS, MATCHED)],
    ids=["gather", "match"],
)
def test_workers_need_nothing_that_they_are_not_asked_for(needed: tuple[str, ...], code: str) -> None:
    # Beside the package, Spark's own and what these bring with them.
    own = ("tidings", "pyspark", "py4j", "llvmlite", "six", "dateutil", "pytz", "cython_runtime")
    done = subprocess.run(
        [sys.executable, "-c", ALONE + code, *needed, *own], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_on_this_machine_nothing_is_sent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_files, "archive", lambda: pytest.fail("nothing is packed"))
    worker_files.send(spark, "local[2]", [Path("absent")])


@pytest.mark.spark
def test_workers_of_this_python_pass(spark: SparkSession) -> None:
    worker_files.check(spark)


def worker(folder: Path, site: str) -> str:
    """A Python for workers that runs some code first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(site, encoding="utf-8")
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    return str(script)


WITHOUT_PYARROW = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
sys.meta_path.insert(0, Hidden())
"""

OLDER = """
import sys
class Version(tuple):
    major, minor, micro, releaselevel, serial = 3, 9, 1, "final", 0
sys.version_info = Version((3, 9, 1, "final", 0))
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("site", "says"),
    [
        (WITHOUT_PYARROW, r"the worker on .* runs .*, which has no pyarrow\."),
        (OLDER, r"the workers' Python is another version than this one: 3\.9 there, 3\.\d+ here\."),
    ],
)
def test_workers_with_another_python_or_without_pyarrow_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str, says: str
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", worker(tmp_path / "other", site))
    with pytest.raises(SetupError, match=says) as raised:
        worker_files.check(spark)
    modules = " and ".join(worker_files.NEEDED)
    assert f"Workers need Python {HERE[0]}.{HERE[1]} with {modules}; set PYSPARK_PYTHON" in str(raised.value)


@pytest.mark.spark
def test_a_python_that_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "absent"))
    with pytest.raises(SetupError, match=rf"cannot run {tmp_path}/absent: No such file or directory"):
        worker_files.check(spark)
