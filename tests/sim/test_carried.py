"""What links carry is counted one by one, however many of them are in a message."""

from __future__ import annotations

from pathlib import Path

from tests.sim.flooder import Flooder
from tidings.overlay.events import ConnectionMade, Effect, Event, FrameReceived, Send
from tidings.overlay.frames import Frame, Message
from tidings.overlay.gather.messages import Carry, Holder, Mirror
from tidings.overlay.publication import Batch, Publication, Told
from tidings.overlay.publishing.batches import message_of
from tidings.overlay.publishing.messages import Keep
from tidings.overlay.versions.messages import Snapshot
from tidings.planning import topologies
from tidings.sim.carried import CARRIER_KINDS, NAMES, PUBLICATIONS, REPORTS, SNAPSHOTS, VERSIONS
from tidings.sim.measures import Measures, RecordCounts, measure
from tidings.sim.world import World

EPOCH = (1, 1)


def publication(number: int, payload: bytes = b"{}", told: Told | None = None) -> Publication:
    return Publication("a", 1, "s", number, "t", payload, told=told)


def publish(count: int, told: Told | None = None) -> Message:
    many = [publication(number, told=told) for number in range(1, count + 1)]
    return message_of("a", EPOCH, 1, 1, Batch.of(*many), 0, 1, 1)


def carry(payload: bytes) -> Message:
    return Carry("a", EPOCH, "t", Holder(1, "b", 1, ""), 0, 1, publication(1, payload), dropped=2)


VERSION = Told("t", "a:1:1", 1, 1, False, "b")

SAID: tuple[Message, ...] = (
    publish(3),
    publish(1),
    publish(2, VERSION),
    carry(b"{}"),
    carry(b""),  # says only how many were dropped
    carry(b"{}"),
    Snapshot("a", EPOCH, "t", "b", 1, (publication(1, told=VERSION),) * 4),
    Snapshot("a", EPOCH, "t", "b", 2, ()),
    # Copies, for a neighbour and for a deputy.
    Keep(publication(1)),
    Mirror("a", EPOCH, "t", 1, 1, (("a:1:1", b"{}"),), (), (), ()),
)


class Saying(Flooder):
    """Says all of it over every connection that it has dialled, and does not listen."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, FrameReceived):
            return []
        effects = super().handle(event, now)
        if isinstance(event, ConnectionMade) and event.address is not None:
            effects += [
                Send(event.connection, Frame(1, 0, SAID[:4])),
                Send(event.connection, Frame(5, 0, SAID[4:])),
            ]
        return effects


def said() -> Measures:
    world = World(topologies.from_links([("a", "b"), ("b", "c")]), 0, machine=Saying)
    world.start()
    world.run(1.0)
    return measure(world, RecordCounts())


def test_publications_reports_and_versions_are_counted_one_by_one_per_link() -> None:
    found = said()
    once = {PUBLICATIONS: 4, REPORTS: 2, VERSIONS: 2, SNAPSHOTS: 4}
    silent = dict.fromkeys(NAMES, 0)
    spoken = [link for link, one in found.per_link.items() if one.frames]
    assert len(spoken) == 2
    assert {link: one.carried for link, one in found.per_link.items()} == {
        link: once if link in spoken else silent for link in ("a>b", "b>a", "b>c", "c>b")
    }
    assert found.carried == {name: 2 * count for name, count in once.items()}


def test_what_was_forwarded_is_publications_and_versions() -> None:
    assert said().forwarded == 2 * (4 + 2)


def test_messages_are_counted_by_kind_whatever_they_carry() -> None:
    assert said().messages == {"Carry": 6, "Keep": 2, "Mirror": 2, "Publish": 6, "Snapshot": 4}
    assert {"Carry", "Publish", "Snapshot"} == CARRIER_KINDS


def test_the_page_has_every_name(root: Path) -> None:
    page = (root / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in page] == []
