"""Frames: what is sent at once on a link, and what the messages in it have in common.

A frame carries many messages; every message of a link session has a number, and they count up from the
frame's `first`. Greetings and farewells have none (`first` is 0). Each part of a broker declares its own
messages beside it; how frames become bytes is the business of `wire`, which knows all of them.
"""

from __future__ import annotations

import msgspec

from tidings.overlay.publication import OVERHEAD_BYTES


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """The base of all messages."""

    @property
    def weight(self) -> int:
        """What it counts for in a frame: the things that it tells of."""
        return 1


class Data(Message, frozen=True):
    """The base of messages with content: they wait for room, control messages do not."""

    @property
    def size(self) -> int:
        """What it counts for against windows and queues, in bytes."""
        return OVERHEAD_BYTES


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is sent at once."""

    first: int
    """Number of the first message, 0 for messages that have none."""

    ack: int
    """Number of the last message received from the other side."""

    messages: tuple[Message, ...] = ()
    """Without any it is a heartbeat."""
