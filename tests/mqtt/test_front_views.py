"""Views at the front: topics that a client sees part of, under a name of their own."""

from __future__ import annotations

import json

from tests.mqtt.talk import V5, V311, Talk
from tidings.mqtt.packets import Publish
from tidings.mqtt.reasons import Reason
from tidings.overlay.events import EntryOffered

SEVERE = {"name": "severe", "from": "traffic/#", "where": "severity >= 3"}


def add(talk: Talk, **view: str) -> None:
    talk.tell(EntryOffered("operator", 1, "view", view["name"], json.dumps(view)))


def remove(talk: Talk, name: str) -> None:
    talk.tell(EntryOffered("operator", 2, "view", name, ""))


def test_a_client_of_311_sees_what_the_view_lets_through_under_its_name() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    dashboard, reporter = talk.connect("d", version=V311), talk.connect("r")
    dashboard.subscribe("view/severe/#")
    reporter.send(
        Publish("traffic/athens", b'{"severity": 4}'), Publish("traffic/athens", b'{"severity": 2}')
    )
    (seen,) = dashboard.read()
    assert (seen.topic, seen.payload) == ("view/severe/traffic/athens", b'{"severity": 4}')


def test_who_subscribes_to_topic_and_view_gets_both_under_their_names() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    client = talk.connect("c")
    client.subscribe("view/severe/#", "traffic/#")
    client.send(Publish("traffic/x", b'{"severity": 9}'))
    assert sorted(it.topic for it in client.read()) == ["traffic/x", "view/severe/traffic/x"]


def test_a_subscription_sleeps_while_its_view_is_gone_and_wakes_with_it() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    dashboard, reporter = talk.connect("d", version=V311, clean_start=False), talk.connect("r")
    dashboard.subscribe("view/severe/#")
    remove(talk, "severe")
    reporter.send(Publish("traffic/athens", b'{"severity": 4}'))
    assert dashboard.payloads() == []
    add(talk, **(SEVERE | {"where": "severity >= 2"}))
    reporter.send(
        Publish("traffic/athens", b'{"severity": 2}'), Publish("traffic/athens", b'{"severity": 1}')
    )
    assert dashboard.payloads() == [b'{"severity": 2}']


def test_a_sleeping_subscription_survives_a_restart() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    talk.connect("d", version=V311, clean_start=False).subscribe("view/severe/#", qos=1)
    remove(talk, "severe")
    talk.crash()
    add(talk, **SEVERE)
    talk.connect("r").publish("traffic/athens", b'{"severity": 4}', qos=1)
    assert talk.connect("d", version=V311, clean_start=False).payloads() == [b'{"severity": 4}']


def test_a_part_of_a_view_that_has_nothing_now_may_have_something_later() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    client = talk.connect("c")
    assert client.subscribe("view/severe/weather/#").reasons == (0,)
    client.send(Publish("weather/athens", b'{"severity": 4}'))
    assert client.payloads() == []
    add(talk, **(SEVERE | {"from": "weather/#"}))
    client.send(Publish("weather/athens", b'{"severity": 4}'))
    assert client.payloads() == [b'{"severity": 4}']


def test_a_view_that_nobody_has_made_is_refused_and_so_is_publishing_to_one() -> None:
    talk = Talk()
    client = talk.connect("c", version=V5)
    assert client.subscribe("view/none/#").reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert client.publish("view/none/x", b"{}", qos=1) == Reason.TOPIC_NAME_INVALID


def test_the_filter_of_a_client_narrows_a_view() -> None:
    talk = Talk()
    add(talk, **SEVERE)
    client = talk.connect("c")
    client.subscribe("view/severe/#", user=(("where", "road = 'A1'"),))
    for payload in (b'{"severity": 4, "road": "A1"}', b'{"severity": 4}', b'{"severity": 1, "road": "A1"}'):
        client.send(Publish("traffic/x", payload))
    assert client.payloads() == [b'{"severity": 4, "road": "A1"}']
