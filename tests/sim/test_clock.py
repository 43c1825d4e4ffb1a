"""Virtual time: what is due first happens first, and ties go to what was put down first."""

from __future__ import annotations

from math import inf

import pytest

from tidings.sim.clock import Agenda, Skew


def test_things_happen_in_the_order_of_their_times_and_then_of_asking() -> None:
    agenda = Agenda()
    seen: list[tuple[float, str]] = []

    def note(what: str, _: object) -> None:
        seen.append((agenda.now, what))

    for at, what in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b")):
        agenda.add(at, note, what)
    agenda.run(10.0)
    assert seen == [(1.0, "a"), (1.0, "b"), (2.0, "c"), (2.0, "d")]
    assert agenda.done == 4


def test_time_stops_at_the_limit_and_what_is_later_waits() -> None:
    agenda = Agenda()
    seen: list[str] = []
    agenda.add(1.0, lambda what, _: seen.append(what), "now")
    agenda.add(3.0, lambda what, _: seen.append(what), "later")
    agenda.run(2.0)
    assert (seen, agenda.now, agenda.next_time(), len(agenda)) == (["now"], 2.0, 3.0, 1)


def test_what_is_put_down_for_now_happens_in_the_same_run() -> None:
    agenda = Agenda()
    seen: list[float] = []

    def again(left: int, _: object) -> None:
        seen.append(agenda.now)
        if left:
            agenda.add(agenda.now, again, left - 1)

    agenda.add(1.0, again, 2)
    agenda.run(1.0)
    assert seen == [1.0, 1.0, 1.0]
    assert agenda.next_time() == inf


@pytest.mark.parametrize("at", [0.0, 1.5, 1e6])
def test_a_skewed_clock_is_read_back(at: float) -> None:
    skew = Skew(offset_s=100.0, rate=1.01)
    assert skew.virtual(skew.local(at)) == pytest.approx(at)
    assert skew.local(at) > at
