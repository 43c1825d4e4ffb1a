"""Links: greetings and refusals, numbers and acknowledgements, loss and return."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.overlay.bench import BEGIN, Bench, Middle, Peer, heard, kinds, path, started
from tests.overlay.offers import given, offer_of
from tidings.language.subscriptions import Subscription
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    ConnectionLost,
    ConnectionMade,
    Dial,
    DialFailed,
    Effect,
    Event,
    FrameReceived,
    HangUp,
    Log,
    NeighbourAdded,
    NeighbourRemoved,
    Send,
    SessionOpened,
    SetTimer,
    StopAsked,
    SubscriptionAsked,
    TimerFired,
    WritesSynced,
)
from tidings.overlay.frames import Frame, Message
from tidings.overlay.links.links import ACK_MESSAGES, ALREADY_LINKED
from tidings.overlay.links.messages import Bye, Greet, Refuse, Welcome
from tidings.overlay.links.proofs import proof
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing.messages import Catalogue, Sets
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.trees.messages import Distance, Grow, Join, Seek
from tidings.records.record import Kind, Record

NOISE = Seek("nobody", (1, 1))
"""A message that no broker acts on."""


def link_records(effects: list[Effect]) -> list[tuple[Kind, str | None]]:
    return [
        (effect.kind, effect.reason)
        for effect in effects
        if isinstance(effect, Record) and effect.kind in (Kind.LINK_UP, Kind.LINK_DOWN)
    ]


def state(peer: Peer) -> str:
    links = {link.peer: link.state for link in peer.broker.status(BEGIN).links}
    return links.get(peer.id, "none")


def life(broker: Broker) -> int:
    """What tells a broker from another with its id: drawn at its start."""
    return broker.core.life


def refusal(effects: list[Effect]) -> str:
    """Why a connection was refused: said to the other side, then hung up."""
    sends, hang_ups = kinds(effects, Send), kinds(effects, HangUp)
    assert len(hang_ups) == 1
    assert isinstance(sends[-1], Send)
    assert isinstance(hang_ups[0], HangUp)
    (message,) = sends[-1].frame.messages
    assert isinstance(message, Refuse)
    assert message.reason == hang_ups[0].reason
    assert effects.index(sends[-1]) < effects.index(hang_ups[0])
    return message.reason


# Greeting.


def test_who_dials_greets_first_with_versions_id_network_boot_and_features() -> None:
    broker = started("m", replace(DEFAULT, network="roads", trees=2), boot=4)
    assert kinds(broker.handle(NeighbourAdded("there"), BEGIN), Dial) == [Dial("there")]
    effects = broker.handle(ConnectionMade(1, "there", b"fresh"), BEGIN)
    greet = Greet((5, 5), "m", "roads", 4, ("trees=2",), b"fresh", (), 0, 1, life(broker))
    assert kinds(effects, Send) == [Send(1, Frame(0, 0, (greet,)))]


def test_who_is_dialled_waits_for_the_greeting_then_greets_and_welcomes() -> None:
    peer = Peer(started("m"), "a", 1)
    assert kinds(peer.connect(), Send, HangUp) == []
    mine = Greet((5, 5), "m", "tidings", 1, ("trees=1",), b"nonce of the broker", (), 0, 1, life(peer.broker))
    assert kinds(peer.greet(), Send, HangUp) == [
        Send(1, Frame(0, 0, (mine,))),
        Send(1, Frame(0, 0, (Welcome(5, b""),))),
    ]
    assert state(peer) == "none"
    up = peer.welcome()
    assert link_records(up) == [(Kind.LINK_UP, "new")]
    assert state(peer) == "up"


def test_nothing_is_said_on_a_link_before_both_sides_are_welcome() -> None:
    peer = Peer(started("m"), "z", 1)
    before = [*peer.connect(), *peer.greet()]
    assert all(effect.frame.first == 0 for effect in before if isinstance(effect, Send))
    assert [type(message) for message in peer.heard(peer.welcome())] == [Catalogue, Sets, Distance]


def test_a_welcome_proves_that_the_token_is_known_without_telling_it() -> None:
    settings = replace(DEFAULT, token="open sesame")
    peer = Peer(started("m", settings), "a", 1)
    peer.connect()
    effects = peer.greet()
    occasion = ("tidings", "a", b"nonce of the peer", "m", b"nonce of the broker")
    assert peer.heard(effects, Welcome) == [Welcome(5, proof("open sesame", "link", "listener", *occasion))]
    assert "sesame" not in repr(effects)
    peer.proof = proof("open sesame", "link", "dialler", *occasion)
    assert link_records(peer.welcome()) == [(Kind.LINK_UP, "new")]


# Refusals.


def test_a_foreign_network_is_refused() -> None:
    peer = Peer(started("m"), "a", 1, network="others")
    peer.connect()
    assert refusal(peer.greet()) == "network 'others' is not 'tidings'"


def complaints(broker: Broker, number: int, address: str | None, host: str) -> list[dict[str, str]]:
    """What is logged of a connection over which nonsense comes instead of a greeting."""
    broker.handle(ConnectionMade(number, address, b"", None, host), BEGIN)
    effects = broker.handle(FrameReceived(number, Frame(1, 0, (Bye(False),))), BEGIN)
    return [dict(effect.about) for effect in effects if isinstance(effect, Log)]


def test_a_refusal_names_the_address_and_one_host_does_not_fill_the_log() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there:1"), BEGIN)
    reason = "Bye came before the greeting was over"
    assert complaints(broker, 1, None, "192.0.2.7") == [{"address": "192.0.2.7", "reason": reason}]
    assert complaints(broker, 2, None, "192.0.2.7") == []
    assert complaints(broker, 3, None, "192.0.2.8") == [{"address": "192.0.2.8", "reason": reason}]
    assert complaints(broker, 4, "there:1", "192.0.2.9") == [{"address": "there:1", "reason": reason}]


def test_a_broker_with_our_own_id_is_refused() -> None:
    peer = Peer(started("m"), "m", 1, boot=9)
    peer.connect()
    assert refusal(peer.greet()) == "two brokers have the id 'm'; give one of them another"


def test_a_second_broker_with_an_id_is_refused_while_the_first_is_connected() -> None:
    broker = started("m")
    Peer(broker, "a", 1, boot=1).link()
    second = Peer(broker, "a", 2, boot=5)
    second.connect()
    assert refusal(second.greet()) == "another broker with the id 'a' is connected"
    assert broker.status(BEGIN).links[0].state == "up"


def test_two_brokers_with_one_id_are_told_apart_although_they_started_equally_often() -> None:
    broker = started("m")
    Peer(broker, "a", 1).link()
    second = Peer(broker, "a", 2, life=1)
    second.connect()
    assert refusal(second.greet()) == "another broker with the id 'a' is connected"


def test_a_neighbour_that_was_restarted_is_taken_once_its_old_connection_is_gone() -> None:
    broker = started("m")
    first = Peer(broker, "a", 1, boot=1)
    first.link()
    first.lose()
    again = Peer(broker, "a", 2, boot=5)
    assert link_records(again.link()) == [(Kind.LINK_UP, "new")]


@pytest.mark.parametrize("theirs", [(1, 3), (4, 4), (6, 6)])
def test_another_version_of_the_protocol_is_refused_with_the_way_out(theirs: tuple[int, int]) -> None:
    peer = Peer(started("m"), "a", 1, versions=theirs)
    peer.connect()
    assert refusal(peer.greet()) == (
        f"protocol version {theirs[1]} is not spoken here, but 5; bring both brokers to the same release"
    )


def test_settings_that_must_agree_and_do_not_are_refused() -> None:
    peer = Peer(started("m"), "a", 1, features=("mirrors=2", "trees=4"))
    peer.connect()
    reason = "network-wide settings differ: mirrors=2, trees=4 there, trees=1 here"
    assert refusal(peer.greet()) == reason


@pytest.mark.parametrize("proof", [b"", b"x" * 32])
def test_a_wrong_token_is_refused(proof: bytes) -> None:
    peer = Peer(started("m", replace(DEFAULT, token="open sesame")), "a", 1, proof=proof)
    peer.connect()
    peer.greet()
    assert refusal(peer.welcome()) == "the cluster token is not ours"
    assert state(peer) == "none"


def test_a_token_signed_for_another_broker_is_refused() -> None:
    peer = Peer(started("m", replace(DEFAULT, token="open sesame")), "a", 1)
    occasion = ("tidings", "m", b"nonce of the peer", "m", b"nonce of the broker")
    peer.proof = proof("open sesame", "link", "dialler", *occasion)
    peer.connect()
    peer.greet()
    assert refusal(peer.welcome()) == "the cluster token is not ours"


def test_the_certificate_of_another_is_refused() -> None:
    peer = Peer(started("m"), "a", 1)
    peer.certified = "z"
    peer.connect()
    assert refusal(peer.greet()) == "the certificate is that of 'z', not of 'a'"


@pytest.mark.parametrize("id_", ["", "x" * 256, "a\tb", "a\n"])
def test_an_id_that_cannot_be_shown_is_refused(id_: str) -> None:
    peer = Peer(started("m"), id_, 1)
    peer.connect()
    assert refusal(peer.greet()) == "a broker's id has 1 to 255 printable characters"


def test_who_is_refused_tells_its_operator_and_tries_again_later() -> None:
    broker = started("m")
    peer = Peer(broker, "a", 1)
    broker.handle(NeighbourAdded("there"), BEGIN)
    peer.connect(address="there")
    effects = peer.say_unnumbered(Refuse("network 'm' is not 'a'"))
    (log,) = kinds(effects, Log)
    assert isinstance(log, Log)
    assert (log.level, dict(log.about)["reason"]) == ("error", "network 'm' is not 'a'")
    assert kinds(effects, HangUp) == [HangUp(1, "refused")]
    assert kinds(broker.handle(TimerFired(), BEGIN + 1), Dial) == [Dial("there")]


def test_a_message_before_the_greeting_is_over_costs_the_connection() -> None:
    peer = Peer(started("m"), "a", 1)
    peer.connect()
    assert kinds(peer.say(NOISE), HangUp) == [HangUp(1, "Seek came before the greeting was over")]


def test_a_connection_that_does_not_greet_in_time_is_closed() -> None:
    peer = Peer(started("m"), "a", 1)
    assert SetTimer(BEGIN + DEFAULT.heartbeat_s / 2) not in peer.connect()
    before = peer.handle(TimerFired(), BEGIN + DEFAULT.greet_within_s - 0.01)
    assert kinds(before, HangUp) == []
    late = peer.handle(TimerFired(), BEGIN + DEFAULT.greet_within_s)
    assert kinds(late, HangUp) == [HangUp(1, "no greeting in time")]


def test_a_connection_that_greets_and_never_welcomes_is_closed() -> None:
    peer = Peer(started("m"), "a", 1)
    peer.connect()
    peer.greet()
    peer.handle(TimerFired(), BEGIN + DEFAULT.greet_within_s - 0.01)
    late = peer.handle(TimerFired(), BEGIN + DEFAULT.greet_within_s)
    assert kinds(late, HangUp) == [HangUp(1, "no greeting in time")]


# Both dial.


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("b", "a")])
def test_when_both_dial_at_once_the_connection_of_the_smaller_id_survives(one: str, other: str) -> None:
    bench = Bench("ab")
    bench.tell(one, NeighbourAdded(other))
    bench.tell(other, NeighbourAdded(one))
    bench.settle()
    dialled = {
        broker.id: broker._links.links[peer].dialled
        for broker, peer in ((bench["a"], "b"), (bench["b"], "a"))
    }
    assert dialled == {"a": True, "b": False}
    assert bench.tree("b", "a").members == ("a", "b")


def test_when_both_dial_one_after_the_other_there_is_one_link_and_no_complaint() -> None:
    bench = Bench("ab", [("b", "a")])
    bench.settle()
    since = bench.mark()
    bench.tell("a", NeighbourAdded("b"))
    bench.settle()
    assert bench.tree("b", "a").members == ("a", "b")
    assert [log for log in bench.of(Log, since=since) if log.level == "error"] == []
    assert [len(bench.status(id_).links) for id_ in "ab"] == [1, 1]


def test_the_larger_id_gives_up_its_own_connection_quietly() -> None:
    broker = started("m")
    Peer(broker, "a", 1).link()
    broker.handle(NeighbourAdded("there"), BEGIN)
    second = Peer(broker, "a", 2)
    second.connect(address="there")
    effects = second.greet()
    assert refusal(effects) == ALREADY_LINKED
    assert kinds(effects, Log) == []


# Numbers and acknowledgements.


def test_every_frame_acknowledges_what_was_received() -> None:
    middle = Middle(("x",), wants={"x": [Subscription("#", qos=1)]})
    received = middle["x"].sent
    effects = middle.tell(offer_of("client", 1, "t", b"{}", 1))
    (sent,) = [effect for effect in effects if isinstance(effect, Send) and effect.connection == 2]
    assert sent.frame.ack == received


def test_a_repeated_message_is_dropped() -> None:
    middle = Middle()
    seek = Seek("a", (0, 0))
    first = middle["x"].say(seek)
    assert middle["x"].heard(first, Distance) == [Distance("a", (1, 1), 1)]
    middle["x"].sent -= 1
    assert middle["x"].heard(middle["x"].say(seek, NOISE)) == []
    again = middle["x"].say(seek)
    assert middle["x"].heard(again, Distance) == [Distance("a", (1, 1), 1)]


def test_a_hole_in_the_numbers_costs_the_connection_and_the_session_goes_on() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    peer.say(NOISE)
    peer.sent += 1
    effects = peer.say(NOISE)
    assert kinds(effects, HangUp) == [HangUp(1, "message 2 is missing before 3")]
    assert state(peer) == "held"
    peer.connection, peer.session, peer.sent = 2, (1, 1, 1, 7), 1
    again = peer.link()
    assert link_records(again) == [(Kind.LINK_UP, "resumed")]
    assert peer.heard(again, Greet)[0].received == 1


def test_an_acknowledgement_of_what_was_never_sent_costs_the_connection() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    effects = peer.say(ack=99)
    assert kinds(effects, HangUp) == [HangUp(1, "the neighbour acknowledges what was never sent")]


def test_a_message_without_a_number_costs_the_connection() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    assert kinds(peer.say_unnumbered(NOISE), HangUp) == [HangUp(1, "a message without a number")]


def test_many_messages_are_acknowledged_at_once_and_few_with_the_next_heartbeat() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    few = peer.say(*[NOISE] * (ACK_MESSAGES - 1))
    assert kinds(few, Send) == []
    enough = peer.say(NOISE)
    assert [effect.frame.ack for effect in enough if isinstance(effect, Send)] == [ACK_MESSAGES]
    peer.say(NOISE)
    beat = peer.handle(TimerFired(), BEGIN + DEFAULT.heartbeat_s)
    assert [e.frame.ack for e in beat if isinstance(e, Send) and not e.frame.messages] == [ACK_MESSAGES + 1]


def test_what_is_acknowledged_is_kept_no_longer() -> None:
    middle = Middle(("x",), wants={"x": [Subscription("#", qos=1)]})
    peer = middle["x"]
    for token in range(50):
        effects = middle.tell(offer_of("client", token, "t", b"{}", 1))
        (frame,) = [e.frame for e in effects if isinstance(e, Send) and e.connection == 2]
        peer.say(ack=frame.first + len(frame.messages) - 1)
    (link,) = [link for link in middle.broker.status(BEGIN).links if link.peer == "x"]
    assert link.queued == 0


# Control before data.


WIDE = Subscription("#", qos=1)


def fill(middle: Middle, count: int, payload: bytes = b"{}") -> list[Effect]:
    effects: list[Effect] = []
    for token in range(count):
        effects += middle.tell(offer_of("client", token, "t", payload, 1))
    return effects


def test_data_waits_while_too_much_is_not_received_and_control_does_not() -> None:
    settings = replace(DEFAULT, link_unacked_bytes=1000)
    middle = Middle(("x",), settings, wants={"x": [WIDE]})
    sent = middle["x"].heard(fill(middle, 10, b"." * 500), Publish)
    assert len(sent) == 2  # the second is the one with which the limit is passed
    answer = middle["x"].say(Seek("a", (0, 0)))
    assert middle["x"].heard(answer) == [Distance("a", (1, 1), 1)]


def test_waiting_data_goes_on_when_what_was_sent_is_received() -> None:
    settings = replace(DEFAULT, link_unacked_bytes=1000)
    middle = Middle(("x",), settings, wants={"x": [WIDE]})
    peer = middle["x"]
    got = peer.heard(fill(middle, 5, b"." * 500), Publish)
    while len(got) < 5:
        queued = middle.broker._links.links["x"]._sent
        more = peer.heard(peer.say(ack=queued), Publish)
        assert 0 < len(more) <= 2
        got += more
    assert [message.numbers for message in got] == [(1,), (2,), (3,), (4,), (5,)]


def test_control_goes_before_data_that_came_first() -> None:
    settings = replace(DEFAULT, link_unacked_bytes=1000)
    middle = Middle(("x",), settings, wants={"x": [WIDE]})
    peer = middle["x"]
    fill(middle, 5, b"." * 500)
    queued = middle.broker._links.links["x"]._sent
    both = peer.say(Seek("a", (0, 0)), ack=queued)
    assert [type(message) for message in peer.heard(both)] == [Distance, Publish, Publish]


def test_a_neighbour_that_never_acknowledges_loses_its_session_at_the_replay_limit() -> None:
    settings = replace(DEFAULT, link_replay_messages=40)
    middle = Middle(("x",), settings, wants={"x": [WIDE]})
    effects = fill(middle, 60)
    assert HangUp(2, "too much is not received") in effects
    assert (Kind.LINK_DOWN, "too much is not received") in link_records(effects)
    assert {link.peer: link.state for link in middle.broker.status(BEGIN).links} == {"a": "up", "x": "down"}


# Silence, loss, return.


def test_a_link_with_nothing_to_say_sends_heartbeats() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    peer.handle(TimerFired(), BEGIN)  # the first epoch of its tree
    next_number = peer.broker._links.links["z"]._sent + 1
    early = peer.handle(TimerFired(), BEGIN + DEFAULT.heartbeat_s / 2)
    assert kinds(early, Send) == []
    beat = peer.handle(TimerFired(), BEGIN + DEFAULT.heartbeat_s)
    assert kinds(beat, Send) == [Send(1, Frame(next_number, 0, ()))]


def test_a_link_that_is_silent_for_too_long_is_taken_for_lost() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    in_time = peer.handle(TimerFired(), BEGIN + DEFAULT.suspect_after_s)
    assert kinds(in_time, HangUp) == []
    late = peer.handle(TimerFired(), BEGIN + DEFAULT.suspect_after_s + DEFAULT.heartbeat_s)
    assert kinds(late, HangUp) == [HangUp(1, "silent for 6 s")]
    assert link_records(late) == [(Kind.LINK_DOWN, "silent for 6 s")]


def test_a_heartbeat_is_enough_not_to_be_suspected() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    now = BEGIN
    for _ in range(20):
        now += 2.0
        peer.say(now=now)
        assert kinds(peer.handle(TimerFired(), now), HangUp) == []
    assert state(peer) == "up"


def test_a_connection_that_is_back_in_time_is_resumed_and_no_tree_changes() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    epoch = bench.tree("c", "a").epoch
    since = bench.mark()
    bench.cut("b", "c", block=False)
    bench.settle()
    up = [r.reason for r in bench.of(Record, since=since) if r.kind is Kind.LINK_UP]
    assert up == ["resumed", "resumed"]
    assert bench.said(Grow, since) == []
    assert bench.said(Join, since) == []
    assert bench.tree("c", "a").epoch == epoch


def test_a_connection_that_is_not_back_in_time_makes_a_new_epoch() -> None:
    bench = Bench("abc", path("a", "b", "c"))
    bench.settle()
    epoch = bench.tree("c", "a").epoch
    bench.cut("b", "c")
    bench.advance(DEFAULT.resume_within_s + 0.1)
    assert [link.state for link in bench.status("c").links] == ["down"]
    assert bench.tree("a", "a").members == ("a", "b")
    since = bench.mark()
    bench.heal("b", "c")
    bench.settle()
    assert {r.reason for r in bench.of(Record, since=since) if r.kind is Kind.LINK_UP} == {"new"}
    assert bench.tree("c", "a").epoch > epoch
    assert bench.tree("c", "a").members == ("a", "b", "c")


def test_a_session_is_not_resumed_by_a_neighbour_that_was_restarted() -> None:
    broker = started("m")
    peer = Peer(broker, "z", 1)
    peer.link()
    peer.lose()
    again = Peer(broker, "z", 2, boot=2)
    again.session = (1, 1, 1, 7)
    assert link_records(again.link()) == [(Kind.LINK_UP, "new")]


def test_a_neighbour_that_has_forgotten_the_session_begins_a_new_one() -> None:
    broker = started("m")
    peer = Peer(broker, "z", 1)
    peer.link()
    peer.lose()
    again = Peer(broker, "z", 2)
    assert link_records(again.link()) == [(Kind.LINK_UP, "new")]


def test_redialling_waits_longer_each_time_up_to_a_bound() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    now, pauses = BEGIN, []
    for _ in range(12):
        broker.handle(DialFailed("there", "nobody"), now)
        failed = now
        while Dial("there") not in broker.handle(TimerFired(), now):
            due = broker.next_deadline()
            assert due is not None
            now = due
        pauses.append(now - failed)
    # With jitter each pause is between half of what was doubled and all of it.
    for at, pause in enumerate(pauses):
        full = min(DEFAULT.redial_min_s * 2**at, DEFAULT.redial_max_s)
        assert full / 2 <= pause <= full * 1.000001
    assert len({round(pause, 3) for pause in pauses[-4:]}) > 1


def test_a_link_that_was_up_is_redialled_quickly_when_it_is_lost() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    for _ in range(3):
        broker.handle(DialFailed("there", "nobody"), BEGIN)
    peer = Peer(broker, "z", 1)
    peer.link(address="there")
    peer.lose()
    assert Dial("there") in broker.handle(TimerFired(), BEGIN + DEFAULT.redial_min_s)


def test_an_address_that_is_no_neighbour_any_more_is_parted_from_and_not_dialled() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    peer = Peer(broker, "z", 1)
    peer.link(address="there")
    effects = peer.handle(NeighbourRemoved("there"))
    assert peer.heard(effects, Bye) == [Bye(for_good=False)]
    assert kinds(effects, HangUp) == [HangUp(1, "removed here")]
    for second in range(60):
        assert kinds(broker.handle(TimerFired(), BEGIN + second), Dial) == []


def test_goodbye_ends_the_session_at_once() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    effects = peer.say_unnumbered(Bye(for_good=False))
    assert link_records(effects) == [(Kind.LINK_DOWN, "the neighbour said goodbye")]
    assert state(peer) == "down"


def test_goodbye_for_good_forgets_the_neighbour() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    peer.say_unnumbered(Bye(for_good=True))
    assert peer.broker.status(BEGIN).links == ()


# Every state and every input.


def down() -> Peer:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    return Peer(broker, "z", 1)


def connected() -> Peer:
    peer = down()
    peer.connect(address="there")
    return peer


def greeted() -> Peer:
    peer = connected()
    peer.greet()
    return peer


def up() -> Peer:
    peer = greeted()
    peer.welcome()
    peer.session = (1, 1, 1, 7)
    return peer


def held() -> Peer:
    peer = up()
    peer.lose()
    return peer


def parted() -> Peer:
    peer = up()
    peer.say_unnumbered(Bye(for_good=False))
    return peer


STATES = [down, connected, greeted, up, held, parted]

GREET = Greet((1, 2), "z", "tidings", 1, ("trees=1",), b"", (1, 1, 1, 7), 0, 8)
FRAMES: list[Frame] = [
    Frame(0, 0, (GREET,)),
    Frame(0, 0, (Welcome(5, b""),)),
    Frame(0, 0, (GREET, Welcome(5, b""))),
    Frame(0, 0, (GREET, Welcome(5, b""), NOISE)),
    Frame(0, 0, (Refuse("no"),)),
    Frame(0, 0, (Bye(for_good=True),)),
    Frame(0, 0, ()),
    Frame(1, 0, ()),
    Frame(1, 0, (NOISE,)),
    Frame(1, 9, (NOISE,)),
    Frame(5, 0, (NOISE,)),
    Frame(1, 0, (GREET,)),
]
INPUTS: list[Event] = [
    *[FrameReceived(1, frame) for frame in FRAMES],
    FrameReceived(77, FRAMES[0]),
    ConnectionMade(2, "there", b""),
    ConnectionMade(2, None, b""),
    ConnectionMade(2, "elsewhere", b""),
    ConnectionLost(1, "cut"),
    ConnectionLost(77, "cut"),
    DialFailed("there", "nobody"),
    DialFailed("elsewhere", "nobody"),
    TimerFired(),
    WritesSynced(5),
    NeighbourAdded("there"),
    NeighbourRemoved("there"),
    StopAsked(),
]


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_no_pair_of_inputs_breaks_a_link_in_any_state(make: object) -> None:
    assert callable(make)
    for first, second in product(INPUTS, INPUTS):
        peer = make()
        for at, event in enumerate((first, second, TimerFired())):
            if at and isinstance(first, ConnectionMade) and event == first:
                continue  # a driver uses each number once
            peer.handle(event, BEGIN + at * 20)
        assert len(peer.broker.status(BEGIN).links) <= 1


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_a_link_comes_up_after_any_input_in_any_state(make: object) -> None:
    assert callable(make)
    for event in INPUTS:
        if isinstance(event, StopAsked):
            continue
        peer = make()
        peer.handle(event, BEGIN)
        peer.handle(ConnectionLost(1, "cut"), BEGIN)
        peer.handle(ConnectionLost(2, "cut"), BEGIN)
        fresh = Peer(peer.broker, "z", 3)
        fresh.link(BEGIN + 20)
        assert state(fresh) == "up", event


MESSAGES: list[Message] = [Join("a", (1, 1)), Grow("zz", (1, 1), ("zz",)), NOISE]


def test_messages_about_nothing_known_are_passed_over() -> None:
    peer = Peer(started("m"), "z", 1)
    peer.link()
    for message in MESSAGES:
        assert heard(peer.say(message)) == []
    assert state(peer) == "up"


def test_sessions_and_subscriptions_do_not_need_a_link() -> None:
    broker = started("m", Settings())
    broker.handle(SessionOpened("client"), BEGIN)
    broker.handle(TimerFired(), BEGIN)
    broker.handle(SubscriptionAsked("client", "s", WIDE), BEGIN)
    effects = broker.handle(offer_of("client", 1, "t", b"{}", 0), BEGIN)
    assert [it.publication.payload for it in given(effects)] == [b"{}"]


def test_no_broker_signs_for_others_what_would_let_them_in() -> None:
    """A stranger that passes on what a broker says of its own accord gets nowhere: each proof has a role."""
    broker = started("m", replace(DEFAULT, token="open sesame"))
    first = Peer(broker, "za", 1)
    first.connect()
    first.greet()
    second = Peer(broker, "a", 2)
    second.nonce = b"nonce of the broker" + b"z"
    second.connect()
    (welcome,) = second.heard(second.greet(), Welcome)
    assert isinstance(welcome, Welcome)
    first.proof = welcome.proof
    assert refusal(first.welcome()) == "the cluster token is not ours"
