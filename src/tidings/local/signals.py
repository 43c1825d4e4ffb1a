"""What to do when a process is asked to end: handlers of signals for a while, and put back behind it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a polite `kill`, and a terminal that is closed."""

ENDED_BY = 128
"""A shell says this and the number of the signal that ended a command."""


@contextlib.contextmanager
def handled(
    handler: Callable[[int, object], object], signals: Sequence[signal.Signals] = SIGNALS
) -> Iterator[None]:
    """Handle signals in some way; they reach the main thread alone, and nothing changes in others."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            # What is ignored stays so: with `nohup` it is to go on when the terminal is closed.
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
