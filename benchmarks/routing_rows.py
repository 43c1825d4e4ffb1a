"""What `benchmarks/routing.py` and its parts share: a figure beside its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LINK_BYTES = 150
"""Of a new subscription with two comparisons, over each link in each direction."""

CHANGE_CPU_S = 0.001
"""That it costs each other broker."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure."""

    part: str
    what: str
    value: float
    unit: str

    bound: float | None
    """The most that it may be; None for what is only shown."""

    at_least: bool = False
    """Whether the bound is the least that it may be."""

    @property
    def holds(self) -> bool:
        """Whether it is within its bound."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def measured(self) -> str:
        """The figure as text, with a mark if it is beyond its bound."""
        return f"{_text(self.value, self.unit)}{'' if self.holds else ' !'}"

    @property
    def limit(self) -> str:
        """Its bound as text."""
        if self.bound is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {_text(self.bound, self.unit)}"


def _text(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"
    return f"{number} {unit}".strip()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not larger than."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
