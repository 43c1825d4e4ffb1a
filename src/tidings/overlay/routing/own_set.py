"""This broker's own set: what it tells all others to send here.

It is the covering set (`covering_set`) of what sessions here ask for, as items with keys. What changes in one
turn is one numbered change: an item that covered others goes in the same change in which they come back.

The set has a share of what a broker keeps of all others. Where it would be larger it is *widened*: first the
content filters of the topic filters with most subscriptions are left out, then topics are told by their first
levels alone, at last everything is asked for. Nothing is missed by that; what comes in vain is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidings.language.subscriptions import EVERYTHING, QOS_MAX, Subscription
from tidings.overlay.core import Core
from tidings.overlay.routing import covering_set, interest
from tidings.overlay.routing.messages import FILTER, Item

ROOM = 0.9
"""How much of its share a set takes up when it has just been widened, at most: not each newcomer widens it
again."""

NARROW_BELOW = 0.5
"""Of its share: a set with fewer subscriptions than that is told as it is again."""

WILD_FIRST = ("+", "#", EVERYTHING)
"""First levels of topic filters that may match topics with any first level."""


class OwnSet:
    """What is asked for here, and what others have been told of it."""

    def __init__(self, core: Core, share: Callable[[], int]) -> None:
        """`share`: how many items others keep of one broker."""
        self._core = core
        self._share = share
        self.number = 0
        """Of the last change."""
        self.items: dict[int, Item] = {}
        """By key: all that is told."""
        self._keys: dict[Subscription, int] = {}
        self._next = 0
        self._summary = covering_set.of_subscriptions(core.settings.cover_effort)
        self._told_as: dict[Subscription, Subscription] = {}
        """What is asked for here, and as what it is in the summary."""
        self._wide_topics: dict[str, None] = {}
        """Topic filters whose content filters are left out."""
        self._wide_levels: dict[str, None] = {}
        """First levels of which all topics are asked for."""
        self._wide_all = False
        self._added: dict[int, Item] = {}
        self._removed: dict[int, None] = {}
        self._wider: dict[int, None] = {}
        """Keys of content filters that were too large to be told."""

    @property
    def asked(self) -> int:
        """Different subscriptions of sessions here."""
        return len(self._told_as)

    @property
    def pending(self) -> int:
        """The number that others must know for all that is asked for by now to be known."""
        return self.number + bool(self._added or self._removed)

    @property
    def widened(self) -> int:
        """Subscriptions that are told wider than they are."""
        said = sum(asked != told for asked, told in self._told_as.items()) if self._is_wide else 0
        return said + len(self._wider)

    @property
    def _is_wide(self) -> bool:
        return bool(self._wide_topics or self._wide_levels or self._wide_all)

    def add(self, subscription: Subscription) -> None:
        """A session here asks for something that nobody here has asked for before."""
        told = self._told_as[subscription] = self._widely(subscription)
        self._change(*self._summary.add(told))
        self._fit()

    def remove(self, subscriptions: Iterable[Subscription]) -> None:
        """Nobody here asks for these any more."""
        told = [self._told_as.pop(subscription) for subscription in subscriptions]
        self._change(*self._summary.remove_all(told))
        self._fit()  # what a cover has covered comes back

    def take(self) -> tuple[tuple[Item, ...], tuple[int, ...]] | None:
        """What has changed since this was last asked, under the next number; None if nothing has."""
        if not self._added and not self._removed:
            return None
        self.number += 1
        added, removed = tuple(self._added.values()), tuple(self._removed)
        self._added, self._removed = {}, {}
        return added, removed

    def tick(self) -> None:
        """Tell the set as it is again, if there is room for it by now, or wider, if the share is smaller."""
        if self._is_wide and len(self._told_as) <= NARROW_BELOW * self._share():
            self._wide_topics, self._wide_levels, self._wide_all = {}, {}, False
            self._tell_again(list(self._told_as))
        self._fit()

    # As what subscriptions are told.

    def _widely(self, asked: Subscription) -> Subscription:
        if self._wide_all:
            return Subscription(EVERYTHING, qos=QOS_MAX)
        first = asked.topic_filter.partition("/")[0]
        if first in self._wide_levels:
            topics = EVERYTHING if first in WILD_FIRST else f"{first}/#"
        elif asked.topic_filter in self._wide_topics:
            topics = asked.topic_filter
        else:
            return asked
        return Subscription(topics, qos=asked.qos, every_us=asked.every_us)

    def _fit(self) -> None:
        """Widen the set until it is within its share."""
        share = self._share()
        if len(self.items) <= share:
            return
        room = int(ROOM * share)
        for wide, group_of in ((self._wide_topics, _topic), (self._wide_levels, _first_level)):
            groups: dict[str, list[Subscription]] = {}
            for asked in self._told_as:
                groups.setdefault(group_of(asked), []).append(asked)
            for name in sorted(groups, key=lambda name: (-len(groups[name]), name)):
                if len(self.items) <= room or len(groups[name]) == 1:
                    break
                if name not in wide:
                    wide[name] = None
                    self._tell_again(groups[name])
            if len(self.items) <= room:
                break
        else:
            if len(self.items) > share:
                self._wide_all = True
                self._tell_again(list(self._told_as))
        self._core.log(
            "warning",
            "more is asked for here than other brokers keep; it is told in fewer, wider subscriptions",
            subscriptions=len(self._told_as),
            told=len(self.items),
            share=share,
        )

    def _tell_again(self, subscriptions: list[Subscription]) -> None:
        """Tell some as they are to be told by now: first the new way, then no longer the old one."""
        before: list[Subscription] = []
        for asked in subscriptions:
            told = self._widely(asked)
            if told != self._told_as[asked]:
                before.append(self._told_as[asked])
                self._told_as[asked] = told
                self._change(*self._summary.add(told))
        self._change(*self._summary.remove_all(before))

    def _change(self, added: list[Subscription], removed: list[Subscription]) -> None:
        """The summary is another."""
        for subscription in removed:
            key = self._keys.pop(subscription)
            del self.items[key]
            self._wider.pop(key, None)
            if self._added.pop(key, None) is None:
                self._removed[key] = None
        for subscription in added:
            value, wider = interest.written(subscription)
            self._next += 1
            key = self._keys[subscription] = self._next
            self.items[key] = self._added[key] = Item(FILTER, key, value)
            if wider:
                self._wider[key] = None


def _topic(asked: Subscription) -> str:
    return asked.topic_filter


def _first_level(asked: Subscription) -> str:
    return asked.topic_filter.partition("/")[0]
