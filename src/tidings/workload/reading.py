"""Reading a workload's spec from TOML, and writing it again. Of the files that it names those of hierarchies
are checked, the others are not read.

All that is wrong is said at once. Names of files are relative to the spec's folder, those of `changes` to the
working directory; a spec that was read has them absolute, so that it means the same wherever it is kept.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidings.errors import FilterError, InputError
from tidings.language import filters, timestamps
from tidings.language.fields import IDENTIFIER
from tidings.language.schemas import NAME_LENGTH_MAX
from tidings.records import workload as tables
from tidings.workload import hierarchies, options, regions
from tidings.workload.hierarchies import Hierarchy
from tidings.workload.spec import Dimension, Spec

DIMENSIONS_MAX = 8
"""Far more than base arrays of any size allow."""

ROOT = "all"
"""What nested tables are below."""

BUNDLED = ("subjects", "languages")
"""Hierarchies that come with Tidings."""

CELLS_MAX = 10_000_000
"""Cells of time in a workload; a driver holds counts for each."""

_SCALARS = ("seed", "regions", "dimensions")
_SECTIONS = {
    one.name: one.default_factory for one in fields(Spec) if one.name not in _SCALARS and one.default_factory
}
"""The dataclass of each section, by its name."""

_SOURCES = ("hierarchy", "file", "nodes")

_COLUMNS = frozenset(
    name
    for table, schema in tables.schemas((), ()).items()
    if table in (tables.INTERESTS, tables.SUBSCRIPTIONS)
    for name in schema.names
) | {tables.STORY, tables.SEVERITY}
"""Names that a table with a column for each dimension has already, and fields that every event has."""

_DETAIL = re.compile(r"detail_?[0-9]*|.*_(lo|hi)", re.IGNORECASE)
"""Further fields of events, and the ends of intervals."""


def read(path: Path | None, changes: Mapping[str, str] | None = None) -> Spec:
    """A spec from a file, or the default; `changes` are texts by "section.key", and win."""
    problems: list[str] = []
    given = _loaded(path) if path is not None else {}
    _resolve(given, path.parent if path is not None else Path())
    if changes:
        changed: dict[str, Any] = {}
        for name, text in changes.items():
            _put(changed, name.split("."), _value(text), name, problems)
        _resolve(changed, Path())
        _merge(given, changed)
    spec = _spec(given, problems)
    problems.extend(_contradictions(spec))
    if problems:
        where = str(path) if path is not None else "workload"
        raise InputError("\n".join(f"{where}: {problem}" for problem in problems))
    return spec


def written(spec: Spec) -> str:
    """A spec as TOML that reads to the same spec, every value of it."""
    lines = [f"seed = {spec.seed}"]
    if spec.regions:
        lines.append(f"regions = {value_text(list(spec.regions))}")
    for dimension in spec.dimensions:
        lines += ["", f"[dimensions.{dimension.name}]", *dimension_lines(dimension)]
    for name in _SECTIONS:
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {value_text(value)}" for key, value in section_values(getattr(spec, name))]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Spec:
    """What `written` gave, such as the spec kept beside a table; the files that it names may be gone."""
    problems: list[str] = []
    spec = _spec(tomllib.loads(text), problems)
    if problems:
        raise InputError("\n".join(problems))
    return spec


def section_names() -> tuple[str, ...]:
    """The sections of a spec that are tables of plain values, in their order."""
    return tuple(_SECTIONS)


def section_values(section: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a section and their values, as a spec has them."""
    for one in fields(section):
        rule: options.Rule = one.metadata["rule"]
        yield options.key(one), rule.written(getattr(section, one.name))


def dimension_lines(dimension: Dimension) -> list[str]:
    """The lines of one dimension's table."""
    if dimension.nodes is not None:
        return [f"nodes = {value_text(_nested(dimension.nodes, 0))}"]
    source = "file" if dimension.file else "hierarchy"
    return [f"{source} = {value_text(getattr(dimension, source))}"]


def value_text(value: Any) -> str:
    """A value as TOML writes it, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{value_text(name)} = {value_text(one)}" for name, one in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return repr(value)


def _nested(hierarchy: Hierarchy, node: int) -> Any:
    below = hierarchy.children[node]
    if below and not any(hierarchy.children[child] for child in below):
        return [hierarchy.nodes[child] for child in below]
    return {hierarchy.nodes[child]: _nested(hierarchy, child) for child in below} or []


def _loaded(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def _value(text: str) -> Any:
    """What a text of a change stands for: a value of TOML, or itself."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 and not isinstance(parsed["value"], date) else text


def _put(table: dict[str, Any], path: Sequence[str], value: Any, name: str, problems: list[str]) -> None:
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            problems.append(f"{name} is set inside of {part}, which is set too; set one of them")
            return
        table = inner
    table[path[-1]] = value


def _merge(given: dict[str, Any], changed: Mapping[str, Any]) -> None:
    """Set what is changed; a dimension that gets another source loses the one it had."""
    for name, value in changed.items():
        held = given.get(name)
        if name == "dimensions" and isinstance(value, dict):
            if held is None:
                held = given[name] = {one.name: {"hierarchy": one.hierarchy} for one in Spec().dimensions}
            if isinstance(held, dict):
                held.update(value)
        elif isinstance(held, dict) and isinstance(value, dict):
            held.update(value)
        else:
            given[name] = value


def _resolve(given: Mapping[str, Any], folder: Path) -> None:
    """Make the names of files absolute."""
    named: list[tuple[Any, str]] = [
        (given.get("counts"), "file"),
        (given.get("network"), "latency"),
        (given.get("network"), "places"),
    ]
    if isinstance(dimensions := given.get("dimensions"), dict):
        named.extend((one, "file") for one in dimensions.values())
    for table, key in named:
        if isinstance(table, dict) and isinstance(name := table.get(key), str) and name:
            table[key] = str((folder / name).absolute())


def _spec(given: Mapping[str, Any], problems: list[str]) -> Spec:
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if name == "seed":
            kept["seed"] = _seed(value, problems)
        elif name == "regions":
            kept["regions"] = _regions(value, problems)
        elif name == "dimensions":
            kept["dimensions"] = _dimensions(value, problems)
        elif name not in _SECTIONS:
            known = [*_SCALARS, *_SECTIONS]
            near = get_close_matches(name, known, n=1)
            hint = f"is it {near[0]!r}?" if near else f"there are {', '.join(known)}"
            problems.append(f"{name} is not known; {hint}")
        elif not isinstance(value, dict):
            problems.append(f"{name} is {value!r}; it is a section, so give [{name}] with keys below it")
        else:
            kept[name] = options.read(_SECTIONS[name], _timed(value), f"{name}.", problems)  # type: ignore[arg-type]
    return replace(Spec(), **kept)


def _seed(value: Any, problems: list[str]) -> int:
    one = next(one for one in fields(Spec) if one.name == "seed")
    rule: options.Rule = one.metadata["rule"]
    try:
        return int(rule.accepts(value))
    except ValueError:
        problems.append(f"seed is {value!r}; give {rule.says}")
        return Spec().seed


def _timed(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """A section with dates as texts: TOML has them as values of their own."""
    return {key: _date_text(value) if isinstance(value, date) else value for key, value in section.items()}


def _date_text(value: date) -> str:
    if isinstance(value, datetime):
        return timestamps.text(timestamps.from_micros(timestamps.micros(value)))
    return value.isoformat()


def _regions(value: Any, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        problems.append(f"regions is {value!r}; give a list of names, such as {list(regions.REGIONS[:3])}")
        return ()
    if twice := sorted({one for one in value if value.count(one) > 1}):
        problems.append(f"regions has {', '.join(map(repr, twice))} twice; name each once")
    return tuple(dict.fromkeys(value))


def _dimensions(value: Any, problems: list[str]) -> tuple[Dimension, ...]:
    if not isinstance(value, dict) or not value:
        problems.append(f"dimensions is {value!r}; give one table for each, such as [dimensions.subject]")
        return Spec().dimensions
    if len(value) > DIMENSIONS_MAX:
        problems.append(f"there are {len(value)} dimensions; at most {DIMENSIONS_MAX}")
    folded: dict[str, str] = {}
    found: list[Dimension] = []
    for name, table in value.items():
        if reason := _unfit(name):
            problems.append(f"dimensions.{name}: {reason}")
        elif other := folded.get(name.casefold()):
            problems.append(
                f"dimensions {other} and {name} differ only in upper and lower case, which Spark does not "
                "tell apart; rename one"
            )
        folded[name.casefold()] = name
        found.append(_dimension(name, table, problems))
    return tuple(found)


def _unfit(name: str) -> str:
    """Why a dimension cannot have a name; empty if it can."""
    if not IDENTIFIER.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        return "its name must be letters, digits and _, beginning with a letter"
    try:
        plain = filters.parse(text := f"{name} BETWEEN 0 AND 1").text == text
    except FilterError:
        plain = False
    if not plain:
        return "its name means something else in a filter; give it another"
    if name.casefold() in _COLUMNS or _DETAIL.fullmatch(name):
        return "tables and events have something else of this name; give it another"
    return ""


def _dimension(name: str, table: Any, problems: list[str]) -> Dimension:
    where = f"dimensions.{name}"
    if not isinstance(table, dict) or len(table) != 1 or not set(table) <= set(_SOURCES):
        problems.append(
            f"{where} is {table!r}; give one of hierarchy = {' or '.join(map(repr, BUNDLED))}, file = a CSV "
            "of child,parent or a TOML of nested tables, or nodes = nested tables"
        )
        return Dimension(name)
    ((source, value),) = table.items()
    if source == "nodes":
        try:
            return Dimension(name, nodes=hierarchies.from_nested(name, ROOT, value))
        except InputError as error:
            problems.append(f"{where}: {error}")
    elif not isinstance(value, str) or not value:
        problems.append(f"{where}.{source} is {value!r}; give a text")
    elif source == "hierarchy" and value not in BUNDLED:
        problems.append(f"{where}.hierarchy is {value!r}; bundled are {' and '.join(map(repr, BUNDLED))}")
    elif source == "hierarchy":
        return Dimension(name, hierarchy=value)
    else:
        return Dimension(name, file=value)
    return Dimension(name)


def _contradictions(spec: Spec) -> Iterator[str]:
    """What is right by itself but not together, and files that are not there."""
    try:
        timestamps.parse(spec.time.start)
    except ValueError as error:
        yield f"time.start: {error}"
    if not spec.time.duration_us:
        yield "time.duration is 0; something must have time to happen, so give more"
    removals = [f"removal.{name}" for name in ("top", "share", "threshold") if getattr(spec.removal, name)]
    if len(removals) > 1:
        yield f"{' and '.join(removals)} are set; interests are removed by one of them"
    if not 0 < spec.events.cell_us <= max(spec.time.duration_us, 1):
        yield "events.cell must be more than 0 and no longer than time.duration"
    elif spec.time.duration_us // spec.events.cell_us > CELLS_MAX:
        yield f"time.duration has more than {CELLS_MAX:,} times events.cell; make the cells longer"
    if spec.events.drift and not spec.events.epoch_us:
        yield "events.drift is set, but events.epoch is 0; give it a length"
    if spec.events.flashes and not 0 < spec.events.flash_length_us <= spec.time.duration_us:
        yield "events.flash_length must be more than 0 and no longer than time.duration"
    if spec.network.places and not spec.network.latency:
        yield "network.places says where the nodes of network.latency are, which is not set; set both"
    if (spec.links.overlay == "topohub") != bool(spec.links.topology):
        yield 'links.overlay = "topohub" and links.topology go together; set both or neither'
    files = [("counts.file", spec.counts.file)]
    files += [("network.latency", spec.network.latency), ("network.places", spec.network.places)]
    files += [(f"dimensions.{one.name}.file", one.file) for one in spec.dimensions]
    for key, name in files:
        if name and not Path(name).is_file():
            yield f"{key}: there is no file {name}"
    for one in spec.dimensions:
        if one.file and Path(one.file).is_file():
            try:
                hierarchies.from_file(one.name, ROOT, Path(one.file))
            except InputError as error:
                yield f"dimensions.{one.name}.file: {error}"
    if not spec.counts.file:
        for region in spec.regions:
            if region not in regions.REGIONS:
                near = get_close_matches(region, regions.REGIONS, n=1)
                hint = f"is it {near[0]!r}?" if near else f"there are {', '.join(regions.REGIONS)}"
                yield f"regions: {region!r} is not known to the model of counts; {hint}"
