"""The ledger of traffic: which segments of records have been read. It lies in the version made from them.

So tables and ledger are published by one rename, and a run that dies has read nothing. No Spark here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidings.errors import InputError
from tidings.records.schema import arrow_schema, check_format
from tidings.records.segments import Segment, closed_segments
from tidings.records.traffic import hour_of

LEDGER = "_ledger.json"
"""Readers of Parquet pass over names that begin with `_`."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """A segment that was not read yet."""

    path: Path
    bytes: int
    rows: int

    first: int
    last: int
    """The hours of its records are from the one to the other."""

    whole: bool
    """Whether it has every column that a record has now, as a segment of an older release has not."""


def read(folder: Path | None) -> dict[str, int]:
    """The segments that a version was made from, with their sizes; none where there is no version."""
    if folder is None:
        return {}
    file = folder / LEDGER
    try:
        return {
            str(name): int(size) for name, size in json.loads(file.read_text("utf-8"))["segments"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file} does not say which segments were read: {error}. Move {folder} away to begin anew"
        ) from error


def write(folder: Path, segments: Mapping[str, int]) -> None:
    """Write it into a version."""
    text = json.dumps({"segments": dict(sorted(segments.items()))}, ensure_ascii=False, indent=1)
    (folder / LEDGER).write_text(text, "utf-8")


def check(folder: Path) -> None:
    """Raises `InputError` where there is no such folder."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that brokers write their records to")


def fresh(folder: Path, known: Mapping[str, int]) -> list[Fresh]:
    """The closed segments of a folder that are not in a ledger, or have another size there.

    Raises `InputError` where there is no such folder, or a file in it is none of ours or of another format.
    """
    check(folder)
    found = []
    for segment in closed_segments(folder):
        try:
            size = segment.path.stat().st_size
            if known.get(segment.path.name) != size:
                found.append(_looked_at(segment, size))
        except FileNotFoundError:
            continue  # a broker removes its oldest
    return found


def _looked_at(segment: Segment, size: int) -> Fresh:
    """What the end of a file says of the rest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(segment.path)
        check_format(metadata.metadata, segment.path)
        names = metadata.schema.to_arrow_schema().names
        place = names.index("at")
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        times = [group.column(place).statistics for group in groups if group.num_rows]
        first = min((one.min for one in times), default=0)
        last = max((one.max for one in times), default=0)
    except (pa.ArrowInvalid, ValueError, AttributeError) as error:
        raise InputError(
            f"{segment.path} is not a segment of records ({error}); move it out of the folder"
        ) from None
    whole = names == arrow_schema().names
    return Fresh(segment.path, size, metadata.num_rows, hour_of(first), hour_of(last), whole)
