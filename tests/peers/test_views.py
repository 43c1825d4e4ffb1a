"""Whom a peer knows: the newest word of each, bounded, possible parents kept, the dead forgotten."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from tests.peers.alone import Alone, sends
from tests.peers.bench import Overlay, profile
from tidings.peers.events import Advertised, TimerFired
from tidings.peers.messages import LIFE_SHIFT, Profile, Shuffle
from tidings.peers.peer import SPREAD, SPREAD_EVERY
from tidings.peers.settings import DEFAULT
from tidings.peers.views import PARTS_MAX, View

SMALL = replace(DEFAULT, view=4, stale_after=10)


def grown(peers: int, *, view: int) -> Overlay:
    """An overlay that has been there for a while."""
    overlay = Overlay(replace(DEFAULT, view=view), seed=5)
    overlay.publisher("p")
    for number in range(peers):
        overlay.subscriber(f"s{number}", format(number % 8, "03b"), bound=1.0 + number % 4)
    overlay.cycles(20)
    return overlay


def view() -> View:
    return View("a", SMALL, random.Random(0))


def test_the_newer_word_replaces_the_older_and_never_the_other_way() -> None:
    known = view()
    for version, bound in ((2, 2.0), (3, 3.0), (1, 1.0)):
        known.learn([profile("b", "0", bound=bound, version=version)], [0], 1)
    assert known.profiles["b"].bound == 3.0


def test_a_peer_never_knows_itself() -> None:
    known = view()
    known.learn([profile("a", "0", bound=1.0), profile("a", "0", bound=0.0)], [0, 0], 1)
    assert (known.profiles, known.roots) == ({}, {})


def test_a_view_has_a_size_and_publishers_have_their_own() -> None:
    known = view()
    for number in range(20):
        known.learn([profile(f"b{number}", "0", bound=1.0), profile(f"p{number}", "", bound=0.0)], [0, 0], 1)
    assert len(known.profiles) == 4
    assert len(known.roots) == 20


def test_possible_parents_are_kept_in_half_of_the_view() -> None:
    known = view()
    known.prefer(("011",), 5.0)
    parents = [profile(f"b{number}", "0", bound=1.0) for number in range(2)]
    others = [profile(f"c{number}", "1", bound=1.0) for number in range(40)]
    known.learn(others[:4], [0] * 4, 1)
    for _ in range(20):
        known.learn(parents, [0] * 2, 1)
    known.learn(others, [0] * 40, 1)
    assert {"b0", "b1"} & set(known.profiles)
    assert sum(peer.startswith("c") for peer in known.profiles) >= 2


def test_who_could_serve_what_is_missing_for_long_is_remembered_until_it_can_be_asked() -> None:
    for ready in (False, True):
        known = view()
        known.prefer(("011", "1"), 5.0, ready=ready)
        known.learn(
            [
                profile("h0", "01", bound=1.0, fed=False),
                profile("h1", "01", bound=1.0, fed=False),
                profile("x0", "00", bound=1.0),
                profile("x1", "00", bound=1.0),
                profile("b", "01", bound=1.0, floor=1 / 16),
                profile("c", "01", bound=1.0, floor=1 / 8),
                profile("d", "01", bound=5.0),
                profile("e", "01", bound=1.0, fed=False),
                profile("f", "", bound=1.0, floor=1 / 2),
            ],
            [0] * 9,
            1,
        )
        others = [profile(f"y{number}", "00", bound=1.0) for number in range(40)]
        known.learn(others, [0] * 40, 1)
        assert ("b" in {one.peer for one in known.relays()}) is ready
        assert list(known.passing) == (["b", "f"] if ready else [])


def test_who_lacks_something_for_long_gossips_with_all_in_turn() -> None:
    known = view()
    known.learn([profile(f"b{number}", "00", bound=1.0) for number in range(4)], [0] * 4, 1)
    known.prefer(("011",), 5.0, ready=True)
    for _ in range(2):
        assert sorted(str(known.partner()) for _ in range(4)) == ["b0", "b1", "b2", "b3"]


def seeker(fed: tuple[str, ...] = (), *, hope: bool = False, version: int = 9) -> Profile:
    """One that says of itself that it looks for a parent."""
    known = profile("s", "01", "11", bound=5.0, version=version)
    return msgspec.structs.replace(known, fed=fed, hope=hope)


def test_who_looks_for_long_is_told_first_of_those_that_could_serve_it() -> None:
    settings = replace(DEFAULT, view=200, shuffle=8)
    known = View("a", settings, random.Random(0))
    others = [
        profile("loose", "0", bound=5.0),
        profile("unfed", "0", bound=1.0, fed=False),
        profile("full", "0", bound=1.0, floor=0.25),
        profile("elsewhere", "10", bound=1.0),
        *(profile(f"x{number}", "1010", bound=9.0) for number in range(180)),
    ]
    able = [profile(f"able{number}", "0", bound=4.0, floor=0.2) for number in range(3)]
    known.learn([*others, *able], [0] * (len(others) + 3), 1)
    told, ages = known.sample((), 1, seeker(("11",)))
    assert [one.peer for one in told[:3]] == ["able0", "able1", "able2"]
    assert len(told) == len(ages) == 8
    assert len({one.peer for one in told}) == 8


def test_a_seeker_is_told_of_others_too() -> None:
    known = View("a", replace(DEFAULT, view=200, shuffle=8), random.Random(0))
    known.prefer(("01",), 5.0)
    known.learn([profile(f"able{number}", "0", bound=4.0) for number in range(100)], [0] * 100, 1)
    known.learn([profile(f"x{number}", "1010", bound=9.0) for number in range(100)], [0] * 100, 1)
    able: set[str] = set()
    for _ in range(50):
        told, _ = known.sample((), 1, seeker())
        mine = [one.peer for one in told if one.peer.startswith("able")]
        assert (len(told), len(mine)) == (8, 4)
        able.update(mine)
    assert len(able) > 50, "not always the same"


def test_nobody_is_left_out_while_a_view_has_room_for_all() -> None:
    overlay = grown(45, view=51)
    known = Counter(one for peer in overlay.peers.values() for one in peer.view.profiles)
    assert len(known) == 45
    assert min(known.values()) >= 43


def test_of_what_a_seeker_lacks_only_some_parts_are_looked_at() -> None:
    known = View("a", replace(DEFAULT, view=4), random.Random(0))
    cells = tuple(format(2 * number, "010b") for number in range(400))
    assert len(cells) > PARTS_MAX
    late = profile("late", cells[-1], bound=1.0)
    early = profile("early", cells[0], bound=1.0)
    known.learn([late, early], [0, 0], 1)
    asking = msgspec.structs.replace(profile("s", *cells, bound=5.0, fed=False), hope=False)
    assert known.sought([asking], "s") is not None
    assert known.sample((), 1, asking)[0][0] == early


@pytest.mark.parametrize(
    ("said", "looks"),
    [
        ([seeker()], True),
        ([seeker(("01",))], True),
        ([seeker(("01", "11"))], False),
        ([seeker(hope=True)], False),
        ([msgspec.structs.replace(seeker(), dz=("1", "11"))], False),
        ([msgspec.structs.replace(seeker(), peer="b")], False),
        ([profile("s", "0", bound=0.0)], False),
        ([profile("s", "0", bound=0.0), seeker()], True),
        ([], False),
    ],
)
def test_who_looks_for_a_parent_says_so_of_itself(said: list[Profile], looks: bool) -> None:
    found = view().sought(said, "s")
    assert (found is not None) is looks
    if found is not None:
        assert (found.peer, found.root) == ("s", False)


def test_an_answer_to_gossip_helps_who_looks_for_a_parent() -> None:
    for known, told in ((DEFAULT, True), (replace(DEFAULT, fed_known=False), False)):
        alone = Alone("1", settings=replace(known, view=100, shuffle=8))
        for number in range(80):
            alone.knows(profile(f"x{number}", "10", bound=2.0))
        alone.knows(profile("able", "0", bound=2.0))
        answers = []
        for version in range(1, 9):
            ((_, answer),) = alone.hears("s", Shuffle((seeker(version=version),), (0,), answer=False))
            assert isinstance(answer, Shuffle)
            answers.append("able" in {one.peer for one in answer.profiles})
        assert all(answers) is told


def test_what_is_told_has_its_age_and_what_is_too_old_is_forgotten() -> None:
    known = view()
    known.learn([profile("b", "0", bound=1.0), profile("p", "", bound=0.0)], [3, 4], 5)
    profiles, ages = known.sample([], 7)
    assert [(one.peer, age) for one, age in zip(profiles, ages, strict=True)] == [("p", 6), ("b", 5)]
    for cycle in range(8, 12):
        known.age(cycle)
    assert known.roots == {}
    known.age(12)
    assert known.profiles == {}


def test_what_is_too_old_is_not_learnt() -> None:
    known = view()
    known.learn([profile("b", "0", bound=1.0)], [10], 5)
    known.learn([profile("c", "0", bound=1.0)], [-1], 5)
    assert known.profiles == {}


def test_one_that_does_not_answer_is_believed_only_anew() -> None:
    known = view()
    root = profile("p", "", bound=0.0, version=7)
    known.learn([root], [0], 1)
    known.forget("p", root=True)
    known.learn([root], [0], 1)
    assert known.roots == {}
    known.learn([profile("p", "", bound=0.0, version=8)], [0], 1)
    assert "p" in known.roots


@pytest.mark.parametrize(
    "wrong",
    [
        profile("", "0", bound=1.0),
        profile("b", "0", bound=-1.0),
        profile("b", "0", bound=float("inf")),
        profile("b", "0", bound=1.0, delay=float("nan")),
        profile("b", "0", bound=1.0, floor=1.5),
        profile("b", "1", "0", bound=1.0),
        profile("b", "00", "01", bound=1.0),
        profile("b", "0" * 1000, bound=1.0),
        profile("b", *(format(n, "012b") + "0" for n in range(1000)), bound=1.0),
        profile("b", "0", bound=1.0, rates=(1.0, 2.0)),
        profile("b", "0", bound=1.0, rates=(-1.0,)),
    ],
)
def test_profiles_that_cannot_be_are_refused(wrong: Profile) -> None:
    known = view()
    known.learn([wrong], [0], 1)
    assert (known.profiles, known.roots, known.refused) == ({}, {}, 1)


def test_those_that_were_told_to_another_make_room_for_what_it_tells() -> None:
    known = View("a", replace(DEFAULT, view=20, shuffle=8), random.Random(0))
    known.prefer(("011",), 5.0)
    known.learn([profile(f"p{number}", "0", bound=1.0) for number in range(10)], [0] * 10, 1)
    known.learn([profile(f"b{number}", "1", bound=1.0) for number in range(10)], [0] * 10, 1)
    told = [one.peer for one in known.sample((), 1)[0]]
    assert len(told) == 8
    assert all(peer.startswith("b") for peer in told), "possible parents are kept, and not told on"
    before = set(known.profiles)
    known.learn([profile(f"c{number}", "1", bound=1.0) for number in range(8)], [0] * 8, 1, told)
    assert set(known.profiles) == (before - set(told)) | {f"c{number}" for number in range(8)}


def test_hardly_anybody_is_known_to_none() -> None:
    """One half of a view is a sample of all: those who were told of pass from one to the other."""
    overlay = grown(60, view=6)
    unknown = 0
    for _ in range(20):
        overlay.cycles()
        known = {one for peer in overlay.peers.values() for one in peer.view.profiles}
        unknown += 60 - len(known)
    # If three of 60 were drawn by each of 61, 2.7 would be drawn by none.
    assert unknown / 20 < 4


def test_who_lacks_something_for_long_goes_on_to_those_it_has_heard_of_and_not_kept() -> None:
    known = view()
    known.learn([profile(f"b{number}", "00", bound=1.0) for number in range(4)], [0] * 4, 1)
    known.prefer(("011",), 5.0, ready=True)
    heard = [profile(f"c{number}", "00", bound=1.0) for number in range(30)]
    known.learn(heard, [0] * 30, 1)
    met = {str(known.partner()) for _ in range(34)}
    assert met >= {one.peer for one in heard}
    known.prefer(("011",), 5.0)
    assert all(known.partner() in known.profiles for _ in range(20))


def test_a_publisher_that_comes_or_comes_back_is_told_on_at_once() -> None:
    root = profile("p", "0", bound=0.0, version=1 << LIFE_SHIFT)
    news = {
        "the same again": ((1 << LIFE_SHIFT) + 5, ("0",), False),
        "less": ((1 << LIFE_SHIFT) + 5, ("00",), False),
        "more": ((1 << LIFE_SHIFT) + 5, ("",), True),
        "another life": (2 << LIFE_SHIFT, ("0",), True),
    }
    for what, (version, dz, is_news) in news.items():
        alone = Alone("0")
        alone.knows(*(profile(f"b{number}", "0", bound=1.0) for number in range(20)), root)
        told = gossip_of(alone, "z", root)
        assert told == [], what
        for _ in range(SPREAD_EVERY):
            alone.cycle()
        told = gossip_of(alone, "b1", msgspec.structs.replace(root, version=version, dz=dz, fed=dz))
        assert len(told) == len(set(told)) == (SPREAD if is_news else 0), what
        assert not {"b1", "p"} & set(told)


def gossip_of(alone: Alone, sender: str, *said: Profile) -> list[str]:
    """To whom it goes when somebody has said something."""
    sent = alone.hears(sender, Shuffle(said, (0,) * len(said), answer=True))
    assert all(isinstance(message, Shuffle) and not message.answer for _, message in sent)
    assert all(said[-1] in message.profiles for _, message in sent if isinstance(message, Shuffle))
    return [to for to, _ in sent]


def test_who_makes_up_publishers_does_not_make_others_talk() -> None:
    alone = Alone("0")
    alone.knows(*(profile(f"b{number}", "0", bound=1.0) for number in range(20)))
    talk = 0
    for number in range(160):
        talk += len(gossip_of(alone, "z", profile(f"made up {number}", "", bound=0.0)))
        if number % 4 == 0:
            deadline = alone.peer.next_deadline()
            assert deadline is not None
            alone.now = deadline
            sent = sends(alone.peer.handle(TimerFired(), alone.now))
            talk += sum(isinstance(message, Shuffle) for _, message in sent)
    # One partner in each of 40 cycles, and three more in each eighth.
    assert talk <= 40 + SPREAD * (40 // SPREAD_EVERY + 1)


def test_news_that_came_too_soon_after_other_news_is_told_later() -> None:
    alone = Alone("0")
    alone.knows(*(profile(f"b{number}", "0", bound=1.0) for number in range(20)))
    assert len(gossip_of(alone, "z", profile("p", "", bound=0.0))) == SPREAD
    assert gossip_of(alone, "z", profile("q", "", bound=0.0)) == []
    counts = []
    for _ in range(SPREAD_EVERY + 2):
        deadline = alone.peer.next_deadline()
        assert deadline is not None
        alone.now = deadline
        sent = sends(alone.peer.handle(TimerFired(), alone.now))
        counts.append(sum(isinstance(message, Shuffle) for _, message in sent))
    assert sorted(counts) == [1] * (SPREAD_EVERY + 1) + [1 + SPREAD]


def test_who_begins_to_publish_tells_some_at_once() -> None:
    alone = Alone("0")
    alone.knows(*(profile(f"b{number}", "0", bound=1.0) for number in range(20)))
    sent = sends(alone.peer.handle(Advertised(("0",)), alone.now))
    told = [to for to, message in sent if isinstance(message, Shuffle)]
    assert len(set(told)) == SPREAD
    assert sends(alone.peer.handle(Advertised(()), alone.now)) == []


def test_all_know_a_publisher_before_gossip_has_gone_round() -> None:
    overlay = grown(60, view=6)
    overlay.publisher("q")
    overlay.settle()
    at_once = sum("q" in peer.view.roots for peer in overlay.peers.values())
    overlay.cycles(2)
    later = sum("q" in peer.view.roots for peer in overlay.peers.values())
    assert at_once >= 20
    assert later >= 59


def test_who_has_started_anew_is_believed_though_its_last_life_does_not_answer() -> None:
    known = view()
    for root in (False, True):
        bound = 0.0 if root else 1.0
        known.learn([profile("b", "0", bound=bound, version=2 << LIFE_SHIFT)], [0], 1)
        known.forget("b", root, 1)
        assert "b" in (known.roots if root else known.profiles)
        known.forget("b", root, 2)
        assert "b" not in (known.roots if root else known.profiles)


def test_gossip_alone_brings_a_publisher_to_everybody() -> None:
    overlay = Overlay(replace(DEFAULT, view=5), seed=3)
    overlay.publisher("p")
    for number in range(30):
        overlay.subscriber(f"s{number}", format(number, "05b"), bound=1.0)
        overlay.peers[f"s{number}"]._contacts = (f"s{number // 2}" if number else "p",)
    overlay.cycles(12)
    assert all("p" in peer.view.roots for name, peer in overlay.peers.items() if name != "p")
