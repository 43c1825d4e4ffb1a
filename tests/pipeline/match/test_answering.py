"""Batches of events, judged by the scan."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.language.samples import FIELDS
from tests.pipeline.match import samples
from tidings.errors import InputError
from tidings.language.fields import Field, Type
from tidings.language.fields import Path as FieldPath
from tidings.pipeline.match import files
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.matcher import Matcher


def answers(matcher: Matcher, events: pa.Table) -> list[tuple[int, list[int]]]:
    found: list[tuple[int, list[int]]] = []
    for batch in events.combine_chunks().to_batches():
        matched = matcher.match(batch.column("fields"), batch.column("topic"), batch.column("at"))
        lists = np.split(matched.numbers, matched.ends[:-1])
        assert matched.counts.tolist() == [len(one) for one in lists]
        found += zip(batch.column("event").to_pylist(), [one.tolist() for one in lists], strict=True)
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_every_event_gets_the_answer_of_the_scan(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    subscriptions, events = samples.some_subscriptions(rng, 300), samples.some_events(rng, 150)
    known = asking.subscriptions_of(subscriptions, (), FIELDS)
    size = files.write(tmp_path / "held", *asking.image(known))
    assert size == (tmp_path / "held").stat().st_size
    wanted = samples.scanned(events, subscriptions)
    assert sum(len(ids) for _, ids in wanted) > 1000
    assert answers(Matcher(*files.read(tmp_path / "held")), events) == wanted


def test_without_topics_and_times_only_filters_decide() -> None:
    table = pa.table(
        {"subscription": [4, 2], "topic": ["a", "b"], "where": ["x > 1", "x > 5"], "from_at": [0, 9]}
    )
    matcher = Matcher(*asking.image(asking.subscriptions_of(table, ())))
    found = matcher.match(
        pa.array([{"x": 7}, {"x": 3}, {"x": None}, None], pa.struct([("x", pa.int32())])), None, None
    )
    assert (found.numbers.tolist(), found.ends.tolist()) == ([2, 4, 4], [2, 3, 3, 3])


def test_rectangles_and_texts_may_stand_side_by_side() -> None:
    table = pa.table(
        {
            "subscription": [0, 1, 2],
            "x_lo": [1, None, 2**62],
            "x_hi": [3, None, 2**62],
            "where": [None, "x = 9 OR y = 'b'", None],
        }
    )
    matcher = Matcher(*asking.image(asking.subscriptions_of(table, ("x",))))
    events = pa.array([{"x": 3}, {"x": 9}, {"x": 2**62, "y": "b"}, {"x": 2**62 + 1}])
    found = matcher.match(events, None, None)
    assert (found.numbers.tolist(), found.ends.tolist()) == ([0, 1, 1, 2], [1, 2, 4, 4])


def test_no_subscriptions_match_nothing() -> None:
    table = pa.table({"subscription": pa.array([], pa.int64()), "where": pa.array([], pa.string())})
    matcher = Matcher(*asking.image(asking.subscriptions_of(table, ())))
    found = matcher.match(pa.array([{"x": 3}]), pa.array(["a"]), None)
    assert (found.numbers.tolist(), found.ends.tolist()) == ([], [0])


def test_a_number_that_is_none_is_refused() -> None:
    table = pa.table({"subscription": [0], "where": ["x > 1"]})
    matcher = Matcher(*asking.image(asking.subscriptions_of(table, ())))
    with pytest.raises(InputError, match="has nan in 'x', and filters know finite numbers only"):
        matcher.match(pa.array([{"x": float("nan")}]), None, None)


def test_a_column_that_no_field_can_be_is_refused() -> None:
    table = pa.table({"subscription": [0], "where": ["x > 1"]})
    matcher = Matcher(*asking.image(asking.subscriptions_of(table, ())))
    with pytest.raises(InputError, match="'x' is of type decimal128"):
        matcher.match(pa.array([{"x": 1}], pa.struct([("x", pa.decimal128(9, 2))])), None, None)


RIGHT: dict[str, list[Any]] = {
    "subscription": [7, 3],
    "topic": ["a/+", "#"],
    "x_lo": [1, None],
    "x_hi": [4, None],
    "where": [None, "x > 9"],
    "unknown": ["wait", "assume"],
    "from_at": [0, 5],
    "until_at": [None, 9],
}


def test_subscriptions_that_are_right_are_taken() -> None:
    assert asking.subscriptions_of(pa.table(RIGHT), ("x",)).number.tolist() == [3, 7]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"subscription": ["a", "b"]},
            "column 'subscription' of subscriptions is string; it should be int",
        ),
        ({"subscription": [7, None]}, "subscription None has no subscription; every row needs one"),
        ({"subscription": [7, 7]}, "subscription 7 is there twice; numbers must differ"),
        ({"x_lo": [5, None]}, "subscription 7 has x_lo 5 above x_hi 4; the lower end must not be above"),
        ({"x_lo": [1.5, None]}, "column 'x_lo' of subscriptions is double; it should be int64"),
        (
            {"where": [None, None]},
            r"subscription 3 has neither a rectangle \(x_lo\) nor a where; give it",
        ),
        ({"where": [None, "x >"]}, "subscription 3: the filter cannot be read here"),
        ({"where": [None, 5]}, "column 'where' of subscriptions is int64; it should be string"),
        ({"topic": ["a/#/b", "#"]}, "subscription 7: .* has '#' in the middle"),
        ({"topic": [None, "#"]}, "subscription 7 has no topic; every row needs one"),
        ({"unknown": ["wait", "hope"]}, "subscription 3 has unknown 'hope'; write 'wait' or 'assume'"),
        ({"unknown": [None, "wait"]}, "subscription 7 has no unknown; every row needs one"),
        ({"from_at": [0, 10]}, "subscription 3 ends at 9, before it begins at 10; until_at must not"),
    ],
)
def test_a_wrong_table_is_refused_with_the_subscription(wrong: dict[str, list[Any]], says: str) -> None:
    with pytest.raises(InputError, match=says):
        asking.subscriptions_of(pa.table({**RIGHT, **wrong}), ("x",))


def test_subscriptions_without_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="have no column 'subscription'; there are where"):
        asking.subscriptions_of(pa.table({"where": ["TRUE"]}), ())


def test_a_text_is_read_with_the_fields_of_its_topic() -> None:
    table = pa.table({"subscription": [1, 2], "topic": ["a", "b"], "where": ["x > '2'", "x > '2'"]})
    declared: dict[FieldPath, Field] = {("x",): Field(("x",), Type.STRING)}
    found = asking.subscriptions_of(table, (), lambda topic: declared if topic == "a" else None)
    assert [found.asked(row).filter.types for row in (0, 1)] == [{("x",): "string"}, {("x",): None}]


@pytest.mark.parametrize("harm", ["another file", "cut off"])
def test_a_file_that_is_harmed_is_refused(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "held"
    files.write(path, {}, {"a": np.arange(5000)})
    if harm == "cut off":
        path.write_bytes(path.read_bytes()[:-8192])
    else:
        path.write_bytes(b"something else" * 1000)
    with pytest.raises(InputError, match=r"make (it|the file) anew"):
        files.read(path)


def test_what_is_mapped_may_be_written_to_and_the_file_stays(tmp_path: Path) -> None:
    files.write(tmp_path / "held", {"said": 1}, {"a": np.arange(5), "b": np.zeros((2, 3), dtype=np.uint32)})
    about, arrays = files.read(tmp_path / "held")
    arrays["a"][0] = 7
    again = files.read(tmp_path / "held")[1]
    assert about == {"said": 1}
    assert again["a"].tolist() == [0, 1, 2, 3, 4]
    assert again["b"].shape == (2, 3)
    assert again["b"].dtype == np.uint32
