"""docs/workload.md: its tables say what the spec and the model of counts do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workload.test_counts import made
from tidings.workload import counts, explaining, regions

PAGE = Path(__file__).parents[3] / "docs" / "workload.md"


def lines() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("section", explaining.sections(), ids=lambda section: section.name)
def test_every_key_is_listed_with_its_default_and_meaning(section: explaining.Section) -> None:
    rows = [
        f"| `{section.name}.{key.name}` | `{key.default}` | {' '.join(key.says.split())} |"
        for key in section.keys
    ]
    assert [row for row in rows if row not in lines()] == []


def test_no_key_is_listed_that_is_none() -> None:
    known = {f"{section.name}.{key.name}" for section in explaining.sections() for key in section.keys}
    listed = {line.split("`")[1] for line in lines() if line.startswith("| `") and "." in line.split("`")[1]}
    assert listed <= known


def test_the_figures_of_the_model_are_those_of_the_default() -> None:
    model = made(1)
    before, after = model.shares(), model.shares(24)
    some = np.count_nonzero(model.flat, axis=0)
    each = model.flat.sum(axis=0) / some
    top = model.flat[model.order[:24]].sum(axis=0) / model.flat.sum(axis=0)
    rows = [
        f"| {region} | {counts.ADOPTION[region]:g} | {before[at]:.1%} | {after[at]:.1%} | {some[at]:,} "
        f"| {each[at]:,.0f} | {top[at]:.0%} |"
        for at, region in enumerate(regions.REGIONS)
    ]
    assert [row for row in rows if row not in lines()] == []
