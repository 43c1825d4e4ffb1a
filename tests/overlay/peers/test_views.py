"""Whom a peer knows: the newest word of each, bounded, possible parents kept, the dead forgotten."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from tests.overlay.peers.alone import Alone
from tests.overlay.peers.bench import Overlay, profile
from tidings.overlay.peers.messages import Profile, Shuffle
from tidings.overlay.peers.settings import DEFAULT
from tidings.overlay.peers.views import View

SMALL = replace(DEFAULT, view=4, stale_after=10)


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
                profile("b", "01", bound=1.0, floor=1 / 16),
                profile("c", "01", bound=1.0, floor=1 / 8),
                profile("d", "01", bound=5.0),
                profile("e", "01", bound=1.0, fed=False),
                profile("f", "", bound=1.0, floor=1 / 2),
            ],
            [0] * 5,
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


def test_those_that_could_serve_a_seeker_take_half_of_what_is_told_at_most() -> None:
    known = View("a", replace(DEFAULT, view=200, shuffle=8), random.Random(0))
    known.learn([profile(f"x{number}", "1010", bound=9.0) for number in range(100)], [0] * 100, 1)
    known.learn([profile(f"able{number}", "0", bound=4.0) for number in range(50)], [0] * 50, 1)
    able: set[str] = set()
    for _ in range(50):
        told, _ = known.sample((), 1, seeker())
        mine = [one.peer for one in told if one.peer.startswith("able")]
        assert (len(told), len(mine)) == (8, 4)
        able.update(mine)
    assert len(able) > 25, "not always the same"


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
    known.learn([profile(f"b{number}", "0", bound=1.0) for number in range(20)], [0] * 20, 1)
    open_to_all = set(list(known.profiles)[:10])
    told, _ = known.sample((), 1)
    given = [one.peer for one in told]
    assert set(given) <= open_to_all
    known.learn([profile(f"c{number}", "0", bound=1.0) for number in range(8)], [0] * 8, 1, given)
    assert set(given) & set(known.profiles) == set()
    assert open_to_all - set(given) <= set(known.profiles)
    assert {f"c{number}" for number in range(8)} <= set(known.profiles)


def test_hardly_anybody_is_known_to_none() -> None:
    """One half of a view is a sample of all: those who were told of pass from one to the other."""
    overlay = Overlay(replace(DEFAULT, view=6), seed=5)
    overlay.publisher("p")
    for number in range(60):
        overlay.subscriber(f"s{number}", format(number % 8, "03b"), bound=1.0 + number % 4)
    overlay.cycles(20)
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


def test_a_publisher_that_comes_or_comes_back_is_told_on_at_once_and_once_in_a_cycle() -> None:
    def told(alone: Alone, *said: Profile) -> list[str]:
        sent = alone.hears("z", Shuffle(said, (0,) * len(said), answer=True))
        assert all(isinstance(message, Shuffle) and not message.answer for _, message in sent)
        assert all(said[-1] in message.profiles for _, message in sent if isinstance(message, Shuffle))
        return [to for to, _ in sent]

    alone = Alone("0")
    alone.knows(*(profile(f"b{number}", "0", bound=1.0) for number in range(20)))
    alone.cycle()
    root = profile("p", "", bound=0.0, version=1 << 32)
    first = told(alone, root)
    assert 1 <= len(first) == len(set(first)) <= 3
    assert told(alone, msgspec.structs.replace(root, version=(1 << 32) + 5)) == [], "no news"
    again = msgspec.structs.replace(root, version=2 << 32)
    assert told(alone, again) == [], "one is enough in a cycle"
    alone.cycle()
    assert told(alone, msgspec.structs.replace(root, version=3 << 32)) != []


def test_all_know_a_publisher_long_before_gossip_has_gone_round() -> None:
    overlay = Overlay(replace(DEFAULT, view=6), seed=5)
    overlay.publisher("p")
    for number in range(60):
        overlay.subscriber(f"s{number}", format(number % 8, "03b"), bound=1.0)
    overlay.cycles(20)
    overlay.publisher("q")
    overlay.cycles(2)
    knowing = sum("q" in peer.view.roots for peer in overlay.peers.values())
    assert knowing >= 58


def test_gossip_alone_brings_a_publisher_to_everybody() -> None:
    overlay = Overlay(replace(DEFAULT, view=5), seed=3)
    overlay.publisher("p")
    for number in range(30):
        overlay.subscriber(f"s{number}", format(number, "05b"), bound=1.0)
        overlay.peers[f"s{number}"]._contacts = (f"s{number // 2}" if number else "p",)
    overlay.cycles(12)
    assert all("p" in peer.view.roots for name, peer in overlay.peers.items() if name != "p")
