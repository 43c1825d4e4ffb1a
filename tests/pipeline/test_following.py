"""A stream that follows a topic: what is done when the Python beside Spark is too slow to begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidings.errors import NetworkError
from tidings.pipeline import following

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
    rows = spark.readStream.format.return_value.option.return_value.option.return_value.load.return_value
    writing = rows.writeStream.format.return_value.option.return_value.option.return_value
    writing.trigger.return_value.start.side_effect = queries
    return spark


def begin(spark: Any, folder: Path) -> following.Stream:
    return following.begin(spark, ["http://127.0.0.1:9883"], "roads", folder)


def test_a_query_whose_python_came_too_late_is_started_again(tmp_path: Path) -> None:
    late, well = query(fault=SLOW), query(fault=None)
    assert begin(session(late, well), tmp_path).topic == "roads"
    late.stop.assert_called_once()
    well.stop.assert_not_called()


def test_one_that_always_comes_too_late_is_given_up_with_the_reason(tmp_path: Path) -> None:
    late = [query(fault=SLOW) for _ in range(following.BEGIN_TIMES)]
    with pytest.raises(NetworkError, match=r"connect back.*less to do may be quick enough"):
        begin(session(*late), tmp_path)
    assert all(one.stop.called for one in late)


def test_any_other_fault_ends_it_at_once(tmp_path: Path) -> None:
    broken = query(fault="the topic is not kept")
    with pytest.raises(NetworkError, match="has ended: the topic is not kept"):
        begin(session(broken), tmp_path)
    broken.stop.assert_called_once()
