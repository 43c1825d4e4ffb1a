"""The tables of traffic: what their columns are called and hold. Spark makes them from records.

Every row belongs to an hour: whole hours since 1970, or since the start of a simulation, of the record that
it was counted from. Everything else is a name, a count, bytes or microseconds: sums of whole numbers, which
are the same in whatever order they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from tidings.records.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

TRAFFIC = "traffic"
"""The folder of all of them."""

RECORDS = "records"
CONTRIBUTIONS = "contributions"
MESSAGES = "messages"
LINKS = "links"
BROKERS = "brokers"
TOPICS = "topics"
SUPPRESSION = "suppression"
HOPS = "hops"
LATENCIES = "latencies"
REQUESTS = "requests"

TABLES = (
    RECORDS,
    CONTRIBUTIONS,
    MESSAGES,
    LINKS,
    BROKERS,
    TOPICS,
    SUPPRESSION,
    HOPS,
    LATENCIES,
    REQUESTS,
)
"""In the order in which they are made."""

HOUR = "hour"

HOUR_US = 3_600_000_000

NEAR = 1
"""By how many hours two records may be apart that one question joins: what a broker made of a message that
came over a link, and what became of a report that carried another. Brokers hold messages for minutes."""

CARRIED = "merged on the way"
"""The reason of a suppressed report that another carries."""


def hour_of(at_us: int) -> int:
    """The hour of a time.

    >>> hour_of(3_599_999_999), hour_of(3_600_000_000)
    (0, 1)
    """
    return at_us // HOUR_US


def bucket_of(latency_us: int) -> int:
    """The latency that stands for all that are nearly the same: its four leading binary digits.

    Of a latency of any size it is at most an eighth less. Negative ones, from clocks that differ, mirror.

    >>> bucket_of(15), bucket_of(17), bucket_of(1_000_000), bucket_of(-17)
    (15, 16, 983040, -16)
    """
    size = abs(latency_us)
    shift = max(0, size.bit_length() - 4)
    lowest = size >> shift << shift
    return lowest if latency_us >= 0 else -lowest


@lru_cache(maxsize=1)
def schemas() -> Mapping[str, pa.Schema]:
    """The columns of every table; the hour is the last, since it is a folder."""
    import pyarrow as pa

    number, text = pa.int64(), pa.string()

    def columns(words: str, counts: str) -> pa.Schema:
        named = [(name, text) for name in words.split()] + [(name, number) for name in counts.split()]
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in [*named, (HOUR, number)]])

    return {
        RECORDS: pa.schema([*arrow_schema(), pa.field(HOUR, number, nullable=False)]),
        CONTRIBUTIONS: columns("event publisher", "version"),
        MESSAGES: columns("sender receiver", "messages told"),
        LINKS: columns("sender receiver", "forwarded messages bytes reports false_positives"),
        BROKERS: columns(
            "broker",
            "published published_bytes received received_bytes forwarded forwarded_bytes delivered "
            "delivered_bytes gathered told suppressed requested",
        ),
        TOPICS: columns(
            "topic", "published published_bytes reports opened merged told delivered suppressed requested"
        ),
        SUPPRESSION: columns("topic reason", "messages bytes sessions"),
        HOPS: columns("broker", "hops deliveries"),
        LATENCIES: columns("broker", "latency_us deliveries total_us"),
        REQUESTS: columns("broker holder topic", "requests bytes"),
    }
