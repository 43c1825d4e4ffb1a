"""The log of a gathered topic over HTTP when its seat is killed: a deputy answers, under its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.seated import Triangle, polling


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Triangle]:
    made = Triangle(tmp_path, 28_200)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.mark.slow
def test_a_killed_seats_entries_are_read_from_its_deputy_and_a_new_seat_numbers_under_its_own_name(
    network: Triangle,
) -> None:
    places = [f"p{number}" for number in range(12)]
    for number, place in enumerate(places):
        network.report(f"b{number % 3 + 1}", place, severity=number)
    for _ in polling("every event is told, in one log"):
        holders = network.holders("b1")
        if [one.next for one in holders.values()] == [12]:
            break
    (seat,) = holders
    before = network.rows("b1", holders[seat])
    assert [row["_seq"] for row in before] == list(range(12))
    assert sorted(row["place"] for row in before) == sorted(places)
    for _ in polling("a deputy has a copy"):
        if network.copied(holders[seat]):
            break

    network.kill(seat)
    others = sorted(network.brokers.keys() - {seat})
    for asked in others:
        for _ in polling(f"{asked} knows that the seat is away"):
            about = network.reader(asked, 60).about("roads")
            copies = {one.broker: one for one in about.holders if one.copied}
            if seat in copies:
                break
        assert (copies[seat].first, copies[seat].next, about.away) == (0, 12, ())
        assert network.rows(asked, copies[seat]) == before
        assert seat in [one.broker for one in network.reader(asked).whole("roads").holders]

    network.report(others[0], *places, note="still there")
    for _ in polling("another seat tells"):
        holders = network.holders(others[1])
        after = [row for name, one in holders.items() if name != seat for row in network.rows(others[1], one)]
        if {row["place"] for row in after if row["_version"] == 2} == set(places):
            break
    (taken_over,) = holders.keys() - {seat}
    name = holders[taken_over].holder
    assert [(row["_holder"], row["_seq"]) for row in after] == [(name, at) for at in range(len(after))]
    assert {(row["place"], row["_event"]) for row in after} == {
        (row["place"], row["_event"]) for row in before
    }
    assert network.rows(others[1], holders[seat]) == before

    network.brokers[seat].start()
    for _ in polling("the seat of before is back"):
        if not network.holders(others[0])[seat].copied:
            break
    assert network.rows(others[0], network.holders(others[0])[seat])[:12] == before
