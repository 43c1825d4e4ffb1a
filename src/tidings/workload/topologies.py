"""Topologies that were drawn from real networks: those of the package topohub, by name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tidings.errors import InputError
from tidings.workload.spec import Spec


def check(spec: Spec) -> None:
    """Refuse a topology that is not there or too small, before anything is made."""
    if spec.links.overlay != "topohub":
        return
    nodes, _ = named(spec.links.topology)
    if spec.sizes.brokers > len(nodes):
        raise InputError(
            f"links.topology {spec.links.topology!r} has {len(nodes)} nodes and the workload "
            f"{spec.sizes.brokers} brokers; ask for at most {len(nodes)} brokers, or take a larger topology"
        )


def named(name: str) -> tuple[Sequence[int], list[tuple[int, int]]]:
    """The nodes of a topology, and which of them are linked."""
    import topohub

    if not name:
        raise InputError(
            'links.overlay is "topohub" and links.topology is empty; name one, such as "backbone/africa" or '
            '"topozoo/Abilene"'
        )
    known = names()
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        some = f"near it are {', '.join(map(repr, near))}" if near else f"it has {', '.join(known[:3])}, …"
        raise InputError(f"links.topology {name!r} is not in topohub; {some}")
    read = topohub.get(name)
    return [node["id"] for node in read["nodes"]], [
        (edge["source"], edge["target"]) for edge in read["edges"]
    ]


def names() -> list[str]:
    """The names of all topologies that topohub has."""
    from importlib import resources
    from pathlib import Path

    with resources.as_file(resources.files("topohub") / "data") as folder:
        return sorted(
            file.relative_to(folder).with_suffix("").as_posix() for file in Path(folder).rglob("*.json")
        )
