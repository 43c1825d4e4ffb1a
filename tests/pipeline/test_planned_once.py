"""Tables whose rows are dealt out by number are planned once, and others as the session says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from tidings.pipeline import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DiskFullError(Exception):
    """What may end a write."""


NAME = "spark.sql.adaptive.enabled"


@dataclass
class Settings:
    """Of a session."""

    values: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        return self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


@dataclass
class Session:
    """As much of one as is asked."""

    conf: Settings


@pytest.mark.parametrize("before", ["true", "false"])
def test_the_setting_is_off_meanwhile_and_comes_back_whatever_happens(before: str) -> None:
    settings = Settings({NAME: before})
    spark = cast("SparkSession", Session(settings))
    seen: list[dict[str, str]] = []

    def write() -> None:
        with tables._planned_once(spark):
            seen.append(dict(settings.values))
            raise DiskFullError

    with pytest.raises(DiskFullError):
        write()
    assert seen == [{NAME: "false"}]
    assert settings.values == {NAME: before}
