"""Workloads that are aimed at one rule of routing each (0035), on networks of three to six brokers.

Each waits for the moment at which its rule matters, and lets something happen just then: somebody publishes,
a broker dies. With the right code every seed holds; with the switch on that breaks the rule (`switches`), a
client misses within a few seeds what it was promised.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.simulation.campaign.routing import in_small_parts
from tests.simulation.campaign.stage import SETTINGS, Stage
from tidings.overlay.gather.messages import Mirror
from tidings.overlay.publishing.messages import Publish
from tidings.overlay.routing.messages import Change
from tidings.overlay.trees.messages import Roll
from tidings.overlay.versions.messages import Snapshot
from tidings.sim.brokers.promises import Breach
from tidings.sim.gathering.workload import Reporting


def _dies_before_its_disk_is_written(source: random.Random) -> Stage:
    """A broker dies when a home counts on it; back again and alone, it must know for whom to hold."""
    stage = Stage(source, source.choice(("home-far", "home-via via-far", "home-via via-far home-far")))
    stage["far"].sync_s = source.uniform(0.1, 2.0)
    stage.subscribe("home", "t")
    stage.start()
    stage.until(stage.granted("home", "t"))
    stage.run(0.0, 0.2)
    stage.crash("far")
    stage.cut_off("far")
    stage.run(0.0, 2.0)
    stage.start("far")
    stage.publish("far", "t")
    stage.run(0.0, 8.0)
    return stage


def _publishes_when_it_is_granted(source: random.Random) -> Stage:
    """The broker that hears of a subscription last publishes when it is granted."""
    stage = Stage(source, "home-via via-far", delays={"via-far": source.uniform(0.001, 0.4)})
    stage.start()
    stage.settle()
    stage.subscribe("home", "t", durable=source.random() < 0.5)
    stage.until(stage.granted("home", "t"))
    stage.publish("far", "t")
    return stage


def _publishes_when_it_is_back(source: random.Random) -> Stage:
    """A broker that was started anew publishes when it is in an epoch, with a home or without."""
    stage = Stage(source, "home-via via-next next-far", delays={"via-next": source.uniform(0.001, 0.2)})
    stage.start()
    stage.subscribe("home", "t")
    stage.settle()
    is_away = source.random() < 0.5
    if is_away:
        stage.cut_off("home")
        stage.run(0.0, 1.0)
    stage.crash("next", "far")
    stage.run(0.0, 1.0)
    stage.start("next", "far")
    stage.until(stage.together("far", "next" if is_away else "home"))
    stage.publish("far", "t")
    stage.run(0.0, 1.0)
    return stage


def _publishes_between_parts(source: random.Random) -> Stage:
    """A home is started anew; its set reaches another broker in parts, sooner than an epoch with it."""
    stage = Stage(
        source,
        "home-via via-far via-slow",
        delays={"via-slow": source.uniform(0.01, 1.0)},
        bandwidth={"via-far": source.choice((2_000.0, 10_000.0))},
    )
    topics = [f"t{number}" for number in range(source.randint(6, 20))]
    stage.start()
    for topic in topics:
        stage.subscribe("home", topic)
    stage.settle()
    stage.crash("home")
    stage.run(0.0, 0.1)
    stage.start("home")
    stage.until(stage.receives("far", Change))
    for topic in topics:
        stage.publish("far", topic)
    return stage


def _publishes_for_an_absent_home(source: random.Random) -> Stage:
    """A home is out of reach for a publisher, which may have been started anew since, and never met it."""
    stage = Stage(source, "home-via via-far")
    stage.start()
    stage.subscribe("home", "t")
    stage.settle()
    if source.random() < 0.5:
        stage.crash("home")
    else:
        stage.cut_off("home")
    stage.until(stage.apart("far", "home"))
    if source.random() < 0.5:
        stage.crash("far")
        stage.run(0.0, 1.0)
        stage.start("far")
        stage.until(stage.together("far", "via"))
        stage.run(0.0, 0.2)
    stage.publish("far", "t")
    stage.run(0.0, 2.0)
    return stage


def _loses_a_member_before_the_others(source: random.Random) -> Stage:
    """One home has a publication, one has not, and a broker is gone: the next epoch numbers them anew."""
    stage = Stage(source, "far-got far-missed far-gone")
    stage.start()
    stage.subscribe("got", "t")
    stage.subscribe("missed", "t")
    stage.settle()
    stage.publish("far", "t")
    stage.until(stage.sends("far", Publish, "missed"))
    stage.crash("missed", "gone")
    stage.run(0.0, 0.2)
    stage.start("missed")
    stage.run(0.0, 5.0)
    return stage


def _subscribes_before_a_version_is_told(source: random.Random) -> Stage:
    """A home subscribes between the moment in which a version is due and the one in which it is safe."""
    merge_after_s = source.choice((0.0, 0.2, 1.0))
    strategy = source.choice(("median", "centre", "traffic"))
    stage = Stage(
        source, "seat-home seat-watch", reporting=Reporting(merge_after_s=merge_after_s, seat=strategy)
    )
    stage.subscribe("watch", "#")
    stage.start()
    stage.settle()
    stage["seat"].sync_s = source.uniform(0.05, 0.5)
    stage.report("home", "thing")
    stage.until(stage.receives("watch", Mirror))
    stage.run(merge_after_s, merge_after_s + 0.1)
    stage.subscribe("home", "#", durable=False)
    return stage


def _asks_before_its_set_is_there(source: random.Random) -> Stage:
    """The broker between a home and a seat is started anew. It takes over the whole set of the home, which
    has just subscribed to more; while it lets the seat know that there is more, it passes on the question.
    """
    delay_s = source.uniform(0.1, 0.3)
    stage = Stage(
        source,
        "mid-home mid-seat seat-watch other-mid",
        delays={"mid-home": delay_s, "mid-seat": delay_s * source.uniform(0.8, 1.5), "other-mid": 0.001},
        settings=replace(SETTINGS, settle_s=source.uniform(0.02, 0.3), resume_within_s=3.0),
        reporting=Reporting(merge_after_s=0.0),
    )
    stage.start("seat")
    stage.report("seat", "first")
    stage.settle()
    stage.subscribe("watch", "#")
    stage.start("watch")
    stage.settle()
    stage.subscribe("home", "t")
    stage.start("mid", "home")
    stage.settle()
    stage.publish("mid", "t")  # with it, its disk has who has the seat
    stage.settle()
    stage.crash("mid")
    stage.run(0.0, 0.2)
    stage.start("mid")
    stage.until(stage.linked("mid", "home", "seat"))
    stage.start("other")  # so that an epoch begins before anybody has fetched a set
    stage.until(stage.sends("home", Roll, "mid"))
    stage.subscribe("home", "roads0/reports", durable=False)
    stage.until(stage.sends("seat", Snapshot, "mid"))
    stage.report("seat", "second")
    return stage


AIMED: dict[str, Callable[[random.Random], Stage]] = {
    "confirmed-before-on-disk": _dies_before_its_disk_is_written,
    "granted-without-a-member": _publishes_when_it_is_granted,
    "unknown-counts-as-empty": _publishes_when_it_is_back,
    "replaced-piece-by-piece": _publishes_between_parts,
    "not-held-for-strangers": _publishes_for_an_absent_home,
    "bits-instead-of-names": _loses_a_member_before_the_others,
    "matched-before-numbered": _subscribes_before_a_version_is_told,
    "asked-before-known": _asks_before_its_set_is_there,
}
"""By the switch that breaks the rule."""


def breaches(name: str, seed: int) -> list[Breach]:
    """What one seed of a workload breaks."""
    with in_small_parts():
        return AIMED[name](random.Random(f"aimed/{name}/{seed}")).end()
