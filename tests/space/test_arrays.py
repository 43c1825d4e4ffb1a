"""Many at once, judged by one at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidings.errors import InputError
from tidings.language.cuts import Cuts
from tidings.language.fields import Field, Path, Type
from tidings.space import Space, arrays

FIELDS: dict[Path, Field] = {
    ("x",): Field(("x",), Type.INT, (-2, 3)),
    ("f",): Field(("f",), Type.FLOAT, (-1e308, 1.7e308)),
    ("y",): Field(("y",), Type.INT, (1, 128)),
}
COUNTED: dict[Path, Field] = {
    path: Field(path, Type.INT, domain)
    for path, domain in {("x",): (-2, 3), ("y",): (0, 15), ("z",): (5, 9)}.items()
}


@pytest.mark.parametrize("depth", [0, 1, 7, 30])
def test_points_are_those_of_one_at_a_time(depth: int) -> None:
    rng = random.Random(depth)
    space = Space.of(FIELDS)
    events = [
        {"x": rng.randint(-5, 5), "f": rng.uniform(-1e308, 1e308), "y": rng.randint(-5, 200)}
        for _ in range(300)
    ]
    places = [
        arrays.placed(space, 0, np.array([one["x"] for one in events])),
        np.array([one["f"] for one in events]),
        arrays.placed(space, 2, np.array([one["y"] for one in events])),
    ]
    found = arrays.points(space, places, depth)
    wanted = [space.point(one, depth) for one in events]
    bits = len(space.turns(depth))
    assert [format(code, f"0{bits}b") if bits else "" for code in found.tolist()] == wanted


def test_a_missing_float_lies_in_the_lowest_cell() -> None:
    space = Space.of({("f",): Field(("f",), Type.FLOAT, (2.0, 2.0))})
    assert arrays.points(space, [np.array([2.0, space.attributes[0].place(None)])], 4).tolist() == [15, 0]


def test_cells_of_more_bits_than_a_number_holds_are_refused() -> None:
    space = Space.of({("f",): Field(("f",), Type.FLOAT, (0.0, 1.0))})
    assert arrays.points(space, [np.array([1.0])], 62).tolist() == [2**62 - 1]
    with pytest.raises(InputError, match="cells of 63 bits were asked for, and one number holds 62"):
        arrays.points(space, [np.array([1.0])], 63)
    many = Space.of({(name,): Field((name,), Type.INT, (0, 2**40 - 1)) for name in "xy"})
    ends = np.zeros((1, 2), dtype=np.int64)
    with pytest.raises(InputError, match="cells of 80 bits were asked for"):
        arrays.rectangles(many, ends, ends, 99)


def test_a_depth_that_the_space_does_not_have_is_not_refused() -> None:
    space = Space.of(COUNTED)
    assert arrays.points(space, [np.array([7]), np.array([15]), np.array([7])], 99).tolist() == [2**10 - 1]


@pytest.mark.parametrize("depth", [0, 1, 5, 10])
def test_rectangles_meet_the_cells_of_their_decomposition(depth: int) -> None:
    rng = random.Random(depth)
    space = Space.of(COUNTED)
    counts = [one.count for one in space.attributes]  # type: ignore[union-attr]
    ends = [[sorted((rng.randrange(count), rng.randrange(count))) for count in counts] for _ in range(80)]
    low = np.array([[one[0] for one in row] for row in ends])
    high = arrays.widened(space, np.array([[one[1] for one in row] for row in ends]))
    row, cell = arrays.rectangles(space, low, high, depth)
    bits = len(space.turns(depth))
    for at in range(len(ends)):
        box = tuple(Cuts(False, (int(a), int(b) + 1)) for a, b in zip(low[at], high[at], strict=True))
        wanted: set[str] = set()
        for one in space.decompose([box], depth).dz:
            rest = bits - len(one)
            wanted |= {one + (format(tail, f"0{rest}b") if rest else "") for tail in range(1 << rest)}
        found = [format(code, f"0{bits}b") if bits else "" for code in cell[row == at].tolist()]
        assert found == sorted(wanted)
