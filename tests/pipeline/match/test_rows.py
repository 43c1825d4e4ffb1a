"""Rows of bits, judged by the scan."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidings.language.filters import parse
from tidings.language.regions import Unknown
from tidings.matching import Index, Scan
from tidings.matching.images import attributes_of, image_of
from tidings.pipeline.match import rows
from tidings.pipeline.match.encoding import encode

KIND = pa.struct([("x", pa.int64()), ("y", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])


def some_text(rng: random.Random) -> str:
    terms = [
        f"x BETWEEN {rng.randint(-3, 3)} AND {rng.randint(3, 9)}",
        f"y {rng.choice(['<', '<=', '>', '>='])} {rng.choice([-2.5, 0.0, 1.5])}",
        f"s = '{rng.choice('abc')}'",
        "b",
    ]
    return " AND ".join(rng.sample(terms, rng.randint(1, 3)))


def some_event(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "x": rng.randint(-5, 11),
        "y": rng.choice([-3.0, -2.5, -0.0, 0.0, 1.0, 1.5, 2.0]),
        "s": rng.choice("abcd"),
        "b": rng.random() < 0.5,
    }
    return {name: value for name, value in found.items() if rng.random() < 0.8}


@pytest.mark.parametrize("count", [1, 64, 700])
def test_they_answer_as_the_scan_does(count: int) -> None:
    rng = random.Random(count)
    index, scan = Index(), Scan()
    for number in range(count):
        one, unknown = parse(some_text(rng)), rng.choice(list(Unknown))
        if len(one.boxes(unknown)) != 1:
            one, unknown = parse("TRUE"), Unknown.WAIT
        if number % 50 == 7:
            one = parse("TRUE")
        index.add(number, one, unknown)
        scan.add(number, one, unknown)
    image = image_of(index)
    made = rows.rows_of(image.arrays, asked=False)
    assert made is not None
    events = [some_event(rng) for _ in range(300)]
    answering, asked = rows.Rows(made), encode(attributes_of(image.about), pa.array(events, KIND))
    found = answering.match(*asked)
    lists = [one.tolist() for one in np.split(found.owners, found.ends[:-1])]
    assert lists == [list(scan.match(event)) for event in events]
    assert sum(map(len, lists)) > count
    assert answering.count(*asked).tolist() == list(map(len, lists))


@pytest.mark.parametrize("text", ["x = 1 OR y = 2", "x > 1 AND x < 0", "x IN (1, 5)"])
def test_filters_that_are_no_single_box_are_left_to_the_tiles(text: str) -> None:
    index = Index()
    index.add(0, parse("x > 3"))
    assert rows.rows_of(image_of(index).arrays, asked=False) is not None
    index.add(1, parse(text))
    assert rows.rows_of(image_of(index).arrays, asked=False) is None


def test_where_there_is_no_filter_there_are_no_rows() -> None:
    assert rows.rows_of(image_of(Index()).arrays, asked=False) is None


def test_filters_with_too_many_bounds_are_left_to_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    for number in range(1000):
        index.add(number, parse(f"x = {number}"))
    arrays = image_of(index).arrays
    assert rows.rows_of(arrays, asked=False) is not None
    assert rows.rows_of(arrays, asked=True) is None
    monkeypatch.setattr(rows, "BYTES_MAX", 100_000)
    assert rows.rows_of(arrays, asked=False) is None
    monkeypatch.setattr(rows, "BYTES_MAX", 1 << 30)
    monkeypatch.setattr(rows, "BITS_MAX", 999)
    assert rows.rows_of(arrays, asked=False) is None
