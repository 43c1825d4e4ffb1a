"""What a command imports before it does anything: no more than it needs itself."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

from tidings.cli import LazyCommand, app
from tidings.cli.commands import COMMANDS, GROUPS

HEAVY = {
    *("tidings.gathering", "tidings.live.service", "tidings.matching", "tidings.mqtt", "tidings.overlay"),
    *("tidings.pipeline", "tidings.sim", "asyncio", "matplotlib", "numba", "numpy", "pyarrow", "pyspark"),
    *("rich", "sqlglot", "uvloop"),
}
"""What is expensive to import."""

PROGRAM = """
import json, sys
sys.argv[1:] = json.loads(sys.argv[1])
from tidings.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    """The modules that are there when a command ends."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)], capture_output=True, check=True, text=True
    )
    assert ended.stdout
    modules: list[str] = json.loads(ended.stderr.splitlines()[-1])
    return set(modules)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("--version",), set()),
        (("--help",), {"rich"}),
        (("plan", "--help"), {"rich"}),
        (("broker", "--help"), {"rich"}),
        (("reproduce", "--help"), {"rich"}),
        (("up", "--help"), {"rich"}),
        (("simulate", "--help"), {"rich"}),
        (("centre", "--help"), {"rich"}),
        (("filter", "dz", "--help"), {"rich", "asyncio"}),
        (("match", "--help"), {"rich", "asyncio"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_command_imports_only_what_it_needs(arguments: tuple[str, ...], allowed: set[str]) -> None:
    modules = imported(*arguments)
    assert modules & HEAVY == allowed
    if len(arguments) == 1:
        assert {name for name in modules if name.startswith("tidings.cli.")} == {"tidings.cli.commands"}


def lazy() -> dict[str, LazyCommand]:
    import typer

    group = typer.main.get_command(app)
    found: dict[str, LazyCommand] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if isinstance(command, LazyCommand):
            found[name] = command
        else:
            found |= {f"{name} {word}": inner for word, inner in command.commands.items()}
    return found


def test_the_lists_of_commands_show_what_each_command_says_of_itself() -> None:
    """The lists are made without importing the commands, from lines of their own."""
    found = lazy()
    assert found.pop("center").hidden
    assert list(found) == list(COMMANDS)
    assert {name.partition(" ")[0] for name in COMMANDS if " " in name} == set(GROUPS)
    for name, (_, line) in COMMANDS.items():
        said = inspect.cleandoc(found[name].loaded().help).partition("\n\n")[0]
        assert " ".join(said.split()) == line


def test_the_help_of_simulate_names_every_kind_of_fault() -> None:
    from tidings.cli.research import simulate
    from tidings.sim import faults

    assert ", ".join(faults.ALL) == simulate.FAULTS


def test_the_help_of_centre_names_every_protocol() -> None:
    from tidings.overlay.gather.centre import FINDERS

    found = {parameter.name: parameter for parameter in lazy()["centre"].loaded().params}
    assert found["protocol"].metavar == "|".join(FINDERS)
