"""The declarations of a workload's topics are taken by the language's own reader, and fit its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workload import models
from tidings.language.declarations import parse_topic, read_topic
from tidings.language.topics import StaysOpen
from tidings.workload import declarations, quantiles


def test_there_is_a_file_for_each_topic() -> None:
    found = declarations.texts(models.tiny(2))
    assert list(found) == [f"subject-{name}.toml" for name in ("arts", "science", "sports", "weather")]


@pytest.mark.parametrize(
    "reports",
    [{}, {"details": 0}, {"details": 100}, {"delay_us": 0}, {"delay_us": 3_000_000_000_000_000}],
)
@pytest.mark.parametrize("dimensions", [1, 3])
def test_the_reader_of_declarations_takes_them(
    reports: dict[str, Any], dimensions: int, tmp_path: Path
) -> None:
    model = models.tiny(dimensions, reports=reports)
    for name, text in declarations.texts(model).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        topic = read_topic(tmp_path / name)
        assert topic.gathering is not None
        assert [item.text for item in topic.key] == ["story"]
        assert topic.gathering.stays_open is StaysOpen.REPORTED
        assert topic.gathering.window_us is None


def test_fields_are_those_of_reports_with_their_domains() -> None:
    topic = parse_topic(
        declarations.texts(models.tiny(2, reports={"details": 1, "detail_max": 9}))["subject-arts.toml"]
    )
    found = {
        path[0]: (field.type.value, field.domain, field.conflict.value)
        for path, field in topic.fields.items()
    }
    assert found == {
        "story": ("int", None, "first"),
        "subject": ("int", (0, 999_999_999), "first"),
        "language": ("int", (0, 999_999_999), "first"),
        "severity": ("int", (1, 5), "max"),
        "detail_1": ("int", (0, 9), "first"),
    }


@pytest.mark.parametrize("delay_us", [0, 10_000_000, 600_000_000])
def test_an_event_stays_open_until_its_latest_report(delay_us: int) -> None:
    model = models.tiny(2, reports={"delay_us": delay_us})
    lows, widths = quantiles.exponential(delay_us)
    gathering = declarations.declared(model, "subject/arts").gathering
    assert gathering is not None
    assert gathering.redundant_for_us >= (lows + widths).max()
    assert gathering.redundant_for_us >= 60_000_000
