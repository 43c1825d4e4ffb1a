"""Lines of JSON have the numbers that an editor shows, whatever is in them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import PayloadError
from tidings.language import json_lines
from tidings.language.json_lines import LINE_BYTES_MAX


def texts(data: bytes, first: int = 1) -> list[tuple[int, bytes]]:
    return list(json_lines.texts(io.BytesIO(data).readline, first))


def test_blank_lines_and_what_is_around_an_object_are_passed_over() -> None:
    assert texts(b'\xef\xbb\xbf{"a": 1}\r\n\n \t\r\n  {}\n{') == [(1, b'{"a": 1}'), (4, b"{}"), (5, b"{")]


def test_a_byte_order_mark_is_one_at_the_beginning_alone() -> None:
    assert texts(b"\xef\xbb\xbf{}\n", first=2) == [(2, b"\xef\xbb\xbf{}")]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_the_longest_line_is_taken_and_the_next_has_its_own_number(end: bytes) -> None:
    longest = b"x" * LINE_BYTES_MAX
    assert texts(longest + b"\n{}" + end) == [(1, longest), (2, b"{}")]
    assert texts(longest + end) == [(1, longest)]


@pytest.mark.parametrize("more", [1, LINE_BYTES_MAX - 1, LINE_BYTES_MAX, 3 * LINE_BYTES_MAX])
def test_a_longer_one_is_refused_and_the_next_has_its_own_number(more: int) -> None:
    # What follows the spaces is not seen, so that an object before them must not be taken for all of it.
    (number, text), *rest = texts(b"{}" + b" " * (LINE_BYTES_MAX - 2) + b" " * more + b"\n{}\n")
    assert (number, rest) == (1, [(2, b"{}")])
    with pytest.raises(PayloadError, match="the line has more than 1048576 bytes, which is the limit"):
        json_lines.decode(text)


@given(st.binary(), st.integers(1, 5))
def test_numbers_count_line_feeds(data: bytes, first: int) -> None:
    lines = data.split(b"\n")
    for number, text in texts(data, first):
        assert text in lines[number - first]
    if first > 1:
        blank = {first + place for place, line in enumerate(lines) if not line.strip()}
        assert {number for number, _ in texts(data, first)} | blank == {
            first + place for place in range(len(lines))
        }


def test_a_refusal_speaks_of_the_line() -> None:
    with pytest.raises(PayloadError, match="the line is not JSON: "):
        json_lines.decode(b"{")
