"""The search for a seat on a given tree, in virtual time: the finders of the brokers, and links between them.

A message takes one unit of time over a link, give or take some jitter, and keeps its place behind those
before it unless that is asked not to be. There are no brokers here, only their part in the search
(`overlay.gather.centre`), so trees of thousands take a second or two. Trees are read from CSV; what is not
a tree is refused with the reason.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidings.errors import InputError
from tidings.language.ids import ID_RULE, is_id
from tidings.language.topics import Strategy
from tidings.overlay.gather.centre import FINDERS, TREE, Finder, Said
from tidings.overlay.gather.messages import AnySurveyed
from tidings.sim.clock import Agenda

Tree = Mapping[str, Sequence[str]]
"""The neighbours of each broker."""

PHASES = ("init", "update", "stable", "ecc", "announce", "report")
"""The messages, in the order of the paper, and then ours."""

WEIGHED = "weighed"
"""What is surveyed with the weights that were given."""

WEIGHT_MAX = 10**12
"""A weight beyond is a slip of the pen; sums of products stay far below 64 bits."""

NAMES_SHOWN = 12
"""In a reason: of a cycle or a part with thousands of brokers nobody reads more."""

PARTS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Found:
    """What came out of one search."""

    centres: tuple[str, ...]
    """All brokers with the least eccentricity, sorted."""

    seat: str
    """The best place under the strategy."""

    eccentricity: dict[str, int]
    """Of every broker, as it found it."""

    messages: dict[str, int]
    """How many of each phase went over a link."""

    time: float
    """When the last broker knew the seat, in units of the delay of a link."""

    @property
    def total(self) -> int:
        """Messages of all phases."""
        return sum(self.messages.values())


def find(
    tree: Tree,
    strategy: str = Strategy.CENTRE,
    *,
    protocol: str = "report",
    weights: Mapping[str, int] | None = None,
    initiators: int | Sequence[str] = 1,
    jitter: float = 0.0,
    fifo: bool = True,
    seed: int = 0,
) -> Found:
    """Search a tree from some brokers at once, named or drawn by the seed.

    `weights` are for the strategy `traffic`; who is not in them weighs 1. With `jitter` 0.05 a message
    takes from 0.95 to 1.05; without `fifo` it may overtake others on its link.

    >>> find({"a": ["b"], "b": ["a", "c"], "c": ["b"]}).seat
    'b'
    """
    search = Search(tree, strategy, protocol, weights or {}, jitter, fifo, seed)
    search.begin(search.drawn(initiators) if isinstance(initiators, int) else initiators)
    return search.result()


class Search:
    """The finders of a tree's brokers and what is on its way between them."""

    def __init__(
        self,
        tree: Tree,
        strategy: str,
        protocol: str,
        weights: Mapping[str, int],
        jitter: float,
        fifo: bool,
        seed: int,
    ) -> None:
        if protocol not in FINDERS:
            raise InputError(f"protocol {protocol!r} is unknown; there are {', '.join(FINDERS)}")
        if strategy not in list(Strategy):
            raise InputError(f"strategy {strategy!r} is unknown; there are {', '.join(Strategy)}")
        if protocol == "paper" and strategy != Strategy.CENTRE:
            raise InputError(
                f"the published messages carry eccentricities and no weights, so protocol 'paper' cannot find"
                f" strategy {strategy!r}; use protocol 'report'"
            )
        if not 0 <= jitter < math.inf:
            raise InputError(f"the delay jitter is {jitter}; give a share of the delay from 0, such as 0.05")
        about = WEIGHED if strategy == Strategy.TRAFFIC else TREE
        self._pair = about, str(strategy)
        self.finders: dict[str, Finder] = {
            broker: FINDERS[protocol](
                broker,
                tree[broker],
                loads={WEIGHED: (weights.get(broker, 1), True)} if about == WEIGHED else {},
                wanted={about: (str(strategy),)},
            )
            for broker in sorted(tree)
        }
        self.messages = dict.fromkeys(PHASES, 0)
        self._least, self._most = max(0.0, 1.0 - jitter), 1.0 + jitter
        self._fifo = fifo
        self._agenda = Agenda()
        self._arrival: dict[tuple[str, str], float] = {}
        """When the last message of each link and direction arrives."""
        self._open = dict.fromkeys(self.finders)
        """Brokers that are not done."""
        self._done_at = 0.0
        self._random = random.Random(f"centres/{seed}")

    def drawn(self, count: int) -> list[str]:
        """So many brokers by chance."""
        if not 1 <= count <= len(self.finders):
            raise InputError(
                f"{count} brokers cannot begin; there are {len(self.finders)}, give 1 or more of them"
            )
        return self._random.sample(list(self.finders), count)

    def begin(self, initiators: Iterable[str]) -> None:
        """Let brokers begin at once, none knowing of the others."""
        for broker in initiators:
            self._send(broker, self.finders[broker].start(1))

    def deliver(self) -> None:
        """Let all messages arrive."""
        self._agenda.run(math.inf)

    def result(self) -> Found:
        """Let all messages arrive, and say what came out."""
        self.deliver()
        assert not self._open, f"{len(self._open)} brokers have not found the seat"
        seats = {finder.winners[self._pair].broker for finder in self.finders.values()}
        assert len(seats) == 1, f"brokers differ in the seat: {sorted(seats)}"
        return Found(
            centres=tuple(broker for broker, finder in self.finders.items() if finder.is_centre),
            seat=seats.pop(),
            eccentricity={broker: finder.eccentricity or 0 for broker, finder in self.finders.items()},
            messages=self.messages,
            time=self._done_at,
        )

    def _send(self, broker: str, said: Iterable[Said]) -> None:
        now = self._agenda.now
        for peer, body in said:
            self.messages[type(body).__name__.lower()] += 1
            at = now + (self._random.uniform(self._least, self._most) if self._most > 1.0 else 1.0)
            if self._fifo:
                at = self._arrival[broker, peer] = max(at, self._arrival.get((broker, peer), 0.0))
            self._agenda.add(at, self._arrive, (broker, peer), body)
        if broker in self._open and self.finders[broker].done:
            del self._open[broker]
            self._done_at = now

    def _arrive(self, way: tuple[str, str], body: AnySurveyed) -> None:
        source, target = way
        self._send(target, self.finders[target].on(source, body))


# How many messages there may be.


def leaves(tree: Tree) -> int:
    """Brokers with one neighbour."""
    return sum(len(neighbours) == 1 for neighbours in tree.values())


def bounds(tree: Tree, protocol: str, *, initiators: int, centres: int) -> dict[str, int]:
    """The most messages of each phase, for any delays.

    INIT goes over each link once from one initiator and may cross itself where there are several. UPDATEs
    over a link are at most one for each leaf behind it. The last words and ECC go both ways; each who
    announces itself floods.
    """
    links = len(tree) - 1
    most = dict.fromkeys(PHASES, 0)
    most["init"] = links * (1 if initiators == 1 else 2)
    if protocol == "paper":
        most |= {
            "update": leaves(tree) * links,
            "stable": 2 * links,
            "ecc": 2 * links,
            "announce": centres * links,
        }
    else:
        most |= {"report": 2 * links, "announce": links}
    return most


def published_bound(tree: Tree) -> int:
    """The paper's own, (L + 4)(M - 1), section 4.2.3: without STABLE, second INITs and centres."""
    return (leaves(tree) + 4) * (len(tree) - 1)


# Reading.


def read_tree(lines: Iterable[str], name: str) -> dict[str, list[str]]:
    """A tree from CSV lines `a,b`, one link each; a line with one broker is a broker without links.

    Blank lines and those that begin with # are passed over.
    """
    tree: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    """The brokers that each is joined to so far, one list for all of a part."""
    written: dict[frozenset[str], int] = {}
    for number, row in _rows(lines, name):
        where = f"{name}:{number}"
        if not 1 <= len(row) <= 2:
            raise InputError(f"{where}: {len(row)} fields; write a link as a,b or a lone broker as a")
        for broker in row:
            _check_id(broker, where)
            if broker not in tree:
                tree[broker] = []
                parts[broker] = [broker]
        if len(row) == 1:
            continue
        one, other = row
        if one == other:
            raise InputError(f"{where}: {one!r} is linked to itself; a link is between two brokers")
        pair = frozenset(row)
        if pair in written:
            raise InputError(
                f"{where}: the link {one},{other} is there already, in line {written[pair]}; write it once"
            )
        written[pair] = number
        if parts[one] is parts[other]:
            cycle = _shown([*_way(tree, one, other), one], " - ")
            raise InputError(f"{where}: the link {one},{other} closes a cycle: {cycle}; a tree has none")
        tree[one].append(other)
        tree[other].append(one)
        small, large = sorted((parts[one], parts[other]), key=len)
        large += small
        for broker in small:
            parts[broker] = large
    if not tree:
        raise InputError(f"{name} names no broker; write a link in each line, as a,b")
    _check_whole(parts, name)
    return tree


def read_weights(lines: Iterable[str], name: str, tree: Tree) -> dict[str, int]:
    """Weights from CSV lines `broker,weight`; who is not named weighs 1."""
    weights: dict[str, int] = {}
    for number, row in _rows(lines, name):
        where = f"{name}:{number}"
        if len(row) != 2:
            raise InputError(f"{where}: {len(row)} fields; write a broker and its weight, as a,5")
        broker, text = row
        if broker not in tree:
            raise InputError(f"{where}: {broker!r} is not in the tree; weights are for its brokers")
        if broker in weights:
            raise InputError(f"{where}: {broker!r} has a weight already; write one")
        if not (text.isascii() and text.isdigit()) or len(text) > 13 or int(text) > WEIGHT_MAX:
            raise InputError(
                f"{where}: {text!r:.80} is not a weight; write a whole number, 0 to {WEIGHT_MAX}"
            )
        weights[broker] = int(text)
    return weights


def _rows(lines: Iterable[str], name: str) -> Iterable[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        # Some editors begin a file with a byte order mark; it is no part of the first id.
        text = line.removeprefix("\ufeff").strip() if number == 1 else line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            row = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise InputError(f"{name}:{number}: the line is not CSV: {error}") from None
        yield number, [field.strip() for field in row]


def _check_id(broker: str, where: str) -> None:
    if not is_id(broker):
        raise InputError(f"{where}: id {broker!r:.80} is not {ID_RULE}")


def _check_whole(parts: Mapping[str, list[str]], name: str) -> None:
    separate = sorted(sorted(part) for part in {part[0]: part for part in parts.values()}.values())
    if len(separate) == 1:
        return
    shown = "; ".join(_shown(part, ", ") for part in separate[:PARTS_SHOWN])
    more = f"; and {len(separate) - PARTS_SHOWN} more" if len(separate) > PARTS_SHOWN else ""
    raise InputError(
        f"{name} has {len(separate)} parts that no link joins: {shown}{more}; in a tree all are joined"
    )


def _way(tree: Tree, one: str, other: str) -> list[str]:
    """The brokers between two, ends included."""
    before: dict[str, str] = {one: one}
    queue = [one]
    for broker in queue:
        for neighbour in tree[broker]:
            if neighbour not in before:
                before[neighbour] = broker
                queue.append(neighbour)
    way = [other]
    while way[-1] != one:
        way.append(before[way[-1]])
    return way[::-1]


def _shown(brokers: Sequence[str], between: str) -> str:
    if len(brokers) <= NAMES_SHOWN:
        return between.join(brokers)
    half = NAMES_SHOWN // 2
    left = len(brokers) - NAMES_SHOWN
    return between.join((*brokers[:half], f"({left} more)", *brokers[-half:]))
