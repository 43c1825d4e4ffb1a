"""Timers: each once, earliest first, the latest word counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.bench import BEGIN, started
from tidings.overlay.events import NeighbourAdded, SetTimer, TimerFired
from tidings.overlay.routing.catalogue import ALONE_AFTER_S
from tidings.overlay.settings import DEFAULT
from tidings.overlay.timers import Timer, Timers


def test_nothing_is_due_at_first() -> None:
    assert Timers().next() is None
    assert list(Timers().fired(1e9)) == []


def test_what_is_due_comes_once_and_earliest_first() -> None:
    timers: Timers[Timer] = Timers()
    timers.set(Timer.REDIAL, "late", 3.0)
    timers.set(Timer.REDIAL, "early", 1.0)
    timers.set(Timer.TICK, None, 2.0)
    assert timers.next() == 1.0
    assert list(timers.fired(2.0)) == [(Timer.REDIAL, "early"), (Timer.TICK, None)]
    assert list(timers.fired(2.0)) == []
    assert timers.next() == 3.0


def test_equal_times_come_in_the_order_asked_for() -> None:
    timers: Timers[Timer] = Timers()
    for name in "cab":
        timers.set(Timer.REDIAL, name, 1.0)
    assert [about for _, about in timers.fired(1.0)] == ["c", "a", "b"]


def test_asking_again_takes_the_place_of_what_was_asked() -> None:
    timers: Timers[Timer] = Timers()
    timers.set(Timer.TICK, None, 1.0)
    timers.set(Timer.TICK, None, 5.0)
    assert list(timers.fired(4.0)) == []
    assert list(timers.fired(5.0)) == [(Timer.TICK, None)]


def test_what_is_cancelled_does_not_come() -> None:
    timers: Timers[Timer] = Timers()
    timers.set(Timer.TICK, None, 1.0)
    assert timers.is_set(Timer.TICK, None)
    timers.cancel(Timer.TICK, None)
    timers.cancel(Timer.TICK, "never set")
    assert not timers.is_set(Timer.TICK, None)
    assert timers.next() is None


def test_what_is_set_while_timers_fire_fires_too_if_it_is_due() -> None:
    timers: Timers[Timer] = Timers()
    timers.set(Timer.TICK, None, 1.0)
    fired = []
    for key in timers.fired(2.0):
        fired.append(key[0])
        if key[0] is Timer.TICK:
            timers.set(Timer.DRAIN, None, 1.5)
            timers.set(Timer.ROOT, None, 2.5)
    assert fired == [Timer.TICK, Timer.DRAIN]


names = st.sampled_from("abc")
times = st.integers(0, 20).map(float)


@given(st.lists(st.tuples(st.sampled_from(["set", "cancel", "fire"]), names, times), max_size=60))
def test_timers_agree_with_a_plain_dictionary(steps: list[tuple[str, str, float]]) -> None:
    timers: Timers[Timer] = Timers()
    due: dict[str, float] = {}
    for step, name, at in steps:
        if step == "set":
            timers.set(Timer.REDIAL, name, at)
            due[name] = at
        elif step == "cancel":
            timers.cancel(Timer.REDIAL, name)
            due.pop(name, None)
        else:
            fired = [str(about) for _, about in timers.fired(at)]
            assert sorted(fired) == sorted(name for name in due if due[name] <= at)
            assert [due[name] for name in fired] == sorted(due[name] for name in fired)
            due = {name: at_ for name, at_ in due.items() if name not in fired}
        assert timers.next() == min(due.values(), default=None)


# As a driver sees them.


def test_a_broker_says_when_it_wants_to_be_woken_and_only_when_that_changes() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN + ALONE_AFTER_S)
    assert broker.next_deadline() == BEGIN + DEFAULT.heartbeat_s / 2
    assert broker.handle(TimerFired(), BEGIN + ALONE_AFTER_S) == []
    later = broker.handle(TimerFired(), BEGIN + DEFAULT.heartbeat_s / 2)
    assert later == [SetTimer(BEGIN + DEFAULT.heartbeat_s)]
    assert broker.next_deadline() == BEGIN + DEFAULT.heartbeat_s


def test_to_be_woken_early_is_harmless() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN)
    broker.handle(NeighbourAdded("there"), BEGIN)
    for _ in range(5):
        assert broker.handle(TimerFired(), BEGIN + 0.001) == []


def test_a_clock_that_goes_back_is_taken_to_stand_still() -> None:
    broker = started("m")
    broker.handle(TimerFired(), BEGIN + 10)
    deadline = broker.next_deadline()
    assert broker.handle(TimerFired(), BEGIN - 50) == []
    assert broker.next_deadline() == deadline


def test_what_was_cancelled_or_moved_is_not_kept_until_its_time() -> None:
    timers: Timers[Timer] = Timers()
    timers.set(Timer.REDIAL, "stays", 5.0)
    for number in range(10_000):
        timers.set(Timer.REDIAL, number, 1000.0 + number)
        timers.cancel(Timer.REDIAL, number)
        timers.set(Timer.TICK, None, 10.0 + number)
    assert len(timers._heap) < 100
    assert list(timers.fired(20_000.0)) == [(Timer.REDIAL, "stays"), (Timer.TICK, None)]


def test_to_ask_for_the_same_again_and_again_takes_no_room() -> None:
    timers: Timers[Timer] = Timers()
    for _ in range(1000):
        timers.set(Timer.TURN, None, 5.0)
    assert len(timers._heap) == 1
    assert list(timers.fired(5.0)) == [(Timer.TURN, None)]
    assert timers.next() is None
