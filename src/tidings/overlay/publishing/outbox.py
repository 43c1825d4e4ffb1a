"""Outbox: what an origin keeps until everyone has it, and copies that it keeps for neighbours.

A publication of QoS 1 or 2 is held from when it enters until all members of its tree have it, its client
knows that it is safe, and no absent broker may want it. It is on disk all that time. Those that enter
together and go to the same brokers are held together, as one row, until all of them have had their way.
With `acks = "neighbour"` a neighbour keeps a copy of each and stands in for an origin that is gone: it has
the whole of its stream, so it can send it in order.

What is held keeps the names of those that must have it and do not: members are numbered anew in each epoch.
What is held for absent brokers is bounded. How publications travel is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

import msgspec

from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Accept, Erase, Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Batch, Told
from tidings.overlay.publishing.batches import Packed, read, written
from tidings.overlay.publishing.messages import Forget, Keep, Kept
from tidings.overlay.routing.absence import Absences, is_unreached
from tidings.overlay.routing.topics import Contents, Topics
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import TreeEpoch, Trees
from tidings.records.record import Kind

Stream = tuple[str, int, str]
"""(origin, incarnation, group of topics) within which numbers count up."""

Numbered = tuple[str, int]
"""Stream of this broker and number: of the first of some that are held together."""

QOS_ONCE = 2
"""No other broker hears of these before they are on disk here: their client says again what a crash has
undone, and it must not be somewhere already under another number."""

ALL_STREAMS = ""
"""In `Forget`: whatever the sender ever asked to be kept."""

KEPT_PART = 1_000
"""Numbers in one `Kept`."""


class Held:
    """Publications of one stream that their origin keeps until everyone has them."""

    __slots__ = (
        "absent",
        "accepted",
        "answered",
        "at",
        "batch",
        "contents",
        "done",
        "grown",
        "kept_by",
        "lost",
        "missing",
        "must",
        "names",
        "order",
        "passed",
        "qos",
        "sending",
        "sent",
        "session",
        "size",
        "synced",
        "to",
        "tokens",
    )

    def __init__(self, batch: Batch, qos: int, order: int, names: tuple[str, ...] = ()) -> None:
        self.batch = batch
        self.qos = qos
        self.names = names
        """Brokers that must have them whatever they match, since they have had an earlier version."""
        self.size = sum(batch.sizes)
        self.order = order
        self.session = ""
        self.tokens: Sequence[int] = ()
        self.synced = True
        """Whether they are on disk."""
        self.kept_by: str | None = None
        """The neighbour that has a copy, where that is asked for."""
        self.accepted = True
        self.grown: TreeEpoch | None = None
        """The epoch in which they are sent, while not all have them; None before their destinations are
        known."""
        self.to = 0
        """Members of that epoch that get them, …"""
        self.must = 0
        """… and of these the ones that must have them."""
        self.missing: tuple[str, ...] = ()
        """Brokers that are known to miss them since they were sent in an earlier epoch."""
        self.done: tuple[str, ...] = ()
        """Brokers that have them, or that were members when all had them that must, and need not."""
        self.passed = False
        """Whether all members that must have them do."""
        self.absent: dict[str, None] = {}
        """Brokers out of reach for which they are kept."""
        self.sent: dict[str, Epoch] = {}
        """By root: the last epoch in which all were sent."""
        self.at = 0
        """How many were sent in the epoch in which they are being sent."""
        self.sending = 0
        """How often their destinations were found: answers to what was sent before count no more."""
        self.answered = 0
        """For how many of these there is an answer, …"""
        self.lost = 0
        """… and who misses some of them by that."""
        self.contents: Contents | None = None
        """Their fields, until they have been sent for the first time: they are read once."""

    @property
    def key(self) -> Numbered:
        return self.batch.stream, self.batch.numbers[0]

    def wait(self) -> None:
        """They could not be sent at once: what else came with them need not wait, too."""
        if self.contents is not None:
            self.batch, self.contents = self.batch.apart(), None

    def leave(self, count: int) -> int:
        """The first ones are done with; what they counted for."""
        before, self.batch = self.size, self.batch.part(count, len(self.batch))
        self.size, self.at = sum(self.batch.sizes), 0
        if self.contents is not None:
            self.contents = self.contents.some(range(count, count + len(self.batch)))
        return before - self.size

    def reaches(self, name: str) -> bool:
        """True if the broker has them, does not need them, or is addressed in the current epoch."""
        return name in self.done or (self.grown is not None and name in self.grown.bits)

    def settle(self) -> None:
        """All members that must have them do. To be kept for others they need their names, but not the
        epoch.
        """
        grown = self.grown
        if grown is not None:
            before = tuple(name for name in self.done if name not in grown.bits)
            self.done = before + grown.names_of(grown.mask_of(grown.bits))
            self.grown, self.to, self.must = None, 0, 0


class Row(msgspec.Struct, frozen=True, array_like=True):
    """Held publications on disk."""

    batch: Packed

    names: tuple[str, ...] = ()
    """Of `Held`. The other destinations are found anew after a restart."""


class VersionsReleased(Notice, frozen=True):
    """Versions of events that were told here need not be kept any longer."""

    told: Sequence[Told]


class Outbox:
    """All that is kept at this broker."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        absences: Absences,
        wanted_by_absent: Callable[[Held], bool],
    ) -> None:
        """`wanted_by_absent`: whether a publication would have to be kept for a broker out of reach."""
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._absences = absences
        self._wanted_by_absent = wanted_by_absent
        self._orders = 0
        self._once = 0
        """How many of QoS 2 are not on disk yet."""
        self.held: dict[Numbered, Held] = {}
        """QoS 1 and 2 of this origin, in order."""
        self.kept: dict[Stream, dict[int, Held]] = {}
        """Copies kept for neighbours, each by itself."""
        self._chosen: str | None = None
        """The neighbour that keeps copies now."""
        self._keepers: dict[str, None] = {}
        """Neighbours that have copies of what is held here, or may have them."""
        self._unmoved: dict[Numbered, None] = {}
        """What is held here that the neighbour which is to keep copies now has not confirmed, while others
        have copies too."""
        self.unaccepted_bytes = 0
        """Of publications whose clients do not know yet that they are safe."""
        self.absent_bytes = 0
        self.dropped = 0
        """Publications that were given up because too much was held."""
        self._for_absent: dict[Held, None] = {}
        """What is kept for absent brokers alone, the longest kept first."""
        self._withheld: dict[int, Held] = {}

    def recover(self, saved: Mapping[str, bytes]) -> list[Held]:
        """What was acknowledged and not yet passed on before a restart, in order."""
        decode = msgspec.msgpack.Decoder(Row).decode
        found: list[tuple[Batch, tuple[str, ...]]] = []
        for key in saved:
            if key.startswith("held/"):
                row = decode(saved[key])
                found.append((read(row.batch), row.names))
            elif key.startswith("kept/"):
                row = decode(saved[key])
                self._keep_copy(read(row.batch), row.names)
        found.sort(key=lambda it: (it[0].stream, it[0].numbers[0]))
        alone = self._core.settings.acks == "neighbour"
        for batch, names in found:
            parts = [batch.part(at, at + 1) for at in range(len(batch))] if alone else [batch]
            for part in parts:
                held = self.wrap(part, max(head.qos for head in batch.heads), names)
                self.held[held.key] = held
                if len(parts) > 1:
                    self._write(held)
        return list(self.held.values())

    def wrap(self, batch: Batch, qos: int, names: tuple[str, ...] = ()) -> Held:
        """Publications with their place in the order of all that entered here."""
        self._orders += 1
        return Held(batch, qos, self._orders, names)

    def hold(self, held: Held, session: str = "", tokens: Sequence[int] = ()) -> None:
        """Keep publications; the client that they are from is told when they are safe."""
        held.batch = held.batch.apart()
        self.held[held.key] = held
        self._write(held)
        held.session, held.tokens, held.accepted, held.synced = session, tokens, False, False
        self.unaccepted_bytes += held.size
        self._once += held.qos == QOS_ONCE
        late = self._once > 0
        self._core.after_sync(lambda: self._synced(held, late))
        if not late:
            self._ask_to_keep(held)

    def _write(self, held: Held) -> None:
        self._core.out.append(Write(_held_key(held.batch), encode(Row(written(held.batch), held.names))))

    def _synced(self, held: Held, late: bool) -> None:
        held.synced = True
        self._once -= held.qos == QOS_ONCE
        if late:
            # In order: with only the later ones a keeper could not stand in.
            self._ask_to_keep(held)
        self._accept_if_safe(held)

    # When a client may know, when the origin may forget.

    def _accept_if_safe(self, held: Held) -> None:
        if held.accepted or not held.synced:
            return
        if self._core.settings.acks == "neighbour" and held.kept_by is None and not self._alone:
            return
        if (
            self._core.settings.overflow == "block"
            and self.absent_bytes > self._core.settings.absent_hold_bytes
            and self._wanted_by_absent(held)
        ):
            self._withheld[held.order] = held
            return
        self._withheld.pop(held.order, None)
        held.accepted = True
        self.unaccepted_bytes -= held.size
        if held.tokens:
            self._core.out.append(Accept(held.session, held.tokens))
        if held.passed and not held.absent:
            self._release(held)

    def everyone_has(self, held: Held) -> None:
        """All members that must have it do. It is kept for absent brokers, and until it is accepted."""
        if held.passed or not self.keeps(held):
            return  # known from the acknowledgement of an earlier epoch
        held.passed = True
        held.settle()
        if held.absent:
            self._for_absent[held] = None
            self.absent_bytes += held.size
            self._record_stored(held)
            self._bound_absent()
        elif held.accepted:
            self._release(held)

    def _record_stored(self, held: Held) -> None:
        absent = tuple(member.strip() for member in held.absent)
        self._core.record_batch(Kind.STORED, held.batch, receivers=(absent,))

    def keeps(self, held: Held) -> bool:
        """Whether it is still needed."""
        batch = held.batch
        if batch.origin == self._core.id:
            return self.held.get(held.key) is held
        return self.kept.get(stream_of(batch), {}).get(batch.numbers[0]) is held

    def _release(self, held: Held) -> None:
        batch = held.batch
        if batch.origin != self._core.id:
            self._forget_kept(stream_of(batch), batch.numbers[0])
            return
        if self.held.pop(held.key, None) is None:
            return
        self._erase(held)
        if batch.told:
            self._core.tell(VersionsReleased(batch.told))

    def drop(self, held: Held) -> None:
        """Keep an own publication no longer, although somebody may not have it."""
        self.expect_again(held)
        if not held.accepted:
            held.accepted = True
            self.unaccepted_bytes -= held.size
            self._withheld.pop(held.order, None)
        if self.held.pop(held.key, None) is not None:
            self._erase(held)

    def _erase(self, held: Held) -> None:
        """An own publication is kept no longer, nor is its copy."""
        batch = held.batch
        self._core.out.append(Erase(_held_key(batch)))
        if held.kept_by is not None:
            self._tell_to_forget(held.kept_by, batch.stream, tuple(batch.numbers))
        if self._unmoved:
            self._unmoved.pop(held.key, None)
            self._forget_elsewhere()

    # Brokers that are out of reach.

    def reached(self, name: str, peer: str, *, late: bool) -> None:
        """A neighbour that was not reached yet turns out to be this broker.

        `late`: it may have been a member for some time, and got what was published since.
        """
        for held in self.everything():
            if name not in held.absent:
                continue
            del held.absent[name]
            if not (late and held.reaches(peer)):
                held.absent[peer] = None
            elif not held.absent and held.passed:
                self._kept_for_nobody(held)

    def met(self, strangers: Sequence[str]) -> None:
        """Members that were not in reach before: each may be a neighbour that was not reached yet.

        What is kept for that one must be sent to it before anything new. When its link comes up it is too
        late: an earlier number of a stream would be taken for a repeat.
        """
        for held in self.everything():
            if any(is_unreached(name) for name in held.absent):
                held.absent |= {name: None for name in strangers if not held.reaches(name)}

    def _kept_for_nobody(self, held: Held) -> None:
        """No absent broker is left for which it was kept."""
        if self._for_absent.pop(held, "") is None:
            self.absent_bytes -= held.size
        if held.accepted:
            self._release(held)

    def everything(self) -> list[Held]:
        """All that is kept here, own publications and copies for neighbours."""
        copies = [copies[number] for copies in self.kept.values() for number in sorted(copies)]
        return [*self.held.values(), *copies]

    def expect_again(self, held: Held) -> None:
        """It is to be sent again: somebody for whom it was kept is a member by now, or it is given up."""
        if self._for_absent.pop(held, "") is None:
            self.absent_bytes -= held.size
        held.passed = False

    def given_up(self, name: str) -> None:
        """Nothing more is held for a broker."""
        for held in self.everything():
            if name in held.missing:
                held.missing = tuple(one for one in held.missing if one != name)
            if name in held.absent:
                del held.absent[name]
                if not held.absent and held.passed:
                    self._kept_for_nobody(held)
        self.accept_withheld()
        for held in list(self.held.values()):
            self._accept_if_safe(held)

    def _bound_absent(self) -> None:
        settings = self._core.settings
        if settings.overflow == "block" or self.absent_bytes <= settings.absent_hold_bytes:
            return
        while self.absent_bytes > settings.absent_hold_bytes:
            held = next((held for held in self._for_absent if held.accepted), None)
            if held is None:
                return
            self.expect_again(held)
            before, self.dropped = self.dropped, self.dropped + len(held.batch)
            self._core.suppress(held.batch, None, 0, "held too much for absent brokers")
            if before.bit_length() != self.dropped.bit_length():  # a log must not flood
                self._core.log("warning", "publications held are dropped", dropped=self.dropped)
            self._release(held)

    def accept_withheld(self) -> None:
        """See whether there is room by now for what clients were not told to be safe."""
        for held in list(self._withheld.values()):
            self._accept_if_safe(held)

    # Copies at a neighbour.

    def _keeper(self) -> str | None:
        """The neighbour that keeps copies: the parent, or else the first child, in the first tree."""
        for root in self._trees.share:
            tree = self._trees.serving(root)
            if tree is not None and tree.current is not None:
                grown = tree.current
                for peer in [grown.parent, *grown.children]:
                    if peer is not None and peer in grown.edges and grown.edges[peer].alive:
                        return peer
        return None

    @property
    def _alone(self) -> bool:
        """Whether there is nobody who could keep a copy, as far as anybody knows."""
        epochs = [tree.current for tree in self._trees.trees.values() if tree.current is not None]
        return bool(epochs) and not self._absences and all(len(grown.members) == 1 for grown in epochs)

    def _ask_to_keep(self, held: Held) -> None:
        """Have the keeper keep a copy; all of them if it is another than before."""
        if self._core.settings.acks == "neighbour":
            if self._keeper() != self._chosen:
                self._choose()
            else:
                self._send_copy(held)

    def _choose(self) -> None:
        """Choose a keeper. It needs all copies, in order: with only the later ones it could not stand in."""
        self._chosen = self._keeper()
        for held in list(self.held.values()):
            self._send_copy(held)
            self._accept_if_safe(held)
        self._move()

    def _send_copy(self, held: Held) -> None:
        keeper = self._chosen
        link = self._links.get(keeper) if keeper is not None else None
        if link is not None and held.kept_by != keeper and (held.synced or not self._once):
            self._keepers[link.peer] = None
            self._links.send_data(link, Keep(held.batch.one(0), held.names), held.size)

    def on_ready(self) -> None:
        """Another neighbour may be the keeper now."""
        if self._core.settings.acks == "neighbour":
            self._choose()

    def on_link_up(self, link: Link) -> None:
        """Tell a neighbour what is kept for it: it may have forgotten that, or need it no longer."""
        for (origin, incarnation, stream), copies in self.kept.items():
            if origin == link.peer:
                numbers = sorted(copies)
                for first in range(0, len(numbers), KEPT_PART):
                    part = tuple(numbers[first : first + KEPT_PART])
                    self._links.send(link, Kept(stream, incarnation, part))

    def on_link_down(self, link: Link) -> None:
        if self._core.settings.acks == "neighbour":
            self._keepers.pop(link.peer, None)
            for held in self.held.values():
                if held.kept_by == link.peer:
                    held.kept_by = None
            self._choose()

    def _move(self) -> None:
        """Others need not keep copies when the keeper has all; before that, they must keep all they have."""
        keeper = self._chosen
        self._unmoved = {}
        if any(peer != keeper for peer in self._keepers):
            self._unmoved = {key: None for key, held in self.held.items() if held.kept_by != keeper}
            self._forget_elsewhere()

    def _forget_elsewhere(self) -> None:
        keeper = self._chosen
        if self._unmoved or (keeper is None and self.held):
            return
        for peer in [peer for peer in self._keepers if peer != keeper]:
            del self._keepers[peer]
            self._tell_to_forget(peer, ALL_STREAMS, ())

    def on_keep(self, link: Link, message: Keep) -> None:
        publication = message.publication
        generation = link.generation
        if publication.origin != link.peer:
            self._links.renounce(link, f"a copy of what {publication.origin!r} published")
            return
        batch = Batch.of(publication)
        self._keep_copy(batch, message.names)
        self._core.out.append(Write(_kept_key(batch), encode(Row(written(batch), message.names))))

        def synced() -> None:
            if link.generation == generation:
                kept = Kept(publication.stream, publication.incarnation, (publication.number,))
                self._links.send(link, kept)

        self._core.after_sync(synced)

    def _keep_copy(self, batch: Batch, names: tuple[str, ...]) -> None:
        copies = self.kept.setdefault(stream_of(batch), {})
        if batch.numbers[0] not in copies:
            copies[batch.numbers[0]] = Held(batch, max(head.qos for head in batch.heads), 0, names)

    def stands_in(self, copy: Held) -> bool:
        """Whether a copy is to be sent here, since its origin is not on the tree that its topic uses."""
        batch = copy.batch
        root = self._topics.root_of(batch.heads[0].topic, batch.stream)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        life = tree.current.members.get(batch.origin)
        return life is None or life[1] != batch.incarnation

    def on_kept(self, link: Link, message: Kept) -> None:
        if message.incarnation != self._core.incarnation:
            return  # this broker has lost its disk since, and only the neighbour has them
        is_known, is_keeper = link.peer in self._keepers, link.peer == self._chosen
        self._keepers[link.peer] = None
        needless: list[int] = []
        for number in message.numbers:
            key = message.stream, number
            held = self.held.get(key)
            if held is None:
                needless.append(number)  # everyone has it by now
                continue
            if is_keeper or held.kept_by is None:
                held.kept_by = link.peer
            if is_keeper:
                self._unmoved.pop(key, None)
            self._accept_if_safe(held)
        if needless:
            self._tell_to_forget(link.peer, message.stream, tuple(needless))
        if is_known:
            self._forget_elsewhere()
        else:
            self._move()

    def _tell_to_forget(self, keeper: str, stream: str, numbers: tuple[int, ...]) -> None:
        link = self._links.get(keeper)
        if link is not None:
            self._links.send(link, Forget(stream, self._core.incarnation, numbers))

    def on_forget(self, link: Link, message: Forget) -> None:
        if message.stream == ALL_STREAMS:
            for stream in [it for it in self.kept if it[:2] == (link.peer, message.incarnation)]:
                for number in list(self.kept[stream]):
                    self._forget_kept(stream, number)
            return
        for number in message.numbers:
            self._forget_kept((link.peer, message.incarnation, message.stream), number)

    def _forget_kept(self, stream: Stream, number: int) -> None:
        copies = self.kept.get(stream, {})
        copy = copies.pop(number, None)
        if copy is not None:
            self._core.out.append(Erase(_kept_key(copy.batch)))
            if self._for_absent.pop(copy, "") is None:
                self.absent_bytes -= copy.size
        if not copies:
            self.kept.pop(stream, None)


def stream_of(batch: Batch) -> Stream:
    return batch.origin, batch.incarnation, batch.stream


encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """Text as a part of a key."""
    return quote(text, safe="")


def _held_key(batch: Batch) -> str:
    return f"held/{quoted(batch.stream)}/{batch.numbers[0]:020}"


def _kept_key(batch: Batch) -> str:
    return f"kept/{quoted(batch.origin)}/{batch.incarnation}/{quoted(batch.stream)}/{batch.numbers[0]:020}"
