"""Counts from a file: what it says is taken, what is wrong is said with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import InputError
from tidings.workload import counts_reading, hierarchies
from tidings.workload.counts_reading import Counted

SUBJECTS = hierarchies.from_nested("subject", "all", {"sport": ["soccer", "tennis"], "tea": []})
LANGUAGES = hierarchies.from_nested("language", "all", ["English", "Korean"])
HEADER = "subject,language,region,members,messages\n"


def read(tmp_path: Path, text: str, *regions: str) -> Counted:
    path = tmp_path / "counts.csv"
    path.write_text(text, encoding="utf-8")
    return counts_reading.read(path, (SUBJECTS, LANGUAGES), regions)


def refused(tmp_path: Path, text: str, *regions: str) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text, *regions)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_rows_are_taken_and_what_has_none_is_nobody(tmp_path: Path) -> None:
    counted = read(tmp_path, HEADER + "tea,Korean,Asia,7,1.5\nsoccer,English,Mars,3,0\n")
    assert counted.regions == ("Asia", "Mars")
    assert counted.members.shape == (3, 2, 2)
    assert (counted.members[2, 1, 0], counted.messages[2, 1, 0]) == (7, 1.5)
    assert counted.members[0, 0].tolist() == [0, 3]
    assert counted.members.sum() == 10


def test_columns_may_be_in_any_order_with_others_between(tmp_path: Path) -> None:
    text = "members,note,region,language,messages,subject\n7,x,Asia,Korean,2,tea\n"
    assert read(tmp_path, text).members[2, 1].tolist() == [7]


def test_the_first_dimension_may_be_called_topic_as_in_the_paper(tmp_path: Path) -> None:
    text = "topic,language,region,members,messages\ntea,Korean,Asia,7,2\n"
    assert read(tmp_path, text).members[2, 1].tolist() == [7]


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    rows = ["tea,Korean,Zealandia,7,1", "tea,English,Asia,3,0", "soccer,English,Atlantis,1,0"]
    one, other = (read(tmp_path, HEADER + "\n".join(some)) for some in (rows, rows[::-1]))
    assert one.regions == other.regions == ("Asia", "Atlantis", "Zealandia")
    assert np.array_equal(one.members, other.members)


def test_regions_of_the_spec_keep_their_order(tmp_path: Path) -> None:
    counted = read(tmp_path, HEADER + "tea,Korean,Asia,7,1\n", "US", "Asia")
    assert counted.regions == ("US", "Asia")
    assert counted.members[2, 1].tolist() == [0, 7]


def test_parquet_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "counts.parquet"
    table: dict[str, list[Any]] = {
        "subject": ["tea"],
        "language": ["Korean"],
        "region": ["Asia"],
        "members": [7],
        "messages": [1.5],
    }
    pq.write_table(pa.table(table), path)
    assert counts_reading.read(path, (SUBJECTS, LANGUAGES), ()).members[2, 1].tolist() == [7]


def test_rows_of_parquet_are_named_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "counts.parquet"
    table: dict[str, list[Any]] = {
        "subject": ["tea", "tea"],
        "language": ["Korean", None],
        "region": ["Asia", "Asia"],
        "members": [None, 2.5],
        "messages": [float("nan"), 1.0],
    }
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError) as caught:
        counts_reading.read(path, (SUBJECTS, LANGUAGES), ())
    assert [line.partition(", row ")[2] for line in str(caught.value).splitlines()] == [
        "1: members is missing; give a whole number that is not negative, 0 for none",
        "1: messages is nan; give a number that is not negative, at most 9,007,199,254,740,992",
        "2: language is missing; name a leaf of its hierarchy",
        "2: members is 2.5; give a whole number that is not negative, at most 9,007,199,254,740,992",
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("tea,Korean,Asia,-7,1", "line 2: members is '-7'; give a whole number that is not negative"),
        ("tea,Korean,Asia,7,-1", "line 2: messages is '-1'; give a number that is not negative"),
        ("tea,Korean,Asia,,1", "line 2: members is missing"),
        ("tea,Korean,Asia,7,", "line 2: messages is missing"),
        ("tea,Korean,Asia,many,1", "line 2: members is 'many'"),
        ("tea,Korean,Asia,1_000,1", "line 2: members is '1_000'"),
        ("tea,Korean,Asia,٣,1", "line 2: members is '٣'"),
        ("tea,Korean,Asia,7,inf", "line 2: messages is 'inf'"),
        ("tea,Korean,Asia,1e999,1", "line 2: members is '1e999'"),
        ("tea,Korean,Asia,99999999999999999,1", "line 2: members is '99999999999999999'"),
        ("tea,Korean,,7,1", "line 2: region is ''; give the name of one"),
        (",Korean,Asia,7,1", "line 2: subject is missing"),
        ("socer,Korean,Asia,7,1", "line 2: subject 'socer' is not known; is it 'soccer'?"),
        ("philately,Korean,Asia,7,1", "line 2: subject 'philately' is not known; it is not a leaf"),
        ("sport,Korean,Asia,7,1", "line 2: subject 'sport' has 'soccer' and others below it"),
        ("tea,Korean,Asia,7", "line 2: there are 4 values; the header has 5"),
        (
            "tea,Korean,Asia,7,1\n\ntea,Korean,Asia,7,1",
            "line 4: (tea, Korean, Asia) is there already, in line 2",
        ),
        ("tea,Korean,Asia,0,0", "no interest has a member"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, row: str, said: str) -> None:
    assert said in refused(tmp_path, HEADER + row + "\n")


def test_a_region_that_the_spec_has_not_is_refused(tmp_path: Path) -> None:
    text = HEADER + "tea,Korean,Asiaa,7,1\ntea,Korean,Mars,7,1\n"
    assert refused(tmp_path, text, "Asia", "US").splitlines() == [
        "counts.csv, line 2: region 'Asiaa' is not known; is it 'Asia'?",
        "counts.csv, line 3: region 'Mars' is not known; the spec has Asia, US",
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    said = refused(tmp_path, HEADER + "tea,Korean,Asia,x,1\n" * 1030).splitlines()
    assert len(said) == counts_reading.PROBLEMS_MAX + 1
    assert said[-1] == "and 1,010 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "counts.csv: the columns are none"),
        ("subject,region,members\n", "language, messages must be there"),
        (HEADER.replace("language", "subject"), "subject, language must be there"),
        (HEADER + '"tea,Korean,Asia,7,1', "is not CSV"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_bytes(HEADER.encode() + b"\xff\xfe\xff\n")
    with pytest.raises(InputError, match="is not CSV"):
        counts_reading.read(path, (SUBJECTS, LANGUAGES), ())


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.parquet"
    path.write_text("subject")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        counts_reading.read(path, (SUBJECTS, LANGUAGES), ())


def test_more_members_than_can_be_counted_are_refused(tmp_path: Path) -> None:
    rows = f"tea,Korean,Asia,{2**53},1\ntea,English,Asia,1,1\n"
    assert "there are 9,007,199,254,740,993 members" in refused(tmp_path, HEADER + rows)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.csv cannot be read"):
        counts_reading.read(tmp_path / "no.csv", (SUBJECTS, LANGUAGES), ())
