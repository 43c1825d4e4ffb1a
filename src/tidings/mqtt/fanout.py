"""Fan-out: publications that the broker gives to sessions, as bytes to their clients.

Sessions that are to have the same bytes are a *class*: by the version of MQTT, the quality of service and the
subscription identifiers. What a class gets of a batch is laid out once. A session that needs more thought (it
is kept on disk, looks through a view, has something queued, …) is given each publication by itself, which
costs nobody else anything.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import groupby

import numpy as np

from tidings.matching.dealing import joined
from tidings.matching.state import Array
from tidings.mqtt.clients import Client
from tidings.mqtt.core import Core
from tidings.mqtt.packets import NO_PROPERTIES, Properties, Version
from tidings.mqtt.properties import PUBLISH, SINGLE, variable, written
from tidings.mqtt.sessions import QUICK, Asked, Delivery, Session
from tidings.mqtt.subscribing import VIEW, Subscribing
from tidings.mqtt.told import SNAPSHOT
from tidings.overlay.broker import Broker
from tidings.overlay.events import Deliver
from tidings.overlay.matches import Dealing, Matches, Named
from tidings.overlay.publication import Batch, Head, Publication

PACKET_IDS = 65_535

QUICK_BYTES = 16_384
"""Of a payload that is in flight without being counted: as many as that are far below any bound."""

PLANS_MAX = 4096
"""Sets of subscriptions for which it is remembered how they are served."""

Names = tuple[str, ...]
"""Of subscriptions of one session, sorted."""

Form = tuple[bool, tuple[int, ...]]
"""What packets of QoS 0 are like: whether they are of MQTT 5, and their subscription identifiers."""


class Plan:
    """How publications of one quality of service go to everyone who has some subscriptions."""

    __slots__ = ("acknowledged", "everyone", "names", "others", "plain")

    def __init__(self, everyone: tuple[Named, ...]) -> None:
        self.everyone = everyone
        self.names: dict[str, Names] = {}
        """By session: which of the subscriptions are its own."""
        self.plain: dict[Form, list[Session]] = {}
        """Who gets them at QoS 0."""
        self.acknowledged: list[tuple[Session, tuple[int, ...]]] = []
        """Who gets them at QoS 1 and need not have them kept, with the identifiers."""
        self.others: list[Session] = []
        """Who is looked at one by one."""


class Fanout:
    """All that is given to clients here."""

    def __init__(
        self, core: Core, broker: Broker, sessions: dict[str, Session], subscribing: Subscribing
    ) -> None:
        self._core = core
        self._broker = broker
        self._sessions = sessions
        self._subscribing = subscribing
        self._generation = -1
        self._plans: dict[tuple[int, int], Plan] = {}
        """By the identity of a set of subscriptions, and quality of service."""
        self._forms: dict[tuple[str, Names, int], Form | None] = {}
        """For some subscriptions of one session: what packets it gets, if they are of QoS 0."""

    def on_deliver(self, effect: Deliver) -> None:
        """Give publications to the clients that get them. A session may have ended meanwhile."""
        batch, matches, hops = effect.batch, effect.matches, effect.hops
        if self._generation != self._broker.core.generation:
            self._generation = self._broker.core.generation
            self._plans.clear()
            self._forms.clear()
        if batch.told or any(head.expiry_s >= 0 for head in batch.heads):
            for publication, named in zip(batch, matches, strict=True):
                for session_id, names in _by_session(named).items():
                    self._give(session_id, names, publication, hops)
            return
        if matches.dealing is not None:
            self._give_dealt(batch, matches, matches.dealing, hops)
            return
        first, heads = 0, batch.heads
        runs = (
            groupby(heads[at].qos for at in batch.which) if batch.which else ((heads[0].qos, batch.starts),)
        )
        for qos, some in runs:
            end = first + sum(1 for _ in some)
            part = batch.part(first, end)
            if not matches.listed:
                self._give_all(self._plan(matches.everyone, qos), part, hops, ())
            else:
                self._give_some(part, matches.everyone, matches.listed[first:end], qos, hops)
            first = end

    # To everyone.

    def _plan(self, everyone: tuple[Named, ...], qos: int) -> Plan:
        plan = self._plans.get((id(everyone), qos))
        if plan is not None:
            return plan
        plan = Plan(everyone)
        for session_id, names in _by_session(everyone).items():
            session = self._sessions.get(session_id)
            if session is None:
                continue
            plan.names[session_id] = names
            asked = [session.subscriptions[name] for name in names if name in session.subscriptions]
            client = session.client
            if client is None or not asked or not _simple(client, asked) or (session.durable and qos):
                plan.others.append(session)
                continue
            identifiers = tuple([it.identifier for it in asked if it.identifier]) if client.v5 else ()
            highest = min(qos, max(it.qos for it in asked))
            if highest == 0:
                plan.plain.setdefault((client.v5, identifiers), []).append(session)
            elif highest == 1:
                plan.acknowledged.append((session, identifiers))
            else:
                plan.others.append(session)
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        self._plans[id(everyone), qos] = plan
        return plan

    def _give_all(self, plan: Plan, batch: Batch, hops: int, apart: Container[str]) -> None:
        """All of a batch to everyone but those who are served apart."""
        core = self._core
        counters, dirty, count = core.counters, core.dirty, len(batch)
        singly = [session for session in plan.others if session.id not in apart]
        served = 0
        for form, sessions in plan.plain.items():
            data = b""
            for session in sessions:
                client = session.client
                if session.id in apart:
                    continue
                if client is None or not _is_idle(client, session):
                    singly.append(session)
                    continue
                data = data or _laid_out(batch, form)
                client.out.append(data)
                dirty[client] = None
                served += 1
        if served:
            counters.packets_out += served * count
            counters.delivered += served * count
            counters.delivered_bytes += served * sum(batch.lengths)
        for session, identifiers in plan.acknowledged:
            if session.id in apart:
                continue
            taken = self._give_acknowledged(session, identifiers, batch)
            for publication in batch.part(taken, count) if taken < count else ():
                self._give(session.id, plan.names[session.id], publication, hops)
        if singly:
            publications = list(batch)
            for session in singly:
                for publication in publications:
                    self._give(session.id, plan.names[session.id], publication, hops)

    def _give_acknowledged(self, session: Session, identifiers: tuple[int, ...], batch: Batch) -> int:
        """The first of a batch at QoS 1, as many as there is room for; how many that are."""
        client, inflight = session.client, session.inflight
        if client is None or session.queue or client.congested or client.quiet:
            return 0
        if max(batch.lengths) > QUICK_BYTES:
            return 0
        count = min(len(batch), session.window - len(inflight))
        if count <= 0:
            return 0
        number = session.given
        ids = [(number + at) % PACKET_IDS + 1 for at in range(count)]
        if not inflight.keys().isdisjoint(ids):
            return 0
        session.given += count
        inflight.update(dict.fromkeys(ids, QUICK))
        client.put(_laid_out_acknowledged(batch.part(0, count), client.v5, identifiers, ids))
        counters = self._core.counters
        counters.delivered += count
        counters.packets_out += count
        counters.delivered_bytes += sum(batch.lengths[:count])
        return count

    # To some.

    def _give_some(
        self,
        batch: Batch,
        everyone: tuple[Named, ...],
        listed: Sequence[tuple[Named, ...]],
        qos: int,
        hops: int,
    ) -> None:
        """Publications of which others get some besides."""
        plan = self._plan(everyone, qos)
        named = plan.names
        apart = {session_id: None for some in listed for session_id, _ in some if session_id in named}
        if everyone:
            self._give_all(plan, batch, hops, apart)
        core = self._core
        counters, dirty = core.counters, core.dirty
        for at, some in enumerate(listed):
            by_session = _by_session(some)
            for session_id in apart:
                by_session[session_id] = tuple(sorted((*named[session_id], *by_session.get(session_id, ()))))
            publication: Publication | None = None
            laid_out: dict[Form, bytes] = {}
            for session_id, names in by_session.items():
                form = self._form(session_id, names, qos)
                session = self._sessions.get(session_id)
                client = session.client if session is not None else None
                if form is None or session is None or client is None or not _is_idle(client, session):
                    publication = publication or batch.one(at)
                    self._give(session_id, names, publication, hops)
                    continue
                data = laid_out.get(form)
                if data is None:
                    data = laid_out[form] = _laid_out(batch.part(at, at + 1), form)
                client.out.append(data)
                dirty[client] = None
                counters.packets_out += 1
                counters.delivered += 1
                counters.delivered_bytes += batch.ends[at] - batch.starts[at]

    def _form(self, session_id: str, names: Names, qos: int) -> Form | None:
        """What packets a session gets for some of its subscriptions; None if it is looked at by itself."""
        key = session_id, names, qos
        found = self._forms.get(key, ...)
        if found is not ...:
            return found
        session = self._sessions.get(session_id)
        client = session.client if session is not None else None
        form: Form | None = None
        if session is not None and client is not None and not (session.durable and qos):
            asked = [session.subscriptions[name] for name in names if name in session.subscriptions]
            if asked and _simple(client, asked) and not min(qos, max(it.qos for it in asked)):
                identifiers = tuple([it.identifier for it in asked if it.identifier]) if client.v5 else ()
                form = (client.v5, identifiers)
        if len(self._forms) >= PLANS_MAX:
            self._forms.clear()
        self._forms[key] = form
        return form

    # To those to whom many were dealt.

    def _give_dealt(self, batch: Batch, matches: Matches, dealing: Dealing, hops: int) -> None:
        """What was matched together."""
        plans = {head.qos: self._plan(matches.everyone, head.qos) for head in batch.heads}
        apart = dealing.mixed
        kept = any(head.qos for head in batch.heads)
        if matches.everyone:
            first = 0
            for qos, same in groupby(batch.head(at).qos for at in range(len(batch))):
                end = first + sum(1 for _ in same)
                self._give_all(plans[qos], batch.part(first, end), hops, apart)
                first = end
        dealt, counters, dirty = dealing.dealt, self._core.counters, self._core.dirty
        by_form: dict[Form, tuple[list[int], list[Client]]] = {}
        singly: list[str] = list(apart)
        before = int(dealt.lasts[dealing.plain - 1]) if dealing.plain else 0
        for taker, last in enumerate(dealt.lasts[dealing.plain :].tolist(), dealing.plain):
            if last == before:
                continue
            before = last
            session_id = dealing.sessions[taker]
            session = self._sessions.get(session_id)
            client = session.client if session is not None else None
            # What others may send again a kept session gets when it is on disk that it has come.
            form = None if session is None or (session.durable and kept) else self._form_of_all(session_id)
            if session is None or client is None or form is None or not _is_idle(client, session):
                singly.append(session_id)
                continue
            takers, clients = by_form.setdefault(form, ([], []))
            takers.append(taker)
            clients.append(client)
        lengths = np.array(batch.lengths, dtype=np.int64)
        for form, (takers, clients) in by_form.items():
            data, begins, ends = _laid_out_each(batch, form)
            pieces, lasts = dealt.pieces_of(takers)
            for client, share in zip(clients, joined(data, begins, ends, pieces, lasts), strict=True):
                client.out.append(share)
                dirty[client] = None
            counters.packets_out += len(pieces)
            counters.delivered += len(pieces)
            counters.delivered_bytes += int(lengths[pieces].sum())
        if not singly:
            return
        wanted = frozenset(singly)
        for at, named in enumerate(matches):
            own = [one for one in named if one[0] in wanted]
            if own:
                publication = batch.one(at)
                for session_id, names in _by_session(own).items():
                    self._give(session_id, names, publication, hops)

    def _form_of_all(self, session_id: str) -> Form | None:
        """What packets of QoS 0 a session gets, whichever of its subscriptions they are for; None if that
        makes a difference.
        """
        key = session_id, (), 0
        found = self._forms.get(key, ...)
        if found is ...:
            session = self._sessions.get(session_id)
            client = session.client if session is not None else None
            found = None
            if session is not None and client is not None:
                asked = list(session.subscriptions.values())
                if _simple(client, asked) and not any(
                    it.qos or (it.identifier and client.v5) for it in asked
                ):
                    found = (client.v5, ())
            self._forms[key] = found
        return found

    # By itself.

    def _give(self, session_id: str, names: Names, publication: Publication, hops: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self.give(session, names, publication, hops)

    def give(self, session: Session, names: Names, publication: Publication, hops: int = 0) -> None:
        """One message for each topic name under which the client asked for it."""
        told = publication.told
        by_view: dict[str, list[Asked]] = {}
        for name in names:
            asked = session.subscriptions.get(name)
            if asked is None or (asked.no_local and publication.publisher == session.id):  # [MQTT-3.8.3-3]
                continue
            by_view.setdefault(asked.view, []).append(asked)
        for view, some in by_view.items():
            topic = f"{VIEW}{view}/{publication.topic}" if view else publication.topic
            qos = min(publication.qos, max(it.qos for it in some))
            identifiers = tuple(it.identifier for it in some if it.identifier)
            if told is None:
                # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
                retain = publication.retain and any(it.retain_as_published for it in some)
            else:
                # It answers the subscription, as a retained message does [MQTT-3.3.1-8].
                retain = told.state == SNAPSHOT
            session.give(Delivery(0, publication, topic, qos, retain, identifiers, hops=hops))

    def say(self, message: Publication) -> None:
        """A message of this broker's own topics, to those who subscribe to them here."""
        for session_id, name in sorted(self._subscribing.own.match(message.topic, _no_fields)):
            session = self._sessions[session_id]
            asked = session.subscriptions[name]
            identifiers = (asked.identifier,) if asked.identifier else ()
            session.give(Delivery(0, message, message.topic, min(message.qos, asked.qos), False, identifiers))


def _by_session(named: Sequence[Named]) -> dict[str, Names]:
    """The names of each session, in the order in which they are."""
    found: dict[str, Names] = {}
    for session_id, name in named:
        before = found.get(session_id)
        found[session_id] = (name,) if before is None else (*before, name)
    return found


def _is_idle(client: Client, session: Session) -> bool:
    """Whether nothing waits for a client that what comes now would overtake."""
    return not (client.congested or session.queue or session.unsynced)


def _simple(client: Client, asked: Sequence[Asked]) -> bool:
    """Whether a client gets what others of its class get."""
    return (
        not client.aliases_out_max
        and not client.packet_bytes_max
        and not any(it.no_local or it.view or it.retain_as_published for it in asked)
    )


def _laid_out(batch: Batch, form: Form) -> bytes:
    """The packets of a batch at QoS 0."""
    v5, identifiers = form
    data, starts, ends = batch.data, batch.starts, batch.ends
    begins = _as_they_came(batch, form)
    if begins is not None:
        if len(ends) == 1 or list(begins[1:]) == list(ends[:-1]):
            return data[begins[0] : ends[-1]]
        return b"".join([data[begin:end] for begin, end in zip(begins, ends, strict=True)])
    pieces: list[bytes] = []
    for head, first, end in batch.runs():
        middle = _topic_bytes(head.topic) + (_property_bytes(head, identifiers) if v5 else b"")
        heads: dict[int, bytes] = {}
        for start, last in zip(starts[first:end], ends[first:end], strict=True):
            opening = heads.get(last - start)
            if opening is None:
                opening = heads[last - start] = b"\x30" + variable(len(middle) + last - start) + middle
            pieces += (opening, data[start:last])
    return b"".join(pieces)


def _as_they_came(batch: Batch, form: Form) -> Sequence[int] | None:
    """Where packets begin that can be handed on as they are; None if they must be laid out anew."""
    v5, identifiers = form
    came = batch.packets
    if came is None or not came.bare or identifiers or (came.version == Version.V5) is not v5:
        return None
    return came.begins


def _laid_out_each(batch: Batch, form: Form) -> tuple[bytes, Array, Array]:
    """The packets of a batch at QoS 0, and where each begins and ends."""
    begins = _as_they_came(batch, form)
    if begins is not None:
        return batch.data, np.array(begins, dtype=np.int64), np.array(batch.ends, dtype=np.int64)
    packets = [_laid_out(batch.part(at, at + 1), form) for at in range(len(batch))]
    ends = np.cumsum([len(packet) for packet in packets])
    return b"".join(packets), np.concatenate(([0], ends[:-1])), ends


def _laid_out_acknowledged(
    batch: Batch, v5: bool, identifiers: tuple[int, ...], packet_ids: Sequence[int]
) -> bytes:
    """The packets of a batch at QoS 1."""
    data, starts, ends = batch.data, batch.starts, batch.ends
    pieces: list[bytes] = []
    for head, first, end in batch.runs():
        topic = _topic_bytes(head.topic)
        tail = _property_bytes(head, identifiers) if v5 else b""
        rest = len(topic) + 2 + len(tail)
        heads: dict[int, bytes] = {}
        for at in range(first, end):
            start, last = starts[at], ends[at]
            opening = heads.get(last - start)
            if opening is None:
                opening = heads[last - start] = b"\x32" + variable(rest + last - start) + topic
            pieces += (opening, packet_ids[at].to_bytes(2, "big"), tail, data[start:last])
    return b"".join(pieces)


def _topic_bytes(topic: str) -> bytes:
    encoded = topic.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _property_bytes(head: Head, identifiers: tuple[int, ...]) -> bytes:
    """The properties of a packet, with their length."""
    bare = not head.properties and not head.content_type and head.payload_format < 0
    if bare and head.response_topic is None and head.correlation is None:
        if not identifiers:
            return SINGLE[0]
        found = b"".join([b"\x0b" + variable(identifier) for identifier in identifiers])
        return variable(len(found)) + found
    properties = Properties(
        payload_format=head.payload_format if head.payload_format >= 0 else None,
        content_type=head.content_type or None,
        response_topic=head.response_topic,
        correlation_data=head.correlation,
        subscription_identifiers=identifiers,
        user=head.properties,
    )
    return written(properties, PUBLISH) if properties != NO_PROPERTIES else SINGLE[0]


def _no_fields() -> None:
    return None
