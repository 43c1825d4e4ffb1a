"""Ending at any moment: what is stopped, in which order, and what is said."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tidings.demo import stopping
from tidings.demo.stopping import Guard
from tidings.errors import NetworkError
from tidings.local.signals import SIGNALS


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Signals as a terminal has them, however the tests themselves were started."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def demonstrate(to: Console, folder: Path, body: Callable[[Guard], object]) -> None:
    with stopping.guard(to, folder) as guard:
        body(guard)


def said(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_the_latest_is_stopped_first(tmp_path: Path) -> None:
    stopped: list[str] = []
    with stopping.guard(console(), tmp_path) as guard:
        guard.call(lambda: stopped.append("network"))
        guard.call(lambda: stopped.append("clients"))
        assert stopped == []
    assert stopped == ["clients", "network"]


@pytest.mark.parametrize("number", SIGNALS)
def test_being_asked_to_stop_stops_everything_and_says_what_is_left(
    tmp_path: Path, number: signal.Signals
) -> None:
    to = console()
    stopped: list[str] = []
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "one").write_bytes(bytes(2_500_000))

    def body(guard: Guard) -> None:
        guard.call(lambda: stopped.append("network"))
        signal.raise_signal(number)
        stopped.append("never")

    with pytest.raises(SystemExit) as ended:
        demonstrate(to, tmp_path, body)
    assert ended.value.code == 128 + number
    assert stopped == ["network"]
    assert f"2.5 MB in {tmp_path}" in said(to)


def test_nothing_left_is_said_too(tmp_path: Path) -> None:
    to = console()
    with pytest.raises(SystemExit), stopping.guard(to, tmp_path / "never made"):
        signal.raise_signal(signal.SIGINT)
    assert "nothing was left on disk" in said(to)


def test_what_stops_is_not_interrupted_again(tmp_path: Path) -> None:
    stopped: list[str] = []

    def stop() -> None:
        for number in SIGNALS:
            signal.raise_signal(number)
        stopped.append("network")

    def body(guard: Guard) -> None:
        guard.call(stop)
        raise KeyboardInterrupt  # as others do that take the signal from us, such as Spark

    with pytest.raises(SystemExit):
        demonstrate(console(), tmp_path, body)
    assert stopped == ["network"]


def test_an_error_stops_everything_and_is_told(tmp_path: Path) -> None:
    stopped: list[str] = []

    def body(guard: Guard) -> None:
        guard.call(lambda: stopped.append("network"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        demonstrate(console(), tmp_path, body)
    assert stopped == ["network"]


def test_signals_are_handled_as_before_when_it_is_over(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(SystemExit), stopping.guard(console(), tmp_path):
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_signals_are_still_heard_when_what_was_started_has_taken_them(tmp_path: Path) -> None:
    taken: list[int] = []

    def body(guard: Guard) -> None:
        signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
        guard.call(lambda: None)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(SystemExit):
        demonstrate(console(), tmp_path, body)
    assert taken == []


def test_nobody_complains_of_having_been_interrupted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def body(_: Guard) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            logging.exception("interrupted while sending a command")
            raise

    with pytest.raises(SystemExit):
        demonstrate(console(), tmp_path, body)
    assert caplog.records == []
    logging.error("heard again")
    assert [record.message for record in caplog.records] == ["heard again"]


def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopping.guard(console(), tmp_path):
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_asynchronous_work_is_cancelled_in_peace(tmp_path: Path) -> None:
    left: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("client")

    with pytest.raises(SystemExit) as ended, stopping.guard(console(), tmp_path):
        stopping.run(work())
    assert left == ["client"]
    assert ended.value.code == 128 + signal.SIGTERM


def test_asynchronous_work_gives_its_result_and_its_errors() -> None:
    async def work(number: int) -> float:
        await asyncio.sleep(0)
        return 1 / number

    assert stopping.run(work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        stopping.run(work(0))


def test_tasks_that_fail_together_are_told_as_one_error() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def work(*errors: Exception) -> None:
        async with asyncio.TaskGroup() as group:
            for error in errors:
                group.create_task(fail(error))

    with pytest.raises(NetworkError, match="no broker"):
        stopping.run(work(NetworkError("no broker"), NetworkError("no broker either")))
    with pytest.raises(ExceptionGroup):
        stopping.run(work(ZeroDivisionError()))


def test_what_is_being_started_is_written_down_before_a_signal_is_heard(tmp_path: Path) -> None:
    stopped: list[str] = []

    def body(guard: Guard) -> None:
        with stopping.held():
            signal.raise_signal(signal.SIGINT)
            guard.call(lambda: stopped.append("broker"))
        stopped.append("never")

    with pytest.raises(SystemExit):
        demonstrate(console(), tmp_path, body)
    assert stopped == ["broker"]
