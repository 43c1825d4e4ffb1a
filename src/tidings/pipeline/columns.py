"""Random columns for Spark, the same as those of `hashing`, and draws from a table of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everyone who uses Spark calls it

if TYPE_CHECKING:
    from pyspark.sql import Column


def draw(key: int, *ids: Column) -> Column:
    """64 random bits for each row; `ids` are columns of 64-bit numbers."""
    return F.xxhash64(F.lit(key).cast("bigint"), *(one.cast("bigint") for one in ids))


def fraction(drawn: Column) -> Column:
    """A number from 0 up to 1, from the upper 53 bits."""
    return F.shiftrightunsigned(drawn, 11).cast("double") * F.lit(2.0**-53)


def below(drawn: Column, count: Column | int) -> Column:
    """A whole number from 0 up to `count`."""
    return F.pmod(drawn, F.lit(count).cast("bigint") if isinstance(count, int) else count)


def chosen(fractions: Column, slot: Column, cut: Column, other: Column) -> Column:
    """The answer of an alias table, for a slot drawn evenly, with the cut and the other of that slot."""
    return F.when(fractions < cut, slot).otherwise(other)
