"""Days to draw: one as a demonstration makes it, and odd ones. All of them are made up."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tidings.console.day import (
    Broker,
    Check,
    Cost,
    Day,
    Happening,
    Life,
    Link,
    Moment,
    Plans,
    Resident,
    Saving,
    Step,
    Topic,
)

PLACES = [
    ("b1", "centre", 0.50, 0.52, ("traffic/centre", "noise/centre")),
    ("b2", "harbour", 0.16, 0.20, ()),
    ("b3", "north", 0.44, 0.92, ("weather/north",)),
    ("b4", "east", 0.90, 0.66, ()),
    ("b5", "airport", 0.97, 0.24, ()),
    ("b6", "university", 0.66, 0.36, ("power/east", "water/east", "traffic/ring")),
    ("b7", "hills", 0.08, 0.72, ()),
    ("b8", "south", 0.42, 0.06, ()),
]

LINKS = [(1, 2), (1, 3), (1, 4), (1, 6), (1, 7), (4, 5), (5, 6), (6, 8), (2, 8), (3, 7), (3, 4)]

TOPICS = [
    ("traffic/centre", 4_210, 0.78, 0.15),
    ("traffic/ring", 2_304, 0.71, 0.18),
    ("power/east", 1_480, 0.88, 0.08),
    ("weather/north", 912, 0.52, 0.30),
    ("water/east", 401, 0.66, 0.22),
    ("noise/centre", 96, 0.30, 0.21),
]


def sample() -> Day:
    """What a demonstration of medium size may look like."""
    dice = random.Random(7)
    topics = []
    for name, reports, redundant, merged in TOPICS:
        dropped, joined = round(reports * redundant), round(reports * merged)
        opened = reports - dropped - joined
        topics.append(
            Topic(name, reports, dropped, joined, opened, round(opened * 2.1), round(opened * 2.1 * 9.4))
        )
    reports, versions = sum(t.reports for t in topics), sum(t.versions for t in topics)
    delivered = sum(t.delivered for t in topics)
    brokers = [
        Broker(
            name,
            region,
            x,
            y,
            published=dice.randint(600, 1_700),
            forwarded=dice.randint(900, 2_600) * (3 if seats else 1),
            delivered=dice.randint(700, 2_600),
            cpu_s=round(dice.uniform(2, 9), 1),
            seats=seats,
        )
        for name, region, x, y, seats in PLACES
    ]
    links = []
    for a, b in LINKS:
        messages = dice.randint(300, 2_400)
        links.append(Link(f"b{a}", f"b{b}", messages, messages * 180, reports=int(messages * dice.random())))
    weights = [
        0.3 + math.exp(-(((i - 28) / 9) ** 2)) + 1.6 * math.exp(-(((i - 66) / 13) ** 2)) for i in range(96)
    ]
    moments = [
        Moment(
            at_s=i * 0.75,
            reports=round(reports * w / sum(weights) * dice.uniform(0.75, 1.25)),
            versions=round(versions * w / sum(weights) * dice.uniform(0.7, 1.3)),
            deliveries=round(delivered * w / sum(weights) * dice.uniform(0.7, 1.3)),
        )
        for i, w in enumerate(weights)
    ]
    latencies = [
        (round(0.6 * 1.16**i, 3), round(9_000 * math.exp(-(((i - 12) / 6.5) ** 2)))) for i in range(42)
    ]
    return Day(
        title="A day in a city of eight districts",
        size="medium",
        seed=7,
        speed_up=600.0,
        subscribers=400,
        subscriptions=1_200,
        events=1_130,
        brokers=tuple(brokers),
        links=tuple(links),
        topics=tuple(topics),
        moments=tuple(moments),
        life=life(),
        latencies_ms=tuple((ms, n) for ms, n in latencies if n),
        costs=costs(delivered),
        plans=plans(),
        checks=(
            Check("every matching event arrived with its final content", "2,871 of 2,871 due", True),
            Check("nothing arrived that does not match the version told", f"0 of {delivered:,}", True),
            Check("no event arrived twice in one version", "0 repeated", True),
            Check(
                "a streaming query counted what the brokers wrote down", "4,210 reports on both sides", True
            ),
        ),
        steps=(
            Step("a first look at a live network", 14.2),
            Step("Spark makes a city", 38.9),
            Step("a network of brokers starts", 4.1),
            Step("the day is played", 96.5),
            Step("every delivery is checked", 3.2),
            Step("Spark reads the records", 31.0),
            Step("the same day, carried otherwise", 44.8),
        ),
        notes=("The machine fell behind for 4 s; the day was slowed down to 450 times life.",),
    )


def life() -> Life:
    """An accident that eleven people report, of whom five tell something new."""
    said = [
        (0.0, "opened", {"place": "Omonia", "kind": "accident"}),
        (0.31, "merged", {"place": "Omonia", "road": "A1"}),
        (0.45, "redundant", {"place": "Omonia", "kind": "accident"}),
        (0.52, "redundant", {"place": "Omonia", "road": "A1"}),
        (0.80, "merged", {"place": "Omonia", "severity": "2"}),
        (1.30, "redundant", {"place": "Omonia", "severity": "2"}),
        (1.65, "merged", {"place": "Omonia", "severity": "4", "road": "A1"}),
        (1.80, "redundant", {"place": "Omonia", "kind": "accident"}),
        (2.20, "redundant", {"place": "Omonia", "road": "A1", "severity": "4"}),
        (2.75, "merged", {"place": "Omonia", "note": "fire in lane 2", "severity": "4"}),
        (3.40, "redundant", {"place": "Omonia", "note": "fire in lane 2"}),
    ]
    told = [
        (0.5, {"place": "Omonia", "kind": "accident", "road": "A1"}, 9),
        (1.3, {"severity": "2"}, 14),
        (2.15, {"severity": "4"}, 31),
        (3.25, {"note": "fire in lane 2"}, 38),
    ]
    happenings = [
        Happening(12.0 + at, "report", f"reporter {i}", became, tuple(says.items()))
        for i, (at, became, says) in enumerate(said, 1)
    ] + [
        Happening(12.0 + at, "version", "b1", str(i), tuple(says.items()), receivers)
        for i, (at, says, receivers) in enumerate(told, 1)
    ]
    truth = {
        "place": "Omonia",
        "kind": "accident",
        "road": "A1",
        "severity": "4",
        "note": "fire in lane 2",
    }
    return Life(
        "traffic/centre 41",
        "traffic/centre",
        tuple(truth.items()),
        tuple(sorted(happenings, key=lambda happening: happening.at_s)),
    )


def plans() -> Plans:
    return Plans(
        savings=(
            Saving("hops from client to client", 3.41, 2.96, "40 of 400 clients move"),
            Saving("hops between brokers, in sum", 412_300.0, 281_200.0, "40 of 400 clients move"),
            Saving("hops of a request for history", 1.62, 0.48, "2 copies, at 4 of 8 brokers"),
        ),
        residents=tuple(
            Resident(name, 20 + 7 * at, 26 + 5 * at, seats)
            for at, (name, _, _, _, seats) in enumerate(PLACES)
        ),
    )


def costs(delivered: int) -> tuple[Cost, ...]:
    return (
        Cost("Tidings", delivered, 0, delivered * 210, 9_340, 38.2, 96.5),
        Cost("without gathering", 81_400, 0, 81_400 * 150, 41_020, 71.9, 98.1),
        Cost("without content routing", 498_000, 421_300, 498_000 * 210, 22_700, 160.4, 121.0),
        Cost("mosquitto", 3_761_000, 3_601_000, 3_761_000 * 150, None, 212.6, 150.2, "one broker"),
    )


def empty() -> Day:
    """Nothing happened at all."""
    return Day(
        title="",
        size="small",
        seed=1,
        speed_up=1.0,
        subscribers=0,
        subscriptions=0,
        events=0,
        brokers=(),
        links=(),
        topics=(),
        moments=(),
        life=None,
        latencies_ms=(),
        costs=(),
        checks=(),
        steps=(),
    )


def alone() -> Day:
    """One broker, one topic, one report that nobody asked for."""
    return replace(
        empty(),
        title="One broker",
        brokers=(Broker("b1", "here", 0.0, 0.0, 1, 0, 0, None, ("a",)),),
        topics=(Topic("a", 1, 0, 0, 1, 1, 0),),
        moments=(Moment(0.0, 1, 1, 0),),
        latencies_ms=((0.0, 1),),
        life=Life("a 1", "a", (), (Happening(0.0, "report", "r", "opened", ()),)),
        costs=(Cost("Tidings", 0, 0, 0, None, None, 0.0),),
        checks=(Check("everything arrived", "1 of 2: <b>a 1</b> & more is missing", False),),
        events=1,
    )


def crowded(brokers: int = 3_000) -> Day:
    """Far more of everything than fits, under names that are too long."""
    dice = random.Random(11)
    long = "a/very/long/name/that/goes/on/and/on/and/is/not/over/yet/" * 3
    made = [
        Broker(
            f"broker-{i}-{long if i % 7 == 0 else ''}",
            "somewhere",
            dice.gauss(0, 1),
            dice.gauss(0, 1),
            published=dice.randint(0, 10**6),
            forwarded=dice.randint(0, 10**7),
            delivered=dice.randint(0, 10**7),
            seats=tuple(f"topic/{j}" for j in range(i % 5)) if i % 11 == 0 else (),
        )
        for i in range(brokers)
    ]
    links = [
        Link(made[i].id, made[dice.randrange(i)].id, m := dice.randint(0, 10**6), m * 90, m // 3)
        for i in range(1, brokers)
    ]
    return replace(
        sample(),
        title=f"Crowded: {long}",
        brokers=tuple(made),
        links=tuple(links),
        topics=tuple(
            Topic(f"{long}{i}", 10_000 // (i + 1), 6_000 // (i + 1), 0, 4_000 // (i + 1), 90, 10**8)
            for i in range(200)
        ),
        moments=tuple(
            Moment(i * 0.1, dice.randint(0, 10**5), dice.randint(0, 10**4), 0) for i in range(4_000)
        ),
        latencies_ms=tuple((i * 1.5, dice.randint(0, 10**6)) for i in range(2_000)),
        life=Life(
            long,
            long,
            tuple((f"field {i} {long}", long) for i in range(60)),
            tuple(
                Happening(
                    i * 0.5,
                    "report" if i % 10 else "version",
                    long,
                    "merged" if i % 10 else str(i // 10 + 1),
                    tuple((f"field {j} {long}", long) for j in range(i % 60)),
                    10**9,
                )
                for i in range(1_500)
            ),
        ),
        costs=tuple(
            Cost(f"{long} {i}", 10**12 * i, 10**11 * i, 10**15, 10**12, 1e7, 1e6, long) for i in range(9)
        ),
        plans=Plans(
            tuple(Saving(long, 10.0**i, 10.0 ** (9 - i), long) for i in range(9)),
            tuple(Resident(one.id, i, 10**6 - i, one.seats) for i, one in enumerate(made)),
        ),
        checks=tuple(Check(long, long, True) for _ in range(50)),
        notes=(long,) * 10,
    )
