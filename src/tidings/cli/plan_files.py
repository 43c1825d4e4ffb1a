"""Plain files that plans are made from: CSV without a header, or with one that names the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from tidings.errors import InputError


def rows(path: Path, columns: tuple[str, ...], optional: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file with their numbers; the last `optional` columns may be left out.

    Empty lines and those that begin with # are passed over, and a first line that names the columns.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(line for line in file if not line.startswith("#"))
            for number, fields in enumerate(reader, 1):
                row = [field.strip() for field in fields]
                if not any(row) or (number == 1 and row == list(columns[: len(row)])):
                    continue
                if not len(columns) - optional <= len(row) <= len(columns):
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


def links(path: Path) -> Iterator[tuple[str, str, float]]:
    """Links of brokers: a,b and, if one likes, a length."""
    for number, row in rows(path, ("a", "b", "length"), optional=1):
        a, b = (named(path, number, value, column) for value, column in zip(row, ("a", "b"), strict=False))
        yield a, b, numeral(path, number, row[2], "length") if len(row) > 2 else 1.0


def triples(path: Path, columns: tuple[str, str, str]) -> Iterator[tuple[str, str, float]]:
    """Two names and a number."""
    for number, row in rows(path, columns):
        first, second = (named(path, number, row[at], columns[at]) for at in range(2))
        yield first, second, numeral(path, number, row[2], columns[2])


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
