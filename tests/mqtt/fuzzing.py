"""A small fuzzer that is guided by coverage: what reaches a new line of `tidings.mqtt` is varied further.

Attacks (`hostile`) are changed in many small ways, byte by byte and packet by packet. One that goes from one
line to another as none did before joins the corpus. Everything comes from a seed, so what was found once is
found again. By hand, for as long as wanted:

    python -m tests.mqtt.fuzzing --runs 100000 --seed 7
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tidings.mqtt
from tests.mqtt import hostile
from tests.mqtt.hostile import SETTINGS, STATES, Move
from tidings.mqtt.codec import encode
from tidings.mqtt.packets import (
    AnyPacket,
    Asked,
    Auth,
    Connect,
    Disconnect,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
    Version,
    Will,
)

FOLDER = str(Path(tidings.mqtt.__file__).parent)
BYTES_MAX = 6000
PIECES_MAX = 12
REPLY = "$tidings/reply/r"

WORDS: list[AnyPacket] = [
    Connect(Version.V5, hostile.HOSTILE, False, 30, properties=Properties(session_expiry_s=20)),
    Connect(Version.V5, "", True, 0, "name", b"word", properties=Properties(maximum_packet_bytes=40)),
    Connect(Version.V311, hostile.HOSTILE, True, 5, will=Will("a/will", b"w", 2, True)),
    Connect(Version.V5, "w", will=Will("a/w", b"w", 1, False, Properties(will_delay_s=3))),
    Publish("a/b", b"hello"),
    Publish("b/a", b"hullo"),
    Publish("a/b", b"hello", retain=True),
    Publish("a/b", b"", retain=True),
    Publish("b/c", b'{"severity": 4}', 1, packet_id=1),
    Publish("c/d", b'{"severity": 4}', 2, packet_id=2),
    Publish("a/b", b"again", 2, dup=True, packet_id=2),
    Publish("a/b", b"x", properties=Properties(topic_alias=1)),
    Publish("", b"x", properties=Properties(topic_alias=1)),
    Publish("a/b", b"x", 1, packet_id=3, properties=Properties(message_expiry_s=1, user=(("k", "v"),))),
    Publish("a/b", b"\xff", properties=Properties(payload_format=1, content_type="t")),
    Publish("$SYS/broker/uptime", b"x", 1, packet_id=4),
    Publish("$share/g/b/c", b"x", 1, packet_id=5),
    Publish("view/severe/a", b"x", 2, packet_id=6),
    Puback(1),
    Puback(2, 0x97),
    Pubrec(1),
    Pubrec(2, 0x80),
    Pubrel(1),
    Pubrel(2),
    Pubcomp(1),
    Pubcomp(2),
    Subscribe(10, (Asked("#", 2),)),
    Subscribe(11, (Asked("a/+", 1, True, True, 1), Asked("$share/g/a/#", 2))),
    Subscribe(12, (Asked("c/#", 0),), Properties(user=(("where", "severity >= 3"),))),
    Subscribe(13, (Asked("c/#", 0),), Properties(user=(("where", "severity >= "), ("unknown", "assume")))),
    Subscribe(14, (Asked("a/b", 1),), Properties(subscription_identifiers=(300,))),
    Subscribe(15, (Asked("a/#/b", 1), Asked("$share//a", 1), Asked("$SYS/#", 1))),
    Subscribe(16, (Asked("view/severe/#", 1), Asked(REPLY, 1))),
    Subscribe(17, (Asked("a", 0),), Properties(user=(("every", "5s"),))),
    Unsubscribe(20, ("#", "a/+")),
    Unsubscribe(21, ("$share/g/a/#",)),
    Pingreq(),
    Disconnect(),
    Disconnect(4, Properties(session_expiry_s=10)),
    Auth(0x18, Properties(authentication_method="m")),
    Publish(
        "$tidings/view/add",
        b'{"name": "severe", "from": "a/#", "where": "severity >= 3"}',
        1,
        packet_id=7,
        properties=Properties(response_topic=REPLY, correlation_data=b"1"),
    ),
    Publish(
        "$tidings/view/remove",
        b'{"name": "severe"}',
        1,
        packet_id=8,
        properties=Properties(response_topic=REPLY),
    ),
    Publish("$tidings/topic/list", b"{}", 1, packet_id=9, properties=Properties(response_topic=REPLY)),
    Publish(
        "$tidings/topic/declare",
        b'{"text": "[topic.\\"d/e\\"]\\nkind = \\"plain\\"", "force": false}',
        1,
        packet_id=30,
        properties=Properties(response_topic=REPLY),
    ),
    Publish("a/b", bytes(SETTINGS.packet_bytes_max // 4), 1, packet_id=31),
]
"""What a mutation may put in: packets that mean something to a front."""

BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)


@dataclass(frozen=True)
class Case:
    """One attack."""

    state: int
    version: Version
    said: tuple[bytes | Move, ...]

    @property
    def size(self) -> int:
        return sum(1 + (len(each) if isinstance(each, bytes) else 0) for each in self.said)

    def shown(self) -> str:
        """The case as a line of Python that runs it."""
        said = ", ".join(
            f'bytes.fromhex("{each.hex()}")' if isinstance(each, bytes) else str(each) for each in self.said
        )
        return f"run({STATES[self.state].__name__}, Version.{self.version.name}, [{said}])"

    def run(self, watch: hostile.Watch = hostile.at_once) -> None:
        hostile.run(STATES[self.state], self.version, self.said, watch)


@dataclass
class Coverage:
    """Which lines of a folder were run, and from which other line of the same function they were reached."""

    folder: str
    steps: set[tuple[CodeType, int, int]] = field(default_factory=set)
    _codes: dict[CodeType, bool] = field(default_factory=dict)

    def watch(self, act: Callable[[], None]) -> None:
        """Do something, and note its steps."""
        outer = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            act()
        finally:
            sys.settrace(outer)

    def _on_call(self, frame: FrameType, _event: str, _about: Any) -> Any:
        code = frame.f_code
        ours = self._codes.get(code)
        if ours is None:
            ours = self._codes[code] = code.co_filename.startswith(self.folder)
        if not ours:
            return None
        steps = self.steps
        before = 0

        def on_line(frame: FrameType, event: str, _about: Any) -> Any:
            nonlocal before
            if event == "line":
                line = frame.f_lineno
                steps.add((code, before, line))
                before = line
            return on_line

        return on_line

    def lines(self) -> set[tuple[str, int]]:
        return {(code.co_filename, line) for code, _, line in self.steps}


def lines_of(folder: str) -> set[tuple[str, int]]:
    """All lines of functions in a folder; those of modules and classes are run when they are imported."""
    found: set[tuple[str, int]] = set()

    def within(code: CodeType) -> Iterator[CodeType]:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield constant
                yield from within(constant)

    for path in sorted(Path(folder).glob("*.py")):
        module = compile(path.read_text(), str(path), "exec")
        for code in within(module):
            # Of functions alone: a class body has no fast locals.
            if code.co_flags & 0x01:
                found |= {(str(path), line) for _, _, line in code.co_lines() if line is not None}
                found.discard((str(path), code.co_firstlineno))
    return found


class Fuzzer:
    """Cases that have reached something, and how new ones are made of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.coverage = Coverage(FOLDER)
        self.runs = 0
        self.corpus: list[Case] = []
        self.findings: dict[str, Case] = {}
        """By what went wrong and where: the shortest case that shows it."""

    def seeds(self) -> Iterator[Case]:
        """Each state with everything that can be said, one packet in a piece."""
        for version in Version:
            kinds: dict[type, list[bytes]] = {}
            for packet in WORDS:
                kinds.setdefault(type(packet), []).append(_word(packet, version))
            connects, publishes, subscribes = kinds[Connect], kinds[Publish], kinds[Subscribe]
            answers = kinds[Puback] + kinds[Pubrec] + kinds[Pubrel] + kinds[Pubcomp]
            first, second = publishes[:2]
            for state in range(len(STATES)):
                yield Case(state, version, ())
                yield Case(state, version, (connects[0], *publishes[:10]))
                yield Case(state, version, (connects[0], *[first, second] * 4, first * 3))
                yield Case(state, version, (connects[1], b"".join(publishes[8:]), b"".join(answers)))
                yield Case(state, version, (connects[2], *subscribes[:5], Move.FEED, Move.WAIT))
                yield Case(state, version, (subscribes[0], Move.CONGEST, Move.FEED, Move.RELIEVE))
                yield Case(state, version, (subscribes[0], Move.FEED, Move.RETURN, *answers))
                yield Case(state, version, (*subscribes[5:], *publishes[-6:], Move.CRASH, publishes[-4]))

    def run(self, case: Case) -> None:
        """Run a case, and keep it if it has reached something new."""
        self.runs += 1
        before = len(self.coverage.steps)
        try:
            case.run(self.coverage.watch)
        except Exception as error:  # noqa: BLE001
            what = _described(error)
            known = self.findings.get(what)
            if known is None or case.size < known.size:
                self.findings[what] = case
            return
        if len(self.coverage.steps) > before:
            self.corpus.append(case)

    def fuzz(self, runs: int) -> None:
        for case in self.seeds():
            if self.runs < runs:
                self.run(case)
        while self.runs < runs:
            self.run(self.vary(self.random.choice(self.corpus)))

    def vary(self, case: Case) -> Case:
        """A case a little different from another."""
        draw = self.random
        state, version, said = case.state, case.version, list(case.said)
        for _ in range(draw.randint(1, 4)):
            kind = draw.randrange(13)
            at = draw.randrange(len(said)) if said else 0
            each = said[at] if said else b""
            if kind == 0:
                state = draw.randrange(len(STATES))
            elif kind == 1:
                version = draw.choice(list(Version))
            elif kind == 2:
                said.insert(at, draw.choice(list(Move)))
            elif kind <= 5 or not said:
                word = _word(draw.choice(WORDS), draw.choice([version, version, *Version]))
                said.insert(draw.randint(0, len(said)), word)
            elif kind == 6:
                del said[at]
            elif kind == 7:
                other = draw.choice(self.corpus).said
                said += other[draw.randint(0, len(other)) :]
            elif isinstance(each, Move):
                said[at] = draw.choice(list(Move))
            elif kind == 8:
                following = said[at + 1 : at + 2]
                if following and isinstance(following[0], bytes):
                    said[at : at + 2] = [each + following[0]]
            elif kind == 9:
                cut = draw.randint(0, len(each))
                said[at : at + 1] = [each[:cut], each[cut:]]
            else:
                said[at] = self._scratch(each)
        kept: list[bytes | Move] = []
        left = BYTES_MAX + SETTINGS.packet_bytes_max * draw.randint(0, 1)
        for each in said[:PIECES_MAX]:
            kept.append(each[:left] if isinstance(each, bytes) else each)
            left -= len(each) if isinstance(each, bytes) else 0
            left = max(left, 0)
        return Case(state, version, tuple(kept))

    def _scratch(self, chunk: bytes) -> bytes:
        """The same bytes, but for a few."""
        draw = self.random
        data = bytearray(chunk or b"\0")
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(len(data))
            kind = draw.randrange(5)
            if kind == 0:
                data[at] ^= 1 << draw.randrange(8)
            elif kind == 1:
                data[at] = draw.choice(BYTES)
            elif kind == 2:
                data[at:at] = draw.randbytes(draw.randint(1, 4))
            elif kind == 3 and len(data) > 1:
                del data[at : at + draw.randint(1, 4)]
            else:
                end = min(len(data), at + draw.randint(1, 60))
                data[at:at] = data[at:end] * draw.choice((1, 1, 2, 20))
            if not data:
                break
        return bytes(data)


def _described(error: Exception) -> str:
    """An error and the place where it came up."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {str(error)[:200]}"


def _word(packet: AnyPacket, version: Version) -> bytes:
    """A packet as bytes; of AUTH, which 3.1.1 lacks, those of 5.0."""
    return encode(packet, Version.V5 if isinstance(packet, Auth) else version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="stop after so many minutes, whatever --runs says"
    )
    options = parser.parse_args()
    fuzzer = Fuzzer(options.seed)
    began = time.monotonic()
    every = 500
    told = 0
    while fuzzer.runs < options.runs:
        fuzzer.fuzz(min(options.runs, fuzzer.runs + every))
        known, reached = lines_of(FOLDER), fuzzer.coverage.lines()
        took = time.monotonic() - began
        print(
            f"{fuzzer.runs} runs in {took:.0f} s, {len(reached & known)} of {len(known)} lines,"
            f" {len(fuzzer.coverage.steps)} steps, {len(fuzzer.corpus)} cases kept",
            flush=True,
        )
        for what in list(fuzzer.findings)[told:]:
            print(f"  {what}\n    {fuzzer.findings[what].shown()[:2000]}", flush=True)
        told = len(fuzzer.findings)
        if options.minutes and took > options.minutes * 60:
            break
    for name, line in sorted(lines_of(FOLDER) - fuzzer.coverage.lines()):
        print(f"not reached: {Path(name).name}:{line}")


if __name__ == "__main__":
    main()
