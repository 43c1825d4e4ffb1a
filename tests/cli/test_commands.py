"""The commands as a user runs them: what they print, what they refuse, how they end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.cli.examples import own_files
from tidings.cli import app
from tidings.cli.files.match import SCAN_MAX
from tidings.language.filters import parse
from tidings.matching import Index, Scan, index

TOPIC = """\
name = "traffic/athens"
kind = "gathered"
key = ["place"]
[fields]
place = { type = "string" }
severity = { type = "int" }
opened = { type = "timestamp" }
fire = { type = "bool" }
"""


def run(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(app, arguments, input=given)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A topic, some subscriptions and some events."""
    texts = {
        "topic": TOPIC,
        "subscriptions": '{"id": "b", "where": "severity >= 3"}\n'
        '{"id": 10, "where": "fire"}\n'
        '{"id": 9, "where": "fire", "unknown": "assume"}\n'
        '\n{"id": "a", "where": "TRUE", "note": "mine", "uid": 7, "ids": 8}\n',
        "events": '{"id": "x", "place": "Omonia", "severity": 3}\n'
        '{"id": 2, "place": "Syntagma", "fire": false}\n',
    }
    named = {}
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        named[name] = str(path)
    return named


def answers(result: Result) -> list[object]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_match_answers_each_event_in_order(files: dict[str, str]) -> None:
    result = run("match", "--subscriptions", files["subscriptions"], "--events", files["events"])
    assert result.exit_code == 0, result.stderr
    assert answers(result) == [
        {"event": "x", "matches": [9, "a", "b"]},
        {"event": 2, "matches": ["a"]},
    ]


@pytest.mark.parametrize("count", [1, SCAN_MAX, SCAN_MAX + 1])
def test_few_filters_are_asked_and_more_are_found_by_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    filters = [f"severity >= {number % 7} AND road = 'A{number}'" for number in range(count)]
    given = [{"id": at, "severity": at % 10, "road": f"A{at % 40}"} for at in range(100)]
    scan = Scan()
    for number, text in enumerate(filters):
        scan.add(number, parse(text))
    paths = (tmp_path / "subscriptions", tmp_path / "events")
    asked = [{"id": number, "where": text} for number, text in enumerate(filters)]
    for path, objects in zip(paths, (asked, given), strict=True):
        path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), encoding="utf-8")
    batches = []

    def counted(self: Index, events: Sequence[Any]) -> Any:
        batches.append(len(events))
        return match_batch(self, events)

    match_batch = Index.match_batch
    monkeypatch.setattr(Index, "match_batch", counted)
    # Another test of this process may have had them compiled.
    monkeypatch.setattr(index, "compiled", lambda: None)
    result = run("match", "--subscriptions", str(paths[0]), "--events", str(paths[1]))
    assert answers(result) == [{"event": one["id"], "matches": list(scan.match(one))} for one in given]
    assert sum(batches) == (0 if count <= SCAN_MAX else len(given))


def test_match_takes_the_unknown_that_is_asked_for(files: dict[str, str]) -> None:
    asked = ("--subscriptions", files["subscriptions"], "--events", files["events"], "--unknown", "assume")
    assert answers(run("match", *asked)) == [
        {"event": "x", "matches": [9, 10, "a", "b"]},
        {"event": 2, "matches": ["a", "b"]},
    ]


@pytest.mark.parametrize("piped", ["subscriptions", "events"])
def test_match_reads_standard_input(files: dict[str, str], piped: str) -> None:
    text = Path(files[piped]).read_text(encoding="utf-8")
    names = {**files, piped: "-"}
    result = run("match", "--subscriptions", names["subscriptions"], "--events", names["events"], given=text)
    assert result.exit_code == 0
    assert len(answers(result)) == 2


def test_match_types_events_by_their_topic(files: dict[str, str]) -> None:
    Path(files["subscriptions"]).write_text('{"id": 1, "where": "opened > \'2026-11-01\'"}', encoding="utf-8")
    Path(files["events"]).write_text('{"id": 1, "opened": "2026-11-01T02:00:00+01:00"}', encoding="utf-8")
    asked = ("match", "--subscriptions", files["subscriptions"], "--events", files["events"])
    assert answers(run(*asked, "--topic", files["topic"])) == [{"event": 1, "matches": [1]}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ('{"id": 1, "id": 2, "where": "TRUE"}', "id"),
        ('{"where": "TRUE"}', 'no "id"'),
        ('{"id": null, "where": "TRUE"}', "neither a string nor a whole number"),
        ('{"id": true, "where": "TRUE"}', "neither a string nor a whole number"),
        ('{"id": 1.5, "where": "TRUE"}', "neither a string nor a whole number"),
        ('{"id": "z"}', 'no "where"'),
        ('{"id": "z", "where": 5}', "no string"),
        ('{"id": "z", "where": ""}', "the filter is empty"),
        ('{"id": "z", "where": "severity >"}', "cannot be read here"),
        ('{"id": "z", "where": "sevrity > 3"}', "nearest: severity"),
        ('{"id": "b", "where": "TRUE"}', "given before"),
        ('{"id": "z", "where": "TRUE", "unknown": "maybe"}', '"wait" or "assume"'),
        ('{"id": "z", "where": "TRUE", "unkown": "assume"}', "is it 'unknown'"),
        ('{"id": "z", "Where": "TRUE"}', "is it 'where'"),
        ('{"id": 123456789012345678901234567890, "where": "TRUE"}', "too large"),
    ],
)
def test_a_bad_subscription_is_reported_and_the_rest_goes_on(
    files: dict[str, str], line: str, reason: str
) -> None:
    path = Path(files["subscriptions"])
    path.write_text(
        path.read_text(encoding="utf-8") + line + '\n{"id": "last", "where": "TRUE"}', encoding="utf-8"
    )
    asked = ("--subscriptions", str(path), "--events", files["events"], "--topic", files["topic"])
    result = run("match", *asked)
    assert result.exit_code == 1
    assert f"{path}:6: " in result.stderr
    assert reason in result.stderr
    assert [answer["matches"][-1] for answer in answers(result) if isinstance(answer, dict)] == ["last"] * 2


@pytest.mark.parametrize("declared", [True, False])
def test_the_id_is_a_field_unless_the_topic_says_otherwise(files: dict[str, str], declared: bool) -> None:
    where = "id IS NULL" if not declared else "id = 5"
    Path(files["subscriptions"]).write_text(json.dumps({"id": 1, "where": where}), encoding="utf-8")
    Path(files["events"]).write_text('{"id": 5, "place": "Omonia"}', encoding="utf-8")
    if declared:
        Path(files["topic"]).write_text(TOPIC + 'id = { type = "int" }\n', encoding="utf-8")
    asked = ("match", "--subscriptions", files["subscriptions"], "--events", files["events"])
    assert answers(run(*asked)) == [{"event": 5, "matches": [1] if declared else []}]
    result = run(*asked, "--topic", files["topic"])
    assert answers(result) == [{"event": 5, "matches": [1] if declared else []}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not JSON"),
        ('{"place": "Omonia"}', 'no "id"'),
        ('{"id": 7, "severity": "high"}', "severity"),
        ('{"id": 7, "colour": 3}', "colour"),
        ('{"id": 7, "severity": 1e999}', "line"),
        ('{"id": 7, "severity": 9223372036854775808}', "the limit is 64"),
    ],
)
def test_a_bad_event_is_reported_and_the_rest_goes_on(files: dict[str, str], line: str, reason: str) -> None:
    path = Path(files["events"])
    path.write_text(line + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    asked = ("--subscriptions", files["subscriptions"], "--events", str(path), "--topic", files["topic"])
    result = run("match", *asked)
    assert result.exit_code == 1
    assert f"{path}:1: " in result.stderr
    assert reason in result.stderr
    assert len(answers(result)) == 2


def test_lines_of_any_bytes_end_in_reports(files: dict[str, str]) -> None:
    path = Path(files["events"])
    path.write_bytes(b'\xef\xbb\xbf{"id": 1}\r\n\xff\xfe\n' + b"[" * 5_000 + b"\n\x00\n" + b'{"id": 2}')
    result = run("match", "--subscriptions", files["subscriptions"], "--events", str(path))
    assert result.exit_code == 1
    assert [answer["event"] for answer in answers(result) if isinstance(answer, dict)] == [1, 2]
    reported = [
        line.removeprefix(f"{path}:") for line in result.stderr.splitlines() if line.startswith(str(path))
    ]
    assert [line.partition(":")[0] for line in reported] == ["2", "3", "4"]


def test_a_line_beyond_the_limit_is_passed_over(files: dict[str, str]) -> None:
    path = Path(files["events"])
    path.write_bytes(b'{"id": 1, "note": "' + b"x" * 3_000_000 + b'"}\n{"id": 2}\n')
    result = run("match", "--subscriptions", files["subscriptions"], "--events", str(path))
    assert result.exit_code == 1
    assert "1048576 bytes" in result.stderr
    assert [answer["event"] for answer in answers(result) if isinstance(answer, dict)] == [2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("match", "--subscriptions", "-", "--events", "-"), "not both"),
        (("match", "--subscriptions", "missing.jsonl", "--events", "-"), "cannot be read"),
        (("match", "--subscriptions", ".", "--events", "-"), "cannot be read"),
        (("match", "--events", "-"), "give --subscriptions and --events, or --workload"),
        (("filter", "explain", "severity >"), "cannot be read here"),
        (("filter", "covers", "a = 1", "b ="), "cannot be read here"),
        (("topic", "check", "missing.toml"), "missing.toml"),
    ],
)
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    # What is wrong with an option is shown in a box, folded to the width of the terminal.
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_a_wrong_declaration_ends_every_command_with_2(files: dict[str, str]) -> None:
    path = Path(files["topic"])
    path.write_text(TOPIC + "sverity = { type = 'integer' }\nkey = 3\n", encoding="utf-8")
    for arguments in (
        ("topic", "check", str(path)),
        ("filter", "explain", "fire", "--topic", str(path)),
        (
            "match",
            "--subscriptions",
            files["subscriptions"],
            "--events",
            files["events"],
            "--topic",
            str(path),
        ),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert f"{path}:9: " in result.stderr


def test_explain_for_programs() -> None:
    result = run("filter", "explain", "NOT (a.b = 1 AND fire) OR x IS NULL", "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert 0 < said["cost"].pop("steps") < 100
    assert said == {
        "filter": "NOT (a.b = 1 AND fire) OR x IS NULL",
        "tree": {"or": [{"not": {"and": ["a.b = 1", "fire = TRUE"]}}, "x IS NULL"]},
        "canonical": "a.b <> 1 OR fire = FALSE OR x IS NULL",
        "normal_form": ["a.b <> 1", "fire = FALSE", "x IS NULL"],
        "cost": {"terms": 3, "disjuncts": 3, "constraints": 3, "points": 3, "searched": 0},
        "fields": ["a.b", "fire", "x"],
    }


def test_explain_for_people(files: dict[str, str]) -> None:
    result = run("filter", "explain", "severity >= 3 AND fire", "--topic", files["topic"])
    assert result.exit_code == 0
    for part in ("AND", "severity >= 3", "fire = TRUE AND severity >= 3", "fields needed: fire, severity"):
        assert part in result.stdout


def test_explain_points_at_a_mistake(files: dict[str, str]) -> None:
    asked = ("filter", "explain", "fire AND sevrity >= 3", "--topic", files["topic"])
    assert run(*asked).stderr.splitlines()[1:] == ["  fire AND sevrity >= 3", "           ^^^^^^^"]
    said = json.loads(run(*asked, "--json").stdout)
    assert said["filter"][said["start"] : said["end"]] == "sevrity"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("severity >= 3", "severity = 4"), 0),
        (("severity = 4", "severity >= 3"), 1),
        (("severity >= 3", "severity = 4", "--unknown-b", "assume"), 1),
        (("severity >= 3", "severity = 4", "--unknown", "assume"), 0),
        (("severity >= 3", "severity < 3"), 1),
    ],
)
def test_covers_answers_by_its_exit_code(arguments: tuple[str, ...], code: int) -> None:
    assert run("filter", "covers", *arguments).exit_code == code
    result = run("filter", "covers", *arguments, "--json")
    assert (result.exit_code, json.loads(result.stdout)["covers"]) == (code, code == 0)


def test_topic_check_shows_what_a_declaration_says(files: dict[str, str]) -> None:
    result = run("topic", "check", files["topic"])
    assert result.exit_code == 0
    assert "severity" in result.stdout
    said = json.loads(run("topic", "check", files["topic"], "--json").stdout)
    assert said["name"] == "traffic/athens"
    assert said["fields"]["severity"]["type"] == "int"


def commands() -> list[tuple[str, ...]]:
    group = get_command(app)
    found: list[tuple[str, ...]] = [()]
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found += [(name, *rest) for rest in ([(), *((each,) for each in sorted(inner))] if inner else [()])]
    return found


NEEDS_MORE = {"up", "demo", "reproduce", "status", "join", "leave", "pub", "sub", "bench", "view"} | {
    "session",
    *(f"topic {command}" for command in ("declare", "list", "show", "remove")),
    *(f"user {command}" for command in ("add", "list", "remove")),
    *(f"workload {command}" for command in ("generate", "describe")),
    *(f"pipeline {command}" for command in ("run", "show", "gather", "match", "explain", "traffic")),
}
"""Their examples are only read here; tests/cli/network/test_up.py and others run them."""


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_teaches_by_an_example_that_works(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    # Whoever runs the tests may have a network running.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    told = run(*command, "--help")
    assert told.exit_code == 0
    assert "glossary" in told.stdout
    lines = [line.strip() for line in told.stdout.splitlines()]
    if "Try it:" not in lines:
        assert len(command) == 1, "a group leaves the example to its commands"
        return
    example = " ".join(lines[lines.index("Try it:") + 1 :]).partition("╭")[0].replace("\\ ", "")
    name, *arguments = shlex.split(example)
    assert name == "tidings"
    if {command[0] if command else "", " ".join(command)} & NEEDS_MORE:
        read = get_command(app)
        for word in command:
            read = read.commands[word]  # type: ignore[attr-defined]
        assert read.make_context(command[-1], arguments[len(command) :]).params
        return
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout
