"""Metrics of a node for Prometheus, read when they are asked for: nothing is counted twice.

The node counts in plain integers; here is the table of what each is called outside. Every name begins with
`tidings_`, counts end with `_total`, quantities with their unit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tidings import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Metered(Protocol):
    """What is measured of a node."""

    counters: Any

    @property
    def id(self) -> str: ...
    def gauges(self) -> Mapping[str, float]: ...
    def status(self) -> dict[str, Any]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """A family of counts: one name, with labels or without."""

    name: str
    meaning: str

    fields: Mapping[str, tuple[str, ...]]
    """The counters of the node that it shows, and the values of the labels of each."""

    labels: tuple[str, ...] = ()

    keyed: bool = False
    """Whether each counter is a dict, whose key is the value of the last label."""


def _directions(field: str) -> dict[str, tuple[str, ...]]:
    return {f"{field}_in": ("in",), f"{field}_out": ("out",)}


def _plain(name: str, field: str, meaning: str) -> Count:
    return Count(name, meaning, {field: ()})


COUNTS = (
    Count("link_frames", "Frames on links.", _directions("frames"), ("direction",)),
    Count("link_bytes", "Bytes on links.", _directions("bytes"), ("direction",)),
    Count("link_messages", "Messages on links.", _directions("messages"), ("direction", "kind"), keyed=True),
    _plain("connections_made", "connections_made", "Connections made, in either direction."),
    _plain("connections_lost", "connections_lost", "Connections lost."),
    _plain("connections_refused", "connections_refused", "Connections refused for a limit."),
    _plain(
        "checks_refused", "checks_refused", "Clients refused because too many passwords were being checked."
    ),
    _plain("dials_failed", "dials_failed", "Neighbours that could not be reached."),
    _plain("link_ups", "links_up", "Times that a link came up."),
    _plain("malformed", "faults", "Connections closed for bytes that are not the protocol."),
    _plain("store_syncs", "syncs", "Commits of the store."),
    _plain("store_rows", "rows", "Rows written to the store."),
    _plain("store_sync_seconds", "sync_seconds", "Time spent in commits."),
)
"""What the node counts."""

MQTT_COUNTS = (
    Count("mqtt_packets", "Packets of MQTT clients.", _directions("packets"), ("direction",)),
    Count("mqtt_bytes", "Bytes of MQTT clients.", _directions("bytes"), ("direction",)),
    _plain("mqtt_connected", "connected", "MQTT clients that were accepted."),
    _plain("mqtt_connections_refused", "connections_refused", "Connections beyond a limit, or without TLS."),
    _plain("mqtt_published", "published", "Publications of MQTT clients."),
    _plain("mqtt_published_bytes", "published_bytes", "Bytes of their payloads."),
    _plain("mqtt_delivered", "delivered", "Publications sent to MQTT clients."),
    _plain("mqtt_delivered_bytes", "delivered_bytes", "Bytes of their payloads."),
    Count(
        "mqtt_refused",
        "What MQTT clients asked for and did not get.",
        {"refused": ()},
        ("what",),
        keyed=True,
    ),
    Count(
        "mqtt_dropped",
        "Publications that an MQTT client should have had, and has not.",
        {"dropped": ()},
        ("reason",),
        keyed=True,
    ),
    _plain("mqtt_expired", "expired", "Publications whose time was over before they were sent."),
    _plain("mqtt_retain_ignored", "retain_ignored", "Reports that asked to be retained."),
    _plain("mqtt_taken_over", "taken_over", "MQTT sessions taken over by another connection."),
    _plain("mqtt_expelled", "expelled", "Connections closed because the MQTT client was at fault."),
    _plain("mqtt_unreadable", "unreadable", "Payloads that met a content filter and are not JSON."),
)
"""What the front counts, and the listeners before it."""

GAUGES = {
    "connections": "Open connections.",
    "ungreeted": "Connections that have not said yet what they are.",
    "store_pending": "Rows not yet on disk.",
    "log_bytes": "Bytes of what topics keep.",
    "mqtt_connections": "Open connections of MQTT clients, those being made or closed included.",
}
"""What goes up and down, by its name in the node; others are shown without a sentence."""


MQTT_STATUS = {
    "clients": "MQTT clients that are connected.",
    "sessions": "MQTT sessions, of clients that are there or away.",
    "subscriptions": "Subscriptions of MQTT clients.",
    "retained": "Retained messages.",
    "retained_bytes": "Bytes of retained messages.",
    "queued": "Publications that wait for MQTT clients.",
    "queued_bytes": "Bytes of these.",
    "inflight": "Publications sent to MQTT clients and not yet acknowledged.",
}
"""What the front says about itself, as gauges behind `mqtt_`."""

STATUS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "links_up": (
        "Links that are up.",
        lambda status: sum(link["state"] == "up" for link in status["links"]),
    ),
    "links": ("Links, up or not.", lambda status: len(status["links"])),
    "neighbours_unreached": (
        "Addresses to be dialled at which there is no link.",
        lambda status: len(status["unreached"]),
    ),
    "trees": ("Trees that this broker is in.", lambda status: len(status["trees"])),
    "subscriptions": ("Subscriptions of sessions here.", lambda status: status["subscriptions"]),
    "filters": (
        "Filters that other brokers are told of for these.",
        lambda status: status["sets"][0]["filters"],
    ),
    "filters_widened": (
        "Filters of sessions here that other brokers are told wider than they are.",
        lambda status: status["sets"][0]["widened"],
    ),
    "filters_of_others": (
        "Filters of other brokers that are kept here.",
        lambda status: sum(home["filters"] for home in status["sets"][1:]),
    ),
    "filters_refused": (
        "Filters of other brokers that are not understood or not kept here: all is sent there instead.",
        lambda status: sum(home["widened"] for home in status["sets"][1:]),
    ),
    "publications_held": (
        "Publications of QoS 1 and 2 that entered here and that not everyone has.",
        lambda status: status["held"],
    ),
    "backlog_bytes": ("Publications that wait for room on a link.", lambda status: status["backlog_bytes"]),
    "absent_brokers": (
        "Brokers out of reach, for which publications are held.",
        lambda status: len(status["absent"]),
    ),
    "absent_bytes": ("Publications held for them.", lambda status: status["absent_bytes"]),
    "seats": ("Seats of gathered topics that this broker has.", lambda status: len(status["seats"])),
    "events_open": (
        "Events that are open at these.",
        lambda status: sum(seat["open"] for seat in status["seats"]),
    ),
    "reports_waiting": (
        "Reports that entered here and are not known to be safe at a seat.",
        lambda status: status["gathering"]["waiting"],
    ),
    "paused": ("Whether publishers are paused.", lambda status: status["paused"]),
    "settled": ("Whether every tree in use is settled here.", lambda status: status["ready"]),
}
"""What the broker says about itself, and how it is read from its status."""


GATHERED = (
    Count(
        "gathered_reports",
        "Reports that a seat here has received, by what became of them.",
        {fate: (fate,) for fate in ("opened", "merged", "redundant", "refused")},
        ("topic", "fate"),
    ),
    Count(
        "gathered_conflicts",
        "Fields in which a report disagreed with its event.",
        {"conflicts": ()},
        ("topic",),
    ),
    Count("gathered_told", "Versions of events that a seat here has told.", {"told": ()}, ("topic",)),
    Count("gathered_closed", "Events that a seat here has closed.", {"closed": ()}, ("topic",)),
)
"""What the seats that are at this broker have counted, by the topic."""

GATHERING = (
    _plain("reports_entered", "entered", "Reports to gathered topics that clients here have published."),
    _plain("reports_far", "far", "Reports of a time more than a day from their arrival here."),
    _plain("reports_dropped", "dropped", "Redundant reports that were dropped here on their way to a seat."),
    _plain("seats_taken_over", "taken_over", "Seats that came here since their holder was gone."),
    _plain("seats_handed_over", "handed_over", "Seats that were given to another broker."),
    _plain(
        "events_withdrawn", "withdrawn", "Events taken back from sessions here, for which they match no more."
    ),
    _plain("events_snapshots", "snapshots", "Open events with which subscriptions here began."),
    _plain("events_held", "held", "Versions that had to wait for the `every` of a session here."),
    _plain(
        "events_repeats", "repeats", "Versions that came again, and that sessions here were not given again."
    ),
    _plain(
        "events_forgotten", "forgotten", "Events of which it was forgotten who had what: there were too many."
    ),
)
"""What else is counted of gathering at this broker."""

OTHERS = {
    "false_positives": "Publications that came over a link although no session here wanted them.",
    "absent_dropped": "Publications given up because too much was held.",
    "declarations_lost": "Declarations and views that lost against one that did not know of them.",
    "records_written": "Records on disk.",
    "records_lost": "Records for which there was no room, or no disk.",
}
"""Counts that come from elsewhere: from the broker, and from who writes its records."""


class Metrics:
    """The metrics of one node, in a registry of their own: several nodes may live in one process."""

    def __init__(self, node: Metered, recorded: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        """`recorded` says how many records were written, and lost."""
        self._node = node
        self._recorded = recorded
        self._registry: Any = None

    @property
    def content_type(self) -> str:
        """Of `text`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """What a registry asks for."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        # Asked first: a node brings its counters up to date when it tells its status.
        status = self._node.status()
        yield InfoMetricFamily(
            "tidings_broker", "Which broker this is.", {"broker": self._node.id, "version": __version__}
        )
        mqtt = status["mqtt"]
        counted = {field: getattr(self._node.counters, field) for count in COUNTS for field in count.fields}
        front = {**mqtt, **mqtt["counters"]}
        for count, values in [
            *((count, counted) for count in COUNTS),
            *((one, front) for one in MQTT_COUNTS),
            *((one, status["gathering"]) for one in GATHERING),
        ]:
            family = CounterMetricFamily(f"tidings_{count.name}", count.meaning, labels=count.labels)
            for field, labels in count.fields.items():
                value = values[field]
                for key, number in sorted(value.items()) if count.keyed else [(None, value)]:
                    family.add_metric([*labels, key] if key is not None else list(labels), number)
            yield family
        for count in GATHERED:
            family = CounterMetricFamily(f"tidings_{count.name}", count.meaning, labels=count.labels)
            for topic in sorted({seat["topic"] for seat in status["seats"]}):
                for field, labels in count.fields.items():
                    seats = (seat[field] for seat in status["seats"] if seat["topic"] == topic)
                    family.add_metric([topic, *labels], sum(seats))
            yield family
        others = (
            status["false_positives"],
            status["dropped"],
            status["declarations_lost"],
            *self._recorded(),
        )
        for (name, meaning), number in zip(OTHERS.items(), others, strict=True):
            yield CounterMetricFamily(f"tidings_{name}", meaning, number)
        for name, number in self._node.gauges().items():
            yield GaugeMetricFamily(f"tidings_{name}", GAUGES.get(name, name), number)
        for name, meaning in MQTT_STATUS.items():
            yield GaugeMetricFamily(f"tidings_mqtt_{name}", meaning, mqtt[name])
        for name, (meaning, read) in STATUS.items():
            yield GaugeMetricFamily(f"tidings_{name}", meaning, float(read(status)))


def markdown() -> str:
    """The rows of the table in docs/operations.md."""
    counts = {
        f"{count.name}_total" + (f"{{{','.join(count.labels)}}}" if count.labels else ""): count.meaning
        for count in (*COUNTS, *MQTT_COUNTS, *GATHERING, *GATHERED)
    }
    counts |= {f"{name}_total": meaning for name, meaning in OTHERS.items()}
    gauges = GAUGES | {f"mqtt_{name}": meaning for name, meaning in MQTT_STATUS.items()}
    gauges |= {name: meaning for name, (meaning, _) in STATUS.items()}
    return "".join(
        f"| `tidings_{name}` | {meaning.removesuffix('.')} |\n" for name, meaning in (counts | gauges).items()
    )
