"""Single events of numbers take a short way; it must be the same way."""

from __future__ import annotations

import random

from tidings.language.filters import Unknown, parse
from tidings.matching import Index, Scan, compile_kernels
from tidings.matching.axes import SHAPES_MAX

VALUES = [
    0,
    1,
    2,
    2.5,
    -1,
    -0.0,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    1e300,
    None,
    "2",
    True,
    [1],
    {"x": 1},
]


def test_events_of_numbers_are_answered_alike() -> None:
    compile_kernels()
    rng = random.Random(11)
    index, scan = Index(), Scan()
    held: list[int] = []
    for step in range(2_000):
        if rng.random() < 0.3 or not held:
            name = rng.choice("abcdef")
            text = rng.choice(
                [
                    f"{name} > {rng.randint(-1, 3)} AND {rng.choice('abc')} < 3",
                    f"{name} <= 9007199254740992",
                    f"{name} = 2",
                    f"{name} IS NULL OR {rng.choice('abc')} >= 1.5",
                    f"{name}.x = 1",
                    f"{name} = '2'",
                ]
            )
            unknown = rng.choice(list(Unknown))
            for matcher in (index, scan):
                matcher.add(step, parse(text), unknown)
            held.append(step)
        elif rng.random() < 0.3:
            gone = held.pop(rng.randrange(len(held)))
            for matcher in (index, scan):
                matcher.remove(gone)
        numbers = VALUES[:5] if rng.random() < 0.6 else VALUES
        event = {name: rng.choice(numbers) for name in rng.sample("abcdefgh", rng.randint(0, 8))}
        assert list(index.match(event)) == list(scan.match(event)), event


def test_an_answer_stays_as_it_is() -> None:
    compile_kernels()
    index = Index()
    for number in range(5_000):
        index.add(number, parse(f"a >= {number} AND b < 10"))
    first = index.match({"a": 2_999, "b": 1})
    second = index.match({"a": 9, "b": 1})
    assert (len(first), first[-1], len(second)) == (3_000, 2_999, 10)


def test_shapes_are_bounded() -> None:
    compile_kernels()
    index = Index()
    index.add(0, parse("a > 1 AND b > 1"))
    for number in range(10 * SHAPES_MAX):
        assert index.match({"a": 2, "b": 2, f"x{number}": 3}).tolist() == [0]  # type: ignore[union-attr]
    assert len(index._attributes._shapes) <= SHAPES_MAX
