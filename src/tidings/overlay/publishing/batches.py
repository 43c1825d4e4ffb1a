"""Publications as link messages have them, and sets of members as bits.

A link message has publications of one stream side by side: one list of numbers, one of destinations, one
bytes object with all payloads. A set of members is a whole number with a bit for each member; on the wire it
is shorter. What is to be sent on a link gathers in an `Outgoing` until the link sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import le, lt

import msgspec

from tidings.errors import PeerError
from tidings.overlay.publication import Batch, Head, Told
from tidings.overlay.publishing.messages import Places, Publish
from tidings.overlay.trees.messages import Epoch

PLACE_MAX = 1 << 16
"""Greater than the place of any member."""

NUMBER_MAX = 1 << 63
"""Above all numbers of publications."""

TIME_MAX = 1 << 62
"""The greatest time, in microseconds: records hold both in 64 bits."""

OUTGOING_MAX = 1024
"""Publications in one link message, …"""

OUTGOING_BYTES = 256 * 1024
"""… and bytes in one to which others are added."""


class Packed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch as it is written: lists have one item for each publication."""

    origin: str
    incarnation: int
    stream: str
    numbers: tuple[int, ...]
    heads: tuple[Head, ...]

    which: tuple[int, ...]
    """The place of each one's head. Without any item: the first."""

    at_us: tuple[int, ...]
    """When they entered; one item if it is the same for all."""

    ends: tuple[int, ...]
    """Where their payloads end in `payloads`."""

    payloads: bytes
    told: tuple[Told, ...] = ()


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=4096)
def unpacked(places: Places) -> int:
    """The bits of a set of members."""
    if isinstance(places, bytes):
        return int.from_bytes(places[: PLACE_MAX // 8], "little")
    bits = 0
    for place in places:
        if 0 <= place < PLACE_MAX:
            bits |= 1 << place
    return bits


class Outgoing:
    """Publications that are to be sent on a link, with others of their stream if there are any."""

    __slots__ = ("_batches", "_must", "_previous", "_to", "count", "epoch", "hops", "root", "size", "slot")

    def __init__(self, root: str, epoch: Epoch, hops: int, slot: int) -> None:
        self.root = root
        self.epoch = epoch
        self.hops = hops
        self.slot = slot
        self.count = 0
        self.size = 0
        self._batches: list[Batch] = []
        self._previous: list[int] = []
        self._to: list[tuple[int, int]] = []
        self._must: list[tuple[int, int]] = []

    def fits(self, root: str, epoch: Epoch, hops: int, slot: int, batch: Batch, most: int) -> bool:
        """Whether a batch can go with those that are here, if they have no more than `most` bytes."""
        first = self._batches[0]
        return (
            slot == self.slot + self.count
            and self.count + len(batch) <= OUTGOING_MAX
            and self.size <= most
            and (root, epoch, hops) == (self.root, self.epoch, self.hops)
            and batch.stream == first.stream
            and batch.origin == first.origin
            and batch.incarnation == first.incarnation
            and bool(batch.told) == bool(first.told)
        )

    def add(self, batch: Batch, previous: int, to: int, must: int, size: int) -> None:
        """Some that go to the same members, behind `previous`."""
        count = len(batch)
        # It may wait for long: not with all that it came with.
        self._batches.append(batch.apart())
        self._previous.append(previous)
        self._previous += batch.numbers[:-1]
        self._to.append((to, count))
        self._must.append((must, count))
        self.count += count
        self.size += size

    def message(self) -> Publish:
        """The message with all of them."""
        batches = self._batches
        first = batches[0]
        to = _places(self._to)
        must = _places(self._must)
        heads: tuple[Head, ...]
        if len(batches) == 1:
            heads, which = _heads_of(first)
            numbers, at_us = tuple(first.numbers), tuple(first.at_us)
            payloads, lengths, told = first.payloads, first.lengths, tuple(first.told)
        else:
            places: dict[Head, int] = {}
            found: list[int] = []
            for batch in batches:
                own = [places.setdefault(head, len(places)) for head in batch.heads]
                found += [own[at] for at in batch.which] if batch.which else own[:1] * len(batch)
            heads, which = tuple(places), tuple(found) if len(places) > 1 else ()
            numbers = tuple([number for batch in batches for number in batch.numbers])
            at_us = tuple([at for batch in batches for at in _each(batch)])
            payloads = b"".join([batch.payloads for batch in batches])
            lengths = [length for batch in batches for length in batch.lengths]
            told = tuple([one for batch in batches for one in batch.told])
        return Publish(
            self.root,
            self.epoch,
            first.origin,
            first.incarnation,
            first.stream,
            self.slot,
            self.hops,
            numbers,
            tuple(self._previous),
            to,
            () if to == must else must,
            heads,
            which,
            at_us if len(at_us) == self.count else at_us * self.count,
            tuple(accumulate(lengths)),
            payloads,
            told,
        )


def _places(runs: Sequence[tuple[int, int]]) -> tuple[Places, ...]:
    if len(runs) == 1:
        bits, count = runs[0]
        return (packed(bits),) * count
    found: list[Places] = []
    for bits, count in runs:
        found += (packed(bits),) * count
    return tuple(found)


def _heads_of(batch: Batch) -> tuple[tuple[Head, ...], tuple[int, ...]]:
    """The heads that occur in a batch, and which each has."""
    if not batch.which:
        return batch.heads[:1], ()
    places = {head: at for at, head in enumerate(dict.fromkeys(batch.which))}
    heads = tuple([batch.heads[head] for head in places])
    return heads, tuple([places[head] for head in batch.which]) if len(heads) > 1 else ()


def _each(batch: Batch) -> Sequence[int]:
    return batch.at_us if len(batch.at_us) > 1 else (batch.at_us[0],) * len(batch)


def message_of(
    root: str, epoch: Epoch, slot: int, hops: int, batch: Batch, previous: int, to: int, must: int
) -> Publish:
    """Publications that go to the same members behind one link, behind `previous`."""
    outgoing = Outgoing(root, epoch, hops, slot)
    outgoing.add(batch, previous, to, must, 0)
    return outgoing.message()


def batch_of(message: Publish) -> Batch:
    """The publications in a message; raises PeerError if it is at odds with itself."""
    count = len(message.numbers)
    if any(len(one) != count for one in (message.previous, message.to, message.at_us)) or (
        message.must and len(message.must) != count
    ):
        raise _misfit(message)
    return _batch(message)


def written(batch: Batch) -> Packed:
    """A batch as it is written."""
    heads, which = _heads_of(batch)
    return Packed(
        batch.origin,
        batch.incarnation,
        batch.stream,
        tuple(batch.numbers),
        heads,
        which,
        tuple(batch.at_us),
        tuple(accumulate(batch.lengths)),
        batch.payloads,
        tuple(batch.told),
    )


def read(packed: Packed) -> Batch:
    """The batch; raises PeerError if it is at odds with itself."""
    if len(packed.at_us) not in (1, len(packed.numbers)):
        raise _misfit(packed)
    return _batch(packed)


def _batch(it: Publish | Packed) -> Batch:
    numbers, ends, which = it.numbers, it.ends, it.which
    count = len(numbers)
    if (
        not count
        or not it.heads
        or len(ends) != count
        or any(one and len(one) != count for one in (which, it.told))
        or (which and not (min(which) >= 0 and max(which) < len(it.heads)))
        or ends[0] < 0
        or ends[-1] != len(it.payloads)
        or any(map(lt, ends[1:], ends))
        or any(map(le, numbers[1:], numbers))
        or not 0 <= numbers[0] <= numbers[-1] < NUMBER_MAX
        or not -TIME_MAX <= min(it.at_us) <= max(it.at_us) <= TIME_MAX
        or any(not 0 <= head.qos <= 2 for head in it.heads)
    ):
        raise _misfit(it)
    return Batch(
        it.origin,
        it.incarnation,
        it.stream,
        numbers,
        it.heads,
        which,
        it.at_us,
        it.payloads,
        (0, *ends[:-1]),
        ends,
        it.told,
    )


def _misfit(it: Publish | Packed) -> PeerError:
    return PeerError(f"publications whose lists do not fit together, from {it.origin!r:.80}")
