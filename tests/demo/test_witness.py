"""What is counted as lost, repeated and unwanted, whatever brokers say."""

from __future__ import annotations

from dataclasses import replace

from tidings.demo.roads import Fate, Fields, Report, Subscriber
from tidings.demo.witness import Delivered, Witness

TOPIC = "traffic/athens"
CREWS = Subscriber("crews", "north", "traffic/#", "fire")
DESK = Subscriber("desk", "east", "traffic/#")


def report(at_s: float, **fields: str | int) -> Report:
    return Report(at_s, TOPIC, "north", {"place": "Omonia", **fields})


SAID = [report(0, severity=2), report(1, severity=1), report(2, severity=3, fire=True)]
FINAL: Fields = {"place": "Omonia", "severity": 3, "fire": True}


def told(version: int, fields: Fields, event: str = "north:1:1") -> Delivered:
    return Delivered(TOPIC, event, version, version, "north", fields)


def test_a_report_opens_adds_or_says_nothing_new() -> None:
    witness = Witness([DESK], SAID)
    for one in SAID:
        witness.says(one)
    assert [fate for _, fate in witness.said] == [Fate.OPENS, Fate.DROPPED, Fate.MERGES]
    assert witness.reports == 3


def test_nothing_is_missing_when_everybody_has_the_last_of_what_they_asked_for() -> None:
    witness = Witness([CREWS, DESK], SAID)
    witness.hears("desk", told(1, {"place": "Omonia", "severity": 2}))
    witness.hears("desk", told(2, FINAL))
    witness.hears("crews", told(2, FINAL))
    assert witness.expected == 2
    assert witness.missing() == []
    assert (witness.versions, witness.deliveries, witness.repeated, witness.unwanted) == (2, 3, [], [])


def test_an_event_that_did_not_come_is_lost_and_named() -> None:
    witness = Witness([CREWS, DESK], SAID)
    witness.hears("desk", told(2, FINAL))
    (missing,) = witness.missing()
    assert missing == (
        "crews asked for fire and should know of Omonia: severity 3, fire True; it has nothing"
    )


def test_an_event_whose_last_version_did_not_come_is_lost() -> None:
    witness = Witness([DESK], SAID)
    witness.hears("desk", told(1, {"place": "Omonia", "severity": 2}))
    (missing,) = witness.missing()
    assert missing.endswith("it has version 1: severity 2")


def test_an_earlier_version_that_comes_late_changes_nothing() -> None:
    witness = Witness([DESK], SAID)
    witness.hears("desk", told(2, FINAL))
    witness.hears("desk", told(1, {"place": "Omonia", "severity": 2}))
    assert witness.missing() == []
    assert witness.events["north:1:1"].latest.version == 2


def test_a_version_that_comes_again_is_repeated() -> None:
    witness = Witness([CREWS, DESK], SAID)
    for name in ("desk", "desk", "crews", "desk"):
        witness.hears(name, told(2, FINAL))
    assert witness.repeated == ["desk got version 2 of north:1:1 again"] * 2
    assert witness.resent == 0


def test_what_a_broker_marks_as_sent_again_is_no_repeat() -> None:
    """MQTT's DUP: a first copy may have it too, if a broker that was killed does not know what it sent."""
    witness = Witness([CREWS, DESK], SAID)
    witness.hears("desk", told(2, FINAL))
    for name in ("desk", "crews"):
        witness.hears(name, replace(told(2, FINAL), dup=True))
    assert (witness.repeated, witness.resent, witness.deliveries) == ([], 1, 3)
    witness.hears("desk", told(2, FINAL))
    assert len(witness.repeated) == 1


def test_what_nobody_asked_for_is_unwanted() -> None:
    witness = Witness([CREWS], SAID)
    witness.hears("crews", told(1, {"place": "Omonia", "severity": 2}))
    assert witness.unwanted == ["crews asked for fire and got {'place': 'Omonia', 'severity': 2}"]
