"""What reading filters takes: counted in steps while it is done, and in lines of Python."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import lines
from tests.language.samples import FIELDS, some_filter
from tidings.errors import FilterError, FilterTooCostly
from tidings.language import grammar, plain
from tidings.language.filters import parse
from tidings.language.limits import DEFAULT, TOLD, Steps
from tidings.language.subscriptions import asked_where, either_text, read_where

LINES_MAX = 200_000
"""Of Python, for any filter, read or refused: a few milliseconds."""

SPREAD = (
    " AND ".join(f"(a{at} > 1 OR b{at} > 1)" for at in range(6))
    + " AND y7 > 1 AND "
    + " AND ".join(f"z{at} > 1" for at in range(7))
)
"""64 disjuncts of 14 terms in 220 characters."""

HOSTILE = {
    "spread": SPREAD,
    "spread more": " AND ".join(f"(a{at} = 1 OR b{at} = 1)" for at in range(20)),
    "alternatives of one field": " AND ".join(f"(a{at} < 1 OR a{at} > 3 OR b{at} < 2)" for at in range(3)),
    "ranges": " OR ".join(f"(x BETWEEN {at} AND 9{at} AND y > {at})" for at in range(64)),
    "half lines": " OR ".join(f"(x > {at} AND y < {at})" for at in range(64)),
    "terms by OR": " OR ".join(f"x = {at}" for at in range(0, 2_000, 2)),
    "terms by AND": " AND ".join(f"x <> {at}" for at in range(0, 2_000, 2)),
    "fields": " AND ".join(f"a{at} = 1" for at in range(1_000)),
    "exponents": f"x IN ({', '.join(f'{at}e300' for at in range(1, 700))})",
    "patterns": " OR ".join("a LIKE '%" + "a_" * 100 + f"c%{at}%'" for at in range(60)),
    "patterns and lists": f"x IN ({', '.join(map(repr, map(str, range(900))))})"
    + "".join(f" AND x LIKE '%{at}%'" for at in range(40)),
    "signs": "(" * 16_000,
    "dots": "a." * 8_000 + "a",
    "quotes": "x = " + "''" * 5_000,
    "escapes": " OR ".join(f"x = '\\\\{at}'" for at in range(1_000)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_done_for_a_hostile_filter_is_bounded(text: str) -> None:
    def read() -> None:
        with suppress(FilterError):
            parse(text)

    assert lines(read) <= LINES_MAX


LARGE = {
    "a list of a thousand": f"place IN ({', '.join(repr(f'{at:05}') for at in range(1_000))})",
    "63 pairs": " OR ".join(f"(x = {at} AND y = {at})" for at in range(63)),
    "two hundred terms": " OR ".join(f"x = {at}" for at in range(0, 400, 2)),
    "a hundred fields": " AND ".join(f"a{at} > 1" for at in range(100)),
    "thirty patterns": " OR ".join(f"note LIKE '%{at:04}%'" for at in range(30)),
    "four by four": " AND ".join(f"(a{at} = 1 OR b{at} < 2)" for at in range(4)),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_a_large_filter_is_read_and_so_is_its_canonical_text(text: str) -> None:
    read = parse(text)
    assert 0 < read.steps <= DEFAULT.steps
    assert parse(read.text, limits=TOLD) == read


def test_a_filter_that_is_too_much_in_normal_form_says_so() -> None:
    with pytest.raises(FilterTooCostly, match=r"896 terms with 896 bounds.* steps to read; the limit is"):
        parse(SPREAD)


def test_several_filters_share_one_budget() -> None:
    texts = [f"x{at} IN ({', '.join(map(str, range(at, at + 300)))})" for at in range(5)]
    for text in texts:
        parse(text)
    with pytest.raises(FilterTooCostly, match=f"more than {DEFAULT.steps} steps"):
        asked_where(texts, Steps(DEFAULT.steps))


def test_steps_are_the_same_whether_a_filter_is_remembered_or_not() -> None:
    texts = ["severity >= 3 AND a_new_field = 1", "note LIKE 'fire%'"]
    spent = []
    for _ in range(2):
        steps = Steps(DEFAULT.steps)
        asked_where(texts, steps)
        spent.append(steps.spent)
    assert spent[0] == spent[1] > 0


def test_several_filters_are_one() -> None:
    texts = ["x > 3 AND y = 1", "z", "NOT x > 9"]
    read = asked_where(texts, Steps(DEFAULT.steps))
    assert read == parse(" OR ".join(f"({text})" for text in texts))
    assert read_where(either_text(texts)) is read


@given(st.randoms(use_true_random=False), st.booleans())
def test_what_is_read_as_plain_is_what_sqlglot_reads(rng: random.Random, declared: bool) -> None:
    fields = FIELDS if declared else None
    text = some_filter(rng)
    for written in (text, parse(text, FIELDS, steps=Steps(10**9)).text):
        quick, _ = plain.read(written, fields, DEFAULT, Steps(10**9))
        if quick is not None:
            assert quick == grammar._Reader(written, fields, DEFAULT).read()


ODD = [
    "x", "NOT x", "NOT NOT x", "(x)", "x = 1 AND (y OR z) AND NOT w", "x = 1 OR y = 2 AND z = 3",
    "a.b.c > 1", "x NOT IN (1, 2)", "x NOT BETWEEN 1 AND 2 AND y", "x NOT LIKE 'a%'",
    "x IS NOT NULL OR x IS NULL", "TRUE", "x == 1", "x != 1", "x <> 1", "x = -1", "x = 1.50", "x = -0",
    "x = 'a''b'", 'x = "a"', "x=1", "x >= .5", "x = 1.", "x = 1e3", "x = 1E3", "x IN (1e0, 2)",
    "x IN ('a', 'a')", "x IN ()", "x IN (1, 'a')", "x IN (1,)", "`a b` = 1", "`x`.`y` = 1", "`` = 1",
    "$topic = 'a'", "`$topic` = 'a'", "`$user`.lang = 'el'", "x y", "x = y", "1 = x", "x = (1)", "(x) = 1",
    "current_path = 1", "a.current_path = 1", "x = TRUE", "x <> false", "x = NULL",
    "t > TIMESTAMP '2026-11-01 00:00:00'", "date = 1", "x IS NOT TRUE", "x LIKE 'a' ESCAPE '#'",
    "x LIKE '50\\%'", "x LIKE 1", "NOT x IN (1)", "x AND", "AND x", "x = 1 =", "x = 10L", "x = 0x1F",
    "x = 1_0", "x-1 = 2", "x--1", "x = - 1", "x = --1", "x = 9007199254740993", "x = 0.30000000000000004",
    "x = 12345678901234567890123", "x\u00a0= 1", "x = 1 /* y */", "caf\u00e9 = 1", "x <=> 1", "x => 1",
    "x =< 1", "x = 1;", "not_ = 1", "x NOT y", "TRUE = x", "in = 1", "a.in = 1", "in.a = 1", "(((x)))",
    "NOT (x OR y) AND NOT (x AND y)", "x BETWEEN 1 AND 'a'",
    "x = 'a\\'b'", "x = '\\\\'", "x = '\\x'", "x = 'a\\", "x LIKE '\\\\%'", "x LIKE '\\\\\\\\%'",
    "s = \"a\\\"b\"", "x = 'a\\\n'",
    "t IN (TIMESTAMP '2026-11-01 00:00:00', DATE '2026-11-02')", "t > '2026-11-01'", "t = TIMESTAMP 'soon'",
    "timestamp = 1", "date = 2", "x = DATE", "x IN (1e3)", "f IN (1e0, 2)",
    "f IN (1e0, 2e0)", "i IN (1e0, 2e0)",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("declared", [True, False])
def test_what_is_odd_is_read_or_refused_as_by_sqlglot_alone(text: str, declared: bool) -> None:
    fields = {**FIELDS, ("x",): FIELDS[("i",)], ("y",): FIELDS[("b",)]} if declared else None
    quick, _ = plain.read(text, fields, DEFAULT, Steps(10**9))
    try:
        judged = grammar._Reader(text, fields, DEFAULT).read()
    except FilterError:
        assert quick is None
    else:
        assert quick in (None, judged)


@pytest.mark.parametrize("depth", range(DEFAULT.depth - 2, DEFAULT.depth + 3))
@pytest.mark.parametrize(
    "inner", ["x", "NOT x", "x IN (1)", "x NOT IN (1)", "NOT x NOT IN (1)", "x NOT LIKE 'a'", "x IS NOT NULL"]
)
def test_both_ways_to_read_know_the_same_depth(depth: int, inner: str) -> None:
    text = "(" * depth + inner + ")" * depth
    quick, _ = plain.read(text, None, DEFAULT, Steps(10**9))
    try:
        judged = grammar._Reader(text, None, DEFAULT).read()
    except FilterTooCostly:
        judged = None
    assert quick == judged


def test_what_stands_side_by_side_is_not_deep() -> None:
    text = " AND ".join(f"NOT (a{at} = 1) AND b{at} NOT IN (1, 2)" for at in range(DEFAULT.depth + 4))
    parse(text)
    grammar._Reader(text, None, DEFAULT).read()
