"""A pipeline of two stages, small enough to see through: numbers, and how many of them end in each digit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBERS = "numbers"
DIGITS = "digits"


@dataclass(frozen=True)
class Spec:
    """What is asked for."""

    seed: int = 3
    count: int = 25
    kinds: tuple[str, ...] = ("even", "odd")


@dataclass(frozen=True)
class Model:
    """The plain values."""

    spec: Spec = field(default_factory=Spec)
    files: Mapping[str, str] = field(default_factory=dict)


def schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


TABLES = {
    NUMBERS: Table(
        NUMBERS,
        lambda _: schema(
            ("number", pa.int64()),
            ("kind", pa.string()),
            ("parts", pa.struct([pa.field("last", pa.int64(), nullable=False)])),
        ),
        "tests.pipeline.small",
    ),
    DIGITS: Table(
        DIGITS, lambda _: schema(("digit", pa.int64()), ("count", pa.int64())), "tests.pipeline.small"
    ),
}


def lookups(model: Model) -> dict[str, pa.Table]:
    kinds = pa.table({"rest": [0, 1], "kind": list(model.spec.kinds)})
    return {"count": pa.table({"count": [model.spec.count]}), "kinds": kinds}


def make_numbers(frames: Frames, _: Any) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    number = F.col("number")
    return (
        frames["count"]
        .select(F.explode(F.expr("sequence(0L, count - 1)")).alias("number"))
        .join(frames["kinds"], number % 2 == F.col("rest"))
        .select("number", "kind", F.struct((number % 10).alias("last")).alias("parts"))
    )


def make_digits(frames: Frames, _: Any) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return frames[NUMBERS].groupBy(F.col("parts.last").alias("digit")).count()


NUMBERS_STAGE = Stage(NUMBERS, "numbers from 0", (), lookups, make_numbers)
DIGITS_STAGE = Stage(DIGITS, "numbers by last digit", (NUMBERS,), lambda _: {}, make_digits)
STAGES = (DIGITS_STAGE, NUMBERS_STAGE)
"""Not in the order in which they run."""
