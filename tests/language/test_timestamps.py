from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language import timestamps


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-15T11:05:00Z", datetime(2026, 11, 15, 11, 5, tzinfo=UTC)),
        ("2026-11-15t11:05z", datetime(2026, 11, 15, 11, 5, tzinfo=UTC)),
        ("2026-11-15 11:05", datetime(2026, 11, 15, 11, 5, tzinfo=UTC)),
        ("2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15T11:05+02:00", datetime(2026, 11, 15, 9, 5, tzinfo=UTC)),
        ("2026-11-15T11:05-0230", datetime(2026, 11, 15, 13, 35, tzinfo=UTC)),
        ("2026-11-15T11:05+02", datetime(2026, 11, 15, 9, 5, tzinfo=UTC)),
        ("2026-11-15T11:05:00.5Z", datetime(2026, 11, 15, 11, 5, 0, 500_000, tzinfo=UTC)),
        ("2026-11-15T11:05:00,000001Z", datetime(2026, 11, 15, 11, 5, 0, 1, tzinfo=UTC)),
        ("2026-11-15T11:05:00.0000014999Z", datetime(2026, 11, 15, 11, 5, 0, 1, tzinfo=UTC)),
        ("2026-11-15T11:05:00.0000005Z", datetime(2026, 11, 15, 11, 5, 0, 1, tzinfo=UTC)),
        ("2026-12-31T23:59:59.9999999Z", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-11-15T11:05:00.123Z", datetime(2026, 11, 15, 11, 5, 0, 123_000, tzinfo=UTC)),
        ("2026-11-15T11:05:00.123456Z", datetime(2026, 11, 15, 11, 5, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_a_text_names_a_point_in_time(text: str, at: datetime) -> None:
    assert timestamps.parse(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11",
        "20261115",
        "2026-W46-7",
        "2026-02-30",
        "2026-11-15T24:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T11:05:60Z",
        "2026-W46-7T11:05:00Z",
        "2026-13-15T11:05:00Z",
        "2026-11-15T11:05:00.12aZ",
        "2026-11-15T11:05:0٣Z",
        "2026-11-15T11Z",
        "2026-11-15Z",
        "2026-11-15T11:05+24:00",
        "0001-01-01T00:00+01:00",
        "9999-12-31T23:59:59.9999999Z",
        "0000-01-01",
        "2026-11-15T11:05Z\n",
        "٢٠٢٦-11-15",
        "2026-11-15T11:05:00." + "0" * 60 + "Z",
    ],
)
def test_what_names_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (timestamp|point in time)"):
        timestamps.parse(text)


@given(
    st.from_regex(
        r"[0-2][0-9]{3}-[0-9W]{2}-[0-9-]{2}T[0-6][0-9]:[0-6][0-9]:[0-6][0-9]([.,+][0-9]{3}|)Z", fullmatch=True
    )
)
def test_the_short_way_reads_what_the_long_way_reads(text: str) -> None:
    longer = text.replace("T", " ")
    try:
        expected = timestamps.parse(longer)
    except ValueError:
        with pytest.raises(ValueError, match="is not a"):
            timestamps.parse(text)
    else:
        assert timestamps.parse(text) == expected


@given(st.datetimes(timezones=st.just(UTC)))
def test_text_and_microseconds_lead_back(at: datetime) -> None:
    assert timestamps.parse(timestamps.text(at)) == at
    assert timestamps.from_micros(timestamps.micros(at)) == at
