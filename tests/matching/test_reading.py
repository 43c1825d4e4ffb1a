"""Payloads that are read as columns: what is found for them is what is found for the decoded events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidings.errors import PayloadError
from tidings.language import payloads
from tidings.language.filters import parse
from tidings.matching import Index, Payloads, Scan, reading
from tidings.matching import index as index_module

FILTERS = (
    "a >= 3",
    "a < 0.25 AND b > -1.5",
    "b = 123456789012345",
    "flag",
    "NOT flag OR a = 7",
    "c IS NULL AND a > 1",
    "kind = 'x' OR a = 2",
    "inner.a > 1",
    "$topic = 't/1' AND a > 2",
    "$topic = 't/2'",
    "long_name_that_is_asked_for <= 1e3",
)
ABOUT = {"$topic": "t/1", "$user": None}

NAMES = st.sampled_from(
    ("a", "aa", "b", "c", "flag", "kind", "inner", "other", "é", "$topic", "long_name_that_is_asked_for", "")
)
NUMBERS = st.sampled_from(
    (
        "0",
        "-0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "2.50",
        "0.25",
        "0.1",
        "00",
        "01",
        "1.",
        ".5",
        "-",
        "1e3",
        "1E3",
        "+1",
    )
) | st.sampled_from(
    (
        "123456789012345",
        "1234567890123456",
        "-12345678.9012345",
        "0.00000000000001",
        "0.0000000000000001",
        "99999999999999999999",
        "1x",
        "NaN",
        "Infinity",
    )
)
WORDS = st.sampled_from(
    (
        "true",
        "false",
        "null",
        "nul",
        "True",
        '"x"',
        '"y z"',
        '"\\u0041"',
        '"é"',
        '"',
        "[]",
        '{"a": 2}',
        '"\t"',
    )
)
BLANKS = st.sampled_from(("", "", "", " ", "\n\t\r ", "\f"))


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """JSON objects, and what looks like one."""
    members = [
        f"{draw(BLANKS)}{json.dumps(draw(NAMES), ensure_ascii=False)}{draw(BLANKS)}:{draw(BLANKS)}"
        f"{draw(NUMBERS | WORDS)}{draw(BLANKS)}"
        for _ in range(draw(st.integers(0, 4)))
    ]
    text = f"{draw(BLANKS)}{{{','.join(members)}}}{draw(BLANKS)}".encode()
    match draw(st.sampled_from(("whole", "whole", "whole", "whole", "cut", "more", "mixed"))):
        case "cut":
            return text[: draw(st.integers(0, len(text)))]
        case "more":
            return text + draw(st.sampled_from((b"}", b",", b"x", b"{}", b"\0")))
        case "mixed":
            at = draw(st.integers(0, len(text) - 1))
            return text[:at] + draw(st.binary(max_size=2)) + text[at + 1 :]
    return text


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Objects of one device: the same keys in the same order, but for what one of them may do."""
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    some = []
    for _ in range(draw(st.integers(2, 8))):
        own = list(names)
        match draw(st.sampled_from(("same", "same", "same", "fewer", "other", "more"))):
            case "fewer":
                own = own[: draw(st.integers(0, len(own)))]
            case "other" if own:
                own[draw(st.integers(0, len(own) - 1))] = draw(NAMES)
            case "more":
                own.insert(draw(st.integers(0, len(own))), draw(NAMES))
        members = [f"{json.dumps(name, ensure_ascii=False)}:{draw(NUMBERS | WORDS)}" for name in own]
        some.append(f"{{{','.join(members)}}}".encode())
    return some


def laid_out(some: Sequence[bytes], behind: bytes = b'"a":1}') -> Payloads:
    """Payloads in one buffer, with something behind each."""
    data, begins, ends = b"1", [], []
    for one in some:
        begins.append(len(data))
        data += one
        ends.append(len(data))
        data += behind
    return Payloads(data, np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))


def decoded(one: bytes) -> dict[str, Any] | None:
    try:
        return {**payloads.decode(one), **ABOUT}
    except PayloadError:
        return None


def both(filters: Sequence[str]) -> tuple[Index, Scan]:
    index, scan = Index(), Scan()
    for number, text in enumerate(filters):
        index.add(number, parse(text))
        scan.add(number, parse(text))
    return index, scan


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(texts(), min_size=1, max_size=12) | alike(), st.sets(st.sampled_from(FILTERS), min_size=1))
@example([b'{"a":3}'], {"a >= 3"})
@example([b'{"a":3,"a":3}', b'{"a":3}', b'{"a":3}'], {"a >= 3"})
@example([b'{"$topic":3}', b"{}", b"{}"], {"$topic = 't/1' AND a > 2", "a >= 3"})
def test_what_is_read_is_found_as_if_it_were_decoded(some: list[bytes], filters: set[str]) -> None:
    index, scan = both(sorted(filters))
    answers = index.match_payloads(laid_out(some), ABOUT)
    if answers is None:
        return
    before = 0
    for at, one in enumerate(some):
        own, before = answers.owners[before : answers.ends[at]].tolist(), int(answers.ends[at])
        if at in answers.unread:
            assert own == []
            continue
        event = decoded(one)
        assert event is not None, "what is read is sound"
        assert own == list(scan.match(event)), one


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":3,"b":-2.5,"flag":true,"c":null,"pad":"some text: {}, []"}',
        b' { "a" : 0.1 , "flag" : false }\n',
        b"{}",
        b'{"a":123456789012345}',
        b'{"other":-0.00000000000001}',
    ],
)
def test_plain_objects_are_read(text: bytes) -> None:
    index, scan = both([one for one in FILTERS if "inner" not in one and "kind" not in one])
    answers = index.match_payloads(laid_out([text]), ABOUT)
    assert answers is not None
    assert answers.unread == []
    event = decoded(text)
    assert event is not None
    assert answers.owners.tolist() == list(scan.match(event))


@pytest.mark.parametrize("odd", [b"", b"\\", b"\x1f", b"\x7f", b"\xc3\xa9", b'"', b"\0"])
def test_long_texts_are_looked_at_to_their_end(odd: bytes) -> None:
    """What is odd is seen wherever it is, as what is behind the object is not."""
    index, _ = both(["a > 1"])
    for size in (0, 1, 31, 32, 33, 63, 64, 70):
        for at in range(size + 1):
            text = b'{"a":2,"pad":"' + b"." * at + odd + b"." * (size - at) + b'"}'
            answers = index.match_payloads(laid_out([b'{"a":2}', text]), ABOUT)
            assert answers is not None
            assert answers.unread == ([1] if odd else []), text
    # A text that nothing ends, but for what is behind the object.
    answers = index.match_payloads(laid_out([b'{"a":2}', b'{"a":2,"pad":"' + b"." * 40]), ABOUT)
    assert answers is not None
    assert answers.unread == [1]


def test_keys_are_told_apart_though_those_before_them_were_the_same() -> None:
    index, _ = both(["a > 1", "aa > 1", "b > 1", "c > 1"])
    some = [
        b'{"a":2,"b":2}',
        b'{"a":2,"b":2,"c":2}',
        b'{"a":2,"aa":2,"c":2}',
        b'{"aa":2,"b":2,"c":2}',
        b'{"a":2,"b":2,"c":2}',
        b'{"a":2,"b":2,"a":2}',
        b'{"a":2}',
        b'{"a":2,"b":2,"c":2}',
    ]
    answers = index.match_payloads(laid_out(some), ABOUT)
    assert answers is not None
    own = np.split(answers.owners, answers.ends)[:-1]
    assert [one.tolist() for one in own] == [
        [0, 2],
        [0, 2, 3],
        [0, 1, 3],
        [1, 2, 3],
        [0, 2, 3],
        [],
        [0],
        [0, 2, 3],
    ]
    assert answers.unread == [5]


@pytest.mark.parametrize("behind", [b"", b"1234567890", b'":2,"'])
@pytest.mark.parametrize("size", range(10))
def test_keys_of_any_length_come_again_and_are_told_from_others(size: int, behind: bytes) -> None:
    """They are compared with the quote and the colon behind them, wherever the buffer ends."""
    key = "k" * size
    index, _ = both(["a > 1", *([f"{key} > 1"] if size else [])])
    same, other = f'{{"{key}":2,"a":2}}', f'{{"{key[:-1]}x":2,"a":2}}'
    some = [same, same, f'{{"{key}" : 2,"a":2}}', same, other, same, f'{{"{key}";2,"a":2}}', f'{{"{key}":2}}']
    answers = index.match_payloads(laid_out([one.encode() for one in some], behind), ABOUT)
    assert answers is not None
    own = [one.tolist() for one in np.split(answers.owners, answers.ends)[:-1]]
    all_ = [0, 1] if size else [0]
    assert own == [all_, all_, all_, all_, [0], all_, [], all_[1:]]
    assert answers.unread == [6]
    # An object that ends where another had more of the same.
    for end in range(len(same)):
        cut = laid_out([same.encode(), same.encode(), same[:end].encode()], behind)
        answers = index.match_payloads(cut, ABOUT)
        assert answers is not None
        assert answers.unread == [2], same[:end]


@pytest.mark.parametrize("behind", [b"", b"5", b"567890123456"])
def test_digits_are_counted_up_to_where_an_object_ends(behind: bytes) -> None:
    for size in range(1, 16):
        for text in ("123456789012345"[:size], "9" * size, "1" + "0" * (size - 1)):
            index, _ = both([f"a = {text}", f"a = -{text}", f"a = {text}.5"])
            some = [
                f'{{"a":{text}}}',
                f'{{"a":-{text}}}',
                f'{{"a":{text}.5}}',
                f'{{"a":{text}',
                f'{{"a":0{text}}}',
            ]
            # Twice, so that half of them are read.
            data = laid_out([one.encode() for one in some[:3] * 2 + some[3:]], behind)
            answers = index.match_payloads(data, ABOUT)
            assert answers is not None
            own = [one.tolist() for one in np.split(answers.owners, answers.ends)[:-1]]
            halves = [2] if size < 15 else []  # which has more digits than are read
            assert own == [[0], [1], halves] * 2 + [[], []], text
            assert answers.unread == ([6, 7] if size < 15 else [2, 5, 6, 7]), text


def test_numbers_are_read_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    written = [f"{value:.{digits}f}" for value in rng.random(15) * 1000 for digits in (1, 6, 12)]
    for text in written:
        index, _ = both([f"a = {text}", f"a > {text}", f"a < {text}"])
        answers = index.match_payloads(laid_out([f'{{"a":{text}}}'.encode()]), ABOUT)
        assert answers is not None
        assert answers.owners.tolist() == [0], text


def test_what_is_mostly_not_plain_is_left_to_others() -> None:
    index, _ = both(["kind = 'x' OR a > 1"])
    assert index.match_payloads(laid_out([b'{"kind":"x"}'] * 3 + [b'{"a":2}']), ABOUT) is None
    answers = index.match_payloads(laid_out([b'{"a":2}'] * 3 + [b'{"kind":"x"}']), ABOUT)
    assert answers is not None
    assert (answers.owners.tolist(), answers.ends.tolist(), answers.unread) == ([0, 0, 0], [1, 2, 3, 3], [3])


def test_filters_that_must_be_asked_again_are_left_to_others() -> None:
    index, _ = both(["a > 1 AND b < 9007199254740994", "a > 0"])
    answers = index.match_payloads(laid_out([b'{"a":1,"b":1}', b'{"a":2,"b":1}', b'{"a":0}']), ABOUT)
    assert answers is not None
    assert (answers.owners.tolist(), answers.ends.tolist(), answers.unread) == ([1], [1, 1, 1], [1])


def test_other_fields_are_asked_for_when_filters_come_and_go() -> None:
    index, _ = both(["a > 1"])
    some = laid_out([b'{"a":2,"b":2}'])
    index.add(1, parse("b > 1"))
    assert owners(index, some) == [0, 1]
    index.remove(0)
    assert owners(index, some) == [1]
    index.add(0, parse("a > 5"))
    assert owners(index, some) == [1]


def owners(index: Index, some: Payloads) -> list[int]:
    answers = index.match_payloads(some, ABOUT)
    assert answers is not None
    found: list[int] = answers.owners.tolist()
    return found


def test_filters_on_very_many_fields_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "NAMES_MAX", 8)
    index, _ = both([f"f{number} > 1" for number in range(9)])
    assert index.match_payloads(laid_out([b'{"f1":2}']), ABOUT) is None


def test_more_answers_than_there_is_room_for_are_left_to_others_until_there_are_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_module, "OWNERS_MAX", 2048)
    index, _ = both([f"a > {number}" for number in range(100)])
    many, few = laid_out([b'{"a":200}'] * 50), laid_out([b'{"a":1}'] * 50)
    for _ in range(10):
        assert index.match_payloads(many, ABOUT) is None
    tried = [index.match_payloads(few, ABOUT) for _ in range(30)]
    assert tried[-1] is not None
    assert tried[-1].owners.tolist() == [0] * 50


def test_more_fields_than_there_is_room_for_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "CELLS_MAX", 20)
    index, _ = both(["a > 1", "b > 1"])
    assert index.match_payloads(laid_out([b'{"a":2}'] * 10), ABOUT) is not None
    assert index.match_payloads(laid_out([b'{"a":2}'] * 11), ABOUT) is None


def test_answers_have_the_form_for_which_kernels_are_compiled() -> None:
    index, _ = both(["a > 1"])
    answers = index.match_payloads(laid_out([b'{"a":2}'] * 3), ABOUT)
    assert answers is not None
    assert answers.ends.flags.c_contiguous


def test_objects_of_many_keys_are_left_to_others() -> None:
    index, _ = both(["a > 1"])
    many = json.dumps({f"k{number}": number for number in range(33)}).encode()
    answers = index.match_payloads(laid_out([many, b'{"a":2}']), ABOUT)
    assert answers is not None
    assert answers.unread == [0]


def test_ids_that_are_strings_are_left_to_others() -> None:
    index = Index()
    index.add("s", parse("a > 1"))
    assert index.match_payloads(laid_out([b'{"a":2}']), ABOUT) is None


def test_hashes_of_names_differ() -> None:
    names = [f"{first}{second}".encode() for first in "abc" for second in range(100)]
    assert len({reading.hash_of(name) for name in [*names, b""]}) == len(names) + 1
