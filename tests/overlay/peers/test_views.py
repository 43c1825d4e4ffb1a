"""Whom a peer knows: the newest word of each, bounded, possible parents kept, the dead forgotten."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.overlay.peers.bench import Overlay, profile
from tidings.overlay.peers.messages import Profile
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


def test_gossip_alone_brings_a_publisher_to_everybody() -> None:
    overlay = Overlay(replace(DEFAULT, view=5), seed=3)
    overlay.publisher("p")
    for number in range(30):
        overlay.subscriber(f"s{number}", format(number, "05b"), bound=1.0)
        overlay.peers[f"s{number}"]._contacts = (f"s{number // 2}" if number else "p",)
    overlay.cycles(12)
    assert all("p" in peer.view.roots for name, peer in overlay.peers.items() if name != "p")
