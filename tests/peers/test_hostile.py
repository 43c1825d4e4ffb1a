"""Whatever a stranger, a parent or a child says, a peer goes on: it refuses, counts, and keeps its links."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.peers.bench import Overlay, profile
from tidings.peers.events import Received, TimerFired
from tidings.peers.messages import (
    Accept,
    Alive,
    AnyMessage,
    Connect,
    Enquire,
    Event,
    Evict,
    Feed,
    Foresee,
    Leave,
    Profile,
    Refuse,
    Shuffle,
    Why,
)

names = st.sampled_from(["a", "b", "p", "x", "", "\0p", "ein langer Name"])
strangers = st.sampled_from(["x", "y", "\0p", "A", "ein langer Name", "x" * 300])
floats = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 5.0, -1.0, math.inf, -math.inf, math.nan]), st.floats(0.0, 10.0)
)
numbers = st.one_of(st.integers(-(2**63), 2**63), st.integers(2**32, 2**32 + 40))
bits = st.one_of(st.text("01", max_size=6), st.sampled_from(["", "2", "0x", "é", "0" * 5000]))
sets = st.lists(bits, max_size=4).map(tuple)
profiles = st.builds(
    Profile,
    peer=names,
    version=numbers,
    root=st.booleans(),
    bound=floats,
    dz=sets,
    fed=sets,
    delay=floats,
    floor=floats,
    rates=st.lists(floats, max_size=4).map(tuple),
)
hints = st.none() | profiles
messages: st.SearchStrategy[Any] = st.one_of(
    st.builds(Connect, root=st.booleans(), number=numbers, profile=profiles, asked=sets, sent=floats),
    st.builds(Accept, root=st.booleans(), number=numbers, profile=profiles, sent=floats),
    st.builds(Refuse, root=st.booleans(), number=numbers, why=st.sampled_from(Why), hint=hints, floor=floats),
    st.builds(Evict, root=st.booleans(), number=numbers, why=st.sampled_from(Why), hint=hints, floor=floats),
    st.builds(Leave, root=st.booleans(), number=numbers),
    st.builds(Alive, root=st.booleans(), number=numbers, sent=floats, profile=hints),
    st.builds(Feed, root=st.booleans(), number=numbers, fed=sets, delay=floats, sent=st.none() | floats),
    st.builds(
        Shuffle,
        profiles=st.lists(profiles, max_size=4).map(tuple),
        ages=st.lists(numbers, max_size=4).map(tuple),
        answer=st.booleans(),
    ),
    st.builds(Enquire, number=numbers, dz=sets, bound=floats, allowed=floats),
    st.builds(
        Foresee, number=numbers, met=st.booleans(), waste=floats, parent=hints, text=st.text(max_size=9)
    ),
    st.builds(Event, publisher=names, number=numbers, point=bits, delay=floats),
)


# What could well be true, but for who says it. Publishers that were made up are not among it: they are
# believed until they are asked (docs/design/0034-peers.md).
cells = st.sampled_from([("",), ("0",), ("01",), ("00", "011"), ("1",), ("0110",), ()])
likely = st.builds(
    Profile,
    peer=st.sampled_from(["a", "b", "p", "x", "y"]),
    version=st.one_of(st.integers(0, 9), st.integers(2**32, 2**32 + 99), st.just(2**62)),
    root=st.just(False),
    bound=st.sampled_from([0.5, 1.0, 2.0, 9.0]),
    dz=cells,
    fed=cells,
    delay=st.sampled_from([0.0, 1.0, 7.0]),
    floor=st.sampled_from([0.0, 0.1, 1.0]),
    hope=st.booleans(),
)
numbered = st.integers(2**32, 2**32 + 12)
plausible: st.SearchStrategy[Any] = st.one_of(
    st.builds(Connect, root=st.booleans(), number=numbered, profile=likely, asked=cells),
    st.builds(Accept, root=st.booleans(), number=numbered, profile=likely),
    st.builds(Refuse, root=st.booleans(), number=numbered, why=st.sampled_from(Why), hint=likely),
    st.builds(Evict, root=st.booleans(), number=numbered, why=st.sampled_from(Why), hint=likely),
    st.builds(Leave, root=st.booleans(), number=numbered),
    st.builds(Alive, root=st.booleans(), number=numbered, profile=likely, asked=cells),
    st.builds(Feed, root=st.booleans(), number=numbered, fed=cells, delay=st.just(1.0), hope=st.booleans()),
    st.builds(Shuffle, profiles=st.tuples(likely), ages=st.just((0,)), answer=st.booleans()),
    st.builds(
        Foresee, number=numbered, met=st.booleans(), waste=st.just(0.5), parent=likely, text=st.just("")
    ),
    st.builds(Event, publisher=names, number=st.integers(0, 3), point=st.just("0110"), delay=st.just(1.0)),
)


def settled() -> Overlay:
    """A publisher, a child of it, and a grandchild."""
    overlay = Overlay()
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=1.0, allowed=0.5)
    overlay.subscriber("b", "01", bound=5.0, allowed=0.5)
    overlay.cycles(8)
    return overlay


@settings(max_examples=examples(35), deadline=None)
@given(said=st.lists(st.tuples(names, names, messages), max_size=25))
def test_nothing_that_is_said_stops_a_peer(said: list[tuple[str, str, AnyMessage]]) -> None:
    overlay = settled()
    for to, sender, message in said:
        if to in overlay.peers:
            overlay.now += 0.1
            overlay.tell(to, Received(sender, message))
            overlay.tell(to, TimerFired())
            overlay.peers[to].status()
    overlay.cycles(2)


def links(overlay: Overlay) -> dict[str, tuple[list[object], list[object]]]:
    """Of the three: who feeds whom with what, by both ends."""
    return {
        name: (
            [(key, link.asked) for key, link in overlay.peers[name].parents.items()],
            [(key, link.asked) for key, link in overlay.peers[name].children.items() if key[0] in "abp"],
        )
        for name in "abp"
    }


@settings(max_examples=examples(30), deadline=None)
@given(said=st.lists(st.tuples(st.sampled_from("abp"), strangers, messages | plausible), max_size=25))
def test_nothing_that_strangers_say_ends_a_link(said: list[tuple[str, str, AnyMessage]]) -> None:
    overlay = settled()
    before = links(overlay)
    assert before["b"][0], "there are links to keep"
    for to, sender, message in said:
        overlay.now += 0.1
        overlay.tell(to, Received(sender, message))
        overlay.settle()
        overlay.tell(to, TimerFired())
        overlay.settle()
    overlay.cycles(8)
    assert links(overlay) == before


def test_what_cannot_be_is_counted_and_nothing_comes_of_it() -> None:
    overlay = settled()
    peer = overlay.peers["a"]
    before = (dict(peer.parents), dict(peer.children))
    fake = profile("x", "01", "0", bound=3.0)
    bad: list[AnyMessage] = [
        Connect(False, 1, profile("y", "01", bound=3.0), ("01",)),
        Connect(False, 1, fake, ("01",)),
        Connect(False, 1, profile("x", "01", bound=3.0), ("00",)),
        Connect(False, 1, profile("x", "01", bound=math.nan), ("01",)),
        Shuffle((fake,), ()),
        Enquire(1, ("2",), 1.0, 0.0),
        Foresee(1, True, 0.0, None, ""),
    ]
    for count, message in enumerate(bad, 1):
        assert overlay.tell("a", Received("x", message)) == []
        assert peer.counts.malformed == count
    assert (peer.parents, peer.children) == before


def test_a_profile_in_gossip_that_cannot_be_is_counted_and_left_out() -> None:
    overlay = settled()
    peer = overlay.peers["a"]
    overlay.tell("a", Received("x", Shuffle((profile("x", "01", "0", bound=3.0),), (0,), answer=True)))
    assert peer.view.refused == 1
    assert "x" not in peer.view.profiles


def test_events_are_taken_from_parents_only() -> None:
    overlay = settled()
    overlay.tell("a", Received("x", Event("p", 7, "0110", 0.0)))
    assert overlay.delivered["a"] == []
    assert overlay.peers["a"].counts.strays == 1


def test_a_publisher_passes_on_nothing_that_is_not_its_own() -> None:
    overlay = settled()
    overlay.tell("a", Received("p", Event("q", 7, "0110", 0.0)))
    assert overlay.delivered["a"] == []
    assert overlay.peers["a"].counts.malformed == 1


def test_messages_pass_through_bytes_unchanged() -> None:
    overlay = settled()
    overlay.publish("p", 1, "0110")
    kinds = set()
    for _, _, message in overlay.sent:
        kinds.add(type(message))
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=AnyMessage) == message
    assert len(kinds) >= 7


def test_the_same_events_give_the_same_effects() -> None:
    def run() -> list[tuple[str, str, AnyMessage]]:
        return settled().sent

    assert run() == run()
