"""Lines are read in pieces and with checks of msgspec's, and are taken and refused as one by one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.pipeline.gather.samples import of_machine, of_table
from tests.pipeline.gather.streams import KERNEL, MACHINE
from tidings.errors import InputError, PayloadError
from tidings.gathering.replay import Reader
from tidings.language import json_lines
from tidings.language.reports import Report
from tidings.language.topics import Topic
from tidings.pipeline.gather import lines
from tidings.pipeline.gather.frames import BUCKET
from tidings.pipeline.gather.layout import REFUSED, Layout
from tidings.pipeline.tables import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOATS = Topic.from_mapping(
    {
        "name": "f",
        "kind": "gathered",
        "key": ["x"],
        "unknown_fields": "drop",
        "fields": {"x": {"type": "float"}, "a b": {"type": "string"}, "class": {"n.m": {"type": "bool"}}},
    }
)
LEVELS = Topic.from_mapping(
    {
        "name": "fleet/+vehicle",
        "kind": "gathered",
        "key": ["vehicle", "bucket(seen, '1h')"],
        "fields": {"seen": {"type": "timestamp"}, "speed": {"type": "int"}},
    }
)
TOPICS = [KERNEL, MACHINE, FLOATS, LEVELS]

WHERE = b'"seen": "2026-11-15", "at": {"lat": 1, "lon": 2}'

STRINGS = ['"Omonia"', '""', '"a:b"', '"é"', '"\x7f"', '"\\u003a"', '"\\ud83d\\ude00"', '"\\ud800"', '"NaN"']
INTS = ["0", "7", "-0", "9007199254740993", "9223372036854775807", "-9223372036854775808"]
FLOATING = ["0.5", "-0.0", "1.0", "1e2", "1E-400", "9007199254740992.0", "-9.2e18", "1.7976931348623157e308"]
TIMES = [
    '"2026-11-15T11:05:00Z"',
    '"2026-11-15T11:05:00.0000005Z"',
    '"2026-11-15 11:05+02:00"',
    '"2026-11-15"',
    '"0001-01-01T00:00:00Z"',
]
WRONG = [
    *("9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e400", "NaN", "Infinity"),
    *("01", "+1", ".5", "", "'x'", "nul", '"\n"', '"\x01"', '"\udcff"', "[]", "[1, null]", "[[1]]", "{}"),
    *('{"x": 1}', '{"lat": 1}', '{"lat": 1, "lat": 2}', '"2026-11-15T24:00:00Z"', '"11:05"', "[1e400]"),
    '"0001-01-01T00:00:00+10:00"',
    '"9999-12-31T23:59:59.9999999Z"',
    "[" * 40 + "]" * 40,
]
ANY = st.sampled_from(
    [*STRINGS, *INTS, *FLOATING, *TIMES, *WRONG, "null", "true", "false", "[2, 1]", "1", "2"]
)
USUAL: dict[str, list[str]] = {
    "string": STRINGS[:5],
    "int": INTS,
    "float": [*FLOATING, *INTS[:3]],
    "bool": ["true", "false"],
    "timestamp": TIMES,
}


@st.composite
def groups(draw: st.DrawFn, table: dict[str, Any]) -> str:
    """The text of an object with some of the declared fields, most of them as they are declared."""
    said = list[tuple[str, str]]()
    for name, traits in table.items():
        chance = draw(st.integers(0, 19))
        if chance == 0:
            value = draw(ANY)
        elif chance == 1:
            value = "null"
        elif chance < 4:
            continue
        elif isinstance(traits.get("type"), str):
            value = draw(st.sampled_from(USUAL[traits["type"]]))
        else:
            value = draw(groups(traits))
        said.append((name, value))
    if draw(st.integers(0, 9)) == 0:
        other = draw(st.sampled_from([*table, *(name.upper() for name in table), "x", "topic", ""]))
        said.insert(draw(st.integers(0, len(said))), (other, draw(ANY)))
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in said) + "}"


@st.composite
def texts(draw: st.DrawFn, topic: Topic) -> bytes:
    """A line of a file, nearly always a report of the topic."""
    if draw(st.integers(0, 19)) == 0:
        return draw(
            st.sampled_from([b"", b" \t\r", b"{", b"[]", b"null", b"\xff", b"\xef\xbb\xbf{}", b"{} {}"])
        )
    table: Any = topic.to_mapping()["fields"]
    if topic is LEVELS:
        table = {"vehicle": {"type": "string"}, **table}
    fields = draw(groups(table))
    times = [*INTS[:3], *FLOATING, *TIMES, "12.5", "4503599627.370497"]
    at = draw(st.sampled_from(times) if draw(st.integers(0, 9)) else ANY)
    said = [f'"at": {at}', f'"fields": {fields}']
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(["topic", "at", "fields", "Fields", "id"]))
        value = draw(st.one_of(ANY, st.sampled_from(['"f"', '"road"', '"fleet/v1"', fields])))
        said.insert(draw(st.integers(0, 2)), f'"{name}": {value}')
    if draw(st.integers(0, 19)) == 0:
        said.pop(draw(st.integers(0, 1)))
    end = draw(st.sampled_from(["", "", "", "\r", " ", "}"]))
    return ("{" + ",".join(said) + "}" + end).encode(errors="surrogateescape").replace(b"\n", b" ")


@st.composite
def files(draw: st.DrawFn) -> tuple[Topic, bytes]:
    topic = draw(st.sampled_from(TOPICS))
    begin = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    end = draw(st.sampled_from([b"", b"\n"]))
    return topic, begin + b"\n".join(draw(st.lists(texts(topic), max_size=8))) + end


def one_by_one(topic: Topic, data: bytes) -> tuple[list[Report], list[tuple[int, str]], lines.Kinds]:
    """What `tidings gather` takes of a file, what it says of the rest, and the first of each kind of time."""
    reader, taken, refused = Reader(topic), list[Report](), list[tuple[int, str]]()
    kinds = lines.Kinds()
    for number, text in json_lines.texts(io.BytesIO(data).readline):
        try:
            line = json_lines.decode(text)
            taken.append(reader.read(number, line))
        except PayloadError as error:
            refused.append((number, str(error)))
        else:
            kinds.setdefault(isinstance(line["at"], str), number)
    return taken, refused, kinds


def in_pieces(layout: Layout, path: Path, size: int) -> tuple[pa.Table, list[dict[str, Any]], lines.Kinds]:
    """Reports, refusals and kinds of time of a file that is cut into pieces of so many bytes."""
    tables, refused, kinds = list[pa.Table](), list[dict[str, Any]](), lines.Kinds()
    with path.open("rb") as file:
        pieces = list(lines.cut(file.read, size))
    for piece in pieces:
        for rows, told in lines.taken(layout, lines.lines_of(path, piece), 7, kinds):
            tables.append(rows)
            refused += told.to_pylist()
    schema = layout.rows.append(pa.field(BUCKET, pa.int32()))
    return pa.concat_tables([schema.empty_table(), *tables]), refused, kinds


@settings(max_examples=examples(600))
@given(files(), st.integers(1, 60), st.integers(1, 3))
def test_a_file_in_pieces_is_taken_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Topic, bytes], size: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "BLOCK_BYTES", 16)
        patched.setattr(lines, "CHUNK_ROWS", chunk)
        agree(*drawn, tmp_path_factory.getbasetemp() / "drawn.jsonl", size)


def agree(topic: Topic, data: bytes, path: Path, size: int) -> None:
    """A file in pieces is taken as line by line, and one key has one bucket."""
    layout = Layout(topic)
    path.write_bytes(data)
    rows, refused, kinds = in_pieces(layout, path, size)
    reports, said, kinds_said = one_by_one(topic, data)
    assert kinds == kinds_said
    # As texts, in which 0.0 and -0.0 differ.
    assert repr(rows.select(layout.rows.names).to_pylist()) == repr(layout.table(reports).to_pylist())
    assert [(row["event"], row["reason"]) for row in refused] == said
    assert all(row["state"] == REFUSED for row in refused)
    buckets = dict[str, int]()
    for row in rows.to_pylist():
        key = repr([row[name] for name in layout.group_names])
        assert buckets.setdefault(key, row[BUCKET]) == row[BUCKET]


@given(st.lists(st.sampled_from([b"\n", b"x", b"yy\n"]), max_size=60), st.integers(1, 20), st.integers(1, 9))
def test_pieces_are_cut_at_line_ends_and_know_their_lines(parts: list[bytes], size: int, block: int) -> None:
    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "BLOCK_BYTES", block)
        pieces = list(lines.cut(io.BytesIO(data).read, size))
    at, number = 0, 1
    for piece in pieces:
        assert (piece.begin, piece.first) == (at, number)
        inside = data[piece.begin : piece.end]
        assert piece.lines == len(inside.splitlines())
        at, number = piece.end, number + piece.lines
    assert at == len(data)
    assert all(data[piece.end - 1 : piece.end] == b"\n" for piece in pieces[:-1])
    assert all(piece.end - piece.begin >= size for piece in pieces[:-1])


@pytest.mark.parametrize(
    "said",
    [
        '"at": 0, "fields": {"x": 9223372036854775808}',
        '"at": 0, "fields": {"x": 9223372036854775807}',
        '"at": 0, "fields": {"x": 9007199254740993}',
        '"at": 0, "fields": {"x": -9007199254740993}',
        '"at": 0, "fields": {"x": 1e400}',
        '"at": 9223372036854775808, "fields": {"x": 1}',
        '"at": 1e300, "fields": {"x": 1}',
        '"at": 4503599627.370497, "fields": {"x": 1}',
        '"at": true, "fields": {"x": 1}',
        '"at": null, "fields": {"x": 1}',
        '"at": 0, "at": 1, "fields": {"x": 1}',
        '"at": 0, "fields": {"x": 1}, "fields": {"x": 1}',
        # As many colons as one `x` has, where the text has its own.
        '"at": 0, "fields": {"x": 1, "x": 1, "a b": "\\u003a"}',
        '"at": 0, "fields": {"\\u0078": 1}',
        '"at": 0, "fields": {"X": 1}',
        '"at": 0, "fields": {"x": 1, "y": [1e400]}',
        '"at": 0, "fields": {"x": 1, "y": [1, {"z": null}]}',
        '"at": 0, "fields": {"x": 1, "y": ' + "[" * 2000 + "]" * 2000 + "}",
        '"at": 0, "fields": {"x": 1, "class": null}',
        '"at": 0, "fields": {"x": 1, "class": 1}',
        '"at": 0, "fields": {"x": 1, "class": {"n.m": true}}',
        '"at": 0, "fields": {"x": 1, "class": {"n.m": 1}}',
        '"at": 0, "fields": {"x": 1, "a b": 1}',
        '"at": 0, "fields": {"x": "1"}',
        '"at": 0, "fields": {"x": null}',
        '"at": 0, "fields": {}',
        '"at": 0, "fields": null',
        '"at": 0, "topic": "f", "fields": {"x": 1}',
        '"at": 0, "topic": "g", "fields": {"x": 1}',
        '"at": 0, "topic": null, "fields": {"x": 1}',
        '"at": 0, "fields": {"x": 1}, "note": "ours"',
    ],
)
def test_what_is_not_usual_is_taken_or_refused_as_line_by_line(tmp_path: Path, said: str) -> None:
    agree(FLOATS, f"{{{said}}}".encode(), tmp_path / "one.jsonl", 1)


@pytest.mark.parametrize(
    "said",
    ['"km": 9223372036854775808', '"km": 7.0', '"km": 7.5', '"km": 7, "note": 1', '"km": 7, "fire": 1'],
)
@pytest.mark.parametrize("seen", ['"2026-11-15T11:05:00Z"', '"11:05"', "7"])
def test_types_are_taken_or_refused_as_line_by_line(tmp_path: Path, said: str, seen: str) -> None:
    fields = f'{{"place": "Omonia", "seen": {seen}, "at": {{"lat": 1, "lon": 2}}, {said}}}'
    agree(KERNEL, f'{{"at": 0, "fields": {fields}}}'.encode(), tmp_path / "one.jsonl", 1)


def test_usual_lines_are_checked_while_they_are_decoded() -> None:
    typed = lines.Typed(Layout(KERNEL))
    usual = b'{"at": 1.5, "fields": {"place": "Omonia", "km": 3, "note": null, ' + WHERE + b"}}"
    assert typed.take(usual) is not None
    # A field that holds many values may be written as one or as a list.
    assert lines.Typed(Layout(MACHINE)).take(usual) is None


def test_a_file_has_no_more_tasks_than_its_bytes_are_for(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_bytes(b"{}\n" * 10_000)
    assert lines.File(path, cores=16).pieces == [lines.Piece(0, 30_000, 1, 10_000)]
    large = 10 * lines.PIECE_BYTES_MAX
    assert lines.piece_bytes(large, cores=1) == lines.PIECE_BYTES_MAX
    assert lines.piece_bytes(large, cores=8) == large // 32
    assert lines.piece_bytes(large, cores=1_000) == lines.PIECE_BYTES_MIN


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.jsonl cannot be read: No such file"):
        lines.File(tmp_path / "no.jsonl", 1)
    with pytest.raises(InputError, match="is no file that can be read in pieces; write its lines to one"):
        lines.File(tmp_path, 1)


NASTY = b"\n".join(
    [
        b'\xef\xbb\xbf{"at": 0, "fields": {"place": "Omonia", "km": 1, ' + WHERE + b"}}\r",
        b"",
        b'{"at": 1, "fields": {"place": " omonia", "km": 1.0, ' + WHERE + b"}}",
        b'{"at": 2, "fields": {"place": "Omonia"}}',
        b'{"at": 3, "fields": {"place": "Omonia", "km": "1"}}',
        b'{"at": "never", "fields": {"place": "Omonia"}}',
        b'{"at": 4, "fields": {"place": "Omonia", "place": "Omonia"}}',
        b"{",
        b'{"at": 5, "fields": {"place": "OMONIA", "km": 0, "note": "a:b", ' + WHERE + b"}}",
    ]
)


@pytest.mark.spark
def test_a_file_is_gathered_by_pieces_with_what_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "PIECE_BYTES_MIN", 100)
    path = tmp_path / "nasty.jsonl"
    path.write_bytes(NASTY)
    file = lines.File(path, 1)
    assert len(file.pieces) == 3
    assert file.rows == 9
    told = lines.gather(spark, file, Layout(KERNEL), partitions=3).toArrow()
    reports, said, _ = one_by_one(KERNEL, NASTY)
    assert of_table(told) == of_machine(KERNEL, reports)[0]
    refused = sorted(
        (row for row in told.to_pylist() if row["state"] == REFUSED), key=lambda row: row["event"]
    )
    assert [(row["event"], row["reason"]) for row in refused] == said
    assert [row["at"] for row in refused] == [2_000_000, 3_000_000, None, None, None]


@pytest.mark.spark
def test_a_file_without_lines_tells_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert not lines.gather(spark, lines.File(path, 1), Layout(KERNEL), partitions=1).toArrow().num_rows


@pytest.mark.spark
def test_a_file_that_a_worker_does_not_see_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "gone.jsonl"
    path.write_bytes(NASTY)
    told = lines.gather(spark, lines.File(path, 1), Layout(KERNEL), partitions=1)
    path.unlink()
    with (
        pytest.raises(InputError, match=r"gone\.jsonl cannot be read on .* \(ENOENT\); all workers must"),
        reading(),
    ):
        told.toArrow()
