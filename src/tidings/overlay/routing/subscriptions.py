"""Subscriptions on the trees: who is told what, and when everyone knows.

In each epoch a broker tells each tree neighbour, once, all that those on its own side ask for (`Table`), and
from then on what changes. `Summary` keeps that short. Each of these is counted per link and direction, and
confirmed (`Installed`) once everyone beyond knows: a change from one link is confirmed when all that it led
to on the other links is. A tree has no cycles, so this ends. A client's subscription is granted when every
link has confirmed, or as "settling" when that takes too long. Brokers out of reach are not waited for: the
grant names them ("absent: c"), and what is published there counts once they are back and have confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

import msgspec

from tidings.errors import FilterError, SubscriptionError
from tidings.language import filters, names
from tidings.language.subscriptions import (
    EVERYTHING,
    Subscription,
    canonical_where,
    check,
    filters_meet,
)
from tidings.language.topics import Topic
from tidings.overlay.core import Core, Notice
from tidings.overlay.events import Deny, Erase, Grant, Write
from tidings.overlay.links.links import Link, Links
from tidings.overlay.routing import covering_set
from tidings.overlay.routing.covering_set import Summary
from tidings.overlay.routing.messages import Installed, Subscribe, Unsubscribe
from tidings.overlay.routing.messages import Table as TableMessage
from tidings.overlay.routing.shares import Shares
from tidings.overlay.routing.table import Table
from tidings.overlay.routing.topics import Topics
from tidings.overlay.timers import Timer
from tidings.overlay.trees.absence import Absences
from tidings.overlay.trees.messages import Roll
from tidings.overlay.trees.trees import UNLIKE, Edge, Tree, TreeEpoch, Trees, digest, pick
from tidings.records.record import Kind, Record

Named = tuple[str, str]
"""(session, name) of a subscription of a client here."""

TYPED_READS_MAX = 1024
"""Content filters that are remembered with the types of a declared topic."""

MET_MAX = 3
"""Epochs in a row with this broker's id behind a link until it is sure that another broker has it."""

ABSENT_NAMED_MAX = 16
"""Brokers out of reach that a grant names; more are counted."""

TABLE_PART = 1000
"""Subscriptions in one message; a longer table takes several, so that no frame is too long."""

WILD_FIRST = ("+", "#", EVERYTHING)
"""First levels of topic filters that may match topics of any tree."""

NEXT_EPOCH = {"": 1}
"""Needs that no epoch can meet: what is waited for is not known in this one."""

DISK = ""
"""Among the trees that are waited for, this broker's own disk."""

CATCH_ALL = Subscription(EVERYTHING, qos=2)
"""What a link is taken to ask for when it asks for more than is kept."""


class Session:
    """A client of this broker."""

    def __init__(self, durable: bool) -> None:
        self.durable = durable
        self.open = True
        self.subscriptions: dict[str, Subscription] = {}


class Waiting:
    """A subscription of a client that has not been granted yet."""

    def __init__(self, named: Named, asked: Subscription) -> None:
        self.named = named
        self.asked = asked
        self.trees: dict[str, dict[str, int]] = {}
        """By root: how many changes each link must confirm."""
        self.absent: dict[str, None] = {}
        """Brokers that were out of reach when the others had confirmed."""


class Saved(msgspec.Struct, frozen=True):
    """A durable subscription on disk."""

    session: str
    name: str
    subscription: Subscription
    group: str = ""


class SubscriptionGranted(Notice, frozen=True):
    named: Named
    subscription: Subscription


class SubscriptionsGone(Notice, frozen=True):
    """A session has dropped them, or has others under their names."""

    session: str
    names: list[str]


class SessionGone(Notice, frozen=True):
    """A session is no more."""

    session: str


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
        self.shares = Shares()
        self._typed_reads: dict[tuple[str, str], tuple[Topic, filters.Filter]] = {}
        self._asked: dict[Subscription, int] = {}
        self._waiting: dict[Named, Waiting] = {}
        self._queues: dict[str, deque[Waiting]] = {}
        """By root: who waits, in the order asked, in which they are confirmed."""
        self.duplicated = False
        """Whether another broker of this network has this one's id, and this one must stop."""
        self._met_oneself = 0
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
                if it.group:
                    self.shares.join((it.session, it.name), it.group)
                self._asked[it.subscription] = self._asked.get(it.subscription, 0) + 1

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
            self._count_local(subscription)
            if before is not None:
                self.local.remove(before, (session_name, name))
                self._uncount_local([before])
            self._record(Kind.SUBSCRIBED, session_name, name, subscription)
        self._wait((session_name, name), subscription, durable=session.durable)
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
            self._wait_no_more((session_name, name))
            self.local.remove(subscription, (session_name, name))
            self.shares.leave((session_name, name))
            if session.durable:
                self._core.out.append(Erase(_key(session_name, name)))
                self._core.ask_sync()
            self._record(Kind.UNSUBSCRIBED, session_name, name, subscription)
        self._core.tell(SubscriptionsGone(session_name, names_))
        self._uncount_local(gone)

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

    def _count_local(self, subscription: Subscription) -> None:
        count = self._asked[subscription] = self._asked.get(subscription, 0) + 1
        if count > 1:
            return
        for tree in self._trees.trees.values():
            for grown in _epochs(tree):
                if _lives_on(subscription.topic_filter, grown):
                    self._spread(tree, grown, None, subscription)

    def _uncount_local(self, subscriptions: list[Subscription]) -> None:
        gone: list[Subscription] = []
        for subscription in subscriptions:
            self._asked[subscription] -= 1
            if not self._asked[subscription]:
                del self._asked[subscription]
                gone.append(subscription)
        for tree in self._trees.trees.values():
            for grown in _epochs(tree):
                self._withdraw(
                    tree,
                    grown,
                    None,
                    [it for it in gone if _lives_on(it.topic_filter, grown)],
                )

    def asked_here(self, topic_filter: str) -> bool:
        """Whether some client here asks for something that a topic filter meets."""
        return any(filters_meet(asked.topic_filter, topic_filter) for asked in self._asked)

    # Telling neighbours.

    def on_joined(self, tree: Tree, grown: TreeEpoch) -> None:
        """This broker knows its place in a new epoch."""
        self._exchange(tree, grown)

    def _exchange(self, tree: Tree, grown: TreeEpoch) -> None:
        """Tell each neighbour what is behind this broker, as soon as all of it is known."""
        if grown.awaited or grown is not tree.growing:
            return
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
            ):
                self._send_table(tree, grown, edge)
        if not grown.ready and all(
            edge.members is not None and edge.subscriptions is not None and edge.table_sent
            for edge in grown.edges.values()
        ):
            self._ready(tree, grown)

    def _send_roll(self, tree: Tree, grown: TreeEpoch, edge: Edge, others: list[Edge]) -> None:
        core = self._core
        members = {core.id: (core.boot, core.incarnation)}
        left = dict(self.left)
        absent = self._absences.deadlines()
        for other in others:
            members |= other.members or {}
            left |= dict.fromkeys(other.left)
            for member, until in other.absent.items():
                absent[member] = min(until, absent.get(member, until))
        edge.roll_sent = True
        roll = tuple((member, *members[member]) for member in sorted(members))
        away = tuple(
            (member, absent[member] - core.now) for member in sorted(absent) if member not in members
        )
        declared = digest(grown.rooted)
        if any(other.declared != declared for other in others):
            declared = UNLIKE
        message = Roll(tree.root, grown.epoch, roll, tuple(sorted(left)), away, declared)
        self._links.send(edge.link, message)

    def _send_table(self, tree: Tree, grown: TreeEpoch, edge: Edge) -> None:
        edge.summary = self._summarised(grown, edge)
        edge.table_sent = True
        edge.changes_out += 1
        told = edge.summary.told()
        for first in range(0, max(1, len(told)), TABLE_PART):
            part = told[first : first + TABLE_PART]
            more = first + TABLE_PART < len(told)
            self._links.send(edge.link, TableMessage(tree.root, grown.epoch, part, more))

    def _summarised(self, grown: TreeEpoch, edge: Edge) -> Summary[Subscription]:
        summary = covering_set.of_subscriptions(self._core.settings.cover_effort)
        for subscription in self._asked:
            if _lives_on(subscription.topic_filter, grown):
                summary.add(subscription)
        for other in grown.edges.values():
            if other is not edge:
                for subscription in other.subscriptions or ():
                    summary.add(subscription)
        return summary

    def _ready(self, tree: Tree, grown: TreeEpoch) -> None:
        """All that is behind every link is known: publications may travel this epoch."""
        core = self._core
        grown.ready = True
        grown.members = {core.id: (core.boot, core.incarnation)}
        others: list[int] = []
        for edge in grown.edges.values():
            assert edge.members is not None, "a ready epoch knows its members"
            if core.id in edge.members:
                others.append(edge.members[core.id][0])
            grown.members |= edge.members
        grown.agreed = all(edge.declared == digest(grown.rooted) for edge in grown.edges.values())
        self._meet_oneself(tree, others)
        tree.current, tree.growing = grown, None
        for waiting in self._queues.get(tree.root, ()):
            if tree.root in waiting.trees:
                waiting.trees[tree.root] = self._needs(tree, waiting.asked)
        self._on_ready(tree)
        self._confirm(tree, grown)

    def _meet_oneself(self, tree: Tree, boots: list[int]) -> None:
        """This broker's id is behind a link: another has it, or it is this one's own life before a restart.

        The latter can be in an epoch that was growing when this broker died, and in none after it.
        """
        core = self._core
        if not boots:
            self._met_oneself = 0
            return
        self._met_oneself += 1
        if core.boot in boots or (max(boots) < core.boot and self._met_oneself >= MET_MAX):
            self.duplicated = True
        elif max(boots) < core.boot:
            self._trees.ask_regrow(tree)

    def on_roll(self, link: Link, message: Roll) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is None:
            return
        tree, grown, edge = found
        edge.members = {member: (boot, incarnation) for member, boot, incarnation in message.members}
        edge.left = message.left
        edge.declared = message.declared
        # Clocks differ, so it travels as a remaining time.
        edge.absent = {
            member: self._core.now + min(remaining_s, self._core.settings.absent_hold_s)
            for member, remaining_s in message.absent
            if remaining_s > 0
        }
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
            self._spread(tree, grown, edge, message.subscription)
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
            self._withdraw(tree, grown, edge, [message.subscription])
        self._changed(grown, edge)
        self._confirm(tree, grown)

    def _install(self, grown: TreeEpoch, edge: Edge, subscription: Subscription) -> bool:
        """Keep what a link asks for; False if it is known."""
        assert edge.subscriptions is not None, "a table comes first"
        if subscription in edge.subscriptions:
            return False
        limit = self._core.settings.link_subscriptions_max
        try:
            if subscription != CATCH_ALL:
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

    def _spread(self, tree: Tree, grown: TreeEpoch, source: Edge | None, subscription: Subscription) -> None:
        """Tell the other links of a subscription, as far as it changes what they have been told."""
        for edge in grown.edges.values():
            if edge is not source and edge.summary is not None and edge.alive:
                self._tell(tree, grown, edge, *edge.summary.add(subscription))

    def _withdraw(
        self, tree: Tree, grown: TreeEpoch, source: Edge | None, subscriptions: list[Subscription]
    ) -> None:
        """Tell the other links of subscriptions that are no longer asked for."""
        for edge in grown.edges.values():
            if edge is not source and edge.summary is not None and edge.alive:
                known = [subscription for subscription in subscriptions if subscription in edge.summary]
                if known:
                    self._tell(tree, grown, edge, *edge.summary.remove_all(known))

    def _tell(
        self, tree: Tree, grown: TreeEpoch, edge: Edge, added: list[Subscription], removed: list[Subscription]
    ) -> None:
        for subscription in added:
            self._links.send(edge.link, Subscribe(tree.root, grown.epoch, subscription))
        for subscription in removed:
            self._links.send(edge.link, Unsubscribe(tree.root, grown.epoch, subscription))
        edge.changes_out += len(added) + len(removed)

    # When everyone knows.

    def _changed(self, grown: TreeEpoch, edge: Edge) -> None:
        """One more change has come from a link; it is confirmed when what it led to is."""
        edge.changes_in += 1
        edge.unconfirmed.append((edge.changes_in, _all_changes(grown, edge)))

    def on_installed(self, link: Link, message: Installed) -> None:
        found = self._find(link, message.root, message.epoch)
        if found is not None:
            tree, grown, edge = found
            edge.installed = max(edge.installed, message.count)
            self._confirm(tree, grown)

    def _confirm(self, tree: Tree, grown: TreeEpoch) -> None:
        if not grown.ready:
            return
        for edge in grown.edges.values():
            count = 0
            while edge.unconfirmed and _known(grown, edge.unconfirmed[0][1]):
                count = edge.unconfirmed.popleft()[0]
            if count and edge.alive:
                self._links.send(edge.link, Installed(tree.root, grown.epoch, count))
        self._check_queue(tree, grown)

    def _check_queue(self, tree: Tree, grown: TreeEpoch) -> None:
        """See who need wait no longer for a tree."""
        queue = self._queues.get(tree.root)
        if not queue or tree.growing is not None:
            return  # what is confirmed in an epoch that is being left is not yet safe
        absent = self._absences.absent_from(tree.root)
        if absent is None:
            return
        while queue:
            waiting = queue[0]
            needs = waiting.trees.get(tree.root)
            if needs is not None:
                if not _known(grown, needs):
                    return
                del waiting.trees[tree.root]
                waiting.absent |= dict.fromkeys(absent)
                if not waiting.trees:
                    self._granted(waiting, _told(waiting.absent))
            queue.popleft()

    def _wait_no_more(self, key: Named) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.trees = {}
            self._core.timers.cancel(Timer.SETTLE, key)

    def _wait(self, named: Named, asked: Subscription, *, durable: bool) -> None:
        """Wait until all links of all trees that matter have confirmed what they were told."""
        waiting = Waiting(named, asked)
        if durable:
            waiting.trees[DISK] = {}
            self._core.after_sync(lambda: self._on_disk(waiting))
        self._wait_no_more(named)
        self._waiting[named] = waiting
        due = self._core.now + self._core.settings.settle_s
        self._core.timers.set(Timer.SETTLE, named, due)
        self._queue_up(waiting)

    def _needs(self, tree: Tree | None, asked: Subscription) -> dict[str, int]:
        """What must be confirmed on a tree for all that was told on it by now to be known everywhere."""
        if tree is None or tree.current is None:
            return NEXT_EPOCH
        if not _lives_on(asked.topic_filter, tree.current):
            return NEXT_EPOCH  # topics were divided otherwise when it began
        return _all_changes(tree.current)

    def _queue_up(self, waiting: Waiting) -> None:
        topic_filter = waiting.asked.topic_filter
        roots = dict.fromkeys(self._roots_of(topic_filter))
        for root, tree in sorted(self._trees.trees.items()):
            # Others may still divide the topics as that epoch does.
            if tree.current is not None and _lives_on(topic_filter, tree.current):
                roots[root] = None
        for root in roots:
            waiting.trees[root] = self._needs(self._trees.trees.get(root), waiting.asked)
            queue = self._queues.setdefault(root, deque())
            if len(queue) > 64 + 2 * len(self._waiting):
                # Most of them wait no more, and nobody looks at them while an epoch grows.
                queue = self._queues[root] = deque(it for it in queue if root in it.trees)
            queue.append(waiting)
        for root in roots:
            known = self._trees.serving(root)
            if known is not None and known.current is not None:
                self._check_queue(known, known.current)

    def _granted(self, waiting: Waiting, reason: str) -> None:
        self._wait_no_more(waiting.named)
        self._core.out.append(Grant(*waiting.named, reason))
        self._core.tell(SubscriptionGranted(waiting.named, waiting.asked))

    def _on_disk(self, waiting: Waiting) -> None:
        """A durable subscription has been written."""
        waiting.trees.pop(DISK, None)
        if not waiting.trees and self._waiting.get(waiting.named) is waiting:
            self._granted(waiting, _told(waiting.absent))

    def on_settle_late(self, key: Named) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._granted(waiting, "settling")

    def on_share(self) -> None:
        """Topics have moved to other trees: who waits, waits for those."""
        self._queues = {}
        for waiting in list(self._waiting.values()):
            waiting.trees = {DISK: waiting.trees[DISK]} if DISK in waiting.trees else {}
            waiting.absent = {}
            self._queue_up(waiting)

    def _roots_of(self, topic_filter: str) -> list[str]:
        share = self._trees.share
        first = topic_filter.partition("/")[0]
        roots = set(share) if first in WILD_FIRST else {pick(first, share)}
        for root, rooted in self._trees.declared.items():
            tree = self._trees.trees.get(root)
            known = tree is not None and (tree.hops >= 0 or tree.current is not None)
            if known and any(filters_meet(one, topic_filter) for one in rooted):
                roots.add(root)
        return sorted(roots)

    def _find(self, link: Link, root: str, epoch: tuple[int, int]) -> tuple[Tree, TreeEpoch, Edge] | None:
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


def _lives_on(topic_filter: str, grown: TreeEpoch) -> bool:
    """Whether a topic filter may match topics that use a tree in this epoch."""
    root, share = grown.root, grown.share
    first = topic_filter.partition("/")[0]
    if root in share and (first in WILD_FIRST or pick(first, share) == root):
        return True
    return any(filters_meet(rooted, topic_filter) for rooted in grown.rooted)


def _epochs(tree: Tree) -> Iterator[TreeEpoch]:
    if tree.current is not None:
        yield tree.current
    if tree.growing is not None:
        yield tree.growing


def _all_changes(grown: TreeEpoch, source: Edge | None = None) -> dict[str, int]:
    """How many changes each link must have confirmed for all that was told by now to be known."""
    return {peer: max(1, edge.changes_out) for peer, edge in grown.edges.items() if edge is not source}


def _known(grown: TreeEpoch, needs: dict[str, int]) -> bool:
    return all(
        peer in grown.edges and grown.edges[peer].alive and grown.edges[peer].installed >= count
        for peer, count in needs.items()
    )


def _told(absent: Iterable[str]) -> str:
    """The reason of a grant that some brokers were out of reach for; "" if there were none."""
    found = sorted(absent)
    named = ", ".join(found[:ABSENT_NAMED_MAX])
    more = f" and {len(found) - ABSENT_NAMED_MAX} more" if len(found) > ABSENT_NAMED_MAX else ""
    return f"absent: {named}{more}" if found else ""


def _key(session: str, name: str) -> str:
    return f"subscription/{quote(session, safe='')}/{quote(name, safe='')}"
