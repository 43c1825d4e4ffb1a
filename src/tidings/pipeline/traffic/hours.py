"""What stages of traffic share: the hours that they make, and columns that several of them count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everyone who uses Spark calls it

from tidings.records.traffic import HOUR, NEAR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidings.records.record import Kind


@dataclass(frozen=True, slots=True)
class Hours:
    """The plain value that stages are given: which hours are to be made."""

    made: tuple[int, ...]

    def of(self, records: DataFrame, *kinds: Kind) -> DataFrame:
        """The records of these hours and kinds."""
        return self.within(records).where(is_kind(*kinds))

    def near(self, records: DataFrame, *kinds: Kind) -> DataFrame:
        """Those of the hours around as well."""
        return _within(records, self.around).where(is_kind(*kinds))

    def within(self, table: DataFrame) -> DataFrame:
        """The rows of these hours."""
        return _within(table, self.made)

    @property
    def around(self) -> tuple[int, ...]:
        """These hours and those that their records may have to do with."""
        return tuple(sorted({hour + by for hour in self.made for by in range(-NEAR, NEAR + 1)}))

    def answered(self) -> Column:
        """Of these hours, those that a record has to do with, each in a row of its own."""
        hours = F.sequence(F.col(HOUR) - NEAR, F.col(HOUR) + NEAR)
        return F.explode(
            F.array_intersect(hours, F.array([F.lit(hour).cast("bigint") for hour in self.made]))
        )


def _within(table: DataFrame, hours: Sequence[int]) -> DataFrame:
    # As one range where it is one: a long list would be in the plan of every scan.
    first, last = min(hours, default=0), max(hours, default=-1)
    found = table.where(F.col(HOUR).between(first, last))
    if len(hours) < last - first + 1:
        found = found.where(F.col(HOUR).isin(list(hours)))
    return found


def is_near(one: Column, other: Column) -> Column:
    """Whether two hours are near enough for their records to be about the same."""
    return F.abs(one - other) <= NEAR


def size(column: str = "bytes") -> Column:
    """Bytes, of which a record may have none."""
    return F.coalesce(F.col(column), F.lit(0))


def copies() -> Column:
    """For how many receivers a record stands."""
    return F.size("receivers").cast("bigint")


def total(number: Column | int, when: Column | None = None) -> Column:
    """The sum of a whole number, over the rows for which something holds."""
    counted = F.lit(number).cast("bigint") if isinstance(number, int) else number
    return F.sum(counted if when is None else F.when(when, counted).otherwise(F.lit(0).cast("bigint")))


def is_kind(*kinds: Kind) -> Column:
    """Whether a record is of one of these kinds."""
    return F.col("kind").isin([kind.value for kind in kinds])
