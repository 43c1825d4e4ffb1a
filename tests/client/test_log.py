"""The reader of a log: what it is told, in all rows and in one order, or an error; never a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.client.log_server import BATCH_ROWS, LogServer
from tidings.client.log import LogReader, read_places
from tidings.errors import AccessError, DataLost, InputError, NetworkError
from tidings.language.topics import Topic

TOPIC = Topic.from_mapping(
    {
        "name": "traffic",
        "kind": "plain",
        "keep": "1d",
        "fields": {"road": {"type": "string"}, "severity": {"type": "int"}},
    }
)


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(TOPIC).serve() as serving:
        yield serving


def rows(reader: LogReader, holder: str, start: int, stop: int, where: str = "") -> list[dict[str, Any]]:
    batches = list(reader.read("traffic", "events", holder, start, stop, where))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def filled(server: LogServer, holder: str = "b1.1", count: int = 250) -> None:
    server.publish(holder, *({"road": f"A{at % 3}", "severity": at} for at in range(count)))


def test_about_tells_the_columns_and_who_holds_what(server: LogServer) -> None:
    filled(server, "b2.1", 3)
    filled(server, "b1.1", 2)
    about = LogReader(server.url).about("traffic")
    assert [(one.holder, one.first, one.next) for one in about.holders] == [("b1.1", 0, 2), ("b2.1", 0, 3)]
    assert about.schema.names == ["road", "severity", "_topic", "_holder", "_seq", "_at"]


def test_a_range_comes_whole_and_in_order(server: LogServer) -> None:
    filled(server)
    found = rows(LogReader(server.url), "b1.1", 10, 240)
    assert [row["_seq"] for row in found] == list(range(10, 240))
    assert found[0] == {
        "road": "A1", "severity": 10, "_topic": "traffic", "_holder": "b1.1", "_seq": 10, "_at": 10,
    }  # fmt: skip


def test_an_empty_range_asks_nobody(server: LogServer) -> None:
    assert rows(LogReader("http://127.0.0.1:1"), "b1.1", 5, 5) == []


def test_where_is_evaluated_by_the_broker(server: LogServer) -> None:
    filled(server)
    found = rows(LogReader(server.url), "b1.1", 0, 250, "severity >= 100 AND road = 'A1'")
    assert [row["_seq"] for row in found] == [at for at in range(100, 250) if at % 3 == 1]
    assert server.asked[-1][1]["where"] == "severity >= 100 AND road = 'A1'"


def test_a_filter_that_cannot_be_understood_is_the_callers_fault(server: LogServer) -> None:
    filled(server, count=1)
    with pytest.raises(InputError, match="severty"):
        rows(LogReader(server.url), "b1.1", 0, 1, "severty >= 1")


def test_a_filter_that_is_too_long_for_a_request_is_not_sent(server: LogServer) -> None:
    with pytest.raises(InputError, match=r"where has 7\d+ bytes in a request"):
        rows(LogReader(server.url), "b1.1", 0, 1, f"road = '{'x' * 7000}'")
    assert server.asked == []


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_a_cut_answer_is_never_taken_for_a_whole_one(server: LogServer, batches: int) -> None:
    """Also where it is cut behind its last row: only the sender knows that there is no more."""
    filled(server)
    server.cut_after = [batches]
    with pytest.raises(NetworkError, match="cut off"):
        rows(LogReader(server.url), "b1.1", 0, 250)


def test_what_a_cut_left_out_is_asked_for_again_and_nothing_comes_twice(server: LogServer) -> None:
    filled(server)
    server.cut_after = [1, 0, 1]
    found = rows(LogReader(server.url, patience_s=10, sleep=lambda _: None), "b1.1", 0, 250)
    assert [row["_seq"] for row in found] == list(range(250))
    starts = [asked["from"] for path, asked in server.asked if path == "/log/read"]
    assert starts == ["0", str(BATCH_ROWS), str(BATCH_ROWS), str(2 * BATCH_ROWS)]


def test_a_broker_that_cannot_go_on_says_why(server: LogServer) -> None:
    filled(server)
    server.faults = ["the disk cannot be read"]
    with pytest.raises(NetworkError, match="the disk cannot be read"):
        rows(LogReader(server.url), "b1.1", 0, 250)


def test_an_answer_that_ends_too_early_is_an_error(server: LogServer) -> None:
    filled(server, count=10)
    with pytest.raises(NetworkError, match="ended its answer at 10, before 12"):
        rows(LogReader(server.url), "b1.1", 0, 12)


def test_entries_that_are_kept_no_more_are_an_error_of_their_own(server: LogServer) -> None:
    filled(server)
    server.logs["b1.1", "events"].first = 40
    with pytest.raises(DataLost, match="from 40 on") as caught:
        rows(LogReader(server.url, patience_s=10, sleep=lambda _: None), "b1.1", 0, 250)
    assert caught.value.first == 40


def test_a_broker_that_is_away_fails_the_read_and_is_named(server: LogServer) -> None:
    filled(server, "b1.1", 5)
    filled(server, "b2.1", 5)
    server.away = {"b2"}
    reader = LogReader(server.url)
    assert reader.about("traffic").away == ("b2",)
    with pytest.raises(NetworkError, match="'b2' may hold a part"):
        reader.whole("traffic")
    with pytest.raises(NetworkError, match="'b2' cannot be asked"):
        reader.at("traffic", "events", 0)
    with pytest.raises(NetworkError, match="cannot be reached"):
        rows(reader, "b2.1", 0, 5)


@pytest.mark.parametrize(
    ("since", "until", "enough"),
    [
        ({}, {}, False),
        ({"b2.1": 3}, {}, True),
        ({"b2.1": 8}, {}, True),
        ({"b2.1": 9}, {}, False),
        ({"b2.1": 3}, {"b2.1": 9}, False),
    ],
)
def test_a_deputy_speaks_for_a_broker_as_far_as_it_has_its_entries(
    server: LogServer, since: dict[str, int], until: dict[str, int], enough: bool
) -> None:
    """What it does not have is not lost: its broker is away."""
    filled(server, "b1.1", 5)
    filled(server, "b2.1", 10)
    server.away, server.copies = {"b2"}, {"b2.1": (3, 8)}
    reader = LogReader(server.url)
    if enough:
        found = reader.whole("traffic", since=since, until=until)
        assert [(one.holder, one.first, one.next, one.copied) for one in found.holders] == [
            ("b1.1", 0, 5, False),
            ("b2.1", 3, 8, True),
        ]
    else:
        with pytest.raises(NetworkError, match=r"'b2' \(its deputy has 3 up to 8\) may hold a part"):
            reader.whole("traffic", since=since, until=until)
        others = reader.whole("traffic", of={"b1.1"}, since=since, until=until)
        assert ([one.holder for one in others.holders], others.away) == (["b1.1"], ("b2",))


def test_with_patience_a_broker_that_comes_back_is_waited_for(server: LogServer) -> None:
    filled(server, "b1.1", 5)
    server.away = {"b1"}
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            server.away = set()

    reader = LogReader(server.url, patience_s=60, sleep=sleep)
    assert len(rows(reader, "b1.1", 0, 5)) == 5
    assert pauses == [0.25, 0.5, 1.0]


def test_patience_is_a_time_whether_it_passes_in_pauses_or_in_answers(server: LogServer) -> None:
    """A broker that takes long to say nothing is not asked more often for it."""
    server.away = {"b1"}
    now_s = [0.0]

    def clock() -> float:
        now_s[0] += 20.0
        return now_s[0]

    filled(server, "b1.1", 5)
    with pytest.raises(NetworkError):
        rows(LogReader(server.url, patience_s=60, sleep=lambda _: None, clock=clock), "b1.1", 0, 5)
    assert len(server.asked) == 3


def test_a_time_is_a_number_of_each_broker(server: LogServer) -> None:
    filled(server, "b1.1", 4)
    filled(server, "b2.1", 4)
    assert LogReader(server.url).at("traffic", "events", 2) == {"b1.1": 2, "b2.1": 0}
    assert LogReader(server.url).at("traffic", "events", 6) == {"b1.1": 4, "b2.1": 2}


def test_name_and_password_are_sent_and_shown_nowhere(server: LogServer) -> None:
    server.user = ("ann", "geheim:ä")
    filled(server, count=1)
    for reader in (
        LogReader(server.url, username="ann", password="geheim:ä"),
        LogReader(server.url.replace("//", "//ann:geheim%3A%C3%A4@")),
    ):
        assert len(rows(reader, "b1.1", 0, 1)) == 1
        assert "geheim" not in repr(reader)
    with pytest.raises(AccessError, match="no such name") as caught:
        LogReader(server.url, username="ann", password="guessed").about("traffic")
    assert "guessed" not in str(caught.value)


def test_an_unknown_topic_is_the_callers_fault(server: LogServer) -> None:
    with pytest.raises(InputError, match="no topic 'trafic'"):
        LogReader(server.url).about("trafic")


def test_the_next_address_is_asked_where_one_does_not_answer(server: LogServer) -> None:
    filled(server, count=1)
    reader = LogReader(f"http://127.0.0.1:1, {server.url}")
    assert len(reader.about("traffic").holders) == 1
    assert str(reader.places[0]) == server.url


def test_nobody_there_is_said_with_every_address() -> None:
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
        LogReader("http://127.0.0.1:1,http://127.0.0.1:2").about("traffic")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("localhost:9883", "no scheme; write http://localhost:9883"),
        ("mqtt://localhost", "is no address of a broker's HTTP listener"),
        ("http://a/log", "more than host and port"),
        ("", "no URL is given"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_places(text)


def test_an_error_about_an_address_does_not_show_its_password() -> None:
    with pytest.raises(InputError) as caught:
        read_places("http://ann:geheim@a/log")
    assert "geheim" not in str(caught.value)
