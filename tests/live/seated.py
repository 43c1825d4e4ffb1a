"""Three brokers in processes, each linked with each, and a gathered topic that is kept: for tests that kill
its seat.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.live.serving import ServedBroker
from tidings.client.log import LogReader
from tidings.errors import NetworkError
from tidings.local.network import ask, free_ports
from tidings.records.holders import Held

WITHIN_S = 120.0
"""No test waits longer for anything: far more than a busy machine needs."""

TOPIC = """
name = "roads"
kind = "gathered"
key = ["place"]
keep = "1d"
merge_after = "0s"
redundant_for = "1h"
window = "1h"

[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
note = { type = "string" }
"""


class Triangle:
    """Brokers b1, b2 and b3. What is told at one is in its log, and in that of a deputy."""

    def __init__(self, folder: Path, first_port: int) -> None:
        (folder / "roads.toml").write_text(TOPIC, encoding="utf-8")
        ports = free_ports(9, first_port)
        listening = [f"127.0.0.1:{port}" for port in ports[:3]]
        self.brokers: dict[str, ServedBroker] = {}
        self.mqtt: dict[str, str] = {}
        self.http: dict[str, str] = {}
        for at, listen in enumerate(listening):
            name = f"b{at + 1}"
            self.mqtt[name] = f"mqtt://127.0.0.1:{ports[3 + at]}"
            self.http[name] = f"http://127.0.0.1:{ports[6 + at]}"
            self.brokers[name] = ServedBroker(
                id=name,
                listen=listen,
                mqtt=self.mqtt[name].removeprefix("mqtt://"),
                http=self.http[name].removeprefix("http://"),
                anonymous=True,
                data=str(folder / name),
                topics=[str(folder / "roads.toml")],
                neighbours=[one for one in listening if one != listen],
            )

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def kill(self, *brokers: str) -> None:
        for broker in brokers or self.brokers:
            self.brokers[broker].kill()

    def reader(self, broker: str, patience_s: float = 0.0) -> LogReader:
        return LogReader(self.http[broker], patience_s=patience_s)

    def report(self, broker: str, *places: str, **fields: object) -> None:
        """One report for each place, all acknowledged."""
        for _ in polling(f"{broker} lets clients in"):
            # One that has just started does when it has heard from its neighbours.
            with suppress(NetworkError), tidings.connect(self.mqtt[broker]).sync() as network:
                for place in places:
                    network.publish("roads", {"place": place, **fields}, timeout=WITHIN_S)
                return

    def holders(self, asked: str) -> dict[str, Held]:
        return {one.broker: one for one in self.reader(asked, WITHIN_S).about("roads").holders}

    def rows(self, asked: str, held: Held) -> list[dict[str, Any]]:
        """All entries under a broker's name, read through a broker."""
        batches = self.reader(asked, WITHIN_S).read("roads", "events", held.holder, held.first, held.next)
        return [row for batch in batches for row in batch.to_pylist()]

    def copied(self, seat: Held) -> bool:
        """Whether some other broker has all of a seat's entries on its disk."""
        logs = [
            log
            for broker, url in self.http.items()
            if broker != seat.broker
            for log in ask(url.removeprefix("http://"), "/status")[1]["log"]
        ]
        return ("roads", "events", seat.holder, 0, seat.next) in [
            (one["topic"], one["what"], one["holder"], one["first"], one["next"]) for one in logs
        ]


def polling(what: str) -> Iterator[None]:
    """Turns until the caller has seen what it waits for, with a bound that only a broken program reaches."""
    pause = threading.Event()
    for _ in range(int(WITHIN_S / 0.05)):
        yield
        pause.wait(0.05)
    pytest.fail(f"{what}: it did not come about")
