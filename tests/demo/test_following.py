"""What the stream has read, beside the log and what a client got."""

from __future__ import annotations

from tidings.demo.following import checks
from tidings.pipeline.connector.stream import Counts

WATCHED = [("e1", 1), ("e1", 2), ("e2", 1)]


def test_the_stream_agrees_with_the_log_and_with_a_client() -> None:
    log, client = checks(Counts(3, 3, 2), Counts(3, 3, 2), WATCHED)
    assert (log.holds, client.holds) == (True, True)
    assert log.seen == "3 rows, 3 versions of 2 events; 3 rows, 3 versions of 2 events"
    assert client.seen == "3 versions of 2 events; 3 of 2"


def test_a_version_told_again_is_in_the_log_twice_and_reaches_a_client_once() -> None:
    assert [one.holds for one in checks(Counts(4, 3, 2), Counts(4, 3, 2), WATCHED)] == [True, True]


def test_a_row_too_few_and_a_version_too_few_are_differences() -> None:
    assert [one.holds for one in checks(Counts(3, 3, 2), Counts(4, 3, 2), WATCHED)] == [False, True]
    assert [one.holds for one in checks(Counts(3, 3, 2), Counts(3, 3, 2), WATCHED[:2])] == [True, False]
