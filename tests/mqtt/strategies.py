"""Packets of every kind as Hypothesis draws them: all that a sender may send, in both versions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidings.mqtt import codec, properties
from tidings.mqtt.packets import (
    NO_PROPERTIES,
    AnyPacket,
    Asked,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from tidings.mqtt.properties import BINARY, BYTE, LONG, PAIR, SHORT, TEXT, VARIABLE, VARIABLE_MAX

versions = st.sampled_from(Version)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=20)
topics = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="+#"), min_size=1, max_size=20
)
filters = st.one_of(topics, st.sampled_from(["#", "+/+", "a/#", "$share/group/a/+"]))
packet_ids = st.integers(1, 0xFFFF)
qos = st.integers(0, 2)
payloads = st.binary(max_size=300)


def values(row: properties.Property) -> st.SearchStrategy[Any]:
    """What one property may hold."""
    if row.form == PAIR:
        return st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
    if row.form == VARIABLE:
        return st.lists(st.integers(1, VARIABLE_MAX), max_size=1).map(tuple)
    if row.field == "response_topic":
        return st.none() | topics
    if row.form == TEXT:
        return st.none() | texts
    if row.form == BINARY:
        return st.none() | payloads
    largest = {BYTE: 0xFF, SHORT: 0xFFFF, LONG: 0xFFFF_FFFF}[row.form]
    return st.none() | st.integers(row.low, min(row.high, largest))


@st.composite
def property_sets(draw: st.DrawFn, place: int, version: Version, without: tuple[str, ...] = ()) -> Properties:
    if version is not Version.V5:
        return NO_PROPERTIES
    rows = [row for row in properties.PROPERTIES if place in row.places and row.field not in without]
    chosen = draw(st.lists(st.sampled_from(rows), max_size=5, unique=True))
    drawn = {row.field: draw(values(row)) for row in chosen}
    if drawn.get("authentication_data") is not None:
        drawn["authentication_method"] = draw(texts)
    return Properties(**drawn)


@st.composite
def publishes(draw: st.DrawFn, version: Version, client: bool) -> Publish:
    level = draw(qos)
    found = draw(property_sets(properties.PUBLISH, version, () if client else ("subscription_identifiers",)))
    topic = draw(topics if found.topic_alias is None else st.just("") | topics)
    dup = draw(st.booleans()) if level else False
    packet_id = draw(packet_ids) if level else 0
    return Publish(topic, draw(payloads), level, draw(st.booleans()), dup, packet_id, found)


@st.composite
def connects(draw: st.DrawFn, version: Version) -> Connect:
    will = None
    if draw(st.booleans()):
        will = Will(
            draw(topics),
            draw(payloads),
            draw(qos),
            draw(st.booleans()),
            draw(property_sets(properties.WILL, version)),
        )
    username = draw(st.none() | names)
    may_have_password = version is Version.V5 or username is not None
    return Connect(
        version,
        draw(names),
        draw(st.booleans()),
        draw(st.integers(0, 0xFFFF)),
        username,
        draw(st.none() | payloads) if may_have_password else None,
        will,
        draw(property_sets(properties.CONNECT, version)),
        draw(st.booleans()),
    )


@st.composite
def acknowledgements(draw: st.DrawFn, version: Version) -> Puback | Pubrec | Pubrel | Pubcomp:
    kinds: list[tuple[type[Puback | Pubrec | Pubrel | Pubcomp], int]] = [
        (Puback, properties.PUBACK),
        (Pubrec, properties.PUBREC),
        (Pubrel, properties.PUBREL),
        (Pubcomp, properties.PUBCOMP),
    ]
    kind, place = draw(st.sampled_from(kinds))
    reason = draw(reasons_of(place)) if version is Version.V5 else 0
    return kind(draw(packet_ids), reason, draw(property_sets(place, version)))


def reasons_of(place: int) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(codec.REASONS[place]))


@st.composite
def subscribes(draw: st.DrawFn, version: Version) -> Subscribe:
    asked = []
    for topic_filter in draw(st.lists(filters, min_size=1, max_size=4)):
        if version is Version.V5:
            no_local = draw(st.booleans()) and not topic_filter.startswith("$share/")
            asked.append(
                Asked(topic_filter, draw(qos), no_local, draw(st.booleans()), draw(st.integers(0, 2)))
            )
        else:
            asked.append(Asked(topic_filter, draw(qos)))
    return Subscribe(draw(packet_ids), tuple(asked), draw(property_sets(properties.SUBSCRIBE, version)))


@st.composite
def from_client(draw: st.DrawFn, version: Version) -> AnyPacket:
    """Anything that a client may send after CONNECT."""
    v5 = version is Version.V5
    kind = draw(st.integers(0, 6 if v5 else 5))
    if kind == 0:
        return draw(publishes(version, client=False))
    if kind == 1:
        return draw(acknowledgements(version))
    if kind == 2:
        return draw(subscribes(version))
    if kind == 3:
        topic_filters = draw(st.lists(filters, min_size=1, max_size=4))
        found = draw(property_sets(properties.UNSUBSCRIBE, version))
        return Unsubscribe(draw(packet_ids), tuple(topic_filters), found)
    if kind == 4:
        return Pingreq()
    if kind == 5:
        reason = draw(st.sampled_from(sorted(codec.LEAVE_REASONS))) if v5 else 0
        return Disconnect(reason, draw(property_sets(properties.DISCONNECT, version)))
    return auth(draw, (0x18, 0x19))


@st.composite
def from_server(draw: st.DrawFn, version: Version) -> AnyPacket:
    """Anything that a server may send, CONNACK included."""
    v5 = version is Version.V5
    kind = draw(st.integers(0, 7 if v5 else 5))
    if kind == 0:
        return draw(publishes(version, client=True))
    if kind == 1:
        return draw(acknowledgements(version))
    if kind == 2:
        reason = draw(reasons_of(properties.CONNACK) if v5 else st.sampled_from(codec.RETURN_CODES))
        present = draw(st.booleans()) and reason == 0
        return Connack(int(reason), present, draw(property_sets(properties.CONNACK, version)))
    if kind == 3:
        codes = reasons_of(properties.SUBACK) if v5 else st.sampled_from([0, 1, 2, 0x80])
        granted = draw(st.lists(codes, min_size=1, max_size=4))
        return Suback(draw(packet_ids), tuple(granted), draw(property_sets(properties.SUBACK, version)))
    if kind == 4:
        gone = draw(st.lists(reasons_of(properties.UNSUBACK), min_size=1, max_size=4)) if v5 else []
        return Unsuback(draw(packet_ids), tuple(gone), draw(property_sets(properties.UNSUBACK, version)))
    if kind == 5:
        return Pingresp()
    if kind == 6:
        reason = draw(st.sampled_from(sorted(codec.EXPEL_REASONS)))
        found = draw(property_sets(properties.DISCONNECT, version, ("session_expiry_s",)))
        return Disconnect(reason, found)
    return auth(draw, (0x00, 0x18))


def auth(draw: st.DrawFn, reasons: tuple[int, int]) -> Auth:
    found = draw(property_sets(properties.AUTH, Version.V5, ("authentication_method",)))
    if found == NO_PROPERTIES and draw(st.booleans()):
        return Auth()
    return Auth(
        draw(st.sampled_from(reasons)),
        Properties(
            authentication_method=draw(texts),
            authentication_data=found.authentication_data,
            reason_string=found.reason_string,
            user=found.user,
        ),
    )
