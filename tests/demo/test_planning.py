"""Plans for a day: that they are within what was asked for, read back, and said with what they save."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.console import days
from tests.demo.test_day import city
from tidings.console import page
from tidings.demo import planning
from tidings.demo.city import Place
from tidings.planning import plans, topologies
from tidings.planning.communities.base import Flows
from tidings.planning.graphs import Graph

PATH = Graph.of([("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)])
PLACES = [Place(id_, f"b{at}", "East" if at < 2 else "West", at, 0.0) for at, id_ in enumerate("abcd")]

HOMES = {f"client-{number}": "abcd"[number % 4] for number in range(40)}
FLOWS = Flows.of(
    [(f"client-{one}", f"client-{(one + 3) % 40}", 5.0) for one in range(40)]
    # Two friends at both ends of the network.
    + [("client-4", "client-7", 60.0), ("client-7", "client-4", 60.0)],
    HOMES,
)
RATES = [("roads", "a", 2.0), ("roads", "d", 1.0), ("rain", "c", 1.0), ("rain", "d", 1.0)]


@pytest.fixture(scope="module")
def made() -> planning.Planned:
    return planning.Planned(
        moves=planning.moved(PATH, PLACES, FLOWS, HOMES, seed=1),
        messages=FLOWS.copies,
        clients=len(FLOWS.clients),
        stores=planning.stored(PATH, RATES),
        requests=5,
        requests_hops=1.5,
    )


def test_at_most_one_client_in_ten_moves_to_where_those_are_that_it_talks_to(
    made: planning.Planned,
) -> None:
    moves = made.moves
    assert 0 < len(moves.moves) <= planning.MOVED_SHARE * len(HOMES) == 4
    assert {one.client for one in moves.moves} & {"client-4", "client-7"}
    assert moves.hops.after < moves.hops.before
    assert moves.forecast.frontier[0][0] == 0


def test_every_topic_is_kept_twice_at_half_of_the_brokers(made: planning.Planned) -> None:
    assert {len(held) for held in made.stores.assignment.values()} == {planning.REPLICAS}
    assert len(made.stores.stores) == 2


def test_hops_between_brokers_are_those_without_the_links_of_clients(made: planning.Planned) -> None:
    before, after = made.between_brokers
    assert before == pytest.approx(made.messages * (made.moves.hops.before - 2))
    assert after < before


def test_a_request_travels_from_the_broker_that_was_asked_to_the_one_that_had_it() -> None:
    assert planning.travelled(PATH, [("a", "a", 3), ("a", "d", 1)]) == 0.75
    assert planning.travelled(PATH, []) == 0.0


def test_the_network_is_a_file_that_other_commands_read(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    day = city(tmp_path)
    file.write_text(planning.network(day), encoding="utf-8")
    read = topologies.read(file)
    assert [(place.id, place.cluster) for place in read.places] == [
        (place.id, place.region) for place in day.brokers
    ]
    assert [(link.one, link.other) for link in read.links] == list(day.links)


def test_plans_are_read_back_as_they_were_written(made: planning.Planned, tmp_path: Path) -> None:
    for file, plan in planning.files(tmp_path, made).items():
        assert plans.read(plans.write(plan), file.name) == plan


def test_what_is_saved_is_said_beside_what_it_takes(made: planning.Planned) -> None:
    messages, steps, requests = planning.savings(made)
    moved = len(made.moves.moves)
    assert messages.by == steps.by == f"{moved} of 40 clients move"
    assert (requests.before, requests.after) == (1.5, made.stores.mean_hops)
    assert requests.by == "2 copies, at 2 of 4 brokers"
    told = planning.summary(made)
    assert told["moves"]["hops"] == {"before": messages.before, "after": messages.after}
    assert told["stores"]["hops"]["before"] == 1.5


def test_the_page_shows_clients_and_stores_of_every_broker(made: planning.Planned) -> None:
    shown = planning.shown(made)
    assert [one.broker for one in shown.residents] == list("abcd")
    assert sum(one.before for one in shown.residents) == sum(one.after for one in shown.residents) == 40
    assert {one.broker for one in shown.residents if one.keeps} == set(made.stores.stores)
    assert shown.savings == planning.savings(made)


def test_the_page_of_the_day_draws_both_networks_before_and_after(
    made: planning.Planned, tmp_path: Path
) -> None:
    further = planning.further(made)
    assert list(further) == ["moves", "stores"]
    page.write(replace(days.sample(), plans=planning.shown(made)), tmp_path, further)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    for name, (_, caption, _) in further.items():
        assert f'<section class="card" id="{name}">' in text
        assert f'<a href="{name}.png">' in text
        assert (tmp_path / f"{name}.png").exists()
        assert "instead of" in caption.without


def test_each_plan_has_a_page_beside_that_of_the_day(made: planning.Planned, tmp_path: Path) -> None:
    planning.write_pages(made, tmp_path)
    files = [file for _, file in planning.shown(made).pages]
    assert files == ["moves.html", "stores.html"]
    assert all((tmp_path / file).stat().st_size > 10_000 for file in files)
