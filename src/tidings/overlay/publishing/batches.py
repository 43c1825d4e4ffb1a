"""Publications as link messages have them, and sets of members as bits.

A link message has publications of one stream side by side: one list of numbers, one of destinations, one
bytes object with all payloads. A set of members is a whole number with a bit for each member; on the wire it
is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from tidings.errors import PeerError
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.messages import Head, Places, Publish
from tidings.overlay.trees.messages import Epoch

PLACE_MAX = 1 << 16
"""Greater than the place of any member."""


def packed(bits: int) -> Places:
    """A set of members, as short as it can be.

    >>> packed(1 << 20 | 1), packed(0b0110_0001)
    ((0, 20), b'a')
    """
    count = bits.bit_count()
    size = (bits.bit_length() + 7) // 8
    if count > size:
        return bits.to_bytes(size, "little")
    places = []
    while bits:
        low = bits & -bits
        places.append(low.bit_length() - 1)
        bits ^= low
    return tuple(places)


def unpacked(places: Places) -> int:
    """The bits of a set of members."""
    if isinstance(places, bytes):
        return int.from_bytes(places[: PLACE_MAX // 8], "little")
    bits = 0
    for place in places:
        if 0 <= place < PLACE_MAX:
            bits |= 1 << place
    return bits


def head_of(publication: Publication) -> Head:
    """What a publication may have in common with others."""
    return Head(
        publication.topic,
        publication.qos,
        publication.publisher,
        publication.content_type,
        publication.properties,
        publication.retain,
        publication.payload_format,
        publication.expiry_s,
        publication.response_topic,
        publication.correlation,
    )


def message_of(
    root: str,
    epoch: Epoch,
    slot: int,
    hops: int,
    publications: Sequence[Publication],
    previous: Sequence[int],
    to: Sequence[int],
    must: Sequence[int],
) -> Publish:
    """Publications of one stream for one link; `to` and `must` are who is behind it."""
    first = publications[0]
    heads: dict[Head, int] = {}
    which = [heads.setdefault(head_of(one), len(heads)) for one in publications]
    ends: list[int] = []
    end = 0
    for one in publications:
        end += len(one.payload)
        ends.append(end)
    return Publish(
        root,
        epoch,
        first.origin,
        first.incarnation,
        first.stream,
        slot,
        hops,
        tuple([one.number for one in publications]),
        tuple(previous),
        tuple(map(packed, to)),
        () if to == must else tuple(map(packed, must)),
        tuple(heads),
        tuple(which) if len(heads) > 1 else (),
        tuple([one.at_us for one in publications]),
        tuple(ends),
        first.payload if len(publications) == 1 else b"".join([one.payload for one in publications]),
        () if first.told is None else tuple([one.told for one in publications if one.told is not None]),
    )


def publications_of(message: Publish) -> list[Publication]:
    """The publications in a message; raises PeerError if it is at odds with itself."""
    count = len(message.numbers)
    lists = (message.previous, message.to, message.at_us, message.ends)
    optional = (message.must, message.which, message.told)
    if (
        not count
        or not message.heads
        or any(len(one) != count for one in lists)
        or any(one and len(one) != count for one in optional)
        or any(not 0 <= at < len(message.heads) for at in message.which)
        or list(message.ends) != sorted(message.ends)
        or message.ends[0] < 0
        or message.ends[-1] != len(message.payloads)
    ):
        raise PeerError(f"publications whose lists do not fit together, from {message.origin!r:.80}")
    found: list[Publication] = []
    start = 0
    told = message.told or repeat(None, count)
    which = message.which or repeat(0, count)
    for number, at, at_us, end, one in zip(
        message.numbers, which, message.at_us, message.ends, told, strict=False
    ):
        head = message.heads[at]
        payload = message.payloads if count == 1 else message.payloads[start:end]
        start = end
        found.append(
            Publication(
                message.origin,
                message.incarnation,
                message.stream,
                number,
                head.topic,
                payload,
                head.qos,
                at_us,
                head.publisher,
                head.content_type,
                head.properties,
                head.retain,
                head.payload_format,
                head.expiry_s,
                head.response_topic,
                head.correlation,
                one,
            )
        )
    return found
