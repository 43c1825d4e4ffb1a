"""Lines for the operator: who has connected, gone and been refused, from where, and as which user."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mqtt.talk import V5, V311, Client, Talk
from tidings.mqtt.core import NAME_CHARACTERS_SHOWN
from tidings.mqtt.events import Access, AccessChanged, ClientExpelled, Rule
from tidings.mqtt.packets import Publish
from tidings.mqtt.settings import Settings
from tidings.overlay.events import StopAsked

ADDRESS = "127.0.0.1:40000"
ANN = {"client": "c", "user": "ann", "address": ADDRESS}
ACCESS = Access((Rule(True, "any", "a/#"), Rule(True, "any", "$SYS/#")), anonymous=True, verify=True)


def as_ann(talk: Talk, **options: Any) -> Client:
    return talk.connect("c", username="ann", password=b"secret", **options)


@pytest.fixture
def talk() -> Talk:
    made = Talk(Settings(sys_every_s=0, connect_within_s=5.0), access=ACCESS, users={"ann": b"secret"})
    made.logs.clear()
    return made


def lines(talk: Talk, *levels: str) -> list[tuple[str, dict[str, str]]]:
    """What was logged since the last look, at some levels; info and above by default."""
    logs, talk.logs = talk.logs, []
    wanted = levels or ("info", "warning", "error")
    return [(log.text, dict(log.about)) for log in logs if log.level in wanted]


def test_who_connects_and_goes_has_a_line_each(talk: Talk) -> None:
    client = as_ann(talk, session_expiry_s=100)
    more = {"listener": "tcp", "mqtt": "5.0", "session": "new"}
    assert lines(talk) == [("a client is connected", ANN | more)]
    client.lose()
    assert lines(talk) == [("a client is disconnected", ANN | {"reason": "reset"})]
    client = as_ann(talk, clean_start=False, session_expiry_s=100)
    assert lines(talk) == [("a client is connected", ANN | more | {"session": "resumed"})]
    as_ann(talk, version=V311)
    assert lines(talk) == [
        ("a client is disconnected", ANN | {"reason": "the client has connected again"}),
        ("a client is connected", ANN | more | {"mqtt": "3.1.1"}),
    ]
    talk.tell(ClientExpelled("c"))
    assert lines(talk) == [("a client is disconnected", ANN | {"reason": "an operator wants it gone"})]


def test_a_client_without_a_name_and_one_with_a_certificate(talk: Talk) -> None:
    client = talk.connect()
    ((_, about),) = lines(talk)
    assert client.connack is not None
    assert (about["client"], about["user"]) == (client.connack.properties.assigned_client_id, "")
    client.disconnect()
    assert lines(talk)[0][1]["reason"] == "the client has left"
    talk.dial(V5, certified="bob").connect("d", username="eve")
    ((_, about),) = lines(talk)
    assert (about["client"], about["user"]) == ("d", "bob")


def test_who_is_refused_has_a_line_with_what_it_has_said(talk: Talk) -> None:
    for client_id, username, password, reason in (
        ("c", "ann", b"wrong", "user name and password do not fit"),
        ("c", "eve", b"", "user name and password do not fit"),
        ("x" * 300, None, None, "the client id has more than 256 characters"),
    ):
        talk.dial(V5).connect(client_id, username=username, password=password)
        shown = {"client": client_id[:NAME_CHARACTERS_SHOWN], "user": username or "", "address": ADDRESS}
        assert lines(talk) == [("refused", shown | {"what": "connect", "reason": reason})]


def test_a_refused_client_has_no_user_of_a_session_that_is_there(talk: Talk) -> None:
    as_ann(talk)
    lines(talk)
    talk.dial(V5).connect("c")
    assert lines(talk) == [
        (
            "refused",
            {
                "client": "c",
                "user": "",
                "address": ADDRESS,
                "what": "connect",
                "reason": "the client id is that of another user's session",
            },
        )
    ]


def test_what_is_no_connect_has_a_line_with_its_address(talk: Talk) -> None:
    talk.dial(V5).send_bytes("ff ff")
    ((text, about),) = lines(talk)
    assert (text, about["client"], about["address"]) == ("refused", "", ADDRESS)
    talk.dial(V5)
    talk.advance(6.0)
    ((_, about),) = lines(talk)
    assert (about["address"], about["reason"]) == (ADDRESS, "no CONNECT within the time for it")
    # A probe that only opens a connection is nobody's refusal.
    talk.dial(V5).lose()
    logged = list(talk.logs)
    assert lines(talk) == []
    assert [(log.level, dict(log.about)["reason"]) for log in logged] == [("debug", "reset")]


def test_what_a_client_may_not_do_is_logged_with_its_user_and_address(talk: Talk) -> None:
    client = as_ann(talk, session_expiry_s=100)
    lines(talk)
    client.subscribe("b", "a/#")
    client.send(Publish("b", b"x"))
    refused = [about for text, about in lines(talk) if text == "refused"]
    assert [about["what"] for about in refused] == ["subscribe b", "publish b"]
    assert all(about.items() >= ANN.items() for about in refused)
    client.lose()
    lines(talk)
    talk.tell(AccessChanged(Access(ACCESS.rules[1:], anonymous=True, verify=True)))
    (about,) = [about for _, about in lines(talk)]
    assert (about["user"], about["what"], "address" in about) == ("ann", "subscribe a/#", False)


def test_who_is_at_fault_is_named(talk: Talk) -> None:
    client = as_ann(talk)
    lines(talk)
    client.send_bytes("ff ff")
    (fault, gone) = lines(talk)
    assert fault[0] == "a client is at fault"
    assert gone == ("a client is disconnected", fault[1])
    assert fault[1].items() >= ANN.items()


def test_subscriptions_are_for_those_who_look_closely(talk: Talk) -> None:
    client = as_ann(talk)
    lines(talk)
    client.subscribe("a/1", "$SYS/#", qos=1)
    client.subscribe("a/2", user=(("where", "x > 3"),))
    client.subscribe("no")
    client.unsubscribe("a/1", "a/none")
    logged = list(talk.logs)
    assert lines(talk, "debug") == [
        ("a client subscribes", ANN | {"filter": "a/1", "qos": "1"}),
        ("a client subscribes", ANN | {"filter": "$SYS/#", "qos": "1"}),
        ("a client subscribes", ANN | {"filter": "a/2", "qos": "0", "where": "x > 3"}),
        ("a client unsubscribes", ANN | {"filter": "a/1"}),
    ]
    talk.logs = logged
    assert [about["what"] for _, about in lines(talk)] == ["subscribe no"]


def test_those_who_are_there_when_the_broker_stops_have_their_line(talk: Talk) -> None:
    as_ann(talk)
    lines(talk)
    talk.tell(StopAsked())
    assert lines(talk) == [("a client is disconnected", ANN | {"reason": "the broker stops"})]
