"""What was promised to MQTT clients, judged from their own trace, as that of `brokers` is judged.

The judges know the promises, the standard where a promise leans on it, and nothing of how brokers work. A
publication is known by its payload. An empty list means that all promises were kept; docs/simulation.md says
them in full, and what excuses a breach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf

from tidings.language import names
from tidings.language.regions import Unknown
from tidings.language.subscriptions import read_where
from tidings.sim.brokers.promises import BREACHES_MAX, Breach, fields_of
from tidings.sim.mqtt.trace import Connection, Life, Offer, Receipt, Settled, Trace, Wish

VIEW_PREFIX = "view/"

SLACK_S = 1.0
"""By how much a broker may be early or late with what is due at a time, ..."""

SLACK_SHARE = 0.02
"""... and by what share of the time: twice what clocks may be wrong."""

UNWRITTEN_S = 0.1
"""What a broker is not asked to confirm may take so long until it is on disk."""


@lru_cache(maxsize=65_536)
def _topic_matches(topic_filter: str, topic: str) -> bool:
    return names.match(topic_filter, topic)


@lru_cache(maxsize=65_536)
def _content_matches(where: tuple[str, ...], unknown: Unknown, payload: bytes) -> bool:
    """Whether one of several content filters takes a payload; one that is no object is taken by none."""
    if not where:
        return True
    fields = fields_of(payload)
    return fields is not None and any(read_where(text).matches(fields, unknown) for text in where)


class Promises:
    """Judges a diary."""

    def __init__(self, diary: Trace, *, neighbours_keep: bool = False) -> None:
        """`neighbours_keep`: an acknowledgement outlives its broker's disk, if no other is lost."""
        self._diary = diary
        self._neighbours_keep = neighbours_keep
        # Those that clear what is retained are empty, and cannot be told from each other.
        self._offers = {offer.payload: offer for offer in diary.offers if offer.payload}
        assert len(self._offers) == sum(1 for offer in diary.offers if offer.payload), "payloads must differ"
        self._receipts = [one for one in diary.receipts if one.payload in self._offers]
        self._got: dict[Life, dict[tuple[str, bytes], list[Receipt]]] = defaultdict(lambda: defaultdict(list))
        """By session, then by topic and payload."""
        for receipt in self._receipts:
            self._got[receipt.life][receipt.topic, receipt.payload].append(receipt)
        self._wishes: dict[Life, list[Wish]] = defaultdict(list)
        for wish in diary.wishes:
            self._wishes[wish.life].append(wish)

    def check(self) -> list[Breach]:
        """All of it."""
        found = [Breach(rule, text) for rule, text in self._diary.complaints[:BREACHES_MAX]]
        for judge in (
            self.made_up,
            self.wrong,
            self.twice,
            self.order,
            self.lost,
            self.shared,
            self.sessions,
            self.wills,
            self.retained,
            self.ghosts,
        ):
            found += [breach for _, breach in zip(range(BREACHES_MAX), judge(), strict=False)]
        return found

    # What a subscription takes.

    def _topic(self, wish: Wish, offer: Offer) -> str | None:
        """The topic under which a subscription gets a publication; None if it does not take it."""
        topic = offer.topic
        if wish.topic_filter.startswith(VIEW_PREFIX):
            name = wish.topic_filter.split("/")[1]
            view = self._diary.views.get(name)
            if view is None or self._topic(view, offer) is None:
                return None
            topic = f"{VIEW_PREFIX}{name}/{topic}"
        if wish.no_local and offer.client == wish.life.client:
            return None
        if not _topic_matches(wish.topic_filter, topic):
            return None
        return topic if _content_matches(wish.where, wish.unknown, offer.payload) else None

    # Receipts by themselves.

    def made_up(self) -> Iterator[Breach]:
        """What comes was published, on that topic and with at least that quality of service."""
        for receipt in self._diary.receipts:
            if not receipt.payload:
                continue
            offer = self._offers.get(receipt.payload)
            views = [f"{VIEW_PREFIX}{name}/" for name in self._diary.views]
            if (
                offer is None
                or not any(prefix + offer.topic == receipt.topic for prefix in ["", *views])
                or receipt.qos > offer.qos
            ):
                yield Breach("nothing made up", f"{_told(receipt)} was never published so")

    def wrong(self) -> Iterator[Breach]:
        """What comes was asked for in that session, and names the subscriptions that asked for it."""
        for receipt in self._receipts:
            offer = self._offers[receipt.payload]
            fitting = [
                wish
                for wish in self._wishes[receipt.life]
                if wish.asked < receipt.turn
                and (wish.ended is None or not offer.sends or offer.sends[0] < wish.ended)
                and self._topic(wish, offer) == receipt.topic
            ]
            if not fitting:
                yield Breach("nothing to the wrong one", f"{_told(receipt)} came, which it does not ask for")
                continue
            if receipt.qos > max(wish.qos for wish in fitting):
                yield Breach("granted QoS", f"{_told(receipt)} came with more than was asked for")
            # What one subscription matched may come in the name of the one that has just taken its place.
            texts = {wish.text for wish in fitting}
            known = {wish.identifier for wish in self._wishes[receipt.life] if wish.text in texts}
            if not known.issuperset(receipt.identifiers):
                yield Breach("subscription identifiers", f"{_told(receipt)} names {receipt.identifiers}")
            if not receipt.identifiers and 0 not in known and all(wish.leaving is None for wish in fitting):
                yield Breach("subscription identifiers", f"{_told(receipt)} names none of {sorted(known)}")

    def twice(self) -> Iterator[Breach]:
        """Each publication once, but for what MQTT itself sends again."""
        for life in self._diary.lives:
            first = min(
                (one.number for one in self._diary.connections[life.client] if one.life is life), default=0
            )
            for (_, payload), receipts in self._got[life].items():
                offer = self._offers[payload]
                # A publisher that says QoS 1 again may be taken for one that says it anew.
                allowed = len(offer.sends) if offer.qos == 1 else 1
                fresh = [one for one in receipts if not one.again and not one.retain]
                counts: dict[int, int] = defaultdict(int)
                for receipt in fresh:
                    # At QoS 1, each connection of a session may bring what was not acknowledged before.
                    counts[receipt.connection.number if receipt.qos == 1 else -1] += 1
                    if receipt.dup and receipt.connection.number == first:
                        yield Breach("DUP", f"{_told(receipt)} came with DUP over the first connection")
                if max(counts.values(), default=0) > allowed:
                    yield Breach("nothing twice", f"{_told(fresh[-1])} came {len(fresh)} times, {offer}")

    def order(self) -> Iterator[Breach]:
        """What one client publishes on one topic comes in that order, QoS 0 and the others apart."""
        sharing = {wish.life.name for wish in self._diary.wishes if wish.group}
        wiped = [(one.turn, one.host) for one in self._diary.outages if one.wiped]
        latest: dict[tuple[str, str, str, bool, int], Offer] = {}
        seen: set[tuple[str, str, bytes]] = set()
        for receipt in self._receipts:
            offer = self._offers[receipt.payload]
            # What a broker took in before its disk was lost may come from others, and later.
            disk = sum(host == offer.host and turn < offer.sends[0] for turn, host in wiped if offer.sends)
            key = (receipt.life.name, receipt.topic, offer.client, receipt.qos > 0, disk)
            mark = (receipt.life.name, receipt.topic, receipt.payload)
            unordered = offer.will or offer.expiry_s is not None or len(offer.sends) != 1
            if receipt.retain or unordered or mark in seen or receipt.life.name in sharing:
                continue
            seen.add(mark)
            before = latest.get(key)
            if before is not None and before.sends[0] > offer.sends[0]:
                yield Breach("order", f"{receipt.life.name} got {offer} after {before}")
            latest[key] = offer

    # What should have come.

    def lost(self) -> Iterator[Breach]:
        """What is acknowledged reaches every session that was granted a subscription to it before."""
        promised = [
            (since, wish)
            for wish in self._diary.wishes
            if wish.qos and not wish.group and (since := self._in_force(wish)) is not None
        ]
        for offer in self._diary.offers:
            if not self._owed(offer):
                continue
            assert offer.accepted is not None, "what is owed was accepted"
            for since, wish in promised:
                if since < offer.sends[0] and (topic := self._topic(wish, offer)) is not None:
                    yield from self._missed(wish, topic, offer, offer.accepted, offer.accepted_at)

    def _missed(self, wish: Wish, topic: str, offer: Offer, turn: int, at: float) -> Iterator[Breach]:
        """A breach if a session did not get something by the first quiet moment in which it was there."""
        moment = self._moment(wish.life, turn, at)
        if moment is None or not _stands(wish, moment) or self._diary.limited:
            return
        if not any(one.turn < moment.turn for one in self._got[wish.life].get((topic, offer.payload), ())):
            yield Breach("nothing lost", f"{wish} never got {offer}")

    def _moment(self, life: Life, turn: int, at: float) -> Settled | None:
        return next(
            (
                one
                for one in self._diary.settled
                if one.turn > turn and one.at >= at and life.client in one.there
            ),
            None,
        )

    def _owed(self, offer: Offer) -> bool:
        return (
            offer.qos > 0
            and offer.accepted is not None
            and bool(offer.payload)
            and offer.expiry_s is None
            and not self._diary.limited
            and not self._excused(offer.host, offer.sends[0])
        )

    def _in_force(self, wish: Wish) -> int | None:
        """The turn from which a subscription counts; None if it never does."""
        if wish.granted is not None and not self._strange(wish.life.host, wish.asked):
            return wish.granted
        return next((one.turn for one in self._diary.settled if one.turn > wish.asked_last), None)

    def _strange(self, host: str, turn: int) -> bool:
        """Whether a broker was new, or had lost its disk, and might not yet have met the others."""
        begun = [*self._diary.joined, *((one.turn, one.host) for one in self._diary.outages if one.wiped)]
        new = max((at for at, one in begun if one == host and at < turn), default=None)
        return new is not None and not any(new < settled.turn < turn for settled in self._diary.settled)

    def _excused(self, host: str, turn: int) -> bool:
        """Whether what a broker took in at a turn may be lost: its disk was, or it had not met the others."""
        later = [one.host for one in self._diary.outages if one.wiped and one.turn > turn]
        if host in later and (not self._neighbours_keep or len(later) > 1):
            return True
        return self._strange(host, turn)

    def shared(self) -> Iterator[Breach]:
        """Of a share group, one session gets each publication."""
        groups: dict[tuple[str, str], list[Wish]] = defaultdict(list)
        for wish in self._diary.wishes:
            if wish.group:
                groups[wish.life.host, wish.text].append(wish)
        for (_, text), members in sorted(groups.items()):
            for offer in self._diary.offers:
                takers = [wish for wish in members if self._topic(wish, offer) is not None]
                if not offer.payload or not offer.sends or not takers:
                    continue
                key = (self._topic(takers[0], offer) or "", offer.payload)
                receipts = [some[0] for wish in takers if (some := self._got[wish.life].get(key))]
                if not receipts:
                    yield from self._missed_by_all(takers, members, offer, text)
                elif len(offer.sends) == 1:
                    yield from self._got_by_many(sorted(receipts), takers, offer, text)

    def _got_by_many(
        self, receipts: list[Receipt], takers: list[Wish], offer: Offer, text: str
    ) -> Iterator[Breach]:
        """A second session may get what the first one may not have, since its connection or it ended."""
        for first, second in pairwise(receipts):
            if first.life is second.life:
                continue
            ends = [first.life.leaving, *(wish.leaving for wish in takers if wish.life is first.life)]
            if first.qos < 2:
                ends.append(first.connection.left)
            if not any(turn is not None and turn < second.turn for turn in ends):
                both = f"{first.life.name} and {second.life.name}"
                yield Breach("one of a share group", f"{both} got {offer}, both of {text}")

    def _missed_by_all(
        self, takers: list[Wish], members: list[Wish], offer: Offer, text: str
    ) -> Iterator[Breach]:
        """A breach if nobody got it and nobody who may have had it has left or is away."""
        asking = [
            wish
            for wish in takers
            if (since := self._in_force(wish)) is not None and since < offer.sends[0] < self._over(wish)
        ]
        if not asking or not self._owed(offer):
            return
        for moment in self._diary.settled:
            if offer.accepted is None or moment.turn < offer.accepted:
                continue
            had = [wish for wish in members if wish.asked < moment.turn and self._over(wish) > offer.sends[0]]
            if all(wish.qos and wish.life.client in moment.there and _stands(wish, moment) for wish in had):
                yield Breach("nothing lost", f"nobody of {text} ever got {offer}")
                return

    def _over(self, wish: Wish) -> float:
        """The turn from which a broker surely gives it nothing any more."""
        if wish.ended is None:
            return inf
        if wish.life.ended is None:
            return wish.ended
        own = [one for one in self._diary.connections[wish.life.client] if one.life is wish.life]
        return max([wish.ended, *(inf if one.parted is None else one.parted for one in own)])

    # Sessions.

    def sessions(self) -> Iterator[Breach]:
        """A session is there for as long as was agreed, and no longer."""
        for client, connections in self._diary.connections.items():
            for place, connection in enumerate(connections):
                before = next((one for one in reversed(connections[:place]) if one.opened is not None), None)
                if connection.opened is None or connection.clean or before is None:
                    continue
                present = connection.life is before.life
                since = connections[before.number : place]
                excused = any(
                    one.host == connection.host
                    and before.asked < one.turn < connection.opened
                    and (one.wiped or one.at < before.opened_at + UNWRITTEN_S)
                    for one in self._diary.outages
                )
                if not present and not excused and connection.opened_at < _until(before, since, -1):
                    yield Breach(
                        "sessions last", f"{client} came back at {connection.opened_at:.2f} s to no session"
                    )
                latest = max(
                    [_until(before, since, 1)]
                    + [
                        at + before.expiry_s * (1 + SLACK_SHARE) + SLACK_S
                        for at in self._diary.starts[connection.host]
                        if before.asked_at < at < connection.opened_at
                    ]
                )
                if present and connection.asked_at > latest:
                    yield Breach(
                        "sessions expire",
                        f"{client} came back at {connection.asked_at:.2f} s to an old session",
                    )

    def ghosts(self) -> Iterator[Breach]:
        """Nobody gets live what was over and done before they asked."""
        for receipt in self._receipts:
            if receipt.retain:
                continue
            offer = self._offers[receipt.payload]
            if offer.will or (offer.qos and offer.accepted is None) or not offer.sends:
                continue
            done = offer.accepted or offer.sends[-1]
            moment = next((one.turn for one in self._diary.settled if one.turn > done), None)
            asked = [
                wish.asked for wish in self._wishes[receipt.life] if self._topic(wish, offer) == receipt.topic
            ]
            if moment is not None and asked and min(asked) > moment:
                yield Breach("no ghosts", f"{_told(receipt)} came, of a time before it asked: {offer}")

    # Wills.

    def wills(self) -> Iterator[Breach]:
        """A will is published when it is due, and not otherwise."""
        promised = [
            (since, wish)
            for wish in self._diary.wishes
            if wish.qos and not wish.group and (since := self._in_force(wish)) is not None
        ]
        seen = {receipt.payload for receipt in self._receipts}
        for connections in self._diary.connections.values():
            for connection in connections:
                will = connection.will
                if will is None or connection.opened is None:
                    continue
                due = self._due(connection, connections[connection.number + 1 :])
                if due is False and will.payload in seen:
                    yield Breach("wills", f"{will} came, although {_end_of(connection)}")
                if due is not True or not will.qos or connection.parted is None:
                    continue
                at = connection.parted_at + _later(_delay(connection), 1)
                if self._excused(will.host, connection.parted) or self._away(will.host, connection, at):
                    continue
                for since, wish in promised:
                    if since < connection.parted and (topic := self._topic(wish, will)) is not None:
                        yield from self._missed(wish, topic, will, connection.parted, at)

    def _due(self, connection: Connection, later: Sequence[Connection]) -> bool | None:
        """Whether a will must be published; None if it may or may not."""
        if connection.parted is None:
            return False
        if connection.parted_why == "died":
            return None
        if connection.farewell == 0:
            # A broker that ended the connection itself may have done so before it read the farewell; one that
            # died at once may not have written it down, and nobody was told that it had.
            until = connection.parted_at + UNWRITTEN_S
            died = any(
                one.host == connection.host and connection.parted_at <= one.at <= until
                for one in self._diary.outages
            )
            return False if connection.parted_why == "farewell" and not died else None
        delay_s = _delay(connection)
        after = later[0] if later else None
        if not delay_s or after is None or after.asked_at > connection.parted_at + _later(delay_s, 1):
            return True
        if after.opened is None:
            return None
        if after.clean:
            return True
        return False if after.opened_at < connection.parted_at + _later(delay_s, -1) else None

    def _away(self, host: str, connection: Connection, until: float) -> bool:
        """Whether a broker was down between the opening of a connection and a time."""
        return any(
            one.host == host and connection.opened_at <= one.at <= until for one in self._diary.outages
        )

    # Retained messages.

    def retained(self) -> Iterator[Breach]:
        """Whoever subscribes anew gets what was last retained, and nothing older."""
        kept: dict[str, list[Offer]] = defaultdict(list)
        for offer in self._diary.offers:
            if offer.retain and offer.sends and not offer.will:
                kept[offer.topic].append(offer)
        for offers in kept.values():
            offers.sort(key=lambda one: one.sends[0])
        for wish in self._diary.wishes:
            others = self._wishes[wish.life]
            if wish.group or any(one.retain_as_published for one in others):
                continue
            for topic, offers in kept.items():
                if offers[0].host == wish.life.host and _topic_matches(wish.topic_filter, topic):
                    yield from self._kept(wish, topic, offers)

    def _kept(self, wish: Wish, topic: str, offers: list[Offer]) -> Iterator[Breach]:
        """Judge one subscription and one topic to which one client publishes."""
        last = next(
            (
                place
                for place in reversed(range(len(offers)))
                if (offers[place].accepted or wish.asked) < wish.asked
            ),
            None,
        )
        if last is None or any(
            one.wiped and one.host == offers[last].host and one.turn > offers[last].sends[0]
            for one in self._diary.outages
        ):
            return
        # An older one that was said again later may be taken for the newer.
        if any(offer.sends[-1] > offers[last].sends[0] for offer in offers[:last]):
            return
        old = {offer.payload for offer in offers[: last if offers[last].payload else last + 1]}
        receipts = [
            receipt
            for (_, payload), receipts in self._got[wish.life].items()
            for receipt in receipts
            if receipt.topic == topic and receipt.turn > wish.asked
        ]
        for receipt in receipts:
            if receipt.retain and not receipt.dup and receipt.payload in old and self._alone(wish, receipt):
                yield Breach("retained", f"{_told(receipt)} is not what was last retained, {offers[last]}")
        new = wish.retain_handling == 0 or (wish.retain_handling == 1 and wish.new)
        value = offers[last]
        moment = self._moment(wish.life, wish.asked, 0.0)
        if (
            not new
            or self._diary.limited
            or not value.payload
            or not value.qos
            or not wish.qos
            or moment is None
            or not _stands(wish, moment)
            or wish.asked != wish.asked_last
            or (wish.granted or wish.settling) is None
            or self._topic(wish, value) is None
            # What came in its place may have been cleared again, or not be wanted.
            or any(offer.sends[0] < moment.turn for offer in offers[last + 1 :])
        ):
            return
        if not any(receipt.payload == value.payload for receipt in receipts):
            yield Breach("retained", f"{wish} did not get {value}, which is retained")

    def _alone(self, wish: Wish, receipt: Receipt) -> bool:
        """Whether a retained message can only have come for this subscription."""
        return not any(
            other is not wish
            and other.asked < receipt.turn
            and _topic_matches(other.topic_filter, receipt.topic)
            for other in self._wishes[wish.life]
        )


def _stands(wish: Wish, moment: Settled) -> bool:
    leaving = [turn for turn in (wish.leaving, wish.life.leaving, wish.ended) if turn is not None]
    return all(turn > moment.turn for turn in leaving)


def _later(seconds: float, sign: int) -> float:
    """A time after which something is surely due (1), or before which it surely is not (-1)."""
    return seconds + sign * (SLACK_S + SLACK_SHARE * seconds)


def _delay(connection: Connection) -> float:
    return min(connection.will_delay_s, connection.expiry_s)


def _until(before: Connection, since: Sequence[Connection], sign: int) -> float:
    """Until when a session surely lasts (-1), or after which it surely is over (1)."""
    parted = [one.parted_at if one.parted is not None else inf for one in since]
    return (min(parted) if sign < 0 else max(parted)) + _later(before.expiry_s, sign)


def _end_of(connection: Connection) -> str:
    if connection.parted is None:
        return f"{connection.client} is still there"
    if connection.farewell == 0:
        return f"{connection.client} said goodbye at {connection.parted_at:.2f} s"
    return f"{connection.client} came back soon after {connection.parted_at:.2f} s"


def _told(receipt: Receipt) -> str:
    flags = "".join(
        f", {name}" for name, flag in (("retained", receipt.retain), ("DUP", receipt.dup)) if flag
    )
    return (
        f"{receipt.life.name} over connection {receipt.connection.number} at {receipt.at:.3f} s: "
        f"{receipt.topic} {receipt.payload[:40]!r} (QoS {receipt.qos}{flags})"
    )
