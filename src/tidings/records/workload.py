"""The tables of a workload: what their columns are called and hold. Spark writes them, everything reads them.

`at`, `from_at`, `until_at`, `since` and `until` are whole microseconds since 1970, as in records. A client is
a number; a broker has a name. An interest has a number of subscriptions in a region, numbered from `first`.
Coordinates are milliseconds of round trip: the distance of two points is the time from one to the other and
back. Intervals are whole numbers and include both ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BROKERS = "brokers"
LINKS = "links"
CLIENTS = "clients"
INTERESTS = "interests"
SUBSCRIPTIONS = "subscriptions"
EVENTS = "events"
REPORTS = "reports"
REQUESTS = "requests"

TABLES = (BROKERS, LINKS, CLIENTS, INTERESTS, SUBSCRIPTIONS, EVENTS, REPORTS, REQUESTS)
"""In the order in which they are made."""

DECLARATIONS = "topics"
"""The folder of topic declarations beside the tables, one TOML file each."""

SPEC_FILE = "workload.toml"
"""What tables and declarations were made by, beside them. Its first line has the digest of that."""

COORDINATES = ("x1", "x2", "x3", "x4", "x5")

STORY = "story"
"""The field that says which event a report is about: the key of gathered topics."""

SEVERITY = "severity"


def low(field: str) -> str:
    """The column of the lower end of an interval."""
    return f"{field}_lo"


def high(field: str) -> str:
    """The column of the upper end of an interval, which belongs to it."""
    return f"{field}_hi"


def details(count: int) -> tuple[str, ...]:
    """What further fields of an event are called."""
    return tuple(f"detail_{number}" for number in range(1, count + 1))


def schemas(dimensions: Sequence[str], details: Sequence[str]) -> Mapping[str, pa.Schema]:
    """The columns of every table, for event dimensions and further fields of events, all of them numbers."""
    import pyarrow as pa

    def columns(*named: tuple[str, pa.DataType], null: Sequence[str] = ()) -> pa.Schema:
        return pa.schema([pa.field(name, kind, name in null) for name, kind in named])

    number, text, real = pa.int64(), pa.string(), pa.float64()
    point = [(name, real) for name in COORDINATES]
    box = [(end(name), number) for name in dimensions for end in (low, high)]
    names = (STORY, *dimensions, SEVERITY, *details)
    told = pa.struct([pa.field(name, number, nullable=False) for name in names])
    reported = pa.struct([pa.field(name, number, nullable=name != STORY) for name in names])
    return {
        BROKERS: columns(("broker", text), ("region", text), *point),
        LINKS: columns(("a", text), ("b", text), ("delay_ms", real)),
        CLIENTS: columns(("client", number), ("region", text), *point, ("broker", text)),
        INTERESTS: columns(
            ("interest", number),
            ("region", text),
            ("topic", text),
            *((name, text) for name in dimensions),
            ("base", pa.bool_()),
            *box,
            ("members", number),
            ("messages", real),
            ("subscriptions", number),
            ("first", number),
        ),
        SUBSCRIPTIONS: columns(
            ("subscription", number),
            ("client", number),
            ("topic", text),
            *box,
            ("where", text),
            ("unknown", text),
            ("from_at", number),
            ("until_at", number),
            null=("where", "until_at"),
        ),
        EVENTS: columns(
            ("event", number), ("topic", text), ("at", number), ("client", number), ("fields", told)
        ),
        REPORTS: columns(
            ("report", number),
            ("event", number),
            ("topic", text),
            ("at", number),
            ("client", number),
            ("fields", reported),
        ),
        REQUESTS: columns(
            ("client", number),
            ("topic", text),
            ("at", number),
            ("where", text),
            ("since", number),
            ("until", number),
        ),
    }
