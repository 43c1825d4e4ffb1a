"""Packed expressions by compiled code, judged by one at a time.

Compiling takes more than ten seconds, so by default the kernels run as the Python that they are written in.
"""

from __future__ import annotations

import importlib.util
import random
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest

from tidings.language.cuts import Cuts
from tidings.language.fields import Field, Path, Type
from tidings.space import Space, arrays

Array = npt.NDArray[np.int64]


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.slow)], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the kernels run."""
    if request.param == "interpreted":
        monkeypatch.setattr(arrays, "_compiled", interpreted)


@cache
def interpreted() -> Any:
    """The kernels of a copy of their module, made while numba leaves functions alone."""
    config: Any = numba.config
    before, config.DISABLE_JIT = config.DISABLE_JIT, True
    try:
        found = importlib.util.find_spec("tidings.space.kernels")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module.make(cache=False)
    finally:
        config.DISABLE_JIT = before


def counted(*counts: int) -> Space:
    fields: dict[Path, Field] = {
        (f"a{at}",): Field((f"a{at}",), Type.INT, (at, at + count - 1)) for at, count in enumerate(counts)
    }
    return Space.of(fields)


TEN = counted(*[128] * 10)
FEW = counted(6, 1, 40, 3)


def some_boxes(space: Space, rng: random.Random, count: int) -> tuple[Array, Array]:
    """Boxes that limit some attributes, some of them to the end of the domain or to one value."""
    low, high = [], []
    for _ in range(count):
        ends = [(0, attribute.count - 1) for attribute in space.attributes]  # type: ignore[union-attr]
        for at, (_, last) in enumerate(ends):
            roll = rng.random()
            if roll < 0.6:
                one, other = sorted((rng.randint(0, last), rng.randint(0, last)))
                ends[at] = (one, last if roll < 0.1 else one if roll < 0.2 else other)
        low.append([one for one, _ in ends])
        high.append([other for _, other in ends])
    return np.array(low), arrays.widened(space, np.array(high))


@pytest.mark.parametrize(("space", "depth"), [(FEW, 0), (FEW, 5), (FEW, 99), (TEN, 63), (TEN, 64), (TEN, 70)])
def test_packed_points_are_those_of_one_at_a_time(space: Space, depth: int) -> None:
    rng = random.Random(depth)
    events = [{f"a{at}": rng.randint(-3, 140) for at in range(len(space.attributes))} for _ in range(50)]
    places = [
        arrays.placed(space, at, np.array([event[f"a{at}"] for event in events]))
        for at in range(len(space.attributes))
    ]
    found = arrays.packed(space, places, depth)
    bits = len(space.turns(depth))
    assert arrays.texts(found, bits) == [space.point(event, depth) for event in events]


def test_floats_are_halved_as_one_at_a_time() -> None:
    space = Space.of(
        {
            ("f",): Field(("f",), Type.FLOAT, (-1e308, 1.7e308)),
            ("x",): Field(("x",), Type.INT, (0, 5)),
            ("g",): Field(("g",), Type.FLOAT, (0.0, 1.0)),
        }
    )
    rng = random.Random(4)
    events = [
        {"f": rng.uniform(-1e308, 1.7e308), "x": rng.randint(0, 5), "g": rng.random()} for _ in range(50)
    ]
    places = [np.array([event[name] for event in events]) for name in ("f", "x", "g")]
    assert arrays.texts(arrays.packed(space, places, 90), 90) == [space.point(event, 90) for event in events]


@pytest.mark.parametrize(
    ("space", "depth", "most"),
    [
        (FEW, 0, 1),
        (FEW, 4, 2),
        (FEW, 99, 1),
        (FEW, 99, 3),
        (FEW, 99, 16),
        (FEW, 7, 300),
        (TEN, 70, 16),
        (TEN, 70, 5),
    ],
)
def test_boxes_have_the_expressions_of_one_at_a_time(space: Space, depth: int, most: int) -> None:
    low, high = some_boxes(space, random.Random(most), 40)
    found = arrays.decomposed(space, low, high, depth, most)
    for row in range(len(low)):
        box = tuple(Cuts(False, (int(a), int(b) + 1)) for a, b in zip(low[row], high[row], strict=True))
        wanted = space.decompose([box], depth, most)
        assert found.of(row) == wanted.dz
        assert found.exact[row] == wanted.exact


def test_bits_behind_an_expression_are_zeros_so_that_words_sort_as_texts() -> None:
    low, high = some_boxes(TEN, random.Random(5), 40)
    found = arrays.decomposed(TEN, low, high, 70, 16)
    for row in range(len(low)):
        some = slice(found.starts[row], found.starts[row + 1])
        whole = arrays.texts(found.words[some], 128)
        assert whole == sorted(whole)
        assert [text.rstrip("0") for text in whole] == [text.rstrip("0") for text in found.of(row)]


def test_many_boxes_are_decomposed_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = some_boxes(FEW, random.Random(6), 25)
    wanted = arrays.decomposed(FEW, low, high, 9, 4)
    monkeypatch.setattr(arrays, "MEMBERS_MAX", 28)
    found = arrays.decomposed(FEW, low, high, 9, 4)
    assert found.starts.tolist() == wanted.starts.tolist()
    assert [found.of(row) for row in range(25)] == [wanted.of(row) for row in range(25)]
    assert found.exact.tolist() == wanted.exact.tolist()


def test_no_box_has_no_expressions() -> None:
    none = np.zeros((0, len(FEW.attributes)), dtype=np.int64)
    found = arrays.decomposed(FEW, none, none, 9, 4)
    assert (found.starts.tolist(), len(found.words), len(found.exact)) == ([0], 0, 0)
