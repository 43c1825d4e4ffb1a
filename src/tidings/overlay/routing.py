"""Subscriptions and advertisements on the trees: who is told what, and when everyone knows.

In each epoch a broker tells each tree neighbour, once, all that those on its own side ask for (`Table`), and
from then on what changes. `Summary` keeps that short. Each of these is counted per link and direction, and
confirmed (`Installed`) once everyone beyond knows: a change from one link is confirmed when all that it led
to on the other links is. A tree has no cycles, so this ends. A client's subscription is granted when every
link has confirmed, or as "settling" when that takes too long.

With advertisements, what will be published travels first (in `Roll`), and a subscription goes only over links
that have something advertised behind them which it may want.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from urllib.parse import quote

import msgspec

from tidings.errors import FilterError, SubscriptionError
from tidings.language import filters, names
from tidings.language.subscriptions import (
    Advertisement,
    Subscription,
    advertisement_covers,
    check,
    filters_meet,
    overlap,
)
from tidings.overlay import summaries
from tidings.overlay.absence import Absences
from tidings.overlay.core import Core
from tidings.overlay.events import Deny, Erase, Grant, Write
from tidings.overlay.links import Link, Links
from tidings.overlay.messages import (
    Advertise,
    Installed,
    Roll,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tidings.overlay.messages import Table as TableMessage
from tidings.overlay.summaries import Summary
from tidings.overlay.tables import Table
from tidings.overlay.timers import Timer
from tidings.overlay.topics import Topics
from tidings.overlay.trees import Edge, Grown, Tree, Trees, pick
from tidings.records.record import Kind, Record

Named = tuple[str, str]
"""(session, name) of a subscription or advertisement of a client here."""

ADVERTISED_LEVELS_MAX = 1000
"""First levels of topics that are advertised for clients that do not advertise; beyond, everything is."""

TABLE_PART = 1000
"""Subscriptions in one message; a longer table takes several, so that no frame is too long."""

DISK = ""
"""Among the trees that are waited for, this broker's own disk."""

CATCH_ALL = Subscription("#", qos=2)
"""What a link is taken to ask for when it asks for more than is kept."""


class Session:
    """A client of this broker."""

    def __init__(self, durable: bool) -> None:
        self.durable = durable
        self.open = True
        self.subscriptions: dict[str, Subscription] = {}
        self.advertisements: dict[str, Advertisement] = {}


class Waiting:
    """A subscription that has not been granted yet, or an advertisement that is not known everywhere."""

    def __init__(self, named: Named, grant: bool) -> None:
        self.named = named
        self.grant = grant
        self.trees: dict[str, dict[str, int]] = {}
        """By root: how many changes each link must confirm."""


class Saved(msgspec.Struct, frozen=True):
    """A durable subscription on disk."""

    session: str
    name: str
    subscription: Subscription


class Routing:
    """What is asked for, here and behind each link."""

    def __init__(
        self,
        core: Core,
        links: Links,
        trees: Trees,
        topics: Topics,
        absences: Absences,
        on_ready: Callable[[Tree], None],
    ) -> None:
        self._core = core
        self._links = links
        self._trees = trees
        self._topics = topics
        self._on_ready = on_ready
        self._absences = absences
        self.sessions: dict[str, Session] = {}
        self.local: Table[Named] = Table(core.settings.topic_cache)
        self._asked: dict[Subscription, int] = {}
        self._advertised: dict[Advertisement, int] = {}
        self._own_levels: dict[str, Waiting | None] = {}
        self._announced: dict[str, None] = {}
        """Topics that are known to be advertised everywhere; some of them."""
        self._waiting: dict[Named, Waiting] = {}
        self._queues: dict[tuple[str, bool], deque[Waiting]] = {}
        """By root and whether a client waits; in the order asked, in which they are confirmed."""
        self.left: dict[str, None] = {}
        """Neighbours that have left for good; told once in each epoch."""

    # Sessions.

    def open_session(self, name: str, durable: bool) -> None:
        session = self.sessions.get(name)
        if session is None:
            self.sessions[name] = Session(durable)
            if durable:
                self._save_session(name)
            return
        session.open = True
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
        for advertisement in list(session.advertisements):
            self.drop_advertisement(name, advertisement)
        if not session.durable:
            self.end_session(name)

    def end_session(self, name: str) -> None:
        session = self.sessions.get(name)
        if session is None:
            return
        for subscription in list(session.subscriptions):
            self.drop_subscription(name, subscription)
        for advertisement in list(session.advertisements):
            self.drop_advertisement(name, advertisement)
        if session.durable:
            self._core.out.append(Erase(f"client/{quote(name, safe='')}"))
            self._core.ask_sync()
        del self.sessions[name]

    def recover(self, saved: dict[str, bytes]) -> None:
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
                self._asked[it.subscription] = self._asked.get(it.subscription, 0) + 1

    # What clients here ask for.

    def ask(self, session_name: str, name: str, asked: Subscription) -> None:
        core = self._core
        session = self.sessions.get(session_name)
        if session is None:
            core.out.append(Deny(session_name, name, "no such session; open it first"))
            return
        try:
            subscription = self._understood(asked)
        except FilterError as error:
            core.out.append(Deny(session_name, name, error.reason))
            return
        except SubscriptionError as error:
            core.out.append(Deny(session_name, name, str(error)))
            return
        before = session.subscriptions.get(name)
        limit = core.settings.session_subscriptions_max
        if before is None and len(session.subscriptions) >= limit:
            reason = f"a session has {limit} subscriptions at most; drop one first"
            core.out.append(Deny(session_name, name, reason))
            return
        if before != subscription:
            # The new one first: what both want must not be missed in between.
            session.subscriptions[name] = subscription
            self.local.add(subscription, (session_name, name))
            if session.durable:
                self._save(session_name, name, subscription)
            self._count_local(subscription, +1)
            if before is not None:
                self.local.remove(before, (session_name, name))
                self._count_local(before, -1)
            self._record(Kind.SUBSCRIBED, session_name, name, subscription)
        self._wait((session_name, name), subscription.topic_filter, grant=True, durable=session.durable)

    def drop_subscription(self, session_name: str, name: str) -> None:
        session = self.sessions.get(session_name)
        subscription = session.subscriptions.pop(name, None) if session is not None else None
        if session is None or subscription is None:
            return
        self._wait_no_more((session_name, name))
        self.local.remove(subscription, (session_name, name))
        if session.durable:
            self._core.out.append(Erase(_key(session_name, name)))
            self._core.ask_sync()
        self._count_local(subscription, -1)
        self._record(Kind.UNSUBSCRIBED, session_name, name, subscription)

    def _understood(self, asked: Subscription) -> Subscription:
        """The subscription with its content filter in canonical form, checked against a declared topic."""
        check(asked)
        if not asked.where:
            return asked
        topic = (
            self._topics.declaration(asked.topic_filter)
            if names.name_fault(asked.topic_filter) is None
            else None
        )
        read = filters.parse(asked.where, topic.fields if topic is not None else None)
        return msgspec.structs.replace(asked, where=read.text)

    def _save(self, session: str, name: str, subscription: Subscription) -> None:
        value = msgspec.msgpack.encode(Saved(session, name, subscription))
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

    def _count_local(self, subscription: Subscription, change: int) -> None:
        count = self._asked.get(subscription, 0) + change
        if count:
            self._asked[subscription] = count
        else:
            del self._asked[subscription]
        if (change, count) not in ((1, 1), (-1, 0)):
            return
        for tree in self._trees.trees.values():
            for grown in _epochs(tree):
                if self._lives_on(subscription.topic_filter, tree.root, grown.share):
                    self._spread(tree, grown, None, subscription, change)

    def _lives_on(self, topic_filter: str, root: str, share: tuple[str, ...]) -> bool:
        """Whether a topic filter may match topics that use the tree of this root."""
        first = topic_filter.partition("/")[0]
        if root in share and (first in ("+", "#") or pick(first, share) == root):
            return True
        return any(
            rooted_at == root and filters_meet(rooted, topic_filter)
            for rooted, rooted_at in self._topics.rooted
        )

    # Advertisements.

    def advertise(self, session_name: str, name: str, asked: Advertisement) -> None:
        core = self._core
        session = self.sessions.get(session_name)
        try:
            check(asked)
        except FilterError as error:
            core.out.append(Deny(session_name, name, error.reason))
            return
        except SubscriptionError as error:
            core.out.append(Deny(session_name, name, str(error)))
            return
        if session is None or (
            name not in session.advertisements
            and len(session.advertisements) >= core.settings.session_subscriptions_max
        ):
            limit = core.settings.session_subscriptions_max
            reason = "no such session" if session is None else f"a session has {limit} advertisements at most"
            core.out.append(Deny(session_name, name, reason))
            return
        before = session.advertisements.get(name)
        session.advertisements[name] = asked
        if before != asked:
            self._count_advertised(asked, +1)
            if before is not None:
                self._count_advertised(before, -1)
        self._wait((session_name, name), asked.topic_filter, grant=True)

    def drop_advertisement(self, session_name: str, name: str) -> None:
        session = self.sessions.get(session_name)
        advertisement = session.advertisements.pop(name, None) if session is not None else None
        if advertisement is not None:
            self._wait_no_more((session_name, name))
            self._count_advertised(advertisement, -1)

    def announced(self, topic: str) -> bool:
        """Whether all who may want this topic know that it is published here; else it is being told."""
        if not self._core.settings.advertisements:
            return True
        if topic in self._announced:
            return True
        wanted = Advertisement(topic)
        for named, waiting in self._waiting.items():
            session = self.sessions.get(named[0])
            advertised = session.advertisements.get(named[1]) if session is not None else None
            if advertised is not None and waiting.trees and advertisement_covers(advertised, wanted):
                return False
        level = topic.partition("/")[0]
        own = self._own_levels.get(level) or self._own_levels.get("")
        if own is not None and own.trees:
            return False
        if any(advertisement_covers(advertised, wanted) for advertised in self._advertised):
            if len(self._announced) >= self._core.settings.topic_cache:
                del self._announced[next(iter(self._announced))]
            self._announced[topic] = None
            return True
        if len(self._own_levels) >= ADVERTISED_LEVELS_MAX:
            level = ""
        advertisement = Advertisement(f"{level}/#" if level else "#")
        self._count_advertised(advertisement, +1)
        waiting_for = self._wait(("", level), advertisement.topic_filter, grant=False)
        self._own_levels[level] = waiting_for
        return waiting_for is None

    def _count_advertised(self, advertisement: Advertisement, change: int) -> None:
        self._announced.clear()
        count = self._advertised.get(advertisement, 0) + change
        if count:
            self._advertised[advertisement] = count
        else:
            del self._advertised[advertisement]
        if not self._core.settings.advertisements or (change, count) not in ((1, 1), (-1, 0)):
            return
        for tree in self._trees.trees.values():
            for grown in _epochs(tree):
                if self._lives_on(advertisement.topic_filter, tree.root, grown.share):
                    self._spread_advertisement(tree, grown, None, advertisement, change)

    # Telling neighbours.

    def on_joined(self, tree: Tree, grown: Grown) -> None:
        """This broker knows its place in a new epoch."""
        self._exchange(tree, grown)

    def _exchange(self, tree: Tree, grown: Grown) -> None:
        """Tell each neighbour what is behind this broker, as soon as all of it is known."""
        if grown.awaited or grown is not tree.growing:
            return
        core = self._core
        with_advertisements = core.settings.advertisements
        for peer in sorted(grown.edges):
            edge = grown.edges[peer]
            if not edge.alive:
                continue
            others = [other for other in grown.edges.values() if other is not edge]
            if not edge.roll_sent and all(other.members is not None for other in others):
                self._send_roll(tree, grown, edge, others)
            if (
                edge.roll_sent
                and not edge.table_sent
                and all(other.subscriptions is not None for other in others)
                and (not with_advertisements or edge.members is not None)
            ):
                self._send_table(tree, grown, edge)
        if not grown.ready and all(
            edge.members is not None and edge.subscriptions is not None and edge.table_sent
            for edge in grown.edges.values()
        ):
            self._ready(tree, grown)

    def _send_roll(self, tree: Tree, grown: Grown, edge: Edge, others: list[Edge]) -> None:
        core = self._core
        members = {core.id: (core.boot, core.incarnation)}
        left = dict(self.left)
        absent = self._absences.deadlines()
        advertised = edge.advertised = summaries.of_advertisements(core.settings.cover_effort)
        for advertisement in self._advertised:
            if self._lives_on(advertisement.topic_filter, tree.root, grown.share):
                advertised.add(advertisement)
        for other in others:
            members |= other.members or {}
            left |= dict.fromkeys(other.left)
            for member, until in other.absent.items():
                absent[member] = min(until, absent.get(member, until))
            for advertisement in other.advertisements:
                advertised.add(advertisement)
        edge.roll_sent = True
        roll = tuple((member, *members[member]) for member in sorted(members))
        away = tuple(
            (member, absent[member] - core.now) for member in sorted(absent) if member not in members
        )
        message = Roll(tree.root, grown.epoch, roll, tuple(sorted(left)), advertised.told(), away)
        self._links.send(edge.link, message)

    def _send_table(self, tree: Tree, grown: Grown, edge: Edge) -> None:
        edge.summary = self._summarised(tree, grown, edge)
        edge.table_sent = True
        edge.changes_out = 1
        told = edge.summary.told()
        for first in range(0, max(1, len(told)), TABLE_PART):
            part = told[first : first + TABLE_PART]
            more = first + TABLE_PART < len(told)
            self._links.send(edge.link, TableMessage(tree.root, grown.epoch, part, more))

    def _summarised(self, tree: Tree, grown: Grown, edge: Edge) -> Summary[Subscription]:
        summary = summaries.of_subscriptions(self._core.settings.cover_effort)
        for subscription in self._asked:
            if self._lives_on(subscription.topic_filter, tree.root, grown.share) and self._wanted(
                edge, subscription
            ):
                summary.add(subscription)
        for other in grown.edges.values():
            if other is not edge:
                for subscription in other.subscriptions or ():
                    if self._wanted(edge, subscription):
                        summary.add(subscription)
        return summary

    def _wanted(self, edge: Edge, subscription: Subscription) -> bool:
        """Whether something behind a link may be what a subscription asks for."""
        if not self._core.settings.advertisements:
            return True
        return any(overlap(advertisement, subscription) for advertisement in edge.advertisements)

    def _ready(self, tree: Tree, grown: Grown) -> None:
        """All that is behind every link is known: publications may travel this epoch."""
        core = self._core
        grown.ready = True
        grown.members = {core.id: (core.boot, core.incarnation)}
        for edge in grown.edges.values():
            assert edge.members is not None, "a ready epoch knows its members"
            if core.id in edge.members:
                self.duplicate = edge.members[core.id][0]
            grown.members |= edge.members
        tree.current, tree.growing = grown, None
        for grant in (True, False):
            for waiting in self._queues.get((tree.root, grant), ()):
                if tree.root in waiting.trees:
                    waiting.trees[tree.root] = _all_changes(grown)
        self._on_ready(tree)
        self._confirm(tree, grown)

    duplicate: int | None = None
    """The boot of another broker with this one's id, if there is one in the network."""

    def on_roll(self, link: Link, message: Roll) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is None:
            return
        tree, grown, edge = found
        edge.members = {member: (boot, incarnation) for member, boot, incarnation in message.members}
        edge.left = message.left
        # Clocks differ, so it travels as a remaining time.
        edge.absent = {
            member: self._core.now + min(remaining_s, self._core.settings.absent_hold_s)
            for member, remaining_s in message.absent
        }
        edge.advertisements = dict.fromkeys(map(_understood, message.advertisements))
        self._exchange(tree, grown)

    def on_table(self, link: Link, message: TableMessage) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is None:
            return
        tree, grown, edge = found
        if edge.subscriptions is None:
            if edge.table_parts is None:
                edge.table_parts = []
            edge.table_parts += message.subscriptions
        if message.more or edge.table_parts is None:
            return
        edge.subscriptions = {}
        for subscription in edge.table_parts:
            self._install(grown, edge, subscription)
        edge.table_parts = None
        self._changed(grown, edge)
        self._exchange(tree, grown)
        self._confirm(tree, grown)

    def on_subscribe(self, link: Link, message: Subscribe) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is None or found[2].subscriptions is None:
            return
        tree, grown, edge = found
        if self._install(grown, edge, message.subscription):
            self._spread(tree, grown, edge, message.subscription, +1)
        self._changed(grown, edge)
        self._confirm(tree, grown)

    def on_unsubscribe(self, link: Link, message: Unsubscribe) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is None or found[2].subscriptions is None:
            return
        tree, grown, edge = found
        if message.subscription in (edge.subscriptions or {}):
            assert edge.subscriptions is not None, "just found in it"
            del edge.subscriptions[message.subscription]
            grown.routes.remove(message.subscription, edge.peer)
            self._spread(tree, grown, edge, message.subscription, -1)
        self._changed(grown, edge)
        self._confirm(tree, grown)

    def _install(self, grown: Grown, edge: Edge, subscription: Subscription) -> bool:
        """Keep what a link asks for; False if it is known."""
        assert edge.subscriptions is not None, "a table comes first"
        if subscription in edge.subscriptions:
            return False
        limit = self._core.settings.link_subscriptions_max
        try:
            check(subscription)
        except (FilterError, SubscriptionError) as error:
            # Of another release, perhaps. To send too much loses nothing.
            self._core.log("warning", "a neighbour's filter is not understood", peer=edge.peer, reason=error)
            subscription = CATCH_ALL
        if len(edge.subscriptions) >= limit:
            self._core.log("warning", "a neighbour asks for too much", peer=edge.peer, limit=limit)
            subscription = CATCH_ALL
        if subscription in edge.subscriptions:
            return False
        edge.subscriptions[subscription] = None
        grown.routes.add(subscription, edge.peer)
        return True

    def on_advertise(self, link: Link, message: Advertise) -> None:
        self._on_advertisement(link, message.root, message.epoch, message.advertisement, +1)

    def on_unadvertise(self, link: Link, message: Unadvertise) -> None:
        self._on_advertisement(link, message.root, message.epoch, message.advertisement, -1)

    def _on_advertisement(
        self, link: Link, root: str, epoch: tuple[int, int], advertisement: Advertisement, change: int
    ) -> None:
        found = self._find(link, root, epoch)
        if found is None:
            return
        tree, grown, edge = found
        advertisement = _understood(advertisement)
        if change > 0:
            edge.advertisements[advertisement] = None
        else:
            edge.advertisements.pop(advertisement, None)
        if edge.summary is not None:
            before = dict.fromkeys(edge.summary.told())
            edge.summary = self._summarised(tree, grown, edge)
            after = dict.fromkeys(edge.summary.told())
            self._tell(
                tree,
                grown,
                edge,
                [s for s in after if s not in before],
                [s for s in before if s not in after],
            )
        self._spread_advertisement(tree, grown, edge, advertisement, change)
        self._changed(grown, edge)
        self._confirm(tree, grown)

    def _spread(
        self, tree: Tree, grown: Grown, source: Edge | None, subscription: Subscription, change: int
    ) -> None:
        """Tell the other links of a change, as far as it changes what they have been told."""
        for edge in grown.edges.values():
            if edge is source or edge.summary is None or not edge.alive:
                continue
            if change > 0:
                if self._wanted(edge, subscription):
                    self._tell(tree, grown, edge, *edge.summary.add(subscription))
            elif subscription in edge.summary:
                self._tell(tree, grown, edge, *edge.summary.remove(subscription))

    def _tell(
        self, tree: Tree, grown: Grown, edge: Edge, added: list[Subscription], removed: list[Subscription]
    ) -> None:
        for subscription in added:
            self._links.send(edge.link, Subscribe(tree.root, grown.epoch, subscription))
        for subscription in removed:
            self._links.send(edge.link, Unsubscribe(tree.root, grown.epoch, subscription))
        edge.changes_out += len(added) + len(removed)

    def _spread_advertisement(
        self, tree: Tree, grown: Grown, source: Edge | None, advertisement: Advertisement, change: int
    ) -> None:
        for edge in grown.edges.values():
            if edge is source or edge.advertised is None or not edge.alive:
                continue
            if change > 0:
                added, removed = edge.advertised.add(advertisement)
            elif advertisement in edge.advertised:
                added, removed = edge.advertised.remove(advertisement)
            else:
                continue
            for item in added:
                self._links.send(edge.link, Advertise(tree.root, grown.epoch, item))
            for item in removed:
                self._links.send(edge.link, Unadvertise(tree.root, grown.epoch, item))
            edge.changes_out += len(added) + len(removed)

    # When everyone knows.

    def _changed(self, grown: Grown, edge: Edge) -> None:
        """One more change has come from a link; it is confirmed when what it led to is."""
        edge.changes_in += 1
        edge.unconfirmed.append((edge.changes_in, _all_changes(grown, edge)))

    def on_installed(self, link: Link, message: Installed) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is not None:
            tree, grown, edge = found
            edge.installed = max(edge.installed, message.count)
            self._confirm(tree, grown)

    def _confirm(self, tree: Tree, grown: Grown) -> None:
        if not grown.ready:
            return
        for edge in grown.edges.values():
            count = 0
            while edge.unconfirmed and _known(grown, edge.unconfirmed[0][1]):
                count = edge.unconfirmed.popleft()[0]
            if count and edge.alive:
                self._links.send(edge.link, Installed(tree.root, grown.epoch, count))
        for grant in (True, False):
            self._check_queue(tree, grown, grant)

    def _check_queue(self, tree: Tree, grown: Grown, grant: bool) -> None:
        """See who need wait no longer for a tree."""
        queue = self._queues.get((tree.root, grant))
        if not queue or tree.growing is not None or (grant and self._absences):
            # What is confirmed in an epoch that is being left is not yet safe, and while a broker is out of
            # reach nobody can say that everyone knows.
            return
        while queue:
            waiting = queue[0]
            needs = waiting.trees.get(tree.root)
            if needs is not None:
                if not _known(grown, needs):
                    return
                del waiting.trees[tree.root]
                if not waiting.trees:
                    self._granted(waiting, "")
            queue.popleft()

    def _wait_no_more(self, named: Named) -> None:
        waiting = self._waiting.pop(named, None)
        if waiting is not None:
            waiting.trees = {}
            self._core.timers.cancel(Timer.SETTLE, named)

    def _wait(self, named: Named, topic_filter: str, *, grant: bool, durable: bool = False) -> Waiting | None:
        """Wait until all links of all trees that matter have confirmed what they were told."""
        waiting = Waiting(named, grant)
        if durable:
            waiting.trees[DISK] = {}
            self._core.after_sync(lambda: self._on_disk(waiting))
        if grant:
            self._wait_no_more(named)
            self._waiting[named] = waiting
            self._core.timers.set(Timer.SETTLE, named, self._core.now + self._core.settings.settle_s)
        self._queue_up(waiting, self._roots_of(topic_filter))
        return waiting if waiting.trees else None

    def _queue_up(self, waiting: Waiting, roots: list[str]) -> None:
        for root in roots:
            tree = self._trees.trees.get(root)
            grown = tree.current if tree is not None else None
            waiting.trees[root] = _all_changes(grown) if grown is not None else {}
            self._queues.setdefault((root, waiting.grant), deque()).append(waiting)
        for root in roots:
            tree = self._trees.trees.get(root)
            if tree is not None and tree.current is not None:
                self._check_queue(tree, tree.current, waiting.grant)

    def _granted(self, waiting: Waiting, reason: str) -> None:
        if waiting.grant:
            self._wait_no_more(waiting.named)
            self._core.out.append(Grant(*waiting.named, reason))

    def _on_disk(self, waiting: Waiting) -> None:
        """A durable subscription has been written."""
        waiting.trees.pop(DISK, None)
        if not waiting.trees and self._waiting.get(waiting.named) is waiting:
            self._granted(waiting, "")

    def on_settle_late(self, named: Named) -> None:
        waiting = self._waiting.get(named)
        if waiting is not None:
            self._granted(waiting, "settling")

    def on_share(self) -> None:
        """Topics have moved to other trees: who waits, waits for those."""
        self._queues = {}
        for named, waiting in list(self._waiting.items()):
            session = self.sessions[named[0]]
            asked = session.subscriptions.get(named[1]) or session.advertisements.get(named[1])
            assert asked is not None, "who waits has asked"
            waiting.trees = {DISK: waiting.trees[DISK]} if DISK in waiting.trees else {}
            self._queue_up(waiting, self._roots_of(asked.topic_filter))
        for level, own in self._own_levels.items():
            if own is not None and own.trees:
                own.trees = {}
                self._queue_up(own, self._roots_of(f"{level}/#" if level else "#"))

    def _roots_of(self, topic_filter: str) -> list[str]:
        share = self._trees.share
        first = topic_filter.partition("/")[0]
        roots = set(share) if first in ("+", "#") else {pick(first, share)}
        for rooted, root in self._topics.rooted:
            tree = self._trees.trees.get(root)
            if tree is not None and tree.hops >= 0 and filters_meet(rooted, topic_filter):
                roots.add(root)
        return sorted(roots)

    def _find(self, link: Link, root: str, epoch: tuple[int, int]) -> tuple[Tree, Grown, Edge] | None:
        """The place of a message in the trees; None if its epoch has passed."""
        tree = self._trees.trees.get(root)
        if tree is None:
            return None
        for grown in _epochs(tree):
            if grown.epoch == epoch:
                edge = grown.edges.get(link.peer)
                if edge is not None and edge.alive:
                    return tree, grown, edge
        return None


def _epochs(tree: Tree) -> Iterator[Grown]:
    if tree.current is not None:
        yield tree.current
    if tree.growing is not None:
        yield tree.growing


def _all_changes(grown: Grown, source: Edge | None = None) -> dict[str, int]:
    """How many changes each link must have confirmed for all that was told by now to be known."""
    return {peer: max(1, edge.changes_out) for peer, edge in grown.edges.items() if edge is not source}


def _known(grown: Grown, needs: dict[str, int]) -> bool:
    return all(
        grown.edges[peer].alive and grown.edges[peer].installed >= count for peer, count in needs.items()
    )


def _understood(advertisement: Advertisement) -> Advertisement:
    """A neighbour's advertisement; one that cannot be read, of another release perhaps, is of everything."""
    try:
        check(advertisement)
    except (FilterError, SubscriptionError):
        return Advertisement("#")
    return advertisement


def _key(session: str, name: str) -> str:
    return f"subscription/{quote(session, safe='')}/{quote(name, safe='')}"
