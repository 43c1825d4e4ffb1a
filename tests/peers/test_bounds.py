"""All that a peer keeps is bounded: thousands of invented peers speak to one, and it stops growing."""

from __future__ import annotations

import gc
import random
from collections import deque
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest

from tests.peers.alone import Alone
from tests.peers.bench import profile
from tidings.errors import InputError
from tidings.peers.core import TOLD_MAX
from tidings.peers.events import Joined, PeerLost, Published, Received, Send, Subscribed, TimerFired
from tidings.peers.messages import (
    Accept,
    Alive,
    AnyMessage,
    Connect,
    Enquire,
    Event,
    Evict,
    Foresee,
    Leave,
    Profile,
    Refuse,
    Shuffle,
    Why,
)
from tidings.peers.peer import Peer
from tidings.peers.settings import DEFAULT, PeerSettings

SMALL = replace(
    DEFAULT,
    stale_after=100,
    out_degree=3,
    view=8,
    publishers_max=4,
    remembered=8,
    seen=8,
    points=8,
    window=2,
    requests=4,
)
OUTSIDE = (type, FunctionType, BuiltinFunctionType, ModuleType, PeerSettings, random.Random)


def kept(peer: Peer) -> int:
    """Members of all containers that can be reached from a peer."""
    seen: set[int] = set()
    waiting: list[object] = [peer]
    count = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, OUTSIDE):
            continue
        seen.add(id(one))
        if isinstance(one, (dict, list, tuple, set, deque)):
            count += len(one)
        waiting += gc.get_referents(one)
    return count


class Crowd:
    """Peers that nobody has heard of, one after the other, each of which says all that can be said."""

    def __init__(self, settings: PeerSettings) -> None:
        self.alone = Alone(
            "0000", "0110", "1100", bound=500.0, allowed=0.5, advertised=("",), settings=settings
        )
        self.count = self.asked = 0

    def speak(self, times: int) -> None:
        for _ in range(times):
            self.count += 1
            self.one(f"x{self.count}")

    def one(self, name: str) -> None:
        count, alone = self.count, self.alone
        relay = profile(name, "0", "11", bound=400.0, version=count, fed=count % 3 > 0)
        root = profile(name, "01", bound=0.0, version=count, rates=(3.0,))
        child = profile(name, "0110", bound=900.0, version=count)
        said: list[AnyMessage] = [
            Shuffle((relay, root), (0, 0)),
            Connect(False, count, child, ("0110",)),
            Connect(True, count + 1, child, ("0110",)),
            Alive(False, count),
            Enquire(count, ("01",), 9.0, 0.5),
            Foresee(count, True, 0.0, relay, ""),
            Event(name, count, "01100", 1.0),
            Leave(count % 2 == 0, count),
        ]
        for message in said:
            self.answer(name, Received(name, message))
        for parent, _ in list(alone.peer.parents):
            self.answer(parent, Received(parent, Event(name, count, "0110011", 1.0)))
        alone.peer.handle(Published(count, "0110011"), alone.now)
        if count % 5 == 0:
            alone.peer.handle(PeerLost(f"x{count - 2}"), alone.now)
        alone.now += 0.5
        self.answer(name, TimerFired())

    def answer(self, sender: str, event: Received | TimerFired) -> None:
        """What a peer asks for, it gets, or not, or for a short time, or hears nothing."""
        alone = self.alone
        for effect in alone.peer.handle(event, alone.now):
            if not isinstance(effect, Send) or not isinstance(effect.message, Connect):
                continue
            to, root, number = effect.to, effect.message.root, effect.message.number
            parent = profile(to, "", bound=0.0 if root else 400.0, version=self.count)
            hint = profile(f"hint{self.count}", "0", bound=3.0, version=1)
            self.asked += 1
            turn = self.asked % 4
            if turn == 0:
                alone.tell(to, Refuse(root, number, Why.FULL, hint, 0.1))
            elif turn < 3:
                alone.tell(to, Accept(root, number, parent, effect.message.sent))
                if turn == 2:
                    alone.tell(to, Evict(root, number, Why.FULL, hint, 0.1))


def remembered(peer: Peer) -> dict[str, int]:
    """Of how many peers something is remembered."""
    return {
        "asked last": len(peer._feeding._requests),
        "said no": len(peer._seeking._rests),
        "no answer": len(peer.view._gone),
    }


def test_what_is_kept_does_not_grow_with_those_who_speak() -> None:
    crowd = Crowd(SMALL)
    crowd.speak(300)
    first = kept(crowd.alone.peer)
    for _ in range(6):
        crowd.speak(100)
        assert kept(crowd.alone.peer) < first + 100
        assert max(remembered(crowd.alone.peer).values()) <= SMALL.remembered


def test_each_that_is_remembered_would_grow_without_its_bound() -> None:
    crowd = Crowd(replace(SMALL, remembered=1_000_000))
    most = dict.fromkeys(remembered(crowd.alone.peer), 0)
    for _ in range(200):
        crowd.speak(1)
        most = {what: max(count, most[what]) for what, count in remembered(crowd.alone.peer).items()}
    assert min(most.values()) > SMALL.remembered, most


@pytest.mark.parametrize(
    "without",
    [replace(SMALL, seen=10**6), replace(SMALL, publishers_max=10**6), replace(SMALL, view=10**6)],
    ids=["seen", "publishers_max", "view"],
)
def test_what_is_kept_would_grow_without_its_bounds(without: PeerSettings) -> None:
    bounded, unbounded = Crowd(SMALL), Crowd(without)
    for crowd in (bounded, unbounded):
        crowd.speak(200)
    assert kept(unbounded.alone.peer) > kept(bounded.alone.peer) + 100


def test_those_that_a_seeker_hears_of_and_goes_to_are_remembered_up_to_a_bound() -> None:
    most = {}
    for bound in (SMALL.remembered, 10**6):
        alone = Alone("000", bound=5.0, settings=replace(SMALL, remembered=bound))
        view = alone.peer.view
        alone.denied(60)
        heard = met = 0
        for cycle in range(60):
            alone.knows(*(profile(f"y{cycle}.{number}", "1", bound=2.0) for number in range(4)))
            heard, met = max(heard, len(view._heard)), max(met, len(view._met))
            alone.denied(1)
        most[bound] = (heard, met)
    assert most[SMALL.remembered] == (SMALL.remembered, SMALL.remembered)
    assert min(most[10**6]) > SMALL.remembered


def test_partners_of_gossip_that_owe_an_answer_are_remembered_up_to_a_bound() -> None:
    alone = Alone("000", bound=5.0, settings=DEFAULT)
    for cycle in range(100):
        alone.knows(profile(f"y{cycle}", "1", bound=2.0))
        alone.denied(1)
    assert 1 < len(alone.peer._core.told) <= TOLD_MAX


def test_parents_that_were_left_are_remembered_up_to_a_bound() -> None:
    cells = ("000", "010", "100", "110")
    for bound, count in ((2, 2), (1000, 4)):
        alone = Alone(*cells, bound=5.0, settings=replace(SMALL, remembered=bound))
        parents = {f"b{one}": profile(f"b{one}", one, bound=2.0) for one in cells}
        alone.knows(*parents.values())
        for to, message in alone.cycle():
            assert isinstance(message, Connect)
            alone.tell(to, Accept(False, message.number, parents[to], message.sent))
        assert len(alone.peer.parents) == 4
        alone.peer.handle(Subscribed(("111",), 3.0), alone.now)
        assert len(alone.peer._core.left) == count


def test_expressions_that_were_too_coarse_are_remembered_up_to_a_bound() -> None:
    for bound, count in ((1, 1), (1000, 3)):
        alone = Alone("0000", "0110", bound=5.0, allowed=0.5, settings=replace(SMALL, remembered=bound))
        alone.denied(16)
        root = profile("p", "", bound=0.0, rates=(10.0,))
        alone.knows(root)
        request = alone.asks()
        alone.tell("p", Accept(True, request.number, root, request.sent))
        for turn in range(3):
            for number, point in enumerate(["00010", "01111", "00110", "01010"] * 8):
                alone.tell("p", Event("p", 100 * turn + number, point, 0.0))
            alone.cycle()
        assert alone.peer.counts.refined >= 3
        assert len(alone.peer._accuracy._coarse_rests) == count


def test_a_request_of_a_child_that_is_overtaken_is_not_taken_although_many_have_asked_since() -> None:
    alone = Alone("0", bound=2.0, settings=SMALL)
    old, new = alone.request("b", "00", bound=9.0), alone.request("b", "0", bound=9.0)
    alone.hears("b", new)
    for number in range(20):
        alone.hears(f"x{number}", alone.request(f"x{number}", "0111", bound=9.0))
    assert ("b", False) in alone.peer.children
    assert alone.hears("b", old) == []
    assert alone.peer.children["b", False].asked == ("0",)


LONG = "x" * 256


def test_names_that_are_too_long_are_refused() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    assert alone.hears(LONG, alone.request(LONG, "01", bound=9.0)) == []
    assert alone.hears("b", Event(LONG, 1, "01", 1.0)) == []
    assert alone.peer.counts.malformed == 2
    alone.knows(profile(LONG, "0", bound=3.0), profile(LONG, "0", bound=0.0))
    assert LONG not in {**alone.peer.view.profiles, **alone.peer.view.roots}
    with pytest.raises(InputError, match="256 characters; give it one of 1 to 255"):
        Peer(LONG, life=1, random=random.Random(0))
    with pytest.raises(InputError, match="1 to 255"):
        alone.peer.handle(Joined((LONG,)), 0.0)


def test_rates_that_no_overlay_carries_are_not_believed() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.06)
    honest = profile("p", "", bound=0.0, rates=(100.0,), floor=1.0)
    alone.knows(honest, profile("q", "", bound=0.0, rates=(1e300,), floor=1.0))
    assert list(alone.peer.view.roots) == ["p"]


def test_a_relay_of_a_curious_name_does_not_make_a_publisher_be_forgotten() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(Profile("\0p", 1000, False, 4.0, ("0",), ("0",), 1.0, 0.0))
    for _ in range(4):
        alone.cycle()
    assert alone.peer.view.profiles == {}
    alone.knows(profile("p", "", bound=0.0, version=5))
    assert list(alone.peer.view.roots) == ["p"]
