"""Plain files that plans and networks are made from: CSV, with or without a header of column names."""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tidings.planning.communities.base import Flows

TRAFFIC = ("from", "to", "messages")


LINKS = ("a", "b", "length")


def rows(
    path: Path, columns: tuple[str, ...], optional: int = 0, *, header: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file with their numbers; the last `optional` columns may be left out.

    Empty lines are passed over, and comments, and, with `header`, a first line that names the columns.
    """
    least = len(columns) - optional
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            # What is passed over is an empty line for the reader, which counts them.
            reader = csv.reader("\n" if _is_comment(line) else line for line in file)
            begun = False
            for fields in reader:
                number, row = reader.line_num, [field.strip() for field in fields]
                is_header = header and not begun and len(row) >= least and row == list(columns[: len(row)])
                if not any(row):
                    continue
                begun = True
                if is_header:
                    continue
                if not least <= len(row) <= len(columns):
                    raise InputError(
                        f"{path}, line {number}: {','.join(fields)!r} has {len(row)} fields; it is "
                        f"{','.join(columns)}"
                    )
                yield number, row
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8; it is lines of {','.join(columns)}") from None
    except csv.Error as error:
        raise InputError(f"{path} is no CSV: {error}") from None


def _is_comment(line: str) -> bool:
    """A line of its own after "# "; without the space it is a name, since names are any text."""
    return line.startswith("# ") or line.strip() == "#"


def named(path: Path, number: int, value: str, column: str) -> str:
    """A name, which is not empty."""
    if not value:
        raise InputError(f"{path}, line {number}: {column} is empty; give a name")
    return value


def numeral(path: Path, number: int, value: str, column: str) -> float:
    """A number; what it may be is for the planner to say."""
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{path}, line {number}: {column} is {value!r}; give a number") from None


def links(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """Links of brokers, with their lines: a,b and, if one likes, a length. Names may be empty.

    Brokers may be called a and b. A first line a,b is then a link: a later line names one of the two, or
    there is no later line.
    """
    found = list(rows(path, LINKS, optional=1, header=False))
    if found and found[0][1] in (list(LINKS[:2]), list(LINKS)):
        (number, first), *later = found
        again = next((line for line, row in later if not {"a", "b"}.isdisjoint(row[:2])), None)
        if again is not None and len(first) > 2:
            raise InputError(
                f"{path}, line {number}: line {again} names a or b again, so that this is a link of theirs, "
                "and length is 'length'; give a number, or leave out the line if it names the columns"
            )
        if again is None and (later or len(first) > 2):
            found = later
    for number, row in found:
        yield number, row[0], row[1], _length(path, number, row[2]) if len(row) > 2 else 1.0


def _length(path: Path, number: int, value: str) -> float:
    length = numeral(path, number, value, LINKS[2])
    if not (math.isfinite(length) and length >= 0):
        raise InputError(f"{path}, line {number}: length is {value!r}; give a finite number, 0 or more")
    return length


def triples(path: Path, columns: tuple[str, str, str]) -> Iterator[tuple[str, str, float]]:
    """Two names and a number."""
    for number, row in rows(path, columns):
        first, second = (named(path, number, row[at], columns[at]) for at in range(2))
        yield first, second, numeral(path, number, row[2], columns[2])


LARGE_BYTES = 1_000_000
"""Of a file of traffic, from where Arrow reads it at once; below, getting Arrow takes longer."""


def traffic(path: Path, clients: Iterable[str]) -> Flows:
    """Lines from,to,messages; `clients` are those who may neither send nor receive."""
    from tidings.planning.communities.base import Flows

    if path.is_file() and path.stat().st_size >= LARGE_BYTES:
        columns = _columns(path)
        if columns is not None:
            names, senders, receivers, messages = columns
            there = set(names)
            return Flows.of_arrays(
                [*names, *(name for name in dict.fromkeys(clients) if name not in there)],
                senders,
                receivers,
                messages,
            )
    return Flows.of(triples(path, TRAFFIC), clients)


def _columns(
    path: Path,
) -> tuple[list[str], NDArray[np.integer[Any]], NDArray[np.integer[Any]], NDArray[np.float64]] | None:
    """A file of traffic at once: names, places of senders and receivers in them, and messages.

    None if anything about it is out of the ordinary: reading line by line then takes it, or says what is
    wrong with which line.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    with path.open("rb") as file:
        first = file.readline().removeprefix(codecs.BOM_UTF8).decode(errors="replace").split(",")
    header = [name.strip() for name in first] == list(TRAFFIC)
    try:
        table = arrow.read_csv(
            path,
            arrow.ReadOptions(column_names=list(TRAFFIC), skip_rows=int(header)),
            convert_options=arrow.ConvertOptions(
                column_types={"from": pa.string(), "to": pa.string(), "messages": pa.float64()},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    ends = pa.chunked_array([*table["from"].chunks, *table["to"].chunks], pa.string())
    coded = pc.utf8_trim_whitespace(ends).combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    if table["messages"].null_count or any(not name or _is_comment(name) for name in names):
        return None
    places = coded.indices.to_numpy()
    return names, places[: len(table)], places[len(table) :], table["messages"].to_numpy()


def pairs(path: Path, columns: tuple[str, str], *, empty: bool = False) -> Iterator[tuple[str, str]]:
    """Two names, of which the second may be empty if that means something."""
    for number, row in rows(path, columns):
        first = named(path, number, row[0], columns[0])
        yield first, row[1] if empty else named(path, number, row[1], columns[1])


def mapping(path: Path, columns: tuple[str, str], *, empty: bool = False) -> dict[str, str]:
    """The same, where nothing is named twice with another value."""
    found: dict[str, str] = {}
    for first, second in pairs(path, columns, empty=empty):
        if found.setdefault(first, second) != second:
            raise InputError(
                f"{path}: {columns[0]} {first!r} has {found[first]!r} and {second!r}; name one "
                f"{columns[1]} for it"
            )
    return found


def numbers(path: Path, columns: tuple[str, str]) -> dict[str, float]:
    """Names with a number each, none twice with another one."""
    found: dict[str, float] = {}
    for number, row in rows(path, columns):
        name = named(path, number, row[0], columns[0])
        value = numeral(path, number, row[1], columns[1])
        if found.setdefault(name, value) != value:
            both = f"{found[name]:g} and {value:g}"
            raise InputError(f"{path}: {columns[0]} {name!r} has {both}; name one {columns[1]} for it")
    return found
