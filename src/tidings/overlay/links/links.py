"""Links: reliable, ordered delivery between two brokers over connections that may break at any byte.

Every message of a link session has a number. The sender keeps a message until the other side has said that
it has received it (any frame carries that number), and sends it again on the next connection if it has not.
Both sides name the session that they hold in their greeting: if it is the same one it is resumed, without
loss or repeat; if not, a new one begins, and those above are told that the link is new.

    DOWN ──greeted──> UP ──connection lost──> HELD ──greeted, same session──> UP
                       │                       │  ──greeted, another session──> UP (new)
                       └──── bye ──> DOWN <────┘  not back within resume_within_s

Control messages have a queue of their own and go first. Data is sent only while less than a bounded number
of bytes has not been acknowledged.

At the receiver a frame counts as heard when it is read. Its control messages act at once. Its data acts at
once as well if the broker has time for it; if not, it waits in the inbox of its link and acts in later turns.
Control may overtake data, here as in the queues of the sender. An acknowledgement covers only what has acted
and what came before it, so a neighbour never sends more than its bound beyond what this broker has done. What
the messages mean is not known here.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from tidings.language.ids import ID_RULE, is_id
from tidings.overlay.core import Core
from tidings.overlay.events import ConnectionMade, Dial, HangUp, Send
from tidings.overlay.frames import Data, Frame, Message
from tidings.overlay.links.messages import PROTOCOL_VERSION, Bye, Greet, Refuse, Welcome
from tidings.overlay.links.proofs import NONCE_BYTES_MAX, proof
from tidings.overlay.settings import Settings
from tidings.overlay.timers import Timer
from tidings.records.record import Kind

ACK_MESSAGES = 256
"""Received messages that are acknowledged at once; fewer wait for a frame that goes back anyway, or for a
heartbeat."""


SYNCS_MAX = 8
"""Turns whose data waits for the disk at the same time. More waits in inboxes: the disk is behind."""


class State(Enum):
    """Of a link."""

    DOWN = auto()
    """No session."""

    HELD = auto()
    """The connection is lost, the session may be resumed."""

    UP = auto()
    """Messages flow."""


class Growing(Protocol):
    """Data to be sent to which more may be added until it is."""

    @property
    def size(self) -> int: ...

    def message(self) -> Data: ...


class Link:
    """One neighbour: its session, what has been sent and not yet received, what waits to be sent."""

    def __init__(self, peer: str, settings: Settings) -> None:
        self.peer = peer
        self.state = State.DOWN
        self.boot = 0
        """The neighbour's."""
        self.life = 0
        self.connection: int | None = None
        self.dialled = False
        """Whether the connection was dialled here."""
        self.session: tuple[int, ...] = ()
        self.generation = 0
        """Counts the sessions: what was agreed in one holds for that one."""
        self.heard_at = 0.0
        self.said_at = 0.0
        self.left_for_good = False
        self.received = 0
        """The number of the last message that was read."""
        self.inbox: deque[tuple[int, Data, int]] = deque()
        """Data that was read and has not acted: its number, the message, its size."""
        self._unacked_limit = settings.link_unacked_bytes
        self._sent = 0  # number of the last message sent
        self._acked = 0
        self._replay: deque[tuple[Message, int]] = deque()  # messages _acked + 1 to _sent
        self._unacked_bytes = 0
        self._control: deque[Message] = deque()
        self._data: deque[tuple[Data, int] | Growing] = deque()
        self._owed_messages = 0
        self._owed_bytes = 0

    def begin(self, session: tuple[int, ...]) -> None:
        """A new session, with nothing in it."""
        self.session = session
        self.generation += 1
        self.received = self._sent = self._acked = self._unacked_bytes = 0
        self._owed_messages = self._owed_bytes = 0
        self.inbox.clear()
        self._replay.clear()
        self._control.clear()
        self._data.clear()

    def end(self) -> None:
        """The session is over."""
        self.begin(())
        self.state = State.DOWN

    def put(self, message: Message) -> None:
        """Send a control message when the link is flushed."""
        self._control.append(message)

    def put_data(self, message: Data, size: int) -> None:
        self._data.append((message, size))

    def put_growing(self, growing: Growing) -> None:
        self._data.append(growing)

    @property
    def last_data(self) -> object:
        """What is to be sent behind all other data, if it has not been."""
        return self._data[-1] if self._data else None

    @property
    def acknowledged(self) -> int:
        """The last message before which, itself included, everything has acted."""
        return self.inbox[0][0] - 1 if self.inbox else self.received

    @property
    def queued(self) -> int:
        """Messages that wait to be sent, or to be received."""
        return len(self._control) + len(self._data) + len(self._replay)

    @property
    def last_control(self) -> int:
        """The number that the latest control message has, or will have: data does not overtake it."""
        return self._sent + len(self._control)

    def has_received(self, number: int) -> bool:
        """Whether the other side has said that it has received a message."""
        return number <= self._acked

    def take_ack(self, ack: int) -> bool:
        """The other side has received up to this; False if it cannot have."""
        if ack > self._sent:
            return False
        replay = self._replay
        while self._acked < ack:
            self._acked += 1
            self._unacked_bytes -= replay.popleft()[1]
        return True

    def replay_from(self, received: int) -> list[Frame]:
        """What the other side has not received, to be sent on a new connection."""
        self.take_ack(received)
        frames: list[Frame] = []
        messages: list[Message] = []
        first, weight, acknowledged = self._acked + 1, 0, self.acknowledged
        for message, _ in self._replay:
            messages.append(message)
            weight += message.weight
            if weight >= FRAME_WEIGHT:
                frames.append(Frame(first, acknowledged, tuple(messages)))
                first, weight, messages = first + len(messages), 0, []
        if messages:
            frames.append(Frame(first, acknowledged, tuple(messages)))
        return frames

    def next_frame(self) -> Frame | None:
        """What can be sent now: control messages, and data behind them as far as there is room."""
        sizes: list[tuple[Message, int]] = []
        control = self._control
        weight = 0
        while control and weight < FRAME_WEIGHT:
            message = control.popleft()
            weight += message.weight
            sizes.append((message, 0))
        data = self._data
        room = self._unacked_limit - self._unacked_bytes
        while data and room > 0 and not control:
            item = data.popleft()
            message, size = item if type(item) is tuple else (item.message(), item.size)  # type: ignore[union-attr]
            room -= size
            self._unacked_bytes += size
            sizes.append((message, size))
        if not sizes and self._owed_messages < ACK_MESSAGES and self._owed_bytes * 4 < self._unacked_limit:
            return None
        first = self._sent + 1
        self._sent += len(sizes)
        self._replay.extend(sizes)
        self._owed_messages = self._owed_bytes = 0
        return Frame(first, self.acknowledged, tuple([message for message, _ in sizes]))

    def heartbeat(self) -> Frame:
        self._owed_messages = self._owed_bytes = 0
        return Frame(self._sent + 1, self.acknowledged)

    def owe(self, messages: int, size: int) -> None:
        self._owed_messages += messages
        self._owed_bytes += size

    def audit(self) -> None:
        """What must hold between two events."""
        assert self._sent - self._acked == len(self._replay), "what is not received is kept"
        assert self._unacked_bytes == sum(size for _, size in self._replay), "its bytes are counted"


class Connection:
    """A connection that is being greeted."""

    __slots__ = ("address", "certified", "greet", "host", "nonce", "number", "peer_greet")

    def __init__(self, made: ConnectionMade) -> None:
        self.number = made.connection
        self.address = made.address
        self.nonce = made.nonce
        self.certified = made.certified
        self.host = made.host
        self.greet: Greet | None = None
        self.peer_greet: Greet | None = None

    @property
    def place(self) -> str | None:
        """Where the other side is, for logs: what was dialled, or the host that has dialled."""
        return self.address or self.host or None


class Dialler:
    """An address at which a neighbour is to be reached."""

    __slots__ = ("address", "connection", "pause_s", "peer", "reason", "refused", "trying")

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: int | None = None
        self.trying = False
        self.peer: str | None = None
        self.pause_s = 0.0
        self.refused = False
        """Whether it was told to stay away: it is not of this network."""
        self.reason = ""
        """Why the last attempt failed."""


class Links:
    """All links of a broker, the connections that may become one, and the addresses to dial."""

    def __init__(
        self,
        core: Core,
        on_up: Callable[[Link, bool], None],
        on_down: Callable[[Link], None],
        on_message: Callable[[Link, Message], None],
    ) -> None:
        self._core = core
        self._on_up = on_up
        self._on_down = on_down
        self._on_message = on_message
        self.links: dict[str, Link] = {}
        self._greeting: dict[int, Connection] = {}
        self._by_connection: dict[int, Link] = {}
        self.diallers: dict[str, Dialler] = {}
        self._proposals = 0
        self._dirty: dict[str, Link] = {}
        self._inboxes: dict[str, Link] = {}
        """Links with data that has not acted, in the order of their turns."""
        self._syncs: deque[int] = deque()
        """Of turns in which data acted and was written: the syncs that they wait for."""
        self._complaints: dict[tuple[str, str, str | None], float] = {}
        self._features = (f"trees={core.settings.trees}",)

    # What those above may do.

    def up(self) -> list[Link]:
        """The links in use, held ones included, in order of their ids."""
        return [self.links[peer] for peer in sorted(self.links) if self.links[peer].state is not State.DOWN]

    def get(self, peer: str) -> Link | None:
        """The link to a neighbour, if it is in use."""
        link = self.links.get(peer)
        return link if link is not None and link.state is not State.DOWN else None

    def send(self, link: Link, message: Message) -> None:
        link.put(message)
        self._dirty[link.peer] = link

    def send_data(self, link: Link, message: Data, size: int) -> None:
        link.put_data(message, size)
        self._dirty[link.peer] = link

    def send_growing(self, link: Link, growing: Growing) -> None:
        """Send what there is then, when there is room for it."""
        link.put_growing(growing)
        self._dirty[link.peer] = link

    @property
    def waiting(self) -> bool:
        """Whether data waits for the next turn."""
        return bool(self._inboxes)

    def act(self) -> None:
        """Let data that waits act, one message of each link after the other, until the turn is over."""
        inboxes = self._inboxes
        while inboxes and not self._must_wait():
            peer = next(iter(inboxes))
            link = inboxes.pop(peer)
            if not link.inbox:
                continue  # its session has ended
            _, message, size = link.inbox.popleft()
            if link.inbox:
                inboxes[peer] = link
            generation = link.generation
            self._on_message(link, message)
            if link.generation == generation:
                link.owe(1, size)
                self._dirty[peer] = link
            self._note_sync()

    def _note_sync(self) -> None:
        """Remember that data which has just acted may wait for the disk."""
        core, syncs = self._core, self._syncs
        if core.sync_wanted and (not syncs or syncs[-1] != core.sync_token):
            syncs.append(core.sync_token)

    def _must_wait(self) -> bool:
        """Whether data has to wait: for the next turn, for the disk, or for sessions here."""
        core = self._core
        return core.held or core.turn_is_over() or self._disk_is_behind()

    def _disk_is_behind(self) -> bool:
        syncs = self._syncs
        while syncs and syncs[0] <= self._core.synced:
            syncs.popleft()
        return len(syncs) >= SYNCS_MAX

    def flush(self) -> None:
        """Send what the event has brought."""
        core = self._core
        overfull = []
        for link in self._dirty.values():
            if link.state is State.UP:
                if link.queued > core.settings.link_replay_messages:
                    overfull.append(link)
                    continue
                while (frame := link.next_frame()) is not None:
                    assert link.connection is not None, "a link that is up has a connection"
                    link.said_at = core.now
                    core.out.append(Send(link.connection, frame))
        self._dirty.clear()
        for link in overfull:
            self.renounce(link, "too much is not received")
        if overfull:
            self.flush()  # what the loss has brought

    def renounce(self, link: Link, reason: str) -> None:
        """End a session that cannot go on; a new one may begin."""
        if link.connection is not None:
            self._drop_connection(link, reason)
        self._down(link, reason)
        self._redial_peer(link)

    # Dialling.

    def add_address(self, address: str) -> None:
        if address not in self.diallers:
            self.diallers[address] = Dialler(address)
            self._dial(self.diallers[address])

    def remove_address(self, address: str) -> None:
        """Dial it no more, and part from the neighbour that was reached there."""
        dialler = self.diallers.pop(address, None)
        if dialler is None:
            return
        self._core.timers.cancel(Timer.REDIAL, address)
        for connection in [it for it in self._greeting.values() if it.address == address]:
            self._give_up(connection, "this address is no longer a neighbour")
        link = self.links.get(dialler.peer) if dialler.peer is not None else None
        if link is not None and link.state is not State.DOWN and link.dialled:
            self._part(link, for_good=False, reason="removed here")

    def on_dial_failed(self, address: str, reason: str) -> None:
        dialler = self.diallers.get(address)
        if dialler is not None:
            dialler.trying = False
            self._failed(dialler, reason)

    def _failed(self, dialler: Dialler, reason: str) -> None:
        self._complain("warning", "a neighbour cannot be reached", reason, dialler.address)
        dialler.reason = reason
        self._redial_later(dialler)

    def _complain(self, level: str, text: str, reason: str, address: str | None) -> None:
        """Log, but not again and again at each attempt."""
        complaint = (text, reason, address)
        before = self._complaints.get(complaint)
        if before is None or self._core.now - before >= COMPLAIN_AGAIN_S:
            if len(self._complaints) >= COMPLAINTS_MAX:
                del self._complaints[next(iter(self._complaints))]
            self._complaints[complaint] = self._core.now
            about = {"reason": reason} if address is None else {"address": address, "reason": reason}
            self._core.log(level, text, **about)

    def on_redial(self, address: str) -> None:
        dialler = self.diallers.get(address)
        if dialler is not None:
            self._dial(dialler)

    def _dial(self, dialler: Dialler) -> None:
        link = self.links.get(dialler.peer) if dialler.peer is not None else None
        if dialler.trying or dialler.connection is not None or (link is not None and link.state is State.UP):
            return
        dialler.trying = True
        self._core.out.append(Dial(dialler.address))

    def _redial_later(self, dialler: Dialler) -> None:
        settings = self._core.settings
        pause = min(max(dialler.pause_s * 2, settings.redial_min_s), settings.redial_max_s)
        dialler.pause_s = pause
        # Two brokers that dial each other must not do so in step for ever.
        jitter = 0.5 + self._core.random.random() / 2
        self._core.timers.set(Timer.REDIAL, dialler.address, self._core.now + pause * jitter)

    # Connections.

    def on_connection(self, made: ConnectionMade) -> None:
        number, address = made.connection, made.address
        connection = Connection(made)
        self._greeting[number] = connection
        self._core.timers.set(Timer.GREETING, number, self._core.now + self._core.settings.greet_within_s)
        if address is not None:
            dialler = self.diallers.get(address)
            if dialler is None:
                self._give_up(connection, "this address is no longer a neighbour")
                return
            dialler.trying = False
            dialler.connection = number
            self._greet(connection, dialler.peer)

    def _greet(self, connection: Connection, peer: str | None) -> None:
        core = self._core
        self._proposals += 1
        link = self.links.get(peer) if peer is not None else None
        connection.greet = Greet(
            (PROTOCOL_VERSION, PROTOCOL_VERSION),
            core.id,
            core.settings.network,
            core.boot,
            self._features,
            connection.nonce,
            link.session if link is not None else (),
            link.acknowledged if link is not None else 0,
            self._proposals,
            core.life,
        )
        core.out.append(Send(connection.number, Frame(0, 0, (connection.greet,))))

    def on_frame(self, number: int, frame: Frame) -> None:
        link = self._by_connection.get(number)
        if link is None:
            self._on_greeting_frame(number, frame)
            return
        link.heard_at = self._core.now
        if frame.first == 0:
            self._on_farewell(link, frame)
            return
        if not link.take_ack(frame.ack):
            self._lose(link, "the neighbour acknowledges what was never sent", hang_up=True)
            return
        self._dirty[link.peer] = link
        expected = link.received + 1
        messages = frame.messages
        if frame.first > expected:
            self._lose(link, f"message {expected} is missing before {frame.first}", hang_up=True)
            return
        if frame.first < expected:
            messages = messages[expected - frame.first :]
        if not messages:
            return
        generation = link.generation
        for message in messages:
            # Known as received before it is acted on: what it brings about may send a frame.
            link.received += 1
            size = 0
            if isinstance(message, Data):
                size = message.size
                if link.inbox or self._must_wait():
                    link.inbox.append((link.received, message, size))
                    self._inboxes[link.peer] = link
                    continue
            self._on_message(link, message)
            if link.generation != generation or link.connection != number:
                return  # acting on it has ended the session
            link.owe(1, size)
            if size:
                self._note_sync()

    def _on_greeting_frame(self, number: int, frame: Frame) -> None:
        connection = self._greeting.get(number)
        if connection is None:
            return  # of a connection that was closed here
        for at, message in enumerate(frame.messages):
            if isinstance(message, Greet) and connection.peer_greet is None and frame.first == 0:
                if not self._on_greet(connection, message):
                    return
            elif isinstance(message, Welcome) and connection.peer_greet is not None and frame.first == 0:
                if not self._on_welcome(connection, message):
                    return
            elif isinstance(message, Refuse) and frame.first == 0:
                self._on_refused(connection, message.reason)
                return
            else:
                self._give_up(connection, f"{type(message).__name__} came before the greeting was over")
                return
            if number in self._by_connection and at + 1 < len(frame.messages):
                self._give_up(connection, "more came with the welcome than a welcome")
                return

    def _on_greet(self, connection: Connection, greet: Greet) -> bool:
        """Whether to go on with this connection."""
        connection.peer_greet = greet
        if connection.greet is None:
            self._greet(connection, greet.broker)
        if reason := self._objection(connection, greet):
            self._refuse(connection, reason)
            return False
        if connection.address is not None:
            self.diallers[connection.address].peer = greet.broker
        proved = self._proof(connection, greet, dialler=connection.address is not None)
        self._core.out.append(Send(connection.number, Frame(0, 0, (Welcome(PROTOCOL_VERSION, proved),))))
        return True

    def _objection(self, connection: Connection, greet: Greet) -> str:
        """Why a greeting is not accepted; empty if it is."""
        core = self._core
        settings = core.settings
        if greet.network != settings.network:
            return f"network {greet.network!r} is not {settings.network!r}"
        if greet.broker == core.id:
            return f"two brokers have the id {core.id!r}; give one of them another"
        if not is_id(greet.broker):
            return f"a broker's id has {ID_RULE}"
        if len(greet.nonce) > NONCE_BYTES_MAX:
            return f"a nonce has {NONCE_BYTES_MAX} bytes at most"
        low, high = greet.versions
        if not low <= PROTOCOL_VERSION <= high:
            return (
                f"protocol version {high} is not spoken here, but {PROTOCOL_VERSION}; bring both brokers to "
                "the same release"
            )
        if greet.features != self._features:
            return (
                f"network-wide settings differ: {', '.join(greet.features)} there, "
                f"{', '.join(self._features)} here"
            )
        if connection.certified is not None and connection.certified != greet.broker:
            return f"the certificate is that of {connection.certified!r}, not of {greet.broker!r}"
        link = self.links.get(greet.broker)
        if link is not None and link.state is State.UP:
            if (link.boot, link.life) != (greet.boot, greet.life):
                silent_s = core.now - link.heard_at
                if greet.boot > link.boot and silent_s > 1.5 * core.settings.heartbeat_s:
                    return ""  # most likely the same broker, restarted, and the old connection is dead
                return f"another broker with the id {greet.broker!r} is connected"
            dialled = connection.address is not None
            if dialled != link.dialled and dialled == (core.id > greet.broker):
                # Both have dialled; both keep the connection that the smaller id dialled.
                return ALREADY_LINKED
        return ""

    def _on_welcome(self, connection: Connection, welcome: Welcome) -> bool:
        core = self._core
        greet = connection.peer_greet
        assert greet is not None, "the neighbour's greeting comes before its welcome"
        assert connection.greet is not None, "a greeting is answered with a greeting"
        expected = self._proof(connection, greet, dialler=connection.address is None)
        if not hmac.compare_digest(expected, welcome.proof):
            self._refuse(connection, "the cluster token is not ours")
            return False
        if reason := self._objection(connection, greet):
            self._refuse(connection, reason)  # another connection was quicker
            return False
        link = self.links.get(greet.broker)
        # Both sides must come to the same answer, so the greetings decide.
        agreed = connection.greet.session == greet.session != ()
        if agreed and (link is None or link.session != greet.session):
            # The neighbour goes on with a session that has ended here since the greeting. With a new one its
            # numbers would make no sense: it would acknowledge what was never sent.
            self._give_up(connection, "the session ended during the greeting")
            return False
        number = connection.number
        del self._greeting[number]
        core.timers.cancel(Timer.GREETING, number)
        if link is None:
            link = self.links[greet.broker] = Link(greet.broker, core.settings)
        if link.connection is not None:
            self._drop_connection(link, "replaced by a newer connection")
        resumed = agreed and (link.boot, link.life) == (greet.boot, greet.life)
        if not resumed:
            if link.state is not State.DOWN:
                self._down(link, "the neighbour began anew")
            mine, theirs = (core.boot, connection.greet.proposal), (greet.boot, greet.proposal)
            link.begin((*mine, *theirs) if core.id < greet.broker else (*theirs, *mine))
        link.boot, link.life = greet.boot, greet.life
        link.connection = number
        link.dialled = connection.address is not None
        link.state = State.UP
        link.heard_at = link.said_at = core.now
        link.left_for_good = False
        self._by_connection[number] = link
        core.timers.cancel(Timer.RESUME, link.peer)
        if connection.address is not None:
            self.diallers[connection.address].pause_s = 0.0
            self.diallers[connection.address].refused = False
            self.diallers[connection.address].reason = ""
        core.record_link(Kind.LINK_UP, link.peer, "resumed" if resumed else "new")
        core.log("info", "link up", peer=link.peer, session="resumed" if resumed else "new")
        if resumed:
            core.out += [Send(number, frame) for frame in link.replay_from(greet.received)]
        self._dirty[link.peer] = link
        self._on_up(link, not resumed)
        return True

    def _proof(self, connection: Connection, greet: Greet, *, dialler: bool) -> bytes:
        """The proof of one of the two sides, the one that dialled or the other."""
        settings = self._core.settings
        here, there = (self._core.id, connection.nonce), (greet.broker, greet.nonce)
        dialling, listening = (here, there) if connection.address is not None else (there, here)
        role = "dialler" if dialler else "listener"
        return proof(settings.token, "link", role, settings.network, *dialling, *listening)

    def _refuse(self, connection: Connection, reason: str) -> None:
        self._core.out.append(Send(connection.number, Frame(0, 0, (Refuse(reason),))))
        self._give_up(connection, reason)

    def _give_up(self, connection: Connection, reason: str) -> None:
        core = self._core
        self._greeting.pop(connection.number, None)
        self._by_connection.pop(connection.number, None)
        core.timers.cancel(Timer.GREETING, connection.number)
        core.out.append(HangUp(connection.number, reason))
        if reason != ALREADY_LINKED:
            self._complain("warning", "a connection is refused", reason, connection.place)
        self._connection_gone(connection, reason, refused=connection.peer_greet is not None)

    def _on_refused(self, connection: Connection, reason: str) -> None:
        core = self._core
        self._greeting.pop(connection.number, None)
        core.timers.cancel(Timer.GREETING, connection.number)
        core.out.append(HangUp(connection.number, "refused"))
        if reason != ALREADY_LINKED:
            self._complain("error", "the neighbour refuses this broker", reason, connection.place)
        self._connection_gone(connection, reason, refused=True)

    def _connection_gone(self, connection: Connection, reason: str, *, refused: bool = False) -> None:
        dialler = self.diallers.get(connection.address) if connection.address is not None else None
        if dialler is not None and dialler.connection == connection.number:
            dialler.connection = None
            dialler.refused = refused
            dialler.reason = reason
            self._redial_later(dialler)

    def on_greeting_late(self, number: int) -> None:
        core, connection = self._core, self._greeting.get(number)
        if connection is not None and core.late:
            core.timers.set(Timer.GREETING, number, core.now + core.settings.heartbeat_s)
        elif connection is not None:
            self._give_up(connection, "no greeting in time")

    def on_connection_lost(self, number: int, reason: str) -> None:
        connection = self._greeting.pop(number, None)
        if connection is not None:
            self._core.timers.cancel(Timer.GREETING, number)
            why = f"the connection was lost before a welcome: {reason}"
            if connection.address is not None:
                self._complain("warning", "a neighbour cannot be reached", why, connection.address)
            self._connection_gone(connection, why)
            return
        link = self._by_connection.get(number)
        if link is not None:
            self._lose(link, reason, hang_up=False)

    def _on_farewell(self, link: Link, frame: Frame) -> None:
        for message in frame.messages:
            if isinstance(message, Bye):
                link.left_for_good = message.for_good
                self._drop_connection(link, "goodbye")
                self._down(link, "the neighbour said goodbye")
                if link.left_for_good:
                    del self.links[link.peer]
                self._redial_peer(link)
                return
        self._lose(link, "a message without a number", hang_up=True)

    def _lose(self, link: Link, reason: str, *, hang_up: bool) -> None:
        """The connection is gone; the session is held for a while."""
        core = self._core
        if hang_up:
            self._drop_connection(link, reason)
        else:
            self._forget_connection(link)
        link.state = State.HELD
        core.record_link(Kind.LINK_DOWN, link.peer, reason)
        core.log("warning", "connection lost", peer=link.peer, reason=reason)
        core.timers.set(Timer.RESUME, link.peer, core.now + core.settings.resume_within_s)
        self._redial_peer(link)

    def _redial_peer(self, link: Link) -> None:
        for dialler in self.diallers.values():
            if dialler.peer == link.peer and not dialler.trying and dialler.connection is None:
                self._redial_later(dialler)

    def on_resume_late(self, peer: str) -> None:
        core, link = self._core, self.links.get(peer)
        if link is not None and link.state is State.HELD:
            if core.late:
                core.timers.set(Timer.RESUME, peer, core.now + core.settings.resume_within_s)
            else:
                self._down(link, "not resumed in time")

    def _down(self, link: Link, reason: str) -> None:
        core = self._core
        core.timers.cancel(Timer.RESUME, link.peer)
        if link.state is State.UP:
            core.record_link(Kind.LINK_DOWN, link.peer, reason)
        link.end()
        core.log("warning", "link down", peer=link.peer, reason=reason)
        self._on_down(link)

    def _drop_connection(self, link: Link, reason: str) -> None:
        assert link.connection is not None, "only a connection that is there can be dropped"
        self._core.out.append(HangUp(link.connection, reason))
        self._forget_connection(link)

    def _forget_connection(self, link: Link) -> None:
        number = link.connection
        link.connection = None
        if number is not None:
            self._by_connection.pop(number, None)
            for dialler in self.diallers.values():
                if dialler.connection == number:
                    dialler.connection = None

    # Looking after them.

    def tick(self) -> None:
        """Heartbeats where nothing was said, an end to what is silent.

        A broker that was itself late gives no verdict: what the neighbour has said may still be unread.
        """
        core = self._core
        settings = core.settings
        for link in self.links.values():
            if link.state is not State.UP:
                continue
            assert link.connection is not None, "a link that is up has a connection"
            if core.now - link.heard_at > settings.suspect_after_s and not core.late:
                self._lose(link, f"silent for {settings.suspect_after_s:g} s", hang_up=True)
            elif core.now - link.said_at >= settings.heartbeat_s:
                link.said_at = core.now
                core.out.append(Send(link.connection, link.heartbeat()))

    def part_all(self, for_good: bool) -> None:
        """Say goodbye to everyone and dial no more."""
        for dialler in self.diallers.values():
            self._core.timers.cancel(Timer.REDIAL, dialler.address)
        self.diallers.clear()
        for connection in list(self._greeting.values()):
            self._give_up(connection, "this broker stops")
        for link in self.up():
            self._part(link, for_good, "goodbye")

    def _part(self, link: Link, for_good: bool, reason: str) -> None:
        if link.connection is not None:
            self._core.out.append(Send(link.connection, Frame(0, 0, (Bye(for_good),))))
            self._drop_connection(link, reason)
        self._down(link, reason)

    def audit(self) -> None:
        """What must hold between two events."""
        for link in self.links.values():
            link.audit()
            assert (link.state is State.UP) == (link.connection is not None), "up means connected"


COMPLAIN_AGAIN_S = 60.0
"""What goes wrong at each attempt to connect is logged once in so long."""

COMPLAINTS_MAX = 256
"""Different ones that are remembered."""

ALREADY_LINKED = "already linked by another connection"
"""Not an error: both sides dialled, and one connection is enough."""


FRAME_WEIGHT = 2000
"""Control messages in one frame, those with tables or texts counted by what is in them, about an item or a
KiB each: a frame ends with the message that reaches this, so it stays below a few MiB."""
