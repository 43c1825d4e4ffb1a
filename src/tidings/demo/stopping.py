"""Ending at any moment, and leaving nothing behind that runs.

A demonstration starts processes, threads and connections. Whatever is started is handed to a guard with the
way to stop it; the guard stops all of it, the latest first, however the demonstration ends. Nothing here
knows what it is that is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rich.console import Console

from tidings.errors import alone
from tidings.local.signals import ENDED_BY, SIGNALS, handled

Result = TypeVar("Result")


class Stopped(KeyboardInterrupt):
    """Somebody asked to stop. A KeyboardInterrupt, so that whatever makes way for Ctrl-C makes way for it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Guard:
    """What is to be stopped at the end, the latest first."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def enter(self, started: AbstractContextManager[Result]) -> Result:
        """Enter something that stops when it is left, and leave it at the end."""
        entered = self._stack.enter_context(started)
        _listen()
        return entered

    def call(self, stop: Callable[[], object]) -> None:
        """Something to be called at the end."""
        self._stack.callback(stop)
        _listen()


@contextlib.contextmanager
def guard(console: Console, folder: Path) -> Iterator[Guard]:
    """See to it that all is stopped at the end; after Ctrl-C say what is left on disk, and leave with 130."""
    try:
        with handled(_stop), ExitStack() as stack:
            try:
                yield Guard(stack)
            except KeyboardInterrupt:
                _deafen()
                console.print("\nstopping …", highlight=False)
                raise
            finally:
                _deafen()
    except KeyboardInterrupt as asked:
        console.print(_left(folder), highlight=False, markup=False, soft_wrap=True)
        number = asked.number if isinstance(asked, Stopped) else signal.SIGINT
        raise SystemExit(ENDED_BY + number) from None
    finally:
        logging.disable(logging.NOTSET)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run asynchronous work to its end. Who asks to stop cancels it, so that its clients leave in peace."""
    asked: list[int] = []

    async def interruptible() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "this is a task"

        def stop(number: int, _: object) -> None:
            if not asked:
                asked.append(number)
                loop.call_soon_threadsafe(task.cancel)

        with handled(stop):
            return await work

    try:
        result = asyncio.run(interruptible())
    except BaseExceptionGroup as group:
        if not asked:
            raise alone(group) from None
    except (asyncio.CancelledError, Exception):
        if not asked:
            raise
    if asked:
        _pass_on(asked[0])
    return result


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Put off signals while something is started, until it has been written down how to stop it."""
    came: list[int] = []
    with handled(lambda number, _: came.append(number)):
        yield
    if came:
        _pass_on(came[0])


def _pass_on(number: int) -> NoReturn:
    """Give a signal to whoever handles it outside, which is the guard."""
    signal.raise_signal(number)
    raise Stopped(number)


def _listen() -> None:
    """Hear signals again: what was started may have put a handler in the place of ours, as Spark does."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _: object) -> NoReturn:
    _deafen()
    # Others log that they were interrupted, with all the places where: py4j does.
    logging.disable()
    raise Stopped(number)


def _deafen() -> None:
    """Hear no more signals: it is being stopped already."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _left(folder: Path) -> str:
    """What is still on disk."""
    if not folder.exists():
        return "stopped; nothing runs any more, and nothing was left on disk"
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return (
        f"stopped; nothing runs any more. On disk is what was written so far, {size / 1e6:.1f} MB in {folder}"
    )
