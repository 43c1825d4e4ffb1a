"""The model of the Agele paper: overlay, tree, messages and measures, against what is worked out by hand."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from papers.agele import machine, measures
from papers.agele.measures import Sent
from papers.agele.network import Network, grow, on_tree
from papers.agele.setting import UNIT_US, Setting
from papers.agele.workload import Message, Occurrence, draw
from tidings.errors import InputError
from tidings.planning import topologies
from tidings.sim.gathering import centres

HOP_US = 1_500_000


def path(count: int) -> Network:
    return on_tree(topologies.path(count), 0)


def far(network: Network, start: int) -> list[int]:
    """Distances on the tree by a search of its own."""
    tree = network.tree()
    found = {network.ids[start]: 0}
    queue = deque(found)
    while queue:
        at = queue.popleft()
        for other in tree[at]:
            if other not in found:
                found[other] = found[at] + 1
                queue.append(other)
    return [found[id_] for id_ in network.ids]


@pytest.mark.parametrize("overlay", ["random", "power-law"])
def test_the_tree_has_the_shortest_paths_from_its_root_and_ties_go_to_the_smaller(overlay: str) -> None:
    network = grow(Setting(overlay=overlay, brokers=60), 3)
    joined = network.topology.neighbours()
    depth = far(network, network.root)
    number = {id_: at for at, id_ in enumerate(network.ids)}
    for at, parent in enumerate(network.parents):
        nearest = min((depth[number[id_]], number[id_]) for id_ in joined[network.ids[at]])
        assert parent == (-1 if at == network.root else nearest[1])


def test_distances_are_those_of_the_tree() -> None:
    network = grow(Setting(brokers=50), 1)
    assert network.distances.tolist() == [far(network, at) for at in range(50)]


@pytest.mark.parametrize("seed", range(6))
def test_seats_are_those_that_the_search_of_brokers_finds(seed: int) -> None:
    network = grow(Setting(brokers=40), seed)
    weights = [(7 * at + seed) % 5 for at in range(40)]
    named = dict(zip(network.ids, weights, strict=True))
    for strategy in ("centre", "median", "traffic"):
        found = centres.find(network.tree(), strategy, weights=named)
        assert network.ids[network.seat(strategy, weights)] == found.seat


def test_messages_are_as_the_paper_says() -> None:
    setting = Setting(brokers=100, tb=50.0)
    network = grow(setting, 0)
    occurrences = draw(setting, network, 0)
    assert len(occurrences) <= setting.events
    for one in occurrences:
        times = [message.at_us for message in one.messages]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] < 50 * UNIT_US
        for message in one.messages:
            assert message.fields & 1, "the key is always there"
            assert 1 <= message.fields.bit_count() <= 10
            assert message.fields < 1 << 20
    mean = sum(len(one.messages) for one in occurrences) / setting.events
    assert 4 < mean < 8, "20 publishers send 0.3 each"


def test_the_same_seed_draws_the_same_and_another_another() -> None:
    setting = Setting(brokers=40)
    network = grow(setting, 5)
    assert grow(setting, 5).parents == network.parents != grow(setting, 6).parents
    assert draw(setting, network, 5) == draw(setting, network, 5) != draw(setting, network, 6)


def test_publishers_in_a_corner_are_behind_one_link() -> None:
    setting = Setting(brokers=100, where="corner")
    network = grow(setting, 2)
    used = {message.broker for one in draw(setting, network, 2) for message in one.messages}
    behind = [
        set(np.flatnonzero(near).tolist())
        for one, other in enumerate(network.parents)
        if other >= 0
        for near in (
            network.distances[:, one] < network.distances[:, other],
            network.distances[:, one] > network.distances[:, other],
        )
    ]
    assert any(used <= side and len(side) < 100 for side in behind)


# On a path of three: a, b, c. Fields are bits; 1 is the key.


def test_an_event_is_fully_received_with_the_last_field_wherever_it_comes_from() -> None:
    network = path(3)
    sent = [Sent(0, 0, 0b011), Sent(1_000_000, 2, 0b101), Sent(9_000_000, 1, 0b001)]
    assert measures.received(network, sent, HOP_US).tolist() == [4_000_000, 2_500_000, 3_000_000]


def test_the_baseline_sends_every_message_to_everybody() -> None:
    network = path(3)
    occurrence = Occurrence(0, (Message(2_000_000, 0, 0b01), Message(3_000_000, 2, 0b11)))
    found = measures.baseline(network, [occurrence], HOP_US)
    assert found.messages == found.told == 2
    assert found.crossings == 4
    # Field 1 comes from c: to a after 6 s, to b after 4.5 s, to c at 3 s; the event began at 2 s.
    assert found.time_us == 4_000_000 + 2_500_000 + 1_000_000
    assert found.suppressed == 0


def test_the_gatherer_holds_merges_and_drops_as_the_paper_says() -> None:
    network = path(3)
    setting = Setting(brokers=3, degree=1.0, links_each=1, tm=4.0, tr=10.0)
    occurrence = Occurrence(
        7,
        (
            Message(0, 0, 0b0011),  # at the seat, b, at 1.5: opens
            Message(1_000_000, 2, 0b0101),  # 2.5: merges, and is told with the first at 5.5
            Message(5_000_000, 1, 0b0111),  # 5.0: says nothing new
            Message(7_000_000, 0, 0b1001),  # 8.5: merges after the telling, told at 12.5
        ),
    )
    found = machine.gather(setting, network, [occurrence], 1)
    assert (found.messages, found.told, found.redundant, found.merged) == (4, 2, 1, 2)
    assert found.suppressed == 50
    assert (found.duplicates, found.merges) == (25, 25)
    assert found.hops_to_seat == 3
    assert found.crossings == 3 + 2 * 2
    assert found.time_us == 3 * 12_500_000 + 2 * HOP_US
    assert found.open_max == 1


def test_two_events_of_one_key_are_both_needed_to_have_all_fields() -> None:
    network = path(2)
    setting = Setting(brokers=2, degree=1.0, links_each=1, tm=0.0, tr=1.0)
    occurrence = Occurrence(1, (Message(0, 0, 0b011), Message(5_000_000, 0, 0b101)))
    found = machine.gather(setting, network, [occurrence], 0)
    assert found.told == 2
    assert found.time_us == 5_000_000 + 6_500_000


def test_several_gatherers_share_the_messages() -> None:
    network = path(4)
    setting = Setting(brokers=4, degree=1.0, links_each=1, tm=0.0, tr=10.0)
    occurrence = Occurrence(1, (Message(0, 0, 0b011), Message(0, 3, 0b101)))
    found = machine.gather(setting, network, [occurrence], machine.nearest_of(network, [0, 3]))
    assert found.hops_to_seat == 0
    assert found.told == 2
    assert found.busiest == 0.5
    assert found.time_us == 4_500_000 + 3_000_000 + 3_000_000 + 4_500_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hops": "1"}, "no setting 'hops'"),
        ({"hop": "far"}, "could not convert"),
        ({"hop": "0"}, "hop cannot be 0.0"),
        ({"tm": "11"}, "tm cannot be 11.0"),
        ({"filled_most": "21"}, "filled_most cannot be 21"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Setting().changed(given)
