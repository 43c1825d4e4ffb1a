"""Whose password is checked next.

A check takes a core for 80 ms on purpose, so a broker makes few in a second, and a flood of wrong passwords
must not take them all. Addresses take turns, and the users of an address. Who has not failed lately goes
before who has, and after a failure an address waits, the longer the more often it has failed. A user who has
not failed waits for that only so long: others may have the same address. Those who bring the same name and
password wait for one check together.

Names that no user has are one user, whose every password is wrong: one check answers all who wait with such
names from one address. Time is an argument; threads, files and connections are not known here.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

WAITING_MAX = 512
"""Checks that wait: about 20 s of them. Beyond, the address with the most gives way."""

OF_ONE_NAME_MAX = 8
"""Checks that wait for one name of one address; who comes then is told to come back."""

PAUSE_S = 0.1
PAUSE_MAX_S = 1.0
"""How long an address waits after its first failure, twice as long after each further one; and at most, and
so long a user waits who shares it: one that is good must get in within two seconds."""

FORGIVEN_S = 60.0
"""An address that has not failed for so long is as others."""

SOURCES_MAX = 4096
"""Addresses that have failed and are remembered, the latest; about 2 MB."""

NAMES_MAX = 64
"""Names with which one address has failed, and that are remembered."""

IPV6_BITS = 64
"""Of an IPv6 address, which tell whose it is: the rest is its owner's to choose."""

NOBODY = ""
"""The name under which unknown names wait; no user can be called so."""


@dataclass(eq=False, slots=True)
class Check:
    """One password to be checked."""

    source: str
    name: str
    """Of the user; `NOBODY` if there is none."""

    password: bytes
    since: float
    connections: list[int]
    """Who waits for it."""


@dataclass(slots=True)
class _Failed:
    """What is remembered of an address that has failed."""

    times: int = 0
    until: float = 0.0
    """When its next password is checked."""

    forgiven_at: float = 0.0
    names: dict[str, None] = field(default_factory=dict)


class Checks:
    """Those who wait for a check."""

    def __init__(self) -> None:
        self.waiting = 0
        self._sources: dict[str, dict[str, dict[bytes, Check]]] = {}
        """By address, then by name, in the order of their turns: checks by password."""
        self._running: dict[tuple[str, str, bytes], Check] = {}
        self._failed: dict[str, _Failed] = {}
        """By address, the one that failed last at the end."""

    def add(self, connection: int, host: str, name: str, password: bytes, now: float) -> list[int]:
        """Somebody waits for a check; those who must give way for it, perhaps itself."""
        source = source_of(host)
        if name == NOBODY:
            password = b""  # whatever it is, it does not fit
        same = self._sources.get(source, {}).get(name, {})
        alike = self._running.get((source, name, password)) or same.get(password)
        if alike is not None:
            alike.connections.append(connection)
            return []
        if len(same) >= OF_ONE_NAME_MAX:
            return [connection]
        giving_way: list[int] = []
        if self.waiting >= WAITING_MAX:
            largest = max(self._sources, key=self._count)
            if self._count(largest) <= self._count(source):
                return [connection]
            giving_way = self._take(largest, next(reversed(self._sources[largest])), last=True).connections
        names = self._sources.setdefault(source, {})
        names.setdefault(name, {})[password] = Check(source, name, password, now, [connection])
        self.waiting += 1
        return giving_way

    def next(self, now: float) -> Check | None:
        """What is to be checked now, until `done`; None if nothing is, or all must wait."""
        chosen: tuple[str, str] | None = None
        for source in self._sources:
            due, name = self._due(source, now)
            if due <= now:
                if source not in self._failed:
                    chosen = (source, name)
                    break
                chosen = chosen or (source, name)
        if chosen is None:
            return None
        check = self._take(*chosen)
        self._running[check.source, check.name, check.password] = check
        return check

    def wake_at(self, now: float) -> float | None:
        """When one of those who wait need not any longer; None if nobody waits."""
        return min((self._due(source, now)[0] for source in self._sources), default=None)

    def _due(self, source: str, now: float) -> tuple[float, str]:
        """When the next check of an address may be made, and for which name."""
        names = self._sources[source]
        failed = self._recently(source, now)
        if failed is None:
            return now, next(iter(names))
        for name, checks in names.items():
            if name not in failed.names:
                return min(failed.until, next(iter(checks.values())).since + PAUSE_MAX_S), name
        return failed.until, next(iter(names))

    def done(self, check: Check, fits: bool, now: float) -> None:
        """What a check has shown."""
        self.drop(check)
        failed = self._recently(check.source, now)
        if fits:
            if failed is not None:
                failed.names.pop(check.name, None)
            return
        failed = self._failed.pop(check.source, None) or _Failed()
        self._failed[check.source] = failed
        failed.until = now + min(PAUSE_MAX_S, PAUSE_S * 2.0**failed.times)
        failed.times = min(failed.times + 1, 16)
        failed.forgiven_at = now + FORGIVEN_S
        failed.names.pop(check.name, None)
        failed.names[check.name] = None
        if len(failed.names) > NAMES_MAX:
            del failed.names[next(iter(failed.names))]
        if len(self._failed) > SOURCES_MAX:
            del self._failed[next(iter(self._failed))]

    def drop(self, check: Check) -> None:
        """A check is not made after all."""
        del self._running[check.source, check.name, check.password]

    def _recently(self, source: str, now: float) -> _Failed | None:
        failed = self._failed.get(source)
        if failed is not None and failed.forgiven_at <= now:
            del self._failed[source]
            return None
        return failed

    def _count(self, source: str) -> int:
        return sum(map(len, self._sources.get(source, {}).values()))

    def _take(self, source: str, name: str, last: bool = False) -> Check:
        """The first check of a name, or the last; the name and the address then go behind the others."""
        names = self._sources.pop(source)
        passwords = names.pop(name)
        check = passwords.pop(next(reversed(passwords)) if last else next(iter(passwords)))
        if passwords:
            names[name] = passwords
        if names:
            self._sources[source] = names
        self.waiting -= 1
        return check


def source_of(host: str) -> str:
    """Whose an address is: IPv6 is given out by networks of 64 bits.

    >>> source_of("2001:db8:1:2:3:4:5:6"), source_of("::ffff:192.0.2.1"), source_of("192.0.2.1")
    ('2001:db8:1:2::', '192.0.2.1', '192.0.2.1')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_BITS), strict=False).network_address)
