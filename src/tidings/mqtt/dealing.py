"""Dealing: publications that meet content filters, to the clients whose filters they satisfy.

Few of them are taken one by one: decoded, matched, handed on. Many are read, matched and dealt out together,
without a Python value of any of them (`mqtt.fanout`). What is dealt out together is a *hand*: what one
client has sent at once, as far as it meets the same filters, whatever its topics. Both ways give the same
result, which a test compares.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from tidings.matching import Answers, Payloads
from tidings.matching.compiling import compiled_batches
from tidings.matching.state import Array
from tidings.mqtt.bursts import QOS_0, Burst
from tidings.mqtt.clients import Client
from tidings.mqtt.core import Core
from tidings.mqtt.events import Distribute
from tidings.mqtt.fanout import BYTES_MAX, Deal, Dealt, spans
from tidings.mqtt.plans import Audience, Plan
from tidings.mqtt.sessions import Session
from tidings.overlay.broker import Broker
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.publications import Route
from tidings.records.record import Receivers

BATCH = 256
"""Payloads that are matched together."""

DEAL_FROM = 16
"""Payloads in a hand from which they are dealt out together."""

BITS_MAX = 1 << 26
"""Payloads times those who may take them: 8 MiB of bits. Beyond, they are matched in batches."""

AUDIENCES_MAX = 65_536
"""That are remembered, so that topics can have the same."""


class Hand:
    """Packets of one client, one behind the other, that are dealt out together."""

    __slots__ = (
        "audience",
        "client",
        "count",
        "data",
        "end",
        "parts",
        "places",
        "routes",
        "start",
        "which",
    )

    def __init__(self, client: Client, audience: Audience, burst: Burst) -> None:
        """For a burst that is yet to be added."""
        self.client = client
        self.audience = audience
        self.data = burst.data
        self.start = self.end = burst.start
        self.count = 0
        self.parts = array("q")
        """As bursts have them, four numbers for each."""
        self.routes: list[Route] = []
        self.which = array("i")
        """For each part, the place of its route."""
        self.places: dict[bytes, int] = {}
        """By topic, as it is in packets, the place of its route."""

    def takes(self, client: Client, burst: Burst, route: Route, audience: Audience) -> bool:
        """Whether a burst that comes next can be dealt out with those before it."""
        return (
            audience is self.audience
            and client is self.client
            and burst.data is self.data
            and (not audience.topical or route is self.routes[0])
        )

    def add(self, burst: Burst, route: Route) -> None:
        place = self.places.get(burst.key)
        if place is None:
            place = self.places[burst.key] = len(self.routes)
            self.routes.append(route)
        for part in burst.parts:
            self.parts.extend(part)
            self.which.append(place)
        self.count += burst.count
        self.end = burst.end

    def skim(self) -> int:
        """Add the packets that follow, as long as they are of topics that are here; where the rest begins."""
        data, places, v5 = self.data, self.places, self.client.v5
        add, note = self.parts.extend, self.which.append
        size, at = len(data), self.end
        # Heads are taken apart as in `Publishing.skim`: to call something for each packet would cost as much
        # as all else here.
        while size - at >= 4 and data[at] == QOS_0:
            length = data[at + 1]
            head = at + 2
            if length > 0x7F:
                if data[head] > 0x7F:
                    break
                length = length & 0x7F | data[head] << 7
                head += 1
            end = head + length
            if end > size or length < 2:
                break
            topic_end = head + 2 + (data[head] << 8 | data[head + 1])
            if topic_end + v5 > end or (v5 and data[topic_end]):
                break
            place = places.get(data[head:topic_end])
            if place is None or data.startswith(data[at:topic_end], end):
                break  # a burst is added in one piece
            add((at, 1, end - at, end - topic_end - v5))
            note(place)
            self.count += 1
            at = end
        self.end = at
        return at


class Dealing:
    """All publications of clients here that meet content filters and go nowhere else."""

    def __init__(
        self,
        core: Core,
        broker: Broker,
        sessions: Mapping[str, Session],
        give: Callable[[Session, tuple[str, ...], Publication], None],
    ) -> None:
        self._core = core
        self._broker = broker
        self._sessions = sessions
        self._give = give
        self._audiences: dict[object, Audience] = {}
        self._audiences_of = (0, 0)
        self._dealt: tuple[Audience, Distribute] | None = None
        """What was dealt out in this turn, and is yet to be laid out."""

    def audience(self, plan: Plan, route: Route, v5: bool) -> Audience | None:
        """Who may get what meets the filters of a route; None if some must be looked at one by one."""
        if plan.others or any(form != (v5, b"") for form in plan.plain):
            return None
        now = (plan.version, route.local_version)
        if self._audiences_of != now or len(self._audiences) >= AUDIENCES_MAX:
            self._audiences_of = now
            self._audiences.clear()
        everyone = tuple(plan.plain.get((v5, b""), ()))
        key = (v5, route.filtered, everyone)
        found = self._audiences.get(key)
        if found is None:
            found = self._audiences[key] = Audience(route.filtered, everyone, v5)
        return found

    def may_deal(self, audience: Audience) -> bool:
        """Whether it is worth while to wait for more of a hand."""
        return (
            not audience.singly
            and compiled_batches() is not None
            and all(node.index is not None for node in audience.nodes)
        )

    def is_much(self, count: int) -> bool:
        """Whether so many publications are better dealt out together."""
        return count >= DEAL_FROM

    # One by one.

    def pass_singly(self, client: Client, burst: Burst, route: Route, audience: Audience | None) -> None:
        """To everyone whose content filter matches, and to those who have none."""
        dirty, counters = self._core.dirty, self._core.counters
        texts, pieces = burst.payloads(), burst.packets()
        contents = self._broker.contents(route.topic, texts)
        self._broker.count_unreadable(contents.count(None))
        receivers: list[tuple[str, ...]] = []
        clients_of: list[dict[Client, None] | None] = []
        involved: dict[int, dict[str, list[str]]] = {}
        for begin in range(0, len(texts), BATCH):
            matched = self._broker.match_each(route.filtered, contents[begin : begin + BATCH])
            for at, entries in enumerate(matched, begin):
                clients: dict[Client, None] | None = None
                if audience is not None:
                    known = audience.entries
                    try:
                        found = [known[entry] for entry in entries]
                    except KeyError:
                        found = [audience.takers(entry, self._sessions) for entry in entries]
                    if None not in found:
                        clients = dict.fromkeys(chain(audience.everyone, *found))  # type: ignore[arg-type]
                clients_of.append(clients)
                if clients is not None:
                    receivers.append(tuple([receiver.id for receiver in clients]))
                    continue
                by_session: dict[str, list[str]] = {}
                for session_id, name in sorted(
                    [*route.plain, *(named for entry in entries for named in entry.targets)]
                ):
                    by_session.setdefault(session_id, []).append(name)
                involved[at] = by_session
                receivers.append(tuple(by_session))
        first = self._broker.note(route, client.id, burst.sizes, burst.count, receivers)
        given = publications(self._broker, client, burst, route, first) if involved else ()
        delivered = delivered_bytes = 0
        for at, clients in enumerate(clients_of):
            if clients is None:
                for session_id, subscribed in involved[at].items():
                    self._give(self._sessions[session_id], tuple(subscribed), given[at])
                continue
            piece = pieces[at]
            for receiver in clients:
                receiver.out.append(piece)
            dirty.update(clients)
            delivered += len(clients)
            delivered_bytes += len(clients) * len(texts[at])
        counters.packets_in += burst.count
        counters.published += burst.count
        counters.published_bytes += sum(map(len, texts))
        counters.delivered += delivered
        counters.delivered_bytes += delivered_bytes
        counters.packets_out += delivered

    # Together.

    def deal(self, hand: Hand) -> bool:
        """The same for all of a hand at once; False, with nothing done, where that is not possible."""
        broker, audience, data = self._broker, hand.audience, hand.data
        all_of_it = len(audience.everyone) * (hand.end - hand.start)
        if not self.is_much(hand.count) or audience.singly or all_of_it > BYTES_MAX:
            return False
        self._lay_out()
        parts = np.frombuffer(hand.parts, np.int64).reshape(-1, 4)
        placed = spans(parts, hand.count)
        if placed is None:
            return False
        begins, bodies, ends, alike = placed
        payloads = Payloads(data, bodies, ends)
        # If there are several topics, no filter asks which.
        topic = hand.routes[0].topic
        answers = broker.match_payloads(audience.nodes, payloads, broker.about(topic))
        if answers is None:
            return False
        audience.prepare()
        decoded = self._decode(audience, topic, payloads, answers)
        if decoded is None:
            return False
        others, unreadable = decoded
        deal = self._mark(hand, answers, others)
        dealt = deal.count(begins, ends) if deal is not None else None
        if dealt is None:
            return False
        self._dealt = audience, Distribute(audience.numbers, data, dealt)
        if not self._core.dirty.keys().isdisjoint(audience.clients):
            self._lay_out(behind=True)
        broker.count_unreadable(unreadable)
        # What is the same for all costs less to keep and to write.
        sizes = ends[:1] - bodies[:1] if alike else ends - bodies
        self._note(hand, parts, sizes, dealt)
        return True

    def take(self) -> Distribute | None:
        """What was dealt out, if the driver may lay it out: it comes before all that is in `Client.out`."""
        dealt, self._dealt = self._dealt, None
        if dealt is None or not len(dealt[1].dealt.takers):
            return None
        self._core.counters.bytes_out += int(dealt[1].dealt.sizes[-1])
        return dealt[1]

    def _lay_out(self, behind: bool = False) -> None:
        """Give clients what was dealt out: before what came for them since, or `behind` what was there.

        It is done here only if there is more for the same clients, which they then get in one write, or if
        more is dealt out, for which the same memory is needed.
        """
        if self._dealt is None:
            return
        (audience, effect), self._dealt = self._dealt, None
        dirty = self._core.dirty
        for receiver, share in zip(audience.clients, effect.dealt.stretches(effect.data), strict=True):
            if share:
                receiver.out.insert(len(receiver.out) if behind else 0, share)
                dirty[receiver] = None

    def _mark(
        self, hand: Hand, answers: Sequence[Answers], others: Sequence[tuple[int, tuple[Client, ...]]]
    ) -> Deal | None:
        """Who takes what; None if there are too many of them, or some are looked at singly."""
        audience = hand.audience
        while hand.count * len(audience.clients) <= BITS_MAX:
            deal = Deal(hand.count, len(audience.clients))
            deal.mark_all(len(audience.everyone))
            for at, some in others:
                for taker in some:
                    deal.mark_one(at, audience.places[taker])
            if all(deal.mark(links, found) for links, found in zip(audience.links, answers, strict=True)):
                return deal
            if not self._link(audience, answers):
                return None
        return None

    def _note(self, hand: Hand, parts: Array, sizes: Array, dealt: Dealt) -> None:
        """Count and write down what was dealt out, whose payloads have these sizes, or all have this one."""
        counters, count, delivered = self._core.counters, hand.count, len(dealt.takers)
        receivers = Receivers(hand.audience.names, dealt.takers, dealt.upto)
        if len(sizes) == 1:
            size = int(sizes[0])
            counters.published_bytes += size * count
            counters.delivered_bytes += size * delivered
        else:
            counters.published_bytes += int(sizes.sum())
            counters.delivered_bytes += int(sizes[dealt.served] @ receivers.lengths())
        which = np.frombuffer(hand.which, np.int32).repeat(parts[:, 1]) if len(hand.routes) > 1 else None
        self._broker.note_mixed(hand.routes, which, hand.client.id, sizes, count, receivers, dealt.served)
        counters.packets_in += count
        counters.published += count
        counters.delivered += delivered
        counters.packets_out += delivered

    def _link(self, audience: Audience, answers: Sequence[Answers]) -> bool:
        """Find out for whom the filters stand that were found; False if some are looked at singly."""
        for node, links, found in zip(audience.nodes, audience.links, answers, strict=True):
            for owner in links.unknown(found):
                takers = audience.takers(node.at(owner), self._sessions)
                if takers is None:
                    # It will be found again: the next burst need not be read for nothing.
                    audience.singly = True
                    return False
                audience.number(takers)
                links.link(owner, [audience.places[taker] for taker in takers])
        return True

    def _decode(
        self, audience: Audience, topic: str, payloads: Payloads, answers: Sequence[Answers]
    ) -> tuple[list[tuple[int, tuple[Client, ...]]], int] | None:
        """Who takes those of many payloads that were not read, and how many of these are unreadable; None if
        some may not be handed on as they are.
        """
        unread = sorted({at for found in answers for at in found.unread})
        if not unread:
            return [], 0
        contents = self._broker.contents(topic, [payloads.one(at) for at in unread])
        others: list[tuple[int, tuple[Client, ...]]] = []
        for node, found in zip(audience.nodes, answers, strict=True):
            mine = set(found.unread)
            asked = [(at, content) for at, content in zip(unread, contents, strict=True) if at in mine]
            matched = self._broker.match_each((node,), [content for _, content in asked])
            for (at, _), entries in zip(asked, matched, strict=True):
                for entry in entries:
                    takers = audience.takers(entry, self._sessions)
                    if takers is None:
                        audience.singly = True
                        return None
                    audience.number(takers)
                    others.append((at, takers))
        return others, contents.count(None)


def publications(
    broker: Broker, client: Client, burst: Burst, route: Route, first: int
) -> Sequence[Publication]:
    """The packets of a burst as publications, numbered from the first on."""
    core = broker.core
    at_us = core.at_us
    return [
        Publication(
            core.id, core.incarnation, route.stream, number, route.topic, payload, burst.qos, at_us, client.id
        )
        for number, payload in enumerate(burst.payloads(), first)
    ]
