"""Filters with topic filters: the index for each agrees with asking every one in turn."""

from __future__ import annotations

import random

from tidings.language import names
from tidings.language.filters import Filter, Unknown, parse
from tidings.matching.topical import TopicalIndex

FILTERS = ("a/b", "a/+", "a/#", "#", "b/c", "+/c")


def test_it_finds_what_asking_every_filter_finds() -> None:
    source = random.Random(7)
    held: list[tuple[int, str, Filter, Unknown]] = [
        (
            3 * number,
            source.choice(FILTERS),
            parse(f"x >= {source.randrange(9)}"),
            source.choice(list(Unknown)),
        )
        for number in range(60)
    ]
    index = TopicalIndex()
    for one in held:
        index.add(*one)
    assert len(index) == 60
    for topic in ("a/b", "a/c", "b/c", "d"):
        events: list[dict[str, int]] = [*({"x": source.randrange(9)} for _ in range(5)), {}]
        for event, found in zip(events, index.match_batch(topic, events), strict=True):
            assert found.tolist() == [
                number
                for number, topic_filter, wanted, unknown in held
                if names.match(topic_filter, topic) and wanted.matches(event, unknown)
            ]
        index.work()


def test_a_topic_filter_that_is_added_later_counts_for_topics_asked_before() -> None:
    index = TopicalIndex()
    assert [found.tolist() for found in index.match_batch("a/b", [{"x": 1}])] == [[]]
    index.add(0, "a/b", parse("x = 1"))
    assert [found.tolist() for found in index.match_batch("a/b", [{"x": 1}, {"x": 2}])] == [[0], []]
