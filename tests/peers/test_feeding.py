"""Whom a peer feeds: Algorithm 1, lines 7-20, each repair with its printed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.peers.alone import Alone
from tests.peers.bench import profile
from tidings.peers.messages import Accept, Alive, Connect, Evict, Feed, Leave, Refuse, Why
from tidings.peers.settings import DEFAULT, PRINTED, REPAIRED

SMALL = replace(DEFAULT, out_degree=2)


def refusal(alone: Alone, request: Connect) -> Refuse:
    (answer,) = alone.hears(request.profile.peer, request)
    assert isinstance(answer[1], Refuse)
    return answer[1]


@pytest.mark.parametrize(("bound", "taken"), [(6.0, True), (5.5, False), (5.0, False), (1.0, False)])
def test_a_link_leads_to_a_bound_that_is_looser_by_a_hop(bound: float, taken: bool) -> None:
    assert Alone("0", bound=5.0).takes("b", "01", bound=bound) is taken


@pytest.mark.parametrize(("bound", "taken"), [(5.1, True), (5.0, False)])
def test_in_milliseconds_any_looser_bound_is_taken(bound: float, taken: bool) -> None:
    alone = Alone("0", bound=5.0, settings=replace(DEFAULT, metric="ms"))
    assert alone.takes("b", "01", bound=bound) is taken


def test_as_printed_line_8_takes_the_tighter_and_nobody_at_a_publisher() -> None:
    printed = replace(DEFAULT, requester_compared=False)
    assert Alone("0", bound=5.0, settings=printed).takes("b", "01", bound=3.0)
    assert not Alone(advertised=("",), settings=printed).takes("b", "01", bound=3.0, root=True)


def test_a_request_that_is_too_tight_is_refused_with_a_hint_that_is_tight_enough() -> None:
    alone = Alone("0", bound=5.0)
    alone.knows(profile("c", "0", bound=2.0), profile("d", "0", bound=4.0), profile("e", "1", bound=1.0))
    no = refusal(alone, alone.request("b", "01", bound=4.0))
    assert (no.why, no.hint and no.hint.peer) == (Why.BOUND, "c")


def test_as_printed_a_hint_may_be_looser_than_who_asked() -> None:
    alone = Alone("0", bound=5.0, settings=replace(DEFAULT, hint_checked=False))
    alone.knows(profile("c", "0", bound=2.0), profile("d", "0", bound=9.0))
    no = refusal(alone, alone.request("b", "01", bound=4.0))
    assert no.hint is not None
    assert no.hint.peer == "d"


def test_a_hint_is_who_gets_it_rather_than_who_does_not() -> None:
    alone = Alone("0", bound=5.0)
    alone.knows(profile("c", "0", bound=3.0, fed=False), profile("d", "0", bound=2.0))
    no = refusal(alone, alone.request("b", "01", bound=4.0))
    assert no.hint is not None
    assert no.hint.peer == "d"


def test_what_is_not_subscribed_to_is_refused_and_as_printed_taken() -> None:
    alone = Alone("00", bound=2.0)
    assert refusal(alone, alone.request("b", "01", bound=4.0)).why is Why.COVER
    assert Alone("00", bound=2.0, settings=PRINTED).takes("b", "01", bound=4.0)


def test_who_does_not_publish_or_subscribe_says_so() -> None:
    alone = Alone("0", bound=2.0)
    assert refusal(alone, alone.request("b", "01", bound=4.0, root=True)).why is Why.ROLE
    publisher = Alone(advertised=("0",))
    assert refusal(publisher, publisher.request("b", "01", bound=4.0)).why is Why.ROLE


def test_over_the_out_degree_the_most_selective_goes_then_the_loosest() -> None:
    alone = Alone("", bound=1.0, settings=replace(REPAIRED, out_degree=2))
    for peer, dz, bound in (("b", "00", 9.0), ("c", "010", 3.0), ("d", "10", 7.0), ("e", "11", 4.0)):
        alone.hears(peer, alone.request(peer, dz, bound=bound))
    assert sorted(peer for peer, _ in alone.peer.children) == ["d", "e"]


def test_who_is_evicted_gives_up_its_place_and_is_told_who_covers_it() -> None:
    alone = Alone("", bound=1.0, settings=replace(REPAIRED, out_degree=2))
    alone.knows(profile("x", "01", bound=2.0), profile("y", "01", bound=8.0), profile("z2", "1", bound=2.0))
    alone.takes("b", "00", bound=9.0)
    first = alone.request("c", "010", bound=3.0)
    alone.hears("c", first)
    (evicted, accepted) = alone.hears("d", alone.request("d", "10", bound=7.0))
    assert evicted[0] == "c"
    assert isinstance(evicted[1], Evict)
    assert (evicted[1].number, evicted[1].why) == (first.number, Why.FULL)
    assert evicted[1].hint is not None
    assert evicted[1].hint.peer == "x"
    assert isinstance(accepted[1], Accept)
    assert ("c", False) not in alone.peer.children


def test_as_printed_who_is_evicted_still_takes_a_place() -> None:
    alone = Alone("", bound=1.0, settings=replace(PRINTED, out_degree=2))
    for peer, dz in (("b", "00"), ("c", "01"), ("d", "010")):
        alone.hears(peer, alone.request(peer, dz, bound=9.0))
    alone.hears("c", Leave(False, 10_000))
    assert not alone.takes("e", "0000", bound=9.0)


def test_who_leaves_frees_a_place_and_as_printed_does_not() -> None:
    for settings, free in ((SMALL, True), (replace(SMALL, disconnect_frees=False), False)):
        alone = Alone("", bound=1.0, settings=settings)
        alone.takes("b", "00", bound=9.0)
        alone.takes("c", "01", bound=9.0)
        alone.hears("c", Leave(False, 10_000))
        assert alone.takes("d", "1000", bound=9.0) is free


def test_an_older_leave_does_not_end_a_newer_link() -> None:
    alone = Alone("", bound=1.0)
    request = alone.request("b", "00", bound=9.0)
    alone.hears("b", request)
    alone.hears("b", Leave(False, request.number - 1))
    assert ("b", False) in alone.peer.children


def test_a_request_that_was_overtaken_is_not_taken() -> None:
    alone = Alone("", bound=1.0)
    older = alone.request("b", "0", bound=9.0)
    assert alone.takes("b", "00", bound=9.0)
    assert alone.hears("b", older) == []
    assert alone.peer.children["b", False].asked == ("00",)
    assert alone.peer.counts.overtaken == 1


def test_whom_a_sibling_can_serve_is_evicted_first_with_the_sibling_as_hint() -> None:
    alone = Alone("", bound=1.0, settings=SMALL)
    assert alone.takes("b", "0", bound=2.0)
    assert alone.takes("c", "01", bound=5.0)
    evicted, _ = alone.hears("d", alone.request("d", "1000", bound=9.0))
    assert evicted[0] == "c"
    assert isinstance(evicted[1], Evict)
    assert evicted[1].hint is not None
    assert evicted[1].hint.peer == "b"


def test_a_newcomer_whom_a_child_can_serve_is_sent_there() -> None:
    alone = Alone("", bound=1.0, settings=SMALL)
    assert alone.takes("b", "0", bound=2.0)
    assert alone.takes("c", "1", bound=5.0)
    no = refusal(alone, alone.request("d", "0111", bound=9.0))
    assert (no.why, no.hint and no.hint.peer) == (Why.FULL, "b")


@pytest.mark.parametrize(
    ("dz", "bound", "floor"),
    [("1", 2.0, 0.0), ("0", 6.0, 0.0), ("0", 2.0, 0.5)],
    ids=["elsewhere", "looser", "full"],
)
def test_a_sibling_serves_only_what_it_gets_in_time_and_has_room_for(
    dz: str, bound: float, floor: float
) -> None:
    alone = Alone("", bound=1.0, settings=SMALL)
    alone.hears("b", alone.request("b", dz, bound=bound, floor=floor))
    alone.takes("c", "01", bound=5.0)
    no = refusal(alone, alone.request("d", "00000", bound=9.0))
    assert sorted(peer for peer, _ in alone.peer.children) == ["b", "c"]
    assert no.floor == 0.25


def test_of_two_that_get_the_same_one_goes_if_no_sibling_can_serve_anybody() -> None:
    for repeated_next, gone in ((True, "c"), (False, "d")):
        alone = Alone("", bound=1.0, settings=replace(SMALL, repeated_next=repeated_next))
        for peer, dz in (("b", "0"), ("c", "0"), ("d", "1000")):
            alone.hears(peer, alone.request(peer, dz, bound=2.0))
        assert sorted(peer for peer, _ in alone.peer.children) == sorted({"b", "c", "d"} - {gone})


def test_equals_do_not_take_turns() -> None:
    alone = Alone("", bound=1.0, settings=SMALL)
    for peer, dz in (("b", "00"), ("c", "01"), ("d", "10"), ("e", "11")):
        alone.hears(peer, alone.request(peer, dz, bound=2.0))
    assert sorted(peer for peer, _ in alone.peer.children) == ["b", "c"]


def test_a_child_that_says_nothing_for_three_cycles_is_given_up() -> None:
    alone = Alone("0", bound=1.0)
    request = alone.request("b", "01", bound=9.0)
    alone.hears("b", request)
    for _ in range(3):
        alone.cycle()
    assert alone.hears("b", Alive(False, request.number)) == [
        ("b", Feed(False, request.number, (), 0.0, sent=0.0))
    ]
    for _ in range(4):
        alone.cycle()
    assert alone.peer.children == {}
    assert alone.hears("b", Alive(False, request.number)) == [
        ("b", Evict(False, request.number, Why.STRANGER))
    ]


def test_a_lost_request_for_less_is_made_up_for_by_the_next_sign_of_life() -> None:
    alone = Alone("0", bound=1.0)
    request = alone.request("b", "01", bound=9.0)
    alone.hears("b", request)
    ((_, answer),) = alone.hears("b", Alive(False, request.number + 1, 0.0, None, ("010",)))
    assert isinstance(answer, Feed)
    assert alone.peer.children["b", False].asked == ("010",)


def test_a_sign_of_life_cannot_ask_for_more() -> None:
    alone = Alone("0", bound=1.0)
    request = alone.request("b", "01", bound=9.0)
    alone.hears("b", request)
    ((_, answer),) = alone.hears("b", Alive(False, request.number + 1, 0.0, None, ("0",)))
    assert isinstance(answer, Evict)
