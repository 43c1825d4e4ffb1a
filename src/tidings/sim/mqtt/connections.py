"""Connections between MQTT clients and their brokers: bytes in pieces, losses at any byte, slow readers.

It brings what clients send to the front of their broker, carries out what a front wants done for them, and
lets clients come back when they are not there on purpose. A connection that breaks loses what is in flight
from some byte on; either side learns of it at a time of its own, or not at all. What the bytes mean is not
known here, but that pings are no news.
"""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING, Any

from tidings.mqtt.events import (
    BytesReceived,
    CheckPassword,
    ClientCongested,
    ClientConnected,
    ClientEvent,
    ClientLost,
    ClientVerified,
    CloseClient,
    PauseReading,
    ResumeReading,
    Transmit,
)
from tidings.sim.mqtt.client import MqttClient
from tidings.sim.mqtt.trace import Offer, Outage, Settled, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidings.sim.mqtt.trace import Connection
    from tidings.sim.node import Node
    from tidings.sim.world import World

CONGESTED_BYTES = 600
"""What a slow client has not read before its broker is told; small, or it would never come to that."""

PATIENCE_S = 12.0
"""A client whose CONNECT is not answered for so long tries again."""

TURNS_S = (0.0, 0.0, 0.0005, 0.003)
"""How long a broker may be at something else before it looks at what has come from clients."""

PINGS = (b"\xc0\x00", b"\xd0\x00")


class ClientConnection:
    """One connection."""

    __slots__ = (
        "boot",
        "congested",
        "connection",
        "delay_s",
        "down_last",
        "down_left",
        "down_way",
        "host",
        "host_open",
        "number",
        "open",
        "party",
        "quiet",
        "unheard",
        "unread",
        "up_last",
        "up_left",
        "up_way",
    )

    def __init__(self, party: Party, host: Node, number: int, delay_s: float, connection: Connection) -> None:
        self.party = party
        self.host = host
        self.boot = host.boot
        self.number = number
        self.delay_s = delay_s
        self.connection = connection
        self.open = True
        """Whether the client holds it."""
        self.host_open = True
        """Whether the broker does."""
        self.up_last = self.down_last = 0.0
        """When the last byte that was sent arrives: the next comes no sooner."""
        self.up_way = self.down_way = 0
        """Bytes in flight."""
        self.up_left = self.down_left = inf
        """Bytes that still arrive; those behind them are lost."""
        self.quiet = False
        """Whether the broker does not want to read from it."""
        self.unheard: list[bytes | None] = []
        """What it has not read therefore; None is the end."""
        self.unread: list[bytes | None] = []
        """What the client has not read, since it is slow."""
        self.congested = False


class Party:
    """A client and how it behaves: whether it is there, how far away, how fast it reads."""

    __slots__ = ("away", "delay_s", "device", "dialling", "host", "line", "pending", "slow_until", "will")

    def __init__(self, device: MqttClient, host: Node, delay_s: float) -> None:
        self.device = device
        self.host = host
        self.delay_s = delay_s
        self.line: ClientConnection | None = None
        self.away = False
        """Whether it stays away on purpose."""
        self.dialling = 0
        """Counts attempts to connect; odd while one is under way or planned."""
        self.slow_until = 0.0
        """It reads nothing until then."""
        self.pending = inf
        """When it will be told the time."""
        self.will: Callable[[], Offer] | None = None
        """Makes a will for each connection, if it leaves one."""

    @property
    def settled(self) -> bool:
        """Whether it is connected and has said and read all that there was, or is away on purpose."""
        line, device = self.line, self.device
        if line is None:
            return self.away
        whole = line.host_open and line.up_left == line.down_left == inf
        idle = not (device.sending or device.queue or device.acks or line.up_way or line.down_way)
        return device.open and whole and idle and not device.asking


class Connections:
    """All connections of clients in a world."""

    def __init__(self, world: World, seed: int | str) -> None:
        self.diary = Trace()
        self.parties: dict[str, Party] = {}
        self._world = world
        self._agenda = world.agenda
        self._random = random.Random(f"lines/{seed}")
        self._lines: dict[tuple[str, int], ClientConnection] = {}
        """By host and number, for as long as the broker there holds them."""
        self._parting: dict[tuple[str, int], tuple[Connection, str]] = {}
        """Those that are gone, and why, of which the broker is about to be told."""
        self.carry: dict[type, Callable[[Node, Any], None]] = {
            Transmit: self._transmit,
            CloseClient: self._shut,
            PauseReading: self._quiet,
            ResumeReading: self._heed,
            CheckPassword: self._verify,
        }

    def party(self, device: MqttClient) -> Party:
        """A new client; it comes when it is told to."""
        party = Party(device, self._world.hosts[device.host], self._random.choice((0.0, 0.0005, 0.01, 0.08)))
        party.away = True
        self.parties[device.name] = party
        return party

    @property
    def settled(self) -> bool:
        return all(party.settled or not party.host.up for party in self.parties.values())

    def settle(self) -> None:
        """Note that the network is whole and quiet."""
        there = frozenset(name for name, party in self.parties.items() if party.settled and not party.away)
        self.diary.settled.append(Settled(self.diary.next_turn(), self._agenda.now, there))

    # What clients do.

    def come(self, party: Party, *, clean: bool = False) -> None:
        """Let a client that was away connect."""
        party.away = False
        if party.line is None and not party.dialling % 2:
            self._dial_later(party, 0.0, clean)

    def leave(self, party: Party, *, with_will: bool = False) -> None:
        """Let a client say goodbye and stay away."""
        party.away = True
        line, device = party.line, party.device
        if line is None:
            party.dialling += party.dialling % 2
        elif not device.open:
            self._hang_up(party, line)
        else:
            said = device.disconnect(self._agenda.now, with_will=with_will)
            self._send_up(line, said)
            self._hang_up(party, line)

    def drop(self, party: Party, *, silent: bool = False, forgetful: bool = False) -> None:
        """Break a client's connection, or let the client die and forget its session; it comes back."""
        line = party.line
        if line is not None:
            self._break(line, silent=silent and party.device.temper.keep_alive_s > 0, dead=forgetful)
        if forgetful:
            party.device.forget()

    def slow(self, party: Party, seconds: float) -> None:
        """Let a client read nothing for a while."""
        party.slow_until = max(party.slow_until, self._agenda.now + seconds)
        self._agenda.add(party.slow_until, self._read_on, party)

    def reluctant(self, party: Party, seconds: float) -> None:
        """Let a client acknowledge nothing for a while."""
        party.device.prompt = False
        self._agenda.add(self._agenda.now + seconds, self._willing, party)

    def _willing(self, party: Party, _: object) -> None:
        party.device.prompt = True
        self.say(party, party.device.release(self._agenda.now))

    def say(self, party: Party, data: bytes) -> None:
        """Let a client send bytes, if there are any and it is connected."""
        if party.line is not None:
            self._send_up(party.line, data)
            self._set_timer(party)

    # Connecting.

    def _dial_later(self, party: Party, seconds: float, clean: bool = False) -> None:
        party.dialling += 1
        assert party.dialling % 2, "one attempt at a time"
        self._agenda.add(
            self._agenda.now + seconds + party.delay_s, self._dial, party, (party.dialling, clean)
        )

    def _dial(self, party: Party, told: tuple[int, bool]) -> None:
        attempt, clean = told
        if party.dialling != attempt:
            return
        party.dialling += 1
        host = party.host
        if not host.welcoming:
            self._dial_later(party, self._random.uniform(0.05, 1.5), clean)
            return
        now = self._agenda.now
        host.connections += 1
        said = party.device.connect(now, clean=clean, will=party.will() if party.will else None)
        connection = party.device.connection
        assert connection is not None, "it has just been made"
        line = party.line = ClientConnection(party, host, host.connections, party.delay_s, connection)
        self._lines[host.address, line.number] = line
        self._tell(host, ClientConnected(line.number, f"{party.device.name}:1", None, "tcp"))
        self._send_up(line, said)
        self._set_timer(party)
        self._agenda.add(now + PATIENCE_S, self._out_of_patience, line)

    def _out_of_patience(self, line: ClientConnection, _: object) -> None:
        if line.open and not line.party.device.open:
            self._give_up(line)

    # Bytes.

    def _send_up(self, line: ClientConnection, data: bytes) -> None:
        if not data:
            return
        if data not in PINGS:
            self._world.active_at = self._agenda.now
        line.up_way += len(data)
        for piece in self._pieces(data):
            line.up_last = max(line.up_last, self._arrival(line))
            self._agenda.add(line.up_last, self._arrive_up, line, piece)

    def _arrive_up(self, line: ClientConnection, data: bytes) -> None:
        line.up_way -= len(data)
        if line.up_left != inf:
            data = data[: int(line.up_left)]
            line.up_left -= len(data)
        if data and line.host_open and line.host.boot == line.boot and line.host.up:
            if line.quiet or line.unheard:
                line.unheard.append(data)
            else:
                self._tell(line.host, BytesReceived(line.number, data))

    def _tell(self, host: Node, event: ClientEvent) -> None:
        """Bring something to a front; what comes within a few moments is brought at once."""
        host.inbox.append(event)
        if len(host.inbox) == 1:
            at = self._agenda.now + self._random.choice(TURNS_S)
            self._agenda.add(at, self._bring, host, host.boot)

    def _bring(self, host: Node, boot: int) -> None:
        if host.boot == boot and host.up:
            events, host.inbox = host.inbox, []
            self._world.tell_all(host, events)

    def _transmit(self, host: Node, effect: Transmit) -> None:
        line = self._lines.get((host.address, effect.connection))
        data = b"".join(effect.chunks)
        if line is None or not line.host_open or not data:
            return
        if data not in PINGS:
            self._world.active_at = self._agenda.now
        line.down_way += len(data)
        for piece in self._pieces(data):
            line.down_last = max(line.down_last, self._arrival(line))
            self._agenda.add(line.down_last, self._arrive_down, line, piece)
        self._look_at_congestion(line)

    def _arrive_down(self, line: ClientConnection, data: bytes) -> None:
        if line.down_left != inf:
            lost = len(data)
            data = data[: int(line.down_left)]
            line.down_left -= len(data)
            line.down_way -= lost - len(data)
        if not line.open:
            return
        if line.unread or line.party.slow_until > self._agenda.now:
            line.unread.append(data)
        else:
            self._read(line, data)

    def _read(self, line: ClientConnection, data: bytes | None) -> None:
        party = line.party
        if data is None:
            self._give_up(line)
            return
        line.down_way -= len(data)
        self._look_at_congestion(line)
        said = party.device.receive(data, self._agenda.now)
        if party.device.broken:
            self._give_up(line)
        else:
            self.say(party, said)

    def _read_on(self, party: Party, _: object) -> None:
        line = party.line
        while line is not None and line.open and line.unread and party.slow_until <= self._agenda.now:
            self._read(line, line.unread.pop(0))

    def _pieces(self, data: bytes) -> list[bytes]:
        """Bytes as they may be cut on their way."""
        source = self._random
        if len(data) < 2 or source.random() < 0.7:
            return [data]
        cuts = sorted({source.randrange(1, len(data)) for _ in range(source.choice((1, 1, 2, 5)))})
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _arrival(self, line: ClientConnection) -> float:
        late = self._random.random() * line.delay_s if self._random.random() < 0.2 else 0.0
        return self._agenda.now + line.delay_s + late

    def _look_at_congestion(self, line: ClientConnection) -> None:
        """More waits for a client than it takes, or no more."""
        congested = line.down_way > (CONGESTED_BYTES if not line.congested else 0)
        if congested is not line.congested and line.host_open and line.host.up:
            line.congested = congested
            self._tell(line.host, ClientCongested(line.number, congested))

    # Reading or not.

    def _quiet(self, host: Node, effect: PauseReading) -> None:
        if (line := self._lines.get((host.address, effect.connection))) is not None:
            line.quiet = True

    def _heed(self, host: Node, effect: ResumeReading) -> None:
        if (line := self._lines.get((host.address, effect.connection))) is not None:
            line.quiet = False
            self._agenda.add(self._agenda.now, self._hear_on, line)

    def _hear_on(self, line: ClientConnection, _: object) -> None:
        host = line.host
        while line.unheard and not line.quiet and line.host_open and host.boot == line.boot:
            data = line.unheard.pop(0)
            if data is None:
                self._part(line, "farewell" if line.connection.farewell is not None else "lost")
            else:
                self._tell(host, BytesReceived(line.number, data))

    def _verify(self, host: Node, effect: CheckPassword) -> None:
        told = ClientVerified(effect.connection, effect.username)
        self._agenda.add(self._agenda.now + 0.05, self._verified, host, (host.boot, told))

    def _verified(self, host: Node, told: tuple[int, ClientVerified]) -> None:
        if host.up and host.boot == told[0]:
            self._tell(host, told[1])

    # Ends.

    def _shut(self, host: Node, effect: CloseClient) -> None:
        """The broker closes, behind all that it has sent."""
        key = (host.address, effect.connection)
        if key in self._parting:  # it did so before it was told that the client had gone
            self._parting[key] = (self._parting[key][0], "shut")
        line = self._lines.get(key)
        if line is None or not line.host_open:
            return
        # It may not have read all that the client said before it left.
        unread = bool(line.up_way or line.unheard) or line.up_left != inf
        unread = unread or host.slow_s > 0 or host.busy_until > self._agenda.now
        unread = unread or any(getattr(one, "connection", None) == line.number for one in host.inbox)
        back = line.connection is not self.diary.connections[line.connection.client][-1]
        left = line.connection.farewell is not None and not unread and not back
        # A broker that stops is as good as gone: what would be due now is due after its next start.
        line.host_open = False
        del self._lines[key]
        self._parted(line.connection, "died" if host.stopping else "farewell" if left else "shut")
        at = max(self._agenda.now + line.delay_s, line.down_last)
        self._agenda.add(at, self._closed, line)

    def _closed(self, line: ClientConnection, _: object) -> None:
        if not line.open:
            return
        if line.unread or line.party.slow_until > self._agenda.now:
            line.unread.append(None)
        else:
            self._give_up(line)

    def _give_up(self, line: ClientConnection) -> None:
        """The client is through with a connection."""
        if line.open:
            self._hang_up(line.party, line)
            self._come_back(line.party)

    def _hang_up(self, party: Party, line: ClientConnection) -> None:
        """The client closes behind all that it has sent; the broker learns of it when that has come."""
        line.open = False
        party.line = None
        party.device.lost(self._agenda.now)
        self._agenda.add(max(self._agenda.now + line.delay_s, line.up_last), self._hung_up, line)

    def _hung_up(self, line: ClientConnection, _: object) -> None:
        if line.up_left != inf:
            return
        if line.unheard or line.quiet:
            line.unheard.append(None)
        else:
            self._part(line, "farewell" if line.connection.farewell is not None else "lost")

    def _come_back(self, party: Party) -> None:
        if not party.away and not party.dialling % 2:
            self._dial_later(party, self._random.choice((0.01, 0.3, 2.0)) * self._random.uniform(0.5, 1.5))

    def _break(self, line: ClientConnection, *, silent: bool, dead: bool) -> None:
        """Lose what is in flight from some byte on, and the connection with it."""
        source, now = self._random, self._agenda.now
        line.up_left = min(line.up_left, source.randint(0, line.up_way))
        line.down_left = min(line.down_left, source.randint(0, line.down_way))
        line.unheard.clear()
        if not silent:
            at = max(line.up_last, now) + source.choice((0.0, 0.01, 0.5))
            self._agenda.add(at, self._lost_up, line)
        if dead:
            self._give_up(line)
        elif not silent:
            at = max(line.down_last, now) + source.choice((0.0, 0.01, 0.5))
            self._agenda.add(at, self._lost_down, line)

    def _lost_up(self, line: ClientConnection, _: object) -> None:
        self._part(line, "lost")

    def _lost_down(self, line: ClientConnection, _: object) -> None:
        self._give_up(line)

    def _part(self, line: ClientConnection, why: str) -> None:
        """Tell a broker that a client is gone."""
        if line.host_open and line.host.up and line.host.boot == line.boot:
            line.host_open = False
            key = (line.host.address, line.number)
            del self._lines[key]
            self._parting[key] = (line.connection, why)
            self._tell(line.host, ClientLost(line.number, "connection reset"))

    def heard(self, host: Node, events: list[ClientEvent]) -> None:
        """A broker is told of these now."""
        for event in events:
            if isinstance(event, ClientLost):
                self._parted(*self._parting.pop((host.address, event.connection)))

    def _parted(self, connection: Connection, why: str) -> None:
        connection.parted = self.diary.next_turn()
        connection.parted_at = self._agenda.now
        connection.parted_why = why
        if connection.will is not None:
            connection.will.sends.append(connection.parted)
            connection.will.at = self._agenda.now

    def started(self, host: Node) -> None:
        """A broker runs, for the first time or again."""
        self.diary.starts.setdefault(host.address, []).append(self._agenda.now)

    def died(self, host: Node, *, wiped: bool, silent: bool) -> None:
        """A broker is gone, and its connections with it."""
        turn = self.diary.next_turn()
        self.diary.outages.append(Outage(host.address, turn, self._agenda.now, wiped))
        if wiped:
            for life in self.diary.lives:
                if life.host == host.address and life.ended is None:
                    life.leaving = life.leaving or turn
        for key in [key for key in self._parting if key[0] == host.address]:
            self._parted(self._parting.pop(key)[0], "died")
        for line in [line for line in self._lines.values() if line.host is host]:
            line.host_open = False
            del self._lines[host.address, line.number]
            self._parted(line.connection, "died")
            line.up_left = 0
            line.down_left = min(line.down_left, self._random.randint(0, line.down_way))
            if not (silent and line.party.device.temper.keep_alive_s):
                at = max(line.down_last, self._agenda.now + line.delay_s)
                self._agenda.add(at, self._closed, line)

    # Time.

    def _set_timer(self, party: Party) -> None:
        deadline = party.device.next_deadline()
        if deadline is not None and deadline < party.pending:
            party.pending = max(deadline, self._agenda.now)
            self._agenda.add(party.pending, self._wake, party)

    def _wake(self, party: Party, _: object) -> None:
        if party.pending != self._agenda.now:
            return
        party.pending = inf
        line = party.line
        if line is None:
            return
        said = party.device.on_time(self._agenda.now)
        if said is None:
            self._give_up(line)
        else:
            self.say(party, said)
            self._set_timer(party)
