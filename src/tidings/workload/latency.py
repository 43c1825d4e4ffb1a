"""Reading a matrix of round-trip times, and the places of its nodes. What is made of them is elsewhere.

A matrix is CSV without a heading, gzipped or not: as many rows as columns, milliseconds, as measured from the
node of the row to that of the column. Both directions of a pair are averaged; if one is a hole, the other
stands alone. A hole is empty, `nan`, `-1` or `0`, which is how data sets write that nothing was measured. The
diagonal does not count, whatever it holds.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidings.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NODES_MAX = 5_000
"""Of one matrix; its pairs and what is computed of them still fit into a gigabyte."""

NODES_MIN = 2

ROUND_TRIP_MS_MAX = 1e7
"""Some three hours. Beyond is a slip of the pen, and squares of it would not stay numbers."""

HOLES_MAX = 0.5
"""The share of pairs without a measurement beyond which positions would be guesses."""

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of a matrix is."""

    name: str
    region: str
    """As the file names it; empty if it gives a country instead."""

    country: str
    """Two letters or a name; empty if the file does not say."""

    longitude: float
    """In degrees, eastwards; 0 if the file does not say."""


def matrix(path: str | Path) -> NDArray[np.float64]:
    """Round trips of all pairs, symmetric, with NaN for holes and 0 on the diagonal."""
    rows = _read(path, "a matrix of round-trip times")
    size = len(rows)
    if not NODES_MIN <= size <= NODES_MAX:
        raise InputError(
            f"{path} has {size:,} rows; a matrix of round-trip times has from {NODES_MIN} to {NODES_MAX:,}"
        )
    measured = np.empty((size, size))
    for number, row in enumerate(rows):
        if len(row) != size:
            raise InputError(
                f"{path}: row {number + 1} has {len(row):,} columns and the file {size:,} rows; a matrix of "
                "round-trip times is square, with a row and a column for each node and no heading"
            )
        measured[number] = _numbers(path, number, row)
    return _averaged(path, measured)


def places(path: str | Path, size: int) -> tuple[Place, ...]:
    """The places of a matrix's nodes, in its order."""
    heading, *rows = _read(path, "places of nodes") or [[]]
    columns = {name.strip().lower(): number for number, name in enumerate(heading)}
    name = next((columns[one] for one in ("name", "city", "id") if one in columns), None)
    region = columns.get("region")
    country = next((columns[one] for one in ("iso2", "country") if one in columns), None)
    if region is None and country is None:
        raise InputError(
            f"{path} has the columns {', '.join(columns) or '(none)'}; places of nodes need `region`, or "
            "`iso2` or `country` for the region that it lies in, and may have `id` or `name`, `lat` and `lon`"
        )
    found = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(heading):
            raise InputError(f"{path}: row {number} has not as many columns as the heading, {len(heading)}")
        place = Place(
            name=row[name].strip() if name is not None else str(number - 2),
            region=row[region].strip() if region is not None else "",
            country=row[country].strip() if country is not None else "",
            longitude=_degrees(path, number, row, columns, "lon", 180.0),
        )
        _degrees(path, number, row, columns, "lat", 90.0)
        if not place.region and not place.country:
            raise InputError(f"{path}: row {number} ({place.name!r}) has neither a region nor a country")
        found.append(place)
    if len(found) != size:
        raise InputError(
            f"{path} has {len(found):,} places and the matrix {size:,} nodes; give one place for each row of "
            "the matrix, in its order"
        )
    return tuple(found)


def _read(path: str | Path, what: str) -> list[list[str]]:
    """The rows of a file, without blank lines."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
        return [row for row in csv.reader(lines) if len(row) > 1 or any(map(str.strip, row))]
    except OSError as error:
        raise InputError(f"{path} cannot be read as {what}: {error.strerror or error}") from error
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as {what}: it is no CSV ({error})") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read as {what}: it is not whole gzip ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} cannot be read as {what}: byte {error.start:,} is not UTF-8; give CSV, gzipped or not"
        ) from error


def _numbers(path: str | Path, number: int, row: Sequence[str]) -> NDArray[np.float64]:
    try:
        read = np.array([float(cell) if cell.strip() else np.nan for cell in row])
    except ValueError:
        for column, cell in enumerate(row):
            try:
                float(cell.strip() or "nan")
            except ValueError:
                raise _wrong(path, number, column, cell) from None
        raise
    wrong = np.flatnonzero(((read < 0) & (read != -1)) | (read > ROUND_TRIP_MS_MAX))
    wrong = wrong[wrong != number]
    if wrong.size:
        raise _wrong(path, number, int(wrong[0]), row[int(wrong[0])])
    read[read <= 0] = np.nan
    return read


def _wrong(path: str | Path, number: int, column: int, cell: str) -> InputError:
    return InputError(
        f"{path}: row {number + 1}, column {column + 1} is {cell.strip()!r}; give a round trip in "
        f"milliseconds, more than 0 and at most {ROUND_TRIP_MS_MAX:,.0f}, or leave it empty where none was "
        "measured"
    )


def _averaged(path: str | Path, measured: NDArray[np.float64]) -> NDArray[np.float64]:
    there = ~np.isnan(measured)
    np.fill_diagonal(there, val=False)
    both = there & there.T
    one = np.where(there, measured, measured.T)
    averaged = np.where(both, (measured + measured.T) / 2, np.where(there | there.T, one, np.nan))
    known = (there | there.T).sum(axis=1)
    if (known == 0).any():
        lonely = int(np.flatnonzero(known == 0)[0]) + 1
        raise InputError(
            f"{path}: row and column {lonely} have no round trip at all; take this node out of the matrix, "
            "or measure it"
        )
    size = len(measured)
    holes = 1.0 - float(known.sum()) / (size * (size - 1))
    if holes > HOLES_MAX:
        raise InputError(
            f"{path}: {holes:.0%} of all pairs have no round trip; at most {HOLES_MAX:.0%} may be missing, "
            "take out the nodes that have the fewest"
        )
    if (apart := _apart(there | there.T)) is not None:
        raise InputError(
            f"{path}: no measured round trips lead from row 1 to row {apart + 1}, not even by way of other "
            "nodes; measure between the two groups, or take one out"
        )
    np.fill_diagonal(averaged, 0.0)
    return averaged


def _apart(measured: NDArray[np.bool_]) -> int | None:
    """A node that pairs which were measured do not join to the first; None if they join all."""
    reached = np.zeros(len(measured), bool)
    fresh = reached.copy()
    fresh[0] = True
    while fresh.any():
        reached |= fresh
        fresh = measured[fresh].any(axis=0) & ~reached
    return None if reached.all() else int(np.flatnonzero(~reached)[0])


def _degrees(
    path: str | Path, number: int, row: Sequence[str], columns: Mapping[str, int], kind: str, most: float
) -> float:
    cell = row[columns[kind]].strip() if kind in columns else ""
    try:
        degrees = float(cell or "0")
    except ValueError:
        degrees = np.nan
    if not -most <= degrees <= most:
        raise InputError(
            f"{path}: row {number}, `{kind}` is {cell!r}; give degrees from {-most:g} to {most:g}, or leave "
            "it empty"
        )
    return degrees
