"""The first step of the placement of stores on Spark: topics vote independently of each other, so each is a
task, or some of them are.

A topic's votes depend on the network and its own rates alone. They are the very numbers that
`planning.stores.published.votes` finds, wherever they were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from tidings.planning.graphs import Graph
from tidings.planning.stores import modified
from tidings.planning.stores.base import Gain, Problem

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

TASKS_MAX = 512
"""Beyond so many topics a task has several."""

VOTED = "number bigint, brokers array<bigint>, votes array<bigint>"

_Links = tuple[tuple[int, int, float], ...]


def votes(spark: SparkSession, problem: Problem, gain: Gain = Gain.MEDIAN) -> NDArray[np.int64]:
    """By topic and broker: how many targets chose it."""
    graph = problem.graph
    told = voted(asked(spark, problem), graph.names, graph.links, problem.replicas, gain).toArrow()
    found = np.zeros(problem.demand.rates.shape, np.int64)
    for number, brokers, counts in zip(*(told[name].to_pylist() for name in told.column_names), strict=True):
        found[number, brokers] = counts
    return found


def asked(spark: SparkSession, problem: Problem) -> DataFrame:
    """Topics by number, with the brokers that ask for them and their rates.

    Each is in a partition of its own, as far as there may be so many.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    rates = problem.demand.rates
    topics, brokers = np.nonzero(rates)
    ends = np.searchsorted(topics, np.arange(len(rates) + 1)).astype(np.int32)
    given = pa.table(
        {
            "number": pa.array(np.arange(len(rates), dtype=np.int64)),
            "brokers": pa.ListArray.from_arrays(pa.array(ends), pa.array(brokers.astype(np.int64))),
            "rates": pa.ListArray.from_arrays(pa.array(ends), pa.array(rates[topics, brokers])),
        }
    )
    tasks = max(1, min(len(rates), TASKS_MAX))
    numbers = spark.range(0, len(rates), 1, tasks).withColumnRenamed("id", "number")
    # Numbers come in partitions as they are asked for; the rates go to all of them.
    return numbers.join(F.broadcast(spark.createDataFrame(given)), "number")


def voted(topics: DataFrame, names: tuple[str, ...], links: _Links, count: int, gain: Gain) -> DataFrame:
    """What topics vote: of each the brokers with votes, and how many."""
    work = partial(_work, names=names, links=links, count=count, gain=gain.value)
    return topics.mapInArrow(work, VOTED)


# On workers.


def _work(
    batches: Iterator[pa.RecordBatch], *, names: tuple[str, ...], links: _Links, count: int, gain: str
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    graph = _graph(names, links)
    for batch in batches:
        brokers, counts = [], []
        for asking, rates in zip(batch["brokers"].to_pylist(), batch["rates"].to_pylist(), strict=True):
            of_topic = np.zeros(len(names))
            of_topic[asking] = rates
            found = modified.votes(graph, of_topic, count, Gain(gain))
            chosen = np.flatnonzero(found)
            brokers.append(chosen.tolist())
            counts.append(found[chosen].tolist())
        whole = pa.list_(pa.int64())
        yield pa.RecordBatch.from_arrays(
            [batch["number"], pa.array(brokers, whole), pa.array(counts, whole)],
            ["number", "brokers", "votes"],
        )


@lru_cache(maxsize=1)
def _graph(names: tuple[str, ...], links: _Links) -> Graph:
    """The network, whose distances each process finds once."""
    return Graph(names, links)
