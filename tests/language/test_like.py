"""LIKE: what matches, and that it takes no backtracking to find out."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import lines
from tidings.errors import FilterTooCostly
from tidings.language import like
from tidings.language.filters import parse
from tidings.language.limits import Steps

patterns = st.text(alphabet="ab%_", max_size=12)
texts = st.text(alphabet="abc\n", max_size=16)


@given(patterns, texts)
def test_it_is_what_the_regular_expression_says(pattern: str, text: str) -> None:
    by_regex = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
    assert like.matches(like.pieces(pattern), text) == bool(by_regex.fullmatch(text))


@given(st.text(alphabet="ab%_\\", max_size=8), texts)
def test_spelling_a_pattern_changes_nothing(pattern: str, text: str) -> None:
    try:
        parts = like.pieces(pattern)
    except like.BadPattern:
        return
    again = like.pieces(like.spelled(parts))
    assert like.matches(again, text) == like.matches(parts, text)
    assert like.spelled(again) == like.spelled(parts)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("50\\%", "50%", True),
        ("50\\%", "500", False),
        ("a\\_b", "a_b", True),
        ("a\\_b", "axb", False),
        ("\\\\%", "\\x", True),
        ("_", "😀", True),
        ("_", "e\u0301", False),
        ("%", "", True),
        ("a%%b", "ab", True),
        ("a%a", "a", False),
        ("%a_c%", "xxabcabx", True),
        ("%a_c%a_c", "abc", False),
    ],
)
def test_by_value(pattern: str, text: str, matches: bool) -> None:
    assert like.matches(like.pieces(pattern), text) is matches


@pytest.mark.parametrize("pattern", ["\\", "a\\", "\\a", "a\\b%"])
def test_an_escape_that_escapes_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(like.BadPattern, match="must stand before"):
        like.pieces(pattern)


@given(
    st.text(alphabet="abé%_", max_size=8), st.randoms(use_true_random=False), st.sampled_from(["ab", "abé"])
)
def test_in_long_texts_too(pattern: str, rng: random.Random, alphabet: str) -> None:
    text = "".join(rng.choices(alphabet, k=rng.randint(50, 200)))
    by_regex = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(like, "LONG", 60)
        patch.setattr(like, "STRETCH", rng.choice([1, 7, 1000]))
        assert like.matches(like.pieces(pattern), text) == bool(by_regex.fullmatch(text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%_fire%", "a" * 1_000_000),
        ("%_fire%", "_fir" * 250_000),
        ("%aab%", "a" * 1_000_000),
        ("%" + "a_" * 100 + "c%1%", "a" * 1_000_000),
        ("%" + "a_" * 100 + "c%1%", "é" + "a" * 1_000_000),
        ("%_a" * 80 + "%b%", "ba" * 400_000),
    ],
)
def test_a_long_text_is_not_walked_through_in_python(pattern: str, text: str) -> None:
    parts = like.pieces(pattern)
    stretches = 1 + len(text) // like.STRETCH
    wanted = len(parts) + sum(c is not None for part in parts for c in part)
    assert lines(lambda: like.matches(parts, text)) < 20 * (stretches + 4) * wanted < 200_000


def test_what_all_patterns_of_a_filter_look_for_is_bounded() -> None:
    hostile = " OR ".join("a LIKE '%" + "a_" * 100 + f"c%{at}%'" for at in range(60))
    with pytest.raises(FilterTooCostly, match=r"look for 6060 characters.* the limit is 200"):
        parse(hostile, steps=Steps(10**9))
    # In the normal form there are more of them than in the text.
    doubled = "(a LIKE '%" + "x" * 75 + "%' OR b) AND (c OR d OR e)"
    with pytest.raises(FilterTooCostly, match="look for 225 characters"):
        parse(doubled)
    parse(" OR ".join(f"note LIKE 'prefix{at}%'" for at in range(60)))


def test_a_hostile_pattern_takes_one_step_per_character() -> None:
    # With backtracking this would be 100,000 ** 10 steps; it must end at all.
    pattern = "%a" * 10 + "_b"
    assert not like.matches(like.pieces(pattern), "a" * 100_000)
    assert like.matches(like.pieces("%" + "a_" * 100 + "b%"), "a" * 100_000 + "b" * 100) is True


@given(st.text(alphabet="ab%_", max_size=6), texts)
def test_every_match_begins_with_the_prefix(pattern: str, text: str) -> None:
    parts = like.pieces(pattern)
    if like.matches(parts, text):
        assert text.startswith(like.prefix(parts))
