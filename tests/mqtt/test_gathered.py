"""A gathered topic end to end at one broker: reports in over MQTT, events out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.mqtt.talk import BOTH, SETTLED_S, V5, V311, Client, Talk
from tidings.mqtt.events import Access, Rule
from tidings.mqtt.packets import Properties, Publish
from tidings.mqtt.reasons import Reason
from tidings.overlay.events import EntryOffered

DECLARATION = """
name = "traffic/+city"
kind = "gathered"
key = ["place"]
merge_after = "4s"
redundant_for = "60s"
stays_open = "reported"
window = "none"
[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
road = { type = "string" }
seen = { type = "timestamp" }
"""

TM_S = 4.0


def gathering(**settings: Any) -> Talk:
    talk = Talk(**settings)
    declare(talk, DECLARATION)
    return talk


def declare(talk: Talk, text: str, *, force: bool = False) -> None:
    talk.tell(EntryOffered("operator", 1, "topic", "", text, force))


def report(client: Client, qos: int = 1, **fields: object) -> int:
    return client.publish("traffic/athens", json.dumps(fields).encode(), qos=qos)


def events(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """What has come: `version/reports/state` and the fields."""
    found = []
    for it in client.read():
        said = dict(it.properties.user)
        fields = json.loads(it.payload) if it.payload else {}
        found.append((f"{said['version']}/{said['reports']}/{said['state']}", fields))
    return found


def counted(talk: Talk) -> Any:
    (status,) = talk.front.broker.gathered("traffic/+city")
    return status


def test_reports_of_many_become_one_event_that_grows() -> None:
    talk = gathering()
    desk = talk.connect("desk")
    desk.subscribe("traffic/#", qos=1)
    reporters = [talk.connect(f"r{number}") for number in range(3)]
    report(reporters[0], place="Omonia", severity=2)
    report(reporters[1], place="Omonia", road="A1", severity=4)
    report(reporters[2], place="Omonia", road="A1")
    assert events(desk) == [], "it is told when Tm has run out"
    talk.advance(TM_S)
    omonia = {"city": "athens", "place": "Omonia", "severity": 4, "road": "A1"}
    assert events(desk) == [("1/2/told", omonia)]
    report(reporters[0], place="Omonia", severity=5)
    talk.advance(TM_S)
    assert events(desk) == [("2/3/told", omonia | {"severity": 5})]
    status = counted(talk)
    assert (status.received, status.opened, status.merged, status.redundant) == (4, 1, 2, 1)


def test_nothing_that_a_reporter_sent_along_is_passed_on() -> None:
    talk = gathering()
    desk, reporter = talk.connect("desk"), talk.connect("r")
    desk.subscribe("traffic/#", qos=2)
    reporter.publish(
        "traffic/athens",
        b'{"place": "Omonia"}',
        2,
        retain=True,
        user=(("state", "ended"), ("mine", "x")),
        message_expiry_s=1,
        response_topic="answers",
        correlation_data=b"7",
        content_type="application/json",
    )
    talk.advance(TM_S)
    (event,) = desk.read()
    told = event.properties
    assert [name for name, _ in told.user] == [
        *("event", "version", "reports", "hops", "seat", "complete", "state")
    ]
    assert dict(told.user)["state"] == "told"
    assert (told.message_expiry_s, told.response_topic, told.correlation_data) == (None, None, None)
    assert (event.qos, event.retain) == (2, False)


def test_a_told_event_has_the_highest_qos_of_its_reports_and_at_most_what_was_asked_for() -> None:
    talk = gathering()
    once, twice, reporter = talk.connect("once"), talk.connect("twice"), talk.connect("r")
    once.subscribe("traffic/#", qos=0)
    twice.subscribe("traffic/#", qos=2)
    report(reporter, 0, place="Omonia")
    report(reporter, 1, place="Omonia", severity=1)
    talk.advance(TM_S)
    assert [it.qos for it in once.read()] == [0]
    assert [it.qos for it in twice.read()] == [1]


def test_a_client_of_311_reports_and_reads_events_too() -> None:
    talk = gathering()
    old = talk.connect("old", version=V311)
    old.subscribe("traffic/#", qos=1)
    old.publish("traffic/athens", b'{"place": "Omonia", "severity": 3}', 1)
    talk.advance(TM_S)
    (event,) = old.read()
    assert json.loads(event.payload) == {"city": "athens", "place": "Omonia", "severity": 3}


def test_reports_never_reach_subscribers_as_they_are_however_they_come() -> None:
    """Many in one piece are reports all the same."""
    talk = gathering()
    desk, reporter = talk.connect("desk"), talk.connect("r")
    desk.subscribe("traffic/#")
    packet = Publish("traffic/athens", b'{"place": "Omonia"}')
    for _ in range(3):
        reporter.send(*[packet] * 20)
        reporter.send(packet)
    assert desk.read() == []
    talk.advance(TM_S)
    assert events(desk) == [("1/1/told", {"city": "athens", "place": "Omonia"})]
    assert counted(talk).redundant == 62


def test_a_new_subscription_begins_with_the_open_events_that_match() -> None:
    talk = gathering()
    reporter = talk.connect("r")
    report(reporter, place="Omonia", severity=4)
    report(reporter, place="Syntagma", severity=1)
    talk.advance(TM_S)
    desk = talk.connect("desk")
    desk.subscribe("traffic/#", qos=1, user=(("where", "severity >= 3"),))
    (event,) = desk.read()
    assert event.retain
    assert dict(event.properties.user)["state"] == "snapshot"
    assert json.loads(event.payload)["place"] == "Omonia"
    assert talk.front.broker.status(talk.now).gathering.snapshots == 1
    report(reporter, place="Omonia", severity=5)
    talk.advance(TM_S)
    assert [state for state, _ in events(desk)] == ["2/2/told"]


def test_retain_handling_2_means_without_the_open_events() -> None:
    talk = gathering()
    report(talk.connect("r"), place="Omonia", severity=4)
    talk.advance(TM_S)
    desk = talk.connect("desk")
    desk.subscribe("traffic/#", retain_handling=2)
    assert desk.read() == []


@pytest.mark.parametrize("version", BOTH)
def test_an_event_that_does_not_match_any_more_is_withdrawn_once(version: Any) -> None:
    talk = Talk()
    declare(talk, DECLARATION.replace('conflict = "max"', 'conflict = "last"'))
    talk.tell(
        EntryOffered("o", 2, "view", "v", '{"name": "v", "from": "traffic/#", "where": "severity >= 3"}')
    )
    desk, reporter = talk.connect("desk", version=version), talk.connect("r")
    desk.subscribe("view/v/#", qos=1)
    for severity in (4, 1, 0):
        report(reporter, place="Omonia", severity=severity)
        talk.advance(TM_S)
    told, withdrawn = desk.read()
    assert json.loads(told.payload)["severity"] == 4
    assert (withdrawn.topic, withdrawn.payload) == ("view/v/traffic/athens", b"")
    assert talk.front.broker.status(talk.now).gathering.withdrawn == 1
    if version is V5:
        assert dict(withdrawn.properties.user)["state"] == "withdrawn"
        assert dict(withdrawn.properties.user)["event"] == dict(told.properties.user)["event"]


def test_a_subscriber_that_wants_less_often_gets_the_newest_version_when_its_time_has_come() -> None:
    talk = gathering()
    calm, eager, reporter = talk.connect("calm"), talk.connect("eager"), talk.connect("r")
    calm.subscribe("traffic/#", qos=1, user=(("every", "20s"),))
    eager.subscribe("traffic/#", qos=1)
    for severity in (1, 2, 3):
        report(reporter, place="Omonia", severity=severity)
        talk.advance(TM_S)
    assert [state for state, _ in events(eager)] == ["1/1/told", "2/2/told", "3/3/told"]
    assert [state for state, _ in events(calm)] == ["1/1/told"]
    talk.advance(20)
    assert [state for state, _ in events(calm)] == ["3/3/told"]
    assert talk.front.broker.status(talk.now).gathering.held == 2


def test_events_wait_for_a_kept_session_and_survive_a_crash_with_it() -> None:
    talk = gathering()
    talk.connect("desk", session_expiry_s=1000).subscribe("traffic/#", qos=1)
    talk.clients[1].lose()
    report(talk.connect("r"), place="Omonia", severity=4)
    talk.advance(TM_S)
    talk.crash()
    desk = talk.connect("desk", clean_start=False, session_expiry_s=1000)
    assert events(desk) == [("1/1/told", {"city": "athens", "place": "Omonia", "severity": 4})]


def test_a_report_that_was_acknowledged_survives_a_crash_and_is_told() -> None:
    talk = gathering()
    assert report(talk.connect("r"), place="Omonia", severity=4) == Reason.SUCCESS
    talk.crash()
    desk = talk.connect("desk")
    desk.subscribe("traffic/#", qos=1)
    talk.advance(2 * TM_S)
    assert [fields["severity"] for _, fields in events(desk)] == [4]


def test_a_time_far_away_is_taken_and_counted() -> None:
    talk = gathering()
    reporter = talk.connect("r")
    report(reporter, place="Omonia", seen="1970-01-01T00:01:00Z")
    report(reporter, place="Omonia", seen="2026-11-15T00:00:00Z")
    report(reporter, 0, place="Syntagma", seen="1950-11-15")
    assert talk.front.broker.status(talk.now).gathering.far == 2
    assert counted(talk).received == 3


class Fresh(Talk):
    """A broker that has just started: no tree has grown, so nobody knows a seat."""

    settled = False

    def advance(self, seconds: float) -> None:
        if self.settled:
            super().advance(seconds)


def test_reports_wait_where_they_entered_while_no_seat_is_known() -> None:
    talk = Fresh()
    declare(talk, DECLARATION)
    desk, reporter = talk.connect("desk"), talk.connect("r")
    talk.settled = True
    assert report(reporter, place="Omonia", severity=2) == Reason.SUCCESS, "it is on disk here"
    report(reporter, 0, place="Omonia", road="A1")
    assert (counted(talk).seat, counted(talk).waiting) == ("", 2)
    assert talk.front.broker.status(talk.now).gathering.waiting == 2
    talk.advance(SETTLED_S)
    desk.subscribe("traffic/#", qos=1)
    talk.advance(TM_S)
    assert (counted(talk).seat, counted(talk).waiting, counted(talk).received) == ("a", 0, 2)
    ((_, event),) = events(desk)
    assert event == {"city": "athens", "place": "Omonia", "severity": 2, "road": "A1"}


def test_an_undeclared_topic_beside_a_gathered_one_is_plain() -> None:
    talk = gathering()
    client = talk.connect("c")
    client.subscribe("#")
    client.publish("traffic", b"as it is", retain=True)
    assert client.payloads() == [b"as it is"]
    counters = talk.front.status(talk.now).counters
    assert (counters["published"], counters["retain_ignored"]) == (1, 0)
    assert talk.front.broker.status(talk.now).gathering.entered == 0
    report(client, place="Omonia")
    assert talk.front.broker.status(talk.now).gathering.entered == 1


def test_a_report_taken_under_another_declaration_is_refused_at_the_seat() -> None:
    """As if it had entered beyond a partition, where another declaration held."""
    talk = gathering()
    report(talk.connect("r"), place="Omonia", severity=4)
    declare(talk, DECLARATION.replace("severity", "gravity"), force=True)
    desk = talk.connect("desk")
    desk.subscribe("traffic/#", qos=1)
    talk.advance(TM_S)
    assert report(talk.connect("r2"), place="Omonia", severity=4) == Reason.PAYLOAD_FORMAT_INVALID
    assert [fields.get("severity") for _, fields in events(desk)] == [4], "open events finish as they began"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("2026-11-15"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
PAYLOADS = st.binary(max_size=20) | st.fixed_dictionaries(
    {},
    optional={
        "place": st.sampled_from(["Omonia", "Syntagma", ""]) | VALUES,
        "severity": st.integers(-1, 3) | VALUES,
        "road": st.sampled_from(["A1", "A2"]) | VALUES,
        "seen": VALUES,
        "city": st.sampled_from(["athens", "sparta"]),
        "colour": VALUES,
    },
).map(lambda fields: json.dumps(fields).encode())


@given(
    st.lists(st.tuples(PAYLOADS, st.integers(0, 2), st.booleans(), st.floats(0, 40)), max_size=12),
    st.sampled_from(BOTH),
)
@settings(max_examples=examples(40), deadline=None)
def test_whatever_is_reported_is_refused_or_counted_and_the_broker_lives(
    reports: list[tuple[bytes, int, bool, float]], version: Any
) -> None:
    talk = gathering()
    desk, reporter = talk.connect("desk"), talk.connect("r", version=version)
    desk.subscribe("traffic/#", qos=2, user=(("where", "severity >= 1"),))
    for payload, qos, retain, pause_s in reports:
        reporter.publish("traffic/athens", payload, qos, retain=retain)
        talk.advance(pause_s)
    reporter.ping()
    talk.advance(100)
    status, told = counted(talk), events(desk)
    refused = talk.front.status(talk.now).counters["refused"].get("publish", 0)
    assert status.received + refused == len(reports)
    assert status.received == status.opened + status.merged + status.redundant
    assert (status.open, status.closed, status.waiting) == (0, status.opened, 0)
    assert len(told) <= status.told
    assert talk.front.retained.messages == 0


# Asking who gathers.


def ask(client: Client, name: str) -> dict[str, Any]:
    client.subscribe("$tidings/reply/1")
    client.send(
        Publish(
            "$tidings/topic/show",
            json.dumps({"name": name}).encode(),
            properties=Properties(response_topic="$tidings/reply/1", correlation_data=b"1"),
        )
    )
    (answer,) = client.read()
    told = json.loads(answer.payload)
    assert isinstance(told, dict)
    return told


def test_whoever_asks_for_a_topic_is_told_who_gathers_it_and_what_was_counted() -> None:
    talk = gathering()
    client = talk.connect("c")
    (before,) = ask(client, "traffic/+city")["gathered"]
    assert (before["received"], before["suppression"]) == (0, 0.0)
    for severity in (1, 4, 2, 4):
        report(client, place="Omonia", severity=severity)
    report(client, place="Syntagma")
    talk.advance(TM_S)
    (seat,) = ask(client, "traffic/+city")["gathered"]
    assert (seat["seat"], seat["deputy"], seat["mine"], seat["open"]) == ("a", "", True, 2)
    fates = [seat[name] for name in ("received", "opened", "merged", "redundant", "refused")]
    assert fates == [5, 2, 1, 2, 0]
    assert seat["suppression"] == 0.6
    assert (seat["told"], seat["conflicts"], seat["waiting"]) == (2, 2, 0)


def test_whoever_asks_for_a_topic_is_shown_the_most_specific_declaration_that_matches_it() -> None:
    talk = gathering()
    declare(talk, 'name = "traffic/#"\nkind = "plain"')
    client = talk.connect("c")
    report(client, place="Omonia")
    shown = ask(client, "traffic/athens")
    assert shown["topic"]["name"] == "traffic/+city"
    assert [seat["received"] for seat in shown["gathered"]] == [1]
    assert ask(client, "traffic/athens/north")["topic"]["name"] == "traffic/#"
    declare(talk, 'name = "traffic/athens"\nkind = "plain"', force=True)
    assert ask(client, "traffic/athens")["topic"]["name"] == "traffic/athens"
    # A declaration has its topic filter as a second name, whatever else is declared.
    assert ask(client, "traffic/+")["topic"]["name"] == "traffic/+city"
    declare(talk, 'name = "traffic/+a"\nkind = "plain"')
    assert ask(client, "traffic/+")["topic"]["name"] == "traffic/+a"
    # Another topic filter is not a topic: several declarations may govern what it matches.
    for name in ("traffic/+/north", "+/athens", "weather", "traffic/+/#/x", "$SYS/broker"):
        told = ask(client, name)
        assert (told["ok"], "no declaration matches it" in told["reason"]) == (False, True)


def test_who_may_use_a_topic_sees_what_governs_it_and_nobody_else_does() -> None:
    rules = Access(
        (
            Rule(True, "any", "#", "ann"),
            Rule(False, "any", "traffic/sparta", "ann"),
            Rule(True, "publish", "traffic/athens", "bob"),
        ),
        verify=True,
    )
    talk = gathering(access=rules, users={"ann": b"a", "bob": b"b"})
    ann = talk.connect("a", username="ann", password=b"a")
    bob = talk.connect("b", username="bob", password=b"b")
    topics = "traffic/athens", "traffic/sparta"
    assert [[ask(who, topic)["ok"] for topic in topics] for who in (ann, bob)] == [
        [True, False],
        [True, False],
    ]


def test_a_plain_topic_is_gathered_by_nobody() -> None:
    talk = Talk()
    declare(talk, 'name = "plain"\nkind = "plain"')
    assert "gathered" not in ask(talk.connect("c"), "plain")
