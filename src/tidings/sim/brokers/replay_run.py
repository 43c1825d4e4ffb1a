"""A whole run of a workload from tables: the network, clients and times are the workload's, the faults ours.

Everything else is as in `run` for events and as in `gathering.run` for reports: the same phases, the same
judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.records import workload as tables
from tidings.records.record import Record
from tidings.sim.brokers import promises
from tidings.sim.brokers.client import Client
from tidings.sim.brokers.promises import Breach
from tidings.sim.brokers.replay import Follower, Happening, Replay
from tidings.sim.brokers.run import PROBES_MAX, Plan, Progress, Run
from tidings.sim.brokers.workload import Planned
from tidings.sim.gathering.run import NEWCOMERS, GatheredRun
from tidings.sim.gathering.workload import EVERY_S, WATCHERS
from tidings.sim.node import DoorMaker, MachineMaker


class ReplayRun(Run):
    """One run of a workload's events."""

    def __init__(self, plan: Plan, **more: Any) -> None:
        assert plan.replay is not None, "the plan has a workload from tables"
        self.replay: Replay = plan.replay
        self._clients: dict[int, Client] = {}
        self._following: set[int] = set()
        self._dropped: dict[str, tuple[Client, Subscription]] = {}
        super().__init__(plan, **more)

    def _topics(self) -> list[Topic]:
        return list(self.replay.topics)

    # What happens.

    def _client(self, number: int) -> Client:
        """A client, who comes when it first does something."""
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = self.world.client(self.replay.homes[number], f"c{number}")
        return client

    def _subscribe(self) -> None:
        world, followers = self.world, self.replay.followers
        for at, one in enumerate(followers):
            if one.from_s <= 0 and not self._over(one):
                self._come(one, None)
            if at % 100 == 99:
                if not self.plan.early:
                    world.run(0.001)
                self._progress("subscribing", at / len(followers))

    @staticmethod
    def _over(one: Follower) -> bool:
        """Whether a subscription ends before anything happens."""
        return one.until_s is not None and one.until_s <= 0

    def _plans(self) -> Iterator[Planned]:
        # Publishing begins now, and so do the comings and goings.
        for one in self.replay.followers:
            if 0 < one.from_s <= self.replay.lasts_s:
                self.world.at(self._began + one.from_s, self._come, one)
            if one.until_s is not None and 0 < one.until_s <= self.replay.lasts_s:
                self.world.at(self._began + one.until_s, self._go, one)
        return iter(self.replay.happenings)

    def _come(self, one: Follower, _: object) -> None:
        client = self._client(one.client)
        client.subscribe(str(one.number), one.subscription)
        if one.client not in self._following:
            self._following.add(one.client)
            self._subscribers.append(client)

    def _go(self, one: Follower, _: object) -> None:
        self._client(one.client).unsubscribe(str(one.number))

    def _publish_one(self, planned: Planned) -> None:
        assert isinstance(planned, Happening), "what is planned comes from the workload"
        self._client(planned.client).publish(planned.topic, planned.payload, planned.qos)

    def _change_mind(self, _one: object, _two: object) -> None:
        """Some client drops a subscription, takes it again, leaves or comes back."""
        if not self._subscribers:
            return
        source = self._source
        client = source.choice(self._subscribers)
        what = source.choice(("drop", "drop", "again", "again", "leave", "attach"))
        if what == "drop" and client.wanted:
            name = source.choice(sorted(client.wanted))
            self._dropped[name] = client, client.wanted[name]
            client.unsubscribe(name)
        elif what == "again" and self._dropped:
            name = source.choice(sorted(self._dropped))
            owner, subscription = self._dropped.pop(name)
            owner.subscribe(name, subscription)
        elif what == "leave" and client.attached and source.random() < 0.3:
            client.leave()
        elif what == "attach" and not client.attached:
            client.attach()

    def _again(self, probe: int, story: int | None) -> Happening:
        """Something of the workload once more, or as if it were of another story."""
        happenings = self.replay.happenings
        one = happenings[self._source.randrange(len(happenings))]
        said = msgspec.json.decode(one.payload)
        if story is not None:
            said[tables.STORY] = story
        home = self.plan.topology.ids[probe % len(self.plan.topology.ids)]
        return Happening(0.0, home, one.topic, msgspec.json.encode(said), 1, one.client)

    def _stories(self) -> int:
        """A number beyond all stories."""
        said = (msgspec.json.decode(one.payload).get(tables.STORY, 0) for one in self.replay.happenings)
        return max(said, default=0) + 1

    def _probe_one(self, one: Happening) -> None:
        """Publish at a broker, by a client that is there for that."""
        client = self._publishers.get(one.broker)
        if client is None:
            client = self._publishers[one.broker] = self.world.client(one.broker, f"p-{one.broker}")
        if client.publish(one.topic, one.payload, one.qos) is None:
            self._breaches.append(Breach("all come back", f"{one.broker} does not run in the end"))
        self.world.run(0.01)

    def _probe(self) -> None:
        plan = self.plan
        if not (plan.fault_count or plan.churn) or not self.replay.happenings:
            return
        self._ways = promises.Ways()
        beyond = self._stories()
        for probe in range(min(PROBES_MAX, 2 * len(plan.topology.ids))):
            self._probe_one(self._again(probe, beyond + probe))


class GatheredReplayRun(ReplayRun, GatheredRun):
    """One run of a workload's reports."""

    def __init__(
        self,
        plan: Plan,
        *,
        machine: MachineMaker | None = None,
        door: DoorMaker | None = None,
        record: Callable[[Record], object] | None = None,
        trace: Callable[[str], object] | None = None,
        progress: Progress = lambda _text, _share: None,
    ) -> None:
        super().__init__(plan, machine=machine, door=door, record=record, trace=trace, progress=progress)
        assert self.replay.declared is not None, "reports need declared topics"
        self._declared = self._rules = self.replay.declared
        self.topics = list(self.replay.gathered)

    @property
    def _ripe_s(self) -> float:
        """How long until all that was reported is told; that events close as well would take hours."""
        return self._declared.merge_after_s + max(EVERY_S) + 1.0

    def _subscribe(self) -> None:
        """As for events; and some want everything, so that what was told is known."""
        ids = self.plan.topology.ids
        for at in range(min(WATCHERS, len(ids))):
            watcher = self.world.client(ids[at * (len(ids) - 1)], f"w{at}", durable=True)
            watcher.subscribe("1", Subscription("#", qos=1))
        super()._subscribe()

    def _strategy(self) -> str:
        return self._declared.seat if self._declared.seats_stay and not self._happened else ""

    def _probe(self) -> None:
        """Report once more about old and new things, now that the network is whole and quiet."""
        world, source = self.world, self._source
        self._calm = world.ledger.turn
        if not self.replay.happenings:
            return
        beyond = self._stories()
        for probe in range(min(PROBES_MAX, 2 * len(self.plan.topology.ids))):
            self._probe_one(self._again(probe, beyond + probe // 4 if probe % 2 else None))
        self._settle("probing")
        followers = self.replay.followers
        for number in range(NEWCOMERS if followers else 0):
            client = world.client(source.choice(self.plan.topology.ids), f"n{number}")
            client.subscribe("1", followers[source.randrange(len(followers))].subscription)
