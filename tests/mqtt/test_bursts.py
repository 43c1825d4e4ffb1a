"""Bursts: what is found in a buffer is what the codec would have read, packet by packet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.matching import compile_kernels
from tidings.mqtt import bursts
from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.fanout import spans
from tidings.mqtt.packets import Puback, Publish, Version

TOPICS = ("a", "t/1", "t/2", "x" * 120)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


publishes = st.builds(
    lambda topic, size, qos, packet_id, retain, dup: Publish(
        topic,
        bytes(size % 251 for _ in range(size)),
        qos,
        retain,
        dup and qos > 0,
        packet_id if qos else 0,
    ),
    st.sampled_from(TOPICS),
    st.sampled_from((0, 1, 5, 5, 5, 100, 130, 20_000)),
    st.sampled_from((0, 0, 0, 1, 1, 2)),
    st.integers(1, 65_535),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((False, False, False, True)),
)


@given(st.booleans(), st.lists(publishes, max_size=12), st.data())
def test_bursts_and_the_codec_read_the_same_packets(
    v5: bool, packets: list[Publish], data: st.DataObject
) -> None:
    version = Version.V5 if v5 else Version.V311
    whole = b"".join(encode(packet, version) for packet in packets)
    cut = data.draw(st.integers(0, len(whole)))
    decoder = Decoder(packet_bytes_max=1_000_000, version=version)
    found: list[Publish] = []
    for part in (whole[:cut], whole[cut:]):
        decoder.feed(part)
        while True:
            burst = bursts.read(decoder.data, decoder.at, v5)
            if burst is not None:
                decoder.at = burst.end
                assert burst.packets() == [
                    encode(packet, version) for packet in burst.publishes(burst.key[2:].decode())
                ]
                found += burst.publishes(burst.key[2:].decode())
                continue
            packet = decoder.next()
            if packet is None:
                break
            assert isinstance(packet, Publish)
            found.append(packet)
    assert found == packets


def test_equal_heads_are_one_burst_and_one_size() -> None:
    packets = [Publish("t", b"12345") for _ in range(100)]
    burst = bursts.read(b"".join(encode(packet, Version.V5) for packet in packets), 0, v5=True)
    assert burst is not None
    assert (burst.count, burst.sizes, len(burst.parts)) == (100, (5,), 1)


def test_other_sizes_of_the_same_topic_stay_in_the_burst() -> None:
    sizes = [1, 1, 2, 300, 300, 1]
    data = b"".join(encode(Publish("t", b"x" * size), Version.V311) for size in sizes)
    burst = bursts.read(data, 0, v5=False)
    assert burst is not None
    assert (burst.count, list(burst.sizes), burst.end) == (6, sizes, len(data))


@pytest.mark.parametrize("first", [0x31, 0x33, 0x34, 0x38, 0x3A, 0x10, 0x40, 0x00])
def test_what_needs_the_codec_is_not_a_burst(first: int) -> None:
    data = bytes([first]) + encode(Publish("t", b"x"), Version.V311)[1:]
    assert bursts.read(data, 0, v5=False) is None


@pytest.mark.parametrize(
    "data",
    [
        "30 00",
        "30 01 00",
        "30 02 00 00",  # no topic
        "30 03 00 09 61",  # a topic longer than the packet
        "30 03 00 01 61 30",  # 5.0 without a property length
        "32 05 00 01 61 00 00",  # packet identifier 0
        "32 04 00 01 61 00",
        "30 05 00 01 61 01 26",  # properties
        "30 ff 7f 00 01 61",  # not whole
        "30 80 80 01 00 01 61 00",  # a length of three bytes
    ],
)
def test_what_is_malformed_or_not_whole_is_left_to_the_codec(data: str) -> None:
    assert bursts.read(bytes.fromhex(data), 0, v5=True) is None


@given(st.lists(st.integers(1, 65_535)), st.binary(max_size=6))
def test_acknowledgements_in_a_row(packet_ids: list[int], rest: bytes) -> None:
    data = b"".join(encode(Puback(packet_id), Version.V5) for packet_id in packet_ids)
    found, end = bursts.acknowledgements(data + b"\xc0" + rest, 0)
    assert (found, end) == (packet_ids, len(data))


@given(st.integers(0, 1), st.booleans(), st.booleans(), st.lists(st.sampled_from((3, 3, 140)), min_size=1))
def test_a_burst_for_clients_of_another_version_is_what_the_codec_writes(
    qos: int, from_v5: bool, to_v5: bool, sizes: list[int]
) -> None:
    packets = [Publish("t", b"y" * size, qos, packet_id=at * qos) for at, size in enumerate(sizes, 1)]
    source = Version.V5 if from_v5 else Version.V311
    target = Version.V5 if to_v5 else Version.V311
    burst = bursts.read(b"".join(encode(packet, source) for packet in packets), 0, from_v5)
    assert burst is not None
    plain = b"".join(encode(Publish("t", packet.payload), target) for packet in packets)
    assert b"".join(burst.plain(to_v5, b"")) == plain
    heads, tails = burst.acknowledged(to_v5, b"")
    numbered = b"".join(
        head + (at + 500).to_bytes(2, "big") + tail
        for at, (head, tail) in enumerate(zip(heads, tails, strict=True))
    )
    assert numbered == b"".join(
        encode(Publish("t", packet.payload, 1, packet_id=at + 500), target)
        for at, packet in enumerate(packets)
    )


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(TOPICS[1:3]), st.integers(1, 300)), max_size=4),
    st.data(),
)
def test_many_packets_are_compared_at_once_as_one_by_one(
    v5: bool, runs: list[tuple[str, int]], data: st.DataObject
) -> None:
    version = Version.V5 if v5 else Version.V311
    packets = [Publish(topic, bytes(5), 0) for topic, count in runs for _ in range(count)]
    whole = b"".join(encode(packet, version) for packet in packets)
    whole = whole[: len(whole) - data.draw(st.integers(0, min(12, len(whole))))]
    found: list[Publish] = []
    at = 0
    while (burst := bursts.read(whole, at, v5)) is not None:
        found += burst.publishes(burst.key[2:].decode())
        placed = spans(np.array(burst.parts, dtype=np.int64), burst.count)
        assert placed is not None
        begins, bodies, ends, alike = placed
        assert alike == (len({*burst.sizes}) == 1)
        assert [whole[begin:end] for begin, end in zip(begins, ends, strict=True)] == burst.packets()
        assert [whole[begin:end] for begin, end in zip(bodies, ends, strict=True)] == burst.payloads()
        at = burst.end
    assert found == packets[: len(found)]
    assert len(whole) - at < len(encode(packets[-1], version)) if packets else not found
