"""What two brokers say to make and to end a connection.

Greetings and refusals keep their form in all versions, so that brokers of two releases can tell each other
why they do not link.
"""

from __future__ import annotations

from tidings.overlay.frames import Message

PROTOCOL_VERSION = 5
"""The protocol that this release speaks, and no other. Every change of what brokers say to each other raises
it.

Since version 4 a seat says under which incarnation it numbers the entries that its deputy copies. Since
version 5 there are no advertisements."""


class Greet(Message, frozen=True, tag=1):
    """The first word of both sides."""

    versions: tuple[int, int]
    """Oldest and newest protocol version spoken; both the same since version 4."""

    broker: str
    network: str

    boot: int
    """Counts the starts of this broker; larger is later."""

    features: tuple[str, ...]
    """Settings that must be the same on both sides, such as "trees=2"."""

    nonce: bytes
    """Fresh and random: a proof of the cluster token is for this greeting only."""

    session: tuple[int, ...]
    """The link session that this side still holds; empty for none."""

    received: int
    """The last message of that session that it has received."""

    proposal: int
    """Its part of the name of a new session, should there be one."""

    life: int = 0
    """Drawn at random at each start: two brokers with one id differ in it."""


class Welcome(Message, frozen=True, tag=2):
    """The second word: the greeting is accepted."""

    version: int
    """The protocol version that is spoken."""

    proof: bytes
    """That this side knows the cluster token, see `proofs`; empty where there is none."""


class Refuse(Message, frozen=True, tag=3):
    """The greeting is not accepted; the connection is closed behind it."""

    reason: str


class Bye(Message, frozen=True, tag=4):
    """This side stops on purpose: nothing will be resumed."""

    for_good: bool
    """Whether it will never come back, so that nothing need be held for it."""
