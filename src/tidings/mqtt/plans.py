"""Plans: how what is published to a topic goes to clients, as long as nothing changes about these.

A plan is of one topic, one QoS and one version of MQTT: a packet of one version is none of the other. Content
filters are a matter of an *audience*: all topics that meet the same filters have the same one, and so what
has been found out for one of them holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from tidings.language import names
from tidings.language.subscriptions import Subscription
from tidings.language.views import PREFIX
from tidings.mqtt.clients import Client
from tidings.mqtt.fanout import Links
from tidings.mqtt.properties import variable
from tidings.mqtt.sessions import Asked, Session
from tidings.mqtt.subscribing import VIEW
from tidings.overlay.publishing.publications import Route
from tidings.overlay.routing.table import Entry, Node


class Place:
    """A topic, and who gets what is published there."""

    __slots__ = ("plans", "route", "short", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.short = (
            not topic.startswith(("$", VIEW)) and topic != PREFIX and topic.count("/") < names.LEVELS_MAX
        )
        """Whether nothing about it needs the long way."""
        self.route: Route | None = None
        self.plans: list[Plan | None] = [None] * 4
        """For QoS 0 and 1, each from publishers of 3.1.1 and of 5.0."""


class Plan:
    """How a burst goes to clients, as long as neither route nor connections change."""

    __slots__ = (
        "acknowledged",
        "audience",
        "others",
        "plain",
        "receivers",
        "settled_after",
        "version",
    )

    def __init__(self, version: int) -> None:
        self.version = version
        self.plain: dict[tuple[bool, bytes], list[Client]] = {}
        """By version and subscription identifiers: who gets it at QoS 0."""
        self.acknowledged: list[tuple[Session, bytes]] = []
        """Who gets it at QoS 1, with the identifiers, and need not have it kept."""
        self.others: list[tuple[Session, tuple[str, ...]]] = []
        """Who must be looked at one by one."""
        self.receivers: tuple[str, ...] = ()
        self.settled_after = 0
        """The turn before whose end not all who may get it have been told that they have subscribed."""
        self.audience: Audience | None = None
        """Where there are content filters, if all who get it whatever these say can have it as it is."""


class Audience:
    """Who may get publications that meet the same content filters, of publishers of one version."""

    __slots__ = (
        "clients",
        "entries",
        "everyone",
        "links",
        "names",
        "nodes",
        "numbers",
        "places",
        "singly",
        "topical",
        "v5",
    )

    def __init__(
        self, nodes: tuple[Node[Subscription, tuple[str, str]], ...], everyone: tuple[Client, ...], v5: bool
    ) -> None:
        self.nodes = nodes
        """Where the filters are."""
        self.everyone = everyone
        """Who gets all of it, whatever the filters say."""
        self.v5 = v5
        self.topical = any(node.topical for node in nodes)
        """Whether some filters ask for the topic itself."""
        self.entries: dict[Entry[Subscription, tuple[str, str]], tuple[Client, ...] | None] = {}
        """By subscription with a content filter: who gets what matches; None if they are looked at singly."""
        self.singly = False
        """Whether some of those found were of that kind, so that nothing is dealt out."""
        self.clients: list[Client] = []
        self.places: dict[Client, int] = {}
        """Who may be dealt something, and where they are in this list; who gets everything comes first."""
        self.names: list[str] = []
        """The same by their client ids."""
        self.numbers: list[int] = []
        """And by their connections."""
        self.links: list[Links] = []
        """For each place with content filters, once something is dealt out: whom these stand for."""

    def takers(
        self, entry: Entry[Subscription, tuple[str, str]], sessions: Mapping[str, Session]
    ) -> tuple[Client, ...] | None:
        """Who gets what one content filter matches, if that can be handed on as it is."""
        found: list[Client] = []
        for session_id, name in entry.targets:
            session = sessions[session_id]
            asked = session.subscriptions[name]
            client = session.client
            if not simple(session, [asked]) or client is None or client.v5 is not self.v5 or asked.identifier:
                self.entries[entry] = None
                return None
            found.append(client)
        self.entries[entry] = tuple(found)
        return self.entries[entry]

    def prepare(self) -> None:
        """Make ready for dealing out, if it is not."""
        if not self.links:
            self.links = [Links() for _ in self.nodes]
            self.number(self.everyone)

    def number(self, takers: Sequence[Client]) -> None:
        """Give a place to those who have none."""
        for taker in takers:
            if taker not in self.places:
                self.places[taker] = len(self.clients)
                self.clients.append(taker)
                self.names.append(taker.id)
                self.numbers.append(taker.number)


def simple(session: Session, asked: Sequence[Asked]) -> bool:
    """Whether what is published can be handed to a client as it is."""
    client = session.client
    return (
        client is not None
        and not client.congested
        and not session.queue
        and not session.unsynced
        and not client.aliases_out_max
        and not client.packet_bytes_max
        and not any(it.no_local or it.view for it in asked)
    )


@lru_cache(maxsize=4096)
def identifier_bytes(identifiers: tuple[int, ...]) -> bytes:
    """Subscription identifiers as properties."""
    return b"".join(b"\x0b" + variable(identifier) for identifier in identifiers)
