"""What a folder has is looked at before Spark starts, and refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.traffic import drawn
from tests.records import workloads as made
from tidings.errors import InputError
from tidings.pipeline.plan import sources
from tidings.records.record import Kind, Record
from tidings.records.traffic import HOUR_US


def at_hours(folder: Path, *hours: int) -> Path:
    rows = [Record("a", 1, n, hour * HOUR_US, Kind.PUBLISHED, publisher="p") for n, hour in enumerate(hours)]
    drawn.segment(folder, "a", rows)
    return folder


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, range(3, 9)),
        ({"first": 4}, range(4, 9)),
        ({"until": 4}, range(3, 4)),
        ({"first": 0, "until": 99}, range(3, 9)),
        ({"latest": 2}, range(7, 9)),
        ({"latest": 99}, range(3, 9)),
    ],
)
def test_hours_are_those_that_are_asked_for_and_there(
    tmp_path: Path, asked: dict[str, int], found: range
) -> None:
    assert sources.recorded(at_hours(tmp_path, 3, 8), **asked).hours == found


def test_a_folder_is_found_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_hours(tmp_path / "records", 3)
    monkeypatch.chdir(tmp_path)
    (segment,) = sources.recorded(Path("records")).segments
    assert segment.is_absolute()


@pytest.mark.parametrize("asked", [{"first": 9}, {"until": 3}])
def test_hours_that_are_not_there_are_refused_with_those_that_are(
    tmp_path: Path, asked: dict[str, int]
) -> None:
    with pytest.raises(InputError, match="there are some from hour 3 to the end of hour 8"):
        sources.recorded(at_hours(tmp_path, 3, 8), **asked)


def test_what_has_no_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither records of brokers nor tables of traffic"):
        sources.recorded(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        sources.recorded(tmp_path / "none")
    with pytest.raises(InputError, match="make one: tidings workload generate"):
        sources.generated(tmp_path / "none")


def test_a_plan_says_where_it_comes_from(tmp_path: Path) -> None:
    recorded = sources.recorded(at_hours(tmp_path / "records", 498552))
    assert recorded.about() == {"records": str(tmp_path / "records"), "hours": [498552, 498552]}
    assert "from 2026-11-16T00:00Z" in recorded.unasked
    made.write(tmp_path / "work", brokers=[made.broker("a")])
    generated = sources.generated(tmp_path / "work", memory_bytes=1)
    assert generated.about() == {"workload": str(tmp_path / "work")}
    assert "tidings workload generate --requests N" in generated.unasked
