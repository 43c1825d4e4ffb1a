"""Logs: one line each, JSON or text, without secrets, and not without end."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tidings.live import logs


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
    assert len(repeats._counts) == logs.TEXTS_MAX
