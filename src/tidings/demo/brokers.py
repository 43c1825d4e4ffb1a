"""A network of broker processes for a demonstration: started, watched, killed, restarted, left up if asked.

It has a state file of its own, in the demonstration's folder: a network that runs on this machine already is
neither disturbed nor seen. It does not know what is published.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tidings.demo import completeness, stopping
from tidings.demo.completeness import SLOW_S
from tidings.errors import InputError, SetupError
from tidings.installation import cache_folder
from tidings.load.load import cpu_seconds
from tidings.local import network
from tidings.local.network import Member, NoAnswer, Process, State, StateFile, View, view

LOCK = "ports.lock"
"""In the user's cache: who holds it chooses ports."""

NOBODY = Process(0, "gone")
"""Watches a network that was left up: nobody does."""


class Brokers:
    """A network of processes. Use it as a context manager: it stops what it has started."""

    def __init__(
        self,
        folder: Path,
        members: Sequence[Member],
        links: Sequence[tuple[str, str]],
        settings: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.records = folder / "records"
        """What all brokers have written down."""
        self._links = tuple(links)
        self._members = {member.id: member for member in members}
        self._spent = dict.fromkeys(self._members, 0.0)
        self._settings = dict(settings)
        self._file = StateFile(folder)
        self._kept = False

    @classmethod
    def start(
        cls,
        folder: Path,
        brokers: Sequence[str],
        links: Sequence[tuple[str, str]],
        settings: Mapping[str, str] | None = None,
        first_port: int = network.FIRST_PORT,
    ) -> Brokers:
        """A network that is ready and settled. Of each link the first broker dials the second.

        `settings` are for all brokers, as `tidings up --set` takes them; paths in them must be absolute. What
        brokers of these names have left in the folder, they find again.
        """
        folder = folder.absolute()
        release(folder)
        with choosing_ports():
            net = cls(folder, network.members(folder, brokers, first_port), links, settings or {})
            for member in net.members:
                dialled = [net._members[there].address for here, there in net._links if here == member.id]
                network.write_config(member, dialled, net.records, net._settings)
            state = State(Process.of(os.getpid()), str(folder), False, net._settings, tuple(net.members))
            net._file.claim(state)
            try:
                for member in net.members:
                    net._spawn(member)
                net.wait_until_settled()
            except BaseException:
                net.stop()
                raise
        return net

    @property
    def members(self) -> list[Member]:
        """The brokers, in the order in which they were named."""
        return list(self._members.values())

    def mqtt(self, id_: str) -> str:
        """Where MQTT clients reach a broker."""
        return self._members[id_].mqtt

    def http(self, id_: str) -> str:
        """Where a broker's pages are."""
        return self._members[id_].http

    def views(self) -> list[View]:
        """How the brokers are, now."""
        network.reap()
        return [view(member) for member in self.members]

    def busy(self) -> bool:
        """Whether some broker that runs has something queued, or too much to do to say so."""
        return any(member.alive and _queued(member) for member in self.members)

    def cpu_seconds(self) -> dict[str, float]:
        """What each broker has computed since the network started, whichever process that was."""
        return {one.id: self._spent[one.id] + _cpu_seconds(one) for one in self.members}

    def kill(self, id_: str) -> None:
        """End a broker as a power cut does: kill -9."""
        member = self._members[id_]
        assert member.process is not None, "a network that has started has processes"
        self._spent[id_] += _cpu_seconds(member)
        member.process.signal(signal.SIGKILL)
        network.wait_for(lambda: not member.alive, SLOW_S)

    def restart(self, id_: str, wait: bool = True) -> None:
        """Start a broker that was killed, with the data it had, and wait until the network has settled."""
        member = self._members[id_]
        assert not member.alive, f"{id_} runs"
        self._spawn(msgspec.structs.replace(member, restarts=member.restarts + 1))
        if wait:
            self.wait_until_settled()

    def wait_until_settled(self) -> None:
        """Wait until all that should run is ready, linked, and of one mind about the trees."""
        if not network.wait_for(self.settling(), SLOW_S):
            raise self.unsettled()

    def settling(self) -> Callable[[], bool]:
        """What is to be asked again and again, for those who cannot wait: whether it has settled.

        SetupError, with its last words, if a broker has died that runs now.
        """
        wanted = [member for member in self.members if member.alive]
        links = sum({here, there} <= {member.id for member in wanted} for here, there in self._links)
        seen = 0

        def settled() -> bool:
            nonlocal seen
            for member in wanted:
                if not member.alive:
                    raise SetupError(network.obituary(member))
            seen = seen + 1 if network.settled([view(member) for member in wanted], links) else 0
            return seen == 2

        return settled

    def unsettled(self) -> SetupError:
        """That it has taken too long to settle."""
        states = ", ".join(f"{one.id} ({one.state}, {len(one.links)} links)" for one in self.views())
        return completeness.too_slow(
            f"the brokers are not ready and linked within {SLOW_S:.0f} s: {states}; their logs are in "
            f"{self.folder}"
        )

    def close(self) -> None:
        """Stop all that runs, for those who read its records: each broker has the time that it takes to close
        them. A broker that is killed before would leave some of them unwritten.
        """
        if killed := self.stop(SLOW_S):
            raise completeness.too_slow(
                f"{', '.join(killed)} did not write all records within {SLOW_S:.0f} s and had to be killed"
            )

    def stop(self, within_s: float = network.STOP_WITHIN_S) -> list[str]:
        """Stop all that runs; says which brokers had to be killed. Nothing happens the second time."""
        for member in self.members:
            self._spent[member.id] += _cpu_seconds(member)
        killed = network.stop(self.members, within_s)
        self._members = {one.id: msgspec.structs.replace(one, process=None) for one in self.members}
        self._file.clear()
        return killed

    def keep(self) -> None:
        """Leave it up, and write it down where `tidings status` and `tidings down` look."""
        StateFile().claim(
            State(NOBODY, str(self.folder), False, self._settings, tuple(self.members), ready=True)
        )
        self._kept = True
        self._file.clear()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._kept:
            self.stop()

    def _spawn(self, member: Member) -> None:
        with stopping.held():
            (started,) = network.spawn([member])
            self._members[member.id] = started
            self._file.put(started)


@contextlib.contextmanager
def choosing_ports() -> Iterator[None]:
    """While ports are chosen at which nobody listens yet: of one user's demonstrations one at a time.

    Two that start at once would choose the same, and a broker of one be taken for a broker of the other.
    """
    import fcntl

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError:  # a user without a home has to do without
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check_keep() -> None:
    """InputError if a network could not be kept, because one runs already where it would be written down."""
    state = StateFile().read()
    if state is not None:
        raise InputError(
            f"a network of {len(state.members)} brokers runs already, so that of the demonstration could not "
            "be kept beside it; stop it with `tidings down`, or do not ask to keep"
        )


def release(folder: Path) -> None:
    """Make sure that nothing runs in a folder or in those right below it, before it is used or replaced.

    What a demonstration left that could not end it itself is ended. InputError if another one still runs
    there, or if a network was kept there.
    """
    folder = folder.absolute()
    kept = StateFile().read()
    if kept is not None and Path(kept.data).is_relative_to(folder):
        raise InputError(
            f"the network that was kept in {kept.data} still runs; stop it with `tidings down`, or take "
            "another folder"
        )
    files = [
        StateFile(path.parent) for path in [*folder.glob("network.json"), *folder.glob("*/network.json")]
    ]
    found = [(file, state) for file in files if (state := file.read()) is not None]
    for file, state in found:
        if state.supervisor.alive:
            raise InputError(
                f"a demonstration runs in {file.folder} already, process {state.supervisor.pid}; wait for "
                "it, or take another folder"
            )
    for file, state in found:
        network.stop(state.members)
        file.clear()


def _queued(member: Member) -> bool:
    """Whether a broker has anything to do for others: reports, messages on links, deliveries to clients."""
    try:
        status, told = network.ask(member.http, "/status")
    except NoAnswer:
        return True
    return status != http.client.OK or bool(queued(told))


def queued(told: Mapping[str, Any]) -> int:
    """How much waits at a broker, by its status."""
    mqtt: dict[str, int] = told["mqtt"]
    links = sum(int(link["queued"]) for link in told["links"])
    return links + int(told["gathering"]["waiting"]) + mqtt["queued"] + mqtt["inflight"]


def _cpu_seconds(member: Member) -> float:
    if member.process is None or not member.process.alive:
        return 0.0
    try:
        return cpu_seconds(member.process.pid)
    except InputError:  # it has ended in between, or this is not Linux
        return 0.0
