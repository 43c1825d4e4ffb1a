"""The gatherer says what its plain twin says, of any declaration and any reports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.examples import examples
from tests.gathering.samples import SECOND, Run, runs
from tests.gathering.twin import Twin
from tidings.gathering import Closing, Gatherer, Telling


def plain(one: Telling | Closing) -> tuple[Any, ...]:
    if isinstance(one, Closing):
        return "closed", one.at_us, one.event, one.key, one.reason, one.told
    event = one.event
    return (
        *("told", one.at_us, event.opened_by, event.key, event.version),
        *(event.reports, event.complete, dict(event.fields), one.state.value, one.last),
    )


@settings(max_examples=examples(100), deadline=None)
@given(runs())
def test_the_gatherer_says_what_its_twin_says(run: Run) -> None:
    agree(run)


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None)
@given(runs(reports_max=40))
def test_the_gatherer_says_what_its_twin_says_at_length(run: Run) -> None:
    agree(run)


def agree(run: Run) -> None:
    gatherer, twin = Gatherer(run.topic), Twin(run.topic, run.every_us)
    gatherer.cycle(run.every_us)
    fates = []
    for report in run.reports:
        decision = gatherer.feed(report)
        fates.append((decision.fate.value, decision.conflicts))
        twin.feed(report)
        assert gatherer.next_us() == twin.next()
        assert gatherer.open == len(twin.open)
    end_us = run.reports[-1].at_us + 60 * SECOND
    gatherer.advance(end_us)
    twin.advance(end_us)
    out = gatherer.take()
    assert fates == twin.fates
    assert [plain(one) for one in out] == twin.out
    # An event's fields come in the declared order, whatever the order of reports.
    for one in out:
        if isinstance(one, Telling):
            names = list(dict.fromkeys(path[0] for path in run.topic.fields))
            assert list(one.event.fields) == [name for name in names if name in one.event.fields]
    counts = gatherer.counts
    assert counts.received == len(run.reports) == counts.opened + counts.merged + counts.redundant
    assert counts.conflicts == sum(conflicts for _, conflicts in fates)
    assert counts.opened == counts.closed == sum(isinstance(one, Closing) for one in out)
    assert counts.told == sum(isinstance(one, Telling) for one in out)
    assert counts.max_open == twin.max_open
    assert gatherer.open == 0
    assert gatherer.next_us() is None
