"""What a spec names, read: hierarchies, counts and places, bundled or from files. Nothing is made of it."""

from __future__ import annotations

import csv
import hashlib
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from tidings.errors import InputError
from tidings.pipeline.workload import counts, counts_reading, hierarchies, places
from tidings.pipeline.workload import regions as world
from tidings.pipeline.workload.hierarchies import Hierarchy
from tidings.pipeline.workload.model import Given
from tidings.pipeline.workload.reading import ROOT
from tidings.pipeline.workload.spec import Dimension, Spec


def read(spec: Spec) -> Given:
    """All that a spec names."""
    dimensions = tuple(hierarchy(dimension) for dimension in spec.dimensions)
    if spec.counts.file:
        counted = counts_reading.read(Path(spec.counts.file), dimensions, spec.regions)
        regions, members, messages = counted.regions, counted.members, counted.messages
    else:
        regions = spec.regions or world.REGIONS
        members, messages = counts.model(spec.counts, spec.seed, dimensions, regions)
    nodes = places.nodes(spec.network, regions)
    return Given(spec, dimensions, regions, members, messages, nodes)


def digests(spec: Spec) -> dict[str, str]:
    """A digest of each file that the spec names, by its key."""
    named = {
        "counts.file": spec.counts.file,
        "network.latency": spec.network.latency,
        "network.places": spec.network.places,
        **{f"dimensions.{one.name}.file": one.file for one in spec.dimensions},
    }
    return {key: hashlib.sha256(Path(file).read_bytes()).hexdigest() for key, file in named.items() if file}


def hierarchy(dimension: Dimension) -> Hierarchy:
    """The hierarchy of a dimension; it has the dimension's name."""
    if dimension.nodes is not None:
        return dimension.nodes
    if dimension.hierarchy:
        bundled = resources.files(__package__) / "default" / f"{dimension.hierarchy}.toml"
        return hierarchies.from_nested(dimension.name, ROOT, tomllib.loads(bundled.read_text("utf-8")))
    return _from_file(dimension.name, Path(dimension.file))


def _from_file(name: str, path: Path) -> Hierarchy:
    try:
        if path.suffix.lower() == ".toml":
            return hierarchies.from_nested(name, ROOT, tomllib.loads(path.read_text("utf-8")))
        return hierarchies.from_parents(name, _pairs(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (csv.Error, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is neither CSV of child,parent nor TOML: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        if header[:2] != ["child", "parent"]:
            raise InputError(f"the header is {','.join(header)!r}; it must begin with child,parent")
        for values in reader:
            pair = tuple(value.strip() for value in values[:2])
            if not values:
                continue
            if len(pair) < 2 or not all(pair):
                raise InputError(f"line {reader.line_num:,} is {','.join(values)!r}; give child,parent")
            yield pair[0], pair[1]
