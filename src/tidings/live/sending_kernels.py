"""The kernel that lays out what clients get and hands it to the system.

Importing this module imports numba; `tidings.live.sending` alone does so.
"""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
from numba import types

from tidings.matching.batch_kernels import MOVED, lay
from tidings.matching.kernels import U0, U1, Number, kernel
from tidings.matching.state import Array

_send: Any = types.ExternalFunction("send", types.intp(types.intc, types.uintp, types.uintp, types.intc))
"""The system's, as in send(2)."""

_FLAGS = np.int32(socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0))


@kernel
def deliver(
    data: Array,
    begins: Array,
    ends: Array,
    pieces: Array,
    lasts: Array,
    sizes: Array,
    descriptors: Array,
    block: Array,
    sent: Array,
) -> Number:
    """Send each taker its pieces, which are laid out in `block` first; how many have not got all of them.

    The arrays are those of `Dealt`; `descriptors` has one of a socket for each taker, below 0 for those who
    are passed over. `sent` says how many bytes the system has taken for each. Where it does not take all, for
    whatever reason, that taker is left there.
    """
    address = np.uint64(block.ctypes.data)
    room = np.uint64(len(block))
    short = 0
    i = U0
    before = np.int64(0)
    for taker in range(np.uint64(len(descriptors))):
        last = np.uint64(lasts[taker])
        wanted = sizes[taker] - before
        before = sizes[taker]
        gone = np.int64(0)
        taken = descriptors[taker] >= 0
        while taken and i < last:
            filled = U0
            while i < last:
                e = np.uint64(pieces[i])
                begin = np.uint64(begins[e])
                size = np.uint64(ends[e]) - begin
                if filled + size + MOVED > room:
                    break
                lay(data, begin, size, block, filled)
                filled += size
                i += U1
            if filled == U0 and i < last:
                break  # a piece that is larger than the block
            went = _send(np.int32(descriptors[taker]), address, filled, _FLAGS)
            if went > 0:
                gone += went
            taken = went == np.int64(filled)
        i = last
        sent[taker] = gone
        if gone != wanted:
            short += 1
    return short
