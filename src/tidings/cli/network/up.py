"""`tidings up`: a network on this machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidings.cli.network.status import table
from tidings.cli.network.topologies import BROKERS_MAX, Topology, links, read_links
from tidings.errors import ConfigurationError, InputError, SetupError
from tidings.local import network
from tidings.local.network import LOOPBACK, READY_WITHIN_S, Member, Process, State, StateFile, View, view

if TYPE_CHECKING:
    from tidings.service.config import Configuration

BROKERS, TOPOLOGY = 3, Topology.RING
"""Where neither an option nor a file of links says otherwise."""

LOOK_EVERY_S = 1.0

PAUSE_S_MAX = 60.0
"""The longest pause before a broker that dies again and again is started once more."""


def up(
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", min=1, max=BROKERS_MAX, help=f"How many; {BROKERS} by default."),
    ] = None,
    topology: Annotated[
        Topology | None, typer.Option("--topology", help=f"How they are linked; {TOPOLOGY} by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of a random topology; 0 by default.")] = None,
    links_file: Annotated[
        Path | None,
        typer.Option(
            "--links",
            metavar="FILE",
            help="Brokers and links instead: CSV lines a,b, one link of two brokers each. A first "
            "line a,b names the columns unless a later line names a or b.",
        ),
    ] = None,
    single: Annotated[bool, typer.Option("--single", help="One process for all, not one for each.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running in the background.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Start brokers that die again.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Keep everything here; otherwise it goes with the network."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=1,
            max=65_535,
            help="Take free ports from here up, for MQTT first.",
            show_default=True,
        ),
    ] = network.FIRST_PORT,
    assigned: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting for all of them; may be repeated. "
            f"{', '.join(network.BASED)} take a port, from which each broker has the next free one.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --detach: the answer as JSON.")] = False,
    background: Annotated[bool, typer.Option("--background", hidden=True)] = False,
) -> None:
    """Start a network on this machine: one process per broker, on free ports that only this machine reaches.

    A table shows how it is; Ctrl-C stops it cleanly. With `--detach` it stays in the background until
    `tidings down`, and SIGHUP is passed on to the brokers. The exit code is 1 if a broker does not start.

    How many brokers there are and how they are linked is said by options, or by a file with their names.
    Settings, the file, and all ports are tried before anything is started. WebSocket, TLS and users are
    settings for all brokers: `--set mqtt_ws=8083`; `--set mqtt_tls=8883` with `mqtt_certificate` and
    `mqtt_key`, a certificate of 127.0.0.1; `--set users_file=FILE`.

    A second network beside it needs a folder of its own in which it is written down: set XDG_RUNTIME_DIR to
    one, for this command and for those that are for that network.

    Try it:

        tidings up --brokers 5 --topology ring
    """
    shape = {"--brokers": brokers, "--topology": topology, "--seed": seed, "--links": links_file}
    if detach:
        given = {**shape, "--port": port, "--data": data}
        words = [
            word for option, value in given.items() if value is not None for word in (option, str(value))
        ]
        words += ["--single"] * single + ["--restart"] * restart
        _detach([*words, *(word for text in assigned or [] for word in ("--set", text))], as_json)
        return
    if links_file is None:
        ids = [f"b{number}" for number in range(1, (brokers or BROKERS) + 1)]
        wanted = links(topology or TOPOLOGY, len(ids), seed or 0)
        title = f"{len(ids)} brokers, {topology or TOPOLOGY}"
    else:
        for option in (option for option, value in shape.items() if value not in (None, links_file)):
            raise typer.BadParameter(
                f"--links {links_file} says which brokers there are and how they are linked; leave out "
                f"{option}"
            )
        ids, wanted = read_links(links_file)
        title = f"{len(ids)} brokers, linked as in {links_file}"
    shared, bases = _shared(assigned or [])
    file = StateFile()
    folder = Path(tempfile.mkdtemp(prefix="tidings-")) if data is None else data.absolute()
    try:
        members = network.members(folder, ids, port, bases)
        file.claim(State(Process.of(os.getpid()), str(folder), data is None, shared, tuple(members)))
    except (InputError, SetupError):
        if data is None:
            folder.rmdir()
        raise
    try:
        for number, member in enumerate(members):
            dialled = [members[there].address for here, there in wanted if here == number]
            network.write_config(member, dialled, folder / "records", shared)
        screen = _Lines() if background else _Screen(f"{title}{', one process' if single else ''}")
        code = Supervisor(file, len(wanted), single, restart, screen, background=background).run()
    finally:
        reaped = file.read()
        if reaped is not None:
            network.stop(reaped.members)
        file.clear()
    raise typer.Exit(code)


def _shared(assigned: Iterable[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Settings for all brokers, and first ports by setting, checked before anything is started."""
    from tidings.service.config import SETTINGS, load

    shared: dict[str, str] = {}
    bases: dict[str, int] = {}
    checked: list[str] = []
    for text in assigned:
        name, _, value = text.partition("=")
        if name in network.BASED:
            bases[name] = _first_port(text, value)
            # Any free one: ports are tried when all are known.
            checked.append(f"{name}={LOOPBACK}:0")
            continue
        if name in network.EACH_OWN:
            raise typer.BadParameter(f"--set {text}: {name} differs from broker to broker and is set by `up`")
        shared[name] = value
        checked.append(text)
    environment = network.environment()
    try:
        configuration = load(None, environment, {"id": "any"}, checked)
    except ConfigurationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    _try_files(configuration)
    # Paths are said from here, and read from the folder of each broker.
    for name, value in shared.items():
        read = SETTINGS[name].kind.read(value)
        paths = [one for one in (read if isinstance(read, tuple) else (read,)) if isinstance(one, Path)]
        if paths:
            shared[name] = ",".join(str(path.absolute()) for path in paths)
    # A broker that joins later must have the same, whatever its variables say then.
    of_clients = {name: configuration[name] for name in ("users_file", "access_file")}
    shared |= {name: str(path.absolute()) for name, path in of_clients.items() if path is not None}
    # Only this machine reaches it; who names users wants them asked for all the same.
    said = "anonymous" in shared or environment.get(SETTINGS["anonymous"].variable)
    anonymous = configuration["anonymous"] if said else configuration["users_file"] is None
    if not anonymous and configuration.closed:
        raise InputError(configuration.closed)
    return shared | {"anonymous": SETTINGS["anonymous"].kind.write(anonymous)}, bases


def _first_port(text: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 5 and 1 <= int(value) <= 65_535):
        raise typer.BadParameter(
            f"--set {text}: {value!r} is no port; give the first one alone, such as 8083, and each broker "
            f"has the next free one from there up on {LOOPBACK}"
        )
    return int(value)


def _try_files(configuration: Configuration) -> None:
    """Read users, rules and certificates as each broker will: all of them would end for what is wrong."""
    if configuration["users_file"] is not None:
        from tidings.service.users import read_users

        read_users(configuration["users_file"])
    if configuration["access_file"] is not None:
        from tidings.service.access import read_rules

        read_rules(configuration["access_file"])
    if configuration["mqtt_certificate"] is not None and configuration["mqtt_key"] is not None:
        from tidings.service.tls import ClientTls, client_context

        authority = configuration["mqtt_client_authority"]
        client_context(ClientTls(configuration["mqtt_certificate"], configuration["mqtt_key"], authority))


def lines(state: State) -> str:
    """What can be pasted, with the real ports."""
    first, last = state.members[0], state.members[-1]
    kept = " (removed at the end)" if state.temporary else ""
    here, there = (one.mqtt.rpartition(":")[2] for one in (last, first))
    settings = state.settings
    anonymous = settings.get("anonymous") != "false"
    user, mosquitto_user = ("", "") if anonymous else (" --user NAME", " -u NAME -P PASSWORD")
    where = "where 'severity >= 3'"
    shown = [
        f"It listens on {LOOPBACK}: only this machine reaches it, and {_who(settings, anonymous)}.",
        f"Data, logs and records are in {state.data}{kept}.",
        "",
        f"  tidings sub 'traffic/#' --{where}{user}",
        f"  tidings pub traffic/athens '{{\"severity\": 4}}'{user}",
        f"  mosquitto_sub -V 5 -p {here}{mosquitto_user} -t 'traffic/#' -D subscribe user-property {where}",
        f"  mosquitto_pub -V 5 -p {there}{mosquitto_user} -t traffic/athens -m '{{\"severity\": 4}}'",
    ]
    signer = f"  # who has signed {settings.get('mqtt_certificate')}"
    trusted = f" --authority FILE{signer}"
    for name, scheme, more in (
        ("mqtt_tls", "mqtts", trusted),
        ("mqtt_ws", "ws", ""),
        ("mqtt_wss", "wss", trusted),
    ):
        if name in first.others:
            shown.append(f"  tidings sub 'traffic/#'{user} --url {scheme}://{first.others[name]}{more}")
    shown.append(f"  curl http://{first.http}/metrics")
    if "https" in first.others:
        shown.append(f"  curl --cacert FILE https://{first.others['https']}/metrics{signer}")
    shown += ["  tidings status", f"  tidings join {last.address}"]
    if last is not first:
        shown.append(f"  tidings leave {shlex.quote(last.id)}")
    return "\n".join([*shown, "  tidings down", ""])


def _who(settings: Mapping[str, str], anonymous: bool) -> str:
    """What clients must show, and may do."""
    if anonymous:
        who = "any client may do anything" if "access_file" not in settings else "any client may connect"
    elif "users_file" in settings:
        who = f"clients need a name of {settings['users_file']}, with the password in TIDINGS_PASSWORD"
    else:
        who = "clients need a certificate"
    return f"{who}; {settings['access_file']} says what they may do" if "access_file" in settings else who


class _Lines:
    """Shows a network where nobody looks: a line for what happens."""

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None: ...

    def say(self, text: str) -> None:
        typer.echo(text)

    def show(self, views: Sequence[View], rates: dict[str, float]) -> None: ...


class _Screen:
    """Shows a network on a terminal: a table that follows it. Elsewhere the table is printed once."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._title = title
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._shown = False

    def __enter__(self) -> _Screen:
        self.say(f"starting {self._title} on this machine alone …")
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, views: Sequence[View], rates: dict[str, float]) -> None:
        if self._live is not None:
            self._live.update(table(views, rates), refresh=True)
        elif not self._shown and all(one.state == "ready" for one in views):
            self._shown = True
            self._console.print(table(views))


class Supervisor:
    """Starts the brokers of a network, watches them, and stops them when it is told to."""

    def __init__(
        self,
        file: StateFile,
        links: int,
        single: bool,
        restart: bool,
        screen: _Lines | _Screen,
        *,
        background: bool,
    ) -> None:
        self._file = file
        self._links = links
        self._single = single
        self._restart = restart
        self._screen = screen
        self._background = background
        self._stop = threading.Event()
        self._hangup = threading.Event()
        """That SIGHUP came, and is for the brokers."""
        self._to_hang_up: set[Process] = set()
        self._were_ready: set[Process] = set()
        self._mourned: set[Process] = set()
        self._started: dict[str, float] = {}
        self._rates: dict[str, float] = {}
        self._before: tuple[float, dict[str, int]] = (0.0, {})

    def run(self) -> int:
        """The exit code, once it is over."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stop.set())
        # In the background there is no terminal that could have been closed.
        hung_up = self._hangup if self._background else self._stop
        signal.signal(signal.SIGHUP, lambda *_: hung_up.set())
        with self._screen:
            state = self._file.read()
            assert state is not None, "the network has been written down"
            self._spawn(list(state.members))
            if not self._wait_until_ready():
                return 0 if self._stop.is_set() else 1
            state = self._file.change(lambda state: msgspec.structs.replace(state, ready=True))
            self._screen.say(lines(state))
            while not self._stop.wait(LOOK_EVERY_S):
                self._look()
            self._screen.say("stopping …")
        state = self._file.read()
        killed = network.stop(state.members) if state is not None else []
        for id_ in killed:
            self._screen.say(f"{id_} did not stop in time and had to be killed")
        return 1 if killed else 0

    def _spawn(self, members: list[Member]) -> None:
        groups = [members] if self._single and members else [[member] for member in members]
        for group in groups:
            for member in network.spawn(group):
                self._file.put(member)

    def _wait_until_ready(self) -> bool:
        end = time.monotonic() + READY_WITHIN_S
        settled = 0
        while not self._stop.wait(0.2):
            views = self._look()
            settled = settled + 1 if network.settled(views, self._links) else 0
            if settled == 2:
                return True
            if self._mourned and not self._restart:
                return False
            if time.monotonic() > end:
                late = ", ".join(f"{one.id} ({one.state})" for one in views if one.state != "ready")
                self._screen.say(f"not ready within {READY_WITHIN_S:.0f} s: {late}")
                return False
        return False

    def _look(self) -> list[View]:
        """Ask all brokers how they are, see to those that died, and show it."""
        network.reap()
        state = self._file.read()
        members = [] if state is None else list(state.members)
        dead = [one for one in members if one.process is not None and not one.alive and not one.leaving]
        for member in dead:
            assert member.process is not None, "it has died, so it has lived"
            if member.process not in self._mourned:
                self._screen.say(network.obituary(member))
        self._mourned |= {one.process for one in dead if one.process is not None}
        if self._restart:
            self._spawn([self._again(one) for one in dead if time.monotonic() >= self._not_before(one)])
        views = [view(member) for member in members]
        self._pass_hangup_on(members, views)
        self._measure(views)
        self._screen.show(views, self._rates)
        return views

    def _pass_hangup_on(self, members: Sequence[Member], views: Sequence[View]) -> None:
        """Send the brokers the SIGHUP that came. A process that starts gets it when all its brokers have been
        ready: it would die of it before.
        """
        ready: dict[Process, bool] = {}
        for member, shown in zip(members, views, strict=True):
            if member.process is not None and member.alive and not member.leaving:
                ready[member.process] = ready.get(member.process, True) and shown.state == "ready"
        self._were_ready |= {process for process, all_ready in ready.items() if all_ready}
        if self._hangup.is_set():
            self._hangup.clear()
            self._to_hang_up |= set(ready)
        for process in self._to_hang_up & self._were_ready:
            process.signal(signal.SIGHUP)
        self._to_hang_up -= self._were_ready

    def _not_before(self, member: Member) -> float:
        """When a broker that died may be started again: at once, then after longer and longer pauses."""
        return self._started.get(member.id, 0.0) + min(PAUSE_S_MAX, 2.0**member.restarts - 1)

    def _again(self, member: Member) -> Member:
        self._started[member.id] = time.monotonic()
        return msgspec.structs.replace(member, restarts=member.restarts + 1)

    def _measure(self, views: Sequence[View]) -> None:
        now, received = time.monotonic(), {one.id: one.received for one in views}
        then, before = self._before
        if now - then >= LOOK_EVERY_S / 2:
            self._rates = {
                id_: max(0, count - before.get(id_, count)) / (now - then) for id_, count in received.items()
            }
            self._before = now, received


def _detach(words: Sequence[str], as_json: bool) -> None:
    """Start the same command in the background, and wait until the network is ready."""
    file = StateFile()
    if file.read() is None:
        file.clear()  # makes the folder, too
    program = "from tidings.cli import main; main()"
    with tempfile.TemporaryFile() as said:
        started = subprocess.Popen(
            [sys.executable, "-P", "-c", program, "up", *words, "--background"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        ready = _ready(file, started.pid)
        network.wait_for(lambda: started.poll() is not None or ready(), READY_WITHIN_S)
        state = file.read()
        if started.poll() is not None or state is None:
            said.seek(0)
            typer.echo(said.read().decode(errors="replace").rstrip(), err=True)
            raise typer.Exit(started.poll() or 1)
    if as_json:
        views = [view(member) for member in state.members]
        typer.echo(json.dumps({"data": state.data, "brokers": msgspec.to_builtins(views)}))
        return

    from rich.console import Console

    Console().print(table([view(member) for member in state.members]))
    typer.echo(lines(state))


def _ready(file: StateFile, pid: int) -> Callable[[], bool]:
    def ready() -> bool:
        state = file.read()
        return state is not None and state.supervisor.pid == pid and state.ready

    return ready
