"""Small networks through random schedules: things arrive in an order of their own, links break, brokers die.

The simulator does the like in virtual time. Here the order of every single step is drawn, which finds what no
clock would: a grant just before an epoch, an answer just after one. Trees, windows and copies are
drawn, too. What is judged is what clients were promised.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.overlay.bench import Bench
from tests.overlay.offers import given, offer_of
from tidings.language import names
from tidings.language.regions import Unknown
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import (
    Accept,
    EntryOffered,
    Grant,
    SessionOpened,
    Stop,
    SubscriptionAsked,
    SubscriptionDropped,
    TimerFired,
)
from tidings.overlay.settings import DEFAULT

FILTERS = ["t/a", "t/b", "t/+", "t/#", "#", "+/a", "u/a", "u/#", "$s/a", "$s/#", "+/+"]
TOPICS = ["t/a", "t/b", "u/a", "u", "$s/a", "t/a/b"]


@dataclass
class Offer:
    """What was published, and which subscriptions were confirmed by then."""

    broker: str
    topic: str
    fields: dict[str, int]
    qos: int
    owed: set[tuple[str, str]]


@dataclass
class Story:
    """All that clients did and saw."""

    subscriptions: dict[tuple[str, str], Subscription] = field(default_factory=dict)
    confirmed: set[tuple[str, str]] = field(default_factory=set)
    offers: dict[int, Offer] = field(default_factory=dict)
    accepted: set[int] = field(default_factory=set)
    got: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    read: int = 0
    ordered: bool = True
    """Whether order is promised: not while the trees of topics are declared anew."""

    def read_on(self, bench: Bench) -> None:
        for broker, effect in bench.seen[self.read :]:
            if isinstance(effect, Grant) and not effect.reason:
                self.confirmed.add((broker, effect.session))
            elif isinstance(effect, Accept):
                self.accepted.update(effect.tokens)
            for it in given([effect]):
                number = json.loads(it.publication.payload)["i"]
                for session in {session for session, _ in it.subscriptions}:
                    self.got.setdefault((broker, session), []).append(number)
            assert not isinstance(effect, Stop), "no broker gives up"
        self.read = len(bench.seen)

    def broken(self) -> list[str]:
        """The promises that were not kept."""
        found = []
        for who, subscription in self.subscriptions.items():
            got = self.got.get(who, [])
            if len(got) != len(set(got)):
                found.append(f"{who} got something twice: {got}")
            latest: dict[tuple[str, str], int] = {}
            for number in got:
                offer = self.offers[number]
                if not wants(subscription, offer):
                    found.append(f"{who} got {number}, which it does not ask for")
                if self.ordered and latest.get((offer.broker, offer.topic), 0) > number:
                    found.append(f"{who} got {number} too late")
                latest[offer.broker, offer.topic] = number
            found += [
                f"{who} never got {number}"
                for number, offer in self.offers.items()
                if offer.qos
                and subscription.qos
                and who in offer.owed
                and number in self.accepted
                and wants(subscription, offer)
                and number not in got
            ]
        return found


def wants(subscription: Subscription, offer: Offer) -> bool:
    if not names.match(subscription.topic_filter, offer.topic):
        return False
    return subscription.filter is None or subscription.filter.matches(offer.fields, subscription.unknown)


def some_subscription(source: random.Random) -> Subscription:
    low = source.randint(0, 8)
    where = source.choice(["", "", f"x > {low}", f"x >= {low} AND x < {low + 3}", f"x = {low} OR y = 2"])
    unknown = source.choice([Unknown.WAIT, Unknown.ASSUME]) if where else Unknown.WAIT
    return Subscription(source.choice(FILTERS), where, unknown, source.choice([1, 1, 2, 0]))


def some_bench(source: random.Random, seed: int) -> tuple[Bench, list[str], list[tuple[str, str]]]:
    ids = [f"n{number}" for number in range(source.randint(2, 6))]
    source.shuffle(ids)
    links = [(ids[at], ids[source.randrange(at)]) for at in range(1, len(ids))]
    for _ in range(source.randint(0, len(ids))):
        one, other = source.sample(ids, 2)
        if (one, other) not in links and (other, one) not in links:
            links.append((one, other))
    settings = replace(
        DEFAULT,
        trees=source.choice([1, 1, 2, 3, 8]),
        acks=source.choice(["origin", "origin", "neighbour"]),
        link_window_messages=source.choice([3, 16_384]),
        link_unacked_bytes=source.choice([100, 1 << 20]),
        cover_effort=source.choice([1, 2, 64]),
        topic_cache=source.choice([2, 4096]),
    )
    bench = Bench(ids, links, settings=settings, seed=seed)
    bench.settle()
    return bench, ids, links


def run(
    seed: int, steps: int = 250, also: Callable[[Bench, random.Random], None] | None = None
) -> tuple[list[str], Story]:
    """One schedule, and what it broke. Subscribers are at brokers that live, the others may be killed.

    With `also` something else is done now and then.
    """
    source = random.Random(seed)
    bench, ids, links = some_bench(source, seed)
    lasting = source.sample(ids, max(1, len(ids) // 2))
    mortal = [id_ for id_ in ids if id_ not in lasting]
    story = Story(ordered=also is None)
    for _ in range(steps):
        if also is not None and source.random() < 0.1:
            also(bench, source)
        draw = source.random()
        if draw < 0.45:
            for _ in range(source.randint(1, 12)):
                if boxes := bench.waiting():
                    bench.step(source.choice(boxes))
        elif draw < 0.60:
            publish(bench, source, story)
        elif draw < 0.68 and len(story.subscriptions) < 8:
            who, session = source.choice(lasting), f"s{len(story.subscriptions)}"
            story.subscriptions[who, session] = some_subscription(source)
            bench.tell(who, SessionOpened(session))
            bench.tell(who, SubscriptionAsked(session, "s", story.subscriptions[who, session]))
        elif draw < 0.78:
            change_a_mind(bench, source)
        elif draw < 0.86:
            bench.now += source.choice([0.01, 0.1, 0.5, 2.0])
            for id_ in bench.running():
                bench.tell(id_, TimerFired())
        elif draw < 0.90:
            bench.cut(*source.choice(links), block=source.random() < 0.5)
        elif draw < 0.95:
            bench.blocked = set()
        elif mortal:
            id_ = source.choice(mortal)
            if id_ in bench.running():
                bench.kill(id_)
            else:
                bench.start(id_)
        story.read_on(bench)
    bench.blocked = set()
    for id_ in ids:
        if id_ not in bench.running():
            bench.start(id_)
    for _ in range(8):
        bench.settle()
    story.read_on(bench)
    broken = story.broken()
    for id_ in ids:
        status = bench.status(id_)
        if status.held or status.backlog_bytes or status.absent or not status.ready:
            broken.append(f"{id_} has not come to rest: {status.held} held, absent {status.absent}")
    return broken, story


def publish(bench: Bench, source: random.Random, story: Story) -> None:
    number = len(story.offers) + 1
    who = source.choice(bench.running())
    fields = {name: source.randint(0, 9) for name in "xy" if source.random() < 0.8} | {"i": number}
    offer = Offer(who, source.choice(TOPICS), fields, source.choice([1, 1, 2, 0]), set(story.confirmed))
    story.offers[number] = offer
    payload = json.dumps(fields).encode()
    bench.tell(who, offer_of("p", number, offer.topic, payload, offer.qos))


def change_a_mind(bench: Bench, source: random.Random) -> None:
    """Of clients that are not judged."""
    who, session = source.choice(bench.running()), f"z{source.randint(0, 4)}"
    bench.tell(who, SessionOpened(session))
    name = f"q{source.randint(0, 3)}"
    if source.random() < 0.5:
        bench.tell(who, SubscriptionAsked(session, name, some_subscription(source)))
    else:
        bench.tell(who, SubscriptionDropped(session, name))


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_promises_are_kept_whatever_the_order_of_steps(first: int) -> None:
    confirmed = 0
    for seed in range(first, first + 10):
        broken, story = run(seed)
        assert broken == [], f"replay: run({seed})"
        confirmed += len(story.confirmed)
    assert confirmed, "something was promised"


def declare(bench: Bench, source: random.Random) -> None:
    """Somebody gives a topic a root of its own, or another, or none."""
    name = source.choice(["t/a", "t/+", "u/#", "t/b"])
    root = source.choice(sorted(bench.hosts))
    text = f'name = "{name}"\nkind = "plain"\nroot = "{root}"' if source.random() < 0.7 else ""
    bench.tell(source.choice(bench.running()), EntryOffered("d", 0, "topic", name, text, force=True))


@pytest.mark.parametrize(
    "first", [0, 10, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 60, 10))]
)
def test_promises_are_kept_while_topics_move_to_trees_that_are_declared(first: int) -> None:
    for seed in range(first, first + 10):
        assert run(seed, also=declare)[0] == [], f"replay: run({seed}, also=declare)"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5000, 7000, 100))
def test_promises_are_kept_while_topics_move_in_many_more_orders(first: int) -> None:
    for seed in range(first, first + 100):
        assert run(seed, also=declare)[0] == [], f"replay: run({seed}, also=declare)"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_promises_are_kept_in_many_more_orders(first: int) -> None:
    for seed in range(first, first + 100):
        assert run(seed)[0] == [], f"replay: run({seed})"
