"""What is drawn for an overlay of peers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.language.fields import Field, Path, Type
from tidings.language.filters import parse
from tidings.sim.peers.workload import ANYWHERE, HOT, LATE, TIGHT, Draws, Workload, satisfiable
from tidings.space import Space
from tidings.space.expressions import canonical, volume


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    one, same, other = (Draws(Workload(), seed) for seed in (1, 1, 2))
    assert [one.wish() for _ in range(20)] == [same.wish() for _ in range(20)]
    assert [one.event() for _ in range(20)] == [same.event() for _ in range(20)]
    assert one.event() != other.event()
    assert one.wish() != other.wish()


def test_a_subscription_is_a_cell_of_a_depth_between_the_two() -> None:
    draws = Draws(Workload(), 0)
    wishes = [draws.wish() for _ in range(2_000)]
    assert {len(wish.subscription) for wish in wishes} == {1}
    assert {len(wish.subscription[0]) for wish in wishes} == set(range(3, 11))
    assert {min(wish.bound for wish in wishes) >= 1, max(wish.bound for wish in wishes) <= 1000} == {True}


@pytest.mark.parametrize("free", [ANYWHERE, LATE])
def test_several_expressions_are_one_box_of_the_same_volume(free: str) -> None:
    fields: dict[Path, Field] = {(f"a{at}",): Field((f"a{at}",), Type.INT, (1, 128)) for at in range(10)}
    draws = Draws(Workload(depth_least=4, depth_most=4, expressions=8, free=free), 0)
    narrowed = set()
    for _ in range(20):
        found = draws.wish().subscription
        assert found == canonical(found)
        assert len(found) == 8
        assert volume(found) == 2**-4
        same = [at for at, bits in enumerate(zip(*found, strict=True)) if len(set(bits)) == 1]
        sides = [f"a{at} {'>' if found[0][at] == '1' else '<='} 64" for at in same]
        box = Space.of(fields).dz(parse(" AND ".join(sides), fields), depth=10)
        assert box.dz == found
        narrowed.add(tuple(same))
    assert ((0, 1, 2, 6) in narrowed and len(narrowed) == 1) is (free == LATE)


def test_a_box_that_is_narrowed_twice_in_an_attribute_is_one_range_of_it() -> None:
    draws = Draws(Workload(depth_least=10, depth_most=10, expressions=128), 0)
    for _ in range(20):
        found = draws.wish().subscription
        assert (len(found), volume(found)) == (128, 2**-10)
        open_ = [at for at, bits in enumerate(zip(*found, strict=True)) if len(set(bits)) == 2]
        assert all(at + 10 in open_ for at in open_ if at + 10 < 17)


def test_every_round_has_an_event_in_each_cell() -> None:
    draws = Draws(Workload(depth_most=5), 3)
    assert draws.workload.round_length == 32
    for _ in range(3):
        assert Counter(draws.event()[:5] for _ in range(32)) == Counter(
            {format(n, "05b"): 1 for n in range(32)}
        )


def test_hot_spots_have_four_fifths_of_the_subscriptions_in_a_fifth_of_them() -> None:
    draws = Draws(Workload(subscriptions=HOT, hot_spread=0.0, depth_least=20, depth_most=20), 5)
    spots = Counter(draws.wish().subscription for _ in range(4_000))
    assert len(spots) <= 20
    assert 0.75 < sum(count for _, count in spots.most_common(4)) / 4_000 < 0.85


def test_tight_bounds_are_one_hop_for_three_in_ten() -> None:
    draws = Draws(Workload(delays=TIGHT), 5)
    bounds = [draws.wish().bound for _ in range(4_000)]
    assert 0.27 < bounds.count(1) / 4_000 < 0.33
    assert max(bounds) > 900


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"values": 100}, "values cannot be 100 .* power of two"),
        ({"expressions": 3}, "expressions cannot be 3 "),
        ({"expressions": 2048}, "expressions cannot be 2048 "),
        ({"depth_least": 0}, "depth_least cannot be 0 "),
        ({"depth_most": 40}, "depth_most cannot be 40 "),
        ({"delays": "some"}, "delays cannot be 'some' .* moderate or tight"),
        ({"subscriptions": "cold"}, "give uniform or hot"),
    ],
)
def test_what_cannot_be_drawn_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Draws(replace(Workload(), **change), 0)  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 4), max_size=12), st.integers(1, 3))
def test_no_more_can_be_served_than_there_are_places_within_each_bound(
    bounds: list[int], out_degree: int
) -> None:
    served = satisfiable(bounds, out_degree)
    places = [sum(out_degree**level for level in range(1, k + 1)) for k in range(5)]
    # The least over all bounds of: the places within it, and everybody beyond it.
    assert served == min(
        min(sum(bound <= k for bound in bounds), places[k]) + sum(bound > k for bound in bounds)
        for k in range(5)
    )
