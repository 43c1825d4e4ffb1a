"""A host: one broker of the simulation with its disk, its clock, its connections and its clients.

It outlives its broker: a crash takes the broker away and leaves the host, with or without the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tidings.language.topics import Topic
from tidings.overlay.events import Effect, Event, PublicationsOffered
from tidings.overlay.settings import Settings
from tidings.overlay.status import Status
from tidings.records.holders import Holder
from tidings.sim.clock import TRUE_CLOCK, Skew
from tidings.sim.disks import Disk
from tidings.sim.network import End

if TYPE_CHECKING:
    from tidings.mqtt.events import ClientEvent
    from tidings.sim.brokers.client import Client


class Machine(Protocol):
    """What is driven: `tidings.overlay.broker.Broker`, or something simpler in tests."""

    def start(self, now: float) -> list[Effect]: ...
    def handle(self, event: Event, now: float) -> list[Effect]: ...
    def status(self, now: float, *, filters: bool = False) -> Status: ...


class MachineMaker(Protocol):
    """Makes one, as the class `Broker` does."""

    def __call__(
        self,
        id: str,  # noqa: A002  it is the broker's parameter
        *,
        boot: int,
        incarnation: int,
        random: Random,
        settings: Settings,
        topics: Sequence[Topic],
        saved: Mapping[str, bytes],
        logged: Mapping[tuple[str, str], int],
    ) -> Machine: ...


class Door(Protocol):
    """What stands before a broker where there are MQTT clients: `tidings.mqtt.front.Front`."""

    def start(self, now: float) -> list[Any]: ...
    def handle(self, event: Any, now: float) -> list[Any]: ...
    def handle_all(self, events: Iterable[Any], now: float) -> list[Any]: ...


class DoorMaker(Protocol):
    """Makes one, as the class `Front` does."""

    def __call__(self, broker: Any, *, saved: Mapping[str, bytes], random: Random) -> Door: ...


class Node:
    """A broker's place in the simulation."""

    __slots__ = (
        "address",
        "again",
        "boot",
        "broker",
        "busy_until",
        "clients",
        "clock",
        "connections",
        "disk",
        "door",
        "ends",
        "id",
        "inbox",
        "incarnation",
        "latest",
        "lost_disks",
        "neighbours",
        "paused",
        "pending",
        "refusals",
        "settings",
        "slow_s",
        "stopping",
        "sync_s",
        "synced_at",
        "synchronised",
        "waiting",
        "wake_at",
        "wake_local",
    )

    def __init__(self, address: str, id: str, settings: Settings) -> None:  # noqa: A002
        self.address = address
        """By which others dial it; names it here."""
        self.id = id
        """The id of its broker, the same as the address but for a network that is set up wrongly."""
        self.settings = settings
        self.neighbours: list[str] = []
        """Whom it is told to dial."""
        self.broker: Machine | None = None
        """None while it is down."""
        self.door: Door | None = None
        """What stands before it and is driven in its place, if there are MQTT clients."""
        self.inbox: list[ClientEvent] = []
        """What has come from MQTT clients since it was last looked at."""
        self.boot = 0
        self.incarnation = 1
        """The boot at which its disk was new."""
        self.disk = Disk(self.holder)
        self.lost_disks: list[Disk] = []
        """As they were when they were lost: for those who judge what others have copied from them."""
        self.sync_s = 0.0
        """How long a sync takes."""
        self.synced_at = 0.0
        """When the last sync that was asked for is done."""
        self.clock: Skew = TRUE_CLOCK
        self.latest = -inf
        """What its clock showed last; a clock never goes back."""
        self.ends: dict[int, End] = {}
        """Connections by their numbers."""
        self.connections = 0
        """How many there were."""
        self.wake_at = inf
        """When its broker wants to be woken, in virtual time."""
        self.wake_local = -inf
        """The same by its own clock."""
        self.pending = inf
        """When it will be: the one entry on the agenda that counts."""
        self.slow_s = 0.0
        """How long it takes over each thing that it is told."""
        self.busy_until = 0.0
        self.paused = False
        """Whether its broker wants no more publications for now."""
        self.waiting: deque[PublicationsOffered] = deque()
        """Publications that wait for the broker to resume."""
        self.stopping = False
        """Whether its broker was asked to stop."""
        self.synchronised = False
        """Whether its broker lets MQTT clients come in: it knows what the network has declared."""
        self.again = False
        """Whether it is to be started again as soon as it has stopped."""
        self.clients: list[Client] = []
        self.refusals: list[str] = []
        """Why its broker stopped itself, if it did."""

    @property
    def holder(self) -> Holder:
        """Under whose name its broker numbers what it keeps."""
        return Holder(self.id, self.incarnation)

    def lose_disk(self) -> None:
        """The broker that is started next is another holder."""
        self.lost_disks.append(self.disk)
        self.incarnation = self.boot + 1
        self.disk = Disk(self.holder)

    @property
    def up(self) -> bool:
        return self.broker is not None

    @property
    def welcoming(self) -> bool:
        """Whether MQTT clients may connect."""
        return self.door is not None and self.synchronised and not self.stopping
