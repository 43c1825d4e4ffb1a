"""Reading a workload: what is in the tables, and what is said of those that are wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.records import workloads as made
from tidings.errors import DeclarationError, InputError
from tidings.language.filters import parse
from tidings.language.regions import Unknown
from tidings.records import workload as tables
from tidings.records import workload_files, workload_reading
from tidings.records.workload_reading import NEVER, Publications, Workload


def happened(workload: Workload, name: str, limit: int | None = None) -> list[tuple[int, dict[str, int]]]:
    return [
        (int(number), fields)
        for stretch in workload.published(name, limit)
        for number, fields in zip(stretch.number, stretch.rows(), strict=True)
    ]


def test_the_tables_of_a_workload_are_read(tmp_path: Path) -> None:
    made.write(
        tmp_path,
        brokers=[made.broker("b1", 4.0), made.broker("b0", 1.0, 2.0)],
        links=[made.link("b1", "b0", 7.5)],
        clients=[made.client(3, "b1"), made.client(1, "b0")],
    )
    workload = Workload(tmp_path)
    brokers = workload.brokers()
    assert [(one.name, one.point[:2]) for one in brokers] == [("b0", (1.0, 2.0)), ("b1", (4.0, 0.0))]
    assert [(one.one, one.other, one.delay_ms) for one in workload.links(brokers)] == [("b1", "b0", 7.5)]
    assert workload.homes(brokers, np.array([3, 1, 3])) == {1: "b0", 3: "b1"}
    assert [topic.name for topic in workload.declarations] == list(made.TOPICS)


def test_a_link_to_a_version_is_a_table(tmp_path: Path) -> None:
    made.write(tmp_path, linked=True, parts=3, subscriptions=[made.subscription(n) for n in range(5)])
    assert Workload(tmp_path).subscriptions().number.tolist() == [0, 1, 2, 3, 4]


def test_tables_of_two_workloads_are_not_one(tmp_path: Path) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")], clients=[made.client(1, "b0")])
    for table, seed in (("brokers", 1), ("clients", 2)):
        Workload(tmp_path)  # what one table says of itself is no contradiction
        (tmp_path / table / "_made.json").write_text(f'{{"spec": {{"seed": {seed}}}}}', encoding="utf-8")
    with pytest.raises(
        InputError, match="tables of two workloads: clients was made by another spec than brokers"
    ):
        Workload(tmp_path)


@pytest.mark.parametrize("of", [3, 4])
def test_declarations_of_another_spec_than_the_tables_are_refused(tmp_path: Path, of: int) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")])
    for part, seed in (("brokers", 3), ("topics", of)):
        (tmp_path / part / "_made.json").write_text(json.dumps({"spec": {"seed": seed}}), encoding="utf-8")
    if of == 3:
        Workload(tmp_path)
        return
    with pytest.raises(InputError, match="is not finished: topics was made by another spec than brokers"):
        Workload(tmp_path)


@pytest.mark.parametrize("of", [3, 4])
def test_a_spec_of_other_tables_than_those_beside_it_is_refused(tmp_path: Path, of: int) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")])
    (tmp_path / "brokers" / "_made.json").write_text('{"spec": {"seed": 3}}', encoding="utf-8")
    (tmp_path / "workload.toml").write_text("seed = 9\n", encoding="utf-8")
    Workload(tmp_path)  # what somebody writes is his own
    head = f"{workload_files.DIGEST}{workload_files.digest({'seed': of})}\n"
    (tmp_path / "workload.toml").write_text(f"{head}seed = 9\n", encoding="utf-8")
    if of == 3:
        Workload(tmp_path)
        return
    with pytest.raises(InputError, match=r"is not finished: workload\.toml belongs to another spec than "):
        Workload(tmp_path)


def test_a_rectangle_is_a_filter_and_its_text_is_not_looked_at(tmp_path: Path) -> None:
    made.write(
        tmp_path, subscriptions=[made.subscription(7, subject=(5, 9), language=(3, 3), where="no filter (")]
    )
    found = Workload(tmp_path).subscriptions()
    asked = found.asked(0)
    assert asked.filter == parse("subject BETWEEN 5 AND 9 AND language = 3")
    assert (asked.topic_filter, asked.unknown) == ("subject/arts", Unknown.WAIT)


def test_a_text_is_parsed_where_there_is_no_rectangle_once_per_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def parse_too(text: str, *more: Any) -> Any:
        parsed.append(text)
        return parse(text, *more)

    monkeypatch.setattr(workload_reading, "parse", parse_too)
    texts = ["severity >= 3", "subject < 8", "severity >= 3"]
    made.write(
        tmp_path,
        subscriptions=[
            *(made.subscription(n, where=text, subject=None, language=None) for n, text in enumerate(texts)),
            made.subscription(9),
        ],
    )
    found = Workload(tmp_path).subscriptions()
    _, place = found.distinct
    asked = [found.asked(row) for row in range(4)]
    assert sorted(parsed) == ["severity >= 3", "subject < 8"]
    assert [one.filter.source for one in asked[:3]] == texts
    assert place[0] == place[2]
    # The fields are those that the topic declares.
    assert asked[0].filter.types == {("severity",): "int"}


def test_a_table_without_rectangles_has_texts(tmp_path: Path) -> None:
    made.write(tmp_path, dimensions=(), subscriptions=[made.subscription(1, where="subject < 8")])
    made.write(tmp_path, events=[made.event(1, 2.0, 5, 6)])
    workload = Workload(tmp_path)
    asked = workload.subscriptions().asked(0)
    assert workload.dimensions == ("subject", "language")
    assert asked.filter.matches({"subject": 7})


def test_what_is_asked_for_by_many_is_one_thing(tmp_path: Path) -> None:
    rows = made.drawn(3, subscriptions=40)["subscriptions"]
    rows += [{**row, "subscription": row["subscription"] + 40, "client": 0} for row in rows]
    made.write(tmp_path, subscriptions=rows, parts=4)
    found = Workload(tmp_path).subscriptions()
    first, place = found.distinct
    assert len(first) == 40
    for at, row in enumerate(sorted(rows, key=lambda row: row["subscription"])):
        assert first[place[at]] <= at
        one = found.asked(int(first[place[at]]))
        assert (one.topic_filter, one.unknown) == (row["topic"], row["unknown"])
        assert one.filter == parse(
            f"subject BETWEEN {row['subject_lo']} AND {row['subject_hi']} AND "
            f"language BETWEEN {row['language_lo']} AND {row['language_hi']}"
        )


def test_subscriptions_come_and_go(tmp_path: Path) -> None:
    made.write(tmp_path, subscriptions=[made.subscription(2), made.subscription(1, from_s=3, until_s=5.5)])
    found = Workload(tmp_path).subscriptions()
    assert found.from_at.tolist() == [made.START_US + 3_000_000, made.START_US]
    assert found.until_at.tolist() == [made.START_US + 5_500_000, NEVER]


def test_the_first_subscriptions_are_those_with_the_lowest_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload_files, "BATCH_ROWS", 7)
    monkeypatch.setattr(workload_reading, "BATCH_ROWS", 7)
    rows = made.drawn(1, subscriptions=100)["subscriptions"]
    made.write(tmp_path, subscriptions=rows, parts=5)
    workload = Workload(tmp_path)
    assert workload.subscriptions(9).number.tolist() == list(range(9))
    assert workload.subscriptions(1000).number.tolist() == list(range(100))
    assert len(workload.subscriptions(0)) == 0
    with pytest.raises(InputError, match=r"100 subscriptions are more .* at most 50; .*--subscriptions 50"):
        workload.subscriptions(most=50)


@pytest.mark.parametrize("parts", [1, 4])
def test_what_is_published_comes_in_the_order_of_time(tmp_path: Path, parts: int) -> None:
    rows = made.drawn(5)
    made.write(tmp_path, parts=parts, events=rows["events"], reports=rows["reports"])
    workload = Workload(tmp_path)
    for name, key in (("events", "event"), ("reports", "report")):
        wanted = sorted(rows[name], key=lambda row: (row["at"], row[key]))
        fields = [{one: value for one, value in row["fields"].items() if value is not None} for row in wanted]
        assert happened(workload, name) == list(zip([row[key] for row in wanted], fields, strict=True))
        assert happened(workload, name, 4) == happened(workload, name)[:4]


def test_a_long_table_comes_in_stretches_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write(tmp_path, parts=3, events=made.drawn(5, events=50)["events"])
    whole = happened(Workload(tmp_path), "events")
    monkeypatch.setattr(workload_reading, "STRETCH_ROWS", 8)
    monkeypatch.setattr(workload_files, "BATCH_ROWS", 5)
    stretches: list[Publications] = list(Workload(tmp_path).published("events"))
    assert len(stretches) > 5
    assert max(map(len, stretches)) <= 8
    assert happened(Workload(tmp_path), "events") == whole
    assert happened(Workload(tmp_path), "events", 20) == whole[:20]


def test_empty_tables_are_no_error(tmp_path: Path) -> None:
    made.write(tmp_path, subscriptions=[], events=[])
    workload = Workload(tmp_path)
    assert len(workload.subscriptions()) == 0
    assert workload.subscriptions().distinct[0].tolist() == []
    assert happened(workload, "events") == []


# What is wrong.


def refused(tmp_path: Path, what: str, **rows: Any) -> str:
    """What is said of tables when something of them is read."""
    made.write(tmp_path, **rows)
    workload = Workload(tmp_path)
    reading: dict[str, Callable[[], object]] = {
        "subscriptions": lambda: workload.subscriptions().asked(0),
        "links": lambda: workload.links(workload.brokers()),
        "clients": lambda: workload.homes(workload.brokers(), np.array([1])),
        "brokers": workload.brokers,
        "events": lambda: happened(workload, "events"),
    }
    with pytest.raises(InputError) as error:
        reading[what]()
    return str(error.value)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist; make one: tidings workload generate --out"):
        Workload(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is no folder"):
        Workload(tmp_path / "file")
    with pytest.raises(InputError, match="has no table of a workload"):
        Workload(tmp_path)


def test_a_table_that_is_missing_is_said(tmp_path: Path) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")])
    with pytest.raises(InputError, match="has no table 'events'; there are brokers; make the workload anew"):
        happened(Workload(tmp_path), "events")


def test_a_file_that_is_no_parquet_is_said(tmp_path: Path) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")])
    (tmp_path / "brokers" / "part-99999.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(
        InputError, match=r"part-99999.parquet is not a Parquet file .* make the workload anew"
    ):
        Workload(tmp_path).brokers()


def test_a_file_that_is_cut_short_in_the_middle_is_said(tmp_path: Path) -> None:
    made.write(tmp_path, events=made.drawn(1)["events"])
    (file,) = (tmp_path / "events").glob("part-*.parquet")
    data = bytearray(file.read_bytes())
    data[4:400] = bytes(396)
    file.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be read"):
        happened(Workload(tmp_path), "events")


def test_columns_that_are_missing_or_mistyped_are_all_said(tmp_path: Path) -> None:
    table = pa.table({"broker": ["b0"], "x1": ["far"], "x2": [0.0], "x3": [0.0], "x4": [0.0], "x5": [0.0]})
    made.write_table(tmp_path, "brokers", table)
    with pytest.raises(InputError) as error:
        Workload(tmp_path).brokers()
    said = str(error.value)
    assert "has no column 'region'; it should be string" in said
    assert "column 'x1' of part-00000-x.zstd.parquet is string; it should be double" in said


def test_an_interval_with_one_end_is_said(tmp_path: Path) -> None:
    schema = tables.schemas(made.DIMENSIONS, made.DETAILS)["events"]
    fields = pa.struct([pa.field("story", pa.int64()), pa.field("subject", pa.string())])
    table = pa.Table.from_pylist([], schema.set(4, pa.field("fields", fields)))
    made.write_table(tmp_path, "events", table)
    made.write(tmp_path, subscriptions=[])
    with pytest.raises(InputError, match=r"column 'fields' of .* is struct<story: int64, subject: string>"):
        happened(Workload(tmp_path), "events")


@pytest.mark.parametrize(
    ("what", "rows", "said"),
    [
        (
            "links",
            {"brokers": [made.broker("b0")], "links": [made.link("b0", "b9")]},
            "names broker 'b9', which is not in brokers; add it there or remove the link",
        ),
        (
            "links",
            {"brokers": [made.broker("b0"), made.broker("b1")], "links": [made.link("b0", "b1", math.nan)]},
            "has delay_ms nan; give a number from 0",
        ),
        (
            "clients",
            {"brokers": [made.broker("b0")], "clients": [made.client(1, "b9")]},
            "client 1 is at broker 'b9', which is not in brokers",
        ),
        (
            "clients",
            {"brokers": [made.broker("b0")], "clients": [made.client(2, "b0")]},
            "client 1 subscribes or publishes and is not there",
        ),
        (
            "clients",
            {"brokers": [made.broker("b0")], "clients": [made.client(1, "b0"), made.client(1, "b0")]},
            "client 1 is there twice",
        ),
        (
            "clients",
            {"brokers": [made.broker("b0")], "clients": [made.client(1, "b0", math.inf)]},
            "client 1 has coordinates [inf, 0.0, 0.0, 0.0, 0.0]; all must be finite numbers",
        ),
        ("brokers", {"brokers": [made.broker("b0", math.nan)]}, "broker b0 has coordinates [nan"),
        ("brokers", {"brokers": [made.broker("b0"), made.broker("b0")]}, "broker 'b0' is there twice"),
        ("brokers", {"brokers": []}, "there is no broker"),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, subject=(9, 5), language=(0, 1))]},
            "subscription 4 has subject_lo 9 above subject_hi 5; the lower end must not be above",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, subject=(5, 9), language=None)]},
            "subscription 4 has neither a rectangle (subject_lo, language_lo) nor a where",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, subject=None, language=None, where="prise > 3")]},
            "subscription 4: the topic declares no field prise",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, unknown="perhaps")]},
            "subscription 4 has unknown 'perhaps'; write 'wait' or 'assume'",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, topic="a/#/b")]},
            "subscription 4: 'a/#/b' has '#' in the middle",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4), made.subscription(4)]},
            "subscription 4 is there twice",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, from_s=5, until_s=4)]},
            "before it begins at",
        ),
        (
            "subscriptions",
            {"subscriptions": [made.subscription(4, subject=(0, 2**60 + 1), language=(0, 1))]},
            "cannot be told apart",
        ),
        ("events", {"events": [made.event(4, 1.0, topic="a/+")]}, "event 4: 'a/+' has a wildcard"),
    ],
)
def test_a_row_that_is_wrong_is_said(tmp_path: Path, what: str, rows: Any, said: str) -> None:
    assert said in refused(tmp_path, what, **rows)


def test_a_client_without_broker_is_said(tmp_path: Path) -> None:
    made.write(tmp_path, brokers=[made.broker("b0")], clients=[made.client(7, None)])
    workload = Workload(tmp_path)
    with pytest.raises(InputError, match="client 7 has no broker; every row needs one"):
        workload.homes(workload.brokers(), np.array([7]))


def test_an_event_that_lacks_a_field_is_said_and_a_report_may(tmp_path: Path) -> None:
    made.write(tmp_path, reports=[made.report(1, 4, 2.0)])
    assert happened(Workload(tmp_path), "reports") == [(1, {"story": 4})]
    row = made.event(4, 1.0)
    row = {**row, "fields": {**row["fields"], "subject": None}}
    made.write(tmp_path, events=[row])
    with pytest.raises(InputError, match="event 4 has no subject; events know all of their fields"):
        happened(Workload(tmp_path), "events")


def test_a_topic_that_is_declared_twice_is_said(tmp_path: Path) -> None:
    made.write(tmp_path, events=[])
    text = (tmp_path / "topics" / "subject-arts.toml").read_text(encoding="utf-8")
    (tmp_path / "topics" / "z.toml").write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"declares 'subject/arts', which subject-arts\.toml declares already"
    ):
        assert Workload(tmp_path).declarations
    (tmp_path / "topics" / "z.toml").write_text("kind = 3", encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"z\.toml"):
        assert Workload(tmp_path).declarations
