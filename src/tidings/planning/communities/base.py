"""What the planners of client moves share: who talks to whom, where each client is, clusters, and what a
seating costs.

A client has a home, the broker that it is connected to; a seating says where each one would be. A message
from a client to another takes the way between their brokers and a hop at each end. A cluster is a set of
brokers near each other; brokers of the backbone are in none and have no clients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.errors import InputError
from tidings.planning.graphs import Graph, in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIENT_LINKS = 2
"""Hops of a message beside those between brokers: to the first broker, and from the last."""

SENDERS_AT_ONCE = 4_096
"""Rows of a table as wide as there are brokers: 30 MB for a thousand of them."""

BACKBONE = -1
"""The cluster of a broker that is in none."""


def summed(groups: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """By group: the sum of its values."""
    return np.bincount(groups, values, count).astype(np.float64)


class Counted(StrEnum):
    """What counts as a message where load is measured; hops are always those of each copy delivered."""

    COPY = "copy"
    """One for each receiver: what is published for ten of them is ten messages, on every link."""

    LINK = "link"
    """One for each link: what is published for ten goes once over a link that leads to all of them.

    Pairs of clients do not say which messages were the same one. So it is taken that as many were as can be:
    what a client sends over a link is the largest of its numbers for the receivers beyond it, and what it
    sends at all is the largest of all. That is the least that pairs allow, and exact where each of its
    publications goes to all its receivers, or to the most interested of them; COPY is the most.
    """


@dataclass(frozen=True, eq=False)
class Flows:
    """Messages from clients to clients: a weighted directed graph, no pair twice."""

    clients: tuple[str, ...]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    messages: NDArray[np.float64]
    """Copies: as many as the receiver got from the sender."""

    counted: Counted = Counted.COPY

    @classmethod
    def of(cls, flows: Iterable[tuple[str, str, float]], clients: Iterable[str] = ()) -> Flows:
        """From (sender, receiver, messages); `clients` are those who may neither send nor receive.

        What is named twice is added up. InputError for a count that is none.
        """
        place = {name: at for at, name in enumerate(dict.fromkeys(clients))}
        senders, receivers, counts = [], [], []
        for sender, receiver, messages in flows:
            senders.append(place.setdefault(sender, len(place)))
            receivers.append(place.setdefault(receiver, len(place)))
            counts.append(messages)
        return cls.of_arrays(
            list(place),
            np.array(senders, np.int64),
            np.array(receivers, np.int64),
            np.array(counts, np.float64),
        )

    @classmethod
    def of_arrays(
        cls,
        clients: Sequence[str],
        senders: NDArray[np.integer[Any]],
        receivers: NDArray[np.integer[Any]],
        messages: NDArray[np.floating[Any] | np.integer[Any]],
    ) -> Flows:
        """The same from columns, for millions of pairs: senders and receivers are places in `clients`.

        Neither the order of the clients nor that of the pairs makes a difference to what comes out.
        """
        if not len(senders) == len(receivers) == len(messages):
            raise InputError(
                f"there are {len(senders):,} senders, {len(receivers):,} receivers and {len(messages):,} "
                "counts; give one of each for every pair"
            )
        counts = np.asarray(messages, np.float64)
        for who, places in (("sender", senders), ("receiver", receivers)):
            if places.dtype.kind not in "iu":
                raise InputError(f"{who}s are {places.dtype}; give places in the list of clients")
            if (wrong := np.flatnonzero((places < 0) | (places >= len(clients)))).size:
                raise InputError(
                    f"{who} {wrong[0]} is client number {places[wrong[0]]}; there are {len(clients):,} "
                    "clients, counted from 0"
                )
        if (wrong := np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))).size:
            at = int(wrong[0])
            raise InputError(
                f"{clients[senders[at]]!r} sent {counts[at]} messages to {clients[receivers[at]]!r}; counts "
                "are numbers from 0 up"
            )
        names = in_order(clients)
        place = {name: at for at, name in enumerate(names)}
        if len(place) < len(names):
            twice = next(one for one, other in pairwise(names) if one == other)
            raise InputError(f"client {twice!r} is listed twice; give each client one place")
        moved_to = np.array([place[name] for name in clients], np.int64)
        keys = moved_to[senders] * len(names) + moved_to[receivers] if len(senders) else np.empty(0, np.int64)
        if not (keys[1:] > keys[:-1]).all():
            # The counts of a pair are added from the smallest up, so that their order makes no difference.
            order = np.lexsort((counts, keys))
            keys, counts = keys[order], counts[order]
            first = np.flatnonzero(np.r_[True, keys[1:] > keys[:-1]])
            keys, counts = keys[first], np.add.reduceat(counts, first)
        return cls(tuple(names), keys // max(1, len(names)), keys % max(1, len(names)), counts)

    def counting(self, how: Counted) -> Flows:
        """The same messages, counted so."""
        return replace(self, counted=how)

    @property
    def copies(self) -> float:
        """All messages, each as often as it was delivered."""
        return float(self.messages.sum())

    @property
    def total(self) -> float:
        """All messages as they are counted."""
        return self.copies if self.counted is Counted.COPY else float(self.sent.sum())

    @cached_property
    def sent(self) -> NDArray[np.float64]:
        """By client: how many it sends, as they are counted."""
        if self.counted is Counted.COPY:
            return summed(self.senders, self.messages, len(self.clients))
        found = np.zeros(len(self.clients))
        np.maximum.at(found, self.senders, self.messages)
        return found

    @cached_property
    def place(self) -> Mapping[str, int]:
        """The place of each client."""
        return {name: at for at, name in enumerate(self.clients)}

    @cached_property
    def undirected(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Each pair once, the lower first, with the messages of both ways; nobody with itself."""
        low, high = np.minimum(self.senders, self.receivers), np.maximum(self.senders, self.receivers)
        apart = low < high
        pairs, of_pair = np.unique(low[apart] * len(self.clients) + high[apart], return_inverse=True)
        weights = summed(of_pair, self.messages[apart], len(pairs))
        return pairs // len(self.clients), pairs % len(self.clients), weights


@dataclass(frozen=True, eq=False)
class Network:
    """Brokers in clusters, and the clients' homes."""

    graph: Graph
    clusters: tuple[str, ...]
    cluster_of: NDArray[np.int64]
    """By broker; BACKBONE for none."""

    homes: NDArray[np.int64]
    """By client: its broker."""

    client_links: float = CLIENT_LINKS
    """What a message travels beside the way between brokers; none where lengths are delays of links."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        clusters: Mapping[str, str],
        homes: Mapping[str, str],
        clients: Sequence[str],
        client_links: float = CLIENT_LINKS,
    ) -> Network:
        """From names, an empty cluster for a broker of the backbone; InputError for what cannot be."""
        if unknown := [name for name in clusters if name not in graph.place]:
            raise InputError(f"{unknown[0]!r} is in a cluster and no broker of the network; add its links")
        if missing := [name for name in graph.names if name not in clusters]:
            raise InputError(
                f"broker {missing[0]!r} is in no cluster; name one, or give it an empty one if it is of "
                "the backbone"
            )
        names = in_order({name for name in clusters.values() if name})
        if not names:
            raise InputError("all brokers are of the backbone; clients need brokers that are in a cluster")
        number = {name: at for at, name in enumerate(names)} | {"": BACKBONE}
        cluster_of = np.array([number[clusters[name]] for name in graph.names], np.int64)
        found = np.empty(len(clients), np.int64)
        for at, client in enumerate(clients):
            home = homes.get(client)
            if home is None:
                raise InputError(f"client {client!r} has no home; name the broker that it is connected to")
            if home not in graph.place:
                raise InputError(
                    f"the home of client {client!r} is {home!r}, which is no broker of the network"
                )
            found[at] = graph.place[home]
            if cluster_of[found[at]] == BACKBONE:
                raise InputError(
                    f"the home of client {client!r} is {home!r}, a broker of the backbone; clients are "
                    "connected to brokers of clusters"
                )
        return cls(graph, tuple(names), cluster_of, found, client_links)

    @cached_property
    def members(self) -> Sequence[NDArray[np.int64]]:
        """By cluster: its brokers."""
        return [np.flatnonzero(self.cluster_of == at) for at in range(len(self.clusters))]

    @cached_property
    def named_clusters(self) -> Mapping[str, str]:
        """By broker: the name of its cluster, empty for one of the backbone."""
        return {
            name: self.clusters[at] if at != BACKBONE else ""
            for name, at in zip(self.graph.names, self.cluster_of.tolist(), strict=True)
        }

    def fair(self, total: float) -> NDArray[np.float64]:
        """By cluster: V(s), its share of all messages by its brokers (equation 5)."""
        sizes = np.array([len(brokers) for brokers in self.members], float)
        found: NDArray[np.float64] = total * sizes / sizes.sum()
        return found


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan must keep."""

    overload: float = 1.5
    """The most that a cluster's clients may send, in its fair share V(s); math.inf for any."""

    moves: int | None = None
    """Clients that may go to another broker; None for any number."""

    moves_across: int | None = None
    """Of these, clients that may go to another cluster: the moves that the paper counts."""

    moves_inside: int | None = None
    """Of these, clients that may go to another broker of their cluster."""

    broker_overload: float = 1.5
    """The most that a broker's clients may send, in an even share of all messages, or as much as they do
    before anything moves; math.inf for any."""

    def __post_init__(self) -> None:
        for name, value in (("overload", self.overload), ("broker_overload", self.broker_overload)):
            if not value >= 1:
                raise InputError(f"{name} is {value}; it is in fair shares, so give 1 or more")
        for name in ("moves", "moves_across", "moves_inside"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise InputError(f"{name} is {count}; give a whole number from 0 up")

    @property
    def settings(self) -> dict[str, float | int | None]:
        """By name, as a plan says them; None for what has no bound."""
        return {name: None if value == math.inf else value for name, value in asdict(self).items()}


@dataclass(frozen=True, eq=False)
class Divided:
    """Clients in communities."""

    communities: NDArray[np.int64]
    """By client: the number of its community."""

    modularity: float


@dataclass(frozen=True, eq=False)
class Seating:
    """Where each client would be."""

    seats: NDArray[np.int64]
    """By client: its broker."""

    communities: NDArray[np.int64] | None = None
    """By client: the number of its community, as they were found first."""

    modularity: float | None = None
    """Of these."""

    warnings: tuple[str, ...] = ()
    """What whoever looks at the plan should know beside it."""

    final: Divided | None = None
    """What they were divided into again; None if they were not."""

    @property
    def last(self) -> NDArray[np.int64] | None:
        """By client: the number of its community, as they are in the end."""
        return self.communities if self.final is None else self.final.communities


def somebody(flows: Flows) -> None:
    """InputError if there is nobody to plan for."""
    if not flows.clients:
        raise InputError(
            "there are no clients: nobody has a home and nobody sends anything; name at least one client "
            "with its home, or one that sends or receives"
        )


def mean_hops(network: Network, flows: Flows, seats: NDArray[np.int64]) -> float:
    """Of a message, client links included; 0 if there are no messages."""
    if not flows.copies:
        return 0.0
    far = network.graph.distances[seats[flows.senders], seats[flows.receivers]]
    return float(far @ flows.messages) / flows.copies + network.client_links


def hop_counts(network: Network, flows: Flows, seats: NDArray[np.int64]) -> dict[float, float]:
    """Messages by their hops."""
    far = network.graph.distances[seats[flows.senders], seats[flows.receivers]] + network.client_links
    values, of_value = np.unique(far, return_inverse=True)
    return dict(zip(values.tolist(), np.bincount(of_value, flows.messages).tolist(), strict=True))


def cluster_loads(network: Network, flows: Flows, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """By cluster: what its clients send, in fair shares."""
    sent = summed(network.cluster_of[seats], flows.sent, len(network.clusters))
    fair = network.fair(flows.total)
    found: NDArray[np.float64] = sent / np.where(fair == 0, 1.0, fair)
    return found


def broker_loads(network: Network, flows: Flows, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """By broker: what its clients send."""
    return summed(seats, flows.sent, len(network.graph.names))


def even_share(network: Network, flows: Flows) -> float:
    """What the clients of each broker would send if all had the same; brokers of the backbone have none."""
    return flows.total / int((network.cluster_of != BACKBONE).sum())


def cluster_most(network: Network, flows: Flows, limits: Limits) -> NDArray[np.float64]:
    """By cluster: what its clients may send."""
    # Where nobody sends anything, shares are 0, and 0 times no bound would be no number.
    if not flows.total:
        return np.full(len(network.clusters), math.inf)
    found: NDArray[np.float64] = network.fair(flows.total) * limits.overload
    return found


def broker_most(network: Network, flows: Flows, limits: Limits) -> NDArray[np.float64]:
    """By broker: what its clients may send, which is never less than what they do before anything moves."""
    bound = even_share(network, flows) * limits.broker_overload if flows.total else math.inf
    found: NDArray[np.float64] = np.maximum(bound, broker_loads(network, flows, network.homes))
    return found


def slack(flows: Flows) -> float:
    """What a load may be above its bound by, since sums of broken numbers are not exact."""
    return 1e-9 * max(1.0, flows.total)


def passing(network: Network, flows: Flows, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """By broker: messages that pass it, those of its own clients included, as they are counted."""
    return (_copies if flows.counted is Counted.COPY else _publications)(network, flows, seats)


def _copies(network: Network, flows: Flows, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    brokers = len(network.graph.names)
    pairs = seats[flows.senders] * brokers + seats[flows.receivers]
    between = summed(pairs, flows.messages, brokers * brokers).reshape(brokers, brokers)
    found = np.zeros(brokers)
    for target in np.flatnonzero(between.any(axis=0)).tolist():
        towards = network.graph.towards(target)
        carried = between[:, target].tolist()
        # The farthest first, so that all that comes through a broker is there before it goes on.
        for at in np.argsort(-network.graph.distances[target], kind="stable").tolist():
            if at != target:
                carried[towards[at]] += carried[at]
        found += carried
    return found


def _publications(network: Network, flows: Flows, seats: NDArray[np.int64]) -> NDArray[np.float64]:
    """From each broker along its shortest ways: of what goes several of them, the largest number."""
    brokers, found = len(network.graph.names), np.zeros(len(network.graph.names))
    begins = np.searchsorted(flows.senders, np.arange(len(flows.clients) + 1))
    for source in np.unique(seats[flows.senders]).tolist():
        towards = network.graph.towards(source)
        inwards = np.argsort(-network.graph.distances[source], kind="stable").tolist()
        senders = np.flatnonzero(seats == source)
        for first in range(0, len(senders), SENDERS_AT_ONCE):
            some = senders[first : first + SENDERS_AT_ONCE]
            counts = begins[some + 1] - begins[some]
            rows = np.repeat(np.arange(len(some)), counts)
            pairs = np.repeat(begins[some] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            # By broker and sender, so that a broker's row lies together.
            carried = np.zeros((brokers, len(some)))
            np.maximum.at(carried, (seats[flows.receivers[pairs]], rows), flows.messages[pairs])
            for at in inwards:
                if at != source:
                    np.maximum(carried[towards[at]], carried[at], out=carried[towards[at]])
            found += carried.sum(axis=1)
    return found


def backbone(network: Network, flows: Flows, seats: NDArray[np.int64]) -> float:
    """Messages that pass a broker of the backbone, on average; nothing if there is none."""
    brokers = np.flatnonzero(network.cluster_of == BACKBONE)
    return float(passing(network, flows, seats)[brokers].mean()) if len(brokers) else 0.0


def moved(network: Network, seats: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clients that go to another cluster, and those that go to another broker of their own."""
    across = network.cluster_of[seats] != network.cluster_of[network.homes]
    return np.flatnonzero(across), np.flatnonzero(~across & (seats != network.homes))
