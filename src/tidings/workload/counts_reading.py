"""Counts from a file instead of the model: a row per base interest and region, its members and messages.

CSV with a header, or Parquet; columns in any order, others are passed over. An interest and region without a
row has no members. What is wrong is said with its line, many at once.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.errors import InputError
from tidings.workload import counts
from tidings.workload import regions as world

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidings.workload.hierarchies import Hierarchy

REGION = "region"
MEMBERS = "members"
MESSAGES = "messages"

COUNT_MAX = 2**53
"""Of members or messages in one row, and of all members; beyond it a double has no units."""

PROBLEMS_MAX = 20
"""That are shown."""

Row = tuple[int, Sequence[Any]]
"""The number of a line or row, and its values in the order of the columns asked for."""


TOPIC = "topic"
"""What the paper calls the first dimension."""

WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, eq=False)
class Counted:
    """What a file of counts says."""

    regions: tuple[str, ...]
    members: NDArray[np.int64]
    messages: NDArray[np.float64]
    """Base arrays."""


def read(path: Path, dimensions: Sequence[Hierarchy], regions: Sequence[str]) -> Counted:
    """The counts of a file. Without `regions` they are the file's: ours first, in our order, then others."""
    columns = [*(dimension.name for dimension in dimensions), REGION, MEMBERS, MESSAGES]
    problems = _Problems(path)
    check = _Check(dimensions, regions, problems)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    rows = _parquet_rows(path, columns) if parquet else _csv_rows(path, columns, problems)
    problems.place = "row" if parquet else "line"
    kept = [row for line, values in rows if (row := check.row(line, values)) is not None]
    problems.raise_any()
    found = tuple(regions) or _ordered({region for _, region, _, _ in kept})
    if (total := sum(count for _, _, count, _ in kept)) > COUNT_MAX:
        raise InputError(f"{path}: there are {total:,} members; at most {COUNT_MAX:,} can be counted")
    shape = counts.shape(dimensions, found)
    members, messages = np.zeros(shape, np.int64), np.zeros(shape, np.float64)
    numbers = {region: number for number, region in enumerate(found)}
    for leaves, region, count, posted in kept:
        members[(*leaves, numbers[region])] = count
        messages[(*leaves, numbers[region])] = posted
    if not members.any():
        raise InputError(f"{path}: no interest has a member; a workload needs at least one")
    return Counted(found, members, messages)


def _ordered(found: set[str]) -> tuple[str, ...]:
    return (
        *(region for region in world.REGIONS if region in found),
        *sorted(found.difference(world.REGIONS)),
    )


@dataclass(slots=True)
class _Problems:
    """What is wrong with a file."""

    path: Path
    place: str = "line"
    said: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, line: int, message: str) -> None:
        if len(self.said) < PROBLEMS_MAX:
            self.said.append(f"{self.path}, {self.place} {line:,}: {message}")
        else:
            self.more += 1

    def raise_any(self) -> None:
        if self.said:
            raise InputError("\n".join(self.said) + (f"\nand {self.more:,} more" if self.more else ""))


class _Check:
    """Reads one row after another, and knows what came before."""

    def __init__(self, dimensions: Sequence[Hierarchy], regions: Sequence[str], problems: _Problems) -> None:
        self.dimensions = dimensions
        self.regions = frozenset(regions)
        self.problems = problems
        self.leaves: list[Mapping[str, int]] = [
            {dimension.nodes[leaf]: at for at, leaf in enumerate(dimension.leaves)}
            for dimension in dimensions
        ]
        self.seen: dict[tuple[tuple[int, ...], str], int] = {}

    def row(self, line: int, values: Sequence[Any]) -> tuple[tuple[int, ...], str, int, float] | None:
        *names, region, members, messages = values
        leaves = [
            self._leaf(line, dimension, known, name)
            for dimension, known, name in zip(self.dimensions, self.leaves, names, strict=True)
        ]
        there = self._region(line, region)
        count = self._number(line, MEMBERS, members, _whole, "a whole number that is not negative")
        posted = self._number(line, MESSAGES, messages, _real, "a number that is not negative")
        found = tuple(leaf for leaf in leaves if leaf is not None)
        if len(found) < len(leaves) or there is None or count is None or posted is None:
            return None
        if first := self.seen.get((found, there)):
            shown = ", ".join(map(str, (*names, there)))
            self.problems.add(line, f"({shown}) is there already, in {self.problems.place} {first:,}")
            return None
        self.seen[found, there] = line
        return found, there, int(count), posted

    def _leaf(self, line: int, dimension: Hierarchy, known: Mapping[str, int], name: Any) -> int | None:
        text = name.strip() if isinstance(name, str) else name
        if text in known:
            return known[text]
        if not text:
            self.problems.add(line, f"{dimension.name} is missing; name a leaf of its hierarchy")
        elif text in dimension.numbers:
            below = dimension.children[dimension.numbers[text]]
            self.problems.add(
                line,
                f"{dimension.name} {text!r} has {dimension.nodes[below[0]]!r} and others below it; "
                "counts are those of leaves",
            )
        else:
            near = get_close_matches(str(text), known, n=1)
            hint = f"is it {near[0]!r}?" if near else "it is not a leaf of the hierarchy"
            self.problems.add(line, f"{dimension.name} {text!r} is not known; {hint}")
        return None

    def _region(self, line: int, region: Any) -> str | None:
        text = region.strip() if isinstance(region, str) else region
        if not text or not isinstance(text, str):
            self.problems.add(line, f"region is {region!r}; give the name of one")
        elif self.regions and text not in self.regions:
            near = get_close_matches(text, sorted(self.regions), n=1)
            known = ", ".join(sorted(self.regions))
            hint = f"is it {near[0]!r}?" if near else f"the spec has {known}"
            self.problems.add(line, f"region {text!r} is not known; {hint}")
        else:
            return text
        return None

    def _number(
        self, line: int, column: str, value: Any, read: Callable[[Any], float], says: str
    ) -> float | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            self.problems.add(line, f"{column} is missing; give {says}, 0 for none")
            return None
        try:
            found = read(value)
            if not 0 <= found <= COUNT_MAX:
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            self.problems.add(line, f"{column} is {value!r}; give {says}, at most {COUNT_MAX:,}")
            return None
        return found


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    # Python also reads `1_000` and digits of other scripts, which no other program would.
    if isinstance(value, str) and not WHOLE.fullmatch(value.strip()):
        raise ValueError
    return int(value)


def _real(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError
    return found


def _csv_rows(path: Path, columns: Sequence[str], problems: _Problems) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            at = _places(path, header, columns)
            for values in reader:
                if len(values) == len(header):
                    yield reader.line_num, [values[place] for place in at]
                elif values:
                    problems.add(
                        reader.line_num, f"there are {len(values)} values; the header has {len(header)}"
                    )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not CSV: {error}") from None


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            names = [header[place] for place in _places(path, header, columns)]
            line = 0
            for batch in file.iter_batches(columns=names):
                for values in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                    line += 1
                    yield line, values
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None


def _places(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where each column is. The first dimension may go by the paper's name for it."""
    if columns[0] not in header and TOPIC in header:
        columns = [TOPIC, *columns[1:]]
    missing = [name for name in columns if header.count(name) != 1]
    if missing:
        raise InputError(
            f"{path}: the columns are {', '.join(header) or 'none'}; {', '.join(missing)} must be there, "
            "and once each"
        )
    return [header.index(name) for name in columns]
