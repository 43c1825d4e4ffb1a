"""A disk keeps what was synced, all or nothing of each sync, and loses the rest in a crash."""

from __future__ import annotations

from random import Random

import pytest

from tidings.history.entries import Entry
from tidings.records.holders import Holder
from tidings.sim.disks import Disk

A = Holder("a", 1)


def test_nothing_is_durable_before_its_sync_is_done() -> None:
    disk = Disk(A)
    disk.write("a", b"1")
    disk.sync(1)
    assert disk.saved() == {}
    assert disk.finish() == (1, [])
    assert disk.saved() == {"a": b"1"}


@pytest.mark.parametrize(("kept", "left"), [(0, {"a": b"1"}), (1, {"b": b"2"}), (2, {"b": b"2", "c": b"3"})])
def test_a_crash_keeps_whole_syncs_in_their_order(kept: int, left: dict[str, bytes]) -> None:
    disk = Disk(A)
    disk.write("a", b"1")
    disk.sync(1)
    disk.finish()
    disk.write("a", None)
    disk.write("b", b"2")
    disk.sync(2)
    disk.write("c", b"3")
    disk.sync(3)
    disk.write("d", b"4")
    disk.crash(kept, Random(1))
    assert disk.saved() == left
    assert disk.syncing == 0


def test_what_is_delivered_to_a_session_becomes_its_own_with_the_sync() -> None:
    disk = Disk(A)
    disk.deliver("first")
    disk.sync(1)
    disk.deliver("second")
    disk.sync(2)
    assert disk.finish() == (1, ["first"])
    assert disk.crash(0, Random(1)) == []


def test_what_need_not_be_durable_still_comes_behind_what_is_on_its_way() -> None:
    disk = Disk(A)
    assert not disk.deliver_behind("nothing is on its way")
    disk.deliver("first")
    assert disk.deliver_behind("second")
    disk.sync(1)
    assert disk.deliver_behind("third")
    assert disk.finish() == (1, ["first", "second", "third"])


def test_a_broker_does_not_see_what_the_driver_keeps_for_sessions() -> None:
    disk = Disk(A)
    for key in ("z", "session/s1/1", "a"):
        disk.write(key, b"")
    disk.sync(1)
    disk.finish()
    assert list(disk.saved()) == ["a", "z"]


def test_an_entry_is_in_its_log_with_the_sync_and_a_crash_leaves_what_was_shown() -> None:
    disk = Disk(A)
    for number in range(30):
        disk.append(("t", "events", A, Entry(number, number, "t", b"x" * 50)))
        if number % 10 == 9:
            disk.sync(number)
    assert disk.logs.holders("t") == []
    disk.finish()
    assert disk.logs.holders("t") == [(A, 0, 10)]
    disk.crash(1, Random(3))
    ((_, first, shown),) = disk.logs.holders("t")
    assert (first, disk.torn) == (0, [])
    assert 20 <= shown <= 30
    assert disk.logs.next_numbers() == {("t", "events"): shown}
