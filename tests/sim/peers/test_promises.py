"""Checkers of overlays of peers: what each of them finds, and what it excuses."""

from __future__ import annotations

from dataclasses import replace

from tidings.sim.brokers.promises import Breach
from tidings.sim.peers import promises as checkers
from tidings.sim.peers.trace import Missed, Photo, Seen, Stray, Tally, Trace

PUBLISHER = Seen(0, ("",), frozenset(), frozenset({"a"}), 1, 2)
A = Seen(3, ("0",), frozenset({"p"}), frozenset({"b"}), 1, 2)
B = Seen(5, ("01",), frozenset({"a"}), frozenset(), 0, 2)
SOUND: Photo = {"p": PUBLISHER, "a": A, "b": B}


def said(found: list[Breach]) -> list[str]:
    return [str(one) for one in found]


def test_a_sound_overlay_has_no_breach() -> None:
    assert checkers.links(SOUND) == []
    assert checkers.agreement([SOUND, SOUND]) == []
    assert checkers.stillness([SOUND, SOUND, SOUND]) == []


def test_a_cycle_is_found() -> None:
    photo = {**SOUND, "b": replace(B, children=frozenset({"a"}))}
    assert said(checkers.cycles(photo)) == ["no cycle: a -> b -> a"]


def test_a_link_from_a_looser_bound_is_found() -> None:
    assert said(checkers.bounds({**SOUND, "a": replace(A, bound=5)})) == [
        "bounds ordered: a (5) is above b (5)"
    ]


def test_a_link_of_an_earlier_subscription_is_excused_while_one_end_has_not_heard() -> None:
    torn = {**SOUND, "a": replace(A, bound=5, since=3.0, children=frozenset())}
    assert checkers.bounds(torn, 2.0) == []
    assert len(checkers.bounds(torn, 3.0)) == 1
    assert len(checkers.bounds({**SOUND, "a": replace(A, bound=5, since=3.0)}, 2.0)) == 1


def test_a_child_too_many_is_found() -> None:
    assert said(checkers.degrees({**SOUND, "a": replace(A, degree_max=0)})) == [
        "out-degree: a has 1 children and may have 0"
    ]


def test_a_link_that_one_end_forgot_is_found_if_it_stays_so() -> None:
    torn = {**SOUND, "a": replace(A, children=frozenset())}
    assert said(checkers.agreement([torn, torn])) == [
        "both ends: only b knows of a link from a to b, in 2 photographs"
    ]
    assert checkers.agreement([torn, SOUND]) == []


def test_who_says_that_it_is_fed_and_misses_an_event_is_found() -> None:
    never, late = Missed(7, "0110", 1.0, "b", None), Missed(8, "0111", 1.0, "b", 6)
    assert said(checkers.arrivals([never, late], SOUND, SOUND, quiet=True)) == [
        "in time: event 7 (0110) of 1.000 s never came to b, bound 5",
        "in time: event 8 (0111) of 1.000 s came late (6) to b, bound 5",
    ]
    assert len(checkers.arrivals([never], SOUND, SOUND, quiet=False)) == 1


def test_who_does_not_say_so_is_owed_nothing() -> None:
    hungry = {**SOUND, "b": replace(B, fed=False)}
    missed = [Missed(7, "0110", 1.0, "b", None)]
    assert checkers.arrivals(missed, hungry, SOUND, quiet=True) == []
    assert checkers.arrivals(missed, SOUND, hungry, quiet=True) == []
    assert checkers.arrivals(missed, {"p": PUBLISHER}, SOUND, quiet=True) == []


def test_another_subscription_is_owed_nothing_of_before() -> None:
    missed = [Missed(7, "0110", 1.0, "b", None)]
    anew = {**SOUND, "b": replace(B, since=0.5)}
    assert checkers.arrivals(missed, SOUND, anew, quiet=True) == []
    assert len(checkers.arrivals(missed, anew, anew, quiet=True)) == 1


def test_who_misses_events_and_tells_nobody_is_found() -> None:
    hungry = {**SOUND, "b": replace(B, fed=False)}
    missed = [Missed(7, "0110", 1.0, "b", None), Missed(8, "0110", 1.0, "b", None)]
    assert said(checkers.told(missed, [hungry, hungry])) == [
        "told: b did not get event 7 (0110) and has reported nothing"
    ]
    assert checkers.told(missed, [hungry, {**SOUND, "b": replace(B, fed=False, reported="room")}]) == []
    assert checkers.told(missed, [SOUND, hungry]) == []
    assert checkers.told(missed, [{"p": PUBLISHER}, hungry]) == []


def test_news_takes_time_unless_all_is_quiet() -> None:
    gone = {"p": replace(PUBLISHER, children=frozenset()), "b": B}
    missed = [Missed(7, "0110", 1.0, "b", None)]
    assert checkers.arrivals(missed, SOUND, gone, quiet=False) == []
    assert checkers.arrivals(missed, gone, gone, quiet=False) == []
    assert len(checkers.arrivals(missed, gone, gone, quiet=True)) == 1


def test_an_event_that_a_user_is_given_twice_is_found() -> None:
    ledger = Trace()
    number = ledger.publish("0110", "p", 0.0)
    ledger.deliver(number, "b")
    assert checkers.once(ledger.delivered_twice) == []
    ledger.deliver(number, "b")
    assert said(checkers.once(ledger.delivered_twice)) == ["once: b gave event 0 to its user again"]


def test_an_event_that_comes_again_is_found_in_quiet() -> None:
    assert said(checkers.repeats({"a": Tally(), "b": Tally(repeats=2)})) == [
        "once: b got 2 events again, in quiet"
    ]


def test_an_event_outside_the_boxes_is_found_unless_they_were_held_of_late() -> None:
    stray = Stray(3, "1100", 2.0, "a", "b", True)
    assert said(checkers.boxes([stray], [SOUND])) == ["boxes: event 3 (1100) came to b from a"]
    assert checkers.boxes([stray], [{"b": replace(B, held=("1",))}, SOUND]) == []


def test_an_event_from_one_that_never_had_it_is_found() -> None:
    ledger = Trace()
    ledger.join("b", ("01",), 5, 0.0)
    ledger.arrive(ledger.publish("0110", "p", 0.5), "a", "b", ("01",), 0.6)
    assert said(checkers.boxes(ledger.strays, [SOUND])) == ["made up: a sent event 0 to b and never had it"]


def test_a_budget_that_is_broken_in_two_windows_on_end_is_found() -> None:
    over, within = {"a": Tally(received=13)}, {"a": Tally(received=12)}
    allowed = {"a": 0.12}
    assert checkers.budgets([(100, over), (100, within), (100, over)], allowed, 0.0) == []
    assert said(checkers.budgets([(100, within), (100, over), (100, over)], allowed, 0.0)) == [
        "budget: a allowed 12.00% and got 13.00%, then 13.00%, unasked for"
    ]
    assert checkers.budgets([(100, over), (100, over)], allowed, 0.01) == []


def test_a_bandwidth_that_is_exceeded_in_two_windows_on_end_is_found() -> None:
    over, within = {"a": Tally(received=30, repeats=11)}, {"a": Tally(received=40)}
    photos = [{**SOUND, "a": replace(A, wanted=("00",))}]
    assert checkers.bandwidths([(4.0, over), (4.0, within)], 10.0, 0.0, photos) == []
    assert said(checkers.bandwidths([(4.0, over), (4.0, over)], 10.0, 0.0, photos)) == [
        "bandwidth: a may get 10 events a second and got 10.25, then 10.25"
    ]
    assert checkers.bandwidths([(4.0, over), (4.0, over)], 10.0, 0.25, photos) == []


def test_who_holds_no_more_than_its_user_wants_cannot_keep_a_bandwidth() -> None:
    over = {"a": Tally(received=41)}
    finest = {**SOUND, "a": replace(A, wanted=A.held)}
    assert checkers.bandwidths([(4.0, over), (4.0, over)], 10.0, 0.0, [finest]) == []


def test_an_overlay_that_changes_in_quiet_is_found() -> None:
    moved = {**SOUND, "b": replace(B, held=("0",)), "a": replace(A, parents=frozenset())}
    assert said(checkers.stillness([SOUND, SOUND, moved])) == [
        "stillness: a has other parents 2 cycles later",
        "stillness: b has other boxes 2 cycles later",
    ]
    assert said(checkers.stillness([SOUND, {"p": PUBLISHER, "a": A}])) == [
        "stillness: b is no longer there, 1 cycles later"
    ]


def test_a_timed_ledger_counts_milliseconds() -> None:
    ledger = Trace(timed=True)
    ledger.join("a", ("0",), 20, 0.0)
    ledger.join("b", ("01",), 30, 0.0)
    number = ledger.publish("0110", "p", 1.0)
    ledger.arrive(number, "p", "a", ("",), 1.02)
    ledger.arrive(number, "a", "b", ("",), 1.031)
    tallies = ledger.settle(2.0)
    assert tallies["a"] == Tally(due=1, in_time=1, received=1)
    assert tallies["b"] == Tally(due=1, late=1, received=1)
    assert ledger.missed == [Missed(0, "0110", 1.0, "b", 31.0)]


def test_the_ledger_counts_hops_and_who_is_due_what() -> None:
    ledger = Trace()
    ledger.join("a", ("0",), 3, 0.0)
    ledger.join("b", ("01",), 1, 0.0)
    ledger.join("c", ("1",), 1, 0.0)
    number = ledger.publish("0110", "p", 1.0)
    ledger.join("late", ("0",), 9, 1.5)
    for sender, peer in (("p", "a"), ("a", "b"), ("a", "c"), ("a", "c")):
        ledger.arrive(number, sender, peer, ("",), 1.1)
    tallies = ledger.settle(2.0)
    assert tallies["a"] == Tally(due=1, in_time=1, received=1)
    assert tallies["b"] == Tally(due=1, late=1, received=1)
    assert tallies["c"] == Tally(received=1, repeats=1)
    assert tallies["c"].extra == 1
    assert tallies["late"] == Tally()
    assert ledger.missed == [Missed(0, "0110", 1.0, "b", 2)]
    ledger.leave("b")
    assert set(ledger.settle(3.0)) == {"a", "c", "late"}
