"""The index agrees with the scan, whatever comes and goes, however far it has tidied up, whoever answers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.examples import examples
from tests.matching.samples import some_parsed, some_values
from tidings.errors import SubscriptionError
from tidings.language.filters import Filter, Unknown, parse
from tidings.matching import Index, Matcher, Scan


def plain(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list) else found.tolist()


seeds = st.integers(0, 2**32 - 1)
unknowns = st.sampled_from(list(Unknown))


class Agreement(RuleBasedStateMachine):
    """Three matchers that are told the same."""

    held = Bundle("held")

    @initialize(names=st.booleans(), declared=st.booleans())
    def begin(self, names: bool, declared: bool) -> None:
        self.names = names
        self.declared = declared
        self.scan = Scan()
        self.matchers: list[Matcher] = [Index(), Index(compiled_too=False)]
        self.next = 0

    def _add(self, filter: Filter, unknown: Unknown) -> int | str:  # noqa: A002
        id: int | str = f"c{self.next * 7 % 101}-{self.next}" if self.names else self.next * 3  # noqa: A001
        self.next += 1
        for matcher in [self.scan, *self.matchers]:
            matcher.add(id, filter, unknown)
        return id

    @rule(target=held, seed=seeds, unknown=unknowns)
    def add(self, seed: int, unknown: Unknown) -> int | str:
        return self._add(some_parsed(random.Random(seed), self.declared), unknown)

    @rule(seed=seeds)
    def add_many(self, seed: int) -> None:
        # They stay: tiles fill, get rows and split.
        rng = random.Random(seed)
        for _ in range(60):
            filter = some_parsed(rng, self.declared)  # noqa: A001
            for _ in range(rng.choice([1, 1, 8])):
                self._add(filter, rng.choice(list(Unknown)))

    @rule(id=consumes(held))
    def remove(self, id: int | str) -> None:  # noqa: A002
        for matcher in [self.scan, *self.matchers]:
            matcher.remove(id)

    @rule(seed=seeds)
    def match(self, seed: int) -> None:
        event = some_values(random.Random(seed), self.declared)
        wanted = plain(self.scan.match(event))
        for matcher in self.matchers:
            assert plain(matcher.match(event)) == wanted

    @rule(seed=seeds, count=st.integers(0, 8))
    def match_batch(self, seed: int, count: int) -> None:
        rng = random.Random(seed)
        batch = [some_values(rng, self.declared) for _ in range(count)]
        wanted = [plain(found) for found in self.scan.match_batch(batch)]
        for matcher in self.matchers:
            assert [plain(found) for found in matcher.match_batch(batch)] == wanted

    @rule(budget=st.integers(1, 5000))
    def work(self, budget: int) -> None:
        for matcher in self.matchers:
            assert isinstance(matcher, Index)
            matcher.work(budget)

    @invariant()
    def same_length(self) -> None:
        if hasattr(self, "scan"):
            assert all(len(matcher) == len(self.scan) for matcher in self.matchers)


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(max_examples=examples(40), stateful_step_count=25)


@given(seed=seeds, declared=st.booleans(), unknown=unknowns)
@settings(max_examples=examples(300))
def test_one_filter_and_one_event(seed: int, declared: bool, unknown: Unknown) -> None:
    rng = random.Random(seed)
    scan, index = Scan(), Index()
    filter = some_parsed(rng, declared)  # noqa: A001
    scan.add(0, filter, unknown)
    index.add(0, filter, unknown)
    event = some_values(rng, declared)
    assert plain(index.match(event)) == plain(scan.match(event))
    assert plain(index.match_batch([event, {}, event])[2]) == plain(scan.match(event))


def ranges(seed: int, count: int, attributes: int = 6, top: int = 60) -> list[Filter]:
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        terms = []
        for name in sorted(chance.sample(range(attributes), chance.randint(1, 3))):
            low = chance.randint(1, top)
            terms.append(f"a{name} BETWEEN {low} AND {low + chance.choice([0, 5, 30])}")
        made.append(parse(" AND ".join(terms)))
    return made


def points(seed: int, count: int, attributes: int = 6, top: int = 80) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {f"a{name}": chance.randint(0, top) for name in range(attributes) if chance.random() < 0.9}
        for _ in range(count)
    ]


@pytest.mark.parametrize("spread", [0.137, pytest.param(1, marks=pytest.mark.slow)])
def test_thousands_of_filters_come_and_go(spread: float) -> None:
    chance = random.Random(5)
    index = Index()
    some = ranges(1, 3000)
    if spread != 1:
        # Ends that are all different: cuts are then chosen among them, and buckets are inexact.
        some = [
            parse(
                f"a0 >= {chance.random() * 60:.9f} AND a1 < {chance.random() * 60:.9f} "
                f"AND a2 > {chance.random():.9f}"
            )
            for _ in range(3000)
        ]
    held: dict[int, Filter] = {}
    tried = points(2, 40)
    for id, filter in enumerate(some):  # noqa: A001
        index.add(id, filter)
        held[id] = filter
        if id % 3 == 2:
            gone = chance.choice(sorted(held))
            index.remove(gone)
            del held[gone]
        if id % 500 == 499:
            while index.work():
                pass
        if id % 97 == 0:
            event = chance.choice(tried)
            assert plain(index.match(event)) == [at for at, one in held.items() if one.matches(event)]
    for found, event in zip(index.match_batch(tried), tried, strict=True):
        assert plain(found) == [at for at, one in held.items() if one.matches(event)]
    for id in list(held)[: len(held) - 7]:  # noqa: A001
        index.remove(id)
        del held[id]
        if id % 211 == 0:
            event = chance.choice(tried)
            assert plain(index.match(event)) == [at for at, one in held.items() if one.matches(event)]
    for event in tried:
        assert plain(index.match(event)) == [at for at, one in held.items() if one.matches(event)]


def test_filters_that_are_all_alike_still_split() -> None:
    index = Index()
    same = parse("a0 = 3")
    for id in range(3000):  # noqa: A001
        index.add(id, same)
    while index.work():
        pass
    assert plain(index.match({"a0": 3})) == list(range(3000))
    assert plain(index.match({"a0": 4})) == []
    for id in range(0, 3000, 2):  # noqa: A001
        index.remove(id)
    assert plain(index.match({"a0": 3})) == list(range(1, 3000, 2))


def test_an_index_that_was_filled_before_the_kernels_were_there_goes_on() -> None:
    index = Index(compiled_too=False)
    some = ranges(3, 1500)
    for id, filter in enumerate(some):  # noqa: A001
        index.add(id, filter)
    event = points(4, 1)[0]
    wanted = plain(index.match(event))
    assert index.engine == "numpy"
    index._compiled_too = True
    assert index.engine == "numba"
    assert plain(index.match(event)) == wanted
    while index.work(500):
        assert plain(index.match(event)) == wanted
    assert wanted == [at for at, one in enumerate(some) if one.matches(event)]
    index._compiled_too = False
    assert plain(index.match(event)) == wanted


def test_more_matches_than_there_was_room_for() -> None:
    index = Index()
    for id in range(6000):  # noqa: A001
        index.add(id, parse("a0 > 0"))
    assert [len(found) for found in index.match_batch([{"a0": 1}, {"a0": 0}, {"a0": 2}] * 40)] == [
        6000,
        0,
        6000,
    ] * 40
    assert len(index.match({"a0": 1})) == 6000


def test_names_come_back_sorted() -> None:
    index = Index()
    for name in ["zoe", "anna", "ben"]:
        index.add(name, parse("x = 1"))
    index.remove("ben")
    index.add("carl", parse("x >= 1"))
    assert index.match({"x": 1}) == ["anna", "carl", "zoe"]
    assert "anna" in index
    assert "ben" not in index
    assert 0 not in index


def test_attributes_and_strings_are_let_go() -> None:
    index = Index()
    for turn in range(50):
        for at in range(40):
            index.add(
                at,
                parse(
                    f"f{turn}_{at}.deep = 'text {turn} {at}' AND url LIKE 'https://example.org/{turn}/{at}%'"
                ),
            )
        assert len(index._attributes.symbols) >= 40
        for at in range(40):
            index.remove(at)
        assert index._attributes.used == 0
        assert not index._attributes.symbols
        assert not index._attributes.fields
        assert len(index) == 0
    # Room for what was there at one time, not for all that ever was.
    assert len(index._attributes) < 200
    assert len(index._attributes._texts) < 200


def test_memory_is_given_back_to_those_who_come_next() -> None:
    index = Index()
    some = ranges(7, 2000)
    sizes = []
    for _ in range(6):
        for id, filter in enumerate(some):  # noqa: A001
            index.add(id, filter)
        while index.work():
            pass
        sizes.append(index.bytes_used)
        for id in range(len(some)):  # noqa: A001
            index.remove(id)
    assert max(sizes[2:]) < 1.25 * sizes[1]


@pytest.mark.slow
def test_gaps_between_tiles_are_closed_and_nobody_notices() -> None:
    index, scan = Index(), Scan()
    filters = ranges(11, 3000)
    for id, filter in enumerate(filters):  # noqa: A001
        index.add(id, filter)
        scan.add(id, filter)
    index.match({})
    grown = index.bytes_used
    while index.work():
        pass
    assert index.bytes_used < grown
    for round in range(3):  # noqa: A001
        for event in points(round, 20):
            assert plain(index.match(event)) == plain(scan.match(event))
        # Tiles go on growing, shrinking and splitting where they now are.
        for id in range(round, 3000, 3):  # noqa: A001
            index.remove(id)
            scan.remove(id)
        for id, filter in enumerate(ranges(12 + round, 1500), 3000 + 1500 * round):  # noqa: A001
            index.add(id, filter)
            scan.add(id, filter)
        while index.work():
            pass


def test_many_filters_on_long_prefixes_are_not_asked_one_by_one() -> None:
    index = Index()
    for at in range(2000):
        index.add(at, parse(f"url LIKE 'https://example.org/{at:04}%'"))
    assert not index._asked
    assert plain(index.match({"url": "https://example.org/0042/x"})) == [42]
    assert plain(index.match({"url": "https://example.org/"})) == []


@pytest.mark.parametrize("make", [Scan, Index])
def test_ids_are_checked(make: type[Matcher]) -> None:
    matcher = make()
    one = parse("x = 1")
    matcher.add(3, one)
    for wrong, reason in [
        (3, "already there"),
        ("a", "one sort"),
        (-1, "out of range"),
        (2**31, "out of range"),
        (2**30, "densely"),
        (True, "whole numbers or strings"),
        (1.0, "whole numbers or strings"),
    ]:
        with pytest.raises(SubscriptionError, match=reason):
            matcher.add(wrong, one)  # type: ignore[arg-type]
    for wrong in [4, "a", True, 3.0]:
        with pytest.raises(SubscriptionError, match="not there"):
            matcher.remove(wrong)  # type: ignore[arg-type]
    assert plain(matcher.match({"x": 1})) == [3]
    matcher.remove(3)
    matcher.add("now of the other sort", one)
    assert matcher.match({"x": 1}) == ["now of the other sort"]


TRACE = """
import hashlib, random
from tests.matching.test_index import plain, points
from tidings.language.filters import parse
from tidings.matching import Index, compile_kernels
compile_kernels()
index, chance, trace = Index(), random.Random(9), hashlib.sha256()
names = [f"n{at}" for at in range(40)]
for at in range(1200):
    kinds = f"'{chance.choice(names)}', '{chance.choice(names)}'"
    text = f"a{at % 5} > {chance.randint(0, 50)} AND kind IN ({kinds}) OR b = {at % 9}"
    index.add(f"id{at * 7919 % 5000}", parse(text))
while index.work(): pass
for event in points(3, 50):
    event["kind"] = chance.choice(names); event["b"] = chance.randint(0, 9)
    trace.update(repr(plain(index.match(event))).encode())
trace.update(repr((index.bytes_used, index._store.state.tiles.tolist())).encode())
print(trace.hexdigest())
"""


def test_nothing_depends_on_the_hash_seed() -> None:
    traces = [
        subprocess.run(
            [sys.executable, "-c", TRACE],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            },
            capture_output=True,
            text=True,
            check=True,
            cwd=os.fspath(os.path.join(os.path.dirname(__file__), "..", "..")),  # noqa: PTH118, PTH120
        ).stdout
        for seed in ("1", "2")
    ]
    assert traces[0] == traces[1] != ""
