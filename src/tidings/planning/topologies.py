"""Which brokers there are, where, and who is joined to whom.

A topology is a value: brokers with positions, links with delays. It is made by a generator from a size and a
seed, or read from a TOML file, a GraphML file or a graph of networkx. How long a frame takes over a link that
does not say so itself is the business of a delay model, given with the topology.
"""

from __future__ import annotations

import csv
import math
import random
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings import installation
from tidings.errors import InputError
from tidings.language import durations
from tidings.language.ids import ID_RULE, is_id

if TYPE_CHECKING:
    import networkx as nx

BROKERS_MAX = 100_000
"""More would not fit into the memory of one machine; it is a slip of the pen."""

DELAY_S = 0.001
"""Of a link, where nothing else is said: brokers in one building."""

DISTANCE_DELAY_S = 0.05
"""Across the unit square, from side to side: brokers on one continent."""


@dataclass(frozen=True, slots=True)
class Place:
    """A broker and where it stands."""

    id: str
    x: float = 0.0
    y: float = 0.0
    cluster: str | None = None
    """Of brokers near each other, for plans; nothing in a simulation depends on it."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two brokers that are joined."""

    one: str
    """The side that dials."""

    other: str

    delay_s: float = DELAY_S
    """How long a frame takes, one way."""

    bytes_per_s: float = math.inf
    """Bandwidth, in each direction."""

    both_dial: bool = False
    """Whether the other side dials too."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Brokers and links, in an order that never changes by itself."""

    places: tuple[Place, ...]
    links: tuple[Link, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all brokers."""
        return tuple(place.id for place in self.places)

    def neighbours(self) -> dict[str, list[str]]:
        """Of each broker those that it is joined to, sorted."""
        found: dict[str, list[str]] = {place.id: [] for place in self.places}
        for link in self.links:
            found[link.one].append(link.other)
            found[link.other].append(link.one)
        for joined in found.values():
            joined.sort(key=str.encode)
        return found

    def with_delays(self, model: DelayModel) -> Topology:
        """The same brokers and links, with delays by a model."""
        places = {place.id: place for place in self.places}
        return replace(
            self,
            links=tuple(
                replace(link, delay_s=model(places[link.one], places[link.other])) for link in self.links
            ),
        )

    def with_bandwidth(self, bytes_per_s: float) -> Topology:
        """The same with one bandwidth for all links."""
        return replace(self, links=tuple(replace(link, bytes_per_s=bytes_per_s) for link in self.links))


# How long frames take.

DelayModel = Callable[[Place, Place], float]
"""Seconds from one broker to another."""


def constant_delay(delay_s: float) -> DelayModel:
    """The same everywhere."""
    return lambda _one, _other: delay_s


def distance_delay(across_s: float = DISTANCE_DELAY_S, least_s: float = 0.0001) -> DelayModel:
    """In proportion to the distance, `across_s` for a distance of one; never nothing."""
    return lambda one, other: max(least_s, across_s * math.dist((one.x, one.y), (other.x, other.y)))


def matrix_delay(latencies: Mapping[tuple[str, str], float]) -> DelayModel:
    """From a table of measured latencies, seconds for each pair of ids."""

    def delay(one: Place, other: Place) -> float:
        found = latencies.get((one.id, other.id), latencies.get((other.id, one.id)))
        if found is None:
            raise InputError(f"the latencies have none between {one.id} and {other.id}, which are joined")
        return found

    return delay


def read_latencies(path: Path) -> dict[tuple[str, str], float]:
    """A latency matrix from a CSV file: ids in the first row and column, milliseconds in between."""
    with _opened(path) as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise InputError(f"{path} is empty; it should have a row of ids and then a row for each of them")
    ids = [text.strip() for text in rows[0][1:]]
    found: dict[tuple[str, str], float] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(ids) + 1:
            raise InputError(f"{path}:{number}: {len(row) - 1} values for {len(ids)} ids; give one for each")
        for other, text in zip(ids, row[1:], strict=True):
            try:
                delay_ms = float(text)
            except ValueError:
                delay_ms = math.nan
            if not 0 <= delay_ms < math.inf:
                raise InputError(
                    f"{path}:{number}: {text!r} is not a latency; write milliseconds, such as 12.5"
                )
            found[row[0].strip(), other] = delay_ms / 1e3
    return found


# Generators.


def ids(count: int) -> list[str]:
    """Names of brokers that sort as they count: b000, b001, …"""
    width = max(3, len(str(count - 1)))
    return [f"b{number:0{width}d}" for number in range(count)]


def path(count: int) -> Topology:
    """Each joined to the next."""
    names = ids(count)
    places = [Place(name, at / max(1, count - 1), 0.5) for at, name in enumerate(names)]
    return _topology(places, pairwise(names))


def ring(count: int) -> Topology:
    """A path whose ends are joined."""
    names = ids(count)
    places = [_on_circle(name, at, count) for at, name in enumerate(names)]
    pairs = list(pairwise(names))
    return _topology(places, pairs + ([(names[0], names[-1])] if count > 2 else []))


def star(count: int) -> Topology:
    """All joined to the first."""
    names = ids(count)
    places = [Place(names[0], 0.5, 0.5)]
    places += [_on_circle(name, at, count - 1) for at, name in enumerate(names[1:])]
    return _topology(places, ((names[0], name) for name in names[1:]))


def tree(count: int, branches: int = 2) -> Topology:
    """Each has up to so many below it."""
    names = ids(count)
    depth_of = [0] * count
    for at in range(1, count):
        depth_of[at] = depth_of[(at - 1) // branches] + 1
    deepest = max(depth_of, default=0) or 1
    rows: dict[int, list[int]] = {}
    for at, depth in enumerate(depth_of):
        rows.setdefault(depth, []).append(at)
    places = [
        Place(name, (rows[depth_of[at]].index(at) + 0.5) / len(rows[depth_of[at]]), depth_of[at] / deepest)
        for at, name in enumerate(names)
    ]
    return _topology(places, ((names[(at - 1) // branches], names[at]) for at in range(1, count)))


def grid(count: int) -> Topology:
    """Rows and columns, as square as may be."""
    names = ids(count)
    width = max(1, math.isqrt(count))
    height = (count + width - 1) // width
    places = [
        Place(name, (at % width) / max(1, width - 1), (at // width) / max(1, height - 1))
        for at, name in enumerate(names)
    ]
    pairs = []
    for at in range(count):
        if (at + 1) % width and at + 1 < count:
            pairs.append((names[at], names[at + 1]))
        if at + width < count:
            pairs.append((names[at], names[at + width]))
    return _topology(places, pairs)


def random_graph(count: int, source: random.Random, degree: float = 4.0) -> Topology:
    """Connected, with links at random: each broker has about `degree` of them."""
    names = ids(count)
    places = [Place(name, source.random(), source.random()) for name in names]
    joined: dict[tuple[int, int], None] = {}
    for at in range(1, count):
        joined[source.randrange(at), at] = None
    wanted = min(round(count * degree / 2), count * (count - 1) // 2)
    while len(joined) < wanted:
        one, other = sorted(source.sample(range(count), 2))
        joined[one, other] = None
    return _topology(places, ((names[one], names[other]) for one, other in joined))


def power_law(count: int, source: random.Random, links_each: int = 2) -> Topology:
    """Few with many links and many with few: newcomers join those with many (Barabási and Albert 1999)."""
    names = ids(count)
    places = [Place(name, source.random(), source.random()) for name in names]
    pairs: list[tuple[str, str]] = []
    ends: list[int] = [0]  # each broker once for every link it has
    for at in range(1, count):
        chosen: dict[int, None] = {}
        while len(chosen) < min(links_each, at):
            chosen[source.choice(ends) if source.random() < 0.9 else source.randrange(at)] = None
        for other in chosen:
            pairs.append((names[other], names[at]))
            ends += [other, at]
    return _topology(places, pairs)


GENERATORS: dict[str, Callable[[int, random.Random], Topology]] = {
    "path": lambda count, _: path(count),
    "ring": lambda count, _: ring(count),
    "star": lambda count, _: star(count),
    "tree": lambda count, _: tree(count),
    "grid": lambda count, _: grid(count),
    "random": random_graph,
    "power-law": power_law,
}
"""By the names that the command line takes."""


def generate(name: str, count: int, seed: int) -> Topology:
    """The topology of a name and a size."""
    if name not in GENERATORS:
        raise InputError(f"topology {name!r} is unknown; there are {', '.join(GENERATORS)}, or give a file")
    if not 1 <= count <= BROKERS_MAX:
        raise InputError(f"{count} brokers cannot be simulated; give 1 to {BROKERS_MAX:,}")
    return GENERATORS[name](count, random.Random(f"topology/{name}/{seed}"))


# Reading.


def from_links(pairs: Iterable[tuple[str, str]], alone: Sequence[str] = ()) -> Topology:
    """Brokers in the order in which pairs of them are named, then those that are alone."""
    listed = list(pairs)
    names = list(dict.fromkeys([name for pair in listed for name in pair] + list(alone)))
    return _topology([_on_circle(name, at, len(names)) for at, name in enumerate(names)], listed)


def from_graph(graph: nx.Graph, *, whole: bool = True) -> Topology:
    """A graph of networkx: nodes may have `x`, `y` and `cluster`, edges `delay_s` and `bytes_per_s`."""
    places = [
        Place(
            str(node),
            float(data.get("x", 0.0)),
            float(data.get("y", 0.0)),
            str(data["cluster"]) if "cluster" in data else None,
        )
        for node, data in graph.nodes(data=True)
    ]
    links = [
        Link(
            str(one),
            str(other),
            float(data.get("delay_s", DELAY_S)),
            float(data.get("bytes_per_s", math.inf)),
        )
        for one, other, data in graph.edges(data=True)
        if one != other
    ]
    return checked(Topology(tuple(places), tuple(links)), "the graph", whole=whole)


def packages(path: Path) -> tuple[str, ...]:
    """Optional packages that it takes to read this file."""
    return ("networkx",) if path.suffix.lower() in (".graphml", ".xml") else ()


def read(path: Path, *, whole: bool = True) -> Topology:
    """A topology from a file: GraphML by its ending, TOML otherwise. One in pieces only if not `whole`."""
    if packages(path):
        return read_graphml(path, whole=whole)
    return read_toml(path, whole=whole)


def read_graphml(path: Path, *, whole: bool = True) -> Topology:
    """A graph as other programs write it."""
    installation.need("GraphML", "networkx")
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    _opened(path).close()
    try:
        graph = nx.read_graphml(path)
    except (ParseError, nx.NetworkXError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not GraphML: {error}") from None
    return from_graph(nx.Graph(graph), whole=whole)


def read_toml(path: Path, *, whole: bool = True) -> Topology:
    """Brokers and links as written by hand; all that is wrong is said at once."""
    with _opened(path) as file:
        text = file.read()
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    problems: list[str] = []
    places = [_place(one, at, problems) for at, one in enumerate(_tables(written, "broker", problems), 1)]
    links = [_link(one, at, problems) for at, one in enumerate(_tables(written, "link", problems), 1)]
    problems += [
        f"{key!r} is not known here; there are 'broker' and 'link'"
        for key in written
        if key not in ("broker", "link")
    ]
    if problems:
        raise InputError("\n".join(f"{path}: {problem}" for problem in problems))
    return checked(Topology(tuple(places), tuple(links)), str(path), whole=whole)


def _tables(written: Mapping[str, Any], key: str, problems: list[str]) -> list[dict[str, Any]]:
    found = written.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        problems.append(f"'{key}' is not a list of tables; write [[{key}]] above each")
        return []
    return found


def _place(one: Mapping[str, Any], at: int, problems: list[str]) -> Place:
    _refuse_others(one, f"broker {at}", ("id", "position", "cluster"), problems)
    id_ = one.get("id")
    if not isinstance(id_, str):
        problems.append(f'broker {at} has no id; write id = "athens"')
        id_ = f"?{at}"
    position = one.get("position", [0.0, 0.0])
    if (
        not isinstance(position, list)
        or len(position) != 2
        or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in position)
    ):
        problems.append(f"broker {id_}: position {position!r} is not two numbers, such as [23.7, 37.9]")
        position = [0.0, 0.0]
    cluster = one.get("cluster")
    if cluster is not None and not isinstance(cluster, str):
        problems.append(f'broker {id_}: cluster {cluster!r} is not a name; write cluster = "south"')
        cluster = None
    return Place(id_, float(position[0]), float(position[1]), cluster)


def _link(one: Mapping[str, Any], at: int, problems: list[str]) -> Link:
    _refuse_others(one, f"link {at}", ("between", "delay", "bytes_per_s", "both_dial"), problems)
    between = one.get("between")
    if (
        not isinstance(between, list)
        or len(between) != 2
        or not all(isinstance(name, str) for name in between)
    ):
        problems.append(f'link {at} does not say between whom; write between = ["athens", "patras"]')
        between = [f"?{at}", f"?{at}"]
    delay_s, bytes_per_s = DELAY_S, one.get("bytes_per_s", math.inf)
    try:
        delay_s = durations.parse(one["delay"]) / 1e6 if "delay" in one else DELAY_S
    except ValueError as error:
        problems.append(f"link {at}: delay {error}")
    if isinstance(bytes_per_s, bool) or not isinstance(bytes_per_s, int | float) or bytes_per_s <= 0:
        problems.append(f"link {at}: bytes_per_s {bytes_per_s!r} is not a number above 0")
        bytes_per_s = math.inf
    both = one.get("both_dial", False)
    if not isinstance(both, bool):
        problems.append(f"link {at}: both_dial {both!r} is neither true nor false")
        both = False
    return Link(between[0], between[1], delay_s, float(bytes_per_s), both)


def _refuse_others(one: Mapping[str, Any], what: str, known: tuple[str, ...], problems: list[str]) -> None:
    problems += [
        f"{what}: {key!r} is not known; there are {', '.join(known)}" for key in one if key not in known
    ]


def checked(topology: Topology, source: str, *, whole: bool = True) -> Topology:
    """The topology, if it can be simulated: ids that differ, links between two of them, one network.

    The last is only looked at if it is to be `whole`.
    """
    problems = []
    known: dict[str, None] = {}
    for place in topology.places:
        if place.id in known:
            problems.append(f"broker {place.id!r} is there twice; ids must differ")
        if not is_id(place.id):
            problems.append(f"broker id {place.id!r:.80} is not {ID_RULE}")
        known[place.id] = None
    seen: dict[frozenset[str], None] = {}
    for link in topology.links:
        pair = frozenset((link.one, link.other))
        problems += [
            f"a link names broker {name!r}, which is not there"
            for name in (link.one, link.other)
            if name not in known
        ]
        if len(pair) == 1:
            problems.append(f"broker {link.one!r} is linked to itself")
        if pair in seen:
            problems.append(f"{link.one!r} and {link.other!r} are linked twice")
        seen[pair] = None
    if not topology.places:
        problems.append("there is no broker")
    elif whole and not problems and (away := _unreached(topology)):
        problems.append(
            f"the network is not connected: no way leads from {topology.places[0].id!r} to {away!r}; "
            "add a link"
        )
    if problems:
        raise InputError("\n".join(f"{source}: {problem}" for problem in problems))
    return topology


def _unreached(topology: Topology) -> str | None:
    joined = topology.neighbours()
    reached = {topology.places[0].id}
    waiting = [topology.places[0].id]
    while waiting:
        for name in joined[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return next((place.id for place in topology.places if place.id not in reached), None)


def _opened(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _on_circle(name: str, at: int, count: int) -> Place:
    angle = 2 * math.pi * at / max(1, count)
    return Place(name, 0.5 + 0.5 * math.cos(angle), 0.5 + 0.5 * math.sin(angle))


def _topology(places: Sequence[Place], pairs: Iterable[tuple[str, str]]) -> Topology:
    return Topology(tuple(places), tuple(Link(one, other) for one, other in pairs))
