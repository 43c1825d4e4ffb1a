"""Some come later, and ask for what they have missed: each at its own broker, over HTTP, by its own filter.

Any broker answers for the whole network. What is found in the log is compared with what truly happened, and
the requests are in the brokers' records, from which it can be planned where logs should be kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidings.client.log import LogReader
from tidings.console.day import Check
from tidings.demo.city import City, Fields, Subscriber
from tidings.demo.completeness import SLOW_S
from tidings.language import names
from tidings.records.log_rows import EVENTS
from tidings.records.workload import STORY

FOUND = "Who asks later finds in the log what happened"


def drawn(city: City, count: int, seed: int) -> tuple[Subscriber, ...]:
    """Those who ask: some of all who want something particular."""
    wanting = [one for one in city.subscribers if one.filter is not None]
    return tuple(random.Random(seed).sample(wanting, min(count, len(wanting))))


def ask(
    city: City,
    due: Mapping[int, Mapping[int, Fields]],
    asking: Sequence[Subscriber],
    page: Callable[[str], str],
    watch: Callable[[int], None] = lambda _: None,
) -> Check:
    """Have them ask, one after the other, for all of the day; `page` is where a broker answers."""
    wanted = right = 0
    wrong = ""
    for place, one in enumerate(asking):
        watch(place)
        found = answer(
            city, one, LogReader(f"http://{page(one.broker)}", timeout_s=SLOW_S, patience_s=SLOW_S)
        )
        for story, fields in due[one.client].items():
            wanted += 1
            right += found.get(story) == fields
            if found.get(story) != fields and not wrong:
                wrong = f"; {one.session} at {one.broker} does not find story {story} as it ended"
    return Check(
        FOUND, f"{right:,} of {wanted:,} events that {len(asking):,} clients ask for{wrong}", right == wanted
    )


def answer(city: City, one: Subscriber, reader: LogReader) -> dict[int, Fields]:
    """The stories that a subscriber finds in the logs of its topics, each as its last version says."""
    latest: dict[int, tuple[int, Fields]] = {}
    for topic in (topic.name for topic in city.topics if names.match(one.topic_filter, topic.name)):
        for held in reader.whole(topic).holders:
            batches = reader.read(topic, EVENTS, held.holder, held.first, held.next, one.where)
            for row in (row for batch in batches for row in batch.to_pylist()):
                story, version = row[STORY], row["_version"]
                if story is not None and version >= latest.get(story, (0, {}))[0]:
                    latest[story] = version, told(row)
    return {story: fields for story, (_, fields) in latest.items()}


def told(row: Mapping[str, Any]) -> Fields:
    """The declared fields of a row of the log that have a value."""
    return {name: value for name, value in row.items() if not name.startswith("_") and value is not None}
