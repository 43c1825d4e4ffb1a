"""The declarations of a workload's topics, as TOML that `tidings topic check` takes. No pyspark, no files.

Each topic is gathered by the story: all reports of one event are about one thing, and no other event shares
it. Its timings follow from the delays of reports, so that a story is one event however late the last report
comes. Readers that want something else edit the files; tables do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.language.declarations import topic_text
from tidings.language.topics import Topic
from tidings.records import workload as tables
from tidings.workload import quantiles
from tidings.workload.fields import ranges
from tidings.workload.model import Model

MERGE_AFTER_S = 4
"""Tm, as where nothing is declared."""

REDUNDANT_FOR_S = 60
"""The least Tr, as where nothing is declared."""

DAY_US = 86_400_000_000

DURATION_S_MAX = 3_155_760_000
"""The longest that a declaration can say: a hundred years."""


def texts(model: Model) -> Mapping[str, str]:
    """The text of each topic's declaration, by the name of its file."""
    tops = model.dimensions[0].children[0]
    names = sorted({model.topics[top] for top in tops})
    return {f"{name.replace('/', '-')}.toml": topic_text(declared(model, name)) + "\n" for name in names}


def declared(model: Model, name: str) -> Topic:
    """The declaration of one topic."""
    fields: dict[str, object] = {tables.STORY: {"type": "int"}}
    for one in ranges(model):
        traits: dict[str, object] = {"type": "int", "domain": [one.low, one.low + one.count - 1]}
        if one.name == tables.SEVERITY:
            traits["conflict"] = "max"
        fields[one.name] = traits
    return Topic.from_mapping(
        {
            "name": name,
            "kind": "gathered",
            "key": [tables.STORY],
            "merge_after": f"{MERGE_AFTER_S}s",
            "redundant_for": f"{redundant_for_s(model)}s",
            "window": "none",
            "stays_open": "reported",
            # Requests ask for what happened in the workload.
            "keep": f"{max(1, -(-model.spec.time.duration_us // DAY_US))}d",
            "fields": fields,
        },
        source=name,
    )


def redundant_for_s(model: Model) -> int:
    """Tr: no report of an event comes later than this after another one."""
    lows, widths = quantiles.exponential(model.spec.reports.delay_us)
    longest_us = int((lows + widths).max())
    return min(max(REDUNDANT_FOR_S, -(-longest_us // 1_000_000)), DURATION_S_MAX)
