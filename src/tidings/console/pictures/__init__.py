"""The pictures of a day: each a function of a `Day` and a `Look`, in a module of its own.

They draw what the day says and compute nothing that `totals` does not have. Their words are in `captions`.
Importing this imports matplotlib, which takes a moment: only what draws does it.
"""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from tidings.console.day import Day
from tidings.console.looks import Look
from tidings.console.pictures.costs import costs
from tidings.console.pictures.latency import latency
from tidings.console.pictures.life import life
from tidings.console.pictures.network import network
from tidings.console.pictures.plans import plans
from tidings.console.pictures.reports import reports
from tidings.console.pictures.suppression import suppression

PICTURES: dict[str, Callable[[Day, Look], Figure]] = {
    "reports": reports,
    "life": life,
    "suppression": suppression,
    "network": network,
    "latency": latency,
    "costs": costs,
    "plans": plans,
}
"""By the names that `captions.CAPTIONS` has too."""
