"""The pages of a broker: what they say, who may change something, and that nonsense harms nobody."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tidings.errors import SetupError
from tidings.history.logs import Logs
from tidings.language.topics import Topic
from tidings.live.counters import Counters
from tidings.mqtt.core import Counters as FrontCounters
from tidings.mqtt.events import ALL_ALLOWED
from tidings.mqtt.front import FrontStatus
from tidings.overlay.events import LogRead
from tidings.overlay.status import GatheredStatus, GatheringStatus, LinkStatus, SetStatus, Status, TreeStatus
from tidings.records.holders import Holder
from tidings.service import http
from tidings.service.http import Pages
from tidings.service.metrics import COUNTS, GATHERED, GATHERING, GAUGES, MQTT_COUNTS, MQTT_STATUS
from tidings.service.metrics import markdown as metrics_markdown
from tidings.service.requests import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    BadRequest,
    Request,
    read_head,
    write_answer,
)

FAR = "192.0.2.7"

TREE = TreeStatus(
    root="b1",
    epoch=(1, 1),
    growing=False,
    hops=0,
    parent=None,
    children=("b2",),
    members=("b1", "b2"),
    share=("b1",),
)


SEAT = GatheredStatus("t", "t\t0", "b1", 3, "b1", "b2", 2, 10, 1, 2, 3, 4, 5, 6, 7, 8, True)
OTHER_SEAT = GatheredStatus("u", "u", "b1", 1, "b1", "", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, True)


class StubNode:
    """A node that remembers what it was asked."""

    def __init__(self) -> None:
        self.id = "b1"
        self.holder = Holder("b1", 7)
        self.ready = True
        self.stopping = False
        self.reason = ""
        self.counters = Counters()
        self.front = FrontCounters()
        self.synchronising = False
        self.absent: tuple[str, ...] = ("b3",)
        self.pages = {"b9": "http://127.0.0.1:1"}
        self.heard_of = ("b3", "b5", "b9")
        self.asked: list[tuple[str, object]] = []

    def gauges(self) -> Mapping[str, float]:
        return dict.fromkeys(GAUGES, 2.0)

    def status(self) -> dict[str, Any]:
        told = msgspec.to_builtins(
            Status(
                broker=self.id,
                boot=1,
                incarnation=1,
                network="tidings",
                links=(LinkStatus("b2", "up", 1, 2, 0, 0.5), LinkStatus("b3", "down", 1, 2, 0, 0.0)),
                trees=(TREE,),
                share=("b1",),
                sessions=1,
                subscriptions=4,
                held=5,
                backlog_bytes=6,
                absent=self.absent,
                absent_bytes=7,
                dropped=8,
                paused=False,
                topics_remembered=9,
                sets=(
                    SetStatus("b1", 1, 6, 4, 3, 5, ("b2",)),
                    SetStatus("b2", 1, 3, 2, 1, 3),
                    SetStatus("b3", 1, 3, 7, 5, -1, absent_s=60.0),
                ),
                false_positives=11,
                ready=not self.reason,
                reason=self.reason,
                unreached=(("h:1", "Connection refused"),),
                declarations_lost=10,
                seats=(SEAT, msgspec.structs.replace(SEAT, place="t\t1"), OTHER_SEAT),
                gathering=GatheringStatus(*range(21, 32)),
            )
        )
        assert isinstance(told, dict)
        front = FrontStatus(1, 2, 3, 4, 5, 6, 7, 8, dataclasses.asdict(self.front), 9, ())
        mqtt = {"synchronising": self.synchronising, "connections_refused": 10}
        return {**told, "mqtt": {**msgspec.to_builtins(front), **mqtt}}

    def add_neighbour(self, address: str) -> None:
        self.asked.append(("add", address))

    def remove_neighbour(self, address: str) -> None:
        self.asked.append(("remove", address))

    def expel(self, client: str) -> bool:
        self.asked.append(("expel", client))
        return client.startswith("c")

    def remove_session(self, client: str) -> bool:
        self.asked.append(("remove session", client))
        return client.startswith("c")

    def forget(self, broker: str) -> bool:
        if broker in self.heard_of:
            self.asked.append(("forget", broker))
        return broker in self.heard_of

    # The log is tested with real nodes in `test_reading`.
    logs: Logs | None = None
    access = ALL_ALLOWED

    def topic(self, name: str) -> Topic | None:
        return None

    def pages_of_others(self) -> Mapping[str, str]:
        return self.pages

    def user(self, name: str, password: bytes) -> str | None:
        return ""

    def tell(self, event: LogRead, /) -> None:
        self.asked.append(("tell", event))

    async def stop(self, for_good: bool = False) -> str:
        self.asked.append(("stop", for_good))
        return ""


@pytest.fixture
def node() -> StubNode:
    return StubNode()


@pytest.fixture
def pages(node: StubNode) -> Pages:
    return Pages(
        node, ("127.0.0.1", 0), token="sesame", extra=lambda: {"http": "here"}, recorded=lambda: (100, 3)
    )


def ask(
    pages: Pages, path: str, body: bytes = b"", *, method: str = "", peer: str = "127.0.0.1", **headers: str
) -> tuple[int, dict[str, Any]]:
    """The status and the value of an answer, without a socket."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(method or ("POST" if body else "GET"), path, named, len(body))
    try:
        answer = pages.answer(request, body, peer)
    except BadRequest as refused:
        return refused.status.value, {"error": refused.reason}
    return answer.status.value, json.loads(answer.body)


async def exchange(pages: Pages, *pieces: bytes, end: bool = True) -> bytes:
    """What comes back over a real connection."""
    await pages.start()
    try:
        reader, writer = await asyncio.open_connection(*pages.address)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if end:
            writer.write_eof()
        told = await reader.read()
        writer.close()
        return told
    finally:
        await pages.stop()


def test_health_says_that_it_lives(pages: Pages) -> None:
    assert ask(pages, "/health") == (200, {"broker": "b1", "alive": True})


def test_ready_gives_its_reason_when_it_is_not(pages: Pages, node: StubNode) -> None:
    assert ask(pages, "/ready") == (200, {"broker": "b1", "ready": True, "reason": ""})
    node.synchronising = True
    status, told = ask(pages, "/ready")
    assert (status, told["reason"].partition(":")[0]) == (503, "synchronising")
    node.ready = False
    status, told = ask(pages, "/ready")
    assert (status, told["ready"]) == (503, False)
    assert told["reason"] == "it is starting"
    node.stopping = True
    assert ask(pages, "/ready") == (503, {"broker": "b1", "ready": False, "reason": "it is stopping"})


def test_status_is_what_the_node_says_and_what_is_around_it(pages: Pages) -> None:
    status, told = ask(pages, "/status")
    assert status == 200
    assert (told["broker"], told["unready"], told["http"]) == ("b1", "", "here")


def test_status_says_who_has_confirmed_what_of_which_set(pages: Pages) -> None:
    told = ask(pages, "/status")[1]
    (tree,) = told["trees"]
    assert tree["children"] == ["b2"]
    own, other, _ = told["sets"]
    assert (own["home"], own["number"], own["filters"], own["confirmed"]) == ("b1", 6, 4, 5)
    assert own["waits_for"] == ["b2"]
    assert (other["home"], other["widened"], other["asks"]) == ("b2", 1, [])


@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_what_a_broker_knows_waits_for_its_start(pages: Pages, node: StubNode, path: str) -> None:
    node.ready = False
    assert ask(pages, path) == (503, {"error": "it is starting"})


def test_a_broker_is_ready_once_its_trees_are_settled(pages: Pages, node: StubNode) -> None:
    node.reason = "the tree of 'b1' is growing"
    assert ask(pages, "/ready") == (503, {"broker": "b1", "ready": False, "reason": node.reason})


def test_a_broker_with_neighbours_is_ready_once_it_has_reached_one(node: StubNode) -> None:
    pages = Pages(node, ("127.0.0.1", 0), expects_links=True)
    assert ask(pages, "/ready")[1]["reason"] == "no neighbour has been reached yet (h:1: Connection refused)"
    node.counters.links_up = 1
    assert ask(pages, "/ready")[0] == 200


def test_neighbours_are_added_and_removed(pages: Pages, node: StubNode) -> None:
    status, told = ask(pages, "/neighbours", b'{"add": ["h:1", "h:2"], "remove": ["h:3"]}')
    assert (status, told) == (200, {"added": ["h:1", "h:2"], "removed": ["h:3"]})
    assert node.asked == [("add", "h:1"), ("add", "h:2"), ("remove", "h:3")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"nonsense", "malformed"),
        (b"[]", "Expected `object`"),
        (b'{"ad": ["h:1"]}', "unknown field `ad`"),
        (b'{"add": "h:1"}', "Expected `array`"),
        (b'{"add": ["h:1", "nowhere"]}', "is no address"),
        (json.dumps({"add": ["h:1"] * 65}).encode(), "more than 64 addresses"),
        (b'{"add": ' + b"[" * 10_000, "Expected `str`"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    pages: Pages, node: StubNode, body: bytes, reason: str
) -> None:
    status, told = ask(pages, "/neighbours", body)
    assert status == 400
    assert reason in str(told["error"])
    assert node.asked == []


def test_leaving_is_for_good_and_asked_once(pages: Pages, node: StubNode) -> None:
    async def twice() -> list[tuple[int, dict[str, Any]]]:
        told = [ask(pages, "/leave", b" "), ask(pages, "/leave", b" ")]
        assert pages._leaving is not None
        await pages._leaving
        return told

    assert asyncio.run(twice()) == [(202, {"broker": "b1", "leaving": True})] * 2
    assert node.asked == [("stop", True)]


@pytest.mark.parametrize("path", ["/leave", "/neighbours"])
@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 400),
        ("::1", {}, 400),
        ("::ffff:127.0.0.1", {}, 400),
        (FAR, {}, 403),
        (FAR, {"authorization": "Bearer sesam"}, 403),
        (FAR, {"authorization": "sesame"}, 403),
        (FAR, {"authorization": "Bearer séâme"}, 403),
        (FAR, {"authorization": "Bearer sesame"}, 400),
        ("127.0.0.1", {"origin": "http://evil.example"}, 403),
        ("127.0.0.1", {"sec_fetch_site": "cross-site"}, 403),
        (FAR, {"authorization": "Bearer sesame", "origin": "null"}, 403),
    ],
)
def test_only_this_machine_or_the_token_may_change_something(
    pages: Pages, node: StubNode, path: str, peer: str, headers: dict[str, str], status: int
) -> None:
    async def asked() -> int:
        return ask(pages, path, b"{", peer=peer, **headers)[0]

    # Whoever is let in is told of the bad body, or, where there is none to read, that it leaves.
    admitted = 202 if path == "/leave" else 400
    assert asyncio.run(asked()) == (admitted if status == 400 else status)


def test_a_broker_that_will_not_come_back_is_forgotten(pages: Pages, node: StubNode) -> None:
    assert ask(pages, "/forget", b'{"broker": "b3"}') == (200, {"forgotten": "b3"})
    # Nothing is held for this one any more, but readers of the log would still wait for it.
    assert ask(pages, "/forget", b'{"broker": "b9"}') == (200, {"forgotten": "b9"})
    # Nothing is held for this one here, but other brokers may still hold something.
    assert ask(pages, "/forget", b'{"broker": "b5"}') == (200, {"forgotten": "b5"})
    assert node.asked == [("forget", "b3"), ("forget", "b9"), ("forget", "b5")]
    assert ask(pages, "/forget", b"{}")[0] == 400


@pytest.mark.parametrize("broker", ["b1", "b2"])
def test_a_broker_that_is_in_reach_is_not_forgotten(pages: Pages, node: StubNode, broker: str) -> None:
    assert ask(pages, "/forget", b'{"broker": "%s"}' % broker.encode()) == (
        409,
        {
            "error": f"{broker} is in reach; let it leave instead (POST /leave there, or `tidings leave`), "
            "or stop it and ask again when its links are given up"
        },
    )
    assert node.asked == []


def test_a_broker_that_nobody_knows_is_not_forgotten(pages: Pages, node: StubNode) -> None:
    status, told = ask(pages, "/forget", b'{"broker": "b4"}')
    assert (status, told) == (404, {"error": "no broker is known as 'b4'; out of reach are b3, b9"})
    node.absent = tuple(f"c{number:02}" for number in range(20))
    told = ask(pages, "/forget", b'{"broker": "' + b"x" * 200 + b'"}')[1]
    assert told["error"].endswith("c13, c14 and 5 more")
    assert len(told["error"]) < 300
    node.absent, node.pages = (), {}
    told = ask(pages, "/forget", b'{"broker": "b4"}')[1]
    assert told == {"error": "no broker is known as 'b4'; no broker is out of reach"}
    assert node.asked == []


def test_clients_are_expelled_by_their_ids(pages: Pages, node: StubNode) -> None:
    assert ask(pages, "/expel", b'{"clients": ["c1", "c2"]}') == (200, {"expelled": ["c1", "c2"]})
    assert node.asked == [("expel", "c1"), ("expel", "c2")]
    for wrong in (b"{}", b"[]", b'{"client": "c1"}', b'{"clients": [1]}'):
        assert ask(pages, "/expel", wrong)[0] == 400


@pytest.mark.parametrize(
    ("path", "asked", "done", "error"),
    [
        ("/expel", "clients", "expelled", "'x1' is not connected here"),
        ("/sessions", "remove", "removed", "'x1' has no session here"),
    ],
)
def test_clients_that_are_not_there_are_named_and_the_others_dealt_with(
    pages: Pages, path: str, asked: str, done: str, error: str
) -> None:
    def answer(*clients: str) -> tuple[int, dict[str, Any]]:
        return ask(pages, path, json.dumps({asked: clients}).encode())

    assert answer("c1", "c2", "c1") == (200, {done: ["c1", "c2"]})
    assert answer("c1", "x1") == (404, {done: ["c1"], "unknown": ["x1"], "error": error})
    status, told = answer("x1", "c1", "x2", "x3")
    assert (status, told["unknown"]) == (404, ["x1", "x2", "x3"])
    assert told["error"] == f"{error}; 2 others likewise"
    assert ask(pages, path, b"{}")[0] == 400
    assert ask(pages, path, b'{"all": true}')[0] == 400


def test_sessions_wait_for_the_start(pages: Pages, node: StubNode) -> None:
    node.ready = False
    assert ask(pages, "/sessions", b'{"remove": ["c1"]}') == (503, {"error": "it is starting"})


def test_without_a_token_nobody_from_elsewhere_may_change_something(node: StubNode) -> None:
    pages = Pages(node, ("127.0.0.1", 0))
    assert ask(pages, "/neighbours", b"{}", peer=FAR, authorization="Bearer ")[0] == 403


def test_anyone_who_reaches_it_may_look(pages: Pages) -> None:
    assert ask(pages, "/status", peer=FAR)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("GET", "/leave", 405), ("POST", "/status", 405), ("DELETE", "/health", 405)],
)
def test_other_pages_and_methods_are_refused(pages: Pages, method: str, path: str, status: int) -> None:
    found, told = ask(pages, path, method=method)
    assert found == status
    assert told["error"]


def test_metrics_are_those_of_the_node(pages: Pages, node: StubNode) -> None:
    node.counters.frames_in = 3
    node.counters.bytes_out = 700
    node.counters.dials_failed = 4
    node.counters.kinds_in[HTTPStatus] = 5
    node.front.packets_in = 11
    node.front.dropped["slow"] = 12
    told = pages.answer(Request("GET", "/metrics", {}, 0), b"", FAR)
    assert told.content_type.startswith("text/plain")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(told.body.decode())
        for sample in family.samples
    }
    assert samples["tidings_link_frames_total", (("direction", "in"),)] == 3
    assert samples["tidings_link_bytes_total", (("direction", "out"),)] == 700
    assert samples["tidings_dials_failed_total", ()] == 4
    assert samples["tidings_link_messages_total", (("direction", "in"), ("kind", "HTTPStatus"))] == 5
    assert samples["tidings_mqtt_packets_total", (("direction", "in"),)] == 11
    assert samples["tidings_mqtt_dropped_total", (("reason", "slow"),)] == 12
    assert samples["tidings_mqtt_connections_refused_total", ()] == 10
    assert samples["tidings_mqtt_unreadable_total", ()] == 9
    assert samples["tidings_mqtt_retained", ()] == 4
    assert samples["tidings_connections", ()] == 2
    assert samples["tidings_links_up", ()] == 1
    assert samples["tidings_links", ()] == 2
    assert samples["tidings_neighbours_unreached", ()] == 1
    assert samples["tidings_publications_held", ()] == 5
    assert samples["tidings_absent_dropped_total", ()] == 8
    assert samples["tidings_settled", ()] == 1
    assert samples["tidings_filters", ()] == 4
    assert samples["tidings_filters_widened", ()] == 3
    assert samples["tidings_filters_of_others", ()] == 2 + 7
    assert samples["tidings_filters_refused", ()] == 1 + 5
    assert samples["tidings_false_positives_total", ()] == 11
    assert samples["tidings_records_written_total", ()] == 100
    assert samples["tidings_records_lost_total", ()] == 3
    assert samples["tidings_declarations_lost_total", ()] == 10
    # Two seats at this broker share the keys of one topic.
    for fate, number in (("opened", 2), ("merged", 4), ("redundant", 6), ("refused", 8)):
        assert samples["tidings_gathered_reports_total", (("fate", fate), ("topic", "t"))] == number
    assert samples["tidings_gathered_told_total", (("topic", "t"),)] == 12
    assert samples["tidings_gathered_closed_total", (("topic", "u"),)] == 0
    assert samples["tidings_seats", ()] == 3
    assert samples["tidings_events_open", ()] == 5
    assert samples["tidings_reports_waiting", ()] == 21
    assert samples["tidings_reports_entered_total", ()] == 22
    assert samples["tidings_reports_far_total", ()] == 23
    assert samples["tidings_events_forgotten_total", ()] == 31
    assert any(name == "tidings_broker_info" and ("broker", "b1") in labels for name, labels in samples)
    assert ("process_resident_memory_bytes", ()) in samples


def test_every_counter_of_the_node_is_a_metric() -> None:
    counted = {field.name.replace("kinds", "messages") for field in dataclasses.fields(Counters)}
    assert {field for count in COUNTS for field in count.fields} == counted


def test_all_that_the_front_tells_is_a_metric() -> None:
    counted = {field for count in MQTT_COUNTS for field in count.fields}
    assert counted - {"unreadable", "connections_refused"} == {
        field.name for field in dataclasses.fields(FrontCounters)
    }
    told = {field.name for field in msgspec.structs.fields(FrontStatus)}
    assert told - {"counters", "unreadable", "refusals"} == set(MQTT_STATUS)


def test_all_that_is_counted_of_gathering_is_a_metric() -> None:
    counted = {field for count in GATHERING for field in count.fields}
    assert counted == {field.name for field in msgspec.structs.fields(GatheringStatus)} - {"waiting"}
    seen = {field for count in GATHERED for field in count.fields}
    told = {field.name for field in msgspec.structs.fields(GatheredStatus)}
    assert told - seen == {
        *("topic", "place", "root", "term", "seat", "deputy", "mine", "age_s"),
        *("open", "waiting"),  # these are gauges
        "received",  # the sum of all fates
    }


def test_the_page_lists_every_metric(root: Path) -> None:
    assert metrics_markdown() in (root / "docs" / "operations.md").read_text(encoding="utf-8")


# Over a socket.


def test_a_request_is_answered_over_a_connection_that_is_then_closed(pages: Pages) -> None:
    told = asyncio.run(exchange(pages, b"GET /health?x=1 HT", b"TP/1.1\r\nHost: x\r\n\r\n", end=False))
    head, _, body = told.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 200 OK"
    assert "Connection: close" in lines
    assert f"Content-Length: {len(body)}" in lines
    assert json.loads(body)["alive"] is True


def test_head_gets_the_head_alone(pages: Pages) -> None:
    told = asyncio.run(exchange(pages, b"HEAD /metrics HTTP/1.1\r\n\r\n"))
    assert told.startswith(b"HTTP/1.1 200 OK\r\n")
    assert told.endswith(b"\r\n\r\n")


def test_a_body_is_taken_by_its_length(pages: Pages, node: StubNode) -> None:
    body = b'{"add": ["h:1"]}'
    head = b"POST /neighbours HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert asyncio.run(exchange(pages, head, body, end=False)).startswith(b"HTTP/1.1 200 OK\r\n")
    assert node.asked == [("add", "h:1")]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/2\r\n\r\n", 400),
        (b"get /health HTTP/1.1\r\n\r\n", 400),
        (b"GET http://x/health HTTP/1.1\r\n\r\n", 400),
        (b"GET /he alth HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: b\r\na: c\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\nHost: x\n\n", 400),
        (b"POST /leave HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /leave HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", 400),
        (b"POST /leave HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST /leave HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"GET /" + b"x" * 2 * HEAD_BYTES_MAX, 431),
        (b"GET / HTTP/1.1\r\n" + b"B: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
def test_a_malformed_request_is_refused_and_its_connection_closed(
    pages: Pages, node: StubNode, sent: bytes, status: int
) -> None:
    told = asyncio.run(exchange(pages, sent))
    assert told.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]
    assert node.asked == []


def test_many_headers_are_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        read_head(b"GET / HTTP/1.1\r\n" + b"\r\n".join(b"A%d: b" % one for one in range(HEADERS_MAX + 1)))
    assert caught.value.status == 431


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(head: bytes) -> None:
    with suppress(BadRequest):
        assert read_head(head).path.startswith("/")


def test_a_connection_that_says_nothing_is_closed(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_WITHIN_S", 0.01)
    assert asyncio.run(exchange(pages, b"GET /hea", end=False)) == b""


async def asked(pages: Pages, request: bytes) -> bytes:
    """The first line of an answer."""
    reader, writer = await asyncio.open_connection(*pages.address)
    writer.write(request)
    answer = await reader.readline()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "held", [b"", b"GET /metrics HTTP/1.1", b"POST /neighbours HTTP/1.1\r\nContent-Length: 9"]
)
def test_requests_that_are_held_back_keep_nobody_from_being_answered(pages: Pages, held: bytes) -> None:
    async def crowd() -> tuple[bytes, list[bytes]]:
        await pages.start()
        first = await asyncio.open_connection(*pages.address)
        others = []
        for reader, writer in [first, *[await asyncio.open_connection(*pages.address) for _ in range(200)]]:
            writer.write(held)
            await writer.drain()
            others.append((reader, writer))
        refused = await first[0].readline()
        answers = [
            await asked(pages, b"GET /%b HTTP/1.1\r\n\r\n" % page)
            for page in (b"health", b"ready", b"status")
        ]
        for _, writer in others:
            writer.close()
        await pages.stop()
        return refused, answers

    refused, answers = asyncio.run(crowd())
    assert refused.startswith(b"HTTP/1.1 503 "), "the oldest gave way"
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 200 "] * 3


def test_who_watches_a_broker_is_answered_though_all_places_are_taken(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWERED_MAX", 0)

    async def crowd() -> list[bytes]:
        await pages.start()
        paths = (b"health", b"ready", b"metrics", b"log")
        answers = [await asked(pages, b"GET /%b HTTP/1.1\r\n\r\n" % path) for path in paths]
        await pages.stop()
        return answers

    assert [answer[9:12] for answer in asyncio.run(crowd())] == [b"200", b"200", b"503", b"503"]


def test_an_address_that_is_taken_is_told_with_the_way_out(pages: Pages, node: StubNode) -> None:
    async def taken() -> str:
        await pages.start()
        other = Pages(node, pages.address)
        with pytest.raises(SetupError) as caught:
            await other.start()
        await pages.stop()
        return str(caught.value)

    told = asyncio.run(taken())
    assert "cannot be used" in told
    assert "127.0.0.1:0 for any free port" in told


def test_answers_have_their_length() -> None:
    answer = http._told(HTTPStatus.OK, {"a": 1})
    assert b"Content-Length: 8\r\n" in write_answer(answer)
