"""What was promised, judged from what clients saw: checkers that know the promises and nothing else.

They read the ledger, the records and what brokers say of themselves. Filters are evaluated here on their
own, on the decoded payload; trees are judged by a search of the network from the root. An empty list means
that all promises were kept. docs/simulation.md says them in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from zlib import crc32

from tidings.errors import PayloadError
from tidings.language import names, payloads
from tidings.language.subscriptions import QOS_MAX, Subscription
from tidings.overlay.status import Status
from tidings.planning.topologies import Topology
from tidings.records.record import Kind, Record
from tidings.sim.brokers.trace import Delivery, Offer, Trace, Wish

BREACHES_MAX = 20
"""Of one promise; more would tell nothing new."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that was not kept."""

    promise: str
    """In a word or two."""

    text: str
    """What happened instead."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"


def wants(subscription: Subscription, topic: str, fields: Mapping[str, object] | None) -> bool:
    """Whether a subscription asks for a publication; `fields` is None for a payload that is no object."""
    if not _topic_matches(subscription.topic_filter, topic):
        return False
    if subscription.filter is None:
        return True
    return fields is not None and subscription.filter.matches(fields, subscription.unknown)


@lru_cache(maxsize=65_536)
def _topic_matches(topic_filter: str, topic: str) -> bool:
    return names.match(topic_filter, topic)


@lru_cache(maxsize=65_536)
def fields_of(payload: bytes) -> Mapping[str, object] | None:
    """A payload as fields, or None."""
    try:
        return payloads.decode(payload)
    except PayloadError:
        return None


class Deliveries:
    """Nothing lost, nothing twice, nothing made up, nothing to the wrong one, and all in order."""

    def __init__(self, ledger: Trace, settled: Sequence[int] = (), *, neighbours_keep: bool = False) -> None:
        """`settled`: turns in which the network was whole and quiet: what was settling before is in force.

        `neighbours_keep`: an acceptance outlives its broker's disk, if no other is lost.
        """
        self._ledger = ledger
        self._settled = settled
        self._neighbours_keep = neighbours_keep
        self._offers = {offer.payload: offer for offer in ledger.offers}
        assert len(self._offers) == len(ledger.offers), "payloads must differ, so that each can be recognised"
        self._got: dict[str, dict[int, int]] = defaultdict(dict)
        """By session: how often each offer was delivered."""
        for delivery in ledger.deliveries:
            offer = self._offers.get(delivery.publication.payload)
            if offer is not None:
                for session in dict.fromkeys(session for session, _ in delivery.subscriptions):
                    counts = self._got[session]
                    counts[offer.number] = counts.get(offer.number, 0) + 1

    def check(self, sample: Callable[[Offer], bool] = lambda _: True) -> list[Breach]:
        """All of it; for losses, only the offers of a sample are looked at."""
        return [
            *self.made_up(),
            *self.twice(),
            *self.wrong(),
            *self.order(),
            *self.lost(sample),
        ]

    def made_up(self) -> list[Breach]:
        """What is delivered was published, with that topic, at that broker."""
        found = []
        for delivery in self._ledger.deliveries:
            publication = delivery.publication
            offer = self._offers.get(publication.payload)
            if offer is None or offer.topic != publication.topic or offer.qos != publication.qos:
                found.append(
                    Breach("nothing made up", f"{publication.id} at {delivery.host} was never offered")
                )
        return found[:BREACHES_MAX]

    def twice(self) -> list[Breach]:
        """A session gets a publication once."""
        found = []
        for session in sorted(self._got):
            for number, count in self._got[session].items():
                if count > 1:
                    offer = self._ledger.offers[number]
                    found.append(Breach("nothing twice", f"{session} got {_told(offer)} {count} times"))
        return found[:BREACHES_MAX]

    def wrong(self) -> list[Breach]:
        """What is delivered was asked for, under every name that it is delivered for and no other."""
        histories: dict[tuple[str, str], list[Wish]] = defaultdict(list)
        names_of: dict[str, dict[str, None]] = defaultdict(dict)
        for wish in self._ledger.wishes:
            histories[wish.session, wish.name].append(wish)
            names_of[wish.session][wish.name] = None
        found = []
        for delivery in self._ledger.deliveries:
            publication = delivery.publication
            fields = fields_of(publication.payload)
            for session, name in delivery.subscriptions:
                if not any(
                    wants(wish.subscription, publication.topic, fields)
                    for wish in histories[session, name]
                    if wish.asked < delivery.turn
                    and (wish.ended is None or wish.ended > delivery.turn or wish.forgotten)
                ):
                    found.append(
                        Breach(
                            "nothing to the wrong one",
                            f"{session}/{name} at {delivery.host} got {publication.id} on "
                            f"{publication.topic}, {publication.payload!r:.80}, which it does not ask for",
                        )
                    )
            found += _unnamed(delivery, histories, names_of, fields)
            if len(found) >= BREACHES_MAX:
                break
        return found[:BREACHES_MAX]

    def order(self) -> list[Breach]:
        """A session gets what one broker took in on one topic in the order in which it was published."""
        latest: dict[tuple[str, str, int, str], Offer] = {}
        found = []
        for delivery in self._ledger.deliveries:
            offer = self._offers.get(delivery.publication.payload)
            if offer is None:
                continue
            for session in dict.fromkeys(session for session, _ in delivery.subscriptions):
                key = (session, offer.host, offer.incarnation, offer.topic)
                before = latest.get(key)
                if before is not None and before.number > offer.number:
                    found.append(Breach("order", f"{session} got {_told(offer)} after {_told(before)}"))
                latest[key] = offer
        return found[:BREACHES_MAX]

    def lost(self, sample: Callable[[Offer], bool] = lambda _: True) -> list[Breach]:
        """Whoever was granted a subscription gets what is accepted from then on."""
        promised = [
            (self._in_force(wish), self._in_force(wish, but_absent=True), wish)
            for wish in self._ledger.wishes
            if wish.ended is None and wish.subscription.qos > 0
        ]
        by_topic: dict[str, list[tuple[float, float, Wish]]] = {}
        found = []
        for offer in self._ledger.offers:
            if offer.qos == 0 or offer.accepted is None or self._excused(offer) or not sample(offer):
                continue
            if offer.topic not in by_topic:
                by_topic[offer.topic] = [
                    it for it in promised if _topic_matches(it[2].subscription.topic_filter, offer.topic)
                ]
            fields = fields_of(offer.payload)
            for everywhere, present, wish in by_topic[offer.topic]:
                if (
                    (everywhere if offer.host in wish.absent else present) < offer.turn
                    and offer.number not in self._got[wish.session]
                    and wants(wish.subscription, offer.topic, fields)
                ):
                    found.append(
                        Breach(
                            "nothing lost",
                            f"{wish.session}/{wish.name} at {wish.host} never got {_told(offer)}, which "
                            f"matches {wish.subscription.topic_filter} {wish.subscription.where}".rstrip(),
                        )
                    )
            if len(found) >= BREACHES_MAX:
                break
        return found[:BREACHES_MAX]

    def missing(self) -> int:
        """Deliveries that a perfect network would have made and this one did not, of any QoS."""
        standing = [
            (wish.granted or wish.settling or wish.asked, wish)
            for wish in self._ledger.wishes
            if wish.ended is None
        ]
        count = 0
        by_topic: dict[str, list[tuple[int, Wish]]] = {}
        for offer in self._ledger.offers:
            if offer.topic not in by_topic:
                by_topic[offer.topic] = [
                    pair
                    for pair in standing
                    if _topic_matches(pair[1].subscription.topic_filter, offer.topic)
                ]
            fields = fields_of(offer.payload)
            count += sum(
                offer.number not in self._got[wish.session]
                for since, wish in by_topic[offer.topic]
                if since < offer.turn and wants(wish.subscription, offer.topic, fields)
            )
        return count

    def _in_force(self, wish: Wish, *, but_absent: bool = False) -> float:
        """The turn from which a subscription counts, everywhere or but for brokers that its grant names."""
        granted = wish.settling if but_absent and wish.absent else wish.granted
        if granted is not None and not self._strange(wish.host, wish.asked):
            return granted
        return next((turn for turn in self._settled if turn > wish.asked), inf)

    def _strange(self, host: str, turn: int) -> bool:
        """Whether a broker was new, or had lost its disk, and might not yet have met the others."""
        begun = [*self._ledger.wiped, *self._ledger.joined]
        new = max((at for at, one in begun if one == host and at < turn), default=None)
        return new is not None and not any(new < settled < turn for settled in self._settled)

    def _excused(self, offer: Offer) -> bool:
        """Whether it may be lost: the disk that its acceptance stood on was.

        Or its broker had lost its disk before, and could not hold anything for those whom it had not met.
        """
        later = [host for turn, host in self._ledger.wiped if turn > offer.turn]
        if offer.host in later and (not self._neighbours_keep or len(later) > 1):
            return True
        return self._strange(offer.host, offer.turn)


def _unnamed(
    delivery: Delivery,
    histories: Mapping[tuple[str, str], list[Wish]],
    names_of: Mapping[str, Mapping[str, None]],
    fields: Mapping[str, object] | None,
) -> list[Breach]:
    """Subscriptions of a session that a delivery should have named beside those that it names."""
    named = set(delivery.subscriptions)
    found = []
    for session in dict.fromkeys(session for session, _ in delivery.subscriptions):
        if len(names_of[session]) == 1:
            continue
        found += [
            Breach(
                "every name",
                f"{session} at {delivery.host} got {delivery.publication.id} without a word of {name}",
            )
            for name in names_of[session]
            if (session, name) not in named
            and any(
                wants(wish.subscription, delivery.publication.topic, fields)
                for wish in histories[session, name]
                if wish.granted is not None
                and wish.granted < delivery.turn
                and (wish.ended is None or wish.ended > delivery.turn)
            )
        ]
    return found


def _told(offer: Offer) -> str:
    return (
        f"offer {offer.number} ({offer.host}, {offer.topic}, QoS {offer.qos}, at {offer.at:.3f} s, "
        f"{offer.payload[:40]!r})"
    )


class Forwarding:
    """No publication goes twice over one link in one direction in one epoch."""

    def __init__(self, every: int = 1) -> None:
        """Of many publications, only every so manieth is followed, chosen by its identity."""
        self._every = every
        self._seen: set[tuple[str | None, str | None, str, str]] = set()
        self._found: list[Breach] = []

    def __call__(self, record: Record) -> None:
        """Take a record."""
        if record.kind is not Kind.FORWARDED or (
            self._every > 1 and crc32((record.message or "").encode()) % self._every
        ):
            return
        for receiver in record.receivers:
            way = (record.message, record.epoch, record.broker, receiver)
            if way in self._seen:
                self._found.append(
                    Breach(
                        "no link twice",
                        f"{record.message} went from {record.broker} to {receiver} twice in "
                        f"epoch {record.epoch}",
                    )
                )
            self._seen.add(way)

    def breaches(self) -> list[Breach]:
        """What was wrong so far."""
        return self._found[:BREACHES_MAX]


class Ways:
    """A publication goes only over links behind which somebody gets it, in a network that is quiet."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str | None, str], str] = {}
        self._used: set[tuple[str | None, str]] = set()

    def __call__(self, record: Record) -> None:
        """Take a record of the quiet time."""
        if record.kind is Kind.FORWARDED:
            for receiver in record.receivers:
                self._sent[record.message, receiver] = record.broker
        if record.kind in (Kind.FORWARDED, Kind.DELIVERED):
            self._used.add((record.message, record.broker))

    def breaches(self) -> list[Breach]:
        """What was wrong so far."""
        return [
            Breach("no link in vain", f"{message} went from {sender} to {receiver}, where nobody wants it")
            for (message, receiver), sender in self._sent.items()
            if (message, receiver) not in self._used
        ][:BREACHES_MAX]


def check_trees(
    statuses: Mapping[str, Status], topology: Topology, trees: int, declared: Sequence[str] = ()
) -> list[Breach]:
    """Once all is quiet and whole: every tree in use is the tree of shortest paths from its root.

    It spans the network and has no cycle, as each broker's parent is one step nearer to the root: of those,
    the one with the smallest id. Undeclared topics share the trees of the smallest ids; `declared` are roots
    beside those.
    """
    joined = topology.neighbours()
    share = tuple(sorted(topology.ids, key=str.encode)[:trees])
    found = [
        Breach("trees", f"{name} divides topics between {status.share}, not {share}")
        for name, status in statuses.items()
        if status.share != share
    ]
    for root in sorted({*share, *declared}):
        distance = distances(joined, root)
        seen = {name: tree for name, status in statuses.items() for tree in status.trees if tree.root == root}
        newest = max((tree.epoch for tree in seen.values()), default=(0, 0))
        for name in topology.ids:
            tree = seen.get(name)
            if tree is None or tree.epoch != newest:
                epoch = None if tree is None else tree.epoch
                found.append(
                    Breach("trees", f"{name} is in epoch {epoch} of the tree of {root}, not {newest}")
                )
                continue
            parent = next((other for other in joined[name] if distance[other] == distance[name] - 1), None)
            children = tuple(
                other
                for other in joined[name]
                if distance[other] == distance[name] + 1
                and next(above for above in joined[other] if distance[above] == distance[name]) == name
            )
            told = (tree.hops, tree.parent, tuple(sorted(tree.children)), tree.members)
            right = (distance[name], parent, children, tuple(sorted(topology.ids)))
            found += [
                Breach("trees", f"{name} in the tree of {root} has {what} {one!r}, not {other!r}")
                for what, one, other in zip(
                    ("hops", "parent", "children", "members"), told, right, strict=True
                )
                if one != other
            ]
    return found[:BREACHES_MAX]


def distances(joined: Mapping[str, Sequence[str]], root: str) -> dict[str, int]:
    """Hops from a root to all that it reaches."""
    found = {root: 0}
    waiting = [root]
    for name in waiting:
        for other in joined[name]:
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    return found


def check_sets(
    statuses: Mapping[str, Status],
    ledger: Trace,
    samples: Sequence[tuple[str, bytes]],
    wanted_by: Callable[[str, str, bytes], Mapping[str, int]],
) -> list[Breach]:
    """Once all is quiet and whole: what a broker believes other brokers to ask for is what they ask for.

    All have the same version of each set, with the same filters in it, and have confirmed it. And for each
    sample, a topic and a payload, each broker tells right (`wanted_by`) which others want it and with which
    quality of service. Sets that say more would cost false positives, sets that say less would lose
    publications.
    """
    found = []
    own = {name: status.sets[0] for name, status in statuses.items()}
    for name, status in statuses.items():
        known = {one.home: one for one in status.sets[1:]}
        for home, right in own.items():
            if home == name:
                continue
            there = known.get(home)
            if there is None or (there.boot, there.number, there.asks) != (
                right.boot,
                right.number,
                right.asks,
            ):
                found.append(Breach("sets", f"{name} knows {there} of what {home} asks for, {right}"))
        if own[name].confirmed != own[name].number:
            found.append(Breach("sets", f"not all have confirmed what {name} asks for: {own[name]}"))
    if found:
        return found[:BREACHES_MAX]
    standing: dict[str, list[Subscription]] = defaultdict(list)
    pending: dict[str, list[Subscription]] = defaultdict(list)
    for wish in ledger.current.values():
        answered = wish.granted is not None or wish.settling is not None
        (standing if answered else pending)[wish.host].append(wish.subscription)
    for topic, payload in samples:
        fields = fields_of(payload)
        least = {name: _asked_for(asked, topic, fields) for name, asked in standing.items()}
        most = {name: _asked_for(asked, topic, fields) for name, asked in pending.items()}
        for name in statuses:
            believed = wanted_by(name, topic, payload)
            found += [
                Breach(
                    "sets",
                    f"{name} believes that {home} wants {topic} {payload!r:.60} with QoS "
                    f"{believed.get(home, -1)}, not {least.get(home, -1)}",
                )
                for home in statuses
                if home != name
                # What was asked for and never answered may be in force or not, and a set may be widened.
                and not least.get(home, -1)
                <= believed.get(home, -1)
                <= (QOS_MAX if own[home].widened else max(least.get(home, -1), most.get(home, -1)))
            ]
    return found[:BREACHES_MAX]


def _asked_for(asked: Sequence[Subscription], topic: str, fields: Mapping[str, object] | None) -> int:
    """The highest quality of service with which some subscriptions ask for a publication; -1 for none."""
    return max((one.qos for one in asked if wants(one, topic, fields)), default=-1)
