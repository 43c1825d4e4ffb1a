"""The fields of reports: their names, and the values that each may have."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.records import workload as tables
from tidings.workload.model import Model

SEVERITIES = (50, 75, 90, 97)
"""Of a hundred events so many have a severity of at most 1, 2, 3 and 4; the others have 5."""

SEVERITY_MAX = len(SEVERITIES) + 1


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a field may have."""

    name: str
    low: int
    count: int


def ranges(model: Model) -> list[Range]:
    """The fields that a report may know or not, in order."""
    asked = model.spec.reports
    return [
        *(Range(one.name, 0, model.spec.space.resolution) for one in model.dimensions),
        Range(tables.SEVERITY, 1, SEVERITY_MAX),
        *(Range(name, 0, asked.detail_max + 1) for name in tables.details(asked.details)),
    ]
