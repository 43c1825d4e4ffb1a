"""A packed environment: workers whose Python has nothing get all that they need from one archive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from importlib import util
from pathlib import Path

import pytest

from tests.client.log_server import LogServer
from tests.pipeline.cluster import cluster
from tidings.language.topics import Topic

PACKAGES = (
    "tidings",
    "pyspark_tidings",
    "msgspec",
    "sqlglot",
    "paho",
    "numpy",
    "pyarrow",
    "pandas",
    "dateutil",
    "pytz",
)

PROGRAM = """
import json, sys
from tidings.pipeline import session

def asked(batches):
    import pyarrow as pa
    import tidings
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"python": sys.executable, "package": tidings.__file__}])

master, url, archive, python = sys.argv[1:]
settings = {
    "spark.archives": archive + "#packages",
    "spark.executorEnv.PYTHONPATH": "packages",
    "spark.pyspark.python": python,
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
}
with session.start(master=master, settings=settings) as spark:
    rows = spark.read.format("tidings").option("url", url).load("traffic")
    told = spark.range(1).mapInArrow(asked, "python string, package string").collect()[0]
    print(json.dumps({"rows": sorted(row["n"] for row in rows.collect()), **told.asDict()}))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_workers_without_packages_get_them_from_an_archive(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in PACKAGES:
        found = util.find_spec(name)
        assert found is not None
        assert found.submodule_search_locations is not None
        folder = Path(next(iter(found.submodule_search_locations)))
        shutil.copytree(folder, packages / name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        for libraries in folder.parent.glob(f"{name}.libs"):
            shutil.copytree(libraries, packages / libraries.name)
    archive = tmp_path / "packages.tar"
    with tarfile.open(archive, "w") as opened:
        # Each by its name: Spark refuses an entry for the folder itself.
        for package in sorted(packages.iterdir()):
            opened.add(package, package.name)
    shutil.rmtree(packages)
    topic = Topic.from_mapping(
        {"name": "traffic", "kind": "plain", "keep": "1d", "fields": {"n": {"type": "int"}}}
    )
    with LogServer(topic).serve() as server, cluster(tmp_path, workers=1) as master:
        server.publish("b1", *({"n": n} for n in range(5)))
        told = subprocess.run(
            [sys.executable, "-c", PROGRAM, master, server.url, str(archive), str(bare / "bin" / "python")],
            env={**os.environ, "PYSPARK_PYTHON": str(bare / "bin" / "python")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout.splitlines()[-1])
    assert answer["rows"] == [0, 1, 2, 3, 4]
    assert answer["python"] == str(bare / "bin" / "python")
    assert "/packages/tidings/" in answer["package"]
