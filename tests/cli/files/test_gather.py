"""`tidings gather` as a user runs it: reports in, events out, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli.test_commands import run
from tests.gathering.samples import ROAD
from tests.gathering.twin import Twin
from tidings.language.reports import Shape
from tidings.language.topics import Topic

TOPIC = """\
name = "road"
kind = "gathered"
key = ["place"]
merge_after = "4s"
redundant_for = "60s"
window = "10m"
[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
lanes = { type = "float", tolerance = 0.25 }
note = { type = "string" }
"""

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def topic(tmp_path: Path) -> str:
    path = tmp_path / "road.toml"
    path.write_text(TOPIC, encoding="utf-8")
    return str(path)


def lines(*reports: object) -> str:
    return "".join(json.dumps(report) + "\n" for report in reports)


def said(at: object, place: str = "A1", **fields: object) -> dict[str, object]:
    return {"at": at, "fields": {"place": place, **fields}}


def gather(topic: str, *reports: object, options: tuple[str, ...] = (), text: str | bytes = "") -> Result:
    return run(
        "gather", "--topic", topic, "--reports", "-", "--json", *options, given=text or lines(*reports)
    )


def events(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()][:-1]


def counts(result: Result) -> dict[str, int]:
    found: dict[str, int] = json.loads(result.stdout.splitlines()[-1])["summary"]
    return found


def test_events_come_out_in_the_order_told_and_then_a_summary(topic: str) -> None:
    result = gather(topic, said(0, severity=3), said(1.5, lanes=2), said(2, severity=3), said(3, "B1"))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        (
            '{"at":4,"event":"1","key":["A1"],"version":1,"reports":2,"complete":false,'
            '"fields":{"place":"A1","severity":3,"lanes":2.0}}'
        ),
        '{"at":7,"event":"4","key":["B1"],"version":1,"reports":1,"complete":false,"fields":{"place":"B1"}}',
        (
            '{"summary":{"received":4,"redundant":1,"merged":1,"opened":2,"refused":0,"conflicts":0,"told":2,'
            '"closed":2,"max_open":2}}'
        ),
    ]


def test_a_file_is_read_as_standard_input_is(topic: str, tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    file.write_text(lines(said(0, severity=3), said(1, severity=4)), encoding="utf-8")
    result = run("gather", "--topic", topic, "--reports", str(file), "--json")
    assert result.stdout == gather(topic, text=file.read_text(encoding="utf-8")).stdout


def test_an_ended_event_says_so(topic: str, tmp_path: Path) -> None:
    ending = tmp_path / "ending.toml"
    ending.write_text('ends_when = "severity = 5"\n' + TOPIC, encoding="utf-8")
    (event,) = events(gather(str(ending), said(0, severity=5)))
    assert event["state"] == "ended"
    assert list(event) == ["at", "event", "key", "version", "reports", "complete", "fields", "state"]


def test_the_command_says_what_the_plain_twin_says(topic: str) -> None:
    reports = [said(n / 4, "ABC"[n % 3], severity=n * 7 % 5, note=["x", None][n % 2]) for n in range(200)]
    result = gather(topic, *reports)
    declared = Topic.from_mapping(ROAD)
    twin, shape = Twin(declared), Shape(declared)
    for number, line in enumerate(reports, 1):
        fields: Any = line["fields"]
        twin.feed(shape.report("road", fields, report_id=str(number), at_us=(number - 1) * 250_000))
    twin.advance(10**12)
    told = [line for line in twin.out if line[0] == "told"]
    assert [(e["at"], e["event"], e["version"], e["reports"], e["fields"]) for e in events(result)] == [
        (line[1] / 1e6, line[2], line[4], line[5], line[7]) for line in told
    ]
    fates = [fate for fate, _ in twin.fates]
    assert counts(result) == {
        "received": 200,
        "redundant": fates.count("redundant"),
        "merged": fates.count("merged"),
        "opened": fates.count("opened"),
        "refused": 0,
        "conflicts": sum(conflicts for _, conflicts in twin.fates),
        "told": len(told),
        "closed": fates.count("opened"),
        "max_open": twin.max_open,
    }


# Options.


@pytest.mark.parametrize("names", [("--merge-after", "--redundant-for"), ("--tm", "--tr")])
def test_other_times_than_the_declared_ones_can_be_tried(topic: str, names: tuple[str, str]) -> None:
    reports = (said(0, severity=1), said(2, severity=2), said(8, severity=2))
    options = (names[0], "1s", names[1], "5s", "--window", "7s")
    result = gather(topic, *reports, options=options)
    assert [(event["at"], event["event"]) for event in events(result)] == [(1, "1"), (3, "1"), (9, "3")]


def test_the_switches_can_be_tried(topic: str) -> None:
    reports = [said(at, severity=1) for at in range(0, 200, 50)]
    assert counts(gather(topic, *reports))["opened"] == 2
    options = ("--stays-open", "reported", "--window", "none", "--tell-first", "now")
    result = gather(topic, *reports, options=options)
    assert counts(result)["opened"] == counts(result)["closed"] == 1
    assert events(result)[0]["at"] == 0
    full = [said(0, severity=1, lanes=1), said(1, note="x")]
    assert events(gather(topic, *full))[0]["at"] == 1
    assert events(gather(topic, *full, options=("--complete", "report")))[0]["at"] == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--tm", "4"), "merge_after: '4' is not a duration"),
        (("--tm", "2m"), "merge_after (2m) is longer than redundant_for (1m)"),
        (("--window", "none"), "it needs stays_open = 'reported'"),
    ],
)
def test_options_that_make_no_sense_are_refused(topic: str, options: tuple[str, ...], reason: str) -> None:
    result = gather(topic, said(0), options=options)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stdout == ""


def test_a_plain_topic_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.toml"
    plain.write_text('name = "x"\nkind = "plain"\n', encoding="utf-8")
    result = gather(str(plain), said(0))
    assert result.exit_code == 2
    assert "declares a plain topic" in result.stderr


def test_files_that_are_not_there_are_refused(topic: str, tmp_path: Path) -> None:
    assert run("gather", "--topic", str(tmp_path / "no.toml"), "--reports", "-").exit_code == 2
    assert run("gather", "--topic", topic, "--reports", str(tmp_path / "no.jsonl")).exit_code == 2
    assert run("gather", "--topic", topic, "--reports", str(tmp_path)).exit_code == 2


# Time.


def test_a_time_that_goes_back_is_refused_with_both_values_and_the_way_out(topic: str) -> None:
    result = gather(topic, said(5), said(12.5), said(3.25))
    assert result.exit_code == 2
    assert result.stderr == (
        "standard input:3: at goes back: 3.25 comes after 12.5 of line 2; bring the reports into the "
        "order of time, or give --sort\n"
    )
    assert "summary" not in result.stdout


def test_sort_brings_reports_into_the_order_of_time_and_then_of_lines(topic: str) -> None:
    reports = (said(5, note="late"), said(1, severity=1), said(5, note="later"), said(0, severity=0))
    result = gather(topic, *reports, options=("--sort",))
    assert result.exit_code == 0
    first, second = events(result)
    assert (first["at"], first["event"], first["fields"]["severity"]) == (4, "4", 1)
    assert second["fields"]["note"] == "late"


def test_times_may_be_iso_and_then_come_out_as_such(topic: str) -> None:
    result = gather(topic, said("2026-11-15T13:05:00+02:00"), said("2026-11-15T11:05:06.5Z", severity=1))
    assert [event["at"] for event in events(result)] == [
        "2026-11-15T11:05:04Z",
        "2026-11-15T11:05:10.500000Z",
    ]


def test_two_kinds_of_time_in_one_file_are_refused(topic: str) -> None:
    for mixed, kinds in (
        ((said(0), said("2026-11-15T11:05Z")), ("a time", "seconds")),
        ((said("2026-11-15T11:05Z"), said(0)), ("seconds", "a time")),
    ):
        for options in ((), ("--sort",)):
            result = gather(topic, *mixed, options=options)
            assert result.exit_code == 2
            assert f"standard input:2: at is {kinds[0]}, but in line 1 it is {kinds[1]}" in result.stderr


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (0, "4"),
        (-10, "-6"),
        (-4.5, "-0.5"),
        (0.1, "4.1"),
        (1e-7, "4"),
        (12.0000005, "16"),
        (1763204700.123456, "1763204704.123456"),
        (9_000_000_000_000.5, "9000000000004.5"),
    ],
)
def test_seconds_are_rounded_once_to_microseconds(topic: str, at: float, told: str) -> None:
    result = gather(topic, said(at))
    assert result.stdout.startswith(f'{{"at":{told},')


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (None, "at null is neither a number nor a text; write seconds, such as 12.5, or a time, such as"),
        (True, "at true is neither a number nor a text"),
        ([1], "at [1] is neither a number nor a text"),
        ("soon", "at: 'soon' is not a timestamp"),
        (1e300, "at 1e+300 is beyond what microseconds of 64 bits can say"),
        (-1e18, "is beyond what microseconds of 64 bits can say"),
        (2**63 - 1, "is beyond what microseconds of 64 bits can say"),
        ("9999-12-31T23:59:59Z", "is too late: the event would be open beyond the year 9999"),
        ("0000-01-01", "is not a point in time"),
    ],
)
def test_a_time_that_is_none_is_refused(topic: str, at: object, reason: str) -> None:
    result = gather(topic, said(at), said(0) if not isinstance(at, str) else said("0001-01-01"))
    assert result.exit_code == 0
    assert reason in result.stderr
    assert (counts(result)["refused"], counts(result)["opened"]) == (1, 1)


# Reports that cannot be taken.


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "the line is not JSON"),
        ("[1]", "the line is a list"),
        ('{"fields": {"place": "A1"}}', 'the line has no "at"; write seconds'),
        ('{"at": 1}', 'the line has no "fields"; write {"at": …, "fields": {…}}'),
        ('{"at": 1, "fields": [1]}', "the line has fields that are no object: [1]"),
        (
            '{"at": 1, "fields": {"severity": 1}}',
            "the key 'place' needs place, which the report does not have",
        ),
        ('{"at": 1, "fields": {"place": "A1", "severity": "x"}}', "severity: 'x' is not an int of 64 bits"),
        ('{"at": 1, "fields": {"place": "A1", "sev": 1}}', "sev is not a declared field"),
        ('{"at": 1, "at": 2, "fields": {"place": "A1"}}', "the key 'at' is there twice"),
        ('{"at": 1, "topic": 3, "fields": {"place": "A1"}}', "topic 3 is not a string"),
        ('{"at": 1, "topic": "sea", "fields": {"place": "A1"}}', "topic 'sea' does not match"),
        ('{"at": 1, "fields": {"place": "' + "x" * 1_048_600 + '"}}', "the line has more than 1048576 bytes"),
        ('{"at": 1e999, "fields": {"place": "A1"}}', "the line is not JSON"),
    ],
)
def test_a_report_that_cannot_be_taken_is_refused_and_the_rest_goes_on(
    topic: str, line: str, reason: str
) -> None:
    result = gather(topic, text=lines(said(0)) + line + "\n" + lines(said(2, severity=1)))
    assert result.exit_code == 0
    assert f"standard input:2: {reason}" in result.stderr
    found = counts(result)
    assert (found["received"], found["refused"], found["opened"], found["merged"]) == (3, 1, 1, 1)


@pytest.mark.parametrize("options", [(), ("--sort",)])
def test_a_report_that_the_gatherer_refuses_is_named_and_counted_beside_bad_lines(
    topic: str, options: tuple[str, ...]
) -> None:
    Path(topic).write_text('open_max = 1\noverflow = "refuse"\n' + TOPIC, encoding="utf-8")
    text = lines(said(0), said(1, "B1"), said(2, "C1")) + "bad\n" + lines({"at": 3, "fields": {"place": 1}})
    result = gather(topic, text=text, options=options)
    assert result.exit_code == 0
    found = counts(result)
    assert (found["received"], found["refused"], found["opened"]) == (5, 4, 1)
    for number, reason in ((2, "(open_max)"), (3, "(open_max)"), (4, "not JSON"), (5, "place: 1")):
        assert any(
            line.startswith(f"standard input:{number}: ") and reason in line
            for line in result.stderr.splitlines()
        )


def test_only_the_first_refused_reports_are_named_but_all_are_counted(topic: str) -> None:
    result = gather(topic, text=lines(*({"at": n} for n in range(20)), said(20)))
    assert len(result.stderr.splitlines()) == 6
    assert result.stderr.splitlines()[-1] == "standard input: 15 more reports were refused"
    assert (counts(result)["refused"], counts(result)["received"]) == (20, 21)


def test_blank_lines_are_no_reports_but_count_as_lines(topic: str) -> None:
    result = gather(topic, text="\n\n" + lines(said(0)) + "\n")
    assert counts(result)["received"] == 1
    assert events(result)[0]["event"] == "3"


def test_nothing_reported_is_nothing_told(topic: str) -> None:
    result = run("gather", "--topic", topic, "--reports", "-", "--json", given="")
    assert result.exit_code == 0
    assert set(counts(result).values()) == {0}


# Topics whose names have wildcards.

FLEET = """\
name = "fleet/+vehicle/status"
kind = "gathered"
key = ["vehicle"]
[fields]
speed = { type = "float" }
"""


def test_a_report_may_name_its_topic_or_say_the_levels_among_its_fields(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET, encoding="utf-8")
    result = gather(
        str(fleet),
        {"at": 0, "topic": "fleet/v7/status", "fields": {"speed": 3}},
        {"at": 1, "fields": {"vehicle": "v7", "speed": 3}},
        {"at": 1, "fields": {"speed": 3}},
        {"at": 1, "topic": "fleet/+/status", "fields": {"speed": 3}},
    )
    (event,) = events(result)
    assert (event["key"], event["fields"]) == (["v7"], {"vehicle": "v7", "speed": 3.0})
    assert (counts(result)["redundant"], counts(result)["refused"]) == (1, 2)
    assert 'may be said in "topic" or among the fields' in result.stderr
    assert "has a wildcard" in result.stderr


# For people, and for pipes.


def test_a_person_sees_a_table(topic: str) -> None:
    text = lines(said(0, severity=3, note="[bold]fire[/bold]"), said(1, lanes=2))
    result = run("gather", "--topic", topic, "--reports", "-", given=text)
    assert result.exit_code == 0
    assert "[bold]fire[/bold]" in result.stdout.replace("\n", "").replace(" ", "")
    assert "received" in result.stdout
    assert "{" not in result.stdout


def test_the_example_of_the_help_runs() -> None:
    example, reports = (str(EXAMPLES / name) for name in ("traffic-athens.toml", "reports.jsonl"))
    result = run("gather", "--topic", example, "--reports", reports, "--json")
    assert result.exit_code == 0
    assert list(counts(result).values()) == [10, 2, 4, 3, 1, 2, 5, 3, 2]


def start(topic: str, *options: str, reports: str = "-") -> subprocess.Popen[bytes]:
    command = "from tidings.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", command, "gather", "--topic", topic, "--reports", reports, "--json", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_pipe_is_answered_line_by_line(topic: str) -> None:
    with start(topic, "--tm", "0") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for severity in range(3):
            process.stdin.write(lines(said(severity, severity=severity)).encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["version"] == severity + 1
        rest, _ = process.communicate()
        assert json.loads(rest)["summary"]["merged"] == 2
        assert process.returncode == 0


def test_a_reader_that_goes_away_ends_the_command_quietly(topic: str, tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    file.write_text(lines(*(said(n, severity=n) for n in range(10_000))), encoding="utf-8")
    with start(topic, "--tm", "0", reports=str(file)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["version"] == 1
        process.stdout.close()
        assert process.stderr.read() == b""
