"""Matching: from an event to the subscriptions that want it.

`Scan` asks every filter and is the judge; `Index` finds them without asking. Both are calculations: no
threads, no clock. The driver may call `Index.work` when it has time, and `compile_kernels`, in a thread of
its own, once.
"""

from __future__ import annotations

from tidings.matching.base import Matcher, Matches
from tidings.matching.compiling import compile_kernels
from tidings.matching.index import Index
from tidings.matching.reading import Answers, Payloads
from tidings.matching.scan import Scan

__all__ = [
    "Answers",
    "Index",
    "Matcher",
    "Matches",
    "Payloads",
    "Scan",
    "compile_kernels",
]
