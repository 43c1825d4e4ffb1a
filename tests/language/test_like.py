"""LIKE: what matches, and that it takes no backtracking to find out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language import like

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
