"""Figures in words: the examples beside them hold, and odd values are said sensibly."""

from __future__ import annotations

import doctest

import pytest

from tidings.console import looks, words


def test_the_examples_hold() -> None:
    assert doctest.testmod(words).failed == 0
    assert doctest.testmod(looks).failed == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.0051, "5.1 ms"),
        (0.9951, "1.0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3_600.0, "1 h"),
        (3_599.9, "1 h"),
        (90_000.0, "25 h"),
    ],
)
def test_a_duration_never_says_sixty_of_a_unit(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_nothing_but_all_is_a_hundred_percent() -> None:
    assert [words.percent(n, 10_000) for n in (0, 1, 9_999, 10_000)] == [
        "0 %",
        "under 1 %",
        "over 99 %",
        "100 %",
    ]


def test_what_cannot_be_shown_is_replaced() -> None:
    assert words.clean("a\x00b\ud800c\td\u202ee") == "a�b�c d�e"


def test_a_long_name_keeps_both_ends() -> None:
    assert words.clipped("a" * 100 + "z" * 100, 12) == "aaaaaaa…zzzz"
