"""What goes out as a payload, and what a delivery says of itself."""

from __future__ import annotations

import msgspec
import pytest

from tidings.client.deliveries import Delivery, Sent, payload_of
from tidings.errors import PayloadError
from tidings.mqtt.packets import Properties


class Accident(msgspec.Struct):
    severity: int
    road: str = "A1"


@pytest.mark.parametrize(
    ("report", "payload", "content_type"),
    [
        ({"severity": 4}, b'{"severity":4}', "application/json"),
        (Accident(3), b'{"severity":3,"road":"A1"}', "application/json"),
        ("as it is", b"as it is", None),
        (b"\x00\xff", b"\x00\xff", None),
        (None, b"", None),
    ],
)
def test_fields_become_json_and_the_rest_stays(
    report: Sent, payload: bytes, content_type: str | None
) -> None:
    assert payload_of(report, None) == (payload, content_type)


def test_fields_become_messagepack_where_that_is_asked_for() -> None:
    payload, content_type = payload_of({"severity": 4}, "application/msgpack")
    assert msgspec.msgpack.decode(payload) == {"severity": 4}
    assert content_type == "application/msgpack"
    delivery = Delivery(topic="t", payload=payload, properties=Properties(content_type=content_type))
    assert delivery.fields == {"severity": 4}


@pytest.mark.parametrize("report", [[1, 2], 7, {"x": float("nan")}, {"x": {1, 2}}, {"x": 2**64}])
def test_what_no_payload_can_carry_is_refused(report: object) -> None:
    with pytest.raises(PayloadError):
        payload_of(report, None)  # type: ignore[arg-type]


def test_a_delivery_explains_itself() -> None:
    user = (
        ("event", "t/x/b1-1"),
        ("version", "2"),
        ("reports", "5"),
        ("hops", "3"),
        ("seat", "b2"),
        ("complete", "false"),
        ("state", "told"),
        ("event", "another of that name"),
    )
    told = Delivery(topic="t", payload=b"{}", properties=Properties(user=user))
    assert (told.id, told.version, told.reports, told.hops) == ("t/x/b1-1", 2, 5, 3)
    assert (told.seat, told.complete, told.state) == ("b2", False, "told")
    assert told.into is None
    plain = Delivery(topic="t", payload=b"not JSON", properties=Properties(user=(("version", "two"),)))
    assert (plain.id, plain.version, plain.complete) == (None, None, None)
    assert plain.text == "not JSON"
    with pytest.raises(PayloadError, match="not JSON"):
        _ = plain.fields


def test_a_withdrawn_event_has_no_fields_and_an_empty_plain_message_is_none() -> None:
    user = (("event", "b1:1:7"), ("state", "withdrawn"))
    withdrawn = Delivery(topic="t", payload=b"", properties=Properties(user=user))
    assert (withdrawn.id, withdrawn.state, withdrawn.fields) == ("b1:1:7", "withdrawn", {})
    with pytest.raises(PayloadError):
        _ = Delivery(topic="t", payload=b"").fields


def test_an_event_that_is_one_with_another_names_it() -> None:
    user = (("event", "b1:1:7"), ("state", "merged-into"), ("into", "b2:1:3"))
    assert Delivery(topic="t", payload=b"{}", properties=Properties(user=user)).into == "b2:1:3"
