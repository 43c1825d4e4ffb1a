"""What is promised about logs: what was accepted on a kept topic is there, once, and what was shown stays.

It judges by the ledger and by the logs that are on the disks when all is over; what a crash did to what was
shown, each disk has noted itself. A number of a broker stands for one entry, whoever has a copy of it. How a
broker numbers, and when it syncs, is not known here.
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
    """Every breach of a promise about topics that are kept."""
    all_hosts = list(hosts)
    found = [Breach("shown for ever", text) for host in all_hosts for text in host.disk.torn]
    found += _check_offers(all_hosts, ledger, topics)
    found += _check_copies(all_hosts, ledger)
    return found[:BREACHES_MAX]


def _check_offers(hosts: list[Host], ledger: Ledger, topics: Sequence[Topic]) -> list[Breach]:
    """What clients have published is in the logs of their brokers."""
    found = []
    # A disk that is lost has its log with it.
    wiped = {address: turn for turn, address in ledger.wiped}
    for topic in topics:
        what = _kept(topic)
        if what is None:
            continue
        offers = [one for one in ledger.offers if names.match(topic.pattern.filter, one.topic)]
        offered = Counter((one.host, one.payload) for one in offers)
        safe = [one for one in offers if one.accepted and wiped.get(one.host, 0) < one.turn]
        accepted = Counter((one.host, one.payload) for one in safe)
        for host in hosts:
            logged = _payloads(host, topic.name, what)
            for payload, times in logged.items():
                if 0 < offered[host.address, payload] < times:
                    found.append(Breach("logged once", f"{payload!r} is {times} times at {host.address}"))
            for (address, payload), times in accepted.items():
                if address == host.address and logged[payload] < times:
                    found.append(
                        Breach("logged before accepted", f"{payload!r} is not in the log of {address}")
                    )
    return found


def _kept(topic: Topic) -> str | None:
    """What brokers keep of what clients publish to a topic."""
    if topic.gathering is None:
        return "events" if topic.keep_us is not None else None
    return "reports" if topic.gathering.keep_reports_us is not None else None


def _payloads(host: Host, name: str, what: str) -> Counter[bytes]:
    logs = host.disk.logs
    return Counter(
        entry.payload
        for holder, first, _ in logs.holders(name, what)
        if holder == host.id
        for entry in logs.read(name, what, holder, first)
    )


def _check_copies(hosts: list[Host], ledger: Ledger) -> list[Breach]:
    """Whoever has an entry of a broker that has never lost its disk, has the same."""
    found = []
    wiped = {address for _, address in ledger.wiped}
    seen: dict[tuple[str, str, str, int], tuple[object, str]] = {}
    for host in hosts:
        logs = host.disk.logs
        for name, what in logs.names():
            for holder, first, _ in logs.holders(name, what):
                if holder in wiped:
                    continue
                for entry in logs.read(name, what, holder, first):
                    other, where = seen.setdefault((name, what, holder, entry.number), (entry, host.address))
                    if other != entry:
                        found.append(
                            Breach(
                                "one entry for a number",
                                f"entry {entry.number} of {name} of {holder} differs at {where} and"
                                f" {host.address}",
                            )
                        )
    return found
