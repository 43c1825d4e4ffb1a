"""Holders: under whose name entries of a log are numbered.

A holder is one life of a broker: its id, and its incarnation, which is the clock in milliseconds at its first
start with this disk. A broker that comes back without its disk numbers from 0 again, and must not be taken
for what it was: it is another holder, and the one before has no more to say.

As text, in files, requests, offsets and rows, it is the id, a dot and the incarnation. All of the id but
ASCII letters, digits, `-` and `_` is percent-encoded, so that the last dot is ours, and commas, colons and
slashes are free for those who list holders.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import msgspec

from tidings.errors import InputError

INCARNATION_MAX = 2**63 - 1

_TEXT = re.compile(r"(?P<id>(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+)\.(?P<incarnation>0|[1-9][0-9]{0,18})")


class Holder(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """One life of a broker.

    >>> str(Holder("Athens/1", 1763445274123))
    'Athens%2F1.1763445274123'
    """

    broker: str
    incarnation: int

    def __str__(self) -> str:
        encoded = quote(self.broker, safe="").replace(".", "%2E").replace("~", "%7E")
        return f"{encoded}.{self.incarnation}"


def parse_holder(text: str) -> Holder:
    """The holder that a text names; InputError if it names none. Each has one text.

    >>> parse_holder("b3.1763445274123")
    Holder(broker='b3', incarnation=1763445274123)
    """
    found = _TEXT.fullmatch(text)
    if found is not None and int(found["incarnation"]) <= INCARNATION_MAX:
        try:
            holder = Holder(unquote(found["id"], errors="strict"), int(found["incarnation"]))
        except UnicodeDecodeError:
            pass
        else:
            if str(holder) == text:
                return holder
    raise InputError(
        f"{text[:200]!r} names no holder: that is a broker's id and its incarnation, such as "
        "b3.1763445274123; GET /log lists those of a topic"
    )


class Held(msgspec.Struct, frozen=True):
    """What there is of a topic under a holder's name, as GET /log says it."""

    holder: str
    """As text."""

    first: int
    """The oldest entry that is still kept."""

    next: int
    """The number that the next entry will get."""

    copied: bool = False
    """Whether the broker is away and a deputy speaks for it, which may have less than the broker itself."""

    gone: bool = False
    """Whether the broker came back without its disk: there is what copies have, and nothing is added."""

    @property
    def broker(self) -> str:
        """Whose life it is."""
        return parse_holder(self.holder).broker
