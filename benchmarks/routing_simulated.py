"""Routing in the simulator, with every frame as the bytes that it is between real brokers.

A `Wired` broker decodes what it is told and encodes what it answers, as the live runtime does, within the
time that is taken of it. What it sends is counted by kind of message.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.hostile_filters import FILTERS
from benchmarks.routing_rows import CHANGE_CPU_S, LINK_BYTES, Row, percentile

from tidings.language.subscriptions import Subscription
from tidings.matching.axes import number_ordinal
from tidings.overlay.broker import Broker
from tidings.overlay.core import Core
from tidings.overlay.events import Effect, Event, FrameReceived, Send
from tidings.overlay.frames import Frame
from tidings.overlay.links.links import Link, Links
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing import interest
from tidings.overlay.routing.changes import parts_of
from tidings.overlay.routing.homes import Homes
from tidings.overlay.routing.messages import FILTER, Change, Item
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.settings import DEFAULT
from tidings.overlay.trees.trees import Trees
from tidings.planning import topologies
from tidings.planning.topologies import Topology
from tidings.sim.brokers.client import Client
from tidings.sim.world import World
from tidings.wire.framing import Decoder, Encoder

FILTER_BYTES = 1000
EXPENSIVE_CPU_S = 0.05

TOLD = {
    "a list of 127": lambda k: f"place IN ({', '.join(repr(f'{7 * at + k:05}') for at in range(127))})",
    "42 pairs": lambda k: " OR ".join(f"(x = {at} AND y = {at + k})" for at in range(42)),
    "12 patterns": lambda k: " OR ".join(f"a LIKE '%{'a_' * 5}c%{at + k}%'" for at in range(12)),
}
"""Filters whose normal form has just room: larger ones are told without it."""

VALUES = 1_000_003
"""Of the fields that filters ask for: more than there are filters, and prime, so that no two are equal."""

SMALL, LARGE = (5, 4), (12, 18)
"""Brokers and links of networks in which changes are counted: a path, and one with cycles."""

LINKS_PER_BROKER = 3
"""Of large networks, counted at both ends."""

FILTERS_PER_TOPIC = 20
"""A sixth of them match a publication."""


class Meter:
    """What a broker, or all of them, have cost."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.bytes = 0
        self.frames = 0
        self.kinds: Counter[str] = Counter()
        """Bytes by kind of message."""
        self.messages: Counter[str] = Counter()
        self.items = 0
        """Filters in changes of sets."""
        self.destinations = 0
        """Bytes of those who get publications and who must have them, …"""
        self.copies = 0
        """… of so many copies of publications over links."""

    def sent(self, frame: Frame, size: int) -> None:
        """One frame has been sent."""
        self.bytes += size
        self.frames += 1
        for message in frame.messages:
            kind = type(message).__name__
            self.kinds[kind] += len(_encode(message))
            self.messages[kind] += 1
            if isinstance(message, Change):
                self.items += len(message.added)
            elif isinstance(message, Publish):
                self.destinations += len(_encode(message.to)) + len(_encode(message.must))
                self.copies += len(message.numbers)


_encode = msgspec.msgpack.Encoder().encode

METERS: dict[str, Meter] = {}
"""By broker; of the network that is measured."""


class Wired(Broker):
    """A broker that is told bytes and answers bytes."""

    def start(self, now: float) -> list[Effect]:
        METERS.setdefault(self.id, Meter())
        return super().start(now)

    def handle(self, event: Event, now: float) -> list[Effect]:
        meter = METERS[self.id]
        data = b""
        if isinstance(event, FrameReceived):
            encoder = Encoder()
            encoder.add(event.frame)
            data = bytes(encoder.take())
        begin = time.process_time()
        if isinstance(event, FrameReceived):
            decoder = Decoder()
            decoder._limit = 1 << 30  # the welcome was in another decoder
            (frame,) = decoder.feed(data)
            event = FrameReceived(event.connection, frame)
        effects = super().handle(event, now)
        encoder = Encoder()
        sizes = []
        for effect in effects:
            if isinstance(effect, Send):
                encoder.add(effect.frame)
                sizes.append((effect.frame, len(encoder.take())))
        meter.cpu_s += time.process_time() - begin
        for frame, size in sizes:
            meter.sent(frame, size)
        return effects


def network(topology: Topology, seed: int = 1) -> World:
    """A network of these brokers, settled."""
    METERS.clear()
    world = World(topology.with_delays(topologies.constant_delay(0.001)), seed, machine=Wired)
    world.start()
    assert world.settle(), "an idle network settles"
    return world


def shape(brokers: int, links: int) -> Topology:
    """A random network, or a path if there are only as many links."""
    if links == brokers - 1:
        return topologies.generate("path", brokers, 1)
    names = [f"b{at:03}" for at in range(brokers)]
    source = random.Random(1)
    pairs = {(names[source.randrange(at)], names[at]) for at in range(1, brokers)}
    while len(pairs) < links:
        one, other = sorted(source.sample(names, 2))
        pairs.add((one, other))
    return topologies.from_links(sorted(pairs))


def two_comparisons(number: int, topics: int) -> Subscription:
    """A filter of two comparisons, which no other covers: one that asks for less here asks for more there."""
    bound = number * 377_771 % VALUES
    return Subscription(
        f"city/district{number % topics}/parking", f"price > {bound} AND places < {bound}", qos=1
    )


@contextmanager
def no_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def fresh() -> None:
    """Count from nothing."""
    for name in METERS:
        METERS[name] = Meter()


def total(what: str) -> Any:
    return sum(getattr(meter, what) for meter in METERS.values())


# A new subscription.


def change(quick: bool) -> Iterator[Row]:
    for brokers, links in (SMALL, LARGE):
        world = network(shape(brokers, links))
        client = world.client(world.topology.ids[0], "c")
        for at in range(200):  # some are there already, and caches are warm
            client.subscribe(f"w{at}", two_comparisons(at, 1000))
        world.run(1.0)
        sizes: list[int] = []
        cpus: list[float] = []
        with no_garbage():
            for at in range(20 if quick else 200):
                world.run(0.5)
                fresh()
                client.subscribe(f"s{at}", two_comparisons(1000 + at, 1_000_000))
                world.run(0.1)
                wish = world.ledger.current["c", f"s{at}"]
                assert wish.granted is not None, "all confirm within a tenth of a second"
                sizes.append(total("bytes"))
                cpus += [meter.cpu_s for name, meter in METERS.items() if name != client.host.id]
        where = f"{brokers} brokers, {links} links"
        bound = 2 * links * LINK_BYTES
        yield Row("change", f"bytes of a new subscription, p50, {where}", percentile(sizes, 0.5), "B", bound)
        yield Row("change", f"the largest of {len(sizes)}, {where}", max(sizes), "B", bound)
        yield Row(
            "change",
            f"CPU at another broker, p50, {where}",
            percentile(cpus, 0.5) * 1e3,
            "ms",
            CHANGE_CPU_S * 1e3,
        )
        yield Row("change", f"the same, p99, {where}", percentile(cpus, 0.99) * 1e3, "ms", CHANGE_CPU_S * 1e3)


# Links and epochs.


def resend(quick: bool) -> Iterator[Row]:
    world = network(shape(*LARGE))
    filters = 500 if quick else 5_000
    for at, name in enumerate(world.topology.ids):
        client = world.client(name, f"c{at}")
        for number in range(at, filters, len(world.topology.ids)):
            client.subscribe(f"s{number}", two_comparisons(number, 500))
    world.settle()
    fresh()
    link = world.topology.links[0]
    world.break_connection(link.one, link.other)
    world.settle()
    yield _items("a link lost and back at once", filters)
    before = _epochs(world)
    world.cut(link.one, link.other)
    world.run(20.0)
    assert _epochs(world) > before, "the tree has another epoch"
    yield _items("a link lost for 20 s: a new epoch", filters)
    before = _epochs(world)
    world.mend(link.one, link.other)
    world.settle()
    assert _epochs(world) > before, "the tree has another epoch"
    yield _items("that link back: a new epoch", filters)
    gone = world.topology.ids[-1]
    known = filters - len(range(len(world.topology.ids) - 1, filters, len(world.topology.ids)))
    world.crash(gone)
    world.settle()
    yield _items("a broker dead: a new epoch", filters)
    world.start_broker(gone)
    world.settle()
    what = f"a broker back that knows nothing, {known:,} filters of others: filters sent to it, and its own"
    yield Row("resend", what, total("items"), "", None)


def _items(what: str, filters: int) -> Row:
    items = total("items")
    fresh()
    return Row("resend", f"{what}, {filters:,} filters: filters sent", items, "", 0)


def _epochs(world: World) -> tuple[int, int]:
    return max(tree.epoch for status in world.statuses().values() for tree in status.trees)


# Memory.


def memory(quick: bool) -> Iterator[Row]:
    count = 10_000 if quick else 100_000
    for topics in (count, count // 10, count // 50, count // 100, count // 1000, 1):
        for traced in (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                taken = pool.apply(taken_by, (count, topics, traced))
            how = "by tracemalloc" if traced else "of the process"
            yield Row(
                "memory",
                f"a filter of another home, {count:,} on {topics:,} topics, {how}",
                taken,
                "B",
                FILTER_BYTES,
            )


def taken_by(count: int, topics: int, traced: bool) -> float:
    """Bytes that each of some filters takes that come over the wire."""
    core = Core("a", 1, 1, DEFAULT, random.Random(1))
    links = Links(core, lambda *_: None, lambda *_: None, lambda *_: None)
    trees = Trees(core, links, lambda *_: None, lambda *_: None, lambda *_: None)
    own = OwnSet(core, lambda: 1_000_000)
    homes = Homes(core, links, own, trees, lambda _: -1.0, lambda *_: False)
    link = Link("b", DEFAULT)
    for frame in _frames(100, 1, 1):  # what is made once, or remembered of so many, is not counted
        _feed(homes, link, frame)
    for number in range(number_ordinal.cache_info().maxsize or 0):
        number_ordinal(float(number))
    frames = _frames(count, topics, 2)
    gc.collect()
    if traced:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if traced else _resident()
    for at, frame in enumerate(frames):
        _feed(homes, link, frame)
        frames[at] = b""
    del frame
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if traced else _resident()
    freed = sum(map(len, frames))
    assert homes.items == count, "all are there"
    assert freed == 0, "frames are gone"
    return (after - before) / count


def _frames(count: int, topics: int, boot: int) -> list[bytes]:
    """A home's set as it comes over a link that begins anew, in frames."""
    made = []
    items: list[Item] = []
    for key in range(count):
        value, wider = interest.written(two_comparisons(key, topics))
        assert not wider
        items.append(Item(FILTER, key + 1, value))
    for part in parts_of("b", (boot, 1), tuple(items), (), whole=True):
        encoder = Encoder()
        encoder.add(Frame(1, 0, (part,)))
        made.append(bytes(encoder.take()))
    return made


def _feed(homes: Homes, link: Link, data: bytes) -> None:
    decoder = Decoder()
    decoder._limit = 1 << 30
    for frame in decoder.feed(data):
        for message in frame.messages:
            assert isinstance(message, Change)
            homes.on_change(link, message)
    homes._core.out.clear()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# Expensive filters.


def expensive(quick: bool) -> Iterator[Row]:
    world = network(shape(*SMALL))
    ids = world.topology.ids
    client = world.client(ids[0], "c")
    filters = TOLD | FILTERS
    kinds = list(filters)[: 5 if quick else None]
    for at, kind in enumerate(kinds):
        wheres = [filters[kind](number) for number in range(100)]
        yield _cost(world, client, f"100 x {kind}, one topic", [Subscription(f"x{at}", it) for it in wheres])
        yield _cost(
            world,
            client,
            f"{kind} on 100 topics",
            [Subscription(f"y{at}/{n}", wheres[0]) for n in range(100)],
        )
    mixed = [Subscription("z", filters[kind](number)) for kind in kinds for number in range(10)]
    yield _cost(world, client, f"{len(mixed)} of all kinds, one topic", mixed)


def _cost(world: World, client: Client, what: str, asked: list[Subscription]) -> Row:
    """The most that it costs another broker that a client asks for all of these at once."""
    fresh()
    with no_garbage():
        for number, subscription in enumerate(asked):
            client.subscribe(f"{what}{number}", subscription)
        world.run(0.5)
    taken = sum(
        not world.ledger.current[client.session, f"{what}{number}"].denied
        for number in range(len(asked))
        if (client.session, f"{what}{number}") in world.ledger.current
    )
    cost = max(meter.cpu_s for name, meter in METERS.items() if name != client.host.id)
    for number in range(len(asked)):
        client.unsubscribe(f"{what}{number}")
    world.run(0.5)
    return Row("expensive", f"{what} ({taken} granted)", cost * 1e3, "ms", EXPENSIVE_CPU_S * 1e3)


# Many brokers.


def large(quick: bool) -> Iterator[Row]:
    for brokers, filters in ((20, 400), (40, 400)) if quick else ((50, 10_000), (200, 2_000)):
        yield from _large(brokers, filters, 20 if quick else 100)


def _large(brokers: int, filters: int, publications: int) -> Iterator[Row]:
    where = f"{brokers} brokers, {filters:,} subscriptions"
    topology = shape(brokers, LINKS_PER_BROKER * brokers // 2)
    source = random.Random(4)
    topics = filters // FILTERS_PER_TOPIC
    begin = time.process_time()
    world = network(topology)
    yield Row("large", f"{where}: CPU of all until an empty network is settled", _since(begin), "s", None)

    begin = time.process_time()
    fresh()
    clients = [world.client(name, f"c{at}") for at, name in enumerate(topology.ids)]
    for number in range(filters):
        source.choice(clients).subscribe(f"s{number}", two_comparisons(number, topics))
        if number % brokers == brokers - 1:
            world.run(0.01)
    assert world.settle(), "all know all in the end"
    links = len(topology.links)
    bound = 2 * links * LINK_BYTES
    yield Row("large", f"{where}: CPU of all until all know all", _since(begin), "s", None)
    what = f"{where}: bytes over {links} links for each, many at once"
    yield Row("large", what, total("bytes") / filters, "B", bound)

    sizes, cpus = [], []
    with no_garbage():
        for number in range(publications):
            client = source.choice(clients)
            world.run(0.5)
            fresh()
            client.subscribe(f"n{number}", two_comparisons(filters + number, 1_000_000))
            world.run(0.2)
            wish = world.ledger.current[client.session, f"n{number}"]
            assert wish.granted is not None, "all confirm within two tenths of a second"
            sizes.append(total("bytes"))
            cpus += [meter.cpu_s for name, meter in METERS.items() if name != client.host.id]
    what = f"{where}: bytes of a new one over {links} links, p50"
    yield Row("large", what, percentile(sizes, 0.5), "B", bound)
    yield Row("large", f"{where}: the largest of {publications}", max(sizes), "B", bound)
    bound_ms = CHANGE_CPU_S * 1e3
    yield Row("large", f"{where}: CPU at another broker, p50", percentile(cpus, 0.5) * 1e3, "ms", bound_ms)
    yield Row("large", f"{where}: the same, p99", percentile(cpus, 0.99) * 1e3, "ms", bound_ms)

    yield from _destinations(world, clients, where, publications, topics)

    one, other = _tree_link(world)
    before = _epochs(world)
    fresh()
    begin = time.process_time()
    world.cut(one, other)
    world.run(20.0)
    epochs = _epochs(world)[1] - before[1]
    assert epochs > 0, "the tree has another epoch"
    yield Row("large", f"{where}: a link of the tree lost, a new epoch: filters sent", total("items"), "", 0)
    yield Row(
        "large",
        f"{where}: … bytes of member lists in a new epoch, all links",
        sum(meter.kinds["Roll"] for meter in METERS.values()) / epochs,
        "B",
        None,
    )
    yield Row("large", f"{where}: … CPU of all until it is settled", _since(begin), "s", None)
    fresh()
    world.mend(one, other)
    assert world.settle(), "the link is there again"
    yield Row("large", f"{where}: the link back: filters sent", total("items"), "", 0)


def _destinations(
    world: World, clients: list[Client], where: str, publications: int, topics: int
) -> Iterator[Row]:
    """What it takes to say who gets publications, over each link."""
    source = random.Random(5)

    def published(topic: Callable[[int], str]) -> tuple[float, float]:
        world.run(1.0)
        fresh()
        for number in range(publications):
            payload = {"price": source.randrange(VALUES), "places": source.randrange(VALUES)}
            source.choice(clients).publish(topic(number), msgspec.json.encode(payload), 1)
            world.run(0.1)
        assert world.settle(), "all have arrived"
        copies = total("copies")
        return total("destinations") / copies, copies / publications

    size, copies = published(lambda number: f"city/district{number % topics}/parking")
    yield Row("large", f"{where}: bytes of destinations, a publication and link", size, "B", None)
    yield Row("large", f"{where}: … links over which each goes", copies, "", None)
    for client in clients:
        client.subscribe("all", Subscription("alarm", qos=1))
    size, copies = published(lambda _: "alarm")
    yield Row("large", f"{where}: the same of those that all get", size, "B", None)
    yield Row("large", f"{where}: … links over which each goes", copies, "", None)


def _tree_link(world: World) -> tuple[str, str]:
    """A link of the tree with brokers behind it, and not at its root."""
    for name, status in sorted(world.statuses().items()):
        for tree in status.trees:
            if tree.root in status.share and tree.hops == 1 and tree.children and tree.parent is not None:
                return name, tree.parent
    raise RuntimeError("the tree is a star")


def _since(begin: float) -> float:
    return time.process_time() - begin
