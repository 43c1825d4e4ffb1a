"""Which way is taken, by size and skew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidings.language.fields import Field, Type
from tidings.pipeline.match import cells, cost_model
from tidings.pipeline.match import subscriptions as asking
from tidings.pipeline.match.cost_model import Choice, Sizes, Way
from tidings.space import Space

SPACE = Space.of({(name,): Field((name,), Type.INT, (0, 1023)) for name in "xy"})


def choice(
    *,
    subscriptions: int = 1_000,
    events: int = 1_000,
    memory: int = 10**9,
    skewed: bool = False,
    **given: Way,
) -> Choice:
    drawn = np.random.default_rng(1)
    low = drawn.integers(0, 1000, (400, 2))
    asked = pa.table(
        {
            "subscription": np.arange(400),
            **{f"{name}_lo": low[:, at] for at, name in enumerate("xy")},
            **{f"{name}_hi": low[:, at] + 20 for at, name in enumerate("xy")},
        }
    )
    x = np.full(500, 7) if skewed else drawn.integers(0, 1024, 500)
    happened = pa.StructArray.from_arrays([pa.array(x), pa.array(x)], ["x", "y"])
    sizes = Sizes(subscriptions, events, memory, 2)
    return cost_model.choose(sizes, SPACE, asking.subscriptions_of(asked, ("x", "y")), happened, **given)


def test_an_index_that_fits_is_mapped_by_all() -> None:
    found = choice()
    assert (found.way, found.why) == (Way.INDEX, "the index fits into memory")


def test_one_that_does_not_fit_divides_the_space_until_the_fullest_cell_does() -> None:
    found = choice(subscriptions=1_000_000, memory=50_000_000)
    assert (found.way, found.why) == (Way.CELLS, "the index does not fit into memory")
    assert 0 < found.depth <= cost_model.DEPTH_MAX
    assert found.fullest_subscriptions * cost_model.BYTES_PER_SUBSCRIPTION * 2 <= 50_000_000
    assert found.attributes == ("x", "y")
    assert 1 < found.copies < 2
    wider = choice(subscriptions=1_000_000, memory=100_000_000)
    assert wider.depth < found.depth


def test_more_than_one_process_reads_are_divided_even_if_they_fit() -> None:
    found = choice(subscriptions=cost_model.BUILT_MAX + 1, memory=10**12)
    assert found.way is Way.CELLS
    assert "too many to be read by one process" in found.why


def test_what_cannot_be_divided_further_is_said() -> None:
    found = choice(subscriptions=10_000_000, memory=1_000)
    assert "the fullest cell" in found.why


def test_a_cell_with_many_events_is_divided() -> None:
    found = choice(events=1_000_000, skewed=True, wanted=Way.CELLS, subscriptions=1_000_000, memory=10**8)
    cell = cells.cells_of_events(SPACE, pa.array([{"x": 7, "y": 7}]), found.depth)
    assert found.parts == {int(cell[0]): 1_000_000 // cost_model.EVENTS_PER_PART}
    assert found.fullest_events == 1_000_000
    assert found.why == "it was asked for"


def test_events_that_are_spread_are_not() -> None:
    assert choice(events=100_000, wanted=Way.CELLS, subscriptions=1_000_000, memory=10**8).parts == {}
