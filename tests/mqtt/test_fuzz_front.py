"""The front under attack: any bytes, split anywhere, at any state, while others go on with their work.

`hostile` says what must hold. Here attacks are drawn by Hypothesis and by a fuzzer that coverage guides; what
either has ever found is kept as a case of its own, and what must not grow is measured.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sized
from types import FunctionType, MethodType, ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.mqtt import hostile, strategies
from tests.mqtt.fuzzing import FOLDER, Fuzzer, lines_of
from tests.mqtt.hostile import STATES, Attack, Hostile
from tests.mqtt.talk import Talk
from tests.mqtt.test_fuzz_codec import CUTS, pieces
from tidings.mqtt import fanout, publishing
from tidings.mqtt.codec import encode
from tidings.mqtt.packets import Asked, Properties, Publish, Pubrel, Subscribe, Unsubscribe, Version
from tidings.overlay.publishing.routes import Routes
from tidings.overlay.routing.table import Table

V311 = Version.V311
V5 = Version.V5

FOUND = {
    "a CONNACK that is too large for the client": (
        hostile.unconnected,
        V5,
        ["10 1e 00044d515454 05 c2 0000 05 2700000028 0000 0004 6e616d65 0004 776f7264"],
    ),
    "a length of more bytes than it needs, and a body that is too short": (
        hostile.connected,
        V311,
        ["30 80 00 7a"],
    ),
}
"""What was wrong once."""


@pytest.mark.parametrize(("state", "version", "chunks"), FOUND.values(), ids=FOUND.keys())
def test_what_was_found_once_does_not_come_back(
    state: hostile.State, version: Version, chunks: list[str]
) -> None:
    hostile.run(state, version, [bytes.fromhex(chunk) for chunk in chunks])


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_client_that_says_nothing_leaves_nothing_behind(state: hostile.State, version: Version) -> None:
    hostile.run(state, version, [])


@given(st.sampled_from(STATES), strategies.versions, st.binary(max_size=120), CUTS)
@settings(max_examples=examples(60))
def test_any_bytes_at_any_state(state: hostile.State, version: Version, data: bytes, cuts: list[int]) -> None:
    hostile.run(state, version, pieces(data, cuts))


@given(
    st.data(),
    st.sampled_from(STATES),
    strategies.versions,
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    CUTS,
)
@settings(max_examples=examples(120))
def test_any_packets_with_wrong_bytes_at_any_state(
    data: st.DataObject,
    state: hostile.State,
    version: Version,
    wrong: list[tuple[int, int]],
    cuts: list[int],
) -> None:
    sent = data.draw(st.lists(strategies.from_client(version), max_size=6))
    if state is hostile.unconnected:
        sent.insert(0, data.draw(strategies.connects(version)))
    stream = bytearray(b"".join(encode(packet, version) for packet in sent))
    for place, byte in wrong:
        if stream:
            stream[place % len(stream)] = byte
    hostile.run(state, version, pieces(bytes(stream), cuts))


@pytest.mark.slow
def test_attacks_that_are_guided_by_coverage() -> None:
    """By hand, for as long as wanted: python -m tests.mqtt.fuzzing --runs 100000 --seed 7."""
    fuzzer = Fuzzer(seed=5)
    fuzzer.fuzz(runs=4000)
    assert fuzzer.runs == 4000
    assert fuzzer.findings == {}
    known = lines_of(FOLDER)
    assert len(fuzzer.coverage.lines() & known) > len(known) / 2, "the fuzzer does not reach what it should"


def below(root: object) -> Iterator[object]:
    """All objects that hang on one."""
    seen = {id(root)}
    todo = deque([root])
    while todo:
        it = todo.popleft()
        yield it
        for child in gc.get_referents(it):
            if id(child) not in seen and not isinstance(child, type | ModuleType | FunctionType | MethodType):
                seen.add(id(child))
                todo.append(child)


def weight(root: object) -> int:
    """How much hangs on an object: the items of containers, the lengths of texts."""
    return sum(len(it) for it in below(root) if isinstance(it, Sized))


def many_topics(client: Hostile, number: int) -> None:
    client.send(Publish(f"many/{number}", b"x", number % 2, packet_id=number % 2))


def many_retained(client: Hostile, number: int) -> None:
    client.send(Publish(f"many/{number}", b"x", retain=True))


def many_subscriptions(client: Hostile, number: int) -> None:
    packet_id = number % 60_000 + 1
    where = Properties(user=(("where", f"severity >= {number}"),))
    client.send(Subscribe(packet_id, (Asked(f"many/{number}"),), where))
    client.send(Unsubscribe(packet_id, (f"many/{number - 3}",)))


def many_releases(client: Hostile, number: int) -> None:
    client.send(Publish("a/b", b"x", 2, packet_id=number % 60_000 + 1), Pubrel(number % 60_000 + 1))


def many_requests(client: Hostile, number: int) -> None:
    response = Properties(response_topic=f"$tidings/reply/{number}", correlation_data=b"%d" % number)
    client.send(
        Publish("$tidings/view/remove", b'{"name": "v%d"}' % number, 1, packet_id=1, properties=response)
    )


@pytest.mark.parametrize(
    "say",
    [many_topics, many_retained, many_subscriptions, many_releases, many_requests],
    ids=lambda say: say.__name__,
)
def test_what_is_remembered_does_not_grow_with_what_is_said(
    say: Callable[[Hostile, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same number of packets again, all about new things, weighs nothing once memories are full."""
    monkeypatch.setattr(publishing, "KNOWN_MAX", 50)
    monkeypatch.setattr(fanout, "PLANS_MAX", 50)
    attack = Attack(hostile.connected, V5)
    client, front = attack.hostile, attack.talk.front
    for it in list(below(front)):
        if isinstance(it, Table | Routes):
            it._cache_max = 50
    each = 100
    weights = []
    for begin in range(1, 10 * each, each):
        for number in range(begin, begin + each):
            say(client, number)
            client.heard.clear()
        assert not client.closed
        attack.talk.advance(1.0)
        client.heard.clear()
        client.bytes = b""
        attack.check()
        weights.append(weight(front))
    # Memories may be emptied when they are full, so it goes up and down.
    assert max(weights[5:]) - max(weights[:5]) < each, weights


def test_long_topics_are_not_remembered() -> None:
    attack = Attack(hostile.connected, V5)
    client, front = attack.hostile, attack.talk.front
    before = weight(front)
    for number in range(100):
        client.send(Publish(f"{number:05d}" * 1000, b"x"))
    client.bytes = b""
    assert weight(front) - before < 10_000


def test_connections_that_come_and_go_leave_nothing() -> None:
    talk = Talk(settings=hostile.SETTINGS)
    weights = []
    for begin in (0, 200, 400):
        for number in range(begin, begin + 200):
            client = hostile.dial(talk)
            if number % 4:
                client.connect(f"c{number}", keep_alive_s=number % 7)
                client.subscribe(f"t/{number}", qos=1)
            if number % 3 == 0 and not client.closed:
                client.send_bytes(b"\x36\x00")
            elif not client.closed:
                client.lose()
        talk.advance(20.0)
        weights.append(weight(talk.front))
    assert weights[2] - weights[1] < 200, weights
