"""What is said about pictures has the day's own numbers, and says nothing that the day does not show."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.console import days
from tidings.console import captions, totals
from tidings.console.captions import CAPTIONS
from tidings.console.day import Day

DAYS = [days.sample(), days.empty(), days.alone(), days.crowded()]


def test_the_words_have_the_numbers_of_the_day() -> None:
    day = days.sample()
    reports = captions.reports(day)
    assert "9,403 message" in reports.shows
    assert f"{totals.opened(day):,} events" in reports.shows
    assert f"{totals.versions(day):,} versions" in reports.shows
    assert f"every {9_403 / totals.versions(day):.1f} reports" in reports.shows
    life = captions.life(day)
    assert "11 reports about one thing" in life.shows
    assert "5 reports added something, 6 did not" in life.shows
    assert (
        "4 versions were told within 32 min 30 s, the last to 38 subscribers, and it was the truth"
        in life.shows
    )
    assert "each of these 38 gets 11 messages instead of 4" in life.without
    suppression = captions.suppression(day)
    assert "On power/east the most was kept from subscribers: 96 % of 1,480 reports" in suppression.shows
    network = captions.network(day)
    busiest = max(day.brokers, key=totals.load)
    assert f"{busiest.id} had the most, {totals.load(busiest):,} messages" in network.shows
    assert f"{totals.carried(day):,} messages went over them" in network.shows
    assert "41,020 messages went between these brokers on the same day, 4.4 times as many" in network.without
    costs = captions.costs(day)
    assert "Without gathering: 81,400 messages, 4.8 times as many." in costs.without
    assert (
        "Mosquitto: 3,761,000 messages, 220 times as many, and 96 % of them unwanted (one broker)."
        in costs.without
    )


def test_the_latency_says_how_long_half_and_nearly_all_took() -> None:
    day = replace(days.sample(), latencies_ms=((2.0, 50), (30.0, 49), (1_400.0, 1)))
    shows = captions.latency(day).shows
    assert "Half of 100 deliveries took up to 2 ms, 99 of 100 up to 30 ms, the slowest about 1.4 s" in shows


def test_what_gathering_costs_more_is_said() -> None:
    day = days.sample()
    ours, raw = day.costs[:2]
    without = captions.network(replace(day, costs=(ours, replace(raw, carried=5_000)))).without
    assert "This is the price of it" in without
    assert "Without gathering 5,000 messages went between these brokers that day, not 9,340" in without
    assert f"subscribers got 81,400 messages instead of {ours.delivered:,}" in without
    alike = captions.network(replace(day, costs=(ours, replace(raw, carried=9_400)))).without
    assert "about as many messages went between these brokers, 9,400; but subscribers got 81,400" in alike
    fewer = captions.costs(replace(day, costs=(ours, replace(raw, delivered=ours.delivered // 2)))).without
    assert "0.5 times as many" in fewer


def test_an_event_that_ended_otherwise_is_not_called_true() -> None:
    day = days.sample()
    assert day.life is not None
    wrong = replace(day, life=replace(day.life, truth=(("severity", "5"),)))
    assert "truth" not in captions.life(wrong).shows


def test_what_was_not_run_is_not_compared() -> None:
    alone = captions.costs(replace(days.sample(), costs=days.costs(10)[:1]))
    assert alone.without == ""
    assert "not run in another way" in alone.shows
    network = captions.network(replace(days.sample(), costs=()))
    assert not re.search(r"\d", network.without)


@pytest.mark.parametrize("day", DAYS, ids=["sample", "empty", "alone", "crowded"])
@pytest.mark.parametrize("name", CAPTIONS)
def test_every_day_has_words_for_every_picture(day: Day, name: str) -> None:
    caption = CAPTIONS[name](day)
    for text in (caption.heading, caption.shows, caption.alt):
        assert text.strip()
        assert text == text.strip()
    # A name may be as long as it likes; a sentence may not.
    assert max(len(caption.shows), len(caption.without), len(caption.alt)) < 1_500
