"""Bursts that meet content filters are dealt out at once or one by one: nobody can tell from what arrives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.mqtt.talk import V5, V311
from tests.mqtt.test_short_way import Recorded
from tidings.matching import compile_kernels, compiling
from tidings.mqtt import dealing as hands
from tidings.mqtt import fanout
from tidings.mqtt.codec import encode
from tidings.mqtt.events import BytesReceived, ClientCongested, Distribute, Transmit
from tidings.mqtt.packets import Asked, Pingreq, Pingresp, Properties, Publish, Subscribe, Version
from tidings.overlay.publishing import publications
from tidings.overlay.routing import table
from tidings.records.record import Kind

PAYLOADS = (
    b'{"n":3}',
    b'{"n":1}',
    b'{"n":7,"kind":"x"}',
    b'{"n":12.5,"on":true}',
    b'{"n":3,"n":1}',
    b"{}",
    b"text",
    b'{"n":{"m":1}}',
    b' { "n" : -4 } ',
)
WHERES = (
    "",
    "n >= 3",
    "n < 2 OR n = 7",
    "kind = 'x'",
    "n IS NULL",
    "on AND n > 1",
    "n.m = 1",
    "$topic = 't/1'",
)
FILTERS = ("t/#", "t/1", "+/1", "#")

ABOUT = Properties(user=(("road", "A1"),), content_type="application/json")

BROKEN = b"\x30\x06\x00\x02\xff\xfe\x00x"
"""A packet whose topic is not UTF-8."""

Subscriber = tuple[bool, list[tuple[str, int, str, int]]]
"""Version 5, and (filter, QoS, where, identifier) of each subscription."""

subscribers = st.lists(
    st.tuples(
        st.sampled_from((True, True, True, False)),
        st.lists(
            st.tuples(
                st.sampled_from(FILTERS),
                st.sampled_from((0, 0, 0, 1)),
                st.sampled_from(WHERES),
                st.sampled_from((0, 0, 0, 0, 5)),
            ),
            min_size=1,
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=5,
)
TOPICS = ("t/1", "t/1", "t/2", "t/3", "u/1", "v")

Said = bytes | tuple[str, bytes] | Publish | Pingreq
"""A payload for t/1, a topic and a payload, or any packet."""

Turn = tuple[bool, list[Said]]
"""What a publisher sends at once, and whether it speaks version 5."""

said: st.SearchStrategy[Said] = st.tuples(st.sampled_from(TOPICS), st.sampled_from(PAYLOADS))
between: st.SearchStrategy[Said] = st.one_of(
    st.builds(Publish, st.sampled_from(TOPICS), st.sampled_from(PAYLOADS), st.just(1)),
    st.builds(Publish, st.sampled_from(TOPICS), st.sampled_from(PAYLOADS), retain=st.just(True)),
    st.builds(Publish, st.sampled_from(TOPICS), st.sampled_from(PAYLOADS), properties=st.just(ABOUT)),
    st.just(Pingreq()),
    st.just(BROKEN),
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """Neighbours of one topic, of several in turn, and now and then something else between them."""
    one = draw(st.sampled_from(TOPICS))
    some: list[Said] = [(one, payload) for payload in draw(st.lists(st.sampled_from(PAYLOADS), max_size=20))]
    some += draw(st.lists(said, max_size=30))
    for other in draw(st.lists(between, max_size=2)):
        some.insert(draw(st.integers(0, len(some))), other)
    return draw(st.sampled_from((True, True, False))), some


published = st.lists(turns(), min_size=1, max_size=3)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


class Watched(Recorded):
    """A bench that keeps the bytes for each connection, too."""

    def _carry_out(self, effects: Any) -> None:
        effects = list(effects)
        if not hasattr(self, "sent"):
            self.sent: dict[int, bytes] = {}
        for effect in effects:
            for one in effect.transmits() if isinstance(effect, Distribute) else [effect]:
                if isinstance(one, Transmit):
                    before = self.sent.get(one.connection, b"")
                    self.sent[one.connection] = before + b"".join(one.chunks)
        super()._carry_out(effects)


LONG = 0
"""In the place of `deal_from`: nothing goes the short way."""


def run(
    deal_from: int,
    who: list[Subscriber],
    what: Sequence[Turn],
    slow: int | None,
    trees: int = 1,
    at_once: bool = False,
) -> tuple[dict[int, bytes], list[str], dict[str, Any]]:
    """The bytes that each connection got, what was written down, and what was counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hands, "DEAL_FROM", deal_from)
        # What goes by without filters is written down together from as many on.
        patch.setattr(publications, "MIXED_FROM", deal_from)
        patch.setattr(Watched, "trees", trees)
        # Filters are found by an index from the first on.
        patch.setattr(table, "INDEX_AT_ONCE", 1)
        talk = Watched()
        talk.front._publishing.bursts = deal_from != LONG
        receivers = []
        for at, (v5, asked) in enumerate(who):
            client = talk.connect(f"s{at}", version=V5 if v5 else V311)
            for number, (topic_filter, qos, where, identifier) in enumerate(asked, 1):
                about = Properties(
                    user=(("where", where),) if where else (),
                    subscription_identifiers=(identifier,) if identifier else (),
                )
                client.send(Subscribe(number, (Asked(topic_filter, qos),), about if v5 else Properties()))
            receivers.append(client)
        publishers = talk.connect("q", version=V311), talk.connect("p")
        talk.advance(2.0)
        by_turn = []
        told = []
        for turn, (v5, some) in enumerate(what):
            if slow is not None and slow < len(receivers):
                talk.tell(ClientCongested(receivers[slow].connection, (turn + slow) % 2 == 0))
            packets = [packet_of(one, V5 if v5 else V311, at) for at, one in enumerate(some, 1)]
            told.append(BytesReceived(publishers[v5].connection, b"".join(packets)))
            if at_once and turn < len(what) - 1:
                # What comes for the receivers in between stays in between.
                told += [BytesReceived(one.connection, encode(Pingreq(), V5)) for one in receivers[:2]]
                continue
            talk.tell_all(told)
            told.clear()
            by_turn.append([len(talk.sent[client.connection]) for client in receivers])
        talk.advance(3.0)
        lines = sorted(
            json.dumps(
                [it.kind, it.topic, it.message, it.bytes, it.publisher, it.client, sorted(it.receivers)]
            )
            for it in talk.records
            if it.kind in (Kind.PUBLISHED, Kind.DELIVERED)
        )
        status = talk.front.status(talk.now)
        return talk.sent, lines, {**status.counters, "unreadable": status.unreadable, "by turn": by_turn}


def packet_of(one: Said, version: Version, packet_id: int = 0) -> bytes:
    if one == BROKEN:
        return BROKEN
    if isinstance(one, bytes):
        one = "t/1", one
    if isinstance(one, tuple):
        one = Publish(*one)
    if isinstance(one, Publish) and one.qos:
        one = msgspec.structs.replace(one, packet_id=packet_id)
    return encode(one, version)


def check(who: list[Subscriber], what: list[Turn], slow: int | None, trees: int) -> None:
    """Dealt out, one by one, or the long way: it makes no difference."""
    dealt = run(1, who, what, slow, trees)
    assert dealt == run(1_000_000, who, what, slow, trees)
    sent, lines, counted = dealt
    expected = run(LONG, who, what, slow, trees)
    assert lines == expected[1]
    # There, answers to publishers come later: too late, if the connection is closed meanwhile.
    assert all(sent.get(at) == expected[0].get(at) for at in range(1, len(who) + 1))
    later = ("packets_out", "bytes_out") if any(BROKEN in some for _, some in what) else ()
    assert all(counted[name] == expected[2][name] for name in counted if name not in later)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(subscribers, published, st.none() | st.integers(0, 4), st.sampled_from((1, 3)))
def test_dealing_brings_the_same_bytes_writes_the_same_down_and_counts_the_same(
    who: list[Subscriber], what: list[Turn], slow: int | None, trees: int
) -> None:
    check(who, what, slow, trees)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(subscribers, published, st.none() | st.integers(0, 4))
def test_what_is_dealt_out_twice_in_a_turn_comes_in_order(
    who: list[Subscriber], what: list[Turn], slow: int | None
) -> None:
    """Whatever else is in between."""
    assert run(1, who, what, slow, at_once=True) == run(1_000_000, who, what, slow, at_once=True)


def distributed(talk: Watched, *sent: tuple[int, list[Said]]) -> list[list[int]]:
    """For each `Distribute` that follows, in one turn, from what connections send: who got something."""
    found: list[list[int]] = []

    def carry_out(effects: Any) -> None:
        effects = list(effects)
        found.extend(
            [one.connection for one in effect.transmits()]
            for effect in effects
            if isinstance(effect, Distribute)
        )
        Watched._carry_out(talk, effects)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(talk, "_carry_out", carry_out)
        talk.tell_all(
            [
                BytesReceived(
                    connection, b"".join([packet_of(one, V5, at) for at, one in enumerate(said, 1)])
                )
                for connection, said in sent
            ]
        )
    return found


def test_what_was_dealt_out_once_is_left_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "INDEX_AT_ONCE", 1)
    talk = Watched()
    receivers = [talk.connect(f"s{at}") for at in range(3)]
    for receiver, where in zip(receivers, ("n >= 3", "n < 0", "n = 1"), strict=True):
        receiver.send(Subscribe(1, (Asked("t/1", 0),), Properties(user=(("where", where),))))
    publishers = talk.connect("p"), talk.connect("q")
    talk.advance(2.0)
    numbers = [one.connection for one in receivers]
    many: list[Said] = [b'{"n":3}', b'{"n":1}'] * hands.DEAL_FROM
    first, second = (one.connection for one in publishers)
    # Filters are linked to clients when they are first met, which counts anew.
    for _ in range(2):
        assert distributed(talk, (first, many)) == [[numbers[0], numbers[2]]]
    # Twice, and it is put together; so is what comes behind something else.
    assert distributed(talk, (first, many), (second, many)) == []
    ping: list[Said] = [Pingreq()]
    assert distributed(talk, (numbers[0], ping), (first, many)) == []
    assert distributed(talk, (second, ping), (first, many)) == [[numbers[0], numbers[2]]]
    assert distributed(talk, (first, many), (numbers[0], ping)) == [[numbers[0], numbers[2]]]
    # One that is not dealt out changes nothing.
    single: list[Said] = [b'{"n":-1}']
    assert distributed(talk, (first, many), (second, single)) == [[numbers[0], numbers[2]]]
    # What comes for the same client in between stays there.
    talk.sent.clear()
    assert distributed(talk, (first, many), (numbers[0], ping), (first, many)) == []
    share = packet_of(b'{"n":3}', V5) * hands.DEAL_FROM
    assert talk.sent[numbers[0]] == share + encode(Pingresp(), V5) + share
    # Nobody gets this.
    assert distributed(talk, (first, [b'{"n":2}'] * hands.DEAL_FROM)) == []


SEVERAL: list[Said] = [
    (topic, payload) for payload in PAYLOADS for topic in ("t/1", "t/2", "u/1", "u/1", "v", "t/1")
]
TWICE: list[Said] = [*SEVERAL, Publish("t/1", b'{"n":3}', properties=ABOUT), *SEVERAL]


@pytest.mark.parametrize(
    ("who", "hands_of"),
    [
        pytest.param([[("#", "n >= 3")], [("#", "n < 2 OR n = 7"), ("#", "kind = 'x'")]], [54], id="same"),
        pytest.param([[("#", "n >= 3")], [("t/1", "n < 2")]], None, id="other filters at one topic"),
        pytest.param([[("#", "n >= 3")], [("t/1", "")]], None, id="one topic whatever its content"),
        pytest.param([[("#", "n >= 3")], [("#", "")]], [54], id="all topics whatever their content"),
        pytest.param([[("#", "$topic = 't/1'")], [("#", "n >= 3")]], None, id="a filter asks for the topic"),
        pytest.param([[("t/#", "n >= 3"), ("+/1", "n < 2"), ("v", "")]], None, id="one without filters"),
        pytest.param([[("#", "")], [("+/1", "")]], [], id="no filters"),
        pytest.param([[("w", "n >= 3")]], [], id="nobody"),
    ],
)
@pytest.mark.parametrize("trees", [1, 3])
@pytest.mark.parametrize("slow", [None, 0, 1])
def test_neighbours_of_several_topics_are_one_hand_if_they_meet_the_same_filters(
    who: list[list[tuple[str, str]]],
    hands_of: list[int] | None,
    trees: int,
    slow: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscribed: list[Subscriber] = [
        (True, [(topic_filter, 0, where, 0) for topic_filter, where in asked]) for asked in who
    ]
    check(subscribed, [(True, TWICE)] * 3, slow, trees)
    if slow is None and hands_of is not None:
        seen: list[int] = []

        class Seen(fanout.Dealt):
            def __init__(self, begins: Any, *others: Any) -> None:
                seen.append(len(begins))
                super().__init__(begins, *others)

        monkeypatch.setattr(fanout, "Dealt", Seen)
        run(1, subscribed, [(True, SEVERAL)] * 3, slow, trees)
        assert seen == hands_of * 3


@pytest.mark.parametrize("deal_from", [1, 1_000_000])
@pytest.mark.parametrize("first", [True, False])
def test_publishers_of_both_versions_reach_a_content_filter(deal_from: int, first: bool) -> None:
    """The subscriber gets packets of its own version, whoever published before."""
    what: list[Turn] = [(first, [b'{"n":3}']), (not first, [b'{"n":4}'] * 2), (first, [b'{"n":5}'] * 20)]
    sent = run(deal_from, [(True, [("t/1", 0, "n >= 3", 0)])], what, None)[0]
    expected = b"".join([packet_of(one, V5) for _, some in what for one in some])
    assert sent[1].endswith(expected)


def test_a_burst_for_content_filters_is_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    dealt = []

    class Seen(fanout.Dealt):
        def stretches(self, data: bytes, takers: Sequence[int] | None = None) -> list[memoryview]:
            dealt.append(data)
            return super().stretches(data, takers)

    monkeypatch.setattr(fanout, "Dealt", Seen)
    sent, lines, _ = run(
        hands.DEAL_FROM,
        [
            (True, [("t/1", 0, "n >= 3", 0)]),
            (True, [("t/#", 0, "n < 2 OR n = 7", 0)]),
            (True, [("t/1", 0, "", 0)]),
        ],
        [(True, [b'{"n":3}', b'{"n":1}'] * hands.DEAL_FROM)],
        None,
    )
    assert dealt
    assert len(lines) == 4 * hands.DEAL_FROM
    assert [b'{"n":3}' in data for data in list(sent.values())[:3]] == [True, False, True]


def test_what_is_too_much_to_be_dealt_goes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    who: list[Subscriber] = [(True, [("t/1", 0, "n >= 3", 0)]), (True, [("t/1", 0, "n > 1", 0)])]
    what: list[Turn] = [(True, [b'{"n":3}', b'{"n":2}', b"text"] * 10)]
    expected = run(1_000_000, who, what, None)
    monkeypatch.setattr(fanout, "BYTES_MAX", 100)
    assert run(1, who, what, None) == expected


def test_before_there_are_kernels_bursts_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    who: list[Subscriber] = [(True, [("t/1", 0, "n >= 3", 0)]), (True, [("t/1", 0, "n > 1", 0)])]
    what: list[Turn] = [(True, [b'{"n":3}', b'{"n":2}', b"text"] * 10)]
    expected = run(1_000_000, who, what, None)
    monkeypatch.setattr(compiling, "_compiled", None)
    monkeypatch.setattr(compiling, "_batches", None)
    assert run(1, who, what, None) == expected


def test_where_somebody_must_be_looked_at_singly_bursts_are_not_read_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []
    match_payloads = table.Table.match_payloads

    def watched(*given: Any) -> Any:
        read.append(given)
        return match_payloads(*given)

    monkeypatch.setattr(table.Table, "match_payloads", watched)
    who: list[Subscriber] = [(True, [("t/1", 0, "n >= 3", 5)]), (True, [("t/1", 0, "n > 1", 0)])]
    what: list[Turn] = [(True, [b'{"n":3}', b'{"n":2}'] * 10)] * 3
    assert run(1, who, what, None) == run(1_000_000, who, what, None)
    assert len(read) == 1


def test_too_many_takers_for_too_many_payloads_get_them_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    who: list[Subscriber] = [(True, [("t/1", 0, "n >= 3", 0)]), (True, [("t/1", 0, "n > 1", 0)])]
    what: list[Turn] = [(True, [b'{"n":3}', b'{"n":2}', b"text"] * 10)]
    expected = run(1_000_000, who, what, None)
    monkeypatch.setattr(hands, "BITS_MAX", 59)
    assert run(1, who, what, None) == expected
