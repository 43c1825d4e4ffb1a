"""Chunks: how rows that are said by few become tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from tidings.pipeline.workload import chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Settings:
    """Of a session: how many tasks a shuffle has."""

    partitions: int

    def get(self, name: str) -> str:
        assert name == "spark.sql.shuffle.partitions"
        return str(self.partitions)


@dataclass
class Session:
    """As much of one as is asked."""

    conf: Settings


@dataclass
class Frame:
    """And of a DataFrame."""

    sparkSession: Session  # noqa: N815


@pytest.mark.parametrize(
    ("rows", "partitions", "tasks"),
    [
        (0, 8, 1),
        (1, 8, 1),
        (500_001, 8, 2),
        (8_100_000, 8, 8),
        (8_100_000, 200, 17),
        (100_000_000, 8, 20),
        (100_000_000_000, 200, 10_000),
    ],
)
def test_tasks_are_those_of_a_shuffle_unless_too_small_or_too_large(
    rows: int, partitions: int, tasks: int
) -> None:
    frame = cast("DataFrame", Frame(Session(Settings(partitions))))
    assert chunks.tasks(frame, rows) == tasks
