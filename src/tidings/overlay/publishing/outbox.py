"""Holding: what an origin keeps until everyone has it, and copies that it keeps for neighbours.

A publication of QoS 1 or 2 is held from when it enters until all members of its tree have it, its client
knows that it is safe, and no absent broker may want it. It is on disk all that time. With `acks =
"neighbour"` a neighbour keeps a copy too and stands in for an origin that is gone: it has the whole of its
stream, so it can send it in order.

What is held for absent brokers is bounded. How publications travel is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

import msgspec

from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Accept, Erase, Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.messages import Forget, Keep, Kept
from tidings.overlay.routing.topics import Content, Topics
from tidings.overlay.trees.absence import Absences
from tidings.overlay.trees.messages import Epoch
from tidings.overlay.trees.trees import Trees
from tidings.records.record import Kind

Stream = tuple[str, int, str]
"""(origin, incarnation, group of topics) within which numbers count up."""

QOS_ONCE = 2
"""No other broker hears of these before they are on disk here: their client says again what a crash has
undone, and it must not be somewhere already under another number."""

ALL_STREAMS = ""
"""In `Forget`: whatever the sender ever asked to be kept."""


class Held:
    """A publication that its origin keeps until everyone has it."""

    __slots__ = (
        "absent",
        "accepted",
        "content",
        "epoch",
        "kept_by",
        "order",
        "publication",
        "sent",
        "session",
        "size",
        "synced",
        "token",
    )

    def __init__(self, publication: Publication, size: int, order: int) -> None:
        self.publication = publication
        self.size = size
        self.order = order
        self.session = ""
        self.token = -1
        self.synced = True
        """Whether it is on disk."""
        self.kept_by: str | None = None
        """The neighbour that has a copy, where that is asked for."""
        self.accepted = True
        self.absent: dict[str, None] | None = None
        """Brokers for which it is still kept; None while not all members have it."""
        self.epoch: tuple[str, Epoch] | None = None
        """(root, epoch) in which it was sent last."""
        self.sent: dict[str, Epoch] = {}
        """By root: the last epoch in which it was sent."""
        self.content: Content | None = None
        """Its fields, until it has been sent for the first time: they are read once."""


class PublicationReleased(Notice, frozen=True):
    """A publication of this broker need not be kept any longer."""

    publication: Publication


class Outbox:
    """All that is kept at this broker."""

    def __init__(self, core: Core, links: Links, trees: Trees, topics: Topics, absences: Absences) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._absences = absences
        self._orders = 0
        self._once = 0
        """How many of QoS 2 are not on disk yet."""
        self.held: dict[tuple[str, int], Held] = {}
        """QoS 1 and 2 of this origin, by stream and number, in order."""
        self.kept: dict[Stream, dict[int, Held]] = {}
        """Copies kept for neighbours."""
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
        decode = msgspec.msgpack.Decoder(Publication).decode
        publications = sorted(
            (decode(saved[key]) for key in saved if key.startswith("held/")),
            key=lambda publication: (publication.stream, publication.number),
        )
        for key in saved:
            if key.startswith("kept/"):
                self._keep_copy(decode(saved[key]))
        found = [self.wrap(publication) for publication in publications]
        for held in found:
            self.held[held.publication.stream, held.publication.number] = held
        return found

    def wrap(self, publication: Publication) -> Held:
        """A publication with its place in the order of all that entered here."""
        self._orders += 1
        return Held(publication, publication.size, self._orders)

    def hold(self, held: Held, session: str = "", token: int = -1) -> None:
        """Keep a publication; the client that it is from is told when it is safe."""
        publication = held.publication
        self.held[publication.stream, publication.number] = held
        self._core.out.append(Write(_held_key(publication), encode(publication)))
        held.session, held.token, held.accepted, held.synced = session, token, False, False
        self.unaccepted_bytes += held.size
        self._once += publication.qos == QOS_ONCE
        late = self._once > 0
        self._core.after_sync(lambda: self._synced(held, late))
        if not late:
            self._ask_to_keep(held)

    def _synced(self, held: Held, late: bool) -> None:
        held.synced = True
        self._once -= held.publication.qos == QOS_ONCE
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
        if held.publication.told is None:
            self._core.out.append(Accept(held.session, held.token))
        if held.absent is not None and not held.absent:
            self._release(held)

    def everyone_has(self, held: Held) -> None:
        """All members of an epoch have it. It is kept for those that are absent, and until it is accepted."""
        if held.absent is not None or not self._is_kept(held):
            return  # known from the acknowledgement of an earlier epoch
        held.absent = dict.fromkeys(self._wanted_by_absent(held))
        if held.absent:
            self._for_absent[held] = None
            self.absent_bytes += held.size
            self._record_stored(held)
            self._bound_absent()
        elif held.accepted:
            self._release(held)

    def _record_stored(self, held: Held) -> None:
        publication = held.publication
        self._core.record(
            Kind.STORED,
            publication.topic,
            publication.id,
            len(publication.payload),
            publisher=publication.publisher,
            receivers=tuple(member.strip() for member in held.absent or ()),
        )

    def _is_kept(self, held: Held) -> bool:
        publication = held.publication
        if publication.origin == self._core.id:
            return self.held.get((publication.stream, publication.number)) is held
        return self.kept.get(stream_of(publication), {}).get(publication.number) is held

    def _release(self, held: Held) -> None:
        publication = held.publication
        if publication.origin != self._core.id:
            self._forget_kept(publication)
            return
        if self.held.pop((publication.stream, publication.number), None) is None:
            return
        self._core.out.append(Erase(_held_key(publication)))
        if held.kept_by is not None:
            self._tell_to_forget(held.kept_by, publication)
        self._core.tell(PublicationReleased(publication))

    def drop(self, held: Held) -> None:
        """Keep an own publication no longer, although somebody may not have it."""
        self.expect_again(held)
        if not held.accepted:
            held.accepted = True
            self.unaccepted_bytes -= held.size
            self._withheld.pop(held.order, None)
        publication = held.publication
        if self.held.pop((publication.stream, publication.number), None) is not None:
            self._core.out.append(Erase(_held_key(publication)))
            if held.kept_by is not None:
                self._tell_to_forget(held.kept_by, publication)

    # Brokers that are out of reach.

    def _wanted_by_absent(self, held: Held) -> list[str]:
        publication = held.publication
        root = (
            held.epoch[0]
            if held.epoch is not None
            else self._topics.root_of(publication.topic, publication.stream)
        )
        if root is None:
            return []
        return self._absences.wanting(root, publication.topic, self._topics.fields(publication))

    def back(self, root: str, member: str) -> None:
        """It is on a tree again: what was held for it is to be sent again."""
        for held in self.everything():
            if held.absent and member in held.absent and held.epoch is not None and held.epoch[0] == root:
                self.expect_again(held)
        self._accept_withheld()

    def reached(self, name: str, peer: str) -> None:
        """A neighbour that was not reached yet turns out to be this broker."""
        for held in self.everything():
            if not held.absent or name not in held.absent or held.epoch is None:
                continue
            del held.absent[name]
            if self._absences.is_missing(held.epoch[0], peer):
                held.absent[peer] = None
            elif not held.absent:
                self._for_absent.pop(held, None)
                self.absent_bytes -= held.size
                if held.accepted:
                    self._release(held)

    def on_dropped(self, root: str) -> None:
        """A tree is used no more: what was sent on it will be sent on another."""
        for held in self.everything():
            if held.absent and held.epoch is not None and held.epoch[0] == root:
                self.expect_again(held)

    def everything(self) -> list[Held]:
        """All that is kept here, own publications and copies for neighbours."""
        copies = [copies[number] for copies in self.kept.values() for number in sorted(copies)]
        return [*self.held.values(), *copies]

    def expect_again(self, held: Held) -> None:
        """It is no longer known that all members have it."""
        if self._for_absent.pop(held, "") is None:
            self.absent_bytes -= held.size
        held.absent = None

    def given_up(self, member: str) -> None:
        """Nothing more is held for it."""
        for held in self.everything():
            if held.absent and member in held.absent:
                del held.absent[member]
                if not held.absent:
                    del self._for_absent[held]
                    self.absent_bytes -= held.size
                    if held.accepted:
                        self._release(held)
        self._accept_withheld()
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
            self.dropped += 1
            self._core.suppress(held.publication, None, 0, "held too much for absent brokers")
            if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th, …: a log must not flood
                self._core.log("warning", "publications held are dropped", dropped=self.dropped)
            self._release(held)

    def _accept_withheld(self) -> None:
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
        keeper = self._keeper() if self._core.settings.acks == "neighbour" else None
        link = self._links.get(keeper) if keeper is not None else None
        if link is not None and held.kept_by != keeper and (held.synced or not self._once):
            self._links.send_data(link, Keep(held.publication), held.size)

    def on_ready(self) -> None:
        """Another neighbour may be the keeper now."""
        if self._core.settings.acks == "neighbour":
            for held in list(self.held.values()):
                self._ask_to_keep(held)
                self._accept_if_safe(held)

    def on_link_up(self, link: Link) -> None:
        """A neighbour may have copies from before the link was lost; those it is to keep it will get."""
        if self._core.settings.acks == "neighbour":
            self._links.send(link, Forget(ALL_STREAMS, self._core.incarnation, ()))

    def on_link_down(self, link: Link) -> None:
        if self._core.settings.acks == "neighbour":
            for held in self.held.values():
                if held.kept_by == link.peer:
                    held.kept_by = None
                # The next keeper needs all of them: with only the later ones it could not stand in.
                self._ask_to_keep(held)

    def on_keep(self, link: Link, message: Keep) -> None:
        publication = message.publication
        generation = link.generation
        if publication.origin != link.peer:
            self._links.renounce(link, f"a copy of what {publication.origin!r} published")
            return
        self._keep_copy(publication)
        self._core.out.append(Write(_kept_key(publication), encode(publication)))

        def synced() -> None:
            if link.generation == generation:
                kept = Kept(publication.stream, publication.number, publication.incarnation)
                self._links.send(link, kept)

        self._core.after_sync(synced)

    def _keep_copy(self, publication: Publication) -> None:
        copies = self.kept.setdefault(stream_of(publication), {})
        if publication.number not in copies:
            copies[publication.number] = Held(publication, publication.size, 0)

    def stands_in(self, copy: Held) -> bool:
        """Whether a copy is to be sent here, since its origin is not on the tree that its topic uses."""
        root = self._topics.root_of(copy.publication.topic, copy.publication.stream)
        tree = self._trees.serving(root) if root is not None else None
        if tree is None or tree.current is None:
            return False
        life = tree.current.members.get(copy.publication.origin)
        return life is None or life[1] != copy.publication.incarnation

    def on_kept(self, link: Link, message: Kept) -> None:
        held = self.held.get((message.stream, message.number))
        if held is None:
            # Everyone had it before the copy was made.
            self._links.send(link, Forget(message.stream, message.incarnation, (message.number,)))
        elif held.publication.incarnation == message.incarnation:
            before, held.kept_by = held.kept_by, link.peer
            if before is not None and before != link.peer:
                self._tell_to_forget(before, held.publication)
            self._accept_if_safe(held)

    def _tell_to_forget(self, keeper: str, publication: Publication) -> None:
        link = self._links.get(keeper)
        if link is not None:
            numbers = (publication.number,)
            self._links.send(link, Forget(publication.stream, publication.incarnation, numbers))

    def on_forget(self, link: Link, message: Forget) -> None:
        if message.stream == ALL_STREAMS:
            for stream in [it for it in self.kept if it[:2] == (link.peer, message.incarnation)]:
                for copy in list(self.kept[stream].values()):
                    self._forget_kept(copy.publication)
            return
        copies = self.kept.get((link.peer, message.incarnation, message.stream), {})
        for number in message.numbers:
            if number in copies:
                self._forget_kept(copies[number].publication)

    def _forget_kept(self, publication: Publication) -> None:
        stream = stream_of(publication)
        copies = self.kept.get(stream, {})
        copy = copies.pop(publication.number, None)
        if copy is not None:
            self._core.out.append(Erase(_kept_key(publication)))
            if self._for_absent.pop(copy, "") is None:
                self.absent_bytes -= copy.size
        if not copies:
            self.kept.pop(stream, None)


def stream_of(publication: Publication) -> Stream:
    return publication.origin, publication.incarnation, publication.stream


encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """Text as a part of a key."""
    return quote(text, safe="")


def _held_key(publication: Publication) -> str:
    return f"held/{quoted(publication.stream)}/{publication.number:020}"


def _kept_key(publication: Publication) -> str:
    origin, stream = quoted(publication.origin), quoted(publication.stream)
    return f"kept/{origin}/{publication.incarnation}/{stream}/{publication.number:020}"
