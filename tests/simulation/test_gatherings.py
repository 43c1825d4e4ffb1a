"""One topic where nothing goes wrong: what a seat tells takes its way to everybody, and no longer.

Papers measure times with it, so nothing may hold a version back that their model does not know of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

from tidings.language.topics import Topic
from tidings.planning import topologies
from tidings.sim.carried import REPORTS, VERSIONS
from tidings.sim.gathering import topic
from tidings.sim.gathering.topic import QUIET, Outcome, Said

HOP_S = 1.5
BROKERS = 15

TOPIC = Topic.from_mapping(
    {
        "name": "t",
        "kind": "gathered",
        "key": ["event"],
        "seat": "centre",
        "merge_after": "5s",
        "redundant_for": "10s",
        "window": "1h",
        "on_the_way": "nothing",
        "fields": {name: {"type": "int"} for name in ("event", *(f"f{number}" for number in range(9)))},
    }
)


def outcome(unacked_bytes: int) -> Outcome:
    """Ten events that grow, on a path, with a bound for what is on a link and not known to be received."""
    topology = topologies.path(BROKERS).with_delays(topologies.constant_delay(HOP_S))
    said = [
        Said(
            number * 3_000_000 + event * 10_000,
            topology.ids[(7 * number + event) % BROKERS],
            json.dumps({"event": event, f"f{number}": 1}).encode(),
        )
        for number in range(9)
        for event in range(10)
    ]
    settings = replace(QUIET, link_unacked_bytes=unacked_bytes)
    return topic.run(topology, TOPIC, said, after_s=60.0, settings=settings)


def test_everybody_has_a_version_after_its_way_and_no_later() -> None:
    # Each of the 7 brokers on one side would be sent 10 open events, of some 200 bytes, were it to ask now.
    got = outcome(unacked_bytes=3 * 1024)
    ids = topologies.path(BROKERS).ids
    seat = ids.index(got.seats[0].seat)
    left: dict[bytes, set[int]] = defaultdict(set)
    for one in got.got:
        far = abs(ids.index(one.broker) - seat)
        left[one.publication.payload].add(one.at_us - round(far * HOP_S * 1e6))
    assert len(left) == got.seats[0].told > 20
    assert len(got.got) == len(left) * BROKERS
    assert {len(times) for times in left.values()} == {1}


def test_reports_cross_links_to_the_seat_and_versions_every_link() -> None:
    found = outcome(unacked_bytes=QUIET.link_unacked_bytes)
    (seat,) = found.seats
    assert seat.seat == topologies.path(BROKERS).ids[BROKERS // 2]
    # Of nine reports about each of ten events, as `outcome` places them.
    to_seat = sum(
        abs((7 * number + event) % BROKERS - BROKERS // 2) for number in range(9) for event in range(10)
    )
    assert found.carried == {REPORTS: to_seat, VERSIONS: seat.told * (BROKERS - 1)}


def test_seats_are_asked_nothing_while_it_is_measured() -> None:
    messages = outcome(unacked_bytes=QUIET.link_unacked_bytes).messages
    assert messages["Taken"] > 0
    assert (messages["Survey"], messages["Ask"], messages["Snapshot"]) == (0, 0, 0)
