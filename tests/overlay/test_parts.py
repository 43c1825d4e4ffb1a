"""Several seats for one topic: its keys are divided among brokers around the centre."""

from __future__ import annotations

import json
from collections import Counter

from tests.overlay.bench import Bench, path
from tidings.language.declarations import topic_text
from tidings.language.topics import Topic
from tidings.overlay.events import EntryOffered, SessionOpened
from tidings.overlay.gather.messages import Carry
from tidings.overlay.settings import Settings

SEATS = 5
KEYS = [f"k{number}" for number in range(60)]
STAR = [("a", other) for other in "bcdefgh"]
TREE = [
    ("a", "b"),
    ("a", "c"),
    ("b", "d"),
    ("b", "e"),
    ("c", "f"),
    ("c", "g"),
    ("g", "h"),
    ("h", "i"),
    ("i", "j"),
]


def roads(seats: int = SEATS) -> Topic:
    return Topic.from_mapping(
        {
            "name": "roads",
            "kind": "gathered",
            "key": ["place"],
            "merge_after": "1s",
            "redundant_for": "300s",
            "window": "10m",
            "seat": "centre",
            "seats": seats,
            "on_the_way": "nothing",
            "fields": {"place": {"type": "string"}, "lanes": {"type": "int"}, "note": {"type": "string"}},
        }
    )


def network(links: list[tuple[str, str]], seats: int = SEATS) -> Bench:
    ids = sorted({name for link in links for name in link})
    bench = Bench(ids, links, settings=Settings(), topics=(roads(seats),))
    bench.settle()
    return bench


def report(bench: Bench, broker: str, key: str, **fields: object) -> None:
    bench.publish(broker, "roads", json.dumps({"place": key, **fields}).encode(), 1)
    bench.run()


def seats_of(bench: Bench, broker: str) -> dict[str, str]:
    """By part, who has its seat, as a broker knows it."""
    return {status.place: status.seat for status in bench[broker].gathered("roads")}


def keys_at(bench: Bench) -> dict[str, str]:
    """By key, the broker that has its event open."""
    found = {}
    for broker in bench.running():
        for status in bench[broker].gathered("roads"):
            gatherer = bench[broker]._seats.mine(status.place)
            for entry in gatherer.entries() if gatherer is not None else []:
                key = str(entry.key[0])
                assert key not in found, "one key is at one seat"
                found[key] = broker
    return found


def got(bench: Bench, broker: str = "d") -> list[str]:
    return [json.loads(payload)["place"] for payload in bench.got(broker, "s")]


def test_the_seats_are_the_centre_and_the_brokers_nearest_to_it() -> None:
    bench = network(STAR)
    for broker in bench.running():
        held = seats_of(bench, broker)
        assert list(held) == [f"roads\t{part}" for part in range(SEATS)]
        assert set(held.values()) == set("abcde")
    bench = network(TREE)
    assert set(seats_of(bench, "j").values()) == set("cafgb")  # of b and h, both two links off, b is first


def test_with_fewer_brokers_than_seats_some_have_several() -> None:
    bench = network([("a", "b")])
    assert Counter(seats_of(bench, "b").values()) == {"a": 3, "b": 2}
    report(bench, "a", "k1", lanes=1)
    report(bench, "b", "k2", lanes=1)
    assert keys_at(bench).keys() == {"k1", "k2"}


def test_keys_are_spread_over_the_seats_and_each_is_at_one() -> None:
    bench = network(STAR)
    bench.subscribe("d", "s", "roads", qos=1)
    bench.settle()
    for at, key in enumerate(KEYS):
        report(bench, bench.running()[at % len(bench.running())], key, lanes=1)
        report(bench, bench.running()[(at + 3) % len(bench.running())], key, note="fire")
    bench.advance(2)
    shares = Counter(keys_at(bench).values())
    assert set(shares) == set("abcde")
    assert max(shares.values()) < len(KEYS) / 2
    assert sorted(got(bench)) == sorted(KEYS)
    counted = [
        status for broker in bench.running() for status in bench[broker].gathered("roads") if status.mine
    ]
    assert sum(status.received for status in counted) == 2 * len(KEYS)
    assert sum(status.opened for status in counted) == sum(status.merged for status in counted) == len(KEYS)


def test_when_one_seat_dies_only_its_keys_wait_until_another_has_it() -> None:
    bench = network(STAR)
    bench.subscribe("d", "s", "roads", qos=1)
    bench.settle()
    for key in KEYS:
        report(bench, "h", key, lanes=1)
    bench.advance(2)
    before = keys_at(bench)
    theirs = {key for key, broker in before.items() if broker == "e"}
    assert theirs
    mark = bench.mark()
    # It falls silent: nobody knows yet.
    bench.hosts["e"].broker = None
    for key in KEYS:
        report(bench, "h", key, note="fire")
    bench.advance(1.5)
    assert set(bench_places(bench, mark)) == set(KEYS) - theirs
    bench.advance(30)
    assert set(bench_places(bench, mark)) == set(KEYS)
    after = keys_at(bench)
    assert after.keys() == before.keys()
    assert {key for key in KEYS if after[key] != before[key]} == theirs
    assert {after[key] for key in theirs} == {"a"}, "the deputy of a leaf is the hub"


def bench_places(bench: Bench, mark: tuple[int, int]) -> list[str]:
    return [json.loads(payload)["place"] for payload in bench.got("d", "s", mark)]


def test_one_key_more_or_less_moves_no_other() -> None:
    """Rendezvous hashing: with one seat more, keys only move to the new one."""
    few, more = network(STAR, 4), network(STAR, 5)
    moved = 0
    for key in KEYS:
        one = few["a"]._seats.place_of(roads(4), (key,))
        other = more["a"]._seats.place_of(roads(5), (key,))
        if one != other:
            moved += 1
            assert other.endswith("\t4")
    assert 0 < moved < len(KEYS) / 2


def test_reports_go_straight_to_the_seat_of_their_key() -> None:
    bench = network(STAR)
    for key in KEYS[:20]:
        report(bench, "h", key, lanes=1)
    held = keys_at(bench)
    for key in KEYS[:20]:
        mark = bench.mark()
        report(bench, "h", key, note="fire")
        ways = [(source, target) for source, target, _ in bench.said(Carry, mark)]
        assert ways == [("h", "a")] + ([("a", held[key])] if held[key] != "a" else [])


def test_a_topic_declared_while_the_network_runs_has_its_seats_at_several_brokers() -> None:
    bench = Bench("abcdefg", path(*"abcdefg"))
    bench.settle()
    bench.tell("c", SessionOpened("admin"))
    text = topic_text(roads(3))
    bench.tell("c", EntryOffered("admin", 1, "topic", "roads", text))
    for key in range(12):
        bench.publish("a", "roads", b'{"place": "k%d", "lanes": 1}' % key)
    bench.settle()
    found = {status.seat for status in bench["a"].gathered("roads")}
    assert found == {"c", "d", "e"}
