"""The judge of logs: it finds a broker that breaks a promise, and none where all is well."""

from __future__ import annotations

import msgspec
import pytest

from tidings.history.entries import Entry
from tidings.language.topics import Topic
from tidings.overlay.broker import Broker
from tidings.overlay.events import Append, Effect, Event
from tidings.planning import topologies
from tidings.records.holders import Holder
from tidings.sim.brokers.log_promises import check_logs
from tidings.sim.world import World

A = Holder("a", 1)
NEWS = Topic.from_mapping({"name": "news/+", "kind": "plain", "keep": "7d", "unknown_fields": "keep"})


class Stuttering(Broker):
    """Appends one of them twice."""

    more = 0

    def handle(self, event: Event, now: float) -> list[Effect]:
        out: list[Effect] = []
        for one in super().handle(event, now):
            if isinstance(one, Append):
                out.append(_numbered(one, one.number + self.more))
                if one.payload.endswith(b"3}"):
                    self.more += 1
                    out.append(_numbered(one, one.number + self.more))
            else:
                out.append(one)
        return out


def _numbered(append: Append, number: int) -> Append:
    return Append(append.name, append.what, append.holder, number, append.at_us, append.topic, append.payload)


def played(machine: type[Broker], *, crash: bool = False) -> World:
    world = World(topologies.from_links([("a", "b")]), 1, machine=machine, topics=[NEWS])
    world.start()
    world.settle()
    client = world.client("a", "c")
    for number in range(20):
        world.offer(world.hosts["a"], client.session, "news/x", b'{"n": %d}' % number, 1)
        world.run(0.003 if crash else 0.1)
        if crash and number % 5 == 4:
            world.crash("a")
            world.start_broker("a")
            world.settle()
    world.settle()
    return world


@pytest.mark.parametrize("crash", [False, True])
def test_there_is_nothing_to_say_against_the_broker(crash: bool) -> None:
    world = played(Broker, crash=crash)
    assert sum(offer.accepted is not None for offer in world.ledger.offers) >= 8
    assert check_logs(world.hosts.values(), world.ledger, [NEWS]) == []
    ((_, first, shown),) = world.hosts["a"].disk.logs.holders("news/+")
    assert (first, shown > 7) == (0, True)


def test_what_is_accepted_and_not_logged_is_found() -> None:
    class Forgetful(Broker):
        def handle(self, event: Event, now: float) -> list[Effect]:
            return list(filter(lambda one: not isinstance(one, Append), super().handle(event, now)))

    world = played(Forgetful)
    found = check_logs(world.hosts.values(), world.ledger, [NEWS])
    assert {breach.promise for breach in found} == {"logged before accepted"}


def test_what_is_logged_twice_is_found() -> None:
    world = played(Stuttering)
    found = check_logs(world.hosts.values(), world.ledger, [NEWS])
    assert {breach.promise for breach in found} == {"logged once"}


def test_what_was_shown_and_is_gone_is_found() -> None:
    world = played(Broker)
    world.hosts["a"].disk.torn.append("entry 3")
    assert [str(breach) for breach in check_logs(world.hosts.values(), world.ledger, [NEWS])] == [
        "shown for ever: entry 3"
    ]


def test_two_entries_under_one_number_are_found() -> None:
    world = played(Broker)
    (one, *_) = world.hosts["a"].disk.logs.read("news/+", "events", A, 0, 1)
    logs = world.hosts["b"].disk.logs
    logs.append("news/+", "events", A, one)
    logs.commit()
    assert check_logs(world.hosts.values(), world.ledger, [NEWS]) == []
    logs.append("news/+", "events", A, Entry(1, 0, "news/x", b"another"))
    logs.commit()
    assert [str(breach) for breach in check_logs(world.hosts.values(), world.ledger, [NEWS])] == [
        "one entry for a number: entry 1 of news/+ of a.1 at b is another than its holder's"
    ]


# A broker that comes back without its disk.

ROADS = Topic.from_mapping(
    {
        "name": "roads",
        "kind": "gathered",
        "key": ["place"],
        "merge_after": "0s",
        "keep": "7d",
        "fields": {"place": {"type": "string"}, "lanes": {"type": "int"}},
    }
)


class OneLife(Broker):
    """Takes all lives of another broker for one."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        return [
            msgspec.structs.replace(one, holder=Holder(one.holder.broker, 1))
            if isinstance(one, Append) and one.holder.broker != self.id
            else one
            for one in super().handle(event, now)
        ]


def two_lives(machine: type[Broker]) -> World:
    """The seat, b, loses its disk, comes back, and is made the seat again; a is its deputy in both lives."""
    world = World(topologies.from_links([("a", "b"), ("b", "c")]), 1, machine=machine, topics=[ROADS])
    world.start()
    world.settle()
    client = world.client("a", "c")

    def report(life: int, count: int) -> None:
        for number in range(count):
            payload = b'{"place": "%d/%d", "lanes": 1}' % (life, number)
            world.offer(world.hosts["a"], client.session, "roads", payload, 1)
            world.run(3)
        world.settle()

    report(1, 4)
    world.crash("b", disk=False)
    world.start_broker("b")
    world.settle()
    deputy = world.hosts["a"].broker
    assert isinstance(deputy, Broker)
    deputy._seats.move("roads", "b")
    world.settle()
    report(2, 6)
    return world


def test_copies_of_two_lives_of_a_broker_never_mix() -> None:
    world = two_lives(Broker)
    assert check_logs(world.hosts.values(), world.ledger, [ROADS]) == []
    logs = world.hosts["a"].disk.logs
    copies = {
        str(holder): [entry.payload for entry in logs.read("roads", "events", holder, first)]
        for holder, first, _ in logs.holders("roads")
        if holder.broker == "b"
    }
    assert copies == {
        f"b.{life}": [b'{"place":"%d/%d","lanes":1}' % (life, number) for number in range(count)]
        for life, count in ((1, 4), (2, 6))
    }


def test_a_copy_with_entries_of_two_lives_is_found() -> None:
    world = two_lives(OneLife)
    found = [str(breach) for breach in check_logs(world.hosts.values(), world.ledger, [ROADS])]
    assert found == [
        f"one entry for a number: entry {number} of roads of b.1 at a is not its holder's"
        for number in (4, 5)
    ]
