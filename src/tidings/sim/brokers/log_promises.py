"""What is promised about logs: what was accepted on a kept topic is there, once, and what was shown stays.

It judges by the ledger and by the logs that are on the disks when all is over; what a crash did to what was
shown, each disk has noted itself. A number of a holder stands for one entry, whoever has a copy of it; of one
that has lost its disk too, which is kept aside for this. How a broker numbers, and when it syncs, is not
known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidings.history.entries import Entry
from tidings.history.logs import Logs
from tidings.language import names
from tidings.language.topics import Topic
from tidings.records.holders import Holder
from tidings.sim.brokers.promises import BREACHES_MAX, Breach
from tidings.sim.brokers.trace import Trace
from tidings.sim.node import Node


def check_logs(hosts: Iterable[Node], ledger: Trace, topics: Sequence[Topic]) -> list[Breach]:
    """Every breach of a promise about topics that are kept."""
    all_hosts = list(hosts)
    disks = [disk for host in all_hosts for disk in (*host.lost_disks, host.disk)]
    found = [Breach("shown for ever", text) for disk in disks for text in disk.torn]
    found += _check_offers(all_hosts, ledger, topics)
    found += _check_copies(all_hosts, {disk.holder: disk.logs for disk in disks})
    return found[:BREACHES_MAX]


def _check_offers(hosts: list[Node], ledger: Trace, topics: Sequence[Topic]) -> list[Breach]:
    """What clients have published is in the logs of their brokers."""
    found = []
    for topic in topics:
        what = _kept(topic)
        if what is None:
            continue
        offers = [one for one in ledger.offers if names.match(topic.pattern.filter, one.topic)]
        offered = Counter((one.host, one.payload) for one in offers)
        # A disk that is lost has its log with it.
        safe = Counter((one.host, one.incarnation, one.payload) for one in offers if one.accepted is not None)
        for host in hosts:
            logged = _payloads(host, topic.name, what)
            for payload, times in logged.items():
                if 0 < offered[host.address, payload] < times:
                    found.append(Breach("logged once", f"{payload!r} is {times} times at {host.address}"))
            for (address, incarnation, payload), times in safe.items():
                if (address, incarnation) == (host.address, host.incarnation) and logged[payload] < times:
                    found.append(
                        Breach("logged before accepted", f"{payload!r} is not in the log of {address}")
                    )
    return found


def _kept(topic: Topic) -> str | None:
    """What brokers keep of what clients publish to a topic."""
    if topic.gathering is None:
        return "events" if topic.keep_us is not None else None
    return "reports" if topic.gathering.keep_reports_us is not None else None


def _payloads(host: Node, name: str, what: str) -> Counter[bytes]:
    return Counter(entry.payload for entry in _entries(host.disk.logs, name, what, host.holder).values())


def _check_copies(hosts: list[Node], owners: Mapping[Holder, Logs]) -> list[Breach]:
    """Whoever has an entry of a holder has the same as that one, whose disk may be lost since."""
    found = []
    for host in hosts:
        logs = host.disk.logs
        for name, what in logs.names():
            for holder, _, _ in logs.holders(name, what):
                own = _entries(owners[holder], name, what, holder) if holder in owners else {}
                for number, entry in _entries(logs, name, what, holder).items():
                    if own.get(number) != entry:
                        found.append(
                            Breach(
                                "one entry for a number",
                                f"entry {number} of {name} of {holder} at {host.address} is "
                                + ("another than its holder's" if number in own else "not its holder's"),
                            )
                        )
    return found


def _entries(logs: Logs, name: str, what: str, holder: Holder) -> dict[int, Entry]:
    """By number: all that is shown of a log."""
    return {
        entry.number: entry
        for one, first, _ in logs.holders(name, what)
        if one == holder
        for entry in logs.read(name, what, holder, first)
    }
