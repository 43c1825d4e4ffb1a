"""When a broker gets the processor: at once, where the system can be asked for that.

Who passes messages on needs little time and needs it soon. Linux gives each thread slices of milliseconds and
lets whoever has the processor finish its own first: a message that came while another program, or our own
thread of records, was running waited for up to 4 ms. Since 6.12 a thread may ask for slices of its own, and
one that wakes up with a shorter slice goes before one with a longer. Nobody gets more of the processor by
that. Older kernels take the question and pass over it; other systems are not asked.

A broker that is busy is better off as others are: woken by the first bytes of what a client has to say, it
would hear it in small pieces, which was 9% of what a message cost.
"""

from __future__ import annotations

import asyncio
import ctypes
import platform
import sys
from time import monotonic, thread_time

SLICE_NS = 100_000
"""The shortest that Linux gives. A message that comes alone takes a third of it."""

USUAL_NS = 0
"""What to ask for to have slices as everybody has."""

LOOK_EVERY_S = 1.0

BUSY = 0.25
"""The part of its time from which on a thread that has the processor is busy. 2,000 messages a second that
come alone are 0.08."""

# Numbers of system calls, which the C library has no functions for before glibc 2.41.
_SET = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_GET = {"x86_64": 315, "aarch64": 275, "riscv64": 275}

_ORDINARY = (0, 3)
"""SCHED_OTHER and SCHED_BATCH: who was given another policy has it for a reason."""

_RESET_ON_FORK = 1
"""Threads and processes that are started from here on have slices as usual. They would also lose a priority
above the usual one, so who has that is left as it is."""


class Attributes(ctypes.Structure):
    """Of a thread: `struct sched_attr` of sched_setattr(2)."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def attributes() -> Attributes | None:
    """Those of the thread that asks; None where they are not told."""
    found = Attributes()
    return found if _call(_GET, found, ctypes.sizeof(found), 0) else None


def ask_slices(slice_ns: int) -> bool:
    """Have the thread that asks get slices of a length; whether the system has taken that."""
    asked = attributes()
    if asked is None or asked.policy not in _ORDINARY or asked.nice < 0:
        return False
    asked.size = ctypes.sizeof(asked)
    asked.flags |= _RESET_ON_FORK
    asked.runtime = slice_ns
    return _call(_SET, asked, 0)


class Slices:
    """Short slices for the thread of an event loop, as long as it has little to do."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._short = False
        self._looked_at = self._used_s = 0.0

    def begin(self) -> None:
        """Ask for them, and look from time to time whether they are still right."""
        if self.tend(0.0):
            self._look_later()

    def end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self.tend(1.0)

    def tend(self, busy: float) -> bool:
        """Have them as is right for a thread that is busy for such a part of its time. False where the system
        does not want to be asked.
        """
        short = busy < BUSY
        if short is self._short:
            return True
        taken = ask_slices(SLICE_NS if short else USUAL_NS)
        if taken:
            self._short = short
        return taken

    def _look_later(self) -> None:
        self._looked_at, self._used_s = monotonic(), thread_time()
        self._handle = self._loop.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        used_s, passed_s = thread_time() - self._used_s, monotonic() - self._looked_at
        self.tend(used_s / passed_s)
        self._look_later()


def _call(numbers: dict[str, int], found: Attributes, *more: int) -> bool:
    """Ask about this thread, or for it. What the system refuses is not to be had."""
    number = numbers.get(platform.machine())
    # A machine of 64 bits may run programs of 32, for which the numbers are others.
    if platform.system() != "Linux" or number is None or sys.maxsize < 1 << 32:
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    whole = [ctypes.c_long(number), ctypes.c_long(0), ctypes.byref(found), *map(ctypes.c_long, more)]
    return bool(call(*whole) == 0)
