"""Matrices of round-trip times are read as documented, or refused with the place of what is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tidings.errors import InputError
from tidings.workload import latency


def written(folder: Path, content: str, name: str = "rtt.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_a_symmetric_matrix_is_kept(tmp_path: Path) -> None:
    read = latency.matrix(written(tmp_path, "0,10,20\n10,0,30.5\n20,30.5,0\n"))
    assert read.tolist() == [[0, 10, 20], [10, 0, 30.5], [20, 30.5, 0]]


def test_both_directions_are_averaged(tmp_path: Path) -> None:
    read = latency.matrix(written(tmp_path, "0,10\n30,0\n"))
    assert read.tolist() == [[0, 20], [20, 0]]


@pytest.mark.parametrize("hole", ["", "nan", "NaN", "-1", "-1.0", "0", "0.00", " "])
def test_a_hole_leaves_the_other_direction_alone(tmp_path: Path, hole: str) -> None:
    read = latency.matrix(written(tmp_path, f"0,{hole},7\n30,0,8\n7,8,0\n"))
    assert read[0, 1] == read[1, 0] == 30


def test_a_pair_without_any_measurement_is_nan(tmp_path: Path) -> None:
    read = latency.matrix(written(tmp_path, "0,,7\n,0,8\n7,8,0\n"))
    assert np.isnan(read[0, 1])
    assert np.isnan(read[1, 0])


def test_a_row_of_holes_alone_is_a_row(tmp_path: Path) -> None:
    read = latency.matrix(written(tmp_path, ",,\n5,0,8\n7,8,0\n\n"))
    assert read.tolist() == [[0, 5, 7], [5, 0, 8], [7, 8, 0]]


def test_the_diagonal_does_not_count(tmp_path: Path) -> None:
    read = latency.matrix(written(tmp_path, "nan,10\n10,-5\n"))
    assert np.diag(read).tolist() == [0, 0]


def test_gzip_is_seen_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_bytes(gzip.compress(b"0,10\n10,0\n", mtime=0))
    assert latency.matrix(path)[0, 1] == 10


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has 0 rows"),
        ("0\n", "has 1 rows"),
        ("0,1,2\n1,0,3\n", "row 1 has 3 columns and the file 2 rows"),
        ("0,1\n1\n", "row 2 has 1 columns"),
        ("0,x\n1,0\n", "row 1, column 2 is 'x'"),
        ("a,b\n0,1\n", "row 1, column 1 is 'a'"),
        ("0,1\n-2,0\n", "row 2, column 1 is '-2'"),
        ("0,inf\n1,0\n", "row 1, column 2 is 'inf'"),
        (
            "0,1e300\n1,0\n",
            "row 1, column 2 is '1e300'; give a round trip in milliseconds, more than 0 and at most",
        ),
        ("0,,3\n,0,\n3,,0\n", "row and column 2 have no round trip"),
        ("0,1,,\n1,0,,\n,,0,1\n,,1,0\n", "67% of all pairs have no round trip"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_place(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        latency.matrix(written(tmp_path, content))
    assert says in str(error.value)


def test_groups_without_a_measurement_between_them_are_refused(tmp_path: Path) -> None:
    # Eight nodes, and two more: a third of the pairs is missing.
    groups = [0] * 8 + [1] * 2
    rows = [",".join("10" if one == other else "" for other in groups) for one in groups]
    with pytest.raises(InputError, match="no measured round trips lead from row 1 to row 9"):
        latency.matrix(written(tmp_path, "\n".join(rows)))


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is no CSV"):
        latency.matrix(written(tmp_path, "1" * 200_000))


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b\x08\x00", b"\xff\xfe0,1", gzip.compress(b"0,1\n1,0", mtime=0)[:-9]]
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rtt.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read as a matrix"):
        latency.matrix(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        latency.matrix(tmp_path / "nowhere.csv")


def test_places_are_read_by_heading(tmp_path: Path) -> None:
    path = written(tmp_path, "lon,Name,ISO2,lat\n12.5,Rome,IT,41.9\n,Nowhere,fr,\n", "places.csv")
    assert latency.places(path, 2) == (
        latency.Place("Rome", "", "IT", 12.5),
        latency.Place("Nowhere", "", "fr", 0.0),
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has the columns (none)"),
        ("id,lat,lon\n0,1,2\n", "has the columns id, lat, lon"),
        ("id,region\n0,a\n", "has 1 places and the matrix 2 nodes"),
        ("id,region\n0,a\n1,\n", "row 3 ('1') has neither a region nor a country"),
        ("id,region\n0,a\n1\n", "row 3 has not as many columns"),
        ("id,region\n0,a\n1,b,c\n", "row 3 has not as many columns"),
        ("id,region,lon\n0,a,181\n1,b,0\n", "row 2, `lon` is '181'"),
        ("id,region,lat\n0,a,north\n1,b,0\n", "row 2, `lat` is 'north'"),
    ],
)
def test_what_are_no_places_is_refused(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        latency.places(written(tmp_path, content, "places.csv"), 2)
    assert says in str(error.value)
