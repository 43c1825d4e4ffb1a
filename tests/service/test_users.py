"""The files of users and of rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.errors import DeclarationError, InputError, SetupError
from tidings.mqtt.access import allowed
from tidings.mqtt.events import Access, Rule
from tidings.service import users
from tidings.service.access import OPEN, read_rules, write_rule
from tidings.service.users import Hashed, Users, add_user, read_users, remove_user


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that take no time."""
    monkeypatch.setattr(users, "LOG2_N", 4)


def test_a_user_that_was_added_is_known_by_the_password(tmp_path: Path) -> None:
    file = tmp_path / "users"
    assert add_user(file, "ann", b"secret")
    assert add_user(file, "bob", "schlüssel".encode())
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in file.read_bytes()
    known = read_users(file)
    assert list(known.hashes) == ["ann", "bob"]
    assert known.check("ann", b"secret")
    assert not known.check("ann", b"wrong")
    assert not known.check("eve", b"secret")
    assert list(tmp_path.iterdir()) == [file]


def test_a_password_is_changed_and_a_user_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(file, "ann", b"old")
    add_user(file, "bob", b"b")
    assert not add_user(file, "ann", b"new")
    assert [read_users(file).check("ann", one) for one in (b"old", b"new")] == [False, True]
    remove_user(file, "ann")
    assert list(read_users(file).hashes) == ["bob"]
    with pytest.raises(InputError, match="there is no user 'ann'"):
        remove_user(file, "ann")


def test_passwords_that_hold_no_more_are_those_of_users_removed_or_changed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    for name in ("ann", "bob", "carl"):
        add_user(file, name, b"old")
    before = read_users(file)
    assert read_users(file).outdated(before) == frozenset()
    remove_user(file, "ann")
    add_user(file, "bob", b"new")
    add_user(file, "dora", b"new")
    assert read_users(file).outdated(before) == {"ann", "bob"}


def test_two_users_with_one_password_have_different_hashes(tmp_path: Path) -> None:
    assert Hashed.of(b"same").hash != Hashed.of(b"same").hash


def test_what_was_found_to_fit_is_remembered_until_the_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Users({"ann": Hashed.of(b"secret")})
    assert not known.known("ann", b"secret")
    assert known.check("ann", b"secret")
    monkeypatch.setattr(Hashed, "fits", None)
    assert known.known("ann", b"secret")
    assert known.check("ann", b"secret")
    assert not known.known("ann", b"wrong")
    assert not known.known("ann\0", b"secret")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "users"
    add_user(file, "ann", b"secret")
    file.chmod(mode)
    with pytest.raises(SetupError, match="chmod 600"):
        read_users(file)
    with pytest.raises(SetupError, match="chmod 600"):
        add_user(file, "bob", b"b")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["", "a/b", "+", "a#", "a:b", " a", "a\n", "x" * 256])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is no name"):
        add_user(tmp_path / "users", name, b"secret")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ann", "is no name"),
        ("ann:secret", "is not a hash"),
        ("ann:$scrypt$ln=30,r=8,p=1$c2FsdA$c2FsdA", "would take too much"),
        ("ann:$scrypt$ln=15,r=999,p=1$c2FsdA$c2FsdA", "would take too much"),
        ("ann:$scrypt$ln=4,r=8,p=1$c2FsdA$c2Fsd", "is not base64"),
        ("bob:$scrypt$ln=4,r=8,p=1$c2FsdA$c2FsdA", "is there twice"),
    ],
)
def test_a_line_that_is_wrong_is_told_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "users"
    file.touch(mode=0o600)
    file.write_text(f"# who\n\nbob:$scrypt$ln=4,r=8,p=1$c2FsdA$c2FsdA\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=reason) as caught:
        read_users(file)
    assert str(caught.value).startswith(f"{file}:4: ")
    before = file.read_bytes()
    with pytest.raises(InputError, match=reason):
        add_user(file, "eve", b"e")
    assert file.read_bytes() == before


def test_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.touch(mode=0o600)
    file.write_text("# the staff\n", encoding="utf-8")
    add_user(file, "ann", b"secret")
    assert file.read_text(encoding="utf-8").startswith("# the staff\nann:$scrypt$")


def test_a_file_that_is_being_changed_is_not_changed_by_another(tmp_path: Path) -> None:
    (tmp_path / ".users.new").touch()
    with pytest.raises(SetupError, match="is being changed by another"):
        add_user(tmp_path / "users", "ann", b"secret")


def test_a_missing_file_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot be read: .*; `tidings user add NAME --file"):
        read_users(tmp_path / "users")


# Rules.


def test_rules_are_read_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(
        """
[[rule]]
allow = true
topic = "#"

[[rule]]
allow = false
action = "publish"
topic = "alarms/%u/#"
user = "ann"

[[rule]]
allow = true
action = "subscribe"
topic = "$SYS/#"
user = ""
""",
        encoding="utf-8",
    )
    rules = read_rules(file)
    assert rules == (
        Rule(True, "any", "#"),
        Rule(False, "publish", "alarms/%u/#", "ann"),
        Rule(True, "subscribe", "$SYS/#", ""),
    )
    assert [write_rule(rule) for rule in rules] == [
        "allow everything on '#' for everyone",
        "deny publish on 'alarms/%u/#' for user 'ann'",
        "allow subscribe on '$SYS/#' for anonymous clients",
    ]


def test_without_a_file_everything_is_allowed() -> None:
    for action, topic in (("publish", "a"), ("subscribe", "#"), ("subscribe", "$SYS/#"), ("declare", "a/+b")):
        assert allowed(Access(OPEN), None, "c", action, topic)


def test_all_that_is_wrong_with_rules_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(
        """[[rule]]
allow = "yes"
topic = "a/#/b"

[[rule]]
action = "write"
topic = 4
user = 5
who = "ann"

[other]
""",
        encoding="utf-8",
    )
    with pytest.raises(DeclarationError) as caught:
        read_rules(file)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 5, 6, 7, 8, 9, 11]


def test_a_file_without_tables_is_told(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text("rule = 1\n", encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"write \[\[rule\]\] above each"):
        read_rules(file)
