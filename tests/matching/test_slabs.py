"""A slab finds what the filters themselves say, whatever they ask; and only while nothing changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.matching.samples import some_parsed, some_values
from tidings.language.filters import Unknown, parse
from tidings.matching import Index, Scan, compiling, slabs, store


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slab for the first event already."""
    monkeypatch.setattr(store, "SLAB_FROM", 0)
    monkeypatch.setattr(store, "SLAB_FROM_EACH", 0)


def has_slab(index: Index) -> bool:
    return index._store._slab is not None


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("seed", range(2))
def test_a_slab_agrees_with_the_filters_themselves(seed: int) -> None:
    rng = random.Random(seed)
    index, scan = Index(), Scan()
    declared = seed % 2 == 0
    held: list[int] = []
    made = 0
    for number in range(80):
        if held and rng.random() < 0.2:
            gone = held.pop(rng.randrange(len(held)))
            index.remove(gone)
            scan.remove(gone)
        wanted, unknown = some_parsed(rng, declared), rng.choice(list(Unknown))
        index.add(number, wanted, unknown)
        scan.add(number, wanted, unknown)
        held.append(number)
        if number % 4 == 0:
            events = [some_values(rng, declared) for _ in range(rng.choice((1, 3, 66)))]
            found = [list(some) for some in index.match_batch(events)]
            assert found == [list(some) for some in scan.match_batch(events)]
            made += has_slab(index)
    assert made > 5, "they were slabs that answered"


@pytest.mark.usefixtures("_at_once")
def test_more_than_there_is_room_for_is_found_all_the_same() -> None:
    index = Index()
    for number in range(1500):
        index.add(number, parse(f"a >= {number % 7}"))
    found = index.match_batch([{"a": 9}] * 100)
    assert has_slab(index)
    assert all(np.array_equal(some, np.arange(1500)) for some in found)


@pytest.mark.usefixtures("_at_once")
def test_whatever_room_there_is_nothing_that_was_found_is_lost() -> None:
    """Doubles and boxes that are not there are written for nothing: not over what is there."""
    index, scan = Index(), Scan()
    for number in range(9):
        wanted = parse(f"a BETWEEN 0 AND {number} OR a BETWEEN 1 AND 3 OR a = {10 + number}")
        index.add(number, wanted)
        scan.add(number, wanted)
    events = [{"a": value} for value in (2, 5, 12, 0, 99, 3, 8, 15)]
    due = [list(some) for some in scan.match_batch(events)]
    index.match_batch(events)
    kernels = compiling.compiled()
    assert kernels is not None
    for room in range(1, 1 + sum(map(len, due))):
        found = index._store.match(kernels, *index._attributes.encode_batch(events), room)
        assert has_slab(index)
        assert [owners.tolist() for owners, _ in found] == due, room


@pytest.mark.usefixtures("_at_once")
def test_bounds_at_the_ends_of_all_numbers() -> None:
    index, scan = Index(), Scan()
    texts = ["a < 0", "a >= 0", "a > -1e308", "a <= 1e308", "a = 0 OR a = 1", "a IS NULL", "a <> 3", "b"]
    for number, text in enumerate(texts):
        index.add(number, parse(text))
        scan.add(number, parse(text))
    events = [{"a": value} for value in (0, -0.0, 1, -1, 3, 1.7e308, -1.7e308, None, "x")] + [{}, {"b": True}]
    found = [list(some) for some in index.match_batch(events)]
    assert has_slab(index)
    assert found == [list(some) for some in scan.match_batch(events)]


def test_a_slab_is_made_when_events_are_many_and_let_go_when_filters_change() -> None:
    index = Index()
    index.add(0, parse("a > 1"))
    few = [{"a": 1}] * 100
    index.match_batch(few)
    assert not has_slab(index)
    for _ in range(store.SLAB_FROM // len(few)):
        index.match_batch(few)
    before = index.bytes_used
    assert has_slab(index)
    index.add(1, parse("a > 2"))
    assert not has_slab(index)
    assert index.bytes_used < before
    assert [list(some) for some in index.match_batch([{"a": 3}])] == [[0, 1]]


@pytest.mark.usefixtures("_at_once")
def test_what_would_be_too_large_has_no_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "BYTES_MAX", 64 * 100)
    index = Index()
    for number in range(200):
        index.add(number, parse(f"a > {number}"))
    assert [list(some) for some in index.match_batch([{"a": 2}])] == [[0, 1]]
    assert not has_slab(index)
