"""Sessions: the clients of this broker, and what each of them asks for.

What several ask for is counted once in this broker's own set (`own_set`), which others are told of. Durable
sessions and their subscriptions are on disk. When a subscription is granted is the business of `grants`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from tidings.errors import FilterError, SubscriptionError
from tidings.language import filters, names
from tidings.language.subscriptions import Subscription, canonical_where, check, filters_meet
from tidings.language.topics import Topic
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Deny, Erase, Write
from tidings.overlay.routing.grants import Grants, Named
from tidings.overlay.routing.own_set import OwnSet
from tidings.overlay.routing.shares import Shares
from tidings.overlay.routing.table import Table
from tidings.overlay.routing.topics import Topics
from tidings.records.record import Kind, Record

TYPED_READS_MAX = 1024
"""Content filters that are remembered with the types of a declared topic."""


class Session:
    """A client of this broker."""

    def __init__(self, durable: bool) -> None:
        self.durable = durable
        self.open = True
        self.subscriptions: dict[str, Subscription] = {}


class Saved(msgspec.Struct, frozen=True):
    """A durable subscription on disk."""

    session: str
    name: str
    subscription: Subscription
    group: str = ""


class SubscriptionsGone(Notice, frozen=True):
    """A session has dropped them, or has others under their names."""

    session: str
    names: list[str]


class SessionGone(Notice, frozen=True):
    """A session is no more."""

    session: str


class Sessions:
    """All sessions of this broker."""

    def __init__(self, core: Core, topics: Topics, own: OwnSet, grants: Grants) -> None:
        self._core = core
        self._topics = topics
        self._own = own
        self._grants = grants
        self.sessions: dict[str, Session] = {}
        self.local: Table[Subscription, Named] = Table(core.settings.topic_cache, core.changed)
        """Who here wants what."""
        self.shares = Shares()
        self._typed_reads: dict[tuple[str, str], tuple[Topic, filters.Filter]] = {}
        self._asked: dict[Subscription, int] = {}

    # Sessions.

    def open_session(self, name: str, durable: bool) -> None:
        session = self.sessions.get(name)
        if session is None:
            self.sessions[name] = Session(durable)
            if durable:
                self._save_session(name)
            return
        session.open = True
        self._core.changed()
        if session.durable and not durable:
            self.end_session(name)
            self.sessions[name] = Session(durable)
        elif durable and not session.durable:
            session.durable = True
            self._save_session(name)
            for asked, subscription in session.subscriptions.items():
                self._save(name, asked, subscription)

    def _save_session(self, name: str) -> None:
        self._core.out.append(Write(f"client/{quote(name, safe='')}", name.encode()))
        self._core.ask_sync()

    def close_session(self, name: str) -> None:
        session = self.sessions.get(name)
        if session is None:
            return
        session.open = False
        if not session.durable:
            self.end_session(name)

    def end_session(self, name: str) -> None:
        session = self.sessions.get(name)
        if session is None:
            return
        self._drop_subscriptions(name, list(session.subscriptions))
        if session.durable:
            self._core.out.append(Erase(f"client/{quote(name, safe='')}"))
            self._core.ask_sync()
        self._core.tell(SessionGone(name))
        del self.sessions[name]

    def recover(self, saved: Mapping[str, bytes]) -> None:
        """Durable sessions and their subscriptions, from before a restart."""
        for key in sorted(saved):
            if key.startswith("client/"):
                session = self.sessions[saved[key].decode()] = Session(durable=True)
                session.open = False
        for key in sorted(saved):
            if key.startswith("subscription/"):
                it = msgspec.msgpack.decode(saved[key], type=Saved)
                session = self.sessions.setdefault(it.session, Session(durable=True))
                session.subscriptions[it.name] = it.subscription
                self.local.add(it.subscription, (it.session, it.name))
                if it.group:
                    self.shares.join((it.session, it.name), it.group)
                self._count(it.subscription)

    # What clients here ask for.

    def ask(self, session_name: str, name: str, asked: Subscription, group: str = "") -> bool:
        """A client subscribes; False if that is refused."""
        core = self._core
        session = self.sessions.get(session_name)
        if session is None:
            core.out.append(Deny(session_name, name, "no such session; open it first"))
            return False
        try:
            subscription = self._understood(asked)
        except FilterError as error:
            core.out.append(Deny(session_name, name, error.reason))
            return False
        except SubscriptionError as error:
            core.out.append(Deny(session_name, name, str(error)))
            return False
        before = session.subscriptions.get(name)
        limit = core.settings.session_subscriptions_max
        if before is None and len(session.subscriptions) >= limit:
            reason = f"a session has {limit} subscriptions at most; drop one first"
            core.out.append(Deny(session_name, name, reason))
            return False
        if before != subscription:
            # The new one first: what both want must not be missed in between.
            session.subscriptions[name] = subscription
            if group:
                self.shares.join((session_name, name), group)
            self.local.add(subscription, (session_name, name))
            if session.durable:
                self._save(session_name, name, subscription)
            self._count(subscription)
            if before is not None:
                self.local.remove(before, (session_name, name))
                self._uncount([before])
            self._record(Kind.SUBSCRIBED, session_name, name, subscription)
        self._grants.wait((session_name, name), subscription, self._own.pending, durable=session.durable)
        return True

    def drop_subscription(self, session_name: str, name: str) -> None:
        self._drop_subscriptions(session_name, [name])

    def _drop_subscriptions(self, session_name: str, names_: list[str]) -> None:
        session = self.sessions.get(session_name)
        if session is None:
            return
        gone: list[Subscription] = []
        for name in names_:
            subscription = session.subscriptions.pop(name, None)
            if subscription is None:
                continue
            gone.append(subscription)
            self._grants.wait_no_more((session_name, name))
            self.local.remove(subscription, (session_name, name))
            self.shares.leave((session_name, name))
            if session.durable:
                self._core.out.append(Erase(_key(session_name, name)))
                self._core.ask_sync()
            self._record(Kind.UNSUBSCRIBED, session_name, name, subscription)
        self._core.tell(SubscriptionsGone(session_name, names_))
        self._uncount(gone)

    def _understood(self, asked: Subscription) -> Subscription:
        """The subscription with its content filter in canonical form, checked against a declared topic."""
        check(asked)
        if not asked.where:
            return asked
        if names.name_fault(asked.topic_filter) is None:
            topic = self._topics.declaration(asked.topic_filter)
            read = canonical_where(asked.where) if topic is None else self._typed(asked.where, topic)
        else:
            read = self._read_over_many(asked)
        return msgspec.structs.replace(asked, where=read.text)

    def _read_over_many(self, asked: Subscription) -> filters.Filter:
        """A content filter over many topics: with the types of one declaration if they are all its own."""
        topic = self._topics.declaration_of_all(asked.topic_filter)
        if topic is not None:
            try:
                return self._typed(asked.where, topic)
            except FilterError:
                pass  # here a field that is not declared is only missing
        return canonical_where(asked.where)

    def _typed(self, where: str, topic: Topic) -> filters.Filter:
        """A content filter with the types of a declaration, remembered for the next topic filter."""
        known, read = self._typed_reads.get((topic.name, where), (None, None))
        if known is not topic or read is None:
            read = filters.parse(where, topic.fields)
            if len(self._typed_reads) >= TYPED_READS_MAX:
                del self._typed_reads[next(iter(self._typed_reads))]
            self._typed_reads[topic.name, where] = topic, read
        return read

    def _save(self, session: str, name: str, subscription: Subscription) -> None:
        group = self.shares.groups.get((session, name), "")
        value = msgspec.msgpack.encode(Saved(session, name, subscription, group))
        self._core.out.append(Write(_key(session, name), value))
        self._core.ask_sync()

    def _record(self, kind: Kind, session: str, name: str, subscription: Subscription) -> None:
        core = self._core
        core.records += 1
        core.out.append(
            Record(
                core.id,
                core.boot,
                core.records,
                core.at_us,
                kind,
                topic=subscription.topic_filter,
                client=session,
                subscription=name,
                reason=subscription.where or None,
            )
        )

    def _count(self, subscription: Subscription) -> None:
        """One more client here asks for this."""
        count = self._asked[subscription] = self._asked.get(subscription, 0) + 1
        if count == 1:
            self._own.add(subscription)

    def _uncount(self, subscriptions: list[Subscription]) -> None:
        gone: list[Subscription] = []
        for subscription in subscriptions:
            self._asked[subscription] -= 1
            if not self._asked[subscription]:
                del self._asked[subscription]
                gone.append(subscription)
        if gone:
            self._own.remove(gone)

    def asked_here(self, topic_filter: str) -> bool:
        """Whether some client here asks for something that a topic filter meets."""
        return any(filters_meet(asked.topic_filter, topic_filter) for asked in self._asked)


def _key(session: str, name: str) -> str:
    return f"subscription/{quote(session, safe='')}/{quote(name, safe='')}"
