"""Waiting until all has come, on a machine of any speed.

Nobody can say how long a busy machine takes, so time alone proves nothing here. What has not come is missing
only if nothing comes any more and no broker has anything queued. Where brokers have something queued and
nothing comes for very long, the machine is too slow, and nobody knows whether anything is missing.

It does not know what is waited for. What one machine calls long is in the constants; a wait counts how often
brokers were asked, not seconds, so that a process which did not run for a while draws no conclusion from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from tidings.errors import SetupError

LOOK_S = 0.02
"""Between two looks at what has come."""

ASK_S = 5.0
"""Brokers are asked when nothing has come for so long, and then as often."""

IDLE_TIMES = 6
"""What has not come is missing when nothing came while brokers said so often that nothing is queued."""

SLOW_TIMES = 120
"""The machine is too slow when nothing came while brokers were asked so often: that takes ten minutes."""

SLOW_S = ASK_S * SLOW_TIMES
"""The same for a step that is done at once or not at all, such as a connection."""


class Ending(Enum):
    """How a wait ended."""

    COMPLETE = auto()
    """All has come."""

    MISSING = auto()
    """Not all has come, and nothing more will."""

    TOO_SLOW = auto()
    """Not all has come, and nobody knows whether it will."""


async def wait(
    complete: Callable[[], bool],
    progress: Callable[[], object],
    busy: Callable[[], bool],
    *,
    quiet_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Ending:
    """Wait until all has come, for as long as anything moves.

    `progress` is called at each look: a value that differs is something that has come. `busy` says whether
    a broker has something queued; it may block, and is called in a thread. With `quiet_s` all has come only
    if nothing more came for so long and no broker is busy then, so that what comes too often is seen, too.
    """
    seen, since_s = progress(), clock()
    asked = idle = 0
    while not complete() or quiet_s:
        await pause(LOOK_S)
        if (now := progress()) != seen:
            seen, since_s, asked, idle = now, clock(), 0, 0
        if clock() - since_s < (quiet_s if complete() else ASK_S):
            continue
        works = await asyncio.to_thread(busy)
        if progress() != seen:  # it came while brokers were asked: the next look takes note of it
            continue
        since_s = clock()
        asked += 1
        idle = 0 if works else idle + 1
        if complete():
            if idle or asked == SLOW_TIMES:
                break
        elif idle == IDLE_TIMES:
            return Ending.MISSING
        elif asked == SLOW_TIMES:
            return Ending.TOO_SLOW
    return Ending.COMPLETE


def too_slow(what: str) -> SetupError:
    """That it cannot go on for want of time: `what` has not come about, and nobody knows whether it would."""
    return SetupError(
        f"too slow: {what}, though nothing is known to be lost; run it when this machine has less to do, or "
        "with a smaller --size"
    )
