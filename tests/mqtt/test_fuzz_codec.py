"""What holds for the codec whatever is sent, and wherever it is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.mqtt import strategies
from tidings.mqtt.codec import Decoder, Malformed, encode
from tidings.mqtt.packets import AnyPacket, Version

PACKET_BYTES_MAX = 4096


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at these places, which are taken modulo its length."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def read_all(decoder: Decoder, chunks: list[bytes]) -> list[AnyPacket]:
    packets: list[AnyPacket] = []
    for chunk in chunks:
        decoder.feed(chunk)
        while (packet := decoder.next()) is not None:
            packets.append(packet)
    return packets


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


@given(st.data(), strategies.versions, CUTS)
def test_what_a_client_sends_is_what_a_server_reads(
    data: st.DataObject, version: Version, cuts: list[int]
) -> None:
    sent: list[AnyPacket] = [data.draw(strategies.connects(version))]
    sent += data.draw(st.lists(strategies.from_client(version), max_size=4))
    decoder = Decoder(packet_bytes_max=1 << 20)
    stream = b"".join(encode(packet, version) for packet in sent)
    assert read_all(decoder, pieces(stream, cuts)) == sent
    assert decoder.version is version
    assert decoder.held() == 0


@given(st.data(), strategies.versions, CUTS)
def test_what_a_server_sends_is_what_a_client_reads(
    data: st.DataObject, version: Version, cuts: list[int]
) -> None:
    sent = data.draw(st.lists(strategies.from_server(version), min_size=1, max_size=4))
    decoder = Decoder(packet_bytes_max=1 << 20, version=version, client=True)
    stream = b"".join(encode(packet, version) for packet in sent)
    assert read_all(decoder, pieces(stream, cuts)) == sent


@given(st.data(), strategies.versions)
def test_what_was_read_is_written_in_the_same_bytes(data: st.DataObject, version: Version) -> None:
    written = encode(data.draw(strategies.from_client(version)), version)
    decoder = Decoder(packet_bytes_max=1 << 20, version=version)
    decoder.feed(written)
    packet = decoder.next()
    assert packet is not None
    assert encode(packet, version) == written


def read_until_malformed(decoder: Decoder, chunks: list[bytes]) -> None:
    """Read as a driver would, and see at every step how much is held."""
    told: Malformed | None = None
    for chunk in chunks:
        decoder.feed(chunk)
        try:
            while decoder.next() is not None:
                pass
        except Malformed as malformed:
            told = malformed
            break
        assert decoder.held() <= decoder.packet_bytes_max
    if told is not None:
        assert told.reason >= 0x80
        assert told.text.endswith(".")
        assert told.text.isprintable()


roles = st.one_of(
    st.tuples(st.none() | strategies.versions, st.just(False)),
    st.tuples(strategies.versions, st.just(True)),
)


@given(roles, st.binary(max_size=200), CUTS)
def test_any_bytes_are_packets_or_malformed(
    role: tuple[Version | None, bool], data: bytes, cuts: list[int]
) -> None:
    version, client = role
    decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX, version=version, client=client)
    read_until_malformed(decoder, pieces(data, cuts))


@given(
    st.data(),
    strategies.versions,
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    CUTS,
)
def test_packets_with_wrong_bytes_are_packets_or_malformed(
    data: st.DataObject,
    version: Version,
    client: bool,
    wrong: list[tuple[int, int]],
    cuts: list[int],
) -> None:
    kinds = strategies.from_server(version) if client else strategies.from_client(version)
    sent = data.draw(st.lists(kinds, min_size=1, max_size=3))
    stream = bytearray(b"".join(encode(packet, version) for packet in sent))
    for place, byte in wrong:
        stream[place % len(stream)] = byte
    decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX, version=version, client=client)
    read_until_malformed(decoder, pieces(bytes(stream), cuts))


@given(st.data(), strategies.versions)
def test_a_packet_that_has_not_all_come_is_waited_for(data: st.DataObject, version: Version) -> None:
    whole = encode(data.draw(strategies.connects(version)), version)
    at = data.draw(st.integers(0, len(whole) - 1))
    decoder = Decoder(packet_bytes_max=PACKET_BYTES_MAX)
    decoder.feed(whole[:at])
    assert decoder.next() is None
    assert decoder.held() == at
