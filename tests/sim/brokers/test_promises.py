"""The checkers bite: each promise, broken on purpose, is reported, and a network that keeps them is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest

from tests.overlay.offers import deliver, given
from tidings.language.subscriptions import Subscription
from tidings.overlay.broker import Broker
from tidings.overlay.events import Deliver, Effect, Event, Send
from tidings.overlay.frames import Frame, Message
from tidings.overlay.publication import Publication
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.status import SetStatus, Status
from tidings.planning import topologies
from tidings.records.record import Kind, Record
from tidings.sim.brokers import promises as checkers
from tidings.sim.brokers.run import Plan, Run
from tidings.sim.brokers.trace import Trace
from tidings.sim.brokers.workload import Workload
from tidings.sim.node import MachineMaker
from tidings.sim.world import World

PLAN = Plan(
    seed=1,
    topology=topologies.ring(6),
    workload=Workload(topics=3, subscriptions=20, publications=60, rate_per_s=20.0, durable=0.3),
    early=False,
    churn=1,
    command="tidings simulate --topology ring",
)


def promises(machine: MachineMaker) -> set[str]:
    """The promises that a broker of this make breaks, in a network where nothing goes wrong."""
    return {breach.promise for breach in Run(PLAN, machine=machine).run().breaches}


class Meddler(Broker):
    """Does what it is told but for one thing."""

    def start(self, now: float) -> list[Effect]:
        self.count = 0
        return super().start(now)

    def handle(self, event: Event, now: float) -> list[Effect]:
        return [changed for effect in super().handle(event, now) for changed in self.meddle(effect)]

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        return [effect]

    def due(self) -> bool:
        """Now and then."""
        self.count += 1
        return self.count % 4 == 0


class Forgetful(Meddler):
    def meddle(self, effect: Effect) -> Sequence[Effect]:
        return [] if isinstance(effect, Deliver) and self.due() else [effect]


class Stutterer(Meddler):
    def meddle(self, effect: Effect) -> Sequence[Effect]:
        return [effect, effect] if isinstance(effect, Deliver) and self.due() else [effect]


class Gossip(Meddler):
    """Tells the next one also what was meant for the one before."""

    last: tuple[tuple[str, str], ...] = ()

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver):
            return [effect]
        (it,) = given([effect])
        before, self.last = self.last, it.subscriptions
        return [deliver(it.publication, tuple(sorted({*before, *it.subscriptions})), it.hops)]


class Inventor(Meddler):
    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver) or not self.due():
            return [effect]
        (it,) = given([effect])
        invented = msgspec.structs.replace(it.publication, payload=b'{"value":1}')
        return [effect, deliver(invented, it.subscriptions, it.hops)]


class Shuffler(Meddler):
    """Holds a delivery back until the next one."""

    held: Deliver | None = None

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if not isinstance(effect, Deliver):
            return [effect]
        if self.held is None:
            self.held = effect
            return []
        held, self.held = self.held, None
        return [effect, held]


class Hasty(Meddler):
    """Keeps what it has taken to itself."""

    def meddle(self, effect: Effect) -> Sequence[Effect]:
        if isinstance(effect, Send) and any(isinstance(one, Publish) for one in effect.frame.messages):
            rest: tuple[Message, ...] = ()
            return [Send(effect.connection, Frame(effect.frame.first, effect.frame.ack, rest))]
        return [effect]


@pytest.mark.parametrize(
    ("machine", "promise"),
    [
        (Forgetful, "nothing lost"),
        (Stutterer, "nothing twice"),
        (Gossip, "nothing to the wrong one"),
        (Inventor, "nothing made up"),
        (Shuffler, "order"),
        (Hasty, "nothing lost"),
    ],
)
def test_a_broker_that_breaks_a_promise_is_caught(machine: MachineMaker, promise: str) -> None:
    assert promise in promises(machine)


def test_a_broker_that_keeps_them_is_not() -> None:
    assert promises(Broker) == set()
    assert promises(Meddler) == set()


def test_a_failure_names_the_line_that_replays_it() -> None:
    outcome = Run(PLAN, machine=Forgetful).run()
    assert outcome.replay.endswith("replay: tidings simulate --topology ring")
    assert "\n" not in outcome.replay


def test_what_a_broker_raises_names_the_line_too() -> None:
    class Raising(Broker):
        def handle(self, event: Event, now: float) -> list[Effect]:
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError) as caught:
        Run(PLAN, machine=Raising).run()
    assert caught.value.__notes__ == ["replay: tidings simulate --topology ring"]


# By hand: who is owed what.


def ledger_with(granted: bool = True, qos: int = 1) -> Trace:
    """A session at b that asks for everything, and a publication accepted at a."""
    ledger = Trace()
    ledger.opened("s", "b", durable=True)
    ledger.asked("s", "1", Subscription("#", qos=qos))
    if granted:
        ledger.granted("s", "1", "")
    ledger.offered("p", "a", 1, "t", b"{}", 1, 0.0)
    ledger.accepted("p", 0)
    return ledger


def lost(ledger: Trace, settled: Sequence[int] = (), *, neighbours_keep: bool = False) -> int:
    return len(checkers.Deliveries(ledger, settled, neighbours_keep=neighbours_keep).lost())


def test_an_accepted_publication_is_owed_to_a_granted_subscription() -> None:
    assert lost(ledger_with()) == 1


@pytest.mark.parametrize(("granted", "qos"), [(False, 1), (True, 0)])
def test_nothing_is_owed_before_the_grant_or_at_qos_0(granted: bool, qos: int) -> None:
    assert lost(ledger_with(granted, qos)) == 0


@pytest.mark.parametrize(
    ("reason", "owed"), [("absent: a", 0), ("absent: a, c", 0), ("absent: c", 1), ("absent: c and 2 more", 0)]
)
def test_a_grant_that_names_absent_brokers_counts_at_once_for_all_others(reason: str, owed: int) -> None:
    ledger = Trace()
    ledger.opened("s", "b", durable=False)
    ledger.asked("s", "1", Subscription("#", qos=1))
    ledger.granted("s", "1", reason)
    ledger.turn += 1
    settled = ledger.turn
    ledger.offered("p", "a", 1, "t", b"{}", 1, 0.0)
    ledger.accepted("p", 0)
    assert lost(ledger) == owed
    assert lost(ledger, [settled]) == 1


def test_a_subscription_that_was_settling_counts_once_the_network_has_settled() -> None:
    ledger = Trace()
    ledger.opened("s", "b", durable=False)
    ledger.asked("s", "1", Subscription("#", qos=1))
    ledger.granted("s", "1", "settling")
    turn = ledger.turn + 1
    ledger.turn = turn
    ledger.offered("p", "a", 1, "t", b"{}", 1, 0.0)
    ledger.accepted("p", 0)
    assert lost(ledger) == 0
    assert lost(ledger, [turn]) == 1


def test_nothing_is_owed_once_the_subscription_or_its_session_has_ended() -> None:
    dropped, ended = ledger_with(), ledger_with()
    dropped.dropped("s", "1")
    ended.crashed("b", wiped=True)
    assert lost(dropped) == lost(ended) == 0


def test_a_crash_with_its_disk_excuses_nothing() -> None:
    ledger = ledger_with()
    ledger.crashed("a", wiped=False)
    ledger.crashed("b", wiped=False)
    assert lost(ledger) == 1


def test_a_lost_disk_excuses_what_was_accepted_there_unless_a_neighbour_keeps_it() -> None:
    ledger = ledger_with()
    ledger.crashed("a", wiped=True)
    assert lost(ledger) == 0
    assert lost(ledger, neighbours_keep=True) == 1
    ledger.crashed("c", wiped=True)
    assert lost(ledger, neighbours_keep=True) == 0


# Records.


def forwarded(message: str, sender: str, *receivers: str, epoch: str = "a:1:1") -> Record:
    return Record(sender, 1, 1, 0, Kind.FORWARDED, message=message, receivers=receivers, epoch=epoch)


def test_one_link_twice_in_one_epoch_is_reported_and_in_two_is_not() -> None:
    once, twice = checkers.Forwarding(), checkers.Forwarding()
    for record in (
        forwarded("m", "a", "b", "c"),
        forwarded("m", "b", "a"),
        forwarded("m", "a", "b", epoch="a:1:2"),
    ):
        once(record)
    for record in (forwarded("m", "a", "b"), forwarded("m", "a", "c", "b")):
        twice(record)
    assert once.breaches() == []
    (breach,) = twice.breaches()
    assert breach.promise == "no link twice"


def test_a_link_behind_which_nobody_gets_it_is_reported() -> None:
    ways = checkers.Ways()
    ways(forwarded("m", "a", "b", "c"))
    ways(Record("b", 1, 1, 0, Kind.DELIVERED, message="m", receivers=("s",)))
    (breach,) = ways.breaches()
    assert "from a to c" in breach.text


# What brokers say of themselves.


@pytest.fixture(scope="module")
def world() -> World:
    """A ring with a chord, with some who subscribe, all quiet."""
    topology = topologies.from_links([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "e"), ("e", "d")])
    world = World(topology, 0)
    world.start()
    for at, address in enumerate(topology.ids):
        world.client(address, f"s{at}").subscribe("1", Subscription("t", f"value > {10 * at}", qos=1))
    assert world.settle()
    return world


SAMPLES = [("t", b'{"value": %d}' % value) for value in (5, 15, 25, 35, 45)] + [("u", b"{}")]


def wanted_by(world: World) -> Callable[[str, str, bytes], Mapping[str, int]]:
    """What each broker believes that others want."""

    def believed(name: str, topic: str, payload: bytes) -> Mapping[str, int]:
        broker = world.hosts[name].broker
        assert isinstance(broker, Broker)
        return broker.wanted_by(Publication(name, 1, "", 1, topic, payload, 1))

    return believed


def test_trees_and_sets_of_a_quiet_network_are_right(world: World) -> None:
    statuses = world.statuses()
    assert checkers.check_trees(statuses, world.topology, 1) == []
    assert checkers.check_sets(statuses, world.ledger, SAMPLES, wanted_by(world)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("parent", "d"), ("hops", 1), ("children", ("e",)), ("members", ("a", "b")), ("epoch", (1, 0))],
)
def test_a_broker_with_a_wrong_place_in_the_tree_is_reported(world: World, field: str, value: object) -> None:
    statuses = world.statuses()
    (tree,) = (tree for tree in statuses["c"].trees if tree.root == "a")
    assert getattr(tree, field) != value
    statuses["c"] = with_tree(statuses["c"], field, value)
    breaches = checkers.check_trees(statuses, world.topology, 1)
    assert {breach.promise for breach in breaches} == {"trees"}
    assert breaches[0].text.startswith("c ")


def with_tree(status: Status, field: str, value: object) -> Status:
    """What a broker says of itself, with one thing changed about the tree of a."""
    trees = tuple(
        msgspec.structs.replace(tree, **{field: value}) if tree.root == "a" else tree for tree in status.trees
    )
    return msgspec.structs.replace(status, trees=trees)


def test_a_wrong_choice_of_roots_is_reported(world: World) -> None:
    assert checkers.check_trees(world.statuses(), world.topology, 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("boot", 0),
        ("number", 0),
        ("number", 2),
        ("asks", ()),
        ("asks", ("t qos=1",)),
        ("asks", ('t "value > 20" qos=2',)),
    ],
)
def test_a_broker_that_knows_another_set_than_its_home_tells_is_reported(
    world: World, field: str, value: object
) -> None:
    statuses = world.statuses()
    (known,) = (one for one in statuses["b"].sets if one.home == "c")
    assert getattr(known, field) != value
    statuses["b"] = with_set(statuses["b"], "c", **{field: value})
    (broken,) = checkers.check_sets(statuses, world.ledger, SAMPLES, wanted_by(world))
    assert broken.promise == "sets"
    assert broken.text.startswith("b knows SetStatus(home='c'")


def test_a_broker_that_does_not_know_a_home_is_reported(world: World) -> None:
    statuses = world.statuses()
    left = tuple(one for one in statuses["b"].sets if one.home != "c")
    statuses["b"] = msgspec.structs.replace(statuses["b"], sets=left)
    (broken,) = checkers.check_sets(statuses, world.ledger, SAMPLES, wanted_by(world))
    assert broken.text.startswith("b knows None of what c asks for")


def test_a_set_that_not_all_have_confirmed_is_reported(world: World) -> None:
    statuses = world.statuses()
    statuses["b"] = with_set(statuses["b"], "b", confirmed=0)
    (broken,) = checkers.check_sets(statuses, world.ledger, SAMPLES, wanted_by(world))
    assert broken.text.startswith("not all have confirmed what b asks for")


def with_set(status: Status, home: str, **changed: object) -> Status:
    """What a broker says of itself, with something changed about the set of a home."""
    sets = tuple(msgspec.structs.replace(one, **changed) if one.home == home else one for one in status.sets)
    return msgspec.structs.replace(status, sets=sets)


@pytest.mark.parametrize("wrong", [{}, {"c": 2}, {"c": 1, "d": 1}, {"c": 0}], ids=str)
def test_a_broker_that_believes_less_or_more_to_be_wanted_than_is_is_reported(
    world: World, wrong: Mapping[str, int]
) -> None:
    """With a value of 25, "c" wants it with quality 1 and "d" does not."""
    right = wanted_by(world)

    def believed(name: str, topic: str, payload: bytes) -> Mapping[str, int]:
        said = right(name, topic, payload)
        if (name, payload) != ("b", b'{"value": 25}'):
            return said
        return {home: qos for home, qos in said.items() if home not in "cd"} | dict(wrong)

    (broken,) = checkers.check_sets(world.statuses(), world.ledger, SAMPLES, believed)
    assert broken.text.startswith("b believes that ")


def test_what_was_asked_for_and_not_answered_may_be_believed_or_not(world: World) -> None:
    ledger = Trace()
    ledger.opened("s", "b", durable=True)
    ledger.asked("s", "1", Subscription("t", qos=1))
    own = {name: SetStatus(name, 1, 1, 1, 0, 1, asks=("t qos=1",)) for name in "ab"}
    statuses = {
        name: msgspec.structs.replace(world.statuses()[name], sets=(own[name], own[other]))
        for name, other in (("a", "b"), ("b", "a"))
    }
    for believed, wrong in (({}, 0), ({"b": 0}, 0), ({"b": 1}, 0), ({"b": 2}, 1)):
        at = {"a": believed, "b": {}}
        found = checkers.check_sets(statuses, ledger, [("t", b"{}")], lambda name, *_, at=at: at[name])
        assert len(found) == wrong
    ledger.granted("s", "1", "")
    assert checkers.check_sets(statuses, ledger, [("t", b"{}")], lambda *_: {}) != []


def test_a_subscription_is_judged_by_its_own_filter_on_the_decoded_payload() -> None:
    asked = Subscription("a/+", "x > 3")
    fields = checkers.fields_of(b'{"x": 4}')
    assert checkers.wants(asked, "a/b", fields)
    assert not checkers.wants(asked, "a", fields)
    assert not checkers.wants(asked, "a/b", checkers.fields_of(b'{"x": 3}'))
    assert not checkers.wants(asked, "a/b", checkers.fields_of(b"no object"))
    assert checkers.wants(Subscription("a/b"), "a/b", None)


def test_a_grant_and_an_acceptance_count_from_their_turn() -> None:
    """A publication that was offered before the grant may come or not."""
    ledger = Trace()
    ledger.opened("s", "b", durable=True)
    ledger.asked("s", "1", Subscription("#", qos=1))
    offer = ledger.offered("p", "a", 1, "t", b"{}", 1, 0.0)
    ledger.granted("s", "1", "")
    ledger.accepted("p", offer.number)
    assert lost(ledger) == 0
