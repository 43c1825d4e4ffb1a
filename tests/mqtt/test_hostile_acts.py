"""All that a client can do to be expensive, beside one that pings: no turn does more than it may.

Each act is a hostile client, or several. What is counted in each turn is lines of Python, topic filters that
are asked for and retained messages that are looked at: more would make the one that pings wait. What is done
in C is not seen here; where that can be much, `language` counts steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.mqtt.talk import Talk
from tests.mqtt.turns import Turns
from tidings.mqtt.costs import RETAINED_PER_TURN, TOPIC_FILTER_STEPS, TURN_STEPS
from tidings.mqtt.events import Access, AccessChanged, Rule
from tidings.mqtt.packets import Asked, Properties, Publish, Suback, Subscribe, Unsubscribe
from tidings.mqtt.reasons import Reason

LINES_MAX = 700_000
"""In one turn. A core runs 20 to 60 million of ours in a second: this is 12 to 35 ms."""

DISJUNCTS = " AND ".join(f"(a{at} > 1 OR b{at} > 1)" for at in range(6))
TERMS = " AND ".join(["y7 > 1", *(f"z{at} > 1" for at in range(7))])


def dense(number: int) -> str:
    """A content filter of 250 characters: 64 alternatives of 14 terms, and another for each number."""
    return f"{DISJUNCTS} AND {TERMS} AND x > {number}"


def subscribe(number: int, topic: str, *where: str) -> Subscribe:
    return Subscribe(number, (Asked(topic),), Properties(user=tuple(("where", text) for text in where)))


def quiet(talk: Talk) -> None:
    """Let the broker do all that it has to do."""
    talk.advance(1.0)


def many_content_filters(talk: Talk) -> None:
    talk.tell(AccessChanged(Access((Rule(True, "publish", "#"),), anonymous=True)))
    hostile = talk.connect("hostile")
    hostile.send(subscribe(1, "t", *(dense(at) for at in range(90))))


def dense_filters(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    for at in range(4):
        hostile.send(subscribe(at + 1, "t", dense(at)))


def dense_filters_of_four_that_close(talk: Talk) -> None:
    hostile = [talk.connect(f"hostile-{at}") for at in range(4)]
    for client in hostile:
        client.send(*(subscribe(at + 1, f"t/{at}", dense(at)) for at in range(20)))
    for client in hostile:
        client.lose()


def wide(number: int) -> str:
    """A content filter that is granted, and takes nearly as many steps as one may."""
    return f"a IN ({', '.join(str(at + number) for at in range(900))}) AND b{number} > 1"


def wide_filters_and_a_message(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    for at in range(60):
        hostile.send(subscribe(at + 1, "t", wide(at)))
        quiet(talk)
    assert [answer.reasons for answer in hostile.take(Suback)] == [(0,)] * 60
    for _ in range(20):
        hostile.publish("t", b'{"a": 1, "b": 1}', 1)


def wide_filters_of_four_that_close(talk: Talk) -> None:
    hostile = [talk.connect(f"hostile-{at}") for at in range(4)]
    for client in hostile:
        client.send(*(subscribe(at + 1, f"t/{at}", wide(at)) for at in range(20)))
    for client in hostile:
        client.lose()


def patterns_within_their_bound(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    for at in range(5):
        hostile.send(subscribe(at + 1, "t", f"a LIKE '%_{at}{'a' * 190}%'"))
    quiet(talk)
    assert [answer.reasons for answer in hostile.take(Suback)] == [(0,)] * 5
    hostile.publish("t", json.dumps({"a": "a" * 1_000_000}).encode(), 1)


def patterns(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    where = " OR ".join(f"a LIKE '%{'a_' * 50}c%{at}%'" for at in range(60))
    hostile.send(subscribe(1, "t", where))
    quiet(talk)
    hostile.publish("t", json.dumps({"a": "a" * 1_000_000}).encode(), 1)


def one_pattern(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(subscribe(1, "t", "a LIKE '%_fire%'"))
    quiet(talk)
    hostile.publish("t", json.dumps({"a": "a" * 1_000_000}).encode(), 1)


def deep_filter(number: int) -> str:
    """A topic filter of 190 levels; topics of as many `x` match all but the last level of each."""
    return "/".join(["+x"[number >> bit & 1] for bit in range(10)] + ["+"] * 179 + ["never"])


def deep_topics(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    for at in range(10):
        filters = (deep_filter(100 * at + one) for one in range(100))
        hostile.send(Subscribe(at + 1, tuple(Asked(text) for text in filters)))
        quiet(talk)
    for at in range(3):
        hostile.send(Publish("x/" * 189 + str(at), b"x"))


def small_objects(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(subscribe(1, "t", "a > 1"))
    quiet(talk)
    hostile.publish("t", json.dumps({"b": [{"c": at} for at in range(70_000)]}).encode(), 1)


def many_topic_filters(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(Subscribe(1, tuple(Asked(f"a/{at}/+") for at in range(1_500))))
    quiet(talk)
    hostile.send(Unsubscribe(2, tuple(f"a/{at}/+" for at in range(1_500))))


def topics_of_the_broker(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(Subscribe(1, tuple(Asked(f"$SYS/broker/{at}/#") for at in range(4_000))))


def topic_filters_without_a_right(talk: Talk) -> None:
    talk.tell(AccessChanged(Access((Rule(True, "publish", "#"),), anonymous=True)))
    hostile = talk.connect("hostile")
    hostile.send(Subscribe(1, tuple(Asked(f"a/{at}/+") for at in range(1_500))))


def too_many_topic_filters(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(Subscribe(1, (Asked("a"),) * 200_000))
    assert hostile.dismissed() == Reason.QUOTA_EXCEEDED


def too_many_user_properties(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.send(Publish("t", b"x", properties=Properties(user=(("a", "b"),) * 200_000)))
    assert hostile.dismissed() == Reason.QUOTA_EXCEEDED


def retained_messages(talk: Talk) -> None:
    publisher = talk.connect("publisher")
    for at in range(400):
        publisher.send(Publish(f"r/{at}", b'{"a": %d}' % at, retain=True))
    hostile = [talk.connect(f"hostile-{at}") for at in range(20)]
    for at, client in enumerate(hostile):
        client.send(subscribe(1, "r/#", f"a > {at} AND b > 1"))


def requests(talk: Talk) -> None:
    hostile = talk.connect("hostile")
    hostile.subscribe("$tidings/reply/me")
    about = Properties(response_topic="$tidings/reply/me")
    hostile.send(*(Publish("$tidings/topic/list", b"{}", properties=about) for _ in range(200)))


ACTS: tuple[Callable[[Talk], None], ...] = (
    many_content_filters,
    dense_filters,
    dense_filters_of_four_that_close,
    wide_filters_and_a_message,
    wide_filters_of_four_that_close,
    patterns_within_their_bound,
    patterns,
    one_pattern,
    deep_topics,
    small_objects,
    many_topic_filters,
    topics_of_the_broker,
    topic_filters_without_a_right,
    too_many_topic_filters,
    too_many_user_properties,
    retained_messages,
    requests,
)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_no_turn_does_more_than_it_may(act: Callable[[Talk], None], monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Turns(monkeypatch)
    talk.pinger = pinger = talk.connect("pinger")
    talk.lines_max = LINES_MAX
    act(talk)
    quiet(talk)
    assert not pinger.closed
    assert talk.most("lines") > 0
    assert talk.most("asked") <= TURN_STEPS // TOPIC_FILTER_STEPS
    assert talk.most("looked") <= RETAINED_PER_TURN
