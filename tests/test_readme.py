"""Every command of the README runs: the quick start in tests/client/test_examples.py, all others here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks import pipeline
from tidings.cli import LazyCommand, app

ROOT = Path(__file__).resolve().parent.parent

ELSEWHERE = {
    "make demo": "tests/cli runs the demonstration",
    "make test": "this is it",
    "pip install": "tests/test_packaging.py installs the wheel",
}
"""What begins so is not run here, and why."""

WORDS = ("match", "filter", "topic")
"""Commands that take no network, no Spark and no time."""


def sections() -> dict[str, list[list[str]]]:
    """The shell commands of the README by heading, block by block, without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        blocks = re.findall(r"^```sh\n(.*?)^```", part, re.S | re.M)
        found[part.partition("\n")[0]] = [
            [line.partition("  #")[0].strip() for line in block.splitlines() if line.strip()]
            for block in blocks
        ]
    return found


def commands() -> list[str]:
    """All of them but the quick start's, and what is done elsewhere."""
    return [
        command
        for name, blocks in sections().items()
        if name != "Quick start"
        for block in blocks
        for command in block
        if not command.startswith(tuple(ELSEWHERE))
    ]


def benchmarks() -> list[str]:
    """The commands behind figures."""
    return re.findall(r"`(python benchmarks/[^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))


PIPELINE = [command for command in benchmarks() if "/pipeline.py" in command]


def is_quick(command: str) -> bool:
    return command.split()[:2] in [["tidings", word] for word in WORDS] and "my-workload" not in command


QUICK = [command for command in commands() if is_quick(command)]
SLOW = [
    block
    for name, blocks in sections().items()
    if name != "Quick start"
    for block in blocks
    if set(block) & set(commands()) - set(QUICK)
]


def run(command: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": beside, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which commands find what they name, and leave what they make."""
    for name in ("examples", "papers", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_every_command_is_run_somewhere() -> None:
    assert QUICK
    assert {command.split()[0] for command in commands()} == {"tidings"}
    assert {command for block in SLOW for command in block} | set(QUICK) >= set(commands())
    named = {
        prefix
        for prefix in ELSEWHERE
        for blocks in sections().values()
        for block in blocks
        for c in block
        if c.startswith(prefix)
    }
    assert named == set(ELSEWHERE)


def test_every_figure_has_a_command_that_makes_it() -> None:
    """In a table of figures a row without one is made by the one above it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## How fast it is\n")[2]
    rows = re.findall(r"^\|.+\|$", text.partition("\n## ")[0], re.MULTILINE)[2:]
    assert len(rows) >= 10
    assert "`python benchmarks/" in rows[0]
    assert len(benchmarks()) == sum("`python benchmarks/" in row for row in rows)
    for command in benchmarks():
        assert (ROOT / command.split()[1]).exists()


def test_the_top_of_the_page_is_the_first_minute() -> None:
    """What it is, a picture, two commands, twenty lines, and what comes next, in this order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:6] == [
        "Two commands",
        "Twenty lines",
        "Quick start",
        "What works",
        "How fast it is",
        "Where to go next",
    ]
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert len(code.splitlines()) <= 24
    top = text.partition("\n## ")[0]
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", top)
    assert len(pictures) == 1
    for alt, file in pictures:
        assert len(alt) > 40
        assert (ROOT / file).stat().st_size < 300_000


@pytest.mark.parametrize("command", QUICK)
def test_a_command_answers(command: str, checkout: Path) -> None:
    assert run(command, checkout)


@pytest.mark.parametrize("command", sorted(set(commands()) - set(QUICK)))
def test_a_command_that_takes_long_is_understood(command: str) -> None:
    """Its words and options are those of today; the next test runs it."""
    _, *words = shlex.split(command)
    found: Any = typer.main.get_command(app)
    while not isinstance(found, LazyCommand):
        found = found.commands[words.pop(0)]
    assert found.make_context(found.name, words).params


@pytest.mark.slow
@pytest.mark.parametrize("block", SLOW, ids=lambda block: block[0].partition(" --")[0])
def test_the_commands_of_a_block_work_one_after_the_other(block: list[str], checkout: Path) -> None:
    own = {name: str(checkout) for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "TMPDIR")}
    for command in block:
        run(command, checkout, own)


def test_the_jobs_of_the_pipeline_s_benchmark_are_among_those_that_a_test_runs() -> None:
    """tests/benchmarks runs each of them; as they stand here they take minutes."""
    jobs = [word for command in PIPELINE for word in command.split()[2:] if not word.startswith("-")]
    assert jobs
    assert set(jobs) <= set(pipeline.JOBS)


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(benchmarks()) - set(PIPELINE)))
def test_a_benchmark_measures(command: str, checkout: Path) -> None:
    if "mqtt" in command and shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists():
        pytest.skip("needs mosquitto")
    # One job of many says that it measures; how long all take is no matter here.
    jobs = " --only one-to-one" if "mqtt" in command else ""
    assert run(f"{command} --quick{jobs}", checkout)
