"""What tests share: the Spark session, how Hypothesis runs, what is said of skipped tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.skipped import to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No test asserts a time, Hypothesis included: a machine that is busy is not a bug.
settings.register_profile("all", deadline=None)
# What `make test` takes; tests that name a number of examples get their share of it by `tests.examples`.
settings.register_profile("gate", deadline=None, max_examples=25)
settings.load_profile("all")


NETWORKS = {"cli", "client", "live"}
"""Folders whose tests start brokers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with Spark: of two processes one is busy with it for most of the time."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@cache
def group(file: str) -> str:
    """What a file's tests share a process with: all of Spark, all networks, or nobody.

    A Spark session costs more than any test. Networks of processes take the next ports that are free, and two
    of them would take the same.
    """
    path = Path(__file__).parent.parent / file
    if "mark.spark" in path.read_text(encoding="utf-8"):
        return "spark"
    return "network" if NETWORKS.intersection(path.parts) else file


# By hand: groups that are marks get lost between this pytest and this xdist.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Deal tests out to processes by group."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid.partition("::")[0])

    return ByGroup(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what to install for tests that were skipped."""
    skipped = (report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    lines = to_install(reason.removeprefix("Skipped: ") for reason in skipped)
    if lines:
        terminalreporter.section("to run what was skipped")
        for line in lines:
            terminalreporter.line(line)


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
