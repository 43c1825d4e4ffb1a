"""Asking for the processor: what the system takes is there, for who asked alone; a refusal hurts nobody."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from tests.live.local import run, until
from tidings.live import scheduling

T = TypeVar("T")


def elsewhere(work: Callable[[], T]) -> T:
    """On a thread that ends with it: what it asks for must not stay with the tests."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(work).result()


def slices() -> tuple[int, int, int] | None:
    found = scheduling.attributes()
    return (found.policy, found.nice, found.runtime) if found is not None else None


def test_slices_are_short_for_who_asked_and_as_usual_for_whom_it_starts() -> None:
    before, usual = slices(), elsewhere(slices)
    if usual is None:
        pytest.skip("the system does not tell")

    def ask() -> tuple[bool, tuple[int, int, int] | None, tuple[int, int, int] | None]:
        return scheduling.ask_slices(scheduling.SLICE_NS), slices(), elsewhere(slices)

    taken, mine, started = elsewhere(ask)
    assert taken
    policy, nice, slice_ns = usual
    # Kernels before 6.12 say 0 of everybody.
    assert mine == (policy, nice, scheduling.SLICE_NS if slice_ns else 0)
    assert started == usual
    assert slices() == before


@pytest.mark.parametrize(("name", "value"), [("system", "Darwin"), ("machine", "pdp11")])
def test_systems_that_are_not_known_are_not_asked(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, name, lambda: value)
    assert scheduling.attributes() is None
    assert not scheduling.ask_slices(scheduling.SLICE_NS)


def test_a_refusal_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    if scheduling.attributes() is None:
        pytest.skip("the system does not tell")
    # There is no such call.
    monkeypatch.setattr(scheduling, "_SET", dict.fromkeys(scheduling._SET, 100_000))
    assert not elsewhere(lambda: scheduling.ask_slices(scheduling.SLICE_NS))
    monkeypatch.setattr(scheduling, "_GET", scheduling._SET)
    assert scheduling.attributes() is None


@pytest.mark.parametrize("given", [{"policy": 2}, {"nice": -5}])
def test_who_was_given_another_policy_or_priority_keeps_it(
    given: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "attributes", lambda: scheduling.Attributes(**given))
    monkeypatch.setattr(scheduling, "_call", lambda *_: True)
    assert not elsewhere(lambda: scheduling.ask_slices(scheduling.SLICE_NS))


class Asking:
    """In the place of the system: what is asked of it, and clocks on which a thread is busy as it is told."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.busy = 0.0
        self._at = self._used_s = 0.0
        patch.setattr(scheduling, "ask_slices", self.ask)
        patch.setattr(scheduling, "monotonic", self._monotonic)
        patch.setattr(scheduling, "thread_time", self._thread_time)
        patch.setattr(scheduling, "LOOK_EVERY_S", 0.0)

    def ask(self, slice_ns: int) -> bool:
        self.asked.append(slice_ns)
        return True

    def _monotonic(self) -> float:
        self._at += 1.0
        return self._at

    def _thread_time(self) -> float:
        self._used_s += self.busy
        return self._used_s


def test_a_busy_thread_has_slices_as_usual_and_short_ones_again_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = Asking(monkeypatch)

    async def story() -> None:
        slices = scheduling.Slices(asyncio.get_running_loop())
        slices.begin()
        assert system.asked == [scheduling.SLICE_NS]
        system.busy = 0.9
        await until(lambda: len(system.asked) == 2)
        system.busy = 0.1
        await until(lambda: len(system.asked) == 3)
        slices.end()

    run(story)
    assert system.asked == [scheduling.SLICE_NS, scheduling.USUAL_NS] * 2


def test_nothing_is_looked_at_where_the_system_does_not_want_to_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = Asking(monkeypatch)
    monkeypatch.setattr(scheduling, "ask_slices", lambda slice_ns: not system.ask(slice_ns))

    async def story() -> None:
        slices = scheduling.Slices(asyncio.get_running_loop())
        slices.begin()
        system.busy = 0.9
        for _ in range(3):
            await asyncio.sleep(0)
        assert system.asked == [scheduling.SLICE_NS]

    run(story)
