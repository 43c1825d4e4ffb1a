from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language.fields import Field, Type
from tidings.language.keys import METRES_PER_DEGREE, Cell, Floor, evaluate, parse_item

FIELDS = {
    field.path: field
    for field in (
        Field(("name",), Type.STRING),
        Field(("n",), Type.INT),
        Field(("x",), Type.FLOAT),
        Field(("ok",), Type.BOOL),
        Field(("t",), Type.TIMESTAMP),
        Field(("at", "lat"), Type.FLOAT),
        Field(("at", "lon"), Type.FLOAT),
        Field(("wind speed",), Type.FLOAT),
        Field(("lower",), Type.STRING),
    )
}
NOON = datetime(2026, 11, 15, 12, 3, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("name", "name"),
        (" at . lat ", "at.lat"),
        ("`wind speed`", "`wind speed`"),
        ("lower", "lower"),
        ("LOWER( name )", "lower(name)"),
        ("trim(name)", "trim(name)"),
        ("lower(trim(name))", "lower(trim(name))"),
        ("floor(n/10)", "floor(n / 10)"),
        ("floor(x / 0.50)", "floor(x / 0.5)"),
        ("bucket(t,'300s')", "bucket(t, '5m')"),
        ("cell(at.lat, at.lon, '0.5km')", "cell(at.lat, at.lon, '500.0m')"),
        ("cell(at.lat, at.lon, '2000m')", "cell(at.lat, at.lon, '2km')"),
        ("cell(n, n, '1km')", "cell(n, n, '1km')"),
    ],
)
def test_an_item_has_one_text_and_reads_back(text: str, canonical: str) -> None:
    item = parse_item(text, FIELDS)
    assert item.text == canonical
    assert parse_item(canonical, FIELDS) == item


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the name of a field, found the end"),
        ("nme", "neither a declared field nor a named level; declared: name, n"),
        ("at", "neither a declared field"),
        ("name name", "expected the end, found 'name'"),
        ("upper(name)", "there is no function 'upper'"),
        ("lower(n)", "'n' is declared int, but must be string"),
        ("trim(lower(name))", "neither a declared field|expected"),
        ("floor(name / 2)", "declared string, but must be int or float"),
        ("floor(n)", "expected '/'"),
        ("floor(n / 0)", "must be above 0"),
        ("floor(n / -2)", "'-' is out of place"),
        ("floor(x / 1e400)", "at most"),
        ("floor(n / x)", "expected a positive number"),
        ("floor(n / 2", "expected '\\)', found the end"),
        ("bucket(t, '5')", "not a duration"),
        ("bucket(t, '0s')", "must be above 0"),
        ("bucket(n, '5m')", "declared int, but must be timestamp"),
        ("bucket(t)", "expected ','"),
        ("cell(at.lat, at.lon, '1 km')", "from '1m' to '1000km'"),
        ("cell(at.lat, at.lon, '0.5m')", "from '1m' to '1000km'"),
        ("cell(at.lat, at.lon, 5)", "expected the size of a cell in quotes"),
        ("cell(name, at.lon, '1km')", "declared string"),
        ("n; DROP", "';' is out of place"),
        ("x" * 1001, "longer than 1000"),
    ],
)
def test_a_bad_item_is_told_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_item(text, FIELDS)


@pytest.mark.parametrize(
    ("text", "event", "value"),
    [
        ("name", {"name": " A1 "}, " A1 "),
        ("ok", {"ok": False}, False),
        ("lower(trim(name))", {"name": "  Λεωφόρος ΑΘΗΝΑΣ "}, "λεωφόρος αθηνας"),
        ("trim(name)", {"name": " \tA1\n "}, "\tA1\n"),
        ("floor(n / 10)", {"n": -1}, -1),
        ("floor(n / 10)", {"n": 2**63 - 1}, 922337203685477580),
        ("floor(n / 0.5)", {"n": 3}, 6),
        ("floor(x / 10)", {"x": -0.5}, -1),
        ("floor(x / 0.1)", {"x": 0.3}, 2),
        ("floor(x / 1e-300)", {"x": 1e300}, 2**63 - 1024),
        ("floor(x / 1e-300)", {"x": -1e300}, 1024 - 2**63),
        ("bucket(t, '5m')", {"t": NOON}, datetime(2026, 11, 15, 12, 0, tzinfo=UTC)),
        (
            "bucket(t, '1d')",
            {"t": datetime(1969, 12, 31, 5, tzinfo=UTC)},
            datetime(1969, 12, 31, tzinfo=UTC),
        ),
        ("bucket(t, '30d')", {"t": datetime(1, 1, 1, 7, tzinfo=UTC)}, datetime(1, 1, 1, tzinfo=UTC)),
        ("cell(at.lat, at.lon, '1km')", {"at": {"lat": 37.9838, "lon": 23.7275}}, "14231:17823"),
        ("cell(at.lat, at.lon, '1km')", {"at": {"lat": -90.0, "lon": 0.0}}, "0:1"),
        ("cell(at.lat, at.lon, '1km')", {"at": {"lat": 90.5, "lon": 0.0}}, None),
        ("cell(at.lat, at.lon, '1km')", {"at": {"lat": 0.0, "lon": 180.5}}, None),
        ("cell(at.lat, at.lon, '1km')", {"at": {"lat": 0.0}}, None),
        ("name", {"name": None}, None),
        ("name", {}, None),
    ],
)
def test_values(text: str, event: dict[str, object], value: object) -> None:
    found = parse_item(text, FIELDS).value(event)
    assert found == value
    assert type(found) is type(value)


def test_a_key_needs_all_of_its_items() -> None:
    items = (parse_item("name", FIELDS), parse_item("floor(n / 10)", FIELDS))
    assert evaluate(items, {"name": "A1", "n": 42}) == ("A1", 4)
    assert evaluate(items, {"name": "A1"}) is None
    assert evaluate((), {}) == ()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**53))
def test_whole_steps_are_exact(value: int, step: int) -> None:
    found = Floor(("n",), step, exact=True).value({"n": value})
    assert isinstance(found, int)
    assert found * step <= value < (found + 1) * step


def test_180_degrees_east_is_180_degrees_west() -> None:
    cell = Cell(("lat",), ("lon",), 1000.0)
    assert cell.value({"lat": 10, "lon": 180}) == cell.value({"lat": 10, "lon": -180})


@given(st.floats(-85, 85), st.floats(-179, 179), st.sampled_from([100.0, 1000.0]))
def test_places_more_than_a_cell_apart_are_in_different_cells(lat: float, lon: float, size_m: float) -> None:
    cell = Cell(("lat",), ("lon",), size_m)
    here = cell.value({"lat": lat, "lon": lon})
    degrees = 1.5 * size_m / METRES_PER_DEGREE
    assert cell.value({"lat": lat + degrees, "lon": lon}) != here
    assert cell.value({"lat": lat, "lon": lon + degrees / math.cos(math.radians(lat))}) != here
