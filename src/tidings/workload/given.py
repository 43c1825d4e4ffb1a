"""What a spec names, read: hierarchies, counts and places, bundled or from files. Nothing is made of it."""

from __future__ import annotations

import hashlib
import tomllib
from importlib import resources
from pathlib import Path

from tidings.workload import counts, counts_reading, hierarchies, places
from tidings.workload import regions as world
from tidings.workload.hierarchies import Hierarchy
from tidings.workload.model import Given
from tidings.workload.reading import ROOT
from tidings.workload.spec import Dimension, Spec


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
    return hierarchies.from_file(dimension.name, ROOT, Path(dimension.file))
