"""What is promised about gathered topics, judged from what clients reported and got, and nothing else.

A report that was accepted is in what is told; nothing raw comes out; what is told was reported; each session
gets an increasing sequence of the versions of an event, those that it asks for, and always the last. What an
event must say is worked out here by a plain fold of the reports, field by field, not by the gatherer.
docs/simulation.md says the promises in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidings.overlay.publication import Told
from tidings.sim.brokers.promises import BREACHES_MAX, Breach, fields_of, wants
from tidings.sim.brokers.trace import Delivery, Offer, Trace, Wish
from tidings.sim.gathering.trace import Notes
from tidings.sim.gathering.workload import Gathered

Key = tuple[str, str | int]
"""The declaration's name, and what is reported about."""

WITHDRAWN, MERGED_INTO, SNAPSHOT = "withdrawn", "merged-into", "snapshot"


class Rules(Protocol):
    """What is declared of all topics; `gathered_workload.Reporting` is one."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Beside the key."""

    @property
    def policies(self) -> Mapping[str, str]:
        """What becomes of two values of a field that differ; "last" where that depends on their order."""

    @property
    def lasting(self) -> bool:
        """Whether what was opened stays open to the end of the run."""


class Heard(NamedTuple):
    """A version of an event that a session got."""

    turn: int
    session: str
    names: tuple[str, ...]
    """Of the session's subscriptions that it was delivered for."""

    told: Told
    topic: str
    qos: int
    fields: Mapping[str, Any]
    """Empty where there is no payload, or none that can be read."""

    def __str__(self) -> str:
        told = self.told
        return (
            f"{self.session} got version {told.version} of {told.event} ({told.state}, {dict(self.fields)})"
        )


class Said(NamedTuple):
    """A report that could be read."""

    offer: Offer
    key: Key
    fields: Mapping[str, Any]
    must: bool
    """Whether it has to be in what is told: it was accepted, and no disk was lost that may have had it."""


@dataclass(slots=True)
class Evolved:
    """What is known of an event from all who heard of it."""

    key: Key
    versions: dict[int, list[Heard]] = field(default_factory=lambda: defaultdict(list))
    """By number, of those with content."""

    into: str = ""
    """Another event, if it was merged into that."""

    @property
    def last(self) -> int:
        return max(self.versions, default=0)

    def contents(self) -> list[Mapping[str, Any]]:
        """All that anybody was told, the latest first."""
        return [heard.fields for version in sorted(self.versions)[::-1] for heard in self.versions[version]]

    @property
    def fields(self) -> Mapping[str, Any]:
        """Of the last version."""
        return self.versions[self.last][-1].fields if self.versions else {}


class GatheredPromises:
    """All promises about gathered topics."""

    def __init__(
        self,
        ledger: Trace,
        topics: Sequence[Gathered],
        rules: Rules,
        settled: Sequence[int],
        notes: Notes,
        *,
        neighbours_keep: bool = False,
        divided: bool = False,
        safe_from: int = 0,
    ) -> None:
        """`settled`: turns in which the network was whole and quiet.

        `divided`: whether brokers may have been cut off, so that two sides told two things under one number.
        `safe_from`: the turn from which never two brokers that may have a seat and its copy are gone at once.
        """
        self._ledger = ledger
        self._rules = rules
        self._settled = settled
        self._notes = notes
        self._neighbours_keep = neighbours_keep
        self._divided = divided
        self._safe_from = safe_from
        self._topics = {topic.name: topic for topic in topics}
        self._patterns = [(topic.name.split("/"), topic) for topic in topics]
        self.raw: list[Delivery] = []
        self.said = [said for offer in ledger.offers if (said := self._read(offer)) is not None]
        self._by_key: dict[Key, list[Said]] = defaultdict(list)
        for said in self.said:
            self._by_key[said.key].append(said)
        self.heard: dict[str, dict[str, list[Heard]]] = defaultdict(lambda: defaultdict(list))
        """By session and event, in order."""
        self.events: dict[str, Evolved] = {}
        for delivery in ledger.deliveries:
            self._hear(delivery)

    # Reading what there is.

    def _topic(self, name: str) -> Gathered | None:
        levels = name.split("/")
        for pattern, topic in self._patterns:
            if len(pattern) == len(levels) and all(
                one == other or one[0] == "+" for one, other in zip(pattern, levels, strict=True)
            ):
                return topic
        return None

    def _key(self, name: str, fields: Mapping[str, Any]) -> Key | None:
        topic = self._topic(name)
        if topic is None:
            return None
        key = name.split("/")[1] if topic.named else fields.get(topic.key)
        return (topic.name, key) if isinstance(key, str | int) else None

    def _read(self, offer: Offer) -> Said | None:
        fields = fields_of(offer.payload)
        if offer.rejected is not None or fields is None or (key := self._key(offer.topic, fields)) is None:
            return None
        known = (*self._rules.fields, self._topics[key[0]].key)
        if any(name not in known for name in fields) or isinstance(fields.get("severity"), str):
            return None
        policies = self._rules.policies
        filled = {name: _many(policies, name, value) for name, value in fields.items() if value is not None}
        must = offer.qos > 0 and offer.accepted is not None and not self._excused(offer)
        return Said(offer, key, {name: filled[name] for name in policies if name in filled}, must)

    def _hear(self, delivery: Delivery) -> None:
        publication = delivery.publication
        told = publication.told
        if told is None:
            if self._topic(publication.topic) is not None:
                self.raw.append(delivery)
            return
        fields = fields_of(publication.payload) or {}
        by_session: dict[str, list[str]] = {}
        for session, name in delivery.subscriptions:
            by_session.setdefault(session, []).append(name)
        for session, names in by_session.items():
            heard = Heard(
                delivery.turn, session, tuple(names), told, publication.topic, publication.qos, fields
            )
            self.heard[session][told.event].append(heard)
            if told.event not in self.events:
                key = self._key(publication.topic, fields)
                if key is None:
                    continue
                self.events[told.event] = Evolved(key)
            if self._gone_with_its_disk(session):
                continue  # what it alone knew may be lost
            event = self.events[told.event]
            if told.state == MERGED_INTO:
                event.into = told.into
            elif told.state != WITHDRAWN:
                event.versions[told.version].append(heard)

    def _gone_with_its_disk(self, session: str) -> bool:
        life = self._ledger.lives[session]
        return life.ended is not None and any(
            host == life.host and life.ended <= turn <= life.ended + len(self._ledger.lives)
            for turn, host in self._ledger.wiped
        )

    def _all(self) -> Iterator[tuple[str, list[Heard]]]:
        for session in sorted(self.heard):
            for event in sorted(self.heard[session]):
                yield session, self.heard[session][event]

    # Judging.

    def check(self) -> list[Breach]:
        """All of it."""
        found: list[Breach] = []
        for promise in (
            self.nothing_raw,
            self.explained,
            self.nothing_twice,
            self.in_order,
            self.nothing_wrong,
            self.no_ghosts,
            self.nothing_made_up,
            self.one_content,
            self.nothing_lost,
            self.one_event,
            self.always_the_last,
        ):
            found += _some(promise())
        return found

    def nothing_raw(self) -> Iterator[Breach]:
        """No report is delivered as it is."""
        for delivery in self.raw:
            publication = delivery.publication
            yield Breach(
                "nothing raw", f"{publication.id} on {publication.topic} was delivered at {delivery.host}"
            )

    def explained(self) -> Iterator[Breach]:
        """What goes with a version is right: declaration, completeness, number of reports."""
        for _, sequence in self._all():
            for heard in sequence:
                told, topic = heard.told, self._topic(heard.topic)
                if topic is None or topic.name != told.topic:
                    yield Breach("explained", f"{heard} on {heard.topic}, of {told.topic}")
                    continue
                if told.version < 1 or told.state in (WITHDRAWN, MERGED_INTO):
                    continue
                complete = all(name in heard.fields for name in self._rules.fields)
                if told.complete is not complete:
                    yield Breach("explained", f"{heard}, said to be {'' if told.complete else 'in'}complete")
                reported = len(self._by_key.get(self._key(heard.topic, heard.fields) or ("", ""), ()))
                # Two seats may have taken one report, and neither knows.
                if told.reports < 1 or (told.reports > reported and not self._divided):
                    yield Breach("explained", f"{heard}, made of {told.reports} of {reported} reports")

    def nothing_twice(self) -> Iterator[Breach]:
        """A session gets a version once; a new subscription may get again what was shown or withdrawn."""
        for session, sequence in self._all():
            seen: dict[int, Heard] = {}
            for heard in sequence:
                before = seen.get(heard.told.version)
                if before is not None and not (
                    (
                        (heard.told.state == SNAPSHOT or before.told.state == WITHDRAWN)
                        and self._asked_between(session, before.turn, heard.turn)
                    )
                    or self._afresh(before, heard)
                ):
                    yield Breach("nothing twice", f"{heard} after {before}")
                seen[heard.told.version] = heard

    def in_order(self) -> Iterator[Breach]:
        """Versions only grow, and so does what they say unless two sides told it; nothing follows the end."""
        for session, sequence in self._all():
            before: Heard | None = None
            for heard in sequence:
                if before is not None:
                    anew = heard.told.state == SNAPSHOT and self._asked_between(
                        session, before.turn, heard.turn
                    )
                    if heard.told.version < before.told.version:
                        yield Breach("in order", f"{heard} after {before}")
                    elif (
                        before.told.state in ("ended", MERGED_INTO)
                        and not anew
                        # What the other side of a partition knew of what has ended is told as its end too.
                        and not (self._divided and before.told.state == heard.told.state == "ended")
                    ):
                        yield Breach("in order", f"{heard} after the end, {before}")
                    elif not self._divided and (
                        lost := _shrunk(self._rules.policies, before.fields, heard.fields)
                    ):
                        yield Breach("in order", f"{heard} after {before}: {lost} went back")
                before = heard

    def _asked_between(self, session: str, one: int, other: int) -> bool:
        return any(wish.session == session and one < wish.asked < other for wish in self._ledger.wishes)

    def _afresh(self, before: Heard, heard: Heard) -> bool:
        """Whether a session unsubscribed from what it heard before, and heard the rest for a new wish."""
        own = [wish for wish in self._ledger.wishes if wish.session == heard.session]
        ended = [
            wish.ended is not None and wish.ended < heard.turn
            for wish in own
            if wish.name in before.names and wish.asked < before.turn
        ]
        new = [
            wish.asked > before.turn for wish in own if wish.name in heard.names and wish.asked < heard.turn
        ]
        return all(ended) and bool(new) and new[-1]

    def nothing_wrong(self) -> Iterator[Breach]:
        """What is delivered satisfies the filter; what is withdrawn was there before, and says nothing."""
        histories: dict[tuple[str, str], list[Wish]] = defaultdict(list)
        for wish in self._ledger.wishes:
            histories[wish.session, wish.name].append(wish)
        for session, sequence in self._all():
            shown = False
            for heard in sequence:
                state = heard.told.state
                if state in (WITHDRAWN, MERGED_INTO):
                    if not shown:
                        yield Breach("nothing to the wrong one", f"{heard}, of which it had nothing")
                    if state == WITHDRAWN and heard.fields:
                        yield Breach("nothing to the wrong one", f"{heard}, and that with fields")
                    shown = False
                    continue
                shown = True
                for name in heard.names:
                    if not any(
                        wants(wish.subscription, heard.topic, heard.fields)
                        for wish in histories[session, name]
                        if wish.asked < heard.turn
                        and (wish.ended is None or wish.ended > heard.turn or wish.forgotten)
                    ):
                        asked = [wish.subscription for wish in histories[session, name]]
                        yield Breach("nothing to the wrong one", f"{heard} for {name}, which asks {asked}")

    def no_ghosts(self) -> Iterator[Breach]:
        """A new subscription begins with what is open, and with nothing else."""
        for session, sequence in self._all():
            for heard in sequence:
                closed = self._notes.closed.get(heard.told.event)
                if heard.told.state == SNAPSHOT and closed is not None:
                    asked = [wish.asked for wish in self._ledger.wishes if wish.session == session]
                    before = [turn for turn in self._settled if turn > closed]
                    if before and asked and min(asked) > before[0]:
                        yield Breach("no ghosts", f"{heard}, which was closed long before")

    def nothing_made_up(self) -> Iterator[Breach]:
        """Each value in an event was reported about that key before."""
        for identity in sorted(self.events):
            event = self.events[identity]
            said = self._by_key.get(event.key, [])
            for version in sorted(event.versions):
                heard = event.versions[version][0]
                for name, value in heard.fields.items():
                    if name not in self._rules.policies:
                        continue
                    reported = [one.fields[name] for one in said if name in one.fields]
                    if self._rules.policies[name] == "union":
                        known = {element for one in reported for element in one}
                        wrong = set(value) - known
                    else:
                        wrong = set() if value in reported else {value}
                    if wrong:
                        yield Breach("nothing made up", f"{heard}: nobody reported {name} {sorted(wrong)}")

    def one_content(self) -> Iterator[Breach]:
        """A version says the same to everybody: the last one, and every one where nothing was cut off."""
        for identity in sorted(self.events):
            event = self.events[identity]
            for version in sorted(event.versions):
                if self._divided and (version != event.last or event.into):
                    continue
                first, *others = event.versions[version]
                for heard in others:
                    if heard.fields != first.fields:
                        yield Breach("one content", f"{heard}, but {first}")
                        break

    def nothing_lost(self) -> Iterator[Breach]:
        """All that an accepted report says is in an event that was told."""
        since, lasting = self._watched_since(), self._rules.lasting
        if since is None:
            return
        by_key: dict[Key, list[Evolved]] = defaultdict(list)
        for event in self.events.values():
            by_key[event.key].append(event)
        for said in self.said:
            turn = said.offer.turn
            if not said.must or turn < self._safe_from or (turn < since and not lasting):
                continue
            told = [
                fields
                for event in by_key[said.key]
                if not event.into or not lasting
                for fields in ([event.fields] if lasting else event.contents())
            ]
            missing = [_missing(self._rules.policies, said.fields, fields) for fields in told]
            if not told:
                yield Breach("nothing lost", f"{_offered(said)} is in no event")
            elif all(missing):
                yield Breach("nothing lost", f"{min(missing, key=len)} of {_offered(said)}, not in {told}")

    def _watched_since(self) -> int | None:
        """The turn from which somebody hears of everything."""
        watching = [
            since
            for wish in self._ledger.wishes
            if wish.ended is None and wish.subscription.topic_filter == "#" and not wish.subscription.where
            and wish.subscription.qos and (since := self._in_force(wish)) is not None
        ]  # fmt: skip
        return min(watching, default=None)

    def one_event(self) -> Iterator[Breach]:
        """What stays open for the whole run is one event for each key; others were merged into it."""
        if not self._rules.lasting or self._watched_since() is None:
            return
        alive: dict[Key, list[str]] = defaultdict(list)
        for identity in sorted(self.events):
            key = self.events[identity].key
            early = any(said.offer.turn < self._safe_from for said in self._by_key.get(key, ()))
            event = self.events[identity]
            # Of reports with QoS 0 alone nothing need be left.
            firm = any(heard.qos for heard in event.versions[event.last]) if event.versions else False
            merged = event.into or self._merged_unheard(identity)
            if not merged and firm and not early and self._known(identity):
                alive[key].append(identity)
        for key, identities in sorted(alive.items()):
            if len(identities) > 1:
                yield Breach("one event", f"{key} has {identities}")
        for identity in [one for one in sorted(self.events) if self.events[one].into and self._known(one)]:
            into = identity
            passed = [into]
            while into in self.events and self.events[into].into and self.events[into].into not in passed:
                into = self.events[into].into
                passed.append(into)
            if into not in alive.get(self.events[identity].key, [into]) and not self._merged_unheard(into):
                yield Breach("one event", f"{identity} was merged into {into}, which nobody knows")

    def _merged_unheard(self, identity: str) -> bool:
        """Whether a seat merged an event after all that anybody heard of it, and nobody heard that.

        Only those hear it who are shown something of the event. Who alone was told of it, on one side of a
        partition, may have had it withdrawn.
        """
        event = self.events.get(identity)
        return event is not None and not event.into and self._notes.merged.get(identity, 0) > event.last

    def _known(self, identity: str) -> bool:
        """Whether a session that still is there has heard of an event."""
        lives = self._ledger.lives
        return any(
            identity in events and lives[session].ended is None for session, events in self.heard.items()
        )

    def always_the_last(self) -> Iterator[Breach]:
        """Whoever asks for the last version of an event has it; who does not any more, knows that."""
        standing: dict[str, list[Wish]] = defaultdict(list)
        for wish in self._ledger.wishes:
            if wish.ended is None and (wish.granted or wish.settling) is not None:
                standing[wish.session].append(wish)
        for session in sorted(standing):
            for identity in sorted(self.events):
                yield from self._last_of(session, standing[session], identity)

    def _last_of(self, session: str, wishes: list[Wish], identity: str) -> Iterator[Breach]:
        event = self.events[identity]
        sequence = self.heard[session].get(identity, []) if session in self.heard else []
        latest = sequence[-1] if sequence else None
        # Who asks for something else by now knows why nothing more comes.
        same = [
            wish
            for wish in wishes
            if latest is not None and wish.name in latest.names and wish.asked < latest.turn
        ]
        if event.into:
            # Only those who had something of it need to know, and to whom it was not closed by their side.
            if (
                latest is not None
                and latest.told.state not in (MERGED_INTO, WITHDRAWN)
                and latest.qos
                and same
                and not (self._divided and self._parted(latest))
            ):
                yield Breach("always the last", f"{latest} and not that it was merged into {event.into}")
            return
        if not event.versions:
            return
        final = event.versions[event.last][-1]
        wanted = [wish for wish in wishes if wants(wish.subscription, final.topic, final.fields)]
        if not wanted:
            # An event that one side closed and the other told on is over for those who heard of the closing.
            closed = self._notes.closed.get(identity)
            heard = max(final.turn, latest.turn if latest is not None else 0)
            over = self._divided and closed is not None and closed < heard
            shown = latest is not None and latest.told.state not in (WITHDRAWN, "ended")
            if shown and not over and self._firm(final, same):
                yield Breach("always the last", f"{latest}, which it does not ask for any more: {final}")
            return
        if not self._firm(final, wanted) or not any(self._owed(wish, identity, event) for wish in wanted):
            return
        if (latest is None or latest.told.state == WITHDRAWN) and self._merged_unheard(identity):
            return  # the version is no longer the last, and what follows is told of the other event
        if latest is None:
            yield Breach("always the last", f"{session} never got {identity}, although {final}")
        elif latest.told.version != event.last or latest.told.state == WITHDRAWN:
            yield Breach("always the last", f"{latest} as the last, but {final}")

    def _parted(self, latest: Heard) -> bool:
        """Whether a side closed an event for itself after this version, although that may have come later."""
        told, notes = latest.told, self._notes
        closed = notes.parted.get(told.event, -1) >= latest.turn
        return closed or told.last or (told.event, told.seat, told.version) in notes.ends

    @staticmethod
    def _firm(final: Heard, wishes: Iterable[Wish]) -> bool:
        """Whether it was told, and asked for, with a quality of service that promises something."""
        return bool(final.qos) and any(wish.subscription.qos for wish in wishes)

    def _owed(self, wish: Wish, identity: str, event: Evolved) -> bool:
        """Whether a subscription was in force when the last version was told, or while the event was open."""
        since = self._in_force(wish)
        if since is None or not wish.subscription.qos:
            return False
        if self._rules.lasting and not self._safe_from:
            return True
        turns = self._notes.told.get((identity, event.last))
        if turns is None or since > turns[0]:
            return False
        # A version that was the last, and closed, is as lost as any publication of a broker without its disk.
        return not self._gone_with(event.versions[event.last][-1].told.seat, turns[0], kept=False)

    # Excuses, as for all publications.

    def _in_force(self, wish: Wish) -> int | None:
        if wish.granted is not None and not self._strange(wish.host, wish.asked):
            return wish.granted
        return next((turn for turn in self._settled if turn > wish.asked), None)

    def _strange(self, host: str, turn: int) -> bool:
        """Whether a broker was new, or had lost its disk, and might not yet have met the others."""
        begun = [*self._ledger.wiped, *self._ledger.joined]
        new = max((at for at, one in begun if one == host and at < turn), default=None)
        return new is not None and not any(new < settled < turn for settled in self._settled)

    def _excused(self, offer: Offer) -> bool:
        return self._gone_with(offer.host, offer.turn, kept=self._neighbours_keep)

    def _gone_with(self, host: str, turn: int, *, kept: bool) -> bool:
        """Whether what a broker had at a turn may be lost: its disk was, or it had not met the others.

        `kept`: by another broker too, before it was acknowledged.
        """
        later = [one for at, one in self._ledger.wiped if at > turn]
        if host in later and (not kept or len(later) > 1):
            return True
        return self._strange(host, turn)


# What reports say, taken together: by plain comparison of values.


def _many(policies: Mapping[str, str], name: str, value: Any) -> Any:
    return (value if isinstance(value, list) else [value]) if policies.get(name) == "union" else value


def _missing(policies: Mapping[str, str], said: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """What of a report an event does not say."""
    return {name: value for name, value in said.items() if not _within(policies[name], value, told.get(name))}


def _within(policy: str, value: Any, told: Any) -> bool:
    if told is None:
        return False
    match policy:
        case "first":
            return bool(told == value)
        case "max":
            return bool(told >= value)
        case "min":
            return bool(told <= value)
        case "union":
            return set(value) <= set(told)
        case _:
            return True  # which of several values it is depends on their order


def _shrunk(
    policies: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """What an earlier version said and a later one takes back; nothing if one of them says nothing."""
    if not after:
        return {}
    return _missing(policies, {name: value for name, value in before.items() if name in policies}, after)


def _offered(said: Said) -> str:
    offer = said.offer
    return f"report {offer.number} ({offer.host}, {offer.topic}, at {offer.at:.3f} s, {offer.payload!r})"


def _some(breaches: Iterable[Breach]) -> list[Breach]:
    found = []
    for breach in breaches:
        found.append(breach)
        if len(found) >= BREACHES_MAX:
            break
    return found
