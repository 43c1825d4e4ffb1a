"""Events: once, to whom they concern, within the bound; several publishers, and peers that are both."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.peers.alone import Alone, sends
from tests.peers.bench import Overlay, profile
from tidings.peers.events import Advertised, Deliver
from tidings.peers.messages import Accept, Connect, Event, Feed, Leave
from tidings.peers.settings import DEFAULT


def test_an_event_goes_on_to_children_that_asked_for_where_it_lies_and_not_back() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0, delay=2.0)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    for child, dz in (("c", "01"), ("d", "00"), ("q", "011")):
        assert alone.takes(child, dz, bound=9.0)
    effects = alone.tell("b", Event("q", 1, "0110", 2.0, b"x"))
    assert effects[0] == Deliver("q", 1, "0110", 3.0, False, b"x")
    assert sends(effects) == [("c", Event("q", 1, "0110", 3.0, b"x"))]


def test_an_event_that_comes_again_is_dropped() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    assert len(alone.tell("b", Event("q", 1, "0110", 2.0))) == 1
    assert alone.tell("b", Event("q", 1, "0110", 2.0)) == []
    assert alone.peer.counts.repeated == 1


def test_what_is_late_is_delivered_and_counted() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    (effect,) = alone.tell("b", Event("q", 1, "0110", 7.0))
    assert isinstance(effect, Deliver)
    assert effect.late
    assert alone.peer.counts.late == 1


def test_what_lies_outside_is_counted_and_goes_no_further() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    assert alone.tell("b", Event("q", 1, "1110", 1.0)) == []
    assert alone.peer.counts.outside == 1


def test_a_subscriber_of_two_publishers_gets_each_event_once() -> None:
    overlay = Overlay()
    overlay.publisher("p")
    overlay.publisher("q", ("0",))
    overlay.subscriber("a", "01", bound=1.0)
    overlay.subscriber("b", "1", bound=1.0)
    overlay.subscriber("c", "011", bound=4.0)
    overlay.cycles(12)
    assert overlay.tree() == {"a": ["p", "q"], "b": ["p"], "c": ["a"]}
    overlay.publish("p", 1, "0110")
    overlay.publish("q", 2, "0110")
    overlay.publish("p", 3, "1110")
    numbers = {name: [one.number for one in got] for name, got in overlay.delivered.items()}
    assert numbers == {"p": [], "q": [], "a": [1, 2], "b": [3], "c": [1, 2]}


def test_a_peer_that_subscribes_and_publishes_may_be_fed_by_one_that_it_feeds() -> None:
    overlay = Overlay(replace(DEFAULT, out_degree=1))
    overlay.publisher("p", ("1",))
    overlay.subscriber("x", "1", bound=5.0)
    overlay.tell("x", Advertised(("0",)))
    overlay.subscriber("y", "", bound=1.0)
    overlay.cycles(20)
    assert overlay.links() == {("p", True, "y"), ("x", True, "y"), ("y", False, "x")}
    overlay.publish("x", 1, "0110")
    overlay.publish("p", 2, "1110")
    assert [one.number for one in overlay.delivered["y"]] == [1, 2]
    assert [one.number for one in overlay.delivered["x"]] == [2]
    assert overlay.peers["x"].counts.repeated == 0


def test_a_publisher_gets_its_own_event_once_if_it_subscribes_to_it() -> None:
    overlay = Overlay()
    overlay.subscriber("x", "0", bound=5.0)
    overlay.tell("x", Advertised(("",)))
    overlay.subscriber("y", "0", bound=1.0)
    overlay.cycles(10)
    overlay.publish("x", 1, "0110")
    assert [(one.number, one.delay) for one in overlay.delivered["x"]] == [(1, 0.0)]
    assert [(one.number, one.delay) for one in overlay.delivered["y"]] == [(1, 1.0)]


def test_milliseconds_add_up_along_the_links() -> None:
    overlay = Overlay(replace(DEFAULT, metric="ms", out_degree=1))
    overlay.link_s = lambda _from, to: 0.020 if "p" in (_from, to) else 0.010
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=25.0)
    overlay.subscriber("b", "01", bound=40.0)
    overlay.subscriber("c", "01", bound=30.0)
    overlay.cycles(20)
    assert overlay.tree() == {"a": ["p"], "b": ["a"], "c": []}, "c would need a link of 5 ms"
    overlay.publish("p", 1, "0110")
    overlay.cycles(1)
    (got,) = overlay.delivered["b"]
    assert 29.0 < got.delay < 31.0


def test_who_dies_is_replaced_and_events_go_on() -> None:
    overlay = Overlay(replace(DEFAULT, out_degree=2))
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=1.0)
    overlay.subscriber("b", "01", bound=5.0)
    overlay.subscriber("c", "1", bound=1.0)
    overlay.cycles(12)
    assert overlay.tree() == {"a": ["p"], "b": ["a"], "c": ["p"]}
    overlay.kill("a")
    overlay.cycles(12)
    overlay.publish("p", 1, "0110")
    assert [one.number for one in overlay.delivered["b"]] == [1]


RUN = """
from tests.peers.bench import Overlay
overlay = Overlay(seed=5)
overlay.publisher("p")
for number in range(20):
    overlay.subscriber(f"s{number}", format(number % 8, "03b"), bound=1.0 + number, allowed=0.3)
overlay.cycles(15)
for said in overlay.said:
    print(said)
"""


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", RUN],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert "Connect" in runs.pop()


def test_what_a_parent_gets_is_heard_only_from_itself() -> None:
    alone = Alone("0", bound=5.0)
    parent = profile("b", "0", bound=2.0, fed=False)
    alone.knows(parent)
    request = alone.asks()
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    heard = []
    for sender in ("x", "b"):
        alone.tell(sender, Feed(False, request.number, ("0",), 1.0))
        heard.append(alone.peer.fed)
    assert heard == [(), ("0",)]


def two_hungry_parents() -> tuple[Alone, Connect, Connect]:
    """A peer that waits for two parents, neither of which gets all of what it should send."""
    alone = Alone("0011", bound=9.0, allowed=0.5)
    hungry = profile("b", "0011", bound=2.0, fed=False)
    alone.knows(hungry)
    first = alone.asks()
    alone.tell("b", Accept(False, first.number, hungry, first.sent))
    alone.tell("b", Feed(False, first.number, (), 0.0, hope=False))
    alone.denied(4)
    other = profile("c", "001", bound=3.0, fed=False)
    alone.knows(other)
    second = alone.asks()
    assert second.asked == ("001",)
    alone.tell("c", Accept(False, second.number, other, second.sent))
    assert alone.cycle() == []
    return alone, first, second


def test_of_two_parents_that_get_only_some_and_send_the_same_one_is_left() -> None:
    alone, first, _ = two_hungry_parents()
    for parent in ("b", "c"):
        alone.tell(parent, Event("q", 1, "00110", 1.0))
    assert alone.cycle() == [("b", Leave(False, first.number))]


@pytest.mark.parametrize(
    ("senders", "publisher"),
    [(("b", "x"), "q"), (("x", "x"), "q"), (("b", "b"), "q"), (("b", "c"), "a"), (("x",), "a")],
    ids=["stranger", "strangers", "itself", "own", "own of a stranger"],
)
def test_only_two_parents_that_send_the_same_are_one_too_many(
    senders: tuple[str, ...], publisher: str
) -> None:
    alone, _, _ = two_hungry_parents()
    for sender in senders:
        alone.tell(sender, Event(publisher, 1, "00110", 1.0))
    assert alone.cycle() == []
    assert sorted(alone.peer.parents) == [("b", False), ("c", False)]


def test_a_parent_that_gets_only_some_goes_when_all_publishers_send_the_same() -> None:
    alone = Alone("0011", bound=9.0)
    hungry, root = profile("b", "0011", bound=2.0, fed=False), profile("p", "", bound=0.0)
    alone.knows(hungry)
    first = alone.asks()
    alone.tell("b", Accept(False, first.number, hungry, first.sent))
    alone.tell("b", Feed(False, first.number, (), 0.0, hope=False))
    alone.knows(root)
    second = alone.asks()
    assert alone.hears("p", Accept(True, second.number, root, second.sent)) == [
        ("b", Leave(False, first.number))
    ]


def test_a_parent_that_gets_only_some_does_not_send_what_comes_from_another() -> None:
    alone = Alone("0011", bound=9.0, allowed=0.9)
    fed, hungry = profile("b", "0011", bound=2.0), profile("c", "001", bound=3.0, fed=False)
    alone.knows(fed, profile("p", "", bound=0.0, floor=1.0))
    first = alone.asks()
    alone.tell("b", Accept(False, first.number, fed, first.sent))
    alone.tell("b", Feed(False, first.number, (), 0.0, hope=False))
    alone.denied(4)
    alone.knows(hungry)
    second = alone.asks()
    alone.tell("c", Accept(False, second.number, hungry, second.sent))
    alone.tell("b", Feed(False, first.number, ("0011",), 1.0))
    for parent in ("b", "c"):
        alone.tell(parent, Event("q", 1, "00110", 1.0))
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    assert said["c"].asked == ("0010",)


def test_a_parent_that_gets_only_some_does_not_send_what_a_publisher_sends() -> None:
    alone = Alone("0011", bound=9.0)
    hungry, root = profile("b", "0011", bound=2.0, fed=False), profile("p", "", bound=0.0)
    alone.knows(hungry)
    first = alone.asks()
    alone.tell("b", Accept(False, first.number, hungry, first.sent))
    alone.tell("b", Feed(False, first.number, (), 0.0, hope=False))
    alone.knows(root, profile("q", "", bound=0.0, floor=1.0))
    second = alone.asks()
    alone.tell("p", Accept(True, second.number, root, second.sent))
    alone.denied(1)
    assert sorted(alone.peer.parents) == [("b", False), ("p", True)], "q is wanted too"
    for parent in ("b", "p"):
        alone.tell(parent, Event("p", 1, "00110", 1.0))
    assert ("b", Leave(False, first.number)) in alone.cycle()


def test_a_parent_that_was_left_since_it_sends_the_same_is_not_asked_again_by_what_was_said_before() -> None:
    alone = Alone("0011", bound=9.0)
    numbers = []
    for name in ("b", "c"):
        alone.knows(profile(name, "0011", bound=2.0))
        request = alone.asks()
        numbers.append(request.number)
        hungry = profile(name, "0011", bound=2.0, fed=False, version=2)
        alone.tell(name, Accept(False, request.number, hungry, request.sent))
        alone.tell(name, Feed(False, request.number, (), 0.0, hope=False))
    for name in ("b", "c"):
        alone.tell(name, Event("q", 1, "00110", 1.0))
    assert alone.cycle() == [("c", Leave(False, numbers[1]))]
    assert [alone.cycle() for _ in range(4)] == [[]] * 4
    alone.knows(profile("c", "0011", bound=2.0, version=3))
    assert [to for to, _ in alone.cycle()] == ["c"], "it says anew that it gets it"


def test_publishers_do_not_send_what_a_parent_sends_while_one_of_them_is_full() -> None:
    alone = Alone("0011", bound=9.0, allowed=0.1)
    parent, full = profile("b", "0011", bound=2.0), profile("q", "", bound=0.0, floor=1.0)
    alone.knows(parent)
    first = alone.asks()
    alone.tell("b", Accept(False, first.number, parent, first.sent))
    alone.tell("b", Feed(False, first.number, (), 0.0, hope=False))
    alone.knows(full)
    alone.denied(4)
    assert alone.peer.dz == ("001",)
    alone.tell("b", Feed(False, first.number, ("0011",), 1.0))
    root = profile("p", "", bound=0.0)
    alone.knows(root)
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    assert said["p"].asked == ("001",)
    alone.tell("p", Accept(True, said["p"].number, root, said["p"].sent))
    for sender in ("p", "b"):
        alone.tell(sender, Event("p", 1, "00110", 1.0))
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    assert said["p"].asked == ("0010",)
    alone.tell("p", Accept(True, said["p"].number, root, said["p"].sent))
    for _ in range(20):
        asked = [message for to, message in alone.cycle() if to == "q" and isinstance(message, Connect)]
        if asked:
            break
    assert asked[0].asked == ("001",)
    alone.tell("q", Accept(True, asked[0].number, full, asked[0].sent))
    assert alone.peer.fed == ("001",)
    alone.tell("b", Event("q", 2, "00110", 1.0))
    alone.tell("q", Event("q", 2, "00110", 1.0))
    alone.cycle()
    assert {key: one.asked for key, one in alone.peer.parents.items()} == {
        ("b", False): ("0011",),
        ("p", True): ("0010",),
        ("q", True): ("0010",),
    }
    assert (alone.peer.fed, alone.peer.covered) == (("001",), True)
