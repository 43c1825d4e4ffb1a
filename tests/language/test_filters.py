"""Filters by value and by property: verdicts, normal form, canonical text, refusals."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from tests.language.samples import FIELDS, some_event, some_filter
from tidings.errors import FilterError, FilterTooCostly
from tidings.language.fields import Conflict, Field, Path, Type, find
from tidings.language.filters import Filter, Unknown, parse
from tidings.language.limits import DEFAULT, Steps

DECLARED = pytest.mark.parametrize("fields", [FIELDS, None], ids=["declared", "undeclared"])


def parsed(text: str, fields: Mapping[Path, Field] | None) -> Filter:
    """A generated filter; only limits, and without a declaration some numbers, may refuse it."""
    try:
        return parse(text, fields)
    except FilterError as error:
        numbers = fields is None and ("64-bit float" in error.reason or "without exponent" in error.reason)
        if not isinstance(error, FilterTooCostly) and not numbers:
            raise
        reject()


@DECLARED
@given(rng=st.randoms(use_true_random=False))
def test_the_normal_form_says_what_the_terms_say(
    fields: Mapping[Path, Field] | None, rng: random.Random
) -> None:
    filter_ = parsed(some_filter(rng), fields)
    for _ in range(10):
        event = some_event(rng, mixed=fields is None)
        for unknown in Unknown:
            inside = any(
                all(find(event, path) in region for path, region in box) for box in filter_.boxes(unknown)
            )
            assert inside == filter_.matches(event, unknown), (filter_.source, event, unknown)


@DECLARED
@given(rng=st.randoms(use_true_random=False))
def test_the_canonical_text_reads_back(fields: Mapping[Path, Field] | None, rng: random.Random) -> None:
    filter_ = parsed(some_filter(rng), fields)
    again = parse(filter_.text, fields)
    assert again == filter_
    assert again.text == filter_.text
    for _ in range(5):
        event = some_event(rng, mixed=fields is None)
        assert again.evaluate(event) is filter_.evaluate(event)


@pytest.mark.parametrize(
    ("text", "event", "verdict"),
    [
        ("severity >= 3", {"severity": 3}, True),
        ("severity >= 3", {"severity": 2}, False),
        ("severity >= 3", {}, None),
        ("severity >= 3", {"severity": None}, None),
        ("severity >= 3", {"severity": "4"}, None),
        ("severity >= 3", {"severity": True}, None),
        ("severity >= 3", {"severity": [3]}, None),
        ("NOT severity >= 3", {"severity": "4"}, None),
        ("severity = 3", {"severity": 3.0}, True),
        ("x > 9007199254740992", {"x": 2**53 + 1}, True),
        ("x = 0", {"x": -0.0}, True),
        ("x < 0.1", {"x": 0.1}, False),
        ("note = '4'", {"note": 4}, None),
        ("fire", {"fire": True}, True),
        ("NOT fire", {"fire": False}, True),
        ("fire", {"fire": 1}, None),
        ("fire AND severity > 1", {"severity": 1}, False),
        ("fire OR severity > 1", {"severity": 2}, True),
        ("fire AND severity > 1", {"severity": 2}, None),
        ("place.city = 'Athens'", {"place": {"city": "Athens"}}, True),
        ("place.city = 'Athens'", {"place": "Athens"}, None),
        ("place.city IS NULL", {"place": "Athens"}, True),
        ("`place.city` = 'Athens'", {"place.city": "Athens"}, True),
        ("x IS NULL", {}, True),
        ("x IS NULL", {"x": None}, True),
        ("x IS NOT NULL", {"x": []}, True),
        ("x > 5 AND x < 3", {}, None),
        ("x > 5 AND x < 3", {"x": 4}, False),
        ("x <= 5 OR x > 5", {}, None),
        ("x IN (1, 2) OR x IS NULL", {}, True),
        ("at >= TIMESTAMP '2026-11-01 02:00:00+02:00'", {"at": datetime(2026, 11, 1, tzinfo=UTC)}, True),
        ("at >= TIMESTAMP '2026-11-01'", {"at": "2026-11-02"}, None),
        ("at >= DATE '2026-11-01'", {"at": datetime(2026, 10, 31, 23, 59, tzinfo=UTC)}, False),
        ("at > '2026-11-01'", {"at": "2026-11-02"}, True),
        ("3 < x", {"x": 4}, True),
        ("x LIKE 'a#%b' ESCAPE '#'", {"x": "a%b"}, True),
        ("TRUE", {}, True),
        ("FALSE", {"x": 1}, False),
    ],
)
def test_verdicts_of_an_undeclared_topic(text: str, event: dict[str, object], verdict: bool | None) -> None:
    assert parse(text).evaluate(event) is verdict


@pytest.mark.parametrize(
    ("text", "event", "verdict"),
    [
        ("i > 1.5", {"i": 2}, True),
        ("i > 1.5", {"i": 1}, False),
        ("i = 1.5", {"i": 1}, False),
        ("i <> 1.5", {"i": 1}, True),
        ("i >= -1.5", {"i": -1}, True),
        ("i < -1.5", {"i": -1}, False),
        ("i = 9007199254740993", {"i": 2**53}, False),
        ("i = 9007199254740993", {"i": 2**53 + 1}, True),
        ("f = 9007199254740993", {"f": 2.0**53}, True),
        ("f = 0.1", {"f": 0.1}, True),
        ("f < 3", {"f": 2}, True),
        ("t > '2026-11-01'", {"t": datetime(2026, 11, 1, 0, 0, 0, 1, tzinfo=UTC)}, True),
        ("s < 'b'", {"s": "a😀"}, True),
        ("s > '\uffff'", {"s": "😀"}, True),
    ],
)
def test_verdicts_of_a_declared_topic(text: str, event: dict[str, object], verdict: bool | None) -> None:
    assert parse(text, FIELDS).evaluate(event) is verdict


@pytest.mark.parametrize(
    ("text", "unknown", "event", "matches"),
    [
        ("x > 5 AND x < 3", Unknown.ASSUME, {}, True),
        ("x > 5 AND x < 3", Unknown.WAIT, {}, False),
        ("x > 5 AND x < 3", Unknown.ASSUME, {"x": 4}, False),
        ("x <= 5 OR x > 5", Unknown.WAIT, {}, False),
        ("x <= 5 OR x > 5", Unknown.ASSUME, {}, True),
        ("x IS NULL AND x > 3", Unknown.ASSUME, {}, True),
        ("x IS NULL AND x > 3", Unknown.ASSUME, {"x": 4}, False),
        ("x IS NOT NULL AND x > 3", Unknown.ASSUME, {}, False),
    ],
)
@DECLARED
def test_contradictions_over_a_missing_field_stay_unknown(
    text: str, unknown: Unknown, event: dict[str, object], matches: bool, fields: Mapping[Path, Field] | None
) -> None:
    declared: dict[Path, Field] | None = None if fields is None else {("x",): Field(("x",), Type.INT)}
    assert parse(text, declared).matches(event, unknown) is matches
    assert parse(parse(text, declared).text, declared).matches(event, unknown) is matches


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("i=1 or i=2 or i =3", "i BETWEEN 1 AND 3"),
        ("NOT (i = 1 AND b)", "b = FALSE OR i <> 1"),
        ("i > 3 AND (i > 5 OR i > 7)", "i >= 6"),
        ("f > 1.5 AND f <= 3", "f > 1.5 AND f <= 3"),
        ("s LIKE 'fire%'", "s LIKE 'fire%'"),
        ("s LIKE 'fire'", "s = 'fire'"),
        ("s NOT IN ('b', 'a')", "s NOT IN ('a', 'b')"),
        ("date = 1", "`date` = 1"),
        ("b OR NOT b", "b >= FALSE"),
        ("i > 1 OR (i > 1 AND b)", "i >= 2"),
        ("i IS NOT NULL AND i IS NULL", "FALSE"),
        ("TRUE OR i > 1", "TRUE"),
        ("(b AND i = 1) OR (b AND i = 3)", "b = TRUE AND i IN (1, 3)"),
        ("t = DATE '2026-11-01'", "t = TIMESTAMP '2026-11-01 00:00:00'"),
        ("s LIKE 'a%c' AND s LIKE 'a%'", "s LIKE 'a%c'"),
        ("s = 'abc' AND s LIKE '%b%'", "s = 'abc'"),
    ],
)
def test_canonical_text(written: str, canonical: str) -> None:
    assert parse(written, FIELDS).text == canonical


REFUSALS = [
    # text, what the reason says, what the caret marks
    ("i = 'a'", "i is an int; expected an int literal", "'a'"),
    ("j >= 3 AND sverity > 1", "declares no field sverity", "sverity"),
    ("I = 1", "nearest: i", "I"),
    ("p = 1", "p is an object; its fields: p.city, p.lane", "p"),
    ("i LIKE 'a'", "LIKE is for strings", "i"),
    ("i", "i is an int, not a condition", "i"),
    ("i = 1 foo", "joined by AND or OR", "foo"),
    ("(i = 1", "expecting )", "1"),
    ("i = 1)", "cannot be read here", ")"),
    ("i AND", "cannot be read here", ""),
    ("i = 1 AND AND b", "cannot be read here", "AND"),
    ("s = 'abc", "never closed", "'abc"),
    ("s = 'a' 'b'", "two strings side by side", "'a' 'b'"),
    ("s = 'it''s'", "two strings side by side", "'it''s'"),
    ("s = '\\q'", "\\ stands before one of", "\\q"),
    ("s LIKE '\\\\q'", "must stand before %", "'\\\\q'"),
    ("s RLIKE 'a'", "use LIKE", None),
    ("abs(i) = 1", "functions are not part", None),
    ("i + 1 = 2", "arithmetic is not part", None),
    ("i = j", "two fields", "j"),
    ("1 = 1", "two literals", None),
    ("i = NULL", "never true; write IS NULL", None),
    ("i IN (1, NULL)", "never true; write IS NULL", None),
    ("i IN (1, 'a')", "expected an int literal", "'a'"),
    ("i IN (SELECT 1)", "queries are not part", "SELECT"),
    ("b IS TRUE", "IS takes NULL", None),
    ("i <=> 1", "<=> is not part", None),
    ("i = 1; j = 2", "one condition", None),
    ("i = 1 -- all", "comments", None),
    ("i = 1L", "casts and typed numbers", "1L"),
    ("ö = 1", "written in backticks", "ö"),
    ("i = 1e400", "64-bit float holds", "1e400"),
    ("i = 1e16", "without exponent", "1e16"),
    ("i IN (1, 2e0)", "without exponent", "2e0"),
    ("f = 0.1234567890123456789", "18 behind", "0.1234567890123456789"),
    ("t > 'yesterday'", "expected a time such as", "'yesterday'"),
    ("t > '2026-02-30'", "not a time", "'2026-02-30'"),
    ("t IN ('2026-11-01')", "TIMESTAMP '2026-11-01 00:00:00'", "'2026-11-01'"),
    ("t = 5", "t is a timestamp", "5"),
    ("tags = 'a'", "only IS [NOT] NULL", "tags"),
    ("", "the filter is empty", None),
    ("  \n ", "the filter is empty", None),
    ("s = 'a\0'", "NUL", "\0"),
    ("i ISNULL", "write IS NULL", "ISNULL"),
    ("i NOT NULL", "write IS NOT NULL", "NOT"),
    ("i IS NOT NOT NULL", "IS takes NULL or NOT NULL", "NOT"),
    ("i IN [1]", "brackets", "["),
    ("i IN (1, 2,)", "a comma stands between", ","),
    ("i IN (, 1)", "a comma stands between", ","),
    ("i BETWEEN ASYMMETRIC 1 AND 3", "smaller bound first", "ASYMMETRIC"),
    ("i > 3;", "without `;`", ";"),
    ("t = TIMESTAMPTZ '2026-11-01'", "typed literals", "TIMESTAMPTZ"),
    ("t = TIMESTAMP WITH TIME ZONE '2026-11-01'", "cannot stand here", None),
    ("t = '2026-11-01T12:30Z'", "expected a time such as", "'2026-11-01T12:30Z'"),
    ("t = '2026-11-01 12:30:00+19:00'", "at most 18 hours", None),
    ("f < 1.7976931348623158e308", "64-bit float holds", "1.7976931348623158e308"),
    ("s LIKE 'a' ESCAPE '😀'", "beyond U+FFFF", "'😀'"),
    ("i\x85> 3", "no white space", "\x85"),
    ("i\u00a0> 3", "no white space", "\u00a0"),
    ("i = . 5", "written together", "."),
    ("p . 5 = 3", "between two names", "."),
    ("i > 3 > 2", "do not chain", None),
    ("i < 9223372036854775808", "no int of 64 bits", "9223372036854775808"),
    ("i > -9223372036854775808.5", "no int of 64 bits", "9223372036854775808.5"),
    ("current_path = 1", "written `current_path`", "current_path"),
    ("`c\nd` = 1", "declares no field", "`c\nd`"),
    ("`" + "n" * 9_000 + "` = 1", "…", None),
]


@pytest.mark.parametrize(("text", "reason", "marked"), REFUSALS)
def test_a_mistake_points_at_its_place(text: str, reason: str, marked: str | None) -> None:
    tags = Field(("tags",), Type.STRING, conflict=Conflict.UNION)
    with pytest.raises(FilterError) as caught:
        parse(text, {**FIELDS, ("tags",): tags})
    assert reason in caught.value.reason
    assert caught.value.reason.isprintable(), "the reason goes into one SUBACK string"
    assert len(caught.value.reason) < 300
    if marked is not None:
        assert text[caught.value.start : caught.value.end] == marked


def test_the_caret_stands_below_the_place() -> None:
    with pytest.raises(FilterError) as caught:
        parse("j >= 3\n  AND sverity > 1", FIELDS)
    *_, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") : caret.rindex("^") + 1] == "sverity"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("x = '" + "a" * 20_000 + "'", str(DEFAULT.text)),
        ("(" * 40 + "x = 1" + ")" * 40, str(DEFAULT.depth)),
        ("NOT " * 2_000 + "x", str(DEFAULT.depth)),
        ("(" * 4_000, str(DEFAULT.depth)),
        ("a" + "=a" * 5_000, str(DEFAULT.tokens)),
        ("x IN (" + ", ".join(map(str, range(2_000))) + ")", str(DEFAULT.listed)),
        (" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(20)), str(DEFAULT.disjuncts)),
        (" OR ".join(f"a{i}" for i in range(1_500)), str(DEFAULT.disjuncts)),
        ("NOT (" + " AND ".join(f"a{i}" for i in range(1_500)) + ")", str(DEFAULT.disjuncts)),
        (" AND ".join(f"a{i}" for i in range(1_500)), "1500 terms"),
        (
            f"({' OR '.join('abcdefgh')}) AND x NOT IN ({', '.join(map(str, range(0, 999, 2)))})",
            "bounds and values",
        ),
        (" AND ".join(f"x LIKE '%{i}%'" for i in range(100)), str(DEFAULT.patterns)),
        ("x LIKE '" + "%a" * 200 + "'", str(DEFAULT.pattern)),
        (".".join("a" * 20) + " = 1", str(DEFAULT.path)),
    ],
    ids=[
        "text",
        "depth",
        "nots",
        "open",
        "tokens",
        "listed",
        "product",
        "fields",
        "negated",
        "terms",
        "points",
        "patterns",
        "pattern",
        "path",
    ],
)
def test_a_hostile_filter_is_refused_with_the_limit_it_broke(text: str, limit: str) -> None:
    with pytest.raises(FilterTooCostly) as caught:
        parse(text, steps=Steps(10**9))
    assert limit in caught.value.reason
    with pytest.raises(FilterTooCostly):
        parse(text)


def test_as_deep_as_the_limit_is_fine() -> None:
    text = "(" * DEFAULT.depth + "x = 1" + ")" * DEFAULT.depth
    assert parse(text).text == "x = 1"


@pytest.mark.parametrize(
    "word", ["if", "case", "set", "date", "order", "values", "user", "select", "show", "comment"]
)
def test_words_of_sql_are_names_like_any(word: str, caplog: pytest.LogCaptureFixture) -> None:
    filter_ = parse(f"{word} = 1 AND NOT {word}.x LIKE 'a%'")
    assert filter_.paths == ((word,), (word, "x"))
    assert parse(filter_.text) == filter_
    assert caplog.records == [], "a stranger must not be able to fill a log"


@pytest.mark.parametrize("word", ["in", "like", "and", "null", "true", "timestamp", "between"])
def test_words_of_the_language_are_names_in_backticks(word: str) -> None:
    filter_ = parse(f"`{word}` = 1")
    assert filter_.paths == ((word,),)
    assert parse(filter_.text) == filter_


@pytest.mark.parametrize(
    "text",
    [
        "x > 9007199254740992 AND x < 9007199254740994",
        "x NOT IN (0, 9007199254740992, 9007199254740994) AND x <> -5e-324",
        "x >= 1e19",
        "x <= -9223372036854775808",
        "x > 1e300 AND x <> 1.7976931348623157e308",
        "x = 4611686018427387904",
    ],
)
def test_the_canonical_text_of_large_numbers_reads_back(text: str) -> None:
    filter_ = parse(text)
    assert parse(filter_.text) == filter_


def test_exponents_are_listed_apart_where_nothing_is_declared() -> None:
    with pytest.raises(FilterError, match="without exponent"):
        parse("x IN (1e0, 18014398509481984)")
    for text in (
        "x IN (1e0, 1e300)",
        "x = 5 OR x = 1e300",
        "x NOT IN (1e-300, 1e300) AND x <> 18014398509481984",
    ):
        assert parse(parse(text).text) == parse(text)


def test_a_number_beyond_all_is_found_in_no_event() -> None:
    assert parse("x > 1.7976931348623157e308").boxes(Unknown.WAIT) == ()


def test_unknown_may_be_said_as_a_string() -> None:
    filter_ = parse("x = 1")
    assert filter_.matches({}, "assume")  # type: ignore[arg-type]
    assert filter_.boxes("wait") == filter_.boxes(Unknown.WAIT)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="maybe"):
        filter_.boxes("maybe")  # type: ignore[arg-type]


@given(st.text(alphabet="xyi =<>!()'\"`\\.,;-+*%_0123456789eANDORNTLIKEISU\n", max_size=60))
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    for fields in (None, FIELDS):
        with contextlib.suppress(FilterError):
            parse(parse(text, fields).text, fields)


@given(st.text(max_size=40))
def test_any_string_literal_reads_back(value: str) -> None:
    from tidings.language.wording import string_text

    assume("\0" not in value)
    filter_ = parse(f"s = {string_text(value)}")
    assert filter_.evaluate({"s": value}) is True
    assert parse(filter_.text) == filter_


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_literal_reads_back(value: float) -> None:
    from tidings.language.wording import number_text

    declared: dict[Path, Field] = {("f",): Field(("f",), Type.FLOAT)}
    for relation in ("=", "<", "<=", ">", ">="):
        filter_ = parse(f"f {relation} {number_text(value)}", declared)
        assert parse(filter_.text, declared) == filter_
        assert filter_.evaluate({"f": value}) is (relation in ("=", "<=", ">="))


def test_the_cost_and_the_fields_of_a_filter() -> None:
    filter_ = parse("(i = 1 OR b) AND s IN ('a', 'b')", FIELDS)
    assert (filter_.cost.terms, filter_.cost.disjuncts, filter_.cost.constraints) == (3, 2, 4)
    assert filter_.paths == (("b",), ("i",), ("s",))
