"""What a user is told: what may be expected, and what is not kept and why."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.peers.alone import Alone
from tests.peers.bench import Overlay, profile
from tidings.peers.events import Admit, AnyHappened, Joined, Received, Send, Subscribed, TimerFired
from tidings.peers.messages import Accept, Connect, Enquire, Foresee, Profile
from tidings.peers.outlooks import Cause
from tidings.peers.peer import Peer
from tidings.peers.settings import DEFAULT


def test_an_uncovered_peer_says_why_and_what_would_help() -> None:
    alone = Alone("0110", bound=3.0)
    alone.knows(profile("p", "", bound=0.0, floor=1 / 16))
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.cause is Cause.ROOM
    assert violation.waste == pytest.approx(1 / 16)
    assert violation.text == (
        "no parent within 3 hops covers 0110: the one known that could is full; accepting 6.2% waste would"
    )


def test_the_waste_that_would_help_is_that_of_all_missing_parts() -> None:
    alone = Alone("0110", "1100", "1110", bound=3.0)
    alone.knows(profile("p", "", bound=0.0, floor=3 / 16))
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.waste == pytest.approx(3 / 16)
    assert violation.text == (
        "no parent within 3 hops covers 0110 and 2 other parts: the one known that could is full; "
        "accepting 18.8% waste would"
    )


def test_who_would_be_asked_for_several_parts_has_room_for_all_of_them_together() -> None:
    for floor, waste in ((1 / 8, None), (3 / 16, 3 / 16), (3 / 8, 5 / 16)):
        alone = Alone("0110", "1100", "1110", bound=3.0)
        alone.knows(profile("p", "", bound=0.0, floor=floor))
        violation = alone.peer.violation()
        assert violation is not None
        assert violation.waste == (None if waste is None else pytest.approx(waste)), floor


def test_no_waste_is_named_where_a_part_cannot_be_had_at_all() -> None:
    alone = Alone("0110", "1100", bound=3.0)
    alone.knows(profile("p", "0", bound=0.0, floor=1 / 16), profile("q", "1", bound=0.0, floor=1.0))
    violation = alone.peer.violation()
    assert violation is not None
    assert (violation.cause, violation.waste) == (Cause.ROOM, None)
    assert violation.text == (
        "no parent within 3 hops covers 1100 and another part: the one known that could is full"
    )


def test_where_somebody_has_room_nobody_is_called_full() -> None:
    alone = Alone("0110", bound=3.0)
    alone.knows(profile("p", "", bound=0.0, floor=1.0), profile("b", "01", bound=2.0))
    violation = alone.peer.violation()
    assert violation is not None
    assert (violation.cause, violation.waste) == (Cause.ASKING, None)
    assert violation.text == "no parent within 3 hops covers 0110 yet: b has room"


def test_a_publisher_that_is_a_parent_is_not_called_full() -> None:
    alone = Alone("0110", bound=3.0)
    full, other = profile("p", "", bound=0.0, floor=1.0), profile("q", "", bound=0.0, floor=1 / 16)
    alone.knows(full)
    request = alone.asks()
    alone.tell("p", Accept(True, request.number, full, request.sent))
    alone.knows(other)
    alone.denied(1)
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.waste is None, "q is full, by its answer"
    alone.knows(profile("q", "", bound=0.0, floor=1 / 16, version=2))
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.waste == pytest.approx(1 / 16)


def test_a_parent_that_gets_a_part_is_not_said_to_get_nothing() -> None:
    alone = Alone("000", "01", bound=3.0)
    half = Profile("b", 1, False, 2.0, ("0",), ("01",), 1.0, 0.0)
    alone.knows(half, profile("p", "", bound=0.0, floor=1.0))
    for request in [message for to, message in alone.cycle() if to == "b" and isinstance(message, Connect)]:
        alone.tell("b", Accept(False, request.number, half, request.sent))
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.cause is Cause.WAITING
    assert violation.text == "b, which should feed 000, does not get it itself"


def test_a_violation_that_lasts_is_reported_once_and_so_is_its_end() -> None:
    overlay = Overlay()
    overlay.subscriber("a", "0110", bound=3.0)
    overlay.cycles(12)
    (first,) = overlay.reported["a"]
    assert first.violation is not None
    assert first.violation.cause is Cause.PUBLISHER
    overlay.publisher("p")
    overlay.cycles(6)
    assert [one.violation for one in overlay.reported["a"][1:]] == [None]


def test_a_newcomer_is_told_at_once_whether_its_bound_can_be_met() -> None:
    overlay = Overlay(replace(DEFAULT, out_degree=1))
    overlay.publisher("p")
    overlay.subscriber("a", "011", bound=1.0)
    overlay.cycles(6)
    overlay.subscriber("b", "0110", bound=2.0)
    overlay.settle()
    ((met),) = [one.outlook for one in overlay.admitted["b"]]
    assert (met.met, met.waste, met.parent, met.text) == (True, 0.0, "a", "")
    overlay.subscriber("c", "1110", bound=2.0, allowed=0.1)
    overlay.settle()
    (not_met,) = [one.outlook for one in overlay.admitted["c"]]
    assert not_met.met is False
    assert not_met.waste == pytest.approx(3 / 16)
    assert not_met.text == (
        "no parent within 2 hops covers 1110: the one known that could is full; accepting 18.8% waste would"
    )
    overlay.subscriber("d", "1110", bound=2.0, allowed=0.25)
    overlay.settle()
    (wasteful,) = [one.outlook for one in overlay.admitted["d"]]
    assert wasteful.met


def enquiries(peer: Peer, now: float, event: AnyHappened) -> tuple[list[str], list[Admit]]:
    """Whom it asks what it may expect, and what it tells its user."""
    effects = peer.handle(event, now)
    asked = [one.to for one in effects if isinstance(one, Send) and isinstance(one.message, Enquire)]
    return asked, [one for one in effects if isinstance(one, Admit)]


def newcomer(*contacts: str) -> tuple[Peer, list[str], list[Admit]]:
    peer = Peer("a", life=1, random=random.Random(1))
    peer.handle(Subscribed(("0110",), 3.0), 0.0)
    asked, told = enquiries(peer, 0.0, Joined(contacts))
    return peer, asked, told


def test_a_newcomer_whose_contact_is_silent_asks_the_next_and_is_told_in_the_end() -> None:
    peer, asked, told = newcomer("x", "y")
    assert (asked, told) == (["x"], [])
    for cycle in range(1, 20):
        more, said = enquiries(peer, cycle + 1.0, TimerFired())
        asked += more
        told += said
        if cycle == 2:
            assert asked == ["x", "y"]
    assert asked == ["x", "y", "x", "y", "x", "y"]
    (admitted,) = told
    assert (admitted.outlook.met, admitted.outlook.text) == (False, "no publisher is known")


def test_a_contact_that_knows_no_publisher_is_not_the_last_word() -> None:
    peer, _, _ = newcomer("x", "y")
    number = 2**32 + 1
    unknowing = Foresee(number, False, 1.0, None, "no publisher is known", knows=False)
    assert enquiries(peer, 0.1, Received("x", unknowing)) == ([], [])
    assert enquiries(peer, 1.5, TimerFired()) == (["y"], [])
    answer = Foresee(number, True, 0.0, profile("p", "", bound=0.0), "")
    _, (admitted,) = enquiries(peer, 1.6, Received("y", answer))
    assert (admitted.outlook.met, admitted.outlook.parent) == (True, "p")
    assert enquiries(peer, 1.7, Received("x", answer)) == ([], []), "it is told once"
    assert peer.counts.malformed == 0


def test_a_no_is_told_once_all_contacts_have_said_it_and_by_the_one_that_needs_least() -> None:
    peer, asked, told = newcomer("x", "y", "z")
    number, parent = 2**32 + 1, profile("p", "", bound=0.0)
    for sender, waste in (("x", 0.5), ("y", 0.25), ("z", 0.375)):
        answer = Foresee(number, False, waste, parent, f"{waste:.1%} would do")
        more, said = enquiries(peer, 0.1, Received(sender, answer))
        asked += more
        told += said
    assert asked == ["x", "y", "z"]
    (admitted,) = told
    assert (admitted.outlook.met, admitted.outlook.text) == (False, "25.0% would do")


def test_a_yes_of_the_second_contact_is_told_at_once() -> None:
    peer, _, _ = newcomer("x", "y", "z")
    number, parent = 2**32 + 1, profile("p", "", bound=0.0)
    assert enquiries(peer, 0.1, Received("x", Foresee(number, False, 0.5, parent, "full"))) == (["y"], [])
    _, (admitted,) = enquiries(peer, 0.1, Received("y", Foresee(number, True, 0.0, parent, "")))
    assert admitted.outlook.met


def test_a_no_is_told_although_the_other_contacts_are_silent() -> None:
    peer, _, _ = newcomer("x", "y")
    no = Foresee(2**32 + 1, False, 0.5, profile("p", "", bound=0.0), "full")
    assert enquiries(peer, 0.1, Received("x", no)) == (["y"], [])
    told = [one for cycle in range(2, 16) for one in enquiries(peer, float(cycle), TimerFired())[1]]
    assert [one.outlook.text for one in told] == ["full"]


def test_a_forecast_is_taken_only_from_those_who_were_asked() -> None:
    peer, _, _ = newcomer("x", "y")
    answer = Foresee(2**32 + 1, True, 0.0, profile("p", "", bound=0.0), "")
    assert enquiries(peer, 0.1, Received("y", answer)) == ([], [])
    assert peer.counts.malformed == 1


def test_a_contact_that_has_only_just_joined_says_that_it_knows_nothing() -> None:
    overlay = Overlay()
    overlay.subscriber("a", "011", bound=3.0)
    overlay.subscriber("b", "0110", bound=4.0)
    overlay.settle()
    assert overlay.admitted["b"] == []
    overlay.publisher("p")
    overlay.cycles(8)
    (admitted,) = overlay.admitted["b"]
    assert admitted.outlook.met


def test_a_newcomer_without_contacts_is_told_what_it_knows_itself() -> None:
    _, _, (admitted,) = newcomer()
    assert (admitted.outlook.met, admitted.outlook.text) == (False, "no publisher is known")
