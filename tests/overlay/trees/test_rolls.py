"""Rolls: who is in an epoch, in which order, and whether all know of the same declarations."""

from __future__ import annotations

import pytest

from tests.overlay.bench import BEGIN, Middle, Peer, kinds, started
from tidings.language.declarations import parse_topic
from tidings.overlay.events import Stop
from tidings.overlay.trees.messages import Distance, Grow, Join, Regrow, Roll
from tidings.overlay.trees.trees import UNLIKE, TreeEpoch, digest

EPOCH_2 = (1, 2)


def growing(*children: str, **more: object) -> tuple[Peer, ...]:
    """Neighbours of "m" in an epoch of the root "a": the root, and children that have joined."""
    broker = started("m", **more)  # type: ignore[arg-type]
    peers = tuple(Peer(broker, id_, number) for number, id_ in enumerate(("a", *children), 1))
    for peer in peers:
        peer.link()
    peers[0].say(Distance("a", (1, 1), 0), Grow("a", (1, 1), ("a",)))
    for peer in peers[1:]:
        peer.say(Join("a", (1, 1)))
    return peers


def roll(*members: str, number: int = 0, declared: int = 0) -> Roll:
    return Roll("a", (1, 1), tuple((member, 1, 1, number) for member in members), declared)


def current(peer: Peer) -> TreeEpoch:
    grown = peer.broker._trees.trees["a"].current
    assert grown is not None
    return grown


def test_each_neighbour_is_told_who_is_on_this_side_when_all_others_have_said_who_is_behind_them() -> None:
    a, x, y = growing("x", "y")
    assert a.heard(x.say(roll("x", "z")), Roll) == []
    effects = y.say(roll("y"))
    assert a.heard(effects, Roll) == [Roll("a", (1, 1), tuple((id_, 1, 1, 0) for id_ in "mxyz"), 0)]
    assert x.heard(effects, Roll) == y.heard(effects, Roll) == []
    effects = a.say(roll("a"))
    assert x.heard(effects, Roll) == [Roll("a", (1, 1), tuple((id_, 1, 1, 0) for id_ in "amy"), 0)]
    assert y.heard(effects, Roll) == [Roll("a", (1, 1), tuple((id_, 1, 1, 0) for id_ in "amxz"), 0)]
    assert a.heard(effects, Roll) == []


def test_members_are_numbered_by_the_order_of_their_ids_wherever_they_are() -> None:
    a, x, y = growing("x", "y")
    for peer, members in ((x, ("x", "é")), (y, ("y", "a1")), (a, ("Z", "a"))):
        peer.say(roll(*members))
    grown = current(a)
    assert list(grown.members) == ["Z", "a", "a1", "m", "x", "y", "é"]
    assert [grown.bits[member] for member in grown.members] == [1 << at for at in range(7)]
    assert [(edge.peer, edge.mask) for edge in grown.ordered] == [
        ("a", 0b11),
        ("x", 0b1010000),
        ("y", 0b100100),
    ]
    assert grown.names_of(0b1001001) == ("Z", "m", "é")
    assert grown.mask_of(("é", "nobody", "Z")) == 0b1000001


def test_a_roll_has_the_number_of_the_set_of_each_member_by_then() -> None:
    it = Middle(("x",))
    it["x"].say(it.change("x"), it.change("x"))
    it["a"].say(Grow("a", EPOCH_2, ("a",)))
    it["x"].say(Join("a", EPOCH_2))
    effects = it["x"].say(Roll("a", EPOCH_2, (("x", 1, 1, 2),), 0))
    assert it.heard(effects, Roll) == [("a", Roll("a", EPOCH_2, (("m", 1, 1, 0), ("x", 1, 1, 2)), 0))]
    it["a"].say(Roll("a", EPOCH_2, (("a", 1, 1, 4),), 0))
    grown = it.broker._trees.trees["a"].current
    assert grown is not None
    assert {name: member.number for name, member in grown.members.items()} == {"a": 4, "m": 0, "x": 2}
    # Of "x" all is known that there was when it joined, of "a" not: anything may be for it.
    assert list(grown.unknown) == ["a"]


def test_a_neighbour_that_says_another_time_who_is_behind_it_is_not_heard_once_the_epoch_is_ready() -> None:
    a, x = growing("x")
    x.say(roll("x"))
    a.say(roll("a"))
    for effects in (x.say(roll("x", "z")), a.say(roll("a", "b"))):
        assert a.heard(effects, Roll) == x.heard(effects, Roll) == []
    assert list(current(a).members) == ["a", "m", "x"]


ROADS = parse_topic("name='roads/+road'\nkind='plain'\nroot='a'\n[fields]\nn={type='int'}\n")
KNOWN = digest(("roads/+",))


@pytest.mark.parametrize(
    ("x_says", "a_says", "told", "agreed"),
    [
        (KNOWN, KNOWN, KNOWN, True),
        (0, KNOWN, UNLIKE, False),
        (KNOWN, 0, KNOWN, False),
        (UNLIKE, KNOWN, UNLIKE, False),
    ],
)
def test_members_agree_if_all_know_of_the_same_declarations(
    x_says: int, a_says: int, told: int, agreed: bool
) -> None:
    a, x = growing("x", topics=[ROADS])
    (said,) = a.heard(x.say(roll("x", declared=x_says)), Roll)
    assert said.declared == told
    a.say(roll("a", declared=a_says))
    assert current(a).agreed == agreed


def test_this_brokers_own_id_in_an_earlier_life_asks_for_a_new_epoch_and_does_not_stop_it() -> None:
    peer = Peer(started("m", boot=5), "a", 1)
    peer.link()
    peer.say(Distance("a", (1, 1), 0), Grow("a", (1, 1), ("a",)))
    effects = peer.say(Roll("a", (1, 1), (("a", 1, 1, 0), ("m", 4, 1, 0)), 0))
    assert peer.heard(effects, Regrow) == [Regrow("a", (1, 1))]
    assert kinds(effects, Stop) == []
    assert peer.broker.status(BEGIN).trees[0].members == ("a", "m")


def test_this_brokers_own_id_in_this_life_is_another_broker() -> None:
    peer = Peer(started("m", boot=5), "a", 1)
    peer.link()
    peer.say(Distance("a", (1, 1), 0), Grow("a", (1, 1), ("a",)))
    effects = peer.say(Roll("a", (1, 1), (("a", 1, 1, 0), ("m", 5, 5, 0)), 0))
    assert kinds(effects, Stop) == [Stop("another broker of this network has the id 'm'")]
