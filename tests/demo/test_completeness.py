"""When waiting ends: a network of any speed is waited for, and only one that has nothing more to say has lost
something. Time is made up here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tidings.demo import completeness
from tidings.demo.completeness import ASK_S, IDLE_TIMES, SLOW_TIMES, Ending
from tidings.errors import SetupError

WANTED = 5


class Network:
    """Has something to deliver at some times; what is left of it, it has queued if it says so."""

    def __init__(self, *at_s: float, queued: Callable[[], bool], look_s: float = 1.0) -> None:
        self._at_s = at_s
        self._queued = queued
        self._look_s = look_s
        self.now_s = 0.0
        self.asked = 0

    @property
    def came(self) -> int:
        return sum(at_s <= self.now_s for at_s in self._at_s)

    def busy(self) -> bool:
        self.asked += 1
        return self._queued()

    async def pause(self, _: float) -> None:
        self.now_s += self._look_s

    def wait(self, quiet_s: float = 0.0) -> Ending:
        return asyncio.run(
            completeness.wait(
                lambda: self.came >= WANTED,
                lambda: self.came,
                self.busy,
                quiet_s=quiet_s,
                clock=lambda: self.now_s,
                pause=self.pause,
            )
        )


def test_a_slow_network_is_waited_for_as_long_as_it_makes_progress() -> None:
    """Each message comes minutes after the one before: hardly less than what is too slow."""
    apart_s = ASK_S * (SLOW_TIMES - 2)
    net = Network(*(apart_s * number for number in range(1, WANTED + 1)), queued=lambda: True)
    assert net.wait() is Ending.COMPLETE
    assert net.now_s == apart_s * WANTED


def test_what_has_not_come_is_missing_if_nothing_comes_and_nothing_is_queued() -> None:
    net = Network(1.0, 2.0, queued=lambda: False)
    assert net.wait() is Ending.MISSING
    assert (net.came, net.asked) == (2, IDLE_TIMES)


def test_a_network_that_stands_still_with_something_queued_is_too_slow_and_not_missing_anything() -> None:
    net = Network(1.0, 2.0, queued=lambda: True)
    assert net.wait() is Ending.TOO_SLOW
    assert net.asked == SLOW_TIMES


def test_one_broker_that_says_now_and_then_that_it_has_something_queued_is_waited_for() -> None:
    """The answers of before, that nothing was queued, count no more."""
    net = Network(*(600.0,) * WANTED, queued=lambda: net.asked % IDLE_TIMES == 0)
    assert net.wait() is Ending.COMPLETE


def test_a_process_that_did_not_run_for_an_hour_draws_no_conclusion_from_that() -> None:
    """All came meanwhile but the last, which its own loop has not read yet."""
    net = Network(*(3600.0,) * (WANTED - 1), 7200.0, queued=lambda: False, look_s=3600.0)
    assert net.wait() is Ending.COMPLETE


def test_what_is_complete_at_once_is_not_waited_for() -> None:
    net = Network(*(0.0,) * WANTED, queued=lambda: True)
    assert net.wait() is Ending.COMPLETE
    assert (net.now_s, net.asked) == (0.0, 0)


def test_what_comes_too_often_is_seen_before_it_is_over() -> None:
    net = Network(*(0.0,) * WANTED, 2.0, 4.0, queued=lambda: False)
    assert net.wait(quiet_s=3.0) is Ending.COMPLETE
    assert (net.came, net.now_s) == (WANTED + 2, 7.0)


def test_it_is_not_over_while_a_broker_has_something_queued_that_may_come_too_often() -> None:
    net = Network(*(0.0,) * WANTED, 50.0, queued=lambda: net.now_s < 50.0)
    assert net.wait(quiet_s=3.0) is Ending.COMPLETE
    assert net.came == WANTED + 1


def test_what_is_complete_is_so_whatever_a_broker_keeps() -> None:
    net = Network(*(0.0,) * WANTED, queued=lambda: True)
    assert net.wait(quiet_s=3.0) is Ending.COMPLETE
    assert net.asked == SLOW_TIMES


def test_what_comes_while_brokers_are_asked_is_progress() -> None:
    """Brokers take long to answer; what they had came before they said that there is nothing more."""

    def answers() -> bool:
        net.now_s += 100.0
        return False

    net = Network(*(100.0 * number for number in range(1, WANTED + 1)), queued=answers)
    assert net.wait() is Ending.COMPLETE


def test_what_is_raised_at_a_look_ends_it() -> None:
    async def fail() -> None:
        await completeness.wait(lambda: False, lambda: 1 // 0, lambda: False)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())


def test_too_slow_is_said_to_be_so_and_nothing_to_be_lost() -> None:
    error = completeness.too_slow("3 of 5 messages have not come")
    assert isinstance(error, SetupError)
    assert str(error).startswith(
        "too slow: 3 of 5 messages have not come, though nothing is known to be lost"
    )
    assert "--size" in str(error)
