"""What is promised about logs: what was accepted on a kept topic is there, once, and what was shown stays.

It judges by the ledger and by the logs that are on the disks when all is over; what a crash did to what was
shown, each disk has noted itself. How a broker numbers, and when it syncs, is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidings.language import names
from tidings.language.topics import Topic
from tidings.sim.checkers import BREACHES_MAX, Breach
from tidings.sim.hosts import Host
from tidings.sim.ledger import Ledger


def check_logs(hosts: Iterable[Host], ledger: Ledger, topics: Sequence[Topic]) -> list[Breach]:
    """Every breach of a promise about plain topics that are kept. Payloads must differ."""
    kept = [topic for topic in topics if topic.gathering is None and topic.keep_us is not None]
    by_host = {host.address: host for host in hosts}
    found = [Breach("shown for ever", text) for host in by_host.values() for text in host.disk.torn]
    logged = {
        (address, topic.name): _payloads(host, topic.name)
        for address, host in by_host.items()
        for topic in kept
    }
    wiped = {address: turn for turn, address in ledger.wiped}
    for offer in ledger.offers:
        topic = next((one for one in kept if names.match(one.pattern.filter, offer.topic)), None)
        if topic is None:
            continue
        times = logged[offer.host, topic.name][offer.payload]
        if times > 1:
            found.append(
                Breach("logged once", f"{offer.payload!r} is {times} times in the log of {offer.host}")
            )
        # A disk that is lost has its log with it.
        if offer.accepted and not times and wiped.get(offer.host, 0) < offer.turn:
            found.append(
                Breach("logged before accepted", f"{offer.payload!r} is not in the log of {offer.host}")
            )
    return found[:BREACHES_MAX]


def _payloads(host: Host, name: str) -> Counter[bytes]:
    logs = host.disk.logs
    return Counter(
        entry.payload
        for holder, first, _ in logs.holders(name)
        if holder == host.id
        for entry in logs.read(name, "events", holder, first)
    )
