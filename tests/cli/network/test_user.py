"""`tidings user`: passwords never on the command line, and rules that can be asked about."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.cli.network import user
from tidings.errors import InputError
from tidings.service import users
from tidings.service.users import read_users


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that take no time, and no file from the environment of whoever runs the tests."""
    monkeypatch.setattr(users, "LOG2_N", 4)
    monkeypatch.delenv("TIDINGS_USERS_FILE", raising=False)
    monkeypatch.delenv("TIDINGS_ACCESS_FILE", raising=False)


def run(*words: str, said: str | None = None) -> Result:
    return CliRunner().invoke(app, ["user", *words], input=said)


def test_users_are_added_listed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    monkeypatch.setenv("TIDINGS_USERS_FILE", str(file))
    assert run("add", "ann", "--password-stdin", said="secret\n").exit_code == 0
    added = run("add", "bob", "--password-stdin", said="b")
    assert "is a user now" in added.stdout
    assert "another password" in run("add", "ann", "--password-stdin", said="new\r\n").stdout
    assert read_users(file).check("ann", b"new")
    assert run("list").stdout == "ann\nbob\n"
    removed = run("remove", "ann")
    assert removed.exit_code == 0
    for result in (added, removed):
        assert "kill -HUP PID; `tidings status` shows the pids\n" in result.stderr
    assert json.loads(run("list", "--json", "--file", str(file)).stdout) == ["bob"]


def test_a_password_that_nobody_says_is_not_taken(tmp_path: Path) -> None:
    file = str(tmp_path / "users")
    nothing = run("add", "ann", "--password-stdin", "--file", file, said="\n")
    assert "there is no password on standard input" in str(nothing.exception)
    pipe = run("add", "ann", "--file", file, said="secret\nsecret\n")
    assert "--password-stdin" in str(pipe.exception)
    assert not (tmp_path / "users").exists()


@pytest.mark.parametrize(("answers", "taken"), [(["secret", "secret"], True), (["secret", "other"], False)])
def test_a_password_is_asked_for_twice(
    monkeypatch: pytest.MonkeyPatch, answers: list[str], taken: bool
) -> None:
    given = iter(answers)
    monkeypatch.setattr(user, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr("getpass.getpass", lambda _: next(given))
    if taken:
        assert user._asked("ann") == "secret"
    else:
        with pytest.raises(InputError, match="the two are not the same"):
            user._asked("ann")


def test_without_a_file_the_way_out_is_told() -> None:
    result = run("list")
    assert "say --file FILE, or set TIDINGS_USERS_FILE" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("ann", "publish", "traffic/athens/ann"), 0, "yes: rule 2 of "),
        (("ann", "publish", "traffic/athens/bob"), 1, "no: no rule says that"),
        (("control", "declare", "traffic/+/status"), 0, "yes: rule 3 of "),
        (("", "subscribe", "traffic/athens/patrols"), 1, "no: rule 4 of "),
        (("", "subscribe", "traffic/#"), 1, "no: rule 4 of "),
        (("ann", "subscribe", "traffic/#"), 0, "yes: rule 1 of "),
        (("ann", "subscribe", "$SYS/#"), 1, "no: no rule says that"),
    ],
)
def test_the_example_decides_as_its_comments_say(
    root: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    result = run("check", *words, "--access", str(root / "examples" / "access.toml"))
    assert result.exit_code == code
    assert result.stdout.startswith(told)


def test_a_check_that_makes_no_sense_is_told(root: Path) -> None:
    access = str(root / "examples" / "access.toml")
    assert "is no action" in run("check", "ann", "write", "a", "--access", access).stderr
    assert "wildcard" in run("check", "ann", "publish", "a/#", "--access", access).stderr
    told = json.loads(run("check", "ann", "subscribe", "a", "--access", access, "--json").stdout)
    assert told == {"allowed": False, "rule": None, "why": "no rule says that"}
