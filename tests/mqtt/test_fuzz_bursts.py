"""The short way of reading, among wrong bytes: nothing is a burst that the decoder would not read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.mqtt import strategies
from tidings.mqtt import bursts
from tidings.mqtt.codec import Decoder, Malformed, encode, topic_of
from tidings.mqtt.packets import AnyPacket, Publish, Version


def decoded(data: bytes, version: Version) -> list[AnyPacket] | None:
    """All packets in these bytes, None if some of them are not MQTT."""
    decoder = Decoder(packet_bytes_max=1 << 20, version=version)
    decoder.feed(data)
    packets: list[AnyPacket] = []
    try:
        while (packet := decoder.next()) is not None:
            packets.append(packet)
    except Malformed:
        return None
    assert decoder.held() == 0
    return packets


@st.composite
def streams(draw: st.DrawFn, version: Version) -> bytes:
    """Publications to few topics, mostly of equal sizes, with a few other packets and wrong bytes."""
    topics = draw(st.lists(strategies.topics, min_size=1, max_size=2))
    sizes = draw(st.lists(st.sampled_from([0, 1, 5, 130, 300]), min_size=1, max_size=2))
    packets: list[AnyPacket] = []
    for number in range(draw(st.integers(1, 12))):
        qos = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
        packets.append(
            Publish(
                draw(st.sampled_from(topics)),
                bytes(draw(st.sampled_from(sizes))),
                qos,
                packet_id=number + 1 if qos else 0,
            )
        )
        if draw(st.integers(0, 9)) == 0:
            packets.append(draw(strategies.from_client(version)))
    stream = bytearray(b"".join(encode(packet, version) for packet in packets))
    for _ in range(draw(st.integers(0, 2))):
        stream[draw(st.integers(0, len(stream) - 1))] = draw(
            st.sampled_from([0, 1, 2, 0x23, 0x30, 0x32, 0x80])
        )
    return bytes(stream[: draw(st.integers(1, len(stream)))] if draw(st.booleans()) else stream)


@given(st.data(), strategies.versions)
def test_a_burst_is_what_the_decoder_reads(data: st.DataObject, version: Version) -> None:
    stream = data.draw(streams(version))
    at = 0
    while at < len(stream):
        burst = bursts.read(stream, at, version is Version.V5)
        if burst is None:
            at += 1
            continue
        assert at == burst.start < burst.end <= len(stream)
        expected = decoded(stream[burst.start : burst.end], version)
        try:
            topic = topic_of(burst.key[2:])
        except Malformed:
            assert expected is None
        else:
            assert list(burst.publishes(topic)) == expected
            assert burst.count == len(expected)
            assert b"".join(burst.packets()) == stream[burst.start : burst.end]
        at = burst.end
