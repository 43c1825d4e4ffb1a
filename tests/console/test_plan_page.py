"""The page of a plan: whole, escaped, self-contained, for every kind of plan, tried or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.console.browser import find, tab
from tests.console.test_page import HOSTILE, PNG, Reader, pictures
from tests.planning.networks import example
from tests.sim import plan_towns as towns
from tidings.console import plan_page, plan_scene, plan_words
from tidings.console.looks import LOOKS
from tidings.planning import plans
from tidings.planning.graphs import Graph
from tidings.planning.plans import MovesPlan, Pair, Plan, StoresPlan
from tidings.planning.stores import published
from tidings.sim.brokers.promises import Breach
from tidings.sim.plans import requests
from tidings.sim.plans.requests import StoresTrial
from tidings.sim.plans.trial import Load, Reason, Step, Trial

HOMES = {"0": "b2", "1": "b3", "2": "b3"}
FLOWS = [("0", "1", 5.0), ("0", "2", 5.0)]


def moving() -> MovesPlan:
    plan = towns.plan(towns.RING, HOMES, {"1": "b2"}, FLOWS)
    forecast = msgspec.structs.replace(plan.forecast, frontier=[(0, 3.0), (1, 2.5), (2, 2.0)])
    return msgspec.structs.replace(plan, forecast=forecast, settings={"overload": 1.5, "seed": 0})


def moved() -> Trial:
    """What the ring gives, as the simulator finds it."""
    hops = (Step(Reason.FORECAST, 3.0, 2.5), Step(Reason.TREE, 5.0, 3.5), Step(Reason.MEASURED, 5.0, 3.5))
    backbone = (
        Step(Reason.FORECAST, 0.0, 0.0),
        Step(Reason.TREE, 10.0, 5.0),
        Step(Reason.ONCE, 5.0, 5.0),
        Step(Reason.MEASURED, 5.0, 5.0),
    )
    five = Load(Pair(0.0, 0.0), Pair(5.0, 5.0))
    links = dict.fromkeys([("b0", "b1"), ("b0", "b3"), ("b1", "b2")], five)
    return Trial(
        moves=1,
        unmoved=2,
        messages=Pair(10, 10),
        published=5,
        hops=hops,
        backbone=backbone,
        over_links=(
            Step(Reason.MESSAGES, 10.0, 5.0),
            Step(Reason.TREE, 30.0, 15.0),
            Step(Reason.ONCE, 15.0, 15.0),
            Step(Reason.MEASURED, 15.0, 15.0),
        ),
        links={**links, ("b2", "b3"): Load(Pair(10.0, 5.0), Pair(0.0, 0.0))},
        brokers=dict.fromkeys(("b0", "b1", "b2", "b3"), five),
        clusters={"east": Pair(2.0, 2.0), "west": Pair(0.0, 0.0)},
        clients={"b0": (0, 0), "b1": (0, 0), "b2": (1, 2), "b3": (2, 1)},
        breaches=(),
        virtual_s=20.0,
    )


def storing() -> StoresPlan:
    problem = example()
    placed = published.repaired(problem, published.votes(problem))
    return plans.of_stores(problem, placed, "placement", {"k": 2, "capacity": 2})


def walked() -> StoresTrial:
    return requests.tried(storing(), [("a", "1"), ("a", "6"), ("c", "3"), ("nobody", "3")])


SHOWN: dict[str, tuple[Callable[[], Plan], Callable[[], plan_scene.AnyTrial] | None, set[str]]] = {
    "moves": (moving, None, {"network", "moves", "loads", "frontier"}),
    "moves, tried": (moving, moved, {"steps", "network", "moves", "loads", "frontier"}),
    "stores": (storing, None, {"network", "topics", "loads"}),
    "stores, tried": (storing, walked, {"steps", "network", "topics", "loads"}),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if "tried" in name else pytest.mark.slow) for name in SHOWN],
)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    name = str(request.param)
    plan, trial, _ = SHOWN[name]
    return name, plan_page.write(plan(), tmp_path_factory.mktemp("plan"), trial() if trial else None)


def test_the_page_is_whole_and_loads_nothing(shown: tuple[str, Path]) -> None:
    name, page = shown
    read = Reader(page.read_text(encoding="utf-8"))
    names = SHOWN[name][2]
    assert (read.wrong, read.open) == ([], [])
    assert len(pictures(read)) == len(names) * len(LOOKS)
    assert {file.name for file in page.parent.iterdir()} == {"index.html", *(f"{one}.png" for one in names)}
    assert all((page.parent / f"{one}.png").read_bytes().startswith(PNG) for one in names)
    loaded = (
        read.attributes("source", "srcset") + read.attributes("img", "src") + read.attributes("link", "href")
    )
    assert all(one.startswith("data:") for one in loaded)
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "iframe", "object", "embed", "form"})
    assert [one for one in read.attributes("a", "href") if not (page.parent / one).is_file()] == []
    assert [alt for alt in read.attributes("img", "alt") if len(alt) < 25] == []
    assert page.stat().st_size < 1_500_000


@pytest.mark.slow
@pytest.mark.skipif(find() is None, reason="needs a Chromium")
def test_every_picture_draws_in_a_browser_and_nothing_is_wider_than_a_phone(shown: tuple[str, Path]) -> None:
    program = find()
    assert program is not None
    with tab(program) as browser:
        for width in (360, 1280):
            browser.screen(width, 800, dark=width == 360)
            browser.open(shown[1])
            drawn = browser.value(
                "Promise.all([...document.images].map(one => one.decode().then(() => one.naturalWidth)))"
            )
            assert all(natural > 0 for natural in drawn)
            assert browser.value("document.documentElement.scrollWidth") == width
        assert browser.complaints == []


def words(plan: Plan, trial: plan_scene.AnyTrial | None) -> str:
    return Reader(plan_page.html(plan, trial, {})).text


def test_forecast_and_measured_stand_side_by_side_with_their_reasons() -> None:
    told = words(moving(), moved())
    assert "3.000 → 2.500 −16.7 %" in told
    assert "5.000 → 3.500 −30.0 %" in told
    assert "+2.000 before and +1.000 after: brokers send along one tree for each topic" in told
    assert "crosses a link once for all who want it behind" in told
    assert "Nothing was lost and nothing came twice, before and after" in told
    assert "2 clients of the plan neither publish nor subscribe" in told


def test_the_page_of_stores_says_that_it_is_not_broker_code() -> None:
    told = words(storing(), walked())
    assert "This is not broker code" in told
    assert "1 request was for topics that the plan does not keep" in told
    assert "what was asked for is not what the plan was made for" in told


def test_a_broken_promise_is_the_first_thing_to_be_seen() -> None:
    told = words(moving(), replace(moved(), breaches=(Breach("nothing lost", "c1 never got it"),)))
    assert "nothing lost: c1 never got it" in told
    assert "promises broken" in told


def test_names_from_outside_are_escaped() -> None:
    plan = moving()
    hostile = msgspec.structs.replace(
        plan,
        algorithm=HOSTILE,
        warnings=[HOSTILE],
        moves=[msgspec.structs.replace(plan.moves[0], client=HOSTILE)],
        settings={HOSTILE: HOSTILE},
    )
    page = plan_page.html(hostile, moved(), {})
    assert "<script>" not in page
    assert "alert(&quot;x&quot;)" in page


@pytest.mark.slow
def test_many_brokers_with_long_names_are_drawn_within_bounds(tmp_path: Path) -> None:
    """More than a screen can tell apart, in one cluster too many, with names that no picture has room for."""
    count = 300
    names = [f"{'broker of a very long name indeed ' * 5}{at}" for at in range(count)]
    links = [(names[at], names[at // 2], 1.0) for at in range(1, count)]
    clusters = {name: f"{'cluster ' * 20}{at % 20}" if at else "" for at, name in enumerate(names)}
    plan = moving()
    crowded = msgspec.structs.replace(
        plan,
        network=plans.Topology(names, links, clusters),
        moves=[plans.Move(f"{HOSTILE}{at}", names[at], names[-at], across=True) for at in range(1, 200)],
        clients=plans.Seats(dict.fromkeys(names[1:], 3), dict.fromkeys(names[1:], 3)),
        load={name: 1.0 for name in clusters.values() if name},
    )
    page = plan_page.write(crowded, tmp_path)
    read = Reader(page.read_text(encoding="utf-8"))
    assert (read.wrong, read.open) == ([], [])
    assert len(pictures(read)) == 4 * len(LOOKS)
    assert page.stat().st_size < 2_000_000


def test_a_page_may_be_a_file_with_its_pictures_beside(tmp_path: Path) -> None:
    page = plan_page.write(storing(), tmp_path / "deep" / "mine.html")
    assert page == tmp_path / "deep" / "mine.html"
    assert (tmp_path / "deep" / "mine-network.png").is_file()


def test_streams_hold_those_who_stay_and_those_who_go() -> None:
    found = {(one.source, one.goal): one.clients for one in plan_scene.streams(moving())}
    assert found == {("east", "east"): 1, ("west", "west"): 1, ("west", "east"): 1}


def test_brokers_are_drawn_as_far_apart_as_their_links_say() -> None:
    path = plan_scene.placed(Graph.of([(str(at), str(at + 1), 1.0) for at in range(5)]))
    assert np.abs(np.diff(path[:, 0])) == pytest.approx(np.full(5, 0.2), abs=0.02)
    one = plan_scene.placed(Graph.of([], ["alone"]))
    assert one.tolist() == [[0.5, 0.5]]
    assert plan_scene.placed(Graph.of([("a", "b", 1.0)])).shape == (2, 2)


def test_steps_that_explain_nothing_are_called_so() -> None:
    steps = (Step(Reason.FORECAST, 1.0, 1.0), Step(Reason.MEASURED, 2.0, 1.0))
    assert plan_words.why(steps, plan_words.HOPS, 1) == [
        "+1.0 before and +0.0 after: what none of the reasons above explains."
    ]
