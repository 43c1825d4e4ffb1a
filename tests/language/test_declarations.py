from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.language.test_topics import declarations
from tidings.errors import DeclarationError
from tidings.language.declarations import (
    DECLARATION_BYTES_MAX,
    Lines,
    parse_topic,
    read_topic,
    topic_text,
)
from tidings.language.faults import Where
from tidings.language.fields import Type
from tidings.language.topics import OPTIONS, Topic

EXAMPLE = """\
name = "traffic/athens"
kind = "gathered"              # or "plain"
key = ["place"]
merge_after = "4s"             # Tm
redundant_for = "60s"          # Tr
window = "10m"                 # W
[fields]
place    = { type = "string" }
severity = { type = "int", domain = [0, 5], conflict = "max" }
opened   = { type = "timestamp" }
lanes    = { type = "float", domain = [0, 8], tolerance = 0.25 }
fire     = { type = "bool" }
"""


def refused(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(DeclarationError) as caught:
        parse_topic(text, "t.toml")
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_the_example_is_read(tmp_path: Path) -> None:
    file = tmp_path / "athens.toml"
    file.write_text(EXAMPLE, encoding="utf-8")
    topic = read_topic(file)
    assert topic == parse_topic(EXAMPLE) == read_topic(str(file))
    assert [field.type for field in topic.fields.values()] == [
        Type.STRING,
        Type.INT,
        Type.TIMESTAMP,
        Type.FLOAT,
        Type.BOOL,
    ]


def test_a_file_from_windows_is_read(tmp_path: Path) -> None:
    file = tmp_path / "athens.toml"
    file.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert read_topic(file) == parse_topic(EXAMPLE)


def test_fields_may_be_written_in_tables_dots_or_quotes() -> None:
    head = 'name = "x"\nkind = "plain"\n'
    table = parse_topic(head + '[fields.place]\ncity = { type = "string" }\n[fields."a b"]\ntype = "int"\n')
    dots = parse_topic(head + '[fields]\nplace.city.type = "string"\n"a b" = { type = "int" }\n')
    whole = parse_topic(head + 'fields = { place = { city = { type = "string" } }, "a b".type = "int" }\n')
    assert table == dots == whole
    assert list(table.fields) == [("place", "city"), ("a b",)]


BAD = """\
# A declaration in which nearly everything is wrong.
name = "traffic/+1st/#"
kind = "gathered"
Tm = "4s"
version = 0
keep = "0s"
key = [
  "place",   # this one is fine
  "plaice",
  "floor(place / 2)",
]
merge_after = "2h"
redundant_for = "1h"
"window" = 600
stays_open = 'ever'
tell_now = '''
severity >= 3
'''
[fields]
place = { type = "string" }
severity = { type = "int", domain = [
    5,
    0,
  ], conflict = "biggest" }
opened = { type = "date" }
lanes = 4

  [fields.where]
  city = { type = "string", tolerance = 1 }
  "post code".type = "int"
  "post code".domian = [0, 99999]
  City = { type = "string" }

[fields.at]
lat.type = "float"
lat.domain = [-90, "north"]

[extra]
x = 1
"""


def test_everything_that_is_wrong_is_said_at_once_with_its_line() -> None:
    found = refused(BAD)
    assert [(line, message[:60]) for line, message in found] == [
        (2, "name: the level '+1st' has a name that is not an identifier;"),
        (4, "there is no option 'Tm'; did you mean merge_after?"),
        (5, "version: 0 is not a whole number from 1 up"),
        (6, "keep: '0s' does not say how long; write '7d' or 'forever', o"),
        (12, "merge_after (2h) is longer than redundant_for (1h); an event"),
        (14, "window: 600 has no unit; write a number and a unit (us, ms, "),
        (15, "stays_open: 'ever' is not one of 'merged', 'reported'"),
        (21, "severity: domain [5, 0] ends before it begins; write the low"),
        (24, "severity: conflict 'biggest' is not one of 'first', 'last', "),
        (25, "opened: type 'date' is not one of 'string', 'int', 'float', "),
        (26, 'lanes: 4 is not a field; write { type = "int" }'),
        (29, "where.city: tolerance is for numbers and timestamps, not for"),
        (31, "where.`post code`: a field has no 'domian'; it may have type"),
        (32, "the fields 'city' and 'City' differ only in upper and lower "),
        (36, "at.lat: domain has 'north', which is not a value of type flo"),
        (38, "there is no option 'extra'; there are name, kind, version, f"),
    ]


def test_windows_lines_are_counted_alike() -> None:
    assert refused(BAD.replace("\n", "\r\n")) == refused(BAD)


def test_the_message_names_file_and_line() -> None:
    with pytest.raises(DeclarationError, match=r"^t\.toml:1: kind: 'x' is not one of 'gathered', 'plain'$"):
        parse_topic('kind = "x"\nname = "y"', "t.toml")


def test_items_of_a_key_and_missing_options_have_a_line() -> None:
    text = EXAMPLE.replace('["place"]', '[\n  "place",\n  "plaice",\n]').replace(
        'name = "traffic/athens"', ""
    )
    assert [(line, message[:20]) for line, message in refused(text)] == [
        (1, "name is missing; wri"),
        (5, "key: key item 'plaic"),
    ]


def test_a_bad_field_hides_no_other_fault() -> None:
    faults = refused(
        """\
name = "a"
kind = "gatherd"
key = ["zz", "x"]
tell_now = "y >"
ends_when = "x = 1"
[fields]
x = { type = "int", domain = [5, 0] }
y = { type = "int" }
"""
    )
    assert [line for line, _ in faults] == [2, 3, 4, 7]
    assert "zz" in faults[1][1]
    assert "tell_now" in faults[2][1]


MENTIONING = """\
name = "a"
kind = "gathered"
key = ["place", "floor(x / )"]
tell_now = "x = 'high'"
ends_when = "x >"
[fields]
place = { type = "string" }
x = { X }
"""


@pytest.mark.parametrize(
    ("x", "lines"),
    [
        ('type = "int"', [3, 4, 5]),
        # All but the type is wrong: what the field is compared with is known to be wrong, too.
        ('type = "int", domain = [5, 0]', [3, 4, 5, 8]),
        ('type = "int", conflict = "maxx"', [3, 4, 5, 8]),
        ('type = "int", tolerance = -1', [3, 4, 5, 8]),
        ('type = "int", domian = [0, 5]', [3, 4, 5, 8]),
        # It may be meant to be a string.
        ('type = "integer"', [3, 5, 8]),
        ("domain = [0, 5]", [3, 5, 8]),
    ],
)
def test_a_bad_field_hides_no_fault_of_a_key_that_mentions_it(x: str, lines: list[int]) -> None:
    assert [line for line, _ in refused(MENTIONING.replace("X", x))] == lines


def test_what_is_said_of_a_bad_field_is_not_said_again_where_it_is_mentioned() -> None:
    faults = refused(
        """\
name = "a"
kind = "gathered"
key = ["lower(w)", "floor(x / 5)", "zz"]
tell_now = "x > 3 AND w LIKE 'fire%' AND sea.state = 'calm'"
ends_when = "x = 1 AND yy = 2"
[fields]
x = { type = "integer" }
w = { type = "text" }
sea = 3
"""
    )
    assert [line for line, _ in faults] == [3, 5, 7, 8, 9]
    assert "zz" in faults[0][1]
    assert "yy" in faults[1][1]


def test_a_filter_points_at_its_character() -> None:
    (only,) = refused("ends_when = \"severity = 'high'\"\n" + EXAMPLE)
    assert only[0] == 1
    assert only[1].startswith("ends_when: ")
    assert "(at character 12)" in only[1]


# Each text gives option `x` a place; the lines are those of the places named.
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n\nx = 1", {("x",): 3}),
        ("# [x]\nx = 1 # y", {("x",): 2}),
        ('a = """\nx = 1\n"""\nx = 2', {("x",): 4}),
        ('a = """\n\\""" ""\\"\n"""""\nx = 2', {("x",): 4}),
        ("a = '''\nx = '' \\'''''\nx = 2", {("x",): 3}),
        ("a = 'it # [x]'\nx = 2", {("x",): 2}),
        ('a = "it \\" # [x]"\nx = 2', {("x",): 2}),
        ("a = [ # [\n']', [1,\n2], ]\nx = 2", {("x",): 4, ("a", 1, 1): 3, ("a", 0): 2}),
        ("[a.b]\nc = 1\n[x]\ny.z = 1", {("x", "y", "z"): 4, ("a", "b", "c"): 2, ("a",): 1}),
        (
            "[[x]]\ny = 1\n[[x]]\ny = 2\n[x.z]\nw = 1",
            {("x", 0, "y"): 2, ("x", 1, "y"): 4, ("x", 1, "z", "w"): 6},
        ),
        ("a = { b = [{ c = 1 },\n{ c = 2 }] }\nx = 1", {("a", "b", 1, "c"): 2, ("x",): 3}),
        ("\"x \\u0041\" . 'y z' = 1", {("x A", "y z"): 1}),
        ("a = 2026-11-15 11:05:00Z\nb = -inf\nx = 1e3", {("x",): 3}),
        ("a = [\n\n\n1]", {("a",): 1, ("a", 0): 4, ("a", "unwritten"): 1, ("nowhere",): 1}),
    ],
)
def test_places_have_lines(text: str, lines: dict[Where, int]) -> None:
    tomllib.loads(text)
    scanned = Lines(text)
    assert {where: scanned.line(where) for where in lines} == lines


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('name = "x"\nkind = ', 2, "this is not TOML: Invalid value"),
        ('name = "x"\nkind "plain"', 2, "this is not TOML: Expected '=' after a key"),
        ('name = "x"\nname = "y"', 2, "this is not TOML: Cannot overwrite a value"),
        ('name = """x\n\n', 1, "this is not TOML"),
        ("x = " + "1" * 5000, None, "this is not TOML"),
        ("x = " + "[" * 100_000, None, "nested too deeply"),
        ("x = 0x" + "f" * 5000, 1, "there is no option 'x'"),
        ("version = 0x" + "f" * 5000, 1, "version: an integer of 20000 bits is not a whole number from 1 up"),
        ("#" * (DECLARATION_BYTES_MAX + 1), None, "longer than 262144 characters"),
        ("\n" + "a." * 100_000 + "a = 1", 2, "a key has more than 32 names"),
        ("a = '''\n'''\n['a' . " + '"b c" . ' * 32 + "a]", 3, "a key has more than 32 names"),
        ("x = '" + "a." * 50 + "' # " + "a." * 50, 1, "there is no option 'x'"),
        ("", 1, "name is missing"),
    ],
)
def test_what_is_not_a_declaration_is_refused(text: str, line: int | None, reason: str) -> None:
    found = refused(text)
    assert any(reason in message for _, message in found), found
    assert found[0][0] == line


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('kind = "plain"\nname = "Αθήνα"'.encode("iso8859-7"))
    (tmp_path / "large.toml").write_bytes(b"#" * (DECLARATION_BYTES_MAX + 1))
    for path, reason in (
        (tmp_path / "none.toml", "none.toml: there is no such file"),
        (tmp_path, "this is a folder; name the TOML file in it"),
        (tmp_path / "latin.toml", "latin.toml:2: the file is not UTF-8 text"),
        (tmp_path / "large.toml", "larger than 262144 bytes"),
        ("\0", "cannot be read"),
        (tmp_path / "latin.toml" / "x", "cannot be read"),
    ):
        with pytest.raises(DeclarationError) as caught:
            read_topic(path)
        assert reason in str(caught.value)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may read everything, so root becomes nobody for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_forbidden_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.touch(mode=0)
    with ordinary_user(), pytest.raises(DeclarationError, match=r"cannot be read: .*Permission denied"):
        read_topic(file)


PIECES = st.sampled_from(
    [
        *(
            '[fields]\n[fields.a]\n[[fields]]\nplace = { type = "string" }\ntype = "int"\n'.splitlines(
                keepends=True
            )
        ),
        *(f"{line}\n" for line in EXAMPLE.splitlines()),
        *(f"{name} = {value}\n" for name in OPTIONS for value in ("1", '"1s"', "[1, {a=[]}]", "{}", "true")),
        *('"', "'", '"""', "'''", "\n", "#", "=", ".", "[", "]", "{", "}", ",", "\\", "1", "a", "\r\n", "é"),
        'a."b c".d = [ 1,\n2 ]\n',
        "x = '''\n'''''\n",
        "1979-05-27",
        "0x" + "f" * 2000,
        "inf",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40))
@example("[fields.a]\n[fields]\n")
@settings(max_examples=examples(300))
def test_arbitrary_text_is_read_or_refused(text: str) -> None:
    try:
        parse_topic(text)
    except DeclarationError as error:
        lines = [problem.line for problem in error.problems]
        assert lines
        assert all(line is None or 1 <= line <= text.count("\n") + 1 for line in lines)


VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates()
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


TRAITS = st.dictionaries(st.sampled_from(["type", "domain", "tolerance"]), st.sampled_from(Type) | VALUES)


@given(
    st.dictionaries(st.sampled_from(list(OPTIONS)), VALUES, max_size=8),
    st.dictionaries(st.sampled_from(["a", "b"]), TRAITS),
)
def test_arbitrary_values_are_read_or_refused(mapping: dict[str, Any], fields: dict[str, Any]) -> None:
    for declared in (mapping, mapping | {"name": "x", "kind": "gathered", "fields": fields}):
        with suppress(DeclarationError):
            Topic.from_mapping(declared)


@given(declarations())
@example({"name": "t", "kind": "plain", "fields": {"a b": {"type": "string", "domain": ["\x7f", "\n\0é😀"]}}})
def test_a_topic_is_written_as_text_that_is_read_back(mapping: dict[str, Any]) -> None:
    topic = Topic.from_mapping(mapping)
    again = parse_topic(topic_text(topic))
    assert again == topic
    assert topic_text(again) == topic_text(topic)


def test_a_written_declaration_is_one_that_people_can_read() -> None:
    assert topic_text(parse_topic(EXAMPLE)).splitlines()[-5:] == [
        'place = { type = "string" }',
        'severity = { type = "int", domain = [0, 5], conflict = "max" }',
        'opened = { type = "timestamp" }',
        'lanes = { type = "float", domain = [0.0, 8.0], tolerance = 0.25 }',
        'fire = { type = "bool" }',
    ]
