"""What filters, topics and payloads of one client may cost a broker, beside the bound of each.

    python benchmarks/hostile_filters.py [--json]

Seconds of the processor, best of several runs, in this process: reading filters, answering SUBSCRIBE,
matching patterns, looking up a new topic, decoding a payload. Collecting garbage is left out: it comes at any
time, and takes as long as there are objects. tests/language/test_steps.py and its neighbours count the same
work.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.mqtt.talk import V5, Talk

from tidings.errors import FilterError, PayloadError
from tidings.language import payloads
from tidings.language.filters import parse
from tidings.language.like import matches, pieces
from tidings.language.subscriptions import Subscription
from tidings.mqtt.codec import encode
from tidings.mqtt.events import Access, BytesReceived, Rule
from tidings.mqtt.packets import Asked, Properties, Subscribe
from tidings.overlay.routing.table import Table

Row = tuple[str, float, float]
"""What is measured, the seconds that it took, and the most that it may take."""

READ_S = GRANT_S = 0.005
LIKE_S = 0.02
TOPIC_S = 0.005
PAYLOAD_S = 0.05

MILLION = 1_000_000

SPREAD = (
    " AND ".join(f"(a{at} > 1 OR b{at} > 1)" for at in range(6))
    + " AND y7 > 1 AND "
    + " AND ".join(f"z{at} > 1" for at in range(7))
)

FILTERS: dict[str, Callable[[int], str]] = {
    "64 times 14 terms": lambda k: SPREAD.replace("> 1", f"> {k}"),
    "a list of a thousand": lambda k: (
        f"place IN ({', '.join(repr(f'{7 * at + k:05}') for at in range(1_000))})"
    ),
    "63 pairs": lambda k: " OR ".join(f"(x = {at} AND y = {at + k})" for at in range(63)),
    "200 values by OR": lambda k: " OR ".join(f"x = {100 * at + k}" for at in range(200)),
    "15 times 15 fields": lambda k: " OR ".join(
        f"({' AND '.join(f'a{n}_{m}={k}' for m in range(15))})" for n in range(15)
    ),
    "1,000 terms": lambda k: " OR ".join(f"x = {at + k}" for at in range(0, 2_000, 2)),
    "60 patterns": lambda k: " OR ".join("a LIKE '%" + "a_" * 100 + f"c%{at + k}%'" for at in range(60)),
    "16,000 signs": lambda _: "(" * 16_000,
    "escapes": lambda k: " OR ".join(f"x = '\\\\{at + k}'" for at in range(300)),
    "what sqlglot reads": lambda k: " OR ".join(f"{at + k} = x" for at in range(80)),
}

PATTERNS = {
    "%_fire%": "_fir" * (MILLION // 4),
    "%fire%": "fir " * (MILLION // 4),
    "%aab%": "a" * MILLION,
    "%" + "a_" * 100 + "c%": "a" * MILLION,
    "%" + "a" * 79 + "b%": "é" + "a" * MILLION,
}


def run() -> list[Row]:
    """Everything, as rows."""
    parse("x = 1")
    return [*reading(), *granting(), *liking(), *topics(), *decoding()]


def reading() -> Iterator[Row]:
    for name, text in FILTERS.items():
        yield f"read or refuse: {name}", best(partial(_refused, text(1))), READ_S


def granting() -> Iterator[Row]:
    """A hundred different filters of a kind on one topic: enough for an index."""
    for name, text in FILTERS.items():
        talk = Talk()
        client = talk.connect("c")
        took: list[float] = []
        with no_garbage():
            for at in range(120):
                packet = Subscribe(at + 1, (Asked(f"$share/g{at}/t"),), _where(text(at)))
                data = encode(packet, V5)
                took.append(seconds(partial(talk.tell, BytesReceived(client.connection, data))))
        yield f"SUBSCRIBE, median of 120: {name}", sorted(took)[60], GRANT_S
    talk = Talk(access=Access((Rule(True, "any", "other/#"),), anonymous=True))
    client = talk.connect("c")
    texts = [SPREAD.replace("> 1", f"> {at}") for at in range(100)]
    data = encode(Subscribe(1, (Asked("t"),), _where(*texts)), V5)
    yield (
        f"SUBSCRIBE of {len(data) // 1000} kB without any right",
        seconds(partial(talk.tell, BytesReceived(client.connection, data))),
        GRANT_S,
    )


def liking() -> Iterator[Row]:
    for pattern, text in PATTERNS.items():
        parts = pieces(pattern)
        name = pattern if len(pattern) < 20 else f"{pattern[:8]}… ({len(pattern)} characters)"
        yield f"LIKE {name} in a million", best(partial(matches, parts, text)), LIKE_S


def topics() -> Iterator[Row]:
    rng = random.Random(1)
    for count, levels in ((1_000, 190), (10_000, 190), (10_000, 10)):
        table: Table[Subscription, int] = Table(16)
        for at in range(count):
            name = "/".join(rng.choice("a+") for _ in range(levels - 1))
            table.add(Subscription(f"{name}/x{at}"), at)
        topic = "/".join(["a"] * (levels - 1))
        took = [seconds(partial(table.match, f"{topic}/y{at}", _nothing)) for at in range(5)]
        yield f"a new topic, {count} subscriptions of {levels} levels", min(took), TOPIC_S


def decoding() -> Iterator[Row]:
    for item in (b'{"a":1}', b"[[[[]]]]", b'{"a":{"b":":"}}', b"[]", b"1", b'""'):
        for most in (payloads.PAYLOAD_BYTES_MAX, payloads.OPENED_MAX - 10):
            opened = max(1, item.count(b"{") + item.count(b"["))
            count = min((payloads.PAYLOAD_BYTES_MAX - 100) // (len(item) + 1), most // opened)
            some = b",".join([item] * count)
            rest = b",".join([b"1"] * ((payloads.PAYLOAD_BYTES_MAX - len(some) - 100) // 2))
            data = b'{"x":[' + some + b'],"y":[' + rest + b"]}"
            took = best(partial(_decoded, data))
            yield f"JSON, 1 MiB with {count} times {item.decode()}", took, PAYLOAD_S


def seconds(job: Callable[[], object]) -> float:
    begin = time.process_time()
    job()
    return time.process_time() - begin


def best(job: Callable[[], object], runs: int = 3) -> float:
    with no_garbage():
        return min(seconds(job) for _ in range(runs))


@contextmanager
def no_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _refused(text: str) -> None:
    with suppress(FilterError):
        parse(text)


def _decoded(data: bytes) -> None:
    with suppress(PayloadError):
        payloads.decode(data)


def _nothing() -> None:
    """No fields: nobody asks for them."""


def _where(*texts: str) -> Properties:
    return Properties(user=tuple(("where", text) for text in texts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    as_json = parser.parse_args().json
    rows = run()
    if as_json:
        for name, took, bound in rows:
            print(json.dumps({"name": name, "cpu_s": took, "bound_s": bound}))
        return
    table = Shown("what", "ms of the processor", "bound", title="one client's filters, topics and payloads")
    for name, took, bound in rows:
        mark = "" if took <= bound else " !"
        table.add_row(name, f"{took * 1e3:.2f}{mark}", f"{bound * 1e3:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
