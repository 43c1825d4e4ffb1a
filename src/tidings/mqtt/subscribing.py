"""SUBSCRIBE and UNSUBSCRIBE: what a client asks for becomes what the broker is asked for.

A topic filter is one of four things: topics of the network, a share group's (`$share/<group>/<filter>`), what
a view lets through (`view/<name>/<filter>`), or topics of this broker alone (`$SYS/…`). User properties of
SUBSCRIBE say what of the events there is wanted; they hold for all its topic filters. SUBACK goes out when
all have been granted or denied, and retained messages follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from tidings.errors import FilterError
from tidings.language import durations, names, views
from tidings.language.limits import DEFAULT as LIMITS
from tidings.language.limits import Steps
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription, asked_where, either_text, read_where
from tidings.mqtt import costs, packets
from tidings.mqtt.access import allowed
from tidings.mqtt.clients import Client, State
from tidings.mqtt.codec import Malformed
from tidings.mqtt.core import Core
from tidings.mqtt.events import Access
from tidings.mqtt.packets import NO_PROPERTIES, Properties, Suback, Unsuback, Unsubscribe, UserProperties
from tidings.mqtt.reasons import FAILURE, Reason
from tidings.mqtt.retained import Retained, expired
from tidings.mqtt.sessions import Asked, Delivery, Session, row
from tidings.mqtt.settings import REFUSE
from tidings.overlay.broker import Broker
from tidings.overlay.events import SubscriptionAsked, SubscriptionDropped
from tidings.overlay.publication import Publication
from tidings.overlay.routing.table import Table

SHARE = "$share/"
VIEW = f"{views.PREFIX}/"
OWN = ("$SYS/", "$tidings/reply/")
"""Topics of this broker alone."""

PLANNED = ("max_delay", "max_extra", "since", "until")
"""Properties whose mechanism is yet to come: refused by name, never ignored."""

OURS = ("where", "unknown", "every", *PLANNED)

ANY = "\0"
"""Stands for any character; MQTT has no text with it."""


def _misspelt(word: str) -> Iterator[str]:
    """A word, and with one edit: a character left out, replaced, swapped with the next, or added."""
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + ANY + word[at + 1 :]
        yield word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    for at in range(len(word) + 1):
        yield word[:at] + ANY + word[at:]


MISSPELT = {text: name for name in OURS for text in _misspelt(name)}
MISSPELT_CHARACTERS_MAX = max(map(len, OURS)) + 1

LOGGED_CHARACTERS = 200
"""Of a topic filter or a content filter, in a line of the log."""

EXPLAINED_MAX = 20
EXPLAINED_CHARACTERS_MAX = 500
"""Reasons in one SUBACK, and of each: a client may ask for thousands, and a text has 65,535 bytes at most."""

SEARCHED_MAX = 1_000
"""Characters for which the LIKE patterns of one session look in texts, five times what one filter may have:
50 ms for a payload of 1 MB, whatever a client subscribes to."""

RIGHT_TAKEN = "the right to it was taken away"
"""Why a subscription ends, and why what waits for its client is dropped."""

WHERES_MAX = 64
"""`where` in one SUBSCRIBE: as many alternatives as a filter may have in its normal form."""

EXCERPT = 40
"""Characters of a filter that are shown around a mistake."""


class Pending:
    """A SUBSCRIBE that is not answered yet."""

    def __init__(self, client: Client, packet_id: int) -> None:
        self.client = client
        self.packet_id = packet_id
        self.reasons: dict[int, int] = {}
        """By position in the packet."""
        self.open = 1
        """What is not answered yet, and one until all has been asked."""
        self.count = 0
        self.explained: dict[str, None] = {}
        """Why not, and what else there is to say, once each; as much as an answer has room for."""
        self.unexplained = 0
        self.understood = False
        """Whether properties of ours were in it."""
        self.retained: list[Asked] = []

    def explain(self, text: str) -> None:
        if len(self.explained) < EXPLAINED_MAX:
            self.explained[text[:EXPLAINED_CHARACTERS_MAX]] = None
        elif text not in self.explained:
            self.unexplained += 1

    @property
    def explanation(self) -> str | None:
        more = [f"and {self.unexplained} more"] if self.unexplained else []
        return "; ".join([*self.explained, *more]) or None


class Wanted:
    """What the user properties of a SUBSCRIBE ask for.

    Content filters are read when a topic filter may be asked for with them, not before: what they cost is
    nothing that a client without rights can spend.
    """

    def __init__(self, user: UserProperties, *, refuse_unknown: bool) -> None:
        self.where = ""
        self.steps = Steps(LIMITS.steps)
        """For all content filters together."""
        self.searched = 0
        """Characters for which their LIKE patterns look in a text, once they are read."""
        self._texts: list[str] = []
        """Content filters that are yet to be read."""
        self.unknown = Unknown.WAIT
        self.every_us = 0
        self.fault = ""
        self.code = int(Reason.TOPIC_FILTER_INVALID)
        self.given = False
        self.foreign = 0
        """User properties that are not ours."""
        texts: list[str] = []
        unknowns: list[str] = []
        cycles: list[str] = []
        for given, value in user:
            name = given.removeprefix("$")
            if name not in OURS:
                self.foreign += 1
                self.fault = _unknown_name(given, name.lower(), refuse_unknown)
                if self.fault:
                    return
            elif name == "where":
                texts.append(value)
            elif name == "unknown":
                unknowns.append(value)
            elif name == "every":
                cycles.append(value)
            else:
                self.fault = f"{name!r} is planned and does not work yet; leave it out"
                self.code = Reason.IMPLEMENTATION_SPECIFIC_ERROR
                return
        self.given = bool(texts or unknowns or cycles)
        if len(set(unknowns)) > 1:
            self.fault = f"'unknown' is given as {unknowns[0]!r} and as {unknowns[1]!r}; give one of them"
        elif unknowns and unknowns[0] not in list(Unknown):
            self.fault = f"unknown = {_line(unknowns[0])!r} is not 'wait' or 'assume'"
        elif unknowns:
            self.unknown = Unknown(unknowns[0])
        if cycles and not self.fault:
            self._read_every(cycles)
        if texts and not self.fault:
            self._take_texts(texts)

    def _take_texts(self, texts: list[str]) -> None:
        """Number and length first."""
        size = sum(map(len, texts))
        if len(texts) > WHERES_MAX:
            self.fault = (
                f"'where' is given {len(texts)} times; the limit is {WHERES_MAX}; "
                "send several SUBSCRIBE, or use IN for several values"
            )
        elif size > LIMITS.text:
            self.fault = f"'where' has {size} characters; the limit is {LIMITS.text}; send several SUBSCRIBE"
        elif not all(text.strip() for text in texts):
            self.fault = "'where' is empty; leave it out to get everything"
        else:
            self._texts = list(dict.fromkeys(texts))
            self.where = either_text(self._texts)

    def read(self) -> None:
        """Read the content filters, once; what is wrong with them is a fault then."""
        if self._texts:
            try:
                self.searched = asked_where(self._texts, self.steps).cost.searched
            except FilterError as error:
                self.fault = explained(error)
            self._texts = []

    def _read_every(self, cycles: list[str]) -> None:
        if len(set(cycles)) > 1:
            self.fault = (
                f"'every' is given as {_line(cycles[0])!r} and as {_line(cycles[1])!r}; give one of them"
            )
            return
        try:
            self.every_us = durations.parse(cycles[0])
        except ValueError as error:
            self.fault = f"every: {_line(str(error))}"


def _unknown_name(given: str, name: str, refuse: bool) -> str:
    """Why a user property is refused that is not one of ours; empty if it is none of our business.

    A misspelt `where` would otherwise subscribe to everything.
    """
    if len(name) <= MISSPELT_CHARACTERS_MAX:
        for text in (name, *(name[:at] + ANY + name[at + 1 :] for at in range(len(name)))):
            if text in MISSPELT:
                return f"{_line(given)!r} is no user property of SUBSCRIBE; did you mean {MISSPELT[text]!r}?"
    if not refuse:
        return ""
    return (
        f"{_line(given)[:EXCERPT]!r} is no user property of SUBSCRIBE, and this broker refuses unknown ones; "
        f"there are {', '.join(OURS)}"
    )


def explained(error: FilterError) -> str:
    """A filter's mistake in one line: what is wrong, and the text around it."""
    if not error.text:
        return _line(error.reason)
    begin = max(0, error.start - EXCERPT)
    end = min(len(error.text), error.end + EXCERPT)
    shown = ("…" if begin else "") + error.text[begin:end] + ("…" if end < len(error.text) else "")
    return _line(f"{error.reason}: {shown}")


def _line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


class Subscribing:
    """All subscriptions of clients here."""

    def __init__(self, core: Core, broker: Broker, sessions: dict[str, Session], retained: Retained) -> None:
        self._core = core
        self._broker = broker
        self._sessions = sessions
        self._retained = retained
        self.access = Access()
        self._waiting: dict[tuple[str, str], list[tuple[Pending, int, int]]] = {}
        """By session and topic filter: the SUBSCRIBEs that wait for it, the position there, and the QoS."""
        self._before: dict[tuple[str, str], Asked | None] = {}
        """What one that waits takes the place of."""
        self.own: Table[Subscription, tuple[str, str]] = Table(1024)
        """Subscriptions to topics of this broker alone."""
        self.sys: Callable[[], list[Publication]] = list
        """What `$SYS` says now."""

    # Asking.

    def subscribe(self, client: Client, packet: packets.Subscribe) -> Iterator[None]:
        """Act on a SUBSCRIBE, in parts: another turn is needed wherever it stops."""
        session = client.session
        assert session is not None, "a client that subscribes has a session"
        yield from self._check([item.topic_filter for item in packet.asked])
        core = self._core
        wanted = Wanted(packet.properties.user, refuse_unknown=core.settings.unknown_properties == REFUSE)
        core.steps += wanted.foreign * costs.PROPERTY_STEPS
        identifiers = packet.properties.subscription_identifiers
        pending = Pending(client, packet.packet_id)
        pending.count = len(packet.asked)
        pending.understood = wanted.given
        for at, item in enumerate(packet.asked):
            if at and core.steps >= costs.TURN_STEPS:
                yield
            # As mosquitto does: a bridge of 3.1.1 cannot ask for what keeps its messages from coming back.
            as_bridge = client.bridge and not client.v5 and not item.topic_filter.startswith(SHARE)
            asked = Asked(
                item.topic_filter,
                item.qos,
                item.no_local or as_bridge,
                item.retain_as_published or as_bridge,
                item.retain_handling,
                identifiers[0] if identifiers else 0,
                wanted.where,
                wanted.unknown,
                every_us=wanted.every_us,
            )
            code, reason = (
                (wanted.code, wanted.fault) if wanted.fault else self._ask(session, asked, client, wanted)
            )
            # A declared topic has the content filters read once more, by its types.
            core.steps += costs.TOPIC_FILTER_STEPS + wanted.steps.spent
            if code is None:
                pending.open += 1
                self._waiting.setdefault((session.id, asked.topic_filter), []).append((pending, at, item.qos))
                continue
            pending.reasons[at] = code
            if code >= FAILURE:
                self._refuse(pending, client.id, asked.topic_filter, reason)
                continue
            self._log_subscribed(client, asked)
            if item.retain_handling != 2:
                pending.retained.append(session.subscriptions[item.topic_filter])
        self._settle(pending)

    def _log_subscribed(self, client: Client, asked: Asked) -> None:
        where = {"where": _line(asked.where[:LOGGED_CHARACTERS])} if asked.where else {}
        name = _line(asked.topic_filter[:LOGGED_CHARACTERS])
        self._core.log("debug", "a client subscribes", **client.who, filter=name, qos=asked.qos, **where)

    def _check(self, topic_filters: Sequence[str]) -> Iterator[None]:
        """See that all are topic filters, before any is acted on."""
        for at, topic_filter in enumerate(topic_filters):
            if at and at % costs.CHECKED_TOGETHER == 0:
                self._core.steps += costs.CHECKED_STEPS
                if self._core.steps >= costs.TURN_STEPS:
                    yield
            check_filter(topic_filter)

    def _refuse(self, pending: Pending, client: str, topic_filter: str, reason: str) -> None:
        pending.explain(reason if pending.count == 1 else f"{_line(topic_filter)[:80]}: {reason}")
        self._core.refuse(client, f"subscribe {_line(topic_filter)[:200]}", reason)

    def _ask(self, session: Session, asked: Asked, client: Client, wanted: Wanted) -> tuple[int | None, str]:
        """Ask for one topic filter: None if the answer is to come, else the code and why."""
        name = asked.topic_filter
        group, inner = "", name
        if name.startswith(SHARE):
            _, group, inner = name.split("/", 2)
        if _too_deep(inner):
            return Reason.TOPIC_FILTER_INVALID, names.filter_fault(inner) or ""
        if not _is_reply(inner) and not allowed(self.access, client.user, client.id, "subscribe", inner):
            return Reason.NOT_AUTHORIZED, "this client may not subscribe there"
        if (
            name not in session.subscriptions
            and len(session.subscriptions) >= self._core.settings.subscriptions_max
        ):
            limit = self._core.settings.subscriptions_max
            return Reason.QUOTA_EXCEEDED, f"a session has {limit} subscriptions at most; drop one first"
        if inner.startswith(OWN):
            return self._ask_own(session, asked, group)
        wanted.read()
        if wanted.fault:
            return wanted.code, wanted.fault
        others = session.searched - session.searched_by.get(name, 0)
        if wanted.searched and others + wanted.searched > SEARCHED_MAX:
            return Reason.QUOTA_EXCEEDED, (
                f"the LIKE patterns of a session look for {SEARCHED_MAX} characters in texts at most, and "
                f"these would be {others + wanted.searched}; use = or a prefix such as 'fire%'"
            )
        subscription = Subscription(inner, asked.where, asked.unknown, asked.qos, asked.every_us)
        if inner.startswith(VIEW):
            view_name = inner.split("/")[1]
            seen, reason = self._through(subscription, view_name, wanted.steps)
            if reason:
                return Reason.TOPIC_FILTER_INVALID, reason
            asked = msgspec.structs.replace(asked, view=view_name)
            if seen is None:
                return self._ask_nothing(session, asked)
            subscription = seen
        elif inner == views.PREFIX:
            return Reason.TOPIC_FILTER_INVALID, "a view has a name: subscribe to view/<name>/#"
        before = session.subscriptions.get(name)
        if before is not None and before.own:
            self.own.remove(Subscription(inner), (session.id, name))
        self._before[session.id, name] = before
        session.subscriptions[name] = asked
        session.count_searched(name, wanted.searched)
        # Before the broker's own part is written, so that they are on disk together.
        session.save_subscription(asked)
        self._broker.core.changed()
        self._tell(session, asked, subscription, group, inner, new=before is None)
        return None, ""

    def _tell(
        self, session: Session, asked: Asked, subscription: Subscription, group: str, inner: str, *, new: bool
    ) -> None:
        """Ask the broker. Open events are what is retained of a gathered topic, and shares get neither."""
        snapshot = not group and (asked.retain_handling == 0 or (asked.retain_handling == 1 and new))
        group = f"{group}/{inner}" if group else ""
        self._broker.tell(SubscriptionAsked(session.id, asked.topic_filter, subscription, group, snapshot))

    def _ask_own(self, session: Session, asked: Asked, group: str) -> tuple[int, str]:
        if group or asked.where:
            return (
                Reason.TOPIC_FILTER_INVALID,
                "topics of the broker itself have no shares and no content filter",
            )
        if asked.topic_filter not in session.subscriptions:
            self.own.add(Subscription(asked.topic_filter), (session.id, asked.topic_filter))
        asked = msgspec.structs.replace(asked, own=True)
        session.subscriptions[asked.topic_filter] = asked
        session.save_subscription(asked)
        return asked.qos, ""

    def _ask_nothing(self, session: Session, asked: Asked) -> tuple[int, str]:
        """Through a view that has nothing there now, and may have later."""
        if asked.topic_filter in session.subscriptions:
            self._broker.tell(SubscriptionDropped(session.id, asked.topic_filter))
        session.subscriptions[asked.topic_filter] = asked
        session.save_subscription(asked)
        self._broker.core.changed()
        return asked.qos, ""

    def _through(
        self, subscription: Subscription, name: str, steps: Steps | None = None
    ) -> tuple[Subscription | None, str]:
        """A subscription as it is through a view; None if that has nothing there, and why if it cannot be."""
        rest = subscription.topic_filter.split("/", 2)
        if name in ("+", "#") or len(rest) < 3:
            return None, "the name of a view cannot be a wildcard; subscribe to view/<name>/#"
        view = self._broker.catalogue.view(name)
        if view is None:
            return None, f"there is no view {name!r}; make it with: tidings view add"
        topic_filter = views.asked(view, rest[2])
        if topic_filter is None:
            return None, ""
        where, unknown = view.where, view.unknown
        if subscription.where and where and subscription.unknown is not unknown:
            return None, f"the view {name!r} has unknown = {unknown.value!r}; ask for the same beside 'where'"
        if subscription.where:
            unknown = subscription.unknown
            try:
                where = views.both(where, subscription.where, steps) if where else subscription.where
            except FilterError as error:
                return None, explained(error)
        every_us = max(view.every_us, subscription.every_us)
        return Subscription(topic_filter, where, unknown, subscription.qos, every_us), ""

    # Answers of the broker.

    def on_granted(self, session_id: str, name: str, reason: str) -> None:
        session = self._sessions[session_id]
        before = self._before.pop((session_id, name), None)
        asked = session.subscriptions.get(name)
        if asked is None:
            return
        new = before is None
        wants_retained = asked.retain_handling == 0 or (asked.retain_handling == 1 and new)
        for pending, at, qos in self._waiting.pop((session_id, name), ()):
            pending.reasons[at] = qos
            self._log_subscribed(pending.client, asked)
            if reason:
                pending.explain(reason)
            if wants_retained and not name.startswith(SHARE):
                pending.retained.append(asked)
            self._settle(pending)

    def on_denied(self, session_id: str, name: str, reason: str) -> None:
        session = self._sessions[session_id]
        before = self._before.pop((session_id, name), None)
        if before is not None:
            session.subscriptions[name] = before
            session.count_searched(name, _searched(before))
            session.save_subscription(before)
        else:
            session.subscriptions.pop(name, None)
            session.count_searched(name, 0)
            if session.durable:
                self._core.erase(row("subscription", session_id, name))
        self._broker.core.changed()
        for pending, at, _ in self._waiting.pop((session_id, name), ()):
            pending.reasons[at] = Reason.TOPIC_FILTER_INVALID
            self._refuse(pending, session_id, name, _line(reason))
            self._settle(pending)

    def _settle(self, pending: Pending) -> None:
        """One thing less is open; answer if that was the last."""
        pending.open -= 1
        client = pending.client
        if pending.open or client.state is not State.OPEN:
            return
        reasons = tuple(pending.reasons[at] for at in range(pending.count))
        properties = NO_PROPERTIES
        if client.v5 and (pending.explained or pending.understood):
            properties = Properties(
                reason_string=pending.explanation,
                user=UNDERSTOOD if pending.understood else (),
            )
        if not client.v5:
            reasons = tuple(min(code, FAILURE) for code in reasons)
        client.send(Suback(pending.packet_id, reasons, properties))
        session = client.session
        if session is None:
            return
        for asked in pending.retained:
            # Unless it was dropped meanwhile, or asked for otherwise.
            if session.subscriptions.get(asked.topic_filter) is asked:
                session.retained[asked.topic_filter] = None
        self.feed(session)

    # Retained messages.

    def feed_all(self) -> None:
        """Go on with those who take more, each in its turn."""
        hungry = self._core.hungry
        while hungry and self._core.looked < costs.RETAINED_PER_TURN:
            session = next(iter(hungry))
            del hungry[session]
            self.feed(session)

    def feed(self, session: Session) -> None:
        """Give a session some of the retained messages that it has yet to get, as far as it takes them
        [MQTT-3.3.1-9], [MQTT-3.3.1-10].

        There may be a hundred thousand: they wait here, not in its queue, and others have their turn.
        """
        core = self._core
        end = min(core.looked + costs.RETAINED_SLICE, costs.RETAINED_PER_TURN)
        while session.retained and session.ready and core.looked < end:
            name, messages = next(iter(session.retained.items()))
            asked = session.subscriptions.get(name)
            subscription = self._broker.subscription(session.id, name)
            if asked is None or (subscription is None and not asked.own):
                del session.retained[name]
                continue
            core.looked += 1
            if messages is None:
                messages = session.retained[name] = (
                    self._said_here(name)
                    if subscription is None
                    else self._retained.matching(subscription.topic_filter)
                )
            try:
                message = next(messages)
            except StopIteration:
                del session.retained[name]
                continue
            if message is None:
                continue
            core.looked += costs.retained_looks(message.size)
            if subscription is not None and not self._is_for(session, asked, subscription, message):
                continue
            identifiers = (asked.identifier,) if asked.identifier else ()
            topic = f"{VIEW}{asked.view}/{message.topic}" if asked.view else message.topic
            session.give(Delivery(0, message, topic, min(message.qos, asked.qos), True, identifiers))
        if session.retained and session.ready:
            core.hungry[session] = None

    def _is_for(
        self, session: Session, asked: Asked, subscription: Subscription, message: Publication
    ) -> bool:
        """Whether a session gets a retained message that its topic filter matches."""
        if not self._broker.wants(subscription, message) or expired(message, self._core.now):
            return False
        if self._broker.gathers(message.topic):
            # From before it was declared: of a gathered topic only told events are delivered.
            return False
        return not (asked.no_local and message.publisher == session.id)

    def _said_here(self, topic_filter: str) -> Iterator[Publication]:
        """What `$SYS` says now."""
        messages = self.sys()
        self._core.looked += len(messages)
        return (message for message in messages if names.match(topic_filter, message.topic))

    # Dropping.

    def unsubscribe(self, client: Client, packet: Unsubscribe) -> Iterator[None]:
        """Act on an UNSUBSCRIBE, in parts as on a SUBSCRIBE."""
        session = client.session
        assert session is not None, "a client that unsubscribes has a session"
        yield from self._check(packet.topic_filters)
        core = self._core
        reasons: list[int] = []
        for name in packet.topic_filters:
            if reasons and core.steps >= costs.TURN_STEPS:
                yield
            core.steps += costs.TOPIC_FILTER_STEPS
            reasons.append(self.drop(session, name))
            if reasons[-1] == Reason.SUCCESS:
                logged = _line(name[:LOGGED_CHARACTERS])
                core.log("debug", "a client unsubscribes", **client.who, filter=logged)
        answer = Unsuback(packet.packet_id, tuple(reasons) if client.v5 else ())
        if session.durable:
            # What is dropped must not be back after a restart.
            self._broker.core.after_sync(lambda: self._send(client, answer))
        else:
            client.send(answer)

    def _send(self, client: Client, answer: Unsuback) -> None:
        if client.state is State.OPEN:
            client.send(answer)

    def drop(self, session: Session, name: str) -> int:
        """Drop a subscription; the reason code for UNSUBACK."""
        asked = session.subscriptions.pop(name, None)
        if asked is None:
            return Reason.NO_SUBSCRIPTION_EXISTED
        session.count_searched(name, 0)
        self._broker.core.changed()
        self._before.pop((session.id, name), None)
        for pending, at, qos in self._waiting.pop((session.id, name), ()):
            pending.reasons[at] = qos
            self._settle(pending)
        if asked.own:
            self.own.remove(Subscription(name), (session.id, name))
        else:
            self._broker.tell(SubscriptionDropped(session.id, name))
        if session.durable:
            self._core.erase(row("subscription", session.id, name))
        return Reason.SUCCESS

    def heard(self, topic: str) -> bool:
        """Whether anybody subscribes to a topic of this broker alone."""
        return bool(self.own.nodes(topic))

    def revoke(self, session: Session) -> None:
        """Rights that were taken away end at once, those of clients that are away too."""
        for name in list(session.subscriptions):
            inner = name.split("/", 2)[2] if name.startswith(SHARE) else name
            if not self._may_have(session, inner):
                self._core.refuse(session.id, f"subscribe {name[:200]}", RIGHT_TAKEN)
                self.drop(session, name)
        if session.queued:
            topics = dict.fromkeys(delivery.topic for delivery in session.queued)
            forbidden = {topic for topic in topics if not self._may_have(session, topic)}
            if forbidden:
                self._core.drop(RIGHT_TAKEN, session.withhold(forbidden))

    def _may_have(self, session: Session, topic_filter: str) -> bool:
        return _is_reply(topic_filter) or allowed(
            self.access, session.user, session.id, "subscribe", topic_filter
        )

    def forget(self, session: Session) -> None:
        """A session has ended."""
        for name, asked in session.subscriptions.items():
            self._waiting.pop((session.id, name), None)
            self._before.pop((session.id, name), None)
            if asked.own:
                self.own.remove(Subscription(name), (session.id, name))

    def recover(self, session: Session, asked: Asked) -> None:
        """A subscription from before a restart; the broker has its own part of it."""
        session.subscriptions[asked.topic_filter] = asked
        session.count_searched(asked.topic_filter, _searched(asked))
        if asked.own:
            self.own.add(Subscription(asked.topic_filter), (session.id, asked.topic_filter))

    # Views that change.

    def on_view_changed(self, name: str) -> None:
        """Subscriptions through a view follow it; while it is gone they sleep."""
        for session in list(self._sessions.values()):
            for asked in [it for it in session.subscriptions.values() if it.view == name]:
                inner = asked.topic_filter
                group = ""
                if inner.startswith(SHARE):
                    _, group, inner = inner.split("/", 2)
                subscription = Subscription(inner, asked.where, asked.unknown, asked.qos, asked.every_us)
                seen, reason = self._through(subscription, name)
                if seen is None:
                    if reason:
                        self._core.refuse(session.id, f"subscribe {asked.topic_filter[:200]}", reason)
                    self._broker.tell(SubscriptionDropped(session.id, asked.topic_filter))
                    self._broker.core.changed()
                    continue
                asleep = self._broker.subscription(session.id, asked.topic_filter) is None
                self._tell(session, asked, seen, group, inner, new=asleep)


def _searched(asked: Asked) -> int:
    """What the LIKE patterns of a subscription look for; one that is not understood any more has none."""
    try:
        return read_where(asked.where).cost.searched if asked.where else 0
    except FilterError:
        return 0


def _too_deep(topic_filter: str) -> bool:
    """Whether it has more levels than we take; that is no fault of form."""
    return topic_filter.count("/") >= names.LEVELS_MAX


def _is_reply(topic_filter: str) -> bool:
    """Whether it is one topic for answers, open to whoever knows its name."""
    return topic_filter.startswith(OWN[1]) and "+" not in topic_filter and "#" not in topic_filter


UNDERSTOOD: UserProperties = (("tidings", "filter"),)
"""In SUBACK: that properties of ours were understood. Other brokers pass over them in silence."""


def check_filter(text: str) -> None:
    """Malformed where a topic filter is not one; it then ends the connection [MQTT-4.7.1-1] and following."""
    if (fault := names.filter_fault(text)) and not _too_deep(text):
        raise Malformed(Reason.MALFORMED_PACKET, fault)
    if text == "$share" or text.startswith(SHARE):
        # [MQTT-4.8.2-1], [MQTT-4.8.2-2]
        parts = text.split("/", 2)
        if len(parts) < 3 or not parts[1] or not parts[2] or "+" in parts[1] or "#" in parts[1]:
            raise Malformed(
                Reason.PROTOCOL_ERROR,
                f"{text!r} is not a share group's topic filter; write $share/<group>/<topic filter>",
            )
