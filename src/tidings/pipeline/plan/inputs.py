"""What planners are given: small tables of a source as plain values, collected through Arrow.

Spark adds up; only sums come here, and only as many as a planner on one machine can take. What is more is
refused, with what would make it less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tidings.errors import InputError
from tidings.pipeline.cache import cached
from tidings.pipeline.plan import homes as homes_tables
from tidings.pipeline.plan import pairs as pairs_tables
from tidings.pipeline.plan import requests as requests_tables
from tidings.pipeline.plan import votes as votes_tasks
from tidings.pipeline.progress import watched
from tidings.planning.communities.base import Flows
from tidings.planning.stores.base import Gain, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from tidings.pipeline.plan.sources import Recorded, Source

PAIRS_MAX = 5_000_000
"""Pairs of clients that talk to each other. A planner holds them in memory, some 100 bytes each with its
graph; two million of them are planned in about a minute."""

CLIENTS_MAX = 1_000_000
"""Clients that talk at all."""

RATES_MAX = 5_000_000
"""Topics and brokers at which they are asked for."""

WEIGHTS_MAX = 100_000
"""Different counts of messages that are told apart when it is asked how many pairs to leave out."""

Progress = Callable[[str, int, int], None]
"""Told what is being counted, how many of its tasks are done, and of how many."""


def quiet(_name: str, _done: int, _tasks: int) -> None:
    """Nobody looks."""


@dataclass(frozen=True)
class Talk:
    """Who talks to whom, from where."""

    flows: Flows
    homes: Mapping[str, str]
    """Of all clients that talk."""

    about: Mapping[str, Any]
    """How much of it there is, and what was left out: plain values for a plan."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What is asked for, where and how often."""

    rates: tuple[tuple[str, str, float], ...]
    """Topic, broker, requests per second."""

    about: Mapping[str, Any]


def flows(
    spark: SparkSession, source: Source, *, least_messages: int = 1, progress: Progress = quiet
) -> Talk:
    """Who talks to whom in a source, of pairs with at least so many messages.

    Raises `InputError` where nobody talks, and where more do than can be planned at once.
    """
    with source.pairs(spark) as made, cached(made) as pairs:
        with _told(spark, "who talks to whom", progress):
            sizes = pairs_tables.sizes(pairs, least_messages).toArrow().to_pylist()[0]
        if not sizes["kept_pairs"]:
            raise _nobody(source, sizes, least_messages)
        if sizes["kept_pairs"] > PAIRS_MAX:
            raise _too_many(source, sizes, pairs)
        kept = pairs.where(F.col("messages") >= least_messages)
        with _told(spark, "pairs of clients", progress):
            collected = kept.toArrow()
        names, senders, receivers = _numbered(collected["sender"], collected["receiver"])
        if len(names) > CLIENTS_MAX:
            raise InputError(
                f"{source.name}: {len(names):,} clients talk to each other; plans are made for up to "
                f"{CLIENTS_MAX:,}. Leave out pairs with few messages (--least-messages), or take fewer hours"
            )
        with _told(spark, "homes of clients", progress):
            at_home = _mapping(homes_tables.among(source.homes(spark), pairs_tables.clients(kept)).toArrow())
    counts = collected["messages"].to_numpy().astype(np.float64)
    known = np.array([name in at_home for name in names], bool)
    homeless, whole = np.flatnonzero(~known), known[senders] & known[receivers]
    warnings: tuple[str, ...] = ()
    if len(homeless):
        lost = f"{counts[~whole].sum():,.0f} messages from or to them are left out"
        clients = f"{len(homeless):,} clients such as {names[homeless[0]]!r}"
        warnings = (f"{clients} have no home in {source.name}; {lost}",)
        places = np.cumsum(known) - 1
        names = [name for name, here in zip(names, known.tolist(), strict=True) if here]
        senders, receivers, counts = places[senders[whole]], places[receivers[whole]], counts[whole]
    about = {**source.about(), **sizes, "least_messages": least_messages}
    return Talk(Flows.of_arrays(names, senders, receivers, counts), at_home, about, warnings)


def rates(
    spark: SparkSession,
    source: Source,
    *,
    least_requests: int = 1,
    required: bool = True,
    progress: Progress = quiet,
) -> Asked:
    """How often each topic is asked for at each broker, per second, of topics that are at least so often.

    Raises `InputError` where there is more than can be planned at once, and where nobody asks, unless that is
    not required.
    """
    made = source.requests(spark)
    if made is None:
        return _unasked(source, required)
    with cached(made) as requests:
        with _told(spark, "requests", progress):
            sizes = requests.agg(
                F.count("*").alias("rows"), F.coalesce(F.sum("requests"), F.lit(0)).alias("requests")
            )
            rows, total = sizes.toArrow().to_pylist()[0].values()
        if not total:
            return _unasked(source, required)
        kept = requests if least_requests <= 1 else requests_tables.often(requests, least_requests)
        with _told(spark, "requests", progress):
            rows = rows if kept is requests else kept.count()
            if not rows:
                raise InputError(
                    f"{source.name}: no topic is asked for {least_requests:,} times; give less "
                    "--least-requests"
                )
            if rows > RATES_MAX:
                raise InputError(
                    f"{source.name}: there are {rows:,} topics and brokers at which they are asked for; "
                    f"plans are made for up to {RATES_MAX:,}. Leave out topics that are hardly asked for "
                    "(--least-requests N)"
                )
            collected = kept.toArrow()
    with _told(spark, "the time", progress):
        ends = source.ends(spark).toArrow().to_pylist()[0]
    # One second at least, lest a single request be for ever.
    seconds = max(1.0, (ends["last"] - ends["first"]) / 1e6)
    columns = (collected[name].to_pylist() for name in requests_tables.COLUMNS)
    found = tuple((topic, broker, count / seconds) for topic, broker, count in zip(*columns, strict=True))
    about = {**source.about(), "requests": int(total), "seconds": seconds, "least_requests": least_requests}
    return Asked(tuple(sorted(found)), about)


def _unasked(source: Source, required: bool) -> Asked:
    if required:
        raise InputError(source.unasked)
    return Asked((), source.about())


def homes(
    spark: SparkSession, source: Source, clients: Iterable[str], *, progress: Progress = quiet
) -> dict[str, str]:
    """Where some clients are now; those that are nowhere are left out."""
    wanted = pa.table({"client": pa.array(sorted(set(clients)), pa.string())})
    with _told(spark, "homes of clients", progress):
        return _mapping(homes_tables.among(source.homes(spark), spark.createDataFrame(wanted)).toArrow())


def network(
    spark: SparkSession, source: Recorded, *, progress: Progress = quiet
) -> tuple[list[str], list[tuple[str, str]]]:
    """Brokers and links, as far as records name them."""
    with _told(spark, "the network", progress):
        brokers, links = (frame.toArrow() for frame in source.links(spark))
    found = zip(links["a"].to_pylist(), links["b"].to_pylist(), strict=True)
    return sorted(brokers["broker"].to_pylist()), sorted(found)


def votes(
    spark: SparkSession, problem: Problem, gain: Gain = Gain.MEDIAN, *, progress: Progress = quiet
) -> NDArray[np.int64]:
    """What topics vote, each a task."""
    with _told(spark, "votes of topics", progress):
        return votes_tasks.votes(spark, problem, gain)


def _nobody(source: Source, sizes: Mapping[str, int], least: int) -> InputError:
    if sizes["pairs"]:
        return InputError(
            f"{source.name}: no pair of clients has {least:,} messages; give less --least-messages"
        )
    return InputError(
        f"{source.name}: nobody sent anything that somebody received; plan when there is traffic, or take "
        "more hours"
    )


def _too_many(source: Source, sizes: Mapping[str, int], pairs: DataFrame) -> InputError:
    """With how many messages a pair must have so that the others can be planned."""
    weights = pairs_tables.by_weight(pairs, WEIGHTS_MAX).toArrow()
    counts = weights["pairs"].to_numpy()[::-1].cumsum()[::-1]
    enough = np.flatnonzero(counts <= PAIRS_MAX)
    way = ""
    if len(enough):
        least = weights["messages"].to_numpy()[enough[0]]
        way = f" --least-messages {least} leaves {counts[enough[0]]:,};"
    return InputError(
        f"{source.name}: {sizes['kept_pairs']:,} pairs of clients talk to each other; plans are made for up "
        f"to {PAIRS_MAX:,}. Leave out those with few messages:{way} or take fewer hours"
    )


def _numbered(
    senders: pa.ChunkedArray, receivers: pa.ChunkedArray
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """All names once, and senders and receivers as places there."""
    # Names of ten million ends may have more than two gibibytes.
    chunks = [chunk.cast(pa.large_string()) for column in (senders, receivers) for chunk in column.chunks]
    both = pa.chunked_array(chunks, pa.large_string()).combine_chunks()
    encoded = pc.dictionary_encode(both)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    places = encoded.indices.to_numpy().astype(np.int64)
    return encoded.dictionary.to_pylist(), places[: len(senders)], places[len(senders) :]


def _mapping(table: pa.Table) -> dict[str, str]:
    return dict(zip(table["client"].to_pylist(), table["broker"].to_pylist(), strict=True))


@contextmanager
def _told(spark: SparkSession, name: str, progress: Progress) -> Iterator[None]:
    """While something is counted: how far it is."""
    progress(name, 0, 0)
    with watched(spark, lambda done, tasks: progress(name, done, tasks)):
        yield
