"""A stream that follows a topic: what is done when the Python beside Spark is too slow to begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidings.client.log import LogReader
from tidings.errors import NetworkError
from tidings.pipeline.connector import stream as following

SLOW = "[STREAM_FAILED] Query: Python worker failed to connect back."


def query(*, fault: str | None) -> Any:
    """One that reads, or one that has ended with some words."""
    made = MagicMock()
    made.status = {"message": "Waiting for data to arrive"}
    made.isActive = fault is None
    made.exception.return_value = fault
    return made


def session(*queries: Any) -> Any:
    """A Spark that starts these, one after the other."""
    spark = MagicMock()
    rows = spark.readStream.format.return_value.options.return_value.load.return_value
    writing = rows.writeStream.format.return_value.option.return_value.option.return_value
    writing.trigger.return_value.start.side_effect = queries
    return spark


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)


def begin(spark: Any, folder: Path) -> following.Stream:
    return following.begin(spark, ["http://127.0.0.1:9883"], "roads", folder)


def test_a_query_whose_python_came_too_late_is_started_again(tmp_path: Path) -> None:
    late, well = query(fault=SLOW), query(fault=None)
    stream = begin(session(late, well), tmp_path)
    well.stop.assert_not_called()
    stream.stop()
    well.stop.assert_called_once()


def test_one_that_is_found_to_have_begun_too_late_at_the_end_reads_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It seemed to begin, and ended while nobody looked."""
    late, well = query(fault=None), query(fault=None)
    spark = session(late, well)
    stream = begin(spark, tmp_path)
    late.isActive, late.exception.return_value, late.lastProgress = False, SLOW, None
    well.lastProgress.sources = [MagicMock(endOffset='{"north.5": 3}')]
    about = MagicMock(holders=[MagicMock(holder="north.5", first=0, next=3)])
    monkeypatch.setattr(LogReader, "whole", lambda *_: about)
    monkeypatch.setattr(following, "counts", lambda _: following.Counts(3, 3, 1))
    assert stream.read_to_end(60.0) == following.Counts(3, 3, 1)
    well.stop.assert_called_once()


def test_one_that_always_comes_too_late_is_given_up_with_the_reason(tmp_path: Path) -> None:
    late = [query(fault=SLOW) for _ in range(following.BEGIN_TIMES)]
    with pytest.raises(NetworkError, match=r"connect back.*less to do may be quick enough"):
        begin(session(*late), tmp_path)
    late[-1].stop.assert_called_once()


def test_a_stream_that_comes_further_is_waited_for_and_one_that_does_not_is_too_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes longer than half of what may pass without anything read."""
    reads = query(fault=None)
    read = 0

    class Progress:
        @property
        def sources(self) -> list[Any]:
            return [MagicMock(endOffset=f'{{"north.1": {read}}}')]

    reads.lastProgress = Progress()
    clock = 0.0

    def sleep(seconds: float) -> None:
        nonlocal clock, read
        clock += 40.0
        read += read < 3

    monkeypatch.setattr(following, "time", MagicMock(monotonic=lambda: clock, sleep=sleep))
    about = MagicMock(holders=[MagicMock(holder="north.1", first=0, next=3)])
    monkeypatch.setattr(LogReader, "whole", lambda *_: about)
    monkeypatch.setattr(following, "counts", lambda _: following.Counts(3, 3, 1))
    stream = begin(session(reads), tmp_path)
    assert stream.read_to_end(60.0) == following.Counts(3, 3, 1)
    about.holders[0].next = 4
    with pytest.raises(NetworkError, match=r"^too slow: .*no further for 60 s"):
        stream.read_to_end(60.0)


def test_any_other_fault_ends_it_at_once(tmp_path: Path) -> None:
    broken = query(fault="the topic is not kept")
    with pytest.raises(NetworkError, match="has ended: the topic is not kept"):
        begin(session(broken), tmp_path)
    broken.stop.assert_called_once()
