"""Segments of format 1, which name a broker and not its life: what becomes of them."""

from __future__ import annotations

import base64

import pytest

from tests.history.samples import A, B, fill, kept
from tidings.history.entries import EVENTS, Entry
from tidings.history.files import MemoryFiles
from tidings.history.logs import Logs
from tidings.history.segments import Damaged

OWN = "t/events+a+00000000000000000000"
GROWING = "t/events+a+00000000000000000003"
COPY = "t/events+b+00000000000000000003"

# Written by the release before: five entries of broker a, in segments of 200 bytes, and a copy of b's 3 to 5.
RECORDED = {
    f"{OWN}.index": "kSA20oSkbmV4dAOkc2l6ZczIqWxhdGVzdF91c80H0KZwb2ludHORkwA6/w==",
    f"{OWN}.log": (
        "VElETE9HAQAqAAAAIJ4HOIWkbmFtZaF0pHdoYXSmZXZlbnRzpmhvbGRlcqFhpWZpcnN0AKRzYWx0B6tUZdGIJlIwFgAAADoAAAAA"
        "AAAAAAAAAJsAAKF0xAh7Im4iOiAwfaDAwMDAwMCrVGXRJyRMXRgAAABoAAAA6AMAAAAAAACbAc0D6KF0xAh7Im4iOiAxfaDAwMDA"
        "wMCrVGXRYALGNBgAAACYAAAA0AcAAAAAAACbAs0H0KF0xAh7Im4iOiAyfaDAwMDAwMA="
    ),
    f"{GROWING}.log": (
        "VElETE9HAQAqAAAAvYTvCYWkbmFtZaF0pHdoYXSmZXZlbnRzpmhvbGRlcqFhpWZpcnN0A6RzYWx0B6tUZdENBtVSGAAAADoAAAC4"
        "CwAAAAAAAJsDzQu4oXTECHsibiI6IDN9oMDAwMDAwKtUZdERlJ04GAAAAGoAAACgDwAAAAAAAJsEzQ+goXTECHsibiI6IDR9oMDA"
        "wMDAwA=="
    ),
    f"{COPY}.log": (
        "VElETE9HAQAqAAAAZqGOdYWkbmFtZaF0pHdoYXSmZXZlbnRzpmhvbGRlcqFipWZpcnN0A6RzYWx0B6tUZdENBtVSGAAAADoAAAC4"
        "CwAAAAAAAJsDzQu4oXTECHsibiI6IDN9oMDAwMDAwKtUZdG/czvqGAAAADoAAACgDwAAAAAAAJsEzQ+goXTECHsibiI6IDR9oMDA"
        "wMDAwKtUZdHqlYPmGAAAADoAAACIEwAAAAAAAJsFzROIoXTECHsibiI6IDV9oMDAwMDAwA=="
    ),
}
ENTRIES = [Entry(number, 1000 * number, "t", b'{"n": %d}' % number) for number in range(5)]


def recorded() -> MemoryFiles:
    files = MemoryFiles()
    for path, text in RECORDED.items():
        files.put(path, base64.b64decode(text))
    return files


def test_own_logs_take_the_incarnation_of_the_store_and_go_on() -> None:
    files = recorded()
    logs = Logs(files, A, segment_bytes=200)
    assert logs.holders("t") == [(A, 0, 5)]
    assert kept(logs, name="t") == ENTRIES
    assert logs.next_numbers() == {("t", EVENTS): 5}
    fill(logs, 3, name="t")
    again = Logs(files, A, segment_bytes=200)
    assert [one.number for one in kept(again, name="t")] == list(range(8))
    assert again.notes == []
    assert [name for name in files.names("t") if name.endswith("0.log")] == [
        "events+a.7+00000000000000000000.log"
    ]


def test_copies_are_dropped_and_copied_anew_and_the_operator_is_told() -> None:
    files = recorded()
    logs = Logs(files, A)
    dropped = (
        f"{COPY}.log, a copy of another broker's log, is dropped: it does not say of which life of the "
        "broker it is; what is told from now on is copied anew"
    )
    assert logs.notes == [
        f"{OWN}.log is now t/events+a.7+00000000000000000000.log",
        f"{GROWING}.log is now t/events+a.7+00000000000000000003.log",
        dropped,
    ]
    assert all(name.startswith("events+a.7+") for name in files.names("t"))
    logs.append("t", EVENTS, B, Entry(6, 0, "t", b"6"))
    logs.commit()
    assert logs.holders("t") == [(A, 0, 5), (B, 6, 7)]


class DyingFiles(MemoryFiles):
    """The process dies after so many changes."""

    left = 0

    def put(self, path: str, data: bytes) -> None:
        self._change()
        super().put(path, data)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def _change(self) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1


def test_a_crash_in_between_loses_nothing() -> None:
    deaths = 0
    for left in range(20):
        files = DyingFiles()
        files.left = 99
        for path, text in RECORDED.items():
            files.put(path, base64.b64decode(text))
        files.left = left
        try:
            Logs(files, A)
        except KeyboardInterrupt:
            deaths += 1
        files.left = 99
        assert kept(Logs(files, A), name="t") == ENTRIES
    assert deaths >= 6, "each change was the last one once"


@pytest.mark.parametrize("at", [80, 130, 180])
def test_damage_is_found_as_before(at: int) -> None:
    files = recorded()
    data = bytearray(files.read(f"{OWN}.log", 0, 9999))
    data[at] ^= 0x55
    files.put(f"{OWN}.log", bytes(data))
    with pytest.raises(Damaged, match="is damaged"):
        kept(Logs(files, A), name="t")


def test_a_torn_tail_is_dropped_as_before() -> None:
    files = recorded()
    files.cut(f"{GROWING}.log", files.size(f"{GROWING}.log") - 3)
    assert kept(Logs(files, A), name="t") == ENTRIES[:4]
