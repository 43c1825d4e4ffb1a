"""How much a peer subscribes to: Algorithm 2 and budgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.peers.alone import Alone
from tests.peers.bench import Overlay, profile
from tidings.errors import InputError
from tidings.peers.events import Advertised, Published, Subscribed
from tidings.peers.messages import Accept, Connect, Event, Evict, Feed, Why
from tidings.peers.outlooks import Cause
from tidings.peers.settings import DEFAULT

QUICK = replace(DEFAULT, window=2)


def fed(alone: Alone, rate: float) -> int:
    """Let a publisher of so many events a second feed the peer; the link's number."""
    root = profile("p", "", bound=0.0, rates=(rate,))
    alone.knows(root)
    request = alone.asks()
    alone.tell("p", Accept(True, request.number, root, request.sent))
    return request.number


def events(alone: Alone, *points: str, start: int = 0) -> None:
    for number, point in enumerate(points, start):
        alone.tell("p", Event("p", number, point, 0.0))


def test_after_three_cycles_without_cover_a_subscription_grows_by_one_step() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.1)
    for _ in range(3):
        alone.cycle()
    assert alone.peer.dz == ("0110",)
    alone.cycle()
    assert alone.peer.dz == ("011",)
    for _ in range(20):
        alone.cycle()
    assert alone.peer.dz == ("011",), "a second step would be 18.75% waste"


def test_nothing_grows_where_no_waste_is_allowed_or_accuracy_is_off() -> None:
    for alone in (
        Alone("0110", bound=5.0),
        Alone("0110", bound=5.0, allowed=1.0, settings=replace(DEFAULT, accuracy=False)),
    ):
        for _ in range(20):
            alone.cycle()
        assert alone.peer.dz == ("0110",)


def test_growing_is_by_the_expression_that_adds_the_least_waste() -> None:
    alone = Alone("00", "11110", bound=5.0, allowed=0.25)
    for _ in range(4):
        alone.cycle()
    assert alone.peer.dz == ("00", "1111")


def test_every_part_that_is_lacking_grows_at_once_as_far_as_the_budgets_go() -> None:
    for allowed, dz in (
        (0.5, ("000", "011", "110")),
        (2 / 16, ("000", "011", "1100")),
        (1 / 16, ("000", "0110", "1100")),
        (0.06, ("0000", "0110", "1100")),
    ):
        alone = Alone("0000", "0110", "1100", bound=5.0, allowed=allowed)
        for _ in range(4):
            alone.cycle()
        assert alone.peer.dz == dz, allowed


def test_a_box_of_many_expressions_becomes_one_cell_in_one_step() -> None:
    box = tuple(f"01{format(number, '07b')}1" for number in range(128))
    alone = Alone(*box, bound=5.0, allowed=0.125)
    for _ in range(4):
        alone.cycle()
    assert alone.peer.dz == ("01",)


def test_what_is_fed_does_not_grow_with_what_is_lacking() -> None:
    alone = Alone("0000", "0110", bound=5.0, allowed=0.5)
    parent = profile("b", "00", bound=2.0)
    alone.knows(parent)
    alone.tell("b", Accept(False, alone.asks().number, parent))
    alone.denied(4)
    assert alone.peer.dz == ("0000", "011")


def test_a_subscription_never_grows_beyond_what_is_allowed() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.06)
    for _ in range(8):
        alone.cycle()
    assert alone.peer.dz == ("0110",), "a step would be 6.25% waste"


def test_rates_that_others_have_measured_say_what_growing_costs() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.1)
    alone.knows(
        profile("p", "", bound=0.0, rates=(100.0,), floor=1.0),
        profile("b", "011", bound=9.0, rates=(60.0,)),
        profile("c", "0110", bound=9.0, rates=(5.0,)),
    )
    alone.denied(9)
    assert alone.peer.dz == ("0110",), "the coarser part has 55% of all events beyond what is wanted"


def test_a_bandwidth_forbids_growing_beyond_it() -> None:
    for bandwidth, dz in ((None, ("011",)), (11 * 12.4, ("0110",)), (11 * 12.5, ("011",))):
        alone = Alone("0110", bound=5.0, allowed=0.1, bandwidth=bandwidth)
        alone.knows(profile("p", "", bound=0.0, rates=(100.0,), floor=1.0))
        alone.denied(5)
        assert alone.peer.dz == dz, bandwidth


def test_more_waste_than_allowed_makes_a_subscription_finer_and_removes_whom_it_no_longer_covers() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.1, settings=QUICK)
    for _ in range(4):
        alone.cycle()
    assert alone.peer.dz == ("011",)
    number = fed(alone, 10.0)
    outer = alone.request("b", "0111", bound=9.0)
    inner = alone.request("c", "0110", bound=9.0)
    alone.hears("b", outer)
    alone.hears("c", inner)
    said = []
    for turn in range(3):
        events(alone, *["01110"] * 8, "01100", start=100 * turn)
        said += alone.cycle()
    assert alone.peer.dz == ("0110",)
    assert alone.peer.counts.refined == 1
    gone = [message for to, message in said if to == "b"]
    assert [(type(one), one.why) for one in gone if isinstance(one, Evict)] == [(Evict, Why.COVER)]
    asked = [message.asked for to, message in said if to == "p" and isinstance(message, Connect)]
    assert asked == [("0110",)]
    assert ("c", False) in alone.peer.children
    assert alone.peer.parents["p", True].number > number


def test_too_much_for_the_access_link_makes_a_subscription_finer_too() -> None:
    alone = grown(11 * 6.0)
    for turn in range(3):
        events(alone, *["01110"] * 20, "01100", start=100 * turn)
        alone.cycle()
    assert alone.peer.dz == ("0110",)


def grown(bandwidth: float) -> Alone:
    """A peer that asked for twice of what it wants when little was published, and is fed."""
    alone = Alone("0110", bound=5.0, allowed=0.9, bandwidth=bandwidth, settings=QUICK)
    alone.knows(profile("p", "", bound=0.0, rates=(20.0,), floor=1.0))
    alone.denied(4)
    assert alone.peer.dz == ("011",)
    alone.knows(profile("p", "", bound=0.0, rates=(100.0,), version=2))
    while not (said := alone.cycle()):
        pass
    ((_, request),) = said
    assert isinstance(request, Connect)
    alone.tell("p", Accept(True, request.number, profile("p", "", bound=0.0), request.sent))
    return alone


def test_an_excess_that_may_be_chance_in_one_window_is_none_in_eight() -> None:
    alone = grown(11 * 10.0)
    cycles = 0
    while alone.peer.dz == ("011",):
        events(alone, *["01110"] * 6, *["01100"] * 7, start=100 * cycles)
        alone.cycle()
        cycles += 1
        assert cycles < 30, "13 come in a second, and 10 may"
    assert cycles > 4, "one window of two seconds has 26 where 20 may be, and up to 31 by chance"


def test_nothing_grows_towards_a_limit_before_it_is_known_what_is_published() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.9, bandwidth=11 * 6.0)
    alone.knows(profile("p", "", bound=0.0, floor=1.0))
    alone.denied(8)
    assert alone.peer.dz == ("0110",)


def test_all_that_comes_in_counts_against_the_access_link() -> None:
    alone = Alone("0110", bound=5.0, bandwidth=11 * 6.0, settings=QUICK)
    fed(alone, 100.0)
    for turn in range(3):
        events(alone, *["01100"] * 4, start=100 * turn)
        events(alone, *["01100"] * 4, start=100 * turn)
        events(alone, *["11111"] * 4, start=100 * turn + 50)
        alone.cycle()
    status = alone.peer.status()
    assert (status.bandwidth, status.bandwidth_allowed) == (12.0, 6.0)
    assert status.violation is not None
    assert status.violation.cause is Cause.BANDWIDTH
    assert status.waste == pytest.approx(0.04), "what lies outside was not wanted; what came again was"


def test_what_comes_in_is_counted_on_while_it_changes_what_is_fed() -> None:
    alone = Alone("000", "010", bound=5.0, bandwidth=11 * 6.0, settings=QUICK)
    parent = profile("b", "0", bound=2.0)
    alone.knows(parent, profile("p", "", bound=0.0, rates=(100.0,), floor=1.0))
    request = next(message for to, message in alone.cycle() if to == "b")
    assert isinstance(request, Connect)
    alone.tell("b", Accept(False, request.number, parent, request.sent))
    for turn in range(4):
        alone.tell("b", Feed(False, request.number, ("0",) if turn % 2 else ("00",), 1.0))
        for number in range(9):
            alone.tell("b", Event("p", 100 * turn + number, "0001", 1.0))
        alone.cycle()
    status = alone.peer.status()
    assert status.bandwidth == 9.0
    assert status.waste is None, "that is of what is fed"


def test_what_comes_again_is_not_told_as_a_rate() -> None:
    alone = Alone("0110", bound=5.0, settings=QUICK)
    fed(alone, 100.0)
    for turn in range(3):
        events(alone, *["01100"] * 4, start=100 * turn)
        events(alone, *["01100"] * 4, start=100 * turn)
        alone.cycle()
    request = alone.request("c", "0110", bound=9.0)
    (answer,) = [message for _, message in alone.hears("c", request) if isinstance(message, Accept)]
    assert answer.profile.rates == (4.0,)


def test_what_a_subscriber_publishes_itself_is_told_with_what_comes() -> None:
    alone = Alone("0110", "10", bound=5.0, advertised=("",), settings=QUICK)
    fed(alone, 100.0)
    for turn in range(6):
        events(alone, *["01100"] * 4, start=100 * turn)
        for number, point in enumerate(["01101", "01101", "10000", "11111"]):
            alone.peer.handle(Published(10 * turn + number, point), alone.now)
        alone.cycle()
    request = alone.request("c", "0110", bound=9.0)
    (answer,) = [message for _, message in alone.hears("c", request) if isinstance(message, Accept)]
    assert answer.profile.rates == pytest.approx((6.0, 1.0), rel=0.1)


def test_within_the_budget_nothing_changes() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.1, settings=QUICK)
    for _ in range(4):
        alone.cycle()
    fed(alone, 100.0)
    for turn in range(6):
        events(alone, *["01110"] * 9, *["01100"] * 9, start=100 * turn)
        alone.cycle()
    assert alone.peer.dz == ("011",)
    assert alone.peer.waste == pytest.approx(0.09)
    assert alone.peer.violation() is None


def test_what_is_too_much_by_itself_is_reported() -> None:
    alone = Alone("0110", bound=5.0, bandwidth=11 * 2.0, settings=QUICK)
    fed(alone, 100.0)
    for turn in range(4):
        events(alone, *["01100"] * 20, start=100 * turn)
        alone.cycle()
    violation = alone.peer.violation()
    assert violation is not None
    assert violation.cause is Cause.BANDWIDTH
    assert violation.text == "20 events a second come, 2 may with 10 children"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Subscribed(("0", "01"), 1.0), "canonical"),
        (Subscribed(("0x",), 1.0), "canonical"),
        (Subscribed(("0",), 0.0), "above 0"),
        (Subscribed(("0",), float("nan")), "above 0"),
        (Subscribed(("0",), 1.0, 1.5), "share of 0 to 1"),
        (Subscribed(("0",), 1.0, 0.0, -1.0), "above 0"),
        (Advertised(("01", "00")), "canonical"),
        (Published(1, "0"), "advertise that part first"),
    ],
)
def test_a_user_is_told_what_is_wrong(event: Subscribed | Advertised | Published, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Alone().peer.handle(event, 0.0)


def test_peers_of_many_expressions_find_parents_within_forty_cycles() -> None:
    overlay = Overlay(replace(DEFAULT, out_degree=4))
    overlay.publisher("p")
    for number in range(20):
        cell = format(number % 8, "03b")
        box = (f"{cell}{format(text, '04b')}1" for text in range(16))
        overlay.subscriber(f"s{number}", *box, bound=1.0 + number, allowed=0.5)
    overlay.cycles(40)
    subscribers = [peer for peer in overlay.peers.values() if peer.dz]
    assert sum(peer.satisfied for peer in subscribers) >= 19


def test_a_subscription_of_several_parts_becomes_finer_step_by_step() -> None:
    alone = Alone("0000", "0110", bound=5.0, allowed=0.5, settings=QUICK)
    alone.denied(21)
    before = alone.peer.dz
    fed(alone, 10.0)
    for turn in range(3):
        events(alone, *["00010", "01111", "00110", "01010"] * 8, "00001", start=100 * turn)
        alone.cycle()
    assert (before, alone.peer.dz) == (("0",), ("0000", "0110"))
    assert alone.peer.counts.refined >= 2


def test_who_is_not_fed_does_not_keep_what_would_be_too_much_for_its_access_link() -> None:
    alone = Alone("0110", bound=5.0, allowed=0.9, bandwidth=11 * 6.0)
    alone.knows(profile("p", "", bound=0.0, rates=(20.0,), floor=1.0))
    alone.denied(8)
    assert alone.peer.dz == ("01",), "5 events a second of 20"
    alone.knows(profile("p", "", bound=0.0, rates=(50.0,), floor=1.0, version=2))
    alone.denied(4)
    assert alone.peer.dz == ("011",), "12.5 of 50 come in 01, and 6.25 in 011, which may be chance"
    alone.denied(30)
    assert alone.peer.dz == ("011",)


def test_a_step_that_did_not_fit_for_long_is_not_taken_by_chance() -> None:
    def dz(*rates: float) -> tuple[str, ...]:
        alone = Alone("0110", bound=5.0, allowed=0.9, bandwidth=11 * 6.0)
        for version, rate in enumerate(rates, 1):
            alone.knows(profile("p", "", bound=0.0, rates=(rate,), floor=1.0, version=version))
            alone.denied(10)
        return alone.peer.dz

    assert dz(50.0) == ("0110",), "6.25 would come, and 6 may"
    assert dz(50.0, 47.0) == ("011",)
    assert dz(*[50.0] * 5, 47.0) == ("0110",)
    assert dz(*[50.0] * 5, 35.0) == ("011",), "that is no chance"
