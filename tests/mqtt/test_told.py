"""Told events at the front: what clients see of them, and how they ask for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.mqtt.talk import BOTH, V311, Talk
from tests.overlay import offers
from tidings.language.subscriptions import Subscription
from tidings.mqtt.packets import Publish, Will
from tidings.mqtt.reasons import Reason
from tidings.mqtt.settings import Settings
from tidings.overlay.events import EntryOffered, SubscriptionAsked, TimerFired
from tidings.overlay.publication import Publication, Told

TOLD = Told("traffic/athens", "a:1:7", 2, 3, complete=False, seat="b")
FIELDS = b'{"place":"Omonia","severity":4}'

DECLARATION = """
name = "traffic/+city"
kind = "gathered"
key = ["place"]
[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
"""


def declare(talk: Talk) -> None:
    talk.tell(EntryOffered("operator", 1, "topic", "traffic/+city", DECLARATION))


def deliver(
    talk: Talk, told: Told, *receivers: tuple[str, str], payload: bytes = FIELDS, hops: int = 2
) -> None:
    """Let the broker want a version of an event handed to sessions, at QoS 2."""
    publication = Publication("b", 1, "0", told.version, "traffic/athens", payload, 2, told=told)
    talk.front.broker.core.out.append(offers.deliver(publication, receivers, hops))
    talk.tell(TimerFired())


def changed(**fields: Any) -> Told:
    return msgspec.structs.replace(TOLD, **fields)


def state(publish: Publish) -> str:
    return dict(publish.properties.user)["state"]


# What a client gets.


def test_user_properties_explain_a_told_event() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("traffic/#", qos=1)
    deliver(talk, TOLD, ("c", "traffic/#"))
    (event,) = client.read()
    assert (event.topic, event.payload, event.qos, event.retain) == ("traffic/athens", FIELDS, 1, False)
    assert event.properties.user == (
        ("event", "a:1:7"),
        ("version", "2"),
        ("reports", "3"),
        ("hops", "2"),
        ("seat", "b"),
        ("complete", "false"),
        ("state", "told"),
    )


def test_a_client_of_311_gets_the_payload_alone() -> None:
    talk = Talk()
    client = talk.connect("c", version=V311)
    client.subscribe("traffic/#")
    deliver(talk, TOLD, ("c", "traffic/#"))
    assert client.payloads() == [FIELDS]


@pytest.mark.parametrize("version", BOTH)
def test_a_withdrawn_event_is_an_empty_payload(version: Any) -> None:
    talk = Talk()
    client = talk.connect("c", version=version)
    client.subscribe("traffic/#")
    deliver(talk, changed(state="withdrawn"), ("c", "traffic/#"), payload=b"")
    (event,) = client.read()
    assert (event.topic, event.payload, event.retain) == ("traffic/athens", b"", False)


def test_an_event_that_was_merged_into_another_names_it() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("traffic/#")
    deliver(talk, changed(state="merged-into", into="a:1:3", complete=True), ("c", "traffic/#"))
    (event,) = client.read()
    assert event.properties.user[-3:] == (("complete", "true"), ("state", "merged-into"), ("into", "a:1:3"))


def test_a_snapshot_is_marked_as_what_was_there_before() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("traffic/#", retain_as_published=True)
    deliver(talk, changed(state="snapshot"), ("c", "traffic/#"))
    deliver(talk, changed(version=3), ("c", "traffic/#"))
    assert [(state(it), it.retain) for it in client.read()] == [("snapshot", True), ("told", False)]


def test_an_event_comes_once_under_each_name_that_the_client_asked_for() -> None:
    talk = Talk()
    talk.tell(EntryOffered("operator", 1, "view", "all", '{"name": "all", "from": "traffic/#"}'))
    client = talk.connect("c")
    client.subscribe("traffic/#", subscription_identifiers=(7,))
    client.subscribe("view/all/#")
    deliver(talk, TOLD, ("c", "traffic/#"), ("c", "view/all/#"))
    plain, seen = sorted(client.read(), key=lambda it: it.topic)
    assert (plain.topic, seen.topic) == ("traffic/athens", "view/all/traffic/athens")
    assert plain.properties.subscription_identifiers == (7,)
    assert plain.properties.user == seen.properties.user != ()


def test_what_waits_for_a_kept_session_is_the_same_after_a_restart() -> None:
    talk = Talk()
    talk.connect("c", session_expiry_s=1000).subscribe("traffic/#", qos=1)
    talk.clients[1].lose()
    deliver(talk, changed(state="ended", complete=True), ("c", "traffic/#"), hops=4)
    talk.crash()
    client = talk.connect("c", clean_start=False, session_expiry_s=1000)
    (event,) = client.read()
    said = dict(event.properties.user)
    assert event.payload == FIELDS
    assert (said["event"], said["hops"], said["state"], said["complete"]) == ("a:1:7", "4", "ended", "true")


def test_an_event_with_its_properties_that_is_larger_than_a_client_takes_is_not_sent() -> None:
    talk = Talk()
    client = talk.connect("c", maximum_packet_bytes=128)
    client.subscribe("traffic/#", qos=1)
    deliver(talk, TOLD, ("c", "traffic/#"))
    assert client.read() == []
    assert talk.front.status(talk.now).counters["dropped"] == {"larger than the client takes": 1}
    client.ping()


# How a client asks.


def asked(talk: Talk, name: str = "traffic/#") -> Subscription:
    found = talk.front.broker.subscription("c", name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["every", "$every"])
def test_a_subscription_says_how_often_a_growing_event_is_wanted(name: str) -> None:
    talk = Talk()
    suback = talk.connect("c").subscribe("traffic/#", user=((name, "1.5s"),))
    assert suback.reasons == (0,)
    assert suback.properties.user == (("tidings", "filter"),)
    assert asked(talk).every_us == 1_500_000


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ((("every", "5"),), "every: '5' is not a duration; write a number and a unit"),
        ((("every", "-1s"),), "every: '-1s' is not a duration"),
        ((("every", "5 s"),), "every: '5 s' is not a duration"),
        ((("every", "5s"), ("every", "6s")), "'every' is given as '5s' and as '6s'; give one of them"),
        ((("Every", "5s"),), "did you mean 'every'?"),
    ],
)
def test_a_cycle_that_is_not_understood_is_refused_with_the_reason(
    user: tuple[tuple[str, str], ...], reason: str
) -> None:
    talk = Talk()
    client = talk.connect("c")
    suback = client.subscribe("traffic/#", user=user)
    assert suback.reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert reason in (suback.properties.reason_string or "")
    assert talk.front.broker.subscription("c", "traffic/#") is None
    client.ping()


def test_a_cycle_changes_nothing_on_a_plain_topic() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.subscribe("plain/#", user=(("every", "1h"),))
    for number in range(3):
        client.publish("plain/x", b"%d" % number)
    assert client.payloads() == [b"0", b"1", b"2"]


def test_of_the_cycles_of_a_view_and_its_client_the_longer_counts() -> None:
    talk = Talk()
    view = '{"name": "slow", "from": "traffic/#", "every": "10s"}'
    talk.tell(EntryOffered("operator", 1, "view", "slow", view))
    client = talk.connect("c")
    for every, counts_s in (("", 10), ("5s", 10), ("20s", 20)):
        client.subscribe("view/slow/#", user=(("every", every),) if every else ())
        assert asked(talk, "view/slow/#").every_us == counts_s * 1_000_000


def test_the_cycle_survives_a_restart_and_a_change_of_the_view() -> None:
    talk = Talk()
    talk.tell(EntryOffered("operator", 1, "view", "v", '{"name": "v", "from": "traffic/#"}'))
    client = talk.connect("c", session_expiry_s=1000)
    client.subscribe("view/v/#", user=(("every", "5s"),))
    talk.crash()
    talk.tell(EntryOffered("operator", 2, "view", "v", '{"name": "v", "from": "traffic/+"}'))
    assert asked(talk, "view/v/#") == Subscription("traffic/+", every_us=5_000_000)


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether subscriptions asked for the open events, in order, of all brokers made from now on."""
    found: list[bool] = []
    tell = Talk.__init__

    def watched(talk: Talk, *arguments: Any, **more: Any) -> None:
        tell(talk, *arguments, **more)
        broker = talk.front.broker
        told = broker.tell

        def listen(event: Any) -> None:
            if isinstance(event, SubscriptionAsked):
                found.append(event.snapshot)
            told(event)

        monkeypatch.setattr(broker, "tell", listen)

    monkeypatch.setattr(Talk, "__init__", watched)
    return found


@pytest.mark.parametrize(("handling", "wanted"), [(0, [True, True]), (1, [True, False]), (2, [False, False])])
def test_open_events_come_as_retain_handling_asks(
    handling: int, wanted: list[bool], snapshots: list[bool]
) -> None:
    client = Talk().connect("c")
    for _ in range(2):
        client.subscribe("traffic/#", retain_handling=handling)
    assert snapshots == wanted


def test_a_share_group_gets_no_open_events(snapshots: list[bool]) -> None:
    Talk().connect("c").subscribe("$share/g/traffic/#")
    assert snapshots == [False]


def test_a_view_that_is_back_brings_open_events_to_those_who_waited(snapshots: list[bool]) -> None:
    talk = Talk()
    view = '{"name": "v", "from": "traffic/#"}'
    talk.tell(EntryOffered("operator", 1, "view", "v", view))
    talk.connect("c").subscribe("view/v/#", retain_handling=1)
    talk.tell(EntryOffered("operator", 2, "view", "v", '{"name": "v", "from": "traffic/+"}'))
    talk.tell(EntryOffered("operator", 3, "view", "v", ""))
    talk.tell(EntryOffered("operator", 4, "view", "v", view))
    assert snapshots == [True, False, True]


# Reports.


def test_retain_on_a_report_is_ignored_and_counted() -> None:
    talk = Talk()
    declare(talk)
    client = talk.connect("c")
    assert client.publish("traffic/athens", FIELDS, qos=1, retain=True) == Reason.SUCCESS
    client.publish("traffic/athens", FIELDS, retain=True)
    client.publish("other", b"x", retain=True)
    status = talk.front.status(talk.now)
    assert status.counters["retain_ignored"] == 2
    assert status.retained == 1
    assert not any(key.startswith("mqtt/retained/traffic") for key in talk.disk)


def test_a_will_that_is_a_report_is_not_retained_either() -> None:
    talk = Talk()
    declare(talk)
    client = talk.connect("c", will=Will("traffic/athens", FIELDS, 0, True))
    client.lose()
    status = talk.front.status(talk.now)
    assert (status.counters["retain_ignored"], status.retained) == (1, 0)


def test_a_report_is_taken_although_nothing_more_can_be_retained() -> None:
    talk = Talk(Settings(sys_every_s=0, retained_messages=0))
    declare(talk)
    client = talk.connect("c")
    assert client.publish("traffic/athens", FIELDS, qos=1, retain=True) == Reason.SUCCESS
    assert client.publish("other", FIELDS, qos=1, retain=True) == Reason.QUOTA_EXCEEDED


def test_what_was_retained_before_a_topic_was_gathered_is_not_delivered() -> None:
    talk = Talk()
    client = talk.connect("c")
    client.publish("traffic/athens", FIELDS, retain=True)
    client.publish("traffic/athens/north", FIELDS, retain=True)
    declare(talk)
    client.subscribe("traffic/#")
    assert [it.topic for it in client.read()] == ["traffic/athens/north"]


WRONG = {
    "no key": b'{"severity": 4}',
    "wrong type": b'{"place": "Omonia", "severity": "high"}',
    "undeclared field": b'{"place": "Omonia", "colour": "red"}',
    "no JSON": b"fire!",
    "another city than the topic's": b'{"place": "Omonia", "city": "sparta"}',
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("qos", [1, 2])
def test_a_report_that_is_wrong_is_refused_with_the_reason(payload: bytes, qos: int) -> None:
    talk = Talk()
    declare(talk)
    client = talk.connect("c")
    assert client.publish("traffic/athens", payload, qos=qos) == Reason.PAYLOAD_FORMAT_INVALID
    status = talk.front.status(talk.now)
    assert status.counters["refused"] == {"publish": 1}
    assert (status.refusals[0].client, status.refusals[0].what) == ("c", "publish traffic/athens")
    assert status.refusals[0].reason


def test_a_report_of_absurd_size_is_refused() -> None:
    talk = Talk(Settings(sys_every_s=0, packet_bytes_max=3_000_000))
    declare(talk)
    client = talk.connect("c")
    large = b'{"place": "%s"}' % (b"x" * 2_000_000)
    assert client.publish("traffic/athens", large, qos=1) == Reason.PAYLOAD_FORMAT_INVALID
    refusal = talk.front.status(talk.now).refusals[0]
    assert "the limit is 1048576" in refusal.reason
    client.send(Publish("traffic/athens", b"x" * 4_000_000))
    assert client.dismissed() == Reason.PACKET_TOO_LARGE


@pytest.mark.parametrize("version", BOTH)
def test_a_wrong_report_that_cannot_be_answered_is_counted_and_remembered(version: Any) -> None:
    talk = Talk()
    declare(talk)
    client = talk.connect("c", version=version)
    client.publish("traffic/athens", b'{"severity": 4}')
    assert client.publish("traffic/athens", b"{}", qos=1) in (0, Reason.PAYLOAD_FORMAT_INVALID)
    status = talk.front.status(talk.now)
    assert status.counters["refused"] == {"publish": 2}
    assert "place" in status.refusals[0].reason
    client.ping()
