from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language import durations


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("4s", 4_000_000),
        ("250ms", 250_000),
        ("15us", 15),
        ("15µs", 15),
        ("10m", 600_000_000),
        ("1h30m", 5_400_000_000),
        ("7d", 604_800_000_000),
        ("1.5s", 1_500_000),
        ("1m0.25s", 60_250_000),
        ("0.0000015s", 2),
        ("0", 0),
        ("0s", 0),
        (0, 0),
        (0.0, 0),
        ("36525d", durations.DURATION_US_MAX),
    ],
)
def test_a_duration_is_whole_microseconds(text: object, duration_us: int) -> None:
    assert durations.parse(text) == duration_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        ("4", "not a duration"),
        (4, "4 has no unit; write a number and a unit"),
        (2.5, "has no unit"),
        (True, "not a duration"),
        (None, "not a duration"),
        ("-4s", "not a duration"),
        ("4 s", "not a duration"),
        ("4S", "not a duration"),
        ("s", "not a duration"),
        ("4s ", "not a duration"),
        (".5s", "not a duration"),
        ("1e3s", "not a duration"),
        ("٤s", "not a duration"),
        ("30m1h", "from wide units to narrow"),
        ("1s1s", "from wide units to narrow"),
        ("1.5h30m", "fraction before its last unit"),
        ("36525d1us", "longer than a hundred years"),
        ("9" * 63 + "d", "longer than a hundred years"),
        ("9" * 64 + "d", "65 characters"),
    ],
)
def test_what_is_not_a_duration_is_refused_with_a_reason(text: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        durations.parse(text)


@pytest.mark.parametrize(
    ("duration_us", "text"), [(0, "0s"), (90_000_000, "90s"), (600_000_000, "10m"), (1_500, "1500us")]
)
def test_the_text_is_in_the_widest_whole_unit(duration_us: int, text: str) -> None:
    assert durations.text(duration_us) == text


@given(st.integers(0, durations.DURATION_US_MAX))
def test_the_text_reads_back(duration_us: int) -> None:
    assert durations.parse(durations.text(duration_us)) == duration_us
