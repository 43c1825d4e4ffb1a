"""Logs: one line each, JSON or text, without secrets, and not without end."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from tests.live.local import run, until
from tidings.service import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger(logs.LOGGER)
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.level, logger.propagate = before


def record(text: str, at: float = 0.0, level: int = logging.INFO, **about: str) -> logging.LogRecord:
    made = logging.LogRecord(logs.LOGGER, level, __file__, 1, text, None, None)
    made.created, made.msecs = at, (at % 1) * 1000
    made.broker, made.about = "b1", about
    return made


def test_json_is_one_object_per_line() -> None:
    stream = io.StringIO()
    logger = logs.configure(stream=stream)
    logger.warning("the link is lost", extra={"broker": "b1", "about": {"neighbour": "b2\nx"}})
    logger.info("up", extra={"broker": "b1", "about": {}})
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first.pop("at").endswith("Z")
    assert first == {
        "level": "warning",
        "broker": "b1",
        "text": "the link is lost",
        "about": {"neighbour": "b2\nx"},
    }
    assert "about" not in second


def test_text_is_one_line_whatever_a_peer_is_called() -> None:
    told = logs.TextLines(()).format(
        record("greeted", 3661.25, neighbour="b2\n12:00 error b1: on fire\x1b[2J")
    )
    assert told == "01:01:01.250 info    b1: greeted (neighbour=b2�12:00 error b1: on fire�[2J)"


@pytest.mark.parametrize(
    ("form", "stream", "json_lines"),
    [
        ("auto", Terminal(), False),
        ("auto", io.StringIO(), True),
        ("text", io.StringIO(), False),
        ("json", Terminal(), True),
    ],
)
def test_people_get_text_and_programs_json(form: str, stream: io.StringIO, json_lines: bool) -> None:
    logs.configure(form=form, stream=stream).info("hello")
    assert stream.getvalue().startswith("{") is json_lines


def test_the_level_is_kept() -> None:
    stream = io.StringIO()
    logger = logs.configure("warning", stream=stream)
    logger.info("quiet")
    logger.error("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_never_written(form: str) -> None:
    stream = io.StringIO()
    logger = logs.configure(form=form, stream=stream, secrets=["sesame", "open sesame", ""])
    logger.info("refused sesame", extra={"broker": "b1", "about": {"why": "not open sesame", "token": "abc"}})
    try:
        raise ValueError("sesame")
    except ValueError:
        logger.exception("failed")
    told = stream.getvalue()
    assert "sesame" not in told
    assert "abc" not in told
    assert "ValueError: (hidden)" in told
    assert "not (hidden)" in told


def test_an_error_brings_its_traceback_on_one_json_line() -> None:
    stream = io.StringIO()
    logger = logs.configure(stream=stream)
    try:
        raise ValueError("odd")
    except ValueError:
        logger.exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: odd" in json.loads(line)["trace"]


def test_one_text_is_written_only_so_often_and_the_rest_is_counted() -> None:
    repeats = logs.Repeats()
    let_through = [repeats.filter(record("again", at / 100)) for at in range(100)]
    assert let_through == [True] * logs.REPEATS_MAX + [False] * (100 - logs.REPEATS_MAX)
    assert repeats.filter(record("another", 1.0))
    later = record("again", 61.0, neighbour="b2")
    assert repeats.filter(later)
    assert later.__dict__["about"] == {"neighbour": "b2", "kept_back": str(100 - logs.REPEATS_MAX)}


def test_what_is_remembered_of_texts_is_bounded() -> None:
    repeats = logs.Repeats()
    for number in range(10 * logs.TEXTS_MAX):
        repeats.filter(record(f"text {number}"))
    assert len(repeats._texts._counts) == logs.TEXTS_MAX
    for number in range(3 * logs.ADDRESSES_MAX):
        repeats.filter(record("refused", address=f"10.0.{number // 256}.{number % 256}:1"))
    assert len(repeats._addresses._counts) == logs.ADDRESSES_MAX


def written(repeats: logs.Repeats, count: int, address: str, at: float = 0.0) -> int:
    """How many of some lines about an address are let through."""
    return sum(repeats.filter(record("connected", at, address=f"{address}:{port}")) for port in range(count))


def test_an_address_that_connects_in_a_loop_keeps_back_no_lines_of_others() -> None:
    repeats = logs.Repeats()
    assert written(repeats, 10_000, "192.0.2.1") == logs.ADDRESS_REPEATS_MAX
    assert written(repeats, 50, "192.0.2.2") == 50
    # A network of 64 bits is one address, and so are an IPv4 address and the same in IPv6.
    assert written(repeats, 10_000, "[2001:db8::1]") == logs.ADDRESS_REPEATS_MAX
    assert written(repeats, 10, "[2001:db8::2]") == 0
    assert written(repeats, 10, "[2001:db8:0:1::1]") == 10
    assert written(repeats, 10, "[::ffff:192.0.2.1]") == 0
    # What has no address has its own count, which is smaller.
    assert [repeats.filter(record("connected")) for _ in range(21)] == [True] * 20 + [False]
    later = record("connected", 60.0, address="192.0.2.1:1")
    assert repeats.filter(later)
    assert later.__dict__["about"]["kept_back"] == str(10_010 - logs.ADDRESS_REPEATS_MAX)


def test_all_addresses_together_have_a_bound() -> None:
    repeats = logs.Repeats()
    told = [written(repeats, 1, f"10.0.{number // 256}.{number % 256}") for number in range(5_000)]
    assert sum(told) == logs.ALL_REPEATS_MAX
    later = record("connected", 60.0, address="192.0.2.1:1")
    assert repeats.filter(later)
    assert later.__dict__["about"]["kept_back"] == str(5_000 - logs.ALL_REPEATS_MAX)


def told(records: list[logging.LogRecord]) -> list[str]:
    return [line.getMessage() for line in records]


def test_what_was_kept_back_is_said_when_its_minute_is_over_though_no_line_follows() -> None:
    repeats = logs.Repeats()
    for host in ("192.0.2.1", "192.0.2.2"):
        assert written(repeats, 150, host) == 100
    for _ in range(21):
        repeats.filter(record("again", 1.0))
    assert repeats.kept_back(59.0) == []
    (line,) = repeats.kept_back(60.0)
    assert line.getMessage() == "100 more lines 'connected' were kept back"
    assert (line.levelname, line.__dict__["broker"]) == ("INFO", "b1")
    assert line.__dict__["about"] == {"kept_back": "100"}
    assert told(repeats.kept_back(61.0)) == ["1 more line 'again' was kept back"]
    assert repeats.kept_back() == []
    # It is said once: the next line begins another minute.
    later = record("connected", 61.0, address="192.0.2.1:1")
    assert repeats.filter(later)
    assert "kept_back" not in later.__dict__["about"]


def test_at_the_end_it_is_said_before_the_minute_is_over() -> None:
    repeats = logs.Repeats()
    for number in range(1_002):
        assert written(repeats, 1, f"10.0.{number // 256}.{number % 256}") == (number < 1_000)
    assert repeats.kept_back(0.0) == []
    assert told(repeats.kept_back()) == ["2 more lines 'connected' were kept back"]
    assert (len(repeats._addresses._counts), len(repeats._all._counts)) == (0, 0)


def test_a_broker_says_it_while_it_runs_and_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "COUNT_EVERY_S", 0.001)
    stream = io.StringIO()
    (handler,) = logs.configure("warning", stream=stream).handlers

    def lines() -> list[str]:
        return [text for one in stream.getvalue().splitlines() if "more" in (text := json.loads(one)["text"])]

    async def story() -> None:
        counting = logs.Counting(asyncio.get_running_loop())
        counting.begin()
        for at, text in ((0.0, "long ago"), (4e9, "to come")):
            for port in range(150):
                handler.handle(record(text, at, logging.WARNING, address=f"192.0.2.1:{port}"))
        await until(lambda: bool(lines()))
        assert lines() == ["50 more lines 'long ago' were kept back"]
        counting.end()
        assert lines()[1:] == ["50 more lines 'to come' were kept back"]

    run(story)


@pytest.mark.parametrize("form", ["json", "text"])
def test_what_strangers_call_themselves_steers_no_terminal_and_fills_no_disk(form: str) -> None:
    stream = io.StringIO()
    logger = logs.configure(form=form, stream=stream)
    name = "a\nb\x1b[2J\x9b2J\u2028\u202e\x00\ud800é日"
    logger.info("connected", extra={"broker": "b1", "about": {"client": name, "user": "u" * 1_000_000}})
    told = stream.getvalue()
    assert told.endswith("\n")
    assert told[:-1].isprintable()
    assert "é日" in told
    assert len(told) < 2 * logs.VALUE_CHARACTERS_MAX
    if form == "json":
        assert json.loads(told)["about"]["client"] == name
