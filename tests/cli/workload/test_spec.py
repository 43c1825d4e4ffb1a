"""`tidings workload spec`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tidings.cli.workload import spec as workload_spec
from tidings.errors import InputError
from tidings.workload import reading
from tidings.workload.spec import Spec

COMMAND = typer.Typer()
COMMAND.command()(workload_spec.spec)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(COMMAND, arguments)


def test_it_prints_the_default_as_toml_that_reads_back(tmp_path: Path) -> None:
    printed = run()
    assert printed.exit_code == 0
    (tmp_path / "spec.toml").write_text(printed.stdout, encoding="utf-8")
    assert reading.read(tmp_path / "spec.toml") == Spec()


def test_it_prints_a_spec_with_changes(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("seed = 5\n", encoding="utf-8")
    printed = run(str(tmp_path / "spec.toml"), "--set", "removal.top=24", "--set", "time.duration = 2h")
    spec = reading.from_text(printed.stdout)
    assert (spec.seed, spec.removal.top, spec.time.duration_us) == (5, 24, 7_200_000_000)


def test_json_has_every_value() -> None:
    shown = json.loads(run("--json", "--set", "sizes.brokers=7").stdout)
    assert shown["sizes"]["brokers"] == 7
    assert shown["dimensions"]["subject"] == {"hierarchy": "subjects"}
    assert set(reading.section_names()) <= set(shown)


@pytest.mark.parametrize("setting", ["removal.top", "=5"])
def test_what_is_no_setting_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="is not KEY=VALUE"):
        workload_spec.changed([setting])
