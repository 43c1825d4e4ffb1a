"""A conversation over connections that break anywhere: what was sent is what is received, in order."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.overlay.bench import BEGIN, publication, publish
from tidings.overlay.core import TURN_DELIVERIES, Core
from tidings.overlay.events import ConnectionMade, HangUp, Send
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.links import Link, Links, State
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.settings import Settings
from tidings.overlay.trees.messages import Seek

TIGHT = Settings(link_unacked_bytes=400)
"""So little that data is often held back."""

LARGEST_BYTES = 500 + 64


class Side:
    """One end, with nothing above the link but a list of what came."""

    def __init__(self, id_: str) -> None:
        self.core = Core(id_, 1, 1, TIGHT, random.Random(0))
        self.core.now = BEGIN
        self.links = Links(self.core, self._on_up, lambda link: None, self._on_message)
        self.new = 0
        self.said: list[Message] = []
        self.got: list[Message] = []

    def _on_up(self, link: Link, new: bool) -> None:
        self.new += new

    def _on_message(self, link: Link, message: Message) -> None:
        self.got.append(message)
        self.core.spend(isinstance(message, Publish), 0)


class Conversation:
    """Side "a" dials side "b"; frames wait until they are let through."""

    def __init__(self) -> None:
        self.sides = {"a": Side("a"), "b": Side("b")}
        self.inbox: dict[tuple[str, int], deque[Frame | None]] = {}
        """By side and connection; None is the news that the other side has closed."""
        self.connections = 0
        self.sides["a"].links.add_address("b")
        self.sides["a"].core.out.clear()
        self.dial()
        self.deliver_all()

    def dial(self) -> None:
        """A new connection, if the dialling side has none."""
        dialler = self.sides["a"].links.diallers["b"]
        if dialler.connection is not None:
            return
        dialler.trying = True
        self.connections += 1
        for side in "ab":
            self.inbox[side, self.connections] = deque()
            address = "b" if side == "a" else None
            self.sides[side].links.on_connection(ConnectionMade(self.connections, address, b"nonce"))
        self._carry_out()

    def say(self, side: str, size: int) -> None:
        """A control message, or one of some size."""
        it = self.sides[side]
        link = it.links.get("b" if side == "a" else "a")
        assert link is not None, "the session lives as long as the test"
        number = len(it.said) + 1
        message: Message = Seek("r", (1, number))
        if size:
            message = publish(number, 0, publication(number, b"." * size))
            it.links.send_data(link, message, message.size)
        else:
            it.links.send(link, message)
        it.said.append(message)
        self._carry_out()

    def deliver(self, side: str, pick: int) -> None:
        """One frame, of the connection that is picked: late ones of an old connection are possible."""
        boxes = [key for key, box in self.inbox.items() if box and key[0] == side]
        if not boxes:
            return
        key = boxes[pick % len(boxes)]
        frame = self.inbox[key].popleft()
        links = self.sides[side].links
        if frame is None:
            links.on_connection_lost(key[1], "closed")
        else:
            links.on_frame(key[1], frame)
        self._carry_out()

    def lose(self, side: str) -> None:
        """This side loses its connection, and what was coming in there. The other learns nothing."""
        links = self.sides[side].links
        for key in [key for key in self.inbox if key[0] == side]:
            del self.inbox[key]
            links.on_connection_lost(key[1], "cut")
        self._carry_out()

    def tire(self, side: str) -> None:
        """The turn of this side is over: data that comes waits in its inbox."""
        self.sides[side].core.spent = TURN_DELIVERIES

    def go_on(self, side: str) -> None:
        """The next turn: one message that waits acts, and then it is over again."""
        it = self.sides[side]
        it.core.spent = 0
        it.core.turn_deliveries = 1
        it.links.act()
        it.core.turn_deliveries = TURN_DELIVERIES
        self._carry_out()

    def cut(self) -> None:
        self.lose("a")
        self.lose("b")

    def deliver_all(self) -> None:
        while any(self.inbox.values()):
            for side in "ab":
                self.deliver(side, 0)

    def finish(self) -> None:
        """Connect once more and let everything through, heartbeats included."""
        for here, number in list(self.inbox):
            if ("b" if here == "a" else "a", number) not in self.inbox:
                self.inbox[here, number].append(None)  # the news that was still under way
        for _ in range(100):
            self.deliver_all()
            self.dial()
            self.deliver_all()
            for side in self.sides.values():
                side.core.now += 2.0
                side.core.spent = 0
                side.links.act()
                side.links.tick()
            self._carry_out()
            self.deliver_all()
            if all(not link.queued for side in self.sides.values() for link in side.links.up()):
                return
        raise AssertionError("not all was received")

    def _carry_out(self) -> None:
        for id_, side in self.sides.items():
            side.links.flush()
            side.links.audit()
            for link in side.links.links.values():
                waiting = sum(size for _, _, size in link.inbox)
                assert waiting <= TIGHT.link_unacked_bytes + LARGEST_BYTES, "an inbox is bounded"
            out, side.core.out = side.core.out, []
            for effect in out:
                if not isinstance(effect, Send | HangUp):
                    continue
                there = self.inbox.get(("b" if id_ == "a" else "a", effect.connection))
                if isinstance(effect, Send):
                    if there is not None:
                        there.append(effect.frame)
                else:
                    self.inbox.pop((id_, effect.connection), None)
                    if there is not None:
                        there.append(None)


def control(messages: list[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, Publish)]


def data(messages: list[Message]) -> list[Message]:
    return [message for message in messages if isinstance(message, Publish)]


def check(conversation: Conversation) -> None:
    conversation.finish()
    one, other = conversation.sides.values()
    for speaker, listener in ((one, other), (other, one)):
        assert control(listener.got) == control(speaker.said)
        assert data(listener.got) == data(speaker.said)
    assert (one.new, other.new) == (1, 1)


sides = st.sampled_from("ab")
said = st.tuples(st.just("say"), sides, st.sampled_from([0, 0, 50, 150, LARGEST_BYTES]))
delivered = st.tuples(st.just("deliver"), sides, st.integers(0, 3))
broken = st.one_of(
    st.tuples(st.just("lose"), sides),
    st.tuples(st.just("cut")),
    st.tuples(st.just("dial")),
    st.tuples(st.just("dial")),
)
busy = st.tuples(st.sampled_from(["tire", "go_on"]), sides)
happenings: st.SearchStrategy[list[tuple[Any, ...]]] = st.lists(
    st.one_of(said, said, delivered, delivered, delivered, broken, busy), max_size=60
)


@given(happenings)
@settings(max_examples=examples(300))
def test_nothing_is_lost_or_repeated_wherever_connections_break(steps: list[tuple[Any, ...]]) -> None:
    conversation = Conversation()
    for name, *arguments in steps:
        getattr(conversation, name)(*arguments)
    check(conversation)


def test_nothing_is_lost_or_repeated_at_any_cut_point_of_a_conversation() -> None:
    # Both sides speak at once; then exactly so many frames arrive at each before the cut, greetings included.
    for to_a in range(8):
        for to_b in range(8):
            conversation = Conversation()
            conversation.cut()
            conversation.dial()
            for number in range(12):
                for side in "ab":
                    conversation.say(side, 0 if number % 3 else 120)
            for side, count in (("a", to_a), ("b", to_b)):
                for _ in range(count):
                    conversation.deliver(side, 0)
            conversation.cut()
            check(conversation)


def test_a_frame_of_an_old_connection_that_comes_late_is_not_taken() -> None:
    conversation = Conversation()
    conversation.say("a", 0)
    conversation.lose("a")
    conversation.dial()
    late = conversation.inbox["b", 1]
    assert len(late) == 1
    while len(conversation.inbox) > 1 and any(box for key, box in conversation.inbox.items() if key[1] == 2):
        for side in "ab":
            boxes = [key for key, box in conversation.inbox.items() if box and key[0] == side]
            if (side, 2) in boxes:
                conversation.deliver(side, boxes.index((side, 2)))
    frame = late[0] if late else None
    assert isinstance(frame, Frame)
    conversation.sides["b"].links.on_frame(1, frame)
    check(conversation)


def test_the_replay_buffer_holds_only_what_was_not_received() -> None:
    conversation = Conversation()
    for _ in range(20):
        conversation.say("a", 0)
    conversation.deliver_all()
    conversation.finish()
    link = conversation.sides["a"].links.links["b"]
    assert link.state is State.UP
    assert (link.queued, link._unacked_bytes) == (0, 0)
