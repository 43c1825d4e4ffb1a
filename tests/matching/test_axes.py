"""Ordinals keep the order of values, and what filters no longer use is let go."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.samples import some_parsed
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import Unknown, parse
from tidings.matching.axes import (
    EXPAND_MAX,
    PREFIX_LENGTHS,
    Attributes,
    floor_float,
    number_ordinal,
    string_ordinal,
    ways_of,
)

WHOLE: dict[Path, Field] = {("x",): Field(("x",), Type.INT), ("s",): Field(("s",), Type.STRING)}

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_numbers_keep_their_order(a: float, b: float) -> None:
    assert (a < b) == (number_ordinal(a) < number_ordinal(b))
    assert (a == b) == (number_ordinal(a) == number_ordinal(b))


@given(st.integers(-(2**70), 2**70), finite)
def test_rounding_down_keeps_whole_numbers_on_their_side(value: int, point: float) -> None:
    down = floor_float(value)
    assert down <= value < math.nextafter(down, math.inf)
    assert (value >= point) == (down >= point)
    assert (value < point) == (down < point)


def test_numbers_beyond_all_floats_have_a_place() -> None:
    assert floor_float(10**400) == math.nextafter(math.inf, 0)
    assert floor_float(-(10**400)) == -math.inf


@given(st.text(), st.text())
def test_strings_keep_their_order_as_far_as_eight_bytes_go(a: str, b: str) -> None:
    if a <= b:
        assert string_ordinal(a) <= string_ordinal(b)


def test_lengths_of_prefixes_are_few_and_close() -> None:
    assert PREFIX_LENGTHS[:8] == (8, 10, 12, 14, 16, 20, 24, 28)
    assert len(PREFIX_LENGTHS) < 40
    assert all(b - a <= max(2, a // 4) for a, b in itertools.pairwise(PREFIX_LENGTHS))


@pytest.mark.parametrize(
    ("text", "boxes", "exact"),
    [
        ("x BETWEEN 3 AND 7", 1, True),
        ("x IN (1, 3, 5)", 3, True),
        ("x <> 3", 2, True),
        ("s IN ('a', 'b')", 2, True),
        ("s LIKE 'https://example.org/a%'", 1, True),
        ("s LIKE '%fire%'", 1, False),
        ("s <> 'a'", 1, False),
        ("s >= 'a string of more than eight bytes'", 1, False),
        ("x IS NULL", 1, True),
        ("x = 9007199254740993", 1, False),
    ],
)
def test_what_can_be_said_exactly(text: str, boxes: int, exact: bool) -> None:
    ways = [ways_of(box) for box in parse(text, WHOLE).boxes(Unknown.WAIT)]
    assert sum(len(found) for found, _ in ways) == boxes
    assert all(fits for _, fits in ways) == exact


def test_lists_multiply_only_while_that_is_cheap() -> None:
    twenty = ", ".join(map(str, range(0, 40, 2)))
    (box,) = parse(f"a IN ({twenty}) AND b IN ({twenty})").boxes(Unknown.WAIT)
    found, exact = ways_of(box)
    assert len(found) == 20 <= EXPAND_MAX
    assert not exact


def test_everything_is_counted_and_let_go() -> None:
    rng = random.Random(11)
    attributes = Attributes()
    held = []
    for _ in range(300):
        boxes, _ = attributes.admit(some_parsed(rng, declared=False).boxes(rng.choice(list(Unknown))))
        held += [constraint for box in boxes for constraint in box]
    assert attributes.used
    rng.shuffle(held)
    for head, least, greatest in held:
        attributes.release(head >> 1, least, greatest)
    assert attributes.used == 0
    assert not attributes.symbols
    assert not attributes.fields
