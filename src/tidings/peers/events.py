"""What a driver tells a peer, and what a peer wants done."""

from __future__ import annotations

import msgspec

from tidings.peers.messages import AnyMessage
from tidings.peers.outlooks import Outlook, Violation
from tidings.space.expressions import Set


class Happened(msgspec.Struct, frozen=True, gc=False):
    """The base of what a driver tells."""


class Subscribed(Happened, frozen=True):
    """The user wants this, or wants it now instead: all links are made anew."""

    dz: Set
    """The user-level subscription as expressions; empty for none."""

    bound: float
    """How late events may be: hops, or milliseconds."""

    allowed: float = 0.0
    """Events beyond the subscription that are accepted for a better place, as a share of all of the topic.
    Nothing is asked for that is estimated to bring more. What comes is an excess when it is more by a tenth
    (`slack`) and by more than chance."""

    bandwidth: float | None = None
    """Events a second that go through the peer's access link, received and sent, with as many children as it
    may have; none for no limit."""


class Advertised(Happened, frozen=True):
    """The user will publish in this part of the space; empty for nowhere."""

    dz: Set


class Joined(Happened, frozen=True):
    """Go to work; at least one of these peers is in the overlay. They are asked in this order."""

    contacts: tuple[str, ...]


class Received(Happened, frozen=True):
    sender: str
    """As the connection proves it."""

    message: AnyMessage


class TimerFired(Happened, frozen=True):
    """The time of `next_deadline` has come. Telling it early is harmless."""


class Published(Happened, frozen=True):
    """The user has published something. Its number is larger than all before it, also over restarts."""

    number: int
    point: str
    payload: bytes = b""


class PeerLost(Happened, frozen=True):
    """The driver knows that a peer is gone. Nobody has to tell this; silence says it too, later."""

    peer: str


class Left(Happened, frozen=True):
    """Take leave of all others. What comes after is ignored."""


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a message to a peer."""

    to: str
    message: AnyMessage


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Give the user an event that lies in the subscription. Each comes once."""

    publisher: str
    number: int
    point: str
    delay: float

    late: bool
    """Whether that is beyond the bound."""

    payload: bytes = b""


class Admit(msgspec.Struct, frozen=True, gc=False):
    """Tell the user what a contact foresees: whether the bound can be met now and at what waste."""

    outlook: Outlook


class Report(msgspec.Struct, frozen=True, gc=False):
    """Tell the user that something asked for is not kept, and why; none when it is kept again."""

    violation: Violation | None


AnyHappened = Subscribed | Advertised | Joined | Received | TimerFired | Published | PeerLost | Left
Effect = Send | Deliver | Admit | Report
