"""`tidings plan communities`, from plain files: its limits, its warnings, its frontier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.planning.communities.towns import town
from tidings.cli import app
from tidings.errors import InputError


def run(*words: str | Path) -> Any:
    result = CliRunner().invoke(app, ["plan", "communities", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def files(tmp_path: Path) -> list[str | Path]:
    """A town in files, 30 clients at 12 brokers of four clusters."""
    network, flows = town(7, clients=30, apart=0.3)
    names = network.graph.names
    text = {
        "edges": [f"{names[a]},{names[b]}" for a, b, _ in network.graph.links],
        "clusters": [f"{name},{cluster}" for name, cluster in network.named_clusters.items()],
        "homes": [f"{name},{names[at]}" for name, at in zip(flows.clients, network.homes, strict=True)],
        "traffic": [
            f"{flows.clients[a]},{flows.clients[b]},{n}"
            for a, b, n in zip(flows.senders, flows.receivers, flows.messages, strict=True)
        ],
    }
    words: list[str | Path] = []
    for name, lines in text.items():
        (tmp_path / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words += [f"--{name}", tmp_path / f"{name}.csv"]
    return words


@pytest.mark.parametrize("algorithm", ["published", "interest", "search"])
def test_where_nobody_is_it_says_what_to_give(
    files: list[str | Path], tmp_path: Path, algorithm: str
) -> None:
    for name in ("homes", "traffic"):
        (tmp_path / f"{name}.csv").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="name at least one client with its home"):
        run(*files, "--algorithm", algorithm)
