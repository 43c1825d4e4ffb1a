"""Offsets: what a text means, how far a micro-batch goes, and what is refused rather than skipped."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import DataLost, InputError
from tidings.pipeline.connector.offsets import (
    admitted,
    bounded,
    check_kept,
    check_names,
    check_order,
    forgiven,
    ranges,
    read_bound,
    resolved,
)
from tidings.records.holders import Held

HOLDERS = (Held("b1.1", 5, 20), Held("b2.1", 0, 8))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("earliest", {"b1.1": 5, "b2.1": 0}),
        ("Latest", {"b1.1": 20, "b2.1": 8}),
        ("1970-01-01T00:00:00.000007Z", {"b1.1": 11, "b2.1": 8}),
        ('{"b2.1": 3}', {"b1.1": 5, "b2.1": 3}),
        ('{"b2.1": 3, "b1.1": 6}', {"b1.1": 6, "b2.1": 3}),
    ],
)
def test_a_text_means_a_number_at_each_broker(text: str, meaning: dict[str, int]) -> None:
    bound = read_bound("startingOffsets", text)
    found = resolved("startingOffsets", bound, HOLDERS, {"b1.1": 11, "b2.1": 9})
    assert json.dumps(found) == json.dumps(meaning)


@pytest.mark.parametrize("text", ["soon", "{", '{"b1.1": "3"}', '{"b1.1": -1}', "2026-13-01"])
def test_a_text_that_means_nothing_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(InputError, match="startingOffsets"):
        read_bound("startingOffsets", text)


def test_an_offset_of_a_broker_that_holds_nothing_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        resolved("startingOffsets", {"b3.1": 1}, HOLDERS)
    assert str(refused.value) == (
        "startingOffsets: 'b3.1' holds nothing of the topic (a broker that came back without its disk is "
        "another holder); who does: 'b1.1', 'b2.1'"
    )


def test_an_offset_beyond_the_end_is_refused() -> None:
    with pytest.raises(InputError, match=r"'b2\.1' has not got as far as 9"):
        resolved("startingOffsets", {"b2.1": 9}, HOLDERS)


def test_a_broker_that_appears_later_enters_at_its_first_entry() -> None:
    assert admitted({"b2.1": 2}, HOLDERS) == {"b1.1": 5, "b2.1": 8}


def test_a_broker_that_nobody_speaks_of_stays_where_it_is() -> None:
    assert admitted({"b0.1": 3, "b1.1": 20, "b2.1": 8}, HOLDERS) == {"b0.1": 3, "b1.1": 20, "b2.1": 8}


def test_the_keys_of_an_offset_are_sorted_whatever_the_order_of_the_start() -> None:
    assert list(admitted({"b2.1": 2, "a": 1, "b10": 0}, (*HOLDERS, Held("a0", 0, 1)))) == [
        "a", "a0", "b1.1", "b10", "b2.1",
    ]  # fmt: skip


@given(
    st.dictionaries(st.text(max_size=3), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6),
    st.integers(1, 60),
)
def test_batches_of_limited_rows_reach_the_end_in_as_few_as_can_be(
    logs: dict[str, tuple[int, int]], rows_max: int
) -> None:
    holders = [Held(broker, 0, done + left) for broker, (done, left) in logs.items()]
    offset = {broker: done for broker, (done, _) in logs.items()}
    total = sum(left for _, left in logs.values())
    batches = 0
    while (end := admitted(offset, holders, rows_max)) != offset:
        taken = sum(end[broker] - offset[broker] for broker in end)
        assert 0 < taken <= rows_max
        assert all(end[broker] >= offset[broker] for broker in end)
        offset, batches = end, batches + 1
    assert offset == {one.holder: one.next for one in holders}
    assert batches == -(-total // rows_max)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 400))
def test_ranges_cover_everything_once_and_none_is_too_large(start: int, count: int, rows_max: int) -> None:
    found = [(one[1], one[2]) for one in ranges({"b": start}, {"b": start + count}, rows_max)]
    assert all(0 < stop - begin <= rows_max for begin, stop in found)
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert sum(stop - begin for begin, stop in found) == count
    assert not found or (found[0][0], found[-1][1]) == (start, start + count)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ({"b1.1": 4}, "'b1.1' keeps entries from 5 on, and 4 would be next"),
        ({"b2.1": 9}, "'b2.1' was read up to 9, and its next entry is 8: the checkpoint is of another topic"),
        ({"b3.1": 0}, "'b3.1', read up to 0, is in the network no more"),
    ],
)
def test_lost_entries_are_refused_with_the_way_out(start: dict[str, int], reason: str) -> None:
    with pytest.raises(DataLost, match=reason) as caught:
        check_kept(start, HOLDERS)
    assert "failOnDataLoss to false" in str(caught.value)


GONE = (Held("b1.1", 2, 6, gone=True), Held("b1.9", 0, 4))
"""Broker b1 came back without its disk, and a deputy has a copy of some of its first life."""


def test_of_a_holder_that_is_gone_its_copy_is_read() -> None:
    check_kept({"b1.1": 2, "b1.9": 0}, GONE)
    assert resolved("startingOffsets", "earliest", GONE) == {"b1.1": 2, "b1.9": 0}
    assert admitted({"b1.1": 3}, GONE) == {"b1.1": 6, "b1.9": 0}


def test_who_has_read_more_of_a_holder_that_is_gone_than_its_copy_has_is_told() -> None:
    with pytest.raises(DataLost) as caught:
        check_kept({"b1.1": 8}, GONE)
    assert str(caught.value) == (
        "'b1.1' was read up to 8, and its next entry is 6: its broker came back without its disk, and the "
        "copy ends there; begin with a new checkpoint, or set failOnDataLoss to false to go on with what "
        "there is"
    )
    # Who goes on reads nothing twice.
    assert admitted({"b1.1": 8, "b1.9": 0}, GONE) == {"b1.1": 8, "b1.9": 4}
    assert forgiven({"b1.1": 8, "b1.9": 0}, GONE) == {"b1.1": 8, "b1.9": 0}


def test_a_holder_that_is_gone_without_a_copy_is_told() -> None:
    with pytest.raises(DataLost) as caught:
        check_kept({"b1.1": 8}, GONE[1:])
    assert str(caught.value) == (
        "'b1.1', read up to 8, is in the network no more, and what else it had cannot be read (a broker that "
        "came back without its disk is another holder); begin with a new checkpoint, or set failOnDataLoss "
        "to false to go on without it"
    )


def test_offsets_of_brokers_without_their_incarnation_are_refused() -> None:
    rule = (
        "'b1' names no holder: that is a broker's id and its incarnation, such as b3.1763445274123; GET /log "
        "lists those of a topic"
    )
    with pytest.raises(InputError) as option:
        read_bound("startingOffsets", '{"b1": 3}')
    assert str(option.value) == (
        f"startingOffsets: {rule}; write earliest, latest, a time such as 2026-11-15T11:05:00Z, or JSON such "
        'as {"b1.1763445274123": 120}'
    )
    with pytest.raises(InputError) as checkpoint:
        check_names({"b1": 3})
    assert str(checkpoint.value) == (
        f"the checkpoint is of an older release: {rule}; begin with a new checkpointLocation, and say in "
        "startingOffsets where to go on"
    )
    check_names({"b1.5": 3})


def test_nothing_is_lost_where_all_is_kept() -> None:
    check_kept({"b1.1": 5, "b2.1": 8}, HOLDERS)


def test_a_batch_that_would_end_before_it_begins_is_refused() -> None:
    check_order({"b1.1": 6, "b2.1": 3}, {"b1.1": 6, "b2.1": 8})
    with pytest.raises(InputError, match=r"endingOffsets is before startingOffsets: 2 and 3 at 'b2\.1'"):
        check_order({"b1.1": 6, "b2.1": 3}, {"b1.1": 6, "b2.1": 2})


def test_a_target_bounds_what_is_read_and_takes_nothing_back() -> None:
    """A target may be what a deputy knew; where its broker is back, more may have been read of it already."""
    target = (Held("b1.1", 5, 12, copied=True),)
    assert bounded(HOLDERS, target, {"b1.1": 7}) == (Held("b1.1", 5, 12),)
    assert bounded(HOLDERS, target, {"b1.1": 14}) == (Held("b1.1", 5, 14),)
    assert bounded(HOLDERS, target, {}) == (Held("b1.1", 5, 12),)


def test_who_takes_what_there_is_goes_on_with_the_first_that_is_kept() -> None:
    assert forgiven({"b1.1": 4, "b2.1": 9, "b3.1": 7}, HOLDERS) == {"b1.1": 5, "b2.1": 0, "b3.1": 7}
