"""A spec as TOML that explains itself: what each key means is said once, under the field in `spec`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from tidings.workload import options, reading
from tidings.workload import spec as module
from tidings.workload.spec import Dimension, Spec

WIDTH = 100
"""Of a line of comment."""

_ANY = "a text"
"""The rule of a key that has none to speak of."""

_OPENING = """\
The spec of a workload. What is left out is as `tidings workload spec` prints it; names of files are relative
to this file. The documentation of workloads has more on every section."""

_DIMENSIONS = """\
The dimensions of the event space, in their order; each is a field of events, with values in the intervals
of a hierarchy's nodes. The hierarchy is bundled, hierarchy = "subjects" or "languages"; or in a file, CSV of
child,parent or TOML of nested tables; or given here, as nodes = nested tables with lists of leaves in them.
The first dimension makes the topics."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section."""

    name: str
    says: str
    """What it means."""

    rule: str
    """What it may be."""

    default: str
    """As TOML writes it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a spec."""

    name: str
    says: str
    keys: tuple[Key, ...]


def sections() -> tuple[Section, ...]:
    """All sections of plain values, with all their keys."""
    default = Spec()
    return tuple(
        Section(name, *_explained(section))
        for name in reading.section_names()
        for section in [getattr(default, name)]
    )


def explained(spec: Spec) -> str:
    """A spec as TOML that says of every key what it means; it reads to the same spec."""
    says = _docs()[Spec.__name__]
    lines = [*_comment(_OPENING), "", *_comment(says["seed"]), f"seed = {spec.seed}", ""]
    lines += _comment(f"{says['regions']} For example {reading.value_text(['Asia', 'Europe', 'US'])}.")
    lines += [f"regions = {reading.value_text(list(spec.regions))}", "", *_comment(_DIMENSIONS)]
    for dimension in spec.dimensions:
        lines += ["", *_dimension(dimension)]
    for section in sections():
        values = dict(reading.section_values(getattr(spec, section.name)))
        lines += ["", "", *_comment(section.says), f"[{section.name}]"]
        for key in section.keys:
            rule = "" if key.rule == _ANY else f" {key.rule[0].upper()}{key.rule[1:]}."
            lines += ["", *_comment(key.says + rule)]
            lines.append(f"{key.name} = {reading.value_text(values[key.name])}")
    return "\n".join(lines) + "\n"


def _explained(section: Any) -> tuple[str, tuple[Key, ...]]:
    says = _docs()[type(section).__name__]
    values = dict(reading.section_values(section))
    keys = tuple(
        Key(name, says[one.name], one.metadata["rule"].says, reading.value_text(values[name]))
        for one in fields(section)
        for name in [options.key(one)]
    )
    return says[""], keys


def _dimension(dimension: Dimension) -> list[str]:
    return [f"[dimensions.{dimension.name}]", *reading.dimension_lines(dimension)]


def _comment(text: str) -> list[str]:
    joined = " ".join(text.split())
    return [f"# {line}" for line in textwrap.wrap(joined, WIDTH - 2, break_on_hyphens=False)]


@cache
def _docs() -> dict[str, dict[str, str]]:
    """The text under each field of each dataclass of `spec`; under "" that of the dataclass."""
    found: dict[str, dict[str, str]] = {}
    for one in ast.parse(inspect.getsource(module)).body:
        if isinstance(one, ast.ClassDef):
            found[one.name] = texts = {"": ast.get_docstring(one) or ""}
            for before, after in zip(one.body, one.body[1:], strict=False):
                if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                    texts[before.target.id] = _text(after)
    return found


def _text(statement: ast.stmt) -> str:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return inspect.cleandoc(str(statement.value.value)) if is_text else ""  # type: ignore[attr-defined]
