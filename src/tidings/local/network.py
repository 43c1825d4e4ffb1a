"""A network on this machine: its processes, the file that remembers them, and how its brokers are asked.

`tidings up` writes the file, `join` and `leave` change it, `status` and `down` read it. A process is known by
its id and its start time together: ids are used again, and nothing that we did not start is ever signalled.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import InputError, SetupError
from tidings.installation import cache_folder
from tidings.service.values import read_address

LOOPBACK = "127.0.0.1"
FIRST_PORT = 1883
"""MQTT's."""

ASK_WITHIN_S = 3.0
READY_WITHIN_S = 120.0
"""A network; they all start at once, on whatever the machine has."""

STOP_WITHIN_S = 20.0
"""Brokers drain for 10 s by default, and get 5 s more; who is still there then is killed."""

LOG_LINES_SHOWN = 5

BASED = ("mqtt_tls", "mqtt_ws", "mqtt_wss", "https")
"""Settings for which a network is given the first port: each broker has its own from there up."""

EACH_OWN = (
    "id",
    "listen",
    "advertise",
    "mqtt",
    "http",
    "http_advertise",
    *BASED,
    "data",
    "records",
    "neighbours",
    "tls_certificate",
    "tls_key",
)
"""Settings that differ from broker to broker; variables of these names are not for a whole network."""


class Process(msgspec.Struct, frozen=True):
    """A process that we started."""

    pid: int

    started: str
    """When, as the system says it; another process with the same id started at another time."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return start_time(self.pid) == self.started

    @classmethod
    def of(cls, pid: int) -> Process:
        """A process by its id; one that is gone already never counts as alive."""
        return cls(pid, start_time(pid) or "gone")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Member(msgspec.Struct, frozen=True):
    """A broker of the network."""

    id: str

    address: str
    """Where brokers connect."""

    http: str
    """Where its pages are."""

    folder: str
    """Its configuration, data and log."""

    mqtt: str
    """Where MQTT clients connect."""

    process: Process | None = None
    """None before it is started."""

    leaving: bool = False
    """Whether it was asked to leave for good; it is not started again."""

    restarts: int = 0

    others: dict[str, str] = {}
    """Where it listens besides, by the name of the setting, one of `BASED`."""

    @property
    def ports(self) -> set[int]:
        """All ports that it has."""
        addresses = (self.mqtt, self.address, self.http, *self.others.values())
        return {read_address(address)[1] for address in addresses}

    @property
    def config(self) -> Path:
        """Its configuration."""
        return Path(self.folder) / "broker.toml"

    @property
    def log(self) -> Path:
        """What it logs."""
        return Path(self.folder) / "log.jsonl"

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.alive


class State(msgspec.Struct, frozen=True):
    """What is remembered of the network that runs."""

    supervisor: Process
    """The `tidings up` that watches it."""

    data: str
    """The folder of all that belongs to it."""

    temporary: bool
    """Whether that folder goes with the network."""

    settings: dict[str, str]
    """What all brokers were told, for those that join."""

    members: tuple[Member, ...]

    ready: bool = False
    """Whether all brokers were ready once."""

    @property
    def alive(self) -> bool:
        """Whether anything of it still runs."""
        return self.supervisor.alive or any(member.alive for member in self.members)

    def member(self, id_: str) -> Member:
        """A broker by its id."""
        for member in self.members:
            if member.id == id_:
                return member
        raise InputError(
            f"there is no broker {id_!r} in the network; there are "
            f"{', '.join(member.id for member in self.members)}"
        )


def start_time(pid: int) -> str | None:
    """When a process started, None if there is none that runs."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The name in parentheses may hold anything, so count from behind it.
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    told = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(told) < 2 or told[0].startswith("Z") else told[1].strip()


# The file.


def state_folder() -> Path:
    """Where the file is: the user's folder for what lives as long as the machine is up, else the cache."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "tidings" if Path(runtime).is_absolute() else cache_folder()


class StateFile:
    """The file, and the lock under which it is changed."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = state_folder() if folder is None else folder
        self.path = self.folder / "network.json"

    def read(self) -> State | None:
        """The network that runs, if there is one; a file that outlived its network counts as none."""
        state = self._read()
        return state if state is not None and state.alive else None

    def _read(self) -> State | None:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            raise SetupError(f"{self.path} cannot be read; remove it if no network of yours runs") from None

    def claim(self, state: State) -> None:
        """Write a new network down; InputError if one runs already."""
        with self._locked():
            old = self._read()
            if old is not None and old.alive:
                raise InputError(
                    f"a network of {len(old.members)} brokers runs already, see `tidings status`; stop it "
                    "with `tidings down`, or add a broker to it with `tidings join`. A second network is "
                    "remembered in another folder: set XDG_RUNTIME_DIR to one, for `tidings up` and for all "
                    "commands that are for it"
                )
            if old is not None:
                clear(old)
            self._write(state)

    def change(self, how: Callable[[State], State]) -> State:
        """Change what is written; InputError if the network is gone."""
        with self._locked():
            state = self._read()
            if state is None:
                raise InputError("no network of yours runs here; start one with `tidings up`")
            state = how(state)
            self._write(state)
            return state

    def put(self, member: Member) -> State:
        """Write a broker down in the place of the one with its id, or as a new one."""

        def how(state: State) -> State:
            others = tuple(one for one in state.members if one.id != member.id)
            places = {one.id: place for place, one in enumerate(state.members)}
            members = sorted((*others, member), key=lambda one: places.get(one.id, len(places)))
            return msgspec.structs.replace(state, members=tuple(members))

        return self.change(how)

    def remove(self, id_: str) -> State:
        """Forget a broker."""
        return self.change(
            lambda state: msgspec.structs.replace(
                state, members=tuple(one for one in state.members if one.id != id_)
            )
        )

    def clear(self) -> None:
        """Forget the network."""
        with self._locked():
            if (state := self._read()) is not None:
                clear(state)
            self.path.unlink(missing_ok=True)

    def _write(self, state: State) -> None:
        new = self.path.with_suffix(".new")
        new.touch(mode=0o600)  # it may hold a token
        new.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2))
        new.replace(self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:
            raise SetupError(
                "networks on one machine need a Unix; run each broker with `tidings broker`, or use WSL"
            ) from None
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self.folder / "network.lock").open("w")
        except OSError as error:
            raise SetupError(
                f"{self.folder} cannot be written: {error.strerror}; set XDG_RUNTIME_DIR to a folder that can"
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def clear(state: State) -> None:
    """Remove what a network leaves behind, unless somebody named the folder."""
    if state.temporary:
        shutil.rmtree(state.data, ignore_errors=True)


# Processes and ports.


def free_ports(count: int, first: int = FIRST_PORT, taken: Iterable[int] = ()) -> list[int]:
    """Ports of the loopback that nobody listens at, from a first one upwards."""
    found: list[int] = []
    avoided = set(taken)
    for port in range(first, 65_536):
        if len(found) == count:
            return found
        if port in avoided:
            continue
        with socket.socket() as probe:
            # As servers do: a port whose last connection has just been closed is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
    raise SetupError(f"there are no {count} free ports on {LOOPBACK} from {first} up")


def members(
    folder: Path,
    ids: Sequence[str],
    first: int = FIRST_PORT,
    bases: Mapping[str, int] | None = None,
    taken: Iterable[int] = (),
) -> list[Member]:
    """New brokers with free ports: those for MQTT come first, for they are what people type.

    `bases` are settings of `BASED` with their first ports; `taken` are ports of brokers that may not run now.
    """
    count = len(ids)
    ports = free_ports(3 * count, first, taken)
    others: list[dict[str, str]] = [{} for _ in ids]
    for name, base in (bases or {}).items():
        found = free_ports(count, base, {*taken, *ports})
        ports += found
        for own, port in zip(others, found, strict=True):
            own[name] = f"{LOOPBACK}:{port}"
    mqtt, address, http = (
        [f"{LOOPBACK}:{port}" for port in ports[at * count : (at + 1) * count]] for at in range(3)
    )
    return [
        Member(id_, address[at], http[at], str(folder / id_), mqtt[at], others=others[at])
        for at, id_ in enumerate(ids)
    ]


def write_config(member: Member, neighbours: Iterable[str], records: Path, shared: Mapping[str, str]) -> None:
    """Write the file with which a broker is started, now and should it be restarted by hand."""
    folder = Path(member.folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    values: dict[str, object] = {
        "id": member.id,
        "listen": member.address,
        "mqtt": member.mqtt,
        # Only this machine reaches it.
        "anonymous": True,
        "http": member.http,
        **member.others,
        "neighbours": list(neighbours),
        "data": ".",
        "records": str(records),
        **shared,
    }
    _write_toml(member.config, values)


def change_neighbours(member: Member, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Tell a broker to link with some and part from others, now and when it is started again."""
    status, told = ask(member.http, "/neighbours", {"add": list(add), "remove": list(remove)})
    if status != http.client.OK:
        raise NoAnswer(str(told.get("error", status)))
    values = tomllib.loads(member.config.read_text(encoding="utf-8"))
    kept = [address for address in values["neighbours"] if address not in set(remove)]
    values["neighbours"] = [*kept, *add]
    _write_toml(member.config, values)


def _write_toml(path: Path, values: Mapping[str, object]) -> None:
    # A list or string of JSON is one of TOML too.
    text = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def environment() -> dict[str, str]:
    """The variables that brokers are given: settings for a whole network, not those of one."""
    own = {f"TIDINGS_{name.upper()}" for name in EACH_OWN}
    return {name: value for name, value in os.environ.items() if name not in own}


def spawn(members: list[Member]) -> list[Member]:
    """Start a process that runs these brokers, in a session of its own: Ctrl-C here is not for it."""
    configs = [word for member in members for word in ("--config", str(member.config))]
    with members[0].log.open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-P", "-c", "from tidings.cli import main; main()", "broker", *configs],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(),
            start_new_session=True,
        )
    process = Process.of(started.pid)
    _children[started.pid] = started
    return [msgspec.structs.replace(member, process=process) for member in members]


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Those of ours that must be waited for, or they would stay as zombies."""


def reap() -> None:
    """Take note of children that have ended."""
    for pid in [pid for pid, child in _children.items() if child.poll() is not None]:
        del _children[pid]


def stop(members: Iterable[Member], within_s: float = STOP_WITHIN_S) -> list[str]:
    """Ask processes to stop, wait, and kill what stays; says which brokers had to be killed."""
    members = list(members)
    processes = {member.process for member in members if member.process is not None}
    for process in processes:
        process.signal(signal.SIGTERM)
    wait_for(lambda: not any(process.alive for process in processes), within_s)
    killed = [member.id for member in members if member.alive]
    for process in processes:
        process.signal(signal.SIGKILL)
    wait_for(lambda: not any(process.alive for process in processes), within_s)
    return killed


def wait_for(condition: Callable[[], bool], within_s: float) -> bool:
    """Look again and again until something holds or the time is over; whether it holds."""
    end = time.monotonic() + within_s
    while True:
        reap()
        if condition():
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)


# Asking brokers.


class NoAnswer(Exception):
    """A broker did not answer, or not as it should; the text says why."""


class NotThere(NoAnswer):
    """Nobody listens at its address: not yet, or no more."""


def ask(address: str, path: str, body: object = None, token: str = "") -> tuple[int, Any]:
    """The status and the value that a broker's page answers with."""
    host, port = read_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=ASK_WITHIN_S)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request(
                "POST", path, json.dumps(body), {**headers, "Content-Type": "application/json"}
            )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except ConnectionRefusedError:
        raise NotThere("nobody listens there") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None
    finally:
        connection.close()


class Refusal(msgspec.Struct, frozen=True):
    """Something that an MQTT client asked for and did not get."""

    at: float
    """Seconds since 1970."""

    client: str
    what: str
    reason: str


class Seat(msgspec.Struct, frozen=True):
    """What is shown of a seat at a broker."""

    topic: str
    deputy: str
    open: int
    received: int
    merged: int
    redundant: int
    told: int


class Kept(msgspec.Struct, frozen=True):
    """What a broker has in a log."""

    topic: str
    what: str
    holder: str
    """Under whose name entries are numbered."""

    first: int
    next: int
    bytes: int


class Asked(msgspec.Struct, frozen=True):
    """What a broker asks others for, on behalf of its clients, as one broker knows it."""

    home: str
    """Who asks."""

    boot: int
    number: int
    """Of its last change; 0 with boot 0 if nothing is known."""

    filters: int

    widened: int
    """Filters that others are told wider than they are; of another broker's, those not understood or kept."""

    confirmed: int
    """The number that all in reach have; of another broker's, the one that this one has confirmed. -1: none
    that is sure."""

    waits_for: tuple[str, ...] = ()
    """Who has not confirmed the last number, as far as is known."""

    absent_s: float = -1.0
    """For how many seconds more something is held for it; -1 if it is in reach."""


class View(msgspec.Struct, frozen=True):
    """What is shown of one broker."""

    id: str
    address: str
    http: str
    pid: int | None

    state: str
    """"ready", "starting", "dead", "leaving", or why it is not ready."""

    links: tuple[str, ...] = ()
    """Neighbours that are up."""

    links_down: tuple[str, ...] = ()

    unreached: tuple[tuple[str, str], ...] = ()
    """Addresses to be dialled at which there is no link, and why."""

    root: str = ""
    """Of the trees that undeclared topics use."""

    sessions: int = 0
    subscriptions: int = 0

    received: int = 0
    """Publications that came from clients here or over links, since it started."""

    delivered: int = 0
    restarts: int = 0

    mqtt: str = ""
    """Where MQTT clients connect."""

    others: dict[str, str] = {}
    """Where else it listens: for MQTT clients by "tls", "ws" and "wss", for its pages by "https"."""

    clients: int = 0
    """MQTT clients that are there."""

    retained: int = 0
    """Retained messages."""

    refusals: tuple[Refusal, ...] = ()
    """The latest things that were refused to MQTT clients, the newest last."""

    seats: tuple[Seat, ...] = ()
    """Gathered topics that this broker has the seat of."""

    waiting: int = 0
    """Reports that entered here and wait for a seat."""

    retain_ignored: int = 0
    """Reports that asked to be retained."""

    log: tuple[Kept, ...] = ()
    """What it has in its logs."""

    sets: tuple[Asked, ...] = ()
    """What brokers ask for, as it knows: its own first."""


def view(member: Member) -> View:
    """How a broker is, now."""
    shown = View(
        member.id,
        member.address,
        member.http,
        member.process.pid if member.process else None,
        "leaving" if member.leaving else "starting" if member.process is None else "dead",
        restarts=member.restarts,
        mqtt=member.mqtt,
    )
    if not member.alive:
        return shown
    try:
        status, told = ask(member.http, "/status")
    except NotThere:
        return msgspec.structs.replace(shown, state=shown.state if member.leaving else "starting")
    except NoAnswer as reason:
        return msgspec.structs.replace(shown, state=f"no answer: {reason}")
    if status != http.client.OK:
        return msgspec.structs.replace(shown, state=str(told.get("error", status)))
    return viewed(shown, told)


def viewed(shown: View, told: Mapping[str, Any]) -> View:
    """A view filled from a broker's status."""
    counters, mqtt = told["counters"], told["mqtt"]
    return msgspec.structs.replace(
        shown,
        state=shown.state if shown.state == "leaving" else told["unready"] or "ready",
        links=tuple(link["peer"] for link in told["links"] if link["state"] == "up"),
        links_down=tuple(link["peer"] for link in told["links"] if link["state"] != "up"),
        unreached=tuple((address, reason) for address, reason in told["unreached"]),
        root=", ".join(told["share"]),
        sessions=told["sessions"],
        subscriptions=told["subscriptions"],
        received=mqtt["counters"]["published"] + counters["messages_in"].get("Publish", 0),
        delivered=mqtt["counters"]["delivered"],
        mqtt=mqtt["addresses"].get("tcp", ""),
        others={name: address for name, address in mqtt["addresses"].items() if name != "tcp"}
        | ({"https": told["https"]} if told.get("https") else {}),
        clients=mqtt["clients"],
        retained=mqtt["retained"],
        refusals=msgspec.convert(mqtt["refusals"], tuple[Refusal, ...]),
        seats=msgspec.convert(told["seats"], tuple[Seat, ...]),
        waiting=told["gathering"]["waiting"],
        retain_ignored=mqtt["counters"]["retain_ignored"],
        log=msgspec.convert(told["log"], tuple[Kept, ...]),
        sets=msgspec.convert(told["sets"], tuple[Asked, ...]),
    )


def settled(views: Iterable[View], links: int) -> bool:
    """Whether all are ready, all links are up and all agree on the trees.

    They are asked one after the other, and each new link makes trees grow anew: believe it the second time.
    """
    views = list(views)
    return (
        all(one.state == "ready" for one in views)
        and sum(len(one.links) for one in views) >= 2 * links
        and len({one.root for one in views}) <= 1
    )


def obituary(member: Member) -> str:
    """That a broker died, with the last that it said."""
    try:
        last = member.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    except OSError:
        last = []
    return "\n  ".join([f"{member.id} has died; its log is {member.log}", *last])
