"""A spec that explains itself."""

from __future__ import annotations

import tomllib
from dataclasses import replace

from tidings.workload import explaining, hierarchies, reading
from tidings.workload.spec import Dimension, Removal, Spec


def test_it_reads_to_the_default() -> None:
    assert reading.from_text(explaining.explained(Spec())) == Spec()


def test_it_reads_to_the_spec_that_was_explained() -> None:
    nodes = hierarchies.from_nested("colour", reading.ROOT, {"warm": ["red"], "cold": ["blue"]})
    spec = replace(
        Spec(),
        seed=9,
        regions=("US",),
        dimensions=(Dimension("colour", nodes=nodes), Dimension("place", file="/a.csv")),
        removal=Removal(top=24),
    )
    assert reading.from_text(explaining.explained(spec)) == spec


def test_every_section_and_key_is_explained() -> None:
    for section in explaining.sections():
        assert section.says.endswith("."), section.name
        assert [key.name for key in section.keys if not key.says.endswith((".", "…"))] == [], section.name


def test_it_has_every_key() -> None:
    shown = tomllib.loads(explaining.explained(Spec()))
    assert {section.name: {key.name for key in section.keys} for section in explaining.sections()} == {
        name: set(table) for name, table in shown.items() if isinstance(table, dict) and name != "dimensions"
    }


def test_comments_are_no_wider_than_a_page() -> None:
    lines = explaining.explained(Spec()).splitlines()
    assert [line for line in lines if line.startswith("#") and len(line) > explaining.WIDTH] == []
