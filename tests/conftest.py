"""What tests share: the Spark session, and how Hypothesis runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No test asserts a time, Hypothesis included: a machine that is busy is not a bug.
settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")


NETWORKS = {"cli", "client", "live"}
"""Folders whose tests start brokers."""


# First, since what deals tests out reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deal tests out to processes by file, but all of Spark to one, which begins with them.

    A file's fixtures are then made once, and so is the Spark session, which costs more than any test.
    """
    on_spark = {item: item.get_closest_marker("spark") is not None for item in items}
    items.sort(key=lambda item: not on_spark[item])
    for item in items:
        # Networks of processes take the next ports that are free, and two of them would take the same.
        alone = "network" if NETWORKS.intersection(item.path.parts) else str(item.path)
        item.add_marker(pytest.mark.xdist_group("spark" if on_spark[item] else alone))


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests marked `spark`: its start is most of what they cost."""
    from tidings.pipeline import session

    with session.start(
        "tidings tests",
        master="local[2]",
        settings={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"},
        quick_start=True,
    ) as started:
        yield started
