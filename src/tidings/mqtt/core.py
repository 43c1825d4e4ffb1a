"""What all parts of one front share: its settings, what time it is, what it wants done."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings.mqtt.events import ClientEffect
from tidings.mqtt.settings import Settings
from tidings.overlay.events import Effect, Erase, Log, Write

if TYPE_CHECKING:
    from tidings.mqtt.clients import Client
    from tidings.mqtt.sessions import Session

NAME_CHARACTERS_SHOWN = 256
"""Of a client id or user name in a line of the log. One that is refused may be of any length."""

REFUSALS_KEPT = 20
"""Of the latest things that were refused, for clients that hide why."""


@dataclass(slots=True)
class Counters:
    """What has happened since the start."""

    packets_in: int = 0
    bytes_in: int = 0
    packets_out: int = 0
    bytes_out: int = 0
    published: int = 0
    """Publications of clients here."""

    published_bytes: int = 0
    delivered: int = 0
    """Publications sent to clients."""

    delivered_bytes: int = 0
    connected: int = 0
    """Clients that were accepted."""

    refused: dict[str, int] = field(default_factory=dict)
    """By reason: what clients asked for and did not get."""

    dropped: dict[str, int] = field(default_factory=dict)
    """By reason: publications that a client should have had, and has not."""

    expired: int = 0
    """Publications whose time was over before they were sent."""

    retain_ignored: int = 0
    """Reports that asked to be retained."""

    taken_over: int = 0
    expelled: int = 0
    """Connections that were closed because the client was at fault."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that a client asked for and did not get."""

    at: float
    client: str
    what: str
    reason: str


class Core:
    """One per front; `now` and `out` belong to the events that are being handled."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now = 0.0
        self.steps = 0
        """Steps that expensive packets have cost in this turn; see `costs`."""
        self.looked = 0
        """Retained messages that were looked at in this turn."""
        self.out: list[Effect | ClientEffect] = []
        self.counters = Counters()
        self.refusals: deque[Refusal] = deque(maxlen=REFUSALS_KEPT)
        self.sessions: dict[str, Session] = {}
        """All of the front, by client id."""
        self.dirty: dict[Client, None] = {}
        """Clients for whom there is something to send."""
        self.touched: dict[Session, None] = {}
        """Sessions with publications that are written, and not yet known to be on disk."""
        self.hungry: dict[Session, None] = {}
        """Sessions that take more retained messages, in the order of their turns."""
        self.generations = 0
        """Connections that sessions have had."""
        self.queues_bytes = 0
        """Of publications that wait for all sessions."""
        self.behind: dict[Client, float] = {}
        """Clients that are not slow and have much queued for them, and since when."""
        self.read_on: list[Client] = []
        """Clients that were not read, or whose publications were deferred, for a reason that may be gone."""
        self.slow: dict[Client, None] = {}
        """Clients that must go, for they do not keep up."""
        self.deferred_bytes = 0
        """Of packets that wait until publications are taken again."""
        self.released = 0
        """Packets among them that were acted on in this turn."""

    def write(self, key: str, value: bytes) -> None:
        self.out.append(Write(key, value))

    def erase(self, key: str) -> None:
        self.out.append(Erase(key))

    def log(self, level: str, text: str, **about: object) -> None:
        self.out.append(Log(level, text, tuple((key, str(value)) for key, value in about.items())))

    def refuse(self, client: str, what: str, reason: str) -> None:
        """Count and remember what the client of a session did not get, and log it."""
        session = self.sessions.get(client)
        there = session.client if session is not None else None
        user, address = session.user if session is not None else "", there.peer if there is not None else ""
        self._refuse(client, what, reason, who(client, user, address))

    def refuse_connection(self, client: Client, reason: str) -> None:
        """The same for a client that has no session. Its client id may be that of somebody else's."""
        self._refuse(client.id or client.peer, "connect", reason, client.who)

    def _refuse(self, client: str, what: str, reason: str, about: Mapping[str, str]) -> None:
        refused = self.counters.refused
        kind = what.partition(" ")[0]
        refused[kind] = refused.get(kind, 0) + 1
        self.refusals.append(Refusal(self.now, client, what, reason))
        self.log("info", "refused", **about, what=what, reason=reason)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count publications that a client should have had."""
        dropped = self.counters.dropped
        dropped[reason] = dropped.get(reason, 0) + count


def who(client: str, user: str, address: str) -> dict[str, str]:
    """What lines of the log say of a client, as they name it; an address only where it has one.

    >>> who("meter-7", "ann", "192.0.2.1:40000")
    {'client': 'meter-7', 'user': 'ann', 'address': '192.0.2.1:40000'}
    """
    named = {"client": client[:NAME_CHARACTERS_SHOWN], "user": user[:NAME_CHARACTERS_SHOWN]}
    return named | {"address": address} if address else named
