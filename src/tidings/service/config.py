"""The settings of a broker: one table of what can be set, and how a file, variables and flags fill it.

The table says for each setting its name, what its value looks like, its default and what it is for. Parsing,
the page docs/configuration.md and `tidings broker --settings` are made from it. A flag wins over a variable,
a variable over the file. All that is wrong is found at once, each with its place. How a broker runs is not
known here.
"""

from __future__ import annotations

import dataclasses
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import ConfigurationError, DeclarationError
from tidings.history.logs import Syncing
from tidings.language.declarations import Lines, parse_toml, read_text, read_topic
from tidings.mqtt.settings import ACCEPT, REFUSE
from tidings.mqtt.settings import Settings as MqttSettings
from tidings.overlay.settings import Settings
from tidings.records import segments
from tidings.service.values import (
    BOOL,
    ID,
    LISTEN,
    LISTEN_OR_OFF,
    OFF,
    PATH,
    PATH_OR_OFF,
    PATHS,
    PEER,
    PEERS,
    TEXT,
    TEXTS,
    VIEWS,
    Address,
    Kind,
    address_text,
    choice,
    count,
    duration,
    is_loopback,
    number,
    seconds_text,
    size,
    size_text,
)

if TYPE_CHECKING:
    from tidings.language.topics import Topic

PREFIX = "TIDINGS_"
"""A setting's variable is this and its name in capitals."""

OF_CLIENTS = ("TIDINGS_URL", "TIDINGS_USER", "TIDINGS_PASSWORD")
"""Variables of ours that are no settings of a broker."""

TOKEN_BYTES_MAX = 4096

TLS = ("tls_authority", "tls_certificate", "tls_key")

LISTENERS = {"mqtt": "tcp", "mqtt_tls": "tls", "mqtt_ws": "ws", "mqtt_wss": "wss"}
"""Where MQTT clients connect, and what such a listener is called."""

SECURED = ("mqtt_tls", "mqtt_wss")
"""Those that show a certificate; `https` does too."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    kind: Kind
    default: Any
    meaning: str

    field: str = ""
    """Of `overlay.settings.Settings`, if it is one of those."""

    mqtt_field: str = ""
    """Of `mqtt.settings.Settings`, if it is one of those."""

    secret: bool = False
    """Never shown."""

    @property
    def variable(self) -> str:
        """The name of its variable."""
        return PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        """Its default as a person would write it."""
        return self.kind.absent if self.default is None else self.kind.write(self.default)


def _of_settings(name: str, kind: Kind, meaning: str, secret: bool = False) -> Setting:
    """A row for a field of `Settings`: a duration there ends with its unit, here with its value."""
    fields = {field.name: field.default for field in dataclasses.fields(Settings)}
    field = name if name in fields else f"{name}_s"
    return Setting(name, kind, fields[field], meaning, field, secret=secret)


def _of_mqtt(name: str, kind: Kind, meaning: str) -> Setting:
    """A row for a field of the front door's settings: the same, behind `mqtt_`."""
    fields = {field.name: field.default for field in dataclasses.fields(MqttSettings)}
    field = name if name in fields else f"{name}_s"
    return Setting(f"mqtt_{name}", kind, fields[field], meaning, mqtt_field=field)


TABLE: dict[str, tuple[Setting, ...]] = {
    "The broker": (
        Setting("id", ID, None, "Its name, different from all others of its network. Required."),
        Setting(
            "listen",
            LISTEN,
            ("127.0.0.1", 7883),
            "Where other brokers connect. Port 0 takes any free one. The default is reached from this "
            "machine alone; `0.0.0.0:7883` or `[::]:7883` is for all.",
        ),
        Setting(
            "advertise",
            PEER,
            None,
            "The address that others should dial, where it is not that of `listen`: behind a gateway, or in "
            "a container. It is shown by status and in hints; nothing else depends on it.",
        ),
        Setting("neighbours", PEERS, (), "Brokers to link with, dialled again for ever."),
        Setting(
            "data",
            PATH,
            None,
            "Folder for what must survive a restart. Without it nothing does, and an acknowledged message is "
            "as safe as the process.",
        ),
        Setting("topics", PATHS, (), "Files with topic declarations."),
        Setting(
            "views",
            VIEWS,
            (),
            "Named parts of topics, for clients that cannot say `where`: tables `[[views]]` with `name`, "
            "`from`, `where`, `unknown` and `every`; elsewhere, JSON.",
        ),
    ),
    "The network": (
        _of_settings("network", TEXT, "Network-wide. Brokers of another network are refused."),
        _of_settings(
            "token",
            TEXT,
            "Network-wide. A shared secret by which brokers know each other. Better in a file: `token_file`.",
            secret=True,
        ),
        Setting(
            "token_file", PATH, None, "A file with the token on its first line, for its owner's eyes only."
        ),
        Setting(
            "tls_authority", PATH, None, "Certificates of the authority that signs the brokers', as PEM."
        ),
        Setting(
            "tls_certificate",
            PATH,
            None,
            "This broker's certificate, as PEM; its common name is the broker's id.",
        ),
        Setting(
            "tls_key",
            PATH,
            None,
            "The key of that certificate, as PEM. The three come together or not at all.",
        ),
        _of_settings("trees", count(1, 8), "Network-wide. How many trees undeclared topics share."),
    ),
    "Links": (
        _of_settings("heartbeat", duration(), "A link that has nothing to say says so this often."),
        _of_settings("suspect_after", duration(), "A link silent for so long is taken for lost."),
        _of_settings(
            "greet_within",
            duration(),
            "A connection that has not been greeted and welcomed by then is closed.",
        ),
        _of_settings(
            "resume_within",
            duration(0),
            "A lost connection that is back within this time is resumed, and no tree changes.",
        ),
        _of_settings(
            "redial_min", duration(), "The pause after a first failure to connect; it doubles from there."
        ),
        _of_settings("redial_max", duration(), "The longest pause between two attempts to connect."),
        _of_settings(
            "regrow_min",
            duration(0),
            "How long a root waits for more requests before it starts a new epoch.",
        ),
        _of_settings("regrow_max", duration(0), "The longest such wait."),
        _of_settings(
            "link_window_bytes",
            size(),
            "Publications under way on a link and tree, not yet acknowledged by those behind it.",
        ),
        _of_settings("link_window_messages", count(1), "The same in messages."),
        _of_settings(
            "link_replay_messages",
            count(1),
            "Messages kept for a neighbour that has not received them; beyond, its session begins anew.",
        ),
        _of_settings("link_unacked_bytes", size(), "Data sent on a connection and not yet received."),
        _of_settings(
            "homes_filters_max",
            count(1),
            "Network-wide. Filters of all other brokers that a broker keeps. Each may ask for its share of "
            "them; one whose clients ask for more asks in fewer, wider filters.",
        ),
        Setting(
            "connections_max", count(1, 1_000_000), 1024, "Connections of other brokers at `listen` at once."
        ),
        Setting("ungreeted_max", count(1, 100_000), 64, "Those of them that have not said yet who they are."),
    ),
    "Publications and subscriptions": (
        _of_settings(
            "settle",
            duration(0),
            "A subscription that a broker in reach has not confirmed by then is granted as `settling`.",
        ),
        _of_settings(
            "acks",
            choice("origin", "neighbour"),
            "When a publication is acknowledged: once it is on this broker's disk, or also at a second one.",
        ),
        _of_settings(
            "absent_hold", duration(0), "How long publications are held for brokers that cannot be reached."
        ),
        _of_settings("absent_hold_bytes", size(0), "How much is held for them."),
        _of_settings(
            "overflow",
            choice("drop", "block"),
            "Beyond that: drop the oldest, counted and logged, or acknowledge no more.",
        ),
        _of_settings(
            "drain_within",
            duration(0),
            "How long a broker that stops waits for what it has sent to be acknowledged.",
        ),
        _of_settings(
            "backlog_bytes",
            size(),
            "Publications of clients here that wait for room on a link; beyond it, publishers are paused.",
        ),
        _of_settings("message_bytes_max", size(1, 256 << 20), "The largest payload."),
        _of_settings("cover_effort", count(0), "How many subscriptions a new one is compared with, at most."),
        _of_settings("topic_cache", count(1), "Topics whose matching topic filters are remembered."),
    ),
    "Gathering": (
        _of_settings(
            "deputies",
            BOOL,
            "Network-wide. Whether what a seat has is copied to a second broker before it is told or "
            "acknowledged. Without, a seat that dies takes its open events with it until it is back.",
        ),
        _of_settings(
            "seat_protocol",
            choice("report", "paper"),
            "Network-wide. How seats are found: by one report per link and direction, or by the published "
            "messages, for centres only.",
        ),
        _of_settings(
            "seat_window", duration(0.1), "How often traffic is counted and seats are looked at anew."
        ),
        _of_settings(
            "seat_windows",
            count(1, 1000),
            "In how many windows in a row another broker must be better before a seat moves.",
        ),
        _of_settings("seat_gain", number(0, 1), "By how much better, as a share of the cost."),
        _of_settings("seat_stay", duration(0), "How long a seat stays where it is, at least."),
        _of_settings("report_window", count(1), "Reports of one broker on their way to one seat."),
        _of_settings("report_window_bytes", size(), "The same in bytes."),
        _of_settings(
            "relay_margin",
            duration(0),
            "How long before an event may close reports about it are no longer dropped on the way.",
        ),
        _of_settings(
            "relay_hold",
            duration(0),
            "How long a report waits for others to merge with, on topics that ask for it.",
        ),
        _of_settings(
            "following_max",
            count(1),
            "Open events of which a broker remembers who has had which version.",
        ),
    ),
    "MQTT": (
        Setting(
            "mqtt",
            LISTEN_OR_OFF,
            ("127.0.0.1", 1883),
            "Where MQTT clients connect. The default is reached from this machine alone; `0.0.0.0:1883` or "
            "`[::]:1883` is for all.",
        ),
        Setting("mqtt_tls", LISTEN_OR_OFF, None, "The same with TLS; the usual port is 8883."),
        Setting(
            "mqtt_ws", LISTEN_OR_OFF, None, "The same by WebSocket, at the path `/mqtt`; often on port 8083."
        ),
        Setting("mqtt_wss", LISTEN_OR_OFF, None, "The same by WebSocket with TLS; often on port 8084."),
        Setting(
            "mqtt_certificate",
            PATH,
            None,
            "The certificate that clients are shown, as PEM, with those between it and the authority.",
        ),
        Setting("mqtt_key", PATH, None, "The key of that certificate, as PEM."),
        Setting(
            "mqtt_client_authority",
            PATH,
            None,
            "Certificates of an authority, as PEM. A client may show a certificate that it has signed; the "
            "common name in it is then the user's name, and no password is asked for.",
        ),
        Setting(
            "mqtt_client_certificates",
            choice("optional", "required"),
            "optional",
            "Whether clients with TLS must show such a certificate.",
        ),
        Setting(
            "mqtt_origins",
            TEXTS,
            (),
            "Web pages that may connect by WebSocket, such as `https://example.org`; none said, any may.",
        ),
        Setting(
            "users_file",
            PATH,
            None,
            "Users and their passwords; `tidings user add` writes it. SIGHUP reads it.",
        ),
        Setting(
            "access_file",
            PATH,
            None,
            "Rules who may publish, subscribe and declare what. Without it, whoever may connect may do all. "
            "SIGHUP reads it.",
        ),
        Setting("anonymous", BOOL, False, "Whether clients without a name and a password may connect."),
        Setting(
            "mqtt_connections_max",
            count(1, 1_000_000),
            50_000,
            "MQTT connections at once; fewer where the system's limit on open files does not allow as many.",
        ),
        Setting(
            "mqtt_connections_per_address_max",
            count(0, 1_000_000),
            0,
            "MQTT connections at once from one IP address; 0 for any.",
        ),
        _of_mqtt(
            "connect_within", duration(), "A connection that has not said by then who it is, is closed."
        ),
        _of_mqtt(
            "keep_alive_max",
            duration(0, 65_535),
            "The longest keep-alive that a client may choose; it is told otherwise. 0 for any, or none.",
        ),
        _of_mqtt(
            "session_expiry_max",
            duration(0, 4_294_967_294),
            "The longest that a session is kept for a client that is away; one of MQTT 3.1.1 without clean "
            "session is kept so long.",
        ),
        _of_mqtt(
            "receive_maximum",
            count(1, 65_535),
            "Publications of QoS 1 and 2 of one client that may be under way to the broker.",
        ),
        _of_mqtt("inflight_max", count(1, 65_535), "And to one client, even if it allows more."),
        _of_mqtt("inflight_bytes", size(1), "And how much of it; one publication may always be under way."),
        _of_mqtt(
            "topic_alias_maximum",
            count(0, 65_535),
            "Topic aliases that a client may set, and that are set for it if it wants.",
        ),
        _of_mqtt("packet_bytes_max", size(1024, 268_435_460), "The largest packet that is taken."),
        _of_mqtt(
            "queue_messages",
            count(1, 65_000),
            "Publications of QoS 1 and 2 that wait for one client; beyond it, or beyond twice as many for a "
            "client that is there and not slow, new ones are dropped.",
        ),
        _of_mqtt("queue_bytes", size(), "The same in bytes."),
        _of_mqtt("queues_bytes", size(), "The same in bytes, for all clients together."),
        _of_mqtt(
            "slow_bytes",
            size(),
            "QoS 0 for a client that takes less than it asked for; what does not fit is dropped.",
        ),
        _of_mqtt("sessions_max", count(1), "Sessions, of clients that are there or away."),
        Setting(
            "mqtt_subscriptions_max",
            count(1),
            10_000,
            "Subscriptions of one session.",
            field="session_subscriptions_max",
            mqtt_field="subscriptions_max",
        ),
        _of_mqtt("retained_messages", count(0), "Retained messages."),
        _of_mqtt("retained_bytes", size(0), "The same in bytes."),
        _of_mqtt(
            "publish_rate",
            number(0),
            "Publications per second that one client may send; of who sends more they are taken later. 0 for "
            "any.",
        ),
        _of_mqtt("publish_bytes_rate", number(0), "The same in bytes per second."),
        Setting(
            "unknown_properties",
            choice(ACCEPT, REFUSE),
            ACCEPT,
            "User properties of SUBSCRIBE that Tidings does not know: `accept` ignores them, `refuse` "
            "refuses the subscription. A name one edit away from ours, such as `wher`, is always refused.",
            mqtt_field="unknown_properties",
        ),
        _of_mqtt("sys_every", duration(0), "How often `$SYS` is brought up to date; 0 for never."),
    ),
    "Topics that are kept": (
        Setting(
            "keep_sync",
            choice(*Syncing),
            Syncing.ALWAYS.value,
            "When what a topic keeps is durable: `always` before it is acknowledged; by `interval`, and no "
            "acknowledgement waits for it; or `never`, which is when the system sees fit.",
        ),
        Setting("keep_sync_every", duration(0.01), 1.0, "How often, with `keep_sync` by `interval`."),
        Setting(
            "keep_bytes",
            size(0),
            0,
            "How much disk all that is kept may take; the oldest makes room, whatever its topic says. 0 for "
            "any.",
        ),
    ),
    "Watching it": (
        Setting(
            "http",
            LISTEN_OR_OFF,
            ("127.0.0.1", 9883),
            "Where health, readiness, metrics, status and the log are served. Port 0 takes any free one.",
        ),
        Setting(
            "https",
            LISTEN_OR_OFF,
            None,
            "The same with TLS and the certificate of `mqtt_certificate`, for those who read the log from "
            "elsewhere; it needs `http` too.",
        ),
        Setting(
            "http_advertise",
            PEER,
            None,
            "The address at which other brokers reach `http`, where it is not that one: behind a gateway, or "
            "in a container. They ask there for the log.",
        ),
        Setting(
            "records",
            PATH_OR_OFF,
            None,
            "Folder for records, which brokers may share. By default it is `records` inside `data`; without "
            "`data`, none are written.",
        ),
        Setting("records_rows_max", count(1, 10_000_000), segments.ROWS_MAX, "Rows of one file of records."),
        Setting(
            "records_age_max",
            duration(),
            segments.AGE_MAX_S,
            "A file of records is closed after this time at most.",
        ),
        Setting(
            "records_keep_bytes",
            size(),
            segments.KEEP_BYTES,
            "How much disk this broker's records may take; the oldest make room.",
        ),
        Setting(
            "log_level",
            choice("debug", "info", "warning", "error"),
            "info",
            "The least important messages that are logged.",
        ),
        Setting(
            "log_format",
            choice("auto", "json", "text"),
            "auto",
            "One JSON object per line, or text for people; `auto` is text on a terminal, else JSON.",
        ),
    ),
}
"""All that can be set, by heading."""

SETTINGS: dict[str, Setting] = {setting.name: setting for rows in TABLE.values() for setting in rows}
"""The same by name."""


REPLACED = {"link_subscriptions_max": "homes_filters_max"}
"""Settings of earlier releases, and those that have taken their place."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was said."""

    place: str
    """For messages: `broker.toml:3`, `TIDINGS_LISTEN`, `--listen`."""

    folder: Path
    """What a relative path is relative to."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a broker is to be."""

    values: Mapping[str, Any]
    """Of every setting, by name."""

    topics: tuple[Topic, ...]
    """The declarations, read."""

    settings: Settings
    """What the broker itself is told."""

    mqtt: MqttSettings
    """What its front door is told."""

    warnings: tuple[str, ...]
    """What is allowed, and perhaps not meant."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def records(self) -> Path | None:
        """The folder for records, if any are written."""
        folder, data = self.values["records"], self.values["data"]
        if folder == OFF or (folder is None and data is None):
            return None
        return Path(data / "records" if folder is None else folder)

    @property
    def listeners(self) -> dict[str, Address]:
        """Where MQTT clients connect, by the name of the setting."""
        return {name: self.values[name] for name in LISTENERS if self.values[name] is not None}

    @property
    def closed(self) -> str:
        """Why no MQTT client could ever come in, although a listener is on; empty if one could."""
        values = self.values
        certified = values["mqtt_client_authority"] and any(name in self.listeners for name in SECURED)
        if not self.listeners or values["anonymous"] or values["users_file"] or certified:
            return ""
        return (
            f"nobody could connect at {next(iter(self.listeners))}: there are no users, and anonymous "
            f"clients are not allowed; set users_file (`tidings user add NAME --file FILE` makes one), or "
            f"anonymous = true, or mqtt = {OFF!r}"
        )

    def shown(self) -> dict[str, str]:
        """Every setting as it would be written, secrets hidden; empty for what is not set."""
        return {
            name: setting.kind.absent
            if (value := self.values[name]) in (None, "")
            else "(hidden)"
            if setting.secret
            else setting.kind.write(value)
            for name, setting in SETTINGS.items()
        }


def load(
    file: Path | str | None = None,
    variables: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    assigned: Iterable[str] = (),
) -> Configuration:
    """The configuration that a file, variables and flags make together.

    ConfigurationError holds everything that is wrong with it. `flags` are values by the name of their
    setting, None for a flag that was not given; `assigned` are texts such as `heartbeat=2s`.
    """
    problems: list[str] = []
    warnings: list[str] = []
    said: dict[str, tuple[Source, object]] = {}
    if file is not None:
        said.update(_of_file(Path(file), problems))
    said.update(_of_variables(os.environ if variables is None else variables, problems, warnings))
    for name, value in (flags or {}).items():
        if value is not None:
            said[name] = Source(f"--{name.replace('_', '-')}", Path.cwd()), value
    for text in assigned:
        name, equals, value = text.partition("=")
        if equals and name in SETTINGS:
            said[name] = Source(f"--set {name}", Path.cwd()), value
        elif equals:
            problems.append(f"--set {text}: there is no setting {name!r}{_nearest(name)}")
        else:
            problems.append(f"--set {text}: there is no value; write name=value, such as heartbeat=2s")
    values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
    places: dict[str, str] = {}
    bad: set[str] = set()
    for name, (source, value) in said.items():
        places[name] = source.place
        try:
            values[name] = _placed(SETTINGS[name].kind.read(value), source.folder)
        except ValueError as error:
            shown_error = f"{name} cannot be read" if SETTINGS[name].secret else f"{name}: {error}"
            problems.append(f"{source.place}: {shown_error}")
            bad.add(name)
    _read_token(values, places, problems, warnings)
    topics = _read_topics(values["topics"], places, problems)
    if "id" not in said:
        problems.append(_missing_id(file))
    for names, message in _contradictions(values):
        # Beside a bad value stands a default, which contradicts what nobody said.
        if not bad.intersection(names):
            problems.append(f"{next(places[name] for name in names if name in places)}: {message}")
    if problems:
        raise ConfigurationError(sorted(problems, key=lambda problem: _line(problem, file)))
    warnings.extend(_doubts(values))
    fields = {one.field: values[one.name] for one in SETTINGS.values() if one.field}
    return Configuration(values, topics, Settings(**fields), _mqtt_settings(values), tuple(warnings))


def _mqtt_settings(values: Mapping[str, Any]) -> MqttSettings:
    whole = {field.name for field in dataclasses.fields(MqttSettings) if field.type == "int"}
    fields = {one.mqtt_field: values[one.name] for one in SETTINGS.values() if one.mqtt_field}
    return MqttSettings(**{name: round(value) if name in whole else value for name, value in fields.items()})


def _line(problem: str, file: Path | str | None) -> float:
    """What problems are sorted by: their line in the file, and those of elsewhere behind them."""
    line = problem.removeprefix(f"{file}:").partition(":")[0]
    return int(line) if line.isdecimal() else math.inf


def _missing_id(file: Path | str | None) -> str:
    place = "settings" if file is None else str(file)
    return (
        f"{place}: id is missing; every broker has its own: "
        f'id = "athens-1" in a file, {PREFIX}ID=athens-1 or --id athens-1'
    )


def _of_file(file: Path, problems: list[str]) -> dict[str, tuple[Source, object]]:
    try:
        text = read_text(file)
        mapping = parse_toml(text, str(file))
    except DeclarationError as error:
        problems.append(str(error))
        return {}
    lines = Lines(text)
    found: dict[str, tuple[Source, object]] = {}
    for name, value in mapping.items():
        place = f"{file}:{lines.line((name,))}"
        if name in SETTINGS:
            found[name] = Source(place, file.parent.absolute()), value
        else:
            problems.append(f"{place}: there is no setting {name!r}{_nearest(name)}")
    return found


def _of_variables(
    variables: Mapping[str, str], problems: list[str], warnings: list[str]
) -> dict[str, tuple[Source, object]]:
    found: dict[str, tuple[Source, object]] = {}
    for variable in sorted(variables):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if variable in OF_CLIENTS:
            continue
        if name in SETTINGS:
            if variables[variable]:
                found[name] = Source(variable, Path.cwd()), variables[variable]
        elif near := _near(name):
            problems.append(f"{variable}: there is no such setting; did you mean {PREFIX}{near.upper()}?")
        else:
            # Kubernetes puts TIDINGS_SERVICE_HOST and others into every container near a service `tidings`.
            warnings.append(f"{variable} is no setting of ours and is left alone")
    return found


def _near(name: str) -> str | None:
    return REPLACED.get(name) or next(iter(get_close_matches(name, SETTINGS, n=1, cutoff=0.75)), None)


def _nearest(name: str) -> str:
    if name in REPLACED:
        return f" any more; {REPLACED[name]} has taken its place"
    near = _near(name.lower().replace("-", "_"))
    return f"; did you mean {near}?" if near else "; `tidings broker --settings` lists them"


def _placed(value: Any, folder: Path) -> Any:
    """Relative paths are relative to where they were said."""
    if isinstance(value, tuple):
        return tuple(_placed(one, folder) for one in value)
    return folder / value if isinstance(value, Path) else value


def _read_token(
    values: dict[str, Any], places: Mapping[str, str], problems: list[str], warnings: list[str]
) -> None:
    """Put the token of a file into its place."""
    if (file := values["token_file"]) is None:
        return
    place = places["token_file"]
    if "token" in places:
        problems.append(f"{place}: token_file and token ({places['token']}) are both given; keep one")
        return
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read(TOKEN_BYTES_MAX + 1).decode().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{place}: token_file {file} cannot be read: {getattr(error, 'strerror', error)}")
        return
    if not text or len(text) > TOKEN_BYTES_MAX or not text.isprintable():
        problems.append(
            f"{place}: {file} has no token on its first line; write a line of printable characters"
        )
    if stat.S_IMODE(mode) & 0o077:
        # Not refused: Kubernetes mounts secrets like that.
        warnings.append(f"others on this machine may read {file}; make it yours alone: chmod 600 {file}")
    values["token"] = text


def _read_topics(files: Iterable[Path], places: Mapping[str, str], problems: list[str]) -> tuple[Topic, ...]:
    topics = []
    for file in files:
        try:
            topics.append(read_topic(file))
        except DeclarationError as error:
            problems += [f"{places['topics']}: {line}" for line in str(error).splitlines()]
    return tuple(topics)


def _contradictions(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Settings that are right alone and wrong together: which, and what is wrong."""
    for low, high in (
        ("heartbeat", "suspect_after"),
        ("redial_min", "redial_max"),
        ("regrow_min", "regrow_max"),
    ):
        small, large = values[low], values[high]
        if large < small or (low == "heartbeat" and large == small):
            yield (
                (high, low),
                f"{high} = {seconds_text(large)} is too short beside {low} = {seconds_text(small)}",
            )
    message, window = values["message_bytes_max"], values["link_window_bytes"]
    if message > window:
        yield (
            ("message_bytes_max", "link_window_bytes"),
            f"message_bytes_max = {size_text(message)} is more than link_window_bytes = {size_text(window)}",
        )
    given = [name for name in TLS if values[name] is not None]
    if given and len(given) < len(TLS):
        missing = " and ".join(name for name in TLS if name not in given)
        yield TLS, f"{given[0]} is given without {missing}; give all three or none"
    places: dict[Address, str] = {}
    for name in ("listen", *LISTENERS, "http", "https"):
        address = values[name]
        if address is not None and address[1] != 0:
            other = places.setdefault(address, name)
            if other != name:
                yield (
                    (name, other),
                    f"{name} and {other} are both {address_text(address)}; take another port for one",
                )
    if values["https"] is not None and values["http"] is None:
        yield ("https", "http"), "https is given and http is off; set http to an address of this machine, say"
    secured = next((name for name in (*SECURED, "https") if values[name] is not None), None)
    missing_files = [name for name in ("mqtt_certificate", "mqtt_key") if values[name] is None]
    if secured and missing_files:
        yield (secured, *missing_files), f"{secured} is given without {' and '.join(missing_files)}"
    if values["mqtt_client_certificates"] == "required" and values["mqtt_client_authority"] is None:
        yield (
            ("mqtt_client_certificates",),
            "certificates of clients are required, but nothing says whose; give mqtt_client_authority",
        )
    packet = values["mqtt_packet_bytes_max"]
    if packet < message:
        yield (
            ("mqtt_packet_bytes_max", "message_bytes_max"),
            f"mqtt_packet_bytes_max = {size_text(packet)} is not enough for message_bytes_max",
        )


def _doubts(values: Mapping[str, Any]) -> Iterator[str]:
    """What is allowed, and perhaps not meant."""
    listen = values["listen"]
    if not is_loopback(listen[0]) and not values["token"] and values["tls_key"] is None:
        yield f"listen is {address_text(listen)} with neither token nor TLS: whoever reaches it may join"
    for name in LISTENERS:
        address = values[name]
        if address is None or is_loopback(address[0]):
            continue
        if values["anonymous"] and values["access_file"] is None:
            yield (
                f"{name} is {address_text(address)}, anonymous clients are allowed and there is no "
                "access_file: whoever reaches it may do everything"
            )
        if name not in SECURED and values["users_file"] is not None:
            yield f"{name} is {address_text(address)} without TLS: passwords can be read on the way"
    if values["data"] is None:
        yield "no data folder is set: nothing survives a restart"


def markdown() -> str:
    """The tables of docs/configuration.md."""
    parts = []
    for heading, rows in TABLE.items():
        parts.append(f"## {heading}\n\n| setting | value | default | meaning |\n|---|---|---|---|")
        for row in rows:
            default = f"`{row.default_text}`" if row.default_text else ""
            parts.append(f"| `{row.name}` | {row.kind.form} | {default} | {row.meaning} |")
        parts.append("")
    return "\n".join(parts)
