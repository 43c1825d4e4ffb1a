"""An index that only answers, judged by the scan."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tests.matching.samples import some_parsed, some_values
from tidings.language.regions import Unknown
from tidings.matching import Index, Scan
from tidings.matching.images import Frozen, image_of


def split(owners: np.ndarray, ends: np.ndarray) -> list[list[int]]:
    return [one.tolist() for one in np.split(owners, ends[:-1])]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("count", [1, 300, pytest.param(1200, marks=pytest.mark.slow)])
def test_it_answers_as_the_scan_does(declared: bool, count: int) -> None:
    rng = random.Random(count)
    index, scan = Index(), Scan()
    for number in range(count):
        one, unknown = some_parsed(rng, declared), rng.choice(list(Unknown))
        index.add(number, one, unknown)
        scan.add(number, one, unknown)
    image = image_of(index)
    # As from a file: text and arrays that are nobody else's.
    frozen = Frozen(
        json.loads(json.dumps(image.about)), {name: one.copy() for name, one in image.arrays.items()}
    )
    for _ in range(3):
        events = [some_values(rng, declared) for _ in range(50)]
        found = frozen.match(*frozen.attributes.encode_batch(events), events.__getitem__)
        assert split(found.owners, found.ends) == [list(scan.match(event)) for event in events]


def test_an_empty_index_finds_nothing() -> None:
    image = image_of(Index())
    frozen = Frozen(image.about, image.arrays)
    found = frozen.match(*frozen.attributes.encode_batch([{"x": 1}, {}]), lambda _: {})
    assert split(found.owners, found.ends) == [[], []]


@pytest.mark.parametrize("count", [500, pytest.param(3000, marks=pytest.mark.slow)])
def test_room_grows_until_all_that_is_found_fits(count: int) -> None:
    rng = random.Random(1)
    index, scan = Index(), Scan()
    for number in range(count):
        one = some_parsed(rng, declared=True)
        index.add(number, one, Unknown.ASSUME)
        scan.add(number, one, Unknown.ASSUME)
    image = image_of(index)
    frozen = Frozen(image.about, image.arrays)
    frozen._room = 1
    events: list[dict[str, object]] = [{} for _ in range(20)]
    found = frozen.match(*frozen.attributes.encode_batch(events), events.__getitem__)
    assert split(found.owners, found.ends) == [list(scan.match({}))] * 20
