"""What goes to the log, under which number, and before what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.overlay.bench import BEGIN, Bench, path, started
from tests.overlay.gather.test_edge_filter import roads
from tests.overlay.offers import offer_of
from tidings.language.topics import Topic
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    Accept,
    Append,
    Deliver,
    Effect,
    SessionOpened,
    Sync,
    Write,
    WritesSynced,
)
from tidings.overlay.gather.messages import Mirror
from tidings.overlay.publishing.messages import Logged
from tidings.overlay.settings import Settings
from tidings.records.holders import Holder

AT_US = round(BEGIN * 1e6)


def news(**options: object) -> Topic:
    return Topic.from_mapping({"name": "news/#", "kind": "plain", "keep": "7d"} | options)


def offered(broker: Broker, topic: str, payload: bytes = b"{}", qos: int = 1, token: int = 1) -> list[Effect]:
    return broker.handle(offer_of("p", token, topic, payload, qos, "application/json"), BEGIN)


def of(kinds: tuple[type, ...], effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kinds)]


def appended(effects: list[Effect]) -> list[tuple[str, str, str, int, bytes]]:
    return [
        (one.name, one.what, str(one.holder), one.number, one.payload)
        for one in effects
        if isinstance(one, Append)
    ]


# Plain topics.


def test_what_is_published_is_appended_before_it_is_written_synced_and_accepted() -> None:
    broker = started("a", topics=(news(),))
    broker.handle(SessionOpened("p"), BEGIN)
    effects = offered(broker, "news/sport")
    kinds = [type(effect) for effect in of((Append, Write, Sync, Accept), effects)]
    assert kinds == [Append, Write, Sync]
    assert of((Append,), effects) == [
        Append("news/#", "events", Holder("a", 1), 0, AT_US, "news/sport", b"{}", "application/json")
    ]
    (sync,) = of((Sync,), effects)
    assert isinstance(sync, Sync)
    assert of((Accept,), broker.handle(WritesSynced(sync.token), BEGIN)) == [Accept("p", [1])]


def test_quality_of_service_0_is_appended_and_nobody_waits() -> None:
    broker = started("a", topics=(news(),))
    effects = offered(broker, "news/sport", qos=0)
    assert len(appended(effects)) == 1
    assert of((Sync, Write), effects) == []


def test_numbers_are_dense_for_each_declaration_and_go_on_where_the_log_ends() -> None:
    broker = started("a", topics=(news(), news(name="talk")), logged={("news/#", "events"): 41})
    made = [offered(broker, topic) for topic in ("news/a", "talk", "news/b", "talk")]
    assert [one[:4] for effects in made for one in appended(effects)] == [
        ("news/#", "events", "a.1", 41),
        ("talk", "events", "a.1", 0),
        ("news/#", "events", "a.1", 42),
        ("talk", "events", "a.1", 1),
    ]


def test_what_is_not_declared_or_not_kept_or_refused_is_not_appended() -> None:
    topics = (news(name="dropped", keep=False), news(name="typed", fields={"n": {"type": "int"}}))
    broker = started("a", topics=topics)
    for topic, payload in (("other", b"{}"), ("dropped", b"{}"), ("typed", b'{"n": "x"}')):
        assert appended(offered(broker, topic, payload)) == []
    assert [one[3] for one in appended(offered(broker, "typed", b'{"n": 1}'))] == [0]


def test_each_broker_keeps_what_was_published_at_it() -> None:
    bench = Bench("ab", path("a", "b"), topics=(news(),))
    bench.settle()
    bench.subscribe("b", "s", "news/#")
    bench.settle()
    bench.publish("a", "news/x", b"1")
    bench.publish("b", "news/x", b"2")
    bench.settle()
    assert [(str(one.holder), one.number, one.payload) for one in bench.of(Append)] == [
        ("a.1", 0, b"1"),
        ("b.1", 0, b"2"),
    ]
    assert bench.got("b", "s") == [b"2", b"1"] or bench.got("b", "s") == [b"1", b"2"]


def test_what_is_sent_again_after_a_restart_is_not_appended_again() -> None:
    bench = Bench("ab", path("a", "b"), topics=(news(),))
    bench.settle()
    bench.subscribe("b", "s", "news/#", durable=True)
    bench.settle()
    bench.cut("a", "b")
    bench.publish("a", "news/x", b"1")
    bench.run()
    bench.kill("a")
    bench.heal("a", "b")
    mark = bench.mark()
    bench.start("a")
    bench.settle()
    assert bench.got("b", "s", mark) == [b"1"]
    assert bench.of(Append, since=mark) == []


# Reports.


def network(topic: Topic, ids: str = "abc", **settings: Any) -> Bench:
    bench = Bench(ids, path(*ids), settings=Settings(**settings), topics=(topic,))
    bench.settle()
    return bench


def report(bench: Bench, broker: str, qos: int = 1, token: int = 0, **fields: object) -> list[Effect]:
    payload = json.dumps({"place": "bridge", **fields}).encode()
    return bench.publish(broker, "roads", payload, qos, token)


@pytest.mark.parametrize("on_the_way", ["nothing", "drop", "merge"])
def test_reports_are_kept_where_they_enter_whatever_becomes_of_them(on_the_way: str) -> None:
    bench = network(roads(keep_reports="1d", on_the_way=on_the_way))
    for token in range(4):
        report(bench, "a", token=token, lanes=2)
        bench.advance(0.05)
    report(bench, "c", qos=0, note="x")
    bench.settle()
    kept = [(str(one.holder), one.number, one.report) for one in bench.of(Append)]
    assert kept == [
        ("a.1", 0, "a:1:1"),
        ("a.1", 1, "a:1:2"),
        ("a.1", 2, "a:1:3"),
        ("a.1", 3, "a:1:4"),
        ("c.1", 0, "c:1:1"),
    ]
    assert {one.what for one in bench.of(Append)} == {"reports"}
    assert sorted(bench.accepted("a")) == [0, 1, 2, 3]


@pytest.mark.parametrize("acks", ["origin", "neighbour"])
@pytest.mark.parametrize("on_the_way", ["nothing", "drop", "merge"])
def test_a_report_is_accepted_once_its_entry_is_on_disk(on_the_way: str, acks: str) -> None:
    bench = network(roads(keep_reports="1d", on_the_way=on_the_way), acks=acks)
    report(bench, "a", lanes=2)
    bench.advance(5)
    bench.slow_disks.add("a")
    mark = bench.mark()
    report(bench, "a", token=1, lanes=2)
    report(bench, "a", token=2, lanes=2)
    bench.advance(5)
    assert len(bench.of(Append, "a", mark)) == 2
    assert bench.accepted("a", mark) == []
    bench.slow_disks.clear()
    bench.sync("a")
    bench.advance(5)
    assert sorted(bench.accepted("a", mark)) == [1, 2]


def test_reports_that_pass_as_they_are_are_kept_as_reports() -> None:
    bench = Bench("ab", topics=(roads(keep_reports="1d", before_seat="pass"),))
    effects = report(bench, "a")
    assert [one[1:4] for one in appended(effects)] == [("reports", "a.1", 0)]
    assert of((Accept,), effects) == []


# Gathered topics.


def test_a_seat_keeps_every_version_that_it_tells() -> None:
    bench = network(roads(keep="7d", on_the_way="nothing"))
    report(bench, "a", lanes=2)
    bench.advance(2)
    report(bench, "c", note="fire")
    bench.advance(2)
    told = [one for one in bench.of(Append, "b") if one.holder == Holder("b", 1)]
    assert [
        (
            one.name,
            one.what,
            one.number,
            one.topic,
            one.event,
            one.version,
            one.reports,
            one.complete,
            one.state,
        )
        for one in told
    ] == [
        ("roads", "events", 0, "roads", "a:1:1", 1, 1, False, "told"),
        ("roads", "events", 1, "roads", "a:1:1", 2, 2, False, "told"),
    ]
    assert [json.loads(one.payload) for one in told] == [
        {"place": "bridge", "lanes": 2},
        {"place": "bridge", "lanes": 2, "note": "fire"},
    ]
    assert [one.content_type for one in told] == ["application/json"] * 2


def test_a_version_is_appended_before_it_is_delivered() -> None:
    bench = network(roads(keep="7d"), "a")
    bench.subscribe("a", "s", "roads")
    report(bench, "a", lanes=2)
    bench.advance(2)
    kinds = [type(effect) for _, effect in bench.seen if isinstance(effect, Append | Deliver)]
    assert kinds == [Append, Deliver]


def test_a_gathered_topic_without_keep_is_not_kept() -> None:
    bench = network(roads())
    report(bench, "a", lanes=2)
    bench.advance(2)
    assert bench.of(Append) == []


# The deputy's copy.


def copies(bench: Bench, broker: str, since: tuple[int, int] = (0, 0)) -> list[tuple[str, int, int | None]]:
    return [
        (str(one.holder), one.number, one.version)
        for one in bench.of(Append, broker, since)
        if one.what == "events"
    ]


def deputy(bench: Bench) -> str:
    return bench[bench.running()[0]].gathered("roads")[0].deputy


@pytest.mark.parametrize("qos", [0, 1])
def test_the_deputy_keeps_a_copy_under_the_name_and_numbers_of_the_seat(qos: int) -> None:
    bench = network(roads(keep="7d", on_the_way="nothing"))
    for fields in ({"lanes": 1}, {"note": "fire"}):
        report(bench, "c", qos=qos, **fields)
        bench.advance(3)
    other = deputy(bench)
    assert other in ("a", "c")
    assert copies(bench, other) == copies(bench, "b") == [("b.1", 0, 1), ("b.1", 1, 2)]
    assert bench.of(Append, "b") == bench.of(Append, other)
    assert copies(bench, "a" if other == "c" else "c") == []


def test_the_deputy_gets_an_entry_when_it_is_on_the_disk_of_the_seat() -> None:
    bench = network(roads(keep="7d", on_the_way="nothing"))
    report(bench, "c", qos=0, lanes=1)
    bench.advance(3)
    other = deputy(bench)
    mark = bench.mark()
    bench.slow_disks.add("b")
    report(bench, "c", qos=0, note="fire")
    bench.advance(5)
    assert copies(bench, "b", mark) == [("b.1", 1, 2)]
    assert copies(bench, other, mark) == []
    bench.slow_disks.clear()
    bench.sync("b")
    bench.advance(5)
    assert copies(bench, other, mark) == [("b.1", 1, 2)]


def test_a_new_seat_numbers_under_its_own_name() -> None:
    bench = network(roads(keep="7d", on_the_way="nothing"))
    report(bench, "a", lanes=1)
    bench.advance(3)
    other = deputy(bench)
    bench.kill("b")
    bench.join("a", "c")
    bench.settle()
    report(bench, other, note="fire")
    bench.settle()
    # The first version is told again: nobody knows who has it.
    assert copies(bench, other) == [("b.1", 0, 1), (f"{other}.1", 0, 1), (f"{other}.1", 1, 2)]


def test_a_broker_alone_waits_for_no_deputy() -> None:
    bench = network(roads(keep="7d"), "a")
    report(bench, "a", lanes=1)
    bench.advance(3)
    assert copies(bench, "a") == [("a.1", 0, 1)]
    assert bench.said(Mirror) == []


def test_a_copy_of_what_is_not_kept_is_not_taken() -> None:
    bench = network(roads(on_the_way="nothing"))
    report(bench, "a", lanes=1)
    bench.advance(3)
    link = next(link for link in bench["a"]._links.links.values())
    logged = Logged("roads", 0, 0, "roads", b"{}", "", "e", 1, 1, True, "told")
    mark = bench.mark()
    bench["a"]._seats.on_mirror(link, Mirror("a", (0, 0), "roads", 1, 1, (), (), (), (), log=(logged,)))
    bench.settle()
    assert bench.of(Append, "a", mark) == []
