"""`tidings filter dz`: what is asked for as expressions, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidings.cli import app

TOPIC = """
name = "sea"
kind = "plain"

[fields]
x = { type = "int", domain = [0, 5] }
wind = { type = "float", domain = [0, 8] }
state = { type = "string", domain = ["calm", "rough", "storm"] }
storm = { type = "bool" }
since = { type = "timestamp" }
"""
PLANE = """
name = "plane"
kind = "plain"

[fields]
x = { type = "int", domain = [0, 7] }
y = { type = "int", domain = [0, 7] }
"""


@pytest.fixture
def sea(tmp_path: Path) -> str:
    return written(tmp_path / "sea.toml", TOPIC)


@pytest.fixture
def plane(tmp_path: Path) -> str:
    return written(tmp_path / "plane.toml", PLANE)


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["filter", "dz", *arguments])


def answer(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_filter_is_answered_with_its_expressions_in_order(plane: str) -> None:
    assert answer("x >= 4 AND y < 2", "--topic", plane) == {
        "dz": ["1000", "1010"],
        "exact": True,
        "volume": 0.125,
        "attributes": ["x", "y"],
    }


def test_attributes_are_the_fields_with_a_domain_in_the_order_declared(sea: str) -> None:
    assert answer("TRUE", "--topic", sea)["attributes"] == ["x", "wind", "state", "storm"]
    assert answer("since IS NOT NULL", "--topic", sea, "--depth", "3") == {
        "dz": [""],
        "exact": True,
        "volume": 1.0,
        "attributes": ["x", "wind", "state", "storm"],
    }


@pytest.mark.parametrize(
    ("options", "dz", "exact"),
    [
        ((), ["100110", "101100", "101110", "110011"], True),
        (("--depth", "2"), ["1"], False),
        (("--most", "2"), ["10", "1100"], False),
        (("--wildcards",), ["100110", "1011*0", "110011"], True),
        (("--wildcards", "--most", "1"), ["1"], False),
        (("--depth", "0"), [""], False),
    ],
)
def test_depth_number_and_form_can_be_chosen(
    plane: str, options: tuple[str, ...], dz: list[str], exact: bool
) -> None:
    found = answer("x BETWEEN 5 AND 7 AND y = 2 OR x = 5 AND y = 5", "--topic", plane, *options)
    assert (found["dz"], found["exact"]) == (dz, exact)


def test_wild_cards_stand_for_what_is_not_asked(plane: str) -> None:
    assert answer("y < 2", "--topic", plane, "--wildcards")["dz"] == ["*0*0"]
    assert answer("y < 2", "--topic", plane)["dz"] == ["0000", "0010", "1000", "1010"]


def test_a_subscriber_that_assumes_is_shown_what_may_come_true(plane: str) -> None:
    asked = ("x > 5 AND x < 3", "--topic", plane)
    assert answer(*asked)["dz"] == []
    # Only an event without x may still be one, and that lies where x is lowest.
    assert answer(*asked, "--unknown", "assume", "--wildcards")["dz"] == ["0*0*0"]


def test_an_event_lies_in_one_cell(plane: str, sea: str) -> None:
    assert answer("--point", '{"x": 5, "y": 2}', "--topic", plane, "--depth", "6") == {
        "dz": ["100110"],
        "exact": True,
        "volume": 1 / 64,
        "attributes": ["x", "y"],
    }
    assert run("--point", '{"x": 5, "y": 2}', "--topic", plane, "--depth", "3").stdout == "100\n"
    said = '{"x": 99, "wind": 4, "state": "wild", "since": "2026-11-01T00:00Z"}'
    assert answer("--point", said, "--topic", sea, "--depth", "8") == {
        "dz": ["11100001"],
        "exact": False,
        "volume": 1 / 256,
        "attributes": ["x", "wind", "state", "storm"],
    }


def test_an_event_with_a_missing_field_may_be_anywhere_for_one_who_assumes(plane: str) -> None:
    asked = ("--point", '{"y": 2}', "--topic", plane, "--depth", "6")
    assert answer(*asked)["dz"] == ["000100"]
    assert answer(*asked)["exact"] is True
    assert answer(*asked[:-1], "5")["exact"] is False
    found = answer(*asked, "--unknown", "assume")
    assert found["dz"] == [f"{a}0{b}1{c}0" for a in "01" for b in "01" for c in "01"]
    assert found["exact"]
    assert answer(*asked, "--unknown", "assume", "--wildcards")["dz"] == ["*0*1*0"]
    assert answer(*asked, "--unknown", "assume", "--most", "1")["dz"] == [""]


def test_people_see_what_each_expression_says(sea: str, plane: str) -> None:
    shown = run(
        "x > 3 AND wind < 2 AND state = 'rough'", "--topic", sea, "--depth", "8", "--wildcards"
    ).stdout
    for part in ("4 to 5", "0 to below 2", "rough", "1 expression,", "exact"):
        assert part in shown
    drawn = run("x >= 4 AND y < 2", "--topic", plane).stdout.splitlines()
    picture = [line.strip() for line in drawn if set(line.strip()) <= set("█▒·") and line.strip()]
    assert picture == ["·" * 16] * 6 + ["·" * 8 + "█" * 8] * 2


def test_of_many_expressions_people_see_the_first(plane: str) -> None:
    shown = run("x IN (1, 3, 5) AND y IN (1, 3, 5) OR x IN (2, 4, 6) AND y IN (2, 4, 6)", "--topic", plane)
    assert "18 expressions" in shown.stdout
    assert "more" not in shown.stdout
    odd = ", ".join(str(value) for value in range(1, 128, 2))
    wide = PLANE.replace("[0, 7]", "[0, 127]")
    shown = run(f"x IN ({odd})", "--topic", written(Path(plane), wide), "--depth", "13")
    assert "… and 4,056 more; --json lists all" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give a filter or --point, and not both"),
        (("x = 1", "--point", "{}"), "give a filter or --point, and not both"),
        (("x = 1", "--depth", "-1"), "--depth is -1; give a number of bits from 0 to 512"),
        (("x = 1", "--depth", "513"), "--depth is 513; give"),
        (("x = 1", "--most", "0"), "--most is 0; give a number of expressions from 1 to 16384"),
        (("x = 1", "--most", "many"), "--most"),
        (("x = 1", "--unknown", "hope"), "'hope' is not one of"),
        (("prise = 1",), "the topic declares no field prise"),
        (("x = 'one'",), "x is an int"),
        (("x =",), "cannot be read here"),
        (("--point", "x"), "--point: "),
        (("--point", "[1]"), "--point: "),
        (("--point", '{"x": "one"}'), "--point: x: "),
        (("--point", '{"z": 1}'), "--point: z is not a declared field"),
        (("--point", "{}", "--most", "2"), "an event lies in one cell"),
        (("--point", "{}", "--wildcards"), "an event lies in one cell"),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(
    plane: str, arguments: tuple[str, ...], reason: str
) -> None:
    result = run(*arguments, "--topic", plane)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_a_topic_is_needed() -> None:
    result = run("x = 1")
    assert result.exit_code == 2
    assert "--topic" in result.stderr


def test_a_mistake_is_said_as_json_too(plane: str) -> None:
    result = run("x >", "--topic", plane, "--json")
    assert (result.exit_code, json.loads(result.stdout)["filter"]) == (2, "x >")
    result = run("--point", '{"x": []}', "--topic", plane, "--json")
    assert (result.exit_code, json.loads(result.stdout)["point"]) == (2, '{"x": []}')


def test_a_topic_without_domains_has_a_space_of_one_cell(tmp_path: Path) -> None:
    topic = written(tmp_path / "plain.toml", 'name = "p"\nkind = "plain"\n')
    assert answer("a = 1", "--topic", topic) == {"dz": [""], "exact": True, "volume": 1.0, "attributes": []}
    assert "no attributes" in run("a = 1", "--topic", topic).stdout
    assert run("--point", '{"a": 1}', "--topic", topic).stdout == "\n"


def test_a_script_reads_an_empty_line_for_an_expression_of_no_bits(plane: str) -> None:
    assert run("--point", '{"x": 5}', "--topic", plane, "--depth", "0").stdout == "\n"
    assert answer("--point", '{"x": 5}', "--topic", plane, "--depth", "0")["dz"] == [""]


@pytest.mark.parametrize(
    ("text", "dz", "exact"),
    [
        ("x > 100", ["101", "11"], True),
        ("x = 6", ["101", "11"], True),
        ("x = 5", ["101", "11"], True),
        ("x IS NULL", ["000"], True),
        ("n = 1", [""], True),
        ("n = 1 AND x < 4", ["0"], True),
        ("x = 2.5", [], True),
    ],
)
def test_what_is_clamped_missing_or_left_out_is_exact_all_the_same(
    tmp_path: Path, text: str, dz: list[str], exact: bool
) -> None:
    fields = '[fields]\nx = { type = "int", domain = [0, 5] }\nn = { type = "int" }\n'
    topic = written(tmp_path / "line.toml", f'name = "line"\nkind = "plain"\n{fields}')
    found = answer(text, "--topic", topic)
    assert (found["dz"], found["exact"]) == (dz, exact)


def test_cells_of_floats_are_half_open_so_an_end_that_is_included_is_not_exact(tmp_path: Path) -> None:
    fields = '[fields]\nx = { type = "float", domain = [0, 1] }\n'
    topic = written(tmp_path / "line.toml", f'name = "line"\nkind = "plain"\n{fields}')
    for depth in ((), ("--depth", "4")):
        below = answer("x < 0.5", "--topic", topic, *depth)
        assert (below["dz"], below["exact"]) == (["0"], True)
        assert answer("x <= 0.5", "--topic", topic, *depth)["exact"] is False
    assert answer("x <= 0.5", "--topic", topic, "--depth", "4")["dz"] == ["0", "1000"]
    assert answer("x <= 1", "--topic", topic)["exact"] is True


def test_by_default_all_counted_attributes_are_used_up_beside_floats(tmp_path: Path) -> None:
    fields = (
        '[fields]\nf = { type = "float", domain = [0, 1] }\nx = { type = "int", domain = [0, 5000000000] }\n'
    )
    topic = written(tmp_path / "two.toml", f'name = "two"\nkind = "plain"\n{fields}')
    found = answer("x = 5 AND f < 0.5", "--topic", topic, "--wildcards")
    assert (len(found["dz"][0]), found["exact"]) == (66, True)


def test_people_are_told_that_wild_cards_help_where_there_would_be_too_many(tmp_path: Path) -> None:
    fields = "".join(f'a{at} = {{ type = "int", domain = [1, 128] }}\n' for at in range(10))
    topic = written(tmp_path / "ten.toml", f'name = "ten"\nkind = "plain"\n[fields]\n{fields}')
    shown = " ".join(run("a0 = 77", "--topic", topic).stdout.split())
    assert "not exact" in shown
    assert "16,384 are the most; --wildcards may say it exactly, in fewer" in shown
    shown = run("a0 = 77", "--topic", topic, "--wildcards").stdout
    assert "16,384" not in shown
    assert "; exact" in shown
    assert "16,384" not in run("a0 = 77", "--topic", topic, "--most", "4").stdout
