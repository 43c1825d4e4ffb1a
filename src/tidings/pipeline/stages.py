"""Stages: functions from DataFrames and plain values to a DataFrame, each of which writes one table.

A stage never reads, writes, collects or asks for a session; running them, with everything at the edges, is
not here. Small plain tables that a stage looks things up in are made by it as Arrow, and become DataFrames at
the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Frames = Mapping[str, "DataFrame"]
"""The tables that a stage reads and its lookups, by name."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What makes one table."""

    table: str
    """Which table; also the stage's name."""

    says: str
    """What it does, in a line."""

    reads: tuple[str, ...]
    """The tables that it is made from."""

    lookups: Callable[[Any], Mapping[str, pa.Table]]
    """Small tables from the plain values; no name is that of a table in `reads`."""

    make: Callable[[Frames, Any], DataFrame]
    """The table, from what it reads, its lookups and the plain values."""

    files: tuple[Path, ...] = ()
    """Files that its Python on workers reads, by `pyspark.SparkFiles`; they are sent along."""
