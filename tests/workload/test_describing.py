"""What is said of a workload: counts that are the tables' own, as far as there are tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot
from matplotlib.axis import Axis

from tests.records import workloads
from tests.workload import models
from tidings.errors import InputError
from tidings.pipeline.workload.twin import interests, subscriptions
from tidings.records.workload_reading import Workload
from tidings.workload import describing, plots


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interests and subscriptions of a model; the network and what happens in it by hand."""
    at = tmp_path_factory.mktemp("workload")
    model = models.tiny(subscriptions={"coming": 0.5, "lifetime_us": 3_600_000_000, "assume": 0.25})
    made = interests.rows(model, {})
    workloads.write_table(at, "interests", made, parts=3)
    workloads.write_table(at, "subscriptions", subscriptions.rows(model, {"interests": made}), parts=2)
    drawn: dict[str, Any] = {**workloads.drawn(3)}
    workloads.write(at, parts=2, **{name: drawn[name] for name in ("brokers", "links", "clients", "events")})
    # Event 0 has no report, event 1 one, and so on.
    reports = [workloads.report(100 * event + at, event, at) for event in range(5) for at in range(event)]
    workloads.write(at, reports=reports)
    return at


@pytest.fixture(scope="module")
def found(folder: Path) -> describing.Description:
    return describing.describe(folder)


def rows(found: describing.Description, name: str, key: str) -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in found.tables[name]}


def test_tables_are_counted(found: describing.Description) -> None:
    counted = {name: row["rows"] for name, row in rows(found, "tables", "table").items()}
    assert counted["subscriptions"] == 500
    assert counted["reports"] == 10
    assert list(counted) == ["brokers", "links", "clients", "interests", "subscriptions", "events", "reports"]


def test_regions_have_the_models_subscriptions_and_members(found: describing.Description) -> None:
    model = models.tiny()
    for at, name in enumerate(models.REGIONS):
        row = rows(found, "regions", "region")[name]
        assert row["subscriptions"] == model.allocated[..., at].sum()
        assert row["members"] == model.members[..., at].sum()
        assert row["interests_sampled"] == np.count_nonzero(model.allocated[..., at])


def test_base_and_general_interests_are_told_apart(found: describing.Description) -> None:
    model = models.tiny()
    base = model.allocated[np.ix_(*(one.leaves for one in model.dimensions))]
    told = rows(found, "interests", "interests")
    assert told["base"]["subscriptions"] == base.sum()
    assert told["general"]["subscriptions"] == 500 - base.sum()


def test_counts_over_the_space_are_in_the_order_of_intervals(found: describing.Description) -> None:
    model = models.tiny()
    base = model.allocated[np.ix_(*(one.leaves for one in model.dimensions))]
    assert found.interests is not None
    assert found.interests.names[0] == tuple(models.SUBJECT.nodes[leaf] for leaf in models.SUBJECT.leaves)
    by_name = [models.REGIONS.index(name) for name in found.interests.regions]
    assert found.interests.heat is not None
    assert np.array_equal(found.interests.heat, base[..., by_name])
    assert np.array_equal(found.interests.lines[1], base.sum(axis=0)[:, by_name])


def test_the_most_popular_are_named(found: describing.Description) -> None:
    model = models.tiny()
    totals = model.members[np.ix_(*(one.leaves for one in model.dimensions))].sum(axis=-1)
    subject, language = np.unravel_index(int(totals.argmax()), totals.shape)
    first = found.tables["popular"][0]
    assert first["members"] == totals.max()
    assert first["subject"] == models.SUBJECT.nodes[models.SUBJECT.leaves[subject]]
    assert first["language"] == models.LANGUAGE.nodes[models.LANGUAGE.leaves[language]]
    assert found.tables["removal"][1]["members"] == totals.sum() - totals.max()


def test_subscriptions_that_come_and_go_are_there_meanwhile(found: describing.Description) -> None:
    (told,) = found.tables["subscriptions"]
    assert told["subscriptions"] == 500
    assert 60 < told["unknown_assumed"] < 190
    assert sum(row["events"] for row in found.tables["time"]) == 30
    assert found.tables["time"][0]["subscriptions"] < 500


def test_reports_of_each_event_are_counted(found: describing.Description) -> None:
    assert [(row["reports_each"], row["events"]) for row in found.tables["reports"]] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


def test_the_network_is_measured(found: describing.Description) -> None:
    told = {row["what"]: row["number"] for row in found.tables["network"]}
    assert told["brokers"] == len(workloads.BROKERS)
    assert told["links"] == 4
    assert told["clients"] == workloads.CLIENTS
    assert found.positions is not None
    assert found.positions.clients.shape == (workloads.CLIENTS, 5)
    assert found.positions.links.tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]


def test_topics_have_what_is_asked_and_what_happens(found: describing.Description) -> None:
    told = rows(found, "topics", "topic")
    assert sum(row["subscriptions"] for row in told.values()) == 500
    assert sum(row["events"] for row in told.values()) == 30
    assert sum(row["reports"] for row in told.values()) == 10


def test_many_clients_and_events_are_sampled_by_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "CLIENTS_PLACED", 4)
    monkeypatch.setattr(describing, "EVENTS_COUNTED", 15)
    found = describing.describe(folder)
    assert found.positions is not None
    assert len(found.positions.clients) == 4
    assert [(row["reports_each"], row["events"], row["of_every"]) for row in found.tables["reports"]] == [
        (2, 1, 2),
        (4, 1, 2),
    ]


def test_files_in_another_order_say_the_same(folder: Path, tmp_path: Path, found: Any) -> None:
    for name in ("interests", "subscriptions", "clients"):
        table = pa.concat_tables(
            [pa.Table.from_batches([batch]) for batch in Workload(folder).table(name).batches()]
        )
        backwards = table.take(np.arange(table.num_rows)[::-1])
        workloads.write_table(tmp_path, name, backwards, parts=5)
    again = describing.describe(tmp_path)
    for name in ("interests", "popular", "removal", "dimensions", "subscriptions"):
        assert again.tables[name] == found.tables[name]


def test_every_plot_is_drawn(found: describing.Description, tmp_path: Path) -> None:
    made = plots.draw(found, tmp_path)
    assert [file.stem for file in made] == [
        "popularity",
        "removal",
        "dimensions",
        "interests",
        "positions",
        "time",
        "reports",
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made)


def labels(axis: Axis) -> list[str]:
    """What stands along an axis, as far as it is seen."""
    low, high = sorted(axis.get_view_interval())
    shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1.get_text() for tick in shown if tick.label1.get_visible()]


def test_heat_maps_name_the_nodes_along_their_axes(found: describing.Description) -> None:
    assert found.interests is not None
    subjects, languages = (list(names) for names in found.interests.names)
    figure = plots.heat_maps(found.interests)
    figure.draw_without_rendering()
    # Three in a row: all regions, two of three; below them the last region, and nothing below the others.
    maps = [ax for ax in figure.axes if ax.get_title()]
    assert [labels(ax.yaxis) for ax in maps] == [subjects, [], [], subjects]
    assert [labels(ax.xaxis) for ax in maps] == [[], languages, languages, languages]
    assert [ax.get_ylabel() for ax in maps] == ["subject", "", "", "subject"]
    assert [ax.get_xlabel() for ax in maps] == ["", "language", "language", "language"]
    pyplot.close(figure)


def test_every_axis_of_counts_has_labels(found: describing.Description) -> None:
    """Also if all counts are between two powers of ten, as they are here."""
    assert found.interests is not None
    figure = plots.dimensions(found.interests)
    figure.draw_without_rendering()
    assert all(1 < line.min() < line.max() < 10 for line in found.interests.lines[:1])
    assert all(len(labels(ax.yaxis)) > 1 for ax in figure.axes)
    pyplot.close(figure)


@pytest.mark.parametrize("name", ["brokers", "clients", "events", "reports", "subscriptions", "requests"])
def test_a_table_alone_is_described_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    drawn: dict[str, Any] = {**workloads.drawn(5), "requests": []}
    workloads.write(tmp_path, declare=False, **{name: drawn[name]})
    found = describing.describe(tmp_path)
    assert [row["table"] for row in found.tables["tables"]] == [name]
    assert found.interests is None
    plots.draw(found, tmp_path)


def test_tables_without_rows_are_described(tmp_path: Path) -> None:
    names = ("brokers", "links", "clients", "interests", "subscriptions", "events", "reports", "requests")
    nothing: dict[str, Any] = {name: [] for name in names}
    workloads.write(tmp_path, declare=False, **nothing)
    found = describing.describe(tmp_path)
    assert [row["rows"] for row in found.tables["tables"]] == [0] * 8
    assert plots.draw(found, tmp_path) == []


@pytest.mark.parametrize("dimensions", [1, 3])
def test_other_numbers_of_dimensions_are_described(dimensions: int, tmp_path: Path) -> None:
    model = models.tiny(dimensions)
    workloads.write_table(tmp_path, "interests", interests.rows(model, {}))
    found = describing.describe(tmp_path)
    assert [row["dimension"] for row in found.tables["dimensions"]] == [one.name for one in model.dimensions]
    assert found.interests is not None
    assert (found.interests.heat is None) is (dimensions == 1)


def test_a_folder_that_is_no_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no table of a workload"):
        describing.describe(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        describing.describe(tmp_path / "nowhere")
