"""What a peer does, by value and by conversation."""

from __future__ import annotations

from tests.peers.bench import Overlay


def test_a_subscriber_connects_to_the_publisher_and_is_fed() -> None:
    overlay = Overlay()
    overlay.publisher("p")
    peer = overlay.subscriber("a", "011", bound=3.0)
    overlay.cycles(2)
    assert [said for said in overlay.said if "Feed" not in said] == [
        "a>p Connect root 011",
        "p>a Accept root",
    ]
    assert overlay.tree() == {"a": ["p"]}
    assert (peer.covered, peer.satisfied, peer.fed, peer.delay) == (True, True, ("011",), 1.0)


def test_an_event_reaches_those_whose_subscription_it_lies_in_once() -> None:
    overlay = Overlay()
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=1.0)
    overlay.subscriber("b", "01", bound=5.0)
    overlay.cycles(10)
    overlay.publish("p", 1, "0110")
    overlay.publish("p", 2, "0010")
    overlay.publish("p", 3, "1010")
    assert [one.number for one in overlay.delivered["a"]] == [1, 2]
    assert [one.number for one in overlay.delivered["b"]] == [1]
