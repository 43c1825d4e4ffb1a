"""Who feeds a peer: Algorithm 1, lines 1-6 and 21-30."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.peers.alone import Alone
from tests.peers.bench import Overlay, profile
from tidings.peers.messages import Accept, Alive, Connect, Evict, Feed, Leave, Profile, Refuse, Shuffle, Why
from tidings.peers.settings import DEFAULT, REPAIRED

ROOT = profile("p", "", bound=0.0)


def accepted(alone: Alone, parent: Profile, request: Connect) -> None:
    alone.tell(parent.peer, Accept(request.root, request.number, parent, request.sent))


def fed_by(alone: Alone, parent: Profile) -> Connect:
    """Let the peer find this parent, and no other."""
    alone.knows(parent)
    request = alone.asks()
    accepted(alone, parent, request)
    return request


def test_a_parent_that_gets_it_goes_before_one_that_does_not_and_before_publishers() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(ROOT, profile("b", "0", bound=4.0, fed=False), profile("c", "0", bound=2.0))
    assert [(to, type(message)) for to, message in alone.cycle()] == [("c", Connect)]


def test_a_parent_that_does_not_get_it_yet_goes_before_publishers() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(ROOT, profile("b", "0", bound=4.0, fed=False))
    assert [to for to, _ in alone.cycle()] == ["b"]


def test_the_loosest_parent_is_asked_first() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("b", "0", bound=1.0), profile("c", "01", bound=4.0), profile("d", "0", bound=5.0))
    assert [to for to, _ in alone.cycle()] == ["c"]


def test_who_is_full_is_asked_last() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(ROOT, profile("b", "0", bound=4.0, floor=0.5))
    assert [to for to, _ in alone.cycle()] == ["p"]


def test_who_said_no_rests_and_the_hint_is_asked_next() -> None:
    for settings, at_once in ((DEFAULT, ["h"]), (REPAIRED, [])):
        alone = Alone("011", bound=5.0, settings=settings)
        alone.knows(profile("b", "0", bound=4.0))
        request = alone.asks()
        no = Refuse(False, request.number, Why.FULL, profile("h", "01", bound=2.0), 0.5)
        assert [to for to, _ in alone.hears("b", no)] == at_once
        assert [to for to, _ in alone.cycle()] == [one for one in ["h"] if one not in at_once]


def test_hints_that_lead_to_hints_are_followed_only_so_far_in_one_cycle() -> None:
    alone = Alone("011", bound=99.0, settings=replace(DEFAULT, requests=3))
    alone.knows(profile("h0", "0", bound=4.0))
    asked = [*alone.cycle()]
    for number in range(1, 10):
        to, request = asked[-1]
        assert isinstance(request, Connect)
        hint = profile(f"h{number}", "0", bound=4.0)
        asked += alone.hears(to, Refuse(False, request.number, Why.FULL, hint, 0.5))
    assert [to for to, _ in asked] == ["h0", "h1", "h2", "h3"]
    assert [to for to, _ in alone.cycle()] == ["h4"]


def test_a_hint_does_not_know_better_than_a_parent_what_that_gets() -> None:
    alone = Alone("00", "11", bound=5.0)
    parent = profile("b", "", bound=2.0)
    request = fed_by(alone, parent)
    alone.tell("b", Feed(False, request.number, ("000", "11"), 1.0, hope=False))
    alone.knows(ROOT)
    asking = alone.asks()
    no = Refuse(True, asking.number, Why.FULL, parent, 1.0)
    asked = [*alone.hears("p", no), *alone.cycle()]
    assert [to for to, _ in asked] == []


def test_who_is_full_for_long_is_not_asked_again_until_it_has_room() -> None:
    alone = Alone("011", bound=5.0)
    asked = []
    for cycle in range(260):
        room = cycle >= 250
        alone.knows(profile("p", "", bound=0.0, floor=0.0 if room else 1.0, version=cycle))
        for to, message in alone.cycle():
            assert isinstance(message, Connect)
            asked.append(cycle)
            alone.tell(to, Refuse(message.root, message.number, Why.FULL, None, 1.0))
    assert asked == [0, 2, 6, 14, 30, 250]


def test_who_has_looked_for_long_does_not_begin_to_ask_those_that_are_full() -> None:
    for waited, asked in ((3, ["b"]), (60, [])):
        alone = Alone("011", bound=5.0)
        for _ in range(waited):
            alone.cycle()
        alone.knows(profile("b", "0", bound=1.0, floor=0.5))
        assert [to for to, _ in alone.cycle()] == asked
    alone.knows(profile("b", "0", bound=1.0, version=2))
    assert [to for to, _ in alone.cycle()] == ["b"], "it has room now"


def test_who_loses_its_place_after_long_asks_those_again_that_were_full() -> None:
    def asks_again(cycles: int) -> bool:
        alone = Alone("011", bound=5.0)
        full = profile("p", "", bound=0.0, floor=1.0)
        alone.knows(full)
        alone.denied(45)
        request = fed_by(alone, profile("b", "0", bound=4.0, version=9))
        for cycle in range(cycles):
            alone.knows(msgspec.structs.replace(full, version=cycle + 2))
            alone.cycle()
        alone.tell("b", Evict(False, request.number, Why.LEAVING))
        return any(to == "p" for _ in range(20) for to, _ in alone.cycle())

    assert (asks_again(10), asks_again(50)) == (False, True)


def test_who_says_that_it_does_not_publish_is_not_needed_any_more() -> None:
    alone = Alone("011", bound=5.0)
    fed_by(alone, ROOT)
    alone.knows(profile("b", "", bound=0.0, version=9))
    request = alone.asks()
    before = alone.peer.satisfied
    alone.tell("b", Refuse(True, request.number, Why.ROLE))
    after = alone.peer.satisfied
    alone.knows(profile("b", "", bound=0.0, version=9))
    alone.cycle()
    assert (before, after, alone.peer.satisfied) == (False, True, True), (
        "what it denies is not believed again"
    )


def test_hints_that_cannot_serve_are_not_followed() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0))
    request = alone.asks()
    alone.tell("b", Refuse(False, request.number, Why.FULL, profile("h", "01", bound=5.0), 0.5))
    assert alone.cycle() == []


def test_nobody_is_asked_twice_while_an_answer_is_awaited_and_silence_is_forgotten() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0))
    request = alone.asks()
    assert alone.cycle() == []
    assert alone.cycle() == [("b", Leave(False, request.number))], "it may have said yes, and that was lost"
    assert "b" not in alone.peer.view.profiles
    alone.knows(profile("b", "0", bound=4.0))
    assert "b" not in alone.peer.view.profiles
    alone.knows(profile("b", "0", bound=4.0, version=2))
    assert "b" in alone.peer.view.profiles


def test_a_parent_that_does_not_answer_whether_it_sends_more_is_told_what_it_sends() -> None:
    alone = Alone("000", "011", bound=9.0)
    parent = profile("b", "00", bound=2.0)
    first = fed_by(alone, parent)
    alone.knows(profile("b", "0", bound=2.0, version=2))
    more = alone.asks()
    assert alone.cycle() == []
    again = alone.asks()
    assert (again.asked, again.number > more.number > first.number) == (("000",), True)
    assert alone.peer.parents["b", False].number == again.number


def test_all_missing_expressions_that_a_parent_has_are_asked_for_at_once() -> None:
    alone = Alone("000", "011", "11", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0))
    assert alone.asks().asked == ("000", "011")


def test_different_parents_are_asked_for_different_expressions_in_one_cycle() -> None:
    alone = Alone("000", "011", "11", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0), profile("c", "1", bound=4.0))
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    assert {to: message.asked for to, message in said.items()} == {"b": ("000", "011"), "c": ("11",)}
    for name, dz in (("b", "0"), ("c", "1")):
        accepted(alone, profile(name, dz, bound=4.0), said[name])
    assert alone.peer.satisfied


def test_no_more_requests_than_set_are_without_an_answer() -> None:
    cells = [format(number, "03b") for number in range(0, 8, 2)]
    alone = Alone(*cells, bound=5.0, settings=replace(DEFAULT, requests=3))
    alone.knows(*[profile(f"b{one}", one, bound=4.0) for one in cells])
    first = [to for to, _ in alone.cycle()]
    assert len(first) == 3
    assert alone.cycle() == []
    fourth = f"b{next(one for one in cells if f'b{one}' not in first)}"
    assert [to for to, message in alone.cycle() if isinstance(message, Connect)] == [fourth]


def test_a_hint_is_kept_for_the_expression_that_it_covers() -> None:
    alone = Alone("000", "11", bound=5.0, settings=REPAIRED)
    alone.knows(profile("b", "0", bound=4.0), profile("c", "1", bound=4.0))
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    for name, dz in (("b", "00"), ("c", "11")):
        hint = profile(f"hint of {name}", dz, bound=2.0)
        alone.tell(name, Refuse(False, said[name].number, Why.FULL, hint, 0.5))
    assert sorted(to for to, _ in alone.cycle()) == ["hint of b", "hint of c"]


def test_room_is_looked_for_with_all_that_would_be_asked_for() -> None:
    cells = ("0000", "0010", "0100", "0110")
    alone = Alone(*cells, bound=5.0)
    alone.knows(profile("b", "0", bound=2.0, floor=1 / 8), profile("c", "0", bound=4.0, floor=1 / 2))
    assert [to for to, _ in alone.cycle()] == ["b"], "c is looser, but full"


@pytest.mark.parametrize("other", [profile("b", "0", bound=2.0), profile("b", "1", bound=2.0, floor=1.0)])
def test_after_long_a_small_view_is_for_those_who_serve_what_is_missing(other: Profile) -> None:
    def kept(cycles: int) -> bool:
        alone = Alone("000", "111", bound=5.0, settings=replace(DEFAULT, view=2))
        alone.knows(profile("x", "01", bound=2.0), other)
        for cycle in range(cycles):
            alone.knows(msgspec.structs.replace(other, version=cycle + 2))
            alone.denied(1)
        alone.knows(profile("c", "11", bound=2.0))
        alone.knows(*[profile(f"y{number}", "01", bound=2.0) for number in range(8)])
        return "c" in [one.peer for one in alone.peer.view.relays()]

    assert (kept(10), kept(50)) == (False, True)


def test_a_step_coarser_does_not_put_off_the_search_for_those_who_serve_what_is_missing() -> None:
    alone = Alone("0000", "111", bound=5.0, allowed=1 / 16, settings=replace(DEFAULT, view=2))
    alone.denied(43)
    assert alone.peer.dz == ("000", "111")
    alone.knows(profile("c", "11", bound=2.0))
    alone.knows(*[profile(f"y{number}", "01", bound=2.0) for number in range(8)])
    assert "c" in [one.peer for one in alone.peer.view.relays()]


def test_who_loses_its_place_after_long_soon_looks_for_those_whom_it_does_not_know() -> None:
    def found(cycles: int) -> bool:
        alone = Alone("111", bound=5.0, settings=replace(DEFAULT, view=2))
        request = fed_by(alone, profile("b", "11", bound=2.0))
        for _ in range(45):
            alone.cycle()
        alone.tell("b", Evict(False, request.number, Why.LEAVING))
        alone.denied(cycles)
        alone.knows(profile("h", "11", bound=2.0, fed=False))
        alone.knows(profile("c", "11", bound=2.0))
        alone.knows(*[profile(f"y{number}", "01", bound=2.0) for number in range(8)])
        return "c" in [one.peer for one in alone.peer.view.relays()]

    assert (found(4), found(12)) == (False, True)


def test_to_ask_a_parent_for_less_takes_back_what_it_was_asked_for_besides() -> None:
    alone = Alone("00", "010", "0110", bound=9.0)
    b, c = profile("b", "00", "0110", bound=2.0, fed=False), profile("c", "00", bound=3.0)
    first = fed_by(alone, b)
    alone.tell("b", Feed(False, first.number, ("01",), 1.0, hope=False))
    alone.knows(Profile("b", 2, False, 2.0, ("0",), ("01",), 1.0, 0.0), c)
    said = {to: message for to, message in alone.cycle() if isinstance(message, Connect)}
    assert {to: message.asked for to, message in said.items()} == {"b": ("00", "010", "0110"), "c": ("00",)}
    ((to, less),) = alone.hears("c", Accept(False, said["c"].number, c))
    assert isinstance(less, Connect)
    assert (to, less.asked) == ("b", ("0110",))
    assert alone.hears("b", Accept(False, said["b"].number, b)) == [("b", Leave(False, said["b"].number))]
    assert alone.peer.parents["b", False].number == less.number
    assert alone.asks().asked == ("010", "0110")


def test_an_answer_that_comes_too_late_frees_the_place() -> None:
    alone = Alone("011", bound=5.0)
    parent = profile("b", "0", bound=4.0)
    assert alone.hears("b", Accept(False, 77, parent)) == [("b", Leave(False, 77))]
    assert alone.peer.parents == {}


def test_a_parent_that_is_not_tighter_after_all_is_left() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0))
    request = alone.asks()
    answer = alone.hears("b", Accept(False, request.number, profile("b", "0", bound=5.0), request.sent))
    assert answer == [("b", Leave(False, request.number))]
    assert alone.peer.parents == {}


def test_a_parent_that_does_not_cover_after_all_is_left() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("b", "0", bound=4.0))
    request = alone.asks()
    answer = alone.hears("b", Accept(False, request.number, profile("b", "00", bound=4.0), request.sent))
    assert answer == [("b", Leave(False, request.number))]


def test_a_slow_link_is_left_when_milliseconds_count() -> None:
    alone = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
    parent = profile("b", "0", bound=40.0)
    alone.knows(parent)
    request = alone.asks()
    alone.now += 0.030
    assert alone.hears("b", Accept(False, request.number, parent, request.sent)) == [
        ("b", Leave(False, request.number))
    ]
    quick = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
    quick.knows(parent)
    request = quick.asks()
    quick.now += 0.010
    accepted(quick, parent, request)
    assert quick.peer.parents["b", False].link == pytest.approx(5.0)
    assert quick.peer.delay == pytest.approx(6.0)


def test_who_would_send_somebody_away_is_asked_only_if_it_is_near_enough() -> None:
    for link_ms, asked in ((2.0, ["b"]), (30.0, [])):
        alone = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
        alone.knows(profile("b", "0", bound=40.0, floor=0.01))
        assert alone.cycle() == []
        alone.now += 2 * link_ms / 1000.0
        alone.tell("b", Shuffle((), (), answer=True))
        assert [to for to, _ in alone.cycle()] == asked, link_ms


def test_who_does_not_say_how_far_away_it_is_is_forgotten() -> None:
    alone = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
    alone.knows(profile("b", "0", bound=40.0, floor=0.01))
    for _ in range(3):
        assert alone.cycle() == []
    assert "b" not in alone.peer.view.profiles


@pytest.mark.parametrize("echo", [0.0, 1e9, -1.0])
def test_a_wrong_echo_makes_no_link_look_quicker(echo: float) -> None:
    alone = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
    parent = profile("b", "0", bound=30.0)
    alone.knows(parent)
    request = alone.asks()
    alone.now += 0.020
    alone.tell("b", Accept(False, request.number, parent, request.sent + echo))
    link = alone.peer.parents["b", False]
    assert link.link == pytest.approx(10.0)
    alone.silent = True
    alone.cycle()
    alone.now += 0.001
    alone.tell("b", Feed(False, request.number, ("0",), 1.0, sent=alone.now))
    assert link.link == pytest.approx(10.0), "nothing was sent at that time"
    assert alone.peer.counts.malformed == 1


def test_an_echo_measures_a_link_once() -> None:
    alone = Alone("011", bound=50.0, settings=replace(DEFAULT, metric="ms"))
    parent = profile("b", "0", bound=30.0)
    alone.knows(parent)
    request = alone.asks()
    alone.now += 0.020
    accepted(alone, parent, request)
    alone.cycle()
    sent = alone.now
    alone.now += 0.004
    for _ in range(2):
        alone.tell("b", Feed(False, request.number, ("0",), 1.0, sent=sent))
        assert alone.peer.parents["b", False].link == pytest.approx(0.75 * 10.0 + 0.25 * 2.0)


def test_covered_means_one_subscriber_or_all_relevant_publishers() -> None:
    alone = Alone("011", bound=5.0)
    other = profile("q", "01", bound=0.0)
    alone.knows(ROOT, other, profile("r", "1", bound=0.0))
    accepted(alone, ROOT, alone.asks())
    before = alone.peer.covered
    second = alone.asks()
    alone.tell("q", Accept(True, second.number, other, second.sent))
    assert (before, alone.peer.covered, alone.peer.satisfied) == (False, True, True)
    assert sorted(peer for peer, _ in alone.peer.parents) == ["p", "q"]


def test_with_the_switch_any_relevant_publisher_will_do() -> None:
    alone = Alone("011", bound=5.0, settings=replace(DEFAULT, publishers_all=False))
    alone.knows(ROOT, profile("q", "01", bound=0.0))
    accepted(alone, ROOT, alone.asks())
    assert alone.peer.covered


def test_a_new_publisher_uncovers_what_comes_from_publishers() -> None:
    alone = Alone("011", bound=5.0)
    fed_by(alone, ROOT)
    assert alone.peer.satisfied
    alone.knows(profile("q", "0", bound=0.0))
    assert [(to, type(message)) for to, message in alone.cycle()] == [("q", Connect)]
    assert not alone.peer.satisfied


def test_a_new_publisher_is_missed_as_soon_as_it_is_heard_of() -> None:
    alone = Alone("011", bound=5.0)
    fed_by(alone, ROOT)
    assert alone.takes("c", "011", bound=9.0)
    assert alone.peer.satisfied
    heard = alone.hears("z", Shuffle((profile("q", "0", bound=0.0),), (0,), answer=True))
    assert [(to, message.fed) for to, message in heard if isinstance(message, Feed)] == [("c", ())]
    assert not alone.peer.satisfied


def test_nobody_is_satisfied_who_knows_no_publisher() -> None:
    alone = Alone("011", bound=5.0)
    alone.cycle()
    assert not alone.peer.covered
    assert not alone.peer.satisfied


def test_where_nobody_publishes_nothing_is_missing() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(profile("p", "1", bound=0.0))
    assert alone.cycle() == []
    assert alone.peer.satisfied


def test_a_subscriber_that_feeds_makes_publishers_unnecessary() -> None:
    alone = Alone("011", bound=5.0)
    alone.knows(ROOT, profile("q", "", bound=0.0))
    first = alone.asks()
    accepted(alone, ROOT, first)
    alone.knows(profile("b", "0", bound=4.0))
    second = alone.asks()
    left = alone.hears("b", Accept(False, second.number, profile("b", "0", bound=4.0), second.sent))
    assert left == [("p", Leave(True, first.number))]
    assert list(alone.peer.parents) == [("b", False)]


def test_a_parent_that_gets_nothing_is_waited_for_and_then_replaced() -> None:
    alone = Alone("011", bound=5.0)
    hungry = profile("b", "0", bound=4.0, fed=False)
    request = fed_by(alone, hungry)
    alone.knows(profile("c", "0", bound=2.0))
    assert alone.peer.covered
    assert not alone.peer.satisfied
    assert alone.cycle() == []
    alone.tell("b", Feed(False, request.number, (), 0.0, hope=False))
    other = alone.asks()
    left = alone.hears("c", Accept(False, other.number, profile("c", "0", bound=2.0), other.sent))
    assert left == [("b", Leave(False, request.number))]
    assert alone.peer.satisfied


def test_as_printed_a_parent_that_gets_nothing_is_as_good_as_any() -> None:
    alone = Alone("011", bound=5.0, settings=replace(DEFAULT, fed_known=False))
    request = fed_by(alone, profile("b", "0", bound=4.0, fed=False))
    alone.knows(profile("c", "0", bound=2.0))
    alone.tell("b", Feed(False, request.number, (), 0.0, hope=False))
    for _ in range(3):
        assert alone.cycle() == []
    assert alone.peer.covered
    assert not alone.peer.satisfied


def test_a_peer_has_hope_for_three_cycles_and_tells_its_children() -> None:
    alone = Alone("01", bound=5.0)
    request = alone.request("b", "011", bound=9.0)
    alone.hears("b", request)
    told = []
    for _ in range(4):
        alone.hears("b", Alive(False, request.number))
        told.append([message for to, message in alone.cycle() if to == "b"])
    assert told == [[], [], [], [Feed(False, request.number, (), 0.0, hope=False)]]


def test_what_comes_and_how_late_is_told_to_children_at_once() -> None:
    alone = Alone("01", bound=5.0)
    child = alone.request("b", "011", bound=9.0)
    alone.hears("b", child)
    parent = profile("c", "0", bound=2.0, delay=2.0)
    alone.knows(parent)
    request = alone.asks()
    said = alone.hears("c", Accept(False, request.number, parent, request.sent))
    assert said == [("b", Feed(False, child.number, ("01",), 3.0))]


def test_a_parent_that_is_silent_for_three_cycles_is_replaced() -> None:
    alone = Alone("011", bound=5.0)
    fed_by(alone, profile("b", "0", bound=4.0))
    alone.silent = True
    for _ in range(3):
        alone.cycle()
    assert list(alone.peer.parents) == [("b", False)]
    alone.cycle()
    assert alone.peer.parents == {}


def test_who_is_sent_away_asks_the_hint_at_once_and_as_published_in_the_next_cycle() -> None:
    for settings, at_once in ((DEFAULT, ["h"]), (REPAIRED, [])):
        alone = Alone("011", bound=5.0, settings=settings)
        request = fed_by(alone, profile("b", "0", bound=4.0))
        evicted = Evict(False, request.number, Why.FULL, profile("h", "01", bound=2.0), 0.5)
        assert [to for to, _ in alone.hears("b", evicted)] == at_once
        assert alone.peer.parents == {}
        assert [to for to, _ in alone.cycle()] == [one for one in ["h"] if one not in at_once]


def test_an_eviction_of_an_older_link_does_not_end_the_newer_one() -> None:
    alone = Alone("011", bound=5.0)
    request = fed_by(alone, profile("b", "0", bound=4.0))
    alone.tell("b", Evict(False, request.number - 1, Why.FULL))
    assert list(alone.peer.parents) == [("b", False)]


def test_parents_are_told_every_cycle_that_a_child_is_there() -> None:
    overlay = Overlay()
    overlay.publisher("p")
    overlay.subscriber("a", "011", bound=3.0)
    overlay.cycles(4)
    alive = [message for _, to, message in overlay.sent if to == "p" and isinstance(message, Alive)]
    assert len(alive) >= 3


def test_another_subscription_makes_all_links_anew() -> None:
    overlay = Overlay()
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=1.0)
    overlay.subscriber("b", "01", bound=5.0)
    overlay.cycles(8)
    overlay.said.clear()
    overlay.resubscribe("b", "1", bound=2.0)
    overlay.cycles(8)
    assert overlay.tree() == {"a": ["p"], "b": ["p"]}
    assert any("Leave" in said for said in overlay.said)


def test_who_leaves_sends_its_children_to_its_own_parents() -> None:
    overlay = Overlay(replace(DEFAULT, out_degree=1))
    overlay.publisher("p")
    overlay.subscriber("a", "0", bound=1.0)
    overlay.subscriber("b", "01", bound=5.0)
    overlay.subscriber("c", "011", bound=9.0)
    overlay.cycles(20)
    assert overlay.tree() == {"a": ["p"], "b": ["a"], "c": ["b"]}
    overlay.said.clear()
    overlay.leave("b")
    assert "b>c Evict leaving try a" in overlay.said
    overlay.cycles(4)
    assert overlay.tree() == {"a": ["p"], "c": ["a"]}
