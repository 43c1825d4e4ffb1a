"""What a driver tells the front about clients, and what the front wants done for them.

They come beside those of `overlay.events`: a front stands before a broker and takes the events of both. As
there, things that happened are past participles, things to be done imperatives, and a driver carries effects
out in their order. Numbers of connections are the driver's, and never used twice in one boot; brokers and
clients have them from one counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tidings.language.subscriptions import EVERYTHING
from tidings.overlay.events import Happened, Wanted


class ClientConnected(Happened, frozen=True):
    """A client has opened a connection; it has not said anything yet."""

    connection: int

    peer: str
    """Its address, for logs."""

    certified: str | None = None
    """The name in its certificate, where it has shown one that is trusted; it is then that user."""

    listener: str = ""
    """The kind of listener: "tcp", "tls", "ws" or "wss"."""


class BytesReceived(Happened, frozen=True):
    connection: int
    data: bytes

    closed: bool = False
    """Whether the connection is gone by now, and `ClientLost` is to come: nobody waits for answers."""


class ClientLost(Happened, frozen=True):
    """The connection is gone; not told for one that the front has shut."""

    connection: int
    reason: str


class ClientCongested(Happened, frozen=True):
    """More has been sent than the client takes: send only what must be until it is told otherwise."""

    connection: int
    congested: bool


class ClientVerified(Happened, frozen=True):
    """The answer to `CheckPassword`."""

    connection: int

    user: str | None
    """Who it is, "" for one without a name; None if name and password do not fit."""

    busy: bool = False
    """Whether it could not be found out, for too many others are waiting."""


class ClientExpelled(Happened, frozen=True):
    """An operator wants this client gone (reason code 0x98)."""

    client: str


class SessionRemoved(Happened, frozen=True):
    """An operator wants this client's session to end, whether or not the client is there."""

    client: str


class AccessChanged(Happened, frozen=True):
    """Other users or rules hold from now on."""

    access: Access

    outdated: frozenset[str] = frozenset()
    """Users whose password holds no more: they were removed, or were given another one."""


Chunk: TypeAlias = bytes | memoryview
"""What is sent. A view may keep more than itself: whoever has it waiting for long makes bytes of it."""


class Transmit(Wanted, frozen=True):
    """Send bytes to a client. At most one for each connection in the effects of one turn."""

    connection: int
    chunks: Sequence[Chunk]
    """In order; to be joined or written as they are."""


class CloseClient(Wanted, frozen=True):
    """Send what is left, then close a client's connection; no `ClientLost` need follow."""

    connection: int
    reason: str


class CheckPassword(Wanted, frozen=True):
    """Find out whether name and password fit, which takes time; then tell `ClientVerified`.

    Nothing need be read from the connection until then.
    """

    connection: int
    username: str
    password: bytes


class PauseReading(Wanted, frozen=True):
    """Read nothing from a client until `ResumeReading`: enough of what it sent cannot be acted on yet."""

    connection: int


class ResumeReading(Wanted, frozen=True):
    connection: int


class Rule(msgspec.Struct, frozen=True):
    """One line of an access list."""

    allow: bool

    action: str
    """"publish", "subscribe", "declare" or "any"."""

    topic_filter: str
    """Topics that it is about; `%u` stands for the user's name, `%c` for the client id, as whole levels.

    Empty for all topics, those that begin with `$` too."""

    user: str | None = None
    """Whom it is about; None for everyone, "" for those without a name (anonymous)."""


class Access(msgspec.Struct, frozen=True):
    """Who may do what. The last rule that fits decides; without one, nothing is allowed."""

    rules: tuple[Rule, ...] = ()

    anonymous: bool = False
    """Whether a client without a user name may connect."""

    verify: bool = False
    """Whether there are users, so that name and password must fit; else they are not looked at."""

    version: int = 0


ALL_ALLOWED = Access((Rule(True, "any", EVERYTHING),), anonymous=True)
"""Anyone may do anything: for tests, simulations and networks on loopback."""

ClientEvent = (
    ClientConnected
    | BytesReceived
    | ClientLost
    | ClientCongested
    | ClientVerified
    | ClientExpelled
    | SessionRemoved
    | AccessChanged
)
ClientEffect = Transmit | CloseClient | CheckPassword | PauseReading | ResumeReading
