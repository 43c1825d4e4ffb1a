"""Each first-level subject has a topic, and its part of the axis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.workload import models
from tidings.workload import topics
from tidings.workload.hierarchies import from_nested
from tidings.workload.intervals import intervals


def test_a_node_has_the_topic_of_its_first_level() -> None:
    found = dict(zip(models.SUBJECT.nodes, topics.names(models.SUBJECT), strict=True))
    assert found["everything"] == "subject/+"
    assert found["sports"] == found["tennis"] == "subject/sports"
    assert found["birds"] == "subject/science"


def test_names_that_a_topic_cannot_have_are_told_apart() -> None:
    hierarchy = from_nested(
        "subject", "all", {"Arts & Crafts": [], "arts/crafts": [], "+": [], "#": [], "日本": []}
    )
    assert topics.names(hierarchy)[1:] == (
        "subject/arts-crafts",
        "subject/arts-crafts-2",
        "subject/other",
        "subject/other-4",
        "subject/日本",
    )


@given(st.integers(1, 9), st.integers(100, 1000))
def test_every_place_belongs_to_the_nearest_subject(count: int, resolution: int) -> None:
    hierarchy = from_nested("subject", "all", {str(number): [] for number in range(count)})
    lows, highs = intervals(hierarchy, resolution)
    begins, ends = topics.territories(hierarchy, lows, highs, resolution)
    for place in range(resolution):
        owners = [node for node in hierarchy.children[0] if begins[node] <= place <= ends[node]]
        distance = {
            node: max(int(lows[node]) - place, place - int(highs[node]), 0) for node in hierarchy.children[0]
        }
        assert owners == [min(distance, key=lambda node: (distance[node], node))]
    assert (begins[0], ends[0]) == (0, resolution - 1)
