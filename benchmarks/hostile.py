"""What one hostile client does to others: the ping of two clients before, during and after each act.

    python benchmarks/hostile.py [ACT ...] [--seconds 5]

For each act a broker of its own is started on loopback. Two clients ping it, each answer before the next
request; a hostile client, in a process of its own, connects and acts. "During" lasts until the act is over,
at most `--seconds`; then its connections are closed, and "after" begins. The broker's CPU time is that of
during and after. The bound is one of work: on a machine that does other things a ping may wait longer though
nothing is wrong, so look at "before" as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from tidings.mqtt.codec import Decoder, encode
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Connack,
    Connect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Version,
)
from tidings.service.users import add_user

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mqtt_brokers import free_ports, running

V5 = Version.V5

BOUND_MS = 50.0
PING_EVERY_S = 0.005
QUIET_S = 1.5
"""How long pings are taken before and after."""

DISJUNCTS = " AND ".join(f"(a{at} > 1 OR b{at} > 1)" for at in range(6))
"""Of two each, six times: 64 in normal form."""

TERMS = " AND ".join(["y7 > 1", *(f"z{at} > 1" for at in range(7))])
USER, PASSWORD = "good", b"a long password"


class Peer:
    """A client that blocks: one socket, no thread of its own."""

    def __init__(
        self, port: int, client: str = "", user: str | None = None, password: bytes | None = None
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder(packet_bytes_max=1 << 28, version=V5, client=True)
        self.send(Connect(V5, client, username=user, password=password if user is not None else None))
        self.connack = self.wait(Connack)

    def send(self, *packets: AnyPacket) -> None:
        self.send_bytes(b"".join(encode(packet, V5) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait(self, kind: type[AnyPacket]) -> AnyPacket:
        """The next packet of a kind; others are passed over."""
        while True:
            while (packet := self._decoder.next()) is not None:
                if isinstance(packet, kind):
                    return packet
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the broker has closed")
            self._decoder.feed(data)

    def close(self) -> None:
        self._socket.close()


class Pinger(threading.Thread):
    """Pings until it is told to stop; `taken` has when each began and how long it took, in milliseconds."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self._peer = Peer(port, name)
        self.taken: list[tuple[float, float]] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while not self._stopped.wait(PING_EVERY_S):
                began = time.monotonic()
                self._peer.send(Pingreq())
                self._peer.wait(Pingresp)
                self.taken.append((began, (time.monotonic() - began) * 1000))

    def stop(self) -> None:
        self._stopped.set()
        self.join(120)
        self._peer.close()


def subscribe(number: int, topic: str, *where: str) -> Subscribe:
    return Subscribe(number, (Asked(topic),), Properties(user=tuple(("where", text) for text in where)))


@dataclass(frozen=True)
class Scene:
    """What an act has: where the broker is, and when to end."""

    port: int
    http_port: int
    over: Event

    def hold(self, seconds: float = 3600.0) -> None:
        """Do nothing more, with what is open, until the end of the act."""
        self.over.wait(seconds)


# The acts. Each is one hostile client, which may have several connections. Names are what the table shows.


def many_where(scene: Scene) -> None:
    """One SUBSCRIBE of 23 kB: ninety content filters, by a client without any right."""
    peer = Peer(scene.port, "hostile")
    peer.send(subscribe(1, "t", *(f"{DISJUNCTS} AND {TERMS} AND x > {at}" for at in range(90))))
    peer.wait(Suback)


def dense_filter(scene: Scene) -> None:
    """Ten SUBSCRIBEs, each with one filter of 64 disjuncts with 14 terms."""
    peer = Peer(scene.port, "hostile")
    for at in range(10):
        peer.send(subscribe(at + 1, "t", f"{DISJUNCTS} AND {TERMS} AND x > {at}"))
        peer.wait(Suback)


def dense_filters_of_four(scene: Scene) -> None:
    """Four connections that send such filters without a pause, and read nothing."""
    packets = b"".join(
        encode(subscribe(at + 1, f"t/{at}", f"{DISJUNCTS} AND {TERMS} AND x > {at}"), V5) for at in range(500)
    )
    peers = [Peer(scene.port, f"hostile-{at}") for at in range(4)]
    for peer in peers:
        threading.Thread(target=_send_quietly, args=(peer, packets), daemon=True).start()
    scene.hold(4.0)


def like_patterns(scene: Scene) -> None:
    """60 patterns with wildcards, and then one publication of 1 MB that they are matched against."""
    patterns = " OR ".join(f"a LIKE '%{'a_' * 50}c%{at}%'" for at in range(60))
    peer = Peer(scene.port, "hostile")
    peer.send(subscribe(1, "t", patterns))
    peer.wait(Suback)
    peer.send(Publish("t", json.dumps({"a": "a" * 1_000_000}).encode(), 1, packet_id=1))
    peer.wait(Puback)


def like_fire(scene: Scene) -> None:
    """`LIKE '%_fire%'`, and ten publications of 1 MB."""
    peer = Peer(scene.port, "hostile")
    peer.send(subscribe(1, "t", "a LIKE '%_fire%'"))
    peer.wait(Suback)
    payload = json.dumps({"a": "a" * 1_000_000}).encode()
    for at in range(10):
        peer.send(Publish("t", payload, 1, packet_id=at + 1))
        peer.wait(Puback)


def deep_filter(number: int) -> str:
    """A topic filter of 190 levels; topics of as many `x` match all but the last level of each."""
    return "/".join(["+x"[number >> bit & 1] for bit in range(10)] + ["+"] * 179 + ["never"])


def deep_topics(scene: Scene) -> None:
    """1,000 subscriptions of 190 levels with wildcards, then 30 topics that nobody has seen before."""
    peer = Peer(scene.port, "hostile")
    for at in range(10):
        filters = (deep_filter(100 * at + one) for one in range(100))
        peer.send(Subscribe(at + 1, tuple(Asked(text) for text in filters)))
        peer.wait(Suback)
    for at in range(30):
        peer.send(Publish("x/" * 189 + str(at), b"x", 1, packet_id=at + 1))
        peer.wait(Puback)


def small_objects(scene: Scene) -> None:
    """JSON of many small objects, 1 MB each, that a content filter has to look at."""
    peer = Peer(scene.port, "hostile")
    peer.send(subscribe(1, "t", "a > 1"))
    peer.wait(Suback)
    payload = json.dumps({"b": [{"c": at} for at in range(70_000)]}).encode()
    for at in range(10):
        peer.send(Publish("t", payload, 1, packet_id=at + 1))
        peer.wait(Puback)


def many_topic_filters(scene: Scene) -> None:
    """One SUBSCRIBE of 9,000 topic filters."""
    peer = Peer(scene.port, "hostile")
    peer.send(Subscribe(1, tuple(Asked(f"a/{at}/+") for at in range(9_000))))
    peer.wait(Suback)


def retained_messages(scene: Scene) -> None:
    """60,000 retained messages, which are there before, and 20 filtered subscriptions to all of them."""
    peers = [Peer(scene.port, f"hostile-{at}") for at in range(20)]
    for at, peer in enumerate(peers):
        peer.send(subscribe(1, "r/#", f"a = {at} AND b > 1"))
    for peer in peers:
        peer.wait(Suback)
    scene.hold()


def retain(scene: Scene) -> None:
    """What is there before `retained_messages` begins."""
    peer = Peer(scene.port, "retainer")
    for begin in range(0, 60_000, 500):
        peer.send(
            *(
                Publish(
                    f"r/{at}",
                    json.dumps({"a": at, "b": 0, "c": "x" * 40}).encode(),
                    1,
                    True,
                    False,
                    at - begin + 1,
                )
                for at in range(begin, begin + 500)
            )
        )
        for _ in range(500):
            peer.wait(Puback)
    peer.close()


def wrong_passwords(scene: Scene) -> None:
    """600 CONNECTs a second, each with another wrong password, by five names of which one exists."""
    number = 0
    began = time.monotonic()
    peers: list[socket.socket] = []
    while not scene.over.is_set():
        number += 1
        name = ("other", "root", "admin", "eve", f"n{number}")[number % 5]
        connect = Connect(V5, "", True, 0, name, b"wrong %d" % number)
        with contextlib.suppress(OSError):
            one = socket.create_connection(("127.0.0.1", scene.port), 5)
            one.sendall(encode(connect, V5))
            peers.append(one)
        if len(peers) > 3_000:
            peers.pop(0).close()
        time.sleep(max(0.0, began + number / 600 - time.monotonic()))


def good_user(scene: Scene) -> str:
    """How long it takes a user who has not been here before, under `wrong_passwords`."""
    began = time.monotonic()
    refused = 0
    while time.monotonic() - began < 30:
        with contextlib.suppress(OSError):
            peer = Peer(scene.port, "good", USER, PASSWORD)
            peer.close()
            assert isinstance(peer.connack, Connack)
            if not peer.connack.reason:
                return f"a good user was in after {time.monotonic() - began:.2f} s, refused {refused} times"
            refused += 1
        time.sleep(0.2)
    return f"a good user was not in within 30 s, refused {refused} times"


def held_requests(scene: Scene) -> None:
    """64 HTTP requests that never end."""
    held = [socket.create_connection(("127.0.0.1", scene.http_port), 5) for _ in range(64)]
    for one in held:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
    scene.hold()


def health(scene: Scene) -> str:
    """What `/health` and `/ready` say meanwhile."""
    told = []
    for page in ("health", "ready"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{scene.http_port}/{page}", timeout=5) as answer:
                told.append(f"/{page} {answer.status}")
        except urllib.error.HTTPError as error:
            told.append(f"/{page} {error.code}")
        except OSError as error:
            told.append(f"/{page} {error}")
    return ", ".join(told)


@dataclass(frozen=True)
class Act:
    """One row of the table."""

    do: Callable[[Scene], None]
    before: Callable[[Scene], None] | None = None
    asked: Callable[[Scene], str] | None = None
    """What is asked a second after it has begun, beside the pings."""

    rights: bool = True
    """Whether clients may subscribe."""


ACTS = (
    Act(many_where, rights=False),
    Act(dense_filter),
    Act(dense_filters_of_four),
    Act(like_patterns),
    Act(like_fire),
    Act(deep_topics),
    Act(small_objects),
    Act(many_topic_filters),
    Act(retained_messages, before=retain),
    Act(wrong_passwords, asked=good_user),
    Act(held_requests, asked=health),
)


def _send_quietly(peer: Peer, data: bytes) -> None:
    with contextlib.suppress(OSError):
        peer.send_bytes(data)


def _act(do: Callable[[Scene], None], scene: Scene) -> None:
    with contextlib.suppress(OSError):
        do(scene)


def measure(act: Act, folder: Path, seconds: float) -> str:
    """The row of one act."""
    folder.mkdir()
    users, rules = folder / "users", folder / "rules.toml"
    add_user(users, USER, PASSWORD)
    add_user(users, "other", b"something")
    allow = "any" if act.rights else "publish"
    rules.write_text(f'[[rule]]\nallow = true\naction = "{allow}"\ntopic = "#"\n')
    (http_port,) = free_ports(1)
    options = ["--http", f"127.0.0.1:{http_port}"]
    options += ["--set", f"users_file={users}", "--set", f"access_file={rules}"]
    with running("tidings", folder / "broker", options) as broker:
        scene = Scene(broker.port, http_port, multiprocessing.Event())
        if act.before is not None:
            act.before(scene)
        pingers = [Pinger(broker.port, f"pinger-{at}") for at in range(2)]
        for pinger in pingers:
            pinger.start()
        time.sleep(QUIET_S)
        used = broker.usage().cpu_s
        began = time.monotonic()
        hostile = multiprocessing.Process(target=_act, args=(act.do, scene), daemon=True)
        hostile.start()
        told = ""
        if act.asked is not None:
            time.sleep(1.0)
            told = act.asked(scene)
        hostile.join(max(0.0, began + seconds - time.monotonic()))
        scene.over.set()
        hostile.join(1.0)
        unfinished = hostile.is_alive()
        if unfinished:
            hostile.kill()
            hostile.join()
        ended = time.monotonic()
        time.sleep(QUIET_S)
        used = broker.usage().cpu_s - used
        for pinger in pingers:
            pinger.stop()
    spans = ((0.0, began), (began, ended), (ended, float("inf")))
    cells = [
        _cell([ms for pinger in pingers for at, ms in pinger.taken if low <= at < high])
        for low, high in spans
    ]
    late = max(ms for pinger in pingers for at, ms in pinger.taken if at >= began) > BOUND_MS
    name = act.do.__name__.replace("_", " ")
    notes = [
        *(["not over in time"] if unfinished else []),
        *([told] if told else []),
        *(["LATE"] if late else []),
    ]
    return f"{name:<24}" + "".join(f"{cell:>22}" for cell in cells) + f"{used:>8.2f}  {'; '.join(notes)}"


def _cell(taken: Sequence[float]) -> str:
    if not taken:
        return "none"
    ordered = sorted(taken)
    shown = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])
    return " / ".join(f"{ms:.1f}" if ms < 100 else f"{ms:.0f}" for ms in shown)


def main(arguments: Sequence[str]) -> int:
    named = {act.do.__name__: act for act in ACTS}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("acts", nargs="*", metavar="ACT", help=f"of {', '.join(named)}; all by default")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long an act may last; 5 by default")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.acts if name not in named]:
        parser.error(f"there is no act {unknown[0]!r}; there are {', '.join(named)}")
    print(f"ping in ms: p50 / p99 / max; bound {BOUND_MS:.0f} ms\n")
    print(f"{'act':<24}" + "".join(f"{text:>22}" for text in ("before", "during", "after")) + f"{'CPU s':>8}")
    with tempfile.TemporaryDirectory(prefix="tidings-hostile-") as folder:
        for name in options.acts or named:
            print(measure(named[name], Path(folder) / name, options.seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
