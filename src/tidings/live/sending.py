"""Sending to many clients at once.

What meets content filters goes to many clients, to each another part. To have each part copied, wrapped and
written by a transport of the event loop was a tenth of what such a message cost. Here one compiled loop
copies what a client gets into a block that is still in the processor's cache when the system takes it from
there, for one client after the other.

Sockets belong to transports. So this is for those alone that have nothing of their own to send, and a
transport is given whatever the system did not take: it waits, or finds that the connection is broken.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from tidings.matching import compile_kernels
from tidings.matching.compiling import kept
from tidings.matching.state import Array
from tidings.mqtt.fanout import Dealt

BLOCK_BYTES = 256 * 1024
"""What is laid out before it is sent: what a client gets of one read is mostly less, and larger blocks would
not stay in the cache."""

NOBODY = -1
"""In the place of a socket that nothing is to be sent to."""

_kernels: ModuleType | None = None
_block: Array = np.empty(0, dtype=np.uint8)


def prepare() -> None:
    """Compile what brokers need to be fast, or load it; in a thread, for it takes seconds the first time on a
    machine. Raises ImportError if numba is not there.
    """
    global _block, _kernels
    compile_kernels()
    if _kernels is not None or not hasattr(socket, "MSG_DONTWAIT"):
        return
    with kept(Path(__file__).with_name("sending_kernels.py")):
        from tidings.live import sending_kernels
    _block = np.zeros(BLOCK_BYTES, dtype=np.uint8)
    numbers, few = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    nobody = np.full(1, NOBODY, dtype=np.int64)
    data = np.frombuffer(b"-", dtype=np.uint8)
    sending_kernels.deliver(data, numbers, numbers, few, numbers, numbers, nobody, _block, numbers.copy())
    _kernels = sending_kernels


def ready() -> bool:
    """Whether there is such a way at all."""
    return _kernels is not None


def deliver(data: bytes, dealt: Dealt, descriptors: Sequence[int]) -> dict[int, int]:
    """Send each taker its share; how many bytes have gone to those, by their numbers, who have not got all.

    There is a descriptor of a socket for each taker, `NOBODY` for those who are to be passed over.
    """
    assert _kernels is not None, "it was asked whether it is ready"
    # The loop looks at nothing twice: what it is given is checked here.
    assert len(descriptors) == len(dealt.lasts), "a socket, or nobody, for each taker"
    dealt.check()
    sent = np.empty(len(descriptors), dtype=np.int64)
    short = _kernels.deliver(
        np.frombuffer(data, dtype=np.uint8),
        dealt.begins,
        dealt.ends,
        dealt.pieces,
        dealt.lasts,
        dealt.sizes,
        np.array(descriptors, dtype=np.int64),
        _block,
        sent,
    )
    if not short:
        return {}
    missing = np.flatnonzero(sent != np.diff(dealt.sizes, prepend=0))
    return dict(zip(missing.tolist(), sent[missing].tolist(), strict=True))
