"""A broker-only install: every command works without extras, or says in one line which extra it needs."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli import without_extras
from tests.cli.examples import commands, example, own_files
from tests.records import workloads
from tests.sim import plan_towns as towns
from tidings import installation
from tidings.planning import plans

INSTEAD = {
    "up": "up --set nonsense=1",
    "join": "join localhost",
    "session remove": "session remove meter-7 --at 127.0.0.1:1",
    "status": "status 127.0.0.1:1",
    "simulate": "simulate --brokers 2 --publications 5 --records records",
    "user add": "user add ann --file users --password-stdin",
    "user list": "user list --file users",
    "workload describe": "workload describe my-workload --no-plots",
}
"""Calls in place of a command's own example, which takes long, runs on, asks for something, or may reach a
network of a developer's own."""

FURTHER = (
    "match --workload my-workload",
    "plan check stores.json --network network.graphml --records my-records",
    "plan check stores.json --network network.graphml --rates rates.csv",
    "plan check stores.json --workload my-workload",
    "plan communities --network network.graphml --traffic traffic.csv --homes homes.csv",
    "plan communities --workload my-workload",
    "plan show stores.json --page page",
    "plan stores --k 1 --capacity 3 --network network.graphml --rates rates.csv",
    "plan stores --k 1 --capacity 3 --workload my-workload",
    "plan try moves.json --network network.graphml",
    "simulate --topology network.graphml",
    "simulate --workload my-workload --publications 5",
    "workload describe my-workload",
)
"""Calls with options that need what the example of the command does not."""

EXTRA = {
    "demo": "spark,papers,plan",
    "pipeline explain": "spark",
    "pipeline gather": "spark",
    "pipeline match": "spark",
    "pipeline run": "spark",
    "pipeline traffic": "spark",
    "plan check stores.json --network network.graphml --rates rates.csv": "sim",
    "plan check stores.json --network network.graphml --records my-records": "spark,sim",
    "plan check stores.json --workload my-workload": "spark",
    "plan communities --network network.graphml --traffic traffic.csv --homes homes.csv": "sim,plan",
    "plan communities --workload my-workload": "spark,plan",
    "plan communities": "plan",
    "plan show stores.json --page page": "papers",
    "plan stores --k 1 --capacity 3 --network network.graphml --rates rates.csv": "sim,plan",
    "plan stores --k 1 --capacity 3 --workload my-workload": "spark,plan",
    "plan stores": "plan",
    "plan try moves.json --network network.graphml": "plan,sim",
    "plan try": "plan",
    "reproduce": "papers",
    "simulate --topology network.graphml": "sim",
    "workload describe my-workload": "papers",
    "workload generate": "spark",
}
"""What needs an extra, and which one. All else must not."""

ABSENT = {"status", "leave", "forget", "pub", "sub", "bench", "session remove", "pipeline show"} | {
    *(f"topic {word}" for word in ("declare", "list", "show", "remove")),
    *(f"view {word}" for word in ("add", "list", "remove")),
}
"""What says that there is no network here, or no table; tests of its own have them."""

WRONG = {"up", "join"}
"""What refuses how it is called, before it starts a broker; tests/test_packaging.py starts one."""

BASE = {
    *("llvmlite", "msgspec", "numba", "numpy", "paho", "prometheus_client", "pyarrow", "rich", "sqlglot"),
    *("typer", "uvloop", "websockets"),
}
"""Packages that come without any extra, by their modules."""


@cache
def calls() -> dict[str, list[str]]:
    """Each command with its example, or what stands in for it; and the further calls."""
    found = {}
    for name, command in commands().items():
        found[name] = shlex.split(INSTEAD[name]) if name in INSTEAD else example(command) or name.split()
    return found | {call: shlex.split(call) for call in FURTHER}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each call came to, in one process in which no extra can be found."""
    folder = tmp_path_factory.mktemp("own")
    own_files(folder)
    workloads.write(folder / "my-workload", **workloads.drawn(1, subscriptions=20, events=10))
    (folder / "my-records").mkdir()
    moves = towns.plan(towns.RING, {"0": "b2"}, {"0": "b3"}, [])
    (folder / "moves.json").write_bytes(plans.write(moves))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    # Nobody listens there, and no network of a developer's own is meant.
    environment |= {"TIDINGS_URL": "mqtt://127.0.0.1:1", "XDG_RUNTIME_DIR": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, without_extras.__file__],
        input=json.dumps(list(calls().values())),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(calls(), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", calls())
def test_a_command_works_without_extras_or_names_the_one_it_needs(
    outcomes: dict[str, Any], name: str
) -> None:
    code, said = outcomes[name]["code"], outcomes[name]["err"]
    assert code is not None, said
    if name in EXTRA:
        assert code == 2
        (line,) = said.splitlines()
        assert f": pip install '.[{EXTRA[name]}]' in a checkout" in line
    elif name in ABSENT | WRONG:
        assert code in (1, 2), said
        assert "install" not in said
    else:
        assert code == 0, said


def test_every_table_names_what_there_is() -> None:
    assert {*INSTEAD, *EXTRA, *ABSENT, *WRONG} <= set(calls())


def imported(root: Path) -> set[str]:
    """The packages of others that our sources import, wherever."""
    found: set[str] = set()
    for file in (root / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    # The papers are beside the source.
    return found - set(sys.stdlib_module_names) - {"tidings", "papers"}


def test_every_optional_import_has_its_extra(root: Path) -> None:
    assert imported(root) - BASE <= set(installation.EXTRAS)
    assert set(installation.EXTRAS) & BASE == set()


def test_every_extra_brings_what_is_said_of_it(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {
        extra: {re.split(r"[^a-z0-9-]", package)[0] for package in packages}
        for extra, packages in project["optional-dependencies"].items()
    }
    named = {"google": "protobuf", "py4j": "pyspark"}
    for package, extra in installation.EXTRAS.items():
        assert named.get(package, package) in brought[extra]
    assert set(installation.EXTRAS.values()) == set(brought)
